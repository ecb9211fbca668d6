"""Points sorted into laws: what the reference says of the slab, what may never be compared, and what a law answers."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from measurements.laws.law import PRINTED, Law
from measurements.laws.studies import laws_of, model_word
from measurements.points import REFERENCE, read_points
from measurements.points.read import COLUMNS
from measurements.records import ReadError

ROW: dict[str, str] = {
    "engine": "radiance", "version": "1.0.13", "model": "qwen3.8-flash-next-w4", "tokens_in": "40000", "cache": "cold",
    "metric": "prefill", "unit": "t/s", "source": "my probe",
}
SLAB = "vram_weights_mib"
W4, W4A8 = "qwen3.8-flash-next-w4", "qwen3.8-flash-next-w4a8"


def laws(folder: Path, *rows: Mapping[str, object]) -> tuple[Law, ...]:
    """The laws of rows that say this instead."""
    path = folder / "points.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="")
        writer.writeheader()
        for place, row in enumerate(rows):
            writer.writerow({**ROW, "rep": str(place), **{name: str(value) for name, value in row.items()}})
    return laws_of(read_points([path]).points)


def one(folder: Path, *rows: Mapping[str, object]) -> Law:
    """The only law of these rows."""
    (law,) = laws(folder, *rows)
    return law


def knobs(**values: object) -> str:
    """Knobs as a points file states them."""
    return " ".join(f"{name}={value}" for name, value in values.items())


@pytest.fixture(scope="module")
def reference() -> tuple[Law, ...]:
    return laws_of(read_points([REFERENCE]).points)


@pytest.fixture(scope="module")
def slab(reference: tuple[Law, ...]) -> Law:
    """The prefill law of the stated pair."""
    (law,) = [law for law in reference if [axis.name for axis in law.varying] == [SLAB] and law.metric == "prefill"]
    return law


# --- what comes along ------------------------------------------------------------------------------------------------


def test_the_slab_law_of_the_reference(slab: Law) -> None:
    assert (slab.engine, slab.version, slab.metric, len(slab.points), slab.arms) == (
        "radiance", "1.0.0-1.2.4", "prefill", 5, 4)
    assert slab.range_of(SLAB) == (22_208, 26_071)
    assert slab.held["depth"] == 43_500 / 2
    assert slab.held["request"] == 43_500
    assert not slab.left_out
    assert slab.fit.noise.repeats == 0


def test_its_contradiction_is_reported_with_both_sources(slab: Law) -> None:
    (found,) = slab.contradictions
    assert {(point.rate, point.source) for point in (found.first, found.second)} == {
        (3584, "operator note 001"), (3290, "operator note 003")}
    assert {point.knobs[SLAB] for point in (found.first, found.second)} == {"25600"}
    for part in ("3,584", "3,290", "operator note 001", "operator note 003", "reference/radiance.csv:"):
        assert part in found.text


def test_it_does_not_separate_the_pool_and_the_sequences(slab: Law) -> None:
    pool, sequences = slab.not_separated
    assert pool.startswith(f"vram_kv_mib moved along with {SLAB}")
    assert "idle cache is lent to the slab" in pool
    assert "26,071 with 3,543" in pool
    assert sequences.startswith(f"max_num_seqs moved along with {SLAB}")


def test_it_is_undecided_between_a_jump_and_gradual_forms(slab: Law) -> None:
    weights = {rival.name: rival.weight for rival in slab.fit.rivals}
    assert weights["hinge"] > 0.1
    assert weights["threshold"] > 0.1
    assert slab.fit.decided is None
    assert slab.verdict.startswith("not decided between ")
    share = slab.shares[SLAB]
    assert sum(share.values()) == pytest.approx(1)
    assert share["jump"] == pytest.approx(weights["threshold"])
    assert share["none"] == pytest.approx(weights["constant"])


def test_its_interval_holds_what_was_measured_at_the_largest_slab(slab: Law) -> None:
    found = slab.predict({SLAB: 26_071})
    assert found.level == 0.9
    assert 3_000 < found.low < 4_379 < found.high < 5_600
    level = slab.predict({SLAB: 23_000})
    assert level.low < 3_290 < 3_397 < level.high
    assert level.median == pytest.approx(3_390, rel=0.05)
    assert level.high < found.median


def test_no_law_of_the_reference_mixes_what_may_not_be_compared(reference: tuple[Law, ...]) -> None:
    for law in reference:
        assert {(p.engine, p.version, model_word(p.model), p.metric) for p in law.points} == {
            (law.engine, law.version, law.model, law.metric)}
        if law.corpus:
            assert len({point.corpus or point.source for point in law.points}) == 1
    counted = sum(len(law.points) + len(law.left_out) for law in reference)
    assert counted == len(read_points([REFERENCE]).points)


def test_every_law_of_the_reference_can_be_asked(reference: tuple[Law, ...]) -> None:
    for law in reference:
        if law.why_not:
            assert len(law.points) < 2 or not law.varying
            continue
        at = {name: float(np.mean([v for v in values if v is not None])) for name, values in law.values.items()
              if any(value is not None for value in values)}
        for axis in law.varying:
            if axis.choices:
                at[axis.name] = law.values[axis.name][0] or 0.0
        found = law.predict(at)
        rates = [point.rate for point in law.points]
        assert 0.4 * min(rates) < found.low < found.median < found.high < 2.5 * max(rates)
        assert np.all(np.isfinite(law.fit.left_out_errors))


# --- what makes another law ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "other"), [
    ("version", "1.0.12"), ("version", "1.0.0-1.2.4"), ("version", ""), ("model", W4A8), ("model", "another"),
    ("metric", "decode"),
])
def test_another_version_model_or_metric_is_another_law(tmp_path: Path, column: str, other: str) -> None:
    rows: list[dict[str, object]] = [
        {"knobs": knobs(tp=2, vram_weights_mib=mib), "value": rate, "tokens_out": "512", "corpus": "code", **more}
        for mib, rate in ((22_000, 3_000), (24_000, 3_500)) for more in ({}, {column: other})]
    found = laws(tmp_path, *rows)
    assert len(found) == 2
    for law in found:
        assert len(law.points) == 2
        assert len({(p.version, p.model, p.metric) for p in law.points}) == 1


@pytest.mark.parametrize(("one_name", "other", "same"), [
    (W4, f"/models/{W4}.rad", True), (W4, W4.upper(), True), (W4, f"C:\\models\\{W4}.gguf", True), (W4, W4A8, False),
    (W4, "w4", False), (W4A8, f"{W4A8}.rad", True),
])
def test_a_model_goes_by_its_files_name(one_name: str, other: str, same: bool) -> None:
    assert (model_word(one_name) == model_word(other)) is same


def test_another_corpus_is_another_law_for_decode_alone(tmp_path: Path) -> None:
    def rows(metric: str) -> list[dict[str, object]]:
        return [{"metric": metric, "corpus": corpus, "tokens_in": tokens, "tokens_out": "512", "value": "100"}
                for corpus in ("code", "prose") for tokens in (1_000, 40_000)]

    assert [(law.corpus, len(law.points)) for law in laws(tmp_path, *rows("decode"))] == [("code", 2), ("prose", 2)]
    assert [(law.corpus, len(law.points)) for law in laws(tmp_path, *rows("prefill"))] == [("", 4)]


def test_corpora_that_nobody_names_are_their_sources_own(tmp_path: Path) -> None:
    found = laws(tmp_path, *({"metric": "decode", "source": source, "tokens_in": tokens, "tokens_out": "512",
                              "value": "100"} for source in ("note A", "note B") for tokens in (1_000, 40_000)))
    assert [law.corpus for law in found] == ["corpus of note A", "corpus of note B"]


@pytest.mark.parametrize("other", ["tp=1", "tp=2 tp_wire=wht6"])
def test_another_value_of_a_key_is_another_law(tmp_path: Path, other: str) -> None:
    found = laws(tmp_path, *({"knobs": stated, "tokens_in": tokens, "value": "3000"}
                             for stated in ("tp=2", other) for tokens in (1_000, 40_000)))
    assert [len(law.points) for law in found] == [2, 2]


def test_a_stated_pool_is_another_law_than_a_derived_split(tmp_path: Path) -> None:
    found = laws(tmp_path, {"knobs": knobs(tp=2, vram_weights_mib=24_000), "value": "3000"},
                 {"knobs": knobs(tp=2, vram_weights="24.00GiB", expert_vs_cache_ratio=0.8), "value": "3100"},
                 {"knobs": knobs(tp=2), "value": "3200"})
    assert [law.conditions[SLAB] for law in found] == ["stated", "derived", ""]


# --- axes ------------------------------------------------------------------------------------------------------------


def test_stretches_of_a_prompt_do_not_tell_what_a_request_costs(tmp_path: Path, reference: tuple[Law, ...]) -> None:
    law = one(tmp_path, *({"tokens_in": 16_384, "depth": depth, "value": 1_000 - depth / 1_000}
                          for depth in (0, 16_384, 32_768)), {"tokens_in": 10_000, "depth": 49_152, "value": "950"})
    assert [axis.name for axis in law.varying] == ["depth"]
    assert law.values["depth"] == (8_192, 24_576, 40_960, 54_152)
    assert law.held["request"] is None
    (stretches,) = [law for law in reference if {point.source for point in law.points} == {"request log 0.17.4"}]
    assert [axis.name for axis in stretches.varying] == ["depth"]
    assert stretches.arms == 16


def test_whole_prompts_do(tmp_path: Path) -> None:
    law = one(tmp_path, *({"tokens_in": tokens, "value": 3_000} for tokens in (1_000, 8_000, 64_000)))
    assert [axis.name for axis in law.varying] == ["depth", "request"]
    assert not law.not_separated


def test_a_point_that_lacks_what_the_others_differ_in_is_left_out_with_its_reason(tmp_path: Path) -> None:
    law = one(tmp_path, *({"metric": "decode", "tokens_out": "512", "corpus": "code", "value": rate,
                           "tokens_in": tokens} for tokens, rate in ((1_000, 100), (40_000, 90), ("", 95))))
    assert len(law.points) == 2
    ((point, why),) = law.left_out
    assert point.rate == 95
    assert point.place.line == 4
    assert why == "depth is not stated, and it differs among the others"
    assert all(len(values) == 2 for values in law.values.values())


def test_a_point_that_lacks_what_the_others_agree_on_counts_and_is_labelled(tmp_path: Path) -> None:
    law = one(tmp_path, *({"metric": "decode", "tokens_out": "512", "corpus": "code", "value": rate,
                           "streams": streams, "tokens_in": tokens}
                          for tokens, streams, rate in ((8_000, 1, 100), (8_000, 2, 80), ("", 4, 60))))
    assert len(law.points) == 3
    assert law.held["depth"] == 8_000
    assert "1 of 3 points do not state depth; the others agree on it" in law.labels


def test_a_size_by_its_row_is_on_the_knobs_axis(tmp_path: Path) -> None:
    law = one(tmp_path, *({"knobs": knobs(tp=2, expert_vs_cache_ratio=ratio, vram_weights=f"{gib}GiB"), "value": rate}
                          for ratio, gib, rate in ((0.7, "22.00", 3_000), (0.8, "24.00", 3_400))))
    assert law.values[SLAB] == pytest.approx((22 * 1024, 24 * 1024), abs=6)
    low, high = law.range_of(SLAB) or (0, 0)
    assert (low, high) == pytest.approx((22 * 1024 - PRINTED, 24 * 1024 + PRINTED), abs=6)


def test_fully_crossed_knobs_are_separated(tmp_path: Path) -> None:
    crossed = [(mib, seqs) for mib in (22_000, 24_000, 26_000) for seqs in (2, 8)]
    law = one(tmp_path, *({"knobs": knobs(tp=2, vram_weights_mib=mib, max_num_seqs=seqs), "value": mib / 8}
                          for mib, seqs in crossed))
    assert law.not_separated == ()
    along = one(tmp_path, *({"knobs": knobs(tp=2, vram_weights_mib=mib, max_num_seqs=seqs), "value": mib / 8}
                            for mib, seqs in crossed[:-1]))
    (text,) = along.not_separated
    assert text.startswith(f"max_num_seqs moved along with {SLAB}")


def test_two_axes_are_separated_only_where_each_moves_alone(tmp_path: Path) -> None:
    def law_at(*places: tuple[int, int]) -> Law:
        return one(tmp_path, *({"metric": "decode", "corpus": "code", "tokens_out": "512", "tokens_in": tokens,
                                "streams": streams, "value": 100 / streams} for tokens, streams in places))

    assert law_at((1_000, 1), (9_000, 1), (1_000, 4), (9_000, 4)).not_separated == ()
    assert law_at((1_000, 1), (9_000, 1), (1_000, 4)).not_separated == ()
    (text,) = law_at((1_000, 1), (9_000, 4)).not_separated
    assert "moved together" in text
    assert "depth" in text
    assert "streams" in text


def test_repeats_by_one_source_are_noise_and_not_a_contradiction(tmp_path: Path) -> None:
    def law_of(*sources: str) -> Law:
        return one(tmp_path, *({"source": source, "tokens_in": tokens, "value": rate} for source, tokens, rate in zip(
            sources, (1_000, 1_000, 40_000, 40_000), (3_000, 4_000, 2_500, 2_500), strict=True)))

    assert law_of("a", "a", "a", "a").contradictions == ()
    assert law_of("a", "a", "a", "a").fit.noise.repeats == 2
    (found,) = law_of("a", "b", "a", "a").contradictions
    assert {found.first.source, found.second.source} == {"a", "b"}


# --- what a points file gets wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("engine", "stated", "said"), [
    ("radiance", "tp=2 vram_weight_mib=24000", "did you mean vram_weights_mib?"),
    ("radiance", "max_model_length=200000", "did you mean max_model_len?"),
    ("radiance", "zzz=1", "its knobs: "),
    ("halogen", "max_tokk=16384", "did you mean max_tok?"),
    ("radiance", "kv_cache_dtype=fp9", "choose bf16, fp8"),
    ("radiance", f"{SLAB}=24000.5", "not a whole number of MiB"),
    ("radiance", f"{SLAB}=24GiB", "not a whole number of MiB"),
    ("radiance", "vram_weights=24.0parsec", "vram_weights"),
    ("halogen", "max_tok=-5", "not a whole number of tokens"),
])
def test_a_knob_or_value_that_is_none_is_an_error_with_its_line(tmp_path: Path, engine: str, stated: str,
                                                                said: str) -> None:
    version = "1.0.13" if engine == "radiance" else "0.14.0"
    with pytest.raises(ReadError) as caught:
        laws(tmp_path, {"engine": engine, "version": version, "value": "3000"},
             {"engine": engine, "version": version, "value": "3000", "knobs": stated})
    assert said in str(caught.value)
    assert caught.value.file is not None
    assert caught.value.file.endswith("points.csv")
    assert caught.value.line == 3


def test_knobs_of_every_described_version_are_known(tmp_path: Path) -> None:
    for version in ("1.0.5", "1.2.0", "1.8.1", "0.9", ""):
        law = one(tmp_path, {"version": version, "knobs": knobs(tp=2, max_num_seqs=2), "value": "3000"})
        assert law.why_not.startswith("one point")


def test_one_setting_is_no_law(tmp_path: Path) -> None:
    law = one(tmp_path, {"value": "3000"}, {"value": "3100"})
    assert law.why_not == "all points are at one setting: nothing tells what a change would do"
    assert law.varying == ()
    assert law.arms == 1
    assert law.predict({}).low < 3_050 < law.predict({}).high
    assert laws_of([]) == ()


# --- what a law answers ----------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Law:
    """Prefill at three slabs and two prompts."""
    return one(tmp_path, *({"knobs": knobs(tp=2, vram_weights_mib=mib, kv_cache_dtype="fp8"), "tokens_in": tokens,
                            "value": 1e6 / (300 + (26_000 - mib) / 40 + tokens / 1_000)}
                           for mib in (22_000, 24_000, 26_000) for tokens in (8_000, 40_000)))


def test_a_prompts_workload(pair: Law, tmp_path: Path) -> None:
    assert pair.workload(20_000, None) == {"depth": 10_000, "request": 20_000}
    assert pair.workload(None, 3) == {}
    decode = one(tmp_path, {"metric": "decode", "tokens_out": "512", "corpus": "code", "value": "100"})
    assert decode.workload(20_000, 3) == {"depth": 20_000, "streams": 3}
    assert decode.workload(None, None) == {}


def test_what_is_usual(pair: Law, tmp_path: Path) -> None:
    assert pair.usual_prompt == 40_000
    assert pair.usual_streams == 1
    decode = one(tmp_path, *({"metric": "decode", "corpus": "code", "tokens_out": "512", "value": "50",
                              "tokens_in": tokens, "streams": streams}
                             for tokens, streams in ((1_000, 4), (1_000, 4), (9_000, 1), (5_000, 1))))
    assert (decode.usual_prompt, decode.usual_streams) == (1_000, 1)


@pytest.mark.parametrize(("at", "prompt", "said"), [
    ({SLAB: 22_000}, 8_000, []),
    ({SLAB: 26_000, "kv_cache_dtype": 1}, 40_000, []),
    ({SLAB: 21_999}, None, [f"{SLAB} 21,999: measured 22,000 to 26,000 MiB"]),
    ({SLAB: 26_001}, None, [f"{SLAB} 26,001: measured 22,000 to 26,000 MiB"]),
    ({"kv_cache_dtype": 0}, None, ["kv_cache_dtype bf16: measured fp8"]),
    ({}, 7_600, []), ({}, 42_000, []),
    ({}, 7_599, ["a prompt of 7,599 tokens: measured 8,000 to 40,000"]),
    ({}, 42_001, ["a prompt of 42,001 tokens: measured 8,000 to 40,000"]),
    ({SLAB: 1, "kv_cache_dtype": 0}, 10**6, ["a prompt of 1,000,000", SLAB, "kv_cache_dtype"]),
])
def test_outside(pair: Law, at: dict[str, float], prompt: int | None, said: list[str]) -> None:
    found = pair.outside(at, prompt=prompt)
    assert len(found) == len(said)
    for text, start in zip(found, said, strict=True):
        assert text.startswith(start)


def test_a_prompt_is_judged_against_points_that_state_one(tmp_path: Path) -> None:
    """A point without a context, first in the file, moves no end."""
    law = one(tmp_path, *({"metric": "decode", "corpus": "code", "tokens_out": "512", "value": rate,
                           "tokens_in": tokens, "depth": depth} for tokens, depth, rate in (
                               ("", "", 80), (50_000, "", 90), (100, 20_000, 95), (500, 60_000, 85))))
    assert law.outside({}, prompt=20_100) == ()
    assert law.outside({}, prompt=60_500) == ()
    for prompt in (100, 500, 15_000, 70_000):
        assert law.outside({}, prompt=prompt) == (f"a context of {prompt:,} tokens: measured 20,100 to 60,500",)


def test_a_prompt_is_judged_against_the_depth_of_stretches(tmp_path: Path) -> None:
    law = one(tmp_path, *({"tokens_in": 16_000, "depth": depth, "value": "1000"} for depth in (0, 100_000, 200_000)))
    assert law.outside({}, prompt=16_000) == ()
    assert law.outside({}, prompt=216_000) == ()
    assert law.outside({}, prompt=15_000) != ()
    deep = one(tmp_path, *({"tokens_in": 16_000, "depth": depth, "value": "1000"} for depth in (100_000, 300_000)))
    assert deep.outside({}, prompt=116_000) != ()
    assert deep.outside({}, prompt=216_000) == ()


def test_a_prediction_is_near_what_was_measured(pair: Law) -> None:
    for point, mib, depth in zip(pair.points, pair.values[SLAB], pair.values["depth"], strict=True):
        assert mib is not None
        assert depth is not None
        found = pair.predict({SLAB: mib, "depth": depth, "request": depth * 2})
        assert found.low < point.rate < found.high
        assert found.median == pytest.approx(point.rate, rel=0.03)
    wide, narrow = (pair.predict({SLAB: 23_000, **pair.workload(20_000, None)}, level) for level in (0.98, 0.5))
    assert wide.low < narrow.low < narrow.median == wide.median < narrow.high < wide.high
    with pytest.raises(KeyError):
        pair.predict({SLAB: 23_000})


def test_rates_along_an_axis(pair: Law) -> None:
    at = {**pair.workload(8_000, None), SLAB: 22_000.0}
    along = pair.rates(at, SLAB, [22_000, 24_000, 26_000], level=0.5)
    assert along == sorted(along)
    assert along[0] == pytest.approx(pair.predict(at).median)
    (here,) = pair.rates(at, level=0.5)
    assert here == along[0]
    each = [pair.rates(at, rival=place)[0] for place in range(len(pair.fit.rivals))]
    weights = [rival.weight for rival in pair.fit.rivals]
    assert pair.rates(at)[0] == pytest.approx(np.average(each, weights=weights), rel=0.01)
    drawn = pair.drawn(at, 4_000)
    assert float(np.quantile(drawn, 0.05)) == pytest.approx(pair.predict(at).low, rel=0.02)
    assert pair.drawn(at, 5) == pair.drawn(at, 5)


def test_one_more_point(slab: Law) -> None:
    more = slab.with_point({SLAB: 25_000.0}, 4_000.0)
    assert (len(more.points), more.arms, len(slab.points), slab.arms) == (6, 5, 5, 4)
    assert more.points[-1].rate == 4_000
    assert more.values[SLAB][-1] == 25_000
    assert more.values["depth"][-1] == slab.held["depth"]
    assert more.name == slab.name
    before, after = ({rival.name: rival.weight for rival in law.fit.rivals} for law in (slab, more))
    # fast already at 25,000 MiB, slower at 25,600: no jump behind the latter
    assert after["threshold"] < before["threshold"]
    sure = slab
    for rate in (4_350.0, 4_400.0, 4_380.0):
        sure = sure.with_point({SLAB: 26_071.0}, rate)
    assert sure.arms == 4
    assert sure.predict({SLAB: 26_071}).high / sure.predict({SLAB: 26_071}).low < (
        slab.predict({SLAB: 26_071}).high / slab.predict({SLAB: 26_071}).low)


def test_the_order_of_points_changes_no_answer(slab: Law) -> None:
    order = [3, 0, 4, 2, 1]
    other = Law(slab.spec, slab.engine, slab.version, slab.model, slab.corpus, slab.conditions,
                tuple(slab.points[i] for i in order), (),
                {name: tuple(values[i] for i in order) for name, values in slab.values.items()})
    assert [(rival.name, rival.weight) for rival in other.fit.rivals] == [
        (rival.name, rival.weight) for rival in slab.fit.rivals]
    for mib in (22_208, 25_000, 26_071):
        assert other.predict({SLAB: mib}) == slab.predict({SLAB: mib})
    assert len(other.contradictions) == 1
    assert set(other.not_separated) == set(slab.not_separated)
