"""A prediction judged by the boot that came after it: row by row, and what became of the boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from measurements.config.secrets import redact
from measurements.history import History, Record, append, file_digest, sealed
from measurements.ledger import read_ledger
from measurements.ledger.rates import bytes_per_token
from measurements.records import LedgerReading, ReadError, Reading
from measurements.site import BootFigures, boot_figures, knob_value, other_settings
from models.declare import BadValue, EngineModel, Outcome
from models.engines import build, resolve
from models.evaluate import Given, Quantity, Reader
from models.interval import Interval
from models.versions import UnknownEngine, UnknownVersion
from optimizer.check import SCHEMA_VERSION

#: held: every row that was printed agrees, and so does the outcome. off: a row or the outcome does not. void: the log
#: is of another setting, so it judges nothing. open: the log prints none of the predicted rows, or was cut off.
Status = Literal["held", "off", "void", "open"]
RowStatus = Literal["exact", "within", "off", "unprinted"]
#: Outcomes that show at a request, long after the boot's own lines.
_LATER: Final = (Outcome.PREEMPTS.word, Outcome.REJECTS_LONG_REQUESTS.word)
_FAILED: Final = (Outcome.OUT_OF_MEMORY_AT_BOOT.word, Outcome.REFUSED_AT_BOOT.word)


@dataclass(frozen=True, slots=True)
class Cause:
    """A fact that is not what the prediction used: by how much, and what that alone does to a row (in its unit)."""

    name: str
    unit: str
    by: Interval
    effect: Interval
    source: str


@dataclass(frozen=True, slots=True)
class Judged:
    """One predicted row against the printed one.

    ``by`` is printed less predicted, as far as both leave that open, where they do not agree. ``causes`` are what moved
    it by the model's own arithmetic, the greatest first; ``gained`` other rows in its unit that are off the other way.
    """

    name: str
    unit: str
    basis: str
    predicted: Interval
    printed: Interval | None
    status: RowStatus
    source: str | None
    text: str | None
    by: Interval | None = None
    causes: tuple[Cause, ...] = ()
    gained: tuple[tuple[str, Interval], ...] = ()


@dataclass(frozen=True, slots=True)
class Drift:
    """A fact as the prediction used it (None: it did not) and as the new log tells it."""

    name: str
    unit: str
    was: Interval | None
    now: Interval
    source: str

    @property
    def moved(self) -> bool:
        """Whether no value is both."""
        return self.was is not None and self.was.meet(self.now) is None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A prediction, judged. ``agrees`` is None where the log does not tell the outcome, or it shows later."""

    of: Record
    ledger: LedgerReading
    digest: str | None
    status: Status
    why: str
    other: tuple[str, ...]
    rows: tuple[Judged, ...]
    seen: Reading | None
    agrees: bool | None
    facts: tuple[Drift, ...]
    contradictions: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def served(self) -> bool | None:
        """Whether the log shows a server that came up; None where it does not tell."""
        return None if self.seen is None else self.seen.value not in _FAILED


def choose(history: History, wanted: str | None) -> Record:
    """The prediction to judge: the one of that id (its beginning will do), or the newest that nothing judged yet.

    Raises ReadError of kind ``usage`` where there is none, or more than one begins so.
    """
    predictions = history.of("prediction")
    file = str(history.file)
    if not predictions:
        raise ReadError("no prediction is on record here: apply --write records one", file=file, kind="usage")
    if wanted is not None:
        found = {record["id"]: record for record in predictions if record["id"].startswith(wanted.strip().lower())}
        if not wanted.strip() or len(found) != 1:
            what = "no prediction" if not found else f"{len(found)} predictions"
            raise ReadError(f"{what} of id {wanted!r}; there is {', '.join(r['id'] for r in predictions[-5:])}",
                            file=file, kind="usage")
        return next(iter(found.values()))
    judged = {record["of"] for record in history.of("verdict") if record["status"] in ("held", "off")}
    left = [record for record in predictions if record["id"] not in judged]
    if not left:
        raise ReadError(f"every prediction has its verdict: --id {predictions[-1]['id']} judges the newest again",
                        file=file, kind="usage")
    return left[-1]


