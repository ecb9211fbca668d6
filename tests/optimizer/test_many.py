"""Many questions at once against brute force, against CP-SAT, and against plain arithmetic."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from measurements.site import Site, load, read_site
from models.evaluate import Reader
from models.expr import Curve, Knob
from models.interval import Interval, point
from optimizer import many
from optimizer.many import Best, best_of
from optimizer.solve import Question, ask, bound_condition, hard_requires, solve
from tests.optimizer import test_speed_twin as speeds
from tests.optimizer import test_twin as memory

SITES = Path(__file__).parents[2] / "measurements" / "sites"


def site(name: str) -> Site:
    return load(read_site(SITES / name))


@pytest.mark.parametrize(("engine", "mode"), memory.GENERATIONS)
def test_the_best_is_brute_forces_own(engine: str, mode: str) -> None:
    instances = memory.instances(engine, mode)
    found = best_of([instance.question for instance in instances])
    seen: Counter[str] = Counter()
    assert sum(best.proven for best in found) >= len(found) - 1
    for number, (instance, best) in enumerate(zip(instances, found, strict=True)):
        where = (number, instance.question.goal.name)
        if not best.proven:
            continue
        assert best.value == instance.best(), where
        seen["feasible" if best.value is not None else "infeasible"] += 1
        if best.value is None:
            continue
        place = np.ones_like(instance.objective, dtype=bool)
        for name in instance.names:
            place &= instance.grid[name] == best.shape[name]
        assert place.sum() == 1, where
        assert (instance.feasible() & place).any(), where
        assert int(instance.objective[place][0]) == best.value, where
    assert min(seen["feasible"], seen["infeasible"]) >= 6, seen


@pytest.mark.parametrize(("engine", "mode"), speeds.GENERATIONS)
def test_the_fastest_is_brute_forces_own(engine: str, mode: str) -> None:
    instances = speeds.instances(engine, mode)
    found = best_of([instance.question for instance in instances])
    assert sum(best.proven for best in found) >= len(found) - 1
    for number, (instance, best) in enumerate(zip(instances, found, strict=True)):
        if best.proven:
            wanted = speeds.answers(engine, mode)[number]
            assert (best.value is None) == (wanted.status == "infeasible"), number
            assert (best.value is None) == (instance.best() is None), number


def sampled(of: Question, count: int, seed: int) -> list[Question]:
    """The question with every fact at one value of its interval."""
    rng = random.Random(seed)
    given = of.site.given
    return [replace(of, site=replace(of.site, given=replace(given, facts={
        name: value if value.exact else point(rng.randint(value.low, value.high))
        for name, value in given.facts.items()}))) for _ in range(count)]


@pytest.mark.parametrize(("name", "goal", "free"), [
    ("stated-pair", "slab", ()), ("stated-pair", "context", ("gpu_headroom_mib",)), ("stated-pair", "prefill", ()),
    ("two-r9700", "sequences", ()), ("two-r9700", "host-ram", ()), ("two-r9700", "slab", ()),
    ("host-pool", "context", ()), ("unified-memory", "headroom", ()),
    ("unified-memory", "sessions", ("host_reserve_gib", "max_tok")),
])
def test_a_batch_of_sampled_facts_is_cp_sats_own(name: str, goal: str, free: Sequence[str]) -> None:
    question = ask(site(name), goal, free=free, top=1)
    asked = sampled(question, 40, 3)
    found = best_of(asked)
    assert all(best.proven for best in found)
    if (name, goal) in (("two-r9700", "slab"), ("unified-memory", "headroom")):  # what the facts move by each byte
        assert len({best.value for best in found}) > 30
    for place in range(0, 40, 8):
        answer = solve(asked[place])
        told = answer.shapes[0].objective if answer.shapes else None
        best = found[place].value
        assert (told is None) == (best is None), place
        if told is not None and best is not None:
            assert best in told, place
            assert holds(asked[place], found[place]), place


def holds(question: Question, best: Best) -> bool:
    """Whether the shape found meets everything by plain arithmetic."""
    model = question.site.model
    reader = Reader(model, replace(question.site.given, printed={}), question.base | best.shape)
    conditions = [require.holds for require in hard_requires(question)]
    conditions += [bound_condition(model, bound) for bound in question.bounds]
    return all(reader.condition(condition) is not False for condition in conditions)


def test_held_knobs_and_bounds_may_differ_between_questions() -> None:
    asked = [ask(site("stated-pair"), "context", given={"max_num_seqs": str(count)}, top=1,
                 at_least=[("vram_weights", "25600MiB")]) for count in (1, 3, 4, 5)]
    model = asked[0].site  # one site, so that all are read together
    asked = [replace(question, site=model, goal=asked[0].goal) for question in asked]
    found = best_of(asked)
    assert [best.value for best in found] == [solve(question).shapes[0].objective.low for question in asked]
    assert found[0].value != found[3].value


def test_what_it_does_not_cover_is_left_unproven() -> None:
    question = ask(site("two-r9700"), "slab", top=1)
    nobody = replace(question.site, given=replace(question.site.given, facts={}))
    (best,) = best_of([replace(question, site=nobody)])
    assert not best.proven
    assert best.value is None


def test_too_many_rounds_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ask(site("two-r9700"), "host-ram", top=1)
    assert best_of([question])[0].proven
    monkeypatch.setattr(many, "MOST_ROUNDS", 2)
    assert best_of([question]) == [Best(None, {}, False)]
    monkeypatch.setattr(many, "MOST_ROUNDS", 400)
    monkeypatch.setattr(many, "MOST_BOXES", 3)
    assert best_of([question]) == [Best(None, {}, False)]


@pytest.mark.parametrize("seed", range(20))
def test_a_curve_over_a_span_holds_all_its_values(seed: int) -> None:
    rng = random.Random(seed)
    xs = tuple(sorted(rng.sample(range(1, 400), rng.randint(2, 17))))
    ys = [rng.randint(0, 900) for _ in xs]
    if seed % 4 == 1:
        ys.sort()
    if seed % 4 == 2:
        ys.sort(reverse=True)
    curve = Curve("speed", Knob("x"), xs, tuple(ys))
    table = many._Curve(curve)
    ends = [sorted((rng.randint(xs[0], xs[-1]), rng.randint(xs[0], xs[-1]))) for _ in range(60)]
    low, high = (np.array(side) for side in zip(*ends, strict=True))
    span = table.over(many.Span(low, high))
    at = table.at(np.arange(xs[0], xs[-1] + 1))
    assert at.tolist() == [curve.at(x) for x in range(xs[0], xs[-1] + 1)]
    for place, (first, last) in enumerate(ends):
        inside = Interval(int(at[first - xs[0]:last - xs[0] + 1].min()), int(at[first - xs[0]:last - xs[0] + 1].max()))
        assert span.low[place] <= inside.low
        assert span.high[place] >= inside.high
        assert Interval(int(span.low[place]), int(span.high[place])) == curve.over(first, last)
