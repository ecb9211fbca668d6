"""Measured speeds: laws, the next measurement and probes, as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.render.base import (
    changes_of,
    counters_of,
    figure,
    number_of,
    percent,
    safe,
    share_of,
    show_heading,
    show_list,
    table_of,
    terminal,
    value_on_axis,
)


def weights_of(weights: Mapping[str, float]) -> str:
    """Rival forms with their weights, the heaviest first."""
    return ", ".join(f"{name} {share_of(weight)}" for name, weight in weights.items() if weight >= 0.005)


def _rate(rate: float) -> str:
    return f"{figure(rate)} t/s"


def _evidence(law: Mapping[str, Any]) -> str:
    return (f"{number_of(law['points'], 'point')} at {number_of(law['settings'], 'setting')} from "
            f"{safe(', '.join(law['sources']))}")


def speed_of(console: Any, speed: Mapping[str, Any], unit: str) -> None:
    """What the laws say of the ranked shapes, and where they leave it open."""
    load = speed["workload"]
    metrics = {law["metric"] for law in speed["laws"]}
    what = "prompt" if "prefill" in metrics else "context"
    words = [speed["how"]] if speed["how"] else []
    if not speed["how"]:  # which names the prompt
        words.append(f"a {what} of {load['prompt_tokens']:,} tokens" if load["prompt_tokens"] else f"{what} not stated")
    if "decode" in metrics and load["streams"] is not None:
        words.append("all slots busy" if isinstance(load["streams"], str) else number_of(load["streams"], "stream"))
    words.append(f"what one measurement reaches with a probability of {share_of(load['confidence'])}")
    console.print(f"\n[bold]The speed[/]: {safe('; '.join(words))}")
    for law in speed["laws"]:
        console.print(f"  law: {safe(law['name'])}; {_evidence(law)}")
        console.print(f"  {safe(law['verdict'])} ({safe(weights_of(law['weights']))}); noise {percent(law['noise'])}")
    for text in speed["extrapolated"]:
        console.print(f"  [yellow]extrapolated:[/] {safe(text)}")
    rivals = speed["rivals"]
    if rivals is None:
        return
    names = [item["law"] for item in rivals["choices"]]
    console.print("  what each form of the law would choose, and what each form expects of it "
                  f"({'seconds' if unit == 's' else unit}):")
    table = table_of("if it is", "choose", *((name, "right") for name in names))
    for item in rivals["choices"]:
        table.add_row(f"{safe(item['law'])} ({share_of(item['weight'])})", safe(changes_of(item["changes"])),
                      *(figure(item["expects"][name]) for name in names))
    for title, key in (("rank 1", "rank_1"), ("good under all", "good_under_all")):
        item = rivals[key]
        table.add_row(f"[bold]{title}[/]", safe(changes_of(item["changes"])),
                      *(figure(item["expects"][name]) for name in names))
    console.print(table)
    loses = rivals["good_under_all"]["loses_at_most"]
    console.print("  rank 1 is as good as any, whichever form is true" if rivals["agree"] else
                  "  the forms disagree about the best shape; what is good under all of them loses "
                  f"{percent(loses)} at most")


def show_laws(document: dict[str, Any]) -> None:
    """``laws``: each law with its forms and, of few, a plot; then an overview."""
    console = terminal()
    console.print(f"[bold]{number_of(document['points'], 'point')}[/] in {safe(', '.join(document['files']))}")
    plots = len(document["laws"]) <= 3
    for law in document["laws"]:
        _law(console, law, plot=plots)
    if len(document["laws"]) > 1:
        console.print("\n[bold]How far each law is off where a setting was left out[/] (in time per token)")
        table = table_of("law", ("points", "right"), ("settings", "right"), ("typical", "right"), ("worst", "right"),
                         "verdict")
        for law in document["laws"]:
            table.add_row(safe(law["name"]), str(law["points"]), str(law["settings"]),
                          percent(law["left_out"]["median"]), percent(law["left_out"]["worst"]),
                          safe(law["verdict"]))
        console.print(table)
    means = {term["form"]: term["means"] for law in document["laws"] for form in law["forms"] for term in form["terms"]}
    show_list(console, "What the forms mean, in time per token (c, b, d are sizes; x is the setting)",
              ["constant: no effect", *(f"{name}: {text}" for name, text in means.items())])
    show_list(console, "No law yet", grouped(document["unfitted"]))
    show_list(console, "Not this site's", grouped(document["elsewhere"]))
    show_list(console, "Refused", [f"{item['file']}:{item['line']}: {item['reason']}" for item in document["refused"]])
    for path in document.get("pictures", ()):
        console.print(f"drawn: {safe(path)}")


def grouped(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Laws with why each does not count; those of one reason that are many are only counted."""
    reasons: dict[str, list[str]] = {}
    for item in items:
        reasons.setdefault(item["why"], []).append(item["name"])
    return [text for why, names in reasons.items()
            for text in ([f"{len(names)} laws: {why}"] if len(names) > 3 else [f"{name}: {why}" for name in names])]


