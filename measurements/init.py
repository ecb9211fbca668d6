"""Writes a site folder: a ``site.toml`` that names the user's own files, or copies of them without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from measurements.config.clean import secret_words, without_secrets
from measurements.config.read import read_config
from measurements.copies import cleaned, figures, settings
from measurements.records import ReadError
from measurements.site import Sources


def write_site(folder: Path, sources: Sources, engine: str, *, copy: bool = False, force: bool = False) -> Path:
    """Writes ``folder/site.toml`` and returns its path.

    The user's files are named by their path from the folder; with ``copy`` they are copied into it without their
    secrets, which are looked for in all of them; what lies there already is left as it is. Nothing is overwritten
    without ``force``, and the file appears whole or not at all. Raises ReadError where the folder cannot be written or
    holds a site already.
    """
    target = folder / "site.toml"
    if target.exists() and not force:
        raise ReadError("is there already; --force writes it anew", file=str(target), kind="usage")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        words = secret_words(read_config(sources.config).text) if copy and sources.config else set[str]()
        named = {key: [_bring(path, folder, copy, key, words) for path in paths]
                 for key, paths in _files(sources).items()}
        named["points"] += [word for word in sources.points if isinstance(word, str)]
        text = _toml(sources, engine, named)
        draft = folder / ".site.toml.new"
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as error:
        raise ReadError(f"cannot be written: {error.strerror}", file=str(folder), kind="usage") from None
    return target


def _files(sources: Sources) -> dict[str, list[Path]]:
    return {
        "config": list(sources.config),
        "ledger": [sources.ledger] if sources.ledger else [],
        "points": [path for path in sources.points if isinstance(path, Path)],
        "host": [sources.host] if sources.host else [],
    }


def _bring(path: Path, folder: Path, copy: bool, kind: str, words: set[str]) -> str:
    place = folder / path.name
    if not copy or path.is_dir() or place.resolve() == path.resolve():
        try:
            return os.path.relpath(path.resolve(), folder.resolve())
        except ValueError:  # another drive
            return str(path.resolve())
    if place.exists():
        raise ReadError("is there already; the copy would overwrite it", file=str(place), kind="usage")
    with path.open(encoding="utf-8", errors="replace", newline="") as source:
        text = source.read()
    if kind == "config":
        text = without_secrets({str(path): text})[str(path)]
    text, _ = cleaned(text, words, {"ledger": figures, "config": settings}.get(kind))
    with place.open("w", encoding="utf-8", newline="") as out:
        out.write(text)
    return path.name


def _toml(sources: Sources, engine: str, named: Mapping[str, list[str]]) -> str:
    import tomlkit

    document = tomlkit.document()
    document.add("engine", tomlkit.item(engine))
    for key, paths in named.items():
        if paths:
            document.add(key, tomlkit.item(paths if len(paths) > 1 else paths[0]))
    if sources.service:
        document.add("service", tomlkit.item(sources.service))
    if sources.sessions is not None:
        document.add("sessions", tomlkit.item(sources.sessions))
    if sources.limits:
        document.add("limits", tomlkit.item(list(sources.limits)))
    for key, values in (("facts", sources.facts), ("boot", sources.boot), ("set", sources.sets)):
        if values:
            table = tomlkit.table()
            for name, value in values.items():
                table.add(tomlkit.key(name), tomlkit.item(value))
            document.add(key, table)
    return tomlkit.dumps(document)
