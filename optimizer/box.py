"""A search without the solver: boxes of knob values, halved until each is decided by interval arithmetic.

It confirms what CP-SAT says of small models: that no shape exists, or that one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from models.declare import EngineModel
from models.evaluate import Given, Knobs, Shape
from models.expr import Cond, Expr, Missing, OnIntervals, Truth, Value, Walk, knobs_in
from models.interval import Interval, point

#: How many boxes are looked at before the question is left open.
MOST_BOXES: Final = 4000


@dataclass(frozen=True, slots=True)
class Box:
    """Bounds of each free knob, both included, in the knob's own unit."""

    bounds: dict[str, tuple[int, int]]


def box_search(
    model: EngineModel, given: Given, base: Shape, box: Box, grids: Mapping[str, int], conditions: Sequence[Cond]
) -> Literal["feasible", "infeasible", "open"]:
    """Whether any setting of the free knobs surely meets ``conditions``; ``open`` when too many boxes are left.

    Conditions that lack facts do not count, as in the solve.
    """
    as_is = Knobs(model, given.as_is)
    ordered = list(conditions)
    knows = cache(knobs_in)
    stack = [dict(box.bounds)]
    for _ in range(MOST_BOXES):
        if not stack:
            return "infeasible"
        bounds = stack.pop()
        walk = _walk(model, given, base, bounds, as_is)
        truths: list[Truth] = []
        for place, condition in enumerate(ordered):
            truths.append(walk.condition(condition))
            if truths[-1] is False:  # what rules out one box is likely to rule out the next: ask it first
                ordered.insert(0, ordered.pop(place))
                break
        if False in truths:
            continue
        if all(truth is True for truth in truths if not isinstance(truth, Missing)):
            return "feasible"
        wide = [name for name, (low, high) in bounds.items() if high - low >= grids[name]]
        if not wide:
            continue  # a point that only some values of the facts allow is not surely met
        # halve what the first open condition is about: a knob it does not know would only double the work
        open_ones = (c for c, truth in zip(ordered, truths, strict=True) if truth is None)
        about = next((both for c in open_ones if (both := [name for name in wide if name in knows(c)])), wide)
        name = max(about, key=lambda knob: bounds[knob][1] - bounds[knob][0])
        low, high = bounds[name]
        middle = low + (high - low) // grids[name] // 2 * grids[name]
        stack.append({**bounds, name: (low, middle)})
        stack.append({**bounds, name: (middle + grids[name], high)})
    return "open"


def reach(model: EngineModel, given: Given, base: Shape, bounds: Mapping[str, tuple[int, int]], node: Expr) -> Value:
    """All values that ``node`` may take while each free knob stays within its ``bounds``."""
    return _walk(model, given, base, bounds, Knobs(model, given.as_is)).number(node)


def _walk(
    model: EngineModel, given: Given, base: Shape, bounds: Mapping[str, tuple[int, int]], as_is: Mapping[str, Interval]
) -> Walk[Value, Truth]:
    knobs: dict[str, Interval] = {}
    for name, spec in model.knobs.items():
        if name in bounds:
            knobs[name] = Interval(*bounds[name])
        elif name in base:
            knobs[name] = point(base[name])
        elif spec.kind != "text" and isinstance(spec.default, int):
            knobs[name] = point(spec.default)
    for name, spec in model.knobs.items():
        if name not in knobs and isinstance(spec.default, Expr):
            value = Walk(OnIntervals(knobs=knobs, as_is={}, facts={})).number(spec.default)
            if isinstance(value, Interval):
                knobs[name] = value
    return Walk(OnIntervals(knobs=knobs, as_is=as_is, facts=given.facts))
