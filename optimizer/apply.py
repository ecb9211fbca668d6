"""A shape written into the user's own files, and what the next boot must print put on record.

Without being told to write, nothing is touched: the answer then is the same, with the diff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measurements.config.comment import comment_above
from measurements.config.edit import Edit, unified_diff
from measurements.config.file import encode
from measurements.config.secrets import redact
from measurements.config.write import Written, digest, write_files
from measurements.history import file_digest, relative_to, sealed, writing
from measurements.ledger.rates import bytes_per_token
from measurements.records import ReadError
from measurements.site import Site, Sources, records_of
from models.declare import EngineModel, Verdict
from models.evaluate import Quantity, Reader
from models.interval import Interval
from optimizer.check import SCHEMA_VERSION, Check, check, engine_json, quantity_json, shape_json
from optimizer.propose import changes_of, edit_of, printed_by
from optimizer.solve import Answer, Companion, gates_of, moving_with, spelled_out

#: How many predicted rows a comment carries: those that prove most.
_IN_COMMENT = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """A shape to be applied: its changes, the check it passed or failed, and the edit that sets it."""

    site: Site
    goal: str | None
    rank: int | None
    shape: dict[str, int]
    changes: dict[str, tuple[int | None, int]]
    checked: Check
    companions: tuple[Companion, ...]
    notes: tuple[str, ...]
    texts: dict[str, str | None]
    edit: Edit
    printed: tuple[str, ...]
    uncommented: tuple[str, ...]
    now: datetime
    note: str


def plan_of_answer(answer: Answer, rank: int, *, now: datetime, comment: bool = False, note: str = "") -> Plan:
    """The shape of ``rank`` as a plan. Raises ReadError of kind ``usage`` where there is no such rank, or no file."""
    if not 1 <= rank <= len(answer.shapes):
        raise ReadError(f"there is no rank {rank}: the answer has {len(answer.shapes)} shapes", kind="usage")
    ranked = answer.shapes[rank - 1]
    return _plan(answer.question.site, answer.question.goal.name, rank, ranked.shape, ranked.changes, ranked.checked,
                 ranked.companions, ranked.notes, now, comment, note)


def plan_of_values(site: Site, values: Mapping[str, str], *, now: datetime, comment: bool = False,
                   note: str = "") -> Plan:
    """The site's own shape with ``values`` as a plan.

    Raises ReadError of kind ``usage`` for a name or value that means nothing here, or without a file to edit, and
    MissingFacts where nobody can tell what such a boot will print.
    """
    to = spelled_out(site, values)
    shape = {**site.knobs, **to}
    companions: tuple[Companion, ...] = ()
    if not set(moving_with()) & to.keys():
        companions = gates_of(site, Reader(site.model, site.given, site.knobs), shape)
    for companion in companions:
        shape[companion.knob] = companion.after
    checked = check(replace(site, removed=()), shape)  # the edit takes out what the version no longer knows
    changes = {name: (site.knobs.get(name), value) for name, value in shape.items() if site.knobs.get(name) != value}
    return _plan(site, None, None, shape, changes, checked, companions, checked.warnings, now, comment, note)


def _plan(site: Site, goal: str | None, rank: int | None, shape: dict[str, int],
          changes: Mapping[str, tuple[int | None, int]], checked: Check, companions: tuple[Companion, ...],
          notes: Sequence[str], now: datetime, comment: bool, note: str) -> Plan:
    if site.config is None:
        raise ReadError("apply edits the user's own file: give it with --config FILE", kind="usage")
    texts = changes_of(site, shape, changes)
    done = edit_of(site.config, site, texts)
    rows = checked.evaluation.quantities
    printed = printed_by(site, shape, rows)
    without: tuple[str, ...] = ()
    if comment:
        done, without = comment_above(site.config, done, _comment(rows, printed, now))
    return Plan(site, goal, rank, dict(shape), dict(changes), checked, companions, tuple(notes), texts, done,
                tuple(printed), without, now, redact(" ".join(note.split())))


def _comment(rows: Mapping[str, Quantity], printed: Sequence[str], now: datetime) -> str:
    from optimizer.render.base import span

    told = "; ".join(f"{name} {span(rows[name].low, rows[name].high, rows[name].unit)}"
                     for name in printed[:_IN_COMMENT])
    return f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC: the next boot must print {told}"


def record_file(sources: Sources, named: Path | None) -> Path:
    """Where the records of a site stand: as named, in its folder, or beside its first file.

    Raises ReadError of kind ``usage`` where nothing says.
    """
    found = records_of(sources) if named is None else named
    if found is not None:
        return found
    raise ReadError("say where the records are: a site folder, --config FILE or --record FILE", kind="usage")


def prediction(plan: Plan, record: Path, files: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The record of a plan, sealed: knobs, rows and facts with their intervals, hashes; nothing that is a secret."""
    site, model = plan.site, plan.site.model
    result = plan.checked.evaluation
    given = site.given
    body: dict[str, Any] = {
        "engine": {"name": model.name, "version": model.version, "container": model.container},
        "goal": plan.goal,
        "rank": plan.rank,
        "note": plan.note,
        "shape": {name: value_of(model, name, value.low) for name, value in result.shape.items()
                  if value.exact and name in model.knobs and model.knobs[name].kind != "text"},
        "changes": {name: [None if old is None else value_of(model, name, old), value_of(model, name, new)]
                    for name, (old, new) in plan.changes.items()},
        "rows": {name: {"low": row.low, "high": row.high, "unit": row.unit, "basis": row.basis}
                 for name, row in result.quantities.items()},
        "printed": list(plan.printed),
        "as_is": {name: _ends(value) for name, value in given.as_is.items()},
        "facts": {name: {"low": value.low, "high": value.high, "unit": _unit(model, name),
                         "source": _source(site, name)} for name, value in given.facts.items()},
        "verdict": plan.checked.verdict.word,
        "outcomes": [outcome.word for outcome in plan.checked.outcomes] or [plan.checked.outcome.word],
        "files": [{**item, "file": relative_to(record, Path(item["file"]))} for item in files],
        "ledger": None,
    }
    if site.ledger is not None and site.ledger.file is not None:
        rate = bytes_per_token(site.ledger)
        if rate is not None and isinstance(rate.value, Interval):
            body["facts"]["bytes_per_token"] = {"low": rate.value.low, "high": rate.value.high, "unit": "B",
                                                "source": redact(str(rate.place))}
        body["ledger"] = {"file": relative_to(record, site.ledger.file),
                          "sha256": file_digest(site.ledger.file)}
    return sealed("prediction", body, plan.now)


