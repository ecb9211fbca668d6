"""Boot logs: what an engine printed of its memory, with the line of every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from measurements.ledger.signatures import SIGNATURES
from measurements.ledger.text import Line, clean, load, logical_lines
from measurements.records import LedgerReading, ReadError

__all__ = ["read_ledger"]


class _Reader(Protocol):
    """What an engine's module offers: which lines are its own, and its reader."""

    def starts(self, text: str) -> bool: ...
    def read(self, lines: Sequence[Line], file: str) -> LedgerReading | None: ...


def _reader(engine: str) -> _Reader:
    # one at a time: compiling both grammars would cost more than reading a log
    return cast(_Reader, import_module(f"measurements.ledger.{engine}"))


def read_ledger(path: Path, *, engine: str | None = None) -> LedgerReading:
    """The last complete boot of a saved log; sizes are in bytes, a printed decimal is one print step wide.

    ``engine`` is the engine whose log it must be; None recognises it. Figures are only what lines say.
    Raises ReadError when the file is missing, a folder, empty, binary or larger than 64 MiB, when no line is
    one of a known engine, when it is another engine's log, or when ``engine`` is not known.
    """
    if engine is not None and engine not in SIGNATURES:
        raise ReadError(
            f"there is no reader for logs of {engine!r}: known engines are {', '.join(SIGNATURES)}",
            kind="usage",
        )
    return replace(read_boot(load(path), str(path), engine=engine), file=path)


def read_boot(text: str, file: str, *, engine: str | None = None) -> LedgerReading:
    """What :func:`read_ledger` reads, from the text of a log; ``file`` is its name in what is said of it."""
    found = {name: count for name, phrases in SIGNATURES.items() if (count := _speaks(text, phrases))}
    likely = sorted(found, key=lambda name: -found[name])
    pieces = clean(text, [phrase for name in found for phrase in SIGNATURES[name]])
    for name in [engine] if engine else likely:
        if name not in found:
            continue
        reader = _reader(name)
        reading = reader.read(logical_lines(pieces, reader.starts), file)
        if reading is not None:
            return reading
    others = [name for name in likely if name != engine]
    if engine and others:
        raise ReadError(
            f"no line of it looks like {engine}: it seems to be a log of {others[0]}", file=file
        )
    known = engine or " or ".join(SIGNATURES)
    raise ReadError(f"no line of it looks like {known}: save what the server prints at boot", file=file)


def _speaks(text: str, signature: tuple[str, ...]) -> int:
    return sum(text.count(phrase) for phrase in signature)
