"""The answer as an edit of the user's own file, with what must move along and what the next boot must print."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from measurements.config.comment import without_ours
from measurements.config.edit import Edit, edit, unified_diff
from measurements.records import ConfigReading, ReadError
from measurements.site import Site
from models.declare import EngineModel
from models.evaluate import Quantity, Reader
from optimizer.check import quantity_json
from optimizer.documents import solve_json
from optimizer.solve import Answer, Ranked


@dataclass(frozen=True, slots=True)
class Proposal:
    """One ranked shape as the edit that ``apply`` would write."""

    answer: Answer
    ranked: Ranked
    changes: dict[str, str | None]
    edit: Edit
    diff: str


def propose(answer: Answer, rank: int = 1) -> Proposal:
    """The smallest edit of the user's own files that sets the shape of ``rank``.

    Raises ReadError of kind ``usage`` when the site has no config file to edit, or fewer shapes.
    """
    site = answer.question.site
    if site.config is None:
        raise ReadError("propose edits the user's own file: give it with --config FILE", kind="usage")
    if not 1 <= rank <= len(answer.shapes):
        raise ReadError(f"there is no rank {rank}: the answer has {len(answer.shapes)} shapes", kind="usage")
    ranked = answer.shapes[rank - 1]
    changes = changes_of(site, ranked.shape, ranked.changes)
    done = edit_of(site.config, site, changes)
    return Proposal(answer, ranked, changes, done, unified_diff(site.config, done))


def changes_of(site: Site, shape: Mapping[str, int], moved: Collection[str]) -> dict[str, str | None]:
    """The new text of each knob whose value the files do not state already, None for one that has to go.

    ``moved`` are the knobs that the answer moves; what was set on top of the files goes into them too.
    """
    stated = {name: value for name, value in site.filed.items() if name in site.mapped.knobs}
    changes: dict[str, str | None] = {
        name: site.model.knobs[name].write(value) for name, value in shape.items()
        if (name in moved or name in site.sources.sets) and stated.get(name) != value
    }
    return changes | {gone.name: None for gone, _ in site.removed}


def edit_of(config: ConfigReading, site: Site, changes: Mapping[str, str | None]) -> Edit:
    """The edit that sets ``changes``; what an earlier one wrote above its value is not true of it and goes."""
    return without_ours(config, edit(config, site.mapped, changes, spelling=spelling_of(site.model)))


def spelling_of(model: EngineModel) -> dict[str, str]:
    """How a file of settings spells each knob that it does not hold yet."""
    return {name.lower(): name.upper() for name in model.names()}


def printed_by(site: Site, shape: Mapping[str, int], rows: Mapping[str, Quantity]) -> list[str]:
    """The rows that a boot of ``shape`` prints, those that prove most first."""
    reader = Reader(site.model, site.given, shape)
    return [name for name, when in site.model.prints if name in rows and reader.condition(when) is True]


def propose_json(proposal: Proposal) -> dict[str, Any]:
    """The whole answer of ``propose``: that of ``solve``, the edit, and the rows the next boot must print.

    What can prove a prediction wrong is what this very boot prints, the rows that prove most first.
    """
    answer, ranked = proposal.answer, proposal.ranked
    site = answer.question.site
    rows = ranked.checked.evaluation.quantities
    printed = printed_by(site, ranked.shape, rows)
    document = solve_json(answer)
    document |= {
        "rank": ranked.rank,
        "diff": proposal.diff,
        "edits": dict(proposal.changes),
        "companions": [
            {"knob": c.knob, "from": c.before, "to": c.after, "why": c.why} for c in ranked.companions
        ],
        "refused": [{"knob": knob, "why": why} for knob, why in proposal.edit.refused],
        "predicted": {name: quantity_json(rows[name]) for name in printed},
        "warnings": [*document["warnings"], *proposal.edit.notes],
    }
    return document
