"""Answers as tables for people. A renderer computes nothing: all it shows is in the JSON document."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from models.interval import GIB, KIB, MIB

_MARK: Final = {"fits": "[green]fits[/]", "knife_edge": "[yellow]knife edge[/]", "does_not_fit": "[red]does not fit[/]",
                None: "[dim]open[/]"}
#: What the server does, after "the server".
_DOES: Final = {
    "serves": "serves", "clamped": "halves its pool in silence", "preempts": "preempts",
    "rejects_long_requests": "rejects long requests", "stalls": "stalls",
    "out_of_memory_at_boot": "runs out of memory at boot", "refused_at_boot": "refuses to start",
}
_WIDTH: Final = 120  # where output is no terminal


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, soft_wrap=False)


def _table(*columns: str | tuple[str, str]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for column in columns:
        name, justify = column if isinstance(column, tuple) else (column, "left")
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def _safe(text: object) -> str:
    from rich.markup import escape

    return escape(str(text))


def amount(value: int | float | None, unit: str, *, whole: bool = True) -> str:
    """A figure for people: whole MiB stay MiB (if ``whole``), other sizes get two decimals, counts thousands."""
    if value is None:
        return "?"
    if unit != "B":
        return f"{value:,} {unit}".rstrip()
    sign, size = ("-" if value < 0 else ""), abs(int(value))
    if whole and size and size % MIB == 0:
        return f"{sign}{size // MIB:,} MiB"
    for name, step in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= step:
            return f"{sign}{size / step:,.2f} {name}"
    return f"{sign}{size} B"


def span(low: int, high: int, unit: str) -> str:
    """An interval for people, in a unit fine enough to tell its ends apart."""
    if low == high:
        return amount(low, unit)
    if unit != "B":
        return f"{low:,} to {high:,} {unit}"
    for name, step in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        ends = f"{low / step:,.2f}", f"{high / step:,.2f}"
        if max(abs(low), abs(high)) >= step and ends[0] != ends[1]:
            return f"{ends[0]} to {ends[1]} {name}"
    return f"{low:,} to {high:,} B"


def _range(quantity: Mapping[str, Any]) -> str:
    low, high = quantity["low"], quantity["high"]
    return "exact" if low == high else span(low, high, quantity["unit"])


def _knob(value: Any) -> str:
    if value is None:
        return "auto"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _heading(console: Any, document: Mapping[str, Any], text: str) -> None:
    engine = document["engine"]
    console.print(f"[bold]{engine['name']} {engine['version']}[/], model file {_safe(engine['container'])}: {text}")


def _list(console: Any, title: str, items: Iterable[str]) -> None:
    found = list(items)
    if not found:
        return
    console.print(f"\n[bold]{title}[/]")
    for item in found:
        console.print(f"  - {_safe(item)}")


def _ledger_table(quantities: Mapping[str, Any]) -> Any:
    table = _table("row", ("predicted", "right"), "certain to", "known how", "source")
    for name, quantity in quantities.items():
        exact = quantity["low"] == quantity["high"]
        known = quantity["value"] is not None
        value = amount(quantity["value"], quantity["unit"], whole=exact) if known else "between"
        table.add_row(name, value, _range(quantity), quantity["basis"], _safe(quantity["source"]))
    return table


def _constraint_table(constraints: Sequence[Mapping[str, Any]]) -> Any:
    table = _table("constraint", "verdict", ("slack", "right"), "bites at", "if broken", "source")
    for item in constraints:
        if not item["applies"]:
            continue
        slack = "?" if item["slack"] is None else span(item["slack"], item["slack_high"], item["unit"])
        broken = item["outcome"].replace("_", " ") if item["hard"] else "warning only"
        table.add_row(item["name"], _MARK[item["verdict"]], _safe(slack), item["phase"], broken, _safe(item["source"]))
    return table


def show_check(document: dict[str, Any]) -> None:
    """``check`` as tables."""
    console = _console()
    outcome = " or ".join(_DOES[word] for word in document.get("outcomes", [document["outcome"]]))
    reasons = [c["name"] for c in document["constraints"] if c["applies"] and c["hard"] and c["ok"] is False]
    _heading(console, document, f"{_MARK[document['verdict']]}, the server [bold]{outcome}[/]")
    if reasons:
        console.print(f"because of {', '.join(reasons)}")
    shape = _table("knob", ("value", "right"), "from")
    for name, value in document["shape"].items():
        default = document["defaults"].get(name)
        shape.add_row(name, _knob(value), _safe(f"default: {default['source']}") if default else "as set")
    console.print(shape)
    if document["quantities"]:
        console.print("\n[bold]The ledger to expect[/] (sizes a card; host RAM in all)")
        console.print(_ledger_table(document["quantities"]))
        console.print()
        console.print(_constraint_table(document["constraints"]))
    remedies = [f"{c['name']}: {c['remedy']}" for c in document["constraints"]
                if c["applies"] and c["hard"] and c["ok"] is False]
    _list(console, "What would mend it", remedies)
    if document["binding_cards"]:
        cards = ", ".join(f"{name}: card {card}" for name, card in document["binding_cards"].items())
        console.print(f"\nThe card that binds: {cards}")
    _list(console, "What changes with this version", document.get("upgrade", ()))
    _list(console, "To know", document["warnings"])
    _list(console, "What would decide the open ones", [f"{i['name']}: {i['how']}" for i in document["open_facts"]])
    _list(console, "Settings that are no knob of this engine", document["unmapped"])


def _changes(changes: Mapping[str, Sequence[Any]]) -> str:
    if not changes:
        return "as it is"
    return "\n".join(f"{name} {_knob(old)} -> {_knob(new)}" for name, (old, new) in changes.items())


def _objective(objective: Mapping[str, Any]) -> str:
    unit = objective["unit"]
    if objective["value"] is None:
        change = objective["change"]
        return "not known" if change is None else _better(change, unit)
    text = amount(objective["value"], unit)
    if objective["low"] != objective["high"]:
        text += f"\n({span(objective['low'], objective['high'], unit)})"
    if objective["change"]:
        text += "\n" + _better(objective["change"], unit)
    return text


def _better(change: int, unit: str) -> str:
    if change == 0:
        return "as it is"
    return f"{'better' if change > 0 else 'worse'} by {amount(abs(change), unit)}"


def show_solve(document: dict[str, Any]) -> None:
    """``solve`` as tables: the ranks, then the first one in full."""
    console = _console()
    wanted = [f"{name}={_knob(value)}" for name, value in document["given"].items()] + document["bounds"]
    asked = f"best shapes for [bold]{document['goal']}[/]" + (f", given {_safe(', '.join(wanted))}" if wanted else "")
    _heading(console, document, asked)
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    if document["status"] == "infeasible":
        console.print("\n[red]No shape does this.[/] These cannot hold together; give one of them up:")
        for item in document["conflict"]:
            console.print(f"  - [bold]{_safe(item['name'])}[/] ({_safe(item['source'])}): {_safe(item['remedy'])}")
        _list(console, "To know", document["warnings"])
        return
    word = {"optimal": "rank 1 is proven best", "feasible": "found within the time limit, not proven best"}
    console.print(f"{word[document['status']]}; every shape was checked again without the solver\n")
    table = _table(("rank", "right"), "change", ("gives", "right"), "what binds", "verdict")
    for shape in document["shapes"]:
        table.add_row(str(shape["rank"]), _safe(_changes(shape["changes"])), _safe(_objective(shape["objective"])),
                      _safe("\n".join(shape["binding"])), _MARK[shape["verdict"]])
    console.print(table)
    best = document["shapes"][0]
    console.print("\n[bold]Rank 1: the ledger to expect[/] (sizes a card; host RAM in all)")
    console.print(_ledger_table(best["quantities"]))
    console.print()
    console.print(_constraint_table(best["constraints"]))
    _list(console, "Before you take it", best["notes"])
    _list(console, "To know", [text for text in document["warnings"] if text not in best["notes"]])


def show_free(document: dict[str, Any]) -> None:
    """``free`` in words and one table."""
    console = _console()
    current = document["current"]
    _heading(console, document, f"now {_MARK[current['verdict']]}, the server "
                                f"[bold]{_DOES[current['outcome']]}[/]")
    own = document["free"]
    if own is None:
        console.print(f"\n{document['free_means']}: not known without the log of a settled boot")
    elif own["high"] < 0:
        over = amount(-own["high"], own["unit"])
        console.print(f"\n{document['free_means']}: [bold]none[/]; it is {over} short ({_safe(own['source'])})")
    else:
        console.print(f"\n{document['free_means']}: [bold]{amount(own['value'], own['unit'])}[/] "
                      f"({_range(own)}; {_safe(own['source'])})")
    console.print(_safe(document["other_tools"]))
    console.print("\n[bold]What it buys[/], each by itself")
    table = _table("goal", ("gives", "right"), "set", "what else moves", "what binds")
    for use in document["uses"]:
        table.add_row(*_use_row(use))
    console.print(table)
    notes = dict.fromkeys(note for use in document["uses"] if "best" in use for note in use["best"]["notes"])
    _list(console, "Before you take one", notes)
    _list(console, "To know", document["warnings"])


def _use_row(use: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    goal = f"{use['goal']}\n[dim]{use['meaning']}[/]"
    if use["status"] == "missing_facts":
        return goal, "not known", "", "", _safe("needs " + ", ".join(item["name"] for item in use["missing"]))
    if use["status"] == "unknown":
        return goal, "not found in time", "", "", _safe("ask with solve, which takes longer")
    if use["status"] == "infeasible":
        return goal, "nothing", "", "", _safe("\n".join(item["name"] for item in use["conflict"]))
    best = use["best"]
    moves = "\n".join(f"{name} {amount(cost['from'], cost['unit'])} -> {amount(cost['to'], cost['unit'])}"
                      for name, cost in use["costs"].items())
    gives = _objective(best["objective"]) + ("\n(not proven best)" if use["status"] == "feasible" else "")
    return goal, _safe(gives), _safe(_changes(best["changes"])), _safe(moves), _safe("\n".join(best["binding"]))


def show_propose(document: dict[str, Any]) -> None:
    """``propose``: the diff, and what the next boot must print."""
    console = _console()
    if document["status"] == "infeasible":
        show_solve(document)
        return
    shape = document["shapes"][document["rank"] - 1]
    _heading(console, document, f"rank {document['rank']} for [bold]{document['goal']}[/]: "
                                f"{_safe(_changes(shape['changes']).replace(chr(10), ', '))}")
    if document["diff"]:
        console.print()
        console.print(_safe(document["diff"]), end="", soft_wrap=True)
    elif not document["refused"]:
        console.print("\nNothing to change: the file already has this shape.")
    for item in document["refused"]:
        value = document["edits"][item["knob"]]
        todo = f"set {item['knob']} to {value}" if value is not None else f"remove {item['knob']}"
        console.print(f"\n[yellow]By hand:[/] {_safe(todo)} ({_safe(item['why'])})")
    for item in document["companions"]:
        console.print(f"\n{item['knob']} moves along, {item['from']:,} -> {item['to']:,}: {_safe(item['why'])}")
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    if "<secret>" in document["diff"]:
        console.print("[yellow]A secret in this diff is masked: set the values by hand, patch would fail.[/]")
    console.print("\n[bold]The next boot must print[/]")
    console.print(_ledger_table(document["predicted"]))
    _list(console, "Before you take it", shape["notes"])
    _list(console, "To know", [text for text in document["warnings"] if text not in shape["notes"]])


def show_ledger(document: dict[str, Any]) -> None:
    """``ledger``: facts, rows and knobs with their lines, and what does not add up."""
    console = _console()
    reads_as = f"; reads as {document['generation']}" if document["generation"] else ""
    version = document["engine"]["version"] or f"version not printed{reads_as}"
    boots = f", {document['boots']} boots, the last complete one counts" if document["boots"] > 1 else ""
    console.print(f"[bold]{document['engine']['name']}[/] ({_safe(version)}){boots}")
    for title, key in (("Facts", "facts"), ("Rows the engine derived", "rows"), ("Settings the log names", "knobs")):
        if not document[key]:
            continue
        console.print(f"\n[bold]{title}[/]")
        table = _table("name", ("printed", "right"), "certain to", "line")
        for name, item in document[key].items():
            table.add_row(name, _safe(item["printed"]), _safe(_reading(item)), _safe(item["source"]))
        console.print(table)
    _list(console, "Does not add up", document["contradictions"])
    _list(console, "Notes", document["notes"])
    if document["missing"]:
        _list(console, "The boot is cut off; missing", document["missing"])
    elif not document["contradictions"]:
        console.print("\nEverything that can be compared adds up.")


def _reading(item: Mapping[str, Any]) -> str:
    if item["value"] is not None and item["low"] is None:
        return str(item["value"])
    return span(item["low"], item["high"], item["unit"])


def show_init(document: dict[str, Any]) -> None:
    """``init``: what was written."""
    console = _console()
    console.print(f"wrote {_safe(document['site'])}")
    for line in document["next"]:
        console.print(f"  {_safe(line)}")
