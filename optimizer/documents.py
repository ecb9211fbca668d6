"""The JSON answers of the commands that choose: solve, free, propose."""

from __future__ import annotations

from typing import Any

from optimizer.check import (
    SCHEMA_VERSION,
    Check,
    check_json,
    constraint_json,
    engine_json,
    quantity_json,
    shape_json,
)
from optimizer.solve import Answer, Conflict, Ranked, current, what_binds


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
        "objective": {
            "value": ranked.value,
            "low": None if ranked.value is None else ranked.objective.low,
            "high": None if ranked.value is None else ranked.objective.high,
            "unit": answer.question.goal.unit,
            "change": ranked.gain,
        },
        "binding": list(what_binds(answer, ranked)),
        "verdict": ranked.checked.verdict.word,
        "outcome": ranked.checked.outcome.word,
        "quantities": {name: quantity_json(q) for name, q in result.quantities.items()},
        "constraints": [constraint_json(c) for c in result.constraints],
        "notes": list(ranked.notes),
    }


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
        "bounds": [bound.label for bound in question.bounds],
        "status": answer.status,
        "current": None if now is None else check_json(now),
        "shapes": [ranked_json(answer, ranked) for ranked in answer.shapes],
        "free": list(question.free),
        "held": list(question.held),
        "warnings": _warnings(answer, now),
    }
    if answer.status == "infeasible":
        document["conflict"] = [conflict_json(c) for c in answer.conflict]
    return document


def _warnings(answer: Answer, now: Check | None) -> list[str]:
    found = list(answer.warnings)
    if answer.shapes:
        found += answer.shapes[0].checked.warnings
    elif now is not None:
        found += now.warnings
    return list(dict.fromkeys(found))
