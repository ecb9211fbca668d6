"""What every engine must pass. A generation inherits :class:`EngineContract` and says what it is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import ClassVar

import pytest
from ortools.sat.python import cp_model

from measurements.site import Site, knob_value
from models.declare import Goal, KnobSpec, Outcome, Verdict
from models.evaluate import Knobs, Reader, evaluate
from models.expr import Cond, Expr, Missing, Remainder
from models.interval import Interval, point
from optimizer.check import MissingFacts, check
from optimizer.lower import Holds, Lacking, Lowering, Pair, Side
from optimizer.solve import Answer, ask, solve
from tests.made_sites import Word, site, with_facts, with_grids

Words = Mapping[str, str | int]
Facts = Mapping[str, Word]
Names = tuple[str, ...]
Bounds = Mapping[str, tuple[int, int]]


class EngineContract:
    """One engine generation: a site that can be judged, the facts it cannot do without, and grids to rank on."""

    engine: ClassVar[str]
    container: ClassVar[str] = ""
    knobs: ClassVar[Words]
    facts: ClassVar[Facts]
    #: Facts without which no verdict may be given, whatever else is known; those in ``instead`` are asked for by
    #: the names of what they could be computed from.
    required: ClassVar[Names]
    instead: ClassVar[Mapping[str, Names]] = {}
    #: Bounds (in the knob's own unit) that random shapes are drawn from, and that the lowering opens.
    ranges: ClassVar[Bounds]
    #: Coarser grids for the goals whose finest answer takes long.
    grids: ClassVar[Mapping[str, int]] = {}
    sessions: ClassVar[int | None] = None

    @classmethod
    @cache
    def site(cls) -> Site:
        """The site of this generation, with every fact given."""
        return site(cls.engine, container=cls.container, knobs=cls.knobs, facts=cls.facts, sessions=cls.sessions)

    @classmethod
    def shapes(cls, count: int, seed: int) -> Iterator[dict[str, int]]:
        """Random shapes within the ranges, on the knobs' own grids; ends come up often."""
        rng = random.Random(f"{cls.__name__}{seed}")
        made = cls.site()
        for _ in range(count):
            running = Knobs(made.model, made.knobs)
            shape = dict(made.knobs) | {name: running[name].middle for name in cls.ranges}
            for name, (low, high) in cls.ranges.items():
                if rng.random() < 0.7:
                    grid = made.model.knobs[name].grid
                    value = rng.choice((low, high, rng.randint(low, high), rng.randint(low, high)))
                    shape[name] = max(value // grid * grid, -(-low // grid) * grid)
            yield shape

    # the declaration

    def test_the_site_can_be_judged(self) -> None:
        found = check(self.site())
        assert found.verdict is Verdict.FITS
        assert not found.evaluation.missing

    def test_every_default_is_a_value_of_its_knob(self) -> None:
        seen = 0
        model = self.site().model
        for name, spec in model.knobs.items():
            assert spec.name == name
            if spec.kind == "text" or spec.default is None:
                continue
            values = Knobs(model, {})
            if name not in values:
                assert isinstance(spec.default, Expr)
                continue
            value = values[name].middle
            assert spec.low <= value <= spec.high, name
            assert spec.parse(spec.write(value)) == value, name
            assert spec.inert or spec.default_source, f"nobody says where the default of {name} comes from"
            seen += 1
        assert seen > 10

    def test_every_knob_has_room_and_a_name_of_its_own(self) -> None:
        model = self.site().model
        spelled: dict[str, str] = {}
        for spec in model.knobs.values():
            low, high = spec.domain()
            assert spec.kind == "text" or low <= high, spec.name
            assert spec.step >= 1
            assert spec.grid >= 1
            for word in (spec.name, *spec.short):
                assert word not in spelled, f"{word} means {spelled.get(word)} and {spec.name}"
                spelled[word] = spec.name
        for gone in model.removed:
            assert gone.name not in model.knobs
            assert gone.instead
            assert gone.since
            with pytest.raises(Exception, match=f"gone since {gone.since}"):
                knob_value(model, gone.name, "1")

    def test_every_word_is_filled_in(self) -> None:
        model = self.site().model
        for require in model.requires:
            assert require.remedy.strip(), require.name
            assert require.source.strip(), require.name
        assert len({require.name for require in model.requires}) == len(model.requires)
        for fact in model.facts.values():
            assert fact.how.strip(), fact.name
        for name, row in model.rows.items():
            assert row.name == name
            assert row.source.strip()
            assert row.expr.name == name
        for name, (_, _, source) in model.constants.items():
            assert name in model.facts
            assert source.strip()
        by_name = {require.name for require in model.requires}
        reader = Reader(model, replace(self.site().given, facts={}), self.site().knobs)
        for when, names in model.needs:
            assert set(names) <= by_name or reader.condition(when) is False
        for goal in model.goals.values():
            assert set(goal.moves) <= set(model.knobs)
            assert goal.shifts <= set(model.facts)
            assert goal.meaning.strip()
        assert {name for name, _ in model.split} <= set(model.knobs)

    # arithmetic

    def test_intervals_hold_every_value_the_facts_allow(self) -> None:
        made = self.site()
        rng = random.Random(self.engine)
        decided = 0
        for shape in self.shapes(25, 1):
            whole = evaluate(made.model, made.given, shape)
            for _ in range(3):
                facts = {name: point(rng.choice((span.low, span.high, rng.randint(span.low, span.high))))
                         for name, span in made.given.facts.items()}
                exact = evaluate(made.model, replace(made.given, facts=facts), shape)
                for name, quantity in exact.quantities.items():
                    outer = whole.quantities[name]
                    assert outer.low <= quantity.low <= quantity.high <= outer.high, name
                    assert quantity.value is None or quantity.low <= quantity.value <= quantity.high
                for one, other in zip(whole.constraints, exact.constraints, strict=True):
                    if one.verdict in (Verdict.FITS, Verdict.DOES_NOT_FIT):
                        assert other.verdict is one.verdict, one.require.name
                        decided += 1
                assert exact.outcome in whole.outcomes or whole.outcome in exact.outcomes
        assert decided > 100

    def test_the_lowering_agrees_with_the_intervals(self) -> None:
        exact = with_facts(self.site(), {name: point(span.middle) for name, span in self.site().given.facts.items()})
        for made in (self.site(), exact):
            low, compared = 0, 0
            lowered = Lowered(made, self.ranges)
            for shape in self.shapes(20, 2):
                reader = Reader(made.model, made.given, shape)
                values = lowered.at(shape)
                for name, row in made.model.rows.items():
                    want, got = reader.number(row.expr), values.rows.get(name)
                    if isinstance(want, Missing):
                        continue
                    assert got is not None, f"{name} was not lowered"
                    # coarser only where a remainder of what is not exact enters
                    assert got.low <= want.low <= want.high <= got.high, (name, shape)
                    compared += 1
                    low += got == want
                for require in made.model.requires:
                    truth = reader.condition(require.holds)
                    sure, maybe = values.conditions.get(require.name, (None, None))
                    if isinstance(truth, Missing) or sure is None:
                        continue
                    same = (sure, maybe) == {True: (True, True), None: (False, True), False: (False, False)}[truth]
                    coarse = not sure and maybe and takes_remainders(require.holds)
                    assert same or (coarse and (made is not exact or not self.tight)), (require.name, shape)
            assert compared > 50
            assert low >= compared * (1 if made is exact and self.tight else 0.5)

    #: Whether every row is exact in the lowering once all facts are: no uncertainty is declared in.
    tight: ClassVar[bool] = True

    #: Bytes by which the middle of a stack's parts may be off, where a part's own range is lopsided.
    play: ClassVar[int] = 0

    def test_every_stack_adds_up(self) -> None:
        """The parts make up the total, for every value the facts allow, and to the byte where they are points."""
        rng = random.Random(f"{self.engine} stacks")
        made = self.site()
        names = {stack.name for stack in made.model.stacks}
        assert "host" in names
        for stack in made.model.stacks:
            assert stack.source.strip()
            assert stack.instead_of in ("", *names)
            assert len({name for name, _ in stack.parts}) == len(stack.parts) > 1
        whole = close = 0
        for shape in (made.knobs, *self.shapes(50, 7)):
            points = {name: point(rng.randint(span.low, span.high)) for name, span in made.given.facts.items()}
            for exact, given in enumerate((made.given, replace(made.given, facts=points))):
                reader = Reader(made.model, given, shape)
                if Outcome.REFUSED_AT_BOOT in evaluate(made.model, given, shape, reader).outcomes:
                    continue  # what is not divided does not add up
                for stack in made.model.stacks:
                    numbers = [reader.number(expr) for expr in (stack.total, *(expr for _, expr in stack.parts))]
                    known = [number for number in numbers if isinstance(number, Interval)]
                    if len(known) < len(numbers) or reader.condition(stack.when) is not True:
                        continue
                    total, added = known[0], sum(known[1:], point(0))
                    assert total.meet(added), (stack.name, shape)
                    whole += 1
                    if total.exact and exact:  # what enters twice with either sign leaves the middle where it is
                        assert abs(total.low - added.middle) <= len(known) + self.play, (stack.name, shape)
                        close += 1
        assert whole >= 10
        assert close >= 5

    # questions

    def goals(self) -> list[Goal]:
        """The goals this generation has."""
        return list(self.site().model.goals.values())

    def test_rows_that_share_an_amount_are_rows_of_one_unit(self) -> None:
        """``verdict`` sets beside a row that lost something those that may have got it."""
        model = self.site().model
        printed = {name for name, _ in model.prints}
        assert model.shares
        for names in model.shares:
            assert len(set(names)) > 1
            assert len({model.rows[name].unit for name in names}) == 1
            assert len(printed.intersection(names)) > 1

    def test_every_returned_shape_passes_the_check(self) -> None:
        solved = 0
        for goal in self.goals():
            made = with_grids(self.site(), self.grids)
            answer = solve(ask(made, goal.name))
            assert answer.status == "optimal", goal.name
            assert answer.shapes
            for ranked in answer.shapes:
                found = check(self.site(), ranked.shape)
                assert found.verdict is Verdict.FITS, (goal.name, ranked.rank)
                assert {n: v for n, v in ranked.shape.items() if answer.question.base.get(n) != v}.keys() <= (
                    answer.question.free.keys()), "a knob that was held has moved"
                solved += 1
            sign = 1 if goal.sense == "max" else -1
            values = [sign * (r.objective.low if goal.sense == "max" else r.objective.high) for r in answer.shapes]
            assert values == sorted(values, reverse=True), goal.name
            free = answer.question.free
            for place, one in enumerate(answer.shapes):
                for other in answer.shapes[:place]:
                    apart = [abs(one.shape[n] - other.shape[n]) >= made.model.knobs[n].step for n in free]
                    assert any(apart), (goal.name, one.rank, other.rank)
            assert [r.rank for r in answer.shapes] == list(range(1, len(answer.shapes) + 1))
            # rank 1 is no worse than what runs now
            now = Reader(made.model, made.given, made.knobs).shifted(goal.objective, goal.shifts)
            assert isinstance(now, Interval)
            assert values[0] >= sign * (now.low if goal.sense == "max" else now.high), goal.name
        assert solved >= 2 * len(self.goals())

    def test_equal_questions_get_equal_answers(self) -> None:
        made = with_grids(self.site(), self.grids)
        for goal in self.goals()[1:3]:
            first, second = (solve(ask(made, goal.name, top=2)) for _ in range(2))
            assert [r.shape for r in first.shapes] == [r.shape for r in second.shapes]

    def test_a_fact_that_only_shifts_a_goal_shifts_it_by_a_constant(self) -> None:
        made = self.site()
        for goal in self.goals():
            opened = ask(made, goal.name).free
            for fact in sorted(goal.shifts):
                rest = {name: span for name, span in made.given.facts.items() if name != fact}
                try:
                    solve(ask(with_facts(with_grids(made, self.grids), rest), goal.name, top=1))
                except MissingFacts:
                    continue  # it is asked for, so it shifts nothing silently
                moved = set()
                spec = made.model.facts[fact]
                rng = random.Random(fact)
                pairs = [(point(0), point(rng.randint(1, 1 << 33))) for _ in range(2)]
                for shape in self.shapes(40, 3):
                    shape = dict(made.knobs) | {n: v for n, v in shape.items() if n in opened}
                    for number, (one, other) in enumerate(pairs):
                        readers = [Reader(made.model, replace(made.given, facts=rest | {fact: value}), shape)
                                   for value in (one, other)]
                        first, second = (reader.shifted(goal.objective, goal.shifts) for reader in readers)
                        assert isinstance(first, Interval)
                        assert isinstance(second, Interval)
                        moved.add((number, second.low - first.low, second.high - first.high))
                assert len(moved) == len(pairs), f"{spec.name} bends {goal.name}"

    def lacking(self, fact: str) -> Site:
        """The site without ``fact`` (or without the knob of that name)."""
        made = self.site()
        if fact in made.knobs:
            knobs = {name: value for name, value in made.knobs.items() if name != fact}
            return replace(made, knobs=knobs, filed=knobs, given=replace(made.given, as_is=knobs))
        assert fact in made.given.facts, fact
        return with_facts(made, {name: span for name, span in made.given.facts.items() if name != fact})

    def test_a_required_fact_is_asked_for(self) -> None:
        assert self.required
        for fact in self.required:
            names = set(self.instead.get(fact, (fact,)))
            with pytest.raises(MissingFacts) as caught:
                check(self.lacking(fact))
            assert names <= {item["name"] for item in caught.value.missing}, fact
            assert all(item["how"] for item in caught.value.missing)

    def test_no_answer_rests_on_a_fact_nobody_gave(self) -> None:
        for fact in self.required:
            names = set(self.instead.get(fact, (fact,)))
            lacking = with_grids(self.lacking(fact), self.grids)
            for goal in self.goals():
                answer, missing = answered(lacking, goal)
                if answer is None:
                    assert names <= missing, (fact, goal.name)
                    continue
                # a shape that can be judged without the fact: it must pass with it, and say what it leaves open
                for ranked in answer.shapes:
                    assert check(self.site(), ranked.shape).verdict is Verdict.FITS, (fact, goal.name)
                    for c in ranked.checked.evaluation.constraints:
                        if c.missing & names:
                            assert any(text.startswith(f"{c.require.name} cannot be decided without")
                                       for text in ranked.checked.warnings), (fact, goal.name, c.require.name)

    def test_no_facts_no_number(self) -> None:
        empty = with_facts(self.site(), {})
        with pytest.raises(MissingFacts):
            check(empty)

    def test_every_knob_can_be_opened(self) -> None:
        made = with_grids(self.site(), self.grids)
        opened = [spec for spec in made.model.knobs.values() if can_open(spec)]
        assert len(opened) > 8
        for spec in opened:
            answer = solve(ask(made, "sessions", free=[spec.name], top=1))
            assert spec.name in answer.question.free
            assert answer.status == "optimal", spec.name
            assert check(self.site(), answer.shapes[0].shape).verdict is Verdict.FITS


def answered(made: Site, goal: Goal) -> tuple[Answer | None, set[str]]:
    """The answer of a solve, or the names of the facts it asks for."""
    try:
        return solve(ask(made, goal.name, top=2)), set()
    except MissingFacts as error:
        return None, {item["name"] for item in error.missing}


def takes_remainders(node: object) -> bool:
    """Whether a remainder enters, which the lowering bounds by its modulus alone where it is not exact."""
    seen: set[int] = set()
    queue: list[object] = [node]
    while queue:
        item = queue.pop()
        if isinstance(item, Remainder):
            return True
        if isinstance(item, tuple):
            queue += item
        elif isinstance(item, Expr | Cond) and id(item) not in seen:
            seen.add(id(item))
            queue += [getattr(item, field.name) for field in fields(item)]  # type: ignore[arg-type]
    return False


def can_open(spec: KnobSpec) -> bool:
    """Whether ``--free`` takes the knob."""
    return spec.kind != "text" and not spec.inert and spec.name != "tp"


class Values:
    """Rows as intervals and constraints as (sure, maybe), at one shape."""

    def __init__(self, rows: dict[str, Interval], conditions: dict[str, tuple[bool, bool]]) -> None:
        self.rows = rows
        self.conditions = conditions


class Lowered:
    """A whole model lowered once over ranges of knobs, then read at single shapes by the solver."""

    def __init__(self, made: Site, ranges: Mapping[str, tuple[int, int]]) -> None:
        held = {name: value for name, value in made.knobs.items() if name not in ranges}
        self._lowering = Lowering(made.model, made.given, held, ranges)
        self._ranges = ranges
        self._rows: dict[str, Pair] = {}
        self._holds: dict[str, Holds] = {}
        for name, row in made.model.rows.items():
            try:
                self._rows[name] = self._lowering.number(row.expr)
            except Lacking:
                continue
        for require in made.model.requires:
            try:
                self._holds[require.name] = self._lowering.condition(require.holds)
            except Lacking:
                continue

    def at(self, shape: Mapping[str, int]) -> Values:
        """What the solver makes of every row and constraint once each opened knob has its value."""
        cp = self._lowering.cp.clone()
        for name in self._ranges:
            side = self._lowering.side_of(name)
            if not side.fixed:
                cp.add(side.expr == shape[name])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.auto_detect_greater_than_at_least_one_of = False  # as in Stages
        status = solver.status_name(solver.solve(cp))
        assert status in ("OPTIMAL", "FEASIBLE"), f"{status} at {shape}"

        def number(side: Side) -> int:
            value = side.low if side.fixed else solver.value(side.expr)
            assert side.low <= value <= side.high
            return value

        def truth(literal: object) -> bool:
            return literal if isinstance(literal, bool) else bool(solver.value(literal))  # type: ignore[arg-type]

        rows = {name: Interval(number(pair.low), number(pair.high)) for name, pair in self._rows.items()}
        holds = {name: (truth(found.sure), truth(found.maybe)) for name, found in self._holds.items()}
        return Values(rows, holds)
