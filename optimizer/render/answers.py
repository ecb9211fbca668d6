"""Checks, ranked shapes, and why there is no better one, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.render.base import (
    DOES,
    MARK,
    amount,
    changes_of,
    figure,
    range_of,
    safe,
    setting_of,
    share_of,
    show_heading,
    show_list,
    span,
    table_of,
    terminal,
)
from optimizer.render.speeds import speed_of


def ledger_table(quantities: Mapping[str, Any]) -> Any:
    """Predicted rows: what the next boot prints, and how well that is known."""
    table = table_of("row", ("predicted", "right"), "certain to", "known how", "source")
    for name, quantity in quantities.items():
        exact = quantity["low"] == quantity["high"]
        known = quantity["value"] is not None
        value = amount(quantity["value"], quantity["unit"], whole=exact) if known else "between"
        table.add_row(name, value, range_of(quantity), quantity["basis"], safe(quantity["source"]))
    return table


def _constraint_table(constraints: Sequence[Mapping[str, Any]]) -> Any:
    table = table_of("constraint", "verdict", ("slack", "right"), "bites at", "if broken", "source")
    for item in constraints:
        if not item["applies"]:
            continue
        slack = "?" if item["slack"] is None else span(item["slack"], item["slack_high"], item["unit"])
        broken = item["outcome"].replace("_", " ") if item["hard"] else "warning only"
        table.add_row(item["name"], MARK[item["verdict"]], safe(slack), item["phase"], broken, safe(item["source"]))
    return table


def show_check(document: dict[str, Any]) -> None:
    """``check`` as tables."""
    console = terminal()
    outcome = " or ".join(DOES[word] for word in document.get("outcomes", [document["outcome"]]))
    reasons = [c["name"] for c in document["constraints"] if c["applies"] and c["hard"] and c["ok"] is False]
    show_heading(console, document, f"{MARK[document['verdict']]}, the server [bold]{outcome}[/]")
    if reasons:
        console.print(f"because of {', '.join(reasons)}")
    shape = table_of("knob", ("value", "right"), "from")
    for name, value in document["shape"].items():
        default = document["defaults"].get(name)
        shape.add_row(name, setting_of(value), safe(f"default: {default['source']}") if default else "as set")
    console.print(shape)
    if document["quantities"]:
        console.print("\n[bold]The ledger to expect[/] (sizes a card; host RAM in all)")
        console.print(ledger_table(document["quantities"]))
        console.print()
        console.print(_constraint_table(document["constraints"]))
    remedies = [f"{c['name']}: {c['remedy']}" for c in document["constraints"]
                if c["applies"] and c["hard"] and c["ok"] is False]
    show_list(console, "What would mend it", remedies)
    if document["binding_cards"]:
        cards = ", ".join(f"{name}: card {card}" for name, card in document["binding_cards"].items())
        console.print(f"\nThe card that binds: {cards}")
    show_list(console, "What changes with this version", document.get("upgrade", ()))
    show_list(console, "To know", document["warnings"])
    show_list(console, "What would decide the open ones", [f"{i['name']}: {i['how']}" for i in document["open_facts"]])
    show_list(console, "Settings that are no knob of this engine", document["unmapped"])


def objective_of(objective: Mapping[str, Any], sure: float = 0.5) -> str:
    """``sure`` is the confidence at which a speed was optimised."""
    unit = objective["unit"]
    if "prediction" in objective:
        return _predicted(objective, sure)
    if objective["value"] is None:
        change = objective["change"]
        return "not known" if change is None else better_by(change, unit)
    text = amount(objective["value"], unit)
    if objective["low"] != objective["high"]:
        text += f"\n({span(objective['low'], objective['high'], unit)})"
    if objective["change"]:
        text += "\n" + better_by(objective["change"], unit)
    return text


def _predicted(objective: Mapping[str, Any], sure: float) -> str:
    """What is reached at the confidence asked for, median and interval of one new measurement, and the gain."""
    found, unit = objective["prediction"], objective["unit"]
    if found is None:
        return "not known: outside the data"
    text = "" if sure == 0.5 else f"{figure(objective['value'])} {unit}, {share_of(sure)} sure\nmedian "
    text += (f"{figure(found['median'])} {unit}\n({share_of(found['level'])}: "
             f"{figure(found['low'])} to {figure(found['high'])})")
    if objective["change"]:
        text += "\n" + better_by(objective["change"], unit)
    return text


def better_by(change: float, unit: str) -> str:
    """A change for the better or the worse, in words."""
    if change == 0:
        return "as it is"
    return f"{'better' if change > 0 else 'worse'} by {amount(abs(change), unit)}"


def _asked(console: Any, document: Mapping[str, Any], what: str) -> None:
    """The head of an answer: what was asked for, what may move, and what holds though nobody asked for it."""
    wanted = [f"{name}={setting_of(value)}" for name, value in document["given"].items()] + document["bounds"]
    goal = " then ".join(document["order"]) if "order" in document else document["goal"]
    asked = f"{what} [bold]{goal}[/]" + (f", given {safe(', '.join(wanted))}" if wanted else "")
    show_heading(console, document, asked)
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    for why in dict.fromkeys(item["why"] for item in document["within"]):
        held = [f"{item['sense']} {item['name']}={item['text']}" for item in document["within"] if item["why"] == why]
        console.print(f"within: {safe(', '.join(held))} ({safe(why)})")


def show_solve(document: dict[str, Any]) -> None:
    """``solve`` as tables: the ranks, then the first one in full."""
    console = terminal()
    _asked(console, document, "best shapes for")
    if document["status"] == "infeasible":
        console.print("\n[red]No shape does this.[/] These cannot hold together; give one of them up:")
        for item in document["conflict"]:
            console.print(f"  - [bold]{safe(item['name'])}[/] ({safe(item['source'])}): {safe(item['remedy'])}")
        show_list(console, "To know", document["warnings"])
        console.print("\n`shapewright why` with the same words says what would have to give, and by how much")
        return
    word = {"optimal": "rank 1 is proven best", "feasible": "found within the time limit, not proven best"}
    console.print(f"{word[document['status']]}; every shape was checked again without the solver\n")
    table = table_of(("rank", "right"), "change", ("gives", "right"), "what binds", "verdict")
    sure = document["speed"]["workload"]["confidence"] if document.get("speed") else 0.5
    for shape in document["shapes"]:
        gives = safe(objective_of(shape["objective"], sure))
        for name, found in shape.get("speeds", {}).items():  # of the goals that came first
            if "median" in found:
                gives += safe(f"\n{name} {figure(found['median'])} {found['unit']}")
        table.add_row(str(shape["rank"]), safe(changes_of(shape["changes"])), gives,
                      safe("\n".join(shape["binding"])), MARK[shape["verdict"]])
    console.print(table)
    best = document["shapes"][0]
    if document.get("speed"):
        speed_of(console, document["speed"], best["objective"]["unit"])
    console.print("\n[bold]Rank 1: the ledger to expect[/] (sizes a card; host RAM in all)")
    console.print(ledger_table(best["quantities"]))
    console.print()
    console.print(_constraint_table(best["constraints"]))
    show_list(console, "Before you take it", best["notes"])
    show_list(console, "To know", [text for text in document["warnings"] if text not in best["notes"]])


def show_why(document: dict[str, Any]) -> None:
    """``why`` in words: what would mend a question that has no answer, or what binds the best one that it has."""
    console = terminal()
    _asked(console, document, "what stands against")
    if document["status"] == "infeasible":
        _mended(console, document)
    else:
        _bound_by(console, document)
    show_list(console, "To know", document["warnings"])


def _mended(console: Any, document: Mapping[str, Any]) -> None:
    members = {item["name"]: item for item in document["members"]}
    single, joint, helpless = document["single"], document["joint"], document["helpless"]
    if single:
        console.print("\n[red]No shape does this.[/] Any one of these would mend it:")
        _repairs(console, single, members)
    else:
        console.print("\n[red]No shape does this[/], and nothing that gives alone would mend it.")
    if document["undecided"]:
        console.print(f"\nNot known of: {safe(', '.join(document['undecided']))}")
    if helpless and single:
        console.print(f"\nAlone these cannot help: {safe(', '.join(helpless))}")
    if joint:
        console.print("\nOr, together:")
        _repairs(console, joint, members)
    if not document["complete"]:
        console.print("\n[yellow]There may be more: not all of it could be looked through.[/]")
    show_list(console, "What cannot hold together", (" with ".join(names) if len(names) > 1 else f"{names[0]} by itself"
                                                 for names in document["conflicts"]))


def _repairs(console: Any, repairs: Sequence[Mapping[str, Any]], members: Mapping[str, Mapping[str, Any]]) -> None:
    grid = table_of("", "")
    grid.show_header, grid.padding = False, (0, 1, 0, 0)
    for item in repairs:
        least = "" if item["proven"] else " (less may do: not proven)"
        parts = "\nand ".join(_giving(give, members[give["name"]]) for give in item["gives"])
        then = safe(changes_of(item["changes"]).replace("\n", ", "))
        grid.add_row("  -", f"{parts}{least}\n[dim]then {then}[/]")
    console.print(grid)


def _giving(give: Mapping[str, Any], member: Mapping[str, Any]) -> str:
    """One member's part of a repair, in words."""
    name, unit, by, to = f"[bold]{safe(give['name'])}[/]", give["unit"], give["amount"], give["to"]
    much = safe(amount(by, unit))
    match give["way"]:
        case "short":
            return f"{name}: {much} short; {safe(member['remedy'])}"
        case "other":
            return f"{name}: {safe(setting_of(to))} instead"
        case "less" | "more" as way:
            if not member["source"].startswith("--"):  # nobody asked for it
                return (f"{name}: would have to be {much} {way}, {safe(amount(to, unit))} "
                        f"({safe(member['source'])}; {safe(member['remedy'])})")
            return f"{name}: {'ask for' if way == 'less' else 'allow'} {much} {way}, {safe(amount(to, unit))}"
        case way:
            return f"{name}: {way} by {much}, to {safe(setting_of(to))}"


