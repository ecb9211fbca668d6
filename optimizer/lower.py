"""Lowers expressions to CP-SAT: every number becomes a pair of linear expressions that bound it.

A fact is known to an interval, so each expression has a low and a high side; they are one object where the value
is exact. A constraint is posted on the pessimistic sides, so that it holds for every value the facts allow. This is
the only module that imports ortools.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor
from typing import Any, Final, Literal

from ortools.sat.python import cp_model

from models.declare import EngineModel
from models.evaluate import Given, Knobs, Shape
from models.expr import Algebra, AtMost, Both, Cond, Curve, Either, Expr, Walk
from models.interval import Interval

Sense = Literal["max", "min"]

#: What proving a tie-break may take; they take milliseconds where they are not hopeless.
TIE_SECONDS: Final = 0.6

#: What the search led by the linear relaxation may take, before others are tried.
LINEAR_SECONDS: Final = 2.0

#: CP-SAT adds in 64 bits; a declared quantity stays far below.
LARGEST: Final = 1 << 60


class Lacking(Exception):
    """A constraint or objective needs facts that nobody gave; ``names`` are these."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


class CannotLower(Exception):
    """The declaration uses knobs in a way this encoding does not cover (a defect of the declaration)."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One bound of a number: a linear expression (or a plain number) with the range it can take."""

    expr: Any
    low: int
    high: int

    @property
    def fixed(self) -> bool:
        """Whether it can take one value only."""
        return self.low == self.high


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The low and the high side of a number; the same object where it is exact."""

    low: Side
    high: Side

    @property
    def exact(self) -> bool:
        """Whether both sides are one."""
        return self.low is self.high


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """A condition: a literal (or a bool) that it surely holds, and one that it may hold."""

    sure: Any
    maybe: Any


def _number(value: int) -> Side:
    return Side(value, value, value)


class Lowering(Algebra[Pair, Holds]):
    """Builds one CP-SAT model of an engine model: ``free`` knobs become variables, all others numbers.

    ``free`` maps each knob to its bounds. What is written with a condition in ``assumed`` takes it for true: a
    shape that breaks a constraint is no answer, so what would become of it need not be encoded. Facts in
    ``zeroed`` count as 0 when nobody gave them: they only shift an objective. ``opened`` facts are variables, each with
    one exact value between its bounds (or of a variable that is there). A lowering ``beside`` another adds to the same
    CP-SAT model and shares its opened facts, but for those it opens itself. ``agreeing``: what is known of one value in
    several ways must agree, which narrows what opened facts may be; else either may be right. Raises Lacking from
    :meth:`number` and :meth:`condition` where another fact is missing.
    """

    def __init__(self, model: EngineModel, given: Given, shape: Shape, free: Mapping[str, tuple[int, int]],
                 assumed: Iterable[Cond] = (), *, opened: Mapping[str, tuple[int, int] | Side] | None = None,
                 beside: Lowering | None = None, agreeing: bool = False) -> None:
        self.agreeing = agreeing
        self.cp: cp_model.CpModel = cp_model.CpModel() if beside is None else beside.cp
        self.opened: dict[str, Side] = {} if beside is None else dict(beside.opened)
        #: The opened facts that anything read so far depends on, of all that stand beside each other.
        self.touched: set[str] = set() if beside is None else beside.touched
        for name, ends in (opened or {}).items():
            self.opened[name] = ends if isinstance(ends, Side) else self.unknown(*ends)
        self._spec = model.knobs
        self._given = given
        self._knobs = Knobs(model, shape, open_ones=free)
        self._as_is = Knobs(model, given.as_is)
        self.variables: dict[str, Any] = {}
        self._sides: dict[str, Side] = {}
        self._follows: dict[str, Pair] = {}
        self._stretches: dict[tuple[Side, tuple[int, ...]], dict[int, Any]] = {}
        self.zeroed: frozenset[str] = frozenset()
        #: Constraints that could not be posted, with the facts they lack.
        self.skipped: dict[str, frozenset[str]] = {}
        for name, (low, high) in free.items():
            self._open(name, low, high, shape.get(name))
        self._assumed = tuple(assumed)
        self.walk = self._reading()

    def _reading(self) -> Walk[Pair, Holds]:
        walk: Walk[Pair, Holds] = Walk(self)
        for condition in self._assumed:
            walk.assume(condition, Holds(True, True))
        return walk

    def holding(self, values: Mapping[str, int]) -> Lowering:
        """The same model, read as if these free knobs had one value each: demands on it must be switched off where
        they have another.
        """
        part = copy(self)
        part._sides = self._sides | {name: _number(value) for name, value in values.items()}
        part._follows = {}
        part.walk = part._reading()
        return part

    def _open(self, name: str, low: int, high: int, now: int | None) -> None:
        grid = self._spec[name].grid
        low, high = -(-low // grid), high // grid
        if low > high:
            raise ValueError(f"{name} has no value between its bounds")
        variable = self.cp.new_int_var(low, high, name)
        self.variables[name] = variable
        if now is not None:  # the search starts from the shape as it is: without this it may find none in time
            self.cp.add_hint(variable, min(max(now // grid, low), high))
        expr = variable * grid if grid > 1 else variable
        self._sides[name] = Side(expr if low < high else low * grid, low * grid, high * grid)

    def slack(self, name: str, most: int) -> Side:
        """A variable from 0 to ``most`` under ``name``, which expressions may use as a knob; it is no part of the
        shape.
        """
        self._sides[name] = self._variable(0, most)
        return self._sides[name]

    def unknown(self, low: int, high: int) -> Side:
        """A variable between two ends, for facts that several readings share."""
        return self._variable(low, high)

    def total(self, weighed: Sequence[tuple[Side, int]]) -> Side:
        """The sum of sides, each times its weight."""
        return self._sum([self._times(side, weight) for side, weight in weighed])

    def number(self, node: Expr) -> Pair:
        """``node`` as a pair of bounds."""
        return self.walk.number(node)

    def condition(self, node: Cond) -> Holds:
        """``node`` as literals."""
        return self.walk.condition(node)

    def side_of(self, knob: str) -> Side:
        """The variable of a free knob, in the knob's own unit."""
        return self._sides[knob]

    def values(self, read: Callable[[Any], int]) -> dict[str, int]:
        """The free knobs' values, each in its own unit, from what a solver says of the variables."""
        return {name: read(variable) * self._spec[name].grid for name, variable in self.variables.items()}

    def demand(self, node: Cond, when: Any = None) -> None:
        """Requires that ``node`` surely holds, only where the literal ``when`` (or each of several) does if there is
        one. Raises Lacking.
        """
        match node:
            case AtMost(left, right):
                a, b = self.number(left), self.number(right)
                self._post(a.high, b.low, when)
            case Both(items):
                for item in items:
                    self.demand(item, when)
            case Either(items):
                self._demand_one(items, when)
            case _:
                self._assert([self.condition(node).sure], when)

    def allow(self, node: Cond, when: Any = None) -> None:
        """Requires that ``node`` holds for some value that the facts allow, only where ``when`` does if there is one.

        Raises Lacking.
        """
        match node:
            case AtMost(left, right):
                a, b = self.number(left), self.number(right)
                self._post(a.low, b.high, when)
            case Both(items):
                for item in items:
                    self.allow(item, when)
            case _:
                self._assert([self.condition(node).maybe], when)

    def _demand_one(self, items: Sequence[Cond], when: Any) -> None:
        # a comparison needs no literal of its own where every alternative is ruled out beforehand
        literals: list[Any] = []
        compared: list[Cond] = []
        for item in items:
            if isinstance(item, AtMost):
                compared.append(item)
                continue
            sure = self.condition(item).sure
            if sure is True:
                return
            if sure is not False:
                literals.append(sure)
        if not literals and len(compared) == 1:
            self.demand(compared[0], when)
        else:
            self._assert([*literals, *(self.condition(item).sure for item in compared)], when)

    def _post(self, left: Side, right: Side, when: Any) -> None:
        if left.high <= right.low:
            return
        if left.low > right.high:
            self._assert([], when)
            return
        posted = self.cp.add(left.expr <= right.expr)
        if when is not None:
            posted.only_enforce_if(when)

    def _assert(self, literals: Sequence[Any], when: Any) -> None:
        if any(literal is True for literal in literals):
            return
        posted = self.cp.add_bool_or([literal for literal in literals if literal is not False])
        if when is not None:
            posted.only_enforce_if(when)

    def better(self, side: Side, other: Side, sense: Sense, by: int) -> bool:
        """Requires that ``side`` is better than ``other`` by at least ``by``; False where that cannot be."""
        if sense == "min":
            side, other = other, side
        if side.high < other.low + by:
            return False
        self.cp.add(side.expr - other.expr >= by)
        return True

    @property
    def size(self) -> int:
        """How many constraints are posted so far."""
        return len(self.cp.proto.constraints)

    def literal(self, name: str) -> Any:
        """A fresh literal, to switch a demand on and off."""
        return self.cp.new_bool_var(name)

    # the algebra

    def const(self, value: int) -> Pair:
        side = _number(value)
        return Pair(side, side)

    def between(self, low: Pair, high: Pair, nominal: Pair) -> Pair:
        return Pair(self._extreme([low.low, high.low], least=True), self._extreme([low.high, high.high], least=False))

    def agree(self, name: str, ways: Sequence[Callable[[], Pair]]) -> Pair:
        known: list[Pair] = []
        lacking: Lacking | None = None
        for way in ways:
            try:
                known.append(way())
            except Lacking as error:
                lacking = error
        if not known:
            raise lacking or Lacking(frozenset((name,)))
        if self.agreeing:
            return self._agreed(known)
        if len(known) == 1:
            return known[0]
        low = self._extreme([pair.low for pair in known], least=False)
        high = self._extreme([pair.high for pair in known], least=True)
        # where they contradict each other (the check says so) either may be right
        meet = self._compare(low, high)
        return Pair(self._choose(meet, low, self._extreme([pair.low for pair in known], least=True)),
                    self._choose(meet, high, self._extreme([pair.high for pair in known], least=False)))

    def _agreed(self, known: Sequence[Pair]) -> Pair:
        # opened facts must agree with what else is known of the value, unless they never can
        low = self._extreme([pair.low for pair in known], least=False)
        high = self._extreme([pair.high for pair in known], least=True)
        if low.low > high.high:
            return Pair(self._extreme([pair.low for pair in known], least=True),
                        self._extreme([pair.high for pair in known], least=False))
        self._post(low, high, None)
        return Pair(low, low if all(pair.exact for pair in known) else high)

    def _interval(self, value: Interval) -> Pair:
        low = _number(value.low)
        return Pair(low, low if value.exact else _number(value.high))

    def knob(self, name: str) -> Pair:
        if name in self._sides:
            side = self._sides[name]
            return Pair(side, side)
        if name in self._knobs:
            return self._interval(self._knobs[name])
        default = self._spec[name].default
        if isinstance(default, Expr):  # it follows from knobs that are free
            if name not in self._follows:
                self._follows[name] = self.walk.number(default)
            return self._follows[name]
        raise Lacking(frozenset((name,)))

    def as_is(self, name: str) -> Pair:
        if name not in self._as_is:
            raise Lacking(frozenset((name,)))
        return self._interval(self._as_is[name])

    def fact(self, name: str, otherwise: Callable[[], Pair] | None) -> Pair:
        if name in self.opened:
            self.touched.add(name)
            side = self.opened[name]
            return Pair(side, side)
        if name in self._given.facts:
            return self._interval(self._given.facts[name])
        if otherwise is not None:
            return otherwise()
        if name in self.zeroed:
            return self.const(0)
        raise Lacking(frozenset((name,)))

    def add(self, terms: Sequence[Pair]) -> Pair:
        low = self._sum([term.low for term in terms])
        return Pair(low, low if all(term.exact for term in terms) else self._sum([term.high for term in terms]))

    @staticmethod
    def _sum(sides: Sequence[Side]) -> Side:
        total = sum(side.low for side in sides if side.fixed)
        moving = [side for side in sides if not side.fixed]
        low, high = sum(side.low for side in sides), sum(side.high for side in sides)
        if max(abs(low), abs(high)) > LARGEST:
            raise CannotLower("a sum exceeds 60 bits")
        if not moving:
            return _number(total)
        expr = moving[0].expr
        for side in moving[1:]:
            expr = expr + side.expr
        return Side(expr + total if total else expr, low, high)

    def negative(self, inner: Pair) -> Pair:
        low = self._times(inner.high, -1)
        return Pair(low, low if inner.exact else self._times(inner.low, -1))

    @staticmethod
    def _times(side: Side, factor: int) -> Side:
        if side.fixed or factor == 0:
            return _number(side.low * factor)
        ends = sorted((side.low * factor, side.high * factor))
        if max(map(abs, ends)) > LARGEST:
            raise CannotLower("a product exceeds 60 bits")
        return Side(side.expr * factor, ends[0], ends[1])

    def product(self, left: Pair, right: Pair) -> Pair:
        if right.exact and right.low.fixed:
            left, right = right, left
        if left.exact and left.low.fixed:
            factor = left.low.low
            if factor < 0:
                return self.negative(self.product(self.const(-factor), right))
            low = self._times(right.low, factor)
            return Pair(low, low if right.exact else self._times(right.high, factor))
        if min(left.low.low, right.low.low) < 0:
            raise CannotLower("a product of two unknowns that may be negative")
        low = self._multiply(left.low, right.low)
        return Pair(low, low if left.exact and right.exact else self._multiply(left.high, right.high))

    def _multiply(self, left: Side, right: Side) -> Side:
        if left.fixed:
            return self._times(right, left.low)
        if right.fixed:
            return self._times(left, right.low)
        # only what moves is multiplied: (low + rest) * other = low * other + rest * other keeps the range of the
        # product, and so the solver's work, as small as the factors' own ranges
        for one, other in ((left, right), (right, left)):
            if one.low > one.high - one.low:
                rest = Side(one.expr - one.low, 0, one.high - one.low)
                return self._sum([self._times(other, one.low), self._multiply(rest, other)])
        result = self._variable(left.low * right.low, left.high * right.high)
        self.cp.add_multiplication_equality(result.expr, [self._single(left), self._single(right)])
        return result

    def _single(self, side: Side) -> Any:
        # CP-SAT multiplies and divides by expressions of one variable only; of more, the model is invalid
        if side.fixed or isinstance(side.expr, cp_model.IntVar):
            return side.expr
        variable = self.cp.new_int_var(side.low, side.high, "")
        self.cp.add(variable == side.expr)
        return variable

    def _variable(self, low: int, high: int) -> Side:
        if max(abs(low), abs(high)) > LARGEST:
            raise CannotLower("a quantity exceeds 60 bits")
        return Side(self.cp.new_int_var(low, high, "") if low < high else low, low, high)

    def quotient(self, left: Pair, right: Pair) -> Pair:
        if right.low.low <= 0:
            raise CannotLower("division by what may not be positive")
        if left.low.low < 0 and not (right.exact and right.low.fixed):
            raise CannotLower("a quotient of what may be negative by an unknown")
        low = self._divide(left.low, right.high)
        return Pair(low, low if left.exact and right.exact else self._divide(left.high, right.low))

    def _divide(self, left: Side, right: Side) -> Side:
        corners = [left.low // right.low, left.low // right.high, left.high // right.low, left.high // right.high]
        result = self._variable(min(corners), max(corners))
        if result.fixed:
            return result
        if right.fixed:
            divisor = right.low  # rounds down below zero too, which CP-SAT's own division does not
            self.cp.add(result.expr * divisor <= left.expr)
            self.cp.add(left.expr <= result.expr * divisor + (divisor - 1))
        else:
            self.cp.add_division_equality(result.expr, self._single(left), self._single(right))
        return result

    def remainder(self, left: Pair, modulus: int) -> Pair:
        if not left.exact:
            return self._interval(Interval(0, modulus - 1))
        side = left.low
        if side.fixed:
            return self.const(side.low % modulus)
        whole = self._divide(side, _number(modulus))
        rest = self._variable(0, modulus - 1)
        self.cp.add(rest.expr == side.expr - whole.expr * modulus)
        return Pair(rest, rest)

    def least(self, items: Sequence[Pair]) -> Pair:
        return self._both_extremes(items, least=True)

    def greatest(self, items: Sequence[Pair]) -> Pair:
        return self._both_extremes(items, least=False)

    def _both_extremes(self, items: Sequence[Pair], *, least: bool) -> Pair:
        low = self._extreme([item.low for item in items], least=least)
        if all(item.exact for item in items):
            return Pair(low, low)
        return Pair(low, self._extreme([item.high for item in items], least=least))

    def _extreme(self, sides: Sequence[Side], *, least: bool) -> Side:
        sides = list(dict.fromkeys(sides))
        if least:
            bound = min(side.high for side in sides)
            sides = [side for side in sides if side.low < bound or side.high == bound]
        else:
            bound = max(side.low for side in sides)
            sides = [side for side in sides if side.high > bound or side.low == bound]
        if all(side.fixed for side in sides):
            return _number((min if least else max)(side.low for side in sides))
        if len(sides) == 1:
            return sides[0]
        pick = min if least else max
        result = self._variable(pick(side.low for side in sides), pick(side.high for side in sides))
        if result.fixed:
            return result
        post = self.cp.add_min_equality if least else self.cp.add_max_equality
        post(result.expr, [side.expr for side in sides])
        return result

    def curve(self, axis: Pair, curve: Curve) -> Pair:
        if axis.exact:
            low = self._on(curve, axis.low)
            return Pair(low, low)
        steps = [after - before for before, after in pairwise(curve.ys)]
        if all(step >= 0 for step in steps):
            return Pair(self._on(curve, axis.low), self._on(curve, axis.high))
        if all(step <= 0 for step in steps):
            return Pair(self._on(curve, axis.high), self._on(curve, axis.low))
        ends = [self._on(curve, axis.low), self._on(curve, axis.high)]
        return Pair(self._turns(curve, axis, ends, least=True), self._turns(curve, axis, ends, least=False))

    def _turns(self, curve: Curve, axis: Pair, ends: Sequence[Side], *, least: bool) -> Side:
        """The least (or greatest) value of a curve over all that the axis may be: at its ends, or where it turns."""
        rank = 1 if least else -1
        reach = curve.over(max(axis.low.low, curve.xs[0]), min(axis.high.high, curve.xs[-1]))
        nothing = _number(reach.high if least else reach.low)
        found = [*ends]
        for before, place, after in zip(curve.ys, range(1, len(curve.xs)), curve.ys[2:], strict=False):
            x, y = curve.xs[place], curve.ys[place]
            # of a flat part the first point will do: what begins beyond it begins on the flat part
            if rank * before > rank * y <= rank * after:
                inside = self._all([self._compare(axis.low, _number(x)), self._compare(_number(x), axis.high)])
                found.append(self._choose(inside, _number(y), nothing))
        return self._extreme(found, least=least)

    def _on(self, curve: Curve, side: Side) -> Side:
        """The curve's value, one literal a segment; where there is no curve there is no shape."""
        first, last = curve.xs[0], curve.xs[-1]
        if side.low > last or side.high < first:
            self._assert([], None)
            return _number(curve.ys[0])
        if side.low < first:
            self.cp.add(side.expr >= first)
        if side.high > last:
            self.cp.add(side.expr <= last)
        reach = curve.over(max(side.low, first), min(side.high, last))
        result = self._variable(reach.low, reach.high)
        if result.fixed:
            return result
        for place, literal in self._segments(curve.xs, side).items():
            x0, y0, y1 = curve.xs[place], curve.ys[place], curve.ys[place + 1]
            width = curve.xs[place + 1] - x0
            line = (side.expr - x0) * (y1 - y0) + y0 * width
            self.cp.add_linear_constraint(line - result.expr * width, 0, width - 1).only_enforce_if(literal)
        return result

    def _segments(self, xs: tuple[int, ...], side: Side) -> dict[int, Any]:
        """A literal for each stretch of ``xs`` that ``side`` may lie in; curves over the same stretches share them."""
        key = (side, xs)
        if key not in self._stretches:
            found = {}
            for place, (x0, x1) in enumerate(pairwise(xs)):
                if x1 >= side.low and x0 <= side.high:
                    found[place] = self.cp.new_bool_var("")
                    self.cp.add_linear_constraint(side.expr, x0, x1).only_enforce_if(found[place])
            self.cp.add_exactly_one(found.values())
            self._stretches[key] = found
        return self._stretches[key]

    def select(self, condition: Holds, then: Callable[[], Pair], otherwise: Callable[[], Pair]) -> Pair:
        if condition.sure is True:
            return then()
        if condition.maybe is False:
            return otherwise()
        a, b = then(), otherwise()
        if condition.sure is condition.maybe:
            low = self._choose(condition.sure, a.low, b.low)
            if a.exact and b.exact:
                return Pair(low, low)
            return Pair(low, self._choose(condition.sure, a.high, b.high))
        worst = self._extreme([a.low, b.low], least=True)
        best = self._extreme([a.high, b.high], least=False)
        low = self._choose(condition.sure, a.low, self._choose(self._not(condition.maybe), b.low, worst))
        high = self._choose(condition.sure, a.high, self._choose(self._not(condition.maybe), b.high, best))
        return Pair(low, high)

    def _choose(self, literal: Any, then: Side, otherwise: Side) -> Side:
        if literal is True or then is otherwise:
            return then
        if literal is False:
            return otherwise
        result = self._variable(min(then.low, otherwise.low), max(then.high, otherwise.high))
        if not result.fixed:
            self.cp.add(result.expr == then.expr).only_enforce_if(literal)
            self.cp.add(result.expr == otherwise.expr).only_enforce_if(self._not(literal))
        return result

    @staticmethod
    def _not(literal: Any) -> Any:
        return (not literal) if isinstance(literal, bool) else literal.negated()

    def at_most(self, left: Pair, right: Pair) -> Holds:
        sure = self._compare(left.high, right.low)
        if left.exact and right.exact:
            return Holds(sure, sure)
        return Holds(sure, self._compare(left.low, right.high))

    def _compare(self, left: Side, right: Side) -> Any:
        if left.high <= right.low:
            return True
        if left.low > right.high:
            return False
        literal = self.cp.new_bool_var("")
        self.cp.add(left.expr <= right.expr).only_enforce_if(literal)
        self.cp.add(left.expr >= right.expr + 1).only_enforce_if(literal.negated())
        return literal

    def both(self, items: Sequence[Holds]) -> Holds:
        sure = self._all([item.sure for item in items])
        if all(item.sure is item.maybe for item in items):
            return Holds(sure, sure)
        return Holds(sure, self._all([item.maybe for item in items]))

    def _all(self, literals: Sequence[Any]) -> Any:
        if any(literal is False for literal in literals):
            return False
        rest = [literal for literal in literals if literal is not True]
        if not rest:
            return True
        if len(rest) == 1:
            return rest[0]
        result = self.cp.new_bool_var("")
        self.cp.add_bool_and(rest).only_enforce_if(result)
        self.cp.add_bool_or([*map(self._not, rest), result])
        return result

    def either(self, items: Sequence[Holds]) -> Holds:
        return self.negation(self.both([self.negation(item) for item in items]))

    def negation(self, inner: Holds) -> Holds:
        sure = self._not(inner.maybe)
        return Holds(sure, sure if inner.sure is inner.maybe else self._not(inner.sure))


def far_from(lowering: Lowering, shape: Mapping[str, int], steps: Mapping[str, int]) -> None:
    """Requires that some free knob differs from ``shape`` by at least its step."""
    lowering.cp.clear_hints()  # type: ignore[no-untyped-call]  # the shape it started from may be left out now
    literals = []
    for name, step in steps.items():
        side = lowering.side_of(name)
        if side.fixed:
            continue
        for bound, above in ((shape[name] + step, True), (shape[name] - step, False)):
            if (above and bound > side.high) or (not above and bound < side.low):
                continue
            literal = lowering.cp.new_bool_var("")
            condition = side.expr >= bound if above else side.expr <= bound
            lowering.cp.add(condition).only_enforce_if(literal)
            literals.append(literal)
    lowering.cp.add_bool_or(literals)


@dataclass(frozen=True, slots=True)
class Found:
    """What one solve gave: CP-SAT's word for it, the free knobs' values and the objective where it has a shape."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    shape: dict[str, int]
    objective: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a side reaches, with what one solution there tells (nothing where the time limit came first)."""

    value: int
    told: dict[str, int]
    proven: bool


class Stages:
    """Solves a lowering for one objective after another, each held at its best while the next is sought.

    One worker and a fixed seed, so that equal questions get equal answers; ``seconds`` limits all solves
    together. ``linear`` models hold sums of wide numbers and hardly a choice: a search led by the linear relaxation
    of all of it makes milliseconds of what others do not end; where it does not end itself, the others are tried.
    """

    def __init__(self, lowering: Lowering, seconds: float, *, linear: bool = False) -> None:
        self._lowering = lowering
        self._solver = cp_model.CpSolver()
        self._solver.parameters.num_workers = 1
        self._solver.parameters.random_seed = 1
        # 9.15 calls `A x <= y or A x > y` infeasible past 2^33 with this on
        self._solver.parameters.auto_detect_greater_than_at_least_one_of = False
        self._linear = linear
        if linear:
            self._solver.parameters.linearization_level = 2
        self._until = time.monotonic() + seconds
        #: Whether the time limit left it open if some set was possible.
        self.undecided = False

    def run(self, objectives: Sequence[tuple[Side, Sense]], best_before: int | None = None,
            start: Mapping[str, int] | None = None, *, limits: Sequence[tuple[Side, Sense, int]] = (),
            proven: int = 1) -> Found:
        """The best shape by the first objective, then the next, and so on.

        The result's status and objective are those of the first. Where the tie-breaks are too hard to prove in a
        moment, each knob by itself is taken as near to ``start`` as the others allow. ``best_before`` is an
        objective that nothing can exceed, from a solve with fewer constraints: reaching it again is already a
        proof. ``limits`` are values that sides must reach in this run. The first ``proven`` objectives get all the time
        there is; the status is then the worst of theirs.
        """
        first, *later = objectives
        if best_before is not None:
            again = self._lowering.cp.clone()
            self._hold(again, first, best_before)
            stage, *rest = _merged(later) or [(_number(0), "max")]
            found = self._once(again, *stage, seconds=TIE_SECONDS)
            if found.status == "optimal" and not rest:
                return Found("optimal", found.shape, best_before)
        cp = self._lowering.cp.clone()
        if best_before is not None:
            side, sense = first
            self._hold(cp, (side, "min" if sense == "max" else "max"), best_before)
        for side, sense, value in limits:
            self._hold(cp, (side, sense), value)
        best = self._once(cp, *first)
        if best.status not in ("optimal", "feasible"):
            return best
        self._hold(cp, first, best.objective)
        status, shape = best.status, best.shape
        for stage in later[:proven - 1]:
            found = self._once(cp, *stage)
            if found.status in ("optimal", "feasible"):
                shape = found.shape
                self._hold(cp, stage, found.objective)
            if found.status != "optimal":
                status = "feasible"
        for stage in _merged(later[proven - 1:]):
            found = self._once(cp, *stage, seconds=TIE_SECONDS)
            if found.status in ("optimal", "feasible"):
                shape = found.shape
            if found.status != "optimal":
                shape = self._near(cp, shape, start or {})
                break
            self._hold(cp, stage, found.objective)
        return Found(status, shape, best.objective)

    def _near(self, cp: cp_model.CpModel, shape: Mapping[str, int], start: Mapping[str, int]) -> dict[str, int]:
        near = dict(shape)
        for name in self._lowering.variables:
            side = self._lowering.side_of(name)
            if side.fixed or name not in start or near[name] == start[name]:
                continue
            part = cp.clone()
            for other, value in near.items():
                if other != name and not self._lowering.side_of(other).fixed:
                    part.add(self._lowering.side_of(other).expr == value)
            above = near[name] > start[name]
            part.add(side.expr >= start[name] if above else side.expr <= start[name])
            found = self._once(part, side, "min" if above else "max", seconds=TIE_SECONDS)
            if found.status in ("optimal", "feasible"):
                near = found.shape
        return near

    def possible(self, switches: Mapping[Any, bool]) -> bool:
        """Whether any shape exists with these literals set; an undecided one counts as possible."""
        status = self._once(self._switched(switches), _number(0), "max").status
        self.undecided = self.undecided or status == "unknown"
        return status != "infeasible"

    def reach(self, side: Side, sense: Sense, switches: Mapping[Any, bool],
              tell: Mapping[str, Side] | None = None) -> Reach | None:
        """The greatest (or least) value of ``side`` with these literals set, and the values of the sides to ``tell`` in
        one solution there; None where nothing is possible.

        Where the time limit came first the value is one that nothing exceeds, and ``proven`` is False.
        """
        found = self._once(self._switched(switches), side, sense)
        if found.status == "infeasible":
            return None
        if found.status == "unknown":
            return Reach(side.high if sense == "max" else side.low, {}, False)
        told = {name: one.low if one.fixed else int(self._solver.value(one.expr))
                for name, one in (tell or {}).items()}
        if found.status == "optimal":
            return Reach(found.objective, told, True)
        bound = self._solver.best_objective_bound
        return Reach(ceil(bound) if sense == "max" else floor(bound), told, False)

    def _switched(self, switches: Mapping[Any, bool]) -> cp_model.CpModel:
        cp = self._lowering.cp.clone()
        for literal, on in switches.items():
            cp.add(literal == int(on))
        return cp

    @staticmethod
    def _hold(cp: cp_model.CpModel, stage: tuple[Side, Sense], value: int) -> None:
        side, sense = stage
        if not side.fixed:
            cp.add(side.expr >= value if sense == "max" else side.expr <= value)

    def _once(self, cp: cp_model.CpModel, side: Side, sense: Sense, seconds: float | None = None) -> Found:
        cp.clear_objective()  # type: ignore[no-untyped-call]
        if not side.fixed:
            (cp.maximize if sense == "max" else cp.minimize)(side.expr)
        left = max(self._until - time.monotonic(), 0.01)
        self._solver.parameters.max_time_in_seconds = left if seconds is None else min(left, seconds)
        # much probing costs more than the first objective itself; with none, two curves of a row take ten times longer
        self._solver.parameters.cp_model_probing_level = 1 if seconds is None else 2
        if self._linear:
            whole = self._solver.parameters.max_time_in_seconds
            self._solver.parameters.search_branching = cp_model.LP_SEARCH
            self._solver.parameters.max_time_in_seconds = min(LINEAR_SECONDS, whole)
        status = self._solver.status_name(self._solver.solve(cp))
        if self._linear and status in ("UNKNOWN", "FEASIBLE") and whole > LINEAR_SECONDS:
            self._solver.parameters.search_branching = cp_model.PORTFOLIO_SEARCH
            self._solver.parameters.max_time_in_seconds = whole - LINEAR_SECONDS
            status = self._solver.status_name(self._solver.solve(cp))
        if status == "MODEL_INVALID":
            raise CannotLower(cp.validate())  # never to be taken for a time limit
        if status not in ("OPTIMAL", "FEASIBLE"):
            return Found("infeasible" if status == "INFEASIBLE" else "unknown", {}, 0)
        shape = self._lowering.values(self._solver.value)
        objective = side.low if side.fixed else self._solver.value(side.expr)
        return Found("optimal" if status == "OPTIMAL" else "feasible", shape, objective)


def _merged(stages: Sequence[tuple[Side, Sense]]) -> list[tuple[Side, Sense]]:
    """The stages as one weighted objective where that stays within 60 bits: one solve instead of several."""
    stages = [stage for stage in stages if not stage[0].fixed]
    weight, low, high = 1, 0, 0
    expr: Any = 0
    for side, sense in reversed(stages):
        sign = 1 if sense == "max" else -1
        ends = sorted((sign * side.low * weight, sign * side.high * weight))
        expr = expr + side.expr * (sign * weight)
        low, high = low + ends[0], high + ends[1]
        weight *= side.high - side.low + 1
        if max(weight, -low, high) > LARGEST:  # a value far from 0 overflows though its range is small
            return list(stages)
    return [(Side(expr, low, high), "max")] if stages else []


def changed(lowering: Lowering, shape: Mapping[str, int]) -> Side:
    """How many free knobs differ from ``shape``."""
    literals = []
    always = 0
    for name in lowering.variables:
        side = lowering.side_of(name)
        if shape[name] < side.low or shape[name] > side.high:
            always += 1
            continue
        if side.fixed:
            continue
        literal = lowering.cp.new_bool_var("")
        lowering.cp.add(side.expr == shape[name]).only_enforce_if(literal.negated())
        literals.append(literal)
    if not literals:
        return _number(always)
    return Side(sum(literals) + always, always, always + len(literals))


def moved(lowering: Lowering, shape: Mapping[str, int], steps: Mapping[str, int]) -> Side:
    """How far the free knobs are from ``shape``, a step of each counting about as much as a step of the others."""
    total: list[Side] = []
    for name, step in steps.items():
        side = lowering.side_of(name)
        if side.fixed:
            continue
        low, high = side.low - shape[name], side.high - shape[name]
        distance = lowering.cp.new_int_var(0, max(abs(low), abs(high)), "")
        lowering.cp.add_abs_equality(distance, side.expr - shape[name])
        weight = max(max(steps.values()) // step, 1)
        total.append(Side(distance * weight, 0, max(abs(low), abs(high)) * weight))
    return lowering.add([Pair(side, side) for side in total]).low
