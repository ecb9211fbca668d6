"""Goals against each other, by brute force: every shape of a grid counted in steps, and those that are not beaten."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.typing import NDArray

from models.interval import MIB
from optimizer.pareto import Front, ask_goals, pareto
from optimizer.solve import Question
from tests.optimizer import test_speed_twin as speeds
from tests.optimizer import test_twin as memory
from tests.twin import Whole

#: Instances of each generation, by memory alone and with measured speeds.
EACH, EACH_FAST = 20, 3
#: Larger sets are left to others where there are others: what takes time is told by the benchmark.
MOST_POINTS = 12
#: What an operator would call one step, by goal; of host-ram and headroom on either engine it is 64 MiB.
STEP = {"context": 1024, "sequences": 1, "sessions": 1, "slab": 64 * MIB, "host-ram": 64 * MIB, "headroom": 64 * MIB}
SMALLER = ("host-ram", "balanced")


@dataclass(frozen=True)
class Instance:
    """The questions of two or three goals, a grid of shapes, which hold, and each goal's value there."""

    questions: tuple[Question, ...]
    grid: dict[str, Whole]
    names: tuple[str, ...]
    feasible: NDArray[np.bool_]
    values: tuple[Whole, ...]

    @property
    def goals(self) -> list[str]:
        """The goals' names."""
        return [question.goal.name for question in self.questions]

    def gains(self) -> Whole:
        """What holds, a column a goal, where more is better."""
        return np.stack([-value[self.feasible] if goal in SMALLER else value[self.feasible]
                         for goal, value in zip(self.goals, self.values, strict=True)], axis=1)

    def counts(self, gains: Whole) -> Whole:
        """Whole steps below the best of each goal; a hundredth of a speed's best."""
        best = gains.max(axis=0)
        steps = [STEP.get(goal) or max(abs(int(top)) // 100, 1) for goal, top in zip(self.goals, best, strict=True)]
        found: Whole = (best - gains) // np.array(steps)
        return found

    def unbeaten(self) -> list[tuple[int, ...]]:
        """The counts that no others lose less than: the first in order, then of what loses less anywhere the first."""
        found: list[tuple[int, ...]] = []
        left = np.unique(self.counts(self.gains()), axis=0) if self.feasible.any() else np.zeros((0, 2), dtype=int)
        while len(left):
            found.append(tuple(left[0].tolist()))
            left = left[(left < left[0]).any(axis=1)]
        return found


def chosen(rng: random.Random, goals: Sequence[str], number: int) -> list[str]:
    return rng.sample(list(goals), 3 if number % 3 == 2 else 2)


def known(of: memory.Instance, goal: str) -> Whole:
    """What every shape gives for a goal on memory, by the formulas written out by hand."""
    if goal == of.question.goal.name:
        return of.objective
    if goal == "host-ram":
        return of.tried.high["pinned" if "pinned" in of.tried.high else "held"]
    names = {"context": ("max_model_len", "ctx"), "sequences": ("max_num_seqs", "kv_slots")}
    if goal in names:
        return next(of.grid[name] for name in names[goal] if name in of.grid)
    return of.tried.low[{"sessions": "sessions", "slab": "experts"}[goal]]


def plain(rng: random.Random, engine: str, mode: str, number: int) -> Instance:
    goals = chosen(rng, memory.goals(engine, mode), number)
    first = "headroom" if "headroom" in goals else rng.choice(goals)  # it needs facts that are given for it alone
    of = memory.halogen(rng, engine, first) if engine in memory.HALOGEN else memory.radiance(rng, engine, mode, first)
    for tries in range(100):
        asked = ask_goals(of.made, goals, free=list(of.names))
        questions = tuple(replace(question, free=dict(of.question.free), bounds=of.question.bounds)
                          for question in asked)
        found = Instance(questions, of.grid, of.names, of.feasible(), tuple(known(of, goal) for goal in goals))
        points = len(found.unbeaten())
        wanted = points > 1 or not number % 9 or (points and tries >= 3)
        if wanted and points <= (MOST_POINTS if tries < 10 else 8 * MOST_POINTS):
            return found
        of = (memory.halogen(rng, engine, first) if engine in memory.HALOGEN else
              memory.radiance(rng, engine, mode, first))
    raise AssertionError(f"no instance of {goals}")


def fast(rng: random.Random, engine: str, mode: str, number: int, folder: Path) -> Instance:
    turn = speeds.TURNS[number % len(speeds.TURNS)]
    one = speeds.made(rng, engine, mode, turn, folder, number)
    while one.question.speed is not None and one.question.speed.used[0].law.why_not:  # one setting ranks nothing
        one = speeds.made(rng, engine, mode, turn, folder, number)
    question = one.question
    others = [name for name in ("context", "sequences", "sessions", "host-ram")
              if set(question.site.model.goals[name].moves) <= set(one.names)]  # other knobs would take other laws
    goals = [question.goal.name, "sessions", *rng.sample([name for name in others if name != "sessions"],
                                                         int(number == 2 and len(others) > 1))]
    rng.shuffle(goals)
    assert question.speed is not None
    specs = question.site.model.knobs
    asked = ask_goals(question.site, goals, free=list(one.names), workload=question.speed.workload,
                      given={name: specs[name].write(value) for name, value in question.given.items()})
    questions = tuple(replace(own, free=dict(question.free), bounds=question.bounds) for own in asked)
    return Instance(questions, one.grid, one.names, one.feasible,
                    tuple(one.objective if goal == question.goal.name else known(one.of, goal) for goal in goals))


@cache
def instances(engine: str, mode: str, measured: bool) -> tuple[Instance, ...]:
    """The questions of one generation, the same in every run."""
    rng = random.Random(f"pareto {engine} {mode} {measured}")
    if not measured:
        return tuple(plain(rng, engine, mode, number) for number in range(EACH))
    with TemporaryDirectory() as folder:
        return tuple(fast(rng, engine, mode, number, Path(folder)) for number in range(EACH_FAST))


@cache
def fronts(engine: str, mode: str, measured: bool) -> tuple[Front, ...]:
    return tuple(pareto(instance.questions, seconds=memory.PATIENCE) for instance in instances(engine, mode, measured))


MEASURED = [("radiance@1.0.13", "pair"), ("radiance@1.2.2", "pair"), ("halogen@0.13.0", ""), ("halogen@0.17.4", "")]
KINDS = [*((engine, mode, False) for engine, mode in memory.GENERATIONS),
         *((engine, mode, True) for engine, mode in MEASURED)]


@pytest.mark.parametrize(("engine", "mode", "measured"), KINDS)
def test_the_set_is_brute_forces_own(engine: str, mode: str, measured: bool) -> None:
    both = zip(instances(engine, mode, measured), fronts(engine, mode, measured), strict=True)
    for number, (instance, front) in enumerate(both):
        where = (number, instance.goals)
        if not instance.feasible.any():
            assert (front.status, front.points) == ("infeasible", ()), where
            assert front.conflict is not None, where
            assert front.conflict.conflict, where
            continue
        assert front.status == "optimal", where
        gains = instance.gains()
        counts = instance.counts(gains)
        assert [point.steps for point in front.points] == instance.unbeaten(), where
        for point in front.points:
            assert point.proven, where
            own = gains[(counts == np.array(point.steps)).all(axis=1)]
            best = max(tuple(row) for row in own.tolist())  # the first goal's best, then the next
            signed = tuple(-value if goal in SMALLER else value
                           for goal, value in zip(instance.goals, point.values, strict=True))
            assert signed == best, (*where, point.steps)
            place = instance.feasible.copy()
            for name in instance.names:
                place &= instance.grid[name] == point.first.shape[name]
            assert place.sum() == 1, (*where, point.steps)
            assert tuple(int(value[place][0]) for value in instance.values) == point.values, (*where, point.steps)


@pytest.mark.parametrize(("engine", "mode", "measured"), KINDS)
def test_the_knee_is_the_farthest_from_the_line(engine: str, mode: str, measured: bool) -> None:
    both = zip(instances(engine, mode, measured), fronts(engine, mode, measured), strict=True)
    for number, (instance, front) in enumerate(both):
        if len(front.points) < 3:
            assert front.knee is None, number
            continue
        at = np.array([[-value if goal in SMALLER else value for goal, value in zip(instance.goals, point.values,
                                                                                    strict=True)]
                       for point in front.points], dtype=float)
        if at.shape[1] != 2:
            continue
        at = (at - at.min(axis=0)) / np.ptp(at, axis=0)
        over = (at.sum(axis=1) - 1) / np.sqrt(2)  # the best of each goal is the worst of the other
        if front.knee is not None:
            assert over[front.knee.place] == pytest.approx(over.max(), abs=1e-9), number
            assert front.knee.distance == pytest.approx(over.max(), abs=1e-9), number
        else:
            steps = np.array(front.step) / np.ptp(np.array([point.values for point in front.points]), axis=0)
            assert over.max() * np.sqrt(2) < steps.min() + 1e-9, number


def test_enough_instances_of_every_kind() -> None:
    counts: Counter[str] = Counter()
    for kind in KINDS:
        for instance, front in zip(instances(*kind), fronts(*kind), strict=True):
            counts["all"] += 1
            counts[f"{len(instance.goals)} goals"] += 1
            counts["several points" if len(front.points) > 1 else "one point" if front.points else "infeasible"] += 1
            counts["with speed"] += kind[2]
            counts["with a knee"] += front.knee is not None
            counts["several points with speed"] += kind[2] and len(front.points) > 1
            counts["several points of three goals"] += len(instance.goals) == 3 and len(front.points) > 1
    assert counts["all"] >= 300
    assert min(counts.values()) >= 5, counts
    assert counts["several points"] >= 90, counts
