"""Pictures of laws: whole files of the right kind, everything named, and text that keeps to its frame."""

from __future__ import annotations

import copy
import os
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measurements.records import ReadError
from optimizer import plot
from optimizer.plot import MAX_PANELS, save_laws, terminal_plot

PLACES = [22208.0, 23000.0, 24000.0, 25000.0, 25600.0, 26071.0]
HINGE = [3330.0, 3330.0, 3330.0, 3330.0, 3800.0, 4300.0]
THRESHOLD = [3390.0, 3390.0, 3390.0, 3390.0, 3390.0, 4379.0]
MEDIAN = [3346.0, 3346.0, 3346.0, 3350.0, 3690.0, 4321.0]


def observed(*points: tuple[float, float], contradicts: Sequence[tuple[float, float]] = ()) -> list[dict[str, Any]]:
    return [{"x": x, "rate": rate, "source": "operator note 001", "place": f"radiance.csv:{line}",
             "contradicts": (x, rate) in contradicts} for line, (x, rate) in enumerate(points, start=2)]


SLAB: dict[str, Any] = {
    "name": "prefill, radiance 1.0.0 to 1.2.4, w4", "metric": "prefill",
    "verdict": "undecided between hinge and threshold",
    "forms": [{"name": "hinge", "weight": 0.73}, {"name": "threshold", "weight": 0.27}],
    "curve": {"axis": "vram_weights_mib", "unit": "MiB", "at": {"depth": 21750}, "level": 0.9, "x": PLACES,
              "median": MEDIAN, "low": [0.9 * y for y in MEDIAN], "high": [1.1 * y for y in MEDIAN],
              "forms": {"hinge": HINGE, "threshold": THRESHOLD}, "choices": None},
    "observed": observed((22208.0, 3397.0), (24000.0, 3290.0), (25600.0, 3584.0), (25600.0, 3290.0),
                         (26071.0, 4379.0), contradicts=[(25600.0, 3584.0), (25600.0, 3290.0)]),
    "prediction": {"x": 25904.0, "median": 3980.0, "low": 3350.0, "high": 4520.0},
}
DTYPE: dict[str, Any] = {
    "name": "decode, halogen 0.15.1, w4b", "metric": "decode", "verdict": "offset",
    "forms": [{"name": "offset", "weight": 1.0}],
    "curve": {"axis": "kv_cache_dtype", "unit": "", "at": {}, "level": 0.9, "x": [0.0, 1.0], "median": [31.2, 34.9],
              "low": [28.8, 32.1], "high": [33.6, 37.7], "forms": {"offset": [31.2, 34.9]},
              "choices": ["bf16", "fp8"]},
    "observed": observed((0.0, 31.2), (1.0, 34.9)), "prediction": None,
}
ONE_PLACE: dict[str, Any] = {
    "name": "decode, radiance 1.2.4, w4", "metric": "decode", "verdict": "one place only", "forms": [],
    "curve": {"axis": "streams", "unit": "streams", "at": {}, "level": 0.9, "x": [4.0], "median": [61.4],
              "low": [57.0], "high": [66.0], "forms": {}, "choices": None},
    "observed": observed((4.0, 60.1), (4.0, 62.9)), "prediction": None,
}
LAWS = [SLAB, DTYPE, ONE_PLACE]


def document(*laws: dict[str, Any]) -> dict[str, Any]:
    return {"laws": list(laws)}


