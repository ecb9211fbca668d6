"""Which one measurement would settle most, and what each outcome would mean for the recommendation.

Candidates are shapes that fit and differ from the current one in one knob; the two pools of a stated pair, moved
against each other, count as one. The best is where the rival laws disagree most beyond the noise: where the outcome
tells most of which of them is true.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

from models.declare import Goal
from models.evaluate import Reader
from models.expr import Expr, knobs_in, lift, maximum
from models.interval import Interval
from models.laws import Axis
from optimizer.check import SCHEMA_VERSION, engine_json, shape_json
from optimizer.laws import workload_json
from optimizer.solve import Answer, Bound, OutOfTime, Question, Ranked, data_bounds, solve
from optimizer.speed import Encoder, Speed, Used, at_shape

if TYPE_CHECKING:
    from measurements.laws.law import Law

#: Knobs that count as one when they move against each other.
PAIR: Final = frozenset(("vram_weights_mib", "vram_kv_mib"))
#: Places on an axis that are looked at.
PLACES: Final = 48
#: A measurement that tells less, in nats, settles nothing.
WORTH: Final = 0.05
#: How far from its value now an axis is first measured, by the way it works: time may move either way only where a
#: setting is usually halved or doubled.
FIRST: Final = {"falls": (0.9, 1.1), "rises": (0.9, 1.1), "either": (0.5, 2.0)}
#: How far beyond the data a measurement may lie, in parts of what they enclose, and what it counts against one inside,
#: for what the rivals expect there is less sure.
BEYOND: Final = 0.5
OUTSIDE: Final = 0.7
#: What a measurement of the recommended shape counts against one elsewhere, as long as it was never made: it also tells
#: what the recommendation is worth.
WANTED: Final = 2.0
#: A place that was measured so often is not proposed again.
REPEATED: Final = 3
#: What one solve may take.
SECONDS: Final = 2.0
#: Outcomes shown at most.
OUTCOMES: Final = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the law would say if the measurement came out at ``rate`` (t/s), and the best shape then."""

    rate: float
    expected_by: tuple[str, ...]
    weights: dict[str, float]
    decided: str | None
    best: Ranked | None


@dataclass(frozen=True, eq=False)
class Next:
    """A measurement to make: a shape, what the rivals expect of it, and what each outcome would mean.

    ``nats`` is what it tells of which rival is true, ``most`` the most any measurement could. ``shape`` is None where
    nothing that fits and differs in one knob tells anything; ``why`` then says so.
    """

    question: Question
    used: Used
    axis: str
    x: float | None
    shape: Ranked | None
    nats: float
    most: float
    expected: dict[str, float]
    outcomes: tuple[Outcome, ...]
    why: str


def next_measurement(question: Question) -> Next:
    """The one measurement that would settle most for a goal on speed.

    Of a goal that rests on several laws, the one whose rivals are furthest from settled counts. Raises what
    :func:`optimizer.solve.solve` does.
    """
    speed = question.speed
    assert speed is not None
    used = max(speed.used, key=lambda item: _entropy(item.law))
    law, most = used.law, _entropy(used.law)
    if law.fit.decided is not None and any(knobs_in(expr) & question.free.keys() for _, expr in _axes(question, used)):
        why = (f"nothing: the form is settled ({law.fit.decided.name}); boot what is recommended, and add what it "
               "measures to the points")
        return Next(question, used, "", None, None, 0.0, most, {}, (), why)
    goal_at = _recommended(question, used)
    best: tuple[float, Axis, Ranked] | None = None
    for axis, expr in _axes(question, used):
        for alone in _one_knob(question, expr):
            for worth, x, window in _ranked_places(alone, used, axis, expr, goal_at.get(axis.name)):
                if best is not None and worth <= best[0]:
                    break
                found = _nearest(alone, axis, expr, x, window)
                if found is not None:
                    best = (worth, axis, found)
                    break
    if best is None:
        first = _first(question, used)
        if first is not None:
            axis, shape, why = first
            at = at_shape(used, Reader(question.site.model, question.site.given, shape.shape))
            return Next(question, used, axis.name, at.get(axis.name), shape, 0.0, most, {}, (), why)
        why = ("nothing that fits and differs from the current shape in one knob moves what the law depends on; "
               "open a knob with --free, or measure another workload")
        return Next(question, used, "", None, None, 0.0, most, {}, (), why)
    _, axis, shape = best
    at = at_shape(used, Reader(question.site.model, question.site.given, shape.shape))
    x = at[axis.name]
    (nats,) = law.told(at, axis.name, [x])
    expected = {rival.name: law.rates(at, rival=place)[0]
                for place, rival in enumerate(law.fit.rivals) if rival.weight >= 0.01}
    why = ""
    if nats < WORTH:
        why = "the rivals agree there within the noise: more of the same settings, repeated, would tell as much"
    elif law.outside({axis.name: x}):
        why = "this lies outside the data, where what the rivals expect is extrapolated"
    outcomes = tuple(_outcomes(question, used, at, expected))
    return Next(question, used, axis.name, x, shape, nats, most, expected, outcomes, why)


