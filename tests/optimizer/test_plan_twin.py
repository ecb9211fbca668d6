"""Plans against brute force: every order of every deploy tried, each shape on the way by hand-written formulas."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from measurements.site import Site
from optimizer.plan import Plan, Target, plan
from tests import twin
from tests.optimizer import test_twin as memory
from tests.twin import MIB, Tried, Whole

#: Pairs of shapes of each generation.
EACH = 16
#: A deploy: the knobs it changes.
Deploy = frozenset[str]
Oracle = twin.RadianceSite | twin.HalogenSite

SPANS: Mapping[str, tuple[int, int, int]] = {
    "max_num_seqs": (1, 10, 1), "max_model_len": (8192, 262_144, 1), "gpu_headroom_mib": (48, 900, 1),
    "host_pool_mib": (4_000, 32_000, 1), "expert_vs_cache_ratio": (300_000, 950_000, 100),
    "vram_weights_mib": (14_000, 28_000, 1), "vram_kv_mib": (1_000, 12_000, 1),
    "ctx": (65_536, 262_144, 1), "kv_pool_positions": (65_536, 1_000_000, 256), "max_tok": (4096, 49_152, 1),
    "kv_slots": (1, 12, 1), "host_reserve_gib": (0, 26_000, 1000), "cache_entries": (0, 40, 1),
}


@dataclass(frozen=True)
class Made:
    """Two shapes of one site, what the formulas say of all between them, and the plan."""

    site: Site
    family: str
    start: dict[str, int]
    target: dict[str, int]
    names: tuple[str, ...]
    fits: dict[Deploy, bool]
    room: dict[Deploy, Fraction]
    unmeasured: dict[Deploy, bool]
    gates: dict[Deploy, tuple[int, int]]
    found: Plan


def tried(oracle: Oracle, grid: dict[str, Whole]) -> Tried:
    if isinstance(oracle, twin.RadianceSite):
        return twin.try_radiance(oracle, grid)
    return twin.try_halogen(oracle, grid)


def all_fit(seen: Tried) -> NDArray[np.bool_]:
    """Where a boot does what it is asked for: a host pool that is larger than of any use is no fault."""
    return memory.all_of({name: holds for name, holds in seen.holds.items() if name != "host_pool_within_plane"},
                         seen.short)


def shapes(rng: random.Random, names: tuple[str, ...], boot: Mapping[str, int], count: int) -> dict[str, Whole]:
    grid = {name: np.full(count, value, dtype=np.int64) for name, value in boot.items()}
    for name in names:
        low, high, step = SPANS[name]
        grid[name] = np.array([rng.randrange(low, high + 1, step) // step * step for _ in range(count)], dtype=np.int64)
    return grid


def knobs_of(family: str, mode: str) -> tuple[str, ...]:
    if family == "halogen":
        return "ctx", "kv_pool_positions", "max_tok", "kv_slots", "host_reserve_gib", "cache_entries"
    stated = {"pair": ("vram_weights_mib", "vram_kv_mib"), "cache stated": ("vram_kv_mib",),
              "weights stated": ("vram_weights_mib",), "derived": ()}[mode]
    ratio = ("expert_vs_cache_ratio",) if (family, mode) == ("A", "derived") else ()
    return ("max_num_seqs", "max_model_len", "gpu_headroom_mib", "host_pool_mib", *stated, *ratio)


def between_of(oracle: Oracle, start: Mapping[str, int], target: Mapping[str, int],
               sets: list[Deploy]) -> dict[str, Whole]:
    """Every shape between two: a part of the knobs at the target's values."""
    return {name: np.array([(target if name in part else start).get(name, value) for part in sets], dtype=np.int64)
            for name, value in oracle.boot.items()}


def ends(rng: random.Random, oracle: Oracle, grid: dict[str, Whole], good: list[int], names: tuple[str, ...]) -> tuple[
        dict[str, int], dict[str, int], list[Deploy], Tried]:
    """A start and a target, most of which fit, and what the formulas say of all between."""
    to = rng.choice(good) if rng.random() < 0.95 else rng.randrange(300)
    since = rng.choice(good) if rng.random() < 0.8 else rng.randrange(300)
    start, target = ({name: int(grid[name][row]) for name in names} for row in (since, to))
    differ = [name for name in names if start[name] != target[name]]
    sets = [frozenset(part) for size in range(len(differ) + 1) for part in combinations(differ, size)]
    return start, target, sets, tried(oracle, between_of(oracle, start, target, sets))


