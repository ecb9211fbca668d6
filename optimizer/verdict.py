"""A prediction judged by the boot that came after it: row by row, and what became of the boot."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from measurements.config.secrets import redact
from measurements.history import History, Record, append, file_digest, log_of, relative_to, sealed
from measurements.ledger import read_ledger
from measurements.ledger.rates import bytes_per_token, given_per_token
from measurements.records import LedgerReading, ReadError, Reading
from measurements.site import BootFigures, boot_figures, knob_value, other_settings
from models.declare import BadValue, EngineModel, Outcome, Row, Verdict
from models.engines import build, resolve
from models.evaluate import Given, Knobs, Quantity, Reader, evaluate
from models.expr import Expr, Named, facts_in, inside
from models.interval import Interval, point
from models.versions import UnknownEngine, UnknownVersion
from optimizer.causes import Cause, Causes, Drift
from optimizer.check import SCHEMA_VERSION

#: held: every row that was printed agrees, and so does the outcome. off: a row or the outcome does not, or the shape
#: does not fit by the boot's own figures. void: the log is of another setting, so it judges nothing. open: the log
#: prints none of the predicted rows, or was cut off.
Status = Literal["held", "off", "void", "open"]
#: drifted: not as predicted, and just what the arithmetic of the prediction makes of what every boot measures anew.
RowStatus = Literal["exact", "within", "drifted", "off", "unprinted"]
#: Outcomes that show at a request, long after the boot's own lines.
_LATER: Final = (Outcome.PREEMPTS.word, Outcome.REJECTS_LONG_REQUESTS.word)
_FAILED: Final = (Outcome.OUT_OF_MEMORY_AT_BOOT.word, Outcome.REFUSED_AT_BOOT.word)


@dataclass(frozen=True, slots=True)
class Judged:
    """One predicted row against the printed one.

    ``by`` is printed less predicted, as far as both leave that open, where they do not agree. ``causes`` are what moved
    it by the model's own arithmetic, the greatest first, and ``left`` is what all facts of the boot together leave
    unexplained; ``gained`` are rows that share one amount with it and are off the other way. ``anew`` are the facts,
    measured anew at every boot, that a row drifted with: by themselves they make of it what was printed.
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
    left: Interval | None = None
    gained: tuple[tuple[str, Interval], ...] = ()
    anew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A prediction, judged. ``agrees`` is None where the log does not tell the outcome, or it shows later.

    ``name`` is the log's, from the folder of the records.
    """

    of: Record
    name: str
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


def judge(history: History, wanted: str | None, log: Path) -> Judgement:
    """Judges a prediction by the last complete boot of ``log``.

    It is the one of the id ``wanted`` (its beginning will do); else, of those that nothing judged yet, the newest whose
    settings, version and model file the log does not contradict, or the newest of all. Raises ReadError where there is
    none, or several begin so, where the log cannot be read, is of another engine, is the one that the prediction was
    made from, or judged another and is of none that waits, and where the record cannot be understood.
    """
    first, *rest = _candidates(history, wanted)
    sha = file_digest(log)
    readings: dict[str, LedgerReading] = {}
    refused: ReadError | None = None
    case: _Case | None = None
    try:
        case = _case(first, log, sha, readings)
    except ReadError as error:
        if not rest:
            raise
        refused = error
    if case is None or case.other:
        for record in rest:
            with suppress(ReadError):
                found = _case(record, log, sha, readings)
                if not found.other:
                    return _judge(history, found, sha, log, passed=first)
    if case is None:
        assert refused is not None  # there was no case
        raise refused
    if case.other and wanted is None:
        _demand_unjudged(history, sha, log)
    return _judge(history, case, sha, log)


def _demand_unjudged(history: History, sha: str | None, log: Path) -> None:
    """Raises ReadError of kind ``usage`` where a log that is of none that waits has judged another one."""
    for record in reversed(history.of("verdict")):
        if sha is not None and log_of(record) == sha and record["status"] in ("held", "off"):
            raise ReadError(f"has judged prediction {record['of']} already ({record['status']}), and is not of the "
                            f"settings of those that wait: --id {record['of']} judges it again", file=str(log),
                            kind="usage")


def _candidates(history: History, wanted: str | None) -> list[Record]:
    """The predictions to choose from, the likeliest first. Raises ReadError of kind ``usage`` where there is none."""
    predictions = history.of("prediction")
    file = str(history.file)
    if not predictions:
        raise ReadError("no prediction is on record here: apply --write records one", file=file, kind="usage")
    if wanted is not None:
        found = [record for record in predictions if record["id"].startswith(wanted.strip().lower())]
        if not wanted.strip() or len(found) != 1:
            what = "no prediction" if not found else f"{len(found)} predictions"
            raise ReadError(f"{what} of id {wanted!r}; there is {', '.join(r['id'] for r in predictions[-5:])}",
                            file=file, kind="usage")
        return found
    judged = {record["of"] for record in history.of("verdict") if record["status"] in ("held", "off")}
    left = [record for record in predictions if record["id"] not in judged]
    if not left:
        raise ReadError(f"every prediction has its verdict: --id {predictions[-1]['id']} judges the newest again",
                        file=file, kind="usage")
    return left[::-1]


@dataclass(frozen=True, slots=True)
class _Case:
    """A prediction as the model understands it, beside the log; ``other`` says where that is of another setting."""

    record: Record
    ledger: LedgerReading
    model: EngineModel
    shape: dict[str, int]
    before: dict[str, int]
    predicted: dict[str, tuple[Interval, str, str]]
    facts: dict[str, Interval]
    as_is: dict[str, Interval]
    printed: list[str]
    outcomes: list[str]
    other: tuple[str, ...]


def _case(record: Record, log: Path, sha: str | None, readings: dict[str, LedgerReading]) -> _Case:
    engine = record["engine"]["name"]
    if engine not in readings:
        readings[engine] = read_ledger(log, engine=engine)
    ledger = readings[engine]
    if sha is not None and log_of(record) == sha:
        raise ReadError("is the log that the prediction was made from: give that of the boot after it", file=str(log),
                        kind="usage")
    try:
        model = _model(record)
        shape = {name: _knob(model, name, value) for name, value in record["shape"].items() if name in model.knobs}
        old = {name: None if value is None else _knob(model, name, value)
               for name, (value, _) in record["changes"].items() if name in model.knobs}
        before = {name: value for name, value in {**shape, **old}.items()
                  if value is not None and (name in old or not _follows(model, name, shape))}
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
    other = (*_other_build(record, ledger), *other_settings(model, ledger, shape))
    return _Case(record, ledger, model, shape, before, predicted, facts, as_is, printed, outcomes, other)


def _judge(history: History, case: _Case, sha: str | None, log: Path, passed: Record | None = None) -> Judgement:
    ledger, model = case.ledger, case.model
    figures = boot_figures(model, ledger, case.shape)
    drift = _drift(case, figures)
    rows = [_judged(name, *case.predicted[name], figures, ledger) for name in case.printed]
    given = Given(case.as_is, {name: value for name, value in case.facts.items() if name in model.facts})
    notes = []
    if passed is not None:
        notes.append(f"{passed['id']} is newer and waits too, but the log is not of its settings")
    broken: tuple[str, ...] = ()
    if not case.other:
        causes = Causes(model, given, case.shape, drift)
        rows = _drifted(case, given, _explained(rows, causes, model), causes)
        notes += _as_before(case, given, rows)
        notes += [f"{row.name} is measured anew at every boot, and what else runs there is in it"
                  + (f": the server itself holds what was predicted ({', '.join(_shared(model, row.name))})"
                     if row.status == "drifted" else ", and nothing in the log tells the server's doing from theirs")
                  for row in rows if row.status in ("off", "drifted") and _measured_anew(model, row.name)]
        broken, told_now = _by_its_own_figures(case, given, figures)
        notes += told_now
    notes += _not_as_written(history, case.record)
    notes += _outranked(case.record, drift)
    seen = ledger.rows.get("outcome_seen")
    agrees = _agrees(seen, case.outcomes)
    status, why = _status(case.other, rows, agrees, seen, ledger, broken)
    told = {kind: tuple(dict.fromkeys(finding.text for finding in ledger.findings if finding.severity == kind))
            for kind in ("contradiction", "note")}
    notes += told["note"]
    if ledger.boots > 1:
        notes.append(f"the log holds {ledger.boots} boots: the last complete one counts")
    return Judgement(case.record, relative_to(history.file, log), ledger, sha, status, why, case.other, tuple(rows),
                     seen, agrees, drift, told["contradiction"], tuple(notes))


def _as_before(case: _Case, given: Given, rows: list[Judged]) -> list[str]:
    """What the log shows of the change itself, where it names no knob of it: nothing, or that it did not take place."""
    changed = [name for name in case.record["changes"] if name in case.model.knobs]
    if not changed or any(name in case.ledger.knobs for name in changed):
        return []
    old = Reader(case.model, given, case.before)
    told = [row for row in rows if row.printed is not None]
    for row in told:
        found = old.quantity(case.model.rows[row.name])
        if not isinstance(found, Quantity) or row.printed is None:
            return []
        if row.printed.meet(Interval(found.low, found.high)) is None:
            return []
    names = ", ".join(changed)
    if any(row.status == "off" for row in told):
        return [f"every row is as it would be without the change of {names}: was the server started anew with it?"]
    return [f"the log does not name {names}, and without the change every row would be the same as printed: nothing "
            "in it shows that the boot had it"]


def _not_as_written(history: History, record: Record) -> list[str]:
    """Files that are not as the prediction would have them; a kill in the moment of writing leaves them unset."""
    found = []
    for item in record["files"]:
        now, before, after = file_digest(history.file.parent / item["file"]), item.get("before"), item.get("after")
        if now is None or now == after:
            continue
        found.append(f"{item['file']} " + (
            "holds what it held before this prediction: it was never set, or taken back" if now == before else
            "was changed since this prediction wrote it: a setting that the log does not name may be another one"))
    return found


def _outranked(record: Record, drift: tuple[Drift, ...]) -> list[str]:
    """Facts that the user stated and that this boot tells otherwise: what is stated outranks what a log tells."""
    stated = {name for name, fact in record["facts"].items()
              if str(fact.get("source")).startswith(("given as ", "--fact "))}
    return [f"{fact.name} was stated, and this boot tells another: state that, or take it out, for check and solve go "
            "by what is stated" for fact in drift if fact.moved and fact.name in stated]


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


def _follows(model: EngineModel, name: str, shape: Mapping[str, int]) -> bool:
    """Whether a knob has the default that follows from others of ``shape``, and so moves with them."""
    others = Knobs(model, {other: value for other, value in shape.items() if other != name})
    return isinstance(model.knobs[name].default, Expr) and name in others and others[name] == point(shape[name])


def _interval(item: Mapping[str, Any]) -> Interval:
    return Interval(int(item["low"]), int(item["high"]))


def _other_build(record: Record, ledger: LedgerReading) -> list[str]:
    """Where the log is of another version or model file than the prediction."""
    found = []
    version, container = record["engine"]["version"], record["engine"]["container"]
    if ledger.version is not None and ledger.version != version:
        found.append(f"the version is {version} in the prediction, {ledger.version} in the log")
    elif ledger.version is None and ledger.generation.rules_out(resolve(f"{ledger.engine}@{version}").version):
        found.append(f"the version is {version} in the prediction, and the log reads as {ledger.generation}")
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


def _drift(case: _Case, figures: BootFigures) -> tuple[Drift, ...]:
    """Every fact that the new log tells, beside the one that the prediction used."""
    model, ledger, used = case.model, case.ledger, case.facts
    found = []

    def source_of(*names: str) -> str:
        return ", ".join(dict.fromkeys(fact.source for full, fact in sorted(figures.facts.items())
                                       if full in names or full.rpartition(".")[0] in names))

    shifts = _shifts(case)
    for name, now in sorted(figures.folded.items()):
        if name == "outcome_seen" or name in case.printed or name.startswith("boot_"):
            continue  # what follows from the settings: a row, or the settings of the boot themselves
        unit = model.facts[name].unit if name in model.facts else ""
        was, shift = used.get(name), shifts.get(name, 0)
        found.append(Drift(name, unit, None if was is None else was + point(shift), now, source_of(name), shift))
    # what this boot makes of a fact that can be stated and that no log prints as such, of the shape predicted
    for name in model.rows.keys() & used.keys() & case.predicted.keys() - figures.folded.keys():
        row, told = model.rows[name], figures.folded

        def again(facts: Mapping[str, Interval], row: Row = row) -> Quantity | frozenset[str]:
            return Reader(model, Given(case.shape, facts), case.shape).quantity(row)

        tells = again(told)
        if isinstance(tells, Quantity):
            needs = [fact for fact in facts_in(row.expr) if fact in told
                     and not isinstance(again({key: told[key] for key in told if key != fact}), Quantity)]
            found.append(Drift(name, tells.unit, case.predicted[name][0], Interval(tells.low, tells.high),
                               source_of(*needs) or str(ledger.file)))
    rate = bytes_per_token(ledger)
    if rate is not None and isinstance(rate.value, Interval):
        found.append(Drift("bytes_per_token", "B", used.get("bytes_per_token"), rate.value, str(rate.place)))
    given = given_per_token(figures.printed.get("vram_kv"), figures.printed.get("kv_tokens"))
    if rate is None and given is not None:  # it follows the size of the pool, so that no other boot's compares with it
        found.append(Drift("given_per_token", "B", None, given, str(ledger.rows["kv_tokens"].place)))
    return tuple(found)


def _shifts(case: _Case) -> dict[str, int]:
    """By how much the change itself moves a fact, where the model says so under the fact's own name."""
    model, given = case.model, Given(case.as_is, {name: value for name, value in case.facts.items()
                                                  if name in case.model.facts})
    old, new = Reader(model, given, case.as_is), Reader(model, given, case.shape)
    found = {}
    for node in inside(row.expr for row in model.rows.values()):
        if isinstance(node, Named) and node.name in given.facts and node.name not in model.rows:
            was, now = old.number(node), new.number(node)
            if isinstance(was, Interval) and isinstance(now, Interval):
                low, high = now.low - was.low, now.high - was.high
                if low == high != 0:
                    found[node.name] = low
    return found


