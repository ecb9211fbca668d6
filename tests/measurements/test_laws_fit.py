"""The fit: laws found again from simulated measurements, intervals that hold, and numbers that do not depend on luck.

Rates are over fixed seeds, with room for their own sampling error. ``python -m tests.measurements.simulated`` prints
them for more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measurements.laws.fit import LEAST_NOISE, STATED_NOISE, Data, Fit, noise_of, span_of
from measurements.laws.forms import Floats
from models.laws import Axis
from tests.measurements.simulated import (
    BATCH,
    BY_NAME,
    CHUNK,
    DEPTH,
    DTYPE,
    REQUEST,
    SLAB,
    STREAMS,
    TRUTHS,
    WIRE,
    Run,
    data_of,
    fitted,
    run,
    runs,
    sampling_error,
)
from tests.measurements.simulated import settings as places

FULL, FEW = 5, 3
NAMES = [truth.name for truth in TRUTHS]
GRADUAL = (SLAB.forms[0], SLAB.forms[1], SLAB.forms[3], SLAB.forms[4])


@cache
def found(name: str, arms: int, repeats: int) -> tuple[Run, ...]:
    """The runs of one truth, made once."""
    return tuple(runs(BY_NAME[name], arms, repeats, FULL if arms == 12 else FEW))


# --- recovery --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_law_is_found_again(name: str) -> None:
    mine = found(name, 12, 3)
    assert sum(one.agrees for one in mine) >= FULL - 1
    assert not any(one.wrong for one in mine)


def test_laws_are_found_again_nearly_always() -> None:
    every = [one for name in NAMES for one in found(name, 12, 3)]
    assert np.mean([one.agrees for one in every]) >= 0.95
    # what can be told apart is: the truth itself on top, decided for, and with most of the weight
    clear = [one for name in NAMES if not name.startswith(("constant", "slope")) for one in found(name, 12, 3)]
    assert np.mean([one.top for one in clear]) >= 0.95
    assert np.mean([one.decided for one in clear]) >= 0.85
    assert np.mean([one.weight for one in clear]) >= 0.9


@pytest.mark.parametrize("arms", [3, 4, 5])
def test_few_arms_decide_for_nothing_wrong(arms: int) -> None:
    every = {name: found(name, arms, 1) for name in NAMES}
    assert {name: [one.wrong for one in mine if one.wrong] for name, mine in every.items()} == {
        name: [] for name in NAMES}


def test_three_or_four_arms_never_decide_between_forms_along_the_slab() -> None:
    for name in NAMES:
        if "slab" in name:
            assert not any(one.decided for arms in (3, 4) for one in found(name, arms, 1))


@pytest.mark.parametrize("axis", [SLAB, STREAMS], ids=lambda axis: axis.name)
def test_two_arms_admit_no_knee_however_often_they_are_repeated(axis: Axis) -> None:
    x = np.array([2.0, 2, 2, 2, 10, 10, 10, 10])
    time = 1 / np.array([50.0, 51, 49, 50, 80, 81, 79, 80])
    fit = fitted(time if axis is SLAB else 1 / time, {axis: x})
    assert {rival.name for rival in fit.rivals} == {"constant", "slope"}
    assert fit.decided is None
    three = fitted(np.append(time, 1 / 70), {axis: np.append(x, 5)})
    assert {"hinge", *axis.forms} <= {rival.name for rival in three.rivals}


@pytest.mark.parametrize("name", ["hinge in slab", "threshold in slab", "slope in slab", "hinge in streams"])
def test_between_two_arms_the_interval_leaves_room_for_a_knee(name: str) -> None:
    """No rival with a knee stands, and yet nothing says that the law runs straight between the two."""
    covered = [one.covered for seed in range(6) if (one := run(BY_NAME[name], 2, 3, seed))]
    assert np.mean(covered) >= 0.85 - 2 * sampling_error(covered)


def test_two_arms_admit_no_valley() -> None:
    fit = fitted(np.array([1.0, 1.02, 1.3, 1.31]), {CHUNK: np.array([2_048.0, 2_048, 8_192, 8_192])})
    assert {rival.name for rival in fit.rivals} == {"constant", "slope", "inverse"}
    assert fit.decided is None


def test_between_two_arms_the_median_runs_straight() -> None:
    fit = fitted(1 / np.array([50.0, 51, 49, 80, 81, 79]), {SLAB: np.array([0.0, 0, 0, 100, 100, 100])})
    (median,) = fit.quantiles({"slab": np.array([0.0, 50, 100])}, (0.5,))
    assert 1 / median[1] == pytest.approx((1 / median[0] + 1 / median[2]) / 2, rel=0.05)
    low, high = fit.quantiles({"slab": np.array([0.0, 50, 100])}, (0.05, 0.95))
    assert (low / median > 0.85).tolist() == [True, False, True]
    assert (high / median < 1.15).tolist() == [True, False, True]


def test_a_jump_that_was_bisected_is_found_between_its_near_arms() -> None:
    x = np.array([0.0, 2_000, 4_000, 5_000, 5_010, 5_020, 5_030, 6_000, 8_000])
    rng = np.random.default_rng(1)
    fit = fitted(np.where(x < 5_015, 1.5, 1.0) * np.exp(0.03 * rng.standard_normal(9)), {SLAB: x})
    assert fit.rivals[0].name == "threshold"
    assert fit.rivals[0].weight > 0.9
    low, high = fit.quantiles({"slab": np.array([5_010.0, 5_020.0])}, (0.05, 0.95))
    assert low[1] > high[0]


def test_one_odd_arm_at_the_end_is_not_decided_for() -> None:
    """Five level arms and a fast last one: a jump, a bend and an odd measurement are the same data."""
    x = np.linspace(20_000, 28_000, 6)
    fit = fitted(np.array([1.0, 1.01, 0.99, 1, 1.02, 0.7]), {SLAB: x})
    weights = {rival.name: rival.weight for rival in fit.rivals}
    assert weights["threshold"] > 0.05
    assert sum(weights[form] for form in GRADUAL) > 0.05
    assert fit.decided is None


def test_two_axes_that_moved_together_share_the_weight() -> None:
    x = np.array([1.0, 2, 3, 4, 5, 6])
    fit = fitted(1 + x / 10, {DEPTH: x, STREAMS: x})
    weights = {(*(term.span.axis.name for term in rival.terms), rival.name): rival.weight for rival in fit.rivals}
    assert weights["depth", "slope in depth"] == pytest.approx(weights["streams", "slope in streams"], rel=1e-6)


@pytest.mark.parametrize(("rates", "best"), [((94, 124), "offset"), ((100, 101), "constant"), ((100, 100), "constant")])
def test_two_choices_measured_once_each(rates: tuple[float, float], best: str) -> None:
    """They differ by far more than the stated noise, or do not; one measurement each decides nothing."""
    fit = fitted(1 / np.array(rates), {DTYPE: np.array([0.0, 1.0])})
    assert fit.rivals[0].name == best
    assert fit.decided is None


def test_repeats_decide_between_choices() -> None:
    fit = fitted(1 / np.array([94.0, 95, 93, 124, 125, 123]), {DTYPE: np.array([0.0, 0, 0, 1, 1, 1])})
    assert fit.decided is not None
    assert fit.decided.name == "offset"
    three = fitted(1 / np.array([94.0, 95, 93, 124, 125, 123, 80, 81, 79]), {WIRE: np.repeat([0.0, 1, 2], 3)})
    assert three.decided is not None
    assert three.decided.name == "offset"


# --- coverage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_as_often_as_they_say(name: str) -> None:
    covered = [one.covered for one in found(name, 12, 3)]
    room = 2.5 * max(sampling_error(covered), 0.02)
    assert 0.85 - room <= np.mean(covered) <= min(0.95 + room, 1)


def test_intervals_hold_as_often_as_they_say_over_all_laws() -> None:
    covered = [one.covered for name in NAMES for one in found(name, 12, 3)]
    assert 0.88 <= np.mean(covered) <= 0.93


@pytest.mark.parametrize("arms", [3, 5])
def test_intervals_of_few_arms_hold_more_often_than_not_enough(arms: int) -> None:
    every = [one.covered for name in NAMES for one in found(name, arms, 1)]
    assert np.mean(every) >= 0.9
    for name in NAMES:
        covered = [one.covered for one in found(name, arms, 1)]
        assert np.mean(covered) >= 0.85 - 2.5 * max(sampling_error(covered), 0.06)


def test_intervals_narrow_with_more_measurements() -> None:
    for name in ("hinge in slab", "slope in streams", "streams and depth"):
        widths = [float(np.median([one.width for one in found(name, *size)])) for size in ((3, 1), (5, 1), (12, 3))]
        assert widths == sorted(widths, reverse=True)
        # 3 % both ways of 1.645 deviations, and what the fit does not know
        assert 0.09 < widths[-1] < 0.14


# --- noise -----------------------------------------------------------------------------------------------------------


def test_noise_is_pooled_from_repeats() -> None:
    time = np.exp(np.array([0.0, 0.02, 1.0, 1.04, 2.0]))
    noise = noise_of(data_of(time, {"slab": np.array([1.0, 1, 2, 2, 3])}))
    assert noise.value == pytest.approx(math.sqrt((2 * 0.01**2 + 2 * 0.02**2) / 2))
    assert (noise.repeats, noise.beside) == (2, 0)
    assert noise.how == "from 2 repeats"


@pytest.mark.parametrize("x", [(1.0, 2, 3, 4), (1.0, 1, 2, 3)])
def test_noise_is_stated_where_hardly_anything_was_repeated(x: tuple[float, ...]) -> None:
    noise = noise_of(data_of(np.array([1.0, 1.5, 2, 3]), {"slab": np.array(x)}))
    assert (noise.value, noise.repeats) == (STATED_NOISE, 0)
    assert noise.how == "assumed: too little was repeated"


def test_what_two_sources_measured_at_one_setting_is_no_repeat() -> None:
    x = np.array([1.0, 1, 1, 2, 2, 2])
    own = data_of(np.array([1.0, 1.3, 0.8, 2, 2.5, 1.6]), {"slab": x})
    noise = noise_of(Data(own.time, own.axes, own.arm, np.arange(6)))
    assert (noise.value, noise.repeats) == (STATED_NOISE, 0)


def test_equal_repeats_leave_the_prints_own_precision() -> None:
    fit = fitted(np.full(6, 0.01), {SLAB: np.array([1.0, 1, 2, 2, 3, 3])})
    assert fit.noise.value == LEAST_NOISE
    low, high = fit.quantiles({"slab": np.array([1.5])}, (0.05, 0.95))
    assert 100 * (1 - 0.02) < low[0] < 100 < high[0] < 100 * (1 + 0.02)


def test_noisy_repeats_widen_the_interval() -> None:
    rng = np.random.default_rng(3)
    x, error = np.repeat(np.linspace(1, 2, 6), 3), rng.standard_normal(18)
    widths = []
    for noise in (0.01, 0.03, 0.1):
        fit = fitted(np.exp(noise * error), {SLAB: x})
        low, high = fit.quantiles({"slab": np.array([1.5])}, (0.05, 0.95))
        widths.append(float(np.log(high / low)[0]) / fit.noise.value)
    assert widths == pytest.approx([3.6] * 3, rel=0.1)


# --- data at the edge of sense ---------------------------------------------------------------------------------------


def _sane(fit: Fit, at: Mapping[str, Floats]) -> None:
    weights = [rival.weight for rival in fit.rivals]
    assert np.all(np.isfinite(weights))
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    low, median, high = fit.quantiles(at, (0.05, 0.5, 0.95))
    assert np.all(np.isfinite([low, median, high]))
    assert np.all(low > 0)
    assert np.all(low <= median)
    assert np.all(median <= high)
    assert np.all(np.isfinite(fit.mean(at)))
    assert np.all(np.isfinite(fit.left_out_errors))
    assert len(fit.left_out_errors) == (fit.data.arms if fit.data.arms > 1 else 0)
    assert np.all(fit.information(at) >= -1e-9)
    _ = fit.decided


X = np.linspace(20_000, 28_000, 9)
EXACT: dict[str, Floats] = {
    "all equal": np.ones(9), "a line": 2 - (X - X[0]) / (X[-1] - X[0]), "a jump": np.where(X < 24_500, 1.5, 1.0),
    "a hinge": 1 + np.maximum(28_000 - np.maximum(X, 25_000), 0) / 3_000,
    "a roofline": np.maximum(1, (30_000 - X) / 5_000), "an exponential": 1 + np.exp(-(X - X[0]) / 2_000),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("repeats", [1, 2])
def test_measurements_without_noise(name: str, repeats: int) -> None:
    fit = fitted(np.repeat(EXACT[name], repeats), {SLAB: np.repeat(X, repeats)})
    at = {"slab": np.linspace(X[0], X[-1], 21)}
    _sane(fit, at)
    told = fit.mean({"slab": X})
    assert 1 / told == pytest.approx(EXACT[name], rel=0.04 if repeats == 1 else 0.02)


@pytest.mark.parametrize("rate", [1e-3, 1.0, 1e6])
def test_the_unit_of_time_changes_no_weight(rate: float) -> None:
    rng = np.random.default_rng(5)
    time = (1 + 0.5 * (X < 25_000)) * np.exp(0.03 * rng.standard_normal(9))
    fit, other = fitted(time / rate, {SLAB: X}), fitted(time, {SLAB: X})
    _sane(fit, {"slab": X})
    assert [rival.name for rival in fit.rivals] == [rival.name for rival in other.rivals]
    assert [rival.weight for rival in fit.rivals] == pytest.approx([rival.weight for rival in other.rivals], abs=1e-6)
    assert fit.quantiles({"slab": X}, (0.05, 0.5)) == pytest.approx(other.quantiles({"slab": X}, (0.05, 0.5)) * rate)


@pytest.mark.parametrize(("scale", "shift"), [(2.0**40 / 28_000, 0), (1e-6, 0), (1, 2**40), (1 / 8_000, -2.5)])
def test_the_unit_of_an_axis_changes_no_weight(scale: float, shift: float) -> None:
    rng = np.random.default_rng(6)
    time = (1 + np.maximum(26_000 - X, 0) / 12_000) * np.exp(0.03 * rng.standard_normal(9))
    fit, other = fitted(time, {SLAB: X * scale + shift}), fitted(time, {SLAB: X})
    _sane(fit, {"slab": X * scale + shift})
    assert {rival.name: round(rival.weight, 3) for rival in fit.counted} == pytest.approx(
        {rival.name: round(rival.weight, 3) for rival in other.counted}, abs=2e-3)


def test_rates_nine_orders_apart() -> None:
    x = np.array([1.0, 2, 3, 4, 5])
    _sane(fitted(1 / np.array([1e-3, 1, 1e2, 1e4, 1e6]), {SLAB: x}), {"slab": x})
    _sane(fitted(1 / np.array([1e-3, 1e-3, 1e6, 1e6, 1e6]), {SLAB: x}), {"slab": x})


def test_one_arm() -> None:
    for time in ([0.01], [0.01, 0.01], [0.01, 0.0104, 0.0098, 0.0101]):
        fit = Fit(data_of(np.array(time), {}), [])
        _sane(fit, {"": np.zeros(1)})
        assert [rival.name for rival in fit.rivals] == ["constant"]
        assert fit.decided is None
        low, high = fit.quantiles({"": np.zeros(1)}, (0.05, 0.95))
        assert low[0] < 100 < high[0]


@pytest.mark.parametrize("axis", [SLAB, DEPTH, REQUEST, DTYPE, BATCH], ids=lambda axis: axis.name)
def test_two_arms(axis: Axis) -> None:
    x = np.array([0.0, 1.0]) if axis.choices else np.array([500.0, 4_000.0])
    for time in ([1.0, 1.0], [1.0, 1.5], [1.5, 1.0], [1.0, 1000.0]):
        _sane(fitted(np.array(time), {axis: x}), {axis.name: x})


def test_two_arms_of_which_one_was_repeated() -> None:
    """Without the repeated arm too little is left to weigh any rival by: the constant one tells the error."""
    fit = fitted(np.array([1.0, 1.01, 0.99, 1.5]), {SLAB: np.array([1.0, 1, 1, 2])})
    _sane(fit, {"slab": np.array([1.0, 1.5, 2.0])})
    assert fit.left_out_errors[0] == pytest.approx(0.5, abs=0.02)


def test_identical_rows() -> None:
    """The same measurement many times over says how steady the machine is, and no more about the form."""
    fit = fitted(np.tile([0.01, 0.008], 20), {SLAB: np.tile([1.0, 2.0], 20)})
    _sane(fit, {"slab": np.array([1.0, 1.5, 2.0])})
    assert fit.noise.repeats == 38
    assert {rival.name for rival in fit.rivals} == {"constant", "slope"}
    assert fit.decided is None


def test_two_hundred_settings() -> None:
    rng = np.random.default_rng(8)
    x = rng.uniform(20_000, 28_000, 200)
    fit = fitted((1 + 0.5 * (x < 24_000)) * np.exp(0.03 * rng.standard_normal(200)), {SLAB: x})
    _sane(fit, {"slab": x[:5]})
    assert fit.decided is not None
    assert fit.decided.name == "threshold"


def test_one_arm_that_is_noisier_than_the_others_makes_no_form() -> None:
    """Noise that differs between arms is pooled: the level law stays the best, and no form of it is decided for."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.repeat(X, 3)
        noise = np.where(x == X[4], 0.12, 0.02)
        fit = fitted(np.exp(noise * rng.standard_normal(27)), {SLAB: x})
        assert fit.decided is None or np.ptp(np.log(fit.typical(fit.decided, {"slab": X}))) < 0.05


