"""From a setting to its verdict: plans, edits, verdicts and their records, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.render.answers import ledger_table, show_edit
from optimizer.render.base import (
    DOES,
    MARK,
    amount,
    changes_of,
    counters_of,
    number_of,
    range_of,
    safe,
    setting_of,
    show_heading,
    show_list,
    signed,
    span,
    table_of,
    terminal,
)


def show_plan(document: dict[str, Any]) -> None:
    """``plan``: one block a deploy, with what it must print, what to read, and the way back."""
    console = terminal()
    target, steps = document["target"], document["steps"]
    aim = f"rank {target['rank']} for [bold]{target['goal']}[/]" if target["rank"] else "the shape that --to spells out"
    show_heading(console, document, f"the way to {aim}: {safe(changes_of(target['changes']).replace(chr(10), ', '))}")
    if document["current"] is not None:
        console.print(f"now {MARK[document['current']['verdict']]}, the server {DOES[document['current']['outcome']]}")
    if "stops" in document:
        _no_plan(console, document)
        return
    if not steps:
        console.print("\nNothing to deploy: this shape runs already.")
    else:
        count, doubles = number_of(len(steps), "deploy"), document["two_knob_deploys"]
        how = "of one knob each" if len(steps) > 1 else "of one knob"
        if doubles:
            how = f"[yellow]two knobs at once in {'it' if len(steps) == 1 else number_of(doubles, 'deploy')}[/]"
        others = ("no other order of as few fits" if document["orders"] == 1 else
                  f"of {document['orders']} orders of as few that fit, the one with the least risk")
        console.print(f"[bold]{count}[/], {how}; every shape on the way fits"
                      + (f"; {others}" if len(steps) > 1 else ""))
    for step in steps:
        _deploy(console, step, _shared(steps))
    if steps:
        show_list(console, "After each boot", _shared(steps))
    if any(step["again"] for step in steps):
        console.print("\nA figure measured anew changes what follows: give it (--ledger, or --fact NAME=VALUE) and ask "
                      "for the plan again from there.")
    told = [text for step in steps for text in step["notes"]]
    show_list(console, "Before you take it", [text for text in target["notes"] if text not in told])
    show_list(console, "To know", [text for text in document["warnings"] if text not in target["notes"]])
    if steps:
        show_list(console, "What the plan keeps to", document["rule"])


def _shared(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines to read after every boot."""
    return [text for text in steps[0]["reads"] if all(text in step["reads"] for step in steps)]


def _deploy(console: Any, step: Mapping[str, Any], shared: Sequence[str]) -> None:
    from rich.padding import Padding

    def line(text: str) -> None:
        console.print(Padding(text, (0, 0, 0, 3), expand=False))

    head = changes_of(step["changes"]).replace("\n", ", ")
    console.print(f"\n[bold]{step['step']}. {safe(head)}[/]")
    for move in step["moves"]:
        if len(move) > 1:
            line(f"{' and '.join(move)} count as one: one grows as the other shrinks, or they follow one ledger")
    for item in step["along"]:
        line(f"with {item['knob']} {item['from']:,} -> {item['to']:,}: {safe(item['why'])}")
    for stop in step["alone"]:
        line(f"[yellow]two knobs[/]: {safe(' and '.join(stop['knobs']))} alone does not fit: {safe(_against(stop))}")
    if step["alone"]:
        remedies = dict.fromkeys(f"{item['name']}: {item['remedy']}" for stop in step["alone"]
                                 for item in stop["broken"])
        line(f"one at a time would take a knob outside the target, or a stop half-way: {safe('; '.join(remedies))}")
    for reason in step["why"]:
        line(f"why here: {safe(_reason(reason))}")
    table = table_of("the boot must print", ("before", "right"), ("after", "right"), ("change", "right"), "certain to",
                     "known how")
    for row in step["rows"]:
        old, new, change = row["before"], row["after"], row["change"]
        moved = "" if change is None else "same" if change == 0 else signed(change, new["unit"])
        table.add_row(row["row"], "" if old is None else _middle(old), _middle(new), moved, range_of(new), new["basis"])
    console.print(Padding(table, (0, 0, 0, 3), expand=False))
    if step["unmeasured"] and not step["again"]:
        line("[yellow]these figures rest on the arena of other settings[/]: what the last ledger measured counts")
    for text in step["notes"]:
        line(f"note: {safe(text)}")
    for text in step["reads"]:
        if text not in shared:
            line(f"read: {safe(text)}")
    for fact in step["again"]:
        line(f"measured anew: {fact['name']} ({safe(fact['how'])})")
    near = step["nearest"]
    if near is not None:
        past = "the server serves on, on its own floor" if near["outcome"] == "serves" else (
            f"the server {DOES[near['outcome']]}")
        line(f"if it goes wrong: the nearest limit is {near['name']}, "
             f"{safe(span(near['slack'], near['slack_high'], near['unit']))} away; past it {past}")
    back = [f"{name} {setting_of(value)}" if value is not None else f"take {name} out"
            for name, value in step["back"].items()]
    line(f"the way back: {safe(', '.join(back))}")


