"""The report's pictures: stacks of memory, ranked shapes, and what moves the answer how far.

What is drawn is in the JSON document of ``report``. Each picture is drawn once, in three looks: as a file, and for a
page wide and narrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from optimizer.plot import (
    AMBER,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PINK,
    PURPLE,
    RED,
    SKY,
    STEEL,
    Look,
    figure_of,
    front_picture,
    law_picture,
    plain,
)
from optimizer.render.base import amount, setting_of, signed
from optimizer.stacks import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: As a page shows them: 760 and 350 CSS pixels wide, with text of 11 of these.
WIDE: Final = Look(width=760 / 72, height=330 / 72, size=11.0, titles=False)
NARROW: Final = Look(width=350 / 72, height=250 / 72, size=11.0, titles=False, narrow=True)

#: Parts of a stack in turn: neighbours differ in lightness too.
_PARTS: Final = (STEEL, AMBER, PURPLE, GREEN, BROWN, SKY, PINK)
_POINT: Final = 72.0  # to an inch; one is a pixel of a page


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the file's name without its ending, what it shows in words, and how it is drawn."""

    name: str
    words: str
    draw: Callable[[str, Look], bytes]


def pictures(document: Mapping[str, Any]) -> Iterator[Picture]:
    """Every picture that the document of ``report`` has something for. Each draws when asked to."""
    for stack in shown(document["stacks"]):
        card = "" if stack["card"] is None else f"-{stack['card']}"
        yield Picture(f"stack-{stack['name']}{card}", stack_words(stack), partial(_stack, stack))
    found = document["shapes"]["answer"]
    if found is not None and ranks(document):
        yield Picture("shapes", f"The ranked shapes and what each gives of {found['goal']}", partial(_shapes, document))
    front = document["tradeoff"]["answer"]
    if front is not None and len(front["points"]) > 1:
        names = " against ".join(goal["goal"] for goal in front["goals"])
        yield Picture("tradeoff", f"{names}: {len(front['points'])} shapes that none beats",
                      lambda kind, look: front_picture(front, kind, look))
    moved = document["sensitivity"]["answer"]
    if moved is not None and (knob_bars(moved) or fact_bars(moved)):
        yield Picture("tornado", "What one step of each knob, and the uncertainty of each fact, moves the answer by",
                      partial(_tornado, moved))
    laws = document["laws"]["answer"]
    drawn = [law for law in laws["laws"] if law["curve"] is not None] if laws is not None else []
    for number, law in enumerate(drawn, start=1):
        yield Picture(f"law-{number}", f"The law {plain(law['name'])}: median, interval, rival forms and points",
                      partial(_law, law))


def _law(law: Mapping[str, Any], kind: str, look: Look) -> bytes:
    return law_picture(law, kind, look)


# --- for a page


def inline(svg: bytes, prefix: str, words: str, classes: str) -> str:
    """An SVG file's drawing as part of a page: no size of its own, every id with a prefix, every colour a variable.

    ``words`` (escaped already) are what a reader hears who cannot see it.
    """
    text = svg.decode("utf-8")
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<title>.*?</title>\s*", "", text, count=1, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None
    head = f'<svg class="{classes}" viewBox="{box[1]}" role="img" aria-label="{words}"><title>{words}</title>'
    text = re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    text = re.sub(r"font: (?:(bold|\d+) )?([\d.]+)px [^;\"]*", _font, text)
    # an attribute holds styles only where it is one; text between tags keeps its letters
    return re.sub(r'style="[^"]*"', _coloured, text)


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found[2]}px" + (f"; font-weight: {found[1]}" if found[1] else "")


def _variable(colour: re.Match[str]) -> str:
    return f"var(--c{colour[1].lower()})"


def _coloured(style: re.Match[str]) -> str:
    return re.sub(r"#([0-9a-fA-F]{6})", _variable, str(style[0]))


# --- stacks


def stack_words(stack: Mapping[str, Any]) -> str:
    """What a stack is of, in words."""
    if stack["card"] is not None:
        return f"{stack['title']}: card {stack['card']}"
    cards = stack["cards"]
    return f"{stack['title']}" + (f" (each of {cards})" if cards is not None and cards > 1 else "")