def _one_knob(question: Question, expr: Expr) -> Iterator[Question]:
    """The question for each knob alone that is free and moves ``expr``; a stated pair counts as one."""
    own = knobs_in(expr)
    moving = [name for name in question.free if name in own or {name, *own} >= PAIR]
    both = set(moving) >= PAIR
    groups = [tuple(sorted(PAIR))] if both else []
    groups += [(name,) for name in moving if not (both and name in PAIR)]
    for names in groups:
        yield replace(question, free={name: question.free[name] for name in names})


def _first(question: Question, used: Used) -> tuple[Axis, Ranked, str] | None:
    """A first setting that differs, along an axis that no point varies: the furthest that fits, to its better side
    where there is room, within :data:`FIRST` of what it is now.
    """
    for axis in used.law.spec.axes:
        expr = used.axis_expr(axis)
        if expr is None or axis in used.law.varying or axis.choices:
            continue
        now = question.now.number(expr)
        if not isinstance(now, Interval):
            continue
        reaches = FIRST[axis.way]
        sides: tuple[Literal["max", "min"], ...] = ("min", "max") if axis.way != "falls" else ("max", "min")
        own = [bound for bound in question.bounds if not bound.why]
        own += [Bound(axis.name, "at least", int(now.low * reaches[0]), "", expr=expr),
                Bound(axis.name, "at most", int(now.high * reaches[1]), "", expr=expr)]
        for alone, side in product(_one_knob(question, expr), sides):
            found = _furthest(alone, expr, side, own)
            if found is not None and found.changes:
                return axis, found, (f"no point varies {axis.name}, and a law needs two settings: measure this one and "
                                     "the one as it is")
    return None


def _furthest(question: Question, expr: Expr, side: Literal["max", "min"], bounds: Sequence[Bound]) -> Ranked | None:
    goal = Goal(question.goal.name, "", expr, side, "", moves=question.goal.moves)
    try:
        answer = solve(replace(question, goal=goal, bounds=tuple(bounds), top=1, speed=None), seconds=SECONDS)
    except OutOfTime:
        return None
    return answer.shapes[0] if answer.shapes else None


def _entropy(law: Law) -> float:
    total = sum(rival.weight for rival in law.fit.counted)
    return -sum(rival.weight / total * math.log(rival.weight / total) for rival in law.fit.counted)


def _axes(question: Question, used: Used) -> Iterator[tuple[Axis, Expr]]:
    for axis in used.law.varying:
        expr = used.axis_expr(axis)
        if expr is not None and axis.name != "streams":
            yield axis, expr


def _recommended(question: Question, used: Used) -> dict[str, float]:
    """Where the best shape as it stands lies on the law's axes, unless it was measured already."""
    try:
        answer = solve(replace(question, top=1), seconds=SECONDS)
    except OutOfTime:
        return {}
    if not answer.shapes:
        return {}
    at = at_shape(used, Reader(question.site.model, question.site.given, answer.shapes[0].shape))
    return {axis.name: at[axis.name] for axis in used.law.varying if axis.name in at
            and at[axis.name] not in used.law.values[axis.name]}