# --- leaving an arm out ----------------------------------------------------------------------------------------------


def _without(fit: Fit, arm: int) -> Fit:
    """A new fit of the other arms, on the whole data's spans."""
    kept = fit.data.arm != arm
    return Fit(data_of(fit.data.time[kept], {name: values[kept] for name, values in fit.data.axes.items()}), fit.spans)


def _told(fit: Fit, arm: int, rest: Fit, name: str) -> float:
    """The relative error of one refitted rival at a left-out arm."""
    at = {axis: values[fit.data.arm == arm][:1] for axis, values in fit.data.axes.items()}
    rival = next(rival for rival in rest.rivals if rival.name == name)
    return float(abs(np.exp(np.log(1 / rest.typical(rival, at)).mean()
                            - np.log(fit.data.time[fit.data.arm == arm]).mean()) - 1))


@pytest.mark.parametrize("seed", range(3))
def test_left_out_errors_are_those_of_a_fit_without_the_arm(seed: int) -> None:
    """One rival at a time, against a new fit. They are the same but for what a fold does at once: it takes the mean
    over the knees by likelihood where a fit takes the median of its draws, and it keeps the whole data's scale."""
    rng = np.random.default_rng([4, seed])
    x = places(BY_NAME["hinge in slab"], 9, rng)["slab"]
    fit = fitted((1 + np.maximum(25_000 - x, 0) / 10_000) * np.exp(0.03 * rng.standard_normal(9)), {SLAB: x})
    rests = [_without(fit, arm) for arm in range(9)]
    for rival in fit.rivals:
        told = [_told(fit, arm, rests[arm], rival.name) for arm in range(9)]
        shaped = any(term.shaped for term in rival.terms)
        assert rival.error == pytest.approx(float(np.median(told)), abs=0.04 if shaped else 0.004), rival.name