def _middle(quantity: Mapping[str, Any]) -> str:
    exact = quantity["low"] == quantity["high"]
    return "between" if quantity["value"] is None else amount(quantity["value"], quantity["unit"], whole=exact)


def _reason(reason: Mapping[str, Any]) -> str:
    match reason["kind"]:
        case "after":
            return f"after {reason['step']}; before that it would not fit: {_against(reason['stop'])}"
        case "before":
            return f"before {reason['step']}; without it that would not fit: {_against(reason['stop'])}"
        case "free":
            return "it would fit elsewhere too; of all orders this one has the least risk"
    return "the only deploy"


def _against(stop: Mapping[str, Any]) -> str:
    found = []
    for item in stop["broken"]:
        much = "" if item["short"] is None else f" {amount(item['short'], item['unit'], whole=False)} short"
        edge = " at worst" if item["verdict"] == "knife_edge" else ""
        found.append(f"{item['name']}{much}{edge} (the server {DOES[item['outcome']]})")
    if stop["missing"]:
        found.append("not known without " + ", ".join(item["name"] for item in stop["missing"]))
    return "; ".join(found)


def _no_plan(console: Any, document: Mapping[str, Any]) -> None:
    if document["status"] == "does_not_fit":
        console.print(f"\n[red]The target itself is no shape to deploy[/]: {MARK[document['target']['verdict']]}")
        for stop in document["stops"]:
            console.print(f"  {safe(_against(stop))}")
            show_list(console, "What would mend it", [f"{item['name']}: {item['remedy']}" for item in stop["broken"]])
        show_list(console, "To know", document["warnings"])
        return
    console.print("\n[red]The target fits, and no way leads there[/] with these knobs alone, not even with two in one "
                  "deploy.")
    console.print(f"The way ends at: {safe(changes_of(document['reached']).replace(chr(10), ', '))}")
    show_list(console, "What would come next, and what forbids it", [f"{', '.join(stop['knobs'])}: {_against(stop)}"
                                                                 for stop in document["stops"]])
    show_list(console, "What would go on, but moves the KV pool and a placement in one deploy",
              [", ".join(names) for names in document["mixed"]])
    show_list(console, "To know", document["warnings"])


def show_apply(document: dict[str, Any]) -> None:
    """``apply``: the diff, what the next boot must print, and what was written where."""
    console = terminal()
    asked = f"rank {document['rank']} for [bold]{document['goal']}[/]" if document["goal"] else "as spelled"
    show_heading(console, document, f"{asked}: {safe(changes_of(document['changes']).replace(chr(10), ', '))}")
    if document["verdict"] != "fits":
        does = " or ".join(DOES[outcome] for outcome in document["outcomes"])
        console.print(f"{MARK[document['verdict']]}: the server {does}")
    if not document["diff"] and not document["refused"]:
        record = "is put on record" if document["written"] else "--write puts on record"
        console.print("\nNothing to change: the files already have this shape; what its next boot must print "
                      f"{record}.")
    show_edit(console, document, "Not set, for it would be a guess", "nothing is written before all of it can be")
    if document["predicted"]:
        console.print("\n[bold]The next boot must print[/]")
        console.print(ledger_table(document["predicted"]))
    show_list(console, "To know", dict.fromkeys([*document["notes"], *document["warnings"]]))
    console.print()
    for item in document["files"] if document["written"] else ():
        console.print(f"wrote {safe(item['file'])}; as it was: {safe(item['backup'])}", soft_wrap=True)
    if document["written"]:
        record = document["record"]
        console.print(f"prediction {record['id']} is on record in {safe(record['file'])}", soft_wrap=True)
        console.print(f"after the next boot: shapewright verdict --record {safe(record['file'])} --ledger ITS.log",
                      soft_wrap=True)
    else:
        console.print(f"[bold]Nothing was written:[/] {safe(document['why_not'])}")


