"""The exact non-dominated set of two or three goals, counted in operator's steps, each point proven.

Each goal's value counts in steps of its own (:data:`STEPS`; a speed, or a time, in steps of 1 % of its best), from its
best downwards: a value is so many whole steps below the best that can be had. Shapes with the same counts are one
point, and one point is better than another where its counts are no larger in any goal and smaller in one. So nothing is
told apart that an operator would not, and the set is finite and exact. Of the shapes of one point the one is shown that
is best in the first goal to the last unit, then in the next, then with the fewest changes.

Found by epsilon constraints over the steps: the least loss of the first goal, then of the next; then the same again
where a step less is lost of some goal but the first. With three goals that splits what is left into regions, each with
the most that may be lost of the second and of the third; the region that loses least of the first goal comes next. When
no region holds a shape, the set is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import count
from math import sqrt
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from measurements.records import ReadError
from measurements.site import Site
from models.declare import Goal, Verdict
from models.evaluate import Reader
from models.expr import AtMost, Both, Cond, Missing, lift
from models.interval import MIB, Interval
from optimizer.check import SCHEMA_VERSION, Check, MissingFacts, engine_json, how_to_get, shape_json
from optimizer.documents import conflict_json, laws_used_json, of_the_law, prediction_json, unscaled, within_json
from optimizer.solve import (
    Answer,
    Bound,
    Disagreement,
    OutOfTime,
    Question,
    Ranked,
    ask,
    bound_condition,
    current,
    demand_law,
    forbids,
    goal_of,
    hard_requires,
    infeasible,
    lacking_constraints,
    lowered,
    ranked_shape,
    tie_breaks,
)
from optimizer.speed import GOALS, Workload, opens

#: What all solves of one set may take together.
SECONDS: Final = 30.0
#: One step of a goal, by its unit; others count one by one.
STEPS: Final = {"sequences": 1, "slots": 1, "sessions": 1, "tokens": 1024, "positions": 65_536, "B": 64 * MIB}
#: A step of a goal on speed: its best, divided by this.
SHARE: Final = 100
#: Words that are goals of some engine, so that a command line can tell them from a site.
WORDS: Final = ("context", "sequences", "sessions", "slab", "host-ram", "headroom", *GOALS)
#: Points for which a minimal set that forbids more is looked for, where none shows by its slack.
MOST_EXPLAINED: Final = 20
#: The rule in words.
RULE: Final = ("each goal counts in whole steps below its best; shapes with the same counts are one point, and a point "
               "is better where it loses no more steps in any goal and fewer in one")
#: What the knee is, in words.
KNEE: Final = ("the point farthest, on the better side, from the {} through the best of each goal, with every goal "
               "scaled from 0 at its worst point to 1 at its best")


#: The most steps that may be lost of each goal but the first; None where nothing limits it.
_Caps: TypeAlias = tuple[int | None, ...]
#: That a side reaches a value, or stays within it.
_Limit: TypeAlias = tuple[Any, Literal["max", "min"], int]


@dataclass(frozen=True, slots=True)
class Point:
    """One point: so many ``steps`` below the best of each goal, and the shape that stands for it.

    ``objectives`` are the goals' intervals by plain arithmetic, without what a ledger narrowed, so that all points
    compare; ``ranked`` is the shape once for each goal. ``proven`` says that no shape loses less. ``binding`` is what
    leaves less slack than a step could use, or else (of the first :data:`MOST_EXPLAINED` such points) what forbids
    more.
    """

    steps: tuple[int, ...]
    objectives: tuple[Interval, ...]
    values: tuple[int, ...]
    ranked: tuple[Ranked, ...]
    proven: bool
    binding: tuple[str, ...]

    @property
    def first(self) -> Ranked:
        """The shape as the first goal has it."""
        return self.ranked[0]


@dataclass(frozen=True, slots=True)
class Knee:
    """The point (its place in the set) that bulges farthest, and how far in the scaled goals."""

    place: int
    distance: float
    definition: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the shape as it is stands. A value is None where facts or data do not reach it.

    ``equals`` is the place of the point with the same counts; ``dominated`` maps places of better points to how much
    better each goal is there, in the goal's own count. ``asked`` says whether the shape is one of those asked about:
    it fits, and meets the bounds and values given.
    """

    values: tuple[int | None, ...]
    steps: tuple[int, ...] | None
    equals: int | None
    dominated: dict[int, tuple[int, ...]]
    asked: bool
    check: Check | None


