"""What a reader hands on: settings and facts, each with the place it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from models.interval import Interval


class ReadError(Exception):
    """A file that cannot be read as what it should be; the message says what would be right.

    ``file`` and ``line`` (1-based) say where, as far as that is known. ``kind`` is the JSON error kind.
    """

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None,
                 kind: Literal["usage", "unreadable"] = "unreadable") -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.kind: Literal["usage", "unreadable"] = kind


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a file as the user named it, and its 1-based line."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the user's, before any engine has looked at it.

    ``key`` is as written (``FRANK_ARCHON_VRAM_KV_MIB`` or ``--vram-kv-mib``). ``value`` is unquoted, with
    ``${NAME:-default}`` replaced by its default; None for a flag without a value. ``span`` is the half-open
    range of characters in the file's text that holds the value as written, without its quotes, so that an
    edit can replace exactly that; None where the value cannot be edited in place. ``scope`` is the service,
    container or unit the setting belongs to ("" where a file has one). ``secret`` values never leave here:
    ``value`` is then already the word ``<secret>``. ``direct`` is off where the value stands in another text that
    this one only names, such as a variable.
    """

    key: str
    value: str | None
    place: Place
    style: Literal["env", "flag"]
    span: tuple[int, int] | None = None
    scope: str = ""
    secret: bool = False
    direct: bool = True


@dataclass(frozen=True, slots=True)
class ConfigReading:
    """All settings of a user's files, in file order; ``text`` holds each file exactly as it was read."""

    settings: tuple[Setting, ...]
    text: dict[str, str]
    images: tuple[tuple[str, Place], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure as a log, host file or user gave it. ``value`` is in ``unit`` (``B`` for sizes), or a word."""

    name: str
    value: Interval | str
    unit: str
    place: Place
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a log that does not add up, or that its reader should know."""

    text: str
    places: tuple[Place, ...] = ()
    severity: Literal["contradiction", "note"] = "contradiction"


@dataclass(frozen=True, slots=True)
class Generation:
    """What a log tells of the version it is of without naming one: in words, and from which to which it may be.

    ``since`` is the oldest version, ``until`` the first two numbers of the newest; empty where nothing limits it.
    """

    words: str = ""
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.words

    def __bool__(self) -> bool:
        return bool(self.words)

    def rules_out(self, version: tuple[int, ...]) -> bool:
        """Whether the log cannot be of ``version``."""
        return version < self.since or bool(self.until and version[:2] > self.until)


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """The last complete boot of a log.

    ``engine`` is the engine whose grammar the log speaks, ``version`` what it printed of itself (None: it did
    not), ``generation`` what the reader can tell without a version. ``facts`` are figures the engine measured
    or was given; ``rows`` are those it derived from them; ``knobs`` are settings the log itself names. A name
    ends in ``.0``, ``.1`` where a log tells cards apart. ``missing`` names rows a cut-off boot lacks; ``ended`` is
    whether the log shows that the boot came to its end, up or refused, as far as its engine is known to print that.
    """

    engine: str
    version: str | None
    generation: Generation
    facts: dict[str, Reading]
    rows: dict[str, Reading]
    knobs: dict[str, Reading]
    findings: tuple[Finding, ...] = ()
    boots: int = 1
    missing: tuple[str, ...] = ()
    ended: bool = True
    file: Path | None = field(default=None, compare=False)
