"""What moved a row away from its prediction: claims that are more or less than they were, by the model's arithmetic.

An effect is an interval: what is not known of the fact itself is in it, what both readings share is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from models.declare import EngineModel
from models.evaluate import Given, Quantity, Reader
from models.interval import Interval, point

#: Places between two whole pieces at which a difference is tried.
_TRIED: Final = 6


@dataclass(frozen=True, slots=True)
class Cause:
    """A fact that is not what the prediction used: by how much, and what that alone does to a row (in its unit)."""

    name: str
    unit: str
    by: Interval
    effect: Interval
    source: str


@dataclass(frozen=True, slots=True)
class Drift:
    """A fact as the prediction foretold it (None: it did not) and as the new log tells it.

    ``shift`` is what the change itself makes of it (a table that is carved for each sequence): ``was`` counts it.
    """

    name: str
    unit: str
    was: Interval | None
    now: Interval
    source: str
    shift: int = 0

    @property
    def moved(self) -> bool:
        """Whether no value is both."""
        return self.was is not None and self.was.meet(self.now) is None

    @property
    def before_it(self) -> tuple[Interval, Interval]:
        """What it was and is, as it would be without the change: as the prediction's own facts are."""
        was = self.now if self.was is None else self.was
        return was - point(self.shift), self.now - point(self.shift)


class Causes:
    """The rows of one prediction, read again with the facts of the boot that came after it.

    ``given`` is what the prediction was made from and ``shape`` what it is of; a fact of the name of a row is that row
    as a boot printed it, and explains nothing.
    """

    def __init__(self, model: EngineModel, given: Given, shape: Mapping[str, int], drift: tuple[Drift, ...]) -> None:
        self._model, self._shape, self._as_is = model, shape, given.as_is
        self._facts = {name: value for name, value in given.facts.items() if name not in model.rows}
        self._moved = [fact for fact in drift if fact.moved and fact.name in self._facts]
        now = {fact.name: fact.before_it[1] for fact in drift if fact.name in self._facts}
        self._now = Reader(model, Given(self._as_is, {**self._facts, **now}), shape)
        self._ends = {fact.name: list(self._at_ends(fact)) for fact in self._moved}

    def of(self, row: str) -> tuple[Cause, ...]:
        """The facts that moved ``row``, each alone, the greatest first."""
        found = []
        for fact in self._moved:
            assert fact.was is not None  # it moved
            effect = self._between(row, self._ends[fact.name])
            if effect is not None and (effect.low, effect.high) != (0, 0):
                found.append(Cause(fact.name, fact.unit, fact.now - fact.was, effect, fact.source))
        return tuple(sorted(found, key=lambda cause: -max(abs(cause.effect.low), abs(cause.effect.high))))

    def shift(self, row: str, facts: Collection[str]) -> Interval | None:
        """What those of ``facts`` that moved do to ``row`` together; None where none did, or the model cannot tell."""
        moved = [fact for fact in self._moved if fact.name in facts]
        ends = {fact.name: fact.before_it for fact in moved}
        sizes = {fact.name for fact in moved if fact.unit == "B"}

        def at(low: bool, apart: int, *, now: bool) -> Reader:
            picked = {name: pair[now] for name, pair in ends.items()}
            return self._with({name: (value.low if low else value.high) + (apart if name in sizes else 0)
                               for name, value in picked.items()})

        # where a figure is rounded to whole pieces, how far the nearest is nobody printed: tried over two of them
        aparts = [step * self._model.grain // _TRIED for step in range(2 * _TRIED)]
        pairs = ((at(was, apart, now=False), at(now, apart, now=True))
                 for apart in aparts for was in (True, False) for now in (True, False))
        return self._between(row, pairs) if moved else None

    def left(self, row: str, printed: Interval, by: Interval) -> Interval | None:
        """What of ``by`` all facts of this boot together do not explain: all of it where the model cannot tell.

        None where the model makes of them what was printed.
        """
        again = self._value(self._now, row)
        if again is None:
            return by
        return None if printed.meet(again) is not None else printed - again

    def _at_ends(self, fact: Drift) -> Iterator[tuple[Reader, Reader]]:
        then, told = fact.before_it
        for was in (then.low, then.high):
            for now in (told.low, told.high):
                yield self._with({fact.name: was}), self._with({fact.name: now})

    def _with(self, facts: Mapping[str, int]) -> Reader:
        exact = {name: Interval(value, value) for name, value in facts.items()}
        return Reader(self._model, Given(self._as_is, {**self._facts, **exact}), self._shape)

    def _between(self, row: str, pairs: Iterable[tuple[Reader, Reader]]) -> Interval | None:
        effect: Interval | None = None
        for old, new in pairs:
            before, after = self._value(old, row), self._value(new, row)
            if before is None or after is None:
                return None
            one = Interval(*sorted((after.low - before.low, after.high - before.high)))
            effect = one if effect is None else effect.join(one)
        return effect

    def _value(self, reader: Reader, row: str) -> Interval | None:
        declared = self._model.rows.get(row)
        found = None if declared is None else reader.quantity(declared)
        return Interval(found.low, found.high) if isinstance(found, Quantity) else None