def size_of(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def texts_of(path: Path) -> list[str]:
    """The texts an SVG file shows, in order."""
    tree = ElementTree.fromstring(path.read_bytes())
    return ["".join(node.itertext()).strip() for node in tree.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("law", LAWS, ids=["slab", "dtype", "one place"])
def test_a_png_of_one_law(law: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "law.PNG"
    assert save_laws(document(law), path) == [path]
    width, height = size_of(path)
    assert (width, height) == (1425, 705)
    assert os.listdir(tmp_path) == ["law.PNG"]
    assert b"matplotlib" not in path.read_bytes().lower()


def test_an_svg_names_all_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "law.svg"
    save_laws(document(SLAB), path)
    texts = texts_of(path)
    for wanted in (SLAB["name"], "undecided between hinge and threshold; at depth 21,750", "vram_weights_mib (MiB)",
                   "prefill (tokens/s)", "median", "90 % interval for one", "hinge, 73 %", "threshold, 27 %",
                   "measured", "measured, contradicting", "3,980 (3,350 to 4,520)", "24,000", "4,000"):
        assert wanted in texts, wanted


def test_only_what_is_there_is_in_the_legend(tmp_path: Path) -> None:
    save_laws(document(DTYPE), tmp_path / "law.svg")
    texts = texts_of(tmp_path / "law.svg")
    assert {"bf16", "fp8", "kv_cache_dtype", "decode (tokens/s)"} <= set(texts)
    assert not {"measured, contradicting", "this site's shape:", "offset, 100 %"} & set(texts)


def test_the_same_laws_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in (".svg", ".png"):
        first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
        save_laws(document(*LAWS), first)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
        save_laws(document(*LAWS), second)
        assert first.read_bytes() == second.read_bytes()
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()


def test_a_users_own_style_changes_nothing_and_is_left_alone(tmp_path: Path) -> None:
    import matplotlib

    save_laws(document(SLAB), tmp_path / "a.svg")
    with matplotlib.rc_context({"axes.facecolor": "black", "svg.fonttype": "path"}):
        save_laws(document(SLAB), tmp_path / "b.svg")
        assert matplotlib.rcParams["svg.fonttype"] == "path"
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_matplotlib_is_imported_when_a_file_is_drawn_and_never_its_global_state(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from optimizer.plot import save_laws, terminal_plot\n"
        "from tests.optimizer.test_plot import SLAB\n"
        "terminal_plot(SLAB, width=80, height=20, colour=True, ascii_only=False)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "save_laws({'laws': [SLAB]}, Path(sys.argv[1]))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "law.png")], capture_output=True, text=True,
                          timeout=120, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_few_laws_share_a_figure_and_many_get_files(tmp_path: Path) -> None:
    without = {**SLAB, "curve": None}
    path = tmp_path / "laws.png"
    assert save_laws(document(without, *LAWS), path) == [path]
    assert size_of(path) == (1425, 705 * len(LAWS))
    path.unlink()
    laws = [{**DTYPE, "name": f"law {number}"} for number in range(1, MAX_PANELS + 2)]
    written = save_laws(document(*laws, without), tmp_path / "laws.svg")
    assert [file.name for file in written] == [f"laws-{number}.svg" for number in range(1, MAX_PANELS + 2)]
    assert sorted(os.listdir(tmp_path)) == [file.name for file in written]
    assert all(f"law {number}" in texts_of(file) for number, file in enumerate(written, start=1))


def test_odd_names_break_no_file(tmp_path: Path) -> None:
    law = {**SLAB, "name": "a <b> & $c_1$ \x1b[31m\x00 \ud800 " + "long " * 60}
    save_laws(document(law), tmp_path / "law.svg")
    assert any(text.startswith("a <b> & $c_1$ ?[31m? ? long") for text in texts_of(tmp_path / "law.svg"))
    assert "\x1b" not in terminal_plot(law, width=60, height=16, colour=False, ascii_only=True)


@pytest.mark.parametrize("name", ["law.pdf", "law", ".png"])
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"\.png or \.svg") as caught:
        save_laws(document(SLAB), tmp_path / name)
    assert caught.value.kind == "usage"
    assert not os.listdir(tmp_path)


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    for laws in ([], [{**SLAB, "curve": None}]):
        with pytest.raises(ReadError, match="no law has a curve"):
            save_laws(document(*laws), tmp_path / "law.png")


def test_a_missing_folder_and_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "taken.svg").mkdir()
    for path in (tmp_path / "gone" / "law.svg", tmp_path / "taken.svg", tmp_path / f"{'n' * 251}.svg"):
        with pytest.raises(ReadError, match="cannot be written") as caught:
            save_laws(document(SLAB), path)
        assert caught.value.file == str(path)
        assert caught.value.kind == "usage"
    assert os.listdir(tmp_path) == ["taken.svg"]