def _bound_by(console: Any, document: Mapping[str, Any]) -> None:
    best, after = document["best"], document["next"]
    proven = "" if document["status"] == "optimal" else " (not proven best)"
    gives = objective_of(best["objective"]).replace("\n", ", ")
    console.print(f"\n[bold]The best[/]{proven}: {safe(gives)}")
    console.print(f"  {safe(changes_of(best['changes']).replace(chr(10), ', '))}")
    held = document["held_back"]
    if held:
        show_list(console, "What binds: a held knob, which nobody opened",
                  (_held_back(item, best["objective"]["unit"]) for item in held))
        show_list(console, "Before you take one",
                  dict.fromkeys(text for item in held if item["best"] for text in item["best"]["notes"]))
        return
    show_list(console, "What binds", document["binding"] or ["nothing"])
    if after is None:
        console.print("\nNothing of this can give way.")
        return
    names = safe(", ".join(after["given_up"]))
    then = after["best"]
    if then is None:
        console.print(f"\nWhat would bind if this gave way ({names}): {safe(after['unknown'])}")
        return
    gain = "nothing more" if not then["gain"] else better_by(then["gain"], then["objective"]["unit"])
    console.print(f"\n[bold]If this gave way[/] ({names}): {gain}")
    console.print(f"  {safe(changes_of(then['changes']).replace(chr(10), ', '))}")
    left = {item["name"]: amount(item["slack"], item["unit"]) for item in then["slack"]}
    show_list(console, "What would bind then", (f"{name}: {left[name]} left now" if name in left else name
                                            for name in then["binding"] or ["nothing"]))


