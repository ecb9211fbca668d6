"""Answers as tables for people. A renderer computes nothing: all it shows is in the JSON document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from models.interval import GIB, KIB, MIB

_MARK: Final = {"fits": "[green]fits[/]", "knife_edge": "[yellow]knife edge[/]", "does_not_fit": "[red]does not fit[/]",
                None: "[dim]open[/]"}
#: What the server does, after "the server".
DOES: Final = {
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
    low, high = quantity["low"], quantity["high"]
    return "exact" if low == high else span(low, high, quantity["unit"])


def setting_of(value: Any) -> str:
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
    grid = _table("", "")
    grid.show_header, grid.padding = False, (0, 1, 0, 0)
    for item in found:
        grid.add_row("  -", _safe(item))
    console.print(grid)


def _ledger_table(quantities: Mapping[str, Any]) -> Any:
    table = _table("row", ("predicted", "right"), "certain to", "known how", "source")
    for name, quantity in quantities.items():
        exact = quantity["low"] == quantity["high"]
        known = quantity["value"] is not None
        value = amount(quantity["value"], quantity["unit"], whole=exact) if known else "between"
        table.add_row(name, value, range_of(quantity), quantity["basis"], _safe(quantity["source"]))
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
    outcome = " or ".join(DOES[word] for word in document.get("outcomes", [document["outcome"]]))
    reasons = [c["name"] for c in document["constraints"] if c["applies"] and c["hard"] and c["ok"] is False]
    _heading(console, document, f"{_MARK[document['verdict']]}, the server [bold]{outcome}[/]")
    if reasons:
        console.print(f"because of {', '.join(reasons)}")
    shape = _table("knob", ("value", "right"), "from")
    for name, value in document["shape"].items():
        default = document["defaults"].get(name)
        shape.add_row(name, setting_of(value), _safe(f"default: {default['source']}") if default else "as set")
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


def changes_of(changes: Mapping[str, Sequence[Any]]) -> str:
    if not changes:
        return "as it is"
    return "\n".join(f"{name} {setting_of(old)} -> {setting_of(new)}" for name, (old, new) in changes.items())


def objective_of(objective: Mapping[str, Any], sure: float = 0.5) -> str:
    """``sure`` is the confidence at which a speed was optimised."""
    unit = objective["unit"]
    if "prediction" in objective:
        return _predicted(objective, sure)
    if objective["value"] is None:
        change = objective["change"]
        return "not known" if change is None else _better(change, unit)
    text = amount(objective["value"], unit)
    if objective["low"] != objective["high"]:
        text += f"\n({span(objective['low'], objective['high'], unit)})"
    if objective["change"]:
        text += "\n" + _better(objective["change"], unit)
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
        text += "\n" + _better(objective["change"], unit)
    return text


def _better(change: float, unit: str) -> str:
    if change == 0:
        return "as it is"
    return f"{'better' if change > 0 else 'worse'} by {amount(abs(change), unit)}"


def _asked(console: Any, document: Mapping[str, Any], what: str) -> None:
    """The head of an answer: what was asked for, what may move, and what holds though nobody asked for it."""
    wanted = [f"{name}={setting_of(value)}" for name, value in document["given"].items()] + document["bounds"]
    goal = " then ".join(document["order"]) if "order" in document else document["goal"]
    asked = f"{what} [bold]{goal}[/]" + (f", given {_safe(', '.join(wanted))}" if wanted else "")
    _heading(console, document, asked)
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    for why in dict.fromkeys(item["why"] for item in document["within"]):
        held = [f"{item['sense']} {item['name']}={item['text']}" for item in document["within"] if item["why"] == why]
        console.print(f"within: {_safe(', '.join(held))} ({_safe(why)})")


def show_solve(document: dict[str, Any]) -> None:
    """``solve`` as tables: the ranks, then the first one in full."""
    console = _console()
    _asked(console, document, "best shapes for")
    if document["status"] == "infeasible":
        console.print("\n[red]No shape does this.[/] These cannot hold together; give one of them up:")
        for item in document["conflict"]:
            console.print(f"  - [bold]{_safe(item['name'])}[/] ({_safe(item['source'])}): {_safe(item['remedy'])}")
        _list(console, "To know", document["warnings"])
        console.print("\n`shapewright why` with the same words says what would have to give, and by how much")
        return
    word = {"optimal": "rank 1 is proven best", "feasible": "found within the time limit, not proven best"}
    console.print(f"{word[document['status']]}; every shape was checked again without the solver\n")
    table = _table(("rank", "right"), "change", ("gives", "right"), "what binds", "verdict")
    sure = document["speed"]["workload"]["confidence"] if document.get("speed") else 0.5
    for shape in document["shapes"]:
        gives = _safe(objective_of(shape["objective"], sure))
        for name, found in shape.get("speeds", {}).items():  # of the goals that came first
            if "median" in found:
                gives += _safe(f"\n{name} {figure(found['median'])} {found['unit']}")
        table.add_row(str(shape["rank"]), _safe(changes_of(shape["changes"])), gives,
                      _safe("\n".join(shape["binding"])), _MARK[shape["verdict"]])
    console.print(table)
    best = document["shapes"][0]
    if document.get("speed"):
        _speed(console, document["speed"], best["objective"]["unit"])
    console.print("\n[bold]Rank 1: the ledger to expect[/] (sizes a card; host RAM in all)")
    console.print(_ledger_table(best["quantities"]))
    console.print()
    console.print(_constraint_table(best["constraints"]))
    _list(console, "Before you take it", best["notes"])
    _list(console, "To know", [text for text in document["warnings"] if text not in best["notes"]])


def show_why(document: dict[str, Any]) -> None:
    """``why`` in words: what would mend a question that has no answer, or what binds the best one that it has."""
    console = _console()
    _asked(console, document, "what stands against")
    if document["status"] == "infeasible":
        _mended(console, document)
    else:
        _bound_by(console, document)
    _list(console, "To know", document["warnings"])


def _mended(console: Any, document: Mapping[str, Any]) -> None:
    members = {item["name"]: item for item in document["members"]}
    single, joint, helpless = document["single"], document["joint"], document["helpless"]
    if single:
        console.print("\n[red]No shape does this.[/] Any one of these would mend it:")
        _repairs(console, single, members)
    else:
        console.print("\n[red]No shape does this[/], and nothing that gives alone would mend it.")
    if document["undecided"]:
        console.print(f"\nNot known of: {_safe(', '.join(document['undecided']))}")
    if helpless and single:
        console.print(f"\nAlone these cannot help: {_safe(', '.join(helpless))}")
    if joint:
        console.print("\nOr, together:")
        _repairs(console, joint, members)
    if not document["complete"]:
        console.print("\n[yellow]There may be more: not all of it could be looked through.[/]")
    _list(console, "What cannot hold together", (" with ".join(names) if len(names) > 1 else f"{names[0]} by itself"
                                                 for names in document["conflicts"]))


def _repairs(console: Any, repairs: Sequence[Mapping[str, Any]], members: Mapping[str, Mapping[str, Any]]) -> None:
    grid = _table("", "")
    grid.show_header, grid.padding = False, (0, 1, 0, 0)
    for item in repairs:
        least = "" if item["proven"] else " (less may do: not proven)"
        parts = "\nand ".join(_giving(give, members[give["name"]]) for give in item["gives"])
        then = _safe(changes_of(item["changes"]).replace("\n", ", "))
        grid.add_row("  -", f"{parts}{least}\n[dim]then {then}[/]")
    console.print(grid)


def _giving(give: Mapping[str, Any], member: Mapping[str, Any]) -> str:
    """One member's part of a repair, in words."""
    name, unit, by, to = f"[bold]{_safe(give['name'])}[/]", give["unit"], give["amount"], give["to"]
    much = _safe(amount(by, unit))
    match give["way"]:
        case "short":
            return f"{name}: {much} short; {_safe(member['remedy'])}"
        case "other":
            return f"{name}: {_safe(setting_of(to))} instead"
        case "less" | "more" as way:
            if not member["source"].startswith("--"):  # nobody asked for it
                return (f"{name}: would have to be {much} {way}, {_safe(amount(to, unit))} "
                        f"({_safe(member['source'])}; {_safe(member['remedy'])})")
            return f"{name}: {'ask for' if way == 'less' else 'allow'} {much} {way}, {_safe(amount(to, unit))}"
        case way:
            return f"{name}: {way} by {much}, to {_safe(setting_of(to))}"


