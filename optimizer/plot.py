"""Laws and sets of points as pictures: PNG and SVG files, and text for a terminal.

What is drawn is in the JSON documents of ``laws`` and ``pareto``.
"""

from __future__ import annotations

import io
import math
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import combinations, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from warnings import catch_warnings, filterwarnings

from measurements.records import ReadError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Up to so many laws share one figure, a panel each.
MAX_PANELS: Final = 4
_SUFFIXES: Final = (".png", ".svg")
_NEEDS: Final = "drawing needs matplotlib: pip install 'shapewright[plot]'"


@dataclass(frozen=True, slots=True)
class _Law:
    """One law of the document as both renderers draw it. Lines and points are runs of (x, y)."""

    title: str
    note: str
    x_label: str
    y_label: str
    level: str
    choices: tuple[str, ...]
    median: list[tuple[float, float]]
    low: list[tuple[float, float]]
    high: list[tuple[float, float]]
    rivals: dict[str, list[tuple[float, float]]]
    measured: list[tuple[float, float]]
    contradicting: list[tuple[float, float]]
    site: tuple[float, float, float, float] | None

    @property
    def apart(self) -> bool:
        """Whether nothing lies between the curve's places, so that no line may join them."""
        return bool(self.choices) or len({x for x, _ in self.median}) == 1

    @property
    def site_words(self) -> str:
        if self.site is None:
            return ""
        _, median, low, high = self.site
        step = _step(median)
        return f"{figure(median, step)} ({figure(low, step)} to {figure(high, step)})"

    def x_axis(self, count: int) -> Scale:
        """The data's range of x and a little air, with about ``count`` ticks inside."""
        found = [x for x, _ in (*self.median, *self.measured, *self.contradicting)]
        found += [self.site[0]] if self.site else []
        low, high = min(found), max(found)
        if self.choices:
            names = {float(place): name for place, name in enumerate(self.choices)}
            return Scale(min(low, 0.0) - 0.6, max(high, len(names) - 1.0) + 0.6, names)
        air = air_of(low, high, 0.03)
        ticks = [low] if low == high else multiples(low - air, high + air, count)
        step = ticks[1] - ticks[0] if len(ticks) > 1 else _step(low)
        return Scale(low - air, high + air, {tick: figure(tick, step) for tick in ticks})

    def y_axis(self, count: int, *, round_ends: bool = True) -> Scale:
        """All that is drawn and a little air, from 0 where that costs little; ``round_ends`` ends it at ticks."""
        lines = (self.median, self.low, self.high, *self.rivals.values(), self.measured, self.contradicting)
        found = [y for line in lines for _, y in line] + list(self.site[1:] if self.site else ())
        low, high = min(found), max(found)
        air = air_of(low, high, 0.04)
        bottom = 0.0 if 0 <= low < 0.35 * high else low - air
        ticks = multiples(bottom, high + air, count, outside=round_ends)
        ends = (ticks[0], ticks[-1]) if round_ends else (bottom, high + air)
        return Scale(*ends, {tick: figure(tick, ticks[1] - ticks[0]) for tick in ticks})


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float
    ticks: dict[float, str]

    def place(self, value: float, steps: int) -> int:
        """Which of ``steps`` equal parts holds the value."""
        return min(max(int((value - self.low) / (self.high - self.low) * steps), 0), steps - 1)


def air_of(low: float, high: float, share: float) -> float:
    """What to leave free at each end: a share of the range, or of the value where all are one."""
    return (high - low) * share if high - low > 1e-6 * max(abs(low), abs(high)) else abs(high) * 0.05 or 1.0


