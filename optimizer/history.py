"""Predictions and what became of them, in the order in which they were recorded."""

from __future__ import annotations

from typing import Any

from measurements.history import History, Record
from optimizer.check import SCHEMA_VERSION


def history_json(history: History, last: int | None = None) -> dict[str, Any]:
    """The whole answer of ``history``: each prediction with its verdicts, the newest last, and what was passed over.

    ``last`` is how many of the newest predictions are wanted; ``earlier`` counts those left out for it.
    """
    verdicts: dict[str, list[Record]] = {}
    for record in history.of("verdict"):
        verdicts.setdefault(record["of"], []).append(record)
    predictions = [_prediction_json(record, verdicts.pop(record["id"], [])) for record in history.of("prediction")]
    return {
        "schema_version": SCHEMA_VERSION,
        "file": str(history.file),
        "predictions": predictions[-last:] if last else predictions,
        "earlier": max(len(predictions) - last, 0) if last else 0,
        "orphans": [_verdict_json(record) | {"of": record["of"]} for found in verdicts.values() for record in found],
        "skipped": [{"line": item.line, "why": item.why} for item in history.skipped],
    }


def _prediction_json(record: Record, verdicts: list[Record]) -> dict[str, Any]:
    return {
        "id": record["id"], "time": record["time"],
        "engine": f"{record['engine']['name']}@{record['engine']['version']}",
        "goal": record["goal"], "note": record["note"],
        "changes": record["changes"], "outcomes": record["outcomes"],
        "predicted": [{"name": name, "low": row["low"], "high": row["high"], "unit": row["unit"]}
                      for name in record["printed"] if (row := record["rows"].get(name))],
        "files": [item["file"] for item in record["files"]],
        "verdicts": [_verdict_json(verdict) for verdict in verdicts],
    }


def _verdict_json(record: Record) -> dict[str, Any]:
    return {
        "id": record["id"], "time": record["time"], "status": record["status"], "why": record["why"],
        "outcome": record["outcome"]["seen"],
        "off": [{"name": row["name"], "unit": row["unit"], "by": row["by"]}
                for row in record["rows"] if row["status"] == "off" and record["status"] != "void"],
        "moved": [fact["name"] for fact in record["facts"] if fact["moved"] and record["status"] != "void"],
    }
