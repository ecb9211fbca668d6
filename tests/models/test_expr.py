"""Expressions: the interval reading holds every value of the point reading, and text names what it reads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.declare import row
from models.expr import (
    ALWAYS,
    NEVER,
    Agree,
    AsIs,
    Cond,
    Const,
    Expr,
    Fact,
    Knob,
    Missing,
    OnIntervals,
    OnNominal,
    Truth,
    Value,
    Walk,
    align_down,
    align_up,
    between,
    ceil_div,
    lift,
    maximum,
    minimum,
    remainder,
    select,
    total,
)
from models.interval import Interval, point

NAMES = ("a", "b", "c")


def walk(facts: Mapping[str, Interval], printed: Mapping[str, Interval] | None = None) -> Walk[Value, Truth]:
    return Walk(OnIntervals(knobs={"k": point(5)}, as_is={"k": point(7)}, facts=facts, printed=printed))


def value(node: Expr, **facts: int) -> int:
    found = walk({name: point(at) for name, at in facts.items()}).number(node)
    assert isinstance(found, Interval)
    assert found.exact
    return found.low


@st.composite
def conditions(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Cond:
    left, right = draw(inner), draw(inner)
    one = draw(st.sampled_from([left <= right, left < right, left >= right, left > right, left.equals(right)]))
    match draw(st.integers(0, 4)):
        case 0:
            return ~one
        case 1:
            return one & (draw(inner) <= draw(inner))
        case 2:
            return one | (draw(inner) <= draw(inner))
    return one


def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    divisor = st.integers(1, 12)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: minimum(*p)),
        pairs.map(lambda p: maximum(*p)),
        st.tuples(inner, divisor).map(lambda p: p[0] // p[1]),
        pairs.map(lambda p: p[0] // maximum(p[1], 1)),
        st.tuples(inner, divisor).map(lambda p: remainder(p[0], p[1])),
        st.tuples(inner, divisor).map(lambda p: ceil_div(p[0], p[1])),
        st.tuples(conditions(inner), inner, inner).map(lambda p: select(p[0], p[1], p[2])),
    )


LEAVES: st.SearchStrategy[Expr] = st.one_of(st.integers(-20, 20).map(Const), st.sampled_from([Fact(n) for n in NAMES]))
EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=12)
RANGES = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(st.integers(-30, 30), st.integers(0, 12)).map(lambda p: Interval(p[0], p[0] + p[1])),
    min_size=3, max_size=3,
)


@given(EXPRESSIONS, RANGES, st.data())
@settings(max_examples=400, deadline=None)
def test_intervals_hold_every_point(node: Expr, facts: dict[str, Interval], data: st.DataObject) -> None:
    whole = walk(facts).number(node)
    assert isinstance(whole, Interval)
    for _ in range(4):
        at = {name: data.draw(st.integers(span.low, span.high)) for name, span in facts.items()}
        assert value(node, **at) in whole


@given(conditions(EXPRESSIONS), RANGES, st.data())
@settings(max_examples=300, deadline=None)
def test_a_decided_condition_holds_at_every_point(node: Cond, facts: dict[str, Interval], data: st.DataObject) -> None:
    whole = walk(facts).condition(node)
    for _ in range(4):
        at = {name: point(data.draw(st.integers(span.low, span.high))) for name, span in facts.items()}
        truth = walk(at).condition(node)
        assert isinstance(truth, bool)
        if whole is not None:
            assert truth is whole


@given(st.integers(-99, 99), st.integers(-99, 99), st.integers(1, 9))
def test_operators_mean_what_python_means(a: int, b: int, n: int) -> None:
    x, y = Fact("a"), Fact("b")
    facts = {"a": a, "b": b}
    assert value(x + 3 - y * 2, **facts) == a + 3 - b * 2
    assert value(10 - x, **facts) == 10 - a
    assert value(2 + x, **facts) == value(x + 2, **facts) == a + 2
    assert value(x // n, **facts) == a // n
    assert value(remainder(x, n), **facts) == a % n
    assert value(ceil_div(x, n), **facts) == -(-a // n)
    assert value(align_up(x, n), **facts) == -(-a // n) * n
    assert value(align_down(x, n), **facts) == a // n * n
    assert value(minimum(x, y, 4), **facts) == min(a, b, 4)
    assert value(maximum(x, y, 4), **facts) == max(a, b, 4)
    assert value(select(x < y, x, y), **facts) == min(a, b)
    assert value(select(x.equals(y), 1, 0), **facts) == int(a == b)
    assert value(select(~(x <= y), 1, 0), **facts) == int(a > b)
    assert value(total([x, y, lift(1)]), **facts) == a + b + 1
    assert value(total([]), **facts) == 0


def test_division_by_what_may_be_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="not positive"):
        walk({"a": Interval(0, 3)}).number(lift(1) // Fact("a"))


def test_both_sides_of_an_open_condition_are_joined() -> None:
    node = select(Fact("a") <= 5, 100, 200)
    assert walk({"a": Interval(4, 6)}).number(node) == Interval(100, 200)
    assert walk({"a": Interval(4, 5)}).number(node) == point(100)
    assert walk({"a": Interval(6, 9)}).number(node) == point(200)


def test_a_branch_not_taken_asks_for_nothing() -> None:
    node = select(Knob("k") <= 5, 1, Fact("absent"))
    assert walk({}).number(node) == point(1)
    assert walk({}).number(select(Knob("k") <= 4, 1, Fact("absent"))) == Missing(frozenset({"absent"}))


def test_what_is_missing_is_named() -> None:
    node = Fact("x") + Fact("y", Fact("z")) + Knob("unset")
    assert walk({}).number(node) == Missing(frozenset({"x", "z", "unset"}))
    assert walk({"x": point(1), "y": point(2)}).number(node) == Missing(frozenset({"unset"}))
    assert walk({}).condition((Fact("x") <= 1) & NEVER) is False
    assert walk({}).condition((Fact("x") <= 1) | ALWAYS) is True
    assert walk({}).condition((Fact("x") <= 1) | NEVER) == Missing(frozenset({"x"}))


def test_a_fact_not_given_is_computed_otherwise() -> None:
    node = Fact("x", Knob("k") * 2)
    assert walk({}).number(node) == point(10)
    assert walk({"x": point(3)}).number(node) == point(3)
    assert walk({}).number(AsIs("k")) == point(7)


def test_between_holds_both_ends_and_names_the_best() -> None:
    node = between(2, 9, 4)
    assert walk({}).number(node) == Interval(2, 9)
    assert Walk(OnNominal(knobs={}, as_is={}, facts={})).number(node) == point(4)
    assert Walk(OnNominal(knobs={}, as_is={}, facts={})).number(between(2, 9)) == point(5)


def test_a_printed_row_narrows_and_never_replaces() -> None:
    named = row("r", Fact("a"))
    read = walk({"a": Interval(0, 10)}, {"r": Interval(4, 20)})
    assert read.number(named + 1) == Interval(5, 11)
    algebra = OnIntervals(knobs={}, as_is={}, facts={"a": Interval(0, 10)}, printed={"r": Interval(11, 20)})
    assert Walk(algebra).number(named) == Interval(0, 10)
    assert algebra.contradicted == {"r"}


def test_ways_of_knowing_one_value() -> None:
    node = Agree("v", (Fact("a"), Fact("b")))
    assert walk({"a": Interval(0, 5), "b": Interval(3, 9)}).number(node) == Interval(3, 5)
    assert walk({"b": Interval(3, 9)}).number(node) == Interval(3, 9)
    assert isinstance(walk({}).number(node), Missing)
    algebra = OnIntervals(knobs={}, as_is={}, facts={"a": Interval(0, 1), "b": Interval(3, 9)})
    assert Walk(algebra).number(node) == Interval(0, 9)
    assert algebra.contradicted == {"v"}
