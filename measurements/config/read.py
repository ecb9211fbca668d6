"""Reading any number of configuration files into one list of settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from measurements.config.detect import dialect
from measurements.config.env import read_env
from measurements.config.file import ODD, load, load_if_there, not_text
from measurements.config.found import Survey
from measurements.config.shell import read_shell
from measurements.config.systemd import read_systemd
from measurements.config.trace import Source
from measurements.config.words import Variables
from measurements.records import ConfigReading, ReadError


def read_config(paths: Sequence[Path]) -> ConfigReading:
    """All settings in ``paths``, whatever each one is: env file, flags, script, compose, Kubernetes, unit.

    Files that these name as env files are read too; a missing one is a warning. A scope is kept only where
    there are several. Raises ReadError, with file and line where there is one, for a file that is missing, a
    folder, empty, binary, larger than 16 MiB, broken, or without any setting; of kind ``usage`` for no path.
    """
    if not paths:
        raise ReadError("no configuration file: name an env file, a script, a unit, or a compose file",
                        kind="usage")
    names = dict.fromkeys(str(path) for path in paths)
    found = _survey((Source(name, load(name)) for name in names), load_if_there, _read_strictly)
    _demand_text(found)
    return ConfigReading(
        tuple(item.setting for item in found.found),
        {name: source.text for name, source in found.sources.items()},
        tuple((image, place) for image, place, _ in found.images),
        tuple(found.warnings))


def _demand_text(found: Survey) -> None:
    """Raises ReadError where bytes that are not UTF-8 would count for more than a comment."""
    for item in found.found:
        setting = item.setting
        if ODD.search(f"{setting.key} {setting.value or ''} {setting.scope}"):
            raise not_text(setting.place.file, setting.place.line)
    for image, place, scope in found.images:
        if ODD.search(f"{image} {scope}"):
            raise not_text(place.file, place.line)


def again(texts: Mapping[str, str]) -> Survey:
    """Everything in the texts of a reading, perhaps edited since; a file that broke ends where it broke.

    A reading does not say which files were given and which were only looked into, so that a file without
    settings is no error here.
    """
    return _survey((Source(file, text) for file, text in texts.items()), texts.get, _read_leniently)


def _survey(sources: Iterable[Source], fetch: Callable[[str], str | None],
            read: Callable[[Source, Survey], None]) -> Survey:
    out = Survey(fetch)
    for source in sources:
        if os.path.normpath(source.file) in {os.path.normpath(file) for file in out.included}:
            continue  # read where another file names it, which is where it counts
        out.know(source)
        read(source, out)
    scopes = {item.setting.scope for item in out.found} | {scope for _, _, scope in out.images}
    if len(scopes - {""}) == 1:
        out.found = [replace(item, setting=replace(item.setting, scope="")) for item in out.found]
        out.images = [(image, place, "") for image, place, _ in out.images]
    return out


def _read_strictly(source: Source, out: Survey) -> None:
    before = len(out.found) + len(out.images)
    try:
        _read(source, out)
    except RecursionError:
        raise ReadError("nested too deeply to be a configuration: write it plainly",
                        file=source.file) from None
    except ReadError as error:
        raise ReadError(error.message, file=error.file or source.file, line=error.line,
                        kind=error.kind) from None
    if len(out.found) + len(out.images) == before:
        raise ReadError("no setting in this file: it should hold NAME=value lines or --flags, as an env file, "
                        "a script, a unit, or a compose or Kubernetes file", file=source.file)


def _read_leniently(source: Source, out: Survey) -> None:
    with suppress(ReadError, RecursionError):
        _read(source, out)


def _read(source: Source, out: Survey) -> None:
    kind = dialect(source)
    if kind == "env":
        read_env(source, out, Variables())
    elif kind == "systemd":
        read_systemd(source, out)
    elif kind == "yaml":
        from measurements.config.manifest import read_manifest  # yaml is slow to import and seldom needed

        read_manifest(source, out)
    else:
        read_shell(source, out)