@pytest.mark.parametrize("seed", range(3))
def test_left_out_errors_of_all_rivals_together(seed: int) -> None:
    """Against the median prediction of a new fit without the arm. That one weighs its rivals by its own folds as well,
    where a fold has only its evidence, so an arm on which the rivals differ may be told differently."""
    rng = np.random.default_rng([5, seed])
    x = places(BY_NAME["slope in slab"], 9, rng)["slab"]
    fit = fitted((1 + (28_000 - x) / 16_000) * np.exp(0.03 * rng.standard_normal(9)), {SLAB: x})
    for arm in range(1, 8):
        (median,) = _without(fit, arm).quantiles({"slab": x[arm:arm + 1]}, (0.5,))
        assert fit.left_out_errors[arm] == pytest.approx(float(abs(1 / median[0] / fit.data.time[arm] - 1)), abs=0.025)


def test_an_arm_that_alone_has_its_choice_scores_nobody() -> None:
    """Without it nothing tells the choice's effect, which is no mark against the rival that has one."""
    rng = np.random.default_rng(9)
    depth, dtype = np.array([1.0, 2, 3, 4, 5, 3]), np.array([0.0, 0, 0, 0, 0, 1])
    fit = fitted((1 + depth / 10 + 0.8 * dtype) * np.exp(0.02 * rng.standard_normal(6)), {DEPTH: depth, DTYPE: dtype})
    best = fit.rivals[0]
    assert best.name == "slope in depth + offset in dtype"
    alone = fitted(fit.data.time[fit.data.axes["dtype"] == 0], {DEPTH: np.arange(1.0, 6)})
    slope = next(rival for rival in alone.rivals if rival.name.startswith("slope"))
    assert best.left_out == pytest.approx(slope.left_out, abs=1.0)