def _stack(stack: Mapping[str, Any], kind: str, look: Look) -> bytes:
    parts = drawn_parts(stack)
    row = 31.0 if look.narrow else 21.0
    head = 26.0 + (24.0 if look.titles else 0.0)
    high = max(head + row * len(parts) + 26, 300.0)
    sized = replace(look, height=high / _POINT)
    return figure_of([partial(_stack_panel, stack=stack, parts=parts, look=sized, head=head, row=row)],
                     plain(stack_words(stack)), kind, sized)


def drawn_parts(stack: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a stack that are something, or may be, in either shape."""
    return [part for part in stack["parts"] if any(part[word] is not None and (part[word]["low"] or part[word]["high"])
                                                   for word in ("now", "best"))]


def _sized(part: Mapping[str, Any], word: str) -> float:
    """What a bar shows of a part: what is less than nothing has no height."""
    return 0.0 if part[word] is None else float(max(part[word]["value"], 0))


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near those wanted (in falling order) with ``gap`` between, within low to high where there is room."""
    places: list[float] = []
    for want in wanted:
        places.append(min(want, places[-1] - gap if places else high))
    floor = low
    for place in reversed(range(len(places))):
        places[place] = max(places[place], floor)
        floor = places[place] + gap
    return places


def _stack_panel(axes: Axes, *, stack: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], look: Look,
                 head: float, row: float) -> None:
    from matplotlib.patches import Polygon, Rectangle

    # in pixels, less what the layout keeps free around the axes
    wide, high = look.width * _POINT - 2 * 7.2, look.height * _POINT - 2 * 8.64
    axes.set_axis_off()
    axes.set_xlim(0, wide)
    axes.set_ylim(0, high)
    words = [word for word in ("now", "best") if any(part[word] is not None for part in parts)]
    bar = 46.0 if look.narrow else 110.0
    between = 22.0 if look.narrow else 60.0
    top, unit = high - head, stack["unit"]
    tall = top - 4
    most = max([_sum(parts, word) for word in words] + [float((stack["total"][word] or {"value": 0})["value"])
                                                        for word in words])
    scale = tall / most if most else 0.0
    ends: dict[str, list[tuple[float, float]]] = {}
    for column, word in enumerate(words):
        left, edge = column * (bar + between), top
        axes.text(left + bar / 2, top + 8, word, ha="center", va="bottom", fontweight="bold")
        ends[word] = []
        for place, part in enumerate(parts):
            tall_part = _sized(part, word) * scale
            rest = part["name"] == stack["parts"][-1]["name"]
            axes.add_patch(Rectangle((left, edge - tall_part), bar, tall_part, facecolor=PAPER if rest else _hue(place),
                                     edgecolor=GREY if rest else PAPER, linewidth=0.8,
                                     linestyle=(0, (3, 2)) if rest else "solid", zorder=3))
            ends[word].append((edge, edge - tall_part))
            edge -= tall_part
        limit = stack["total"][word]
        if limit is not None and limit["value"] < _sum(parts, word) * 0.9999:  # asked for more than there is
            line = float(top - limit["value"] * scale)
            axes.plot([left - 4, left + bar + 4], [line, line], color=RED, linewidth=2.5, zorder=5)
    if len(words) == 2:
        for place, (one, other) in enumerate(zip(ends["now"], ends["best"], strict=True)):
            if max(one[0] - one[1], other[0] - other[1]) >= 1:
                axes.add_patch(Polygon([(bar, one[0]), (bar + between, other[0]), (bar + between, other[1]),
                                        (bar, one[1])],
                                       facecolor=_hue(place), alpha=0.18, linewidth=0, zorder=2))
    end = len(words) * (bar + between) - between
    label = end + (26.0 if look.narrow else 60.0)
    middles = [(upper + lower) / 2 for upper, lower in ends[words[-1]]]
    heights = spread(middles, row, row / 2, top - row / 2)
    columns = [label] + [wide - 110.0 * (len(words) - place) + 110.0 for place in range(len(words))]
    if not look.narrow:
        for x, word in zip(columns[1:], words, strict=True):
            axes.text(x, top + 8, word, ha="right", va="bottom", color=GREY)
    for place, (part, middle, y) in enumerate(zip(parts, middles, heights, strict=True)):
        axes.plot([end + 2, end + 8, label - 8, label - 3], [middle, middle, y, y], color=_hue(place), linewidth=1.2,
                  zorder=1)
        texts = ["?" if part[word] is None else amount(part[word]["value"], unit, whole=False) for word in words]
        if look.narrow:
            axes.text(label, y + 1, plain(part["name"]), ha="left", va="bottom")
            axes.text(label, y - 1, " -> ".join(dict.fromkeys(texts)), ha="left", va="top", color=GREY)
        else:
            axes.text(label, y, plain(part["name"]), ha="left", va="center")
            for x, text in zip(columns[1:], texts, strict=True):
                axes.text(x, y, text, ha="right", va="center")
    _stack_head(axes, stack, words, look, label, top)