def _held_back(item: Mapping[str, Any], unit: str) -> str:
    best, opened = item["best"], f"{item['knob']}={setting_of(item['value'])}: with --free {item['knob']}"
    if best is None:
        return f"{opened} more may be had: not found in time"
    least = "" if best["proven"] else " (more may be had: not proven best)"
    return f"{opened} {better_by(best['gain'], unit)}{least}, then {changes_of(best['changes']).replace(chr(10), ', ')}"


def show_free(document: dict[str, Any]) -> None:
    """``free`` in words and one table."""
    console = terminal()
    current = document["current"]
    show_heading(console, document, f"now {MARK[current['verdict']]}, the server "
                                f"[bold]{DOES[current['outcome']]}[/]")
    own = document["free"]
    if own is None:
        console.print(f"\n{document['free_means']}: not known without the log of a settled boot")
    elif own["high"] < 0:
        over = amount(-own["high"], own["unit"])
        console.print(f"\n{document['free_means']}: [bold]none[/]; it is {over} short ({safe(own['source'])})")
    else:
        ends = range_of(own)
        best = f"{amount(own['value'], own['unit'])}[/] ({ends}" if own["value"] is not None else f"between[/] ({ends}"
        console.print(f"\n{document['free_means']}: [bold]{best}; {safe(own['source'])})")
    console.print(safe(document["other_tools"]))
    console.print("\n[bold]What it buys[/], each by itself")
    table = table_of("goal", ("gives", "right"), "set", "what else moves", "what binds")
    for use in document["uses"]:
        table.add_row(*_use_row(use))
    console.print(table)
    notes = dict.fromkeys(note for use in document["uses"] if "best" in use for note in use["best"]["notes"])
    show_list(console, "Before you take one", notes)
    show_list(console, "To know", document["warnings"])


