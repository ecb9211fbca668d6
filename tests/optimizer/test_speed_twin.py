"""Goals on speed against brute force: memory by hand-written formulas, speed by the law at every shape of a grid."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import ceil, floor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.typing import NDArray

from measurements.laws.law import Law
from models.interval import MIB
from optimizer.solve import Answer, Question, Ranked, ask, solve
from optimizer.speed import Workload
from tests.made_points import HIDDEN, Row, measured, noisy
from tests.made_sites import IQ4R, with_grids
from tests.optimizer import test_twin as memory
from tests.twin import Whole

#: Questions of each engine's generations; the goals take turns.
EACH = {"radiance": 12, "halogen": 30}
#: Every so manieth question asks for five ranks.
RANKED = 5
GENERATIONS = [
    ("radiance@1.0.13", "pair"), ("radiance@1.0.13", "derived"), ("radiance@1.0.13", "cache stated"),
    ("radiance@1.0.5", "weights stated"), ("radiance@1.2.2", "pair"), ("radiance@1.2.2", "derived"),
    ("radiance@1.8.1", "derived"), ("halogen@0.5.8", ""), ("halogen@0.13.0", ""), ("halogen@0.15.1", ""),
    ("halogen@0.17.4", ""),
]
TURNS = ("prefill", "decode", "decode-total", "balanced", "prefill", "decode-total one")
Span = tuple[Whole, Whole]


@dataclass(frozen=True)
class Instance:
    """One question on speed, the grid of its shapes, and what brute force makes of each."""

    question: Question
    names: tuple[str, ...]
    grid: dict[str, Whole]
    feasible: NDArray[np.bool_]
    objective: Whole
    uncertain: bool
    of: memory.Instance

    @property
    def sign(self) -> int:
        """1 where more is better."""
        return -1 if self.question.goal.name == "balanced" else 1

    def best(self) -> int | None:
        """The best value; None where no shape holds."""
        found = self.sign * self.objective[self.feasible]
        return None if not found.size else self.sign * int(found.max())

    def place(self, shape: Mapping[str, int]) -> NDArray[np.bool_]:
        """Where the grid holds ``shape``."""
        found = np.ones_like(self.feasible)
        for name in self.names:
            found &= self.grid[name] == shape[name]
        return found


# --- the objective, from the law's own rates ---------------------------------------------------------------------


def ends(law: Law, axis: str) -> tuple[int, int] | None:
    """The whole numbers within the data; what was read from a printed row reaches an operator's step further."""
    known = [value for value in law.values[axis] if value is not None]
    if not known:
        return None
    margin = 64 if axis == "vram_weights_mib" and any("vram_weights" in point.knobs for point in law.points) else 0
    low, high = sorted((ceil(min(known) - margin), floor(max(known) + margin)))
    return low, high


def knots(law: Law, axis: str) -> list[int]:
    """Where the law is asked along an axis: at whole numbers within its data, all of a few or 48 steps of many."""
    known = [value for value in law.values[axis] if value is not None]
    low, high = ends(law, axis) or (0, 0)
    if high - low < 64:
        return list(range(low, high + 1))
    found = {floor(low + Fraction((high - low) * step, 48)) for step in range(49)}
    found |= {int(value) for value in known if low <= value <= high}
    return sorted(found)


def drawn_between(xs: Sequence[int], ys: Sequence[int]) -> Callable[[int], int]:
    """A straight line from point to point, rounded down."""
    if len(xs) == 1:
        return lambda x: ys[0]

    def value(x: int) -> int:
        for (x0, y0), (x1, y1) in zip(zip(xs, ys, strict=True), zip(xs[1:], ys[1:], strict=True), strict=False):
            if x0 <= x <= x1:
                return floor(Fraction(y0 * (x1 - x) + y1 * (x - x0), x1 - x0))
        raise AssertionError(f"{x} lies outside")

    return cache(value)


