"""Sizes as logs and people write them: each is as wide as its last digit."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.interval import GIB, KIB, MIB, Interval, point, printed, show_bytes, size


def test_a_printed_size_is_one_print_step_wide() -> None:
    found = size("26.56 GiB")
    step = Fraction(GIB, 100)
    assert found.high - found.low in (int(step), int(step) - 1)
    # the ends print as 26.56, their outer neighbours do not
    middle = Fraction(2656, 100) * GIB
    assert abs(found.low - middle) <= step / 2 < abs(found.low - 1 - middle)
    assert abs(found.high - middle) <= step / 2 < abs(found.high + 1 - middle)


@pytest.mark.parametrize(("text", "value"), [
    ("4430MiB", 4430 * MIB), ("4430 MiB", 4430 * MIB), ("0B", 0), (" 121 GiB ", 121 * GIB),
    ("127104060KiB", 127104060 * KIB), ("720150528B", 720_150_528),
])
def test_a_whole_number_is_exact(text: str, value: int) -> None:
    assert size(text) == point(value)


@pytest.mark.parametrize("text", ["26.56", "GiB", "-4MiB", "4 MB", "4,430MiB", "1e3MiB", "4.MiB", ".5GiB", "4GiBs", ""])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: write a number with B, KiB, MiB or GiB"):
        size(text)


def test_truncated_digits_reach_to_the_next_step() -> None:
    assert printed("123", GIB, truncated=True) == Interval(123 * GIB, 124 * GIB - 1)
    found = printed("35.8", GIB, truncated=True)
    assert Fraction(found.low) >= Fraction(358, 10) * GIB > found.low - 1
    assert Fraction(found.high) < Fraction(359, 10) * GIB <= found.high + 1


def test_digits_finer_than_a_byte_mean_the_nearest_one() -> None:
    assert printed("3.001") == point(3)
    assert printed("2.6") == point(3)


def test_a_printed_zero_is_not_negative() -> None:
    assert size("0.0GiB") == Interval(0, GIB // 20)


@given(st.integers(0, 1 << 40), st.sampled_from([KIB, MIB, GIB]), st.integers(1, 3))
def test_what_prints_so_is_inside(value: int, unit: int, digits: int) -> None:
    rounded = round(Fraction(value * 10**digits, unit))
    text = f"{rounded // 10**digits}.{rounded % 10**digits:0{digits}d}"
    assert value in printed(text, unit)
    cut = value * 10**digits // unit
    text = f"{cut // 10**digits}.{cut % 10**digits:0{digits}d}"
    assert value in printed(text, unit, truncated=True)


def test_an_interval_is_never_empty() -> None:
    with pytest.raises(ValueError, match="empty interval"):
        Interval(2, 1)


@given(st.integers(-9, 9), st.integers(0, 9), st.integers(-9, 9), st.integers(0, 9))
def test_meet_and_join_hold_what_sets_hold(a: int, wide: int, b: int, far: int) -> None:
    one, two = Interval(a, a + wide), Interval(b, b + far)
    both = set(range(one.low, one.high + 1)) & set(range(two.low, two.high + 1))
    meet = one.meet(two)
    assert (set() if meet is None else set(range(meet.low, meet.high + 1))) == both
    join = one.join(two)
    assert (join.low, join.high) == (min(a, b), max(a + wide, b + far))
    values = {x - y for x in (one.low, one.high) for y in (two.low, two.high)}
    assert (one - two) == Interval(min(values), max(values))
    assert one.middle in one
    assert one.exact is (wide == 0)


@pytest.mark.parametrize(("value", "text"), [
    (4430 * MIB, "4.33 GiB"), (311 * MIB + 163840, "311.16 MiB"), (-22 * KIB, "-22.00 KiB"), (512, "512 B"), (0, "0 B"),
    (1234 * GIB, "1,234.00 GiB"),
])
def test_bytes_for_people(value: int, text: str) -> None:
    assert show_bytes(value) == text