def value_of(model: EngineModel, name: str, value: int) -> int | str:
    """A knob's value as records carry it: a whole number, or the text that gives it back."""
    shown = model.knobs[name].show(value)
    return shown if isinstance(shown, int) else model.knobs[name].write(value)


def _ends(value: int | Interval) -> list[int]:
    return [value.low, value.high] if isinstance(value, Interval) else [value, value]


def _unit(model: EngineModel, name: str) -> str:
    return model.facts[name].unit if name in model.facts else ""


def _source(site: Site, name: str) -> str:
    own = site.facts.get(name)
    found = [own.source] if own else [fact.source for full, fact in sorted(site.facts.items())
                                      if full.rpartition(".")[0] == name]
    return redact(", ".join(dict.fromkeys(found)))


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done: the files that were replaced, and the record's id."""

    written: Written
    record: Path
    id: str
    notes: tuple[str, ...]


def carry_out(plan: Plan, record: Path) -> Applied:
    """Writes the plan's prediction and its files: both or neither, whatever fails; the records stay locked meanwhile.

    The record comes first, when nothing is left but to replace the files: a kill may leave a prediction that was never
    set, which no boot of another setting can be taken for, and never a file that was changed without one.
    Raises ReadError of kind ``usage`` where a value cannot be set without guessing, a file was changed since it was
    read or cannot be written, or the records cannot; it says what state the files are in.
    """
    demand_sure(plan)
    config = plan.site.config
    assert config is not None  # a plan has files
    made = prediction(plan, record, _files(plan))
    with writing(record) as writer:
        try:
            done = write_files(config.text, plan.edit.texts, plan.now, lambda: writer.append(made))
        except BaseException:
            writer.take_back()
            raise
        return Applied(done, record, str(made["id"]), (*done.notes, *writer.notes))


def demand_sure(plan: Plan) -> None:
    """Raises ReadError of kind ``usage`` where a value of the shape cannot be set without guessing."""
    if plan.edit.refused:
        told = "; ".join(f"{knob}{'' if (text := plan.texts.get(knob)) is None else f'={text}'}: {why}"
                         for knob, why in plan.edit.refused)
        raise ReadError(f"nothing was written, for this would be a guess: {told}", kind="usage")


def _files(plan: Plan) -> list[dict[str, str]]:
    config = plan.site.config
    assert config is not None  # a plan has files
    return [{"file": file, "before": digest(encode(config.text[file])), "after": digest(encode(text))}
            for file, text in plan.edit.texts.items()]


def why_not(plan: Plan, *, write: bool, anyway: bool) -> str | None:
    """Why nothing is written; None where it is."""
    if plan.checked.verdict is not Verdict.FITS and not anyway:
        return ("the shape does not fit" if plan.checked.verdict is Verdict.DOES_NOT_FIT else
                "the shape stands on a knife edge") + ": --anyway writes it all the same"
    if write:
        return None
    return "--write was not given" + ("; it would refuse what would be a guess" if plan.edit.refused else "")


def apply_json(plan: Plan, record: Path, done: Applied | None, why: str | None) -> dict[str, Any]:
    """The whole answer of ``apply``; ``why`` says why nothing was written, where nothing was."""
    site, model, result = plan.site, plan.site.model, plan.checked.evaluation
    config = site.config
    assert config is not None  # a plan has files
    backups = {} if done is None else {item.file: item.backup for item in done.written.files}
    files = [{**item, "backup": backups.get(item["file"])} for item in _files(plan)]
    warnings = [*plan.checked.warnings, *plan.edit.notes, *(done.notes if done else ())]
    warnings += [f"{file} has no place for a comment above the value: written without" for file in plan.uncommented]
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(site),
        "goal": plan.goal,
        "rank": plan.rank,
        "shape": shape_json(model, result.shape),
        "changes": {name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
                    for name, (old, new) in plan.changes.items()},
        "verdict": plan.checked.verdict.word,
        "outcome": plan.checked.outcome.word,
        "outcomes": [outcome.word for outcome in plan.checked.outcomes] or [plan.checked.outcome.word],
        "diff": unified_diff(config, plan.edit),
        "edits": dict(plan.texts),
        "companions": [{"knob": c.knob, "from": c.before, "to": c.after, "why": c.why} for c in plan.companions],
        "refused": [{"knob": knob, "why": why} for knob, why in plan.edit.refused],
        "predicted": {name: quantity_json(result.quantities[name]) for name in plan.printed},
        "notes": list(dict.fromkeys(plan.notes)),
        "warnings": list(dict.fromkeys(warnings)),
        "files": files,
        "written": done is not None,
        "why_not": why,
        "record": {"file": str(record), "id": None if done is None else done.id},
    }
