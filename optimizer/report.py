"""One document of everything about a site and a goal: how it is now, where memory goes, what would be better, what one
goal costs another, what the answer hangs on, and what the measured speeds tell.

It is put together from the documents of the other commands. A part that cannot be had says why and what would show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from measurements.records import ReadError
from measurements.site import Site, spelled
from models.evaluate import Reader
from models.expr import Missing
from optimizer.check import SCHEMA_VERSION, MissingFacts, check, check_json, engine_json
from optimizer.documents import solve_json, unscaled
from optimizer.laws import laws, laws_json
from optimizer.pareto import ask_goals, pareto, pareto_json
from optimizer.sensitivity import Sensitivity, sensitivity, sensitivity_json
from optimizer.solve import Answer, OutOfTime, Question, demand_law, solve
from optimizer.speed import GOALS, Workload, reached
from optimizer.stacks import stacks_json

#: What all solves of the trade-off may take together.
SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for, in the user's words, so that the trade-off is asked the same."""

    site: Site
    goal: str
    given: Sequence[str] = ()
    at_least: Sequence[tuple[str, str]] = ()
    at_most: Sequence[tuple[str, str]] = ()
    free: Sequence[str] = ()
    workload: Workload = field(default_factory=Workload)


def report_json(asked: Asked, put: Callable[[], Question], *, against: Sequence[str] = ()) -> dict[str, Any]:
    """The whole document; ``put`` puts the question that ``asked`` spells, ``against`` names the goals to trade off.

    Raises MissingFacts where neither the shape as it is nor a better one can be judged; ReadError of kind ``usage`` for
    a question that means nothing, and for goals in ``against`` that do.
    """
    site = asked.site
    now = _part(lambda: check_json(check(site)))
    found: list[Answer] = []

    def solved() -> dict[str, Any]:
        question = put()
        demand_law(question)
        found.append(solve(question))
        return solve_json(found[0])

    shapes = _part(solved)
    if now["answer"] is None and shapes["answer"] is None:
        named = {item["name"]: item for item in (*now["missing"], *shapes["missing"])}
        raise MissingFacts(list(named.values()))
    answer = found[0] if found else None
    best = None
    if answer is not None and answer.shapes:
        best = Reader(site.model, site.given, answer.shapes[0].shape)
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(site),
        "goal": asked.goal.strip().lower().replace("_", "-"),
        "now": now,
        "stacks": stacks_json(site, Reader(site.model, site.given, site.knobs), best),
        "reached_now": None if answer is None else _reached_now(answer.question),
        "shapes": shapes,
        "tradeoff": _traded(asked, against),
        "sensitivity": _sensitivity(answer),
        "laws": _part(lambda: laws_json(laws(site, workload=asked.workload))),
    }


def _part(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A part of the document: its answer, or why there is none, with the facts that would give it."""
    try:
        return {"answer": make(), "why": None, "missing": []}
    except MissingFacts as error:
        return {"answer": None, "why": str(error), "missing": error.missing}
    except OutOfTime as error:
        return {"answer": None, "why": error.message, "missing": []}


def _none(why: str) -> dict[str, Any]:
    return {"answer": None, "why": why, "missing": []}


def _reached_now(question: Question) -> dict[str, Any] | None:
    """What the shape as it is gives of the goal, read as the ranked shapes are; None where facts or data end."""
    goal = question.goal
    if question.speed is not None:
        speed = reached(question.speed, question.now)
        return None if speed is None else {"value": round(speed * goal.scale) / goal.scale, "unit": goal.unit}
    value = question.now.plain(goal.objective)
    if isinstance(value, Missing):
        return None
    worst = value.low if goal.sense == "max" else value.high
    return {"value": unscaled(worst, goal.scale), "unit": goal.unit}


def rivals(site: Site, goal: str) -> Iterator[str]:
    """Goals that most naturally stand against ``goal``, the most natural first.

    Where experts may live in VRAM that is the slab; on unified memory what is left for everything else.
    """
    own = "slab" if "slab" in site.model.goals else "headroom"
    against = [own]
    if goal == own:
        against = ["context"] if own == "slab" else ["sessions", "context"]
    elif goal in GOALS and own == "slab":  # speed is what the slab is for
        against = ["context", "sessions"]
    elif site.sources.points and own == "slab":
        against.append("prefill")
    yield from dict.fromkeys([*against, "headroom" if goal != "headroom" else "context"])


def _traded(asked: Asked, against: Sequence[str]) -> dict[str, Any]:
    goal = asked.goal.strip().lower().replace("_", "-")
    if against:
        return _part(lambda: _front(asked, against))
    first = None
    for rival in rivals(asked.site, goal):
        try:
            found = _part(lambda rival=rival: _front(asked, [goal, rival]))  # type: ignore[misc]
        except ReadError as error:  # a goal that cannot be traded so
            found = _none(error.message)
        if found["answer"] is not None:
            return found
        first = first or found
    assert first is not None
    return first


def _front(asked: Asked, goals: Sequence[str]) -> dict[str, Any]:
    questions = ask_goals(asked.site, goals, given=spelled(asked.given), at_least=asked.at_least,
                          at_most=asked.at_most, free=asked.free, workload=asked.workload)
    return pareto_json(pareto(questions, seconds=SECONDS))


def _sensitivity(answer: Answer | None) -> dict[str, Any]:
    if answer is None or not answer.shapes:
        return _none("there is no best shape whose knobs and facts could be moved")
    found = sensitivity(answer.question)
    assert isinstance(found, Sensitivity)  # a question with an answer has one again
    return _part(lambda: sensitivity_json(found))


def no_answer(document: Mapping[str, Any]) -> bool:
    """Whether the document's question has no shape."""
    answer = document["shapes"]["answer"]
    return answer is not None and answer["status"] == "infeasible"