# --- monotone --------------------------------------------------------------------------------------------------------


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 7), st.sampled_from([SLAB, STREAMS, DEPTH, REQUEST]),
       st.floats(0.01, 0.3))
def test_no_quantile_goes_against_the_axis(seed: int, arms: int, axis: Axis, noise: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.choice(np.arange(1, 60), arms, replace=False)) * 100.0
    fit = fitted(np.exp(noise * rng.standard_normal(arms)), {axis: x})
    if any(term.form == "reverse" for rival in fit.rivals for term in rival.terms):
        return  # no form that goes with the axis explains them
    along = {axis.name: np.unique(np.concatenate([np.linspace(x[0], x[-1], 41), x, x - 1e-6, x + 1e-6]))}
    along = {axis.name: along[axis.name][(along[axis.name] >= x[0]) & (along[axis.name] <= x[-1])]}
    steps = np.diff(np.log(fit.quantiles(along, LEVELS)), axis=1)
    assert np.all(steps >= -1e-9) if axis.way == "falls" else np.all(steps <= 1e-9)
    steps = np.diff(np.log(fit.mean(along)))
    assert np.all(steps >= -1e-9) if axis.way == "falls" else np.all(steps <= 1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.integers(3, 8))
def test_no_quantile_goes_against_either_of_two_axes(seed: int, arms: int) -> None:
    rng = np.random.default_rng(seed)
    depth, streams = rng.integers(1, 6, arms) * 1000.0, rng.integers(1, 5, arms) + 0.0
    depth[0], depth[1], streams[0], streams[1] = 1000, 5000, 1, 4
    fit = fitted(np.exp(0.04 * rng.standard_normal(arms)), {DEPTH: depth, STREAMS: streams})
    if any(term.form == "reverse" for rival in fit.rivals for term in rival.terms):
        return
    line = np.linspace(0, 1, 21)
    for at in ({"depth": 1000 + 4000 * line, "streams": np.full(21, 2.5)},
               {"depth": np.full(21, 2500.0), "streams": 1 + 3 * line}):
        assert np.all(np.diff(np.log(fit.quantiles(at, LEVELS)), axis=1) <= 1e-9)


