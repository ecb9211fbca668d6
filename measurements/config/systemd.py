"""systemd units and quadlet ``.container`` files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from measurements.config.flags import Spaced
from measurements.config.found import Found, Survey
from measurements.config.secrets import redact
from measurements.config.shell import read_argv, read_beside
from measurements.config.trace import Piece, Source, Stretch, Traced
from measurements.config.words import Lexer, Variables, Word

_SECTION: Final = re.compile(r"\[([^\]]*)\]")
_SETS: Final = re.compile(r"(?<!\S)(?:-e|--env)")
_ENTRY: Final = re.compile(r"[ \t\ufeff]*(?P<key>[A-Za-z]+)[ \t]*=[ \t]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """An assignment of a section that counts: ``value`` runs over continued lines."""

    key: str
    value: Traced  # continued lines joined, as systemd joins them
    start: int  # of its first line
    end: int  # of its last line, before the break
    section: str


def read_systemd(source: Source, survey: Survey) -> None:
    """Add the settings of a unit: ``Environment=``, ``EnvironmentFile=``, and the command it starts.

    An empty assignment takes back the ones before it, as in systemd. Raises ReadError, with the line, on a
    quote without its end.
    """
    kept: dict[str, list[Entry]] = {"Environment": [], "EnvironmentFile": [], "ExecStart": [], "Exec": [],
                                     "Image": [], "ContainerName": [], "PodmanArgs": []}
    for entry in entries(source):
        if entry.key in kept:
            if entry.value.value.strip():
                kept[entry.key].append(entry)
            else:
                kept[entry.key].clear()
                survey.take_back(entry.key)  # of a unit that this file is a drop-in of
    variables = Variables()
    for entry in kept["Environment"]:
        with survey.part(entry.key):
            _environment(source, entry, survey, variables)
    for entry in kept["EnvironmentFile"]:
        # What such a file sets overrides Environment=, wherever it stands, so it is read after it.
        written = entry.value.value.strip().strip("\"'")
        with survey.part(entry.key):
            read_beside(source, written.removeprefix("-"), source.line(entry.start), survey, variables, "",
                        reader="systemd" if entry.section == "Service" else "docker run --env-file",
                        optional=written.startswith("-"))
    for entry in kept["PodmanArgs"]:
        if _SETS.search(entry.value.value):
            survey.warn(source.place(entry.start), "what PodmanArgs= sets is not read: write Environment= or Exec=")
    for entry in kept["Image"][-1:]:
        survey.images.append((redact(entry.value.value.strip()), source.place(entry.start), ""))
    for entry in kept["ExecStart"] + kept["Exec"][-1:]:
        value = entry.value
        if entry.key == "ExecStart":
            value = value.cut(len(value.value) - len(value.value.lstrip("-@:+!|")), len(value.value))
        words = Lexer(value, variables, operators=False).words()
        if words:
            with survey.part(entry.key):
                read_argv(words, Spaced(words), survey, variables, source, "" if len(kept["ExecStart"]) < 2 else
                          f"ExecStart@{source.line(entry.start)}")


def entries(source: Source) -> Iterator[Entry]:
    """The assignments of ``[Service]`` and ``[Container]``, in order."""
    text, start, section = source.text, 0, ""
    while start < len(text):
        end, following = source.line_end(start), source.next_line(start)
        header = _SECTION.match(text[start:end].strip("\ufeff \t"))
        entry = _ENTRY.match(text, start, end)
        if header is not None:
            section = header[1]
        elif entry is not None and section in ("Service", "Container"):
            pieces, begin = list[Piece](), entry.end()
            while text.endswith("\\", begin, end) and following < len(text):
                pieces += [Piece(text[begin:end - 1], source, begin), Piece(" ", None, 0)]
                begin = following
                end, following = source.line_end(begin), source.next_line(begin)
                while text[begin:end].strip()[:1] in ("#", ";") and following < len(text):
                    begin = following  # a comment between continued lines
                    end, following = source.line_end(begin), source.next_line(begin)
            pieces.append(Piece(text[begin:end], source, begin))
            yield Entry(entry["key"], Traced(pieces), start, end, section)
        start = following


def _environment(source: Source, entry: Entry, survey: Survey, variables: Variables) -> None:
    words = Lexer(entry.value, variables, operators=False, expand=False).words()
    line = source.text[entry.start:entry.end].lstrip("\ufeff")
    lead = line[:line.index("=") + 1]
    newline = source.newline(entry.start)
    for index, word in enumerate(words):
        key, equals, _ = str(word).partition("=")
        place = word.value.where(0)
        if not equals or place is None:
            survey.warn(source.place(entry.start), "not read, because it is not NAME=value")
            continue
        value = word.value.cut(len(key) + 1, len(str(word)))
        variables.values[key] = value
        survey.add(Found(
            survey.setting(key, value, Stretch(source, entry.start, entry.end), "env", "", place=place),
            _whole(source, entry, words, index), Stretch(source, entry.end, entry.end),
            _sibling(newline + lead)))


def _sibling(lead: str) -> Callable[[str, str], str]:
    return lambda key, value: f"{lead}{key}={value}"


def _whole(source: Source, entry: Entry, words: list[Word], index: int) -> Stretch | None:
    if len(words) == 1:
        start = entry.start + source.text.startswith("\ufeff", entry.start)
        return Stretch(source, start, source.next_line(entry.end))
    return Spaced(words).whole(index, index)
