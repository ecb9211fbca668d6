"""Measured speeds: what the shipped rows say, which rows are admitted, and what comes back of a row."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from measurements.config import redact
from measurements.points import REFERENCE, Point, PointsReading, Refusal, read_points, reference_files
from measurements.points.read import COLUMNS, _clear
from measurements.records import Place

GOOD: dict[str, str] = {
    "engine": "radiance", "version": "1.0.13", "model": "qwen3.8-flash-next-w4", "knobs": "tp=2 vram_kv_mib=3543",
    "tokens_in": "43500", "depth": "", "tokens_out": "512", "streams": "", "cache": "cold", "corpus": "code",
    "metric": "prefill", "value": "3397", "unit": "t/s", "rep": "", "date": "2026-10-13", "source": "my probe",
    "note": "",
}


def table(path: Path, *rows: Mapping[str, str], head: str = "") -> Path:
    """A points file of good rows, each with what is said of it instead."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(head)
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(GOOD | dict(row) for row in rows)
    return path


def one(tmp_path: Path, **cells: str) -> Point:
    """The only row, which is admitted."""
    reading = read_points([table(tmp_path / "points.csv", cells)])
    assert not reading.refused
    (point,) = reading.points
    return point


def refused(tmp_path: Path, **cells: str) -> str:
    """Why the only row is refused."""
    reading = read_points([table(tmp_path / "points.csv", cells)])
    assert not reading.points
    (refusal,) = reading.refused
    return refusal.reason


@pytest.fixture(scope="module")
def shipped() -> PointsReading:
    return read_points([REFERENCE])


# --- what comes along ---------------------------------------------------------------------------------------------


def test_the_shipped_rows_by_engine_and_metric(shipped: PointsReading) -> None:
    assert Counter((point.engine, point.metric) for point in shipped.points) == {
        ("radiance", "prefill"): 5 + 2 + 6 + 7,
        ("radiance", "decode"): 5 + 2 + 6 + 1 + 1,
        ("halogen", "prefill"): 15 + 4 + 16,
        ("halogen", "decode"): 17 + 7,
    }
    assert shipped.files == ("reference/halogen.csv", "reference/radiance.csv")
    assert [path.name for path in reference_files()] == ["halogen.csv", "radiance.csv"]


def test_the_counts_in_the_readme_add_up(shipped: PointsReading) -> None:
    readme = (reference_files()[0].parent / "README.md").read_text(encoding="utf-8")
    rows = Counter(point.place.file for point in shipped.points)
    rows.update(refusal.place.file for refusal in shipped.refused)
    section = readme[readme.index("## What comes along"):]
    radiance = re.findall(r"^\| (?:`radiance.csv`)? *\| [^|]*, (\d+) \|", section, re.MULTILINE)
    assert sum(map(int, radiance)) == rows["reference/radiance.csv"] == 38
    halogen = re.search(r"served, (\d+); decode, (\d+); streams at once, (\d+) .*\n.* in (\d+) stretches", section)
    assert halogen is not None
    assert sum(map(int, halogen.groups())) == rows["reference/halogen.csv"] == 59


def test_the_refused_rows_are_the_notes_own_examples(shipped: PointsReading) -> None:
    assert [(refusal.reason, refusal.source) for refusal in shipped.refused] == [
        ("a warm prefix answers from the cache: a false prefill", "operator note 001"),
        *[("a decode rate over 9 generated tokens is noise: 128 at least, 512 preferred", "operator note 001")] * 2,
    ]
    for refusal in shipped.refused:
        assert refusal.place.file == "reference/radiance.csv"


def test_the_stated_pairs_with_both_figures_at_25600(shipped: PointsReading) -> None:
    slab = [(p.knobs["vram_weights_mib"], p.knobs.get("vram_kv_mib"), p.rate, p.source) for p in shipped.points
            if p.metric == "prefill" and "vram_weights_mib" in p.knobs]
    assert slab == [
        ("22208", "6912", 3397, "operator note 001"), ("24000", "5120", 3290, "operator note 001"),
        ("25600", "5120", 3584, "operator note 001"), ("25600", None, 3290, "operator note 003"),
        ("26071", "3543", 4379, "operator note 001"),
    ]
    for point in shipped.points:
        if point.source.startswith("operator note"):
            assert point.version == "1.0.0-1.2.4"
            assert "build known only to lie in 1.0.0 to 1.2.4" in point.labels
            assert point.corpus == ""


