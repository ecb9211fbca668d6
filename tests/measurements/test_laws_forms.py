"""The forms of a term against the formulas that are documented, and bounded least squares against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, nnls

from measurements.laws.fit import span_of
from measurements.laws.forms import Floats, Span, Term, smallest
from models.laws import FORMS
from tests.measurements.simulated import BATCH, CHUNK, REQUEST, SLAB, STREAMS, TURN, WIRE

FALLING = span_of(SLAB, np.array([100.0, 150.0, 300.0]))
RISING = span_of(TURN, np.array([100.0, 150.0, 300.0]))


@pytest.mark.parametrize(("span", "form", "parameter", "x", "told"), [
    (FALLING, "slope", 0, (100, 200, 300), (1, 0.5, 0)),
    (FALLING, "hinge", 200, (100, 200, 250, 300), (0.5, 0.5, 0.25, 0)),
    (FALLING, "threshold", 200, (100, 199.9, 200, 300), (1, 1, 0, 0)),
    (FALLING, "roofline", 200, (100, 150, 200, 300), (0.5, 0.25, 0, 0)),
    (FALLING, "saturating", 100, (100, 200, 300), (1, np.exp(-1), np.exp(-2))),
    (RISING, "slope", 0, (100, 200, 300), (0, 0.5, 1)),
    (RISING, "hinge", 200, (100, 200, 250, 300), (0, 0, 0.25, 0.5)),
    (RISING, "threshold", 200, (100, 199.9, 200, 300), (0, 0, 1, 1)),
    (RISING, "saturating", 100, (100, 200, 300), (0, 1 - np.exp(-1), 1 - np.exp(-2))),
    (span_of(REQUEST, np.array([10.0, 1000.0])), "inverse", 0, (10, 20, 1000), (1, 0.5, 0.01)),
])
def test_each_form_says_what_it_is_documented_to(span: Span, form: str, parameter: float, x: tuple[float, ...],
                                                told: tuple[float, ...]) -> None:
    assert form in FORMS
    (column,) = Term(span, form).column(np.array(x, dtype=float), np.array(float(parameter))).T
    assert column == pytest.approx(np.array(told), abs=1e-12)


def test_a_choice_has_one_column_beyond_the_first() -> None:
    span = span_of(WIRE, np.array([0.0, 1.0, 2.0]))
    assert Term(span, "offset").column(np.array([0.0, 2.0, 1.0]), np.zeros(1)).tolist() == [[0, 0], [0, 1], [1, 0]]


def test_a_valley_has_a_cost_that_shrinks_and_one_that_grows() -> None:
    term = Term(span_of(CHUNK, np.array([10.0, 20.0, 30.0])), "valley")
    assert term.column(np.array([10.0, 20.0, 30.0]), np.zeros(1)) == pytest.approx(
        np.array([[1, 0], [0.5, 0.5], [1 / 3, 1]]))
    assert not term.signed


def test_only_what_may_work_either_way_is_signed() -> None:
    assert Term(span_of(BATCH, np.array([1.0, 2.0])), "slope").signed
    assert not Term(FALLING, "slope").signed
    assert not Term(span_of(STREAMS, np.array([1.0, 2.0])), "slope").signed


def test_knees_are_tried_across_the_data_and_between_near_neighbours() -> None:
    for form in ("hinge", "threshold", "roofline"):
        knees = Term(FALLING, form).grid()
        assert knees.min() > 100
        assert knees.max() < 300
        assert np.diff(knees).max() < 6
    near = span_of(SLAB, np.array([100.0, 151.0, 151.5, 300.0]))
    assert any(151 < knee < 151.5 for knee in Term(near, "threshold").grid())


def test_a_drawn_jump_parts_the_places_that_the_fitted_one_does() -> None:
    term = Term(FALLING, "threshold")
    moved = term.within(np.array([149.0, 152.0, 90.0, 310.0]), np.array([151.0, 149.0, 101.0, 299.0]))
    assert [bool(knee > 150) for knee in moved] == [True, False, False, True]
    assert moved.min() > 100
    assert moved.max() <= 300
    assert Term(FALLING, "hinge").within(np.array([149.0]), np.array([151.0])) == [149.0]


# --- bounded least squares -------------------------------------------------------------------------------------------


def _problem(seed: int, n: int, p: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    design = rng.uniform(0, 1, (n, p)) * 10 ** rng.uniform(-2, 2, p)
    sizes = rng.normal(0, 1, p)
    return design, design @ sizes + 0.1 * rng.standard_normal(n)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 12), st.integers(1, 4))
def test_smallest_is_what_nnls_finds(seed: int, n: int, p: int) -> None:
    design, target = _problem(seed, n, p)
    sizes, left, _ = smallest(design, target, [False] * p)
    found, norm = nnls(design, target)
    assert np.all(sizes >= 0)
    # a hair of ridge is in it, which matters where columns are almost the same
    assert left == pytest.approx(norm**2, rel=1e-4, abs=1e-6 * float(target @ target))
    assert float(((design @ sizes - target) ** 2).sum()) <= norm**2 * (1 + 1e-4) + 1e-6 * float(target @ target)
    if n >= p and np.linalg.cond(design) < 30:
        assert sizes == pytest.approx(found, rel=1e-3, abs=1e-3 * float(np.abs(found).max() + 1e-9))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(3, 12), st.lists(st.booleans(), min_size=1, max_size=4))
def test_smallest_lets_signed_sizes_go_below_nothing(seed: int, n: int, signed: list[bool]) -> None:
    design, target = _problem(seed, n, len(signed))
    sizes, left, _ = smallest(design, target, signed)
    low = np.array([-np.inf if free else 0.0 for free in signed])
    found = lsq_linear(design, target, bounds=(low, np.full(len(signed), np.inf)), tol=1e-12)
    assert np.all(sizes >= np.where(np.isinf(low), -np.inf, 0))
    hair = 1e-6 * float(target @ target)
    assert left == pytest.approx(float(((design @ sizes - target) ** 2).sum()), rel=1e-4, abs=hair)
    assert left <= 2 * found.cost * (1 + 1e-4) + hair  # the other one may stop short of it


def test_smallest_solves_many_problems_as_it_solves_each() -> None:
    problems = [_problem(seed, 9, 3) for seed in range(12)]
    designs = np.stack([design for design, _ in problems]).reshape(3, 4, 9, 3)
    targets = np.stack([target for _, target in problems]).reshape(3, 4, 9)
    sizes, left, inverse = smallest(designs, targets, [False, True, False])
    for place, (design, target) in enumerate(problems):
        at = divmod(place, 4)
        one = smallest(design, target, [False, True, False])
        for many, single in zip((sizes, left, inverse), one, strict=True):
            assert many[at] == pytest.approx(single, rel=1e-9, abs=1e-12)


def test_the_inverse_is_that_of_the_columns_in_use() -> None:
    design = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    sizes, _, inverse = smallest(design, np.array([3.0, 2.0, 1.0]), [False, False])
    assert sizes == pytest.approx([2, 0])
    assert inverse == pytest.approx(np.array([[1 / 3, 0], [0, 0]]), abs=1e-8)
    _, _, inverse = smallest(design, np.array([1.0, 2.0, 3.0]), [False, False])
    assert inverse == pytest.approx(np.linalg.inv(design.T @ design), abs=1e-6)


def test_nothing_fits_where_all_would_be_negative() -> None:
    sizes, left, inverse = smallest(np.ones((4, 1)), -np.ones(4), [False])
    assert sizes.tolist() == [0]
    assert left == 4
    assert inverse.tolist() == [[0]]
