"""The JSON answers of the commands that choose: solve, free, propose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from models.evaluate import Reader
from models.interval import Interval
from optimizer.check import (
    SCHEMA_VERSION,
    Check,
    check_json,
    constraint_json,
    engine_json,
    quantity_json,
    shape_json,
)
from optimizer.solve import Answer, Bound, Conflict, Disagreement, Question, Ranked, current, what_binds
from optimizer.speed import UNSTATED, Encoder, Speed, predicted

if TYPE_CHECKING:
    from measurements.laws.law import Prediction
    from optimizer.rivals import Choice
    from optimizer.why import Give, HeldBack, NextBound, Repair, Why


def ranked_json(answer: Answer, ranked: Ranked) -> dict[str, Any]:
    """One ranked shape."""
    model = answer.question.site.model
    result = ranked.checked.evaluation
    return {
        "rank": ranked.rank,
        "shape": shape_json(model, result.shape),
        "changes": {
            name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
            for name, (old, new) in ranked.changes.items()
        },
        "objective": objective_json(answer, ranked),
        "binding": list(what_binds(answer, ranked)),
        "verdict": ranked.checked.verdict.word,
        "outcome": ranked.checked.outcome.word,
        "quantities": {name: quantity_json(q) for name, q in result.quantities.items()},
        "constraints": [constraint_json(c) for c in result.constraints],
        "notes": list(ranked.notes),
        **_speeds_json(answer, ranked),
    }


def _speeds_json(answer: Answer, ranked: Ranked) -> dict[str, Any]:
    """What the shape gives of the goals on speed that came before the last one."""
    question = answer.question
    if not question.before:
        return {}
    reader = Reader(question.site.model, question.site.given, ranked.shape)
    return {"speeds": {speed.name: {**(prediction_json(predicted(speed, reader)) or {}), "unit": speed.unit}
                       for speed in question.before}}


def objective_json(answer: Answer, ranked: Ranked) -> dict[str, Any]:
    """What the shape reaches: for memory a figure with its interval, for speed the law at the confidence asked for,
    with the median and interval of one new measurement beside it.
    """
    goal, known = answer.question.goal, ranked.value is not None
    ends = ranked.objective
    if answer.question.speed is not None and ranked.value is not None:
        ends = Interval(ranked.value, ranked.value)
    found: dict[str, Any] = {
        "value": unscaled(ranked.value, goal.scale),
        "low": unscaled(ends.low, goal.scale) if known else None,
        "high": unscaled(ends.high, goal.scale) if known else None,
        "unit": goal.unit,
        "change": unscaled(ranked.gain, goal.scale),
    }
    if answer.question.speed is not None:
        found["prediction"] = prediction_json(ranked.prediction)
    return found


def prediction_json(found: Prediction | None) -> dict[str, Any] | None:
    """One new measurement as predicted, in the goal's unit."""
    if found is None:
        return None
    return {"median": found.median, "low": found.low, "high": found.high, "level": found.level}


def unscaled(value: int | None, scale: int) -> int | float | None:
    """A goal's own count (bytes; thousandths of a rate) in the goal's unit."""
    return value if value is None or scale == 1 else value / scale


def speed_json(answer: Answer) -> dict[str, Any] | None:
    """The laws behind a goal on speed: which, how settled, what each rival would choose; None for other goals."""
    from optimizer.laws import workload_json
    from optimizer.rivals import rivals_of

    question = answer.question
    if not question.speeds:
        return None
    speed = question.speeds[0]
    model = question.site.model
    rivals = rivals_of(answer)

    def choice(item: Choice) -> dict[str, Any]:
        return {"changes": {name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
                            for name, (old, new) in item.changes.items()}, "expects": item.expects}

    return {
        "workload": dict(workload_json(speed.workload, speed.used)),
        "how": speed.how or None,
        "laws": laws_used_json(question.speeds),
        "extrapolated": list(dict.fromkeys(text for one in question.speeds for text in one.extrapolated)),
        "rivals": None if rivals is None else {
            "agree": rivals.agree,
            "choices": [{"law": item.why, "weight": rivals.weights[item.why], **choice(item)}
                        for item in rivals.choices],
            "rank_1": choice(rivals.first),
            "good_under_all": {**choice(rivals.robust), "loses_at_most": rivals.worst},
        },
    }