def test_decode_of_the_stated_pair(shipped: PointsReading) -> None:
    found = [(p.rate, p.tokens_in, p.tokens_out, p.streams) for p in shipped.points
             if p.metric == "decode" and p.source.startswith("operator note")]
    assert found == [(124.1, 51_500, 512, 1), (94.1, 51_500, 512, 1), (99.0, 43_500, None, 1),
                     (93.3, 197_000, None, 1), (pytest.approx(18.4 / 3), None, None, 3)]


def test_the_settled_boot(shipped: PointsReading) -> None:
    boot = [point for point in shipped.points if point.source == "boot log 1.0.13"]
    assert {point.knobs["vram_weights"] for point in boot} == {"25.27GiB"}
    assert {point.rep for point in boot} == {"1", "2", "3"}
    assert [round(p.rate) for p in boot if p.metric == "prefill" and p.tokens_in == 40_712] == [2038, 2227, 2337]
    assert [p.rate for p in boot if p.metric == "decode" and p.tokens_in == 40_712] == [112.7, 118.4, 105.5]
    assert not any("vram_weights" in point.knobs for point in shipped.points if point.source == "public report A")


def test_the_stretches_add_up_to_the_request(shipped: PointsReading) -> None:
    stretches = [point for point in shipped.points if point.source == "request log 0.17.4"]
    assert len(stretches) == 16
    done, seconds = 0, 0.0
    for point in stretches:
        assert point.depth == done
        assert point.tokens_in is not None
        done += point.tokens_in
        seconds += point.tokens_in / point.rate
    assert (done, stretches[-1].tokens_in) == (261_107, 15_347)
    assert seconds == pytest.approx(264.7)


def test_streams_are_rates_of_one(shipped: PointsReading) -> None:
    streams = [(p.streams, round(p.rate * p.streams, 1), p.knobs.get("mtp_depth")) for p in shipped.points
               if "kv_slots" in p.knobs]
    assert streams == [(1, 41.3, None), (1, 36.5, "0"), (2, 55.2, None), (4, 74.8, None), (8, 87.8, None),
                       (2, 56.5, None), (4, 77.1, None)]


def test_no_shipped_row_says_more_than_is_known(shipped: PointsReading) -> None:
    for point in shipped.points:
        assert point.date == ""
        assert point.tokens_out in (None, 512)
        assert point.source
        assert not re.search(r"seed|shared|/", point.source + point.note)


