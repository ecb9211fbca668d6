"""Goals against each other, and what each knob and fact is worth, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from optimizer.render.answers import better_by
from optimizer.render.base import (
    MARK,
    amount,
    changes_of,
    gives_of,
    number_of,
    percent,
    safe,
    setting_of,
    share_of,
    show_heading,
    show_list,
    span,
    table_of,
    terminal,
)
from optimizer.render.speeds import draw

#: Points of a set that a table shows; of more, evenly those between.
_MOST_POINTS: Final = 30
#: Knobs that a table of points has room for, a column each.
_MOST_KNOBS: Final = 4


def show_pareto(document: dict[str, Any]) -> None:
    """``pareto``: a row for each point, where the shape as it is stands, and the knee."""
    console = terminal()
    wanted = [f"{name}={setting_of(value)}" for name, value in document["given"].items()] + document["bounds"]
    names = [item["goal"] for item in document["goals"]]
    show_heading(console, document, f"[bold]{' against '.join(names)}[/]"
                 + (f", given {safe(', '.join(wanted))}" if wanted else ""))
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    for why in dict.fromkeys(item["why"] for item in document["within"]):
        held = [f"{item['sense']} {item['name']}={item['text']}" for item in document["within"] if item["why"] == why]
        console.print(f"within: {safe(', '.join(held))} ({safe(why)})")
    if document["status"] == "infeasible":
        console.print("\n[red]No shape does this.[/] These cannot hold together; give one of them up:")
        for item in document["conflict"]:
            console.print(f"  - [bold]{safe(item['name'])}[/] ({safe(item['source'])}): {safe(item['remedy'])}")
        show_list(console, "To know", document["warnings"])
        return
    steps = ", ".join(f"{item['goal']} {gives_of(item['step'], item['unit'])}" for item in document["goals"])
    console.print(f"steps: {safe(steps)}; {safe(document['rule'])}")
    count = number_of(len(document["points"]), "point")
    console.print(f"{count}: no other shape is better; all are proven, and were checked again without the solver\n"
                  if document["status"] == "optimal" else
                  f"[yellow]{count}, not proven complete[/]: the time limit was reached\n")
    shown = shown_points(document)
    console.print(_front_table(document, shown))
    if len(shown) < len(document["points"]):
        console.print(f"{len(shown)} of {len(document['points'])} points; --json has all, --at-least and --at-most "
                      "narrow them")
    if len(names) == 2 and len(document["points"]) > 2:
        console.print()
        draw(console, "front_plot", document)
    console.print()
    knee = document["knee"]
    console.print(f"knee: point {knee['point']}, {safe(knee['definition'])}" if knee else
                  f"no knee: {safe(document['no_knee'])}")
    _standing(console, document)
    for law in document.get("laws", ()):
        console.print(f"law: {safe(law['name'])}; {safe(law['verdict'])}; noise {percent(law['noise'])}")
    show_list(console, "Before you take one", notes_of(document["points"]))
    show_list(console, "To know", document["warnings"])
    for path in document.get("pictures", ()):
        console.print(f"drawn: {safe(path)}")


def notes_of(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to know of which points; what differs in figures only is said once."""
    alike: dict[str, tuple[str, list[int]]] = {}
    for point in points:
        for text in point["notes"]:
            alike.setdefault("".join(letter for letter in text if not letter.isdigit() and letter != ","),
                             (text, []))[1].append(point["point"])
    return [f"point {numbers[0]}: {text}" + (f" (and the like: {ranges_of(numbers[1:])})" if numbers[1:] else "")
            for text, numbers in alike.values()]


