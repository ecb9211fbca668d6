"""Engine versions: parsing, and the ranges that are known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from models.declare import Basis

Version = tuple[int, int, int]

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")


class UnknownEngine(Exception):
    """An engine nobody described; the message names those that are known."""


class UnknownVersion(Exception):
    """A version nobody described; the message names those that are known."""


@dataclass(frozen=True, slots=True)
class Known:
    """The versions of one engine that its model covers; ``seen`` are those with evidence of their own."""

    engine: str
    ranges: tuple[tuple[Version, Version], ...]
    seen: frozenset[Version]

    def text(self) -> str:
        """The covered ranges, for people."""
        return ", ".join(f"{dotted(low)} to {dotted(high)}" for low, high in self.ranges)

    def basis(self, version: Version) -> Basis:
        """``read`` for a version with evidence of its own, else ``believed``."""
        return "read" if version in self.seen else "believed"

    def check(self, version: Version) -> None:
        """Raises UnknownVersion, naming the known ones, when ``version`` is outside every range."""
        if not any(low <= version <= high for low, high in self.ranges):
            raise UnknownVersion(
                f"{self.engine} {dotted(version)} is not described; known: {self.engine} {self.text()}"
            )


def dotted(version: Version) -> str:
    """``(1, 0, 13)`` as ``1.0.13``."""
    return ".".join(map(str, version))


def parse_version(engine: str, text: str) -> Version:
    """``1.0.13`` as numbers; a missing last part counts as 0. Raises UnknownVersion when it is none."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UnknownVersion(f"{text!r} is not a version; write it as {engine}@1.2.3")
    return int(match[1]), int(match[2]), int(match[3] or 0)


RADIANCE: Final = Known(
    "radiance",
    (((1, 0, 0), (1, 0, 13)), ((1, 1, 0), (1, 2, 4)), ((1, 3, 0), (1, 8, 1))),
    frozenset({(1, 0, 5), (1, 0, 8), (1, 0, 12), (1, 0, 13), (1, 1, 0), (1, 1, 1), (1, 2, 1), (1, 2, 2),
               (1, 2, 4), (1, 3, 0), (1, 8, 1)}),
)
HALOGEN: Final = Known(
    "halogen",
    (((0, 3, 1), (0, 17, 4)),),
    frozenset({(0, 3, 1), (0, 3, 2), (0, 4, 4), (0, 5, 3), (0, 5, 4), (0, 5, 6), (0, 5, 8), (0, 6, 0),
               (0, 11, 4), (0, 11, 8), (0, 11, 9), (0, 11, 10), (0, 12, 0), (0, 13, 0), (0, 13, 1), (0, 13, 8),
               (0, 14, 0), (0, 14, 1), (0, 15, 0), (0, 15, 1), (0, 15, 2), (0, 16, 0), (0, 16, 2), (0, 17, 4)}),
)
