"""What the rival laws of a speed goal would each choose, and which shape is good under all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from models.declare import Goal
from models.evaluate import Reader
from models.expr import Expr
from optimizer.solve import Answer, OutOfTime, Question, Ranked, solve
from optimizer.speed import MICRO, Encoder, Used, at_shape, expected, robust

#: Rivals of less weight are not asked for a choice of their own.
ASKED: Final = 0.02
#: How much worse a shape may be under a rival than that rival's own best, and still count as good under it.
GOOD: Final = 0.02


@dataclass(frozen=True, slots=True)
class Choice:
    """A shape, with what each rival expects of it, in the goal's unit. ``why`` says whose choice it is."""

    why: str
    shape: dict[str, int]
    changes: dict[str, tuple[int | None, int]]
    expects: dict[str, float]


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


@dataclass(frozen=True, slots=True, eq=False)
class _Rival:
    name: str
    law: Used
    place: int
    weight: float


def rivals_of(answer: Answer, *, seconds: float = 3.0) -> Rivals | None:
    """The rivals of each law behind ``answer`` that something free changes; None where there is none.

    Of a goal on two laws, a rival of one stands beside what all rivals of the other expect. Raises what
    :func:`optimizer.solve.solve` does, but for running out of time: then None.
    """
    question = answer.question
    if question.speed is None or not answer.shapes:
        return None
    site, speed = question.site, question.speed
    encoder = Encoder(speed, site, question.base, question.free, Reader(site.model, site.given, question.base))
    sense = question.goal.sense
    rivals = [
        _Rival(f"{used.metric}: {rival.name}" if len(speed.used) > 1 else rival.name, used, place, rival.weight)
        for used in speed.used if encoder.moving(used)
        for place, rival in enumerate(used.law.fit.rivals) if rival.weight >= ASKED
    ]
    if not rivals:
        return None
    objectives: list[tuple[Expr, int]] = []
    choices: list[Choice] = []
    try:
        for rival in rivals:
            expr = encoder.rival(rival.law, rival.place)
            found = _best(question, expr, sense, seconds)
            objectives.append((expr, found.shapes[0].objective.low))
            choices.append(_choice(question, rivals, rival.name, found.shapes[0]))
        least = _best(question, robust(objectives, sense), sense, seconds).shapes[0]
    except OutOfTime:
        return None
    own = _choice(question, rivals, "rank 1", answer.shapes[0])
    losses = [_loss(own.expects[choice.why], choice.expects[choice.why], sense) for choice in choices]
    return Rivals(
        weights={rival.name: rival.weight for rival in rivals},
        choices=tuple(choices),
        first=own,
        robust=_choice(question, rivals, "loses least under any", least),
        worst=max(abs(least.objective.low / MICRO - 1), 0.0),
        agree=max(losses) <= GOOD,
    )


def _loss(value: float, best: float, sense: Literal["max", "min"]) -> float:
    return 1 - value / best if sense == "max" else value / best - 1


def _best(question: Question, objective: Expr, sense: Literal["max", "min"], seconds: float) -> Answer:
    goal = Goal(question.goal.name, "", objective, sense, "", moves=question.goal.moves)
    return solve(replace(question, goal=goal, top=1, speed=None), seconds=seconds)


def _choice(question: Question, rivals: Sequence[_Rival], why: str, ranked: Ranked) -> Choice:
    assert question.speed is not None
    reader = Reader(question.site.model, question.site.given, ranked.shape)
    ats = [at_shape(used, reader) for used in question.speed.used]
    return Choice(why, ranked.shape, ranked.changes,
                  {rival.name: expected(question.speed, ats, rival.law, rival.place) for rival in rivals})