def test_the_shipped_rows_need_no_reader_of_secrets() -> None:
    code = ("import sys\nfrom measurements.points import read_points\nread_points(['reference'])\n"
            "print(*sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    names = set(done.stdout.split())
    assert "measurements.points.read" in names
    assert names.isdisjoint(("measurements.config", "numpy", "pandas", "scipy", "yaml", "ortools"))


# --- which files ----------------------------------------------------------------------------------------------------


def test_a_file_given_twice_counts_once(tmp_path: Path, shipped: PointsReading) -> None:
    path = table(tmp_path / "points.csv", {})
    again = tmp_path / "again.csv"
    again.symlink_to(path)
    reading = read_points([path, str(path), again, os.path.join(tmp_path, ".", "points.csv")])
    assert len(reading.points) == 1
    assert reading.files == (str(path),)
    assert read_points([REFERENCE, *reference_files(), Path(REFERENCE)]) == shipped


def test_own_points_beside_the_shipped_ones(tmp_path: Path, shipped: PointsReading) -> None:
    path = table(tmp_path / "points.csv", {})
    reading = read_points([path, REFERENCE])
    assert reading.files == (str(path), *shipped.files)
    assert reading.points[1:] == shipped.points
    assert reading.points[0].place == Place(str(path), 2)


# --- cells ----------------------------------------------------------------------------------------------------------


def test_everything_about_a_row(tmp_path: Path) -> None:
    path = table(tmp_path / "points.csv", {
        "engine": " Halogen-Flash-Server ", "version": "v0.17", "knobs": " max-tok=16384   KV_SLOTS=1",
        "tokens_in": "43_500", "depth": "100", "tokens_out": "600", "streams": "2", "cache": "Cold",
        "metric": "DECODE_TOTAL", "value": "20", "rep": "2", "note": "says \"yes\",  twice"})
    assert read_points([path]).points == (Point(
        engine="halogen", version="0.17.0", model="qwen3.8-flash-next-w4", metric="decode", rate=10.0, tokens_in=43_500,
        depth=100, tokens_out=600, streams=2, cache="cold", corpus="code",
        knobs={"max_tok": "16384", "kv_slots": "1"}, date="2026-10-13", source="my probe", rep="2",
        note="says \"yes\", twice", place=Place(str(path), 2)),)


@pytest.mark.parametrize(("head", "ends"), [("", "\n"), ("\ufeff", "\r\n"), ("# a comment\n\n", "\n"), ("", "\r")])
def test_lines_are_counted_as_they_stand(tmp_path: Path, head: str, ends: str) -> None:
    names = list(reversed(COLUMNS))
    lines = [" , ".join(names), "# said, \"of the rows", "", "\t", ",,,,",
             " , ".join(f'"{GOOD[name]}" ' for name in names), ""]
    path = tmp_path / "points.csv"
    path.write_bytes((head + ends.join(lines)).encode())
    (point,) = read_points([path]).points
    assert point.place.line == 6 + head.count("\n")
    assert point.model == GOOD["model"]


def test_optional_columns_may_be_missing(tmp_path: Path) -> None:
    names = [name for name in COLUMNS if name not in ("depth", "rep", "note")]
    path = tmp_path / "points.csv"
    path.write_text(",".join(names) + "\n" + ",".join(GOOD[name] for name in names) + "\n", encoding="utf-8")
    (point,) = read_points([path]).points
    assert (point.depth, point.rep, point.note) == (0, "", "")


def test_blank_columns_of_a_spreadsheet_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(",".join(COLUMNS) + ",,\n" + ",".join(GOOD[name] for name in COLUMNS) + ",,\n", encoding="utf-8")
    assert len(read_points([path]).points) == 1


@pytest.mark.parametrize(("written", "version", "label"), [
    ("", "", "version not stated"), ("1.0.13", "1.0.13", None), ("v1.0.13", "1.0.13", None), ("1.1", "1.1.0", None),
    ("9.9.9", "9.9.9", None), ("1.0.0-1.2.4", "1.0.0-1.2.4", "build known only to lie in 1.0.0 to 1.2.4"),
    ("v1.0.0 – v1.0.13", "1.0.0-1.0.13", "build known only to lie in 1.0.0 to 1.0.13"),
    ("1.0.13-1.0.13", "1.0.13", None),
])
def test_versions(tmp_path: Path, written: str, version: str, label: str | None) -> None:
    point = one(tmp_path, version=written)
    assert point.version == version
    assert point.labels == (() if label is None else (label,))


@pytest.mark.parametrize(("metric", "value", "unit", "rate"), [
    ("prefill", "3397", "t/s", 3397), ("prefill", "3_397.5", "tok/s", 3397.5), ("prefill", "1e3", "tokens/s", 1000),
    ("prefill", ".5", "tok_per_s", 0.5), ("prefill", "10", "s", 4350), ("prefill", "0.25", "ms/token", 4000),
    ("decode", "2", "s", 256), ("decode", "10", "ms/t", 100), ("decode", "10", "MS/Tok", 100),
])
def test_every_unit_becomes_tokens_a_second(tmp_path: Path, metric: str, value: str, unit: str, rate: float) -> None:
    assert one(tmp_path, metric=metric, value=value, unit=unit).rate == pytest.approx(rate)


@pytest.mark.parametrize(("unit", "value"), [("t/s", "60"), ("ms/token", "16.6666667")])
def test_a_sum_over_streams_is_divided_by_them(tmp_path: Path, unit: str, value: str) -> None:
    point = one(tmp_path, metric="decode-total", streams="3", unit=unit, value=value)
    assert (point.metric, point.streams) == ("decode", 3)
    assert point.rate == pytest.approx(20)


# --- probe rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", "null", "None", "0", "0.00", "0e5", "-0"])
def test_no_rate_is_refused(tmp_path: Path, value: str) -> None:
    assert refused(tmp_path, value=value) == "null or zero: the server gave no rate"


@pytest.mark.parametrize("metric", ["decode", "decode-total"])
@pytest.mark.parametrize("tokens", ["0", "9", "127"])
def test_a_rate_over_few_tokens_is_refused(tmp_path: Path, tokens: str, metric: str) -> None:
    reason = refused(tmp_path, metric=metric, tokens_out=tokens, streams="2")
    assert reason == f"a decode rate over {tokens} generated tokens is noise: 128 at least, 512 preferred"


@pytest.mark.parametrize(("tokens", "labels"), [
    ("128", ("over 128 generated tokens (512 preferred)",)), ("511", ("over 511 generated tokens (512 preferred)",)),
    ("512", ()), ("", ("generated tokens not stated",)),
])
def test_rates_over_more_tokens_are_admitted(tmp_path: Path, tokens: str, labels: tuple[str, ...]) -> None:
    assert one(tmp_path, metric="decode", tokens_out=tokens).labels == labels


def test_how_few_tokens_a_prefill_generated_does_not_matter(tmp_path: Path) -> None:
    assert one(tmp_path, tokens_out="1").labels == ()
    assert one(tmp_path, tokens_out="").labels == ()


def test_a_warm_prefill_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, cache="warm") == "a warm prefix answers from the cache: a false prefill"
    assert one(tmp_path, cache="warm", metric="decode").cache == "warm"
    assert one(tmp_path, cache="").labels == ("cold or warm not stated",)
    assert one(tmp_path, cache="", metric="decode").labels == ()