def judge(record: Record, log: Path, folder: Path | None = None) -> Judgement:
    """Judges the prediction of ``record`` by the last complete boot of ``log``; ``folder`` is that of the records.

    Raises ReadError where the log cannot be read, is of another engine, or is the one the prediction was made from,
    and where the record cannot be understood.
    """
    ledger = read_ledger(log, engine=record["engine"]["name"])
    sha = file_digest(log)
    if sha is not None and isinstance(record.get("ledger"), dict) and record["ledger"].get("sha256") == sha:
        raise ReadError("is the log that the prediction was made from: give that of the boot after it", file=str(log),
                        kind="usage")
    try:
        model = _model(record)
        shape = {name: _knob(model, name, value) for name, value in record["shape"].items() if name in model.knobs}
        predicted = {name: (_interval(row), str(row["unit"]), str(row["basis"]))
                     for name, row in record["rows"].items()}
        facts = {name: _interval(fact) for name, fact in record["facts"].items()}
        as_is = {name: Interval(int(low), int(high)) for name, (low, high) in record["as_is"].items()
                 if name in model.knobs}
        printed = [str(name) for name in record["printed"] if name in predicted]
        outcomes = [str(word) for word in record["outcomes"]]
    except (KeyError, TypeError, ValueError, ReadError, BadValue, UnknownEngine, UnknownVersion) as error:
        raise ReadError(f"the prediction {record['id']} cannot be understood ({type(error).__name__}): it is of "
                        "another version of shapewright, or was made by hand", kind="unreadable") from None
    figures = boot_figures(model, ledger, shape)
    other = (*_other_build(record, ledger), *other_settings(model, ledger, shape))
    drift = _drift(model, record, facts, figures, ledger)
    rows = [_judged(name, *predicted[name], figures, ledger) for name in printed]
    if not other:
        given = Given(as_is, {name: value for name, value in facts.items() if name in model.facts})
        rows = [_explained(row, rows, drift, model, given, shape) for row in rows]
    seen = ledger.rows.get("outcome_seen")
    agrees = _agrees(seen, outcomes)
    status, why = _status(other, rows, agrees, seen, ledger)
    told = {kind: tuple(dict.fromkeys(finding.text for finding in ledger.findings if finding.severity == kind))
            for kind in ("contradiction", "note")}
    notes = [*told["note"]]
    if ledger.boots > 1:
        notes.append(f"the log holds {ledger.boots} boots: the last complete one counts")
    notes += [] if folder is None else [f"{file} holds what it held before this prediction: it was never set, or taken "
                                        "back" for file in _as_before(record, folder)]
    return Judgement(record, ledger, sha, status, why, other, tuple(rows), seen, agrees, drift,
                     told["contradiction"], tuple(notes))


def _as_before(record: Record, folder: Path) -> list[str]:
    """The files of a prediction that do not hold what it was made for: a kill in the moment of writing leaves that."""
    return [item["file"] for item in record["files"] if item.get("before") != item.get("after")
            and (now := file_digest(folder / item["file"])) is not None and now == item.get("before")]


def _model(record: Record) -> EngineModel:
    engine = record["engine"]
    container = "" if engine["container"] == "unknown" else engine["container"]
    return build(resolve(f"{engine['name']}@{engine['version']}"), container=container,
                 tp=int(record["shape"].get("tp", 1)))


def _knob(model: EngineModel, name: str, value: Any) -> int:
    found = knob_value(model, name, str(value))
    if found is None:
        raise ValueError(name)
    return found


def _interval(item: Mapping[str, Any]) -> Interval:
    return Interval(int(item["low"]), int(item["high"]))


def _other_build(record: Record, ledger: LedgerReading) -> list[str]:
    """Where the log is of another version or model file than the prediction."""
    found = []
    version, container = record["engine"].get("version"), record["engine"].get("container")
    if ledger.version is not None and ledger.version != version:
        found.append(f"the version is {version} in the prediction, {ledger.version} in the log")
    for name in ("container", "checkpoint"):
        reading = ledger.facts.get(name)
        if reading is not None and isinstance(reading.value, str) and container not in ("unknown", "", reading.value):
            found.append(f"the model file is {container} in the prediction, {reading.value} at {reading.place}")
    return found


