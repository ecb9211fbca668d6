"""Calibration against brute force: every value of every constant tried, halogen's arithmetic written out by hand.

The twin knows neither expressions nor solvers: for each value of the constants and of the weights it says which
statements can be true, and everything else follows by counting.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import pytest

from measurements.observed import Entry, Observed
from measurements.records import Place
from models.declare import Outcome
from models.evaluate import Given
from models.interval import GIB, MIB, Interval, point, printed
from optimizer.calibrate import READINGS, Calibration, _Question
from tests.made_sites import site

ENGINE = "halogen@0.5.8"
INSTANCES = 320
#: Sixteen parts, so that a failure names a narrow range.
PARTS = 16

SLOT, ENTRIES = 111 * MIB, 8
CEILING = printed("39.703", GIB).low, 47 * GIB
NOISE = GIB // 10 * 3 // 2
#: What the weights take once loaded, as printed; the fit reckons with less.
LOCKED = printed("68.0", GIB)
#: The vision tower: its weights alone, up to weights and worst-case scratch.
TOWER = Interval(printed("0.84", GIB).low, printed("1.97", GIB).high)


@dataclass(frozen=True, slots=True)
class Setting:
    """One boot's settings and the host it ran on, bytes and counts."""

    ctx: int
    pool: int
    max_tok: int
    reserve: int
    vision: bool
    mem_total: int


@dataclass(frozen=True, slots=True)
class Values:
    """The constants at one place of the grid, and the weights."""

    position_bytes: int
    work_fixed: int
    work_slope: int
    fit_margin: int
    fit_margin_vision: int
    weights: int


#: What a statement says: the outcome, or a row and what it printed.
Said = Outcome | tuple[str, Interval]


