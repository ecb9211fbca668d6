"""How many boots until a server runs the best shape? ``python -m tests.benchmarks.boots [--seeds N]`` prints a table.

Engines are simulated. Memory is the real arithmetic: a boot whose shape does not fit by the plain check costs a boot
and measures nothing. Speed is a hidden law of the shape, drawn by seed, and every measurement has 3 % of noise.

What is known at the start are the settings of the operator notes' prefill points, or for unified memory two or three
made-up ones. The settings stay; their rates are drawn anew from the hidden law, with noise, so that they are this
engine's own. The total effect of a law is 15 to 60 % of the rate, over all that is known or fits. With more slab no law
gets slower, so along the slab the best is whatever fits most; along ``max_tok`` it is at either end, or inside.

A boot counts as there when its true rate (no noise) is within 2 % of the best that fits. The best is found from the
same memory arithmetic without the solver, over all shapes that fit, not over those within the data only. Settings known
at the start count for nothing until they are booted again.

The policy that is followed with shapewright is :func:`choose`. It is compared with Optuna's TPE, which is told the
same points, what did not fit as pruned, and is asked for the same knobs in an operator's steps (of ``max_tok``, an
eighth of them). Its ranges are kinder than the solver's: no pool exceeds the whole memory, and the steps lie so that
the best slab is among them. ``TPE that fits`` also has the memory arithmetic: what does not fit is asked again without
costing a boot.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from measurements.points import REFERENCE, read_points
from measurements.site import Site, load, read_site
from models.declare import Verdict
from optimizer.check import check
from optimizer.measure import next_measurement
from optimizer.solve import Question, ask, solve
from optimizer.speed import Workload

Floats = NDArray[np.float64]
Shape = Mapping[str, int]

SITES: Final = Path(__file__).resolve().parents[2] / "measurements" / "sites"
#: Relative noise of one measurement.
NOISE: Final = 0.03
#: How near to the best a boot must be.
NEAR: Final = 0.02
#: The rate of the fastest shape of every law, tokens a second.
FASTEST: Final = 4000.0
#: How much faster the best end of the law is than its worst, at least and at most.
EFFECT: Final = (0.15, 0.6)
#: Boots that the policy may take, and those that TPE may.
HORIZON: Final = 8
FAR_HORIZON: Final = 60
#: How often TPE is asked again for one boot.
ASKED_AGAIN: Final = 50
COLUMNS: Final = ("engine", "version", "model", "knobs", "tokens_in", "tokens_out", "streams", "cache", "corpus",
                  "metric", "value", "unit", "rep", "date", "source")


# --- hidden laws, written apart from the forms that are fitted ----------------------------------------------------


def _slab_terms(k: float) -> dict[str, Callable[[Floats], Floats]]:
    """``u`` runs from 0 at the least slab known to 1 at the most; a term is 1 where time is most and 0 where least."""
    return {
        "constant": lambda u: 0 * u,
        "slope": lambda u: 1 - u,
        "hinge": lambda u: 1 - np.maximum(u - k, 0) / (1 - k),
        "threshold": lambda u: np.where(u < k, 1.0, 0.0),
        "saturating": lambda u: np.minimum((np.exp(-u / k) - math.exp(-1 / k)) / (1 - math.exp(-1 / k)), 20.0),
        "roofline": lambda u: np.maximum(k - u, 0) / k,
    }


def _pass_terms(k: float) -> dict[str, Callable[[Floats], Floats]]:
    """The same along ``max_tok``, from the least to the most that fits. No declared form has its best inside."""
    def inside(u: Floats) -> Floats:
        x, best, last = u + 0.03, k + 0.03, 1.03
        most = max(best / 0.03 + 0.03 / best, best / last + last / best) - 2
        return np.asarray((best / x + x / best - 2) / most)

    return {
        "constant": lambda u: 0 * u,
        "slope, fast below": lambda u: u,
        "slope, fast above": lambda u: 1 - u,
        "inverse": lambda u: (0.03 / (u + 0.03) - 0.03 / 1.03) / (1 - 0.03 / 1.03),
        "best inside": inside,
    }


@dataclass(frozen=True, slots=True)
class Hidden:
    """A true law: seconds a token along one axis, between ``low`` and ``high``."""

    term: Callable[[Floats], Floats]
    low: int
    high: int
    effect: float

    def rates(self, x: Sequence[int] | Floats) -> Floats:
        """Tokens a second, without noise."""
        u = (np.asarray(x, dtype=np.float64) - self.low) / (self.high - self.low)
        return np.asarray(FASTEST / (1 + self.effect * self.term(u)))


# --- what is asked ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """What one starting point was measured at: its cells, and where it lies for a search in the free knobs."""

    cells: Mapping[str, str]
    knobs: Shape


@dataclass(frozen=True)
class Problem:
    """Prefill asked of a site. ``axis`` is the knob that the hidden law knows, ``starts`` what was measured before.

    ``knobs`` are what the question frees, each with the step and the most that TPE is given; with ``narrow``, the
    solver's own domain ends there too.
    """

    name: str
    site_name: str
    given: Mapping[str, str]
    axis: str
    knobs: Mapping[str, tuple[int, int]]
    terms: Callable[[float], dict[str, Callable[[Floats], Floats]]]
    starts: tuple[Row, ...]
    narrow: bool = False

    @cached_property
    def site(self) -> Site:
        """The example site."""
        site = load(read_site(SITES / self.site_name))
        if not self.narrow:
            return site
        knobs = {name: replace(site.model.knobs[name], high=most) for name, (_, most) in self.knobs.items()}
        return replace(site, model=replace(site.model, knobs={**site.model.knobs, **knobs}))

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of its hidden laws."""
        return tuple(self.terms(0.5))

    def ask(self, points: Path, workload: Workload) -> Question:
        """The question, put to the site with these measured points."""
        site = replace(self.site, sources=replace(self.site.sources, points=(points,)))
        return ask(site, "prefill", given=self.given, top=1, workload=workload)

    def fits(self, knobs: Shape) -> bool:
        """Whether a shape surely fits, by the plain check. A knife edge does not."""
        given = {name: int(text) for name, text in self.given.items()}
        return check(self.site, self.site.knobs | given | dict(knobs)).verdict is Verdict.FITS

    @cached_property
    def most(self) -> dict[str, int]:
        """The shape that fits with the most of the axis.

        By bisection, which is exact here: the pool's needs know nothing of the slab, the ceiling bounds their sum, and
        device memory only grows with ``max_tok``.
        """
        knobs = dict(self.starts[0].knobs)
        if "vram_kv_mib" in knobs:
            knobs["vram_kv_mib"] = _first(1, knobs["vram_kv_mib"], lambda kv: self.fits(knobs | {"vram_kv_mib": kv}))
        end = self.knobs[self.axis][1] + 1
        over = _first(knobs[self.axis], end, lambda x: x == end or not self.fits(knobs | {self.axis: x}))
        return knobs | {self.axis: over - 1}

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the most of the axis that fit."""
        return self.site.model.knobs[self.axis].domain()[0], self.most[self.axis]


def _first(low: int, high: int, true: Callable[[int], bool]) -> int:
    """The least number in ``low`` to ``high`` for which ``true`` holds, which then holds for all above."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle + 1, high)
    return low


