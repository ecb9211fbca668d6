"""Points files that cannot be read: each error says where, and what would be right."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from measurements.points import read_points
from measurements.points.read import COLUMNS
from measurements.records import ReadError
from tests.measurements.test_points import GOOD, table

HEAD = ",".join(COLUMNS)
ROW = ",".join(GOOD[name] for name in COLUMNS)


def error(path: Path | str) -> ReadError:
    """The error that reading the file ends in."""
    with pytest.raises(ReadError) as caught:
        read_points([path])
    assert caught.value.file == str(path)
    return caught.value


def write(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "points.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- files ----------------------------------------------------------------------------------------------------------


def test_no_file_at_all() -> None:
    with pytest.raises(ReadError, match="no points file is given") as caught:
        read_points([])
    assert caught.value.kind == "usage"


@pytest.mark.parametrize(("data", "said", "line"), [
    (b"", "this file is empty", None),
    (b"\xef\xbb\xbf \r\n", "this file is empty", None),
    (b"engine\n\x00\x01", "binary", 2),
    ("engine,version\n".encode("utf-16"), "binary", 1),
    (b"engine,version\n\nr\xe9sum\xe9\n", "not UTF-8", 3),
    (b"# only a comment\n\n", "no line names the columns", None),
    (HEAD.encode(), "holds no points", None),
    (HEAD.encode() + b"\n# 1\n\n,,,\n", "holds no points", None),
])
def test_files_that_are_no_points(tmp_path: Path, data: bytes, said: str, line: int | None) -> None:
    path = tmp_path / "points.csv"
    path.write_bytes(data)
    found = error(path)
    assert said in found.message
    assert found.line == line
    assert found.kind == "unreadable"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert "no such file" in error(tmp_path / "gone.csv").message
    assert "no such file" in error(str(write(tmp_path, HEAD) / "below.csv")).message
    assert "folder" in error(tmp_path).message
    assert "not a usable file name" in error("points\0.csv").message
    assert "cannot be read" in error("x" * 5000).message


def test_a_file_too_large(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    with path.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    assert "larger than 16 MiB" in error(path).message


# --- columns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("depth", "rep", "note")])
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    names = [column for column in COLUMNS if column != name]
    found = error(write(tmp_path, "# points", ",".join(names), ROW))
    assert found.message == f"column {name} is missing; there are: {', '.join(names)}"
    assert found.line == 2


@pytest.mark.parametrize(("head", "said"), [
    (HEAD.replace("tokens_in", "token_in"), "unknown column 'token_in' (did you mean tokens_in?); known columns: "),
    (HEAD + ",colour", "unknown column 'colour'; known columns: engine, version"),
    (HEAD + ",engine", "column engine stands here twice"),
    (HEAD.replace("model", ""), "column 3 has no name"),
    (ROW, "the first line should name the columns: engine"),
    (HEAD.replace(",", ";"), "the first line should name the columns separated by commas"),
    (HEAD.replace(",", "\t"), "the first line should name the columns separated by commas"),
])
def test_columns_that_do_not_belong(tmp_path: Path, head: str, said: str) -> None:
    found = error(write(tmp_path, "", head, ROW))
    assert said in found.message
    assert found.line == 2


@pytest.mark.parametrize(("row", "said"), [
    (ROW + ",one more", "this row has 18 cells, the header names 17 columns"),
    ("radiance,1.0.13", "this row has 2 cells, the header names 17 columns"),
    (ROW.replace("my probe", '"my probe'), "a double quote is left open"),
    (ROW.replace("my probe", '"my" probe'), "a cell goes on behind its closing quote"),
    (ROW.replace("my probe", "x" * 200_000), "field larger than field limit"),
])
def test_rows_that_are_no_rows(tmp_path: Path, row: str, said: str) -> None:
    found = error(write(tmp_path, HEAD, "", row, ROW, '"'))
    assert said in found.message
    assert found.line == 3


def test_an_open_quote_does_not_swallow_the_rest(tmp_path: Path) -> None:
    reps = [ROW.replace("my probe", f"probe {number}") for number in range(3)]
    found = error(write(tmp_path, HEAD, *reps, ROW + '"said', ROW[:-1] + ',"said', *reps, 'the end"'))
    assert (found.line, found.message[:27]) == (5, "a double quote is left open")


# --- cells ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "cell", "said"), [
    ("engine", "vllm", "engine 'vllm' is not described; known: radiance"),
    ("engine", "", "engine is blank: name the engine"),
    ("version", "new", "version is 'new': write 1.2.3"),
    ("version", "1.0.13-rc1", "version is '1.0.13-rc1': write 1.2.3"),
    ("version", "1.2.4-1.0.0", "the first version of a range is the older one"),
    ("version", "0.3-0.5", "all three numbers at both ends"),
    ("version", "1.0.0-1.0.1-1.0.2", "all three numbers at both ends"),
    ("model", " ", "model is blank: name the model file"),
    ("source", "", "source is blank: say where the figure is from"),
    ("knobs", "tp=2 fast", "knobs: 'fast' is no setting; write NAME=VALUE"),
    ("knobs", "tp=", "knobs: 'tp=' is no setting"),
    ("knobs", "--tp 2", "knobs: '--tp' is no setting"),
    ("knobs", "2=tp", "knobs: '2=tp' is no setting"),
    ("knobs", "max-tok=1 MAX_TOK=2", "knobs: max_tok stands here twice"),
    ("tokens_in", "43,500", "tokens_in is '43,500': a whole number without commas"),
    ("tokens_in", "43.5k", "tokens_in is '43.5k': a whole number"),
    ("tokens_in", "-1", "tokens_in is '-1': a whole number"),
    ("tokens_in", "0", "tokens_in is '0': a prefill has at least 1 token"),
    ("tokens_in", "1" * 13, "no more than 12 digits"),
    ("tokens_in", "٣", "a whole number"),
    ("depth", "deep", "depth is 'deep': a whole number"),
    ("tokens_out", "1e3", "tokens_out is '1e3': a whole number"),
    ("streams", "0", "streams is '0': at least 1"),
    ("streams", "two", "streams is 'two': a whole number"),
    ("cache", "hot", "cache is 'hot': cold, warm, or blank"),
    ("metric", "ttft", "metric is 'ttft': one of prefill, decode, decode-total"),
    ("metric", "", "metric is blank: one of prefill, decode, decode-total"),
    ("metric", "decode-total", "streams is blank: say how many streams share this figure"),
    ("unit", "", "unit is blank: t/s (tokens a second), ms/token, or s"),
    ("unit", "ms", "unit is 'ms': t/s (tokens a second), ms/token, or s"),
    ("value", "fast", "value is 'fast': a plain number such as 3397"),
    ("value", "3,397", "value is '3,397': a plain number such as 3397"),
    ("value", "3397 t/s", "value is '3397 t/s': a plain number such as 3397"),
    ("value", "~3397", "value is '~3397': a plain number"),
    ("value", "nan", "value is 'nan': a plain number"),
    ("value", "inf", "value is 'inf': a plain number"),
    ("value", "-inf", "value is '-inf': a plain number"),
    ("value", "1e999", "value is '1e999': a finite number"),
    ("value", "-3397", "value is '-3397': a speed or a time is above 0"),
    ("value", "9" * 5000, "a finite number"),
    ("date", "13.10.2026", "date is '13.10.2026': write 2026-10-13"),
    ("date", "2026-02-30", "date is '2026-02-30': write 2026-10-13"),
    ("date", "2026-13", "date is '2026-13': write 2026-10-13"),
    ("date", "2026", "date is '2026': write 2026-10-13"),
    ("date", "20261013", "date is '20261013': write 2026-10-13"),
    ("note", "red \x1b[31m", "note holds a character that does not print (U+001B)"),
    ("source", "a\u202eb", "source holds a character that does not print (U+202E)"),
])
def test_cells_that_are_wrong(tmp_path: Path, column: str, cell: str, said: str) -> None:
    found = error(table(tmp_path / "points.csv", {"value": "1"}, {column: cell}, {"value": "2"}))
    assert said in found.message
    assert found.line == 3
    assert len(found.message) < 400


@pytest.mark.parametrize(("cells", "said"), [
    ({"tokens_in": "", "depth": "0"}, "tokens_in is blank: seconds say nothing without the tokens"),
    ({"metric": "decode", "tokens_out": ""}, "tokens_out is blank: seconds say nothing without the tokens"),
    ({"metric": "decode-total", "streams": "2"}, "unit is 's': seconds are for prefill, or for one stream's decode"),
    ({"value": "1e-320"}, "no server is that fast or slow"),
])
def test_seconds_for_what(tmp_path: Path, cells: dict[str, str], said: str) -> None:
    found = error(table(tmp_path / "points.csv", {"unit": "s", "value": "3"} | cells))
    assert said in found.message
    assert found.line == 2


def test_a_rate_too_small_to_be_one(tmp_path: Path) -> None:
    path = table(tmp_path / "points.csv", {"metric": "decode-total", "streams": "8", "value": "5e-324"})
    assert "no server is that fast or slow" in error(path).message


@pytest.mark.parametrize("cells", [{"value": "sk-live-4f8Kq2Xv9Rt4"}, {"engine": "sk-live-4f8Kq2Xv9Rt4"},
                                   {"knobs": "authorization=Bearer sk-live-4f8Kq2Xv9Rt4"},
                                   {"knobs": "password=a 4f8Kq2Xv9Rt4"}])
def test_an_error_shows_no_secret(tmp_path: Path, cells: dict[str, str]) -> None:
    assert "4f8Kq2Xv9Rt4" not in error(table(tmp_path / "points.csv", cells)).message


# --- repeated rows --------------------------------------------------------------------------------------------------


def test_a_repeated_row_needs_its_own_rep(tmp_path: Path) -> None:
    path = table(tmp_path / "points.csv", {}, {"value": "1"}, {"note": "again"})
    found = error(path)
    assert found.message == "line 4 repeats line 2: a repeated measurement needs its own rep"
    assert found.line == 4
    assert len(read_points([table(path, {"rep": "1"}, {"rep": "2"})]).points) == 2


@pytest.mark.parametrize("cells", [
    {"engine": " RADIANCE"}, {"version": "v1.0.13"}, {"knobs": "vram-kv-mib=3543  TP=2"}, {"value": "3397.0"},
    {"unit": "tok/s"}, {"depth": "0"}, {"streams": "1"}, {"tokens_in": "43_500"}, {"cache": "COLD"},
])
def test_the_same_row_written_another_way(tmp_path: Path, cells: dict[str, str]) -> None:
    assert "line 3 repeats line 2" in error(table(tmp_path / "points.csv", {}, cells)).message


def test_refused_rows_repeat_as_well(tmp_path: Path) -> None:
    assert "line 3 repeats line 2" in error(table(tmp_path / "points.csv", {"value": "0"}, {"value": "0"})).message


def test_a_row_repeated_in_another_file(tmp_path: Path) -> None:
    one, two = table(tmp_path / "one.csv", {}), table(tmp_path / "two.csv", {"value": "1"}, {})
    with pytest.raises(ReadError) as caught:
        read_points([one, two])
    assert caught.value.message == f"line 3 repeats {one}:2: a repeated measurement needs its own rep"
    assert (caught.value.file, caught.value.line) == (str(two), 3)


# --- anything -------------------------------------------------------------------------------------------------------

_ANYTHING = st.text(max_size=12) | st.sampled_from(
    ["", "0", "-1", "1e308", "nan", "null", '"', ",", "'", "\n", "\r", "\t", "\ufeff", "1.0-2", "a=b", "=", "s",
     "decode", "decode-total", "warm", "2026-1", "9" * 400, "٣", "tp=1 tp=1", "\ud7ff", "\u2028", "#"])


def survives(path: Path, data: bytes) -> None:
    """Reads or raises ReadError with the file, nothing else."""
    path.write_bytes(data)
    try:
        reading = read_points([path])
    except ReadError as caught:
        problem = caught
    else:
        assert reading.points or reading.refused
        for point in reading.points:
            assert 0 < point.rate < float("inf")
            assert point.streams >= 1
        return
    assert problem.file == str(path)
    assert problem.message
    assert problem.line is None or 1 <= problem.line <= 1 + data.count(b"\n") + data.count(b"\r")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
@example(data=b"\x0b\n\x01")  # a first line that names nothing
def test_bytes(tmp_path: Path, data: bytes) -> None:
    survives(tmp_path / "points.csv", data)
    survives(tmp_path / "points.csv", HEAD.encode() + b"\n" + data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(cells=st.dictionaries(st.sampled_from(COLUMNS), _ANYTHING, max_size=4))
def test_cells(tmp_path: Path, cells: dict[str, str]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([COLUMNS, [(GOOD | cells)[name] for name in COLUMNS]])
    survives(tmp_path / "points.csv", out.getvalue().encode("utf-8", "replace"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(where=st.integers(0, len(HEAD) + len(ROW)), what=_ANYTHING, gone=st.integers(0, 40))
def test_files_cut_and_pasted(tmp_path: Path, where: int, what: str, gone: int) -> None:
    text = f"{HEAD}\n{ROW}\n"
    survives(tmp_path / "points.csv", (text[:where] + what + text[where + gone:]).encode("utf-8", "replace"))