def laws_used_json(speeds: Iterable[Speed]) -> list[dict[str, Any]]:
    """The laws that these goals on speed rest on, each once: what they are, and how well they are known."""
    every = [used for one in speeds for used in one.used]
    return [
        {"name": used.law.name, "metric": used.metric, "verdict": used.law.verdict, "points": len(used.law.points),
         "settings": used.law.arms, "sources": list(dict.fromkeys(point.source for point in used.law.points)),
         "noise": used.law.fit.noise.value,
         "weights": {rival.name: rival.weight for rival in used.law.fit.rivals if rival.weight >= 0.0005},
         "contradictions": [item.text for item in used.law.contradictions],
         "not_separated": list(used.law.not_separated), "labels": list(used.law.labels)}
        for used in {id(used.law): used for used in every}.values()
    ]


def within_json(bound: Bound) -> dict[str, Any]:
    """A bound that the data or another goal set, and why."""
    return {"name": bound.name, "sense": bound.sense, "value": bound.value, "text": bound.text, "why": bound.why}


def conflict_json(conflict: Conflict) -> dict[str, str]:
    """One member of a minimal conflict."""
    return {"name": conflict.name, "source": conflict.source, "remedy": conflict.remedy}


def solve_json(answer: Answer) -> dict[str, Any]:
    """The whole answer of ``solve``."""
    question = answer.question
    model = question.site.model
    now = current(question.site)
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(question.site),
        "goal": question.goal.name,
        "given": {name: model.knobs[name].show(value) for name, value in question.given.items()},
        "bounds": [bound.label for bound in question.bounds if not bound.why],
        "within": [within_json(bound) for bound in question.bounds if bound.why],
        "status": answer.status,
        "current": None if now is None else check_json(now),
        "shapes": [ranked_json(answer, ranked) for ranked in answer.shapes],
        "free": list(question.free),
        "held": list(question.held),
        "warnings": _warnings(answer, now),
    }
    if question.order:
        document["order"] = list(question.order)
    if question.speeds:
        document["speed"] = speed_json(answer)
    if answer.status == "infeasible":
        document["conflict"] = [conflict_json(c) for c in answer.conflict]
    return document


def why_json(answer: Answer) -> dict[str, Any]:
    """The whole answer of ``why``: of one that no shape gives the conflicts and repairs, of any other what binds.

    Raises what :func:`optimizer.why.why` and :func:`optimizer.why.next_bound` do.
    """
    from optimizer.why import held_back, next_bound, why

    question = answer.question
    whole = solve_json(answer)
    document = {name: whole[name] for name in ("schema_version", "engine", "goal", "order", "given", "bounds", "within",
                                               "status", "free", "held", "warnings") if name in whole}
    if answer.status != "infeasible":
        found = next_bound(answer)
        assert found is not None
        best = answer.shapes[0]
        held = () if found.binding else held_back(answer)
        return document | {"best": _reached_json(answer, best), "binding": list(found.binding),
                           "next": _next_json(found), "held_back": [_held_back_json(answer, item) for item in held]}
    explained = why(question)
    if explained is None:
        raise Disagreement("no shape answers, and nothing stands against any")
    return document | _explained_json(explained)


def _reached_json(answer: Answer, ranked: Ranked) -> dict[str, Any]:
    whole = ranked_json(answer, ranked)
    return {name: whole[name] for name in ("shape", "changes", "objective")}


def _held_back_json(answer: Answer, item: HeldBack) -> dict[str, Any]:
    spec = answer.question.site.model.knobs[item.knob]
    best = None if item.best is None else _reached_json(item.answer, item.best) | {
        "gain": unscaled(item.gain, answer.question.goal.scale), "proven": item.proven, "notes": list(item.best.notes)}
    return {"knob": item.knob, "value": spec.show(item.value), "best": best}


