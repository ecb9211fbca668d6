"""What each knob and each fact is worth: re-solved a step away, since nothing else prices a step of a whole number.

There are no dual prices here. A knob's worth is the change of the goal when it moves by one operator's step, with all
else optimised again, and with all else as it is; a fact's is what the goal would be at either end of its interval. The
questions this takes are answered together (:mod:`optimizer.many`); what those searches leave open is asked of CP-SAT.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Final

from measurements.records import ReadError
from models.declare import KnobSpec, Outcome, Phase, Require, Verdict
from models.evaluate import Reader, judge, lacking
from models.expr import Cond, Expr, Fact, Missing, inside, knobs_in
from models.interval import Interval, point
from optimizer.check import SCHEMA_VERSION, MissingFacts, engine_json, how_to_get, shape_json
from optimizer.documents import laws_used_json, objective_json, unscaled, within_json
from optimizer.influence import stops
from optimizer.pareto import step_of
from optimizer.reach import reach
from optimizer.solve import (
    Answer,
    Question,
    Ranked,
    bound_condition,
    companions_of,
    demand_law,
    hard_requires,
    lowered,
    moving_with,
    solve,
    what_binds,
    with_speed,
)
from optimizer.speed import UNSTATED, reached

if TYPE_CHECKING:
    from optimizer.many import Best
    from optimizer.spread import Chance, Spread

#: What one question may take where it is asked of CP-SAT.
SECONDS: Final = 2.0
#: How far a fact may drift before the search for what it upsets ends, as a multiple of itself, and at least.
FAR: Final = 4
FAR_AT_LEAST: Final = 1 << 36


@dataclass(frozen=True, slots=True)
class Move:
    """A knob moved to ``to``. Gains are in the goal's own count, positive where that is better.

    ``reoptimised`` is the gain with all else optimised again: None where no shape holds (``why_not`` says so where it
    is another reason). ``alone`` is the gain with all else as in the best shape, None where that shape does not hold;
    ``verdict`` and ``outcome`` judge that shape, None where facts are missing to.
    """

    to: int
    reoptimised: int | None
    alone: int | None
    verdict: Verdict | None
    outcome: Outcome | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Rung:
    """A range of a knob's values that all meet and break the same: the running shape with this knob alone moved."""

    low: int
    high: int
    verdict: Verdict
    outcome: Outcome
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnobWorth:
    """What one knob is worth. ``value`` is that of the best shape; ``free`` says that the question lets it move.

    ``stays`` is the range in which the best shape stays best: of a held knob the values at which it fits and none beats
    it by a step of the goal; of a free one those with which, all else optimised again, the goal stays within a step of
    its best (the least and the greatest). None where that is not computed; an end is None where the knob's own range
    ends. ``rungs`` is what becomes of the running shape as this knob alone moves. ``nothing`` says why no step of it
    changes the goal; None where one does. ``moves`` are the rows that a step (up, where that fits) moves in the best
    shape: by how much their least value does, or their greatest where that alone moves.
    """

    knob: str
    spec: KnobSpec
    value: int
    step: int
    free: bool
    down: Move | None
    up: Move | None
    stays: tuple[int | None, int | None] | None
    rungs: tuple[Rung, ...]
    moves: dict[str, int]
    nothing: str | None


@dataclass(frozen=True, slots=True)
class FactWorth:
    """What one fact is worth. ``flips`` is how far it may drift down and up until the best shape is not sure to fit.

    None: no drift within what was looked at does; what was not decided is in ``open``. ``middle``, ``pessimistic`` and
    ``optimistic`` are the best that the goal can be if the fact stood at the middle or at the worse or the better end
    of its interval; ``cost`` is how much better the best would be than now at the optimistic end. All are None where
    the fact is exact.
    """

    fact: str
    unit: str
    value: Interval
    source: str
    basis: str
    flips: tuple[int | None, int | None]
    open: tuple[str, ...]
    pessimistic: int | None
    middle: int | None
    optimistic: int | None
    cost: int | None


