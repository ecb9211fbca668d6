"""What servers in the field do, done to a real engine's answers by a proxy: survived, or the first sign of harm."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import measurements.probe.run as running
from measurements.points import read_points
from measurements.probe.client import Client, Fault, server_at
from measurements.probe.ladder import Leg, Limits, ladder
from measurements.probe.metrics import Snapshot
from measurements.probe.run import Measured, Probe
from measurements.probe.write import Subject, append, rows_of
from measurements.records import ReadError
from tests.measurements.probe import serve
from tests.measurements.probe.faults import Faults, answering, marker, proxy
from tests.optimizer.servers import ask

SUBJECT = Subject("radiance", "1.0.13", "m", {"tp": "2"}, "2026-10-13", "a test")


@contextmanager
def probing(engine: int, faults: Faults, *, limits: Limits | None = None,
            sleep: Callable[[float], None] = time.sleep) -> Iterator[tuple[Probe, list[str]]]:
    """A probe of the engine behind a proxy, and what it tells."""
    told: list[str] = []
    with proxy(engine, faults) as url:
        found = Probe(Client(server_at(url)), limits or Limits(60, 40, 60_000), tell=told.append, sleep=sleep)
        yield found, told


def one(probe: Probe, *depths: int, legs: Sequence[Leg] | None = None) -> Measured:
    """The first leg of a short probe."""
    probe.greet(None)
    probe.measure(legs or [Leg("ladder", depth, 512) for depth in depths or (128,)])
    return probe.found[0]


def metrics_of(found: Measured) -> list[str]:
    """The metrics of its points."""
    return [row["metric"] for row in rows_of(found, SUBJECT)]


def edited(**changes: Any) -> Callable[[int, dict[str, Any]], dict[str, Any]]:
    """Pieces with some fields replaced where they stand; None takes a field away."""
    def piece(_: int, chunk: dict[str, Any]) -> dict[str, Any]:
        for name, value in changes.items():
            if name in chunk:
                chunk[name] = value
        return {name: value for name, value in chunk.items() if value is not None}
    return piece


def test_null_timings(engine: int) -> None:
    nulls = dict.fromkeys(("prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms",
                           "predicted_per_second"))
    with probing(engine, Faults(piece=edited(timings=nulls))) as (probe, _):
        found = one(probe)
    assert found.prefill is not None
    assert found.decode is not None
    assert found.prefill.how == "the time to the first token"
    assert (found.decode.how, found.decode.other, found.generated) == ("the clock here", None, 512)
    assert metrics_of(found) == ["prefill", "decode"]


def test_missing_usage_is_counted_by_the_tokenize_call(engine: int) -> None:
    with probing(engine, Faults(piece=edited(timings=None, usage=None))) as (probe, _):
        found = one(probe)
    assert any("tokenize call" in note for note in found.notes)
    assert found.tokens_in is not None
    assert 100 < found.tokens_in < 300
    # the words of this model come apart into bytes where they are tokenized again: more of them, never fewer
    assert found.generated is not None
    assert found.generated >= 512


def test_nobody_tells_the_tokens(engine: int) -> None:
    refuses = {"/tokenize": lambda: (404, "{}")}
    with probing(engine, Faults(piece=edited(timings=None, usage=None), pages=refuses)) as (probe, _):
        found = one(probe)
    assert found.generated is None
    assert any(text.startswith("decode: nobody told") for text in found.refused)
    assert metrics_of(found) == ["prefill"]  # the refusal above the window told the ratio
    assert any("by the ratio" in note for note in found.notes)


def test_unstreamed_answers_with_timings(engine: int) -> None:
    faults = Faults(body=lambda body: body.update(stream=False) or body.pop("stream_options", None))
    with probing(engine, faults) as (probe, _):
        found = one(probe)
    assert found.first is None
    assert found.decode is not None
    assert found.decode.how == "the server's timings"
    assert metrics_of(found) == ["prefill", "decode"]


def test_unstreamed_answers_without_timings(engine: int) -> None:
    faults = Faults(body=lambda body: body.update(stream=False) or body.pop("stream_options", None),
                    piece=edited(timings=None))
    with probing(engine, faults) as (probe, _):
        found = one(probe)
    assert found.decode is not None
    assert found.decode.how == "the difference to an answer of one token"
    assert [body["max_tokens"] for body in faults.seen] == [8, 512, 1]
    assert metrics_of(found) == ["prefill", "decode"]


def test_a_stream_that_is_held_back_has_no_times(engine: int) -> None:
    with probing(engine, Faults(hold=True)) as (probe, _):
        found = one(probe)
    assert found.prefill is not None
    assert found.decode is not None
    assert (found.prefill.how, found.decode.how) == ("the server's timings",) * 2
    assert found.first is None
    assert any("in lumps" in note for note in found.notes)


def test_a_stream_that_is_held_back_and_not_timed(engine: int) -> None:
    faults = Faults(hold=True, piece=edited(timings=None))
    with probing(engine, faults) as (probe, _):
        found = one(probe)
    assert [body["max_tokens"] for body in faults.seen] == [8, 512, 1]
    assert found.decode is not None
    assert found.decode.how == "the difference to an answer of one token"
    assert found.decode.value == pytest.approx(511 / found.total, rel=0.5)  # of a short prompt nearly all is decode


@pytest.mark.parametrize(("own", "how"), [
    (1.0, "the server's timings"), (1e7, "the clock here"), (5e11, "the clock here")])
def test_no_token_comes_before_it_is_made(engine: int, own: float, how: str) -> None:
    with probing(engine, Faults(piece=edited(timings={"predicted_per_second": own, "prompt_per_second": own}))) as (
            probe, _):
        found = one(probe)
    assert found.decode is not None
    assert found.prefill is not None
    assert found.decode.how == how
    assert found.decode.apart == (own < 1e8)  # a rate that nobody can mean is none
    assert (found.prefill.how == "the server's timings") == (own == 1e7)  # a prompt is read before its first token
    # tokens made a thousand times faster than they came: one of both figures is not true
    assert metrics_of(found) == (["prefill"] if own == 1e7 else ["prefill", "decode"])


def test_counts_that_contradict_each_other_make_no_rate(engine: int) -> None:
    def piece(number: int, chunk: dict[str, Any]) -> dict[str, Any]:
        if number and chunk.get("usage"):
            chunk["usage"] = {"prompt_tokens": 7 * chunk["usage"]["prompt_tokens"], "completion_tokens": 5120}
        return chunk

    with probing(engine, Faults(piece=piece)) as (probe, _):
        found = one(probe, 512)
    assert found.tokens_in is None
    assert any("neither was taken" in note for note in found.notes)
    assert any("5,120 generated tokens, 512 were asked for" in text for text in found.refused)
    assert metrics_of(found) == []


def test_an_answer_that_goes_on_is_cut(engine: int) -> None:
    faults = Faults(body=lambda body: body.update(max_tokens=1500, min_tokens=1500) if body["max_tokens"] > 8 else None)
    with probing(engine, faults) as (probe, _), pytest.raises(ReadError, match="max_tokens does not bind"):
        one(probe, legs=[Leg("ladder", 128, 16)])


def test_what_it_takes_is_what_the_server_counts(engine: int) -> None:
    taken: list[int] = []
    timings: list[dict[str, Any]] = []

    def piece(_: int, chunk: dict[str, Any]) -> dict[str, Any]:
        taken.append((chunk.get("usage") or {}).get("total_tokens", 0))
        timings.extend([chunk["timings"]] if "timings" in chunk else [])
        return chunk

    with probing(engine, Faults(piece=piece)) as (probe, _):
        one(probe, 512, 768)
    assert probe.tokens == sum(taken) > 0
    for found, own in zip(probe.found, timings[-2:], strict=True):  # the rates by hand, the first token being prefill's
        rates = {row["metric"]: float(row["value"]) for row in rows_of(found, SUBJECT)}
        assert rates["prefill"] == pytest.approx(own["prompt_n"] / own["prompt_ms"] * 1000, rel=0.01)
        assert rates["decode"] == pytest.approx((own["predicted_n"] - 1) / own["predicted_ms"] * 1000, rel=0.2)
    faults = Faults()
    few = Limits(60, 40, 300)
    with probing(engine, faults, limits=few) as (probe, _), pytest.raises(ReadError, match="max-tokens"):
        one(probe)  # nobody counted yet: each character may be a token
    assert faults.seen == []


@pytest.mark.parametrize("status", [302, 307, 400, 422])
def test_a_server_that_refuses_everything(engine: int, status: int) -> None:
    faults = Faults(instead=lambda number, body: (status, {"Location": "/"}, {"error": {"message": "no, and no"}}))
    why = "redirects" if status < 400 else "no, and no"
    with probing(engine, faults) as (probe, _), pytest.raises(ReadError, match=why):
        one(probe)


def test_a_server_without_plain_completions_counts_in_a_chat(engine: int) -> None:
    with probing(engine, Faults(pages={"/v1/completions": lambda: (404, "{}")})) as (probe, _):
        one(probe)
    assert any("was refused: " in text for text in probe.told)
    assert probe.counter.how == "a refusal that names the count"


@pytest.mark.parametrize("count", [2048, 2049])
def test_a_refusal_that_counts_as_far_as_the_window_tells_no_ratio(engine: int, count: int) -> None:
    said = json.dumps({"error": {"message": f"You passed {count} input tokens and requested 1 output tokens. However, "
                                            "the model's context length is only 2048 tokens"}})
    with probing(engine, Faults(pages={"/v1/completions": lambda: (400, said)})) as (probe, _):
        found = one(probe)
    assert any("only as far as the window" in text for text in probe.told)
    assert probe.counter.how == "the server's tokenize call"
    assert metrics_of(found) == ["prefill", "decode"]


def test_reasoning_content(engine: int) -> None:
    def piece(_: int, chunk: dict[str, Any]) -> dict[str, Any]:
        for choice in chunk["choices"]:
            if choice["delta"].get("content"):
                choice["delta"]["reasoning_content"] = choice["delta"].pop("content")
        return chunk

    with probing(engine, Faults(piece=piece)) as (probe, _):
        found = one(probe)
    assert any("reasoning" in note for note in found.notes)
    assert found.decode is not None
    assert found.decode.how == "the clock here"


def test_thinking_is_off_and_decoding_greedy(engine: int) -> None:
    faults = Faults()
    with probing(engine, faults) as (probe, _):
        one(probe, 128, 128)
    first, second = (body["messages"][0]["content"].partition("\n")[2] for body in faults.seen[1:])
    assert first == second  # a repetition is the same prompt behind its head
    assert all(body["temperature"] == 0 for body in faults.seen)
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in faults.seen)
    heads = [body["messages"][0]["content"].partition("\n")[0] for body in faults.seen]
    assert len(set(heads)) == len(heads) == 3


def test_an_answer_that_stops_after_one_token(engine: int) -> None:
    faults = Faults(instead=lambda number, body: answering("x", prompt=140) if number in (1, 2) else None)
    with probing(engine, faults) as (probe, told):
        found = one(probe)
    assert any("stopped after 1 tokens" in text for text in told)
    assert found.generated == 1
    assert "decode: only 1 tokens were generated, 512 are needed" in found.refused
    assert "decode" not in metrics_of(found)
    assert probe.harm is None


def test_busy_and_loading(engine: int) -> None:
    pages = iter([(503, '{"error":{"message":"Loading model"}}')] * 2)
    faults = Faults(instead=lambda number, body: (429, {"Retry-After": "7"}, {}) if number == 1 else (
        (503, {}, {}) if number == 0 else None))
    waited: list[float] = []
    with probing(engine, faults, sleep=waited.append) as (probe, told):
        faults.pages["/v1/models"] = lambda: next(pages, (200, '{"data":[{"id":"tiny","max_model_len":2048}]}'))
        found = one(probe)
    assert waited == [2.0, 4.0, 1.0, 7.0]  # twice while it loads, once before it ever answered, then as it asked
    assert sum("loading" in text for text in told) == 3
    assert sum("busy" in text for text in told) == 1
    assert metrics_of(found) == ["prefill", "decode"]


def test_a_server_that_asks_for_no_wait_is_not_hurried(engine: int) -> None:
    waited: list[float] = []
    with probing(engine, Faults(), limits=Limits(10, 40, 60_000), sleep=waited.append) as (probe, _):
        probe.client.get = lambda *_: (_ for _ in ()).throw(  # type: ignore[method-assign]
            Fault("loading", "503", wait=0.0))
        with pytest.raises(ReadError, match="the next try is due in 16 s"):
            probe.greet(None)
    assert waited == [2.0, 4.0, 8.0]


def test_busy_for_longer_than_is_left(engine: int) -> None:
    faults = Faults(instead=lambda number, body: (429, {"Retry-After": "3600"}, {}) if number > 1 else None)
    with probing(engine, faults) as (probe, _):
        one(probe, 128, 128)
    assert len(probe.found) == 1
    assert probe.harm is None
    assert probe.stopped is not None
    assert "3600 s" in probe.stopped


def test_a_dropped_connection_is_asked_again_once(engine: int) -> None:
    with probing(engine, Faults(drop=lambda number, pieces: number == 1 and pieces > 40)) as (probe, _):
        found = one(probe)
    assert metrics_of(found) == ["prefill", "decode"]
    assert any("asked again" in text for text in probe.told)
    with probing(engine, Faults(drop=lambda number, pieces: number in (2, 3) and pieces > 40)) as (probe, _):
        one(probe, 128, 128)
    assert len(probe.found) == 1
    assert probe.harm is not None
    assert "again" in probe.harm


def test_an_error_after_it_was_up(engine: int) -> None:
    faults = Faults(instead=lambda number, body: (500, {}, {"error": {"message": "out of memory"}}) if number > 1
                    else None)
    with probing(engine, faults) as (probe, _):
        one(probe, 128, 256, 512)
    assert len(probe.found) == 1
    assert probe.harm is not None
    assert "out of memory" in probe.harm
    assert len(faults.seen) == 3  # nothing is sent after it


def test_an_error_before_anything_was_answered(engine: int) -> None:
    faults = Faults(instead=lambda number, body: (500, {}, {"error": {"message": "no device"}}))
    with probing(engine, faults) as (probe, _), pytest.raises(ReadError, match="no device"):
        one(probe)


def test_a_server_that_slows_down(engine: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "WORSE", 2)
    monkeypatch.setattr(running, "SLACK", 0.2)
    with probing(engine, Faults(pause=lambda number: 0.2 if number > 1 else 0.0)) as (probe, _):
        start = time.monotonic()
        one(probe, 128, 256, 512)
    assert time.monotonic() - start < 50  # not the 102 s that the slow answer would take
    assert probe.harm is not None
    assert "slower" in probe.harm
    assert len(probe.found) == 1


def test_preemptions(engine: int) -> None:
    counts = iter([3, 3, 5])
    page = "# HELP x y\nvllm:num_preemptions_total{{engine=\"0\"}} {}\nvllm:kv_cache_usage_perc{{a=\"b\"}} 0.25\n"
    faults = Faults(pages={"/metrics": lambda: (200, page.format(next(counts, 5)))})
    with probing(engine, faults) as (probe, _):
        one(probe, 128, 256, 512)
    assert [found.preemptions for found in probe.found] == [0, 2]
    assert probe.harm is not None
    assert "2 preemptions" in probe.harm
    assert metrics_of(probe.found[0]) == ["prefill", "decode"]
    assert metrics_of(probe.found[1]) == []  # a rate that preemptions made is no evidence
    assert (probe.before.preemptions, probe.after.kv_use) == (3, 0.25) if probe.before and probe.after else False


def served(*counts: int) -> Faults:
    """A server that counts so many generated tokens, for whomever, look after look."""
    left = iter(counts)
    return Faults(pages={"/metrics": lambda: (200, f"vllm:generation_tokens_total {next(left, counts[-1])}\n"
                                                   f"vllm:num_requests_running {int(len(counts) == 5)}\n")})


def test_what_was_measured_beside_others_is_no_point(engine: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "OTHERS", 16)
    with probing(engine, served(100, 620, 1132 + 300, 1644 + 300)) as (probe, _):
        one(probe, 128, 256, 512)
    assert [metrics_of(found) for found in probe.found] == [["prefill", "decode"], [], ["prefill", "decode"]]
    assert "decode: others were served meanwhile (300 tokens)" in probe.found[1].refused
    assert probe.harm is None


def test_a_counter_that_lags_behind_tells_of_no_others(engine: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "OTHERS", 16)
    with probing(engine, served(100, 100, 620, 620, 1644)) as (probe, _):
        one(probe, 128, 256, 512)
    assert [metrics_of(found) for found in probe.found] == [["prefill", "decode"]] * 3
    said = "requests of others that ran as it ended, by the server's gauge: 1"
    assert all(said in found.notes for found in probe.found)


def test_a_server_that_counts_its_tokens_was_started_again(engine: int) -> None:
    with probing(engine, served(5000, 5520, 512)) as (probe, _):
        one(probe, 128, 256, 512)
    assert len(probe.found) == 2
    assert "began anew" in str(probe.harm)


def test_a_stream_that_comes_later_than_it_was_made(engine: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SLOWED", 2)
    # the server is said to be quick, so that the test does not hang on how quick it is
    quick = edited(timings={"predicted_per_second": 1e5})
    with probing(engine, Faults(piece=quick)) as (probe, _):
        probe.measure([Leg("ladder", 128, 512), Leg("streams", 128, 256, 2)])
    single, shared = probe.found
    assert metrics_of(single) == ["prefill"]
    assert "something on the way slows the stream down" in single.refused[0]
    assert "100,000 t/s by the server's timings" in single.refused[0]
    assert metrics_of(shared) == []
    assert any("something on the way" in text for text in shared.refused)


def test_counters_that_begin_anew(engine: int) -> None:
    counts = iter([3, 3, 0])
    faults = Faults(pages={"/metrics": lambda: (200, f"vllm:num_preemptions_total {next(counts, 0)}\n")})
    with probing(engine, faults) as (probe, _):
        one(probe, 128, 256, 512)
    assert len(probe.found) == 2
    assert probe.harm is not None
    assert "began anew" in probe.harm
    assert metrics_of(probe.found[1]) == []


def test_counters_are_looked_at_when_a_bound_ends_it(engine: int) -> None:
    counts = iter([3, 3, 7])
    faults = Faults(pages={"/metrics": lambda: (200, f"vllm:num_preemptions_total {next(counts, 7)}\n")})
    with probing(engine, faults, limits=Limits(60, 3, 60_000)) as (probe, _):
        one(probe, 128, 256)
    assert probe.stopped == "--max-requests 3 is reached"
    assert probe.before == Snapshot(preemptions=3)
    assert probe.after == Snapshot(preemptions=7)


def test_one_of_several_fails_and_the_others_are_not_waited_for(engine: int) -> None:
    faults = Faults(pause=lambda number: 0.1 if number > 1 else 0.0)
    faults.instead = lambda number, body: (500, {}, {"error": {"message": "card lost"}}) if number == 3 else None
    with probing(engine, faults) as (probe, _):
        start = time.monotonic()
        one(probe, legs=[Leg("ladder", 128, 512), Leg("streams", 128, 1024, 3), Leg("ladder", 128, 512)])
    assert time.monotonic() - start < 30  # not the 100 s that the other streams would take
    assert probe.harm is not None
    assert "card lost" in probe.harm
    assert len(faults.seen) in (4, 5)  # the last of three may not have been sent yet; nothing is sent after it


def boundary(streams: int) -> list[Leg]:
    """A boundary leg beside a short ladder."""
    return list(ladder(serve.WINDOW, [128], streams=1, boundary=streams, repeat=1))


def with_marker(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
    """A server that finds every marker."""
    found = marker(body)
    return answering(f"It is {found.lower()}", tokens=9, prompt=1900) if found else None


def test_all_markers_come_back(engine: int) -> None:
    faults = Faults(instead=with_marker)
    with probing(engine, faults) as (probe, _):
        one(probe, legs=boundary(3))
    assert probe.harm is None
    assert probe.found[-1].markers == (3, 3)
    assert rows_of(probe.found[-1], SUBJECT) == []
    asked = [marker(body) for body in faults.seen if marker(body)]
    assert len(set(asked)) == 3
    assert not any("not the boundary" in text for text in probe.told)


def test_prompts_that_do_not_fill_the_window_are_no_boundary(engine: int) -> None:
    def instead(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        found = marker(body)
        return answering(f"It is {found}", tokens=9, prompt=1200) if found else None

    with probing(engine, Faults(instead=instead)) as (probe, _):
        one(probe, legs=boundary(2))
    assert probe.found[-1].markers == (2, 2)
    assert any("1,200 tokens" in text and "not the boundary" in text for text in probe.told)


@pytest.mark.parametrize(("answer", "why"), [
    (answering("no idea", tokens=9), "without its marker"),
    (answering("", tokens=1), "stopped after one token"),
    ((429, {}, {}), "was not answered"),
], ids=["wrong", "one token", "busy"])
def test_a_marker_is_missing(engine: int, answer: tuple[int, dict[str, str], Any], why: str) -> None:
    lock, count = threading.Lock(), [0]

    def instead(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        if marker(body) is None:
            return None
        with lock:
            count[0] += 1
            return answer if count[0] == 2 else with_marker(number, body)

    with probing(engine, Faults(instead=instead)) as (probe, _):
        one(probe, legs=[*boundary(3), Leg("ladder", 256, 512)])
    assert probe.found[-1].markers == (2, 3)
    assert probe.harm is not None
    assert why in probe.harm
    assert len(probe.found) == 3  # the leg behind it was not run


def test_markers_of_others(engine: int) -> None:
    seen: list[str] = []
    gate = threading.Barrier(2)

    def instead(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        own = marker(body)
        if own is None:
            return None
        seen.append(own)
        gate.wait(10)
        return answering(next(other for other in seen if other != own), tokens=9)

    with probing(engine, Faults(instead=instead)) as (probe, _):
        one(probe, legs=boundary(2))
    assert probe.found[-1].markers == (0, 2)
    assert probe.harm is not None
    assert "the marker of another" in probe.harm


def test_a_boundary_that_is_refused_with_a_count_is_made_shorter(engine: int) -> None:
    sizes: list[int] = []

    def instead(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        if marker(body) is None:
            return None
        sizes.append(len(body["messages"][0]["content"]))
        if len(sizes) <= 2:
            return 400, {}, {"error": {"message": "prompt: 2,100 prompt tokens does not fit the 2048 token context"}}
        return with_marker(number, body)

    with probing(engine, Faults(instead=instead)) as (probe, _):
        one(probe, legs=boundary(2))
    assert probe.harm is None
    assert probe.found[-1].markers == (2, 2)
    assert max(sizes[2:]) < min(sizes[:2])


def test_fields_that_a_server_refuses_are_left_out(engine: int) -> None:
    refused = ("min_tokens", "chat_template_kwargs", "stream_options")

    def instead(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        bad = next((name for name in refused if name in body), None)
        return None if bad is None else (400, {}, {"error": {"message": f"Unrecognized request argument: {bad}"}})

    faults = Faults(instead=instead)
    with probing(engine, faults) as (probe, _):
        found = one(probe)
    assert [sum(name in body for body in faults.seen) for name in refused] == [1, 2, 3]
    assert any("thinking could not be switched off" in text for text in probe.told)
    assert metrics_of(found) == ["prefill", "decode"]


def test_no_chat_completions(engine: int) -> None:
    faults = Faults(instead=lambda number, body: (404, {}, {}) if "messages" in body else None)
    with probing(engine, faults) as (probe, _):
        found = one(probe)
    assert metrics_of(found) == ["prefill", "decode"]
    assert any("plain completions" in text for text in probe.told)


def test_a_key_is_sent_and_never_shown(
    engine: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    key, out = "correct-horse-battery", tmp_path / "points.csv"
    monkeypatch.setenv("OUR_KEY", key)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def instead(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        return (500, {}, {"error": {"message": f"who gave you {key}?"}}) if number > 1 else None

    faults = Faults(instead=instead)
    words = ["probe", "--engine", "radiance@1.0.13", "--key-env", "OUR_KEY", "--depths", "128,256", "--url"]
    with proxy(engine, faults) as url:
        said = ask(capsys, *words, url, "--out", str(out), "--json")
        faults.seen.clear()
        shown = ask(capsys, *words, url)
    assert said.code == shown.code == 3
    assert set(faults.keys) == {f"Bearer {key}"}
    assert "<secret>" in said.document["harm"]
    for text in (said.out, said.err, shown.out, shown.err, out.read_text(encoding="utf-8")):
        assert key not in text
    assert len(read_points([out]).points) == 2  # what was measured before the harm stays
    assert "first sign of harm" in shown.out
    assert "2 points, not written" in shown.out


def test_a_server_that_wants_a_key(engine: int, capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with proxy(engine, Faults(instead=lambda number, body: (401, {}, {"error": {"message": "no"}}))) as url:
        said = ask(capsys, "probe", "--url", url)
    assert said.code == 2
    assert "OPENAI_API_KEY" in said.err


def test_interrupted(engine: int, tmp_path: Path) -> None:
    out = tmp_path / "points.csv"
    with probing(engine, Faults()) as (probe, _):
        def keep(found: Measured) -> None:
            append(out, rows_of(found, SUBJECT))
            raise KeyboardInterrupt

        probe.keep = keep
        one(probe, 128, 256)
    assert (probe.stopped, probe.harm) == ("interrupted", None)
    assert len(read_points([out]).points) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]


def test_time_is_bounded(engine: int) -> None:
    faults = Faults(pause=lambda number: 0.05 if number > 0 else 0.0)
    with probing(engine, faults, limits=Limits(2.5, 40, 60_000)) as (probe, _):
        start = time.monotonic()
        with pytest.raises(ReadError, match="time allowed is over"):
            one(probe)
    assert time.monotonic() - start < 4


def test_several_models_are_named(engine: int) -> None:
    odd = "hf_abcdefghijklmnop"  # looks like a key, and is what this server calls its model
    models = json.dumps({"data": [{"id": "one", "max_model_len": 99}, {"id": odd, "max_model_len": 1536}]})
    with probing(engine, Faults(pages={"/v1/models": lambda: (200, models)})) as (probe, _):
        with pytest.raises(ReadError, match="one, <secret>"):
            probe.greet(None)
        probe.greet(odd)
    assert (probe.model, probe.window) == (odd, 1536)
