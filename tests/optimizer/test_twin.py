"""The solver against brute force: every shape of a coarse grid tried by formulas written out by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from measurements.site import Site
from models.interval import GIB, MIB, Interval, point
from optimizer.solve import Answer, Bound, Question, ask, solve
from tests import twin
from tests.made_sites import IQ4R, Word, site, with_grids
from tests.twin import Tried, Whole

#: Instances of each generation; the goals take turns.
PER_GENERATION = 36
MOST_SHAPES = 6000
#: Seconds: the tests compare what is proven, however busy the machine is.
PATIENCE = 120.0


@dataclass(frozen=True)
class Instance:
    """One question, its grid of shapes and what brute force makes of it."""

    made: Site
    question: Question
    names: tuple[str, ...]
    grid: dict[str, Whole]
    tried: Tried
    holds: dict[str, NDArray[np.bool_]]
    objective: Whole
    maximised: bool
    #: The same grid with other facts: which shapes surely hold, and the objective.
    again: Callable[[dict[str, Interval]], tuple[NDArray[np.bool_], Whole]]
    #: What the formulas are given.
    oracle: twin.RadianceSite | twin.HalogenSite

    def feasible(self, without: str | None = None) -> NDArray[np.bool_]:
        """Which shapes surely meet every constraint and bound, or all but one."""
        whole = np.ones_like(self.objective, dtype=bool)
        for name, holds in self.holds.items():
            if name != without:
                whole &= holds
        return whole

    def best(self) -> int | None:
        """The best value of the objective; None where no shape holds."""
        found = self.objective[self.feasible()]
        return None if not found.size else int(found.max() if self.maximised else found.min())


def spread(rng: random.Random, value: int, wide: bool, step: int = MIB) -> Interval:
    """A fact around ``value``: exact, or some steps wide."""
    if not wide:
        return point(value)
    half = rng.randint(1, 8 * step)
    return Interval(max(value - half, 0), value + half)


def axis(rng: random.Random, low: int, high: int, count: int, grid: int = 1) -> tuple[int, int, int]:
    """Bounds and grid of a coarse knob with at most ``count`` values."""
    step = rng.randint(1, max((high - low) // count // grid, 1)) * grid
    first = rng.randint(low, max(high - step * count, low)) // step * step
    first = max(first, -(-low // step) * step)
    last = min(first + step * (count - 1), high)
    return first, first + max(last - first, 0) // step * step, step


def opened(made: Site, goal: str, axes: dict[str, tuple[int, int, int]], bounds: Sequence[Bound]) -> Question:
    """The question of ``goal`` with exactly the axes free."""
    coarse = with_grids(made, {name: step for name, (_, _, step) in axes.items()})
    question = ask(coarse, goal, free=[name for name in axes if name != "tp"], top=1)
    return replace(question, free={name: (low, high) for name, (low, high, _) in axes.items()}, bounds=tuple(bounds))


def meshed(axes: dict[str, tuple[int, int, int]], held: dict[str, int]) -> dict[str, Whole]:
    """Every shape of the axes: one flat array a knob."""
    ticks = [np.arange(low, high + 1, step, dtype=np.int64) for low, high, step in axes.values()]
    grid = {name: plane.ravel() for name, plane in zip(axes, np.meshgrid(*ticks, indexing="ij"), strict=True)}
    size = next(iter(grid.values())).size
    assert size <= MOST_SHAPES
    return {name: np.full(size, value, dtype=np.int64) for name, value in held.items()} | grid


def bounded(rng: random.Random, tried: Tried, names: Sequence[str]) -> tuple[list[Bound], dict[str, NDArray[np.bool_]]]:
    """Sometimes a bound on a row, near the values the grid has; and where it surely holds."""
    bounds: list[Bound] = []
    holds: dict[str, NDArray[np.bool_]] = {}
    for name in names:
        if name not in tried.low or rng.random() < 0.55:
            continue
        value = int(np.quantile(tried.low[name], rng.choice((0.3, 0.8, 0.95, 1))))
        if rng.random() < 0.75 or name not in tried.high:
            found = Bound(name, "at least", value, str(value))
            holds[found.label] = tried.low[name] >= value
        else:
            found = Bound(name, "at most", value, str(value))
            holds[found.label] = tried.high[name] <= value
        bounds.append(found)
    return bounds, holds


RADIANCE = {"radiance@1.0.5": "A", "radiance@1.0.13": "A", "radiance@1.2.2": "B", "radiance@1.8.1": "C"}
MODES = ("derived", "pair", "cache stated", "weights stated")


def radiance(rng: random.Random, engine: str, mode: str, goal: str) -> Instance:
    of = RADIANCE[engine]
    wide = rng.random() < 0.5 and (goal != "headroom" or mode == "pair")
    knobs: dict[str, int] = {
        "max_num_seqs": rng.randint(1, 8), "max_model_len": rng.randint(4096, 262_144),
        "gpu_headroom_mib": rng.choice((96, 512)), "host_pool_mib": rng.randint(4_000, 26_000),
        "vram_weights_mib": 0, "vram_kv_mib": 0, "expert_vs_cache_ratio": 750_000,
    }
    fp8, spec, slots = rng.random() < 0.6, rng.randint(0, 3), rng.choice((0, 4, 8))
    stages = rng.random() < 0.6
    facts: dict[str, Interval] = {}
    budgeted = mode != "pair" or rng.random() < 0.4
    if budgeted:
        facts = {
            "card_total": spread(rng, rng.randint(28 * GIB, 33 * GIB), wide),
            "already_held": spread(rng, 300 * MIB, wide),
            "activation_arena": spread(rng, rng.randint(500, 1500) * MIB, wide),
            "step_staging": spread(rng, 3 * MIB, wide, 999),
            "static_weights": spread(rng, rng.randint(2500, 4200) * MIB, wide),
            "expert_plane": spread(rng, rng.randint(12, 32) * GIB, wide),
            "expert_layer_max": point(rng.randint(1, 160_000) * 4096),
            "spare": spread(rng, rng.randint(0, 80) * MIB, wide), "unit_max": point(2 * MIB),
            "slot_stride": point(MIB), "movable_units": point(25_000),
        }
        if engine != "radiance@1.0.5":
            facts["hardware_queues"] = spread(rng, 100 * MIB, wide, 4096)
        if of != "A":
            facts |= {"drift": spread(rng, 10 * MIB, wide), "prefetch": spread(rng, 4 * MIB, wide)}
    if mode == "pair" or goal == "headroom":
        facts["pair_ceiling"] = spread(rng, rng.randint(24_000, 32_000) * MIB, wide)
    if goal == "headroom":
        facts |= {"settled_free": spread(rng, 600 * MIB, wide), "settle_floor": spread(rng, 548 * MIB, wide)}
    if rng.random() < 0.4:
        facts["mem_total"] = spread(rng, rng.randint(30, 90) * GIB, wide)
    if rng.random() < 0.3:
        facts["memlock"] = spread(rng, rng.randint(20, 90) * GIB, wide)
    if mode in ("pair", "weights stated"):
        knobs["vram_weights_mib"] = rng.randint(15_000, 28_000)
    if mode in ("pair", "cache stated"):
        knobs["vram_kv_mib"] = rng.randint(1_000, 9_000)
    axes: dict[str, tuple[int, int, int]] = {}
    first = {"context": "max_model_len", "sequences": "max_num_seqs", "host-ram": "host_pool_mib"}.get(goal)
    moves = [first] if first else []
    if mode == "derived":
        moves.append("expert_vs_cache_ratio" if of == "A" else "host_pool_mib")
    else:
        moves += [name for name in ("vram_weights_mib", "vram_kv_mib") if knobs[name]]
    if rng.random() < 0.5:
        moves.append(rng.choice(("max_num_seqs", "max_model_len", "gpu_headroom_mib", "host_pool_mib")))
    moves = list(dict.fromkeys(moves))
    count = {1: 400, 2: 60, 3: 16}.get(len(moves), 8)
    for name in moves:
        span = {
            "max_model_len": (1, 262_144), "max_num_seqs": (1, 24), "host_pool_mib": (0, 34_000),
            "gpu_headroom_mib": (48, 1200), "expert_vs_cache_ratio": (1, 999_999),
            "vram_weights_mib": (12_000, 30_000), "vram_kv_mib": (500, 16_000),
        }[name]
        axes[name] = axis(rng, *span, count, 100 if name == "expert_vs_cache_ratio" else 1)
    words: dict[str, str | int] = {name: value for name, value in knobs.items() if name not in gone(of)}
    if of == "A":
        words["expert_vs_cache_ratio"] = f"0.{knobs['expert_vs_cache_ratio']:06d}"
    words |= {"tp": 2, "kv_cache_dtype": "fp8" if fp8 else "bf16", "num_speculative_tokens": spec,
              "checkpoint_slots": slots, "ngram_placement": "disk", "placement": "expert_tiered",
              "deterministic": int(not stages)}
    sessions = rng.choice((None, None, 1, 2))
    stated: dict[str, Word] = dict(facts)
    made = site(engine, container=IQ4R, knobs=words, facts=stated, sessions=sessions)
    grid = meshed(axes, knobs)
    given = {name: (span.low, span.high) for name, span in facts.items()}
    oracle = twin.RadianceSite(of, given, knobs, sessions, not wide, fp8, spec, slots, stages)
    tried = twin.try_radiance(oracle, grid)
    bounds, holds = bounded(rng, tried, ("vram_weights", "vram_kv", "kv_tokens"))
    constants = {} if budgeted else from_constants(made, of, knobs["host_pool_mib"], grid)

    def sought(of_facts: twin.RadianceSite, seen: Tried) -> Whole:
        if goal == "headroom":
            return headroom(of_facts, seen, grid)
        found = {"context": grid["max_model_len"], "sequences": grid["max_num_seqs"], "sessions": seen.low["sessions"],
                 "host-ram": seen.high["pinned"]}
        return seen.low["experts"] if goal == "slab" else found[goal]

    def again(others: dict[str, Interval]) -> tuple[NDArray[np.bool_], Whole]:
        of_facts = replace(oracle, facts={name: (value.low, value.high) for name, value in others.items()})
        seen = twin.try_radiance(of_facts, grid)
        return all_of(seen.holds | constants | again_bounded(bounds, seen), grid), sought(of_facts, seen)

    question = opened(made, goal, axes, bounds)
    return Instance(question.site, question, tuple(axes), grid, tried, tried.holds | constants | holds,
                    sought(oracle, tried), goal != "host-ram", again, oracle)


def all_of(holds: dict[str, NDArray[np.bool_]], grid: dict[str, Whole]) -> NDArray[np.bool_]:
    """Where everything holds."""
    whole = np.ones_like(next(iter(grid.values())), dtype=bool)
    for held in holds.values():
        whole &= held
    return whole


def again_bounded(bounds: Sequence[Bound], tried: Tried) -> dict[str, NDArray[np.bool_]]:
    """Where bounds on rows hold with other facts."""
    return {bound.label: tried.low[bound.name] >= bound.value if bound.sense == "at least" else
            tried.high[bound.name] <= bound.value for bound in bounds}


def gone(of: str) -> set[str]:
    """Knobs that a family no longer has."""
    pools = {"vram_weights_mib", "vram_kv_mib"}
    return {"A": set(), "B": {"expert_vs_cache_ratio"}, "C": {"expert_vs_cache_ratio", *pools}}[of]


def from_constants(made: Site, of: str, host_now: int, grid: dict[str, Whole]) -> dict[str, NDArray[np.bool_]]:
    """What the known container's constants decide of a stated pair without any budget row."""
    facts = made.given.facts
    statics = int(4.035 * GIB)  # the largest static weights printed for this model: 4.03 GiB, to the print
    plane, unit, stride = (facts[name].low for name in ("expert_plane", "unit_max", "slot_stride"))
    weights, host = grid["vram_weights_mib"] * MIB, grid["host_pool_mib"] * MIB
    found = {"weights_hold_statics": statics <= weights,
             "experts_placed": plane + max(64 * stride, 2 * unit) <= weights - statics + host}
    if of != "A":
        most = -(-(plane + min(64 * stride, 2 * unit)) // MIB) * MIB
        found["host_pool_within_plane"] = host <= max(most, host_now * MIB)
    return found


def headroom(of: twin.RadianceSite, tried: Tried, grid: dict[str, Whole]) -> Whole:
    """Settled free above the floor: of a stated pair what the ceiling leaves, else what a boot had, moved."""
    if ((grid["vram_weights_mib"] > 0) & (grid["vram_kv_mib"] > 0)).all():
        return tried.low["pair headroom"]
    assert of.exact
    boot = twin.try_radiance(of, {name: np.array([value], dtype=np.int64) for name, value in of.boot.items()})
    was = of.facts["settled_free"][0] - of.facts["settle_floor"][1]
    return was + tried.low["above headroom"] - boot.low["above headroom"]


HALOGEN = {"halogen@0.5.8": "w4b", "halogen@0.13.0": "w4b", "halogen@0.15.1": "v2", "halogen@0.17.4": "v2"}


def halogen(rng: random.Random, engine: str, goal: str) -> Instance:
    checkpoint = HALOGEN[engine]
    version = tuple(map(int, engine.partition("@")[2].split(".")))
    wide = rng.random() < 0.5
    knobs = {
        "ctx": rng.choice((65_536, 131_072, 262_144)), "kv_pool_positions": rng.randint(256, 3000) * 256,
        "max_tok": rng.choice((8192, 16_384, 32_768)), "kv_slots": rng.randint(1, 8),
        "host_reserve_gib": rng.randint(0, 28) * 1000, "cache_entries": rng.choice((0, 8, 24)),
    }
    vision, fit, trunk = rng.random() < 0.4, rng.random() < 0.85, version >= (0, 15, 2) and rng.random() < 0.4
    weights = {"w4b": 679, "v2": 621}[checkpoint] * GIB // 10
    facts = {
        "mem_total": spread(rng, rng.randint(90, 135) * GIB, wide), "resident_weights": spread(rng, weights, wide),
    }
    if rng.random() < 0.5 or goal == "headroom":
        facts["host_left"] = spread(rng, 9 * GIB, wide)
    if rng.random() < 0.4:
        facts["mem_available"] = spread(rng, rng.randint(80, 130) * GIB, wide)
    if rng.random() < 0.4:
        facts |= {"gtt_total": spread(rng, rng.randint(20, 62) * GIB, wide), "gtt_used": spread(rng, GIB, wide)}
    moves = ["kv_pool_positions"]
    first = {"context": "ctx", "sequences": "kv_slots"}.get(goal)
    if first:
        moves.append(first)
    if rng.random() < 0.5:
        moves.append(rng.choice(("max_tok", "host_reserve_gib", "ctx", "kv_slots")))
    moves = list(dict.fromkeys(moves))
    count = {1: 400, 2: 60, 3: 16}[len(moves)]
    axes: dict[str, tuple[int, int, int]] = {}
    for name in moves:
        low, high, most, unit = {
            "kv_pool_positions": (256, 1_400_000, count, 256), "ctx": (4096, 262_144, count, 1),
            "kv_slots": (1, 64, count, 1), "max_tok": (1024, 65_536, count, 1),
            "host_reserve_gib": (0, 30_000, min(count, 30), 1000),
        }[name]
        axes[name] = axis(rng, low, high, most, unit)
    words: dict[str, str | int] = {name: value for name, value in knobs.items() if name != "host_reserve_gib"}
    words |= {"host_reserve_gib": knobs["host_reserve_gib"] // 1000, "vision_tower": int(vision),
              "kv_pool_fit": int(fit)}
    if version >= (0, 15, 2):
        words["prefill_keep_trunk"] = int(trunk)
    sessions = rng.choice((1, 1, 2))
    stated: dict[str, Word] = dict(facts)
    made = site(engine, container=checkpoint, knobs=words, facts=stated, sessions=sessions)
    locked = {"w4b": 680, "v2": 621}[checkpoint]
    span = (twin.printed_low(locked, 10), twin.printed_high(locked, 10))
    grid = meshed(axes, knobs)
    of = twin.HalogenSite(
        checkpoint, version >= (0, 15, 1), {name: (v.low, v.high) for name, v in facts.items()}, sessions, fit, vision,
        trunk, span, version >= (0, 15, 2), version >= (0, 11, 9), knobs)
    tried = twin.try_halogen(of, grid)

    def sought(seen: Tried) -> Whole:
        if goal == "headroom":
            return seen.low["host_left"]
        return {"context": grid["ctx"], "sequences": grid["kv_slots"], "sessions": seen.low["sessions"],
                "host-ram": seen.high["held"]}[goal]

    def again(others: dict[str, Interval]) -> tuple[NDArray[np.bool_], Whole]:
        of_facts = replace(of, facts={name: (value.low, value.high) for name, value in others.items()})
        seen = twin.try_halogen(of_facts, grid)
        return all_of(seen.holds, grid), sought(seen)

    question = opened(made, goal, axes, ())
    return Instance(question.site, question, tuple(axes), grid, tried, dict(tried.holds), sought(tried),
                    goal != "host-ram", again, of)


GENERATIONS = [
    *(("radiance@1.0.5", mode) for mode in MODES), *(("radiance@1.0.13", mode) for mode in MODES),
    ("radiance@1.2.2", "derived"), ("radiance@1.2.2", "pair"), ("radiance@1.8.1", "derived"),
    *((engine, "") for engine in HALOGEN),
]


def goals(engine: str, mode: str) -> tuple[str, ...]:
    if engine in HALOGEN:
        return "context", "sequences", "sessions", "host-ram", "headroom"
    if mode == "pair":
        return "context", "sequences", "sessions", "host-ram", "headroom"
    return "context", "sequences", "sessions", "slab", "host-ram", "headroom"


@cache
def instances(engine: str, mode: str) -> tuple[Instance, ...]:
    """The instances of one generation, the same in every run."""
    rng = random.Random(f"{engine} {mode}")
    turns = goals(engine, mode)
    found = []
    for number in range(PER_GENERATION):
        goal = turns[number % len(turns)]
        found.append(halogen(rng, engine, goal) if engine in HALOGEN else radiance(rng, engine, mode, goal))
    return tuple(found)


@cache
def answers(engine: str, mode: str) -> tuple[Answer, ...]:
    return tuple(solve(instance.question, seconds=PATIENCE) for instance in instances(engine, mode))


def pairs(engine: str, mode: str) -> Iterator[tuple[int, Instance, Answer]]:
    for number, both in enumerate(zip(instances(engine, mode), answers(engine, mode), strict=True)):
        yield number, *both


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_the_optimum_is_brute_forces_own(engine: str, mode: str) -> None:
    seen: Counter[str] = Counter()
    for number, instance, answer in pairs(engine, mode):
        best = instance.best()
        where = (number, instance.question.goal.name)
        if best is None:
            assert answer.status == "infeasible", where
            assert answer.conflict, where
            seen["infeasible"] += 1
            continue
        assert answer.status == "optimal", where
        ranked = answer.shapes[0]
        value = ranked.objective.low if instance.maximised else ranked.objective.high
        assert value == best, where
        place = np.ones_like(instance.objective, dtype=bool)
        for name in instance.names:
            place &= instance.grid[name] == ranked.shape[name]
        assert place.sum() == 1, where
        assert (instance.feasible() & place).any(), where
        assert int(instance.objective[place][0]) == best, where
        seen["feasible"] += 1
    assert min(seen["feasible"], seen["infeasible"]) >= 6, seen
    assert seen.total() == PER_GENERATION


def test_enough_instances_of_both_kinds() -> None:
    counts: Counter[bool] = Counter()
    for engine, mode in GENERATIONS:
        counts.update(instance.best() is None for instance in instances(engine, mode))
    assert counts.total() >= 500
    assert min(counts.values()) >= 150, counts


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_a_conflict_is_minimal(engine: str, mode: str) -> None:
    """The named set cannot hold together; without any one member it can, by brute force."""
    checked = 0
    for number, instance, answer in pairs(engine, mode):
        if answer.status != "infeasible":
            continue
        names = [member.name for member in answer.conflict]
        known = {"kv_pool_fit": "fit", "keep_trunk_fit": "fit"}
        members = [known.get(name, name) for name in names]
        assert set(members) <= set(instance.holds), (number, names)

        def possible(kept: Sequence[str], of: Instance = instance) -> bool:
            whole = np.ones_like(of.objective, dtype=bool)
            for name in kept:
                whole &= of.holds[name]
            return bool(whole.any())

        assert not possible(members), (number, names)
        for member in members:
            assert possible([other for other in members if other != member]), (number, names, member)
        checked += 1
    assert checked >= 6
