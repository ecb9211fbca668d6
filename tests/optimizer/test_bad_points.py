"""Points files that cannot be right: named with file and line, never a traceback, and no secret is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.optimizer.servers import STATED, ask, measured, point, points, site_of
from tests.optimizer.test_bad_input import at, refused
from tests.optimizer.test_schema import answered, valid

Capture = pytest.CaptureFixture[str]


def row(slab: int | str, rate: float | str, *, knobs: str = "", **cells: int | str) -> str:
    """A prefill of the stated pair."""
    return point(STATED, rate, knobs=f"tp=2 vram_weights_mib={slab} {knobs}".strip(), cells=cells)


GOOD = (row(22_208, 3_397), row(26_071, 4_379))

#: The file, the line that is named (None: the file as a whole), and part of what is said.
BROKEN: dict[str, tuple[str | bytes, int | None, str]] = {
    "no column unit": (points(*GOOD).replace(",unit", ""), 1, "column unit is missing"),
    "unknown column": (points(*GOOD).replace("corpus", "corpse"), 1, "did you mean corpus?"),
    "no unit": (points(GOOD[0], row(26_071, 4_379, unit="")), 3, "unit is blank: t/s"),
    "unknown unit": (points(GOOD[0], row(26_071, 4_379, unit="tps")), 3, "unit is 'tps': t/s"),
    "text for a rate": (points(GOOD[0], row(26_071, "fast")), 3, "value is 'fast'"),
    "text for a count": (points(GOOD[0], row(26_071, 4_379, tokens_in="long")), 3, "tokens_in is 'long'"),
    "text for a knob": (points(GOOD[0], row("lots", 4_379)), 3, "vram_weights_mib is 'lots'"),
    "no number": (points(GOOD[0], row(26_071, "nan")), 3, "value is 'nan'"),
    "infinite": (points(GOOD[0], row(26_071, "1e999")), 3, "a finite number"),
    "negative": (points(GOOD[0], row(26_071, -5)), 3, "above 0"),
    "twice the same": (points(*GOOD, GOOD[1]), 4, "repeats line 3"),
    "unknown knob": (points(GOOD[0], row(26_071, 4_379, knobs="vram_weigths_mib=3")), 3,
                     "did you mean vram_weights_mib?"),
    "unknown engine": (points(GOOD[0], row(26_071, 4_379, engine="vllm")), 3, "vllm"),
    "open quote": (points(GOOD[0], row(26_071, 4_379, note='"oh')), 3, "double quote"),
    "too many cells": (points(GOOD[0], row(26_071, 4_379, note="a,b")), 3, "18 cells"),
    "empty": ("", None, "this file is empty"),
    "blank": ("\n \n", None, "this file is empty"),
    "no rows": (points(), None, "holds no points"),
    "binary": (b"\x7fELF\0\1" + points(*GOOD).encode(), 1, "binary"),
    "utf-16": (points(*GOOD).encode("utf-16"), 1, "UTF-16"),
    "latin-1": (points(GOOD[0], row(26_071, 4_379, note="caf\xe9")).encode("latin-1"), 3, "not UTF-8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str, tmp_path: Path, capsys: Capture) -> None:
    text, number, right = BROKEN[name]
    words = measured(tmp_path, STATED, text)
    path = tmp_path / "points.csv"
    for command in (["laws", "--points", str(path)], ["laws", *words], ["solve", "--goal", "prefill", *words],
                    ["next", *words]):
        line = refused(capsys, *command, kind="unreadable")
        assert at(line) == (str(path) if number is None else f"{path}:{number}")
        assert right in line


@pytest.mark.parametrize("name", ["gone.csv", "."])
def test_no_file(name: str, tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / name)
    line = refused(capsys, "laws", "--points", path, kind="unreadable")
    assert "folder" in line if name == "." else "no such file" in line


@pytest.mark.parametrize(("rows", "why"), [
    (GOOD[:1], "one point: a law needs two settings at least"),
    ([row(22_208, rate, rep=rep) for rep, rate in enumerate((3_397, 3_300, 3_350))], "all points are at one setting"),
])
def test_too_little_to_make_a_law(rows: list[str], why: str, tmp_path: Path, capsys: Capture) -> None:
    words = measured(tmp_path, STATED, points(*rows))
    for command in (["laws", "--points", str(tmp_path / "points.csv")], ["laws", *words]):
        said = ask(capsys, *command, "--json")
        assert said.code == 4
        valid("error", said.document)
        (item,) = said.document["missing"]
        assert item["name"] == "prefill or decode points"
        assert why in item["how"]


def test_every_row_refused(tmp_path: Path, capsys: Capture) -> None:
    text = points(row(22_208, 3_397, cache="warm"), row(26_071, 0))
    words = measured(tmp_path, STATED, text)
    said = ask(capsys, "laws", *words, "--json")
    assert said.code == 4
    (item,) = said.document["missing"]
    assert "points.csv:2 is refused: a warm prefix" in item["how"]
    assert "points.csv:3 is refused: null or zero" in item["how"]


@pytest.mark.parametrize("repeats", [1, 3])
def test_rates_that_are_all_equal(repeats: int, tmp_path: Path, capsys: Capture) -> None:
    """A law all the same: no form is favoured for what it adds, and no figure is infinite."""
    text = points(*(row(slab, 3_397, rep=rep) for slab in (22_208, 24_000, 25_000, 26_071) for rep in range(repeats)))
    words = measured(tmp_path, STATED, text)
    (law,) = answered(ask(capsys, "laws", *words, "--json"), "laws")["laws"]
    assert law["forms"][0]["name"] == "constant"
    assert law["prediction"]["median"] == pytest.approx(3_397, rel=0.02)
    assert law["noise"]["value"] > 0
    assert law["contradictions"] == []
    assert ask(capsys, "laws", *words).code == 0
    for command in (["solve", "--goal", "prefill", "--top", "2"], ["next"]):
        said = ask(capsys, *command, *words, "--json")
        assert said.code == 0
        answered(said, command[0])


SECRETS = ("hf_abcdefghijklmnopqrstuvwxyz0123", "sk-live-4f8Kq2Xv9Rt4Yw7Zb1Nc6", "hunter2hunter2",
           "ghp_abcdefghijklmnopqrstuvwxyz0123456789")


def test_secrets_are_never_printed(tmp_path: Path, capsys: Capture) -> None:
    token, key, password, pat = SECRETS
    text = points(*(
        point(STATED, rate, metric=metric, knobs=f"tp=2 vram_weights_mib={slab}", note=f"HF_TOKEN={token}",
              corpus=f"api_key={key}" if metric == "decode" else "", source=f"mine password={password}", rep=pat)
        for metric, rates in (("prefill", (3_397, 4_379)), ("decode", (97, 124)))
        for slab, rate in zip((22_208, 26_071), rates, strict=True)))
    words = measured(tmp_path, STATED, text)
    picture = tmp_path / "law.svg"
    for command in (["laws"], ["laws", "--plot", str(picture)], ["solve", "--goal", "prefill"],
                    ["solve", "--goal", "decode"], ["propose", "--goal", "decode"], ["next"]):
        for as_json in ([], ["--json"]):
            said = ask(capsys, *command, *words, *as_json)
            assert said.code == 0
            assert not [secret for secret in SECRETS if secret in said.out + said.err], command
    assert not [secret for secret in SECRETS if secret in picture.read_text(encoding="utf-8")]
    for wrong in (f"tp=2 vram_weights_mib=22208 api_key={key}", f"tp=2 {key}"):
        words = measured(tmp_path, STATED, points(point(STATED, 3_397, knobs=wrong)))
        said = ask(capsys, "laws", *words)
        assert said.code == 2
        assert key not in said.out + said.err


def test_a_broken_points_file_breaks_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    """Only what asks about speed reads the site's points."""
    site = site_of(tmp_path, STATED)
    toml = site / "site.toml"
    toml.write_text('points = "points.csv"\n' + toml.read_text(encoding="utf-8"), encoding="utf-8")
    (site / "points.csv").write_bytes(b"\0\1\2")
    assert ask(capsys, "check", str(site), "--json").code == 0
    assert ask(capsys, "solve", str(site), "--goal", "slab", "--top", "1", "--json").code == 0
    for command in (["laws"], ["solve", "--goal", "prefill"], ["next"]):
        said = ask(capsys, command[0], str(site), *command[1:], "--json")
        assert (said.code, said.document["error"]["file"]) == (2, str(site / "points.csv"))