def test_without_matplotlib_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReadError, match=re.escape("pip install 'shapewright[plot]'")) as caught:
        save_laws(document(SLAB), tmp_path / "law.png")
    assert caught.value.kind == "usage"
    assert not os.listdir(tmp_path)
    assert terminal_plot(SLAB, width=80, height=20, colour=False, ascii_only=False)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laws = document(*({**DTYPE, "name": f"law {number}"} for number in range(MAX_PANELS + 1)))
    (tmp_path / "law-1.svg").write_text("before", encoding="utf-8")
    whole = Path.write_bytes

    def half(path: Path, data: bytes) -> int:
        if "law-3" not in path.name:
            return whole(path, data)
        whole(path, data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(ReadError, match="No space left") as caught:
        save_laws(laws, tmp_path / "law.svg")
    assert caught.value.file == str(tmp_path / "law-3.svg")
    assert os.listdir(tmp_path) == ["law-1.svg"]
    assert (tmp_path / "law-1.svg").read_text(encoding="utf-8") == "before"


def test_a_failure_to_draw_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(axes: object, law: object, look: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(plot, "_panel", fail)
    with pytest.raises(RuntimeError):
        save_laws(document(SLAB), tmp_path / "law.png")
    assert not os.listdir(tmp_path)


# --- the terminal


def body(text: str) -> str:
    """What stands inside the frame."""
    rows = (re.match(r" *\S* [|+]([^+]*)$", line) for line in text.split("\n")[3:])
    return "\n".join(row[1] for row in rows if row)


def test_a_known_plot_in_ascii() -> None:
    lines = terminal_plot(SLAB, width=80, height=20, colour=False, ascii_only=True).splitlines()
    assert len(lines) == 20
    assert lines[:3] == ["prefill, radiance 1.0.0 to 1.2.4, w4",
                         "undecided between hinge and threshold; at depth 21,750",
                         "prefill (tokens/s) over vram_weights_mib (MiB)"]
    assert [line.split()[0] for line in lines[3:-4] if not line.startswith(" ")] == ["4,500", "4,000", "3,500", "3,000"]
    assert lines[-3].split() == ["23,000", "24,000", "25,000", "26,000"]
    assert lines[-2:] == ["* measured  x contradicting  - median  . 90 % interval",
                          "o this site 3,980 (3,350 to 4,520)"]
    inside = body("\n".join(lines))
    assert (inside.count("*"), inside.count("x"), inside.count("o")) == (3, 2, 1)
    assert next(line for line in lines if "*" in line).rstrip().endswith("*")  # the fastest point is the last one


@pytest.mark.parametrize("law", LAWS, ids=["slab", "dtype", "one place"])
@pytest.mark.parametrize(("width", "height"), [(80, 20), (120, 24), (40, 14), (200, 60)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_it_keeps_to_its_frame(law: dict[str, Any], width: int, height: int, ascii_only: bool) -> None:
    text = terminal_plot(law, width=width, height=height, colour=False, ascii_only=ascii_only)
    lines = text.splitlines()
    assert len(lines) <= height
    assert len(lines) >= height - 1
    assert max(map(len, lines)) <= width
    assert text.isascii() is ascii_only
    assert "\x1b" not in text
    coloured = terminal_plot(law, width=width, height=height, colour=True, ascii_only=ascii_only)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text


def test_choices_are_named_and_nothing_joins_them() -> None:
    text = terminal_plot(DTYPE, width=80, height=20, colour=False, ascii_only=True)
    assert text.splitlines()[-2].split() == ["bf16", "fp8"]
    medians = [line for line in body(text).splitlines() if "-" in line]
    assert [re.sub(r"-+", "-", line.strip()) for line in medians] == ["-*-", "-*-"]
    assert "contradicting" not in text
    assert "this site" not in text


def test_points_in_one_place_show_their_number_and_a_contradiction_wins() -> None:
    law = copy.deepcopy(ONE_PLACE)
    law["observed"] = observed((4.0, 60.0), (4.0, 60.0), (4.0, 60.0), (4.0, 64.0))
    text = terminal_plot(law, width=80, height=20, colour=False, ascii_only=True)
    assert (body(text).count("3"), body(text).count("*")) == (1, 1)
    assert "* measured (2: two in one place)" in text
    law["observed"] += observed((4.0, 60.0), contradicts=[(4.0, 60.0)])
    assert body(terminal_plot(law, width=80, height=20, colour=False, ascii_only=True)).count("x") == 1


RATES = st.one_of(st.floats(1e-6, 1e12), st.sampled_from([1.0, 3290.0, 3290.0000000001, 3584.0]))
PLACE = st.one_of(st.floats(-1e12, 1e12), st.integers(0, 262144).map(float), st.sampled_from([0.0, 25600.0]))


@st.composite
def laws(draw: st.DrawFn) -> dict[str, Any]:
    choices = draw(st.sampled_from([None, ["bf16"], ["bf16", "fp8", "turbo"]]))
    numbers = [float(x) for x in range(len(choices or ()))]
    places = numbers or sorted(draw(st.lists(PLACE, min_size=1, max_size=9)))
    median = draw(st.lists(RATES, min_size=len(places), max_size=len(places)))
    at = st.sampled_from(places) if choices else st.one_of(PLACE, st.sampled_from(places))
    points = draw(st.lists(st.tuples(at, RATES, st.booleans()), min_size=1, max_size=40))
    site = draw(st.none() | st.tuples(at, RATES))
    return {
        "name": draw(st.text(max_size=90)), "metric": "decode", "verdict": draw(st.text(max_size=90)),
        "forms": [{"name": "slope", "weight": draw(st.floats(0, 1))}],
        "curve": {"axis": "depth", "unit": draw(st.sampled_from(["", "tokens", "depth"])), "at": {"streams": 2},
                  "level": 0.9, "x": places, "median": median, "low": [y * 0.8 for y in median],
                  "high": [y * 1.3 for y in median], "forms": {"slope": [y * 1.01 for y in median]},
                  "choices": choices},
        "observed": [{"x": x, "rate": rate, "source": "", "place": "", "contradicts": bad} for x, rate, bad in points],
        "prediction": site and {"x": site[0], "median": site[1], "low": site[1] * 0.9, "high": site[1] * 1.2},
    }


@given(laws(), st.integers(40, 160), st.integers(14, 50))
def test_any_law_can_be_drawn_in_a_terminal(law: dict[str, Any], width: int, height: int) -> None:
    text = terminal_plot(law, width=width, height=height, colour=False, ascii_only=True)
    lines = text.split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert text.isascii()
    assert "\x1b" not in text
    inside = body(text)
    odd = any(item["contradicts"] for item in law["observed"])
    assert ("x" in inside) is odd
    places = [inside.count(mark) for mark in "*23456789"]
    if not odd and not places[-1]:
        assert sum(count * seen for count, seen in enumerate(places, start=1)) == len(law["observed"])
    assert terminal_plot(law, width=width, height=height, colour=True, ascii_only=False)


@settings(max_examples=15, deadline=None)
@given(laws())
def test_any_law_can_be_drawn_as_a_picture(tmp_path_factory: pytest.TempPathFactory, law: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("any") / "law.svg"
    save_laws(document(law), path)
    assert "median" in texts_of(path)