def _explained(rows: list[Judged], causes: Causes, model: EngineModel) -> list[Judged]:
    """The rows, those that are off with what moved them, what nothing explains, and who has what they lost."""
    found = []
    for row in rows:
        if row.by is not None and row.printed is not None:
            lost = row.by.high < 0
            sharing = {name for names in model.shares if row.name in names for name in names}
            gained = [(item.name, item.by) for item in rows
                      if item.name in sharing and item.by is not None and (item.by.high < 0) != lost]
            gained.sort(key=lambda item: -abs(item[1].middle))
            row = replace(row, causes=causes.of(row.name), left=causes.left(row.name, row.printed, row.by),
                          gained=tuple(gained))
        found.append(row)
    return found


def _measured_anew(model: EngineModel, fact: str) -> bool:
    return fact in model.facts and model.facts[fact].each_boot


def _shared(model: EngineModel, row: str) -> list[str]:
    """The rows that share one amount with ``row``."""
    return [name for names in model.shares if row in names for name in names if name != row]


def _drifted(case: _Case, given: Given, rows: list[Judged], causes: Causes) -> list[Judged]:
    """The rows; those that are off by nothing but what every boot measures anew are marked so.

    A row drifted where the prediction, moved by those facts alone, is what was printed. A row that is such a figure
    itself (what others leave of the host) drifted where what the server takes of the same amount was printed and
    agrees, and where the change moves nothing of it but that: else nobody can tell the change from the neighbours.
    """
    model = case.model
    anew = [name for name in model.facts if _measured_anew(model, name)]
    agree = {row.name for row in rows if row.status in ("exact", "within")}
    old, new = Reader(model, given, case.before), Reader(model, given, case.shape)

    def moves(name: str) -> int | None:
        was, now = old.quantity(model.rows[name]), new.quantity(model.rows[name])
        if not isinstance(was, Quantity) or not isinstance(now, Quantity) or was.value is None or now.value is None:
            return None
        return now.value - was.value

    def drifted_with(row: Judged, printed: Interval) -> tuple[str, ...]:
        if _measured_anew(model, row.name):
            shared = _shared(model, row.name)
            parts = [moves(name) for name in (row.name, *shared)]
            alone = abs(sum(part for part in parts if part is not None))
            apart = None not in parts and alone <= printed.high - printed.low
            return (row.name,) if shared and agree.issuperset(shared) and apart else ()
        by = causes.shift(row.name, anew)
        piece = 0 if row.unit == "B" else 1  # what is counted is rounded twice: to whole MiB, and to whole pieces
        if by is None or printed.meet(row.predicted + by + Interval(-piece, piece)) is None:
            return ()
        return tuple(cause.name for cause in row.causes if cause.name in anew)

    found = []
    for row in rows:
        with_these = drifted_with(row, row.printed) if row.status == "off" and row.printed is not None else ()
        found.append(replace(row, status="drifted", anew=with_these) if with_these else row)
    return found