@dataclass(frozen=True, slots=True)
class Together:
    """Two knobs that are worth ``more`` together than each by itself: their values, and the gains."""

    knobs: tuple[tuple[str, int], tuple[str, int]]
    together: int
    apart: tuple[int | None, int | None]
    more: int


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The answer. ``answer`` holds the best shape; ``resolved`` counts the questions that were answered."""

    question: Question
    answer: Answer
    base: int
    step: int
    knobs: tuple[KnobWorth, ...]
    facts: tuple[FactWorth, ...]
    together: tuple[Together, ...]
    resolved: int
    warnings: tuple[str, ...]

    @property
    def best(self) -> Ranked:
        """The best shape."""
        return self.answer.shapes[0]


def sensitivity(question: Question, *, knobs: Collection[str] | None = None, facts: Collection[str] | None = None,
                seconds: float = SECONDS) -> Sensitivity | Answer:
    """What every knob and fact of ``question`` is worth, or only ``knobs`` and ``facts``.

    Where no shape holds the infeasible answer. Raises what :func:`optimizer.solve.solve` does.
    """
    demand_law(question)
    answer = solve(replace(question, top=1))
    if not answer.shapes:
        return answer
    return _Study(question, answer, seconds).run(knobs, facts)


def gains(question: Question, knobs: Collection[str] | None = None, *,
          seconds: float = SECONDS) -> tuple[Ranked, dict[str, tuple[Move | None, Move | None]]] | None:
    """The best shape, and what a step down and a step up of each knob gains, and nothing else.

    None where no shape holds. Raises what :func:`optimizer.solve.solve` does.
    """
    demand_law(question)
    answer = solve(replace(question, top=1))
    if not answer.shapes:
        return None
    study = _Study(question, answer, seconds)
    return answer.shapes[0], study.moves([name for name in study.names() if knobs is None or name in knobs])


class Unknown(Exception):
    """A question that neither search decided in time."""


class _Study:
    """One question, its best shape, and the questions a step away from it."""

    def __init__(self, question: Question, answer: Answer, seconds: float) -> None:
        # questions are read together where they state the same knobs: a default in force counts as stated, but for
        # those that follow from others
        stated = {name: value.low for name, value in question.now.knobs.items() if value.exact and not isinstance(
            question.site.model.knobs[name].default, Expr) and name not in moving_with()}
        question = replace(question, base=stated | question.base)
        self._question, self._answer = question, answer
        self._best = answer.shapes[0]
        self._sign = 1 if question.goal.sense == "max" else -1
        self._seconds = seconds
        self._resolved = 0
        self._late: list[str] = []
        self._by_laws = _read_by_laws(question)
        self._goals: dict[tuple[object, ...], Question | str] = {}
        self._followed: dict[int, tuple[Expr, bool]] = {}
        self._known: dict[int, tuple[Question, int | None]] = {}
        self._unknown: dict[tuple[str, int], str] = {}
        self._put: dict[tuple[bool, tuple[tuple[str, int], ...]], Question | str] = {}
        # every requirement that the facts allow to judge
        self._judged = list(hard_requires(question))
        self._keep_guarded()
        value = self._values([self._question])[0]
        if value is None:
            raise AssertionError("the best shape was found")
        self._base = value
        self._step = step_of(question.goal, value)

    def _keep_guarded(self) -> None:
        """Lets no free knob fall below what it is where facts are missing to tell how far it may."""
        question = self._question
        free = dict(question.free)
        for require in self._open_guards:
            for name in set(require.guards) & free.keys():
                low, high = free[name]
                free[name] = (max(low, min(question.running.get(name) or 0, self._best.shape[name])), high)
                lacks = ", ".join(sorted(self._reader.check(require).missing))
                self._late.append(f"{name} is not lowered: how far it may be is not known without {lacks}")
        self._question = replace(question, free=free)

    def run(self, only: Collection[str] | None, among: Collection[str] | None) -> Sensitivity:
        """What the knobs of ``only`` and the facts of ``among`` are worth; of all there are where None."""
        names = [name for name in self.names() if only is None or name in only]
        self._ask_ahead(names)
        knobs = self._knobs(names)
        facts = self._facts({name: value for name, value in self._known_facts() if among is None or name in among})
        together = self._together(knobs)
        return Sensitivity(self._question, self._answer, self._base, self._step, tuple(knobs), tuple(facts),
                           tuple(together), self._resolved, tuple(dict.fromkeys(self._late)))

    def _ask_ahead(self, names: Sequence[str]) -> None:
        """Answers everything about steps of knobs at once: the more are read together, the less each costs."""
        steps = {name: [to for to in _steps(self._question.site.model.knobs[name], self._best_value(name))
                        if to is not None] for name in names}
        asked = [put({name: to}) for name in names for to in steps[name] for put in (self._held_at, self._as_best)]
        held = [name for name in names if name not in self._question.free]
        asked += [self._held_at({a: one, b: two}) for a, b in combinations(held, 2)
                  for one, two in product(steps[a], steps[b])]
        self._answered(asked)

    # many questions

    def _values(self, questions: Sequence[Question]) -> list[int | None]:
        """The best value of each question, None where no shape holds; one not decided counts as none, and is told."""
        from optimizer.many import best_of

        new = list({id(question): question for question in questions if id(question) not in self._known}.values())
        self._resolved += len(new)
        for question, best in zip(new, best_of(new), strict=True):
            self._known[id(question)] = question, self._value(question, best)
        return [self._known[id(question)][1] for question in questions]

    def _value(self, question: Question, best: Best) -> int | None:
        value, shape = best.value, best.shape
        if not best.proven:
            try:
                value, shape = by_solver(question, self._seconds)
            except Unknown:
                self._late.append("some questions were not decided in time, and count as if no shape held")
                return None
        if value is None or question.speed is None:
            return value
        # a speed counts from the law itself, which the search had in stretches
        site = question.site
        rate = reached(question.speed, Reader(site.model, site.given, question.base | shape))
        return value if rate is None else round(rate * question.goal.scale)

    def _gain(self, value: int | None) -> int | None:
        return None if value is None else self._sign * (value - self._base)

    def _held_at(self, values: Mapping[str, int]) -> Question | str:
        """The question with these knobs at these values, all else as free as it was; or why that cannot be asked."""
        key = (False, tuple(sorted(values.items())))
        if key not in self._put:
            self._put[key] = self._held(values)
        return self._put[key]

    def _held(self, values: Mapping[str, int]) -> Question | str:
        question = self._question
        told = self._not_known(values)
        if told:
            return told
        base = question.base | dict(values)
        free = {name: ends if name not in values else (values[name], values[name])
                for name, ends in question.free.items()}
        return self._asked(replace(question, base=base, free=free), values)

    def _not_known(self, values: Mapping[str, int]) -> str:
        """Why what these values do is not known, where it is not: each by itself, or the goal with all of them."""
        found = [text for name, value in values.items() if (text := self._unknown_step(name, value))]
        return found[0] if found else ""

    def _unknown_step(self, name: str, value: int) -> str:
        if (name, value) not in self._unknown:
            self._unknown[name, value] = self._lacks(name, value) or self._no_law(name, value)
        return self._unknown[name, value]

    def _lacks(self, name: str, value: int) -> str:
        """The facts that the verdict on the step, or the goal, needs and nobody gave."""
        question, goal = self._question, self._question.goal
        missing = set(self._judged_at(self._best.shape | {name: value})[3])
        if name in goal.shifts_while_held and goal.shifts:  # what shifts the goal is another fact now
            told = self._at({name: value}).number(goal.objective)
            missing |= told.names if isinstance(told, Missing) else set()
        # an open constraint may forbid to lower what it guards
        if value < (question.running.get(name) or 0):
            for require in self._open_guards:
                if name in require.guards:
                    missing |= self._reader.check(require).missing
        return f"not known without {', '.join(sorted(missing))}" if missing else ""

    @cached_property
    def _open_guards(self) -> list[Require]:
        return [require for require in self._judged if require.guards and self._reader.check(require).missing]

    def _no_law(self, name: str, value: int) -> str:
        for speed in self._question.speeds:
            for used in speed.used:
                for key in used.law.spec.keys:
                    if key.knob == name and value != self._question.base.get(name) and not key.presence and (
                            not used.law.conditions[name]):
                        return f"another {name}: {UNSTATED}"
        return ""

    def _asked(self, moved: Question, values: Mapping[str, int]) -> Question | str:
        """The question, with its goal on speed written for the shape it is about."""
        if not set(values) & (self._by_laws - self._question.free.keys()):
            return moved
        key = self._read_off(moved.base)
        if key == self._own_law:
            return moved
        if key not in self._goals:  # one goal for all questions that the laws read alike, so that they go together
            try:
                again = with_speed(replace(moved, free=dict(self._question.free)))
                demand_law(again)
            except MissingFacts as error:
                self._goals[key] = "; ".join(item["how"] for item in error.missing)
            except ReadError as error:
                self._goals[key] = error.message
            else:
                self._goals[key] = again
        found = self._goals[key]
        if isinstance(found, str):
            return found
        free = {name: ends for name, ends in moved.free.items() if name in found.free}
        return replace(moved, goal=found.goal, bounds=found.bounds, speed=found.speed, free=free)

    def _read_off(self, shape: Mapping[str, int]) -> tuple[object, ...]:
        """What the laws read off a shape once, when the goal is written: what decides which law holds, and where the
        axes are that no free knob moves.
        """
        site = self._question.site
        reader = Reader(site.model, site.given, shape)
        found: list[object] = []
        for speed in self._question.speeds:
            for used in speed.used:
                spec = used.law.spec
                found += [reader.knobs.get(key.knob) for key in spec.keys]
                found += [reader.knobs.get(spec.slots), reader.knobs.get(spec.window)]
                found += [reader.number(expr) for axis in spec.axes
                          if (expr := used.axis_expr(axis)) is not None and not self._follows(expr)]
        return tuple(found)

    @cached_property
    def _own_law(self) -> tuple[object, ...]:
        return self._read_off(self._question.base)

    def _follows(self, expr: Expr) -> bool:
        """Whether the goal is written with ``expr`` itself: a free knob moves it."""
        question = self._question
        if id(expr) not in self._followed:
            value = reach(question.site.model, question.site.given, question.base, question.free, expr)
            self._followed[id(expr)] = (expr, bool(knobs_in(expr) & question.free.keys())
                                        and not (isinstance(value, Interval) and value.exact))
        return self._followed[id(expr)][1]

    def _as_best(self, values: Mapping[str, int]) -> Question | str:
        """The question that only the best shape with these values answers."""
        key = (True, tuple(sorted(values.items())))
        told = self._not_known(values)
        if told:
            return told
        if key not in self._put:
            question = self._question
            base = question.base | self._best.shape | dict(values)
            free = {name: (base[name], base[name]) for name in question.free}
            self._put[key] = self._asked(replace(question, base=base, free=free), values)
        return self._put[key]

    def _answered(self, asked: Sequence[Question | str]) -> list[int | None]:
        real = [question for question in asked if not isinstance(question, str)]
        values = iter(self._values(real))
        return [None if isinstance(question, str) else next(values) for question in asked]

    # knobs

    def moves(self, names: Sequence[str]) -> dict[str, tuple[Move | None, Move | None]]:
        """A step down and a step up of each knob, and what each gains."""
        steps = {name: _steps(self._question.site.model.knobs[name], self._best_value(name)) for name in names}
        places = [(name, to) for name in names for to in steps[name] if to is not None]
        again = [self._held_at({name: to}) for name, to in places]
        alone = [self._as_best({name: to}) for name, to in places]
        values, fixed = self._answered(again), self._answered(alone)
        found: dict[tuple[str, int | None], Move] = {}
        for (name, to), question, value, other in zip(places, again, values, fixed, strict=True):
            verdict, outcome, _, missing = self._judged_at(self._best.shape | {name: to})
            found[name, to] = Move(to, self._gain(value), self._gain(other), None if missing else verdict,
                                   None if missing else outcome, question if isinstance(question, str) else "")
        return {name: (found.get((name, steps[name][0])), found.get((name, steps[name][1]))) for name in names}

    def _knobs(self, names: Sequence[str]) -> list[KnobWorth]:
        moves = self.moves(names)
        self._broken_at = self._first_broken([
            name for name in names if name not in self._question.free
            and self._question.site.model.knobs[name].kind not in ("choice", "switch")])
        return [self._worth(name, *moves[name]) for name in names]

    def names(self) -> Iterator[str]:
        """The knobs that mean something here: not those that only follow, or that make another model."""
        model = self._question.site.model
        followers = {companion for companion in moving_with() if companion not in self._question.free}
        for name, spec in model.knobs.items():
            if spec.inert or spec.kind == "text" or name == "tp" or name in followers:
                continue
            if self._best_value(name, default=None) is not None:
                yield name

    def _best_value(self, name: str, default: int | None = 0) -> Any:
        known = self._best.checked.evaluation.shape.get(name)
        return known.low if known is not None and known.exact else default

    def _judged_at(self, shape: dict[str, int], *, along: bool = True) -> tuple[
            Verdict, Outcome, tuple[str, ...], tuple[str, ...]]:
        """The verdict on a shape, its outcome, what it breaks or may break, and the facts that the verdict lacks.

        With what moves along, or without.
        """
        site = self._question.site
        if along:
            shape |= {companion.knob: companion.after for companion in companions_of(self._question, shape)}
        reader = Reader(site.model, site.given, shape)
        verdict, outcome, _, constraints = judge(site.model, reader)
        broken = tuple(c.require.name for c in constraints if c.hard and c.verdict not in (None, Verdict.FITS))
        return verdict, outcome, broken, lacking(site.model, reader, constraints)

    def _worth(self, name: str, down: Move | None, up: Move | None) -> KnobWorth:
        spec = self._question.site.model.knobs[name]
        free = name in self._question.free
        rungs = tuple(self._rungs(name))
        moved = self._moved_rows([(name, move) for move in (down, up) if move is not None])
        gains = [gain for move in (down, up) if move is not None for gain in (move.reoptimised, move.alone)]
        still = not any(gains) and any(gain is not None for gain in gains)
        stays = None if spec.kind in ("choice", "switch") else self._stays(name)
        nothing = self._why_nothing(name, down, up, stays) if still else None
        return KnobWorth(name, spec, self._best_value(name), spec.step, free, down, up, stays, rungs, moved, nothing)

    def _moved_rows(self, moves: Sequence[tuple[str, Move]]) -> dict[str, int]:
        """The rows that the last of ``moves`` which fits, or else the last, moves in the best shape: by how much their
        least value does, or their greatest where that alone moves.
        """
        if not moves:
            return {}
        name, move = next((pair for pair in reversed(moves) if pair[1].verdict is Verdict.FITS), moves[-1])
        before, after = self._reader, self._at({name: move.to})
        found = {}
        for row in self._question.site.model.rows.values():
            old, new = before.number(row.expr), after.number(row.expr)
            if isinstance(old, Interval) and isinstance(new, Interval) and old != new:
                found[row.name] = new.low - old.low or new.high - old.high
        return found

    def _rungs(self, name: str) -> Iterator[Rung]:
        """What becomes of the running shape as the knob alone moves over its whole domain, equal ranges joined.

        Nothing moves along; a default that follows from the knob does.
        """
        from optimizer.many import NotForBoxes, rungs

        question = self._question
        model, limits = question.site.model, question.site.given.limits
        spec, running = model.knobs[name], dict(question.site.knobs)
        if spec.kind in ("choice", "switch"):
            ends: list[tuple[int, int]] = [(value, value) for value in range(spec.low, spec.high + 1)]
        else:
            now = question.running.get(name, self._best_value(name))
            low, high = spec.domain()
            conditions = [require.holds for require in model.requires
                          if require.use in ("always", "moved") and not require.form
                          and (require.phase is not Phase.QUALITY or require.name in limits)]
            try:
                ends = rungs(question, running, name, (min(low, now), max(high, now)), conditions)
            except NotForBoxes:
                return
        joined: list[Rung] = []
        try:
            for rung in (part for low, high in ends for part in self._exact_rungs(name, running, low, high, spec.grid)):
                if joined and _alike(joined[-1], rung):
                    joined[-1] = replace(joined[-1], high=rung.high)
                else:
                    joined.append(rung)
        except MissingFacts:
            return  # somewhere on the way nobody can tell
        yield from joined

    def _exact_rungs(self, name: str, running: dict[str, int], low: int, high: int, grid: int) -> Iterator[Rung]:
        """A range as plain arithmetic has it, which is tighter at its ends than the search."""
        def rung(at: int) -> Rung:
            verdict, outcome, broken, missing = self._judged_at(running | {name: at}, along=False)
            if missing:
                raise MissingFacts(how_to_get(self._question.site.model, missing))
            return Rung(at, at, verdict, outcome, broken)

        first, last = rung(low), rung(high)
        while not _alike(first, last):
            below, above = low, high  # the first reads as at `below`, and no longer at `above`
            while above - below > grid:
                middle = below + (above - below) // grid // 2 * grid
                below, above = (middle, above) if _alike(first, rung(middle)) else (below, middle)
            yield replace(first, low=low, high=below)
            low = above
            first = rung(low)
        yield replace(first, low=low, high=high)

    def _stays(self, name: str) -> tuple[int | None, int | None] | None:
        from optimizer.lower import CannotLower, Lacking

        question = self._question
        if question.speed is not None:
            return None  # a step of a speed is finer than the stretches that the search has of the law
        try:
            return self._within(name) if name in question.free else self._unbeaten(name)
        except (CannotLower, Lacking, MissingFacts, Unknown, ValueError):
            return None

    def _within(self, name: str) -> tuple[int | None, int | None]:
        """The least and the greatest value of a free knob with which the goal stays within a step of its best."""
        from optimizer.lower import Stages

        question = self._question
        lowering = lowered(question, question.free, self._judged, question.bounds)
        lowering.zeroed = question.goal.shifts
        pair = lowering.number(question.goal.objective)
        side = pair.low if self._sign > 0 else pair.high
        limit = [(side, question.goal.sense, self._base - self._sign * (self._step - 1))]
        stages = Stages(lowering, self._seconds)
        low, high = question.free[name]
        found: list[int | None] = []
        for sense, end in (("min", low), ("max", high)):
            self._resolved += 1
            there = stages.run([(lowering.side_of(name), sense)], limits=limit)  # type: ignore[list-item]
            if there.status != "optimal":
                raise Unknown
            found.append(None if there.shape[name] == end else there.shape[name])
        return found[0], found[1]

    def _unbeaten(self, name: str) -> tuple[int | None, int | None]:
        """The values of a held knob between which the best shape fits and nothing beats it by a step of the goal."""
        question = self._question
        if name not in self._broken_at:
            raise Unknown
        spec = question.site.model.knobs[name]
        low, high = spec.domain()
        now = self._best_value(name)
        low, high = min(low, now // spec.grid * spec.grid), max(high, now)
        ends: list[int | None] = []
        for above in (False, True):
            nearest = [value for value in (self._broken_at[name][above],
                                           self._first_beaten(name, now, low, high, above)) if value is not None]
            if not nearest:
                ends.append(None)
            else:
                ends.append(min(nearest) - spec.grid if above else max(nearest) + spec.grid)
        return ends[0], ends[1]

    def _side(self, name: str, now: int, low: int, high: int, above: bool) -> tuple[int, int] | None:
        grid = self._question.site.model.knobs[name].grid
        first, last = (now + grid, high) if above else (low, now - grid)
        first = -(-first // grid) * grid
        return (first, last) if first <= last else None

    def _first_broken(self, names: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
        """For each held knob the values nearest below and above its own at which the best shape is not sure to hold."""
        from optimizer.many import OPEN, Away, first_broken

        question = self._question
        ways: list[Away] = []
        for name in names:
            spec, now = question.site.model.knobs[name], self._best_value(name)
            low, high = spec.domain()
            for sign, room in ((-1, now - low), (1, high - now)):
                ways.append(Away(name, False, point(now), sign, spec.grid, max(room // spec.grid, 0)))
        # a knob whose default follows from others is moved by itself: elsewhere it follows
        alone = [way for way in ways if way.name not in self._best.shape
                 and isinstance(question.site.model.knobs[way.name].default, Expr)]
        answers: dict[int, int | None] = {}
        for part in ([way for way in ways if way not in alone], *([way] for way in alone)):
            answers |= zip(map(id, part), first_broken(question, self._best.shape, part, self._conditions), strict=True)
        steps = [answers[id(way)] for way in ways]
        at = [None if step is None else way.value.low + way.sign * way.unit * step
              for way, step in zip(ways, steps, strict=True)]
        return {name: (at[2 * place], at[2 * place + 1]) for place, name in enumerate(names)
                if OPEN not in steps[2 * place:2 * place + 2]}

    @cached_property
    def _conditions(self) -> list[Cond]:
        """Everything that the best shape must meet, as far as facts allow to judge it."""
        question = self._question
        # a matter of form holds on the knob's own grid
        return [*(require.holds for require in self._judged if not require.form and self._readable(require.holds)),
                *(bound_condition(question.site.model, bound) for bound in question.bounds)]

    def _readable(self, condition: Cond) -> bool:
        reader = self._reader
        return not isinstance(reader.condition(condition), Missing)

    @cached_property
    def _reader(self) -> Reader:
        return self._at({})

    def _first_beaten(self, name: str, now: int, low: int, high: int, above: bool) -> int | None:
        """The value nearest to ``now`` at which some shape is a step better than the best shape is there."""
        ends = self._side(name, now, low, high, above)
        if ends is None:
            return None
        question = self._question
        lowering = lowered(question, {**question.free, name: ends}, self._judged, question.bounds)
        lowering.zeroed = question.goal.shifts
        as_best = lowering.holding({knob: self._best.shape[knob] for knob in question.free})
        as_best.zeroed = question.goal.shifts
        sides = []
        for part in (lowering, as_best):
            pair = part.number(question.goal.objective)
            sides.append(pair.low if self._sign > 0 else pair.high)
        possible = lowering.better(sides[0], sides[1], question.goal.sense, self._step)
        return self._nearest(lowering, possible, lowering.side_of(name), above)

    def _nearest(self, lowering: Any, possible: bool, side: Any, above: bool) -> int | None:
        from optimizer.lower import Stages

        self._resolved += 1
        if not possible:
            return None
        found = Stages(lowering, self._seconds).run([(side, "min" if above else "max")])
        if found.status == "infeasible":
            return None
        if found.status != "optimal":
            raise Unknown
        return found.objective

    def _why_nothing(self, name: str, down: Move | None, up: Move | None,
                     stays: tuple[int | None, int | None] | None) -> str:
        """Why no step of the knob changes the goal."""
        question, model = self._question, self._question.site.model
        steps = [self._at({name: move.to}) for move in (down, up) if move is not None]
        held = [require for require in self._judged if name in knobs_in(require.holds) and self._moves(require, steps)]
        objective = question.goal.objective
        found: list[str] = []
        if name in knobs_in(objective):
            move = next((move for move in (up, down) if move is not None and move.alone is not None), up or down)
            assert move is not None
            found += stops(objective, name, self._reader, self._at({name: move.to}), model)
            found = found or ["the goal has the same value there"]
        elif held:
            found.append("the goal is not written with it")
        else:
            found.append("neither the goal nor a constraint changes with it")
        if held:
            found.append(_kept_by(held, stays, model.knobs[name], self._best.binding))
        return "; ".join(found)

    def _moves(self, require: Require, steps: Sequence[Reader]) -> bool:
        """Whether the slack of a constraint, or whether it applies, is another at any of ``steps``."""
        def told(reader: Reader) -> tuple[object, object]:
            applies = reader.condition(require.unless)
            return applies, None if applies is True else reader.number(require.slack)

        return any(told(reader) != told(self._reader) for reader in steps)

    def _at(self, values: Mapping[str, int]) -> Reader:
        """Reads the best shape with these values, without what a ledger printed of one of them."""
        site = self._question.site
        return Reader(site.model, site.given, self._best.shape | dict(values), narrowed=False)

    # facts

    def _facts(self, known: Mapping[str, Interval]) -> list[FactWorth]:
        question = self._question
        site = question.site
        wide = [name for name, value in known.items() if not value.exact]
        asked = [self._with_fact(name, value) for name in wide
                 for value in (known[name].low, known[name].middle, known[name].high)]
        values = iter(self._values(asked))
        ends = {name: (next(values), next(values), next(values)) for name in wide}
        flips = self._flips(known)
        found = []
        for name, value in known.items():
            fact = site.facts.get(name)
            source = fact.source if fact is not None else self._folded_from(name)
            basis = fact.basis if fact is not None else "believed"
            three = ends.get(name)
            worst = middle = best = cost = None
            if three is not None:
                at = sorted((three[0], three[2]), key=lambda v: -(1 << 62) if v is None else self._sign * v)
                worst, middle, best = at[0], three[1], at[1]
                cost = self._gain(best)
            sides, undecided = flips[name]
            found.append(FactWorth(name, site.model.facts[name].unit, value, source, basis, sides, undecided, worst,
                                   middle, best, cost))
        return found

    def _folded_from(self, name: str) -> str:
        cards = [fact.source for key, fact in self._question.site.facts.items() if key.rpartition(".")[0] == name]
        return "; ".join(dict.fromkeys(cards)) or "the engine's declared value"

    def _known_facts(self) -> Iterator[tuple[str, Interval]]:
        """The facts that the goal or a constraint reads here, given ones and those with a declared interval."""
        question = self._question
        site, model = question.site, question.site.model
        exprs: list[Expr | Cond] = [question.goal.objective, *(require.holds for require in self._judged)]
        reader = self._reader
        for name, node in read_facts(exprs).items():
            spec = model.facts.get(name)
            if spec is None or spec.words or not spec.unit or name == "sessions":
                continue
            if name in site.given.facts:
                yield name, site.given.facts[name]
            elif node.otherwise is not None and spec.unit:
                value = reader.number(node.otherwise)
                if isinstance(value, Interval) and not value.exact and value.low >= 0:
                    yield name, value

    def _with_fact(self, name: str, value: int) -> Question:
        return with_facts(self._question, {name: point(value)})

    def _flips(self, known: Mapping[str, Interval]) -> dict[str, tuple[tuple[int | None, int | None], tuple[str, ...]]]:
        """How far each fact may drift down and up until the best shape is not sure to hold; what was not decided."""
        from optimizer.many import OPEN, Away, first_broken

        question = self._question
        ways: list[Away] = []
        for name, value in known.items():
            spec = question.site.model.facts[name]
            far = max(FAR * value.high, FAR_AT_LEAST if spec.unit == "B" else 1 << 20)
            for sign, room in ((-1, value.low - spec.least), (1, spec.cap - value.high)):
                ways.append(Away(name, True, value, sign, 1, max(min(far, room), 0)))
        steps = first_broken(question, self._best.shape, ways, self._conditions)
        found = {}
        for place, name in enumerate(known):
            down, up = (None if step == OPEN else step for step in steps[2 * place:2 * place + 2])
            undecided = [side for side, step in zip(("down", "up"), steps[2 * place:2 * place + 2], strict=True)
                         if step == OPEN]
            found[name] = ((down, up), tuple(undecided))
        return found

    # pairs

    def _together(self, knobs: Sequence[KnobWorth]) -> list[Together]:
        """Pairs of held knobs that are worth more together than each by itself, the most first."""
        held = [worth for worth in knobs if not worth.free]
        moves = {worth.knob: [move for move in (worth.down, worth.up) if move is not None and not move.why_not]
                 for worth in held}
        places = [((a.knob, one), (b.knob, two)) for a, b in combinations(held, 2)
                  for one, two in product(moves[a.knob], moves[b.knob])]
        asked = [self._held_at({a: one.to, b: two.to}) for (a, one), (b, two) in places]
        found = []
        for ((a, one), (b, two)), value in zip(places, self._answered(asked), strict=True):
            gain = self._gain(value)
            if gain is None:
                continue
            apart = one.reoptimised, two.reoptimised
            more = gain - max(0, apart[0] or 0, apart[1] or 0, (apart[0] or 0) + (apart[1] or 0))
            if more >= self._step:
                found.append(Together(((a, one.to), (b, two.to)), gain, apart, more))
        return sorted(found, key=lambda pair: -pair.more)


def _alike(one: Rung, other: Rung) -> bool:
    return (one.verdict, one.outcome, one.broken) == (other.verdict, other.outcome, other.broken)


def _read_by_laws(question: Question) -> set[str]:
    """The knobs that decide which law holds, and what it says."""
    found: set[str] = set()
    for used in question.speeds:
        spec = used.used
        for one in spec:
            found |= {key.knob for key in one.law.spec.keys} | {one.law.spec.slots, one.law.spec.window}
            for axis in one.law.spec.axes:
                expr = one.axis_expr(axis)
                found |= knobs_in(expr) if expr is not None else set()
    return found


def _steps(spec: KnobSpec, value: int) -> tuple[int | None, int | None]:
    """One operator's step down and up from ``value``, or as far as the knob goes; None at its end."""
    low, high = spec.domain() if spec.kind not in ("choice", "switch") else (spec.low, spec.high)
    low, high = min(low, value), max(high, value)
    step = 1 if spec.kind in ("choice", "switch") else -(-spec.step // spec.grid) * spec.grid
    down, up = max(value - step, low), min(value + step, high)
    down, up = -(-down // spec.grid) * spec.grid, up // spec.grid * spec.grid
    return (down if down < value else None), (up if up > value else None)


def _kept_by(requires: Sequence[Require], stays: tuple[int | None, int | None] | None, spec: KnobSpec,
             binding: Collection[str]) -> str:
    """How far the knob changes nothing: where the best shape stays best; else the constraints that move with it."""
    if stays is not None and stays != (None, None):
        low, high = (None if end is None else spec.show(end) for end in stays)
        ends = f"up to {high}" if low is None else f"from {low} up" if high is None else f"from {low} to {high}"
        return f"the best shape stays best {ends}"
    names = ", ".join(require.name for require in requires)
    one = len(requires) == 1
    if any(require.name in binding for require in requires):
        return f"{names} change{'s' * one} with it, by too little to count"
    return f"{names} change{'s' * one} with it, and do{'es' * one} not bind"


def read_facts(nodes: Iterable[Expr | Cond]) -> dict[str, Fact]:
    """The facts that ``nodes`` are written with, each with one place where it stands."""
    return {node.name: node for node in inside(nodes) if isinstance(node, Fact)}


def with_facts(question: Question, values: Mapping[str, Interval]) -> Question:
    """The question with other values of some facts; what a ledger printed for the old ones no longer narrows."""
    site = question.site
    given = replace(site.given, facts={**site.given.facts, **values}, printed={})
    return replace(question, site=replace(site, given=given))


def by_solver(question: Question, seconds: float) -> tuple[int | None, dict[str, int]]:
    """The best value of a question by CP-SAT, in the goal's own count at worst, and its shape; None where none holds.

    Raises Unknown where it is not proven in time.
    """
    from optimizer.lower import CannotLower, Lacking, Stages

    try:
        lowering = lowered(question, question.free, list(hard_requires(question)), question.bounds)
        lowering.zeroed = question.goal.shifts
        pair = lowering.number(question.goal.objective)
    except (Lacking, CannotLower, MissingFacts, ValueError):
        return None, {}
    side = pair.low if question.goal.sense == "max" else pair.high
    found = Stages(lowering, seconds).run([(side, question.goal.sense)])
    if found.status == "infeasible":
        return None, {}
    if found.status != "optimal":
        raise Unknown
    return found.objective, found.shape


def sensitivity_json(found: Sensitivity, spread: Spread | None = None) -> dict[str, Any]:
    """The whole answer of ``sensitivity``; gains and values are in the goal's unit."""
    question, model = found.question, found.question.site.model
    goal = question.goal
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(question.site),
        "goal": {"goal": goal.name, "meaning": goal.meaning, "sense": goal.sense, "unit": goal.unit,
                 "step": unscaled(found.step, goal.scale)},
        "given": {name: model.knobs[name].show(value) for name, value in question.given.items()},
        "bounds": [bound.label for bound in question.bounds if not bound.why],
        "within": [within_json(bound) for bound in question.bounds if bound.why],
        "best": {
            "shape": shape_json(model, found.best.checked.evaluation.shape),
            "changes": {name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
                        for name, (old, new) in found.best.changes.items()},
            "objective": objective_json(found.answer, found.best),
            "binding": list(what_binds(found.answer, found.best)),
        },
        "status": found.answer.status,
        "knobs": [_knob_json(found, worth) for worth in found.knobs],
        "facts": [_fact_json(found, worth) for worth in found.facts],
        "together": [_together_json(found, pair) for pair in found.together],
        "global": None if spread is None else _spread_json(found, spread),
        "resolved": found.resolved + (0 if spread is None else spread.resolved),
        "free": list(question.free),
        "held": list(question.held),
        "warnings": [*found.warnings, *found.answer.warnings],
    }
    if question.speeds:
        document["laws"] = laws_used_json(question.speeds)
        document["extrapolated"] = list(dict.fromkeys(text for speed in question.speeds for text in speed.extrapolated))
    return document


def _knob_json(found: Sensitivity, worth: KnobWorth) -> dict[str, Any]:
    scale, spec = found.question.goal.scale, worth.spec
    rows = found.question.site.model.rows

    def move(item: Move | None) -> dict[str, Any] | None:
        if item is None:
            return None
        return {"to": spec.show(item.to), "reoptimised": unscaled(item.reoptimised, scale),
                "fixed": unscaled(item.alone, scale),
                "fixed_verdict": None if item.verdict is None else item.verdict.word,
                "fixed_outcome": None if item.outcome is None else item.outcome.word, "why_not": item.why_not or None}

    def end(value: int | None) -> Any:
        return None if value is None else spec.show(value)

    return {
        "knob": worth.knob, "unit": spec.unit, "value": spec.show(worth.value),
        "step": spec.show(worth.step) if spec.kind not in ("choice", "switch") else None, "free": worth.free,
        "down": move(worth.down), "up": move(worth.up),
        "stays_best": None if worth.stays is None else {"from": end(worth.stays[0]), "to": end(worth.stays[1])},
        "running": [{"from": spec.show(rung.low), "to": spec.show(rung.high), "verdict": rung.verdict.word,
                     "outcome": rung.outcome.word, "broken": list(rung.broken)} for rung in worth.rungs],
        "moves": {name: {"by": by, "unit": rows[name].unit} for name, by in worth.moves.items()},
        "nothing": worth.nothing,
    }


def _fact_json(found: Sensitivity, worth: FactWorth) -> dict[str, Any]:
    scale = found.question.goal.scale
    return {
        "fact": worth.fact, "unit": worth.unit, "low": worth.value.low, "high": worth.value.high,
        "source": worth.source, "basis": worth.basis,
        "flips": {"down": worth.flips[0], "up": worth.flips[1], "open": list(worth.open)},
        "ends": None if worth.value.exact else {
            "pessimistic": unscaled(worth.pessimistic, scale), "middle": unscaled(worth.middle, scale),
            "optimistic": unscaled(worth.optimistic, scale)},
        "cost": unscaled(worth.cost, scale),
    }


def _together_json(found: Sensitivity, pair: Together) -> dict[str, Any]:
    scale, knobs = found.question.goal.scale, found.question.site.model.knobs
    return {
        "knobs": {name: knobs[name].show(value) for name, value in pair.knobs},
        "together": unscaled(pair.together, scale), "apart": [unscaled(gain, scale) for gain in pair.apart],
        "more": unscaled(pair.more, scale),
    }


def _spread_json(found: Sensitivity, spread: Spread) -> dict[str, Any]:
    from optimizer.spread import RULE

    scale = found.question.goal.scale

    def chance(item: Chance) -> dict[str, Any]:
        low, high = item.ends
        return {"share": item.share, "low": low, "high": high, "of": item.of}

    return {
        "facts": list(spread.facts), "samples": spread.samples, "seed": spread.seed, "rule": RULE,
        "best_fits": chance(spread.best), "running_fits": chance(spread.running),
        "goal": None if spread.quantiles is None else dict(zip(
            ("low", "median", "high"), (unscaled(value, scale) for value in spread.quantiles), strict=True)),
        "infeasible": spread.infeasible, "explained": spread.explained or None,
        "shares": [{"fact": share.fact, "alone": share.alone, "alone_half": share.alone_half, "total": share.total,
                    "total_half": share.total_half} for share in spread.shares],
    }
