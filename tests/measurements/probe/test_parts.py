"""The parts of a probe by themselves: refusals, pages of counters, plans, and files."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import measurements
from measurements.points import read_points
from measurements.probe.client import Answer, Client, Fault, Timings, _refusal, _retry_after, server_at
from measurements.probe.counting import Counter
from measurements.probe.ladder import ANSWER, SPARE, Leg, Limits, ladder, within
from measurements.probe.metrics import Snapshot, began_anew, changes, read_metrics, rose
from measurements.probe.run import Measured, Rate, _shared_rate
from measurements.probe.write import Subject, append, demand_file, rows_of
from measurements.records import ReadError
from measurements.site import load, read_site
from optimizer.probe import knobs_of
from tests.measurements.probe.faults import saying

SITES = Path(measurements.__path__[0]) / "sites"


@pytest.mark.parametrize(("text", "count", "window"), [
    ("prompt: 202,777 prompt tokens does not fit the 200000 token context", 202_777, 200_000),
    ('{"error":{"message":"request (28001 tokens) exceeds the available context size (2048 tokens), try increasing '
     'it"}}', 28_001, 2048),
    ('{"error":{"message":"too long","n_prompt_tokens":28001,"n_ctx":2048}}', 28_001, 2048),
    ('{"message":"This model\'s maximum context length is 4096 tokens. However, you requested 5012 tokens (5000 in the '
     'messages, 12 in the completion). Please reduce the length."}', 5000, 4096),
    ('{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096."}}',
     9000, 4096),
    ("The input (9000 tokens) is longer than the model's context length (4096 tokens).", 9000, 4096),
    ("You passed 8193 input tokens and requested 0 output tokens. However, the model's context length is only 8192 "
     "tokens, resulting in a maximum input length of 8192 tokens.", 8193, 8192),
    ('{"detail":"temperature must be at least 0"}', None, None),
    ("max_tokens is 512, which is too large", None, None),
    ("", None, None), ("[" * 100_000, None, None), ('{"error": null}', None, None),
])
def test_refusals(text: str, count: int | None, window: int | None) -> None:
    assert _refusal(text)[1:] == (count, window)


def test_retry_after() -> None:
    assert _retry_after("7") == 7
    assert _retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0
    assert [_retry_after(text) for text in (None, "", "soon", "-3", "1e9")] == [None] * 5


@pytest.mark.parametrize(("url", "shown", "local"), [
    ("http://localhost:8080/v1/", "http://localhost:8080", True),
    ("http://127.0.0.7", "http://127.0.0.7:80", True),
    ("http://localhost:8080/llm/v1/chat/completions", "http://localhost:8080/llm", True),
    ("http://[::1]:7770/llm/v1", "http://[::1]:7770/llm", True),
    ("https://box.lan", "https://box.lan:443", False),
    ("https://box.lan/sk-abcdefgh12345678abcd/v1", "https://box.lan:443/<secret>", False),
    ("http://localhost.evil.example:80", "http://localhost.evil.example:80", False),
])
def test_urls(url: str, shown: str, local: bool) -> None:
    server = server_at(url)
    assert (server.shown, server.local) == (shown, local)


@pytest.mark.parametrize("url", ["http://u:p4ssword@box", "http://box/?api_key=p4ssword", "http://box:p4ssword",
                                 "box:80", "http://", "http://a b/", "http://[::1"])
def test_urls_that_are_none_are_not_repeated(url: str) -> None:
    with pytest.raises(ReadError) as caught:
        server_at(url)
    assert caught.value.kind == "usage"
    assert "p4ssword" not in caught.value.message


def test_a_key_that_no_header_may_hold_is_not_repeated() -> None:
    with pytest.raises(ReadError) as caught:
        Client(server_at("http://localhost"), "p4ss\r\nX: y")
    assert "p4ss" not in str(caught.value)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("begin", [b"HTT", b"HTTP/1.1 200 OK\r\nX: ", HEAD, HEAD + b"data: "],
                         ids=["status", "headers", "line", "event"])
def test_no_trickle_outlasts_the_time_allowed(begin: bytes) -> None:
    with saying([begin, *[b"a"] * 100], 0.05) as url:
        start = time.monotonic()
        with pytest.raises(Fault) as caught:
            Client(server_at(url)).ask("/v1/completions", {"prompt": "x", "max_tokens": 1}, 0.3)
    assert caught.value.kind == "late"
    assert time.monotonic() - start < 3


WORD = '{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}'


@pytest.mark.parametrize("events", [
    f"data: {WORD}\n\n",
    f": hello\r\n\r\nevent: message\r\nid: 1\r\ndata:{WORD}\r\n\r\ndata: [DONE]\r\n\r\n",
    f"data: {WORD[:12]}\ndata: {WORD[12:]}\n\n",
    f"data: {WORD}\ndata: [DONE]\n",
    f"data: {WORD}\n\ndata: [DONE]\n\ndata: {WORD}\n\n",
], ids=["no end", "CRLF and comments", "in two lines", "no blank lines", "behind the end"])
def test_streams_as_servers_write_them(events: str) -> None:
    with saying([HEAD + events.encode()]) as url:
        answer = Client(server_at(url)).ask("/v1/completions", {"prompt": "x"}, 5)
    assert (answer.text, answer.finish, len(answer.marks)) == ("a", "stop", 1)


@pytest.mark.parametrize(("events", "kind"), [
    ('data: {"choices":\n\n', "unusable"), ("data: {\n" * 1000, "unusable"), (f"data: {WORD[:-1]}", "unusable"),
    ('data: {"object":"error","message":"no memory"}\n\n', "broken"),
    ('data: {"error":{"message":"no memory"}}\n\n', "broken"), ("data: {}\n\n", "dropped"), ("", "dropped"),
])
def test_streams_that_are_none(events: str, kind: str) -> None:
    with saying([HEAD + events.encode()]) as url, pytest.raises(Fault) as caught:
        Client(server_at(url)).ask("/v1/completions", {"prompt": "x"}, 5)
    assert caught.value.kind == kind


def test_counters() -> None:
    page = """\