def _use_row(use: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    goal = f"{use['goal']}\n[dim]{use['meaning']}[/]"
    if use["status"] == "missing_facts":
        return goal, "not known", "", "", safe("needs " + ", ".join(item["name"] for item in use["missing"]))
    if use["status"] == "unknown":
        return goal, "not found in time", "", "", safe("ask with solve, which takes longer")
    if use["status"] == "infeasible":
        return goal, "nothing", "", "", safe("\n".join(item["name"] for item in use["conflict"]))
    best = use["best"]
    moves = "\n".join(f"{name} {amount(cost['from'], cost['unit'])} -> {amount(cost['to'], cost['unit'])}"
                      for name, cost in use["costs"].items())
    gives = objective_of(best["objective"]) + ("\n(not proven best)" if use["status"] == "feasible" else "")
    return goal, safe(gives), safe(changes_of(best["changes"])), safe(moves), safe("\n".join(best["binding"]))


def show_propose(document: dict[str, Any]) -> None:
    """``propose``: the diff, and what the next boot must print."""
    console = terminal()
    if document["status"] == "infeasible":
        show_solve(document)
        return
    shape = document["shapes"][document["rank"] - 1]
    show_heading(console, document, f"rank {document['rank']} for [bold]{document['goal']}[/]: "
                                f"{safe(changes_of(shape['changes']).replace(chr(10), ', '))}")
    if not document["diff"] and not document["refused"]:
        console.print("\nNothing to change: the file already has this shape.")
    show_edit(console, document, "By hand, for an edit would be a guess", "set both before the next boot")
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    if "<secret>" in document["diff"]:
        console.print("[yellow]A secret in this diff is masked: set the values by hand, patch would fail.[/]")
    console.print("\n[bold]The next boot must print[/]")
    console.print(ledger_table(document["predicted"]))
    show_list(console, "Before you take it", shape["notes"])
    show_list(console, "To know", [text for text in document["warnings"] if text not in shape["notes"]])


def show_edit(console: Any, document: Mapping[str, Any], refused: str, partly: str) -> None:
    """The diff, what is not in it (``refused`` says so, ``partly`` what the rest alone would be), what moves along."""
    if document["diff"]:
        console.print()
        console.print(safe(document["diff"]), end="", soft_wrap=True)
    for item in document["refused"]:
        value = document["edits"][item["knob"]]
        todo = f"set {item['knob']} to {value}" if value is not None else f"remove {item['knob']}"
        console.print(f"\n[yellow]{refused}:[/] {safe(todo)} ({safe(item['why'])})", soft_wrap=True)
    if document["refused"] and document["diff"]:
        console.print(f"[yellow]The diff alone is another shape:[/] {partly}.")
    for item in document["companions"]:
        console.print(f"\n{item['knob']} moves along, {item['from']:,} -> {item['to']:,}: {safe(item['why'])}")
