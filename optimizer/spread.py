"""What all uncertain facts together leave open: the probability that a shape fits, the spread of the goal, and which
fact it hangs on.

Every fact known to an interval is drawn from all of it alike, independent of the others, by a Sobol sequence (SALib);
at each draw the question is answered again with the facts exact. What the engine's own rules leave open beside the
facts counts at its worst, as in every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any, Final

from measurements.records import ReadError
from models.interval import point
from optimizer.many import TOGETHER, best_of
from optimizer.sensitivity import Sensitivity, Unknown, by_solver, with_facts
from optimizer.solve import Question

#: Draws of the base sequence; each takes as many answers as there are facts, and two more.
SAMPLES: Final = 128
MOST_SAMPLES: Final = 16_384
SEED: Final = 1
#: What one question may take where only CP-SAT decides it.
SECONDS_EACH: Final = 1.0
#: 95 %, as a multiple of the standard deviation.
_TWO_SIGMA: Final = 1.959964
#: The assumption behind it, in words.
RULE: Final = ("every value of a fact's interval is equally likely, and the facts are independent; nobody measured "
               "that, so the shares weigh what is not known and do not promise how often a boot fails; where two facts "
               "tell the same thing and a draw of them disagrees, the worse counts")


@dataclass(frozen=True, slots=True)
class Chance:
    """How many of the draws hold, with the 95 % interval (Wilson) of the share."""

    held: int
    of: int

    @property
    def share(self) -> float:
        """The share that holds."""
        return self.held / self.of

    @property
    def ends(self) -> tuple[float, float]:
        """The 95 % interval of the share."""
        n, p, z = self.of, self.share, _TWO_SIGMA
        middle, half = (p + z * z / (2 * n)), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max((middle - half) / (1 + z * z / n), 0.0), min((middle + half) / (1 + z * z / n), 1.0)


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a variance one fact explains: alone, and with what it does together with others; with the half-width
    of the 95 % interval of each.
    """

    fact: str
    alone: float
    alone_half: float
    total: float
    total_half: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The answer. ``best`` and ``running`` are the chances of the best shape and of the running one to fit.

    ``quantiles`` are the best that the goal can be, re-solved at each draw, at 5, 50 and 95 %, in the goal's own count
    (None where no draw has a shape); ``infeasible`` counts the draws with none. ``shares`` explain the variance of
    ``explained``: of the goal, or else of whether the running shape fits; empty where nothing varies, or where a single
    fact is uncertain.
    """

    facts: tuple[str, ...]
    samples: int
    seed: int
    resolved: int
    best: Chance
    running: Chance
    quantiles: tuple[int, int, int] | None
    infeasible: int
    explained: str
    shares: tuple[Share, ...]


def spread(found: Sensitivity, *, samples: int = SAMPLES, seed: int = SEED,
           progress: Callable[[int, int], None] | None = None) -> Spread:
    """The spread over all facts of ``found`` that are not exact. ``samples`` is a power of two.

    ``progress`` is told how many draws are done, of how many. Raises ReadError of kind ``usage`` where SALib is not
    installed, or ``samples`` is no power of two.
    """
    if not 2 <= samples <= MOST_SAMPLES or samples & (samples - 1):
        raise ReadError(f"--samples {samples}: write a power of two up to {MOST_SAMPLES:,}, such as {SAMPLES}",
                        kind="usage")
    uncertain = [worth for worth in found.facts if not worth.value.exact]
    names = tuple(worth.fact for worth in uncertain)
    drawn = _drawn(uncertain, samples, seed)
    draws = [{name: point(round(value)) for name, value in zip(names, row, strict=True)} for row in drawn]
    question = found.question
    best_shape = _as_it_is(question, question.base | found.best.shape)
    # what the running shape does not state follows its defaults
    running = replace(_as_it_is(question, question.base | question.running), base=dict(question.site.knobs))
    goals: list[int | None] = []
    fits: list[bool] = []
    runs: list[bool] = []
    for start in range(0, len(draws), TOGETHER):
        part = draws[start:start + TOGETHER]
        goals += _answers([with_facts(question, draw) for draw in part])
        fits += [value is not None for value in _answers([with_facts(best_shape, draw) for draw in part])]
        runs += [value is not None for value in _answers([with_facts(running, draw) for draw in part])]
        if progress is not None:
            progress(min(start + TOGETHER, len(draws)), len(draws))
    # the first and last row of each block are the two independent draws of it; the others share their values
    alone = [place for place in range(len(draws)) if place % (len(names) + 2) in (0, len(names) + 1)] if names else [0]
    known = sorted(value for place in alone if (value := goals[place]) is not None)
    explained, shares = _explained(found, uncertain, goals, runs, seed)
    return Spread(
        names, samples, seed, 3 * len(draws), Chance(sum(fits[place] for place in alone), len(alone)),
        Chance(sum(runs[place] for place in alone), len(alone)),
        (_quantile(known, 5), _quantile(known, 50), _quantile(known, 95)) if known else None,
        sum(goals[place] is None for place in alone), explained, shares,
    )


def _quantile(ordered: Sequence[int], percent: int) -> int:
    return ordered[(len(ordered) - 1) * percent // 100]


def _as_it_is(question: Question, shape: dict[str, int]) -> Question:
    """The question that only ``shape`` answers, whatever was asked beside that it fits."""
    free = {name: (shape[name], shape[name]) for name in question.free}
    return replace(question, base=shape, free=free, bounds=())


def _answers(questions: Sequence[Question]) -> list[int | None]:
    found: list[int | None] = []
    for question, best in zip(questions, best_of(questions), strict=True):
        if best.proven:
            found.append(best.value)
            continue
        try:
            found.append(by_solver(question, SECONDS_EACH)[0])
        except Unknown:
            found.append(None)
    return found


def _problem(uncertain: Sequence[Any]) -> dict[str, Any]:
    return {"num_vars": len(uncertain), "names": [worth.fact for worth in uncertain],
            "bounds": [[worth.value.low, worth.value.high] for worth in uncertain]}


def _drawn(uncertain: Sequence[Any], samples: int, seed: int) -> list[list[float]]:
    if not uncertain:
        return [[]]
    try:
        from SALib.sample import sobol
    except ImportError:
        raise ReadError("--global draws with SALib, which is not installed: pip install 'shapewright[global]'",
                        kind="usage") from None
    rows: list[list[float]] = sobol.sample(_problem(uncertain), samples, calc_second_order=False, seed=seed).tolist()
    return rows


def _explained(found: Sensitivity, uncertain: Sequence[Any], goals: Sequence[int | None], runs: Sequence[bool],
               seed: int) -> tuple[str, tuple[Share, ...]]:
    if len(uncertain) < 2:
        return "", ()
    known = [value for value in goals if value is not None]
    if len(known) == len(goals) and len(set(known)) > 1:
        what, values = found.question.goal.name, [float(value) for value in known]
    elif 0 < sum(runs) < len(runs):
        what, values = "whether the running shape fits", [float(held) for held in runs]
    else:
        return "", ()
    import numpy as np
    from SALib.analyze import sobol

    told = sobol.analyze(_problem(uncertain), np.array(values), calc_second_order=False, seed=seed)
    shares = [Share(worth.fact, *(float(told[key][place]) for key in ("S1", "S1_conf", "ST", "ST_conf")))
              for place, worth in enumerate(uncertain)]
    if not all(isfinite(number) for share in shares for number in (share.alone, share.alone_half, share.total,
                                                                   share.total_half)):
        return "", ()  # too few draws differ for a share to have an interval
    return what, tuple(sorted(shares, key=lambda share: -share.total))