def _pair_rows() -> tuple[Row, ...]:
    """The operator notes' prefill points of the stated pair; a pool that one does not state is its neighbour's."""
    found: list[Row] = []
    for point in read_points([REFERENCE]).points:
        if point.engine == "radiance" and point.metric == "prefill" and "vram_weights_mib" in point.knobs:
            cells = {"engine": point.engine, "version": point.version, "model": point.model,
                     "knobs": " ".join(f"{name}={text}" for name, text in point.knobs.items()),
                     "tokens_in": str(point.tokens_in), "source": point.source}
            kv = point.knobs.get("vram_kv_mib")
            found.append(Row(cells, {"vram_weights_mib": int(point.knobs["vram_weights_mib"]),
                                     "vram_kv_mib": int(kv) if kv else found[-1].knobs["vram_kv_mib"]}))
    return tuple(found)


def _pass_rows(*sizes: int) -> tuple[Row, ...]:
    return tuple(Row({"engine": "halogen", "version": "0.13.0", "model": "qwen38-flash-next-w4b",
                      "knobs": f"max_tok={size}", "tokens_in": "32768", "source": "made up"}, {"max_tok": size})
                 for size in sizes)


#: The whole memory of a card for either pool of a stated pair; one operator's step beyond the ``max_tok`` that runs.
_PAIR: Final = {"vram_weights_mib": (64, 30_969), "vram_kv_mib": (64, 30_969)}
_PASS: Final = {"max_tok": (1024, 40_960)}


