"""The JSON answer of ``calibrate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from measurements.observed import Observed
from models.evaluate import Knobs
from models.interval import Interval
from optimizer.calibrate import Bound, Calibration, Compared, Constant, End, Narrowed, Predicted, Statement
from optimizer.check import SCHEMA_VERSION, engine_json, how_to_get
from optimizer.drift import Drift, Spread


def calibrate_json(found: Calibration) -> dict[str, Any]:
    """The whole answer."""
    model = found.site.model
    predicted = {id(one.observed): one for one in found.predicted}
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(found.site),
        "consistent": found.consistent,
        "observations": [_observation_json(item, predicted.get(id(item)), found) for item in found.observed],
        "statements": [_statement_json(statement, found) for statement in found.statements],
        "conflicts": [_names(conflict) for conflict in found.conflicts],
        "complete": found.complete,
        "readings": [_reading_json(reading) for reading in found.readings],
        "other_sets": [_names(left_out) for left_out in found.others],
        "compared": [_compared_json(one) for one in found.compared],
        "drift": None if found.drift is None else _drift_json(found.drift, found),
        "open_facts": how_to_get(model, sorted({name for one in found.predicted for name in one.open})),
        "warnings": list(found.warnings),
    }


def _names(statements: tuple[Statement, ...]) -> list[str]:
    return [statement.name for statement in statements]


def _span(value: Interval) -> dict[str, int]:
    return {"low": value.low, "high": value.high}


def _statement_json(statement: Statement, found: Calibration) -> dict[str, Any]:
    entry = statement.observed.entry
    return {
        "name": statement.name, "observation": entry.about, "what": statement.what, "text": statement.text,
        "file": entry.place.file, "line": entry.lines.get(statement.what, entry.place.line),
        "says_something": statement not in found.silent, "against": list(statement.against),
    }


def _observation_json(item: Observed, predicted: Predicted | None, found: Calibration) -> dict[str, Any]:
    entry, model = item.entry, item.site.model
    knobs = Knobs(model, item.shape)
    shown = {name: model.knobs[name].show(knobs[name].low) if knobs[name].exact else None
             for name in (*entry.sets, *item.shape) if name in knobs and not model.knobs[name].inert}
    return {
        "about": entry.about, "source": entry.source or None, "file": entry.place.file, "line": entry.place.line,
        "asked": entry.asked, "elsewhere": entry.elsewhere,
        "set": {name: shown[name] for name in entry.sets if name in shown},
        "shape": shown,
        "outcome": None if item.outcome is None else item.outcome.word,
        "outcomes": [] if predicted is None else [outcome.word for outcome in predicted.outcomes],
        "bounds": [] if predicted is None else [_bound_json(bound) for bound in predicted.bounds],
        "rows": [] if predicted is None else [
            {"name": name, "unit": {**model.rows, **model.sums}[name].unit, "printed": _span(item.printed[name]),
             "predicted": _span(value)} for name, value in predicted.rows.items()],
        "open_facts": [] if predicted is None else list(predicted.open),
    }


def _bound_json(bound: Bound) -> dict[str, Any]:
    require = bound.require
    return {"name": require.name, "need": _span(bound.need), "limit": _span(bound.limit), "slack": _span(bound.slack),
            "unit": require.unit, "outcome": require.broken.word, "source": require.source, "basis": require.basis}


def _reading_json(reading: Narrowed) -> dict[str, Any]:
    return {
        "left_out": _names(reading.left_out),
        "constants": [_constant_json(constant) for constant in reading.constants],
        "site_facts": [f'{constant.spec.name} = "{constant.words}"' for constant in reading.constants
                       if constant.narrowed or constant.stands in ("partly", "outside")],
    }


def _constant_json(constant: Constant) -> dict[str, Any]:
    return {
        "name": constant.spec.name, "meaning": constant.spec.how, "unit": constant.spec.unit,
        "prior": _span(constant.prior), "low": _end_json(constant.low), "high": _end_json(constant.high),
        "declared": None if constant.default is None else _span(constant.default),
        "declared_stands": constant.stands, "fact": constant.line,
    }


def _end_json(end: End) -> dict[str, Any]:
    return {"value": end.value, "by": _names(end.by), "proven": end.proven, "explained": end.explained,
            "confirmed": end.confirmed}


def _compared_json(one: Compared) -> dict[str, Any]:
    spec = one.before.site.model.knobs[one.knob]
    return {
        "knob": one.knob, "from": spec.show(one.values[0]), "to": spec.show(one.values[1]),
        "observations": [one.before.about, one.after.about],
        "moved": [_moved_json(one, name, by) for name, by in one.moved.items()],
        "undecided": [_moved_json(one, name, by) for name, by in one.undecided.items()],
        "same": list(one.same), "unknown": list(one.unknown),
    }


def _moved_json(one: Compared, name: str, by: Interval) -> dict[str, Any]:
    return {"name": name, "unit": one.before.site.model.rows[name].unit, "by": _span(by)}


def _drift_json(found: Drift, whole: Calibration) -> dict[str, Any]:
    facts = whole.site.model.facts

    def kind(name: str) -> str:
        spec = facts.get(name) or facts.get(name.rpartition(".")[0])
        if spec is None:
            return "printed"
        return "each boot" if spec.each_boot else "constant" if spec.prior else "given"

    return {
        "boots": list(found.boots),
        "facts": [{**_spread_json(spread), "kind": kind(spread.name)} for spread in found.facts],
        "rows": [{**_spread_json(spread), "less_predicted": _less_json(spread.less)} for spread in found.rows],
        "other": [{"boot": boot, "why": why} for boot, why in found.other.items()],
    }


def _less_json(less: Mapping[str, Interval] | None) -> dict[str, Any] | None:
    if not less:
        return None
    return {"boots": {boot: _span(value) for boot, value in less.items()},
            "low": min(value.low for value in less.values()), "high": max(value.high for value in less.values())}


def _spread_json(spread: Spread) -> dict[str, Any]:
    return {"name": spread.name, "unit": spread.unit, **_span(spread.hull), "apart": spread.apart,
            "boots": {boot: _span(value) for boot, value in spread.values.items()}}
