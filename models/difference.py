"""By how much a quantity differs between two shapes of one site: what both share cancels.

A figure that a boot printed tells of another shape as well: what the declaration makes of the difference is often
known better than either value. A fact is the same number in both shapes, and so is what is only known to lie between
two values, unless it is said to depend on something that differs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from models.expr import (
    Agree,
    AsIs,
    AtMost,
    Between,
    Both,
    Cond,
    Const,
    Either,
    Expr,
    Fact,
    FloorQuotient,
    Greatest,
    Knob,
    Least,
    Missing,
    Named,
    Negative,
    Not,
    Product,
    Select,
    Sum,
    Truth,
    Value,
    Walk,
)
from models.interval import Interval, point

Reading = Walk[Value, Truth]


class Difference:
    """What the shape that ``new`` reads has more of than the one that ``old`` reads.

    ``knobs`` are the values in both, the old first; ``given`` names the facts that somebody gave.
    """

    def __init__(self, old: Reading, new: Reading, knobs: tuple[Mapping[str, Interval], Mapping[str, Interval]],
                 given: Collection[str]) -> None:
        self._old, self._new, self._knobs, self._given = old, new, knobs, given
        self._alike: dict[int, bool] = {}
        self._numbers: dict[int, Value] = {}
        self._kept: list[Expr | Cond] = []  # ids are only unique among living nodes

    def number(self, node: Expr) -> Value:
        """The interval of the new value less the old one."""
        key = id(node)
        if key not in self._numbers:
            self._numbers[key] = self._number(node)
            self._kept.append(node)
        return self._numbers[key]

    def _number(self, node: Expr) -> Value:
        if self.same(node):
            return point(0)
        apart = _added((self._new.number(node), _negative(self._old.number(node))))
        found = self._by_parts(node)
        if isinstance(apart, Interval) and isinstance(found, Interval):
            return apart.meet(found) or apart
        return apart

    def _by_parts(self, node: Expr) -> Value | None:
        match node:
            case Named(inner=inner):
                return self.number(inner)
            case Sum(terms=terms):
                return _added([self.number(term) for term in terms])
            case Negative(inner=inner):
                return _negative(self.number(inner))
            case Fact(otherwise=Expr() as otherwise):
                return self.number(otherwise)
            case Product(left=left, right=right):
                one, other = (left, right) if self.same(left) else (right, left)
                return _times(self._old.number(one), self.number(other)) if self.same(one) else None
            case FloorQuotient(left=left, right=Const(value=unit)):
                moved = self.number(left)
                return moved if isinstance(moved, Missing) else Interval(moved.low // unit, -(-moved.high // unit))
            case Least(items=items) | Greatest(items=items):
                moves = [self.number(item) for item in self._in_question(items, least=isinstance(node, Least))]
                known = [move for move in moves if isinstance(move, Interval)]
                ends = Interval(min(m.low for m in known), max(m.high for m in known)) if known else None
                return ends if len(known) == len(moves) else None
            case Select(condition=condition, then=then, otherwise=otherwise) if self._decided(condition) is not None:
                return self.number(then if self._decided(condition) else otherwise)
        return None

    def _in_question(self, items: Sequence[Expr], *, least: bool) -> list[Expr]:
        """The items that may be the extreme one, in either shape."""
        sign, found = -1 if least else 1, set[int]()
        for walk in (self._old, self._new):
            values = [walk.number(item) for item in items]
            known = [value for value in values if isinstance(value, Interval)]
            if len(known) < len(values):
                return list(items)
            ends = [sorted((sign * value.low, sign * value.high)) for value in known]
            surely = max(low for low, _ in ends)
            found |= {place for place, (_, high) in enumerate(ends) if high >= surely}
        return [items[place] for place in sorted(found)]

    def _decided(self, condition: Cond) -> bool | None:
        """The truth that ``condition`` has in both shapes; None where it differs, or is open in one."""
        old, new = self._old.condition(condition), self._new.condition(condition)
        return old if isinstance(old, bool) and old is new else None

    def same(self, node: Expr | Cond) -> bool:
        """Whether ``node`` is one and the same in both shapes, whatever the facts are."""
        key = id(node)
        if key not in self._alike:
            self._alike[key] = self._same(node) or (isinstance(node, Expr) and self._known(node))
            self._kept.append(node)
        return self._alike[key]

    def _known(self, node: Expr) -> bool:
        old, new = self._old.number(node), self._new.number(node)
        return isinstance(old, Interval) and old.exact and old == new

    def _same(self, node: Expr | Cond) -> bool:
        match node:
            case Const() | AsIs():
                return True
            case Knob(name=name):
                old, new = (values.get(name) for values in self._knobs)
                return old is not None and old == new and old.exact
            case Fact(name=name, otherwise=otherwise):
                return name in self._given or otherwise is None or self.same(otherwise)
            case Select(condition=condition, then=then, otherwise=otherwise):
                truth = self._decided(condition)
                if truth is not None:
                    return self.same(then if truth else otherwise)
                return self.same(condition) and self.same(then) and self.same(otherwise)
            case Between(low=low, high=high, nominal=nominal, per=per):
                return all(map(self.same, (low, high, nominal, *per)))
            case Named(inner=inner) | Negative(inner=inner) | Not(inner=inner):
                return self.same(inner)
            case Sum(terms=parts) | Least(items=parts) | Greatest(items=parts) | Agree(ways=parts):
                return all(map(self.same, parts))
            case Product(left=left, right=right) | FloorQuotient(left=left, right=right):
                return self.same(left) and self.same(right)
            case AtMost(left=left, right=right):
                return self._decided(node) is not None or (self.same(left) and self.same(right))
            case Both(items=items) | Either(items=items):
                return self._decided(node) is not None or all(map(self.same, items))
        return False


def _added(values: Collection[Value]) -> Value:
    missing = [value.names for value in values if isinstance(value, Missing)]
    if missing:
        return Missing(frozenset().union(*missing))
    known = [value for value in values if isinstance(value, Interval)]
    return Interval(sum(value.low for value in known), sum(value.high for value in known))


def _negative(value: Value) -> Value:
    return value if isinstance(value, Missing) else Interval(-value.high, -value.low)


def _times(value: Value, by: Value) -> Value:
    if isinstance(value, Missing) or isinstance(by, Missing):
        return _added((value, by))
    corners = (value.low * by.low, value.low * by.high, value.high * by.low, value.high * by.high)
    return Interval(min(corners), max(corners))