def test_a_prefill_of_unknown_length_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, tokens_in="").startswith("prompt tokens not stated")
    point = one(tmp_path, tokens_in="", depth="32768")
    assert (point.tokens_in, point.depth, point.labels) == (None, 32_768, ("prompt tokens not stated",))
    assert one(tmp_path, tokens_in="", metric="decode").labels == ("context not stated",)


def test_corpora_are_not_compared(tmp_path: Path) -> None:
    assert one(tmp_path, corpus="", metric="decode").labels == (
        "corpus not stated: comparable within its own source only",)
    assert one(tmp_path, corpus="").labels == ()


def test_all_labels_of_a_poor_row(tmp_path: Path) -> None:
    assert one(tmp_path, version="", tokens_in="", tokens_out="", corpus="", cache="", metric="decode").labels == (
        "version not stated", "context not stated", "generated tokens not stated",
        "corpus not stated: comparable within its own source only")


# --- secrets --------------------------------------------------------------------------------------------------------

KEY = "sk-live-4f8Kq2Xv9Rt4Yw7Zb1Nc6"


@pytest.mark.parametrize("cells", [
    {"note": f"with {KEY}"}, {"source": f"probe {KEY}"}, {"corpus": KEY}, {"model": f"https://me:{KEY}@host/w4"},
    {"rep": KEY}, {"knobs": f"tp=2 api_key={KEY}"}, {"knobs": f"tp=2 tp_wire={KEY}"},
])
def test_secrets_are_not_kept(tmp_path: Path, cells: dict[str, str]) -> None:
    point = one(tmp_path, **cells)
    assert KEY not in repr(point)
    assert "<secret>" in repr(point)


@pytest.mark.parametrize("note", ["password: opensesame", "--api-key opensesame", "DB_PASS=opensesame",
                                  "Authorization: Bearer opensesame1"])
def test_words_that_are_secret_by_their_name(tmp_path: Path, note: str) -> None:
    assert "opensesame" not in repr(one(tmp_path, note=note))
    assert "opensesame" not in repr(one(tmp_path, knobs="tp=2 my_password=opensesame num_speculative_tokens=2"))