def show_verdict(document: dict[str, Any]) -> None:
    """``verdict``: what does not belong first, then each row, the outcome, and the facts that moved."""
    console = terminal()
    mark = {"held": "[green]held[/]", "off": "[red]did not hold[/]", "void": "[yellow]void[/]",
            "open": "[yellow]open[/]"}[document["status"]]
    engine, made = document["engine"], document["prediction"]
    console.print(f"[bold]{engine['name']} {engine['version']}[/], prediction {made['id']} of {_moment(made['time'])}"
                  f" ({safe(changes_of(made['changes']).replace(chr(10), ', '))}): {mark}, {safe(document['why'])}",
                  soft_wrap=True)
    if made["note"]:
        console.print(f"note: {safe(made['note'])}")
    show_list(console, "Of another setting; compared all the same, but it proves nothing", document["other_settings"])
    outcome = document["outcome"]
    awaited = " or ".join(DOES[word] for word in outcome["predicted"])
    if outcome["seen"] is None:
        console.print(f"\noutcome: the log does not tell whether the server {awaited}")
    else:
        word = {True: "as predicted", False: f"predicted: it {awaited}", None: f"whether it {awaited} shows later"}
        console.print(f"\noutcome: the server {DOES[outcome['seen']]} ({word[outcome['agrees']]}): "
                      f"{safe(outcome['line'])} ({safe(outcome['source'])})", soft_wrap=True)
    table = table_of("row", ("predicted", "right"), ("printed", "right"), "", "line")
    for row in document["rows"]:
        table.add_row(row["name"], safe(_between(row["predicted"], row["unit"])),
                      "" if row["printed"] is None else safe(_as_printed(row)), _row_verdict(row),
                      safe(_line_of(row["source"])))
    console.print()
    console.print(table)
    for row in document["rows"] if document["status"] != "void" else ():
        _causes(console, row)
    moved = [fact for fact in document["facts"] if fact["moved"]]
    same = [fact["name"] for fact in document["facts"] if fact["was"] is not None and not fact["moved"]]
    new = [fact for fact in document["facts"] if fact["was"] is None]
    if moved:
        console.print("\n[bold]Facts that moved since the prediction[/]")
        table = table_of("fact", ("was", "right"), ("is", "right"), ("by", "right"), "line")
        for fact in moved:
            table.add_row(fact["name"], safe(_between(fact["was"], fact["unit"])),
                          safe(_between(fact["now"], fact["unit"])), safe(_change(fact["by"], fact["unit"])),
                          safe(_line_of(fact["source"])))
        console.print(table)
    if same:
        console.print(f"\nfacts as they were: {', '.join(same)}")
    if new:
        console.print("new facts: " + safe(", ".join(f"{fact['name']} {_between(fact['now'], fact['unit'])}"
                                                      for fact in new)))
    show_list(console, "In the log itself this does not add up", document["contradictions"])
    show_list(console, "To know", document["notes"])
    record = document["record"]
    console.print()
    if record["id"] is None:
        console.print(f"[bold]Nothing was written:[/] --write records it in {safe(record['file'])}", soft_wrap=True)
    else:
        console.print(f"verdict {record['id']} is on record in {safe(record['file'])}", soft_wrap=True)
    if document["next_ledger"] is not None:
        console.print(f"to go on from this boot, name its log in the site.toml: ledger = "
                      f"\"{safe(document['next_ledger'])}\"", soft_wrap=True)


def _causes(console: Any, row: Mapping[str, Any]) -> None:
    if row["status"] not in ("off", "drifted") or row["name"] in row["anew"]:
        return
    lost = row["by"]["high"] < 0
    parts = [f"{cause['name']} {_change(cause['by'], cause['unit'])} alone makes "
             f"{_change(cause['effect'], row['unit'])}" for cause in row["causes"]]
    parts += [f"{item['name']} got {_change(item['by'], row['unit'])}" if lost else
              f"{item['name']} lost {_change(item['by'], row['unit'])}" for item in row["gained"]]
    if row["left"] is not None:
        parts.append(f"{_change(row['left'], row['unit'])} of it no fact that the log tells explains" if row["causes"]
                     else "no fact that the log tells explains it")
    elif not row["causes"]:
        parts.append("no fact moved: what the boot before printed spoke against it, the engine's arithmetic does not")
    told = "; ".join(parts)
    console.print(f"  {row['name']}, {_change(row['by'], row['unit'])}: {safe(told)}", soft_wrap=True)


