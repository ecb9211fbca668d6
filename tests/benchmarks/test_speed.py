"""Benchmarks, kept out of the normal run: ``python -m pytest tests/benchmarks --benchmark-only --numprocesses 0``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measurements.site import load, read_site
from models.interval import point
from optimizer.check import check
from optimizer.many import best_of
from optimizer.pareto import ask_goals, pareto
from optimizer.sensitivity import with_facts
from optimizer.solve import ask, solve

SITES = Path(__file__).resolve().parents[2] / "measurements" / "sites"
QUESTIONS = [
    ("two-r9700", "sequences"), ("two-r9700", "context"), ("stated-pair", "slab"), ("stated-pair", "context"),
    ("host-pool", "sequences"), ("unified-memory", "sessions"), ("unified-memory", "context"),
]


@pytest.mark.parametrize("site", ["two-r9700", "stated-pair", "host-pool", "unified-memory"])
def test_check(benchmark: BenchmarkFixture, site: str) -> None:
    own = load(read_site(SITES / site))
    assert benchmark(check, own).verdict.word == "fits"


@pytest.mark.parametrize("top", [1, 10])
@pytest.mark.parametrize(("site", "goal"), QUESTIONS)
def test_solve(benchmark: BenchmarkFixture, site: str, goal: str, top: int) -> None:
    question = ask(load(read_site(SITES / site)), goal, top=top)
    assert benchmark(solve, question).status == "optimal"


@pytest.mark.parametrize(("site", "goals", "points"), [
    ("host-pool", ("sequences", "slab"), 17), ("stated-pair", ("prefill", "context"), 19),
])
def test_pareto(benchmark: BenchmarkFixture, site: str, goals: tuple[str, ...], points: int) -> None:
    questions = ask_goals(load(read_site(SITES / site)), goals)
    front = benchmark(pareto, questions)
    assert (front.status, len(front.points)) == ("optimal", points)
    assert benchmark.stats is None or benchmark.stats.stats.median < 2  # seconds


@pytest.mark.parametrize("site", ["two-r9700", "unified-memory"])
def test_load(benchmark: BenchmarkFixture, site: str) -> None:
    assert benchmark(lambda: load(read_site(SITES / site))).facts


@pytest.mark.parametrize(("site", "goal"), [
    ("two-r9700", "sequences"), ("two-r9700", "slab"), ("stated-pair", "context"), ("stated-pair", "prefill"),
    ("host-pool", "sequences"), ("unified-memory", "sessions"),
])
def test_re_solves(benchmark: BenchmarkFixture, site: str, goal: str) -> None:
    """What sensitivity asks: one question with its facts, or a held knob, at other values."""
    question = ask(load(read_site(SITES / site)), goal, top=1)
    rng = random.Random(1)
    asked = [with_facts(question, {
        name: point(rng.randint(value.low, value.high)) for name, value in question.site.given.facts.items()
        if not value.exact}) for _ in range(512)]
    found = benchmark(best_of, asked)
    assert all(best.proven for best in found)
    assert benchmark.stats is None or len(asked) / benchmark.stats.stats.median > 500  # a second, on one core