_PIECES = st.sampled_from([
    "sk-abcdef123", "ghp_abcdef12", "hf_abcdef123", "glpat-abcdef", "xoxb-abcdef", "AKIAABCDEFGH1234", "://me:pw@h",
    "Bearer abcdef1", "basic abcdef1", "--token", "-pw", "api", "Key", "pass", "PASS", "word", "token", "tokens",
    "auth", "cookie", "jwt", "secret", "credential", "=", ":", "'", '"', " ", "_", "-", ".", "x", "7",
    "a1B2c3D4e5F6g7H8i9J0k1L2", "-----BEGIN PRIVATE KEY-----",
])


@given(st.lists(_PIECES, max_size=6).map("".join))
@example("tokenS=abc")
def test_nothing_that_would_be_redacted_is_passed_over(text: str) -> None:
    assert _clear(text) == redact(text)


# --- there and back -------------------------------------------------------------------------------------------------

_WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20).map(
    lambda text: " ".join(text.split())).filter(str.isprintable).filter(lambda text: _clear(text) == text)
_NAMES = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True).filter(lambda n: _clear(f"{n}=1") == f"{n}=1")
_TOKENS = st.none() | st.integers(1, 10**9)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, str]:
    """A row that is read, admitted or not."""
    def whole(value: int | None) -> str:
        return "" if value is None else str(value)

    metric = draw(st.sampled_from(["prefill", "decode", "decode-total"]))
    streams = draw(st.integers(1, 64) if metric == "decode-total" else st.none() | st.integers(1, 64))
    return {
        "engine": draw(st.sampled_from(["radiance", "halogen"])),
        "version": draw(st.sampled_from(["", "1.0.13", "1.0.0-1.2.4"])),
        "model": draw(_WORDS.filter(bool)),
        "knobs": " ".join(f"{name}={draw(st.integers(0, 10**6))}" for name in draw(st.sets(_NAMES, max_size=3))),
        "tokens_in": whole(draw(_TOKENS)), "depth": whole(draw(_TOKENS)), "tokens_out": whole(draw(_TOKENS)),
        "streams": whole(streams), "cache": draw(st.sampled_from(["", "cold", "warm"])), "corpus": draw(_WORDS),
        "metric": metric, "value": repr(draw(st.floats(0.1, 1e5))), "unit": draw(st.sampled_from(["t/s", "ms/token"])),
        "rep": draw(_WORDS), "date": draw(st.just("") | st.dates().map(str)), "source": draw(_WORDS.filter(bool)),
        "note": draw(_WORDS),
    }


@given(rows())
def test_a_written_row_comes_back(tmp_path_factory: pytest.TempPathFactory, row: dict[str, str]) -> None:
    path = table(tmp_path_factory.getbasetemp() / "written.csv", row)
    reading = read_points([path])
    assert len(reading.points) + len(reading.refused) == 1
    found: Point | Refusal = reading.points[0] if reading.points else reading.refused[0]
    assert found.source == row["source"]
    assert found.place.line is not None
    few = row["tokens_out"] != "" and int(row["tokens_out"]) < 128
    if row["metric"] == "prefill":
        admitted = row["cache"] != "warm" and bool(row["tokens_in"] or row["depth"])
    else:
        admitted = not few
    assert isinstance(found, Point if admitted else Refusal)
    if not isinstance(found, Point):
        return
    rate = float(row["value"]) if row["unit"] == "t/s" else 1000 / float(row["value"])
    assert found.rate == pytest.approx(rate / (found.streams if row["metric"] == "decode-total" else 1))
    back = {
        "engine": found.engine, "version": found.version, "model": found.model,
        "knobs": " ".join(f"{name}={value}" for name, value in found.knobs.items()),
        "tokens_in": "" if found.tokens_in is None else str(found.tokens_in),
        "tokens_out": "" if found.tokens_out is None else str(found.tokens_out), "cache": found.cache,
        "corpus": found.corpus, "rep": found.rep, "date": found.date, "note": found.note,
    }
    assert back == {name: row[name] for name in back}
    assert (found.depth, found.streams) == (int(row["depth"] or 0), int(row["streams"] or 1))
