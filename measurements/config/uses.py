"""Who else takes a value: what an edit of it would change besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from measurements.config.detect import dialect
from measurements.config.trace import Source, Stretch
from measurements.records import Place

_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t;]))#.*", re.MULTILINE)
#: What hands a variable on, whole and under its own name.
_HANDS_ON: Final = re.compile(r"(?:\bexport[ \t]+(?:\w+[ \t]+)*|(?<!\S)(?:-e|--env)[ \t=]*[\"']?)$")
_HOLDS: Final = re.compile(r"[ \t]*\+?=[ \t]*[\"']?|[\"']?[ \t]*:[ \t]+[\"']?")
_HOLDER: Final = re.compile(r"(?<![\w.\-])(?P<name>[A-Za-z_]\w*)[ \t]*\+?=[ \t]*[\"']?$", re.ASCII)


def holder(value: Stretch) -> str | None:
    """The name that a value is assigned to right where it stands, as ``NAME=value``."""
    source, start, _ = value
    match = _HOLDER.search(source.text, source.line_start(start), start)
    return match["name"] if match else None


def mentions(sources: Iterable[Source], name: str, value: Stretch) -> Iterator[Place]:
    """Every place that takes or sets the variable ``name``, but for the one where ``value`` is assigned to it.

    ``$NAME`` in whatever spelling counts everywhere; in a script the bare name too, for it may be assigned again, read,
    unset or reckoned with. Comments do not count, nor does what only hands it on (``export NAME``, ``-e NAME``).
    """
    taken = rf"\$[{{(]?{re.escape(name)}(?!\w)"
    for source in sources:
        script = dialect(source) == "shell"
        pattern = rf"{taken}|(?<![\w./\-]){re.escape(name)}(?![\w./\-])" if script else taken
        plain = _COMMENT.sub(lambda match: " " * len(match[0]), source.text)
        for match in re.finditer(pattern, plain):
            line, end = source.line_start(match.start()), match.end()
            if script and plain[end:end + 1] != "=" and _HANDS_ON.search(plain, line, match.start()):
                continue
            if source is value.source and end <= value.start and _HOLDS.fullmatch(plain, end, value.start):
                continue
            yield source.place(match.start())
