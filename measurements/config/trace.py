"""Text that remembers where it stands: what lets a value read deep inside quotes be edited in place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from measurements.records import Place


class Source:
    """One file's text, exactly as it was read, and its name as the user gave it."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    @cached_property
    def _breaks(self) -> list[int]:
        return [i for i, character in enumerate(self.text) if character == "\n"]

    def line(self, offset: int) -> int:
        """The 1-based line of the character at ``offset``."""
        return bisect_left(self._breaks, offset) + 1

    def place(self, offset: int) -> Place:
        """Where the character at ``offset`` stands."""
        return Place(self.file, self.line(offset))

    def line_start(self, offset: int) -> int:
        """The offset of the first character of the line that holds ``offset``."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """The offset just before the line break that ends the line of ``offset`` (or the end of the text)."""
        end = self.text.find("\n", offset)
        if end < 0:
            return len(self.text)
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def next_line(self, offset: int) -> int:
        """The offset just after the line break that ends the line of ``offset`` (or the end of the text)."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end + 1

    def newline(self, offset: int) -> str:
        """How the line of ``offset`` ends; a last line without a break as the one before."""
        end = self.text.find("\n", offset)
        if end < 0:
            end = self.text.rfind("\n")
        return "\r\n" if end > 0 and self.text[end - 1] == "\r" else "\n"


class Stretch(NamedTuple):
    """The half-open range of characters ``start`` to ``end`` of a source."""

    source: Source
    start: int
    end: int


class Piece(NamedTuple):
    """Characters that stand together at ``start`` of ``source``, or nowhere as such (``source`` None)."""

    text: str
    source: Source | None
    start: int


class Traced:
    """A string made of pieces, each of which knows where it came from."""

    __slots__ = ("_starts", "pieces", "value")

    def __init__(self, pieces: Iterable[Piece]) -> None:
        groups: list[tuple[list[str], Source | None, int]] = []
        empty: Piece | None = None
        end = 0
        for piece in pieces:
            text, source, start = piece
            if not text:
                empty = empty or piece
                continue
            if groups and groups[-1][1] is source and (source is None or start == end):
                groups[-1][0].append(text)
            else:
                groups.append(([text], source, start))
            end = start + len(text)
        if not groups and empty is not None:
            # An empty piece says where an empty value stands; beside any text it says nothing.
            groups.append(([""], empty.source, empty.start))
        self.pieces = tuple(Piece("".join(texts), source, start) for texts, source, start in groups)
        self.value = self.pieces[0].text if len(groups) == 1 else "".join(piece.text for piece in self.pieces)
        starts, total = [], 0
        for piece in self.pieces:
            starts.append(total)
            total += len(piece.text)
        self._starts = starts

    @classmethod
    def _one(cls, piece: Piece) -> Traced:
        out = cls.__new__(cls)
        out.pieces, out.value, out._starts = (piece,), piece.text, [0]
        return out

    @classmethod
    def of(cls, source: Source, start: int, end: int) -> Traced:
        """The characters ``start`` to ``end`` of ``source``."""
        return cls._one(Piece(source.text[start:end], source, start))

    @classmethod
    def bare(cls, text: str) -> Traced:
        """Text that stands nowhere as such: unescaped, computed, or not to be edited."""
        return cls._one(Piece(text, None, 0))

    def cut(self, start: int, end: int) -> Traced:
        """Characters ``start`` to ``end`` of this text; an empty cut still knows where it stands."""
        if not self.pieces:
            return self
        if len(self.pieces) == 1:
            text, source, origin = self.pieces[0]
            return Traced._one(Piece(text[start:end], source, origin + min(start, len(text))))
        first = max(bisect_right(self._starts, start) - 1, 0)
        out = []
        for index in range(first, len(self.pieces)):
            text, source, origin = self.pieces[index]
            shift = self._starts[index]
            if index > first and shift >= end:
                break
            a, b = max(start - shift, 0), min(max(end - shift, 0), len(text))
            out.append(Piece(text[a:b], source, origin + min(a, len(text))))
        return Traced(out)

    def span(self) -> Stretch | None:
        """Where the whole text stands together; None when it does not."""
        if len(self.pieces) != 1:
            return None
        text, source, start = self.pieces[0]
        return None if source is None else Stretch(source, start, start + len(text))

    def where(self, offset: int) -> Place | None:
        """The place of the character at ``offset``, or of the nearest one before it that has a place."""
        for index in range(bisect_right(self._starts, offset) - 1, -1, -1):
            text, source, start = self.pieces[index]
            if source is not None:
                return source.place(start + min(offset - self._starts[index], len(text)))
        return next((piece.source.place(piece.start) for piece in self.pieces if piece.source), None)

    @staticmethod
    def join(parts: Iterable[Traced]) -> Traced:
        """The parts one after the other."""
        return Traced(piece for part in parts for piece in part.pieces)
