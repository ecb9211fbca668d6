"""What all output shares: the console, tables, and figures in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from models.interval import GIB, KIB, MIB

MARK: Final = {"fits": "[green]fits[/]", "knife_edge": "[yellow]knife edge[/]", "does_not_fit": "[red]does not fit[/]",
               None: "[dim]open[/]"}
#: What the server does, after "the server".
DOES: Final = {
    "serves": "serves", "clamped": "halves its pool in silence", "preempts": "preempts",
    "rejects_long_requests": "rejects long requests", "stalls": "stalls",
    "out_of_memory_at_boot": "runs out of memory at boot", "refused_at_boot": "refuses to start",
}
_WIDTH: Final = 120  # where output is no terminal


def terminal() -> Any:
    """The console: as wide as the terminal, or a fixed width where output is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, soft_wrap=False)


def table_of(*columns: str | tuple[str, str]) -> Any:
    """A table without lines; a column is its title, or that and how it is justified."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for column in columns:
        name, justify = column if isinstance(column, tuple) else (column, "left")
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def safe(text: object) -> str:
    """Text in which no bracket is taken for markup."""
    from rich.markup import escape

    return escape(str(text))


def amount(value: int | float | None, unit: str, *, whole: bool = True) -> str:
    """A figure for people: whole MiB stay MiB (if ``whole``), other sizes get two decimals, counts thousands."""
    if value is None:
        return "?"
    if unit != "B":
        shown = figure(value) if isinstance(value, float) else f"{value:,}"
        return f"{shown} {_singular(unit) if shown in ('1', '-1') else unit}".rstrip()
    sign, size = ("-" if value < 0 else ""), abs(int(value))
    if whole and size and size % MIB == 0:
        return f"{sign}{size // MIB:,} MiB"
    for name, step in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= step:
            return f"{sign}{size / step:,.2f} {name}"
    return f"{sign}{size} B"


def _singular(unit: str) -> str:
    """The unit of one: sessions become a session; what is no plural (MiB, t/s, s) stays."""
    for many, one in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if unit.endswith(many) and len(unit) > len(many) and "/" not in unit:
            return unit.removesuffix(many) + one
    return unit


def figure(value: float) -> str:
    """A measured or predicted figure: whole from 1,000 on, else to three or four digits."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def value_on_axis(value: int | float | str) -> str:
    """A value on an axis: a number or a word."""
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else figure(value)


def span(low: float, high: float, unit: str) -> str:
    """An interval for people, in a unit fine enough to tell its ends apart."""
    if low == high:
        return amount(low, unit)
    if isinstance(low, float) or isinstance(high, float):
        return f"{figure(low)} to {figure(high)} {unit}".rstrip()
    if unit != "B":
        return f"{low:,} to {high:,} {unit}"
    for name, step in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        ends = f"{low / step:,.2f}", f"{high / step:,.2f}"
        if max(abs(low), abs(high)) >= step and ends[0] != ends[1]:
            return f"{ends[0]} to {ends[1]} {name}"
    return f"{low:,} to {high:,} B"


def range_of(quantity: Mapping[str, Any]) -> str:
    """From where to where a row is certain."""
    low, high = quantity["low"], quantity["high"]
    return "exact" if low == high else span(low, high, quantity["unit"])


def setting_of(value: Any) -> str:
    """A knob's value as people write it."""
    if value is None:
        return "auto"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def show_heading(console: Any, document: Mapping[str, Any], text: str) -> None:
    """Which engine, and what is told of it."""
    engine = document["engine"]
    console.print(f"[bold]{engine['name']} {engine['version']}[/], model file {safe(engine['container'])}: {text}")


def show_list(console: Any, title: str, items: Iterable[str]) -> None:
    """A title and its lines; nothing where there are none."""
    found = list(items)
    if not found:
        return
    console.print(f"\n[bold]{title}[/]")
    grid = table_of("", "")
    grid.show_header, grid.padding = False, (0, 1, 0, 0)
    for item in found:
        grid.add_row("  -", safe(item))
    console.print(grid)


def changes_of(changes: Mapping[str, Sequence[Any]]) -> str:
    """What changes, one knob a line."""
    if not changes:
        return "as it is"
    return "\n".join(f"{name} {setting_of(old)} -> {setting_of(new)}" for name, (old, new) in changes.items())


def share_of(weight: float) -> str:
    """A probability or a weight; neither nothing nor certainty is said where it is only near."""
    return "> 99 %" if 0.995 < weight < 1 else "< 1 %" if 0 < weight < 0.005 else f"{100 * weight:.0f} %"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:,.1f} %"


def number_of(number: int, word: str) -> str:
    """A number and what is counted, in the singular for one."""
    return amount(number, f"{word}s")


def gives_of(value: float | None, unit: str, prediction: Mapping[str, Any] | None = None) -> str:
    """What a goal comes to, with the interval of a predicted speed."""
    text = amount(value, unit) if value is None or unit in ("B", "t/s", "s") else setting_of(value)
    return text if prediction is None else f"{text} ({figure(prediction['low'])} to {figure(prediction['high'])})"


def counters_of(counters: Mapping[str, Any]) -> str:
    """A server's own counters before and after, in words; "" where it shows none."""
    before, after = counters["before"], counters["after"]
    if not before or not after:
        return ""
    return ", ".join(f"{name.replace('_', ' ')} {figure(before[name] or 0)} -> {figure(value)}"
                     for name, value in after.items() if value is not None)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, where that is a terminal; yields what is told how many are done, of how many."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def signed(value: float, unit: str) -> str:
    """A difference, with its sign and unit."""
    return ("+" if value > 0 else "") + amount(value, unit, whole=False)