def rows(setting: Setting, at: Values) -> dict[str, int]:
    """The fit as its documents tell it: the budget, the need, halving down to the context."""
    tokens = min(setting.max_tok, setting.ctx if setting.ctx <= 262_144 else 16_384)
    other = at.work_fixed + tokens * at.work_slope // 16_384
    budget = max(setting.mem_total - at.weights - setting.reserve * GIB, 0)
    margin = at.fit_margin_vision if setting.vision else at.fit_margin
    pool = setting.pool
    while pool > setting.ctx and pool * at.position_bytes + other + margin > budget:
        pool = max(setting.ctx, pool // 2)
    return {
        "device_budget": budget, "device_need": setting.pool * at.position_bytes + other, "device_other": other,
        "device_need_and_margin": setting.pool * at.position_bytes + other + margin, "pool_positions": pool,
        "device_held": pool * at.position_bytes + other,
        "working": (37 * GIB + tokens * (88 * (GIB // 16_384))) // 10,
    }


def ends(setting: Setting, at: Values) -> dict[Outcome, tuple[bool, bool]]:
    """For each outcome: whether nothing that ends so need be broken, and whether something may be."""
    found = rows(setting, at)
    moving = found["pool_positions"] * at.position_bytes + found["working"]
    cache = ENTRIES * SLOT
    held = found["device_held"]
    tower = TOWER if setting.vision else point(0)
    low = LOCKED.low + moving - NOISE + cache + tower.low
    high = LOCKED.high + moving + NOISE + cache + tower.high
    clamped = setting.pool > setting.ctx and found["pool_positions"] < setting.pool
    return {
        Outcome.CLAMPED: (not clamped, clamped),
        Outcome.OUT_OF_MEMORY_AT_BOOT: (held <= CEILING[1] and low <= setting.mem_total,
                                        held > CEILING[0] or high > setting.mem_total),
        Outcome.REFUSED_AT_BOOT: (setting.pool >= setting.ctx, setting.pool < setting.ctx),
    }


def can_be(setting: Setting, said: Said, at: Values) -> bool:
    """Whether what was said can be true at this place of the grid."""
    if isinstance(said, tuple):
        return rows(setting, at)[said[0]] in said[1]
    found = ends(setting, at)
    spared = all(spare for outcome, (spare, _) in found.items() if outcome > said)
    return spared and (said is Outcome.SERVES or found[said][1])


@dataclass(frozen=True, slots=True)
class Instance:
    """Settings with what was said of each, and what the constants may be."""

    priors: dict[str, Interval]
    weights: Interval
    settings: tuple[Setting, ...]
    said: tuple[tuple[Said, ...], ...]

    def grid(self) -> Iterator[Values]:
        """Every value of everything."""
        names = ("position_bytes", "work_fixed", "work_slope", "fit_margin", "fit_margin_vision")
        spans = [range(span.low, span.high + 1) for span in (*(self.priors[name] for name in names), self.weights)]
        for values in product(*spans):
            yield Values(*values)

    def statements(self) -> list[tuple[Setting, Said]]:
        """Everything said, in order."""
        return [(setting, said) for setting, all_said in zip(self.settings, self.said, strict=True)
                for said in all_said]


def instance(seed: int) -> Instance:
    """A hidden truth on a small grid, boots whose budgets stand within some bytes of their need, and some lies."""
    rng = random.Random(seed)
    truth = Values(rng.randint(29_000, 30_000), rng.randint(3, 5) * GIB + rng.randint(0, 99),
                   rng.randint(6, 9) * GIB + rng.randint(0, 99), rng.randint(1, 2) * GIB, rng.randint(1, 2) * GIB,
                   rng.randint(67, 72) * GIB)
    wide = set(rng.sample(("position_bytes", "work_fixed", "work_slope", "fit_margin", "fit_margin_vision"),
                          rng.randint(1, 3)))
    priors = {}
    for name in ("position_bytes", "work_fixed", "work_slope", "fit_margin", "fit_margin_vision"):
        value, most = getattr(truth, name), (4 if name in wide else 0)
        priors[name] = Interval(value - rng.randint(0, most), value + rng.randint(0, most))
    weights = Interval(truth.weights - rng.randint(0, 1), truth.weights + rng.randint(0, 1))
    settings, all_said = [], []
    for _ in range(rng.randint(2, 4)):
        blocks = rng.choice((1, 2, 3, 4, 7))  # the engine wants whole ones of 256 positions
        pool = max(blocks * rng.choice((1, 2, 3, 4, 8)) // rng.choice((1, 1, 1, 1, 1, 1, 1, 3)), 1)
        setting = Setting(256 * blocks, 256 * pool, rng.choice((256 * blocks, 1, 3, 16_384)),
                          rng.choice((0, 3, 12, 20)), rng.random() < 0.5, 1 << 40)
        if rng.random() < 0.15:  # around what the device may hold at all
            setting = Setting(262_144, 262_144 * rng.choice((1, 2, 4)), 32_768, rng.choice((0, 20)), setting.vision,
                              1 << 40)
        need = rows(setting, truth)["device_need_and_margin"]
        off = rng.choice((-1, 1)) * rng.randint(0, rng.choice((4, 4 * setting.pool)))
        setting = Setting(setting.ctx, setting.pool, setting.max_tok, setting.reserve, setting.vision,
                          truth.weights + setting.reserve * GIB + need + off)
        said: list[Said] = []
        if rng.random() < 0.85:
            likely = [outcome for outcome in (Outcome.SERVES, Outcome.CLAMPED, Outcome.OUT_OF_MEMORY_AT_BOOT)
                      if can_be(setting, outcome, truth)]
            lie = not likely or rng.random() < 0.2
            said.append(rng.choice((Outcome.SERVES, Outcome.CLAMPED, Outcome.OUT_OF_MEMORY_AT_BOOT,
                                    Outcome.REFUSED_AT_BOOT) if lie else likely))
        if rng.random() < 0.5 or not said:
            name = rng.choice(("device_need", "device_other", "device_need_and_margin", "pool_positions",
                               "device_held", "device_budget"))
            value = rows(setting, truth)[name]
            low = value + (rng.choice((-1, 1)) * rng.randint(1, 9) if rng.random() < 0.25 else 0) - rng.randint(0, 3)
            said.append((name, Interval(max(low, 0), max(low, 0) + rng.randint(0, 5))))
        settings.append(setting)
        all_said.append(tuple(said))
    settings.append(Setting(settings[0].ctx, settings[0].pool, settings[0].max_tok, settings[0].reserve,
                            settings[0].vision, settings[0].mem_total + rng.randint(-6, 6)))
    return Instance(priors, weights, tuple(settings), (*all_said, ()))


def calibrated(asked: Instance) -> Calibration:
    """The program's answer."""
    base = site(ENGINE, container="w4b", facts={"mem_available": 1 << 45})
    observed = []
    for place, (setting, said) in enumerate(zip(asked.settings, asked.said, strict=True)):
        shape = {"ctx": setting.ctx, "kv_pool_positions": setting.pool, "max_tok": setting.max_tok,
                 "host_reserve_gib": setting.reserve * 1000, "vision_tower": int(setting.vision)}
        facts = {"mem_total": point(setting.mem_total), "mem_available": point(1 << 45), "host_left": point(1 << 45),
                 "resident_weights": asked.weights}
        stated = {one[0]: one[1] for one in said if isinstance(one, tuple)}
        outcome = next((one for one in said if isinstance(one, Outcome)), None)
        entry = Entry(f"boot {place}", Place("made"), printed=dict.fromkeys(stated, "?"), asked=not said)
        observed.append(Observed(entry, base, shape, Given(shape, facts), outcome, stated, {}))
    return _Question(base, observed, asked.priors, time.monotonic() + 60).answer()


def masks(asked: Instance) -> dict[Values, int]:
    """For every place of the grid, the statements that can be true there, one bit each."""
    statements = asked.statements()
    return {at: sum(1 << place for place, (setting, said) in enumerate(statements) if can_be(setting, said, at))
            for at in asked.grid()}


def minimal(sets: Sequence[int]) -> set[int]:
    """Those that hold no other."""
    return {one for one in sets if not any(other != one and other & one == other for other in sets)}


def maximal(sets: Sequence[int]) -> set[int]:
    """Those that no other holds."""
    return {one for one in sets if not any(other != one and other & one == one for other in sets)}


def conflicts_of(count: int, possible: set[int]) -> set[int]:
    """The minimal sets of statements that no place of the grid allows together."""
    wrong = []
    for size in range(1, count + 1):
        for places in combinations(range(count), size):
            chosen = sum(1 << place for place in places)
            if not any(chosen & mask == chosen for mask in possible):
                wrong.append(chosen)
    return minimal(wrong)


def span(places: Sequence[Values], name: str) -> Interval:
    values = [getattr(at, name) for at in places]
    return Interval(min(values), max(values))


def reaches(found: Mapping[Values, int], chosen: int, name: str, *, least: bool) -> int:
    """How far a constant goes where these statements are true."""
    reached = span([at for at, mask in found.items() if mask & chosen == chosen], name)
    return reached.low if least else reached.high


SEEN: dict[str, int] = {}


@pytest.mark.parametrize("part", range(PARTS))
def test_brute_force_finds_the_same(part: int) -> None:
    for seed in range(part * INSTANCES // PARTS, (part + 1) * INSTANCES // PARTS):
        asked = instance(seed)
        answer = calibrated(asked)
        found = masks(asked)
        bits = {id(statement): 1 << place for place, statement in enumerate(answer.statements)}
        count = len(answer.statements)
        assert count == len(asked.statements()), seed
        assert answer.complete, seed

        def mask(statements: Sequence[object], bits: Mapping[int, int] = bits) -> int:
            return sum(bits[id(statement)] for statement in statements)

        everything = (1 << count) - 1
        assert {mask(conflict) for conflict in answer.conflicts} == conflicts_of(count, set(found.values())), seed
        largest = maximal(list(set(found.values())))
        left_out = [mask(reading.left_out) for reading in answer.readings]
        told = {everything & ~left for left in (*left_out, *(mask(one) for one in answer.others))}
        assert told == largest, seed
        size = max(one.bit_count() for one in largest)
        assert all((everything & ~left).bit_count() == size for left in left_out), seed
        assert len(left_out) == min(READINGS, sum(one.bit_count() == size for one in largest)), seed
        possible: set[Outcome] = set()
        for reading, left in zip(answer.readings, left_out, strict=True):
            kept = everything & ~left
            places = [at for at, mask_of in found.items() if mask_of & kept == kept]
            for constant in reading.constants:
                name = constant.spec.name
                assert constant.interval == span(places, name), (seed, name)
                for end, least in ((constant.low, True), (constant.high, False)):
                    assert end.proven, (seed, name)
                    if end.value == (constant.prior.low if least else constant.prior.high):
                        assert not end.by, (seed, name)
                        continue
                    alone = mask(end.by)
                    assert reaches(found, alone, name, least=least) == end.value, (seed, name)
                    for statement in end.by:
                        wider = reaches(found, alone & ~mask([statement]), name, least=least)
                        assert wider != end.value, (seed, name)
                    SEEN["confirmed"] = SEEN.get("confirmed", 0) + end.confirmed
                    SEEN["ends"] = SEEN.get("ends", 0) + 1
            new = asked.settings[-1]
            possible |= {outcome for outcome in (Outcome.SERVES, *ends(new, places[0]))
                         if any(can_be(new, outcome, at) for at in places)}
        assert set(answer.predicted[-1].outcomes) == possible, seed
        SEEN["conflicts"] = SEEN.get("conflicts", 0) + bool(answer.conflicts)
        SEEN["instances"] = SEEN.get("instances", 0) + 1
        SEEN["undecided"] = SEEN.get("undecided", 0) + (len(possible) > 1)


def test_the_instances_are_worth_something() -> None:
    if SEEN.get("instances") != INSTANCES:
        pytest.skip("only some of the instances ran")
    assert SEEN["conflicts"] > INSTANCES // 5
    assert SEEN["conflicts"] < INSTANCES * 9 // 10
    assert SEEN["ends"] > INSTANCES // 2
    assert SEEN["confirmed"] > SEEN["ends"] // 4
    assert SEEN["undecided"] > INSTANCES // 40
