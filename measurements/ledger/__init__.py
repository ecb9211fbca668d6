"""Boot logs: what an engine printed of its memory, with the line of every figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from measurements.ledger import halogen, radiance
from measurements.ledger.text import Line, clean, load, logical_lines
from measurements.records import LedgerReading, ReadError

__all__ = ["read_ledger"]


@dataclass(frozen=True, slots=True)
class _Reader:
    """What an engine's module offers: its phrases, which lines are its own, and its reader."""

    signature: tuple[str, ...]
    starts: Callable[[str], bool]
    read: Callable[[Sequence[Line], str], LedgerReading | None]


_READERS: Final = {
    module.ENGINE: _Reader(module.SIGNATURE, module.starts, module.read) for module in (radiance, halogen)
}


def read_ledger(path: Path, *, engine: str | None = None) -> LedgerReading:
    """The last complete boot of a saved log; sizes are in bytes, a printed decimal is one print step wide.

    ``engine`` is the engine whose log it must be; None recognises it. Figures are only what lines say.
    Raises ReadError when the file is missing, a folder, empty, binary or larger than 64 MiB, when no line is
    one of a known engine, when it is another engine's log, or when ``engine`` is not known.
    """
    if engine is not None and engine not in _READERS:
        raise ReadError(
            f"there is no reader for logs of {engine!r}: known engines are {', '.join(_READERS)}",
            kind="usage",
        )
    text = load(path)
    found = {name: count for name, reader in _READERS.items() if (count := _speaks(text, reader.signature))}
    likely = sorted(found, key=lambda name: -found[name])
    pieces = clean(text, [phrase for name in found for phrase in _READERS[name].signature])
    for name in [engine] if engine else likely:
        reader = _READERS[name]
        reading = reader.read(logical_lines(pieces, reader.starts), str(path)) if name in found else None
        if reading is not None:
            return replace(reading, file=path)
    others = [name for name in likely if name != engine]
    if engine and others:
        raise ReadError(
            f"no line of it looks like {engine}: it seems to be a log of {others[0]}", file=str(path)
        )
    known = engine or " or ".join(_READERS)
    raise ReadError(f"no line of it looks like {known}: save what the server prints at boot", file=str(path))


def _speaks(text: str, signature: tuple[str, ...]) -> int:
    return sum(text.count(phrase) for phrase in signature)