def _law(console: Any, law: Mapping[str, Any], *, plot: bool) -> None:
    console.print(f"\n[bold]{safe(law['name'])}[/]: {safe(law['verdict'])}")
    ranges = "; ".join(f"{item['axis']} {value_on_axis(item['low'])} to {value_on_axis(item['high'])}"
                       + (f" {item['unit']}" if item["unit"] not in ("", item["axis"]) else "")
                       for item in law["ranges"])
    console.print(f"{_evidence(law)}; measured over {safe(ranges)}; "
                  f"noise {percent(law['noise']['value'])} ({law['noise']['how']})")
    for axis, shares in law["shares"].items():
        console.print(f"{axis}: {safe(weights_of(shares))}")
    table = table_of("form", ("weight", "right"), ("left out", "right"), ("first to last", "right"), ("knee", "right"))
    for form in law["forms"]:
        ends = "" if form["from"] is None else f"{figure(form['from'])} -> {figure(form['to'])} t/s"
        error = "" if form["left_out_error"] is None else f"{percent(form['left_out_error'])} off"
        knees = ", ".join(figure(term["knee"]) for term in form["terms"] if term["knee"] is not None)
        table.add_row(safe(form["name"]), share_of(form["weight"]), error, ends, knees)
    console.print(table)
    if law["prediction"]:
        found = law["prediction"]
        label = " (extrapolated)" if found["extrapolated"] else ""
        console.print(f"this site's shape: {_rate(found['median'])}{label}, {share_of(found['level'])} of new "
                      f"measurements from {figure(found['low'])} to {figure(found['high'])}")
    elif law["beyond"]:
        console.print(f"this site's shape lies outside: {safe('; '.join(law['beyond']))}")
    if plot and law["curve"] is not None:
        console.print()
        draw(console, "terminal_plot", law)
    show_list(console, "Contradict each other", law["contradictions"])
    show_list(console, "Not separated", law["not_separated"])
    show_list(console, "To know", [*law["labels"], *(f"{item['file']}:{item['line']} does not count: {item['why']}"
                                                 for item in law["not_used"])])


def draw(console: Any, how: str, what: Mapping[str, Any]) -> None:
    """A picture in the terminal."""
    from rich.text import Text

    from optimizer import plot

    colour = bool(console.is_terminal) and console.color_system is not None
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    text = getattr(plot, how)(what, width=min(console.width, 100), height=20, colour=colour,
                              ascii_only="utf" not in encoding)
    console.print(Text.from_ansi(text) if colour else Text(text), highlight=False, markup=False, no_wrap=True,
                  overflow="ignore", crop=False)