@cache
def problems() -> tuple[Problem, ...]:
    """All questions."""
    pair, held = _pair_rows(), {"kv_pool_positions": "524288"}
    return (
        Problem("stated pair, three sequences of 200,000", "stated-pair", {"max_num_seqs": "3",
                "max_model_len": "200000"}, "vram_weights_mib", _PAIR, _slab_terms, pair),
        Problem("stated pair, two sequences: the best is beyond the data", "stated-pair", {"max_num_seqs": "2"},
                "vram_weights_mib", _PAIR, _slab_terms, pair),
        Problem("unified memory, max_tok, three sizes known", "unified-memory", held, "max_tok", _PASS, _pass_terms,
                _pass_rows(8_192, 16_384, 32_768), narrow=True),
        Problem("unified memory, max_tok, two sizes known", "unified-memory", held, "max_tok", _PASS, _pass_terms,
                _pass_rows(16_384, 32_768), narrow=True),
    )


# --- the simulated engine -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Engine:
    """One server with a hidden law. What a seed draws does not depend on who boots it."""

    problem: Problem
    form: str
    seed: int
    folder: Path
    law: Hidden = field(init=False)
    known: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        rng = np.random.default_rng([self.seed, problem.forms.index(self.form)])
        effect, knee = float(rng.uniform(*EFFECT)), float(rng.uniform(0.15, 0.85))
        least, most = problem.ends
        sizes = [row.knobs[problem.axis] for row in problem.starts]
        slab = problem.axis == "vram_weights_mib"
        law = Hidden(problem.terms(knee)[self.form], min(sizes) if slab else least, max(*sizes, most), effect)
        noise = np.exp(NOISE * rng.standard_normal(len(sizes)))
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "known", tuple(float(rate) for rate in law.rates(sizes) * noise))

    @cached_property
    def best(self) -> float:
        """The true rate of the best shape that fits."""
        least, most = self.problem.ends
        return float(self.law.rates(np.arange(least, most + 1, dtype=np.float64)).max())

    def boot(self, knobs: Shape, number: int) -> float | None:
        """The measured rate of the boot of that number; None where the shape does not fit."""
        if not self.problem.fits(knobs):
            return None
        noise = np.random.default_rng([self.seed, 77, number]).standard_normal()
        return float(self.law.rates([knobs[self.problem.axis]])[0] * math.exp(NOISE * noise))

    def there(self, knobs: Shape) -> bool:
        """Whether the shape, which fits, is as good as the best."""
        return float(self.law.rates([knobs[self.problem.axis]])[0]) >= self.best * (1 - NEAR)

    def write(self, boots: Sequence[tuple[Shape, float]]) -> Path:
        """The points file as it stands: what was known at the start, and the boots since."""
        lines = [dict(row.cells) | {"value": f"{rate:.6g}"}
                 for row, rate in zip(self.problem.starts, self.known, strict=True)]
        first = self.problem.starts[0]
        stated = {name: text for name, _, text in (pair.partition("=") for pair in first.cells["knobs"].split())}
        for number, (knobs, rate) in enumerate(boots, 1):
            words = stated | {name: str(value) for name, value in knobs.items()}
            words |= {name: text for name, text in self.problem.given.items() if name in self.problem.site.knobs}
            lines.append(dict(first.cells) | {
                "knobs": " ".join(f"{name}={text}" for name, text in words.items()), "value": f"{rate:.6g}",
                "rep": str(number), "source": "this server"})
        path = self.folder / "points.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(line | {"cache": "cold", "metric": "prefill", "unit": "t/s"} for line in lines)
        return path