def _bound_by(console: Any, document: Mapping[str, Any]) -> None:
    best, after = document["best"], document["next"]
    proven = "" if document["status"] == "optimal" else " (not proven best)"
    gives = objective_of(best["objective"]).replace("\n", ", ")
    console.print(f"\n[bold]The best[/]{proven}: {_safe(gives)}")
    console.print(f"  {_safe(changes_of(best['changes']).replace(chr(10), ', '))}")
    held = document["held_back"]
    if held:
        _list(console, "What binds: a held knob, which nobody opened",
              (_held_back(item, best["objective"]["unit"]) for item in held))
        _list(console, "Before you take one",
              dict.fromkeys(text for item in held if item["best"] for text in item["best"]["notes"]))
        return
    _list(console, "What binds", document["binding"] or ["nothing"])
    if after is None:
        console.print("\nNothing of this can give way.")
        return
    names = _safe(", ".join(after["given_up"]))
    then = after["best"]
    if then is None:
        console.print(f"\nWhat would bind if this gave way ({names}): {_safe(after['unknown'])}")
        return
    gain = "nothing more" if not then["gain"] else _better(then["gain"], then["objective"]["unit"])
    console.print(f"\n[bold]If this gave way[/] ({names}): {gain}")
    console.print(f"  {_safe(changes_of(then['changes']).replace(chr(10), ', '))}")
    left = {item["name"]: amount(item["slack"], item["unit"]) for item in then["slack"]}
    _list(console, "What would bind then", (f"{name}: {left[name]} left now" if name in left else name
                                            for name in then["binding"] or ["nothing"]))


def _held_back(item: Mapping[str, Any], unit: str) -> str:
    best, opened = item["best"], f"{item['knob']}={setting_of(item['value'])}: with --free {item['knob']}"
    if best is None:
        return f"{opened} more may be had: not found in time"
    least = "" if best["proven"] else " (more may be had: not proven best)"
    return f"{opened} {_better(best['gain'], unit)}{least}, then {changes_of(best['changes']).replace(chr(10), ', ')}"


def weights_of(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share_of(weight)}" for name, weight in weights.items() if weight >= 0.005)


def share_of(weight: float) -> str:
    """A probability or a weight; neither nothing nor certainty is said where it is only near."""
    return "> 99 %" if 0.995 < weight < 1 else "< 1 %" if 0 < weight < 0.005 else f"{100 * weight:.0f} %"


def percent(share: float) -> str:
    return f"{100 * share:,.1f} %"


def _count(number: int, word: str) -> str:
    return amount(number, f"{word}s")


def _rate(rate: float) -> str:
    return f"{figure(rate)} t/s"


def _evidence(law: Mapping[str, Any]) -> str:
    return (f"{_count(law['points'], 'point')} at {_count(law['settings'], 'setting')} from "
            f"{_safe(', '.join(law['sources']))}")


def _speed(console: Any, speed: Mapping[str, Any], unit: str) -> None:
    load = speed["workload"]
    metrics = {law["metric"] for law in speed["laws"]}
    what = "prompt" if "prefill" in metrics else "context"
    words = [speed["how"]] if speed["how"] else []
    if not speed["how"]:  # which names the prompt
        words.append(f"a {what} of {load['prompt_tokens']:,} tokens" if load["prompt_tokens"] else f"{what} not stated")
    if "decode" in metrics and load["streams"] is not None:
        words.append("all slots busy" if isinstance(load["streams"], str) else _count(load["streams"], "stream"))
    words.append(f"what one measurement reaches with a probability of {share_of(load['confidence'])}")
    console.print(f"\n[bold]The speed[/]: {_safe('; '.join(words))}")
    for law in speed["laws"]:
        console.print(f"  law: {_safe(law['name'])}; {_evidence(law)}")
        console.print(f"  {_safe(law['verdict'])} ({_safe(weights_of(law['weights']))}); noise {percent(law['noise'])}")
    for text in speed["extrapolated"]:
        console.print(f"  [yellow]extrapolated:[/] {_safe(text)}")
    rivals = speed["rivals"]
    if rivals is None:
        return
    names = [item["law"] for item in rivals["choices"]]
    console.print("  what each form of the law would choose, and what each form expects of it "
                  f"({'seconds' if unit == 's' else unit}):")
    table = _table("if it is", "choose", *((name, "right") for name in names))
    for item in rivals["choices"]:
        table.add_row(f"{_safe(item['law'])} ({share_of(item['weight'])})", _safe(changes_of(item["changes"])),
                      *(figure(item["expects"][name]) for name in names))
    for title, key in (("rank 1", "rank_1"), ("good under all", "good_under_all")):
        item = rivals[key]
        table.add_row(f"[bold]{title}[/]", _safe(changes_of(item["changes"])),
                      *(figure(item["expects"][name]) for name in names))
    console.print(table)
    loses = rivals["good_under_all"]["loses_at_most"]
    console.print("  rank 1 is as good as any, whichever form is true" if rivals["agree"] else
                  "  the forms disagree about the best shape; what is good under all of them loses "
                  f"{percent(loses)} at most")