def show_probe(document: dict[str, Any]) -> None:
    """``probe``: what each leg brought, what the server counted of itself, what was seen of harm, where points went."""
    console = terminal()
    server, cost = document["server"], document["cost"]
    known = [f"window {server['window']:,} tokens" if server["window"] else "window not known"]
    known += [number_of(server["slots"], "slot")] if server["slots"] else []
    console.print(f"[bold]{safe(server['model'])}[/] at {safe(server['url'])}: {', '.join(known)}")
    console.print(f"{number_of(len(document['legs']), 'leg')} of {document['planned']}, "
                  f"{number_of(cost['requests'], 'request')}, about {cost['tokens']:,} tokens, {cost['seconds']:.0f} s")
    if document["harm"]:
        console.print(f"[red]stopped at the first sign of harm[/]: {safe(document['harm'])}")
    elif document["stopped"]:
        console.print(f"[yellow]stopped early[/]: {safe(document['stopped'])}")
    table = table_of("leg", ("prompt", "right"), ("generated", "right"), ("first token", "right"), ("prefill", "right"),
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
            safe("; ".join(refused)))
    if document["legs"]:
        console.print()
        console.print(table)
    show_list(console, "Said beside", document["told"])
    notes = dict.fromkeys(note for leg in document["legs"] for note in leg["notes"])
    show_list(console, "How the figures were found", list(notes))
    counted = counters_of(document["counters"])
    if counted:
        console.print(f"\nthe server's own counters: {counted}")
    unwritten = len(document["points"]) - document["written"]
    parts = []
    if document["file"]:
        parts.append(f"{number_of(document['written'], 'point')} appended to {safe(document['file'])}")
    if unwritten:
        parts.append(f"{number_of(unwritten, 'point')}, not written: --out FILE.csv appends them")
    console.print(f"\n{'; '.join(parts) or 'no points'}", soft_wrap=True)
    if document["record"]:
        console.print(f"on record as {document['record']['id']} in {safe(document['record']['file'])}", soft_wrap=True)


def show_next(document: dict[str, Any]) -> None:
    """``next``: the measurement, what the rivals expect, and what each outcome would mean."""
    console = terminal()
    law = document["law"]
    show_heading(console, document, f"which measurement settles most for [bold]{document['goal']}[/]")
    console.print(f"law: {safe(law['name'])}; {safe(law['verdict'])} ({safe(weights_of(law['weights']))})")
    console.print(f"recommended now: {safe(changes_of(document['recommended']).replace(chr(10), ', '))}")
    found = document["measure"]
    if found is None:
        console.print(f"\n{safe(document['why'])}")
    else:
        load = document["workload"]
        words = ["the server as it is" if not found["changes"] else
                 changes_of(found["changes"]).replace("\n", ", ")]
        what = "a prompt" if law["metric"] == "prefill" else "a context"
        words += [f"{what} of {load['prompt_tokens']:,} tokens"] if load["prompt_tokens"] else []
        if law["metric"] == "prefill":
            words.append("cold")
        elif isinstance(load["streams"], int):
            words.append(number_of(load["streams"], "stream"))
        console.print(f"\n[bold]Measure[/]: {safe(', '.join(words))}")
        if document["why"]:
            console.print(safe(document["why"]))
        if found["expected"]:
            expected = ", ".join(f"{name} {_rate(rate)}" for name, rate in found["expected"].items())
            console.print(f"expected: {safe(expected)}; noise {percent(found['noise'])}")
            share = found["tells"] / found["most"] if found["most"] else 0.0
            console.print(f"it is expected to settle {share_of(share)} of what is open between these forms")
        table = table_of(("if it says", "right"), "as expected by", "then", "best then", ("expecting", "right"))
        for item in document["outcomes"]:
            settled = f"decided: {item['decided']}" if item["decided"] else "still open"
            best = item["recommended"]
            then = "" if best is None else "as now" if best == document["recommended"] else changes_of(best)
            says = "" if item["prediction"] is None else figure(item["prediction"]["median"])
            table.add_row(f"about {_rate(item['rate'])}", safe(", ".join(item["expected_by"])),
                          safe(f"{settled}\n{weights_of(item['weights'])}"), safe(then), says)
        if document["outcomes"]:
            console.print(table)
        show_list(console, "Before you take it", found["notes"])
    show_list(console, "Not separated", law["not_separated"])
