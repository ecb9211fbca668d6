"""What was read, collected and written, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.render.answers import show_check, show_solve
from optimizer.render.base import MARK, amount, safe, show_heading, show_list, span, table_of, terminal
from optimizer.render.speeds import show_laws
from optimizer.render.tradeoffs import show_pareto, show_sensitivity


def show_ledger(document: dict[str, Any]) -> None:
    """``ledger``: facts, rows and knobs with their lines, and what does not add up."""
    console = terminal()
    reads_as = f"; reads as {document['generation']}" if document["generation"] else ""
    version = document["engine"]["version"] or f"version not printed{reads_as}"
    boots = f", {document['boots']} boots, the last complete one counts" if document["boots"] > 1 else ""
    console.print(f"[bold]{document['engine']['name']}[/] ({safe(version)}){boots}")
    for title, key in (("Facts", "facts"), ("Rows the engine derived", "rows"), ("Settings the log names", "knobs")):
        if not document[key]:
            continue
        console.print(f"\n[bold]{title}[/]")
        table = table_of("name", ("printed", "right"), "certain to", "line")
        for name, item in document[key].items():
            table.add_row(name, safe(item["printed"]), safe(_reading(item)), safe(item["source"]))
        console.print(table)
    show_list(console, "Does not add up", document["contradictions"])
    show_list(console, "Notes", document["notes"])
    if document["missing"]:
        show_list(console, "The boot is cut off; missing", document["missing"])
    elif not document["contradictions"]:
        console.print("\nEverything that can be compared adds up.")


def _reading(item: Mapping[str, Any]) -> str:
    if item["value"] is not None and item["low"] is None:
        return str(item["value"])
    return span(item["low"], item["high"], item["unit"])


def show_init(document: dict[str, Any]) -> None:
    """``init``: what was written."""
    console = terminal()
    console.print(f"wrote {safe(document['site'])}")
    for line in document["next"]:
        console.print(f"  {safe(line)}")


def show_collect(document: dict[str, Any]) -> None:
    """``collect``: each thing looked for, what became of it, and what would give the rest."""
    console = terminal()
    table = table_of("what", "state", "file", "from, and what to know")
    for item in document["items"]:
        mark = {"taken": "[green]taken[/]", "absent": "[dim]absent[/]", "not asked": "[dim]not asked[/]"}
        where = safe(item["from"]) + (f"\n[dim]{safe(item['why'])}[/]" if item["why"] else "")
        table.add_row(safe(item["name"]), mark.get(item["state"], f"[yellow]{item['state']}[/]"),
                      safe(item["file"] or ""), where)
    console.print(table)
    facts = table_of("fact read back", ("value", "right"))
    for name, fact in document["facts"].items():
        facts.add_row(name, safe(amount(fact["value"], fact["unit"]) if isinstance(fact["value"], int)
                                  else fact["value"]))
    if document["facts"]:
        console.print()
        console.print(facts)
    show_list(console, "What would give the rest", [item["command"] for item in document["items"] if item["command"]])
    show_list(console, "To know", document["notes"])
    console.print(f"\nwrote {safe(document['manifest'])}, all of it without what looks like a secret")
    for line in document["next"]:
        console.print(f"  {safe(line)}", soft_wrap=True)


def show_gates(document: dict[str, Any]) -> None:
    """``gates``: what was written, each test, and what has none."""
    console = terminal()
    count = len(document["gates"])
    show_heading(console, document, f"{count} gates for {safe(', '.join(document['env_files']))}")
    console.print(f"wrote {safe(document['file'])}\n")
    table = table_of("gate", "now", "formula")
    for gate in document["gates"]:
        formula = gate["formula"]
        table.add_row(gate["name"], MARK[gate["verdict"]],
                      safe(formula if len(formula) <= 150 else f"{formula[:146]} ..."))
    console.print(table)
    show_list(console, "Not gated", [f"{item['name']}: {item['why']}" for item in document["not_gated"]])
    show_list(console, "To know", document["warnings"])


def show_report(document: dict[str, Any]) -> None:
    """``report`` as tables: each part as its own command shows it, or why there is none."""
    console = terminal()
    for title, key, show in (("The shape as it is", "now", show_check), ("Where memory goes", "stacks", None),
                             ("The best shapes", "shapes", show_solve),
                             ("What it costs another goal", "tradeoff", show_pareto),
                             ("What the answer hangs on", "sensitivity", show_sensitivity),
                             ("What measured speeds tell", "laws", show_laws)):
        console.rule(f"[bold]{title}[/]", align="left")
        part = document[key]
        if show is None:
            _stacks(console, part)
        elif part["answer"] is None:
            console.print(f"not here: {safe(part['why'])}")
            show_list(console, "What would show it", [f"{item['name']}: {item['how']}" for item in part["missing"]])
        else:
            show(part["answer"])
        console.print()


def _stacks(console: Any, stacks: Sequence[Mapping[str, Any]]) -> None:
    for stack in stacks:
        if stack["instead"] is not None:
            continue
        number = "" if stack["card"] is None else f", card {stack['card']}"
        table = table_of(f"{stack['title']}{number}", ("now", "right"), ("best", "right"))
        for part in (*stack["parts"], {"name": "in all", **stack["total"]}):
            table.add_row(part["name"], *("?" if part[word] is None else safe(amount(
                part[word]["value"], stack["unit"], whole=False)) for word in ("now", "best")))
        console.print(table)
        show_list(console, "What would show the rest", [f"{item['name']}: {item['how']}" for item in stack["missing"]])
        console.print()


def show_written(document: dict[str, Any]) -> None:
    """``report`` where it was written: the files."""
    console = terminal()
    if "page" in document:
        console.print(f"wrote {safe(document['page'])}")
    for path in document.get("pictures", ()):
        console.print(f"drawn: {safe(path)}")
