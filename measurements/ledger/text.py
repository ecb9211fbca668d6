"""A log file as clean logical lines, each of which still knows where it stood.

Removes what terminals, containers and log collectors put around a line, and joins what they broke apart.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from measurements.records import Place, ReadError

MOST_BYTES: Final = 64 << 20
#: No line of either engine is a quarter as long; what stands beyond is not looked at.
MOST_CHARACTERS: Final = 4096
#: No boot of either engine prints this many lines between two phrases of its own.
_NEIGHBOURS: Final = 500
#: Stands where a break may have cut a number in two: such a number is not read.
BROKEN: Final = "…"
_ENDS_IN_NUMBER = re.compile(r"\d[.,]?$", re.ASCII)
_BEGINS_IN_NUMBER = re.compile(r"[.,]?\d", re.ASCII)

_COLOUR = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
    r"|(?:#033|\^\[)\[[0-9;]*m"
)
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_STAMP = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_PREFIX = re.compile(
    "|".join(
        (
            rf"(?:[A-Z][a-z]{{2}} )?{_STAMP}(?: [A-Z]{{3,5}})? \S{{1,255}} [^\s:\[]{{1,255}}\[\d+\]:(?: |$)",
            rf"{_STAMP} std(?:out|err) [FP](?: |$)",
            rf"{_STAMP}(?: |$)",
            rf"[A-Z][a-z]{{2}} [ \d]\d {_CLOCK} \S{{1,255}} [^\s:\[]{{1,255}}(?:\[\d+\])?:(?: |$)",
            rf"{_CLOCK} ",
            r"\[[A-Za-z][\w./ -]{0,99}\](?: |$)",
            r"[A-Za-z0-9][\w./-]{0,99}\s{0,60}\|(?: |$)",
        )
    ),
    re.ASCII,
)
_TAG = re.compile(r"\s{0,8}(?:[IWED](?:\[(?P<rank>\d{1,3})\])?|\[(?P<bare>\d{1,3})\])(?=\s|$)", re.ASCII)
_COMMENT = re.compile(r"# |\s*#?\s*$")
_ASIDE = re.compile(r"-- (?:Boot|Logs|Journal|No entries|Reboot)\b")


class Piece(NamedTuple):
    """A line of the file without prefixes: its 1-based number, its text, and how wide it was printed."""

    number: int
    text: str
    width: int


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


def _unwrapped(text: str) -> str:
    """The lines inside Docker's JSON log files, one for one; other text as it is."""
    if not text.lstrip().startswith('{"log":'):
        return text
    lines = []
    for line in text.split("\n"):
        try:
            inner = json.loads(line)["log"] if line.lstrip().startswith('{"log":') else line
        except (ValueError, KeyError, TypeError):
            inner = line
        lines.append(str(inner).rstrip("\r\n").replace("\n", " "))
    return "\n".join(lines)


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
    return plain(text)


def plain(text: str) -> str:
    """``text`` as it was printed: out of Docker's JSON, and without colours."""
    text = _unwrapped(text)
    return _COLOUR.sub("", text) if "\x1b" in text or "[0" in text else text


def clean(text: str, phrases: Iterable[str]) -> list[Piece]:
    """The lines of a log without time stamps, unit names and container names, nor comments at its head.

    Lines further than a boot is long from any of the ``phrases`` are left out: a log may hold anything else.
    """
    lines = text.split("\n")
    pieces: list[Piece] = []
    done = next((index for index, line in enumerate(lines) if not _COMMENT.match(line)), len(lines))
    for index in _line_indices(text, phrases):
        if index + _NEIGHBOURS < done:
            continue
        if index - _NEIGHBOURS > done:
            pieces.append(Piece(done + 1, "", 0))
        first, done = max(done, index - _NEIGHBOURS), min(len(lines), index + _NEIGHBOURS + 1)
        for number, line in enumerate(lines[first:done], first + 1):
            line = line.rstrip("\r")
            pieces.append(Piece(number, _bare(line[:MOST_CHARACTERS]), len(line)))
    return pieces


def _line_indices(text: str, phrases: Iterable[str]) -> Iterator[int]:
    """The 0-based lines that hold one of the phrases, in order."""
    last = index = 0
    for offset in sorted(
        found.start() for phrase in phrases for found in re.finditer(re.escape(phrase), text)
    ):
        index += text.count("\n", last, offset)
        last = offset
        yield index


def logical_lines(pieces: Sequence[Piece], starts: Callable[[str], bool]) -> list[Line]:
    """The messages of a log, in order; ``starts`` tells an engine's own line from the rest of a broken one.

    ``starts`` gets a line without tag and indentation. Blank lines end a message.
    """
    width = _wrap_width(pieces, starts)
    lines: list[Line] = []
    message = _Message()
    for number, text, printed in pieces:
        if (tag := _TAG.match(text)) or starts(text.lstrip()) or not text.strip():
            lines.extend(message.line())
            message = _Message()
        if tag:
            rank = tag["rank"] or tag["bare"]
            message.rank = None if rank is None else int(rank)
            text = text[tag.end() :]
        message.add(text, number, glued=message.full)
        message.full = printed == width
    lines.extend(message.line())
    return lines


def _bare(line: str) -> str:
    """``line`` without what was put before it; its own indentation stays."""
    for _ in range(6):
        if not (match := _PREFIX.match(line)):
            break
        line = line[match.end() :]
    return "" if _ASIDE.match(line) else line


class _Message:
    """The pieces of one message as they come in."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.full = False
        self._text = ""
        self._open = False
        self._pieces: list[tuple[int, int]] = []

    def add(self, piece: str, number: int, *, glued: bool) -> None:
        if len(self._text) > MOST_CHARACTERS or not (words := " ".join(piece.split())):
            return
        # a terminal breaks anywhere, even inside a word; people and programs break between words
        if self._text and not (glued and not piece[0].isspace() and not self._open):
            cut = _ENDS_IN_NUMBER.search(self._text) and _BEGINS_IN_NUMBER.match(words)
            self._text += BROKEN if cut else " "
        self._open = piece[-1].isspace()
        self._pieces.append((len(self._text), number))
        self._text += words

    def line(self) -> Iterator[Line]:
        if self._text:
            yield Line(self._text, self.rank, tuple(self._pieces))


def _wrap_width(pieces: Sequence[Piece], starts: Callable[[str], bool]) -> int | None:
    """The width at which a terminal broke every long line; None where nothing speaks for one.

    A terminal fills each line that it breaks; breaks between words leave most of them short of the edge.
    """
    widest = max((piece.width for piece in pieces), default=0)
    if not 40 <= widest <= 400:
        return None
    broken: Counter[int] = Counter()
    for piece, after in pairwise(pieces):
        if piece.width > widest - 12:
            rest = after.text.lstrip()
            if rest and not _TAG.match(rest) and not starts(rest):
                broken[piece.width] += 1
    full = broken.pop(widest, 0)
    return widest if full > max(1, 2 * broken.total()) else None