def _next_json(found: NextBound) -> dict[str, Any] | None:
    if not found.gave:
        return None
    best = None
    if found.best is not None and found.answer is not None:
        best = _reached_json(found.answer, found.best) | {
            "gain": unscaled(found.gain, found.answer.question.goal.scale),
            "binding": list(found.then),
            "slack": [{"name": name, "slack": unscaled(left, scale), "unit": unit}
                      for name, (left, unit, scale) in found.slack.items()],
        }
    return {"given_up": list(found.gave), "best": best, "unknown": found.lacking}


def _explained_json(found: Why) -> dict[str, Any]:
    members = {member.name: member for conflict in found.conflicts for member in conflict}
    for repair in (*found.single, *found.joint):
        members |= {give.name: give.member for give in repair.gives}
    return {
        "members": [{"name": member.name, "kind": member.kind, "source": member.source, "remedy": member.remedy}
                    for member in members.values()],
        "conflicts": [[member.name for member in conflict] for conflict in found.conflicts],
        "complete": found.complete,
        "single": [_repair_json(found, repair) for repair in found.single],
        "helpless": list(found.helpless),
        "undecided": list(found.undecided),
        "joint": [_repair_json(found, repair) for repair in found.joint],
    }


def _repair_json(found: Why, repair: Repair) -> dict[str, Any]:
    model = found.question.site.model
    return {
        "gives": [_give_json(found, give) for give in repair.gives],
        "steps": float(repair.steps),
        "proven": repair.proven,
        "shape": shape_json(model, repair.checked.evaluation.shape),
        "changes": {name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
                    for name, (old, new) in repair.changes.items()},
        "verdict": repair.checked.verdict.word,
        "outcome": repair.checked.outcome.word,
    }


def _give_json(found: Why, give: Give) -> dict[str, Any]:
    member, model = give.member, found.question.site.model
    to: Any = None
    if isinstance(member.part, str):
        spec, held = model.knobs[member.part], found.question.given[member.part]
        way = "other" if spec.kind in ("choice", "switch") else "lower" if (give.to or 0) < held else "raise"
        to = None if give.to is None else spec.show(give.to)
    elif isinstance(member.part, Bound):
        way = "less" if member.part.sense == "at least" else "more"
        to = unscaled(give.to, member.scale)
    else:
        way = "short"
    return {"name": give.name, "amount": unscaled(give.amount, member.scale), "unit": member.unit, "way": way, "to": to}


def _warnings(answer: Answer, now: Check | None) -> list[str]:
    found = list(answer.warnings) + list(of_the_law(answer.question))
    if answer.shapes:
        found += answer.shapes[0].checked.warnings
    elif now is not None:
        found += now.warnings
    return list(dict.fromkeys(found))


def of_the_law(question: Question) -> Iterator[str]:
    """What anyone who trusts a predicted speed must know of its law."""
    for speed in question.speeds:
        for text in speed.extrapolated:
            yield f"extrapolated: {text}"
    reader = Reader(question.site.model, question.site.given, question.base)
    if question.speed is not None and not Encoder(question.speed, question.site, question.base, question.free,
                                                  reader).moves:
        yield ("the points vary nothing that these knobs change: every shape within the data gets the same figure "
               "(next says what to measure)")
    pinned = {bound.name: bound for bound in question.bounds if bound.why == UNSTATED}
    for name in pinned:
        silent = [used.metric for speed in question.speeds for used in speed.used if name in used.law.values
                  and used.law.range_of(name) is None]
        for metric in silent[:1]:
            yield (f"{name} stays as it is: the {metric} points do not state it, so nothing tells what it does to "
                   f"{metric}; measure {metric} at a stated {name}, or ask with --extrapolate")
    for used in (used for speed in question.speeds for used in speed.used):
        law = used.law
        if not law.varying:
            yield f"{law.name}: all points are at one setting, so nothing here tells what a change would do"
        yield from (f"measurements contradict each other: {item.text}" for item in law.contradictions)
        yield from law.not_separated
        yield from (f"{used.metric} points: {text}" for text in law.labels)
