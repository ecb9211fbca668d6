"""Goals on measured speed on the command line: the recommendation, the workload's words, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.made_points import Row, write
from tests.optimizer.servers import HALOGEN, MEASURED, PROMPT, STATED, Said, ask, measured, point, points
from tests.optimizer.test_laws_cli import AS_NOTED, PAIR, SITES
from tests.optimizer.test_schema import answered, ranked_well, valid

Capture = pytest.CaptureFixture[str]


def lacking(said: Said) -> str:
    """How to get the one thing that lacks."""
    assert said.code == 4
    valid("error", said.document)
    (item,) = said.document["missing"]
    assert item["unit"] == "t/s"
    return f"{item['name']}: {item['how']}"


def solved(capsys: Capture, goal: str, *words: str) -> Said:
    """The answer of ``solve`` on the shipped stated pair, one shape of it."""
    return ask(capsys, "solve", PAIR, "--goal", goal, *AS_NOTED, "--top", "1", *words, "--json")


def test_the_recommendation_of_the_shipped_points(capsys: Capture) -> None:
    said = solved(capsys, "prefill")
    document = answered(said, "solve")
    assert (said.code, document["status"]) == (0, "optimal")
    (best,) = document["shapes"]
    assert (best["shape"]["vram_weights_mib"], best["shape"]["vram_kv_mib"]) == (25_904, 5_065)
    assert {"pool_contract", "pair_ceiling"} <= set(best["binding"])
    (slab,) = answered(solved(capsys, "slab"), "solve")["shapes"]
    assert best["shape"] == slab["shape"]
    (law,) = document["speed"]["laws"]
    assert len(law["contradictions"]) == 1
    assert any("contradict each other" in text for text in document["warnings"])
    assert any("vram_kv_mib" in text and "not separated" in text for text in document["warnings"])
    assert document["speed"]["extrapolated"] == []
    assert document["speed"]["rivals"]["good_under_all"]["loses_at_most"] < 0.05


def test_confidence(capsys: Capture) -> None:
    values = []
    for confidence in (0.5, 0.9):
        document = answered(solved(capsys, "prefill", "--confidence", str(confidence)), "solve")
        assert document["speed"]["workload"]["confidence"] == confidence
        (shape,) = document["shapes"]
        values.append(shape["objective"]["value"])
        assert shape["objective"]["prediction"]["median"] > shape["objective"]["prediction"]["low"]
    assert values[1] < values[0]
    shown = ask(capsys, "solve", PAIR, "--goal", "prefill", *AS_NOTED, "--confidence", "0.9", "--top", "1")
    assert "90 % sure" in shown.out
    for wrong in ("0", "1", "x"):
        assert solved(capsys, "prefill", "--confidence", wrong).code == 2


def test_a_prompt_outside_the_data(capsys: Capture) -> None:
    text = lacking(solved(capsys, "prefill", "--prompt-tokens", "100000"))
    assert text.startswith("prefill points: ")
    assert "a prompt of 100,000 tokens: measured 43,500" in text
    assert "--extrapolate" in text
    document = answered(solved(capsys, "prefill", "--prompt-tokens", "100000", "--extrapolate"), "solve")
    labels = document["speed"]["extrapolated"]
    assert any("100,000" in label for label in labels)
    assert {f"extrapolated: {label}" for label in labels} <= set(document["warnings"])
    shown = ask(capsys, "solve", PAIR, "--goal", "prefill", "--prompt-tokens", "100000", "--extrapolate", "--top", "1")
    assert "extrapolated: a prompt of 100,000 tokens" in shown.out
    # a longer prompt than the window needs a longer window, and says so
    document = answered(solved(capsys, "prefill", "--prompt-tokens", "200001", "--extrapolate"), "solve")
    assert document["status"] == "infeasible"
    assert any("a prompt of 200,001 tokens" in item["name"] + item["source"] for item in document["conflict"])


def test_streams_that_nobody_measured(capsys: Capture) -> None:
    for words in ([], ["--extrapolate"], ["--streams", "3"], ["--streams", "3", "--extrapolate"]):
        text = lacking(solved(capsys, "decode-total", *words))
        assert text.startswith("decode points: ")
        assert "3 streams: measured with 1 alone" in text
    assert solved(capsys, "decode-total", "--streams", "1").code == 0
    assert solved(capsys, "decode-total", "--streams", "0").code == 2


@pytest.mark.parametrize("words", [
    ["--weight", "speed=2"], ["--weight", "prefill=0"], ["--weight", "prefill=1001"], ["--weight", "prefill=x"],
    ["--weight", "prefill"], ["--weight", "prefill=-1"], ["--weight", "prefill=1.5"], ["--order", "sessions"],
    ["--order", "sessions,speed"], ["--order", "sessions,sessions"], ["--order", "sessions,balanced"],
    ["--order", ""], ["--order", ","], ["--order", "prefill,sessions", "--goal", "slab"],
])
def test_wrong_words(words: list[str], capsys: Capture) -> None:
    said = ask(capsys, "solve", PAIR, "--goal", "balanced", *words, "--json")
    assert (said.code, said.document["error"]["kind"]) == (2, "usage")
    valid("error", said.document)


def test_goals_in_order(capsys: Capture) -> None:
    said = ask(capsys, "solve", PAIR, "--goal", "balanced", "--order", "sessions,prefill", "--top", "2", "--json")
    document = answered(said, "solve")
    assert (said.code, document["order"], document["goal"]) == (0, ["sessions", "prefill"], "prefill")
    ranked_well(document)
    (held,) = [item for item in document["within"] if item["why"].startswith("within 1 % of its best")]
    inside = ["--at-least", "vram_weights_mib=22208", "--at-most", "vram_weights_mib=26071"]  # where the points are
    best = answered(ask(capsys, "solve", PAIR, "--goal", "sessions", *inside, "--top", "1", "--json"), "solve")[
        "shapes"][0]
    assert (held["name"], held["sense"]) == ("sessions", "at least")
    assert best["objective"]["value"] * 0.99 <= held["value"] <= best["objective"]["value"]
    shown = ask(capsys, "solve", PAIR, "--goal", "balanced", "--order", "sessions,prefill", "--top", "1")
    assert "sessions then prefill" in shown.out
    assert "within 1 %" in shown.out


def test_a_site_without_points(capsys: Capture) -> None:
    for command in ("solve", "propose", "next", "laws"):
        goal = [] if command == "laws" else ["--goal", "prefill"]
        text = lacking(ask(capsys, command, str(SITES / "two-r9700"), *goal, "--json"))
        assert text.startswith("points: ")
        assert "--points FILE" in text


def test_points_of_another_model_or_engine(tmp_path: Path, capsys: Capture) -> None:
    pair = [point(STATED, rate, model="llama-9-w4", knobs=f"tp=2 vram_weights_mib={slab}")
            for slab, rate in ((22_208, 3_397), (26_071, 4_379))]
    words = measured(tmp_path, STATED, points(*pair))
    for command in (["solve", "--goal", "prefill"], ["next"], ["laws"]):
        assert "llama-9-w4" in (text := lacking(ask(capsys, *command, *words, "--json")))
        assert "another model" in text
    words = measured(tmp_path, STATED, points(*(point(HALOGEN, rate, tokens_in=prompt) for prompt, rate in (
        (8_192, 1_200), (PROMPT, 1_300)))))
    assert "of halogen" in lacking(ask(capsys, "laws", *words, "--json"))
    assert "no measured prefill of radiance@1.0.13" in lacking(
        ask(capsys, "solve", "--goal", "prefill", *words, "--json"))


def test_a_corpus_picks_its_law(tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED["halogen"]
    words = measured(tmp_path, server, text)
    rates = {}
    for corpus in ("prose", "code [of ours]"):
        document = answered(ask(capsys, "solve", "--goal", "decode", *words, "--corpus", corpus, "--top", "1",
                                "--json"), "solve")
        assert document["speed"]["laws"][0]["name"].endswith(corpus)
        rates[corpus] = document["shapes"][0]["objective"]["prediction"]["median"]
    assert 1.2 < rates["code [of ours]"] / rates["prose"] < 1.6
    missing = lacking(ask(capsys, "solve", "--goal", "decode", *words, "--corpus", "poems", "--json"))
    assert "another corpus than 'poems'" in missing


def test_all_slots_busy(tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED["halogen"]
    words = measured(tmp_path, server, text)
    document = answered(ask(capsys, "solve", "--goal", "decode-total", *words, "--top", "1", "--json"), "solve")
    assert document["speed"]["workload"]["streams"] == "all slots"
    assert document["shapes"][0]["shape"]["kv_slots"] == 8
    assert "all slots busy" in ask(capsys, "solve", "--goal", "decode-total", *words, "--top", "1").out


def test_balanced_counts_what_it_is_told(tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED["halogen"]
    words = [*measured(tmp_path, server, text), "--corpus", "prose", "--prompt-tokens", str(PROMPT), "--top", "1"]
    times = {}
    for weight in (1, 3):
        document = answered(ask(capsys, "solve", "--goal", "balanced", *words, "--weight", f"prefill={weight}",
                                "--json"), "solve")
        (shape,) = document["shapes"]
        assert shape["objective"]["unit"] == "s"
        assert {law["metric"] for law in document["speed"]["laws"]} == {"prefill", "decode"}
        assert (f"prefill counted {weight} times" in document["speed"]["how"]) == (weight > 1)
        times[weight] = shape["objective"]["value"]
    prefill = (times[3] - times[1]) / 2
    assert prefill == pytest.approx(PROMPT / 1_420, rel=0.15)
    assert times[1] - prefill == pytest.approx(512 / 124.1, rel=0.15)


def test_propose_for_speed(tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED["stated pair"]
    said = ask(capsys, "propose", "--goal", "prefill", *measured(tmp_path, server, text), "--top", "1", "--json")
    document = answered(said, "propose")
    assert said.code == 0
    assert f"+FRANK_ARCHON_VRAM_WEIGHTS_MIB={document['shapes'][0]['shape']['vram_weights_mib']}" in document["diff"]


def test_a_form_settled_along_the_prompt_leaves_the_knob_to_measure(tmp_path: Path, capsys: Capture) -> None:
    prompts = [4_000 * n for n in range(1, 13)]
    rows = [Row("halogen", "0.13.0", "w4b", "prefill", (1 + rep / 200) / (6e-4 + 6e-9 * prompt),
                {"max_tok": 32_768}, prompt, rep=rep) for prompt in prompts for rep in (-1, 0, 1)]
    words = ["next", str(SITES / "unified-memory"), "--points", str(write(tmp_path / "points.csv", rows)), "--json"]
    document = answered(ask(capsys, *words), "next")
    assert document["law"]["verdict"].startswith("decided")
    assert document["measure"]["axis"] == "max_tok"
    assert set(document["measure"]["changes"]) == {"max_tok"}