def show_laws(document: dict[str, Any]) -> None:
    """``laws``: each law with its forms and, of few, a plot; then an overview."""
    console = _console()
    console.print(f"[bold]{_count(document['points'], 'point')}[/] in {_safe(', '.join(document['files']))}")
    plots = len(document["laws"]) <= 3
    for law in document["laws"]:
        _law(console, law, plot=plots)
    if len(document["laws"]) > 1:
        console.print("\n[bold]How far each law is off where a setting was left out[/] (in time per token)")
        table = _table("law", ("points", "right"), ("settings", "right"), ("typical", "right"), ("worst", "right"),
                       "verdict")
        for law in document["laws"]:
            table.add_row(_safe(law["name"]), str(law["points"]), str(law["settings"]),
                          percent(law["left_out"]["median"]), percent(law["left_out"]["worst"]),
                          _safe(law["verdict"]))
        console.print(table)
    means = {term["form"]: term["means"] for law in document["laws"] for form in law["forms"] for term in form["terms"]}
    _list(console, "What the forms mean, in time per token (c, b, d are sizes; x is the setting)",
          ["constant: no effect", *(f"{name}: {text}" for name, text in means.items())])
    _list(console, "No law yet", grouped(document["unfitted"]))
    _list(console, "Not this site's", grouped(document["elsewhere"]))
    _list(console, "Refused", [f"{item['file']}:{item['line']}: {item['reason']}" for item in document["refused"]])
    for path in document.get("pictures", ()):
        console.print(f"drawn: {_safe(path)}")


