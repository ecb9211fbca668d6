"""A log file as clean logical lines, each of which still knows where it stood.

Removes what terminals, containers and log collectors put around a line, and joins what they broke apart.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from measurements.records import Place, ReadError

MOST_BYTES: Final = 64 << 20
#: No line of either engine is a quarter as long; what stands beyond is not looked at.
MOST_CHARACTERS: Final = 4096

_COLOUR = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
    r"|(?:#033|\^\[)\[[0-9;]*m"
)
_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_PREFIXES: Final = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"(?:[A-Z][a-z]{{2}} )?{_STAMP}(?: [A-Z]{{3,5}})? \S{{1,255}} [^\s:\[]{{1,255}}\[\d+\]:(?: |$)",
        rf"{_STAMP} std(?:out|err) [FP](?: |$)",
        rf"{_STAMP}(?: |$)",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})? \S{1,255} [^\s:\[]{1,255}(?:\[\d+\])?:(?: |$)",
        r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})? ",
        r"[A-Za-z0-9][\w./-]{0,99}\s{0,60}\|(?: |$)",
        r"\[[A-Za-z][\w./ -]{0,99}\](?: |$)",
    )
)
_TAG = re.compile(r"\s{0,8}(?:[IWED](?:\[(?P<rank>\d{1,3})\])?|\[(?P<bare>\d{1,3})\])(?=\s|$)", re.ASCII)
_ASIDE = re.compile(r"-- (?:Boot|Logs|Journal|No entries|Reboot)\b")


@dataclass(frozen=True, slots=True)
class Line:
    """One message: its text with single spaces, the rank it is tagged with, and where its pieces stood."""

    text: str
    rank: int | None
    pieces: tuple[tuple[int, int], ...]  # offset in the text, line in the file

    @property
    def number(self) -> int:
        """The 1-based line of the file it begins in."""
        return self.pieces[0][1]

    def place(self, file: str, offset: int) -> Place:
        """Where the character at ``offset`` stood."""
        return Place(file, self.pieces[bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1][1])


def load(path: Path, *, what: str = "a saved boot log", most: int = MOST_BYTES) -> str:
    """The text of a file, colours removed; stray bytes that are not UTF-8 become replacement characters.

    ``what`` is what it should be, for people. Raises ReadError when it is missing, a folder, empty, binary,
    larger than ``most`` bytes or cannot be read.
    """
    file = str(path)
    try:
        if path.is_dir():
            raise ReadError(f"this is a folder: name {what}", file=file)
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ReadError(f"no such file: name {what}", file=file) from None
    except PermissionError:
        raise ReadError("no permission to read this file: make it readable", file=file) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable file name"
        raise ReadError(f"cannot be read ({reason.lower()}): name {what}", file=file) from None
    if len(data) > most:
        raise ReadError(f"larger than {most >> 20} MiB: it should be {what}", file=file)
    if (zero := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise ReadError(
            f"this is a binary file (or UTF-16): it should be {what}, plain text", file=file, line=line
        )
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise ReadError(f"this file is empty: it should be {what}", file=file)
    return _COLOUR.sub("", text) if "\x1b" in text or "[0" in text else text


def logical_lines(text: str, starts: Callable[[str], bool]) -> list[Line]:
    """The messages of a log, in order; ``starts`` tells an engine's own line from the rest of a broken one.

    ``starts`` gets a line without prefixes, tag and indentation. Comments at the head of the file and blank
    lines are left out.
    """
    raw = text.split("\n")
    width = _wrap_width(raw)
    lines: list[Line] = []
    message = _Message()
    for number, line in _physical(raw):
        bare = strip_prefixes(line.rstrip("\r")[:MOST_CHARACTERS])
        if (tag := _TAG.match(bare)) or starts(bare.lstrip()) or not bare.strip():
            lines.extend(message.line())
            message = _Message()
        if tag:
            rank = tag["rank"] or tag["bare"]
            message.rank = None if rank is None else int(rank)
            bare = bare[tag.end() :]
        message.add(bare, number, glued=message.full)
        message.full = len(line.rstrip("\r")) == width
    lines.extend(message.line())
    return lines


def strip_prefixes(line: str) -> str:
    """``line`` without time stamps, unit names and container names; its own indentation stays."""
    for _ in range(6):
        if not line or line[0].isspace():
            return line
        for prefix in _PREFIXES:
            if match := prefix.match(line):
                line = line[match.end() :]
                break
        else:
            return line
    return line


class _Message:
    """The pieces of one message as they come in."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.full = False
        self._text = ""
        self._open = False
        self._pieces: list[tuple[int, int]] = []

    def add(self, piece: str, number: int, *, glued: bool) -> None:
        words = " ".join(piece.split())
        if not words or len(self._text) > MOST_CHARACTERS:
            return
        # a terminal breaks anywhere, even inside a word; people and programs break between words
        if self._text and not (glued and not piece[0].isspace() and not self._open):
            self._text += " "
        self._open = piece[-1].isspace()
        self._pieces.append((len(self._text), number))
        self._text += words

    def line(self) -> Iterator[Line]:
        if self._text:
            yield Line(self._text, self.rank, tuple(self._pieces))


def _physical(raw: list[str]) -> Iterator[tuple[int, str]]:
    head = True
    for number, line in enumerate(raw, 1):
        head = head and (line.startswith("# ") or line.strip() in ("", "#"))
        if not head:
            yield number, "" if _ASIDE.match(line) else line


def _wrap_width(raw: list[str]) -> int | None:
    """The width at which a terminal broke every long line; None where nothing speaks for one."""
    widest = max(map(len, raw)) if raw else 0
    if not 40 <= widest <= 400:
        return None
    full = {line for line in raw if len(line) == widest}
    width = len(next(iter(full)).rstrip("\r"))
    return width if len(full) >= 3 else None
