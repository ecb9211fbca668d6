"""Curves as expressions: the value between two points, all values of an interval, and where there is none."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.expr import (
    Const,
    Curve,
    Expr,
    Fact,
    Knob,
    Missing,
    OnIntervals,
    OnNominal,
    Walk,
    facts_in,
    knobs_in,
    maximum,
    select,
)
from models.interval import MIB, Interval, point

BIG = 10**9


@st.composite
def curves(draw: st.DrawFn, widest: int = BIG, highest: int = BIG) -> Curve:
    """Any curve of 2 to 12 points; half of them with small steps, so that neighbours and flat parts occur."""
    small = draw(st.booleans())
    step = st.integers(1, 4 if small else max(widest // 12, 1))
    xs = [draw(st.integers(-widest, widest))]
    for gap in draw(st.lists(step, min_size=1, max_size=11)):
        xs.append(xs[-1] + gap)
    high = 4 if small else highest
    ys = draw(st.lists(st.integers(-high, high), min_size=len(xs), max_size=len(xs)))
    return Curve("what is asked", Knob("x"), tuple(xs), tuple(ys))


@st.composite
def curves_with_places(draw: st.DrawFn) -> tuple[Curve, int]:
    curve = draw(curves())
    anywhere = st.integers(curve.xs[0], curve.xs[-1])
    return curve, draw(st.one_of(anywhere, st.sampled_from(curve.xs)))


@st.composite
def curves_with_spans(draw: st.DrawFn) -> tuple[Curve, int, int]:
    curve = draw(curves(widest=40, highest=60))
    low = draw(st.integers(curve.xs[0], curve.xs[-1]))
    return curve, low, draw(st.integers(low, curve.xs[-1]))


def naive(curve: Curve, x: int) -> int:
    """The value at ``x`` by fractions: the first pair of points around it, the share of the way, rounded down."""
    points = list(zip(curve.xs, curve.ys, strict=True))
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            return floor(y0 + Fraction(x - x0, x1 - x0) * (y1 - y0))
    raise AssertionError(f"{x} lies outside")


def read(node: Expr, x: Interval | None, facts: dict[str, Interval] | None = None) -> Interval | Missing:
    knobs = {} if x is None else {"x": x}
    return Walk(OnIntervals(knobs=knobs, as_is={}, facts=facts or {})).number(node)


@given(curves_with_places())
@settings(max_examples=200, deadline=None)
def test_a_value_is_the_share_of_the_way_rounded_down(found: tuple[Curve, int]) -> None:
    curve, x = found
    assert curve.at(x) == naive(curve, x)
    assert curve.over(x, x) == point(naive(curve, x))
    assert read(curve, point(x)) == point(naive(curve, x))


@given(curves())
@settings(max_examples=100, deadline=None)
def test_a_curve_goes_through_its_points(curve: Curve) -> None:
    assert [curve.at(x) for x in curve.xs] == list(curve.ys)
    assert curve.over(curve.xs[0], curve.xs[-1]) == Interval(min(curve.ys), max(curve.ys))


@given(curves_with_spans())
@settings(max_examples=200, deadline=None)
def test_an_interval_has_the_values_of_all_its_members_and_no_others(found: tuple[Curve, int, int]) -> None:
    curve, low, high = found
    values = [naive(curve, x) for x in range(low, high + 1)]
    assert curve.over(low, high) == Interval(min(values), max(values))
    assert read(curve, Interval(low, high)) == Interval(min(values), max(values))


@given(curves_with_spans(), st.integers(1, 50), st.booleans())
@settings(max_examples=100, deadline=None)
def test_beyond_its_points_it_has_no_value(found: tuple[Curve, int, int], by: int, below: bool) -> None:
    curve, low, high = found
    none = Missing(frozenset(("what is asked",)))
    outside = curve.xs[0] - by if below else curve.xs[-1] + by
    assert read(curve, point(outside)) == none
    # where some values of the interval lie outside, the value is not known either
    assert read(curve, Interval(outside, high) if below else Interval(low, outside)) == none


@given(curves_with_spans())
@settings(max_examples=50, deadline=None)
def test_the_best_supported_figure_is_read_at_the_axis_own(found: tuple[Curve, int, int]) -> None:
    curve, low, high = found
    x = (low + high) // 2
    walk = Walk(OnNominal(knobs={"x": point(x)}, as_is={}, facts={}))
    assert walk.number(curve) == point(naive(curve, x))


def test_rounds_down_below_zero_too() -> None:
    curve = Curve("", Knob("x"), (0, 2, 5), (0, -1, 1))
    assert [curve.at(x) for x in range(6)] == [0, -1, -1, -1, 0, 1]


def test_what_its_axis_lacks_is_what_is_missing() -> None:
    curve = Curve("what is asked", Knob("x") + Fact("held"), (0, 10), (0, 100))
    assert read(curve, point(1)) == Missing(frozenset(("held",)))
    assert read(curve, None, {"held": point(1)}) == Missing(frozenset(("x",)))
    assert read(curve, point(1), {"held": Interval(3, 5)}) == Interval(40, 60)


def test_the_axis_may_be_any_expression() -> None:
    curve = Curve("", (Fact("held") + Knob("x") * MIB) // MIB, (100, 200), (0, 1000))
    assert read(curve, point(50), {"held": Interval(60 * MIB - 1, 60 * MIB)}) == Interval(90, 100)


def test_only_the_branch_that_counts_is_asked() -> None:
    short, long = Curve("short", Knob("x"), (0, 5), (0, 5)), Curve("long", Knob("x"), (0, 50), (500, 0))
    node = select(Knob("x") <= 5, short, long)
    assert read(node, point(4)) == point(4)
    assert read(node, point(40)) == point(100)
    assert read(node, Interval(4, 6)) == Missing(frozenset(("short",)))


def test_knobs_are_seen_through_a_curve() -> None:
    curve = Curve("", Knob("x") * 2 + maximum(Knob("y"), Const(3)), (0, 1), (0, 1))
    assert knobs_in(curve) == {"x", "y"}
    assert knobs_in(select(Knob("z") <= 1, curve + 1, Const(0))) == {"x", "y", "z"}
    assert knobs_in(Curve("", Fact("x"), (0, 1), (0, 1))) == frozenset()
    inner = Fact("y", Knob("x") + Fact("z"))
    found = facts_in(select(inner <= 1, Curve("", Fact("x"), (0, 1), (0, 1)), Const(0)))
    assert set(found) == {"x", "y", "z"}
    assert found["y"] is inner


@pytest.mark.parametrize(("xs", "ys", "x", "value"), [
    ((0, BIG), (0, BIG), BIG - 1, BIG - 1),
    ((0, BIG), (BIG, 0), 1, BIG - 1),
    ((0, 3), (0, BIG), 1, BIG // 3),
    ((-BIG, BIG), (-BIG, 0), -1, -500_000_001),
    ((22_208, 26_071), (3_397_000, 4_379_000), 24_000, 3_852_538),
])
def test_known_answers(xs: tuple[int, int], ys: tuple[int, int], x: int, value: int) -> None:
    assert Curve("", Knob("x"), xs, ys).at(x) == value