# --- the same data, the same numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [(SLAB,), (DEPTH, STREAMS)], ids=["slab", "depth and streams"])
def test_the_order_of_measurements_changes_no_number(axes: tuple[Axis, ...]) -> None:
    rng = np.random.default_rng(12)
    values = {axis: np.repeat(rng.permutation(np.linspace(1, 9, 7)), 2) for axis in axes}
    time = np.exp(0.3 * rng.standard_normal(14))
    fit, at = fitted(time, values), {axis.name: np.linspace(1, 9, 11) for axis in axes}
    for _ in range(3):
        order = rng.permutation(14)
        other = fitted(time[order], {axis: row[order] for axis, row in values.items()})
        assert [(rival.name, rival.weight, rival.sizes, rival.parameters) for rival in other.rivals] == [
            (rival.name, rival.weight, rival.sizes, rival.parameters) for rival in fit.rivals]
        assert other.noise == fit.noise
        assert np.array_equal(other.quantiles(at, LEVELS), fit.quantiles(at, LEVELS))
        assert np.array_equal(other.left_out_errors, fit.left_out_errors)


def test_a_fit_is_the_same_each_time() -> None:
    one, two = (run(BY_NAME["hinge in slab"], 5, 1, 3) for _ in range(2))
    at = {"slab": np.linspace(20_000, 28_000, 9)}
    assert np.array_equal(one.fit.quantiles(at, LEVELS), two.fit.quantiles(at, LEVELS))
    assert np.array_equal(one.fit.information(at), two.fit.information(at))