def grouped(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Laws with why each does not count; those of one reason that are many are only counted."""
    reasons: dict[str, list[str]] = {}
    for item in items:
        reasons.setdefault(item["why"], []).append(item["name"])
    return [text for why, names in reasons.items()
            for text in ([f"{len(names)} laws: {why}"] if len(names) > 3 else [f"{name}: {why}" for name in names])]


def _law(console: Any, law: Mapping[str, Any], *, plot: bool) -> None:
    console.print(f"\n[bold]{_safe(law['name'])}[/]: {_safe(law['verdict'])}")
    ranges = "; ".join(f"{item['axis']} {value_on_axis(item['low'])} to {value_on_axis(item['high'])}"
                       + (f" {item['unit']}" if item["unit"] not in ("", item["axis"]) else "")
                       for item in law["ranges"])
    console.print(f"{_evidence(law)}; measured over {_safe(ranges)}; "
                  f"noise {percent(law['noise']['value'])} ({law['noise']['how']})")
    for axis, shares in law["shares"].items():
        console.print(f"{axis}: {_safe(weights_of(shares))}")
    table = _table("form", ("weight", "right"), ("left out", "right"), ("first to last", "right"), ("knee", "right"))
    for form in law["forms"]:
        ends = "" if form["from"] is None else f"{figure(form['from'])} -> {figure(form['to'])} t/s"
        error = "" if form["left_out_error"] is None else f"{percent(form['left_out_error'])} off"
        knees = ", ".join(figure(term["knee"]) for term in form["terms"] if term["knee"] is not None)
        table.add_row(_safe(form["name"]), share_of(form["weight"]), error, ends, knees)
    console.print(table)
    if law["prediction"]:
        found = law["prediction"]
        label = " (extrapolated)" if found["extrapolated"] else ""
        console.print(f"this site's shape: {_rate(found['median'])}{label}, {share_of(found['level'])} of new "
                      f"measurements from {figure(found['low'])} to {figure(found['high'])}")
    elif law["beyond"]:
        console.print(f"this site's shape lies outside: {_safe('; '.join(law['beyond']))}")
    if plot and law["curve"] is not None:
        console.print()
        _draw(console, "terminal_plot", law)
    _list(console, "Contradict each other", law["contradictions"])
    _list(console, "Not separated", law["not_separated"])
    _list(console, "To know", [*law["labels"], *(f"{item['file']}:{item['line']} does not count: {item['why']}"
                                                 for item in law["not_used"])])


def _draw(console: Any, how: str, what: Mapping[str, Any]) -> None:
    from rich.text import Text

    from optimizer import plot

    colour = bool(console.is_terminal) and console.color_system is not None
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    text = getattr(plot, how)(what, width=min(console.width, 100), height=20, colour=colour,
                              ascii_only="utf" not in encoding)
    console.print(Text.from_ansi(text) if colour else Text(text), highlight=False, markup=False, no_wrap=True,
                  overflow="ignore", crop=False)


#: Points of a set that a table shows; of more, evenly those between.
_MOST_POINTS: Final = 30
#: Knobs that a table of points has room for, a column each.
_MOST_KNOBS: Final = 4


def show_pareto(document: dict[str, Any]) -> None:
    """``pareto``: a row for each point, where the shape as it is stands, and the knee."""
    console = _console()
    wanted = [f"{name}={setting_of(value)}" for name, value in document["given"].items()] + document["bounds"]
    names = [item["goal"] for item in document["goals"]]
    _heading(console, document, f"[bold]{' against '.join(names)}[/]"
             + (f", given {_safe(', '.join(wanted))}" if wanted else ""))
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    for why in dict.fromkeys(item["why"] for item in document["within"]):
        held = [f"{item['sense']} {item['name']}={item['text']}" for item in document["within"] if item["why"] == why]
        console.print(f"within: {_safe(', '.join(held))} ({_safe(why)})")
    if document["status"] == "infeasible":
        console.print("\n[red]No shape does this.[/] These cannot hold together; give one of them up:")
        for item in document["conflict"]:
            console.print(f"  - [bold]{_safe(item['name'])}[/] ({_safe(item['source'])}): {_safe(item['remedy'])}")
        _list(console, "To know", document["warnings"])
        return
    steps = ", ".join(f"{item['goal']} {gives_of(item['step'], item['unit'])}" for item in document["goals"])
    console.print(f"steps: {_safe(steps)}; {_safe(document['rule'])}")
    count = _count(len(document["points"]), "point")
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
        _draw(console, "front_plot", document)
    console.print()
    knee = document["knee"]
    console.print(f"knee: point {knee['point']}, {_safe(knee['definition'])}" if knee else
                  f"no knee: {_safe(document['no_knee'])}")
    _standing(console, document)
    for law in document.get("laws", ()):
        console.print(f"law: {_safe(law['name'])}; {_safe(law['verdict'])}; noise {percent(law['noise'])}")
    _list(console, "Before you take one", notes_of(document["points"]))
    _list(console, "To know", document["warnings"])
    for path in document.get("pictures", ()):
        console.print(f"drawn: {_safe(path)}")


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
    table = _table(("point", "right"), *((item["goal"], "right") for item in document["goals"]),
                   *(((name, "right") for name in knobs) if apart else ["change"]), "what binds")
    values = [gives_of(value, unit) for value, unit in zip(current["values"], units, strict=True)]
    table.add_row("now", *values, *([setting_of(current["shape"].get(name)) for name in knobs] if apart else [""]),
                  "" if current["verdict"] == "fits" else _MARK[current["verdict"]], style="dim")
    for point in points:
        number = f"{point['point']}" + (" knee" if point["point"] == knee else "") + (
            "" if point["proven"] else " not proven")
        gives = [gives_of(item["value"], unit, item.get("prediction"))
                 for item, unit in zip(point["objectives"], units, strict=True)]
        settings = [setting_of(point["shape"].get(name, point["changes"].get(name, ["", ""])[1])) for name in knobs]
        table.add_row(number, *map(_safe, gives), *(settings if apart else [_safe(changes_of(point["changes"]))]),
                      _safe(", ".join(point["binding"])), style="bold" if point["point"] == knee else "")
    return table


def gives_of(value: float | None, unit: str, prediction: Mapping[str, Any] | None = None) -> str:
    text = amount(value, unit) if value is None or unit in ("B", "t/s", "s") else setting_of(value)
    return text if prediction is None else f"{text} ({figure(prediction['low'])} to {figure(prediction['high'])})"


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
            gains = ", ".join(f"{goal['goal']} {_better(gain, goal['unit'])}"
                              for goal, gain in zip(goals, item["by"], strict=True) if gain)
            console.print(f"  point {item['point']}: {_safe(gains)}")
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
    console = _console()
    goal, best = document["goal"], document["best"]
    unit = goal["unit"]
    wanted = [f"{name}={setting_of(value)}" for name, value in document["given"].items()] + document["bounds"]
    _heading(console, document, f"[bold]{goal['goal']}[/]" + (f", given {_safe(', '.join(wanted))}" if wanted else ""))
    changes = changes_of(best["changes"]).replace("\n", ", ") or "as it is"
    value, change = best["objective"]["value"], best["objective"]["change"]
    gives = gives_of(value, unit) if value is not None or change is None else f"{_gain(change, unit)} from now"
    console.print(f"best: {_safe(changes)}: {_safe(gives)}; what binds: "
                  f"{_safe(', '.join(best['binding']) or 'nothing')}")
    console.print(f"a step of the goal is {gives_of(goal['step'], unit)}; this took {document['resolved']:,} solves\n")
    live = [knob for knob in document["knobs"] if not knob["nothing"]]
    table = _table("knob", ("value", "right"), "a step down", ("gain", "right"), ("alone", "right"), "a step up",
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
    _list(console, "Worth more together", (
        f"{_safe(' and '.join(f'{name} {setting_of(value)}' for name, value in pair['knobs'].items()))}: "
        f"{_gain(pair['together'], unit)}; each by itself {' and '.join(_gain(gain, unit) for gain in pair['apart'])}"
        for pair in document["together"]))
    _list(console, "These change nothing of the goal", (
        f"{knob['knob']}: {knob['nothing']}; it moves {', '.join(knob['moves']) or 'no row'}"
        for knob in document["knobs"] if knob["nothing"]))
    _running(console, document["knobs"])
    _fact_table(console, document)
    if document["global"] is not None:
        _spread(console, document["global"], goal)
    for law in document.get("laws", ()):
        console.print(f"law: {_safe(law['name'])}; {_safe(law['verdict'])}; noise {percent(law['noise'])}")
    _list(console, "Extrapolated: nobody measured there, and gains may be far off", document.get("extrapolated", ()))
    _list(console, "To know", document["warnings"])


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
    table = _table("knob alone", "values", "the running shape", "outcome", "breaks")
    for knob in knobs:
        if len(knob["running"]) < 2:
            continue
        for number, rung in enumerate(knob["running"]):
            low, high = setting_of(rung["from"]), setting_of(rung["to"])
            ends = low if low == high else f"{low} to {high}"
            table.add_row("" if number else knob["knob"], ends, _MARK[rung["verdict"]],
                          rung["outcome"].replace("_", " "), ", ".join(rung["broken"]))
    if table.row_count:
        console.print("\n[bold]What becomes of the running shape as one knob alone moves[/]")
        console.print(table)


def _fact_table(console: Any, document: Mapping[str, Any]) -> None:
    unit = document["goal"]["unit"]
    table = _table("fact", ("is", "right"), ("may fall by", "right"), ("may rise by", "right"),
                   ("goal at its worse end", "right"), ("better end", "right"), "source")
    for fact in document["facts"]:
        drift = [("not decided" if side in fact["flips"]["open"] else "any amount" if fact["flips"][side] is None else
                  f"less than {amount(fact['flips'][side], fact['unit'], whole=False)}") for side in ("down", "up")]
        ends = ("", "") if fact["ends"] is None else tuple(
            "no fit" if fact["ends"][end] is None else gives_of(fact["ends"][end], unit)
            for end in ("pessimistic", "optimistic"))
        table.add_row(fact["fact"], span(fact["low"], fact["high"], fact["unit"]), *drift, *ends,
                      _safe(fact["source"]))
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
        table = _table("fact", ("alone", "right"), ("in all", "right"))
        for share in found["shares"]:
            table.add_row(share["fact"], *(f"{max(share[key], 0):.2f} ± {share[f'{key}_half']:.2f}" for key in (
                "alone", "total")))
        console.print(f"  what explains the variance of {_safe(found['explained'])} (Sobol indices, 95 %)")
        console.print(table)
    console.print(f"  {_safe(found['rule'])}")


def show_probe(document: dict[str, Any]) -> None:
    """``probe``: what each leg brought, what the server counted of itself, what was seen of harm, where points went."""
    console = _console()
    server, cost = document["server"], document["cost"]
    known = [f"window {server['window']:,} tokens" if server["window"] else "window not known"]
    known += [_count(server["slots"], "slot")] if server["slots"] else []
    console.print(f"[bold]{_safe(server['model'])}[/] at {_safe(server['url'])}: {', '.join(known)}")
    console.print(f"{_count(len(document['legs']), 'leg')} of {document['planned']}, "
                  f"{_count(cost['requests'], 'request')}, about {cost['tokens']:,} tokens, {cost['seconds']:.0f} s")
    if document["harm"]:
        console.print(f"[red]stopped at the first sign of harm[/]: {_safe(document['harm'])}")
    elif document["stopped"]:
        console.print(f"[yellow]stopped early[/]: {_safe(document['stopped'])}")
    table = _table("leg", ("prompt", "right"), ("generated", "right"), ("first token", "right"), ("prefill", "right"),
                   ("decode", "right"), "no point")
    for leg in document["legs"]:
        many = leg["streams"] > 1
        name = f"{leg['streams']} {leg['kind']}" if leg["kind"] == "streams" else leg["kind"]
        name += f" x {leg['streams']}" if leg["kind"] == "boundary" else f" #{leg['rep']}" if leg["rep"] > 1 else ""
        marks = leg["markers"]
        refused = ([f"{marks['back']} of {marks['of']} markers came back"] if marks else []) + leg["refused"]
        table.add_row(
            name, f"{leg['tokens_in']:,}" if leg["tokens_in"] else "?", str(leg["generated"] or ""),
            f"{leg['first']:.2f} s" if leg["first"] is not None else "",
            _rate(leg["prefill"]["value"]) if leg["prefill"] else "",
            (_rate(leg["decode"]["value"]) + (" in all" if many else "")) if leg["decode"] else "",
            _safe("; ".join(refused)))
    if document["legs"]:
        console.print()
        console.print(table)
    _list(console, "Said beside", document["told"])
    notes = dict.fromkeys(note for leg in document["legs"] for note in leg["notes"])
    _list(console, "How the figures were found", list(notes))
    counted = _counted(document["counters"])
    if counted:
        console.print(f"\nthe server's own counters: {counted}")
    unwritten = len(document["points"]) - document["written"]
    parts = []
    if document["file"]:
        parts.append(f"{_count(document['written'], 'point')} appended to {_safe(document['file'])}")
    if unwritten:
        parts.append(f"{_count(unwritten, 'point')}, not written: --out FILE.csv appends them")
    console.print(f"\n{'; '.join(parts) or 'no points'}", soft_wrap=True)
    if document["record"]:
        console.print(f"on record as {document['record']['id']} in {_safe(document['record']['file'])}", soft_wrap=True)


def _counted(counters: Mapping[str, Any]) -> str:
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


def show_next(document: dict[str, Any]) -> None:
    """``next``: the measurement, what the rivals expect, and what each outcome would mean."""
    console = _console()
    law = document["law"]
    _heading(console, document, f"which measurement settles most for [bold]{document['goal']}[/]")
    console.print(f"law: {_safe(law['name'])}; {_safe(law['verdict'])} ({_safe(weights_of(law['weights']))})")
    console.print(f"recommended now: {_safe(changes_of(document['recommended']).replace(chr(10), ', '))}")
    found = document["measure"]
    if found is None:
        console.print(f"\n{_safe(document['why'])}")
    else:
        load = document["workload"]
        words = ["the server as it is" if not found["changes"] else
                 changes_of(found["changes"]).replace("\n", ", ")]
        what = "a prompt" if law["metric"] == "prefill" else "a context"
        words += [f"{what} of {load['prompt_tokens']:,} tokens"] if load["prompt_tokens"] else []
        if law["metric"] == "prefill":
            words.append("cold")
        elif isinstance(load["streams"], int):
            words.append(_count(load["streams"], "stream"))
        console.print(f"\n[bold]Measure[/]: {_safe(', '.join(words))}")
        if document["why"]:
            console.print(_safe(document["why"]))
        if found["expected"]:
            expected = ", ".join(f"{name} {_rate(rate)}" for name, rate in found["expected"].items())
            console.print(f"expected: {_safe(expected)}; noise {percent(found['noise'])}")
            share = found["tells"] / found["most"] if found["most"] else 0.0
            console.print(f"it is expected to settle {share_of(share)} of what is open between these forms")
        table = _table(("if it says", "right"), "as expected by", "then", "best then", ("expecting", "right"))
        for item in document["outcomes"]:
            settled = f"decided: {item['decided']}" if item["decided"] else "still open"
            best = item["recommended"]
            then = "" if best is None else "as now" if best == document["recommended"] else changes_of(best)
            says = "" if item["prediction"] is None else figure(item["prediction"]["median"])
            table.add_row(f"about {_rate(item['rate'])}", _safe(", ".join(item["expected_by"])),
                          _safe(f"{settled}\n{weights_of(item['weights'])}"), _safe(then), says)
        if document["outcomes"]:
            console.print(table)
        _list(console, "Before you take it", found["notes"])
    _list(console, "Not separated", law["not_separated"])


def show_free(document: dict[str, Any]) -> None:
    """``free`` in words and one table."""
    console = _console()
    current = document["current"]
    _heading(console, document, f"now {_MARK[current['verdict']]}, the server "
                                f"[bold]{DOES[current['outcome']]}[/]")
    own = document["free"]
    if own is None:
        console.print(f"\n{document['free_means']}: not known without the log of a settled boot")
    elif own["high"] < 0:
        over = amount(-own["high"], own["unit"])
        console.print(f"\n{document['free_means']}: [bold]none[/]; it is {over} short ({_safe(own['source'])})")
    else:
        ends = range_of(own)
        best = f"{amount(own['value'], own['unit'])}[/] ({ends}" if own["value"] is not None else f"between[/] ({ends}"
        console.print(f"\n{document['free_means']}: [bold]{best}; {_safe(own['source'])})")
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
    gives = objective_of(best["objective"]) + ("\n(not proven best)" if use["status"] == "feasible" else "")
    return goal, _safe(gives), _safe(changes_of(best["changes"])), _safe(moves), _safe("\n".join(best["binding"]))


def show_propose(document: dict[str, Any]) -> None:
    """``propose``: the diff, and what the next boot must print."""
    console = _console()
    if document["status"] == "infeasible":
        show_solve(document)
        return
    shape = document["shapes"][document["rank"] - 1]
    _heading(console, document, f"rank {document['rank']} for [bold]{document['goal']}[/]: "
                                f"{_safe(changes_of(shape['changes']).replace(chr(10), ', '))}")
    if document["diff"]:
        console.print()
        console.print(_safe(document["diff"]), end="", soft_wrap=True)
    elif not document["refused"]:
        console.print("\nNothing to change: the file already has this shape.")
    for item in document["refused"]:
        value = document["edits"][item["knob"]]
        todo = f"set {item['knob']} to {value}" if value is not None else f"remove {item['knob']}"
        console.print(f"\n[yellow]By hand, for an edit would be a guess:[/] {_safe(todo)} ({_safe(item['why'])})",
                      soft_wrap=True)
    if document["refused"] and document["diff"]:
        console.print("[yellow]The diff alone is another shape:[/] set both before the next boot.")
    for item in document["companions"]:
        console.print(f"\n{item['knob']} moves along, {item['from']:,} -> {item['to']:,}: {_safe(item['why'])}")
    console.print(f"moving: {', '.join(document['free']) or 'nothing'}")
    if "<secret>" in document["diff"]:
        console.print("[yellow]A secret in this diff is masked: set the values by hand, patch would fail.[/]")
    console.print("\n[bold]The next boot must print[/]")
    console.print(_ledger_table(document["predicted"]))
    _list(console, "Before you take it", shape["notes"])
    _list(console, "To know", [text for text in document["warnings"] if text not in shape["notes"]])


def show_plan(document: dict[str, Any]) -> None:
    """``plan``: one block a deploy, with what it must print, what to read, and the way back."""
    console = _console()
    target, steps = document["target"], document["steps"]
    aim = f"rank {target['rank']} for [bold]{target['goal']}[/]" if target["rank"] else "the shape that --to spells out"
    _heading(console, document, f"the way to {aim}: {_safe(changes_of(target['changes']).replace(chr(10), ', '))}")
    if document["current"] is not None:
        console.print(f"now {_MARK[document['current']['verdict']]}, the server {DOES[document['current']['outcome']]}")
    if "stops" in document:
        _no_plan(console, document)
        return
    if not steps:
        console.print("\nNothing to deploy: this shape runs already.")
    else:
        count, doubles = _count(len(steps), "deploy"), document["two_knob_deploys"]
        how = "of one knob each" if len(steps) > 1 else "of one knob"
        if doubles:
            how = f"[yellow]two knobs at once in {'it' if len(steps) == 1 else _count(doubles, 'deploy')}[/]"
        others = ("no other order of as few fits" if document["orders"] == 1 else
                  f"of {document['orders']} orders of as few that fit, the one with the least risk")
        console.print(f"[bold]{count}[/], {how}; every shape on the way fits"
                      + (f"; {others}" if len(steps) > 1 else ""))
    for step in steps:
        _deploy(console, step, _shared(steps))
    if steps:
        _list(console, "After each boot", _shared(steps))
    if any(step["again"] for step in steps):
        console.print("\nA figure measured anew changes what follows: give it (--ledger, or --fact NAME=VALUE) and ask "
                      "for the plan again from there.")
    told = [text for step in steps for text in step["notes"]]
    _list(console, "Before you take it", [text for text in target["notes"] if text not in told])
    _list(console, "To know", [text for text in document["warnings"] if text not in target["notes"]])
    if steps:
        _list(console, "What the plan keeps to", document["rule"])


def _shared(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines to read after every boot."""
    return [text for text in steps[0]["reads"] if all(text in step["reads"] for step in steps)]


def _deploy(console: Any, step: Mapping[str, Any], shared: Sequence[str]) -> None:
    from rich.padding import Padding

    def line(text: str) -> None:
        console.print(Padding(text, (0, 0, 0, 3), expand=False))

    head = changes_of(step["changes"]).replace("\n", ", ")
    console.print(f"\n[bold]{step['step']}. {_safe(head)}[/]")
    for move in step["moves"]:
        if len(move) > 1:
            line(f"{' and '.join(move)} count as one: one grows as the other shrinks, or they follow one ledger")
    for item in step["along"]:
        line(f"with {item['knob']} {item['from']:,} -> {item['to']:,}: {_safe(item['why'])}")
    for stop in step["alone"]:
        line(f"[yellow]two knobs[/]: {_safe(' and '.join(stop['knobs']))} alone does not fit: {_safe(_against(stop))}")
    if step["alone"]:
        remedies = dict.fromkeys(f"{item['name']}: {item['remedy']}" for stop in step["alone"]
                                 for item in stop["broken"])
        line(f"one at a time would take a knob outside the target, or a stop half-way: {_safe('; '.join(remedies))}")
    for reason in step["why"]:
        line(f"why here: {_safe(_reason(reason))}")
    table = _table("the boot must print", ("before", "right"), ("after", "right"), ("change", "right"), "certain to",
                   "known how")
    for row in step["rows"]:
        old, new, change = row["before"], row["after"], row["change"]
        moved = "" if change is None else "same" if change == 0 else signed(change, new["unit"])
        table.add_row(row["row"], "" if old is None else _middle(old), _middle(new), moved, range_of(new), new["basis"])
    console.print(Padding(table, (0, 0, 0, 3), expand=False))
    if step["unmeasured"] and not step["again"]:
        line("[yellow]these figures rest on the arena of other settings[/]: what the last ledger measured counts")
    for text in step["notes"]:
        line(f"note: {_safe(text)}")
    for text in step["reads"]:
        if text not in shared:
            line(f"read: {_safe(text)}")
    for fact in step["again"]:
        line(f"measured anew: {fact['name']} ({_safe(fact['how'])})")
    near = step["nearest"]
    if near is not None:
        past = "the server serves on, on its own floor" if near["outcome"] == "serves" else (
            f"the server {DOES[near['outcome']]}")
        line(f"if it goes wrong: the nearest limit is {near['name']}, "
             f"{_safe(span(near['slack'], near['slack_high'], near['unit']))} away; past it {past}")
    back = [f"{name} {setting_of(value)}" if value is not None else f"take {name} out"
            for name, value in step["back"].items()]
    line(f"the way back: {_safe(', '.join(back))}")


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
        console.print(f"\n[red]The target itself is no shape to deploy[/]: {_MARK[document['target']['verdict']]}")
        for stop in document["stops"]:
            console.print(f"  {_safe(_against(stop))}")
            _list(console, "What would mend it", [f"{item['name']}: {item['remedy']}" for item in stop["broken"]])
        _list(console, "To know", document["warnings"])
        return
    console.print("\n[red]The target fits, and no way leads there[/] with these knobs alone, not even with two in one "
                  "deploy.")
    console.print(f"The way ends at: {_safe(changes_of(document['reached']).replace(chr(10), ', '))}")
    _list(console, "What would come next, and what forbids it", [f"{', '.join(stop['knobs'])}: {_against(stop)}"
                                                                 for stop in document["stops"]])
    _list(console, "What would go on, but moves the KV pool and a placement in one deploy",
          [", ".join(names) for names in document["mixed"]])
    _list(console, "To know", document["warnings"])


def show_apply(document: dict[str, Any]) -> None:
    """``apply``: the diff, what the next boot must print, and what was written where."""
    console = _console()
    asked = f"rank {document['rank']} for [bold]{document['goal']}[/]" if document["goal"] else "as spelled"
    _heading(console, document, f"{asked}: {_safe(changes_of(document['changes']).replace(chr(10), ', '))}")
    if document["verdict"] != "fits":
        does = " or ".join(DOES[outcome] for outcome in document["outcomes"])
        console.print(f"{_MARK[document['verdict']]}: the server {does}")
    if document["diff"]:
        console.print()
        console.print(_safe(document["diff"]), end="", soft_wrap=True)
    elif not document["refused"]:
        record = "is put on record" if document["written"] else "--write puts on record"
        console.print("\nNothing to change: the files already have this shape; what its next boot must print "
                      f"{record}.")
    for item in document["refused"]:
        value = document["edits"][item["knob"]]
        todo = f"set {item['knob']} to {value}" if value is not None else f"remove {item['knob']}"
        console.print(f"\n[yellow]Not set, for it would be a guess:[/] {_safe(todo)} ({_safe(item['why'])})",
                      soft_wrap=True)
    if document["refused"] and document["diff"]:
        console.print("[yellow]The diff alone is another shape:[/] nothing is written before all of it can be.")
    for item in document["companions"]:
        console.print(f"\n{item['knob']} moves along, {item['from']:,} -> {item['to']:,}: {_safe(item['why'])}")
    if document["predicted"]:
        console.print("\n[bold]The next boot must print[/]")
        console.print(_ledger_table(document["predicted"]))
    _list(console, "To know", dict.fromkeys([*document["notes"], *document["warnings"]]))
    console.print()
    for item in document["files"] if document["written"] else ():
        console.print(f"wrote {_safe(item['file'])}; as it was: {_safe(item['backup'])}", soft_wrap=True)
    if document["written"]:
        record = document["record"]
        console.print(f"prediction {record['id']} is on record in {_safe(record['file'])}", soft_wrap=True)
        console.print(f"after the next boot: shapewright verdict --record {_safe(record['file'])} --ledger ITS.log",
                      soft_wrap=True)
    else:
        console.print(f"[bold]Nothing was written:[/] {_safe(document['why_not'])}")


def show_verdict(document: dict[str, Any]) -> None:
    """``verdict``: what does not belong first, then each row, the outcome, and the facts that moved."""
    console = _console()
    mark = {"held": "[green]held[/]", "off": "[red]did not hold[/]", "void": "[yellow]void[/]",
            "open": "[yellow]open[/]"}[document["status"]]
    engine, made = document["engine"], document["prediction"]
    console.print(f"[bold]{engine['name']} {engine['version']}[/], prediction {made['id']} of {_moment(made['time'])}"
                  f" ({_safe(changes_of(made['changes']).replace(chr(10), ', '))}): {mark}, {_safe(document['why'])}",
                  soft_wrap=True)
    if made["note"]:
        console.print(f"note: {_safe(made['note'])}")
    _list(console, "Of another setting; compared all the same, but it proves nothing", document["other_settings"])
    outcome = document["outcome"]
    awaited = " or ".join(DOES[word] for word in outcome["predicted"])
    if outcome["seen"] is None:
        console.print(f"\noutcome: the log does not tell whether the server {awaited}")
    else:
        word = {True: "as predicted", False: f"predicted: it {awaited}", None: f"whether it {awaited} shows later"}
        console.print(f"\noutcome: the server {DOES[outcome['seen']]} ({word[outcome['agrees']]}): "
                      f"{_safe(outcome['line'])} ({_safe(outcome['source'])})", soft_wrap=True)
    table = _table("row", ("predicted", "right"), ("printed", "right"), "", "line")
    for row in document["rows"]:
        table.add_row(row["name"], _safe(_between(row["predicted"], row["unit"])),
                      "" if row["printed"] is None else _safe(_as_printed(row)), _row_verdict(row),
                      _safe(_line_of(row["source"])))
    console.print()
    console.print(table)
    for row in document["rows"] if document["status"] != "void" else ():
        _causes(console, row)
    moved = [fact for fact in document["facts"] if fact["moved"]]
    same = [fact["name"] for fact in document["facts"] if fact["was"] is not None and not fact["moved"]]
    new = [fact for fact in document["facts"] if fact["was"] is None]
    if moved:
        console.print("\n[bold]Facts that moved since the prediction[/]")
        table = _table("fact", ("was", "right"), ("is", "right"), ("by", "right"), "line")
        for fact in moved:
            table.add_row(fact["name"], _safe(_between(fact["was"], fact["unit"])),
                          _safe(_between(fact["now"], fact["unit"])), _safe(_change(fact["by"], fact["unit"])),
                          _safe(_line_of(fact["source"])))
        console.print(table)
    if same:
        console.print(f"\nfacts as they were: {', '.join(same)}")
    if new:
        console.print("new facts: " + _safe(", ".join(f"{fact['name']} {_between(fact['now'], fact['unit'])}"
                                                      for fact in new)))
    _list(console, "In the log itself this does not add up", document["contradictions"])
    _list(console, "To know", document["notes"])
    record = document["record"]
    console.print()
    if record["id"] is None:
        console.print(f"[bold]Nothing was written:[/] --write records it in {_safe(record['file'])}", soft_wrap=True)
    else:
        console.print(f"verdict {record['id']} is on record in {_safe(record['file'])}", soft_wrap=True)
    if document["next_ledger"] is not None:
        console.print(f"to go on from this boot, name its log in the site.toml: ledger = "
                      f"\"{_safe(document['next_ledger'])}\"", soft_wrap=True)


def _causes(console: Any, row: Mapping[str, Any]) -> None:
    if row["status"] != "off":
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
    console.print(f"  {row['name']}, {_change(row['by'], row['unit'])}: {_safe(told)}", soft_wrap=True)


def _row_verdict(row: Mapping[str, Any]) -> str:
    if row["status"] == "off":
        return f"[red]off by {_safe(_change(row['by'], row['unit']))}[/]"
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
    console = _console()
    if not document["predictions"]:
        if document["probes"]:
            console.print("No prediction is on record.")
        else:
            console.print(f"No prediction is on record in {_safe(document['file'])}: apply --write records one.",
                          soft_wrap=True)
    else:
        table = _table("prediction", "made", "for", "change", "verdict", "off, and what moved")
        for item in document["predictions"]:
            asked = f"{item['goal'] or 'as spelled'}{chr(10) + item['note'] if item['note'] else ''}"
            first, *more = item["verdicts"] or [None]
            table.add_row(item["id"], _moment(item["time"]), _safe(asked), _safe(changes_of(item["changes"])),
                          *_told(first))
            for verdict in more:
                table.add_row("", "", "", "", *_told(verdict))
        console.print(table)
    if document["probes"]:
        table = _table("probe", "made", "server", ("points", "right"), "the server's own counters", "ended")
        for item in document["probes"]:
            ended = f"[red]harm[/]: {_safe(item['harm'])}" if item["harm"] else _safe(item["stopped"] or "as planned")
            table.add_row(item["id"], _moment(item["time"]), f"{_safe(item['server'])}\n{_safe(item['model'])}",
                          str(item["points"]), _counted(item["counters"]) or "none shown", ended)
        console.print(table)
    if document["earlier"]:
        console.print(f"and {document['earlier']:,} earlier")
    _list(console, "Verdicts on predictions that are not here",
          [f"{item['id']} of {item['of']}: {item['status']}" for item in document["orphans"]])
    _list(console, "Lines that were passed over",
          [f"line {item['line']}: {item['why']}" for item in document["skipped"]])


def _told(verdict: Mapping[str, Any] | None) -> tuple[str, str]:
    if verdict is None:
        return "[dim]none yet[/]", ""
    status = _safe(verdict["status"])
    mark = {"held": "[green]held[/]", "off": "[red]off[/]"}.get(status, f"[yellow]{status}[/]")
    seen = "" if verdict["outcome"] in (None, "serves") else f", {_safe(verdict['outcome'])}"
    parts = [f"{row['name']} {_change(row['by'], row['unit'])}" for row in verdict["off"]]
    parts += [f"{name} moved" for name in verdict["moved"]]
    return f"{mark}{seen}, {_moment(verdict['time'])}", _safe("; ".join(parts))


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


def show_collect(document: dict[str, Any]) -> None:
    """``collect``: each thing looked for, what became of it, and what would give the rest."""
    console = _console()
    table = _table("what", "state", "file", "from, and what to know")
    for item in document["items"]:
        mark = {"taken": "[green]taken[/]", "absent": "[dim]absent[/]", "not asked": "[dim]not asked[/]"}
        where = _safe(item["from"]) + (f"\n[dim]{_safe(item['why'])}[/]" if item["why"] else "")
        table.add_row(_safe(item["name"]), mark.get(item["state"], f"[yellow]{item['state']}[/]"),
                      _safe(item["file"] or ""), where)
    console.print(table)
    facts = _table("fact read back", ("value", "right"))
    for name, fact in document["facts"].items():
        facts.add_row(name, _safe(amount(fact["value"], fact["unit"]) if isinstance(fact["value"], int)
                                  else fact["value"]))
    if document["facts"]:
        console.print()
        console.print(facts)
    _list(console, "What would give the rest", [item["command"] for item in document["items"] if item["command"]])
    _list(console, "To know", document["notes"])
    console.print(f"\nwrote {_safe(document['manifest'])}, all of it without what looks like a secret")
    for line in document["next"]:
        console.print(f"  {_safe(line)}", soft_wrap=True)


def show_gates(document: dict[str, Any]) -> None:
    """``gates``: what was written, each test, and what has none."""
    console = _console()
    count = len(document["gates"])
    _heading(console, document, f"{count} gates for {_safe(', '.join(document['env_files']))}")
    console.print(f"wrote {_safe(document['file'])}\n")
    table = _table("gate", "now", "formula")
    for gate in document["gates"]:
        formula = gate["formula"]
        table.add_row(gate["name"], _MARK[gate["verdict"]],
                      _safe(formula if len(formula) <= 150 else f"{formula[:146]} ..."))
    console.print(table)
    _list(console, "Not gated", [f"{item['name']}: {item['why']}" for item in document["not_gated"]])
    _list(console, "To know", document["warnings"])


def show_report(document: dict[str, Any]) -> None:
    """``report`` as tables: each part as its own command shows it, or why there is none."""
    console = _console()
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
            console.print(f"not here: {_safe(part['why'])}")
            _list(console, "What would show it", [f"{item['name']}: {item['how']}" for item in part["missing"]])
        else:
            show(part["answer"])
        console.print()


def _stacks(console: Any, stacks: Sequence[Mapping[str, Any]]) -> None:
    for stack in stacks:
        if stack["instead"] is not None:
            continue
        number = "" if stack["card"] is None else f", card {stack['card']}"
        table = _table(f"{stack['title']}{number}", ("now", "right"), ("best", "right"))
        for part in (*stack["parts"], {"name": "in all", **stack["total"]}):
            table.add_row(part["name"], *("?" if part[word] is None else _safe(amount(
                part[word]["value"], stack["unit"], whole=False)) for word in ("now", "best")))
        console.print(table)
        _list(console, "What would show the rest", [f"{item['name']}: {item['how']}" for item in stack["missing"]])
        console.print()


def signed(value: float, unit: str) -> str:
    """A difference, with its sign and unit."""
    return ("+" if value > 0 else "") + amount(value, unit, whole=False)


def show_written(document: dict[str, Any]) -> None:
    """``report`` where it was written: the files."""
    console = _console()
    if "page" in document:
        console.print(f"wrote {_safe(document['page'])}")
    for path in document.get("pictures", ()):
        console.print(f"drawn: {_safe(path)}")