@dataclass(frozen=True, slots=True)
class Front:
    """The answer. ``status`` is ``optimal`` where the set is complete and every point proven, ``feasible`` where the
    time limit was hit, and ``infeasible`` with a conflict; ``step`` and ``best`` are each goal's, in its own count.
    """

    questions: tuple[Question, ...]
    status: Literal["optimal", "feasible", "infeasible"]
    step: tuple[int, ...]
    best: tuple[int, ...]
    points: tuple[Point, ...]
    knee: Knee | None
    no_knee: str
    standing: Standing
    warnings: tuple[str, ...] = ()
    conflict: Answer | None = None


def ask_goals(
    site: Site, goals: Sequence[str], *, given: Mapping[str, str] | None = None,
    at_least: Sequence[tuple[str, str]] = (), at_most: Sequence[tuple[str, str]] = (), free: Sequence[str] = (),
    workload: Workload | None = None,
) -> tuple[Question, ...]:
    """One question for each of two or three goals, over the same shapes.

    What any of the goals opens is free in all; where the data of one goal's law end, they do for all.

    Raises ReadError of kind ``usage`` for another number of goals, a goal named twice or unknown, and for what
    :func:`optimizer.solve.ask` refuses; MissingFacts where a goal needs facts, if only to shift its value, or points.
    """
    words = [word.strip().lower().replace("_", "-") for word in goals]
    if not 2 <= len(words) <= 3:
        raise ReadError(f"pareto weighs two or three goals against each other, not {len(words)}", kind="usage")
    for word in words:
        if words.count(word) > 1:
            raise ReadError(f"{word} is named twice: give two or three different goals", kind="usage")
    opened = list(free)
    for word in words:
        moves = opens(site, word, workload or Workload()) if word in GOALS else goal_of(site.model, word).moves
        opened += [name for name in moves if name not in (given or {})]
    asked = [ask(site, word, given=given, at_least=at_least, at_most=at_most, free=list(dict.fromkeys(opened)),
                 top=1, workload=workload) for word in words]
    bounds: dict[tuple[str, str], Bound] = {}
    for question in asked:
        demand_law(question)
        bounds |= {(bound.label, bound.why): bound for bound in question.bounds}
    return tuple(replace(question, bounds=tuple(bounds.values())) for question in asked)


