"""The report's page in a real browser: every section there, nothing cut off, on a phone and on a desk, light and dark.

All pages are laid out in one start of Chromium, each in frames of exactly the widths asked about. A script put into
copies of them measures what is seen and sends it to the page around, whose body Chromium prints.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from optimizer.page import DARK, SECTIONS
from optimizer.plot import PAPER
from tests.optimizer.test_report import page_of

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed here (Debian: apt-get install chromium)")

ASKED = (("stated-pair", "prefill"), ("two-r9700", "sequences"), ("host-pool", "host-ram"),
         ("unified-memory", "headroom"))
WIDTHS = (390, 1440)
SECONDS = 90.0

#: What a page tells of itself: its width, its sections, texts that are cut off, too small, or over each other.
PROBE = """
<script>
const errors = [];
addEventListener("error", event => errors.push(String(event.message)));
addEventListener("load", () => {
  const seen = node => node.getClientRects().length > 0;
  const told = (node, text) => (node.textContent.trim().slice(0, 40) + ": " + text);
  const cut = [], small = [], over = [], wide = innerWidth;
  let texts = 0;
  for (const svg of document.querySelectorAll("svg")) {
    if (!seen(svg)) continue;
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width, places = [];
    if (box.left < -1 || box.right > wide + 1) cut.push("a picture: " + box.left + " to " + box.right);
    for (const text of svg.querySelectorAll("text")) {
      const at = text.getBoundingClientRect();
      texts += 1;
      if (at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1)
        cut.push(told(text, [at.left - box.left, at.right - box.right, at.top - box.top, at.bottom - box.bottom]));
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 10.9) small.push(told(text, size));
      for (const [other, name] of places) {
        const x = Math.min(at.right, other.right) - Math.max(at.left, other.left);
        const y = Math.min(at.bottom, other.bottom) - Math.max(at.top, other.top);
        if (x > 2 && y > 4) over.push(told(text, name + " by " + x + " x " + y));
      }
      places.push([at, text.textContent.trim().slice(0, 40)]);
    }
  }
  for (const node of document.querySelectorAll("h1, h2, h3, p, li, figure, nav a, .box, footer")) {
    const at = node.getBoundingClientRect();
    if (at.left < -1 || at.right > wide + 1 || (node.className !== "box" && node.scrollWidth > node.clientWidth + 1
        && node.tagName !== "A")) cut.push(told(node, at.left + " to " + at.right));
    if (parseFloat(getComputedStyle(node).fontSize) < 11) small.push(told(node, "small"));
  }
  for (const box of document.querySelectorAll(".box"))
    if (box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "auto") cut.push(told(box, "box"));
  const sections = [...document.querySelectorAll("section")].filter(node => node.getBoundingClientRect().height > 40);
  parent.postMessage({name: NAME, wide, high: document.documentElement.scrollHeight,
    across: document.documentElement.scrollWidth, errors, cut, small, over, texts,
    sections: sections.map(node => node.id), pictures: [...document.querySelectorAll("svg")].filter(seen).length,
    paper: getComputedStyle(document.body).backgroundColor}, "*");
});
</script>
"""

#: Pages with one fault each, which the probe must find.
FAULTS = {
    "an error": "<script>nothing.at.all</script>",
    "too wide": "<div style='width:700px'>wide</div><p style='width:700px'>too wide</p>",
    "cut text": "<svg viewBox='0 0 100 20' style='width:100px'><text x='90' y='15'>beyond the edge</text></svg>",
    "small text": "<svg viewBox='0 0 1000 20' style='width:300px'><text x='9' y='15'>tiny</text></svg>",
    "one over another": "<svg viewBox='0 0 300 40' style='width:300px'><text x='5' y='20'>one text</text>"
                        "<text x='20' y='22'>another</text></svg>",
}


def chromium(folder: Path, *words: str) -> str:
    """One start of the browser, of its own, without a network; what it printed."""
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
         "--disable-background-networking", "--no-first-run", f"--user-data-dir={folder / 'profile'}", *words],
        capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def pages() -> dict[str, bytes]:
    """The pages of four sites; the first with sensitivities."""
    return {f"{name} {goal}": page_of(name, goal, moves=place == 0) for place, (name, goal) in enumerate(ASKED)}


@pytest.fixture(scope="module")
def measured(pages: Mapping[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every page, and every faulty one, told of itself in every width."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {name: data.decode() for name, data in pages.items()}
    texts |= {name: f"<!DOCTYPE html><html><head></head><body>{body}</body></html>" for name, body in FAULTS.items()}
    frames = []
    for name, text in texts.items():
        for width in WIDTHS:
            told = f"{name} at {width}"
            path = folder / f"{told.replace(' ', '-')}.html"
            start, policy, end = text.partition('<meta http-equiv="Content-Security-Policy"')
            copied = start + end.partition(">")[2] if policy else text  # which forbids every script, the probe too
            path.write_text(copied.replace("<head>", "<head>" + PROBE.replace("NAME", json.dumps(told)), 1),
                            encoding="utf-8")
            frames.append(f'<iframe src="{path.name}" style="width:{width}px;height:900px;border:0"></iframe>')
    (folder / "all.html").write_text(
        "<!DOCTYPE html><body><pre id='told'></pre><script>const all = [];addEventListener('message', event => {"
        "all.push(event.data); document.getElementById('told').textContent = JSON.stringify(all);});</script>"
        + "".join(frames), encoding="utf-8")
    out = chromium(folder, "--window-size=1600,1200", "--virtual-time-budget=10000", "--dump-dom",
                   (folder / "all.html").as_uri())
    told = out.partition("<pre id=\"told\">")[2].partition("</pre>")[0]
    return {item["name"]: item for item in json.loads(unescape(told))}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [" ".join(asked) for asked in ASKED])
def test_every_section_is_there_and_nothing_is_cut_off(name: str, width: int, measured: Mapping[str, Any]) -> None:
    told = measured[f"{name} at {width}"]
    assert told["wide"] == width, "it was laid out in another width"
    assert told["errors"] == []
    assert told["sections"] == list(SECTIONS)
    assert told["across"] <= width
    assert told["cut"] == []
    assert told["small"] == []
    assert told["over"] == []
    assert told["pictures"] >= 3, "each picture is shown once"
    assert told["texts"] > 30
    assert told["high"] > 2000


def test_each_width_has_the_picture_that_is_drawn_for_it(pages: Mapping[str, bytes],
                                                         measured: Mapping[str, Any]) -> None:
    for name, data in pages.items():
        counts = {measured[f"{name} at {width}"]["pictures"] for width in WIDTHS}
        assert counts == {data.count(b"<svg") // 2}


def test_the_probe_finds_faults(measured: Mapping[str, Any]) -> None:
    narrow = {name: measured[f"{name} at 390"] for name in FAULTS}
    assert narrow["an error"]["errors"]
    assert narrow["too wide"]["across"] > 390
    assert narrow["too wide"]["cut"]
    assert narrow["cut text"]["cut"]
    assert narrow["small text"]["small"]
    assert narrow["one over another"]["over"]
    assert not any(narrow[name]["sections"] for name in FAULTS)


def dots_of(path: Path) -> Iterator[tuple[int, ...]]:
    """One in 25 dots of a picture, from the top left on, as (red, green, blue) of 0 to 255."""
    from matplotlib import image

    for row in image.imread(path)[2::5, 2::5, :3]:
        yield from (tuple(round(float(part) * 255) for part in dot) for dot in row)


@pytest.mark.parametrize(("scheme", "paper"), [(1, PAPER), (0, DARK[PAPER])], ids=["light", "dark"])
def test_light_and_dark_as_pictures(scheme: int, paper: str, pages: Mapping[str, bytes], tmp_path: Path) -> None:
    """The untouched page, drawn: its paper is that of the theme, and there is something on it."""
    target, shot = tmp_path / "page.html", tmp_path / "shot.png"
    target.write_bytes(pages["unified-memory headroom"])
    chromium(tmp_path, f"--blink-settings=preferredColorScheme={scheme}", "--window-size=600,1500",
             f"--screenshot={shot}", target.as_uri())
    dots = list(dots_of(shot))
    ground = tuple(int(paper[place:place + 2], 16) for place in (1, 3, 5))
    assert dots[0] == ground
    share = dots.count(ground) / len(dots)
    assert 0.5 < share < 0.99
    assert len(set(dots)) > 30