def multiples(low: float, high: float, count: int, *, outside: bool = False) -> list[float]:
    """About ``count`` round numbers, at least two, from low to high; with ``outside`` their ends enclose the range."""
    raw = (high - low) / max(count, 2)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if size * times >= raw * 0.999)
    if outside:
        return [index * step for index in range(math.floor(low / step), math.ceil(high / step) + 1)]
    found = [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return found if len(found) > 1 else multiples(low, high, count + 1)


def _step(value: float) -> float:
    """The last digit to show of a figure that stands alone: three digits, or whole numbers."""
    return 1.0 if value == int(value) else 10.0 ** min(math.floor(math.log10(abs(value))) - 2, 0)


def figure(value: float, step: float) -> str:
    """A number with as many decimals as steps of that size need."""
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    digits = next((digits for digits in range(7) if math.isclose(step, round(step, digits), rel_tol=1e-6)), 7)
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def plain(text: object) -> str:
    """Text with nothing in it that would steer a terminal or break a file."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def percent(weight: float) -> str:
    if 0 < weight < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= weight < 1 else f"{weight:.0%}".replace("%", " %")


def _read(law: Mapping[str, Any]) -> _Law:
    curve = law["curve"]
    places = [float(x) for x in curve["x"]]

    def line(values: Iterable[float]) -> list[tuple[float, float]]:
        return [(x, float(y)) for x, y in zip(places, values, strict=True)]

    def points(contradicts: bool) -> list[tuple[float, float]]:
        return [(float(item["x"]), float(item["rate"])) for item in law["observed"]
                if bool(item["contradicts"]) is contradicts]

    weights = {form["name"]: form["weight"] for form in law["forms"]}
    rivals = {f"{name}, {percent(weights[name])}" if name in weights else name: line(values)
              for name, values in curve["forms"].items()}
    median = line(curve["median"])
    held = ", ".join(f"{name} {_held(value)}" for name, value in curve["at"].items())
    unit = f" ({curve['unit']})" if curve["unit"] not in ("", curve["axis"]) else ""
    site = law["prediction"]
    return _Law(
        title=plain(law["name"]),
        note=plain("; at ".join(part for part in (str(law["verdict"]), held) if part)),
        x_label=plain(f"{curve['axis']}{unit}"),
        y_label=plain(f"{law['metric']} (tokens/s)"),
        level=percent(curve["level"]),
        choices=tuple(map(plain, curve["choices"] or ())),
        median=median, low=line(curve["low"]), high=line(curve["high"]),
        rivals={} if list(rivals.values()) == [median] else {plain(name): run for name, run in rivals.items()},
        measured=points(False), contradicting=points(True),
        site=(site["x"], site["median"], site["low"], site["high"]) if site else None,
    )


def _held(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:,}" if number else str(value)


# --- files

# The colours of Okabe and Ito, which differ in lightness too; each line has its own dashes.
INK, PAPER, GRID = "#1B1F24", "#FFFFFF", "#E3E3E3"
BLUE, SKY, RED, PURPLE, GREY = "#0072B2", "#56B4E9", "#B0002A", "#8A3A6B", "#555555"
ORANGE, GREEN, PINK, AMBER, STEEL, BROWN = "#D55E00", "#007A5A", "#A8507F", "#B07800", "#4A6FA5", "#6B4E16"
#: Every colour that a picture may have, in light; a page says what each is in the dark.
COLOURS: Final = (INK, PAPER, GRID, BLUE, SKY, RED, PURPLE, GREY, ORANGE, GREEN, PINK, AMBER, STEEL, BROWN)
_RIVALS: Final = ((ORANGE, (0, (6, 2))), (GREEN, (0, (1.5, 1.5))), (PINK, (0, (6, 2, 1.5, 2))),
                  (AMBER, (0, (3, 1.5))), (INK, (0, (8, 2, 1.5, 2, 1.5, 2))), (STEEL, (0, (10, 3))),
                  (BROWN, (0, (3, 1.5, 1, 1.5))))


@dataclass(frozen=True, slots=True)
class Look:
    """How a picture is set: inches wide, and high for each panel; points of its text; whether its title is in it.

    What is ``narrow`` has its legend below, not beside.
    """

    width: float = 9.5
    height: float = 4.7
    size: float = 10.0
    titles: bool = True
    narrow: bool = False


#: As files are drawn.
FILE: Final = Look()


def save_laws(document: Mapping[str, Any], path: Path) -> list[Path]:
    """Draws the laws that have a curve into ``path`` (.png or .svg) and returns the files written.

    Up to ``MAX_PANELS`` laws share one figure, a panel each; more become ``stem-1.ext``, ``stem-2.ext`` and so on.
    Files appear whole or not at all. Raises ReadError (``usage``) for another suffix, for a document in which no law
    has a curve, without matplotlib, and where a file cannot be written.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ReadError("pictures are .png or .svg files", file=str(path), kind="usage")
    laws = [_read(law) for law in document["laws"] if law["curve"] is not None]
    if not laws:
        raise ReadError("no law has a curve to draw: it takes points that differ in something", file=str(path),
                        kind="usage")
    if not path.parent.is_dir():
        raise ReadError("cannot be written: the folder does not exist", file=str(path), kind="usage")
    if len(laws) <= MAX_PANELS:
        pictures = {path: laws}
    else:
        pictures = {path.with_name(f"{path.stem}-{number}{path.suffix}"): [law]
                    for number, law in enumerate(laws, start=1)}
    write_files({target: _picture(shown, path.suffix.lower()[1:]) for target, shown in pictures.items()})
    return list(pictures)


def write_files(files: Mapping[Path, bytes]) -> None:
    """All drafts first, then each takes its name: a full disk leaves no file half written."""
    drafts = {target: target.with_name(f".{target.name}.new") for target in files}
    current = next(iter(files))
    try:
        for current, draft in drafts.items():
            draft.write_bytes(files[current])
        for current, draft in drafts.items():
            os.replace(draft, current)
    except OSError as error:
        raise ReadError(f"cannot be written: {error.strerror}", file=str(current), kind="usage") from None
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink()


def _picture(laws: Sequence[_Law], kind: str) -> bytes:
    return figure_of([partial(_panel, law=law, look=FILE) for law in laws], "; ".join(law.title for law in laws), kind)


def law_picture(law: Mapping[str, Any], kind: str, look: Look = FILE) -> bytes:
    """One law that has a curve, as a file's bytes. Raises ReadError (``usage``) without matplotlib."""
    shown = _read(law)
    lines = 3 + len(shown.rivals) + bool(shown.measured) + bool(shown.contradicting) + 2 * bool(shown.site)
    high = replace(look, height=look.height + lines * look.size / 50) if look.narrow else look
    return figure_of([partial(_panel, law=shown, look=high)], shown.title, kind, high)


def figure_of(panels: Sequence[Callable[[Axes], None]], title: str, kind: str, look: Look = FILE) -> bytes:
    """A figure of these panels as a file's bytes: the same bytes for the same panels and release of matplotlib.

    Raises ReadError (``usage``) without matplotlib.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise ReadError(_NEEDS, kind="usage") from None
    sink = io.BytesIO()
    with matplotlib.rc_context(), catch_warnings():
        filterwarnings("ignore", message="Glyph .* missing")  # a name that the font cannot write: a box stands for it
        matplotlib.rcdefaults()  # not what a user's own matplotlibrc would make of it
        matplotlib.rc("svg", fonttype="none", hashsalt="shapewright")
        matplotlib.rc("text", parse_math=False, color=INK)
        matplotlib.rc("font", size=look.size)
        matplotlib.rc("axes", edgecolor=INK, labelcolor=INK, facecolor=PAPER)
        matplotlib.rc("xtick", color=INK)
        matplotlib.rc("ytick", color=INK)
        figure = Figure(figsize=(look.width, look.height * len(panels)), facecolor=PAPER,
                        layout=ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.1, hspace=0.04))
        for place, draw in enumerate(panels, start=1):
            draw(figure.add_subplot(len(panels), 1, place))
        # nothing of when, where or with what: the picture is of the data only
        silent = {"Date": None, "Creator": "shapewright"} if kind == "svg" else {"Software": None}
        figure.savefig(sink, format=kind, dpi=150, metadata={**silent, "Title": title})
    return sink.getvalue()


def dressed(axes: Axes, x_axis: Scale, y_axis: Scale, *, across: bool = False) -> None:
    """Gives the axes their ranges and ticks, and a quiet grid; ``across`` rules it both ways."""
    axes.set_xlim(x_axis.low, x_axis.high)
    axes.set_ylim(y_axis.low, y_axis.high)
    axes.set_xticks(list(x_axis.ticks), list(x_axis.ticks.values()))
    axes.set_yticks(list(y_axis.ticks), list(y_axis.ticks.values()))
    axes.grid(axis="both" if across else "y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def name_marks(axes: Axes, shown: Sequence[Any], look: Look) -> None:
    """What the marks mean, beside the axes, or below where there is no room."""
    place = (0.0, -0.2) if look.narrow else (1.02, 1.0)
    axes.legend(handles=shown, loc="upper left", bbox_to_anchor=place, borderaxespad=0, frameon=False,
                labelspacing=0.4 if look.narrow else 0.8, handlelength=2.8)


def _panel(axes: Axes, law: _Law, look: Look) -> None:
    dressed(axes, law.x_axis(3 if look.narrow else 6), law.y_axis(8))
    axes.set_xlabel(law.x_label)
    axes.set_ylabel(law.y_label)
    if look.titles:
        note = textwrap.fill(law.note, 100)
        title = textwrap.fill(law.title, 72)
        axes.annotate(note, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", color=GREY)
        axes.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=10 + 14 * len(note.splitlines()))
    name_marks(axes, [*_curves(axes, law), *_marks(axes, law)], look)


def _curves(axes: Axes, law: _Law) -> list[Any]:
    """The band, the rivals and the median; short bars where nothing lies between the places."""
    from matplotlib.collections import LineCollection

    places = [x for x, _ in law.median]
    low, high = [y for _, y in law.low], [y for _, y in law.high]
    name = f"{law.level} interval for one\nnew measurement"
    rivals = [(label, run, *_RIVALS[index % len(_RIVALS)]) for index, (label, run) in enumerate(law.rivals.items())]
    if not law.apart:
        shown: list[Any] = [axes.fill_between(places, low, high, color=SKY, alpha=0.3, linewidth=0, label=name)]
        rest: list[Any] = [axes.plot(*zip(*run, strict=True), color=colour, linestyle=dashes, linewidth=1.4,
                                     label=label, zorder=4)[0] for label, run, colour, dashes in rivals]
        return [*axes.plot(*zip(*law.median, strict=True), color=BLUE, linewidth=3, label="median", zorder=3),
                *shown, *rest]
    x_axis = law.x_axis(6)
    half = (x_axis.high - x_axis.low) * (0.12 if len(law.choices) < 2 else 0.28 / (len(law.choices) + 0.2))

    def bars(run: Sequence[tuple[float, float]], reach: float, **style: Any) -> LineCollection:
        drawn = LineCollection([[(x - reach, y), (x + reach, y)] for x, y in run], **style)
        axes.add_collection(drawn, autolim=False)
        return drawn

    band = axes.bar(places, [top - bottom for bottom, top in zip(low, high, strict=True)], 2 * half, low,
                    color=SKY, alpha=0.3, linewidth=0, label=name)
    return [bars(law.median, half, colors=BLUE, linewidths=3, label="median", zorder=3), band,
            *(bars(run, half, colors=colour, linestyles=[dashes], linewidths=1.4, label=label, zorder=4)
              for label, run, colour, dashes in rivals)]


def _marks(axes: Axes, law: _Law) -> list[Any]:
    shown: list[Any] = []
    if law.measured:
        shown += axes.plot(*zip(*law.measured, strict=True), linestyle="none", marker="o", markersize=6.5,
                           color=INK, markeredgecolor=PAPER, markeredgewidth=0.8, zorder=6, label="measured")
    if law.contradicting:
        shown += axes.plot(*zip(*law.contradicting, strict=True), linestyle="none", marker="X", markersize=9,
                           color=RED, markeredgecolor=PAPER, markeredgewidth=0.8, zorder=7,
                           label="measured, contradicting")
    if law.site:
        x, median, low, high = law.site
        reach = [[max(median - low, 0)], [max(high - median, 0)]]
        shown.append(axes.errorbar([x], [median], reach, linestyle="none", marker="D", markersize=8, color=PURPLE,
                                   markerfacecolor=PAPER, markeredgewidth=1.8, elinewidth=1.8, capsize=5,
                                   capthick=1.8, zorder=5, label=f"this site's shape:\n{law.site_words}"))
    return shown


# --- the terminal

_CLEAR: Final = "\x1b[0m"
_INK: Final = {"edge": "\x1b[36m", "median": "\x1b[1;34m", "bar": "\x1b[35m", "site": "\x1b[1;35m", "title": "\x1b[1m",
               "measured": "\x1b[1m", "contradicting": "\x1b[1;31m", "dim": "\x1b[2m"}
#: The dots of one braille letter, by column and row.
_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


_UNICODE: Final = {"measured": "●", "contradicting": "×", "median": "⠒⠒", "edge": "⠂⠐", "site": "◆", "bar": "│",
                   "notch": "┤", "post": "│", "corner": "└", "floor": "─", "foot": "┬"}
_ASCII: Final = {"measured": "*", "contradicting": "x", "median": "-", "edge": ".", "site": "o", "bar": ":",
                 "notch": "+", "post": "|", "corner": "+", "floor": "-", "foot": "+"}


class _Canvas:
    """A grid of letters, each with an ink; what comes later covers. ``fine`` lines have 2 x 4 dots a letter."""

    def __init__(self, width: int, height: int, *, fine: bool) -> None:
        self.width, self.height, self.fine = width, height, fine
        self.dots_wide, self.dots_high = (2, 4) if fine else (1, 1)
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def put(self, column: int, row: int, letter: str, ink: str) -> None:
        """Row 0 is the lowest."""
        self.cells[column, row] = letter, ink

    def line(self, dots: Iterable[tuple[int, int]], letter: str, ink: str) -> None:
        """Dots of the fine grid, which join those there already; in the coarse one, letters."""
        for x, y in dots:
            place = x // self.dots_wide, y // self.dots_high
            if self.fine:
                there = ord(self.cells[place][0]) if place in self.cells else 0x2800
                letter = chr(there | _DOTS[x % 2][3 - y % 4])
            self.cells[place] = letter, ink

    def text(self, colour: bool) -> list[str]:
        """The rows from the top down."""
        lines = ([self.cells.get((column, row), (" ", "")) for column in range(self.width)]
                 for row in reversed(range(self.height)))
        return ["".join(_inked("".join(letter for letter, _ in run), ink, colour)
                        for ink, run in groupby(line, key=itemgetter(1))) for line in lines]


def _path(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The dots that join these, each once and in order."""
    path: list[tuple[int, int]] = []
    for x, y in places:
        if not path:
            path.append((x, y))
            continue
        from_x, from_y = path[-1]
        steps = max(abs(x - from_x), abs(y - from_y))
        path += [(from_x + round((x - from_x) * step / steps), from_y + round((y - from_y) * step / steps))
                 for step in range(1, steps + 1)]
    return path


def terminal_plot(law: Mapping[str, Any], *, width: int, height: int, colour: bool, ascii_only: bool) -> str:
    """A law that has a curve as lines of text: its points, the median, the edges of the band, the site's own shape.

    There are up to ``height`` lines of at most ``width`` letters (14 of 40 at least). Without ``colour`` there are
    no escape sequences, with ``ascii_only`` nothing but ASCII. Points that share a letter's place show their number.
    """
    width, height = max(width, 40), max(height, 14)
    shown = _read(law)
    looks = _ASCII if ascii_only else _UNICODE

    def line(text: str, ink: str = "") -> str:
        text = text.encode("ascii", "replace").decode("ascii") if ascii_only else text
        return _inked(text if len(text) <= width else f"{text[:width - 3]}...", ink, colour)

    high = height - 5 - len(_legend(shown, looks, width, crowded=True))
    y_axis = shown.y_axis(high // 3, round_ends=False)
    gutter = max(map(len, y_axis.ticks.values())) + 1
    wide = width - gutter - 1
    x_axis = shown.x_axis(wide // 14)
    canvas = _Canvas(wide, high, fine=not ascii_only)
    legend = _legend(shown, looks, width, crowded=_sketch(canvas, shown, x_axis, y_axis, looks))
    labels = {high - 1 - y_axis.place(tick, high): text for tick, text in y_axis.ticks.items()}
    return "\n".join((
        line(shown.title, "title"),
        line(shown.note, "dim"),
        line(f"{shown.y_label} over {shown.x_label}"),
        *(f"{labels.get(row, ''):>{gutter - 1}} {looks['notch' if row in labels else 'post']}{text}"
          for row, text in enumerate(canvas.text(colour))),
        *map(line, _foot(x_axis, gutter, wide, looks)),
        *("  ".join(_inked(mark, ink, colour) + f" {name}" for mark, ink, name in row) for row in legend),
    ))


def _inked(text: str, ink: str, colour: bool) -> str:
    return f"{_INK[ink]}{text}{_CLEAR}" if colour and ink else text


def _legend(shown: _Law, looks: Mapping[str, str], width: int, *, crowded: bool) -> list[list[tuple[str, str, str]]]:
    """What the marks mean, in as many rows as the width takes: mark, ink, words."""
    items = [("measured", "measured (2: two in one place)" if crowded else "measured")] if shown.measured else []
    items += [("contradicting", "contradicting")] if shown.contradicting else []
    items += [("median", "median"), ("edge", f"{shown.level} interval")]
    items += [("site", f"this site {shown.site_words}")] if shown.site else []
    rows: list[list[tuple[str, str, str]]] = [[]]
    left = width
    for look, name in items:
        name = name[:width - len(looks[look]) - 1]
        size = len(looks[look]) + 1 + len(name)
        if rows[-1] and size > left:
            rows.append([])
            left = width
        rows[-1].append((looks[look], look, name))
        left -= size + 2
    return rows


def _foot(x_axis: Scale, gutter: int, wide: int, looks: Mapping[str, str]) -> tuple[str, str]:
    """The axis of x and its figures, those left out that would touch the one before."""
    rule, below, free_from = [looks["floor"]] * wide, [" "] * (gutter + 1 + wide), 0
    for tick, text in x_axis.ticks.items():
        column = x_axis.place(tick, wide)
        start = max(min(gutter + 1 + column - len(text) // 2, len(below) - len(text)), 0)
        if start >= free_from:
            rule[column] = looks["foot"]
            below[start:start + len(text)] = text
            free_from = start + len(text) + 2
    return " " * gutter + looks["corner"] + "".join(rule), "".join(below).rstrip()


def _sketch(canvas: _Canvas, shown: _Law, x_axis: Scale, y_axis: Scale, looks: Mapping[str, str]) -> bool:
    """The least important first: what comes later covers. Returns whether measured points share a place."""
    def dots(run: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
        across, up = canvas.width * canvas.dots_wide, canvas.height * canvas.dots_high
        places = [(x_axis.place(x, across), y_axis.place(y, up)) for x, y in run]
        if not shown.apart:
            return _path(places)
        reach = across // (4 * max(len(shown.choices), 2))
        return [(dot, y) for x, y in places for dot in range(max(x - reach, 0), min(x + reach + 1, across))]

    for run in (shown.low, shown.high):
        canvas.line(dots(run)[::canvas.dots_wide + 1], looks["edge"], "edge")
    canvas.line(dots(shown.median), looks["median"], "median")

    def cell(x: float, y: float) -> tuple[int, int]:
        return x_axis.place(x, canvas.width), y_axis.place(y, canvas.height)

    if shown.site:
        x, median, low, high = shown.site
        column, bottom = cell(x, low)
        for row in range(bottom, cell(x, high)[1] + 1):
            canvas.put(column, row, looks["bar"], "bar")
        canvas.put(*cell(x, median), looks["site"], "site")
    crowd = Counter(cell(x, y) for x, y in shown.measured)
    for place, count in crowd.items():
        canvas.put(*place, looks["measured"] if count == 1 else str(min(count, 9)), "measured")
    for x, y in shown.contradicting:
        canvas.put(*cell(x, y), looks["contradicting"], "contradicting")
    return max(crowd.values(), default=1) > 1


# --- what two or three goals give

#: Units that read better in another, with how many make one of it.
_LARGER: Final = {"B": ("GiB", float(1 << 30))}


@dataclass(frozen=True, slots=True)
class _Front:
    """Points of two goals, as (x, y); the goals' names with their units; the knee and the shape as it is."""

    x_label: str
    y_label: str
    points: list[tuple[float, float]]
    knee: tuple[float, float] | None
    now: tuple[float, float] | None

    def axes(self, across: int, up: int) -> tuple[Scale, Scale]:
        """Both ranges with a little air, with about so many ticks."""
        shown = [*self.points, *([self.now] if self.now else [])]
        return _ranged([x for x, _ in shown], across), _ranged([y for _, y in shown], up)


def _ranged(values: Sequence[float], count: int) -> Scale:
    low, high = min(values), max(values)
    air = air_of(low, high, 0.04)
    ticks = multiples(low - air, high + air, count)
    if ticks[1] - ticks[0] < 1 and all(value == int(value) for value in values):  # there is nothing between counts
        ticks = [float(tick) for tick in range(math.ceil(low), math.floor(high) + 1)]
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    return Scale(low - air, high + air, {tick: figure(tick, step) for tick in ticks})


def _front(document: Mapping[str, Any], across: int, up: int) -> _Front:
    """Two goals of a set, by their places."""
    def value(place: int, own: float) -> float:
        return float(own) / _LARGER.get(document["goals"][place]["unit"], ("", 1.0))[1]

    def label(place: int) -> str:
        goal = document["goals"][place]
        unit = _LARGER.get(goal["unit"], (goal["unit"], 1.0))[0]
        return plain(goal["goal"] if unit == goal["goal"] else f"{goal['goal']} ({unit})")

    points = [(value(across, item["objectives"][across]["value"]), value(up, item["objectives"][up]["value"]))
              for item in document["points"]]
    now = [document["current"]["values"][place] for place in (across, up)]
    knee = document["knee"]
    return _Front(label(across), label(up), points, points[knee["point"] - 1] if knee else None,
                  None if None in now else (value(across, now[0]), value(up, now[1])))


def front_plot(document: Mapping[str, Any], *, width: int, height: int, colour: bool, ascii_only: bool) -> str:
    """The points of the first two goals as lines of text, the second across; limits as of :func:`terminal_plot`."""
    width, height = max(width, 40), max(height, 14)
    shown = _front(document, 1, 0)
    looks = _ASCII if ascii_only else _UNICODE
    high = height - 4
    _, y_axis = shown.axes(4, high // 3)
    gutter = max(map(len, y_axis.ticks.values())) + 1
    wide = width - gutter - 1
    x_axis, _ = shown.axes(wide // 14, 4)
    canvas = _Canvas(wide, high, fine=False)

    def put(place: tuple[float, float], look: str, letter: str) -> None:
        canvas.put(x_axis.place(place[0], wide), y_axis.place(place[1], high), letter, look)

    for point in shown.points:
        put(point, "measured", looks["measured"])
    legend = [("measured", looks["measured"], "point")]
    if shown.knee:
        put(shown.knee, "contradicting", "K")
        legend.append(("contradicting", "K", "knee"))
    if shown.now:
        put(shown.now, "site", looks["site"])
        legend.append(("site", looks["site"], "the shape as it is"))
    labels = {high - 1 - y_axis.place(tick, high): text for tick, text in y_axis.ticks.items()}
    return "\n".join((
        f"{shown.y_label} over {shown.x_label}",
        *(f"{labels.get(row, ''):>{gutter - 1}} {looks['notch' if row in labels else 'post']}{text}"
          for row, text in enumerate(canvas.text(colour))),
        *_foot(x_axis, gutter, wide, looks),
        "  ".join(f"{_inked(letter, ink, colour)} {name}" for ink, letter, name in legend),
    ))


def demand_picture(path: Path) -> None:
    """Raises ReadError (``usage``) where ``path`` is no .png or .svg file in a folder that exists."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ReadError("pictures are .png or .svg files", file=str(path), kind="usage")
    if not path.parent.is_dir():
        raise ReadError("cannot be written: the folder does not exist", file=str(path), kind="usage")


def demand_places(page: Path | None, folder: Path | None) -> None:
    """Raises ReadError (``usage``) where a page or a folder of pictures cannot be at its place, or nothing can draw."""
    if page is not None:
        if page.is_dir():
            raise ReadError("is a folder; give the page a file name", file=str(page), kind="usage")
        if not page.parent.is_dir():
            raise ReadError("cannot be written: the folder does not exist", file=str(page), kind="usage")
    if folder is not None and not folder.is_dir():
        if folder.exists():
            raise ReadError("is a file; the pictures go into a folder", file=str(folder), kind="usage")
        if not folder.parent.is_dir():
            raise ReadError("cannot be made: the folder above does not exist", file=str(folder), kind="usage")
    if find_spec("matplotlib") is None:
        raise ReadError(_NEEDS, kind="usage")


def save_pareto(document: Mapping[str, Any], path: Path) -> Path:
    """Draws the points of ``pareto`` into ``path`` (.png or .svg), a panel for each pair of goals.

    The file appears whole or not at all. Raises ReadError (``usage``) for another suffix, without matplotlib, and where
    the file cannot be written.
    """
    demand_picture(path)
    write_files({path: front_picture(document, path.suffix.lower()[1:])})
    return path


def front_picture(document: Mapping[str, Any], kind: str, look: Look = FILE) -> bytes:
    """The points of ``pareto`` as a file's bytes, a panel for each pair of goals.

    Raises ReadError (``usage``) without matplotlib.
    """
    fronts = [_front(document, across, up) for up, across in combinations(range(len(document["goals"])), 2)]
    title = plain(f"{document['engine']['name']} {document['engine']['version']}: "
                  + " against ".join(goal["goal"] for goal in document["goals"]))
    high = replace(look, height=look.height + look.size / 12) if look.narrow else look
    return figure_of([partial(_front_panel, front=front, title=title if place == 0 else "", look=high)
                      for place, front in enumerate(fronts)], title, kind, high)


def _front_panel(axes: Axes, *, front: _Front, title: str, look: Look) -> None:
    dressed(axes, *front.axes(3 if look.narrow else 6, 7), across=True)
    axes.set_xlabel(front.x_label)
    axes.set_ylabel(front.y_label)
    if look.titles:
        axes.set_title(textwrap.fill(title, 72), loc="left", fontweight="bold", fontsize=12)
    shown = axes.plot(*zip(*front.points, strict=True), linestyle="none", marker="o", markersize=6, color=BLUE,
                      label="point")
    if front.knee:
        shown += axes.plot(*front.knee, linestyle="none", marker="s", markersize=10, color=RED,
                           markerfacecolor="none", markeredgewidth=2, label="knee")
    if front.now:
        shown += axes.plot(*front.now, linestyle="none", marker="D", markersize=8, color=PURPLE,
                           markerfacecolor=PAPER, markeredgewidth=1.8, label="the shape as it is")
    name_marks(axes, shown, look)