def _judged(name: str, predicted: Interval, unit: str, basis: str, figures: BootFigures,
            ledger: LedgerReading) -> Judged:
    printed = figures.printed.get(name)
    if printed is None and name in figures.folded:
        printed = figures.folded[name]
    reading = ledger.rows.get(name) or ledger.facts.get(name) or next(
        (item for full, item in sorted(ledger.rows.items())
         if full.rpartition(".")[0] == name and item.value == printed), None)
    source = None if reading is None else str(reading.place)
    text = None if reading is None else reading.printed
    if printed is None:
        return Judged(name, unit, basis, predicted, None, "unprinted", None, None)
    if printed.meet(predicted) is None:
        return Judged(name, unit, basis, predicted, printed, "off", source, text, printed - predicted)
    status: RowStatus = "exact" if printed.exact and predicted.exact else "within"
    return Judged(name, unit, basis, predicted, printed, status, source, text)


def _drift(model: EngineModel, record: Record, used: Mapping[str, Interval], figures: BootFigures,
           ledger: LedgerReading) -> tuple[Drift, ...]:
    """Every fact that the new log tells, beside the one that the prediction used."""
    found = []
    for name, now in sorted(figures.folded.items()):
        if name == "outcome_seen" or name in model.rows or name.startswith("boot_"):
            continue  # what follows from the settings: a row, or the settings of the boot themselves
        source = ", ".join(dict.fromkeys(fact.source for full, fact in sorted(figures.facts.items())
                                         if full == name or full.rpartition(".")[0] == name))
        unit = model.facts[name].unit if name in model.facts else ""
        found.append(Drift(name, unit, used.get(name), now, source))
    rate = bytes_per_token(ledger)
    if rate is not None and isinstance(rate.value, Interval):
        found.append(Drift("bytes_per_token", "B", used.get("bytes_per_token"), rate.value, str(rate.place)))
    return tuple(found)


def _explained(row: Judged, rows: list[Judged], drift: tuple[Drift, ...], model: EngineModel, given: Given,
               shape: Mapping[str, int]) -> Judged:
    """A row that is off, with what the facts that moved do to it, each alone, and the rows that are off the other way.
    """
    if row.by is None or row.name not in model.rows:
        return row
    # a fact of the name of a row is that row as a boot printed it: it explains nothing
    plain = {name: value for name, value in given.facts.items() if name not in model.rows}
    causes = []
    before = _row(model, Given(given.as_is, plain), shape, row.name)
    for fact in drift:
        if before is None or not fact.moved or fact.was is None or fact.name not in plain:
            continue
        after = _row(model, Given(given.as_is, {**plain, fact.name: fact.now}), shape, row.name)
        if after is None or (after.low, after.high) == (before.low, before.high):
            continue
        ends = sorted((after.low - before.low, after.high - before.high))
        causes.append(Cause(fact.name, fact.unit, fact.now - fact.was, Interval(*ends), fact.source))
    causes.sort(key=lambda cause: -max(abs(cause.effect.low), abs(cause.effect.high)))
    lost = row.by.high < 0
    gained = [(item.name, item.by) for item in rows
              if item.by is not None and item.unit == row.unit and (item.by.high < 0) != lost]
    gained.sort(key=lambda item: -abs(item[1].middle))
    return replace(row, causes=tuple(causes), gained=tuple(gained))


def _row(model: EngineModel, given: Given, shape: Mapping[str, int], name: str) -> Quantity | None:
    found = Reader(model, given, shape).quantity(model.rows[name])
    return found if isinstance(found, Quantity) else None


def _agrees(seen: Reading | None, outcomes: list[str]) -> bool | None:
    if seen is None:
        return None
    if seen.value in outcomes:
        return True
    later = any(word in _LATER for word in outcomes)
    return None if seen.value == Outcome.SERVES.word and later else False


