"""``laws`` and ``next`` on the command line: what the shipped points tell, and what people read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import measurements
from tests.optimizer.servers import MEASURED, STATED, ask, measured, point, points
from tests.optimizer.test_schema import answered, finite, valid

Capture = pytest.CaptureFixture[str]
SITES = Path(measurements.__path__[0]) / "sites"
PAIR = str(SITES / "stated-pair")
#: What the notes of the stated pair were measured with.
AS_NOTED = ("--given", "max_num_seqs=3", "--given", "max_model_len=200000")
LAST = ("--set", "vram_weights_mib=26071", "--set", "vram_kv_mib=3543")


def test_the_law_of_the_stated_pair(capsys: Capture) -> None:
    said = ask(capsys, "laws", PAIR, *LAST, "--metric", "prefill", "--json")
    document = answered(said, "laws")
    assert said.code == 0
    (law,) = document["laws"]
    found = law["prediction"]
    assert found["level"] == 0.9
    assert found["low"] < 4_379 < found["high"]
    assert (found["at"]["vram_weights_mib"], found["extrapolated"]) == (26_071, False)
    assert law["decided"] is None
    assert law["verdict"].startswith("not decided")
    weights = {form["name"]: form["weight"] for form in law["forms"]}
    assert weights["hinge"] > 0.05
    assert weights["threshold"] > 0.05
    (contradiction,) = law["contradictions"]
    for text in ("3,584", "3,290", "operator note 001", "operator note 003"):
        assert text in contradiction
    assert any(text.startswith("vram_kv_mib ") and "not separated" in text for text in law["not_separated"])
    assert sum(item["contradicts"] for item in law["observed"]) == 2
    assert {"low": 22_208, "high": 26_071}.items() <= law["ranges"][0].items()
    assert law["held"]["kv_cache_dtype"] == "fp8"


def test_the_next_measurement_of_the_stated_pair(capsys: Capture) -> None:
    said = ask(capsys, "next", PAIR, "--goal", "prefill", *AS_NOTED, "--json")
    document = answered(said, "next")
    assert said.code == 0
    found = document["measure"]
    assert found["verdict"] == "fits"
    assert set(found["changes"]) <= {"vram_weights_mib", "vram_kv_mib"}
    assert found["changes"]
    pair = found["shape"]["vram_weights_mib"] + found["shape"]["vram_kv_mib"]
    assert pair <= 30_969
    assert 0 < found["tells"] <= found["most"]
    assert any(outcome["decided"] for outcome in document["outcomes"])
    assert [outcome["rate"] for outcome in document["outcomes"]] == sorted(
        outcome["rate"] for outcome in document["outcomes"])


@pytest.mark.parametrize("name", MEASURED)
def test_next_moves_one_knob(name: str, tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED[name]
    words = measured(tmp_path, server, text)
    for goal in ("prefill", "decode-total"):
        document = answered(ask(capsys, "next", "--goal", goal, *words, "--json"), "next")
        changes = set((document["measure"] or {"changes": {}})["changes"])
        assert len(changes) <= 1 or changes == {"vram_weights_mib", "vram_kv_mib"}, goal


def test_next_where_no_shape_does_what_is_asked(capsys: Capture) -> None:
    said = ask(capsys, "next", PAIR, "--at-least", "vram_weights=30000MiB", "--json")
    assert (said.code, answered(said, "next")["status"]) == (3, "infeasible")
    said = ask(capsys, "next", PAIR, "--at-least", "vram_weights=30000MiB")
    assert (said.code, said.err) == (3, "")
    assert "cannot hold together" in said.out
    assert ask(capsys, "next", PAIR, "--goal", "slab").code == 2
    assert ask(capsys, "next", str(SITES / "two-r9700")).code == 4


def test_next_where_the_law_knows_one_setting(tmp_path: Path, capsys: Capture) -> None:
    text = points(point(STATED, 3_397, knobs="tp=2 vram_weights_mib=22208"))
    document = answered(ask(capsys, "next", *measured(tmp_path, STATED, text), "--json"), "next")
    assert document["why"]
    assert document["outcomes"] == []


def test_laws_of_the_shipped_points(capsys: Capture) -> None:
    said = ask(capsys, "laws", "--points", "reference", "--json")
    document = answered(said, "laws")
    assert said.code == 0
    assert document["engine"] is None
    assert document["elsewhere"] == []
    assert len(document["refused"]) == 3
    assert {law["engine"] for law in document["laws"]} == {"radiance", "halogen"}
    assert {law["metric"] for law in document["laws"]} == {"prefill", "decode"}
    for law in document["laws"]:
        assert 0 <= law["left_out"]["median"] <= law["left_out"]["worst"] < 1
        assert law["prediction"] is None
        law_holds_together(law)
    shown = ask(capsys, "laws", "--points", "reference")
    assert (shown.code, shown.err) == (0, "")
    overview = shown.out.partition("How far each law is off where a setting was left out")[2]
    for law in document["laws"]:
        worst = f"{100 * law['left_out']['worst']:.1f} %"
        assert worst in overview, law["name"]
    assert sum(law["points"] for law in document["laws"]) + len(document["unfitted"]) <= document["points"]


def law_holds_together(law: Mapping[str, Any]) -> None:
    """What no schema can say of a law."""
    assert law["points"] >= law["settings"]
    assert sum(form["weight"] for form in law["forms"]) == pytest.approx(1, abs=0.01)
    assert [form["weight"] for form in law["forms"]] == sorted((f["weight"] for f in law["forms"]), reverse=True)
    for shares in law["shares"].values():
        assert sum(shares.values()) == pytest.approx(1)
    curve = law["curve"]
    lines = [curve[name] for name in ("median", "low", "high")] + list(curve["forms"].values())
    assert {len(line) for line in lines} == {len(curve["x"])}
    assert curve["x"] == sorted(set(curve["x"]))
    assert all(low <= median <= high for low, median, high in
               zip(curve["low"], curve["median"], curve["high"], strict=True))
    ends = {item["axis"]: (item["low"], item["high"]) for item in law["ranges"]}
    assert not set(ends) & set(law["held"])
    assert set(ends) == set(law["shares"])


@pytest.mark.parametrize("name", MEASURED)
def test_laws_of_a_site(name: str, tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED[name]
    words = measured(tmp_path, server, text)
    document = answered(ask(capsys, "laws", *words, "--json"), "laws")
    assert f"{document['engine']['name']}@{document['engine']['version']}" == server.engine
    assert document["files"] == [str(tmp_path / "points.csv")]
    assert len([law for law in document["laws"] if law["metric"] == "prefill"]) == 1
    assert sorted(law["corpus"] for law in document["laws"] if law["metric"] == "decode") == [
        "code [of ours]", "prose"]
    for law in document["laws"]:
        law_holds_together(law)
    one = answered(ask(capsys, "laws", *words, "--corpus", "prose", "--metric", "decode", "--json"), "laws")
    assert [law["corpus"] for law in one["laws"]] == ["prose"]
    assert [item["name"].rpartition(", ")[2] for item in one["elsewhere"]] == ["code [of ours]"]


def test_pictures(tmp_path: Path, capsys: Capture) -> None:
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = tmp_path / f"law{suffix}"
        said = ask(capsys, "laws", PAIR, "--metric", "prefill", "--plot", str(path), "--json")
        assert (said.code, said.document["pictures"]) == (0, [str(path)])
        valid("laws", said.document)
        assert path.read_bytes().startswith(start)
        assert f"drawn: {path.parent}" in ask(capsys, "laws", PAIR, "--metric", "prefill", "--plot", str(path)).out
    for wrong in ("law.pdf", "law", "gone/law.png"):
        said = ask(capsys, "laws", PAIR, "--metric", "prefill", "--plot", str(tmp_path / wrong))
        assert (said.code, said.out) == (2, "")
        assert wrong in said.err
        assert not (tmp_path / wrong).exists()


def test_wrong_words(capsys: Capture) -> None:
    for words in (["laws"], ["laws", "--points", "reference", "--metric", "ttft"], ["laws", "--points", "gone.csv"],
                  ["laws", "no-such-folder"], ["next"]):
        said = ask(capsys, *words, "--json")
        valid("error", said.document)
        assert said.code == 2, words


@pytest.mark.parametrize("width", [80, 120])
def test_what_people_read(width: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut off or wider than the screen, and no name is taken for markup."""
    monkeypatch.setattr("optimizer.render.base._WIDTH", width)
    server, text = MEASURED["stated pair"]
    words = measured(tmp_path, server, text, "points [bold]of mine[-].csv")
    for command in (["laws"], ["laws", "--metric", "prefill"], ["solve", "--goal", "prefill", "--top", "1"],
                    ["solve", "--goal", "decode", "--corpus", "code [of ours]", "--top", "1"], ["next"]):
        said = ask(capsys, *command, *words)
        assert (said.code, said.err) == (0, "")
        lines = said.out.splitlines()
        assert max(map(len, lines)) <= width, command
        for leak in ("[/", "[bold]the", "\\[", "[dim]", "None", "nan", "inf ", "1 points", "1 settings", "e+0"):
            assert leak not in said.out, (command, leak)
        joined = "".join(said.out.split())
        if command == ["laws"]:
            assert "points[bold]ofmine[-].csv" in joined
            assert "code[ofours]" in joined
        if "prefill" in command:
            assert "anotherprobe[of3]" in joined


def test_what_people_read_of_the_shipped_points(capsys: Capture) -> None:
    said = ask(capsys, "laws", PAIR, *LAST, "--metric", "prefill")
    assert said.code == 0
    assert "this site's shape: " in said.out
    assert "Contradict each other" in said.out
    assert "Not separated" in said.out
    assert "laws: of halogen" in said.out
    said = ask(capsys, "next", PAIR, *AS_NOTED)
    assert "Measure: vram_weights_mib 22,208 -> " in said.out
    assert "a prompt of 43,500 tokens, cold" in said.out
    assert "as now" in said.out


def test_nothing_is_more_than_a_number() -> None:
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(AssertionError):
            finite({"laws": [{"rate": value}]})
