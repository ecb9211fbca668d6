"""Logs as they come: disguised, cut, mangled, or no logs at all."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measurements.ledger import read_ledger
from measurements.records import ReadError
from tests.measurements.ledger_logs import (
    DISGUISES,
    FIXTURES,
    LOGS,
    contradictions,
    everything,
    log,
    read,
    values,
)


@pytest.mark.parametrize("name", LOGS)
def test_fixtures_add_up(name: str) -> None:
    path = FIXTURES / f"{name}.log"
    reading = read_ledger(path)
    assert (reading.file, reading.engine) == (path, name.split("-")[0])
    assert contradictions(reading) == []
    lines = path.read_text(encoding="utf-8").splitlines()
    for each in everything(reading).values():
        assert each.place.line is not None
        assert " ".join(re.split(r" [/+] ", each.printed)[0].split()) in " ".join(
            lines[each.place.line - 1].split()
        )


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", LOGS)
def test_a_disguised_log_says_the_same(tmp_path: Path, name: str, disguise: str) -> None:
    plain, disguised = read(tmp_path, log(name)), read(tmp_path, DISGUISES[disguise](log(name)))
    assert values(disguised) == values(plain)
    assert [finding.text for finding in disguised.findings] == [finding.text for finding in plain.findings]
    assert (disguised.version, disguised.generation, disguised.boots, disguised.missing) == (
        plain.version,
        plain.generation,
        plain.boots,
        plain.missing,
    )


def test_a_comment_is_no_ledger(tmp_path: Path) -> None:
    text = "# card total 15.00 GiB\n# \n" + log("radiance-derived")
    assert read(tmp_path, text).facts["card_total"].printed == "31.86 GiB"


def test_stray_bytes_do_no_harm(tmp_path: Path) -> None:
    assert values(read(tmp_path, b"\xff\xfe\xc3(\n" + log("halogen-v2").encode())) == values(
        read(tmp_path, log("halogen-v2"))
    )


def test_both_engines_in_one_log(tmp_path: Path) -> None:
    text = log("radiance-derived") + log("halogen-v2")
    assert read(tmp_path, text).engine == "radiance"
    assert read(tmp_path, text, engine="halogen").facts["checkpoint"].value == "v2"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbf \r\n", "empty"),
        (b"I device\n\0\0", "binary"),
        ("I device: AQL backend\n".encode("utf-16"), "binary"),
        (b"llama_context: n_ctx = 4096\n", "looks like radiance or halogen"),
        (b"kv pool: nothing\nI device: none\n", "looks like radiance or halogen"),
    ],
)
def test_no_log_is_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(ReadError, match=said) as error:
        read(tmp_path, data)
    assert error.value.file == str(tmp_path / "boot.log")
    assert error.value.kind == "unreadable"


def test_no_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="folder"):
        read_ledger(tmp_path)
    with pytest.raises(ReadError, match="no such file"):
        read_ledger(tmp_path / "none.log")
    with pytest.raises(ReadError, match="no such file"):
        read_ledger(FIXTURES / "halogen-v2.log" / "x")
    with pytest.raises(ReadError, match="file name"):
        read_ledger(Path("a\0b"))


def test_the_other_engines_log_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="seems to be a log of radiance"):
        read(tmp_path, log("radiance-stated"), engine="halogen")
    with pytest.raises(ReadError, match="seems to be a log of halogen"):
        read(tmp_path, log("halogen-v2"), engine="radiance")
    with pytest.raises(ReadError, match="known engines are radiance, halogen") as error:
        read(tmp_path, log("halogen-v2"), engine="vllm")
    assert error.value.kind == "usage"


def test_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    with pytest.raises(ReadError, match="larger than 64 MiB"):
        read_ledger(path)


@pytest.mark.parametrize(
    "data",
    [
        "\n".join(
            "".join(random.Random(line).choices("abcdef .:[]|0123456789", k=90)) for line in range(110_000)
        ),
        "kv pool: host RAM 1 GiB, less " * 350_000,
        "kv pool: \n" + "a \n" * 3_500_000,
        "kv pool: x\nclaimable \n" + "startup [ x ] " * 700_000,
    ],
    ids=["random", "one line", "short lines", "own words"],
)
def test_ten_megabytes_of_garbage_are_read_soon(tmp_path: Path, data: str) -> None:
    before = time.process_time()
    with suppress(ReadError):
        read(tmp_path, data)
    assert time.process_time() - before < 4  # twice what it should take


def _shown(text: str) -> str:
    return "".join(text.split())


@st.composite
def _mangled(draw: st.DrawFn) -> str:
    lines = log(draw(st.sampled_from(LOGS))).split("\n")
    if draw(st.booleans()):
        lines += log(draw(st.sampled_from(LOGS))).split("\n")
    for _ in range(draw(st.integers(1, 12))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(
            st.sampled_from(("drop", "double", "swap", "cut", "flip", "break", "split", "shuffle", "end"))
        ):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                lines[at] = lines[at][: draw(st.integers(0, 60))]
            case "flip" if lines[at]:
                column = draw(st.integers(0, len(lines[at]) - 1))
                sign = draw(st.characters(codec="utf-8", exclude_characters="\0"))
                lines[at] = lines[at][:column] + sign + lines[at][column + 1 :]
            case "break":
                column = draw(st.integers(0, len(lines[at])))
                lines[at : at + 1] = [lines[at][:column], lines[at][column:]]
            case "split":
                lines[at] = draw(st.sampled_from(list(DISGUISES.values())))(lines[at])
            case "shuffle":
                draw(st.randoms(use_true_random=False)).shuffle(lines)
            case "end":
                del lines[at + 1 :]
    return "\n".join(lines)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_mangled())
def test_mangled_logs_yield_only_what_lines_carry(tmp_path: Path, text: str) -> None:
    try:
        reading = read(tmp_path, text)
    except ReadError:
        return
    carried = _shown(text.replace("\x1b[1m", "").replace("\x1b[0m", ""))
    lines = text.count("\n") + 1
    for each in everything(reading).values():
        assert each.place.line is not None
        assert 1 <= each.place.line <= lines
        for part in re.split(r"(?: [/+])? ", each.printed):
            assert _shown(part) in carried
    for finding in reading.findings:
        assert finding.places


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(LOGS), data=st.data())
def test_lines_that_are_lost_change_no_figure(tmp_path: Path, name: str, data: st.DataObject) -> None:
    lines = log(name).split("\n")
    kept = data.draw(st.lists(st.integers(0, len(lines) - 1), unique=True, min_size=1).map(sorted))
    whole = values(read(tmp_path, log(name)))
    try:
        reading = read(tmp_path, "\n".join(lines[index] for index in kept))
    except ReadError:
        return
    folded = {"compaction_stalls", "free_blocks", "pool_positions", "settle_floor", "kv_blocks", "kv_tokens"}
    for full, value in values(reading).items():
        if full not in folded and full in whole and "lent" not in full and full not in reading.missing:
            assert value == whole[full], full


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), name=st.sampled_from(LOGS))
def test_no_bytes_raise_anything_else(tmp_path: Path, data: bytes, name: str) -> None:
    for blob in (data, log(name).encode()[:200] + data):
        with suppress(ReadError):
            read(tmp_path, blob)