def made(rng: random.Random, engine: str, mode: str) -> Made | None:
    """Two shapes of a site whose budget is known; None where no shape of it fits."""
    family = memory.RADIANCE.get(engine, "halogen")
    instance = (memory.halogen(rng, engine, "sessions") if family == "halogen" else
                memory.radiance(rng, engine, mode, "sessions"))
    oracle, site = instance.oracle, instance.made
    if family != "halogen" and "card_total" not in oracle.facts:
        return None
    some = knobs_of(family, mode)
    names = tuple(sorted(rng.sample(some, rng.randint(2, min(len(some), 5))), key=list(site.model.knobs).index))
    grid = shapes(rng, names, oracle.boot, 300)
    good = np.flatnonzero(all_fit(tried(oracle, grid))).tolist()
    if not good:
        return None
    drawn = [ends(rng, oracle, grid, good, names) for _ in range(rng.choice((1, 12)))]
    start, target, sets, seen = min(drawn, key=lambda one: all_fit(one[3]).mean())  # the way that has most in it
    names = tuple(name for name in names if start[name] != target[name])
    if not names:
        return None
    between = between_of(oracle, start, target, sets)
    fits = dict(zip(sets, all_fit(seen).tolist(), strict=True))
    pinned, gap, gates = [int(value) for value in seen.high["pinned"]] if family != "halogen" else [], 0, {}
    knobs = {**site.knobs, **start}
    if pinned and rng.random() < 0.5:  # gates of the operator's own: the pinned ledger and a little, and a gap above
        least, gap = -(-pinned[0] // MIB) + rng.randint(0, 3000), rng.randint(0, 5000)
        knobs |= {"ttm_min_mib": least, "ttm_target_mib": least + gap}
        gates = {part: (least - (pinned[0] - held) // MIB, least + gap - (pinned[0] - held) // MIB)
                 for part, held in zip(sets, pinned, strict=True)}
    grain = 256 * 29_500 if family == "halogen" else MIB
    room = {}
    for place, part in enumerate(sets):
        slack = [-int(short[place]) for name, short in seen.short.items()
                 if name not in NO_MEMORY and not seen.excused[name][place]]
        if gates:
            slack += [gap * MIB, gates[part][1] * MIB - pinned[place]]
        room[part] = Fraction(1, 1 + max(min(slack), 0) // grain)
    sequences = between.get("max_num_seqs", np.zeros(len(sets)))
    moved = dict(zip(sets, (sequences != oracle.boot.get("max_num_seqs", 0)).tolist(), strict=True))
    found = plan(replace(site, knobs=knobs, filed=knobs), Target(target, gates=False))
    return Made(site, family, start, target, names, fits, room, moved, gates, found)


#: Constraints that count no bytes, and one that only keeps a search from what buys nothing.
NO_MEMORY = {"pool_holds_context", "pool_grid", "context_within_rope", "sessions_held", "host_pool_within_plane"}


@cache
def pairs(engine: str, mode: str) -> tuple[Made, ...]:
    rng = random.Random(f"plan {engine} {mode}")
    found: list[Made] = []
    for _ in range(40 * EACH):
        if len(found) == EACH:
            break
        one = made(rng, engine, mode)
        if one is not None:
            found.append(one)
    return tuple(found)


def trades(pair: Made) -> bool:
    """Whether one pool of a stated pair gets what the other gives."""
    both = ("vram_weights_mib", "vram_kv_mib")
    if not set(both) <= set(pair.names):
        return False
    weights, cache_ = (pair.target[name] - pair.start[name] for name in both)
    return weights * cache_ < 0


def counts(pair: Made, deploy: Deploy) -> int:
    """How many knobs a deploy counts; 3 for what nobody may deploy."""
    together = frozenset(("vram_weights_mib", "vram_kv_mib"))
    size = len(deploy) - (1 if together <= deploy and trades(pair) else 0)
    if size > 1:
        pools = {"A": {"vram_kv_mib", "expert_vs_cache_ratio"}, "B": {"vram_kv_mib", "host_pool_mib"},
                 "C": {"host_pool_mib"}, "halogen": {"kv_pool_positions"}}[pair.family]
        if "host_pool_mib" in deploy and (pools - {"host_pool_mib"}) & deploy:
            return 3  # the pool, and where experts live
    return size


def orders(pair: Made, left: frozenset[str]) -> Iterator[tuple[Deploy, ...]]:
    """Every way to deploy ``left``, whatever becomes of it."""
    if not left:
        yield ()
    for size in range(1, min(len(left), 3) + 1):
        for part in combinations(sorted(left), size):
            if counts(pair, frozenset(part)) < 3:
                for rest in orders(pair, left - set(part)):
                    yield frozenset(part), *rest


def states(order: tuple[Deploy, ...]) -> list[Deploy]:
    found: list[Deploy] = []
    for deploy in order:
        found.append((found[-1] if found else frozenset()) | deploy)
    return found


def cost(pair: Made, order: tuple[Deploy, ...]) -> tuple[int, int, Fraction, int, Fraction]:
    after = states(order)
    arena = sum((pair.room[shape] for deploy, shape in zip(order, after, strict=True) if "max_num_seqs" in deploy),
                Fraction(0))
    return (sum(counts(pair, deploy) > 1 for deploy in order), len(order), arena,
            sum(pair.unmeasured[shape] for shape in after), sum((pair.room[shape] for shape in after), Fraction(0)))


def brute(pair: Made) -> list[tuple[tuple[int, int, Fraction, int, Fraction], tuple[Deploy, ...]]]:
    """Every order whose shapes all fit, with its cost, the best first."""
    found = [order for order in orders(pair, frozenset(pair.names)) if all(pair.fits[shape] for shape in states(order))]
    return sorted(((cost(pair, order), order) for order in found), key=lambda item: item[0])


@pytest.mark.parametrize(("engine", "mode"), memory.GENERATIONS)
def test_a_plan_is_brute_forces_own(engine: str, mode: str) -> None:
    assert len(pairs(engine, mode)) == EACH
    for number, pair in enumerate(pairs(engine, mode)):
        found, best = pair.found, brute(pair)
        whole = frozenset(pair.names)
        assert found.changes == {name: (pair.start[name], pair.target[name]) for name in pair.names}, number
        if not best:
            assert found.status == ("no_path" if pair.fits[whole] else "does_not_fit"), number
            assert found.steps == ()
            continue
        (doubles, deploys, *risk), _ = best[0]
        assert found.status == ("two_knobs" if doubles else "planned"), number
        order = tuple(frozenset(step.changes) for step in found.steps)
        assert all(pair.fits[shape] for shape in states(order)), number
        assert len(order) == deploys, number
        assert sum(len(step.moves) > 1 for step in found.steps) == doubles, number
        assert list(found.risk.key) == risk, number
        assert order in [other for spent, other in best if spent == best[0][0]], number
        assert found.orders == sum(spent[:2] == (doubles, deploys) for spent, _ in best), number


@pytest.mark.parametrize(("engine", "mode"), memory.GENERATIONS)
def test_every_step_says_what_it_changes_and_the_way_back(engine: str, mode: str) -> None:
    for number, pair in enumerate(pairs(engine, mode)):
        shape: dict[str, int | None] = dict(pair.start)
        if pair.gates:
            shape |= dict(zip(("ttm_min_mib", "ttm_target_mib"), pair.gates[frozenset()], strict=True))
        done: Deploy = frozenset()
        for step in pair.found.steps:
            done |= set(step.changes)
            new = {name: value for name, (_, value) in step.changes.items()}
            new |= {item.knob: item.after for item in step.along}
            assert {name: shape[name] for name in new} == step.back, number
            shape |= new
            assert {name: step.checked.shape[name] for name in shape} == shape, number
            if pair.gates:
                assert (shape["ttm_min_mib"], shape["ttm_target_mib"]) == pair.gates[done], number
            if len(step.moves) > 1:  # neither by itself
                before = done - set(step.changes)
                assert [stop.knobs for stop in step.alone] == list(step.moves)
                assert not any(pair.fits[before | set(move)] for move in step.moves), number
            for reason in step.why:
                if reason.kind == "free":
                    continue
                place = step.number - 1
                parts = [frozenset(other.changes) for other in pair.found.steps]
                if reason.kind == "after" and reason.step is not None:
                    early = frozenset().union(*parts[:reason.step - 1], parts[place])
                    assert not pair.fits[early], number
                if reason.kind == "before" and reason.step is not None:
                    without = frozenset().union(*parts[:reason.step]) - parts[place]
                    assert not pair.fits[without], number


def test_there_are_enough_pairs_of_every_kind() -> None:
    seen: Counter[str] = Counter()
    for engine, mode in memory.GENERATIONS:
        for pair in pairs(engine, mode):
            steps = pair.found.steps
            seen.update([pair.found.status, f"{len(steps)} deploys"])
            seen["trades"] += any(len(move) > 1 for step in steps for move in step.moves)
            seen["gates"] += any(step.along for step in steps)
            seen["forced"] += any(reason.kind in ("after", "before") for step in steps for reason in step.why)
            seen["one order of many"] += pair.found.orders > 1
            seen["the start does not fit"] += not pair.fits[frozenset()]
    assert sum(seen[word] for word in ("planned", "two_knobs", "no_path", "does_not_fit")) >= 240, seen
    assert seen["planned"] >= 140, seen
    assert seen["does_not_fit"] >= 5, seen
    assert min(seen[word] for word in ("two_knobs", "trades")) >= 8, seen
    assert min(seen[word] for word in ("gates", "forced", "one order of many", "the start does not fit")) >= 40, seen
    assert min(seen[f"{count} deploys"] for count in (2, 3, 4)) >= 20, seen
