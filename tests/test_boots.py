"""Boots until the best shape runs, on a few simulated engines: the benchmark ``tests.benchmarks.boots`` in small.

Every seed is fixed. What is asserted stands far from its limit: one boot where three are allowed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optimizer.check import check
from optimizer.solve import ask, solve
from tests.benchmarks.boots import EFFECT, Engine, Problem, follow, median, problems

THREE, TWO, PASSES, _ = range(4)
SEEDS = range(3)


@pytest.mark.parametrize("form", problems()[THREE].forms)
def test_the_best_shape_runs_within_three_boots(form: str, tmp_path: Path) -> None:
    runs = [follow(Engine(problems()[THREE], form, seed, tmp_path)) for seed in SEEDS]
    assert median(runs) <= 3
    for run in runs:
        assert run.unfit == 0
        assert run.boots is not None
        for _, shape in run.shapes:
            whole = problems()[THREE].site.knobs | {"max_num_seqs": 3, "max_model_len": 200_000} | shape
            assert check(problems()[THREE].site, whole).verdict.word == "fits"


def test_where_the_best_is_beyond_the_data_the_second_boot_goes_there(tmp_path: Path) -> None:
    engine = Engine(problems()[TWO], "slope", 0, tmp_path)
    known = max(row.knobs["vram_weights_mib"] for row in engine.problem.starts)
    run = follow(engine)
    assert [why for why, _ in run.shapes] == ["rank 1", "beyond"]
    assert run.shapes[0][1]["vram_weights_mib"] == known < run.shapes[1][1]["vram_weights_mib"]
    assert run.boots == 2
    assert run.unfit == 0


@pytest.mark.parametrize("form", problems()[PASSES].forms)
def test_a_law_that_may_go_either_way_is_followed_to_its_best(form: str, tmp_path: Path) -> None:
    runs = [follow(Engine(problems()[PASSES], form, seed, tmp_path)) for seed in SEEDS[:1]]
    assert median(runs) <= 3
    assert not any(run.unfit for run in runs)


@pytest.mark.parametrize("place", [THREE, TWO])
def test_the_most_that_fits_is_what_the_solver_proves(place: int) -> None:
    problem = problems()[place]
    (best,) = solve(ask(problem.site, "slab", given=problem.given, top=1)).shapes
    assert {name: best.shape[name] for name in problem.knobs} == problem.most


@pytest.mark.parametrize("problem", problems()[:PASSES + 1], ids=lambda problem: problem.name)
def test_nothing_more_than_the_most_fits(problem: Problem) -> None:
    most = problem.most
    assert problem.fits(most)
    for name in problem.knobs:
        assert not problem.fits(most | {name: most[name] + 1})
    if "vram_kv_mib" in problem.knobs:  # nor does a smaller pool hold what is asked
        assert not problem.fits(most | {"vram_kv_mib": most["vram_kv_mib"] - 1})


@pytest.mark.parametrize("place", [THREE, PASSES])
def test_hidden_laws_have_their_effect_and_the_best_of_all_that_fits(place: int, tmp_path: Path) -> None:
    problem = problems()[place]
    for form in problem.forms:
        for seed in SEEDS:
            engine = Engine(problem, form, seed, tmp_path)
            rates = engine.law.rates(np.arange(engine.law.low, engine.law.high + 1, dtype=np.float64))
            effect = float(rates.max() / rates.min()) - 1
            assert effect == pytest.approx(0 if form == "constant" else engine.law.effect, rel=1e-3)
            assert EFFECT[0] <= engine.law.effect <= EFFECT[1]
            least, most = problem.ends
            places = sorted({*range(least, most, 97), most})
            assert engine.best >= max(engine.law.rates(places)) > engine.best * 0.999


def test_a_boot_that_does_not_fit_measures_nothing(tmp_path: Path) -> None:
    engine = Engine(problems()[THREE], "slope", 0, tmp_path)
    most = engine.problem.most
    assert engine.boot(most, 1) is not None
    assert engine.boot(most | {"vram_weights_mib": most["vram_weights_mib"] + 1}, 1) is None


def test_a_seed_is_one_engine(tmp_path: Path) -> None:
    def known(seed: int) -> tuple[float, ...]:
        return Engine(problems()[THREE], "hinge", seed, tmp_path).known

    assert known(1) == known(1) != known(2)
