"""``history``: predictions and verdicts in order, and the lines that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from measurements.history import append, read_history
from optimizer.schema import schema
from tests.measurements.ledger_logs import log
from tests.measurements.test_history import verdict
from tests.optimizer.servers import HALOGEN_READ, ask, site_of
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]


def test_a_walk(tmp_path: Path, capsys: Capture) -> None:
    site = str(site_of(tmp_path, HALOGEN_READ))
    file = tmp_path / "shapewright-history.jsonl"
    for value, name, note in (("19", "", "first [try]"), ("20", "halogen-clamped", ""), ("20", "halogen-fits", "")):
        said = ask(capsys, "apply", site, "--to", f"host_reserve_gib={value}", "--write", "--note", note, "--json")
        assert said.code == 0
        if name:
            (tmp_path / "new.log").write_text(log(name), encoding="utf-8")
            ask(capsys, "verdict", site, "--ledger", str(tmp_path / "new.log"), "--write")
    document = ask(capsys, "history", site, "--json").document
    valid("history", document)
    assert document["file"] == str(file)
    assert [[item["status"] for item in found["verdicts"]] for found in document["predictions"]] == [
        [], ["off"], ["held"]]
    assert [found["changes"] for found in document["predictions"]] == [
        {"host_reserve_gib": [20, 19]}, {"host_reserve_gib": [19, 20]}, {}]
    assert document["predictions"][0]["note"] == "first [try]"
    assert document["predictions"][0]["files"] == ["halogen.env"]
    clamped = document["predictions"][1]["verdicts"][0]
    assert clamped["outcome"] == "clamped"
    assert "pool_positions" in [row["name"] for row in clamped["off"]]
    assert document["skipped"] == document["orphans"] == []
    out = ask(capsys, "history", site).out
    assert out.index("none; a later") < out.index("off, clamped") < out.index("held")
    assert "first [try]" in out
    assert ask(capsys, "history", "--record", str(file), "--json").document == document
    last = ask(capsys, "history", site, "--last", "2", "--json").document
    valid("history", last)
    assert (last["predictions"], last["earlier"]) == (document["predictions"][1:], 1)
    assert "and 1 earlier" in ask(capsys, "history", site, "--last", "2").out
    assert ask(capsys, "history", site, "--last", "9", "--json").document == document
    assert ask(capsys, "history", site, "--last", "0").code == 2


def test_nothing_yet(tmp_path: Path, capsys: Capture) -> None:
    site = str(site_of(tmp_path, HALOGEN_READ))
    document = ask(capsys, "history", site, "--json").document
    valid("history", document)
    assert document["predictions"] == []
    assert "No prediction is on record" in ask(capsys, "history", site).out
    assert ask(capsys, "history", "--record", str(tmp_path / "gone")).code == 2
    assert ask(capsys, "history").code == 2
    assert ask(capsys, "history", str(tmp_path / "gone")).code == 2


def test_torn_lines_are_told(tmp_path: Path, capsys: Capture) -> None:
    site = str(site_of(tmp_path, HALOGEN_READ))
    file = tmp_path / "shapewright-history.jsonl"
    assert ask(capsys, "apply", site, "--to", "host_reserve_gib=19", "--write").code == 0
    data = file.read_bytes()
    file.write_bytes(data + data[:200])
    assert ask(capsys, "apply", site, "--to", "host_reserve_gib=20", "--write").code == 0
    append(file, verdict(5))
    file.write_bytes(file.read_bytes() + b'{"as_is": {"c')
    document = ask(capsys, "history", site, "--json").document
    valid("history", document)
    assert [item["line"] for item in document["skipped"]] == [2, 5]
    assert (len(document["predictions"]), [item["of"] for item in document["orphans"]]) == (2, ["5"])
    out = ask(capsys, "history", site).out
    assert "line 5: its end is missing" in out
    assert "not here" in out
    assert len(read_history(file).records) == 3


def test_the_schema_is_strict(tmp_path: Path, capsys: Capture) -> None:
    site = str(site_of(tmp_path, HALOGEN_READ))
    ask(capsys, "apply", site, "--to", "host_reserve_gib=19", "--write")
    document = ask(capsys, "history", site, "--json").document
    validator = Draft202012Validator(schema("history"))
    (made,) = document["predictions"]
    for change in ({"extra": 1}, {"skipped": [{"line": 0, "why": "x"}]}, {"predictions": [{**made, "id": "x"}]},
                   {"predictions": [{**made, "goal": "fame"}]}, {"predictions": [{**made, "verdicts": [{}]}]}):
        assert not validator.is_valid({**document, **change}), change
