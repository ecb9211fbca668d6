"""Predictions and what became of them, and probes, in the order in which they were recorded."""

from __future__ import annotations

from typing import Any

from measurements.history import History, Record
from optimizer.check import SCHEMA_VERSION


def history_json(history: History, last: int | None = None) -> dict[str, Any]:
    """The whole answer of ``history``: predictions with their verdicts, the newest last, probes, what was passed over.

    ``last`` is how many of the newest predictions, and of the newest probes, are wanted; ``earlier`` counts those left
    out for it.
    """
    verdicts: dict[str, list[Record]] = {}
    for record in history.of("verdict"):
        verdicts.setdefault(record["of"], []).append(record)
    predictions = [_prediction_json(record, verdicts.pop(record["id"], [])) for record in history.of("prediction")]
    probes = [_probe_json(record) for record in history.of("probe")]
    return {
        "schema_version": SCHEMA_VERSION,
        "file": str(history.file),
        "predictions": predictions[-last:] if last else predictions,
        "earlier": sum(max(len(found) - last, 0) for found in (predictions, probes)) if last else 0,
        "orphans": [_verdict_json(record) | {"of": record["of"]} for found in verdicts.values() for record in found],
        "probes": probes[-last:] if last else probes,
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
        "drifted": [{"name": row["name"], "unit": row["unit"], "by": row["by"]}
                    for row in record["rows"] if row["status"] == "drifted" and record["status"] != "void"],
        "moved": [fact["name"] for fact in record["facts"] if fact["moved"] and record["status"] != "void"],
    }


def _probe_json(record: Record) -> dict[str, Any]:
    engine = record["engine"]
    return {
        "id": record["id"], "time": record["time"], "server": record["server"], "model": record["model"],
        "engine": None if engine is None else f"{engine['name']}@{engine['version']}".rstrip("@"),
        "knobs": record["knobs"], "points": record["points"], "file": record["file"],
        "counters": record["counters"], "change": record["change"],
        "harm": record["harm"], "stopped": record["stopped"],
    }
