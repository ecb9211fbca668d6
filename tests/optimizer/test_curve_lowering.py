"""Curves for CP-SAT: the optimum against every value tried, where there is no curve, and axes known to an interval."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from models.declare import EngineModel, KnobSpec
from models.evaluate import Given
from models.expr import AtMost, Cond, Curve, Expr, Fact, Knob, OnIntervals, Truth, Value, Walk, lift, select, total
from models.interval import MIB, Interval, point
from optimizer.lower import Found, Lowering, Sense, Stages
from optimizer.reach import reach
from optimizer.speed import MICRO, robust
from tests.made_sites import IQ4R, site

KINDS = ("rising", "falling", "zigzag", "flat", "steps")
#: Ranges of the free knobs of these tests.
RANGES = {"x": (0, 2000), "y": (0, 12), "choice": (0, 2)}


def model(ranges: Mapping[str, tuple[int, int]]) -> EngineModel:
    knobs = {name: KnobSpec(name, low=low, high=high) for name, (low, high) in ranges.items()}
    return EngineModel(
        name="none", version="0", basis="read", container="", knobs=knobs, facts={}, rows={}, requires=(), goals={},
        no_goals={}, split=(), needs=(), sessions=lift(1), spare=lift(0))


def lowering(facts: Mapping[str, Interval] | None = None,
             ranges: Mapping[str, tuple[int, int]] = RANGES) -> Lowering:
    return Lowering(model(ranges), Given({}, facts or {}), {}, ranges)


def made(rng: random.Random, kind: str, low: int, high: int, *, axis: Expr | None = None,
         highest: int = 10**9) -> Curve:
    """A curve of 2 to 60 points between ``low`` and ``high``, both of them points."""
    count = min(rng.choice((2, 3, 5, 12, 30, 60)), high - low + 1)
    xs = [low, *sorted(rng.sample(range(low + 1, high), count - 2)), high]
    top = rng.choice((3, 200, 10**6, highest))
    ys = [rng.randint(-top if rng.random() < 0.3 else 0, top) for _ in xs]
    if kind in ("rising", "falling", "steps"):
        ys.sort(reverse=kind == "falling")
    if kind == "flat":
        ys = [ys[place // 3 * 3] for place in range(len(ys))]
    if kind == "steps":  # long flat parts with jumps of one step between
        ys = [ys[place // 4 * 4] for place in range(len(ys))]
    return Curve("what is asked", axis or Knob("x"), tuple(xs), tuple(ys))


def best(low: Lowering, node: Expr, sense: Sense) -> Found:
    pair = low.number(node)
    return Stages(low, 10).run([(pair.low if sense == "max" else pair.high, sense)])


def at(node: Expr, shape: Mapping[str, int], facts: Mapping[str, Interval] | None = None) -> Value:
    knobs = {name: point(value) for name, value in shape.items()}
    return Walk(OnIntervals(knobs=knobs, as_is={}, facts=facts or {})).number(node)


def truth(node: Cond, shape: Mapping[str, int], facts: Mapping[str, Interval] | None = None) -> Truth:
    knobs = {name: point(value) for name, value in shape.items()}
    return Walk(OnIntervals(knobs=knobs, as_is={}, facts=facts or {})).condition(node)


def side(value: Value, sense: Sense) -> int | None:
    return None if not isinstance(value, Interval) else value.low if sense == "max" else value.high


def check(node: Expr, names: Mapping[str, tuple[int, int]], sense: Sense, *,
          facts: Mapping[str, Interval] | None = None, demand: Cond | None = None) -> int | None:
    """The best value by CP-SAT is that of every shape tried; so is the shape. None where no shape has one."""
    low = lowering(facts, names)
    if demand is not None:
        low.demand(demand)
    found = best(low, node, sense)
    values = {}
    for shape in shapes(names):
        value = side(at(node, shape, facts), sense)
        if value is not None and (demand is None or truth(demand, shape, facts) is True):
            values[tuple(shape.values())] = value
    if not values:
        assert found.status == "infeasible"
        return None
    expected = (max if sense == "max" else min)(values.values())
    assert (found.status, found.objective) == ("optimal", expected)
    assert values[tuple(found.shape[name] for name in names)] == expected
    return expected


def shapes(names: Mapping[str, tuple[int, int]]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = [{}]
    for name, (low, high) in names.items():
        found = [{**shape, name: value} for shape in found for value in range(low, high + 1)]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sense", ["max", "min"])
def test_the_optimum_along_a_free_knob(kind: str, sense: Sense) -> None:
    rng = random.Random(f"{kind} {sense}")
    for number in range(21):
        low, high = sorted(rng.sample(range(*RANGES["x"]), 2))
        curve = made(rng, kind, low, high)
        names = {"x": RANGES["x"]}
        if number % 3 == 0:  # the knob ends inside the curve, on either side
            first = rng.randint(0, high)
            names = {"x": (first, rng.randint(max(first, low), 2000))}
        if number % 3 < 2:
            assert check(curve, names, sense) is not None
            continue
        ends = sorted(rng.sample(range(low - 5, high + 6), 2))
        demand = (Knob("x") >= ends[0]) & (Knob("x") <= ends[1])
        check(curve, names, sense, demand=demand)


@pytest.mark.parametrize("sense", ["max", "min"])
def test_a_curve_may_be_bounded_by_its_value(sense: Sense) -> None:
    rng = random.Random(sense)
    possible = 0
    for kind in KINDS * 6:
        curve = made(rng, kind, 3, 700)
        bound = rng.choice(curve.ys) + rng.randint(-1, 1)
        # as large an x as the curve's value at least (or at most) so much allows
        demand: Cond = AtMost(lift(bound), curve) if rng.random() < 0.5 else AtMost(curve, lift(bound))
        low = lowering(None, {"x": (0, 700)})
        low.demand(demand)
        found = Stages(low, 10).run([(low.side_of("x"), sense)])
        at_least = isinstance(demand, AtMost) and demand.right is curve
        fits = [x for x in range(3, 701) if (curve.at(x) >= bound if at_least else curve.at(x) <= bound)]
        if not fits:
            assert found.status == "infeasible"
            continue
        possible += 1
        assert found.objective == (max(fits) if sense == "max" else min(fits))
    assert possible >= 20


def test_a_knob_outside_the_points_is_no_shape() -> None:
    curve = Curve("what is asked", Knob("x"), (100, 300), (7, 9))
    for names, held in (({"x": (0, 99)}, 0), ({"x": (301, 2000)}, 0)):
        low = lowering(None, names)
        low.number(curve)
        assert best(low, lift(held), "max").status == "infeasible"
    for x, status in ((99, "infeasible"), (100, "optimal"), (300, "optimal"), (301, "infeasible")):
        for demanded_first in (False, True):
            low = lowering(None, {"x": (0, 2000)})
            if demanded_first:
                low.demand(Knob("x").equals(x))
            pair = low.number(curve)
            if not demanded_first:
                low.demand(Knob("x").equals(x))
            assert Stages(low, 5).run([(pair.low, "max")]).status == status, x
    low = lowering(None, {"x": (300, 300)})  # one value alone, at the very end
    assert best(low, curve, "max").objective == 9


def test_a_grid_that_meets_few_points() -> None:
    rng = random.Random(3)
    for kind in KINDS:
        spec = replace(model({"x": (0, 2000)}).knobs["x"], grid=64)
        coarse = replace(model({"x": (0, 2000)}), knobs={"x": spec})
        curve = made(rng, kind, 130, 1900)
        for sense, pick in (("max", max), ("min", min)):
            low = Lowering(coarse, Given({}, {}), {}, {"x": (0, 2000)})
            found = best(low, curve, sense)  # type: ignore[arg-type]
            assert found.objective == pick(curve.at(x) for x in range(192, 1901, 64))
            assert found.shape["x"] % 64 == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sense", ["max", "min"])
def test_an_axis_known_to_an_interval_is_taken_from_its_worse_end(kind: str, sense: Sense) -> None:
    """A row of whole MiB on facts printed to a step: every value that the facts allow counts."""
    rng = random.Random(f"interval {kind} {sense}")
    seen = 0
    for _ in range(12):
        slack = rng.choice((0, 1, 7, 40))
        start = rng.randint(0, 20) * MIB + rng.choice((0, 1, MIB // 2))
        facts = {"rest": Interval(start, start + slack * MIB + rng.choice((0, 1, MIB // 3)))}
        row = (Fact("rest") + Knob("x") * (2 * MIB)) // MIB
        curve = made(rng, kind, rng.randint(0, 60), rng.randint(150, 420), axis=row)
        seen += check(curve, {"x": (0, 200)}, sense, facts=facts) is not None
    assert seen >= 10


@pytest.mark.parametrize("sense", ["max", "min"])
def test_both_sides_of_an_uncertain_axis_are_the_intervals_own(sense: Sense) -> None:
    rng = random.Random(f"sides {sense}")
    for number in range(40):
        facts = {"rest": Interval(0, rng.choice((1, 3, 12)))}
        curve = made(rng, KINDS[number % len(KINDS)], 2, 60, axis=Knob("x") + Fact("rest"), highest=500)
        x = rng.randint(2, 60 - facts["rest"].high)
        low = lowering(facts, {"x": (0, 60)})
        pair = low.number(curve)
        low.demand(Knob("x").equals(x))
        expected = at(curve, {"x": x}, facts)
        assert isinstance(expected, Interval)
        ends = [Stages(low, 5).run([(one, sense)]).objective for one in (pair.low, pair.high)]
        assert ends == [expected.low, expected.high]


def test_a_row_of_a_real_split() -> None:
    """Slab of a derived split in MiB: a zigzag over it, on facts printed to a step and on exact ones."""
    rng = random.Random(17)
    for wide in (False, True):
        facts: dict[str, str | int | Interval] = {
            "card_total": "31.86GiB" if wide else 34_208_743_424, "already_held": "0.30GiB" if wide else 322_000_000,
            "activation_arena": "1.10GiB" if wide else 1_181_116_006, "step_staging": 3 * MIB,
            "static_weights": "3.93GiB" if wide else 4_219_800_000,
            "expert_plane": "26.56GiB" if wide else 28_500_000_000,
            "expert_layer_max": "0.60GiB" if wide else 640 * MIB, "hardware_queues": 100 * MIB, "spare": 4 * MIB,
            "unit_max": 2 * MIB, "slot_stride": MIB, "movable_units": 25_000,
        }
        of = site("radiance@1.0.13", container=IQ4R, facts=facts, knobs={
            "tp": 2, "max_num_seqs": 2, "max_model_len": 200_000, "gpu_headroom_mib": 96, "host_pool_mib": 12_288,
            "expert_vs_cache_ratio": "0.82", "num_speculative_tokens": 3, "checkpoint_slots": 8})
        row = of.model.rows["vram_weights"].expr // MIB
        spec = replace(of.model.knobs["expert_vs_cache_ratio"], grid=2500)
        coarse = replace(of.model, knobs={**of.model.knobs, "expert_vs_cache_ratio": spec})
        free = {"expert_vs_cache_ratio": (600_000, 950_000)}
        values = {}
        for ratio in range(600_000, 950_001, 2500):
            value = reach(coarse, of.given, of.knobs, {"expert_vs_cache_ratio": (ratio, ratio)}, row)
            assert isinstance(value, Interval)
            values[ratio] = value
        assert all(value.exact for value in values.values()) is not wide
        low, high = min(v.low for v in values.values()), max(v.high for v in values.values())
        assert high - low > 2000
        first, last = low + 100, high - 100
        for kind in KINDS:
            curve = made(rng, kind, first, last, axis=row, highest=10**7)
            inside = {r: curve.over(v.low, v.high) for r, v in values.items() if first <= v.low and v.high <= last}
            for sense in ("max", "min"):
                lowered = Lowering(coarse, of.given, of.knobs, free)
                found = best(lowered, curve, sense)
                expected = (max(v.low for v in inside.values()) if sense == "max"
                            else min(v.high for v in inside.values()))
                assert (found.status, found.objective) == ("optimal", expected), (wide, kind, sense)
                assert found.shape["expert_vs_cache_ratio"] in inside


@pytest.mark.parametrize("sense", ["max", "min"])
def test_one_curve_for_each_choice(sense: Sense) -> None:
    rng = random.Random(f"choices {sense}")
    for number in range(12):
        low, high = rng.randint(0, 40), rng.randint(60, 150)
        tables = [made(rng, rng.choice(KINDS), low, high) for _ in range(3)]
        node: Expr = tables[0]
        for value, table in enumerate(tables[1:], 1):
            node = select(Knob("choice").equals(value), table, node)
        names = {"x": (0, 160), "choice": (0, 2)}
        check(node, names, sense)
        check(node, names, sense, demand=Knob("choice").equals(number % 3))


@pytest.mark.parametrize("sense", ["max", "min"])
def test_the_sum_of_two_curves(sense: Sense) -> None:
    """Of one axis or of two, of unlike ranges: both must have a value."""
    rng = random.Random(f"sum {sense}")
    seen = 0
    for number in range(12):
        axes = (Knob("x"), Knob("x") if number % 2 else Knob("y"))
        first = made(rng, rng.choice(KINDS), rng.randint(0, 30), rng.randint(90, 150), axis=axes[0])
        ends = (rng.randint(0, 60), rng.randint(100, 160)) if number % 2 else (rng.randint(0, 4), rng.randint(6, 12))
        second = made(rng, rng.choice(KINDS), *ends, axis=axes[1])
        names = {"x": (0, 160)} if number % 2 else {"x": (0, 160), "y": (0, 12)}
        node = total([first, second]) if number % 3 else total([first, second * 3])
        demand = Knob("x") + Knob("y") <= 100 if "y" in names else Knob("x") <= 140
        seen += check(node, names, sense, demand=demand) is not None
    assert seen >= 10


def test_tie_breaks_far_from_zero_do_not_overflow() -> None:
    """Stages of small range and large value: as one weighted objective they would pass 63 bits."""
    names = {"x": (0, 1000), "y": (0, 1 << 20)}
    low = lowering(None, names)
    flat = Curve("", Knob("x"), (0, 500, 1000), (4_000_000, 4_000_900, 4_000_000))
    far = Curve("", Knob("x"), (0, 1000), (9 * 10**8, 9 * 10**8 + 50_000))
    stages = [low.number(node).low for node in (Knob("y") * 0 + 7, flat, far, Knob("y") * 4096 + (1 << 40))]
    found = Stages(low, 10).run([(stages[0], "max"), (stages[1], "max"), (stages[2], "max"), (stages[3], "min")])
    assert (found.status, found.shape) == ("optimal", {"x": 500, "y": 0})


def test_curves_without_a_place_in_common_have_no_shape() -> None:
    one, other = Curve("", Knob("x"), (0, 40), (0, 4)), Curve("", Knob("x"), (41, 90), (0, 4))
    assert check(total([one, other]), {"x": (0, 100)}, "max") is None


def test_the_worst_share_of_each_rivals_best() -> None:
    rng = random.Random(5)
    for _ in range(14):
        low, high = rng.randint(0, 50), rng.randint(150, 400)
        rivals = [made(rng, kind, low, high) for kind in rng.sample(KINDS, 3)]
        rivals = [replace(rival, ys=tuple(abs(y) + 1 for y in rival.ys)) for rival in rivals]
        bests = [max(rival.ys) for rival in rivals]
        node = robust(list(zip(rivals, bests, strict=True)))
        found = check(node, {"x": (0, 420)}, "max")
        by_hand = max(min(rival.at(x) * MICRO // top for rival, top in zip(rivals, bests, strict=True))
                      for x in range(low, high + 1))
        assert found == by_hand
        longest = robust([(rival, min(rival.ys)) for rival in rivals], "min")
        times = min(max(rival.at(x) * MICRO // min(rival.ys) for rival in rivals) for x in range(low, high + 1))
        assert check(longest, {"x": (0, 420)}, "min") == times
    assert check(robust([(Curve("", Knob("x"), (0, 9), (0, 0)), 0)]), {"x": (0, 9)}, "max") == 0


def test_a_curve_over_bytes_and_large_values() -> None:
    """Over a million MiB and to 1e9, as a pool and thousandths of a token a second (and more) are."""
    rng = random.Random(11)
    for kind in KINDS:
        curve = made(rng, kind, 1, 1 << 20)
        curve = replace(curve, ys=tuple(y * 1000 for y in curve.ys))
        low = lowering(None, {"x": (1, 1 << 20)})
        low.demand(Knob("x") * MIB + 12_345 <= (1 << 39))
        most = ((1 << 39) - 12_345) // MIB
        for sense, pick in (("max", max), ("min", min)):
            found = best(low, curve, sense)  # type: ignore[arg-type]
            # between two points a curve has no value beyond theirs
            places = [x for x in curve.xs if x <= most] + [most]
            assert found.objective == pick(curve.at(x) for x in places)
            assert curve.at(found.shape["x"]) == found.objective


def test_a_curve_counts_as_declared_for_conditions() -> None:
    """``select`` on a curve's own value, with each branch tried."""
    curve = Curve("", Knob("x"), (0, 10, 20), (0, 100, 0))
    node = select(curve >= 95, Knob("x") * 10, curve)
    truths: set[Truth] = set()
    for x in range(21):
        walk = Walk(OnIntervals(knobs={"x": point(x)}, as_is={}, facts={}))
        truths.add(walk.condition(curve >= 95))
    assert truths == {True, False}
    assert check(node, {"x": (0, 20)}, "max") == 100
