"""The report: one strict document, pages and pictures as files, errors without a trace, no user text unescaped."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import measurements
from measurements.site import load, read_site
from models.interval import MIB, point
from optimizer import pictures as drawing
from optimizer import plot
from optimizer.page import DARK, SECTIONS, TEXT_COLOURS, page
from optimizer.pictures import fact_bars, inline, knob_bars, pictures, ranks, spread
from optimizer.plot import COLOURS, GREY, PAPER
from optimizer.report import Asked, report_json, rivals
from optimizer.solve import ask as put
from optimizer.stacks import shown
from tests.optimizer.servers import (
    BUDGET,
    DERIVED,
    FUNDED,
    HALOGEN,
    MEASURED,
    SERVERS,
    STATED,
    Server,
    ask,
    measured,
    pair_env,
    site_of,
    with_config,
)
from tests.optimizer.test_schema import VALIDATORS, edited, valid

Capture = pytest.CaptureFixture[str]
SITES = Path(measurements.__path__[0]) / "sites"
PARTS = ("now", "shapes", "tradeoff", "sensitivity", "laws")

@cache
def report_of(name: str, goal: str) -> dict[str, Any]:
    """The report on an example site, which nobody may change."""
    site = load(read_site(SITES / name))
    return report_json(Asked(site, goal), lambda: put(site, goal))


@cache
def page_of(name: str, goal: str, *, moves: bool = False) -> bytes:
    """Its page, with sensitivities or without."""
    document = report_of(name, goal)
    none: dict[str, Any] = {"answer": None, "why": "of this test", "missing": []}
    return page(document if moves else {**document, "sensitivity": none})


@pytest.fixture
def pair() -> dict[str, Any]:
    """The report on the stated pair for speed, which has every part but what this release lacks."""
    return report_of("stated-pair", "prefill")


@pytest.fixture
def made() -> str:
    """That report's page, with sensitivities."""
    return page_of("stated-pair", "prefill", moves=True).decode()


