"""The whole way against llama.cpp itself: measured, written, admitted, fitted, and a question answered from it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from measurements.points import read_points
from measurements.probe.client import Client, Fault, server_at
from measurements.probe.counting import Counter, count_above, prose, tokenize
from tests.measurements.probe import serve
from tests.optimizer.servers import CEILING, Server, ask, pair_env, site_of
from tests.optimizer.test_schema import valid

#: The site whose server this is said to be: window and slots are those that the server tells.
SITE = Server("radiance@1.0.13", pair_env(22_208, 6_912, serve.SLOTS, serve.WINDOW), facts=CEILING)


def test_points_laws_and_an_answer(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site, out = site_of(tmp_path, SITE), tmp_path / "points.csv"
    said = ask(capsys, "probe", str(site), "--url", url, "--depths", "256,700,1400", "--streams", "3", "--out",
               str(out), "--json")
    assert said.code == 0, said.document["harm"]
    valid("probe", said.document)
    assert said.document["stopped"] is None
    server = said.document["server"]
    assert (server["url"], server["window"], server["slots"]) == (url, serve.WINDOW, serve.SLOTS)
    assert server["model"].endswith("tiny.gguf")
    assert said.document["counting"]["how"] == "a refusal that names the count"
    assert [leg["kind"] for leg in said.document["legs"]] == ["ladder"] * 3 + ["warm", "streams"]

    reading = read_points([out])
    assert reading.refused == ()
    points = reading.points
    assert [(point.metric, point.streams, point.cache) for point in points] == [
        ("prefill", 1, "cold"), ("decode", 1, "cold")] * 3 + [("decode", 1, "warm"), ("decode", 3, "cold")]
    assert all(point.tokens_out == 512 for point in points[1:7:2])
    assert all(point.labels == () for point in points)
    assert all((point.engine, point.version, point.model) == ("radiance", "1.0.13", "qwen3.8-flash-next-w4")
               for point in points)
    assert all(point.source.startswith("shapewright probe of 127.0.0.1:") for point in points)
    assert points[0].knobs["vram_weights_mib"] == "22208"
    assert points[0].knobs["kv_cache_dtype"] == "fp8"
    depths = [point.tokens_in for point in points[:6:2]]
    assert depths == sorted(depths, key=lambda depth: depth or 0)
    assert 1250 < (depths[-1] or 0) < 1550
    warm = said.document["legs"][3]
    assert warm["cached"] > 0.9 * warm["tokens_in"]
    shared = said.document["legs"][4]
    assert shared["decode"]["value"] == pytest.approx(3 * points[-1].rate, rel=1e-3)
    assert len(shared["each"]) == 3

    laws = ask(capsys, "laws", str(site), "--points", str(out), "--metric", "decode", "--json")
    assert laws.code == 0
    assert {item["axis"] for law in laws.document["laws"] for item in law["ranges"]} == {"depth", "streams"}
    solved = ask(capsys, "solve", str(site), "--points", str(out), "--goal", "decode", "--prompt-tokens", "700",
                 "--json")
    assert solved.code == 0, solved.document
    best = solved.document["shapes"][0]
    assert best["verdict"] == "fits"
    middle = sorted(point.rate for point in points if point.metric == "decode" and point.streams == 1)
    assert middle[0] / 3 < best["objective"]["value"] < middle[-1] * 3


def test_a_second_probe_is_appended_and_what_stood_there_stays(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    site, out = site_of(tmp_path, SITE), tmp_path / "points.csv"
    before = (b"# ours\r\nmetric,value,unit,engine,version,model,knobs,tokens_in,tokens_out,streams,cache,corpus,date,"
              b"source\r\nprefill , 3397,t/s,radiance,1.0.13,m.rad,,43500,,,cold,,,note 001")
    out.write_bytes(before)
    said = ask(capsys, "probe", str(site), "--url", url + "/v1/", "--depths", "200", "--out", str(out), "--json")
    assert said.code == 0
    assert out.read_bytes().startswith(before + b"\r\n")
    assert len(read_points([out]).points) == 1 + len(said.document["points"]) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "frank.env", "points.csv", "shapewright-history.jsonl", "site.toml"]


def test_a_marker_that_a_random_model_cannot_find(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    said = ask(capsys, "probe", "--url", url, "--depths", "128", "--boundary", "--json")
    assert said.document["record"] is None
    assert list(tmp_path.iterdir()) == []  # nothing is kept unless it is asked for
    assert "0 of 4 markers came back" in said.document["harm"]
    assert said.code == 3
    valid("probe", said.document)
    boundary = said.document["legs"][-1]
    assert (boundary["kind"], boundary["streams"]) == ("boundary", serve.SLOTS)
    # the prompts really filled the window, less the answer
    assert 0.93 * serve.WINDOW < boundary["tokens_in"] <= serve.WINDOW - 64
    assert boundary["markers"] == {"back": 0, "of": serve.SLOTS}


def test_counting_costs_nothing(url: str) -> None:
    client = Client(server_at(url))

    def computed() -> float:
        text = client.get("/metrics", 5)
        found = re.search(r"^llamacpp:prompt_tokens_total (\S+)", text or "", re.MULTILINE)
        assert found is not None
        return float(found[1])

    before, counter = computed(), Counter()
    above = count_above(client, "/v1/completions", "", serve.WINDOW, counter, 20)
    assert above is not None
    assert "refused" in above.said
    assert (above.window, above.tokens) == (serve.WINDOW, 0)
    assert counter.bare is not None
    characters, tokens = counter.bare
    exact = tokenize(client, "", prose(characters), Counter())
    assert exact is not None
    assert exact in (tokens, tokens - 1)  # the refusal counts the mark of the beginning too
    assert computed() == before


def test_the_same_text_is_the_start_of_a_longer_one() -> None:
    assert prose(50_000).startswith(prose(1234))
    assert len(prose(50_000)) == 50_000
    sentences = prose(50_000).split(". ")
    assert len(set(sentences)) > 0.99 * len(sentences)


def test_no_server_no_file_and_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = "http://127.0.0.1:9"
    for words, why in (
        (["--url", free], "no connection"),
        (["--url", free, "--depths", "12x"], "--depths"),
        (["--url", "http://user:hunter2@127.0.0.1:9"], "login"),
        (["--url", "ftp://127.0.0.1"], "URL"),
        (["--url", "http://192.0.2.1:8080"], "--yes"),
        (["--url", free, "--out", str(tmp_path / "points.csv")], "whose points"),
        (["--url", free, "--engine", "radiance@1.0.13", "--out", str(tmp_path / "no" / "points.csv")], "folder"),
        (["--url", free, "--key-env", "sk-abcdefgh12345678"], "--key-env"),
    ):
        said = ask(capsys, "probe", *words)
        assert said.code == 2
        assert why in said.err
        assert "hunter2" not in said.err
        assert "abcdefgh" not in said.err
    broken = tmp_path / "broken.csv"
    broken.write_text("no,points\n1,2\n", encoding="utf-8")
    said = ask(capsys, "probe", "--url", free, "--engine", "radiance@1.0.13", "--out", str(broken))
    assert (said.code, broken.read_text(encoding="utf-8")) == (2, "no,points\n1,2\n")


def test_a_site_that_the_server_contradicts(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site, out = site_of(tmp_path, SITE), tmp_path / "points.csv"
    said = ask(capsys, "probe", str(site), "--url", url, "--set", "max_model_len=4096", "--out", str(out))
    assert said.code == 2
    assert "max_model_len=4096" in said.err
    assert not out.exists()


def test_a_bound_ends_it_with_what_was_measured(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "points.csv"
    words = ["probe", "--url", url, "--engine", "radiance@1.0.13", "--depths", "128,256", "--out", str(out), "--json"]
    said = ask(capsys, *words, "--max-requests", "3")
    assert said.code == 0
    assert said.document["stopped"] == "--max-requests 3 is reached"
    assert said.document["cost"]["requests"] == 3
    with out.open(encoding="utf-8", newline="") as file:
        assert [row["metric"] for row in csv.DictReader(file)] == ["prefill", "decode"]
    said = ask(capsys, *words, "--max-tokens", "1500")
    assert "--max-tokens 1,500" in said.document["stopped"]
    assert said.document["cost"]["tokens"] <= 1500


def test_one_whole_window_is_not_asked_for_without_room(url: str) -> None:
    client = Client(server_at(url))
    messages = [{"role": "user", "content": prose(9000)}]
    with pytest.raises(Fault) as caught:
        client.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 1}, 20)
    assert (caught.value.kind, caught.value.window) == ("refused", serve.WINDOW)
    assert caught.value.count is not None
    assert caught.value.count > 9000
