"""Where a knob's influence ends: the places in an expression that stay the same though the knob moved.

A goal that does not move with a knob it is written with is explained by these: a least or a greatest of several of
which another decides, a choice that falls the same way, a division that rounds the difference off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from models.declare import EngineModel
from models.evaluate import Reader
from models.expr import (
    AsIs,
    AtMost,
    Both,
    Cond,
    Either,
    Expr,
    Fact,
    FloorQuotient,
    Greatest,
    Knob,
    Least,
    Missing,
    Named,
    Not,
    Select,
    knobs_in,
    parts,
)
from models.interval import Interval, show_bytes

#: Names that are told of one side of a comparison.
_MOST_NAMES = 3


def stops(goal: Expr, knob: str, before: Reader, after: Reader, model: EngineModel) -> list[str]:
    """In words, where the influence of ``knob`` on ``goal`` ends between two shapes that give it the same value."""
    named = {id(require.holds): require.name for require in model.requires}
    found: dict[str, None] = {}
    for node, child, row in _ends(goal, knob, before, after, named):
        text = (f"{named[id(node)]} {'holds' if before.condition(node) is True else 'reads the same'} either way"
                if isinstance(node, Cond) and id(node) in named else _told(node, child, row, before, model))
        if text:
            found[text] = None
    return list(found)


def _same(node: Expr | Cond, before: Reader, after: Reader) -> bool:
    if isinstance(node, Cond):
        return before.condition(node) == after.condition(node)
    return before.plain(node) == after.plain(node)


def _ends(goal: Expr, knob: str, before: Reader, after: Reader,
          named: Mapping[int, str]) -> Iterator[tuple[Expr | Cond, Expr | Cond, str]]:
    """Each node that stays the same while one it is made of moves: the node, that one, and the row it stands in.

    A constraint counts as one: what is within it is not looked at.
    """
    seen: set[int] = set()
    pending: list[tuple[Expr | Cond, str]] = [(goal, "")]
    while pending:
        node, name = pending.pop()
        if id(node) in seen or knob not in knobs_in(node):
            continue
        seen.add(id(node))
        if isinstance(node, Named):
            name = node.name
        if isinstance(node, Cond) and id(node) in named:
            yield node, node, name
            continue
        for child in _counting(node, before):
            if knob not in knobs_in(child):
                continue
            if _same(child, before, after):
                pending.append((child, name))
            else:
                yield node, child, name


def _counting(node: Expr | Cond, reader: Reader) -> list[Expr | Cond]:
    """The parts of a node that count: of a choice that is decided, the condition and the branch it takes."""
    if isinstance(node, Select):
        truth = reader.condition(node.condition)
        if isinstance(truth, bool):
            return [node.condition, node.then if truth else node.otherwise]
    if isinstance(node, Fact) and isinstance(reader.plain(Fact(node.name)), Interval):
        return []  # it is given
    return list(parts(node))


def _told(node: Expr | Cond, child: Expr | Cond, name: str, reader: Reader, model: EngineModel) -> str:
    where = name or "the goal"
    if isinstance(node, Least | Greatest) and isinstance(child, Expr):
        word = "least" if isinstance(node, Least) else "greatest"
        others = [item for item in node.items if item is not child]
        own = reader.plain(child)
        deciding = min(others, key=lambda item: _rank(reader, item, word))
        value = reader.plain(deciding)
        if isinstance(own, Missing) or isinstance(value, Missing):
            return ""
        apart = own.low - value.high if word == "least" else value.low - own.high
        unit = _unit(node, model)
        gap = f" by {_amount(apart, unit)}" if apart > 0 and unit is not None else ""
        other = _names(deciding) or f"{value.low:,}"
        less = "less" if word == "least" else "more"
        return f"in {where}, {other} counts: it is {less} than {_names(child) or 'what it moves'}{gap}"
    if isinstance(node, FloorQuotient):
        return f"in {where}, what counts is whole {_names(node.right) or 'units'}, and the difference is less than one"
    if isinstance(node, AtMost):
        held = reader.condition(node) is True
        return (f"{where}: {_names(node.left) or 'what is needed'} {'stays within' if held else 'stays above'} "
                f"{_names(node.right) or 'what there is'}")
    if isinstance(node, Both | Either | Not):
        return f"{where}: the same case holds"
    if isinstance(node, Select):
        return f"{where} is chosen the same way"
    return ""


def _rank(reader: Reader, item: Expr, word: str) -> int:
    value = reader.plain(item)
    if isinstance(value, Missing):
        return 1 << 62
    return value.low if word == "least" else -value.high


def _amount(value: int, unit: str) -> str:
    return show_bytes(value) if unit == "B" else f"{value:,} {unit}".rstrip()


def _unit(node: Expr, model: EngineModel) -> str | None:
    """The unit of what a node compares: that of all the rows and facts it is written with; None where they differ.

    Of knobs alone it is the knobs' own; MiB knobs are counted in bytes where they stand beside rows or facts.
    """
    names = _nearest(node)
    units = {model.rows[name].unit for name in names if name in model.rows}
    units |= {model.facts[name].unit for name in names if name in model.facts}
    knobs = {model.knobs[name].unit for name in names if name in model.knobs} - {""}  # switches only choose
    if units == {"B"} and knobs <= {"MiB"}:
        return "B"
    either = units | knobs
    return either.pop() if len(either) == 1 else None


def _nearest(node: Expr | Cond) -> list[str]:
    """The names nearest to a node: of rows, facts and knobs."""
    found: dict[str, None] = {}
    pending: list[Expr | Cond] = list(parts(node)) if isinstance(node, Least | Greatest) else [node]
    while pending:
        item = pending.pop(0)
        if isinstance(item, Named | Knob | AsIs | Fact):
            found[item.name] = None
        else:
            pending += parts(item)
    return list(found)


def _names(node: Expr | Cond) -> str:
    """What a side is made of, in words."""
    names = _nearest(node)
    more = ", ..." if len(names) > _MOST_NAMES else ""
    return names[0] if len(names) == 1 else f"({', '.join(names[:_MOST_NAMES])}{more})" if names else ""
