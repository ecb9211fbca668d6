"""The encoding for CP-SAT: random expressions, the solver's own slips, and what cannot be encoded."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from models.declare import EngineModel, KnobSpec
from models.evaluate import Given
from models.expr import (
    AtMost,
    Cond,
    Const,
    Expr,
    Fact,
    Knob,
    OnIntervals,
    Truth,
    Value,
    Walk,
    between,
    ceil_div,
    lift,
    maximum,
    minimum,
    remainder,
    select,
)
from models.interval import Interval, point
from optimizer.lower import CannotLower, Lacking, Lowering, Side, Stages, changed, far_from, moved

KNOBS = {
    "p": KnobSpec("p", low=-8, high=9), "q": KnobSpec("q", low=1, high=7), "r": KnobSpec("r", low=0, high=40, grid=5),
}
RANGES = {"p": (-8, 9), "q": (1, 7), "r": (0, 40)}


def model(knobs: Mapping[str, KnobSpec] = KNOBS) -> EngineModel:
    """A model with knobs alone."""
    return EngineModel(
        name="none", version="0", basis="read", container="", knobs=knobs, facts={}, rows={}, requires=(), goals={},
        no_goals={}, split=(), needs=(), sessions=lift(1), spare=lift(0))


def lowering(facts: Mapping[str, Interval], ranges: Mapping[str, tuple[int, int]] = RANGES) -> Lowering:
    return Lowering(model(), Given({}, facts), {}, ranges)


def solved(low: Lowering, shape: Mapping[str, int]) -> tuple[cp_model.CpSolver, str]:
    cp = low.cp.clone()
    for name, value in shape.items():
        cp.add(low.side_of(name).expr == value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.auto_detect_greater_than_at_least_one_of = False
    return solver, solver.status_name(solver.solve(cp))


def number(solver: cp_model.CpSolver, side: Side) -> int:
    return side.low if side.fixed else solver.value(side.expr)


def read(facts: Mapping[str, Interval], shape: Mapping[str, int]) -> Walk[Value, Truth]:
    return Walk(OnIntervals(knobs={name: point(value) for name, value in shape.items()}, as_is={}, facts=facts))


def conditions(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Cond]:
    one: st.SearchStrategy[Cond] = st.tuples(inner, inner).map(lambda p: p[0] <= p[1])
    both = st.tuples(one, one)
    return st.one_of(one, one.map(lambda c: ~c), both.map(lambda p: p[0] & p[1]), both.map(lambda p: p[0] | p[1]))


def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]), pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: minimum(*p)), pairs.map(lambda p: maximum(*p)),
        pairs.map(lambda p: maximum(p[0], 0) * maximum(p[1], 0)),
        st.tuples(inner, st.integers(-5, 5)).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] // p[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: ceil_div(p[0], p[1])),
        pairs.map(lambda p: maximum(p[0], 0) // maximum(p[1], 1)),
        st.tuples(conditions(inner), inner, inner).map(lambda p: select(*p)),
        pairs.map(lambda p: between(*p)),
    )


LEAVES: st.SearchStrategy[Expr] = st.one_of(
    st.integers(-9, 9).map(Const), st.sampled_from([Knob(name) for name in KNOBS]),
    st.sampled_from([Fact("a"), Fact("b")]))
EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=8)
SPANS = st.tuples(st.integers(-9, 9), st.integers(0, 4)).map(lambda p: Interval(p[0], p[0] + p[1]))


@given(EXPRESSIONS, SPANS, SPANS, st.integers(-8, 9), st.integers(1, 7), st.integers(0, 8))
@settings(max_examples=250, deadline=None)
def test_both_sides_are_the_intervals_own(node: Expr, a: Interval, b: Interval, p: int, q: int, r: int) -> None:
    facts, shape = {"a": a, "b": b}, {"p": p, "q": q, "r": 5 * r}
    low = lowering(facts)
    pair = low.number(node)
    solver, status = solved(low, shape)
    assert status == "OPTIMAL"
    assert read(facts, shape).number(node) == Interval(number(solver, pair.low), number(solver, pair.high))
    assert pair.low.low <= number(solver, pair.low) <= pair.low.high


@given(conditions(EXPRESSIONS), SPANS, SPANS, st.integers(-8, 9), st.integers(1, 7), st.integers(0, 8))
@settings(max_examples=250, deadline=None)
def test_conditions_and_demands(node: Cond, a: Interval, b: Interval, p: int, q: int, r: int) -> None:
    facts, shape = {"a": a, "b": b}, {"p": p, "q": q, "r": 5 * r}
    low = lowering(facts)
    holds = low.condition(node)
    solver, status = solved(low, shape)
    assert status == "OPTIMAL"
    said = [one if isinstance(one, bool) else bool(solver.value(one)) for one in (holds.sure, holds.maybe)]
    truth = read(facts, shape).condition(node)
    assert said == {True: [True, True], None: [False, True], False: [False, False]}[truth]  # type: ignore[index]
    demanded = lowering(facts)
    demanded.demand(node)
    assert (solved(demanded, shape)[1] == "OPTIMAL") is (truth is True)


@given(st.integers(1, 12), st.integers(-30, 30))
def test_a_remainder_is_exact_where_its_number_is(modulus: int, shift: int) -> None:
    low = lowering({})
    node = remainder(Knob("p") * 3 + shift, modulus)
    pair = low.number(node)
    solver, _ = solved(low, {"p": 5, "q": 1, "r": 0})
    assert number(solver, pair.low) == number(solver, pair.high) == (15 + shift) % modulus
    wide = lowering({"a": Interval(0, 1)}).number(remainder(Fact("a"), modulus))
    assert (wide.low.low, wide.high.high) == (0, modulus - 1)  # coarser than the interval reading, never narrower


def test_the_solver_answers_rightly_past_33_bits() -> None:
    # ortools 9.15 calls this infeasible unless told not to look for one of its patterns
    knobs = {"x": KnobSpec("x", low=1, high=256), "y": KnobSpec("y", low=1_585_545_216, high=28_674_190_891)}
    low = Lowering(model(knobs), Given({}, {}), {}, {name: (spec.low, spec.high) for name, spec in knobs.items()})
    low.condition(Knob("x") * 1_096_724_480 + 471_867_392 <= Knob("y"))
    assert Stages(low, 5).possible({})


def test_the_optimum_of_byte_counts_is_right() -> None:
    rng = random.Random(9)
    for _ in range(60):
        scale, page = rng.randint(1 << 20, 1 << 30), rng.randint(1 << 10, 1 << 16)
        room, most = rng.randint(1 << 30, 1 << 36), rng.randint(2, 300)
        knobs = {"x": KnobSpec("x", low=1, high=most), "y": KnobSpec("y", low=0, high=1 << 20)}
        low = Lowering(model(knobs), Given({}, {}), {}, {name: (spec.low, spec.high) for name, spec in knobs.items()})
        use = Knob("x") * scale + Knob("y") * page
        low.demand((use <= room) | (Knob("x") <= 1))
        value = low.number(minimum(use, room)).low
        found = Stages(low, 5).run([(value, "max")])
        best = max(
            min(x * scale + y * page, room)
            for x in range(1, most + 1)
            for y in {0, min(max((room - x * scale) // page, 0), 1 << 20), 1 << 20}
            if x * scale + y * page <= room or x <= 1
        )
        assert found.status == "optimal"
        assert found.objective == best


def test_products_take_sums_of_knobs() -> None:
    low = lowering({})
    pair = low.number((Knob("q") + Knob("r") + 1) * (Knob("q") + Knob("r")))
    quotient = low.number((Knob("r") + Knob("q") * 9) // (Knob("q") + Knob("r")))
    solver, status = solved(low, {"p": 0, "q": 4, "r": 25})
    assert status == "OPTIMAL"
    assert number(solver, pair.low) == 30 * 29
    assert number(solver, quotient.low) == (25 + 36) // 29


def test_what_cannot_be_encoded_is_said() -> None:
    low = lowering({})
    with pytest.raises(CannotLower, match="may be negative"):
        low.number(Knob("p") * Knob("q"))
    with pytest.raises(CannotLower, match="may not be positive"):
        low.number(Knob("q") // Knob("p"))
    with pytest.raises(CannotLower, match="60 bits"):
        low.number(Knob("q") * (1 << 59))


def test_a_missing_fact_is_named_and_may_count_as_nothing() -> None:
    low = lowering({})
    with pytest.raises(Lacking) as caught:
        low.number(Fact("x") + Knob("p"))
    assert caught.value.names == {"x"}
    low.zeroed = frozenset({"x"})
    pair = low.number(Fact("x") + 3)
    assert (pair.low.low, pair.high.high) == (3, 3)


def test_a_knob_without_a_value_between_its_bounds() -> None:
    with pytest.raises(ValueError, match="no value between"):
        lowering({}, {"r": (1, 4)})


def test_distances_from_a_shape() -> None:
    low = lowering({}, {"q": (1, 7), "r": (0, 40)})
    here = {"q": 3, "r": 10}
    steps = {"q": 2, "r": 5}
    count, far = changed(low, here), moved(low, here, steps)
    assert Stages(low, 5).run([(count, "min")]).shape == here
    assert Stages(low, 5).run([(far, "min")]).objective == 0
    seen = [here]
    for _ in range(3):
        far_from(low, seen[-1], steps)
        found = Stages(low, 5).run([(low.side_of("q"), "min"), (low.side_of("r"), "min")])
        assert all(abs(found.shape["q"] - s["q"]) >= 2 or abs(found.shape["r"] - s["r"]) >= 5 for s in seen)
        seen.append(found.shape)
    assert len({tuple(shape.values()) for shape in seen}) == 4


def test_stages_are_held_one_after_another() -> None:
    low = lowering({}, {"p": (-8, 9), "q": (1, 7)})
    low.demand(AtMost(Knob("p") + Knob("q"), lift(9)))
    total = low.number(Knob("p") + Knob("q")).low
    found = Stages(low, 5).run([(total, "max"), (low.side_of("q"), "max")])
    assert (found.status, found.objective, found.shape) == ("optimal", 9, {"p": 2, "q": 7})
    low.demand(lift(1) <= 0)
    assert Stages(low, 5).run([(total, "max")]).status == "infeasible"
    assert not Stages(low, 5).possible({})