@dataclass(frozen=True)
class Asked:
    """What is asked of a law: the workload on its axes, and each axis that shapes move (lowest and highest)."""

    law: Law
    at: Mapping[str, float]
    moving: Mapping[str, Span]
    tied: bool
    scaled: Callable[[float, float], int]
    level: float

    def inside(self) -> NDArray[np.bool_]:
        """Which shapes stay within the data for every value their facts allow."""
        found = np.ones(next(iter(self.moving.values()))[0].shape, dtype=bool) if self.moving else np.array(True)
        for name, (low, high) in self.moving.items():
            within = ends(self.law, name)
            if within is not None:
                found &= (low >= within[0]) & (high <= within[1])
        return found

    def values(self, inside: NDArray[np.bool_], worst: Callable[[list[int]], int]) -> Whole:
        """The objective's part of each shape that lies inside (0 elsewhere)."""
        varying = {axis.name for axis in self.law.varying}
        spans = {name: span for name, span in self.moving.items() if name in varying}
        found = np.zeros(inside.shape, dtype=np.int64)
        count = spans.pop("streams")[0] if "streams" in spans else None
        assert len(spans) <= 1
        known: dict[tuple[int, int, int], int] = {}
        tables: dict[int, Callable[[int], int]] = {}
        for place in np.flatnonzero(inside):
            streams = 0 if count is None else int(count[place])
            low, high = next(((int(lo[place]), int(hi[place])) for lo, hi in spans.values()), (0, 0))
            key = (streams, low, high)
            if key not in known:
                if streams not in tables:
                    tables[streams] = self._table(next(iter(spans), None), streams)
                known[key] = worst([tables[streams](x) for x in range(low, high + 1)])
            found[place] = known[key]
        return found

    def _table(self, axis: str | None, streams: int) -> Callable[[int], int]:
        at = {**self.at, "streams": float(streams)} if streams else self.at
        times = at.get("streams", 1.0)
        if axis is None:
            value = self.scaled(self.law.rates(at, level=self.level)[0], times)
            return lambda x: value
        xs = knots(self.law, axis)
        rates = self.law.rates(at, axis, [float(x) for x in xs], level=self.level)
        return drawn_between(xs, [self.scaled(rate, times) for rate in rates])


# --- laws that only the test knows -------------------------------------------------------------------------------


def places(rng: random.Random, low: int, high: int, count: int) -> list[int]:
    """Where something is measured along an axis: both ends and some between."""
    return sorted({low, high, *(rng.randint(low, high) for _ in range(count - 2))})


def slab_words(rng: random.Random, slab: int, derived: bool, family: str) -> dict[str, str | int]:
    """How a point states its slab: the pool itself, or the row that a derived split prints."""
    if not derived:
        return {"tp": 2, "vram_weights_mib": slab}
    how: dict[str, str | int] = {"expert_vs_cache_ratio": "0.8"} if family == "A" else {"host_pool_mib": 12_288}
    row = f"{slab}.{rng.randint(0, 99):02d}MiB" if rng.random() < 0.5 else f"{slab}MiB"
    return {"tp": 2, **how, "vram_weights": row}


def radiance_rows(rng: random.Random, of: memory.Instance, version: str, metric: str, prompt: int,
                  streams: Sequence[int], derived: bool, family: str) -> list[Row]:
    fits = of.feasible()
    slab = of.tried.low["vram_weights"][fits if fits.any() else slice(None)] // MIB
    low, high = (int(np.quantile(slab, rng.uniform(*ends))) for ends in ((0, 0.4), (0.5, 1)))
    high = max(high, low + rng.randint(1, 300))
    form, knee, base = rng.choice([*HIDDEN]), rng.uniform(0.2, 0.8), rng.choice((1 / 4000, 1 / 90))
    flat = metric == "decode" and rng.random() < 0.3
    settings = [(slab, prompt, n) for slab in places(rng, low, high, rng.randint(2, 6)) for n in streams]
    if rng.random() < 0.25:
        settings += [(slab, prompt * 2, n) for slab, _, n in settings[:3]]
    dtype = "fp8" if of.made.knobs["kv_cache_dtype"] else "bf16"
    words = {"kv_cache_dtype": dtype} if rng.random() < 0.5 else {}
    rows = []
    for slab_mib, tokens, n in settings:
        effect = 0.0 if flat else HIDDEN[form]((slab_mib - low) / (high - low), knee)
        time = base * (1 + effect + 0.1 * (n - 1) + 0.05 * tokens / prompt)
        rows += [Row("radiance", version, IQ4R, metric, noisy(rng, 1 / time),
                     {**slab_words(rng, slab_mib, derived, family), **words}, tokens, n,
                     "" if metric == "prefill" else "prose", rep) for rep in range(rng.choice((1, 1, 3)))]
    return rows


