"""What a probe was and what the server counted meanwhile stays: in the site's records, or beside the points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import measurements.probe.write as writing
from measurements.history import NAME, append, read_history, sealed
from measurements.points import read_points
from measurements.records import ReadError
from tests.measurements.probe.faults import Faults, proxy
from tests.measurements.probe.test_real_server import SITE
from tests.measurements.test_history import NOW, verdict
from tests.optimizer.servers import ask, site_of
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]
ENGINE = ("--engine", "radiance@1.0.13")


def counting(*values: int) -> Faults:
    """A server that counts these preemptions, look after look."""
    left = iter(values)
    page = "vllm:num_preemptions_total{{e=\"0\"}} {}\nvllm:kv_cache_usage_perc {}\n"

    def look() -> tuple[int, str]:
        count = next(left, values[-1])
        return 200, page.format(count, count / 10)

    return Faults(pages={"/metrics": look})


def test_the_counters_before_and_after_are_on_record(
    engine: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUR_KEY", "correct-horse-battery")
    site, out = site_of(tmp_path, SITE), tmp_path / "measured" / "points.csv"
    out.parent.mkdir()
    with proxy(engine, counting(3, 3, 5)) as url:
        said = ask(capsys, "probe", str(site), "--url", url, "--depths", "128,256", "--out", str(out), "--key-env",
                   "OUR_KEY", "--json")
    assert said.code == 3  # the second leg was preempted twice
    valid("probe", said.document)
    file = tmp_path / NAME
    assert said.document["record"]["file"] == str(file)
    (record,) = read_history(file).of("probe")
    assert record["id"] == said.document["record"]["id"]
    assert record["counters"] == {"before": {"preemptions": 3, "evictions": None, "kv_use": 0.3},
                                  "after": {"preemptions": 5, "evictions": None, "kv_use": 0.5}}
    assert record["change"] == {"preemptions": 2, "evictions": None, "kv_use": pytest.approx(0.2)}
    assert (record["server"], record["engine"]) == (url, {"name": "radiance", "version": "1.0.13"})
    assert (record["file"], record["points"]) == ("measured/points.csv", 2) == (
        "measured/points.csv", len(read_points([out]).points))
    assert record["knobs"]["vram_weights_mib"] == "22208"
    assert record["source"] == read_points([out]).points[0].source
    assert "2 preemptions" in record["harm"] == record["stopped"]
    assert [leg["preemptions"] for leg in record["legs"]] == [0, 2]
    assert "battery" not in file.read_text(encoding="utf-8")

    document = ask(capsys, "history", str(site), "--json").document
    valid("history", document)
    assert [(item["id"], item["change"], item["points"]) for item in document["probes"]] == [
        (record["id"], record["change"], 2)]
    shown = " ".join(ask(capsys, "history", str(site)).out.split())
    assert "preemptions 3 -> 5" in shown
    assert record["id"] in shown


def test_without_a_site_it_stands_beside_the_points(engine: int, tmp_path: Path, capsys: Capture) -> None:
    file, other = tmp_path / NAME, tmp_path / "ours.jsonl"
    words = ["--depths", "64", "--max-requests", "3", "--json"]
    with proxy(engine, counting(1)) as url:
        said = ask(capsys, "probe", "--url", url, *words, *ENGINE, "--out", str(tmp_path / "points.csv"))
        assert said.document["record"]["file"] == str(file)
        named = ask(capsys, "probe", "--url", url, *words, "--record", str(other))
    assert (said.code, named.code) == (0, 0)
    (record,) = read_history(file).of("probe")
    assert (record["file"], record["points"], record["engine"]) == (
        "points.csv", 2, {"name": "radiance", "version": "1.0.13"})
    (record,) = read_history(other).of("probe")
    assert (record["file"], record["points"], record["engine"]) == (None, 0, None)
    assert ask(capsys, "history", "--record", str(other)).code == 0


def test_where_no_record_can_stand_nothing_is_measured(engine: int, tmp_path: Path, capsys: Capture) -> None:
    faults, other = counting(1), tmp_path / "notes.txt"
    other.write_text("our notes\n", encoding="utf-8")
    with proxy(engine, faults) as url:
        for where in (other, tmp_path, tmp_path / "no" / "records.jsonl"):
            said = ask(capsys, "probe", "--url", url, "--record", str(where))
            assert said.code == 2
            assert where.name in said.err
    assert faults.seen == []
    assert other.read_text(encoding="utf-8") == "our notes\n"
    assert list(tmp_path.iterdir()) == [other]


def test_points_that_cannot_be_written_are_shown(
    engine: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, calls, out = writing.append, [0], tmp_path / "points.csv"

    def full(*words: Any) -> None:
        calls[0] += 1
        if calls[0] > 1:
            raise ReadError("cannot be written (no space left on device)", file=str(out), kind="usage")
        real(*words)

    monkeypatch.setattr(writing, "append", full)
    with proxy(engine, counting(1)) as url:
        said = ask(capsys, "probe", "--url", url, "--depths", "64,128,256", *ENGINE, "--out", str(out), "--json")
    assert said.code == 2
    valid("probe", said.document)
    assert "no space left" in said.document["stopped"]
    assert (said.document["written"], len(said.document["points"])) == (2, 4)
    assert len(read_points([out]).points) == 2
    assert read_history(tmp_path / NAME).of("probe")[0]["points"] == 2


def test_records_of_probes_stand_among_others(tmp_path: Path) -> None:
    file, nothing = tmp_path / NAME, {"preemptions": None, "evictions": None, "kv_use": None}
    body: dict[str, Any] = {
        "server": "http://127.0.0.1:1", "model": "m", "source": "s", "file": None, "harm": None, "stopped": None,
        "points": 0, "engine": None, "knobs": {}, "counters": {"before": None, "after": nothing}, "change": None}
    append(file, sealed("probe", body, NOW))
    append(file, verdict(1))  # the file begins with a probe
    assert [record["kind"] for record in read_history(file).records] == ["probe", "verdict"]
    wrong: list[dict[str, Any]] = [
        {"points": -1}, {"model": 1}, {"knobs": {"tp": 2}}, {"change": {}},
        {"counters": {"before": {**nothing, "kv_use": "0.5"}, "after": None}}]
    for change in wrong:
        append(file, sealed("probe", {**body, **change}, NOW))
    assert len(read_history(file).skipped) == 5
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(json.dumps({"change": None, "counters": 1}).encode()[:20])
    append(torn, verdict(2))
    assert len(read_history(torn).records) == 1
