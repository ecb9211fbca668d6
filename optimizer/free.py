"""What can we do with the free memory? One best use for each goal, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from measurements.site import Site
from models.evaluate import Quantity, evaluate
from models.interval import GIB
from optimizer.check import SCHEMA_VERSION, Check, MissingFacts, check, check_json, engine_json, quantity_json
from optimizer.documents import conflict_json, ranked_json
from optimizer.solve import ENOUGH_LEFT, Answer, Bound, OutOfTime, Question, ask, demand_law, solve
from optimizer.speed import GOALS

#: A headroom that every release ships with; free does not go below it unasked.
_DEFAULT_HEADROOM = 96
#: What one goal may take; free asks several.
SECONDS_EACH = 3.0
#: Rows whose change says what a use costs or gives.
_COSTS = ("experts", "vram_weights", "vram_kv", "kv_tokens", "pinned_total", "device_need", "pool_positions",
          "held_total", "host_left", "headroom")


@dataclass(frozen=True, slots=True)
class Use:
    """One use of what is free: the best shape for a goal, or why there is none (no time, where nothing is missing)."""

    goal: str
    meaning: str
    answer: Answer | None
    missing: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Free:
    """How much is free above the engine's own floor, and the best use of it for every goal."""

    site: Site
    current: Check
    amount: Quantity | None
    uses: tuple[Use, ...]


def free(site: Site) -> Free:
    """The best use of the free memory for each goal, with nothing of what the site has now given up.

    A use may move the goal's own knob, the split and (where the split is derived) the headroom down to its default;
    no pool shrinks below what it is, unless the goal is to give memory back. Raises MissingFacts when the current
    shape cannot be judged.
    """
    current = check(site)
    quantities = current.evaluation.quantities
    name = "host_left" if site.model.name == "halogen" else "headroom"
    uses = []
    goals = {goal.name: goal.meaning for goal in site.model.goals.values()}
    if site.sources.points:  # speeds were measured, so the memory may go to them
        goals |= {name: meaning for name, (meaning, metrics) in GOALS.items() if name != "balanced"
                  and all(metric in site.model.laws for metric in metrics)}
    for goal, meaning in goals.items():
        try:
            question = _question(site, goal)
            demand_law(question)
            answer: Answer | None = solve(question, seconds=SECONDS_EACH)
            uses.append(Use(goal, meaning, answer))
        except MissingFacts as error:
            uses.append(Use(goal, meaning, None, tuple(error.missing)))
        except OutOfTime:
            uses.append(Use(goal, meaning, None))
    return Free(site, current, quantities.get(name), tuple(uses))


def _question(site: Site, goal: str) -> Question:
    question = ask(site, goal, top=1)
    ranges = dict(question.free)
    now = question.base
    derived = site.model.name == "radiance" and not any(
        site.knobs.get(name) for name in ("vram_weights_mib", "vram_kv_mib"))
    if derived and now.get("gpu_headroom_mib", 0) > _DEFAULT_HEADROOM and goal != "headroom":
        ranges["gpu_headroom_mib"] = (_DEFAULT_HEADROOM, now["gpu_headroom_mib"])
    if "host_pool_mib" in ranges:  # more pinned RAM is not free VRAM
        ranges["host_pool_mib"] = (ranges["host_pool_mib"][0], max(now["host_pool_mib"], ranges["host_pool_mib"][0]))
    held = tuple(name for name in question.held if name not in ranges)
    bounds = (*question.bounds, *_kept(site, goal, derived))
    return replace(question, free=ranges, held=held, bounds=bounds)


def _kept(site: Site, goal: str, derived: bool) -> Iterator[Bound]:
    # as the solver sees them: what a ledger narrowed holds for the running shape only
    rows = evaluate(site.model, replace(site.given, printed={}), site.knobs).quantities
    kept: list[str] = []
    if site.model.name == "halogen":
        if goal not in ("host-ram", "headroom"):
            kept = ["pool_positions"]
            if "host_left" in rows:  # under 10 GiB the engine itself warns of neighbours that stall
                room = min(rows["host_left"].low, ENOUGH_LEFT)
                yield Bound("host_left", "at least", room, f"{room / GIB:.1f}GiB")
    elif derived:
        # from 1.1.0 on the experts are what is left over: the cache's demand takes from them by design
        if "expert_vs_cache_ratio" in site.model.knobs and goal in ("context", "sequences", "sessions"):
            kept = ["experts"]
    elif goal in ("context", "sequences", "sessions"):
        kept = ["vram_weights"]
    elif goal in ("slab", "prefill"):
        kept = ["vram_kv"]
    else:
        kept = ["vram_weights", "vram_kv"]
    for name in kept:
        if name in rows:
            yield Bound(name, "at least", rows[name].low, "as it is")


def free_json(found: Free) -> dict[str, Any]:
    """The whole answer of ``free``."""
    model = found.site.model
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(found.site),
        "free": None if found.amount is None else quantity_json(found.amount),
        "free_means": model.words["free"],
        "other_tools": model.words["other_tools"],
        "current": check_json(found.current),
        "uses": [_use_json(found, use) for use in found.uses],
        "warnings": list(found.current.warnings),
    }


def _use_json(found: Free, use: Use) -> dict[str, Any]:
    document: dict[str, Any] = {"goal": use.goal, "meaning": use.meaning}
    if use.answer is None and not use.missing:
        return document | {"status": "unknown"}
    if use.answer is None:
        return document | {"status": "missing_facts", "missing": list(use.missing)}
    document["status"] = use.answer.status
    if use.answer.status == "infeasible":
        return document | {"conflict": [conflict_json(c) for c in use.answer.conflict]}
    best = use.answer.shapes[0]
    document["kept"] = [bound.label for bound in use.answer.question.bounds]
    document["best"] = ranked_json(use.answer, best)
    document["costs"] = _costs(found.current, best.checked)
    return document


def _costs(before: Check, after: Check) -> dict[str, Any]:
    """How the main rows move, at their best-supported figures."""
    moved = {}
    old, new = before.evaluation.quantities, after.evaluation.quantities
    for name in _COSTS:
        if name in old and name in new:
            a, b = old[name], new[name]
            if a.value is not None and b.value is not None and a.value != b.value:
                moved[name] = {"from": a.value, "to": b.value, "unit": a.unit}
    return moved
