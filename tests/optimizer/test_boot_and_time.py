"""What a boot says never becomes what the user asks for, and a goal without an answer in time spoils no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from measurements.site import load, read_site
from optimizer import free as free_module
from optimizer.cli import run
from optimizer.schema import schema
from optimizer.solve import Answer, OutOfTime, Question, solve

SITES = Path(__file__).resolve().parents[2] / "measurements" / "sites"


def copied(tmp_path: Path, name: str) -> Path:
    for path in (SITES / name).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_a_boot_table_is_no_setting(tmp_path: Path) -> None:
    site = copied(tmp_path, "two-r9700")
    script = site / "serve.sh"
    script.write_text(script.read_text().replace("--max-num-batched-tokens 2048", ""))
    toml = site / "site.toml"
    toml.write_text(toml.read_text() + "\n[boot]\ntp_wire = \"wht6\"\n")
    assert "tp_wire" not in load(read_site(site)).knobs


def test_the_engines_own_choice_is_not_the_logs_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    site = copied(tmp_path, "two-r9700")
    assert run(["check", str(site), "--set", "num_speculative_tokens=auto", "--json"]) == 4
    assert [m["name"] for m in json.loads(capsys.readouterr().out)["missing"]] == ["num_speculative_tokens"]


def test_a_goal_out_of_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from jsonschema import validate

    def slow(question: Question, *, seconds: float) -> Answer:
        if question.goal.name == "slab":
            raise OutOfTime("no shape was found", kind="usage")
        return solve(question, seconds=seconds)

    monkeypatch.setattr(free_module, "solve", slow)
    assert run(["free", str(SITES / "stated-pair"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    validate(document, schema("free"))
    said = {use["goal"]: use["status"] for use in document["uses"]}
    assert said["slab"] == "unknown"
    assert said["context"] == "optimal"
    assert run(["free", str(SITES / "stated-pair")]) == 0
    assert "not found in time" in capsys.readouterr().out
