"""Copies of a user's files without the secrets of any of them, which read as the files themselves do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from measurements.config.secrets import SECRET, redact
from measurements.records import ReadError


def without_words(text: str, words: Iterable[str]) -> str:
    """``text`` without these words; one of digits alone counts only where it is no part of a figure."""
    for word in sorted(words, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){word}(?![\w.])", SECRET, text) if word.isdigit() else text.replace(word, SECRET)
    return text


def cleaned(text: str, words: Iterable[str], read: Callable[[str], Any] | None = None) -> tuple[str, bool]:
    """``text`` without what looks like a secret and without ``words``, but for those without which ``read`` makes
    something else of it; and whether such a one stayed."""
    text = redact(text)
    present = {word for word in words if word in text}
    if not present or read is None or read(without_words(text, present)) == (before := read(text)):
        return without_words(text, present), False
    needed = {word for word in present if read(without_words(text, {word})) != before}
    return without_words(text, present - needed), True


def figures(text: str) -> Any:
    """What the reader makes of a boot log; None where it is none."""
    from measurements.ledger import read_boot
    from measurements.ledger.text import plain

    try:
        boot = read_boot(plain(text), "boot.log")
    except ReadError:
        return None
    return (boot.engine, boot.version, boot.generation, boot.boots, boot.missing,
            *({name: (item.value, item.unit) for name, item in part.items()}
              for part in (boot.facts, boot.rows, boot.knobs)))


def settings(text: str) -> Any:
    """What the reader makes of a config."""
    from measurements.config.read import again

    found = again({"": text})
    return ([(item.setting.key, item.setting.value, item.setting.scope) for item in found.found],
            [image for image, _, _ in found.images])
