"""Benchmarks, kept out of the normal run: ``python -m pytest tests/benchmarks --benchmark-only``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measurements.site import load, read_site
from optimizer.check import check
from optimizer.pareto import ask_goals, pareto
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
