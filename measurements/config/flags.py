"""Flags of a command line: ``--name value``, ``--name=value`` and ``--name``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from measurements.config.found import Found, Survey, as_is
from measurements.config.trace import Stretch, Traced
from measurements.config.words import Word

_FLAG = re.compile(r"--?[A-Za-z]")
_LONG = re.compile(r"--[A-Za-z]")
_REST = re.compile(r"[ \t]*(?:[ \t]#.*)?")
_BETWEEN = re.compile(r"(?:\s|\\\r?\n)+")


class Joint(Protocol):
    """How the words of one command line stand beside each other in the file."""

    def whole(self, first: int, last: int) -> Stretch | None:
        """What to delete to be rid of the words ``first`` to ``last``."""

    def after(self, last: int) -> Stretch | None:
        """Where another word may be put behind word ``last``."""

    def sibling(self, first: int, last: int) -> Callable[[str, str], str]:
        """How a flag and its value are written behind those words."""

    def write(self, index: int, value: Traced) -> Callable[[str], str]:
        """How a new value is written in place of ``value`` in word ``index``."""


@dataclass(frozen=True, slots=True)
class Spaced:
    """Words with white space between them, as in a shell."""

    words: Sequence[Word]

    def whole(self, first: int, last: int) -> Stretch | None:
        """The words and what parts them from the word before, or from the next when there is none."""
        a, b = self.words[first].written, self.words[last].written
        if a is None or b is None or a.source is not b.source:
            return None
        before = self.words[first - 1].written if first else None
        if before is not None and before.source is a.source and _BETWEEN.fullmatch(
                a.source.text, before.end, a.start):
            return Stretch(a.source, before.end, b.end)
        following = self.words[last + 1].written if last + 1 < len(self.words) else None
        if following is not None and following.source is a.source and _BETWEEN.fullmatch(
                a.source.text, b.end, following.start):
            return Stretch(a.source, a.start, following.start)
        return _own_lines(a, b)

    def after(self, last: int) -> Stretch | None:
        """Right behind the word."""
        written = self.words[last].written
        return None if written is None else Stretch(written.source, written.end, written.end)

    def sibling(self, first: int, last: int) -> Callable[[str, str], str]:
        """A space, the flag, a space, the value."""
        return lambda key, value: f" {key} {value}"

    def write(self, index: int, value: Traced) -> Callable[[str], str]:
        """As it is: only plain characters are ever written."""
        return as_is


def _own_lines(a: Stretch, b: Stretch) -> Stretch | None:
    """The lines of ``a`` to ``b`` when nothing else than a comment stands on them, as in an array."""
    source = a.source
    start, end = source.line_start(a.start), source.line_end(b.end)
    continued = source.text[:start].endswith(("\\\n", "\\\r\n"))
    if continued or source.text[start:a.start].strip() or not _REST.fullmatch(source.text, b.end, end):
        return None
    return Stretch(source, start, source.next_line(b.end))


def _together(first: Stretch | None, last: Stretch | None) -> Stretch | None:
    """From the first to the last; None when the last does not come behind it, as with a variable."""
    if first is None or last is None or first.source is not last.source or last.start < first.start:
        return None
    return Stretch(first.source, first.start, last.end)


def is_flag(text: str) -> bool:
    """Whether a word starts a flag; a negative number does not."""
    return _FLAG.match(text) is not None


def has_long_flag(words: Sequence[Word]) -> bool:
    """Whether any word starts a long flag: what tells a server's command line from ``set -e``."""
    return any(_LONG.match(str(word)) for word in words)


def find_flags(words: Sequence[Word], first: int, joint: Joint, survey: Survey, scope: str) -> None:
    """Add the flags among ``words``, from index ``first`` on, to ``survey``."""
    i = first
    while i < len(words):
        start, text = i, str(words[i])
        i += 1
        place = survey.where(words[start].value, words[start].written)
        if not is_flag(text) or place is None:
            continue
        key, equals, _ = text.partition("=")
        value: Traced | None = None
        if equals:
            value = words[start].value.cut(len(key) + 1, len(text))
        elif not key.startswith("--no-") and i < len(words) and not is_flag(str(words[i])):
            value = words[i].value
            i += 1
        last = i - 1
        home = _together(words[start].written, words[last].written)
        survey.add(Found(survey.setting(key, value, home, "flag", scope, place=place),
                         joint.whole(start, last), joint.after(last), joint.sibling(start, last),
                         as_is if value is None else joint.write(last, value)))