def _by_its_own_figures(case: _Case, given: Given, figures: BootFigures) -> tuple[tuple[str, ...], list[str]]:
    """Constraints that were to hold and do not by what this very boot printed; and notes of those of quality.

    What the log does not tell stays out of it: other figures are of other boots. Its outcome is judged by itself.
    """
    model, shape = case.model, case.shape
    facts = {name: value for name, (value, _, _) in model.constants.items()} | figures.folded
    facts.pop("outcome_seen", None)
    already = {item.require.name for item in evaluate(model, given, shape).constraints
                if item.verdict is Verdict.DOES_NOT_FIT}
    found = [item for item in evaluate(model, Given(shape, facts), shape).constraints
             if item.verdict is Verdict.DOES_NOT_FIT and item.require.name not in already]
    return (tuple(item.require.name for item in found if item.hard),
            [f"by this boot's own figures {item.require.name} is not met: {item.remedy}" for item in found])


def _agrees(seen: Reading | None, outcomes: list[str]) -> bool | None:
    if seen is None:
        return None
    if seen.value in outcomes:
        return True
    later = any(word in _LATER for word in outcomes)
    return None if seen.value == Outcome.SERVES.word and later else False


def _status(other: tuple[str, ...], rows: list[Judged], agrees: bool | None, seen: Reading | None,
            ledger: LedgerReading, broken: tuple[str, ...] = ()) -> tuple[Status, str]:
    if other:
        return "void", "the log is of another setting: it judges nothing"
    off = [row.name for row in rows if row.status == "off"]
    if agrees is False and seen is not None:
        return "off", "the boot went otherwise" + (f", and {_count(off)} off" if off else "")
    if broken:
        do = "does" if len(broken) == 1 else "do"
        return "off", f"by this boot's own figures {' and '.join(broken)} {do} not hold" + (
            f", and {_count(off)} off" if off else "")
    if off:
        return "off", f"{_count(off)} off"
    compared = [row for row in rows if row.status != "unprinted"]
    if ledger.missing:
        return "open", "the log is cut off before the boot was done"
    if not ledger.ended:
        return "open", "the log does not show the server come up, nor fail"
    if not compared and agrees is None:
        return "open", "the log prints none of the predicted rows"
    if any(finding.severity == "contradiction" for finding in ledger.findings):
        return "open", "every row that was printed agrees, but the log contradicts itself"
    anew = list(dict.fromkeys(name for row in rows for name in row.anew))
    drift = f" once {' and '.join(anew)} {'is' if len(anew) == 1 else 'are'} as this boot measured" if anew else ""
    return "held", f"every row that was printed agrees{drift}" + (", and so does the outcome" if agrees else "")


