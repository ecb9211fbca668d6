"""Explanations against brute force: every subset of members, every shape of small grids, formulas written by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from measurements.site import Site
from models.declare import KnobSpec
from models.interval import GIB, MIB, Interval, point
from optimizer.solve import Bound, Question, ask, solve
from optimizer.why import STEPS, Why, next_bound, why
from tests import twin
from tests.made_sites import IQ4R, Word, site, with_facts
from tests.optimizer.test_twin import Instance, axis, goals, spread
from tests.optimizer.test_twin import halogen as made_halogen
from tests.optimizer.test_twin import radiance as made_radiance
from tests.twin import Tried, Whole

#: Instances of each generation.
EACH = 27
#: What one explanation may take here.
SECONDS = 4.0
GENERATIONS = (
    ("radiance@1.0.5", "derived"), ("radiance@1.0.5", "pair"), ("radiance@1.0.13", "derived"),
    ("radiance@1.0.13", "pair"), ("radiance@1.0.13", "cache stated"), ("radiance@1.2.2", "derived"),
    ("radiance@1.2.2", "pair"), ("radiance@1.8.1", "derived"),
    ("halogen@0.5.8", ""), ("halogen@0.13.0", ""), ("halogen@0.15.1", ""), ("halogen@0.17.4", ""),
)
FAMILIES = {"1.0.5": "A", "1.0.13": "A", "1.2.2": "B", "1.8.1": "C"}
CHECKPOINTS = {"0.5.8": "w4b", "0.13.0": "w4b", "0.15.1": "v2", "0.17.4": "v2"}
CHOICES = ("kv_cache_dtype", "ngram_placement", "deterministic", "vision_tower", "kv_pool_fit", "prefill_keep_trunk")


@dataclass(frozen=True)
class Case:
    """A question; by how much each shape of its grid misses each member; and what each counts as one step.

    ``open_ones`` marks shapes whose verdict some constraint lacks the facts for: it then bounds nothing.
    """

    question: Question
    short: dict[str, Whole]
    steps: dict[str, int]
    open_ones: NDArray[np.bool_]
    shapes: int


@dataclass(frozen=True)
class Told:
    """What brute force says of a case."""

    conflicts: frozenset[frozenset[str]]
    corrections: frozenset[frozenset[str]]
    single: dict[str, int]
    undecided: frozenset[str]
    helpless: frozenset[str]
    joint: dict[frozenset[str], Fraction]


def told(case: Case) -> Told | None:
    """All minimal conflicts, corrections and cheapest repairs, by trying everything; None where a shape answers."""
    names = [name for name, short in case.short.items() if (short > 0).any()]
    count = len(names)
    held = np.zeros(case.shapes, dtype=np.int64)
    for place, name in enumerate(names):
        held |= (case.short[name] <= 0).astype(np.int64) << place
    possible = np.zeros(1 << count, dtype=bool)
    possible[np.unique(held)] = True
    every = np.arange(1 << count)
    for place in range(count):  # what holds of a set holds of its parts
        possible[every & ~(1 << place)] |= possible[every]
    if possible[-1]:
        return None
    least, largest = ~possible, possible.copy()
    for place in range(count):
        least &= possible[every & ~(1 << place)] | (every >> place & 1 == 0)
        largest &= ~possible[every | 1 << place] | (every >> place & 1 == 1)

    def named(bits: int) -> frozenset[str]:
        return frozenset(name for place, name in enumerate(names) if bits >> place & 1)

    conflicts = frozenset(named(int(bits)) for bits in every[least])
    corrections = frozenset(named(int(bits) ^ (1 << count) - 1) for bits in every[largest])
    single, undecided = {}, set()
    for name in frozenset().union(*conflicts):
        fits = np.ones(case.shapes, dtype=bool)
        for other in names:
            fits &= (case.short[other] <= 0) | (other == name)
        if (fits & ~case.open_ones).any():
            single[name] = int(case.short[name][fits & ~case.open_ones].min())
        elif fits.any():
            undecided.add(name)
    joint = {}
    for correction in corrections:
        fits = ~case.open_ones
        for other in names:
            fits &= (case.short[other] <= 0) | (other in correction)
        if len(correction) > 1 and fits.any():
            missed = np.stack([np.maximum(case.short[name][fits], 0) for name in sorted(correction)])
            amounts = np.unique(missed, axis=1)
            joint[correction] = min(
                sum((Fraction(int(amount), case.steps[name]) for name, amount in
                     zip(sorted(correction), column, strict=True)), Fraction(0)) for column in amounts.T)
    helpless = frozenset().union(*conflicts) - single.keys() - undecided
    return Told(conflicts, corrections, single, frozenset(undecided), helpless, joint)


def said(case: Case, found: Why) -> Told:
    """The same of a fast explanation."""
    conflicts = frozenset(frozenset(member.name for member in conflict) for conflict in found.conflicts)
    single = {}
    for repair in found.single:
        (give,) = repair.gives
        single[give.name] = give.amount
    joint = {}
    for repair in found.joint:
        joint[frozenset(give.name for give in repair.gives)] = repair.steps
        assert repair.steps == sum((Fraction(g.amount, case.steps[g.name]) for g in repair.gives), Fraction(0))
    return Told(conflicts, frozenset(), single, frozenset(found.undecided), frozenset(found.helpless), joint)


# --- cases -----------------------------------------------------------------------------------------------------------


def narrowed(made: Site, ranges: Mapping[str, tuple[int, int, int]]) -> Site:
    """``made`` with a model whose knobs move between these ends on these grids."""
    knobs: dict[str, KnobSpec] = {}
    for name, spec in made.model.knobs.items():
        low, high, grid = ranges.get(name, (spec.free_low, spec.free_high, spec.grid))
        knobs[name] = replace(spec, free_low=low, free_high=high, grid=grid)
    return replace(made, model=replace(made.model, knobs=knobs))


def ticks(low: int, high: int, grid: int) -> range:
    return range(-(-low // grid) * grid, high + 1, grid)


def within(rng: random.Random, span: tuple[int, int, int, int]) -> tuple[int, int, int]:
    """A coarse range of a knob: low, high and grid of at most so many values."""
    low, high, count, unit = span
    return axis(rng, low, high, count, unit)


def asked(made: Site, goal: str, free: Mapping[str, tuple[int, int, int]],
          given: Mapping[str, int], bounds: list[Bound]) -> Question:
    words = {name: made.model.knobs[name].write(value) for name, value in given.items()}
    question = ask(made, goal, free=list(free), given=words, top=1)
    ends = {name: (low, high) for name, (low, high, _) in free.items()}
    return replace(question, free=ends, bounds=tuple(bounds))


def bounds_near(rng: random.Random, tried: Tried, rows: tuple[str, ...]) -> tuple[list[Bound], dict[str, Whole]]:
    """Bounds on rows near the best that the grid has, or beyond; and by how much each shape misses them."""
    found: list[Bound] = []
    short: dict[str, Whole] = {}
    for name in rows:
        if name not in tried.low or rng.random() < 0.4:
            continue
        if rng.random() < 0.75 or name not in tried.high:
            value = int(np.quantile(tried.low[name], rng.choice((0.6, 0.95, 1)))) + rng.choice((0, 0, 1, 70 * MIB))
            found.append(Bound(name, "at least", value, str(value)))
            short[found[-1].label] = value - tried.low[name]
        else:
            value = int(np.quantile(tried.high[name], rng.choice((0, 0.05, 0.4)))) - rng.choice((0, 0, 1, 70 * MIB))
            found.append(Bound(name, "at most", max(value, 0), str(max(value, 0))))
            short[found[-1].label] = tried.high[name] - max(value, 0)
    return found, short


def whole(variants: list[tuple[dict[str, int], dict[str, Whole], Tried]]) -> tuple[dict[str, Whole], dict[str, Whole]]:
    """Grids of several settings of choices as one: the knobs and what each constraint is short by."""
    knobs: dict[str, Whole] = {}
    short: dict[str, Whole] = {}
    size = len(next(iter(variants[0][1].values())))
    for name in variants[0][1]:
        knobs[name] = np.concatenate([grid[name] for _, grid, _ in variants])
    for name in variants[0][0]:
        knobs[name] = np.concatenate([np.full(size, choice[name]) for choice, _, _ in variants])
    for name in dict.fromkeys(name for _, _, tried in variants for name in tried.short):
        short[name] = np.concatenate([np.broadcast_to(tried.short.get(name, np.int64(0)), (size,))
                                      for _, _, tried in variants])
    return knobs, short


def joined(variants: list[Tried]) -> Tried:
    size = max(len(row) for row in variants[0].low.values())

    def rows(side: str, name: str) -> Whole:
        return np.concatenate([np.broadcast_to(getattr(tried, side)[name], (size,)) for tried in variants])

    return Tried({}, {name: rows("low", name) for name in variants[0].low},
                 {name: rows("high", name) for name in variants[0].high}, {})


def mesh(axes: Mapping[str, tuple[int, int, int]], given: Mapping[str, int],
         held: Mapping[str, int]) -> dict[str, Whole]:
    every = {}
    for name, ends in axes.items():
        values = set(ticks(*ends))
        every[name] = np.array(sorted(values | ({given[name]} if name in given else set())), dtype=np.int64)
    planes = np.meshgrid(*every.values(), indexing="ij") if every else []
    grid = {name: plane.ravel() for name, plane in zip(every, planes, strict=True)}
    size = next(iter(grid.values())).size if grid else 1
    return {name: np.full(size, value, dtype=np.int64) for name, value in held.items()} | grid


SPANS = {
    "max_model_len": (4096, 262_144, 9, 1), "max_num_seqs": (1, 24, 9, 1), "host_pool_mib": (0, 34_000, 9, 1),
    "gpu_headroom_mib": (48, 1200, 6, 1), "expert_vs_cache_ratio": (100, 999_900, 9, 100),
    "vram_weights_mib": (12_000, 30_000, 12, 1), "vram_kv_mib": (500, 16_000, 12, 1),
    "ctx": (4096, 262_144, 9, 1), "kv_pool_positions": (256, 1_400_000, 12, 256), "kv_slots": (1, 64, 7, 1),
    "max_tok": (1024, 65_536, 7, 1), "host_reserve_gib": (0, 40_000, 7, 1000), "cache_entries": (0, 400, 7, 1),
}


def radiance(rng: random.Random, engine: str, mode: str) -> Case:
    of = FAMILIES[engine.partition("@")[2]]
    wide = rng.random() < 0.5
    knobs = {
        "max_num_seqs": rng.randint(1, 8), "max_model_len": rng.randint(4096, 262_144),
        "gpu_headroom_mib": rng.choice((96, 512)), "host_pool_mib": rng.randint(4_000, 26_000),
        "vram_weights_mib": rng.randint(15_000, 28_000) if mode == "pair" else 0,
        "vram_kv_mib": rng.randint(1_000, 9_000) if mode in ("pair", "cache stated") else 0,
        "expert_vs_cache_ratio": 750_000,
    }
    spec, slots = rng.randint(0, 3), rng.choice((0, 4, 8))
    choices = {"kv_cache_dtype": int(rng.random() < 0.6), "deterministic": int(rng.random() < 0.4),
               "ngram_placement": 2}
    facts = {
        "card_total": spread(rng, rng.randint(28 * GIB, 33 * GIB), wide), "already_held": spread(rng, 300 * MIB, wide),
        "activation_arena": spread(rng, rng.randint(500, 1500) * MIB, wide),
        "step_staging": spread(rng, 3 * MIB, wide, 999),
        "static_weights": spread(rng, rng.randint(2500, 4200) * MIB, wide),
        "expert_plane": spread(rng, rng.randint(12, 32) * GIB, wide),
        "expert_layer_max": point(rng.randint(1, 160_000) * 4096), "spare": spread(rng, rng.randint(0, 80) * MIB, wide),
        "unit_max": point(2 * MIB), "slot_stride": point(MIB), "movable_units": point(25_000),
    }
    if engine != "radiance@1.0.5":
        facts["hardware_queues"] = spread(rng, 100 * MIB, wide, 4096)
    if of != "A":
        facts |= {"drift": spread(rng, 10 * MIB, wide), "prefetch": spread(rng, 4 * MIB, wide)}
    if mode == "pair":
        facts["pair_ceiling"] = spread(rng, rng.randint(24_000, 32_000) * MIB, wide)
        facts["settle_floor"] = spread(rng, rng.randint(100, 600) * MIB, wide)
    for name, odds in (("mem_total", 0.5), ("memlock", 0.3)):
        if rng.random() < odds:
            facts[name] = spread(rng, rng.randint(18, 70) * GIB, wide)
    movable = ["max_num_seqs", "max_model_len", "gpu_headroom_mib", "host_pool_mib"]
    movable += [name for name in ("vram_weights_mib", "vram_kv_mib") if knobs[name]]
    movable += ["expert_vs_cache_ratio"] if of == "A" and mode == "derived" else []
    ranges, free, given = moved(rng, movable)
    loose = [name for name in choices if rng.random() < 0.3][:2]
    words: dict[str, str | int] = {
        name: value for name, value in knobs.items()
        if not (name == "expert_vs_cache_ratio" and of != "A") and not (of == "C" and name.startswith("vram_"))}
    if of == "A":
        words["expert_vs_cache_ratio"] = f"0.{knobs['expert_vs_cache_ratio']:06d}"
    words |= {"tp": 2, "kv_cache_dtype": ("bf16", "fp8")[choices["kv_cache_dtype"]], "num_speculative_tokens": spec,
              "checkpoint_slots": slots, "ngram_placement": "disk", "placement": "expert_tiered",
              "deterministic": choices["deterministic"]}
    limit = None
    if rng.random() < 0.4:  # a pinned-RAM gate, whose knobs move along with the host pool
        words |= {"ttm_min_mib": rng.randint(8_000, 60_000)}
        if rng.random() < 0.6:
            words["ttm_target_mib"] = int(words["ttm_min_mib"]) + 4096
        limit = facts["ttm_limit"] = spread(rng, rng.randint(20, 70) * GIB, wide)
    sessions = rng.choice((None, None, 1, 2))
    stated: dict[str, Word] = dict(facts)
    made = narrowed(site(engine, container=IQ4R, knobs=words, facts=stated, sessions=sessions), ranges)
    table = made.given.facts.get("ngram_size") if engine != "radiance@1.0.5" else point(0)
    if rng.random() < 0.6:  # how large the table is nobody said
        made = with_facts(made, {name: value for name, value in made.given.facts.items() if name != "ngram_size"})
        table = table if engine == "radiance@1.0.5" else None
    now = knobs | given
    grid = mesh(ranges, given, now)
    variants = []
    for values in product(*(((1, 2) if name == "ngram_placement" else (0, 1)) if name in loose else (choices[name],)
                            for name in choices)):
        chosen = dict(zip(choices, values, strict=True))
        oracle = twin.RadianceSite(of, {name: (v.low, v.high) for name, v in facts.items()}, knobs, sessions, not wide,
                                   chosen["kv_cache_dtype"] == 1, spec, slots, chosen["deterministic"] == 0)
        tried = twin.try_radiance(oracle, grid)
        gated(tried, words, limit)
        if chosen["ngram_placement"] == 1:
            for name, short in tried.short.items():
                if name.startswith("pinned_"):  # what cannot be judged bounds nothing
                    tried.short[name] = np.zeros_like(short) if table is None else short + table.high
        variants.append((chosen, grid, tried))
    bounds, missed = bounds_near(rng, joined([tried for _, _, tried in variants]),
                                 ("vram_weights", "vram_kv", "kv_tokens"))
    turns = ["context", "sequences", "sessions", "host-ram"]
    return case(made, rng.choice(turns), ranges, free, given, {name: choices[name] for name in loose}, variants,
                bounds, missed, lacking=table is None and any("pinned_" in name for name in variants[0][2].short))


def gated(tried: Tried, words: Mapping[str, str | int], limit: Interval | None) -> None:
    """Adds the constraints of the pinned-RAM gate, as the serve script's order of steps has them."""
    if limit is None:
        return
    least, target = int(words["ttm_min_mib"]) * MIB, int(words.get("ttm_target_mib", 0)) * MIB
    pinned = tried.high["pinned"]
    raised = max(target, limit.low) if target else limit.low
    tried.short["ttm_gate_opens"] = np.full_like(pinned, least - raised)
    if not target:
        tried.short["pinned_within_ttm"] = pinned - limit.low