def test_a_hair_of_difference_makes_a_hair_of_difference() -> None:
    """No number hangs on luck: measurements 1e-9 apart predict the same to 1e-3."""
    rng = np.random.default_rng(13)
    time = (1 + 0.5 * (X < 25_000)) * np.exp(0.05 * rng.standard_normal(9))
    one, two = fitted(time, {SLAB: X}), fitted(time * (1 + 1e-9 * rng.standard_normal(9)), {SLAB: X})
    assert [rival.weight for rival in one.rivals] == pytest.approx([rival.weight for rival in two.rivals], abs=1e-5)
    at = {"slab": np.linspace(20_000, 28_000, 17)}
    assert one.quantiles(at, LEVELS) == pytest.approx(two.quantiles(at, LEVELS), rel=1e-3)


def test_quantiles_are_ordered_and_are_those_of_the_sample() -> None:
    fit = run(BY_NAME["threshold in slab"], 5, 1, 1).fit
    at = {"slab": np.array([20_500.0, 24_000, 27_900])}
    rates, weights = fit.sample(at)
    assert weights.sum() == pytest.approx(1)
    for level in LEVELS:
        (told,) = fit.quantiles(at, (level,))
        below = ((rates <= told) * weights[:, None]).sum(0)
        assert np.all(below >= level - 1e-9)
        assert np.all(below - weights.max() <= level + 1e-9)


def test_the_span_keeps_its_places() -> None:
    span = span_of(SLAB, np.array([3.0, 1.0, 3.0, 2.0]))
    assert (span.low, span.high, span.places) == (1, 3, (1, 2, 3))
