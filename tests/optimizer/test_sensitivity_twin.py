"""Sensitivity against brute force: every step, range, drift and pair found again in a grid of hand-written formulas."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from models.interval import Interval, point
from optimizer.pareto import step_of
from optimizer.sensitivity import FactWorth, Move, Sensitivity, gains, sensitivity
from optimizer.solve import Question
from tests.optimizer import test_twin as memory

#: Questions of each generation, infeasible ones left out; of every third more than the gains is asked.
EACH = 21
WHOLE = 3


@dataclass(frozen=True)
class Instance:
    """A question with some knobs of a grid held, and what the program says of it."""

    of: memory.Instance
    question: Question
    held: dict[str, int]
    shape: dict[str, int]
    moves: dict[str, tuple[Move | None, Move | None]]
    found: Sensitivity | None

    @property
    def base(self) -> int:
        """The best value there is."""
        best = self.best({})
        assert best is not None
        return best

    @property
    def sign(self) -> int:
        return 1 if self.of.maximised else -1

    def rows(self, values: Mapping[str, int]) -> NDArray[np.bool_]:
        """The shapes of the grid that have these values, and the held ones elsewhere."""
        here = np.ones_like(self.of.objective, dtype=bool)
        for name, value in {**self.held, **values}.items():
            here &= self.of.grid[name] == value
        return here

    def best(self, values: Mapping[str, int]) -> int | None:
        """The best value with these knobs at these values, all else optimised."""
        found = self.of.objective[self.rows(values) & self.of.feasible()]
        return None if not found.size else int(found.max() if self.of.maximised else found.min())

    def gain(self, values: Mapping[str, int]) -> int | None:
        best = self.best(values)
        return None if best is None else self.sign * (best - self.base)

    def alone(self, values: Mapping[str, int]) -> int | None:
        """The gain of the best shape with these values, None where it does not hold."""
        shape = {name: self.shape[name] for name in self.of.names}
        return self.gain({**shape, **values})

    def ticks(self, name: str) -> list[int]:
        return sorted(set(self.of.grid[name].tolist()))


@cache
def instances(engine: str, mode: str) -> tuple[Instance, ...]:
    rng = random.Random(f"sensitivity {engine} {mode}")
    turns = memory.goals(engine, mode)
    found: list[Instance] = []
    for number in range(10 * EACH):
        if len(found) == EACH:
            break
        goal = turns[number % len(turns)]
        of = (memory.halogen(rng, engine, goal) if engine in memory.HALOGEN else
              memory.radiance(rng, engine, mode, goal))
        good = np.flatnonzero(of.feasible())
        names = rng.sample(of.names, rng.randint(0, len(of.names)))
        if not good.size:
            continue
        row = rng.choice(good.tolist())
        held = {name: int(of.grid[name][row]) for name in names}
        free = {name: ends for name, ends in of.question.free.items() if name not in held}
        question = replace(of.question, free=free, base=of.question.base | held)
        wide = [name for name, value in of.made.given.facts.items() if not value.exact and name in of.made.model.facts]
        steps = gains(question, of.names)
        assert steps is not None, number
        told = None
        if len(found) % WHOLE == 0:
            whole = sensitivity(question, knobs=of.names, facts=rng.sample(sorted(wide), min(len(wide), 4)))
            assert isinstance(whole, Sensitivity), number
            assert {worth.knob: (worth.down, worth.up) for worth in whole.knobs} == steps[1], number
            told = whole
        found.append(Instance(of, question, held, steps[0].shape, steps[1], told))
    return tuple(found)


def wholes(engine: str, mode: str) -> Iterator[tuple[int, Instance, Sensitivity]]:
    for number, instance in enumerate(instances(engine, mode)):
        if instance.found is not None:
            yield number, instance, instance.found


@pytest.mark.parametrize(("engine", "mode"), memory.GENERATIONS)
def test_every_step_gains_what_brute_force_finds(engine: str, mode: str) -> None:
    seen: Counter[str] = Counter()
    for number, instance in enumerate(instances(engine, mode)):
        assert instance.found is None or instance.found.base == instance.base, number
        for name, moves in instance.moves.items():
            where = (number, instance.question.goal.name, name)
            for move, away in zip(moves, (-1, 1), strict=True):
                if move is None or move.to not in instance.ticks(name):
                    continue
                assert away * (move.to - instance.shape[name]) > 0, where
                assert move.reoptimised == instance.gain({name: move.to}), where
                assert move.alone == instance.alone({name: move.to}), where
                seen["none" if move.reoptimised is None else "gain" if move.reoptimised > 0 else
                     "loss" if move.reoptimised < 0 else "same"] += 1
    assert seen.total() >= EACH, seen


@pytest.mark.parametrize(("engine", "mode"), memory.GENERATIONS)
def test_the_best_shape_stays_best_where_brute_force_says(engine: str, mode: str) -> None:
    compared = 0
    for where, instance, worth in ((f"{number} {worth.knob}", instance, worth)
                                   for number, instance, found in wholes(engine, mode) for worth in found.knobs):
        if worth.stays is None:
            continue
        compared += 1
        step = step_of(instance.question.goal, instance.base)
        ticks = instance.ticks(worth.knob)
        if worth.free:
            near = [value for value in ticks
                    if (gain := instance.gain({worth.knob: value})) is not None and gain > -step]
            low, high = instance.question.free[worth.knob]
            ends = (None if near[0] == low else near[0], None if near[-1] == high else near[-1])
            assert worth.stays == ends, where
            continue
        for end, values in zip(worth.stays, (ticks[::-1], ticks), strict=True):
            up = values is ticks
            for value in values:
                if (value <= worth.value) if up else (value >= worth.value):
                    continue
                within = end is None or (value <= end if up else value >= end)
                own = instance.alone({worth.knob: value})
                best = instance.gain({worth.knob: value})
                unbeaten = own is not None and best is not None and best < own + step
                assert unbeaten is within, (where, value, worth.stays)
                if not within:
                    break
    assert compared >= EACH // WHOLE


def test_pairs_are_worth_what_brute_force_says() -> None:
    compared: Counter[bool] = Counter()
    for engine, mode in memory.GENERATIONS:
        for number, instance, found in wholes(engine, mode):
            told = {pair.knobs: pair for pair in found.together}
            moves = {worth.knob: [move for move in (worth.down, worth.up)
                                  if move is not None and move.to in instance.ticks(worth.knob)]
                     for worth in found.knobs if not worth.free}
            names = list(moves)
            for place, one in enumerate(names):
                for other in names[place + 1:]:
                    for a in moves[one]:
                        for b in moves[other]:
                            gain = instance.gain({one: a.to, other: b.to})
                            apart = a.reoptimised or 0, b.reoptimised or 0
                            more = None if gain is None else gain - max(0, *apart, sum(apart))
                            pair = told.get(((one, a.to), (other, b.to)))
                            where = (engine, mode, number, one, other)
                            if more is None or more < found.step:
                                assert pair is None, where
                                compared[False] += 1
                            else:
                                assert pair is not None, where
                                assert (pair.together, pair.more) == (gain, more), where
                                compared[True] += 1
    assert compared.total() >= 100, compared


def changed(instance: Instance, fact: FactWorth, value: Interval) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    known = {name: interval for name, interval in instance.of.made.given.facts.items()
             if name in instance.of.made.facts and instance.of.made.facts[name].source == "the test"}
    return instance.of.again({**known, fact.fact: value})


def test_the_ends_of_a_fact_give_what_brute_force_finds() -> None:
    compared: Counter[str] = Counter()
    for engine, mode in memory.GENERATIONS:
        for number, instance, told in wholes(engine, mode):
            for fact in told.facts:
                if fact.value.exact:
                    continue
                found: list[int | None] = []
                for end in (fact.value.low, fact.value.middle, fact.value.high):
                    holds, objective = changed(instance, fact, point(end))
                    good = objective[holds & instance.rows({})]
                    found.append(None if not good.size else int(good.max() if instance.of.maximised else good.min()))
                where = (engine, mode, number, fact.fact, instance.question.goal.name)
                if instance.question.goal.name == "headroom" and instance.of.made.model.name == "radiance":
                    continue  # its boot, which the facts are from, moves with them
                assert fact.middle == found[1], where
                assert {fact.pessimistic, fact.optimistic} == {found[0], found[2]}, where
                compared["moved" if found[0] != found[2] else "same"] += 1
    assert compared["moved"] >= 5, compared
    assert compared["same"] >= 20, compared


def test_a_fact_flips_the_verdict_just_where_it_is_said() -> None:
    compared: Counter[bool] = Counter()
    undecided = 0
    for engine, mode in memory.GENERATIONS:
        for number, instance, found in wholes(engine, mode):
            if instance.question.goal.name == "headroom":
                continue
            here = instance.rows({name: instance.shape[name] for name in instance.of.names})
            for fact in found.facts:
                for drift, sign in zip(fact.flips, (-1, 1), strict=True):
                    if ("down" if sign < 0 else "up") in fact.open:
                        undecided += 1
                        continue
                    where = (engine, mode, number, fact.fact, sign)

                    def holds(by: int, of: Instance = instance, at: FactWorth = fact, way: int = sign,
                              row: NDArray[np.bool_] = here) -> bool:
                        value = Interval(at.value.low + way * by, at.value.high + way * by)
                        return bool((changed(of, at, value)[0] & row).any())

                    compared[drift is None] += 1
                    if drift is None:
                        room = fact.value.low if sign < 0 else 1 << 40
                        assert all(holds(by) for by in (1, 10_000, 40_000_000) if by <= room), where
                        continue
                    assert not holds(drift), where
                    assert all(holds(by) for by in {drift - 1, drift // 2, drift * 9 // 10} if by), where
    assert min(compared.values()) >= 100, compared
    assert undecided <= compared.total() // 50, undecided


def test_enough_instances_of_every_kind() -> None:
    whole = [instance for engine, mode in memory.GENERATIONS for instance in instances(engine, mode)]
    assert len(whole) >= 300
    held = Counter(len(instance.held) for instance in whole)
    assert min(held[0], held[1], held[2]) >= 30, held
    better = Counter(move.reoptimised is not None and move.reoptimised > 0 for instance in whole
                     for moves in instance.moves.values() for move in moves if move is not None)
    assert min(better.values()) >= 50, better