class Reading(HTMLParser):
    """What a page has: tags with their attributes, ids, and the text that people see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.seen: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.seen.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.seen)


# --- the document


@pytest.mark.parametrize("name", SERVERS)
def test_every_generation_gets_a_whole_document(name: str, tmp_path: Path, capsys: Capture) -> None:
    said = ask(capsys, "report", *SERVERS[name].words(tmp_path), "--goal", "sessions", "--pareto",
               "sessions,sequences", "--top", "2", "--json")
    valid("report", said.document)
    assert said.code == 0
    document = said.document
    assert document["shapes"]["answer"]["status"] == "optimal"
    assert "points" in {item["name"] for item in document["laws"]["missing"]}
    assert {stack["name"] for stack in shown(document["stacks"])} >= {"host"}
    for stack in document["stacks"]:
        for word in ("now", "best"):
            amounts = [stack["total"][word], *(part[word] for part in stack["parts"])]
            if None in amounts:
                assert stack["missing"] or not any(amounts), "of a shape it says nothing of"
                continue
            total, *parts = amounts
            assert total["low"] - 1 <= sum(part["high"] for part in parts)
            assert sum(part["low"] for part in parts) <= total["high"] + 1
            if not stack["missing"]:  # best-supported figures add up but for what only an interval is known of
                room = sum(part["high"] - part["low"] for part in parts) + total["high"] - total["low"]
                assert abs(total["value"] - sum(part["value"] for part in parts)) <= room


def test_the_document_is_put_together_from_the_others(pair: dict[str, Any], capsys: Capture) -> None:
    site = str(SITES / "stated-pair")
    valid("report", pair)
    assert [goal["goal"] for goal in pair["tradeoff"]["answer"]["goals"]] == ["prefill", "context"]
    for key, words in (("now", ["check"]), ("shapes", ["solve", "--goal", "prefill"]), ("laws", ["laws"]),
                       ("sensitivity", ["sensitivity", "--goal", "prefill"])):
        command, *more = words
        document = ask(capsys, command, site, *more, "--json").document
        assert pair[key]["answer"] == document, key
    found = pair["shapes"]["answer"]["shapes"][0]["objective"]
    assert pair["reached_now"]["value"] == pytest.approx(found["value"] - found["change"])


def test_the_stack_of_a_pair_stands_for_the_card_whose_rows_nobody_gave(pair: dict[str, Any]) -> None:
    stacks = {stack["name"]: stack for stack in pair["stacks"]}
    assert [stack["name"] for stack in shown(pair["stacks"])] == ["pair", "host"]
    assert stacks["card"]["instead"] == "pair"
    assert {"card_total", "already_held"} <= {item["name"] for item in stacks["card"]["missing"]}
    assert [item["name"] for item in stacks["host"]["missing"]] == ["mem_total"]
    parts = {part["name"]: part for part in stacks["pair"]["parts"]}
    assert parts["kv cache"]["now"] == {"value": 6912 * MIB, "low": 6912 * MIB, "high": 6912 * MIB}
    assert parts["left under the ceiling"]["now"]["value"] == (30_969 - 22_208 - 6_912) * MIB
    assert parts["left under the ceiling"]["best"]["value"] == 0
    assert stacks["pair"]["cards"] == 2


def test_one_part_alone_is_no_stack(pair: dict[str, Any]) -> None:
    (host,) = [stack for stack in pair["stacks"] if stack["name"] == "host"]
    lone = {**host, "parts": [host["parts"][0], *({**part, "now": None, "best": None} for part in host["parts"][1:])]}
    assert shown([host]) == [host]
    assert shown([lone]) == []
    total = {"now": None, "best": {"value": 1 << 40, "low": 1 << 40, "high": 1 << 40}}
    assert len(shown([{**lone, "total": total}])) == 1
    assert "only what is known is drawn" in page_of("stated-pair", "prefill", moves=True).decode()


def test_cards_that_differ_have_a_stack_each(tmp_path: Path, capsys: Capture) -> None:
    facts = ("card_total.0=32624MiB", "card_total.1=32560MiB", *BUDGET[1:])
    words = Server("radiance@1.8.1", FUNDED.config, facts=facts).words(tmp_path)
    said = ask(capsys, "report", *words, "--goal", "host-ram", "--json")
    valid("report", said.document)
    cards = [stack for stack in said.document["stacks"] if stack["name"] == "card"]
    assert [stack["card"] for stack in cards] == [0, 1]
    left = [stack["parts"][-1]["now"]["value"] for stack in cards]
    assert left[0] - left[1] == 64 * MIB
    assert left[1] >= 0
    for stack in cards:
        assert stack["total"]["now"]["value"] == sum(part["now"]["value"] for part in stack["parts"])
    assert {item.name for item in pictures(said.document)} >= {"stack-card-0", "stack-card-1"}


def test_what_is_asked_for_beyond_the_total_is_left_below_nothing(tmp_path: Path, capsys: Capture) -> None:
    over = with_config(STATED, pair_env(26_000, 6_912, 4, 200_000))
    said = ask(capsys, "report", *over.words(tmp_path), "--goal", "slab", "--json")
    (stack,) = [stack for stack in said.document["stacks"] if stack["name"] == "pair"]
    assert stack["parts"][-1]["now"]["value"] == (30_969 - 26_000 - 6_912) * MIB < 0
    assert said.document["now"]["answer"]["verdict"] == "does_not_fit"
    text = page(said.document).decode()
    assert "-1,943 MiB" in text or "-1.90 GiB" in text


def test_a_part_that_cannot_be_had_says_why(tmp_path: Path, capsys: Capture) -> None:
    said = ask(capsys, "report", str(SITES / "two-r9700"), "--goal", "prefill", "--json")
    valid("report", said.document)
    assert said.code == 0
    assert said.document["now"]["answer"]["verdict"] == "fits"
    assert said.document["reached_now"] is None
    for key in ("shapes", "tradeoff", "laws"):
        assert said.document[key]["answer"] is None
        assert said.document[key]["missing"]
    assert "not known" in Reading(page(said.document).decode()).text
    nothing = ask(capsys, "report", *Server("radiance@1.0.13", DERIVED.config).words(tmp_path), "--json")
    assert nothing.code == 4
    assert {"card_total", "already_held"} <= {item["name"] for item in nothing.document["missing"]}


def test_a_question_without_an_answer(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "page.html"
    said = ask(capsys, "report", *STATED.words(tmp_path), "--goal", "slab", "--given", "max_num_seqs=8", "--given",
               "kv_cache_dtype=bf16", "--at-least", "vram_weights=25600MiB", "--html", str(target), "--json")
    valid("report", said.document)
    assert (said.code, said.document["shapes"]["answer"]["status"]) == (3, "infeasible")
    text = Reading(target.read_text(encoding="utf-8")).text
    assert "No shape does this." in text
    assert "at least vram_weights=25600MiB" in text


def test_the_rival_of_a_goal() -> None:
    def first(site: str, goal: str) -> list[str]:
        return list(rivals(load(read_site(SITES / site)), goal))

    assert first("two-r9700", "context") == ["slab", "headroom"]
    assert first("two-r9700", "slab") == ["context", "headroom"]
    assert first("stated-pair", "context") == ["slab", "prefill", "headroom"]
    assert first("stated-pair", "prefill")[0] == "context"
    assert first("unified-memory", "sessions") == ["headroom"]
    assert first("unified-memory", "headroom")[0] == "sessions"


def test_the_schema_is_strict(pair: dict[str, Any]) -> None:
    whole = edited(pair, lambda d: d["tradeoff"]["answer"]["points"].__delitem__(slice(2, None)))
    assert VALIDATORS["report"].is_valid(whole)
    wrong = [
        edited(whole, lambda d: d.update(extra=1)),
        edited(whole, lambda d: d.pop("stacks")),
        edited(whole, lambda d: d.update(goal="speed")),
        edited(whole, lambda d: d["now"].update(answer=None)),
        edited(whole, lambda d: d["now"].update(why="no")),
        edited(whole, lambda d: d["now"]["answer"].update(verdict="maybe")),
        edited(whole, lambda d: d["shapes"]["answer"].update(status="infeasible")),
        edited(whole, lambda d: d["shapes"]["answer"].update(extra=1)),
        edited(whole, lambda d: d["tradeoff"]["answer"].update(extra=1)),
        edited(whole, lambda d: d["tradeoff"].update(answer=d["shapes"]["answer"])),
        edited(whole, lambda d: d["laws"]["answer"]["laws"][0].update(metric="ttft")),
        edited(whole, lambda d: d["stacks"][0]["parts"][0].update(best={"value": 1.5, "low": 1, "high": 2})),
        edited(whole, lambda d: d["stacks"][0].pop("missing")),
        edited(whole, lambda d: d["sensitivity"]["answer"]["knobs"][0].update(up={"to": 1})),
        edited(whole, lambda d: d["sensitivity"]["answer"]["facts"][0]["ends"].pop("middle")),
    ]
    for number, document in enumerate(wrong):
        assert not VALIDATORS["report"].is_valid(document), number


# --- the command


def test_tables_for_the_terminal(capsys: Capture) -> None:
    said = ask(capsys, "report", str(SITES / "unified-memory"), "--goal", "sessions")
    assert said.code == 0
    for words in ("The shape as it is", "Where memory goes", "working memory", "The best shapes", "sessions against",
                  "What the answer hangs on", "These change nothing of the goal", "points: measured"):
        assert words in said.out, words


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_pictures_as_files(kind: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "drawn"
    words = ["report", str(SITES / "host-pool"), "--goal", "host-ram", "--pictures", str(folder), "--format", kind]
    said = ask(capsys, *words, "--json")
    valid("report", said.document)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"{name}.{kind}" for name in ("shapes", "stack-card", "stack-host", "tornado")]
    assert sorted(said.document["pictures"]) == [str(folder / name) for name in names]
    start = b"\x89PNG" if kind == "png" else b"<?xml"
    first = {name: (folder / name).read_bytes() for name in names}
    assert all(data.startswith(start) for data in first.values())
    if kind == "svg":
        assert ask(capsys, *words).out.count("drawn:") == len(names)
        assert {name: (folder / name).read_bytes() for name in names} == first


def test_a_page_is_written_whole_and_over_an_older_one(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "page.html"
    target.write_text("older", encoding="utf-8")
    words = ["report", str(SITES / "unified-memory"), "--goal", "sessions", "--html", str(target)]
    assert ask(capsys, *words).out == f"wrote {target}\n"
    once = target.read_bytes()
    assert ask(capsys, *words, "--json").document["page"] == str(target)
    assert target.read_bytes() == once
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(("words", "message"), [
    (["--html", "."], "is a folder"),
    (["--html", "no/such/page.html"], "does not exist"),
    (["--pictures", "file"], "is a file"),
    (["--pictures", "no/such"], "does not exist"),
    (["--format", "gif"], "png or svg"),
    (["--goal", "speed"], "no goal"),
    (["--goal", "slab"], "no goal"),
    (["--pareto", "sessions"], "two or three goals"),
    (["--pareto", "sessions,nothing"], "no goal"),
    (["--pareto", "sessions,sessions"], "named twice"),
])
def test_errors(words: list[str], message: str, tmp_path: Path, capsys: Capture,
                monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = ask(capsys, "report", str(SITES / "unified-memory"), *(["--goal", "sessions"] if "--goal" not in words
                                                                 else []), *words)
    assert said.code == 2
    assert message in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_place_that_takes_no_file(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    said = ask(capsys, "report", str(SITES / "unified-memory"), "--goal", "sessions", "--html",
               str(tmp_path / "page.html"))
    assert (said.code, list(tmp_path.iterdir())) == (2, [])
    assert "No space left" in said.err


def test_without_matplotlib(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    said = ask(capsys, "report", str(SITES / "unified-memory"), "--goal", "sessions", "--html",
               str(tmp_path / "page.html"))
    assert said.code == 2
    assert "pip install 'shapewright[plot]'" in said.err
    assert ask(capsys, "report", str(SITES / "unified-memory"), "--goal", "sessions", "--json").code == 0


# --- the page


def test_the_page_is_complete_in_itself(made: str) -> None:
    text, found = made, Reading(made)
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "audio", "video", "source", "base", "form"}
    assert "@import" not in text
    assert "@font-face" not in text
    for tag, attributes in found.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                assert (value or "").startswith(("#", "data:,")), (tag, name, value)
    assert all(part.startswith("#") for part in re.findall(r"url\(([^)]*)\)", text))
    policy = next(attributes["content"] for tag, attributes in found.tags
                  if attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_ids_are_unique_and_pointers_lead_somewhere(made: str) -> None:
    ids = [attributes["id"] for _, attributes in Reading(made).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    pointers = re.findall(r'href="#([^"]+)"', made) + re.findall(r"url\(#([^)]+)\)", made)
    assert len(pointers) > 50
    assert set(pointers) <= set(ids)
    assert set(SECTIONS) <= set(ids)


def test_every_part_is_on_the_page(made: str) -> None:
    text = Reading(made).text
    for words in ("3,838 t/s", "better by 458.0 t/s", "pool_contract", "the server serves", "proven best",
                  "left under the ceiling", "static weights", "prefill against context", "hinge", "threshold",
                  "Contradict each other", "max_num_seqs", "+506.7 t/s", "no shape fits", "bf16: not known",
                  "pair_ceiling",
                  "operator note 001", "grep MemTotal /proc/meminfo", "beaten by points"):
        assert words in text, words


def test_every_colour_is_defined_in_both_themes(pair: dict[str, Any], made: str) -> None:
    assert set(DARK) == set(COLOURS)
    used = set(re.findall(r"var\(--c([0-9a-f]{6})\)", made))
    assert used <= {colour.lower().removeprefix("#") for colour in COLOURS}
    assert len(used) > 8
    drawn = re.findall(r"<svg.*?</svg>", made, flags=re.DOTALL)
    assert len(drawn) == 2 * len(list(pictures(pair)))
    for svg in drawn:
        assert not re.search(r"(?:fill|stroke): #", svg)
        assert "font: " not in svg
        assert "xlink" not in svg


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG defines it."""
    def light(colour: str) -> float:
        parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((light(one), light(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_text_stands_out_in_both_themes() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    for theme in ({colour: colour for colour in COLOURS}, DARK):
        for colour in TEXT_COLOURS:
            assert contrast(theme[colour], theme[PAPER]) >= 4.5, theme[colour]
        for colour in (*drawing._PARTS, GREY):
            least = 2.2 if colour == plot.SKY else 3  # the sky is a band and an area with its name beside it
            assert contrast(theme[colour], theme[PAPER]) >= least, theme[colour]


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def test_what_users_write_stays_text(tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED["stated pair"]
    hostile = text.replace("a probe", "<script>alert(3)</script> & co").replace("another probe [of 3]",
                                                                                 "<img src=y onerror=z> --> ]]>")
    env = pair_env(22_208, 6_912, 4, 200_000)["frank.env"]
    env += f"SERVED_NAME={EVIL}\nMARKUP<b>=1\nAPI_KEY=hunter2secret\n"
    words = measured(tmp_path, with_config(server, {"frank.env": env}), hostile)
    said = ask(capsys, "report", *words, "--goal", "slab", "--json", "--html", str(tmp_path / "page.html"))
    assert said.code == 0
    found = Reading((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert not {"script", "img"} & {tag for tag, _ in found.tags}
    assert "<script>alert(3)</script> & co" in found.text
    assert "hunter2secret" not in found.text + json.dumps(said.document)


def test_every_text_of_a_document_is_escaped(pair: dict[str, Any], made: str) -> None:
    """Whatever string the document carries, nothing of it becomes a tag or leaves its attribute."""
    keep = {"verdict", "outcome", "outcomes", "name", "status", "axis", "form", "law", "unit", "sense"}

    def poisoned(node: Any, key: str = "") -> Any:
        if isinstance(node, dict):
            return {name: poisoned(item, name) for name, item in node.items()}
        if isinstance(node, list):
            return [poisoned(item, key) for item in node]
        return f"{node} {EVIL}" if isinstance(node, str) and key not in keep else node

    document = poisoned(pair)
    for law in document["laws"]["answer"]["laws"]:
        law["name"] = EVIL
    clean, found = Reading(made), Reading(page(document).decode())
    assert found.text.count("<script>alert(1)</script>") > 200
    assert {tag for tag, _ in found.tags} == {tag for tag, _ in clean.tags}
    assert {name for _, attributes in found.tags for name in attributes} == {
        name for _, attributes in clean.tags for name in attributes}


# --- pictures


def test_labels_are_spread_without_crossing() -> None:
    assert spread([90, 89, 88, 20], 10, 5, 95) == [90, 80, 70, 20]
    assert spread([12, 11, 10], 10, 5, 95) == [25, 15, 5]
    assert spread([50], 10, 5, 95) == [50]
    assert spread([], 10, 5, 95) == []


def test_bars_of_a_tornado_are_sorted_by_the_larger_effect() -> None:
    def move(to: int, gain: float | None) -> dict[str, Any]:
        return {"to": to, "reoptimised": gain}

    ends = {"pessimistic": 3700.0, "middle": 3838.0, "optimistic": 3990.0}
    moved = {"goal": {"goal": "prefill", "unit": "t/s"}, "knobs": [
        {"knob": "vram_kv_mib", "value": 5065, "up": move(5129, -61.2), "down": move(5001, None)},
        {"knob": "max_num_seqs", "value": 3, "up": move(4, -420.0), "down": move(2, 512.5)},
        {"knob": "max_num_batched_tokens", "value": 2048, "up": move(3072, 0), "down": None},
    ], "facts": [{"fact": "pair_ceiling", "ends": ends}, {"fact": "card_total", "ends": None},
                 {"fact": "expert_plane", "ends": dict.fromkeys(ends, 3838.0)}]}
    knobs, facts = knob_bars(moved), fact_bars(moved)
    assert [bar.words.split()[0] for bar in knobs] == ["max_num_seqs", "vram_kv_mib"]
    assert [[end for end, _, _ in bar.ends] for bar in knobs] == [[512.5, -420.0], [-61.2]]
    assert [text for _, text, _ in knobs[0].ends] == ["+512.5 t/s", "-420.0 t/s"]
    assert [(bar.words, [end for end, _, _ in bar.ends]) for bar in facts] == [("pair_ceiling", [-138.0, 152.0])]


def test_shapes_whose_value_nobody_knows_are_drawn_by_their_gain(capsys: Capture) -> None:
    document = ask(capsys, "report", str(SITES / "stated-pair"), "--goal", "slab", "--json").document
    assert all(shape["objective"]["value"] is None for shape in document["shapes"]["answer"]["shapes"])
    assert ranks(document)[0].ends[0][:2] == (3696.0 * MIB, "+3.61 GiB")


def test_a_picture_for_a_page_has_a_size_of_its_box_and_ids_of_its_own() -> None:
    svg = (b'<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg width="10pt" viewBox="0 0 10 20" xmlns:xlink="x"><metadata>'
           b'<a href="http://x"/></metadata><defs><style type="text/css">*{}</style></defs><g id="a"><use '
           b'xlink:href="#a" style="fill: #1B1F24"/></g><!-- said --><text style="font: bold 11px \'DejaVu\', sans; '
           b'fill: #ffffff" clip-path="url(#a)">a #1b1f24</text></svg>')
    assert inline(svg, "p", "w &amp; x", "wide") == (
        '<svg class="wide" viewBox="0 0 10 20" role="img" aria-label="w &amp; x"><title>w &amp; x</title>'
        '<defs></defs><g id="p-a"><use href="#p-a" style="fill: var(--c1b1f24)"/></g>'
        '<text style="font-size: 11px; font-weight: bold; fill: var(--cffffff)" clip-path="url(#p-a)">a #1b1f24</text>'
        "</svg>")


def test_a_site_folder_of_ones_own(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN)
    said = ask(capsys, "report", str(site), "--goal", "sessions", "--given", "kv_slots=2", "--json")
    valid("report", said.document)
    assert said.document["tradeoff"]["answer"] is None or said.document["tradeoff"]["answer"]["given"] == {
        "kv_slots": 2}
    stack = next(stack for stack in said.document["stacks"] if stack["name"] == "host")
    assert point(stack["total"]["now"]["value"]) == point(127_104_060 * 1024)
