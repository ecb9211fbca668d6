"""Expressions over knobs and facts: declared once, read many ways.

A declaration builds a graph with ordinary operators plus :func:`minimum`, :func:`maximum`, :func:`select`,
floor division and comparisons. A *reading* of the graph is an :class:`Algebra`: on intervals, on the
best-supported figures, or as a CP-SAT model. :class:`Walk` visits each node once and takes only the branch that a
decided condition leaves, so a fact that a shape does not need is never asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Final, Generic, TypeVar, cast

from models.interval import Interval, point


class Expr:
    """A whole-number expression. All arithmetic is exact; ``//`` rounds down."""

    __slots__ = ()

    def __add__(self, other: Expr | int) -> Expr:
        return Sum((self, lift(other)))

    def __radd__(self, other: int) -> Expr:
        return Sum((lift(other), self))

    def __sub__(self, other: Expr | int) -> Expr:
        return Sum((self, Negative(lift(other))))

    def __rsub__(self, other: int) -> Expr:
        return Sum((lift(other), Negative(self)))

    def __mul__(self, other: Expr | int) -> Expr:
        return Product(self, lift(other))

    def __rmul__(self, other: int) -> Expr:
        return Product(lift(other), self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return FloorQuotient(self, lift(other))

    def __le__(self, other: Expr | int) -> Cond:
        return AtMost(self, lift(other))

    def __ge__(self, other: Expr | int) -> Cond:
        return AtMost(lift(other), self)

    def __lt__(self, other: Expr | int) -> Cond:
        return AtMost(self + 1, lift(other))

    def __gt__(self, other: Expr | int) -> Cond:
        return AtMost(lift(other) + 1, self)

    def equals(self, other: Expr | int) -> Cond:
        """Whether both have the same value (``==`` stays Python's own identity)."""
        other = lift(other)
        return Both((AtMost(self, other), AtMost(other, self)))


class Cond:
    """A condition. Read on intervals it may be true, false, or depend on digits nobody printed."""

    __slots__ = ()

    def __and__(self, other: Cond) -> Cond:
        return Both((self, other))

    def __or__(self, other: Cond) -> Cond:
        return Either((self, other))

    def __invert__(self) -> Cond:
        return Not(self)


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A number known exactly."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Between(Expr):
    """Something known only to lie between two values; ``nominal`` is the best-supported one.

    It is one number for all shapes in which ``per`` has the same values, and may be another where they differ.
    """

    low: Expr
    high: Expr
    nominal: Expr
    per: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Knob(Expr):
    """What the operator sets, in the knob's own unit."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class AsIs(Expr):
    """The value a knob has on the running site, whatever the shape under question sets it to."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Fact(Expr):
    """What is given; ``otherwise`` is how to compute it where nobody gave it (None: it is then missing)."""

    name: str
    otherwise: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Agree(Expr):
    """One value known in several ways: what all of them allow. Ways with missing facts do not count."""

    name: str
    ways: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Named(Expr):
    """A quantity under the name that the ledger gives its row."""

    name: str
    inner: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Expr):
    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Negative(Expr):
    inner: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Product(Expr):
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class FloorQuotient(Expr):
    """``left / right`` rounded down; ``right`` must be positive."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Remainder(Expr):
    """``left`` modulo a positive constant, never negative."""

    left: Expr
    modulus: int


@dataclass(frozen=True, slots=True, eq=False)
class Least(Expr):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Greatest(Expr):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Curve(Expr):
    """A piecewise-linear function of ``axis`` through whole-number points, rounded down between them.

    ``xs`` rise strictly and are at least two. Beyond them it has no value: ``of`` says what is not known there.
    """

    of: str
    axis: Expr
    xs: tuple[int, ...]
    ys: tuple[int, ...]

    def at(self, x: int) -> int:
        """The value at ``x``, which must lie within the points."""
        place = min(max(bisect_right(self.xs, x), 1), len(self.xs) - 1)
        x0, x1, y0, y1 = self.xs[place - 1], self.xs[place], self.ys[place - 1], self.ys[place]
        return y0 + (x - x0) * (y1 - y0) // (x1 - x0)

    def over(self, low: int, high: int) -> Interval:
        """All values from ``low`` to ``high``, which must lie within the points."""
        inside = self.ys[bisect_left(self.xs, low):bisect_right(self.xs, high)]
        ends = (self.at(low), self.at(high), *inside)
        return Interval(min(ends), max(ends))


@dataclass(frozen=True, slots=True, eq=False)
class Select(Expr):
    condition: Cond
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AtMost(Cond):
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Both(Cond):
    items: tuple[Cond, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Either(Cond):
    items: tuple[Cond, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not(Cond):
    inner: Cond


ALWAYS: Final[Cond] = Both(())
NEVER: Final[Cond] = Either(())


def lift(value: Expr | int) -> Expr:
    """An expression as it is, a whole number as a constant."""
    return value if isinstance(value, Expr) else Const(value)


def minimum(*items: Expr | int) -> Expr:
    """The least of ``items``."""
    return Least(tuple(map(lift, items)))


def maximum(*items: Expr | int) -> Expr:
    """The greatest of ``items``."""
    return Greatest(tuple(map(lift, items)))


def select(condition: Cond, then: Expr | int, otherwise: Expr | int) -> Expr:
    """``then`` where ``condition`` holds, else ``otherwise``."""
    return Select(condition, lift(then), lift(otherwise))


def ceil_div(value: Expr, divisor: Expr | int) -> Expr:
    """``value / divisor`` rounded up; ``divisor`` must be positive."""
    return (value + lift(divisor) - 1) // divisor


def align_up(value: Expr, unit: int) -> Expr:
    """``value`` rounded up to whole multiples of ``unit``."""
    return ceil_div(value, unit) * unit


def align_down(value: Expr, unit: int) -> Expr:
    """``value`` rounded down to whole multiples of ``unit``."""
    return (value // unit) * unit


def between(
    low: Expr | int, high: Expr | int, nominal: Expr | int | None = None, *, per: Sequence[Expr] = ()
) -> Expr:
    """Something known only to lie between two values; the middle is best supported unless one is named.

    It may be another number wherever one of ``per`` has another value.
    """
    low, high = lift(low), lift(high)
    return Between(low, high, (low + high) // 2 if nominal is None else lift(nominal), tuple(per))


def remainder(value: Expr, modulus: int) -> Expr:
    """What ``value`` exceeds a whole multiple of ``modulus`` by: 0 to ``modulus - 1``."""
    return Remainder(value, modulus)


def total(items: Sequence[Expr]) -> Expr:
    """The sum of ``items``; 0 of none."""
    return Sum(tuple(items))


N = TypeVar("N")
C = TypeVar("C")


class Algebra(ABC, Generic[N, C]):
    """One way of reading an expression graph: ``N`` stands for numbers, ``C`` for conditions."""

    @abstractmethod
    def const(self, value: int) -> N: ...
    @abstractmethod
    def between(self, low: N, high: N, nominal: N) -> N: ...
    @abstractmethod
    def agree(self, name: str, ways: Sequence[Callable[[], N]]) -> N: ...
    @abstractmethod
    def knob(self, name: str) -> N: ...
    @abstractmethod
    def as_is(self, name: str) -> N: ...
    @abstractmethod
    def fact(self, name: str, otherwise: Callable[[], N] | None) -> N: ...
    @abstractmethod
    def add(self, terms: Sequence[N]) -> N: ...
    @abstractmethod
    def negative(self, inner: N) -> N: ...
    @abstractmethod
    def product(self, left: N, right: N) -> N: ...
    @abstractmethod
    def quotient(self, left: N, right: N) -> N: ...
    @abstractmethod
    def remainder(self, left: N, modulus: int) -> N: ...
    @abstractmethod
    def least(self, items: Sequence[N]) -> N: ...
    @abstractmethod
    def greatest(self, items: Sequence[N]) -> N: ...
    @abstractmethod
    def curve(self, axis: N, curve: Curve) -> N: ...
    @abstractmethod
    def select(self, condition: C, then: Callable[[], N], otherwise: Callable[[], N]) -> N: ...
    @abstractmethod
    def at_most(self, left: N, right: N) -> C: ...
    @abstractmethod
    def both(self, items: Sequence[C]) -> C: ...
    @abstractmethod
    def either(self, items: Sequence[C]) -> C: ...
    @abstractmethod
    def negation(self, inner: C) -> C: ...

    def named(self, name: str, value: N) -> N:
        """What becomes of a quantity with a row name; here: itself."""
        return value


class Walk(Generic[N, C]):
    """Reads expressions by one algebra, each node once."""

    def __init__(self, algebra: Algebra[N, C]) -> None:
        self._algebra = algebra
        self._numbers: dict[int, N] = {}
        self._conditions: dict[int, C] = {}
        self._kept: list[Expr | Cond] = []  # ids are only unique among living nodes

    def number(self, node: Expr) -> N:
        """The value of ``node`` in this reading."""
        key = id(node)
        if key not in self._numbers:
            value = self._number(node)
            self._numbers[key] = value
            self._kept.append(node)
        return self._numbers[key]

    def take(self, node: Expr, value: N) -> None:
        """Takes ``node`` for ``value`` wherever this very object is read."""
        self._numbers[id(node)] = value
        self._kept.append(node)

    def assume(self, node: Cond, truth: C) -> None:
        """Takes ``node`` for ``truth`` wherever this very object is read."""
        self._conditions[id(node)] = truth
        self._kept.append(node)

    def condition(self, node: Cond) -> C:
        """The truth of ``node`` in this reading."""
        key = id(node)
        if key not in self._conditions:
            value = self._condition(node)
            self._conditions[key] = value
            self._kept.append(node)
        return self._conditions[key]

    def _number(self, node: Expr) -> N:
        # by type and not by pattern: this is the inner loop of every reading
        by, number = self._algebra, self.number
        kind = type(node)
        if kind is Const:
            return by.const(cast(Const, node).value)
        if kind is Knob:
            return by.knob(cast(Knob, node).name)
        if kind is Sum:
            return by.add([number(term) for term in cast(Sum, node).terms])
        if kind is Product:
            product = cast(Product, node)
            return by.product(number(product.left), number(product.right))
        if kind is Select:
            choice = cast(Select, node)
            return by.select(self.condition(choice.condition), partial(number, choice.then),
                             partial(number, choice.otherwise))
        if kind is Fact:
            fact = cast(Fact, node)
            return by.fact(fact.name, None if fact.otherwise is None else partial(number, fact.otherwise))
        if kind is Negative:
            return by.negative(number(cast(Negative, node).inner))
        if kind is FloorQuotient:
            quotient = cast(FloorQuotient, node)
            return by.quotient(number(quotient.left), number(quotient.right))
        if kind is Least:
            return by.least([number(item) for item in cast(Least, node).items])
        if kind is Greatest:
            return by.greatest([number(item) for item in cast(Greatest, node).items])
        if kind is Named:
            named = cast(Named, node)
            return by.named(named.name, number(named.inner))
        if kind is AsIs:
            return by.as_is(cast(AsIs, node).name)
        if kind is Between:
            span = cast(Between, node)
            return by.between(number(span.low), number(span.high), number(span.nominal))
        if kind is Remainder:
            rest = cast(Remainder, node)
            return by.remainder(number(rest.left), rest.modulus)
        if kind is Curve:
            curve = cast(Curve, node)
            return by.curve(number(curve.axis), curve)
        if kind is Agree:
            agree = cast(Agree, node)
            return by.agree(agree.name, [partial(number, way) for way in agree.ways])
        raise TypeError(f"no reading for {kind.__name__}")

    def _condition(self, node: Cond) -> C:
        by = self._algebra
        kind = type(node)
        if kind is AtMost:
            pair = cast(AtMost, node)
            return by.at_most(self.number(pair.left), self.number(pair.right))
        if kind is Both:
            return by.both([self.condition(item) for item in cast(Both, node).items])
        if kind is Either:
            return by.either([self.condition(item) for item in cast(Either, node).items])
        if kind is Not:
            return by.negation(self.condition(cast(Not, node).inner))
        raise TypeError(f"no reading for {kind.__name__}")


def parts(node: Expr | Cond) -> Iterator[Expr | Cond]:
    """What ``node`` is directly written with, in order."""
    pending: list[object] = [getattr(node, field.name) for field in fields(node)]  # type: ignore[arg-type]
    while pending:
        item = pending.pop(0)
        if isinstance(item, tuple):
            pending[:0] = item
        elif isinstance(item, Expr | Cond):
            yield item


def inside(nodes: Iterable[Expr | Cond]) -> Iterator[Expr | Cond]:
    """Every node that ``nodes`` are written with, themselves included, each once."""
    seen: set[int] = set()
    pending = list(nodes)
    while pending:
        item = pending.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            pending += parts(item)


def knobs_in(node: Expr | Cond) -> frozenset[str]:
    """The names of the knobs that ``node`` is written with."""
    return frozenset(item.name for item in inside([node]) if isinstance(item, Knob))


def facts_in(node: Expr | Cond) -> dict[str, Fact]:
    """The facts that ``node`` is written with, by name."""
    return {item.name: item for item in inside([node]) if isinstance(item, Fact)}


@dataclass(frozen=True, slots=True)
class Missing:
    """What a value could not be computed without: the names of the facts or knobs nobody gave."""

    names: frozenset[str]


Value = Interval | Missing
#: True, False, None (depends on digits nobody printed), or what is missing to tell.
Truth = bool | None | Missing


class OnIntervals(Algebra[Value, Truth]):
    """Reads an expression on intervals: the result holds every value that the inputs allow.

    ``knobs`` and ``as_is`` are in each knob's own unit. ``printed`` narrows named quantities to what a ledger
    of the same shape printed; where the two contradict each other the prediction stands and the name is
    added to ``contradicted``. Facts in ``zeroed`` count as 0 where nothing gives them: they only shift what is
    asked. Sound for every input; exact where each fact enters in one direction.
    """

    def __init__(
        self,
        *,
        knobs: Mapping[str, Interval],
        as_is: Mapping[str, Interval],
        facts: Mapping[str, Interval],
        printed: Mapping[str, Interval] | None = None,
        zeroed: frozenset[str] = frozenset(),
    ) -> None:
        self._zeroed = zeroed
        self._knobs = knobs
        self._as_is = as_is
        self._facts = facts
        self._printed = printed or {}
        self.contradicted: set[str] = set()

    def const(self, value: int) -> Value:
        return point(value)

    def between(self, low: Value, high: Value, nominal: Value) -> Value:
        known = _all_known((low, high))
        return known if isinstance(known, Missing) else known[0].join(known[1])

    def agree(self, name: str, ways: Sequence[Callable[[], Value]]) -> Value:
        values = [way() for way in ways]
        known = [value for value in values if isinstance(value, Interval)]
        if not known:
            return values[-1]
        agreed = known[0]
        for way in known[1:]:
            meet = agreed.meet(way)
            if meet is None:
                self.contradicted.add(name)
                return agreed.join(way)
            agreed = meet
        return agreed

    def knob(self, name: str) -> Value:
        return _given(self._knobs, name)

    def as_is(self, name: str) -> Value:
        return _given(self._as_is, name)

    def fact(self, name: str, otherwise: Callable[[], Value] | None) -> Value:
        if name not in self._facts:
            if otherwise is not None:
                return otherwise()
            if name in self._zeroed:
                return point(0)
        return _given(self._facts, name)

    def named(self, name: str, value: Value) -> Value:
        seen = self._printed.get(name)
        if seen is None or isinstance(value, Missing):
            return value
        meet = value.meet(seen)
        if meet is None:
            self.contradicted.add(name)
            return value
        return meet

    def add(self, terms: Sequence[Value]) -> Value:
        known = _all_known(terms)
        if isinstance(known, Missing):
            return known
        return Interval(sum(t.low for t in known), sum(t.high for t in known))

    def negative(self, inner: Value) -> Value:
        return inner if isinstance(inner, Missing) else Interval(-inner.high, -inner.low)

    def product(self, left: Value, right: Value) -> Value:
        known = _all_known((left, right))
        if isinstance(known, Missing):
            return known
        a, b = known
        corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        return Interval(min(corners), max(corners))

    def quotient(self, left: Value, right: Value) -> Value:
        known = _all_known((left, right))
        if isinstance(known, Missing):
            return known
        a, b = known
        if b.low <= 0:
            raise ValueError("division by an interval that is not positive")
        corners = (a.low // b.low, a.low // b.high, a.high // b.low, a.high // b.high)
        return Interval(min(corners), max(corners))

    def remainder(self, left: Value, modulus: int) -> Value:
        if isinstance(left, Missing):
            return left
        if left.low // modulus == left.high // modulus:
            return Interval(left.low % modulus, left.high % modulus)
        return Interval(0, modulus - 1)

    def least(self, items: Sequence[Value]) -> Value:
        known = _all_known(items)
        if isinstance(known, Missing):
            return known
        return Interval(min(i.low for i in known), min(i.high for i in known))

    def greatest(self, items: Sequence[Value]) -> Value:
        known = _all_known(items)
        if isinstance(known, Missing):
            return known
        return Interval(max(i.low for i in known), max(i.high for i in known))

    def curve(self, axis: Value, curve: Curve) -> Value:
        if isinstance(axis, Missing):
            return axis
        if axis.low < curve.xs[0] or axis.high > curve.xs[-1]:
            return Missing(frozenset((curve.of,)))
        return curve.over(axis.low, axis.high)

    def select(self, condition: Truth, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
        if isinstance(condition, Missing):
            return condition
        if condition is not None:
            return then() if condition else otherwise()
        known = _all_known((then(), otherwise()))
        return known if isinstance(known, Missing) else known[0].join(known[1])

    def at_most(self, left: Value, right: Value) -> Truth:
        known = _all_known((left, right))
        if isinstance(known, Missing):
            return known
        a, b = known
        if a.high <= b.low:
            return True
        return False if a.low > b.high else None

    def both(self, items: Sequence[Truth]) -> Truth:
        if any(item is False for item in items):
            return False
        missing = [item for item in items if isinstance(item, Missing)]
        if missing:
            return _joined(missing)
        return None if any(item is None for item in items) else True

    def either(self, items: Sequence[Truth]) -> Truth:
        return self.negation(self.both([self.negation(item) for item in items]))

    def negation(self, inner: Truth) -> Truth:
        return (not inner) if isinstance(inner, bool) else inner


class OnNominal(OnIntervals):
    """Reads an expression on the figures as printed: one best-supported value, not a bound."""

    def agree(self, name: str, ways: Sequence[Callable[[], Value]]) -> Value:
        values = [way() for way in ways]
        return next((value for value in values if isinstance(value, Interval)), values[-1])

    def between(self, low: Value, high: Value, nominal: Value) -> Value:
        return nominal


def _given(values: Mapping[str, Interval], name: str) -> Value:
    return values[name] if name in values else Missing(frozenset((name,)))


def _joined(missing: Sequence[Missing]) -> Missing:
    return Missing(frozenset().union(*(item.names for item in missing)))


def _all_known(values: Sequence[Value]) -> list[Interval] | Missing:
    missing = [value for value in values if isinstance(value, Missing)]
    if missing:
        return _joined(missing)
    return [value for value in values if isinstance(value, Interval)]