def step_of(goal: Goal, best: int) -> int:
    """One operator's step of a goal in its own count: bytes, tokens, thousandths of a token a second, microseconds."""
    return max(abs(best) // SHARE, 1) if goal.name in GOALS else STEPS.get(goal.unit, 1)


def spoken(words: Sequence[str], site: Path | None, *, alone: bool) -> tuple[Path | None, list[str]]:
    """The site and the goals of a command's words: a word that is no goal is the site, where ``site`` is none yet.

    ``alone`` says that no file is named beside, so that one of the words must be the site. Raises ReadError of kind
    ``usage`` where a word that is a goal also names a site here, and no other word does.
    """
    others = [word for word in words if word.strip().lower().replace("_", "-") not in WORDS]
    place = next((word for word in others if Path(word).exists()), others[0] if others and alone else None)
    if site is not None or (place is None and not alone):
        return site, list(words)
    if place is not None:
        goals = list(words)
        goals.remove(place)
        return Path(place), goals
    both = next((word for word in words if (Path(word) / "site.toml").is_file()), None)
    if both is not None:
        raise ReadError(f"{both} is a goal, and a site here: write ./{both} or --site {both} for the site",
                        kind="usage")
    return None, list(words)


def _sign(goal: Goal) -> int:
    return 1 if goal.sense == "max" else -1


def _worst(interval: Interval, goal: Goal) -> int:
    return interval.low if goal.sense == "max" else interval.high


def pareto(questions: Sequence[Question], *, seconds: float = SECONDS) -> Front:
    """The non-dominated set of the goals of ``questions`` (of :func:`ask_goals`), the first goal's best first.

    ``seconds`` limits all solves together: when they are over, what was found is returned as ``feasible``.

    Raises MissingFacts when a goal, a requirement or a verdict needs facts that nobody gave, OutOfTime when no point is
    found in time, and Disagreement when a shape fails the plain arithmetic or counts otherwise there.
    """
    questions = tuple(questions)
    search = _Search(questions, seconds)
    if not search.bests():
        return Front(questions, "infeasible", (), (), (), None, "", _standing(questions, (), (), ()),
                     conflict=infeasible(questions[0], seconds))
    points: list[Point] = []
    while (found := search.next()) is not None:
        steps, shape, proven = found
        points.append(_point(search, len(points) + 1, steps, shape, proven))
    if not points:
        raise OutOfTime(f"no point was found within {seconds:g} s; hold more knobs with --given", kind="usage")
    points = _undominated(points) if search.late else sorted(points, key=lambda point: point.steps)
    warnings = list(lacking_constraints(questions[0]))
    if search.late:
        warnings.insert(0, f"the time limit of {seconds:g} s was reached after {len(points)} points: the set is not "
                           "proven complete; hold more knobs with --given, or narrow it with --at-least")
    step, best = tuple(search.step), tuple(search.best)
    points = _explained(questions, points)
    knee, why = knee_of([point.values for point in points], [_sign(goal) for goal in search.goals], step)
    return Front(questions, "feasible" if search.late else "optimal", step, best, tuple(points), knee, why,
                 _standing(questions, step, best, points), tuple(warnings))


class _Search:
    """One model with all goals, asked for one point after another."""

    def __init__(self, questions: Sequence[Question], seconds: float) -> None:
        from optimizer.lower import Lacking, Stages, changed, moved

        first = questions[0]
        self._seconds = seconds
        self.goals = [question.goal for question in questions]
        self.questions = questions
        self.lowering = lowered(first, first.free, list(hard_requires(first)), first.bounds)
        self._sides: list[tuple[Any, Literal["max", "min"]]] = []
        for goal in self.goals:
            try:
                pair = self.lowering.number(goal.objective)
            except Lacking as error:
                raise MissingFacts(how_to_get(first.site.model, sorted(error.names))) from None
            self._sides.append((pair.low if goal.sense == "max" else pair.high, goal.sense))
        knobs = {name: first.site.model.knobs[name].step for name in first.free}
        self._ties = [
            *(tie for question in questions for tie in tie_breaks(self.lowering, question)),
            (changed(self.lowering, first.base), "min"), (self.lowering.number(first.site.model.spare).low, "max"),
            (moved(self.lowering, first.base, knobs), "min"),
        ]
        self._stages = Stages(self.lowering, seconds)
        self.best: list[int] = []
        self.step: list[int] = []
        self.late = False
        #: What is left: what is lost of the first goal at least, a number that orders equal ones, the most that may be
        #: lost of the others, and whether some shape of the region loses no more of the first.
        self._regions: list[tuple[int, int, _Caps, bool]] = [(0, 0, (None,) * (len(questions) - 1), False)]
        self._last = self._regions[0][2]
        self._numbers = count(1)

    def bests(self) -> bool:
        """Finds the best of each goal by itself, and so its step; False where no shape exists."""
        for goal, side in zip(self.goals, self._sides, strict=True):
            found = self._stages.run([side])
            if found.status == "infeasible":
                return False
            if found.status == "unknown":
                raise OutOfTime(f"no shape was found within {self._seconds:g} s; hold more knobs with --given",
                                kind="usage")
            self.late |= found.status == "feasible"
            self.best.append(found.objective)
            self.step.append(step_of(goal, found.objective))
        return True

    def _least(self, place: int, lost: int) -> _Limit:
        """That no more than ``lost`` steps are lost of a goal: the side, its sense, the last value that counts so."""
        side, sense = self._sides[place]
        reach = (lost + 1) * self.step[place] - 1
        return side, sense, self.best[place] - reach if sense == "max" else self.best[place] + reach

    def lost(self, place: int, value: int) -> int:
        """How many whole steps ``value`` lies below the best of a goal."""
        return _sign(self.goals[place]) * (self.best[place] - value) // self.step[place]

    def next(self) -> tuple[tuple[int, ...], dict[str, int], bool] | None:
        """The next point's counts, shape and whether both are proven; None where none is left, or no time."""
        while self._regions and not self.late:
            least, _, caps, exactly = heappop(self._regions)
            self._last = caps
            limits = [self._least(place, cap) for place, cap in enumerate(caps, start=1) if cap is not None]
            if exactly:
                return self._finish(least, limits, True)
            side, sense = self._sides[0]
            # what is known to be out of reach need not be searched
            reached = self.best[0] - _sign(self.goals[0]) * least * self.step[0]
            bound: list[_Limit] = [(side, "min" if sense == "max" else "max", reached)]
            found = self._stages.run([(side, sense)], limits=[*limits, *bound])
            if found.status == "infeasible":
                continue
            if found.status == "unknown":
                self.late = True
                return None
            lost = self.lost(0, found.objective)
            if found.status == "optimal" and self._regions and lost > self._regions[0][0]:
                heappush(self._regions, (lost, next(self._numbers), caps, True))  # another region may lose less
                continue
            return self._finish(lost, limits, found.status == "optimal")
        return None

    def _finish(self, lost: int, limits: list[_Limit],
                proven: bool) -> tuple[tuple[int, ...], dict[str, int], bool] | None:
        """The least loss of the other goals too, and the shape that stands for the point."""
        steps = [lost]
        limits.append(self._least(0, lost))
        for place, own in enumerate(self._sides[1:], start=1):
            found = self._stages.run([own], limits=limits)
            if found.status not in ("optimal", "feasible"):
                self.late = True
                return None
            proven &= found.status == "optimal"
            steps.append(self.lost(place, found.objective))
            limits.append(self._least(place, steps[-1]))
        found = self._stages.run([*self._sides, *self._ties], start=self.questions[0].running, limits=limits,
                                 proven=len(self._sides))
        if found.status not in ("optimal", "feasible"):
            self.late = True
            return None
        proven &= found.status == "optimal"
        self.late |= not proven
        self._split(steps)
        return tuple(steps), found.shape, proven

    def _split(self, steps: Sequence[int]) -> None:
        """Leaves out of every region what is no better than the point: the first goal only falls from here on."""
        rest = steps[1:]
        left: dict[_Caps, tuple[int, bool]] = {}
        for least, _, caps, exactly in [*self._regions, (steps[0], 0, self._last, False)]:
            if any(cap is not None and cap < loss for cap, loss in zip(caps, rest, strict=True)):
                left[caps] = least, exactly
                continue
            for place, loss in enumerate(rest):
                if loss:
                    left.setdefault((*caps[:place], loss - 1, *caps[place + 1:]), (max(least, steps[0]), False))
        self._regions = [(least, next(self._numbers), caps, exactly) for caps, (least, exactly) in left.items()
                         if not any(_within(caps, other) for other in left if other != caps)]
        heapify(self._regions)


def _within(one: _Caps, other: _Caps) -> bool:
    """Whether a region lies in another."""
    return all(b is None or (a is not None and a <= b) for a, b in zip(one, other, strict=True))


def _point(search: _Search, number: int, steps: tuple[int, ...], shape: Mapping[str, int], proven: bool) -> Point:
    site, skipped = search.questions[0].site, search.lowering.skipped
    first = ranked_shape(search.questions[0], number, shape, skipped)
    reader = Reader(site.model, site.given, first.shape)
    known = reader, first.checked
    ranked = (first, *(ranked_shape(question, number, shape, skipped, known) for question in search.questions[1:]))
    objectives = []
    for goal in search.goals:
        value = reader.shifted(goal.objective, frozenset())
        if isinstance(value, Missing):
            raise Disagreement(f"{goal.name} of point {number} cannot be computed")
        objectives.append(value)
    values = tuple(_worst(value, goal) for value, goal in zip(objectives, search.goals, strict=True))
    counted = tuple(search.lost(place, value) for place, value in enumerate(values))
    if proven and counted != steps:
        raise Disagreement(f"point {number} loses {counted} steps by plain arithmetic, {steps} by the solver")
    binding = tuple(dict.fromkeys(name for one in ranked for name in one.binding))
    return Point(counted, tuple(objectives), values, ranked, proven, binding)


def _explained(questions: Sequence[Question], points: Sequence[Point]) -> list[Point]:
    """The points with what forbids more, where slack alone does not show it."""
    left = MOST_EXPLAINED
    found = []
    for point in points:
        if not point.binding and point.proven and left:
            left -= 1
            # one that has lost something, while the others keep what they have
            more = next(place for place, lost in enumerate(point.steps) if lost) if any(point.steps) else 0
            wanted = tuple(_reaches(question.goal, value, int(place == more))
                           for place, (question, value) in enumerate(zip(questions, point.values, strict=True)))
            point = replace(point, binding=forbids(questions[0], Both(wanted)))
        found.append(point)
    return found


def _reaches(goal: Goal, value: int, more: int) -> Cond:
    """That the goal is no worse than ``value``, and better by ``more``."""
    if goal.sense == "max":
        return AtMost(lift(value + more), goal.objective)
    return AtMost(goal.objective, lift(value - more))


def _better(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether counts ``one`` lose no more than ``other`` anywhere, and less somewhere."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _undominated(points: Sequence[Point]) -> list[Point]:
    """What is left of points of which not all are proven."""
    found: dict[tuple[int, ...], Point] = {}
    for point in points:
        if not any(_better(other.steps, point.steps) for other in points):
            found.setdefault(point.steps, point)
    return sorted(found.values(), key=lambda point: point.steps)


def _standing(questions: Sequence[Question], step: Sequence[int], best: Sequence[int],
              points: Sequence[Point]) -> Standing:
    first = questions[0]
    found = [first.now.shifted(question.goal.objective, frozenset()) for question in questions]
    values = tuple(None if isinstance(value, Missing) else _worst(value, question.goal)
                   for value, question in zip(found, questions, strict=True))
    checked = current(first.site)
    held = all(first.running.get(name) == value for name, value in first.given.items())
    asked = held and checked is not None and checked.verdict is Verdict.FITS and all(
        _meets(first, bound) for bound in first.bounds)
    known = [value for value in values if value is not None]
    if not points or len(known) < len(values):
        return Standing(values, None, None, {}, asked, checked)
    signs = [_sign(question.goal) for question in questions]
    steps = tuple(sign * (top - value) // size
                  for sign, top, value, size in zip(signs, best, known, step, strict=True))
    equals = next((place for place, point in enumerate(points) if point.steps == steps), None)
    dominated = {place: tuple(sign * (new - old) for sign, new, old in zip(signs, point.values, known, strict=True))
                 for place, point in enumerate(points) if _better(point.steps, steps)}
    return Standing(values, steps, equals, dominated, asked, checked)


def _meets(question: Question, bound: Bound) -> bool:
    return question.now.condition(bound_condition(question.site.model, bound)) is True


def knee_of(values: Sequence[Sequence[int]], signs: Sequence[int],
            steps: Sequence[int]) -> tuple[Knee | None, str]:
    """The knee of points with these goal values, where more is better for sign 1 and less for -1; else why there is
    none.

    A goal in which all points are equal does not count. The line or plane goes through the point that is best in each
    goal (of several, the one that is best in the others together); a knee lies on the side of better values, and off
    the line by a step of some goal at least.
    """
    if len(values) < 3:
        return None, "a knee takes three points"
    scaled: list[list[Fraction]] = []
    units: list[Fraction] = []
    for place, sign in enumerate(signs):
        column = [sign * point[place] for point in values]
        low, high = min(column), max(column)
        if low < high:
            scaled.append([Fraction(value - low, high - low) for value in column])
            units.append(Fraction(steps[place], high - low))
    if len(scaled) < 2:
        return None, "the points differ in one goal only"
    at = list(zip(*scaled, strict=True))
    ends = [max((point[axis], sum(point), point) for point in at)[2] for axis in range(len(scaled))]
    normal = _normal(ends)
    rises = sum(normal) - _dot(normal, ends[0])  # of the place where every goal is at its best
    if rises == 0:
        return None, "the best points of the goals span no plane"
    normal = normal if rises > 0 else [-part for part in normal]
    heights = [_dot(normal, point) - _dot(normal, ends[0]) for point in at]
    highest = max(heights)
    shape = "line" if len(scaled) == 2 else "plane"
    least = min(abs(part) * unit for part, unit in zip(normal, units, strict=True) if part)
    if highest < least:
        return None, f"no point lies a step or more on the better side of the {shape} through the best of each goal"
    place = heights.index(highest)
    return Knee(place, float(highest) / sqrt(float(_dot(normal, normal))), KNEE.format(shape)), ""


def _dot(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def _normal(ends: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """Square to the line through two points, or the plane through three; all 0 where they span none."""
    a = [q - p for p, q in zip(ends[0], ends[1], strict=True)]
    if len(ends) == 2:
        return [-a[1], a[0]]
    b = [q - p for p, q in zip(ends[0], ends[2], strict=True)]
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def pareto_json(front: Front) -> dict[str, Any]:
    """The whole answer of ``pareto``."""
    first = front.questions[0]
    model = first.site.model
    speeds = [question.speed for question in front.questions if question.speed is not None]
    warnings = [*front.warnings, *(front.conflict.warnings if front.conflict else ())]
    for question in front.questions:
        warnings += of_the_law(question)
    checked = front.points[0].first.checked if front.points else front.standing.check
    warnings += checked.warnings if checked else ()
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(first.site),
        "goals": [_goal_json(front, place) for place in range(len(front.questions))],
        "rule": RULE,
        "given": {name: model.knobs[name].show(value) for name, value in first.given.items()},
        "bounds": [bound.label for bound in first.bounds if not bound.why],
        "within": [within_json(bound) for bound in first.bounds if bound.why],
        "status": front.status,
        "points": [_point_json(front, place) for place in range(len(front.points))],
        "knee": None if front.knee is None else {
            "point": front.knee.place + 1, "distance": front.knee.distance, "definition": front.knee.definition},
        "no_knee": front.no_knee or None,
        "current": _standing_json(front),
        "free": list(first.free),
        "held": list(first.held),
        "warnings": list(dict.fromkeys(warnings)),
    }
    if speeds:
        document["laws"] = laws_used_json(speeds)
        document["extrapolated"] = list(dict.fromkeys(text for speed in speeds for text in speed.extrapolated))
    if front.conflict is not None:
        document["conflict"] = [conflict_json(item) for item in front.conflict.conflict]
    return document


def _goal_json(front: Front, place: int) -> dict[str, Any]:
    from optimizer.laws import workload_json

    question = front.questions[place]
    goal = question.goal
    found: dict[str, Any] = {
        "goal": goal.name, "meaning": goal.meaning, "sense": goal.sense, "unit": goal.unit,
        "step": unscaled(front.step[place], goal.scale) if front.step else None,
        "best": unscaled(front.best[place], goal.scale) if front.best else None,
    }
    if question.speed is not None:
        found["workload"] = dict(workload_json(question.speed.workload, question.speed.used))
    return found


def _point_json(front: Front, place: int) -> dict[str, Any]:
    point, model = front.points[place], front.questions[0].site.model
    shape = point.first
    objectives = []
    for question, ranked, interval, value in zip(front.questions, point.ranked, point.objectives, point.values,
                                                 strict=True):
        scale = question.goal.scale
        if question.speed is not None and ranked.value is not None:
            value = ranked.value  # as solve says it
        found: dict[str, Any] = {
            "value": unscaled(value, scale), "low": unscaled(interval.low, scale),
            "high": unscaled(interval.high, scale), "unit": question.goal.unit, "change": unscaled(ranked.gain, scale),
        }
        if question.speed is not None:
            found["prediction"] = prediction_json(ranked.prediction)
        objectives.append(found)
    return {
        "point": place + 1,
        "steps": list(point.steps),
        "proven": point.proven,
        "objectives": objectives,
        "shape": shape_json(model, shape.checked.evaluation.shape),
        "changes": {name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
                    for name, (old, new) in shape.changes.items()},
        "binding": list(point.binding),
        "verdict": shape.checked.verdict.word,
        "outcome": shape.checked.outcome.word,
        "notes": list(dict.fromkeys(note for ranked in point.ranked for note in ranked.notes)),
    }


def _standing_json(front: Front) -> dict[str, Any]:
    found, model = front.standing, front.questions[0].site.model
    scales = [question.goal.scale for question in front.questions]
    return {
        "shape": shape_json(model, front.questions[0].now.knobs),
        "values": [unscaled(value, scale) for value, scale in zip(found.values, scales, strict=True)],
        "steps": None if found.steps is None else list(found.steps),
        "verdict": None if found.check is None else found.check.verdict.word,
        "asked": found.asked,
        "equals": None if found.equals is None else found.equals + 1,
        "dominated_by": [
            {"point": place + 1, "by": [unscaled(gain, scale) for gain, scale in zip(gains, scales, strict=True)]}
            for place, gains in found.dominated.items()],
    }