def halogen_rows(rng: random.Random, version: str, model: str, metric: str, prompt: int, streams: Sequence[int],
                 max_tok: Sequence[int]) -> list[Row]:
    form, knee, base = rng.choice([*HIDDEN]), rng.uniform(0.2, 0.8), rng.choice((1 / 1300, 1 / 25))
    rows = []
    for size in max_tok or (0,):
        for n in streams:
            effect = HIDDEN[form]((size - min(max_tok)) / max(max(max_tok) - min(max_tok), 1), knee) if max_tok else 0
            if rng.random() < 0.2:
                effect = -effect / 2
            time = base * (1 + effect + 0.15 * (n - 1))
            words = {"max_tok": size} if size else {}
            rows += [Row("halogen", version, model, metric, noisy(rng, 1 / time), words, prompt, n,
                         "" if metric == "prefill" else "code", rep) for rep in range(rng.choice((1, 3)))]
    return rows


# --- questions ---------------------------------------------------------------------------------------------------


def server(rng: random.Random, engine: str, mode: str, tied: bool) -> memory.Instance:
    """A server with a grid of its shapes; ``tied`` where the number of sequences is to move."""
    if engine in memory.RADIANCE:
        return memory.radiance(rng, engine, mode, "sequences" if tied else "context")
    return memory.halogen(rng, engine, "sequences" if tied else "sessions")