def _count(rows: list[str]) -> str:
    return f"{rows[0]} is" if len(rows) == 1 else f"{len(rows)} rows are"


def verdict_record(found: Judgement, now: datetime) -> dict[str, Any]:
    """The record of a judgement, sealed: it stands beside the prediction that it names, and names the log as it does.
    """
    log = str(found.ledger.file)

    def placed(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: redact(value.replace(log, found.name)) if key == "source" and isinstance(value, str)
                    else placed(value) for key, value in item.items()}
        return [placed(value) for value in item] if isinstance(item, list) else item

    body = {
        "of": found.of["id"], "status": found.status, "why": found.why, "other_settings": list(found.other),
        "rows": placed([_row_json(row) for row in found.rows]),
        "outcome": placed(_outcome_json(found)),
        "facts": placed([_drift_json(fact) for fact in found.facts]),
        "ledger": {"file": found.name, "sha256": found.digest},
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
        # a pipe cannot be read again
        "next_ledger": found.name if (found.status in ("held", "off") and found.served is not False
                                      and found.digest is not None) else None,
    }


def _row_json(row: Judged) -> dict[str, Any]:
    return {
        "name": row.name, "unit": row.unit, "basis": row.basis, "status": row.status,
        "predicted": _ends(row.predicted), "printed": _ends(row.printed), "by": _ends(row.by),
        "text": row.text, "source": row.source,
        "causes": [{"name": cause.name, "unit": cause.unit, "by": _ends(cause.by), "effect": _ends(cause.effect),
                    "source": cause.source} for cause in row.causes],
        "left": _ends(row.left),
        "gained": [{"name": name, "by": _ends(by)} for name, by in row.gained],
        "anew": list(row.anew),
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
