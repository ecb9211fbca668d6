"""Goals against each other on the example sites and on the command line: what is said, and how it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from measurements.site import load, read_site
from models.engines import build, resolve
from optimizer.lower import Found, Stages
from optimizer.pareto import WORDS, ask_goals, knee_of, pareto, pareto_json
from optimizer.plot import front_plot
from optimizer.solve import OutOfTime
from tests.optimizer.servers import Said, ask
from tests.optimizer.test_schema import valid

SITES = Path(__file__).resolve().parents[2] / "measurements" / "sites"
STATICS = "static_weights=4.03GiB"
Capture = pytest.CaptureFixture[str]


def asked(capsys: Capture, site: str, *words: str) -> Said:
    said = ask(capsys, "pareto", str(SITES / site), *words, "--json")
    if said.code in (0, 3):
        valid("pareto", said.document)
        assert (said.code == 3) == (said.document["status"] == "infeasible")
    else:
        valid("error", said.document)
    return said


def values(document: dict[str, Any]) -> list[list[float]]:
    return [[item["value"] for item in point["objectives"]] for point in document["points"]]


def well_made(document: dict[str, Any]) -> None:
    """Points count from 1 and lose more and more of the first goal; none beats another; each fits as a shape."""
    points = document["points"]
    assert [point["point"] for point in points] == list(range(1, len(points) + 1))
    steps = [tuple(point["steps"]) for point in points]
    assert steps == sorted(set(steps))
    for one in steps:
        assert not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in steps)
    for place in range(len(document["goals"])):
        assert min(row[place] for row in steps) == 0
    for point in points:
        assert (point["verdict"], point["outcome"], point["proven"]) == ("fits", "serves", True)
        assert all(point["shape"].get(name, new) == new for name, (_, new) in point["changes"].items())


@pytest.mark.parametrize(("site", "words", "goals", "least"), [
    ("stated-pair", ("slab", "sessions", "--fact", STATICS), ["slab", "sessions"], 10),
    ("stated-pair", ("context", "sequences", "--at-least", "max_model_len=100000"), ["context", "sequences"], 10),
    ("stated-pair", ("prefill", "sessions"), ["prefill", "sessions"], 2),
    ("two-r9700", ("sequences", "slab"), ["sequences", "slab"], 4),
    ("unified-memory", ("sessions", "headroom"), ["sessions", "headroom"], 2),
    ("unified-memory", ("Context", "host_ram", "sequences", "--at-least", "ctx=250000", "--at-most", "kv_slots=4"),
     ["context", "host-ram", "sequences"], 5),
])
def test_example_sites(site: str, words: tuple[str, ...], goals: list[str], least: int, capsys: Capture) -> None:
    said = asked(capsys, site, *words)
    assert (said.code, said.err) == (0, "")
    assert [item["goal"] for item in said.document["goals"]] == goals
    assert len(said.document["points"]) >= least
    well_made(said.document)


def test_steps_are_what_an_operator_would_call_one(capsys: Capture) -> None:
    document = asked(capsys, "stated-pair", "prefill", "context", "sessions", "--at-least", "max_model_len=190000",
                     "--at-least", "vram_weights=25500MiB").document
    prefill, context, sessions = document["goals"]
    assert (context["step"], sessions["step"]) == (1024, 1)
    assert prefill["step"] == pytest.approx(prefill["best"] / 100, abs=0.001)
    assert document["laws"][0]["metric"] == "prefill"
    for point in document["points"]:
        found = point["objectives"][0]["prediction"]
        assert found["low"] < found["median"] < found["high"]


def test_where_the_shape_as_it_is_stands(capsys: Capture) -> None:
    beaten = asked(capsys, "stated-pair", "slab", "sessions", "--fact", STATICS).document
    current = beaten["current"]
    assert (current["asked"], current["equals"], current["values"][1]) == (True, None, 4)
    assert [item["point"] for item in current["dominated_by"]] == [2, 3]
    for item in current["dominated_by"]:
        point = values(beaten)[item["point"] - 1]
        assert item["by"] == [a - b for a, b in zip(point, current["values"], strict=True)]
        assert min(item["by"]) >= 0 < max(item["by"])
    best = asked(capsys, "two-r9700", "sequences", "slab").document["current"]
    assert (best["equals"], best["dominated_by"]) == (3, [])
    # the running sequences are not what is given, so that it is no shape that was asked about
    other = asked(capsys, "two-r9700", "context", "slab", "--given", "max_num_seqs=1", "--at-least",
                  "max_model_len=250000").document["current"]
    assert other["asked"] is False


def test_what_binds_is_named_where_no_slack_shows_it(capsys: Capture) -> None:
    document = asked(capsys, "two-r9700", "sequences", "slab").document
    assert all(point["binding"] == ["pool_contract"] for point in document["points"])


def test_a_goal_whose_value_is_not_known_is_refused(capsys: Capture) -> None:
    said = asked(capsys, "stated-pair", "slab", "sessions")
    assert said.code == 4
    assert [item["name"] for item in said.document["missing"]] == ["static_weights"]
    assert asked(capsys, "two-r9700", "prefill", "sessions").document["missing"][0]["name"] == "points"


def test_no_shape_and_why(capsys: Capture) -> None:
    said = asked(capsys, "stated-pair", "context", "sequences", "--at-least", "vram_weights=31000MiB")
    assert said.code == 3
    assert said.document["points"] == []
    assert {item["name"] for item in said.document["conflict"]} == {"pair_ceiling", "at least vram_weights=31000MiB"}
    plain = ask(capsys, "pareto", str(SITES / "stated-pair"), "context", "sequences", "--at-least",
                "vram_weights=31000MiB")
    assert (plain.code, "No shape does this" in plain.out) == (3, True)


@pytest.mark.parametrize(("words", "said"), [
    (("stated-pair", "context"), "two or three goals"),
    (("stated-pair", "context", "sessions", "slab", "headroom"), "two or three goals"),
    (("stated-pair",), "two or three goals"),
    (("stated-pair", "context", "context"), "named twice"),
    (("stated-pair", "host-ram", "host_ram"), "named twice"),
    (("stated-pair", "context", "speed"), "no goal 'speed'; its goals: context"),
    (("unified-memory", "context", "slab"), "no slab"),
    (("stated-pair", "context", "sessions", "--given", "nonsense=1"), "nonsense"),
    (("stated-pair", "context", "sessions", "--plot", "a.txt"), ".png or .svg"),
])
def test_words_that_mean_nothing(words: tuple[str, ...], said: str, capsys: Capture) -> None:
    found = asked(capsys, *words)
    assert (found.code, found.document["error"]["kind"]) == (2, "usage")
    assert said in found.document["error"]["message"]


def test_the_site_stands_anywhere_among_the_words(capsys: Capture, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    site = str(SITES / "unified-memory")
    first = ask(capsys, "pareto", site, "sessions", "headroom", "--json")
    for words in (["sessions", "headroom", site], ["sessions", "headroom", "--site", site],
                  ["--site", f"{site}/site.toml", "sessions", "headroom"]):
        assert ask(capsys, "pareto", *words, "--json").document["points"] == first.document["points"]
    assert "give a site folder" in ask(capsys, "pareto", "sessions", "headroom").err
    assert "nowhere" in ask(capsys, "pareto", "nowhere", "sessions", "headroom").err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sessions").symlink_to(site)
    said = ask(capsys, "pareto", "sessions", "headroom")
    assert (said.code, "is a goal, and a site here" in said.err) == (2, True)
    assert ask(capsys, "pareto", "./sessions", "sessions", "headroom", "--json").document["points"] == (
        first.document["points"])


def test_the_words_of_goals_are_those_of_the_engines() -> None:
    for engine in ("radiance@1.0.13", "radiance@1.2.2", "radiance@1.8.1", "halogen@0.13.0", "halogen@0.17.4"):
        model = build(resolve(engine), container="")
        assert set(model.goals) | set(model.no_goals) <= set(WORDS)


def test_tables_say_what_the_json_says(capsys: Capture, tmp_path: Path) -> None:
    site = str(SITES / "stated-pair")
    picture = tmp_path / "front.svg"
    said = ask(capsys, "pareto", site, "slab", "sessions", "--fact", STATICS, "--plot", str(picture))
    assert (said.code, said.err) == (0, "")
    assert "16 points: no other shape is better; all are proven" in said.out
    assert "beaten by points 2 to 3" in said.out
    assert "slab 64 MiB, sessions 1" in said.out
    assert b"slab (GiB)" in picture.read_bytes()
    document = asked(capsys, "stated-pair", "slab", "sessions", "--fact", STATICS).document
    drawn = front_plot(document, width=60, height=16, colour=False, ascii_only=True)
    assert drawn.isascii()
    assert drawn.count("*") > 8
    assert max(map(len, drawn.splitlines())) <= 60


def test_no_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    own = load(read_site(SITES / "unified-memory"))
    questions = ask_goals(own, ["context", "headroom"], at_least=[("ctx", "200000")])
    once, left = Stages._once, [0]

    def for_a_while(self: Stages, *words: Any, **more: Any) -> Found:
        left[0] -= 1
        return once(self, *words, **more) if left[0] >= 0 else Found("unknown", {}, 0)

    monkeypatch.setattr(Stages, "_once", for_a_while)
    for solves in (0, 2, 4):
        left[0] = solves
        with pytest.raises(OutOfTime, match="hold more knobs"):
            pareto(questions)
    left[0] = 40
    front = pareto(questions)
    document = pareto_json(front)
    valid("pareto", document)
    assert front.status == "feasible"
    assert len(front.points) > 3
    assert "time limit of 30 s" in document["warnings"][0]


def test_the_knee() -> None:
    steps = (1, 1)
    assert knee_of([(10, 0), (0, 10)], (1, 1), steps)[1] == "a knee takes three points"
    knee, _ = knee_of([(100, 0), (90, 60), (50, 80), (0, 100)], (1, 1), steps)
    assert knee is not None
    assert knee.place == 1
    assert knee.distance == pytest.approx(0.5 / 2 ** 0.5)
    # less is better of the second
    mirrored, _ = knee_of([(100, 100), (90, 40), (50, 20), (0, 0)], (1, -1), steps)
    assert mirrored == knee
    straight, why = knee_of([(100, 0), (50, 50), (0, 100)], (1, 1), steps)
    assert (straight, "a step or more" in why) == (None, True)
    inward, _ = knee_of([(100, 0), (40, 40), (0, 100)], (1, 1), steps)
    assert inward is None
    solid, _ = knee_of([(9, 0, 0), (0, 9, 0), (0, 0, 9), (5, 5, 5)], (1, 1, 1), (1, 1, 1))
    assert solid is not None
    assert (solid.place, "plane" in solid.definition) == (3, True)
    flat, _ = knee_of([(100, 7, 0), (90, 7, 60), (0, 7, 100)], (1, 1, 1), (1, 1, 1))
    assert flat is not None
    assert (flat.place, "line" in flat.definition) == (1, True)
    nowhere, why = knee_of([(9, 0, 0), (9, 9, 0), (0, 0, 9)], (1, 1, 1), (1, 1, 1))
    assert (nowhere, "span no plane" in why) == (None, True)
