"""``calibrate`` as tables. Like every renderer it computes nothing: all it shows is in the JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from models.interval import GIB, MIB
from optimizer.render.base import amount, number_of, safe, setting_of, show_heading, show_list, span, table_of, terminal

#: Conflicts that are shown; the rest are in the JSON.
_CONFLICTS: Final = 8
#: Outcomes as they are said of a boot.
_WORDS: Final = {
    "serves": "serves", "clamped": "halves its pool", "preempts": "preempts",
    "rejects_long_requests": "rejects long requests", "stalls": "stalls",
    "out_of_memory_at_boot": "runs out of memory", "refused_at_boot": "refuses to start",
}


def show_calibrate(document: dict[str, Any]) -> None:
    """``calibrate`` as tables."""
    console = terminal()
    stated = [item for item in document["statements"] if item["says_something"]]
    whole = number_of(len(document["statements"]), "statement") + " of " + number_of(
        len({item["observation"] for item in document["statements"]}), "observation")
    if document["consistent"]:
        show_heading(console, document, f"[green]{whole} can all be true[/]"
                     + (f"; {len(stated)} of them depend on a constant" if document["statements"] else ""))
    else:
        show_heading(console, document, f"[red]{whole} cannot all be true[/]")
        _conflicts(console, document)
    for reading in document["readings"]:
        _reading(console, reading, paste=len(document["readings"]) == 1)
    _observations(console, document)
    _compared(console, document["compared"])
    if document["drift"] is not None:
        _drift(console, document["drift"])
    show_list(console, "Not judged, for lack of", [f"{item['name']}: {item['how']}" for item in document["open_facts"]])
    show_list(console, "Notes", document["warnings"])


def _conflicts(console: Any, document: Mapping[str, Any]) -> None:
    conflicts = document["conflicts"]
    common = set(conflicts[0]).intersection(*conflicts[1:]) if conflicts else set()
    if common and len(conflicts) > 1:
        console.print(f"\nEvery conflict holds: [bold]{safe(', '.join(sorted(common)))}[/]")
    console.print("\n[bold]Each of these sets is impossible, and would be possible without any one of its members[/]")
    against = {item["name"]: item["against"] for item in document["statements"]}
    for conflict in conflicts[:_CONFLICTS]:
        why = [text for name in conflict for text in against[name]]
        console.print("  - " + safe("; ".join(conflict) + (f" ({'; '.join(why)})" if why else "")))
    more = len(conflicts) - _CONFLICTS
    if more > 0:
        console.print(f"  and {more} more (--json has all)")
    if not document["complete"]:
        console.print("  there may be others")
    count = len(document["readings"])
    if count > 1:
        console.print(f"\nWhich statements are wrong is not known: {count} largest sets can be true.")
    smaller = len(document["other_sets"])
    if smaller:
        console.print(f"No larger set can be true; {smaller} smaller ones are in the --json answer.")


def _reading(console: Any, reading: Mapping[str, Any], *, paste: bool) -> None:
    if reading["left_out"]:
        console.print(f"\n[bold]If all is true but this: {safe('; '.join(reading['left_out']))}[/]")
    if not reading["constants"]:
        console.print("\nNothing that was stated depends on a constant of the engine that is uncertain.")
        return
    if not reading["left_out"]:
        console.print("\n[bold]What this leaves of the engine's constants[/]")
    for constant in reading["constants"]:
        declared, unit = constant["declared"], constant["unit"]
        stands = {"inside": "within it", "partly": "partly outside of it", "outside": "outside of it"}
        said = ""
        if declared is not None:
            stands_so = stands[constant["declared_stands"]]
            said = f"; declared {_between(declared['low'], declared['high'], unit)}: {stands_so}"
        ends = _between(constant["low"]["value"], constant["high"]["value"], unit)
        console.print(f"  [bold]{constant['name']}[/]: {ends}{said}")
        for end, word in (("low", "less"), ("high", "more")):
            found = constant[end]
            by = "; ".join(found["by"]) or ("nothing that was stated" if found["explained"] else
                                            "no time was left to say by which")
            console.print(f"    no {word} by: {safe(by)}{_how(found)}")
    if paste and reading["site_facts"]:
        agree = all(constant["declared_stands"] == "inside" for constant in reading["constants"])
        console.print("\nThe declared values agree with all of it. To reckon with these observations alone, as --fact "
                      "or in site.toml:" if agree else "\nTo reckon with it, as --fact or in site.toml:")
        console.print(safe("[facts]"))
        for line in reading["site_facts"]:
            console.print(safe(line))


def _how(end: Mapping[str, Any]) -> str:
    if not end["proven"]:
        return " (not proven in time: it may be known better)"
    return "" if not end["confirmed"] else " (intervals alone say so too)"


def _between(low: int, high: int, unit: str) -> str:
    small = unit == "B" and max(abs(low), abs(high)) < MIB
    if not small:
        return span(low, high, unit)
    return f"{low:,} B" if low == high else f"{low:,} to {high:,} B"


def _observations(console: Any, document: Mapping[str, Any]) -> None:
    if not any(item["outcomes"] for item in document["observations"]):
        return
    under = "" if document["consistent"] else ", whichever of the largest sets is true"
    console.print(f"\n[bold]What the engine's arithmetic says of each now{under}[/]")
    table = table_of("setting", "observed", "the model says", "by", ("need, GiB", "right"), ("there is, GiB", "right"),
                     ("left, GiB", "right"))
    for item in document["observations"]:
        said = "asked" if item["asked"] else _WORDS.get(item["outcome"] or "", "")
        can = " or ".join(_WORDS[word] for word in item["outcomes"]) or "not known"
        # what only load shows is no outcome of a boot: the model may well say that it serves
        seen = item["outcome"] not in (None, "preempts", "rejects_long_requests", "stalls")
        wrong = seen and item["outcomes"] and item["outcome"] not in item["outcomes"]
        bound = _nearest(item["bounds"])
        figures = ("", "", "", "") if bound is None else (
            bound["name"], *(_gib(bound[key]) for key in ("need", "limit", "slack")))
        colour = "red" if wrong else "green" if len(item["outcomes"]) == 1 else "yellow"
        table.add_row(safe(item["about"]), said, f"[{colour}]{can}[/]", *figures)
    console.print(table)


def _gib(ends: Mapping[str, int]) -> str:
    return f"{ends['low'] / GIB:,.2f} to {ends['high'] / GIB:,.2f}"


def _nearest(bounds: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return min(bounds, key=lambda bound: bound["slack"]["low"], default=None)


def _compared(console: Any, pairs: Sequence[Mapping[str, Any]]) -> None:
    if not pairs:
        return
    console.print("\n[bold]Settings that differ in one knob alone[/]")
    for pair in pairs:
        console.print(f"  {pair['knob']} {setting_of(pair['from'])} -> {setting_of(pair['to'])} "
                      f"({safe(pair['observations'][0])}, {safe(pair['observations'][1])})")
        for key, word in (("moved", "moves"), ("undecided", "may move")):
            moved = [f"{item['name']} by {_signed(item['by'], item['unit'])}" for item in pair[key]]
            if moved:
                console.print(f"    {word}: " + ", ".join(moved))
        console.print("    the same: " + (", ".join(pair["same"]) or "nothing"))
        if pair["unknown"]:
            console.print("    not known: " + ", ".join(pair["unknown"]))


def _signed(by: Mapping[str, int], unit: str) -> str:
    return span(by["low"], by["high"], unit)


def _drift(console: Any, drift: Mapping[str, Any]) -> None:
    console.print(f"\n[bold]From boot to boot ({safe(', '.join(drift['boots']))})[/]")
    facts = [item for item in drift["facts"] if item["apart"] > 0]
    rows = [item for item in drift["rows"] if item["apart"] > 0 or item["less_predicted"] is not None]
    if drift["facts"] or drift["rows"]:
        table = table_of("what", "kind", ("from least to greatest", "right"), ("boots differ by", "right"),
                         ("printed less predicted", "right"))
        for item in facts:
            table.add_row(item["name"], item["kind"], span(item["low"], item["high"], item["unit"]),
                          amount(item["apart"], item["unit"]), "")
        for item in rows:
            less = item["less_predicted"]
            table.add_row(item["name"], "row", span(item["low"], item["high"], item["unit"]),
                          amount(item["apart"], item["unit"]) if item["apart"] else "nothing",
                          "" if less is None else span(less["low"], less["high"], item["unit"]))
        if facts or rows:
            console.print(table)
        same = [item for item in (*drift["facts"], *drift["rows"]) if item["apart"] == 0 and item not in rows]
        named = [item["name"] for item in same if item.get("kind", "printed") != "printed"]
        if same:
            more = f"{len(same) - len(named)} more figures" if len(same) > len(named) else ""
            console.print("  the same at every boot, as far as printed: " + safe(", ".join([*named, more] if more else
                                                                                      named)))
        if any(item["kind"] == "each boot" for item in facts):
            console.print("  what is measured anew at each boot is no constant: reckon with the worst that it was")
    for item in drift["other"]:
        console.print(f"  {safe(item['boot'])} is not compared: {safe(item['why'])}")