def made(rng: random.Random, engine: str, mode: str, turn: str, folder: Path, number: int) -> Instance:
    goal = turn.partition(" ")[0]
    metrics = ("prefill", "decode") if goal == "balanced" else ("prefill",) if goal == "prefill" else ("decode",)
    tied = turn == "decode-total"
    derived = mode in ("derived", "cache stated")
    of = server(rng, engine, mode, tied)
    for _ in range(30 if rng.random() < (0.95 if derived else 0.75) else 0):
        if of.feasible().any():
            break
        of = server(rng, engine, mode, tied)
    name, _, version = engine.partition("@")
    slots, window = ("max_num_seqs", "max_model_len") if name == "radiance" else ("kv_slots", "ctx")
    fits = of.feasible()
    longest = int(of.grid[window][fits].max()) if fits.any() else 20_000
    prompt = rng.choice([tokens for tokens in (2_000, 8_000, 20_000, 43_500) if tokens <= longest] or [60_000])
    many = sorted(rng.sample(range(2, 25), 3))
    streams = [1, *many] if tied or rng.random() < 0.3 else [rng.choice((1, 2))] if turn == "decode-total one" else [1]
    axes = {n: (low, high, of.made.model.knobs[n].grid) for n, (low, high) in of.question.free.items()}
    moved_tok = "max_tok" in axes
    first = int(np.quantile(of.grid.get("max_tok", np.array([16_384])), 0.1))
    sizes = places(rng, first, first + rng.choice((30, 4_000, 20_000)), rng.randint(2, 5)) if moved_tok else []
    model = of.made.model.container
    rows: list[Row] = []
    for metric in metrics:
        count = streams if metric == "decode" else [1]
        rows += (radiance_rows(rng, of, version, metric, prompt, count, derived, memory.RADIANCE[engine])
                 if name == "radiance" else
                 halogen_rows(rng, version, f"qwen3.8-flash-next-{model}", metric, prompt, count,
                              sizes if metric == "prefill" else ()))
    site = measured(of.made, folder / f"{engine}-{mode}-{number}.csv", rows,
                    IQ4R if name == "radiance" else f"qwen3.8-flash-next-{model}")
    given: dict[str, str] = {}
    if "max_tok" not in axes and name == "halogen" and goal in ("prefill", "balanced"):
        given["max_tok"] = str(of.made.knobs["max_tok"])
    n_streams = rng.choice(streams) if turn == "decode-total one" or (goal == "decode" and rng.random() < 0.5) else None
    workload = Workload(prompt_tokens=rng.choice((None, prompt)), streams=n_streams, confidence=rng.choice((0.5, 0.9)),
                        answer_tokens=max(prompt // rng.choice((40, 60)), 1),
                        weights={"decode": 3} if goal == "balanced" and rng.random() < 0.3 else {})
    coarse = with_grids(site, {n: step for n, (_, _, step) in axes.items()})
    asked = ask(coarse, goal, given=given, free=list(axes), workload=workload, top=5 if number % RANKED == 3 else 1)
    assert set(asked.free) == set(axes), (asked.free, axes)
    question = replace(asked, free=dict(of.question.free), bounds=(*asked.bounds, *of.question.bounds))

    feasible = np.ones(of.objective.shape, dtype=bool)
    for holds in of.holds.values():
        feasible &= holds
    assert question.speed is not None
    parts: list[Whole] = []
    # where nobody says how long the prompt is, it is the one that the goal's first law was measured at most
    tokens = workload.prompt_tokens or question.speed.used[0].law.usual_prompt or 0
    questions = [reads(of, used.law, workload, goal, tokens, n_streams, tied, slots) for used in question.speed.used]
    for one, law in questions:
        # a request's answer stands in the window too
        feasible &= of.grid[window] >= tokens + (workload.answer_tokens if goal == "balanced" else 0)
        running = n_streams if n_streams is not None else 1
        if not one.tied and running > 1 and law.metric == "decode":
            feasible &= of.grid[slots] >= running
        feasible &= one.inside()
    for one, _ in questions:
        parts.append(one.values(feasible, max if goal == "balanced" else min))
    uncertain = any(bool((low < high).any()) for one, _ in questions for low, high in one.moving.values())
    return Instance(question, tuple(axes), of.grid, feasible, np.sum(parts, axis=0), uncertain, of)


def reads(of: memory.Instance, law: Law, workload: Workload, goal: str, tokens: int, streams: int | None,
          tied: bool, slots: str) -> tuple[Asked, Law]:
    """What the goal asks of one law."""
    context = tokens + (workload.answer_tokens // 2 if goal == "balanced" else 0)
    at: dict[str, float] = {"depth": tokens / 2 if law.metric == "prefill" else context, "request": tokens}
    at["kv_cache_dtype"] = of.made.knobs.get("kv_cache_dtype", 0)
    varies = any(axis.name == "streams" for axis in law.varying)
    tied = tied and varies
    at["streams"] = 1 if streams is None else streams
    moving: dict[str, Span] = {}
    if tied:
        moving["streams"] = (of.grid[slots], of.grid[slots])
    if "vram_weights_mib" in law.values:
        moving["vram_weights_mib"] = of.tried.low["vram_weights"] // MIB, of.tried.high["vram_weights"] // MIB
    if "max_tok" in law.values and "max_tok" in of.question.free:
        moving["max_tok"] = of.grid["max_tok"], of.grid["max_tok"]

    def scaled(rate: float, running: float) -> int:
        if goal == "balanced":
            count = tokens if law.metric == "prefill" else workload.answer_tokens
            return round(1_000_000 * count * workload.weights.get(law.metric, 1) / rate)
        return int(rate * 1000 * (running if goal == "decode-total" else 1))

    return Asked(law, at, moving, tied, scaled, 1 - workload.confidence), law


@cache
def instances(engine: str, mode: str) -> tuple[Instance, ...]:
    """The questions of one generation, the same in every run."""
    rng = random.Random(f"speed {engine} {mode}")
    with TemporaryDirectory() as folder:
        return tuple(made(rng, engine, mode, TURNS[number % len(TURNS)], Path(folder), number)
                     for number in range(EACH[engine.partition("@")[0]]))


@cache
def answers(engine: str, mode: str) -> tuple[Answer, ...]:
    return tuple(solve(instance.question) for instance in instances(engine, mode))


def pairs(engine: str, mode: str) -> Iterator[tuple[int, Instance, Answer]]:
    for number, both in enumerate(zip(instances(engine, mode), answers(engine, mode), strict=True)):
        yield number, *both


def worst(ranked: Ranked, instance: Instance) -> int:
    """The objective as the solver has it, at its worse end."""
    return ranked.objective.low if instance.question.goal.sense == "max" else ranked.objective.high


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_the_optimum_is_brute_forces_own(engine: str, mode: str) -> None:
    unproven = 0
    for number, instance, answer in pairs(engine, mode):
        best, where = instance.best(), (number, instance.question.goal.name)
        if best is None:
            assert answer.status == "infeasible", where
            assert answer.conflict, where
            continue
        if answer.status == "feasible":  # four knobs free and two laws added up: the time limit, which the answer says
            assert any("time limit" in text for text in answer.warnings), where
            unproven += 1
            continue
        assert answer.status == "optimal", where
        first = answer.shapes[0]
        value = worst(first, instance) if instance.sign > 0 else first.objective.high
        assert (value, worst(first, instance)) == (best, best), where
        place = instance.place(first.shape)
        assert place.sum() == 1, where
        assert instance.feasible[place].all(), where
        assert int(instance.objective[place][0]) == best, where
    assert unproven <= 2


@pytest.mark.parametrize(("engine", "mode"), GENERATIONS)
def test_every_rank_is_the_best_a_step_from_the_ones_before(engine: str, mode: str) -> None:
    ranks = 0
    for number, instance, answer in pairs(engine, mode):
        if answer.status == "feasible":
            continue
        left = instance.feasible.copy()
        steps = {name: instance.question.site.model.knobs[name].step for name in instance.names}
        for ranked in answer.shapes:
            place = instance.place(ranked.shape)
            assert left[place].all(), (number, ranked.rank)
            best = instance.sign * int((instance.sign * instance.objective[left]).max())
            assert int(instance.objective[place][0]) == worst(ranked, instance) == best, (number, ranked.rank)
            assert ranked.prediction is not None, (number, ranked.rank)  # the data reach so far
            far = np.zeros_like(left)
            for name, step in steps.items():
                far |= np.abs(instance.grid[name] - ranked.shape[name]) >= step
            left &= far
            ranks += 1
        if answer.shapes and len(answer.shapes) < instance.question.top:
            assert not left.any(), number
        assert answer.question.speed is not None
        assert answer.question.speed.extrapolated == (), number
    assert ranks >= 10


def test_enough_questions_of_every_kind() -> None:
    counts: Counter[str] = Counter()
    for engine, mode in GENERATIONS:
        for instance in instances(engine, mode):
            speed = instance.question.speed
            assert speed is not None
            counts["all"] += 1
            counts["infeasible" if instance.best() is None else "feasible"] += 1
            counts[speed.name + (", all slots" if speed.used[-1].tied else "")] += 1
            counts[f"confidence {speed.workload.confidence}"] += 1
            counts["uncertain"] += instance.uncertain
            counts["several values"] += len(set(instance.objective[instance.feasible].tolist())) > 1
    assert counts["all"] >= 200
    assert min(counts.values()) >= 20, counts
