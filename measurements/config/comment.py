"""A comment of ours above a value in a user's own file, where a line of its own can be nothing but a comment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from measurements.config.detect import dialect
from measurements.config.edit import Edit
from measurements.config.read import again
from measurements.config.trace import Source, Traced
from measurements.records import ConfigReading, ReadError

#: How a comment of ours begins, behind its ``# ``.
OURS: Final = "shapewright"
_OUR_LINE: Final = re.compile(rf"^[ \t]*# {OURS} \d{{4}}-\d\d-\d\d \d\d:\d\d UTC: [^\r\n]*\r?\n", re.MULTILINE)
_MOST_UP: Final = 400


def comment_above(reading: ConfigReading, edit: Edit, comment: str) -> tuple[Edit, tuple[str, ...]]:
    """``edit`` with ``comment`` on a line of its own above the first changed line of every changed file.

    It goes further up where a line just above would be no comment (a continued command, quoted text, a YAML block).
    Comments of ours that stand in the file go: what they say is of another shape. Also returns the files that have no
    such place, left without. Raises nothing.
    """
    texts, without = dict(edit.texts), []
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", f"# {OURS} {comment}")
    for file, text in edit.texts.items():
        others = {**reading.text, **texts}
        found = _with_line(file, text, _first_change(reading.text[file], text), line, others)
        if found is None:
            without.append(file)
        else:
            texts[file] = _without_older(file, found, line, others)
    return replace(edit, texts=texts), tuple(without)


def without_ours(reading: ConfigReading, edit: Edit) -> Edit:
    """``edit`` without the comments of ours in the files that it changes: what they say is of another shape."""
    texts = dict(edit.texts)
    for file, text in edit.texts.items():
        texts[file] = _without_older(file, text, "", {**reading.text, **texts})
    return replace(edit, texts=texts)


def _first_change(old: str, new: str) -> int:
    """The offset in ``new`` of the first character that differs."""
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    # what was added begins with the break of the line before it
    while at < len(new) and new[at] in "\r\n" and not old.startswith(new[at:at + 2], at):
        at += 1
    return at


def _with_line(file: str, text: str, at: int, line: str, texts: Mapping[str, str]) -> str | None:
    source = Source(file, text)
    kind = dialect(source)
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return None  # perhaps JSON, which has no comments
    wanted = _meaning(kind, file, text, texts)
    if wanted is None:
        return None
    start = source.line_start(at)
    for _ in range(_MOST_UP):
        head = start + text.startswith("\ufeff", start)
        indent = re.compile(r"[ \t]*").match(text, head)
        lead = indent[0] if indent else ""
        found = text[:head] + lead + line + source.newline(start) + text[head:]
        if not text.startswith("#!", start) and _meaning(kind, file, found, texts) == wanted:
            return found
        if not start:
            return None
        start = source.line_start(start - 1)
    return None


def _without_older(file: str, text: str, line: str, texts: Mapping[str, str]) -> str:
    if not _OUR_LINE.search(text):
        return text
    kind = dialect(Source(file, text))
    found = _OUR_LINE.sub(lambda match: match[0] if match[0].strip() == line else "", text)
    return found if _meaning(kind, file, found, texts) == _meaning(kind, file, text, texts) else text


def _meaning(kind: str, file: str, text: str, texts: Mapping[str, str]) -> Any:
    """What ``text`` means to whoever reads it, as far as a comment could change it; None where it means nothing."""
    rows = [(found.setting.key, found.setting.value, found.setting.style, found.setting.scope)
            for found in again({**texts, file: text}).found]
    source = Source(file, text)
    try:
        if kind == "yaml":
            from measurements.config.nodes import documents  # yaml is slow to import and seldom needed

            return rows, [_tree(node, {}) for node in documents(source)]
        if kind == "systemd":
            from measurements.config.systemd import entries

            # as written: not every reader of a unit knows comments between continued lines
            return rows, [(entry.key, source.text[entry.start:entry.end]) for entry in entries(source)]
        if kind == "shell":
            return rows, _commands(source)
    except (ReadError, RecursionError):
        return None
    return rows, [text for text in text.lstrip("\ufeff").split("\n") if text.strip()[:1] not in ("#", ";", "")]


def _tree(node: Any, seen: dict[int, int]) -> Any:
    if id(node) in seen:
        return seen[id(node)]
    seen[id(node)] = len(seen)
    if isinstance(node.value, str):
        return node.tag, node.value
    return node.tag, [[_tree(part, seen) for part in item] if isinstance(item, tuple) else _tree(item, seen)
                      for item in node.value]


def _commands(source: Source) -> list[Any]:
    """The words and operators of a script; breaks between commands count once, and here-documents as they are."""
    from measurements.config.words import Array, Lexer, Operator, Variables

    found: list[Any] = []
    for token in Lexer(Traced.of(source, 0, len(source.text)), Variables(), expand=False).tokens():
        if isinstance(token, Array):
            found.append([str(word) for word in token.words])
        elif isinstance(token, Operator):
            if token.text != "\n" or (found and found[-1] != ("\n",)):
                found.append((token.text,))
        else:
            found.append(str(token))
    inside = re.findall(r"<<-?[ \t]*['\"]?(\w+)(.*?)\n[ \t]*\1[ \t]*(?:\r?\n|$)", source.text, re.DOTALL)
    return [found[1:] if found[:1] == [("\n",)] else found, inside]