# HELP vllm:num_preemptions_total Cumulative number of preemptions.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="a } b"} 3.0
vllm:num_preemptions_total{engine="1",model_name="a"} 4.0 1395066363000
radiance:prefix_cache_evictions_total 12
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:num_preemptions_created{engine="0"} 1.7e9
nonsense NaN
vllm:num_preemptions_total{broken 9
"""
    assert read_metrics(page) == Snapshot(7, 12, 0.75)
    assert read_metrics("") == Snapshot()
    assert not read_metrics("up 1\n").said
    assert read_metrics("x_kv_cache_usage_perc 62.5").kv_use == 0.625
    assert read_metrics("x_preemptions_total NaN\nx_preemptions_total -1\n").preemptions is None
    page = "llamacpp:tokens_predicted_total 9\nllamacpp:requests_processing 2\nllamacpp:prompt_tokens_total 5\n"
    assert read_metrics(page) == Snapshot(generated=9, running=2)
    page = 'vllm:generation_tokens_total{a="0"} 4\nvllm:generation_tokens_total{a="1"} 5\nvllm:num_requests_running 0\n'
    assert read_metrics(page) == Snapshot(generated=9, running=0)
    assert rose(Snapshot(3), Snapshot(5), "preemptions") == 2
    assert rose(Snapshot(), Snapshot(5), "preemptions") == 5  # a counter without a sample has counted nothing
    assert rose(Snapshot(9), Snapshot(1), "preemptions") is None  # it began anew
    assert rose(None, Snapshot(5), "preemptions") is None
    assert rose(Snapshot(3), Snapshot(3), "evictions") is None
    assert began_anew(Snapshot(9), Snapshot(1))
    assert not any(began_anew(*looks) for looks in (
        (Snapshot(3), Snapshot(3)), (Snapshot(), Snapshot(5)), (Snapshot(3), Snapshot()), (None, Snapshot(1))))
    assert changes(Snapshot(3, None, 0.5), Snapshot(5, 2, 0.25)) == Snapshot(2, 2, -0.25)
    assert changes(Snapshot(3), None) is None


def test_tokens_of_a_text() -> None:
    counter = Counter()
    counter.learn(1000, 230)
    assert counter.tokens(2000) == 460
    counter.learn(100_000, 20_030)  # 0.2 to a character, and a template of 30
    assert counter.tokens(50_000) == 10_030
    assert counter.characters(counter.tokens(50_000)) == 50_000


def test_tokens_of_a_text_in_a_long_template() -> None:
    counter = Counter(bare=(2000, 420))
    assert not counter.contradicted(350, 1080)
    counter.learn(350, 1080)  # about 1,000 of them are a template
    assert counter.tokens(10_000) == pytest.approx(3100, abs=10)
    assert not counter.contradicted(1219, 1260)
    assert not counter.contradicted(1219, 256)  # another path, without the template
    assert counter.contradicted(10_000, 14_700)
    assert counter.contradicted(10_000, 300)
    assert counter.at_most(10_000) > counter.tokens(10_000)
    assert Counter().at_most(10_000) > 15_000


def test_pieces_that_came_at_once_are_not_paced() -> None:
    assert stream(0.0, 0.01, 512).paced
    assert not stream(0.0, 0.00001, 512).paced
    assert not stream(0.0, 0.01, 15).paced
    lumps = Answer(**{**{name: getattr(stream(0, 1, 1), name) for name in Answer.__slots__},
                      "marks": tuple(float(place // 32) for place in range(512))})
    assert not lumps.paced


def test_a_plan() -> None:
    legs = ladder(200_000, [], streams=3, boundary=2, repeat=2)
    assert [(leg.kind, leg.depth, leg.rep) for leg in legs] == [
        ("ladder", 6250, 1), ("ladder", 6250, 2), ("ladder", 25_000, 1), ("ladder", 25_000, 2),
        ("ladder", 100_000, 1), ("ladder", 100_000, 2), ("warm", 100_000, 1),
        ("streams", 6250, 1), ("streams", 6250, 2), ("boundary", 199_904, 1)]
    assert all(leg.depth + leg.answer <= 200_000 for leg in legs)
    assert all(leg.answer >= ANSWER for leg in legs if leg.kind != "boundary")
    assert within(legs, Limits()).tokens == 400_000 + 2 * (199_904 + 64) * 5 // 4
    for wrong in ([15], [200_000], [200_000 - ANSWER - SPARE + 1]):
        with pytest.raises(ReadError):
            ladder(200_000, wrong, streams=1, boundary=0, repeat=1)
    with pytest.raises(ReadError, match="too short"):
        ladder(700, [], streams=1, boundary=0, repeat=1)
    with pytest.raises(ReadError, match="--window"):
        ladder(None, [], streams=1, boundary=1, repeat=1)
    with pytest.raises(ReadError, match="--max-tokens"):
        within([Leg("boundary", 1000, 64, 2)], Limits(tokens=2000))
    with pytest.raises(ReadError, match="--max-requests"):
        within([Leg("boundary", 1000, 64, 9)], Limits(requests=8))


def stream(first: float, step: float, pieces: int) -> Answer:
    """A stream whose pieces came at a steady pace."""
    marks = tuple(first + step * place for place in range(pieces))
    return Answer("", "", "stop", True, marks[-1], first, marks, 100, 0, None, Timings(None, None, None, None, None))


def test_streams_count_only_while_all_write() -> None:
    # the first writes 10 tokens a second alone for 30 s, then both write 5 a second each, two tokens to a piece
    slow, late = stream(30.0, 0.4, 101), stream(30.0, 0.4, 101)
    early = Answer(**{**{name: getattr(slow, name) for name in Answer.__slots__},
                      "marks": (*(0.2 * place for place in range(150)), *slow.marks)})
    total, within = _shared_rate([early, late], [2 * 251, 2 * 101])
    assert total == pytest.approx(10.0)
    assert within == 200
    assert _shared_rate([stream(0.0, 0.1, 100), stream(20.0, 0.1, 100)], [100, 100]) == (None, None)
    assert _shared_rate([stream(0.0, 0.1, 100), stream(0.0, 0.1, 3)], [100, 100]) == (None, None)
    assert _shared_rate([stream(0.0, 0.1, 100), stream(0.0, 0.1, 100)], [100, None]) == (None, None)


def test_the_settings_that_points_carry() -> None:
    def of(name: str) -> dict[str, str]:
        return knobs_of(load(read_site(SITES / name)))

    stated, derived, unified = of("stated-pair"), of("two-r9700"), of("unified-memory")
    assert stated["vram_weights_mib"] == "22208"
    assert "vram_weights" not in stated
    assert (derived["vram_weights_mib"], derived["vram_weights"]) == ("0", "25.27GiB")
    assert derived["tp_wire"] == "exact"
    assert (unified["ctx"], unified["max_tok"], unified["kv_slots"]) == ("262144", "32768", "4")
    assert all(text and " " not in text for knobs in (stated, derived, unified) for text in knobs.values())


SUBJECT = Subject("halogen", "0.13.0", "w4b, the new one", {"ctx": "4096"}, "2026-10-13", 'the "first" boot')
FOUND = Measured("ladder", 1000, 1, 1, 1003, 3, 512, Rate(3397.25, "the server's timings"),
                 Rate(94.1, "the clock here"), notes=("prefill by the server's timings", "decode by the clock here"))


def test_rows_are_read_back_as_they_were_measured(tmp_path: Path) -> None:
    out = tmp_path / "points.csv"
    append(out, rows_of(FOUND, SUBJECT))
    prefill, decode = read_points([out]).points
    assert (prefill.rate, prefill.tokens_in, prefill.cache, prefill.note) == (
        3397.25, 1003, "cold", "prefill by the server's timings")
    assert (decode.rate, decode.tokens_out, decode.model, decode.source) == (
        94.1, 512, "w4b, the new one", 'the "first" boot')
    assert decode.labels == prefill.labels == ()


def test_a_file_is_asked_before_anything_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "points.csv"
    names = "engine,version,model,knobs,tokens_in,tokens_out,streams,cache,corpus,metric,value,unit,date,source"
    out.write_text(names, encoding="utf-8")
    demand_file(out)  # columns alone are enough
    assert out.read_text(encoding="utf-8") == names
    append(out, rows_of(FOUND, SUBJECT))
    assert len(read_points([out]).points) == 2
    for wrong in (names.replace(",streams", ""), names.replace("corpus", "words"), f"{names}\n{'x,' * 13}x\n"):
        out.write_text(wrong, encoding="utf-8")
        with pytest.raises(ReadError) as caught:
            demand_file(out)
        assert (caught.value.file, ".part" in caught.value.message) == (str(out), False)
        assert out.read_text(encoding="utf-8") == wrong
    with pytest.raises(ReadError, match="regular"):
        demand_file(Path(os.devnull))
    with pytest.raises(ReadError, match="folder"):
        demand_file(tmp_path / "no" / "points.csv")
    assert os.listdir(tmp_path) == ["points.csv"]


def test_two_probes_at_once_lose_nothing(tmp_path: Path) -> None:
    out = tmp_path / "points.csv"

    def many(who: str) -> None:
        for place in range(15):
            append(out, rows_of(FOUND, replace(SUBJECT, source=f"{who} {place}")))

    threads = [threading.Thread(target=many, args=(who,)) for who in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_points([out]).points) == 60


def test_a_file_that_cannot_take_the_rows_stays_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "points.csv"
    append(out, rows_of(FOUND, SUBJECT))
    before = out.read_bytes()
    with pytest.raises(ReadError, match="repeats"):
        append(out, rows_of(FOUND, SUBJECT))  # the same measurement twice
    assert out.read_bytes() == before
    assert os.listdir(tmp_path) == ["points.csv"]
    out.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(out)
    append(link, rows_of(FOUND, Subject("halogen", "0.13.0", "w4b", {}, "2026-10-14", "the second")))
    assert link.is_symlink()
    assert out.read_bytes().startswith(before)
    assert out.stat().st_mode & 0o777 == 0o640
    append(out, [])
    with pytest.raises(ReadError):
        demand_file(tmp_path)
    demand_file(tmp_path / "new.csv")


@pytest.mark.parametrize(("refused", "metrics"), [
    ((), ["prefill", "decode"]), (("decode: only 9 tokens were generated, 512 are needed",), ["prefill"]),
    (("prefill: a cache answered 900 of 1,003 tokens",), ["decode"]),
])
def test_what_breaks_a_rule_is_no_row(refused: tuple[str, ...], metrics: list[str]) -> None:
    assert [row["metric"] for row in rows_of(replace(FOUND, refused=refused), SUBJECT)] == metrics
    warm = replace(FOUND, kind="warm", refused=("prefill: a warm prefix is no prefill",))
    assert [(row["metric"], row["cache"]) for row in rows_of(warm, SUBJECT)] == [("decode", "warm")]