def shown_points(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The points that a table has room for."""
    points = document["points"]
    if len(points) <= _MOST_POINTS:
        return list(points)
    last = len(points) - 1
    kept = {round(last * place / (_MOST_POINTS - 1)) for place in range(_MOST_POINTS)}
    kept |= {found - 1 for found in (document["current"]["equals"], (document["knee"] or {}).get("point")) if found}
    return [points[place] for place in sorted(kept)]


def _front_table(document: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> Any:
    knobs = list(dict.fromkeys(name for point in document["points"] for name in point["changes"]))
    apart = len(knobs) <= _MOST_KNOBS
    current, knee = document["current"], (document["knee"] or {}).get("point")
    units = [item["unit"] for item in document["goals"]]
    table = table_of(("point", "right"), *((item["goal"], "right") for item in document["goals"]),
                     *(((name, "right") for name in knobs) if apart else ["change"]), "what binds")
    values = [gives_of(value, unit) for value, unit in zip(current["values"], units, strict=True)]
    table.add_row("now", *values, *([setting_of(current["shape"].get(name)) for name in knobs] if apart else [""]),
                  "" if current["verdict"] == "fits" else MARK[current["verdict"]], style="dim")
    for point in points:
        number = f"{point['point']}" + (" knee" if point["point"] == knee else "") + (
            "" if point["proven"] else " not proven")
        gives = [gives_of(item["value"], unit, item.get("prediction"))
                 for item, unit in zip(point["objectives"], units, strict=True)]
        settings = [setting_of(point["shape"].get(name, point["changes"].get(name, ["", ""])[1])) for name in knobs]
        table.add_row(number, *map(safe, gives), *(settings if apart else [safe(changes_of(point["changes"]))]),
                      safe(", ".join(point["binding"])), style="bold" if point["point"] == knee else "")
    return table


def _standing(console: Any, document: Mapping[str, Any]) -> None:
    current, goals = document["current"], document["goals"]
    better = current["dominated_by"]
    if current["steps"] is None:
        unknown = [item["goal"] for item, value in zip(goals, current["values"], strict=True) if value is None]
        console.print(f"the shape as it is: {', '.join(unknown)} not known, so it stands nowhere")
    elif current["equals"]:
        console.print(f"the shape as it is: as good as point {current['equals']}; nothing beats it on these steps")
    elif better:
        console.print(f"the shape as it is: beaten by {'points' if len(better) > 1 else 'point'} "
                      f"{ranges_of([item['point'] for item in better])}")
        for item in [better[0], better[-1]] if len(better) > 1 else better:
            gains = ", ".join(f"{goal['goal']} {better_by(gain, goal['unit'])}"
                              for goal, gain in zip(goals, item["by"], strict=True) if gain)
            console.print(f"  point {item['point']}: {safe(gains)}")
    else:
        console.print("the shape as it is: beaten by none")
    if not current["asked"]:
        console.print("  it is not one of the shapes asked about: it does not fit, or not within what was given")


def ranges_of(numbers: Sequence[int]) -> str:
    """Numbers in order, runs of them as 3 to 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def show_sensitivity(document: dict[str, Any]) -> None:
    """``sensitivity``: what each knob and fact is worth, what changes nothing, and what all facts leave open."""
    console = terminal()
    goal, best = document["goal"], document["best"]
    unit = goal["unit"]
    wanted = [f"{name}={setting_of(value)}" for name, value in document["given"].items()] + document["bounds"]
    given = f", given {safe(', '.join(wanted))}" if wanted else ""
    show_heading(console, document, f"[bold]{goal['goal']}[/]{given}")
    changes = changes_of(best["changes"]).replace("\n", ", ") or "as it is"
    value, change = best["objective"]["value"], best["objective"]["change"]
    gives = gives_of(value, unit) if value is not None or change is None else f"{_gain(change, unit)} from now"
    console.print(f"best: {safe(changes)}: {safe(gives)}; what binds: "
                  f"{safe(', '.join(best['binding']) or 'nothing')}")
    console.print(f"a step of the goal is {gives_of(goal['step'], unit)}; this took {document['resolved']:,} solves\n")
    live = [knob for knob in document["knobs"] if not knob["nothing"]]
    table = table_of("knob", ("value", "right"), "a step down", ("gain", "right"), ("alone", "right"), "a step up",
                     ("gain", "right"), ("alone", "right"), "stays best")
    for knob in live:
        cells = [cell for side in ("down", "up") for cell in _step_cells(knob[side], unit)]
        table.add_row(knob["knob"] + ("" if knob["free"] else " (held)"), setting_of(knob["value"]), *cells,
                      _stays(knob["stays_best"]))
    if live:
        console.print(table)
        console.print("gain: all else optimised again; alone: all else as in the best shape; stays best: values of a "
                      "held knob\nat which the best shape fits and is not beaten by a step, of a free one those that "
                      "cost less than a step")
        if "laws" in document:
            console.print("no fit: no shape fits there, or none within the data")
    show_list(console, "Worth more together", (
        f"{safe(' and '.join(f'{name} {setting_of(value)}' for name, value in pair['knobs'].items()))}: "
        f"{_gain(pair['together'], unit)}; each by itself {' and '.join(_gain(gain, unit) for gain in pair['apart'])}"
        for pair in document["together"]))
    show_list(console, "These change nothing of the goal", (
        f"{knob['knob']}: {knob['nothing']}; it moves {', '.join(knob['moves']) or 'no row'}"
        for knob in document["knobs"] if knob["nothing"]))
    _running(console, document["knobs"])
    _fact_table(console, document)
    if document["global"] is not None:
        _spread(console, document["global"], goal)
    for law in document.get("laws", ()):
        console.print(f"law: {safe(law['name'])}; {safe(law['verdict'])}; noise {percent(law['noise'])}")
    show_list(console, "Extrapolated: nobody measured there, and gains may be far off",
              document.get("extrapolated", ()))
    show_list(console, "To know", document["warnings"])


def _gain(gain: float | None, unit: str) -> str:
    """A gain with its sign; none where no shape fits."""
    if gain is None:
        return "no fit"
    return "0" if gain == 0 else f"{'+' if gain > 0 else ''}{gives_of(gain, unit)}"


def _step_cells(move: Mapping[str, Any] | None, unit: str) -> list[str]:
    if move is None:
        return ["", "", ""]
    again = "not known" if move["why_not"] else _gain(move["reoptimised"], unit)
    alone = "not known" if move["why_not"] else _gain(move["fixed"], unit)
    if move["fixed"] is None and not move["why_not"]:  # one that fits has no figure where nobody measured
        alone = {"knife_edge": "knife edge", "fits": "outside the data"}.get(move["fixed_verdict"], alone)
    return [setting_of(move["to"]), again, alone]


def _stays(ends: Mapping[str, Any] | None) -> str:
    if ends is None:
        return ""
    low, high = ends["from"], ends["to"]
    if low is None and high is None:
        return "everywhere"
    if low is None:
        return f"up to {setting_of(high)}"
    if high is None:
        return f"from {setting_of(low)}"
    return setting_of(low) if low == high else f"{setting_of(low)} to {setting_of(high)}"


def _running(console: Any, knobs: Sequence[Mapping[str, Any]]) -> None:
    """What becomes of the running shape as one knob alone moves, where that is not the same everywhere."""
    table = table_of("knob alone", "values", "the running shape", "outcome", "breaks")
    for knob in knobs:
        if len(knob["running"]) < 2:
            continue
        for number, rung in enumerate(knob["running"]):
            low, high = setting_of(rung["from"]), setting_of(rung["to"])
            ends = low if low == high else f"{low} to {high}"
            table.add_row("" if number else knob["knob"], ends, MARK[rung["verdict"]],
                          rung["outcome"].replace("_", " "), ", ".join(rung["broken"]))
    if table.row_count:
        console.print("\n[bold]What becomes of the running shape as one knob alone moves[/]")
        console.print(table)


def _fact_table(console: Any, document: Mapping[str, Any]) -> None:
    unit = document["goal"]["unit"]
    table = table_of("fact", ("is", "right"), ("may fall by", "right"), ("may rise by", "right"),
                     ("goal at its worse end", "right"), ("better end", "right"), "source")
    for fact in document["facts"]:
        drift = [("not decided" if side in fact["flips"]["open"] else "any amount" if fact["flips"][side] is None else
                  f"less than {amount(fact['flips'][side], fact['unit'], whole=False)}") for side in ("down", "up")]
        ends = ("", "") if fact["ends"] is None else tuple(
            "no fit" if fact["ends"][end] is None else gives_of(fact["ends"][end], unit)
            for end in ("pessimistic", "optimistic"))
        table.add_row(fact["fact"], span(fact["low"], fact["high"], fact["unit"]), *drift, *ends,
                      safe(fact["source"]))
    if table.row_count:
        console.print("\n[bold]How far each fact may drift before the best shape is not sure to fit, and what its "
                      "interval costs[/]")
        console.print(table)


def _spread(console: Any, found: Mapping[str, Any], goal: Mapping[str, Any]) -> None:
    console.print(f"\n[bold]All uncertain facts at once[/] ({len(found['facts'])} facts, {found['samples']} draws of "
                  f"each kind, seed {found['seed']})")
    for name, what in (("running_fits", "the running shape"), ("best_fits", "the best shape")):
        chance = found[name]
        console.print(f"  {what} fits at {share_of(chance['share'])} of the draws (95 %: {share_of(chance['low'])} to "
                      f"{share_of(chance['high'])})")
    if found["goal"] is not None:
        low, middle, high = (gives_of(found["goal"][end], goal["unit"]) for end in ("low", "median", "high"))
        console.print(f"  {goal['goal']}, optimised again at each draw: {middle} (90 % of draws: {low} to {high})")
    if found["infeasible"]:
        console.print(f"  at {found['infeasible']} draws no shape fits")
    if found["shares"]:
        table = table_of("fact", ("alone", "right"), ("in all", "right"))
        for share in found["shares"]:
            table.add_row(share["fact"], *(f"{max(share[key], 0):.2f} ± {share[f'{key}_half']:.2f}" for key in (
                "alone", "total")))
        console.print(f"  what explains the variance of {safe(found['explained'])} (Sobol indices, 95 %)")
        console.print(table)
    console.print(f"  {safe(found['rule'])}")