def moved(rng: random.Random, movable: list[str]) -> tuple[
        dict[str, tuple[int, int, int]], dict[str, tuple[int, int, int]], dict[str, int]]:
    """Which knobs are free and which are held by ``--given``, and between which ends each may move."""
    picked = rng.sample(movable, min(rng.choice((2, 3, 3, 4)), len(movable)))
    number = rng.randint(0, min(2, len(picked) - 1))
    ranges = {name: within(rng, SPANS[name]) for name in picked}
    given = {name: rng.choice(ticks(*ranges[name])) for name in picked[:number]}
    return ranges, {name: ranges[name] for name in picked[number:]}, given


def halogen(rng: random.Random, engine: str) -> Case:
    checkpoint = CHECKPOINTS[engine.partition("@")[2]]
    version = tuple(map(int, engine.partition("@")[2].split(".")))
    wide = rng.random() < 0.5
    knobs = {
        "ctx": rng.choice((65_536, 131_072, 262_144)), "kv_pool_positions": rng.randint(256, 3000) * 256,
        "max_tok": rng.choice((8192, 16_384, 32_768)), "kv_slots": rng.randint(1, 8),
        "host_reserve_gib": rng.randint(0, 28) * 1000, "cache_entries": rng.choice((0, 8, 24)),
    }
    choices = {"vision_tower": int(rng.random() < 0.4), "kv_pool_fit": int(rng.random() < 0.85)}
    if version >= (0, 15, 2):
        choices["prefill_keep_trunk"] = int(rng.random() < 0.4)
    weights = {"w4b": 679, "v2": 621}[checkpoint] * GIB // 10
    facts = {"mem_total": spread(rng, rng.randint(84, 125) * GIB, wide), "resident_weights": spread(rng, weights, wide)}
    if rng.random() < 0.4:
        facts["mem_available"] = spread(rng, rng.randint(76, 110) * GIB, wide)
    if rng.random() < 0.4:
        facts |= {"gtt_total": spread(rng, rng.randint(16, 50) * GIB, wide), "gtt_used": spread(rng, GIB, wide)}
    ranges, free, given = moved(rng, list(knobs))
    loose = [name for name in choices if rng.random() < 0.3][:2]
    sessions = rng.choice((1, 2, 3))
    stated: dict[str, Word] = dict(facts)
    words: dict[str, str | int] = {**knobs, "host_reserve_gib": knobs["host_reserve_gib"] // 1000, **choices}
    made = narrowed(site(engine, container=checkpoint, knobs=words, facts=stated, sessions=sessions), ranges)
    locked = {"w4b": 680, "v2": 621}[checkpoint]
    span = (twin.printed_low(locked, 10), twin.printed_high(locked, 10))
    grid = mesh(ranges, given, knobs | given)
    variants = []
    for values in product(*((0, 1) if name in loose else (choices[name],) for name in choices)):
        chosen = dict(zip(choices, values, strict=True))
        trunk = chosen.get("prefill_keep_trunk", 0) == 1
        oracle = twin.HalogenSite(
            checkpoint, version >= (0, 15, 1), {name: (v.low, v.high) for name, v in facts.items()}, sessions,
            chosen["kv_pool_fit"] == 1, chosen["vision_tower"] == 1, trunk, span, version >= (0, 15, 2),
            version >= (0, 11, 9), knobs)
        tried = twin.try_halogen(oracle, grid)
        tried.short["keep_trunk_fit" if trunk else "kv_pool_fit"] = tried.short.pop("fit")
        tried.low["kv_pool_positions"] = tried.high["kv_pool_positions"] = grid["kv_pool_positions"]
        tried.low["ctx"] = tried.high["ctx"] = grid["ctx"]
        variants.append((chosen, grid, tried))
    names = tuple(name for name in ("kv_pool_positions", "ctx") if name in free)
    bounds, missed = bounds_near(rng, joined([tried for _, _, tried in variants]), names)
    turns = ["context", "sequences", "sessions", "host-ram"]
    return case(made, rng.choice(turns), ranges, free, given, {name: choices[name] for name in loose}, variants,
                bounds, missed)


def case(made: Site, goal: str, ranges: Mapping[str, tuple[int, int, int]],
         free: Mapping[str, tuple[int, int, int]], given: Mapping[str, int], loose: Mapping[str, int],
         variants: list[tuple[dict[str, int], dict[str, Whole], Tried]], bounds: list[Bound],
         missed: dict[str, Whole], *, lacking: bool = False) -> Case:
    question = asked(made, goal, free, {**given, **loose}, bounds)
    knobs, short = whole(variants)
    short |= missed
    model = made.model
    steps = {require.name: STEPS.get(require.unit, 1) for require in model.requires}
    for bound in bounds:
        spec = model.knobs.get(bound.name)
        steps[bound.label] = spec.step if spec else STEPS.get(model.rows[bound.name].unit, 1)
    for name, value in {**given, **loose}.items():
        label = f"{name}={model.knobs[name].show(value)}"
        far = np.abs(knobs[name] - value)
        short[label] = np.minimum(far, 1) if name in CHOICES else far
        steps[label] = 1 if name in CHOICES else model.knobs[name].step
    size = len(next(iter(knobs.values())))
    open_ones = knobs["ngram_placement"] == 1 if lacking and "ngram_placement" in knobs else np.zeros(size, dtype=bool)
    return Case(question, short, steps, open_ones, size)


@cache
def cases(engine: str, mode: str) -> tuple[tuple[Case, Told | None], ...]:
    """The cases of one generation, the same in every run: few of them have an answer."""
    rng = random.Random(f"why {engine} {mode}")
    found: list[tuple[Case, Told | None]] = []
    while len(found) < EACH:
        made = radiance(rng, engine, mode) if mode else halogen(rng, engine)
        expected = told(made)
        if expected is not None or rng.random() < 0.05:
            found.append((made, expected))
    return tuple(found)


def infeasible(engine: str, mode: str) -> Iterator[tuple[int, Case, Told, Why]]:
    for number, (made, expected) in enumerate(cases(engine, mode)):
        found = why(made.question, seconds=SECONDS)
        assert (found is None) is (expected is None), number
        if expected is not None and found is not None:
            yield number, made, expected, found


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_conflicts_and_repairs_are_brute_forces_own(engine: str, mode: str) -> None:
    seen: Counter[str] = Counter()
    for number, made, expected, found in infeasible(engine, mode):
        fast = said(made, found)
        lacking = bool(made.open_ones.any())
        if not all(repair.proven for repair in (*found.single, *found.joint)) or not (found.complete or lacking):
            # the time limit: what is said is true, and that it may not be all
            assert all(any(part <= conflict for part in expected.conflicts) for conflict in fast.conflicts), number
            assert all(amount >= expected.single[name] for name, amount in fast.single.items()), number
            assert not fast.helpless & set(expected.single), number  # of what may be no minimal conflict
            seen["unsettled"] += 1
            continue
        assert fast.conflicts == expected.conflicts, number
        assert fast.single == expected.single, number
        assert fast.undecided == expected.undecided, number
        assert fast.helpless == expected.helpless, number
        assert fast.joint == expected.joint, number
        seen.update(checked=1, single=len(fast.single), joint=len(fast.joint), several=len(fast.conflicts) > 1,
                    helpless=len(fast.helpless))
    assert seen["checked"] >= EACH * 2 // 3, seen
    assert seen["unsettled"] <= 5, seen
    assert min(seen["single"], seen["joint"], seen["several"], seen["helpless"]) >= 3, seen


def test_enough_of_every_kind() -> None:
    """Facts that lack, given values of either kind, conflicts of several members."""
    found: Counter[str] = Counter()
    for engine, mode in GENERATIONS:
        for _, expected in cases(engine, mode):
            if expected is None:
                found["feasible"] += 1
                continue
            names = frozenset().union(*expected.conflicts)
            found.update(
                infeasible=1, lacking=len(expected.undecided) > 0,
                choices=any(name.split("=")[0] in CHOICES for name in names),
                given=any("=" in n and " " not in n for n in names), large=any(len(c) > 3 for c in expected.conflicts),
                three=any(len(names) > 2 for names in expected.joint))
    assert found["infeasible"] >= 300, found
    assert min(found[kind] for kind in ("choices", "given", "three")) >= 60, found
    assert min(found["feasible"], found["large"]) >= 3, found
    assert found["lacking"] >= 1, found


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_what_solve_names_is_one_of_the_conflicts(engine: str, mode: str) -> None:
    for number, (made, expected) in list(enumerate(cases(engine, mode)))[::9]:
        if expected is not None:
            answer = solve(made.question)
            assert frozenset(item.name for item in answer.conflict) in expected.conflicts, number


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_what_giving_way_gains(engine: str, mode: str) -> None:
    """The best without what binds, by brute force."""
    rng = random.Random(f"next {engine} {mode}")
    turns = [goal for goal in goals(engine, mode) if goal != "headroom"]
    checked, tries = 0, 0
    while checked < 3:
        tries += 1
        instance = instance_of(rng, engine, mode, turns[tries % len(turns)])
        best = instance.best()
        if best is None:
            continue
        found = next_bound(solve(instance.question))
        assert found is not None
        if found.best is None:
            continue
        known = {"kv_pool_fit": "fit", "keep_trunk_fit": "fit"}
        gave = {known.get(name, name) for name in found.gave}
        kept = np.ones_like(instance.objective, dtype=bool)
        for name, holds in instance.holds.items():
            if name not in gave:
                kept &= holds
        loose = instance.objective[kept]
        after = int(loose.max() - best if instance.maximised else best - loose.min())
        assert found.gain == after, (tries, found.gave)
        checked += 1


def instance_of(rng: random.Random, engine: str, mode: str, goal: str) -> Instance:
    """An instance of the twin of solving."""
    return made_halogen(rng, engine, goal) if engine.startswith("halogen") else made_radiance(rng, engine, mode, goal)