def _ranked_places(question: Question, used: Used, axis: Axis, expr: Expr,
                   goal_at: float | None = None) -> list[tuple[float, float, int]]:
    """Places on an axis that shapes reach inside the data, those that tell most first: nats, place, and how far from
    it a shape still counts as one there.
    """
    here = at_shape(used, question.now)
    if axis.choices:
        xs, window = sorted({float(value) for value in used.law.values[axis.name] if value is not None}), 0
    else:
        sides: tuple[Literal["min", "max"], ...] = ("min", "max")
        wide = _widened(question, used, axis, expr)
        ends = [end for side in sides if (end := _furthest(question, expr, side, wide)) is not None]
        if len(ends) < 2:
            return []
        values = [at_shape(used, Reader(question.site.model, question.site.given, end.shape))[axis.name]
                  for end in ends]
        low, high = min(values), max(values)
        if high - low < 1:  # nothing that is free moves it
            return []
        step = (high - low) / PLACES
        now = {round(here[axis.name])} if low <= here[axis.name] <= high else set()
        xs = sorted(float(x) for x in {*now, *(round(low + i * step) for i in range(PLACES + 1))})
        unsure = max(end.objective.high - end.objective.low for end in ends)  # of a derived row
        window = math.ceil(step) + unsure
    inside = used.law.range_of(axis.name)
    assert inside is not None
    enough = {value for value, count in Counter(used.law.values[axis.name]).items() if count >= REPEATED}
    told = [nats * (1 if inside[0] <= x <= inside[1] else OUTSIDE) * (x not in enough)
            * (WANTED if goal_at is not None and abs(x - goal_at) < 1 else 1)
            for nats, x in zip(used.law.told(here, axis.name, xs), xs, strict=True)]
    # of places that tell the same, the nearest: less changes
    ranked = sorted(zip(told, xs, strict=True), key=lambda item: (-round(item[0], 4), abs(item[1] - here[axis.name])))
    return [(nats, x, window) for nats, x in ranked]


def _widened(question: Question, used: Used, axis: Axis, expr: Expr) -> list[Bound]:
    """The question's bounds, with the data's ends on ``axis`` moved outwards by half of what they enclose."""
    ends = used.law.range_of(axis.name)
    assert ends is not None
    kept = [bound for bound in question.bounds if not (bound.name == axis.name and bound.expr is not None)]
    if len(kept) == len(question.bounds):
        return kept
    # to the side where speed may gain
    more = (ends[1] - ends[0]) * BEYOND
    low = ends[0] - (0 if axis.way == "falls" else more)
    high = ends[1] + (0 if axis.way == "rises" else more)
    return [*kept, Bound(axis.name, "at least", max(int(low), 1), "", expr=expr),
            Bound(axis.name, "at most", int(high), "", expr=expr)]


def _nearest(question: Question, axis: Axis, expr: Expr, x: float, window: int) -> Ranked | None:
    """The shape that fits with the axis nearest to ``x``, within ``window`` of it."""
    place = int(x)
    bounds = [bound for bound in question.bounds if bound.name != axis.name]
    bounds += [Bound(axis.name, "at least", place - window, str(place), expr=expr),
               Bound(axis.name, "at most", place + window, str(place), expr=expr)]
    goal = Goal(question.goal.name, "", maximum(expr - place, lift(place) - expr), "min", "",
                moves=question.goal.moves)
    try:
        answer = solve(replace(question, goal=goal, bounds=tuple(bounds), top=1, speed=None), seconds=SECONDS)
    except OutOfTime:
        return None
    return answer.shapes[0] if answer.shapes else None