@dataclass(frozen=True, slots=True)
class Run:
    """Boots until the best shape ran (None: not within the horizon), those that did not fit, and all in order."""

    boots: int | None
    unfit: int
    shapes: tuple[tuple[str, dict[str, int]], ...] = ()


# --- the policy ---------------------------------------------------------------------------------------------------


def choose(engine: Engine, boots: Sequence[tuple[Shape, float]]) -> tuple[str, dict[str, int]] | None:
    """The next boot and why, by what shapewright says; None when it has nothing more to boot.

    1. Rank 1 of ``solve``, when it was not booted yet.
    2. It was, and stands where the data end: rank 1 of ``solve --extrapolate``, when that was not booted yet.
    3. The laws are not decided: what ``next`` names, be it a shape booted before, measured once more.
    """
    problem = engine.problem
    points = engine.write(boots)
    question = problem.ask(points, Workload())
    assert question.speed is not None
    (used,) = question.speed.used
    rank1 = _best(problem, question)
    done = [dict(knobs) for knobs, _ in boots]
    if rank1 not in done:
        return "rank 1", rank1
    ends = used.law.range_of(problem.axis)
    if ends is not None and rank1[problem.axis] in ends:
        beyond = _best(problem, problem.ask(points, Workload(extrapolate=True)))
        if beyond not in done:
            return "beyond", beyond
    if used.law.fit.decided is not None:
        return None
    found = next_measurement(question)
    return None if found.shape is None else ("next", {name: found.shape.shape[name] for name in problem.knobs})


def _best(problem: Problem, question: Question) -> dict[str, int]:
    answer = solve(question)
    return {name: answer.shapes[0].shape[name] for name in problem.knobs}


def follow(engine: Engine, horizon: int = HORIZON) -> Run:
    """Boots what shapewright says until the best shape runs."""
    boots: list[tuple[Shape, float]] = []
    shapes: list[tuple[str, dict[str, int]]] = []
    unfit = 0
    for number in range(1, horizon + 1):
        chosen = choose(engine, boots)
        if chosen is None:
            break
        shapes.append(chosen)
        rate = engine.boot(chosen[1], number)
        if rate is None:
            unfit += 1
            break  # it would say the same again
        if engine.there(chosen[1]):
            return Run(number, unfit, tuple(shapes))
        boots.append((chosen[1], rate))
    return Run(None, unfit, tuple(shapes))


# --- the comparison -----------------------------------------------------------------------------------------------


def import_optuna() -> Any:
    """Optuna. Raises SystemExit, in words, where it is not installed."""
    try:
        import optuna
    except ImportError:
        raise SystemExit("the comparison needs optuna: pip install -e '.[bench]', or --without-tpe") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def tpe(engine: Engine, *, fits: bool, horizon: int = FAR_HORIZON) -> Run:
    """Boots what Optuna's TPE suggests until the best shape runs; with ``fits``, only what the plain check lets fit."""
    optuna = import_optuna()
    problem = engine.problem
    anchor = problem.most
    spaces = {}
    for name, (step, most) in problem.knobs.items():
        low = step if problem.narrow else anchor[name] % step or step
        spaces[name] = optuna.distributions.IntDistribution(low, most - (most - low) % step, step=step)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=engine.seed))
    for row, known in zip(problem.starts, engine.known, strict=True):
        near = {name: space.low + round((row.knobs[name] - space.low) / space.step) * space.step
                for name, space in spaces.items()}
        if problem.fits(row.knobs):
            study.add_trial(optuna.trial.create_trial(params=near, distributions=spaces, value=known))
        else:
            study.add_trial(optuna.trial.create_trial(params=near, distributions=spaces,
                                                      state=optuna.trial.TrialState.PRUNED))
    unfit = 0
    for number in range(1, horizon + 1):
        rate: float | None = None
        knobs: dict[str, int] = {}
        for _ in range(ASKED_AGAIN if fits else 1):
            trial = study.ask(spaces)
            knobs = {name: int(trial.params[name]) for name in spaces}
            rate = engine.boot(knobs, number)
            if rate is not None:
                break
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        if rate is None:
            unfit += 1
            continue
        if engine.there(knobs):
            return Run(number, unfit)
        study.tell(trial, rate)
    return Run(None, unfit)