def _status(other: tuple[str, ...], rows: list[Judged], agrees: bool | None, seen: Reading | None,
            ledger: LedgerReading) -> tuple[Status, str]:
    if other:
        return "void", "the log is of another setting: it judges nothing"
    off = [row.name for row in rows if row.status == "off"]
    if agrees is False and seen is not None:
        return "off", "the boot went otherwise" + (f", and {_count(off)} off" if off else "")
    if off:
        return "off", f"{_count(off)} off"
    compared = [row for row in rows if row.status != "unprinted"]
    if ledger.missing:
        return "open", "the log is cut off before the boot was done"
    if not compared and agrees is None:
        return "open", "the log prints none of the predicted rows"
    return "held", "every row that was printed agrees" + (", and so does the outcome" if agrees else "")


def _count(rows: list[str]) -> str:
    return f"{rows[0]} is" if len(rows) == 1 else f"{len(rows)} rows are"


def verdict_record(found: Judgement, now: datetime) -> dict[str, Any]:
    """The record of a judgement, sealed: it stands beside the prediction that it names."""
    body = {
        "of": found.of["id"], "status": found.status, "why": found.why, "other_settings": list(found.other),
        "rows": [_row_json(row) for row in found.rows],
        "outcome": _outcome_json(found),
        "facts": [_drift_json(fact) for fact in found.facts],
        "ledger": {"file": redact(str(found.ledger.file)), "sha256": found.digest},
    }
    return sealed("verdict", body, now)


def keep(file: Path, record: Mapping[str, Any]) -> tuple[str, ...]:
    """Appends a verdict to the records. Raises as :func:`measurements.history.append` does."""
    return append(file, record)


def exit_code(found: Judgement) -> int:
    """0 where the prediction held and the server came up; 4 where the log tells too little; else 3."""
    if found.status == "open":
        return 4
    return 0 if found.status == "held" and found.served is not False else 3


def verdict_json(found: Judgement, file: Path, record_id: str | None, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The whole answer of ``verdict``; ``record_id`` is that of the record, None where none was written."""
    engine = found.of["engine"]
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": {"name": engine["name"], "version": engine["version"]},
        "prediction": {"id": found.of["id"], "time": found.of["time"], "goal": found.of.get("goal"),
                       "note": found.of.get("note") or "", "changes": found.of["changes"]},
        "ledger": str(found.ledger.file),
        "status": found.status,
        "why": found.why,
        "other_settings": list(found.other),
        "rows": [_row_json(row) for row in found.rows],
        "outcome": _outcome_json(found),
        "facts": [_drift_json(fact) for fact in found.facts],
        "contradictions": list(found.contradictions),
        "notes": list(dict.fromkeys((*found.notes, *notes))),
        "record": {"file": str(file), "id": record_id},
    }


def _row_json(row: Judged) -> dict[str, Any]:
    return {
        "name": row.name, "unit": row.unit, "basis": row.basis, "status": row.status,
        "predicted": _ends(row.predicted), "printed": _ends(row.printed), "by": _ends(row.by),
        "text": row.text, "source": row.source,
        "causes": [{"name": cause.name, "unit": cause.unit, "by": _ends(cause.by), "effect": _ends(cause.effect),
                    "source": cause.source} for cause in row.causes],
        "gained": [{"name": name, "by": _ends(by)} for name, by in row.gained],
    }


def _drift_json(fact: Drift) -> dict[str, Any]:
    return {"name": fact.name, "unit": fact.unit, "was": _ends(fact.was), "now": _ends(fact.now), "moved": fact.moved,
            "by": _ends(fact.now - fact.was) if fact.moved and fact.was is not None else None, "source": fact.source}


def _outcome_json(found: Judgement) -> dict[str, Any]:
    seen = found.seen
    return {"predicted": list(found.of["outcomes"]), "seen": None if seen is None else str(seen.value),
            "agrees": found.agrees, "line": None if seen is None else redact(seen.printed),
            "source": None if seen is None else str(seen.place)}


def _ends(value: Interval | None) -> dict[str, int] | None:
    return None if value is None else {"low": value.low, "high": value.high}
