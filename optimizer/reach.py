"""All values that an expression may take while the free knobs stay within bounds, by interval arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from models.declare import EngineModel
from models.evaluate import Given, Knobs, Shape
from models.expr import Expr, OnIntervals, Truth, Value, Walk
from models.interval import Interval, point


def reach(model: EngineModel, given: Given, base: Shape, bounds: Mapping[str, tuple[int, int]], node: Expr) -> Value:
    """All values that ``node`` may take while each free knob stays within its ``bounds``."""
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
    walk: Walk[Value, Truth] = Walk(OnIntervals(knobs=knobs, as_is=Knobs(model, given.as_is), facts=given.facts))
    return walk.number(node)
