"""How far boots of one server differ: what each printed, and what the model says of it.

What is measured anew at every boot (what other programs hold, what was free once settled) is no constant: boots are set
beside each other, and never narrowed to what they have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from measurements.observed import Observed
from measurements.site import printed_rows
from models.declare import EngineModel
from models.evaluate import Reader, Shape
from models.interval import Interval


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over all boots that printed it, in ``unit``.

    ``values`` is what each boot printed, by its name. ``apart`` is how far they differ at least: 0 where one value
    could have printed so every time. ``constant`` marks a constant of the engine; ``less`` is, for a row that the model
    predicts, what each boot printed less what the declared constants predict from its own facts.
    """

    name: str
    unit: str
    values: dict[str, Interval]
    constant: bool = False
    less: dict[str, Interval] | None = None

    @property
    def hull(self) -> Interval:
        """From the least to the greatest that was printed."""
        return _hull(self.values)

    @property
    def apart(self) -> int:
        """How far the boots differ at least."""
        return max(max(value.low for value in self.values.values()) - min(v.high for v in self.values.values()), 0)


@dataclass(frozen=True, slots=True)
class Drift:
    """The figures of two or more boots with the same settings on one host; ``other`` are boots of others, and why."""

    boots: tuple[str, ...]
    facts: tuple[Spread, ...]
    rows: tuple[Spread, ...]
    other: dict[str, str]


def _hull(values: Mapping[str, Interval]) -> Interval:
    return Interval(min(value.low for value in values.values()), max(value.high for value in values.values()))


def drift(model: EngineModel, observed: Sequence[Observed]) -> Drift:
    """The figures of boots beside each other; those of other settings than the first, or another host, stand apart."""
    first, *rest = observed
    same, other = [first], {}
    for item in rest:
        why = _differs(first, item)
        if why:
            other[item.about] = why
        else:
            same.append(item)
    names = tuple(item.about for item in same)
    if len(same) < 2:
        return Drift(names, (), (), other)
    facts: dict[str, Spread] = {}
    rows: dict[str, Spread] = {}
    for item in same:
        assert item.reading is not None
        for name, reading in item.reading.facts.items():
            spec = model.facts.get(name) or model.facts.get(name.rpartition(".")[0])
            if isinstance(reading.value, Interval):
                spread = facts.setdefault(name, Spread(name, reading.unit, {}, bool(spec and spec.prior)))
                spread.values[item.about] = reading.value
        for name, value in printed_rows(item.reading).items():
            reading_of = item.reading.rows.get(name) or item.reading.facts.get(name)
            unit = model.rows[name].unit if name in model.rows else reading_of.unit if reading_of else "B"
            if name not in item.reading.facts:
                rows.setdefault(name, Spread(name, unit, {})).values[item.about] = value
    return Drift(names, tuple(_several(facts)), tuple(_less(model, spread, same) for spread in _several(rows)), other)


def _several(found: Mapping[str, Spread]) -> list[Spread]:
    return [spread for spread in found.values() if len(spread.values) > 1]


def _differs(first: Observed, item: Observed) -> str:
    """Why two boots are not of the same settings on one host; "" where they are."""
    assert first.reading is not None
    assert item.reading is not None
    for name, reading in item.reading.knobs.items():
        before = first.reading.knobs.get(name)
        if before is None:
            continue
        if isinstance(reading.value, str) or isinstance(before.value, str):
            if reading.value != before.value:
                return f"{name} is {reading.value}, not {before.value}"
        elif reading.value.meet(before.value) is None:
            return f"{name} is {reading.printed or reading.value.low}, not {before.printed or before.value.low}"
    for name, reading in item.reading.facts.items():
        before = first.reading.facts.get(name)
        of_the_host = name.partition(".")[0] in ("mem_total", "card_total", "cards")
        if (of_the_host and before is not None and isinstance(reading.value, Interval)
                and isinstance(before.value, Interval) and reading.value.meet(before.value) is None):
            return f"another host: {name} is {reading.printed}, not {before.printed}"
    return ""


def _less(model: EngineModel, spread: Spread, observed: Sequence[Observed]) -> Spread:
    declared = {**model.rows, **model.sums}.get(spread.name)
    if declared is None:
        return spread
    less: dict[str, Interval] = {}
    for item in observed:
        if item.about in spread.values:
            value = Reader(model, item.given, cast(Shape, item.shape)).number(declared.expr)
            if isinstance(value, Interval):
                less[item.about] = spread.values[item.about] - value
    return replace(spread, less=less or None)
