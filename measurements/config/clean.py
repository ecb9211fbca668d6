"""A user's files without their secrets, and what those secrets are, so that they can be looked for elsewhere."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Final

from measurements.config.read import again
from measurements.config.secrets import SECRET, redact
from measurements.config.trace import Stretch

#: Shorter words are no secrets worth looking for elsewhere: they would tear holes into figures.
_LEAST: Final = 6
_SCHEME = re.compile(r"^(?:bearer|basic|token)\s+", re.IGNORECASE)
_LOGIN = re.compile(r"://[^\s/@:'\"]+:([^\s/@'\"]+)@")


def without_secrets(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts of files, by name, without what their readers know for a secret and what looks like one.

    Line breaks and indentation stay.
    """
    out = dict(texts)
    # Behind the last stretch first, so that the offsets of the others stay true.
    for source, start, end in sorted(_hidden(texts), key=lambda stretch: -stretch.start):
        text = out[source.file]
        out[source.file] = text[:start] + re.sub(r"\S[^\r\n]*", SECRET, text[start:end]) + text[end:]
    return {file: redact(text) for file, text in out.items()}


def secret_words(texts: Mapping[str, str]) -> set[str]:
    """The words that :func:`without_secrets` takes out, but for those too short to be looked for."""
    found = {line for source, start, end in _hidden(texts) for line in source.text[start:end].splitlines()}
    for text in texts.values():
        found.update(_taken_out(text))
    words = set[str]()
    for word in found:
        word = word.strip("\"' \t")
        words |= {word, _SCHEME.sub("", word), *_LOGIN.findall(word), *_decoded(word)}
    return {word for word in words if len(word) >= _LEAST}


def _hidden(texts: Mapping[str, str]) -> set[Stretch]:
    return set(again(texts).hidden)


def _taken_out(text: str) -> Iterator[str]:
    for line, clean in zip(text.split("\n"), redact(text).split("\n"), strict=True):
        if SECRET in clean and len(line) <= 4096:
            match = re.fullmatch("(.+?)".join(re.escape(part) for part in clean.rstrip("\r").split(SECRET)),
                                 line.rstrip("\r"))
            yield from match.groups() if match else ()
            yield from _LOGIN.findall(line)


def _decoded(word: str) -> list[str]:
    """What a Kubernetes Secret holds, which it writes in base64."""
    try:
        text = b64decode(word, validate=True).decode("ascii").strip()
    except ValueError:
        return []
    return [text] if text.isprintable() else []
