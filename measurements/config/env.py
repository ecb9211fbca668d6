"""Env files: one ``KEY=value`` a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from measurements.config.found import EnvReader, Found, Survey
from measurements.config.trace import Source, Stretch, Traced
from measurements.config.words import Lexer, Variables
from measurements.records import ReadError

LINE = re.compile(r"[ \t\ufeff]*(?P<export>export[ \t]+)?(?P<key>[A-Za-z_][A-Za-z0-9_.\-]*)[ \t]*=[ \t]*")
_BARE_KEY = re.compile(r"\s*(?:export[ \t]+)?[A-Za-z_][A-Za-z0-9_.\-]*\s*")
_COMMENT = re.compile(r"(?:^|\s)#")
_LITERAL: Final[tuple[EnvReader, ...]] = ("docker run --env-file", "compose with format: raw")
_ESCAPE = re.compile(r"\\([\"\\$`])")


def read_env(source: Source, survey: Survey, variables: Variables, scope: str = "") -> None:
    """Add the settings of an env file; ``variables`` learns them too.

    Raises ReadError, with the line, on a quote that is not closed on its line.
    """
    text, start = source.text, 0
    while start < len(text):
        end, following = source.line_end(start), source.next_line(start)
        _read_line(source, start, end, following, survey, variables, scope)
        start = following


def _read_line(source: Source, start: int, end: int, following: int, survey: Survey, variables: Variables,
               scope: str) -> None:
    text = source.text
    line = text[start:end].strip("\ufeff \t\r")
    if not line or line[0] in "#;":
        return
    match = LINE.match(text, start, end)
    if match is None:
        survey.warn(source.place(start), "not read, because it has no value: write NAME=value"
                    if _BARE_KEY.fullmatch(line) else "not read, because it is not NAME=value")
        return
    key = match["key"]
    place = source.place(match.start("key"))
    value = _value(source, match.end(), end, key, survey, variables)
    before = "\n" if following == end else ""  # the last line has no break of its own to take along
    whole = Stretch(source, start, following)
    if before and start:
        whole = Stretch(source, start - (2 if text.startswith("\r\n", start - 2) else 1), end)
    if text.startswith("\ufeff", start):
        whole = Stretch(source, start + 1, whole.end)
    variables.values[key] = value
    if line.endswith("\\"):
        survey.warn(place, "ends in a backslash: some readers take the next line for a part of this one")
    survey.add(Found(
        survey.setting(key, value, Stretch(source, match.end(), end), "env", scope, place=place),
        whole, Stretch(source, end, end),
        _sibling(source.newline(start) + text[start:match.start("key")].lstrip("\ufeff"))))


def beside(source: Source, start: int, end: int) -> dict[str, dict[EnvReader, str]]:
    """What stands beside the value at ``start`` to ``end`` on its line, and what readers make of it that is no more
    than NAME=value to others."""
    text, first, last = source.text, source.line_start(start), source.line_end(end)
    quoted = start > first and text[start - 1] in "'\""
    part, nothing = "takes for a part of it", "does not read"
    found: dict[str, dict[EnvReader, str]] = {}
    if quoted:
        found["quotes"] = dict.fromkeys(_LITERAL, part)
    if text[end + quoted:last].strip():
        found["a comment behind the value"] = dict.fromkeys((*_LITERAL, "systemd"), part)
    match = LINE.match(text, first, last)
    if match is not None and match["export"]:
        found["export before it"] = dict.fromkeys(("docker run --env-file", "systemd"), nothing)
    return found


def _sibling(lead: str) -> Callable[[str, str], str]:
    return lambda key, value: f"{lead}{key}={value}"


def _value(source: Source, start: int, end: int, key: str, survey: Survey, variables: Variables) -> Traced:
    text = source.text
    quote = text[start:start + 1] if start < end else ""
    if quote and quote in "\"'":
        close = start + 1
        while (close := text.find(quote, close, end)) >= 0 and quote == '"' and _escaped(text, start, close):
            close += 1
        if close < 0:
            raise ReadError(f"a quote {quote} without its end on this line: close it", file=source.file,
                            line=source.line(start))
        tail = text[close + 1:end].strip()
        if tail and not tail.startswith("#"):
            survey.warn(source.place(start), f"{key} goes on after its closing quote: taken as written")
            return Traced.bare(text[start:end].rstrip())
        inside = Traced.of(source, start + 1, close)
        if quote == "'":
            return inside
        if "\\" in inside.value:
            return Traced.bare(_ESCAPE.sub(r"\1", inside.value))
    else:
        comment = _COMMENT.search(text[start:end])
        stop = start + comment.start() if comment else end
        inside = Traced.of(source, start, start + len(text[start:stop].rstrip()))
    if "$" not in inside.value:
        return inside
    value = Lexer(inside, variables).all()
    for secret in variables.secrets:
        survey.hide(secret)
    return value


def _escaped(text: str, start: int, offset: int) -> bool:
    slashes = 0
    while offset - slashes - 1 > start and text[offset - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1