def _stack_head(axes: Axes, stack: Mapping[str, Any], words: Sequence[str], look: Look, label: float,
                top: float) -> None:
    if look.titles:
        axes.text(0, top + 32, plain(stack_words(stack)), fontweight="bold", fontsize=12, va="bottom")
    totals = dict.fromkeys("not known" if stack["total"][word] is None else
                           amount(stack["total"][word]["value"], stack["unit"], whole=False) for word in words)
    axes.text(label, top + 8, "in all " + " -> ".join(totals), ha="left", va="bottom", fontweight="bold")


def _sum(parts: Sequence[Mapping[str, Any]], word: str) -> float:
    return sum(_sized(part, word) for part in parts)


def _hue(place: int) -> str:
    return _PARTS[place % len(_PARTS)]


# --- bars with a line of words above each


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of bars: its words, the ends it reaches from the middle, each with words, and whiskers.

    One without ends is a heading.
    """

    words: str
    ends: tuple[tuple[float, str, str], ...] = ()
    whisker: tuple[float, float] | None = None


def _bars(axes: Axes, *, bars: Sequence[Bar], title: str, look: Look) -> None:
    """A line for each bar, its words above it; values stand at the ends, so that no axis is needed."""
    from matplotlib.patches import Rectangle

    reach = [end for bar in bars for end, _, _ in bar.ends] + [end for bar in bars for end in bar.whisker or ()]
    low, high = min([0.0, *reach]), max([0.0, *reach])
    # room for the words at both ends, a little over six tenths of a letter's height each
    left, right = (0.64 * look.size * max((len(_told(bar, side)) for bar in bars), default=0) + 8.0
                   for side in (-1, 1))
    wide = max(look.width * _POINT - 2 * 7.2 - left - right, 40.0)
    size = (high - low or 1.0) / wide
    axes.set_xlim(low - left * size, high + right * size)
    axes.set_ylim(len(bars) - 0.3, -0.55)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    if look.titles:
        axes.set_title(title, loc="left", fontweight="bold", fontsize=look.size + 1)
    for row, bar in enumerate(bars):
        if not bar.ends:
            axes.annotate(_cut(bar.words, look), (0, row + 0.2), xycoords=("axes fraction", "data"), ha="left",
                          va="center", fontweight="bold").set_in_layout(False)
            continue
        axes.annotate(_cut(bar.words, look), (0, row - 0.26), xycoords=("axes fraction", "data"), ha="left",
                      va="center", zorder=6).set_in_layout(False)
        for end, _, colour in sorted(bar.ends, key=lambda item: -abs(item[0])):  # the shorter one over the longer
            axes.add_patch(Rectangle((min(0.0, end), row + 0.02), abs(end), 0.4, facecolor=colour, linewidth=0,
                                     zorder=3))
        for side in (-1, 1):
            ends = [abs(end) for end, _, _ in bar.ends if (end >= 0) is (side > 0)]
            if ends:
                far = max([*ends, *(abs(end) for end in bar.whisker or ())]) * side
                axes.annotate(_told(bar, side), (far, row + 0.22), (4 * side, 0), textcoords="offset points",
                              ha="left" if side > 0 else "right", va="center", zorder=6).set_in_layout(False)
        axes.plot([0.0, 0.0], [row - 0.03, row + 0.47], color=INK, linewidth=1.2, zorder=4)
        if bar.whisker:
            axes.plot(bar.whisker, [row + 0.22] * 2, color=INK, linewidth=1.6, marker="|", markersize=8, zorder=5)


def _told(bar: Bar, side: int) -> str:
    """The words at one end of a bar."""
    return plain(" / ".join(text for end, text, _ in bar.ends if (end >= 0) is (side > 0)))


def _cut(words: str, look: Look) -> str:
    """Words as far as the picture is wide."""
    most = int((look.width * _POINT - 16) / (0.62 * look.size))
    return plain(words if len(words) <= most else f"{words[:most - 1]}…")


def _drawn_bars(bars: Sequence[Bar], title: str, kind: str, look: Look) -> bytes:
    sized = replace(look, height=((46 if look.titles else 20) + 38 * len(bars)) / _POINT)
    return figure_of([partial(_bars, bars=bars, title=title, look=sized)], title, kind, sized)


# --- ranked shapes


def ranks(document: Mapping[str, Any]) -> list[Bar]:
    """What each ranked shape gives, and the one that runs now; what it changes by where that alone is known."""
    shapes = document["shapes"]["answer"]["shapes"]
    if any(shape["objective"]["value"] is None for shape in shapes):
        return _gains(shapes)
    found = []
    now = document["reached_now"]
    if now is not None:
        found.append(Bar("now", ((float(now["value"]), amount(now["value"], now["unit"]), GREY),)))
    for shape in shapes:
        item = shape["objective"]
        prediction = item.get("prediction")
        low, high = (prediction["low"], prediction["high"]) if prediction else (item["low"], item["high"])
        text = amount(item["value"], item["unit"])
        changes = ", ".join(f"{name} {setting_of(new)}" for name, (_, new) in shape["changes"].items()) or "as it is"
        found.append(Bar(f"rank {shape['rank']}: {changes}", ((float(item["value"]), text, BLUE),),
                         (float(low), float(high)) if low != high else None))
    return found


def _gains(shapes: Sequence[Mapping[str, Any]]) -> list[Bar]:
    known = [shape for shape in shapes if shape["objective"]["change"] is not None]
    return [Bar(f"rank {shape['rank']}", ((float(shape["objective"]["change"]),
                                          signed(shape["objective"]["change"], shape["objective"]["unit"]), BLUE),))
            for shape in known]


def _shapes(document: Mapping[str, Any], kind: str, look: Look) -> bytes:
    return _drawn_bars(ranks(document), f"{document['shapes']['answer']['goal']}, by rank", kind, look)


# --- the tornado


def knob_bars(found: Mapping[str, Any]) -> list[Bar]:
    """A bar for each knob that a step of changes something, the larger effect first."""
    unit, bars = found["goal"]["unit"], []
    for item in found["knobs"]:
        moves = [(item[way]["to"], item[way]["reoptimised"], hue) for way, hue in (("down", ORANGE), ("up", BLUE))
                 if item[way] is not None]
        known = [(to, gain, hue) for to, gain, hue in moves if gain]
        if not known:
            continue
        steps = " / ".join(setting_of(to) for to, _, _ in moves)
        words = f"{item['knob']} {setting_of(item['value'])} to {steps}"
        bars.append((max(abs(gain) for _, gain, _ in known),
                     Bar(words, tuple((float(gain), signed(gain, unit), hue) for _, gain, hue in known))))
    return [bar for _, bar in sorted(bars, key=lambda pair: -pair[0])]


def fact_bars(found: Mapping[str, Any]) -> list[Bar]:
    """A bar for each fact whose own uncertainty moves the answer: from its pessimistic to its optimistic end."""
    unit, bars = found["goal"]["unit"], []
    for item in found["facts"]:
        ends = item["ends"]
        if ends is None or ends["middle"] is None:
            continue
        off = [(ends[end] - ends["middle"], hue) for end, hue in (("pessimistic", ORANGE), ("optimistic", BLUE))
               if ends[end] is not None and ends[end] != ends["middle"]]
        if off:
            bars.append((max(abs(gain) for gain, _ in off),
                         Bar(item["fact"], tuple((float(gain), signed(gain, unit), hue) for gain, hue in off))))
    return [bar for _, bar in sorted(bars, key=lambda pair: -pair[0])]


def _tornado(found: Mapping[str, Any], kind: str, look: Look) -> bytes:
    knobs, facts = knob_bars(found), fact_bars(found)
    heads = (("One step of a knob, all else solved again", knobs), ("A fact at the ends of its interval", facts))
    bars = [line for head, lines in heads if lines for line in (Bar(head), *lines)]
    return _drawn_bars(bars, f"{found['goal']['goal']}, gained or lost", kind, look)


