"""What the rival laws of a speed goal would each choose, and which shape is good under all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from models.declare import Goal
from models.evaluate import Reader
from models.expr import Expr
from optimizer.solve import Answer, OutOfTime, Question, solve
from optimizer.speed import MICRO, Encoder, at_shape, robust

#: Rivals of less weight are not asked for a choice of their own.
ASKED: Final = 0.02
#: How much worse a shape may be under a rival than that rival's own best, and still count as good under it.
GOOD: Final = 0.02


@dataclass(frozen=True, slots=True)
class Choice:
    """A shape, with the rate that each rival expects of it, in the goal's unit. ``why`` says whose choice it is."""

    why: str
    shape: dict[str, int]
    changes: dict[str, tuple[int | None, int]]
    rates: dict[str, float]


@dataclass(frozen=True, slots=True)
class Rivals:
    """The rivals' weights, each one's choice, rank 1, and the shape that loses least under any of them.

    ``worst`` is what that shape loses against a rival's own best, at most, as a share. ``agree`` says that rank 1 is
    as good as every rival's own choice, within :data:`GOOD`.
    """

    weights: dict[str, float]
    choices: tuple[Choice, ...]
    first: Choice
    robust: Choice
    worst: float
    agree: bool


def rivals_of(answer: Answer, *, seconds: float = 3.0) -> Rivals | None:
    """The rivals of the one law behind ``answer``; None where it rests on several, or nothing free changes it.

    Raises what :func:`optimizer.solve.solve` does, but for running out of time: then None.
    """
    question = answer.question
    if question.speed is None or len(question.speed.used) != 1 or not answer.shapes:
        return None
    site = question.site
    encoder = Encoder(question.speed, site, question.base, question.free,
                      Reader(site.model, site.given, question.base))
    if not encoder.moves:
        return None
    fit = question.speed.used[0].law.fit
    asked = [(place, rival) for place, rival in enumerate(fit.rivals) if rival.weight >= ASKED]
    objectives: dict[str, Expr] = {}
    best: dict[str, int] = {}
    choices: list[Choice] = []
    try:
        for place, rival in asked:
            objectives[rival.name] = expr = encoder.rival(place)
            found = _best(question, expr, seconds)
            best[rival.name] = found.shapes[0].objective.low
            choices.append(_choice(question, rival.name, found.shapes[0].shape, found.shapes[0].changes))
        least = _best(question, robust([(objectives[name], best[name]) for name in objectives]), seconds)
    except OutOfTime:
        return None
    first = answer.shapes[0]
    own = _choice(question, "rank 1", first.shape, first.changes)
    bests = {choice.why: choice.rates[choice.why] for choice in choices}
    agree = all(own.rates[name] >= rate * (1 - GOOD) for name, rate in bests.items())
    return Rivals(
        weights={rival.name: rival.weight for _, rival in asked},
        choices=tuple(choices),
        first=own,
        robust=_choice(question, "good under all", least.shapes[0].shape, least.shapes[0].changes),
        worst=max(1 - least.shapes[0].objective.low / MICRO, 0.0),
        agree=agree,
    )


def _best(question: Question, objective: Expr, seconds: float) -> Answer:
    goal = Goal(question.goal.name, "", objective, "max", "", moves=question.goal.moves)
    return solve(replace(question, goal=goal, top=1, speed=None), seconds=seconds)


def _choice(question: Question, why: str, shape: Mapping[str, int],
            changes: Mapping[str, tuple[int | None, int]]) -> Choice:
    assert question.speed is not None
    (used,) = question.speed.used
    at = at_shape(used, Reader(question.site.model, question.site.given, shape))
    times = at.get("streams", 1.0) if question.speed.name == "decode-total" else 1.0
    rates = {rival.name: used.law.rates(at, rival=place)[0] * times
             for place, rival in enumerate(used.law.fit.rivals) if rival.weight >= ASKED}
    return Choice(why, dict(shape), dict(changes), rates)
