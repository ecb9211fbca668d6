"""Where the memory of a card and of the host goes in a shape, in the order the engine spends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measurements.site import Site
from models.declare import Row, Stack, row
from models.evaluate import Quantity, Reader
from models.expr import Expr, Fact, Named
from models.interval import Interval
from optimizer.check import how_to_get


@dataclass(frozen=True, slots=True)
class Filled:
    """One stack in one shape: amounts (best-supported value, and the interval) of what is known, in its unit.

    ``card`` numbers the card that it is of, None where all are alike or it is no card's; ``cards`` counts them, None
    where it is no card's. ``missing`` are the facts that would fill the rest.
    """

    stack: Stack
    card: int | None
    cards: int | None
    total: tuple[int, Interval] | None
    parts: dict[str, tuple[int, Interval] | None]
    missing: frozenset[str]


def fill(site: Site, reader: Reader) -> tuple[Filled, ...]:
    """Every stack of the site's engine that says something of the shape that ``reader`` reads.

    Facts that differ from card to card make a stack for each. A stack of which no part is known is among them, with
    what would show it; one that stands in for another only where that one lacks facts.
    """
    found: dict[str, list[Filled]] = {}
    for stack in site.model.stacks:
        other = found.get(stack.instead_of, [])
        if reader.condition(stack.when) is not True or (other and not any(item.missing for item in other)):
            continue
        cards = None
        if stack.cards is not None:
            count = reader.number(stack.cards)
            cards = count.middle if isinstance(count, Interval) else None
        found[stack.name] = [_filled(site, reader, stack, card, cards) for card in _cards(site, stack)]
    return tuple(item for items in found.values() for item in items)


def _cards(site: Site, stack: Stack) -> Sequence[int | None]:
    """The cards of which a fact of the stack is given; None for all alike."""
    if stack.cards is None:
        return [None]
    names = {node.name for node in (stack.total, *(expr for _, expr in stack.parts)) if isinstance(node, Fact)}
    split = (name.rpartition(".") for name in site.facts)
    return sorted({int(card) for name, _, card in split if name in names and card.isdigit()}) or [None]


def _filled(site: Site, reader: Reader, stack: Stack, card: int | None, cards: int | None) -> Filled:
    missing: set[str] = set()
    own = False

    def read(expr: Expr) -> tuple[int, Interval] | None:
        nonlocal own
        if card is not None and isinstance(expr, Fact) and f"{expr.name}.{card}" in site.facts:
            own = True
            value = site.facts[f"{expr.name}.{card}"].value
            return value.middle, value
        named = expr if isinstance(expr, Named) else row(stack.name, expr)
        quantity = reader.quantity(Row(named.name, named, stack.unit, stack.source))
        if not isinstance(quantity, Quantity):
            missing.update(quantity)
            return None
        value = Interval(quantity.low, quantity.high)
        return value.middle if quantity.value is None else quantity.value, value

    total = read(stack.total)
    parts = {name: read(expr) for name, expr in stack.parts}
    *spent, left = parts.values()
    known = [amount for amount in spent if amount is not None]
    if total is not None and len(known) == len(spent):
        ends = total[1]
        for _, interval in known:
            ends = ends - interval
        # the engine cuts all cards alike: what is left of this one is its own; and it divides nothing that falls short
        if own or left is None or ends.meet(left[1]) is None:
            parts[stack.parts[-1][0]] = total[0] - sum(value for value, _ in known), ends
    return Filled(stack, card, cards, total, parts, frozenset(missing))


def stacks_json(site: Site, now: Reader, best: Reader | None) -> list[dict[str, Any]]:
    """Every stack in the shape as it is and in the best one (None where there is none), side by side."""
    before = {(item.stack.name, item.card): item for item in fill(site, now)}
    after = {} if best is None else {(item.stack.name, item.card): item for item in fill(site, best)}
    keys = dict.fromkeys((*before, *after))
    instead = {stack.instead_of: stack.name for stack in site.model.stacks if stack.name in {name for name, _ in keys}}
    return [_stack_json(site, before.get(key), after.get(key)) | {"instead": instead.get(key[0])} for key in keys]


def _stack_json(site: Site, now: Filled | None, best: Filled | None) -> dict[str, Any]:
    both = [item for item in (now, best) if item is not None]
    stack = both[0].stack
    missing = frozenset[str]().union(*(item.missing for item in both))
    return {
        "name": stack.name, "title": stack.title, "card": both[0].card, "cards": both[0].cards,
        "unit": stack.unit, "source": stack.source,
        "total": _pair_json(now.total if now else None, best.total if best else None),
        "parts": [{"name": name, **_pair_json(now.parts[name] if now else None, best.parts[name] if best else None)}
                  for name, _ in stack.parts],
        "missing": how_to_get(site.model, sorted(missing)),
    }


def _pair_json(now: tuple[int, Interval] | None, best: tuple[int, Interval] | None) -> dict[str, Any]:
    return {word: None if found is None else {"value": found[0], "low": found[1].low, "high": found[1].high}
            for word, found in (("now", now), ("best", best))}


def shown(stacks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The stacks of a document to draw: those for which no other stands, and of which the total or two parts are known.

    One part alone would look like the whole.
    """
    found = []
    for stack in stacks:
        parts = [[part[word] for part in stack["parts"] if part[word] is not None] for word in ("now", "best")]
        least = 1 if any(stack["total"].values()) else 2
        if stack["instead"] is None and any(len([item for item in known if item["high"]]) >= least for known in parts):
            found.append(stack)
    return found
