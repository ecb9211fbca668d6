"""The report as one page: no script, nothing fetched, readable on a phone, in print, in light and dark.

What is shown is in the JSON document of ``report``. Every text is escaped where it enters the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import version
from itertools import chain
from typing import Any, Final

from optimizer import plot
from optimizer.pictures import NARROW, WIDE, Picture, drawn_parts, inline, pictures, stack_words
from optimizer.render.answers import objective_of
from optimizer.render.base import (
    DOES,
    amount,
    changes_of,
    figure,
    gives_of,
    percent,
    range_of,
    setting_of,
    share_of,
    signed,
    span,
    value_on_axis,
)
from optimizer.render.speeds import grouped, weights_of
from optimizer.render.tradeoffs import notes_of, ranges_of, shown_points
from optimizer.stacks import shown

#: The sections, by their id: a word for the list of them, and the heading.
SECTIONS: Final = {
    "now": ("Now", "The shape as it is"), "stacks": ("Memory", "Where memory goes"),
    "shapes": ("Shapes", "The best shapes"), "tradeoff": ("Trade-off", "What it costs another goal"),
    "sensitivity": ("Sensitivity", "What the answer hangs on"), "laws": ("Laws", "What measured speeds tell"),
    "facts": ("Facts", "What all this rests on"),
}
#: What each colour is in the dark.
DARK: Final = {
    plot.INK: "#E8EAED", plot.PAPER: "#16191D", plot.GRID: "#3A4149", plot.BLUE: "#5DB4F0", plot.SKY: "#3F86B8",
    plot.RED: "#FF8A96", plot.PURPLE: "#D793C4", plot.GREY: "#B4BAC2", plot.ORANGE: "#F2914A", plot.GREEN: "#45C39C",
    plot.PINK: "#E391BF", plot.AMBER: "#E3B04B", plot.STEEL: "#93B5E8", plot.BROWN: "#C7A567",
}
#: Colours of text; all others are of lines and areas.
TEXT_COLOURS: Final = (plot.INK, plot.GREY, plot.BLUE, plot.RED, plot.GREEN, plot.BROWN)

_CAPTIONS: Final = {
    "stack": "From the top in the order in which it is spent; the dashed end is what is left.",
    "shapes": "Whiskers: what one new measurement will say, or what the facts allow.",
    "tradeoff": "Each point is a shape that no other beats in both.",
    "tornado": "Orange: a step down, or a fact's pessimistic end. Blue: a step up, or its optimistic end.",
}
_MARKS: Final = {"fits": ("fits", "good"), "knife_edge": ("knife edge", "edge"),
                 "does_not_fit": ("does not fit", "bad"), None: ("open", "dim")}


def _name(colour: str) -> str:
    return f"--c{colour.lower().removeprefix('#')}"


def _theme(colours: Mapping[str, str]) -> str:
    return "".join(f"{_name(colour)}:{value.lower()};" for colour, value in colours.items())


_LIGHT: Final = _theme({colour: colour for colour in plot.COLOURS})
_STYLE: Final = f"""\
:root{{color-scheme:light;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{_theme(DARK)}}}}}
@media print{{:root{{color-scheme:light;{_LIGHT}}}}}
""" + """\
:root{--ink:var(--c1b1f24);--paper:var(--cffffff);--line:var(--ce3e3e3);--dim:var(--c555555);--link:var(--c0072b2);
--bad:var(--cb0002a);--good:var(--c007a5a);--edge:var(--c6b4e16)}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-padding-top:1rem}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
header,nav,main,footer{max-width:66rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .75rem}
h2{font-size:1.25rem;line-height:1.3;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p,li,dd,h1,h2,h3{overflow-wrap:anywhere}
p{margin:.5rem 0;max-width:46rem}
ul{margin:.25rem 0;padding-left:1.25rem;max-width:46rem}
a{color:var(--link)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:.75rem 0 0;margin:0;max-width:none}
nav a{display:inline-block;padding:.35rem 0}
.lead{font-size:1.125rem}
.small,figcaption,footer{font-size:.8125rem;color:var(--dim)}
.good{color:var(--good)}.bad{color:var(--bad)}.edge{color:var(--edge)}.dim{color:var(--dim)}
.good,.bad,.edge{font-weight:600;white-space:nowrap}
.box{overflow-x:auto;margin:.25rem 0 .75rem;background:
linear-gradient(90deg,var(--paper) 1rem,transparent) 0 0/2.5rem 100% no-repeat local,
linear-gradient(270deg,var(--paper) 1rem,transparent) 100% 0/2.5rem 100% no-repeat local,
linear-gradient(90deg,var(--line),transparent) 0 0/.75rem 100% no-repeat scroll,
linear-gradient(270deg,var(--line),transparent) 100% 0/.75rem 100% no-repeat scroll}
.box:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;font-size:.875rem;line-height:1.4}
th,td{text-align:left;vertical-align:top;padding:.3rem 1.1rem .3rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600;white-space:nowrap}
td{min-width:6.5rem;max-width:26rem;overflow-wrap:break-word}
td:first-child{white-space:nowrap;min-width:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.src{font-size:.8125rem;color:var(--dim);min-width:15rem}
td.n{min-width:0}td.w{min-width:20rem}
tr.mark td{font-weight:600}
figure{margin:1rem 0}
figcaption{max-width:46rem}
svg{display:block;width:100%;height:auto}
svg *{stroke-linejoin:round;stroke-linecap:butt}
svg text{font-family:inherit}
svg.wide{display:none}svg.narrow{max-width:35rem}
@media (min-width:900px){svg.wide{display:block;max-width:54rem}svg.narrow{display:none}}
footer{margin-top:3rem;padding-top:1rem;padding-bottom:2rem;border-top:1px solid var(--line)}
@media print{
@page{margin:14mm 12mm}
body{font-size:10pt}header,nav,main,footer{max-width:none;padding:0}nav{display:none}
svg.wide{display:block;max-width:none}svg.narrow{display:none}
.small,figcaption,footer{font-size:8pt}.box{overflow:visible;background:none}table{font-size:7.5pt}td,th{padding-right:.6rem}
th,td{white-space:normal;min-width:0}td.src{font-size:7pt;min-width:0}td.w{min-width:11rem}
figure,tr{break-inside:avoid}h2,h3{break-after:avoid}a{color:inherit;text-decoration:none}
}
"""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def _text(value: object) -> Html:
    """Any text, safe between tags and in attributes; a line break stays one."""
    return value if isinstance(value, Html) else Html(escape(str(value)).replace("\n", "<br>"))


def _tag(name: str, *inner: object, **attributes: str) -> Html:
    words = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{words}>{''.join(map(_text, inner))}</{name}>")


def _mark(verdict: str | None) -> Html:
    word, look = _MARKS[verdict]
    return _tag("span", word, class_=look)


def _table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]],
           marked: Iterable[int] = ()) -> Html:
    """A table in a box of its own that scrolls.

    A column's name may begin with ``>`` (figures), ``~``
    (sources) or ``+`` (wide).
    """
    bold, looks = set(marked), [{">": "n", "~": "src", "+": "w"}.get(column[:1], "") for column in columns]

    def cell(tag: str, text: object, look: str) -> Html:
        return _tag(tag, text, class_=look) if look else _tag(tag, text)

    head = [cell("th", column.lstrip(">~+"), look if look == "n" else "")
            for column, look in zip(columns, looks, strict=True)]
    body = []
    for place, row in enumerate(rows):
        cells = [cell("td", text, look) for text, look in zip(row, looks, strict=True)]
        body.append(_tag("tr", *cells, class_="mark") if place in bold else _tag("tr", *cells))
    if not body:
        return Html("")
    inner = _tag("table", _tag("thead", _tag("tr", *head)), _tag("tbody", *body), aria_label=caption)
    return Html(_tag("h3", caption) + _tag("div", inner, class_="box", role="region", aria_label=caption, tabindex="0"))


def _list(title: str, items: Iterable[object]) -> Html:
    found = [_tag("li", item) for item in items]
    return Html(_tag("h3", title) + _tag("ul", *found)) if found else Html("")


def _para(*inner: object, class_: str = "") -> Html:
    return _tag("p", *inner, class_=class_) if class_ else _tag("p", *inner)


def page(document: Mapping[str, Any]) -> bytes:
    """The page of a ``report`` document: the same bytes for the same document and release of matplotlib.

    Raises ReadError (``usage``) without matplotlib.
    """
    drawn = {picture.name: _figure(picture) for picture in pictures(document)}
    made: dict[str, Callable[[], Iterator[Html]]] = {
        "now": lambda: _now(document), "stacks": lambda: _stacks(document, drawn),
        "shapes": lambda: _shapes(document, drawn), "tradeoff": lambda: _tradeoff(document, drawn),
        "sensitivity": lambda: _sensitivity(document, drawn), "laws": lambda: _laws(document, drawn),
        "facts": lambda: _facts(document),
    }
    engine = document["engine"]
    title = f"{engine['name']} {engine['version']}, model file {engine['container']}: {document['goal']}"
    links = _tag("ul", *(_tag("li", _tag("a", word, href=f"#{name}")) for name, (word, _) in SECTIONS.items()))
    sections = [_tag("section", _tag("h2", heading, id=f"{name}-heading"), *made[name](), id=name,
                     aria_labelledby=f"{name}-heading") for name, (_, heading) in SECTIONS.items()]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return "\n".join((
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">', '<link rel="icon" href="data:,">',
        _tag("title", title), f"<style>\n{_STYLE}</style>", "</head>", "<body>",
        _tag("header", _tag("h1", title), *_headline(document)), _tag("nav", links, aria_label="Sections"),
        _tag("main", *(Html(f"\n{section}") for section in sections), "\n"),
        _tag("footer", _para(f"shapewright {version('shapewright')}. Every shape was checked again by plain integer "
                             "arithmetic. Figures that a log printed are intervals one print step wide.")),
        "</body>", "</html>", "",
    )).encode("utf-8")


def _figure(picture: Picture) -> Html:
    words = escape(picture.words)
    both = (Html(inline(picture.draw("svg", look), f"{picture.name}-{kind}", words, kind))
            for kind, look in (("wide", WIDE), ("narrow", NARROW)))
    told = _CAPTIONS.get(picture.name.partition("-")[0])
    return _tag("figure", *both, *([_tag("figcaption", told)] if told else []))


def _why_not(part: Mapping[str, Any]) -> Iterator[Html]:
    yield _para(f"Not here: {part['why']}.")
    yield _needed("What would show it", part["missing"])


def _needed(title: str, missing: Iterable[Mapping[str, str]]) -> Html:
    return _list(title, (Html(_tag("b", item["name"]) + _text(f": {item['how']}")) for item in missing))


# --- the sections


def _headline(document: Mapping[str, Any]) -> Iterator[Html]:
    now = document["now"]["answer"]
    if now is None:
        state = Html(_text("Now: not known, " + str(document["now"]["why"]) + "."))
    else:
        outcome = " or ".join(DOES[word] for word in now.get("outcomes", [now["outcome"]]))
        state = Html(_text("Now: ") + _mark(now["verdict"]) + _text(f", the server {outcome}."))
    yield _para(state, class_="lead")
    answer = document["shapes"]["answer"]
    if answer is None:
        yield _para(f"Best for {document['goal']}: not known, {document['shapes']['why']}.", class_="lead")
    elif not answer["shapes"]:
        names = ", ".join(item["name"] for item in answer["conflict"])
        yield _para(_tag("span", "No shape does this.", class_="bad"), f" These cannot hold together: {names}.",
                    class_="lead")
    else:
        best = answer["shapes"][0]
        changed = _changes(best["changes"]).replace("\n", ", ")
        reached = objective_of(best["objective"], _sure(answer)).replace("\n(", " (").replace("\n", ", ")
        binds = ", ".join(best["binding"]) or "nothing"
        proven = "proven best" if answer["status"] == "optimal" else "not proven best: the time limit was reached"
        yield _para("Best for ", _tag("b", document["goal"]), f": {changed}. It gives {reached} ({proven}). "
                    f"What binds: {binds}.", class_="lead")


def _changes(changes: Mapping[str, Sequence[Any]]) -> str:
    return changes_of(changes).replace(" -> ", " → ")


def _sure(answer: Mapping[str, Any]) -> float:
    return float(answer["speed"]["workload"]["confidence"]) if answer.get("speed") else 0.5


def _ledger(caption: str, quantities: Mapping[str, Any]) -> Html:
    return _table(caption, ("row", ">value", ">certain to", "known how", "~source"), (
        (name, amount(item["value"], item["unit"], whole=item["low"] == item["high"])
         if item["value"] is not None else "between", range_of(item), item["basis"], item["source"])
        for name, item in quantities.items()))


def _constraints(caption: str, constraints: Iterable[Mapping[str, Any]]) -> Html:
    return _table(caption, ("constraint", "verdict", ">slack", "bites at", "if broken", "~source"), (
        (item["name"], _mark(item["verdict"]),
         "?" if item["slack"] is None else span(item["slack"], item["slack_high"], item["unit"]), item["phase"],
         item["outcome"].replace("_", " ") if item["hard"] else "warning only", item["source"])
        for item in constraints if item["applies"]))


def _now(document: Mapping[str, Any]) -> Iterator[Html]:
    now = document["now"]["answer"]
    if now is None:
        yield from _why_not(document["now"])
        return
    broken = [item for item in now["constraints"] if item["applies"] and item["hard"] and item["ok"] is False]
    yield _list("What would mend it", (f"{item['name']}: {item['remedy']}" for item in broken))
    yield _constraints("What must hold, and how far each is from binding", now["constraints"])
    if now["binding_cards"]:
        cards = ", ".join(f"{name}: card {card}" for name, card in now["binding_cards"].items())
        yield _para(f"The card that binds: {cards}.")
    yield _list("What changes with this version", now.get("upgrade", ()))
    yield _list("To know", now["warnings"])


def _stacks(document: Mapping[str, Any], drawn: Mapping[str, Html]) -> Iterator[Html]:
    stacks = shown(document["stacks"])
    if not stacks:
        yield _para("Too little of it is known to draw it.")
    for stack in stacks:
        card = "" if stack["card"] is None else f"-{stack['card']}"
        yield _tag("h3", stack_words(stack))
        yield drawn[f"stack-{stack['name']}{card}"]
        if stack["missing"]:
            yield _para("Not all of it is known: only what is known is drawn, and nothing tells how much is left.",
                        class_="small")
        yield _stack_table(stack)
    for stack in document["stacks"]:
        if stack["missing"]:
            yield _needed(f"What would show the rest of: {stack_words(stack)}", stack["missing"])


def _stack_table(stack: Mapping[str, Any]) -> Html:
    unit = stack["unit"]
    words = [word for word in ("now", "best") if any(part[word] is not None for part in stack["parts"])]

    def cells(item: Mapping[str, Any]) -> list[str]:
        found = [amount(item[word]["value"] if item[word] else None, unit, whole=False) for word in words]
        last = item[words[-1]]
        return [*found, "not known" if last is None else range_of({**last, "unit": unit})]

    rows = [[part["name"], *cells(part)] for part in drawn_parts(stack)]
    rows.append(["in all", *cells(stack["total"])])
    return _table(f"In figures ({stack['source']})", ("part", *(f">{word}" for word in words),
                                                                f">certain to ({words[-1]})"), rows, [len(rows) - 1])


def _asked(answer: Mapping[str, Any]) -> Iterator[Html]:
    wanted = [f"{name}={setting_of(value)}" for name, value in answer["given"].items()] + answer["bounds"]
    if wanted:
        yield _para(f"Given: {', '.join(wanted)}.")
    yield _para(f"Free to move: {', '.join(answer['free']) or 'nothing'}.", class_="small")
    for why in dict.fromkeys(item["why"] for item in answer["within"]):
        held = [f"{item['sense']} {item['name']}={item['text']}" for item in answer["within"] if item["why"] == why]
        yield _para(f"Within: {', '.join(held)} ({why}).", class_="small")


def _conflict(answer: Mapping[str, Any]) -> Iterator[Html]:
    yield _para(_tag("span", "No shape does this.", class_="bad"), " These cannot hold together; give one of them up:")
    yield _table("What cannot hold together", ("requirement", "+remedy", "~source"), (
        (item["name"], item["remedy"], item["source"]) for item in answer["conflict"]))


def _shapes(document: Mapping[str, Any], drawn: Mapping[str, Html]) -> Iterator[Html]:
    answer = document["shapes"]["answer"]
    if answer is None:
        yield from _why_not(document["shapes"])
        return
    yield from _asked(answer)
    if not answer["shapes"]:
        yield from _conflict(answer)
        yield _list("To know", answer["warnings"])
        return
    yield _para("Rank 1 is proven best; every shape was checked again without the solver."
                if answer["status"] == "optimal" else "Found within the time limit, not proven best.")
    yield drawn.get("shapes", Html(""))
    sure, best = _sure(answer), answer["shapes"][0]
    yield _table("Ranked shapes", (">rank", "+change", ">gives", "what binds", "verdict"), (
        (shape["rank"], _changes(shape["changes"]), objective_of(shape["objective"], sure),
         "\n".join(shape["binding"]), _mark(shape["verdict"])) for shape in answer["shapes"]), [0])
    if answer.get("speed"):
        yield from _rivals(answer["speed"], best["objective"]["unit"])
    yield _ledger("Rank 1: the ledger that the next boot must print", best["quantities"])
    yield _constraints("Rank 1: what must hold, and how far each is from binding", best["constraints"])
    yield _list("Before you take it", best["notes"])
    told = {*best["notes"], *((document["now"]["answer"] or {}).get("warnings", ()))}
    yield _list("To know", (text for text in answer["warnings"] if text not in told))


def _rivals(speed: Mapping[str, Any], unit: str) -> Iterator[Html]:
    for text in speed["extrapolated"]:
        yield _para(_tag("span", "extrapolated", class_="edge"), f": {text}")
    found = speed["rivals"]
    if found is None:
        return
    names = [item["law"] for item in found["choices"]]
    rows = [[f"{item['law']} ({share_of(item['weight'])})", _changes(item["changes"]),
             *(figure(item["expects"][name]) for name in names)] for item in found["choices"]]
    rows += [[title, _changes(found[key]["changes"]), *(figure(found[key]["expects"][name]) for name in names)]
             for title, key in (("rank 1", "rank_1"), ("good under all", "good_under_all"))]
    yield _table("What each form of the law would choose, and what each expects of it "
                 f"({'seconds' if unit == 's' else unit})", ("if it is", "+choose", *(f">{name}" for name in names)),
                 rows, [len(rows) - 2])
    yield _para("Rank 1 is as good as any, whichever form is true." if found["agree"] else
                "The forms disagree about the best shape; what is good under all of them loses "
                f"{percent(found['good_under_all']['loses_at_most'])} at most.")


def _tradeoff(document: Mapping[str, Any], drawn: Mapping[str, Html]) -> Iterator[Html]:
    front = document["tradeoff"]["answer"]
    if front is None:
        yield from _why_not(document["tradeoff"])
        return
    yield _para(" against ".join(item["goal"] for item in front["goals"]) + ".")
    yield from _asked(front)
    if not front["points"]:
        yield from _conflict(front)
        return
    count = len(front["points"])
    what = "1 point: one shape is best in all of these" if count == 1 else f"{count:,} points"
    yield _para(f"{what}; no other shape is better, all are proven." if front["status"] == "optimal" else
                f"{what}, not proven complete: the time limit was reached.")
    yield drawn.get("tradeoff", Html(""))
    points, knee = shown_points(front), front["knee"]
    if len(points) < count:
        yield _para(f"The table has {len(points)} of {count:,} points.", class_="small")
    units = [item["unit"] for item in front["goals"]]
    current = front["current"]
    rows: list[Sequence[object]] = [("now", *(gives_of(value, unit) for value, unit in zip(current["values"], units,
                                                                                       strict=True)),
                                     "as it is", _mark(current["verdict"]), "")]
    rows += [(f"{point['point']}" + (" knee" if knee and point["point"] == knee["point"] else ""),
              *(gives_of(item["value"], unit, item.get("prediction"))
                for item, unit in zip(point["objectives"], units, strict=True)),
              _changes(point["changes"]), _mark(point["verdict"]), ", ".join(point["binding"])) for point in points]
    yield _table("Points", (">point", *(f">{item['goal']}" for item in front["goals"]), "+change", "verdict",
                            "what binds"), rows,
                 [place for place, row in enumerate(rows) if str(row[0]).endswith("knee")])
    yield _para(f"Knee: point {knee['point']}, {knee['definition']}." if knee else f"No knee: {front['no_knee']}.")
    steps = ", ".join(f"{item['goal']} {gives_of(item['step'], item['unit'])}" for item in front["goals"])
    yield _para(f"Steps: {steps}; {front['rule']}.", class_="small")
    yield _standing(front)
    yield _list("Before you take one", notes_of(points))
    told = {text for key in ("now", "shapes") for text in (document[key]["answer"] or {}).get("warnings", ())}
    yield _list("To know", (text for text in front["warnings"] if text not in told))


def _standing(front: Mapping[str, Any]) -> Html:
    current = front["current"]
    beaten = [item["point"] for item in current["dominated_by"]]
    if current["steps"] is None:
        return _para("The shape as it is: one of its values is not known, so it stands nowhere.")
    if current["equals"]:
        return _para(f"The shape as it is: as good as point {current['equals']}; nothing beats it on these steps.")
    if beaten:
        return _para(f"The shape as it is: beaten by {'points' if len(beaten) > 1 else 'point'} {ranges_of(beaten)}.")
    return _para("The shape as it is: beaten by none.")


def _sensitivity(document: Mapping[str, Any], drawn: Mapping[str, Html]) -> Iterator[Html]:
    found = document["sensitivity"]["answer"]
    if found is None:
        yield from _why_not(document["sensitivity"])
        return
    unit = found["goal"]["unit"]

    def drifted(fact: Mapping[str, Any], side: str) -> str:
        by = fact["flips"][side]
        if side in fact["flips"]["open"]:
            return "not decided"
        return "any amount" if by is None else f"less than {amount(by, fact['unit'], whole=False)}"

    yield drawn.get("tornado", _para("No step of a knob and no fact's uncertainty changes the answer."))

    def moved(item: Mapping[str, Any] | None) -> tuple[str, str]:
        if item is None:
            return "no such step", ""
        if item["why_not"]:
            return f"{setting_of(item['to'])}: not known", ""
        gain, fixed = item["reoptimised"], item["fixed"]
        held = (item["fixed_verdict"] or "").replace("_", " ") if fixed is None else signed(fixed, unit)
        return f"{setting_of(item['to'])}: {'no shape fits' if gain is None else signed(gain, unit)}", held

    yield _table("One step of each knob", ("knob", ">value", ">down, all else solved again", ">all else held",
                                           ">up, all else solved again", ">all else held", "+nothing, because"), (
        (item["knob"], setting_of(item["value"]), *moved(item["down"]), *moved(item["up"]), item["nothing"] or "")
        for item in found["knobs"]))
    yield _table("What each fact's uncertainty does", ("fact", ">known to", ">pessimistic", ">middle", ">optimistic",
                                                      ">may fall by", ">may rise by", "~source"), (
        (item["fact"], span(item["low"], item["high"], item["unit"]),
         *("exact" if item["ends"] is None else "no shape fits" if item["ends"][end] is None else
           amount(item["ends"][end], unit) for end in ("pessimistic", "middle", "optimistic")),
         *(drifted(item, side) for side in ("down", "up")), item["source"]) for item in found["facts"]))
    yield _table("What becomes of the running shape as one knob alone moves", (
        "knob", ">from", ">to", "the running shape", "outcome", "+breaks"), (
        (knob["knob"], setting_of(rung["from"]), setting_of(rung["to"]), rung["verdict"].replace("_", " "),
         rung["outcome"].replace("_", " "), ", ".join(rung["broken"]))
        for knob in found["knobs"] if len(knob["running"]) > 1 for rung in knob["running"]))


def _laws(document: Mapping[str, Any], drawn: Mapping[str, Html]) -> Iterator[Html]:
    found = document["laws"]["answer"]
    if found is None:
        yield from _why_not(document["laws"])
        return
    number = 0
    for law in found["laws"]:
        number += law["curve"] is not None
        yield from _law(law, drawn[f"law-{number}"] if law["curve"] is not None else Html(""))
    yield _list("No law yet", grouped(found["unfitted"]))
    yield _list("Not this site's", grouped(found["elsewhere"]))
    yield _list("Refused", (f"{item['file']}:{item['line']}: {item['reason']}" for item in found["refused"]))


def _law(law: Mapping[str, Any], picture: Html) -> Iterator[Html]:
    yield _tag("h3", f"{law['name']}: {law['verdict']}")
    over = "; ".join(f"{item['axis']} {value_on_axis(item['low'])} to {value_on_axis(item['high'])}"
                     + (f" {item['unit']}" if item["unit"] not in ("", item["axis"]) else "") for item in law["ranges"])
    yield _para(f"{law['points']:,} points at {law['settings']:,} settings; measured over {over}; noise "
                f"{percent(law['noise']['value'])} ({law['noise']['how']}).")
    if law["prediction"]:
        told = law["prediction"]
        beyond = " (extrapolated)" if told["extrapolated"] else ""
        yield _para(f"This site's shape: {figure(told['median'])} t/s{beyond}, {share_of(told['level'])} of new "
                    f"measurements from {figure(told['low'])} to {figure(told['high'])} t/s.")
    elif law["beyond"]:
        yield _para(f"This site's shape lies outside: {'; '.join(law['beyond'])}.")
    yield picture
    if law["curve"] is not None and law["curve"]["at"]:
        at = ", ".join(f"{name} {value_on_axis(value)}" for name, value in law["curve"]["at"].items()
                       if value is not None)
        yield _para(f"Drawn at {at}.", class_="small")
    for axis, shares in law["shares"].items():
        yield _para(f"{axis}: {weights_of(shares)}.", class_="small")
    yield _table("Rival forms", ("form", ">weight", ">off where left out", ">first to last", ">knee"), (
        (form["name"], share_of(form["weight"]),
         "" if form["left_out_error"] is None else percent(form["left_out_error"]),
         "" if form["from"] is None else f"{figure(form['from'])} to {figure(form['to'])} t/s",
         ", ".join(figure(term["knee"]) for term in form["terms"] if term["knee"] is not None))
        for form in law["forms"]))
    yield _list("Contradict each other", law["contradictions"])
    yield _list("Not separated", law["not_separated"])
    yield _list("To know", chain(law["labels"], (f"{item['file']}:{item['line']} does not count: {item['why']}"
                                                 for item in law["not_used"])))
    yield _para(f"From {', '.join(law['sources'])}.", class_="small")


def _facts(document: Mapping[str, Any]) -> Iterator[Html]:
    now = document["now"]["answer"]
    if now is None:
        yield from _why_not(document["now"])
        return
    defaults = {name: f"default: {item['source']}" for name, item in now["defaults"].items()}
    yield _table("Settings", ("knob", ">value", "~from"), (
        (name, setting_of(value), defaults.get(name, "as set")) for name, value in now["shape"].items()))
    yield _ledger("The ledger to expect of the shape as it is (sizes a card; host RAM in all)", now["quantities"])
    yield _table("Facts", ("fact", ">value", "known how", "~source"), (
        (name, span(item["low"], item["high"], item["unit"]), item["basis"], item["source"])
        for name, item in now["facts"].items()))
    yield _needed("What would decide what is open", now["open_facts"])
    yield _list("Settings that are no knob of this engine", now["unmapped"])