def _outcomes(question: Question, used: Used, at: dict[str, float], expected: dict[str, float]) -> Iterator[Outcome]:
    law = used.law
    noise = law.fit.noise.value
    seen: list[tuple[float, list[str]]] = []
    for rate, name in sorted(_possible(law, at), key=lambda item: item[0]):
        if name not in expected:
            continue
        if seen and math.log(rate / seen[-1][0]) < 2 * noise:
            if name not in seen[-1][1]:
                seen[-1][1].append(name)
        else:
            seen.append((rate, [name]))
    while len(seen) > OUTCOMES:  # the two nearest become one
        near = min(range(1, len(seen)), key=lambda i: seen[i][0] / seen[i - 1][0])
        seen[near - 1] = (math.sqrt(seen[near][0] * seen[near - 1][0]),
                          list(dict.fromkeys(seen[near - 1][1] + seen[near][1])))
        del seen[near]
    for rate, names in seen:
        after = law.with_point(at, rate)
        weights = {rival.name: rival.weight for rival in after.fit.rivals if rival.weight >= 0.02}
        decided = after.fit.decided
        best = _best_after(question, replace(used, law=after))
        yield Outcome(rate, tuple(names), weights, None if decided is None else decided.name, best)


def _possible(law: Law, at: dict[str, float]) -> list[tuple[float, str]]:
    """Rates that each counted rival may expect at ``at``: its middle, and its ends where it is of two minds."""
    found = []
    for rival in law.fit.counted:
        if rival.weight < 0.01:
            continue
        rates = sorted(1 / float(time) for time in rival.times(law.grid(at))[:, 0])
        found += [(rates[int(share * (len(rates) - 1))], rival.name) for share in (0.1, 0.5, 0.9)]
    return found


def _best_after(question: Question, used: Used) -> Ranked | None:
    assert question.speed is not None
    others = tuple(used if item.metric == used.metric else item for item in question.speed.used)
    speed = Speed(question.speed.name, question.speed.workload, others, question.speed.how)
    encoder = Encoder(speed, question.site, question.base, question.free,
                      Reader(question.site.model, question.site.given, question.base))
    goal = replace(encoder.goal(), moves=question.goal.moves)
    reader = Reader(question.site.model, question.site.given, question.base)
    bounds = (*(bound for bound in question.bounds if bound.expr is None), *data_bounds(speed, question, reader))
    try:
        answer: Answer = solve(replace(question, goal=goal, bounds=bounds, speed=speed, top=1), seconds=SECONDS)
    except OutOfTime:
        return None
    return answer.shapes[0] if answer.shapes else None


def next_json(found: Next, now: Answer) -> dict[str, Any]:
    """The whole answer of ``next``; ``now`` is the recommendation as it stands, which must hold a shape."""
    question = found.question
    assert question.speed is not None
    law = found.used.law
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(question.site),
        "goal": question.goal.name,
        "law": {"name": law.name, "metric": law.metric, "verdict": law.verdict, "settings": law.arms,
                "weights": {rival.name: rival.weight for rival in law.fit.rivals if rival.weight >= 0.0005},
                "not_separated": list(law.not_separated)},
        "workload": dict(workload_json(question.speed.workload, question.speed.used)),
        "recommended": _changes_json(question, now.shapes[0]),
        "measure": None if found.shape is None else {
            "shape": shape_json(question.site.model, found.shape.checked.evaluation.shape),
            "changes": _changes_json(question, found.shape),
            "axis": found.axis, "x": found.x, "verdict": found.shape.checked.verdict.word,
            "tells": found.nats, "most": found.most,
            "expected": found.expected,
            "noise": law.fit.noise.value,
            "notes": list(found.shape.notes),
        },
        "outcomes": [
            {"rate": outcome.rate, "expected_by": list(outcome.expected_by), "weights": outcome.weights,
             "decided": outcome.decided,
             "recommended": None if outcome.best is None else _changes_json(question, outcome.best),
             "prediction": None if outcome.best is None or outcome.best.prediction is None else {
                 "median": outcome.best.prediction.median, "low": outcome.best.prediction.low,
                 "high": outcome.best.prediction.high, "level": outcome.best.prediction.level}}
            for outcome in found.outcomes
        ],
        "why": found.why or None,
    }


def _changes_json(question: Question, ranked: Ranked) -> dict[str, Sequence[Any]]:
    knobs = question.site.model.knobs
    return {name: [None if old is None else knobs[name].show(old), knobs[name].show(new)]
            for name, (old, new) in ranked.changes.items()}