def _row_verdict(row: Mapping[str, Any]) -> str:
    if row["status"] == "off":
        return f"[red]off by {safe(_change(row['by'], row['unit']))}[/]"
    if row["status"] == "drifted":
        return f"[yellow]drifted by {safe(_change(row['by'], row['unit']))}[/]"
    if row["status"] == "within":
        exact = row["printed"]["low"] == row["printed"]["high"]
        return f"[green]within what is {'predicted' if exact else 'printed'}[/]"
    return {"exact": "[green]exact[/]", "unprinted": "[dim]not printed[/]"}[row["status"]]


def _between(ends: Mapping[str, int], unit: str) -> str:
    return span(ends["low"], ends["high"], unit)


def _as_printed(row: Mapping[str, Any]) -> str:
    ends = row["printed"]
    return _between(ends, row["unit"]) if ends["low"] == ends["high"] or not row["text"] else str(row["text"])


def _change(ends: Mapping[str, int], unit: str) -> str:
    """A difference with its sign; an interval by its ends."""
    low, high = signed(ends["low"], unit), signed(ends["high"], unit)
    return low if low == high else f"{low} to {high}"


def _line_of(source: str | None) -> str:
    """The line of a place in the one log there is."""
    return "" if source is None else f"line {source.rpartition(':')[2]}"


def _moment(time: str) -> str:
    return f"{time[:10]} {time[11:16]} UTC"


def show_history(document: dict[str, Any]) -> None:
    """``history``: each prediction with its verdicts, and the probes."""
    console = terminal()
    if not document["predictions"]:
        if document["probes"]:
            console.print("No prediction is on record.")
        else:
            console.print(f"No prediction is on record in {safe(document['file'])}: apply --write records one.",
                          soft_wrap=True)
    else:
        table = table_of("prediction", "made", "for", "change", "verdict", "off, and what moved")
        judged = [number for number, item in enumerate(document["predictions"])
                  if any(verdict["status"] in ("held", "off") for verdict in item["verdicts"])]
        for number, item in enumerate(document["predictions"]):
            asked = f"{item['goal'] or 'as spelled'}{chr(10) + item['note'] if item['note'] else ''}"
            first, *more = item["verdicts"] or [None]
            table.add_row(item["id"], _moment(item["time"]), safe(asked), safe(changes_of(item["changes"])),
                          *_told(first, overtaken=number < max(judged, default=0)))
            for verdict in more:
                table.add_row("", "", "", "", *_told(verdict))
        console.print(table)
    if document["probes"]:
        table = table_of("probe", "made", "server", ("points", "right"), "the server's own counters", "ended")
        for item in document["probes"]:
            ended = f"[red]harm[/]: {safe(item['harm'])}" if item["harm"] else safe(item["stopped"] or "as planned")
            table.add_row(item["id"], _moment(item["time"]), f"{safe(item['server'])}\n{safe(item['model'])}",
                          str(item["points"]), counters_of(item["counters"]) or "none shown", ended)
        console.print(table)
    if document["earlier"]:
        console.print(f"and {document['earlier']:,} earlier")
    show_list(console, "Verdicts on predictions that are not here",
              [f"{item['id']} of {item['of']}: {item['status']}" for item in document["orphans"]])
    show_list(console, "Lines that were passed over",
              [f"line {item['line']}: {item['why']}" for item in document["skipped"]])


def _told(verdict: Mapping[str, Any] | None, *, overtaken: bool = False) -> tuple[str, str]:
    if verdict is None:
        return "[dim]none; a later one was judged[/]" if overtaken else "[dim]none yet[/]", ""
    status = safe(verdict["status"])
    mark = {"held": "[green]held[/]", "off": "[red]off[/]"}.get(status, f"[yellow]{status}[/]")
    seen = "" if verdict["outcome"] in (None, "serves") else f", {safe(verdict['outcome'])}"
    parts = [f"{row['name']} {_change(row['by'], row['unit'])}" for row in verdict["off"]]
    parts += [f"{row['name']} drifted {_change(row['by'], row['unit'])}" for row in verdict["drifted"]]
    parts += [f"{name} moved" for name in verdict["moved"]]
    return f"{mark}{seen}, {_moment(verdict['time'])}", safe("; ".join(parts))