METHODS: Final[Mapping[str, tuple[Callable[[Engine], Run], int]]] = {
    "shapewright": (follow, HORIZON),
    "TPE": (lambda engine: tpe(engine, fits=False), FAR_HORIZON),
    "TPE that fits": (lambda engine: tpe(engine, fits=True), FAR_HORIZON),
}


# --- the table ----------------------------------------------------------------------------------------------------


def median(runs: Sequence[Run]) -> float:
    """The median of boots; what was not reached counts as never."""
    return statistics.median(math.inf if run.boots is None else run.boots for run in runs)


def line(name: str, method: str, runs: Sequence[Run], horizon: int) -> str:
    """One line of the table."""
    def show(boots: float) -> str:
        return f"> {horizon}" if math.isinf(boots) else f"{boots:g}"

    worst = max(math.inf if run.boots is None else run.boots for run in runs)
    reached = sum(run.boots is not None for run in runs) / len(runs)
    unfit = sum(run.unfit for run in runs) / len(runs)
    return f"{name:18} {method:14} {show(median(runs)):>6} {show(worst):>6} {unfit:9.1f} {reached:8.0%}"


def run(problem: int, form: str, method: str, seed: int) -> Run:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        return METHODS[method][0](Engine(problems()[problem], form, seed, Path(folder)))


def _job(job: tuple[int, str, str, int]) -> list[Run]:
    problem, form, method, seeds = job
    return [run(problem, form, method, seed) for seed in range(seeds)]


def lines(methods: Sequence[str], seeds: int) -> Iterator[str]:
    """The whole table, a block for each question."""
    from concurrent.futures import ProcessPoolExecutor

    jobs = [(place, form, method, seeds) for place, problem in enumerate(problems()) for form in problem.forms
            for method in methods]
    with ProcessPoolExecutor() as pool:
        results = zip(jobs, pool.map(_job, jobs), strict=True)
        for place, rows in groupby(results, key=lambda pair: pair[0][0]):
            yield f"\n{problems()[place].name}"
            yield f"{'form':18} {'method':14} {'median':>6} {'worst':>6} {'unfit':>9} {'reached':>8}"
            every: dict[str, list[Run]] = {method: [] for method in methods}
            for (_, form, method, _), runs in rows:
                every[method] += runs
                yield line(form, method, runs, METHODS[method][1])
            for method, runs in every.items():
                yield line("all forms", method, runs, METHODS[method][1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Boots until the best shape runs, on simulated engines.")
    parser.add_argument("--seeds", type=int, default=10, help="engines of each form (10)")
    parser.add_argument("--without-tpe", action="store_true", help="leave the comparison out")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds is 1 at least")
    methods = ["shapewright"] if options.without_tpe else list(METHODS)
    if not options.without_tpe:
        import_optuna()
    print(f"Boots until a shape within {NEAR:.0%} of the best runs, of {options.seeds} engines each: median and worst;")
    print("boots that did not fit (a run's mean); how many came there within the horizon "
          f"({HORIZON} boots, TPE {FAR_HORIZON})")
    for text in lines(methods, options.seeds):
        print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
