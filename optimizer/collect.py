"""What `collect` found, read back by the readers that it is for."""

from __future__ import annotations

import shlex
from typing import Any

from measurements.collect import LOG, MANIFEST, Collected
from measurements.host import read_host
from measurements.ledger import read_ledger
from measurements.records import ReadError
from optimizer.check import SCHEMA_VERSION
from optimizer.ledger import reading_json


def collect_json(found: Collected) -> dict[str, Any]:
    """The whole answer of ``collect``; what a reader cannot use is said among the notes."""
    folder, notes = found.folder, list(found.notes)
    facts: dict[str, Any] = {}
    engine = None
    try:
        facts = {name: reading_json(item) for name, item in read_host(folder).items()}
    except ReadError as error:
        notes.append(f"the host files cannot be read back: {error.message}")
    log = any(item.file == LOG for item in found.items)
    if log:
        try:
            engine = read_ledger(folder / LOG).engine
        except ReadError as error:
            notes.append(f"the log is no boot log as it is: {error.message}")
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "manifest": str(folder / MANIFEST),
        "when": found.when,
        "items": [{"name": item.name, "state": item.state, "file": item.file, "from": item.source, "when": item.when,
                   "why": item.why, "command": item.command} for item in found.items],
        "facts": facts,
        "engine": engine,
        "notes": notes,
        "next": _next(found, engine is not None),
    }


def _next(found: Collected, log: bool) -> list[str]:
    words: list[str] = []
    for item in found.items:
        if item.name == "config" and item.file is not None:
            words += ["--config", str(found.folder / item.file)]
    if log:
        words += ["--ledger", str(found.folder / LOG)]
    if not words:
        return []
    options = shlex.join([*words, "--host", str(found.folder)])
    return [f"shapewright check {options}", f"shapewright init SITE {options}"]
