"""What a boot log says: facts with their lines, and what does not add up."""

from __future__ import annotations

from typing import Any

from measurements.records import LedgerReading, Reading
from models.interval import Interval
from optimizer.check import SCHEMA_VERSION


def reading_json(reading: Reading) -> dict[str, Any]:
    """One figure of a log as the JSON answers carry it; words have no interval."""
    span = reading.value if isinstance(reading.value, Interval) else None
    exact = span is not None and span.exact
    return {
        "value": reading.value if span is None else (span.low if exact else None),
        "low": None if span is None else span.low,
        "high": None if span is None else span.high,
        "unit": reading.unit,
        "printed": reading.printed,
        "source": str(reading.place),
    }


def ledger_json(ledger: LedgerReading, *, foreign: tuple[str, ...] = ()) -> dict[str, Any]:
    """The whole answer of ``ledger``; ``foreign`` are figures that cannot belong to the config it was given with."""
    contradictions = [f for f in ledger.findings if f.severity == "contradiction"]
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": {"name": ledger.engine, "version": ledger.version},
        "generation": ledger.generation.words,
        "boots": ledger.boots,
        "facts": {name: reading_json(item) for name, item in ledger.facts.items()},
        "rows": {name: reading_json(item) for name, item in ledger.rows.items()},
        "knobs": {name: reading_json(item) for name, item in ledger.knobs.items()},
        "contradictions": [f.text for f in contradictions] + list(foreign),
        "notes": [f.text for f in ledger.findings if f.severity == "note"],
        "missing": list(ledger.missing),
    }
