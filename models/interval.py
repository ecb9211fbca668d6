"""Closed integer intervals, and the sizes that logs and people write.

A figure that a log printed as ``26.56 GiB`` is known to one print step: every byte count that rounds to it.
An exact byte count is a point. Everything is whole bytes (or tokens, blocks, slots); nothing is a float.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
UNIT_BYTES: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}

_SIZE = re.compile(r"(?P<number>\d+(?:\.(?P<digits>\d+))?)\s*(?P<unit>B|KiB|MiB|GiB)")
_NUMBER = re.compile(r"(?P<number>\d+(?:\.(?P<digits>\d+))?)")


@dataclass(frozen=True, slots=True)
class Interval:
    """Every whole number from ``low`` to ``high``, both included.

    Raises ValueError when ``low > high``.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"empty interval: {self.low} > {self.high}")

    @property
    def exact(self) -> bool:
        """Whether only one value is possible."""
        return self.low == self.high

    @property
    def middle(self) -> int:
        """The whole number halfway, rounded down."""
        return (self.low + self.high) // 2

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def meet(self, other: Interval) -> Interval | None:
        """What both allow; None when they contradict each other."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def join(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


def point(value: int) -> Interval:
    """The interval that holds ``value`` alone."""
    return Interval(value, value)


def printed(number: str, unit_bytes: int = 1, *, truncated: bool = False) -> Interval:
    """The whole values that print as ``number`` with as many decimals as it has.

    A number without decimals is exact, unless ``truncated``: then its digits were cut off, and everything
    below the next step prints the same. ``unit_bytes`` is the size of one unit in the interval's own unit.
    Raises ValueError when ``number`` is not a plain decimal, or when no whole value prints so.
    """
    match = _NUMBER.fullmatch(number)
    if match is None:
        raise ValueError(f"not a plain decimal number: {number!r}")
    digits = len(match["digits"] or "")
    value = Fraction(Decimal(number)) * unit_bytes
    step = Fraction(unit_bytes, 10**digits)
    if truncated:
        return Interval(ceil(value), ceil(value + step) - 1)
    if digits == 0:
        return point(int(value))
    low, high = ceil(value - step / 2), floor(value + step / 2)
    if low > high:  # finer than a byte: the nearest whole value is meant
        low = high = round(value)
    return Interval(max(low, 0), high)


def size(text: str) -> Interval:
    """Bytes of a size as people and logs write it: ``4430MiB`` is exact, ``26.56 GiB`` one print step wide.

    Raises ValueError naming what would be right when the unit is missing, unknown or the number is negative.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write a number with B, KiB, MiB or GiB, such as 30969MiB")
    return printed(match["number"], UNIT_BYTES[match["unit"]])


def show_bytes(value: int) -> str:
    """A byte count for people: two decimals in the unit the engines themselves would print it in."""
    sign, magnitude = ("-" if value < 0 else ""), abs(value)
    for unit in ("GiB", "MiB", "KiB"):
        if magnitude >= UNIT_BYTES[unit]:
            return f"{sign}{magnitude / UNIT_BYTES[unit]:,.2f} {unit}"
    return f"{sign}{magnitude} B"
