"""Many questions at once: the best of each, exactly, by boxes of knob values that interval arithmetic halves.

Questions that differ only in the values of knobs and facts are read together, as arrays. A box of knob values is left
out once its bound is no better than a shape already found, or once some requirement fails all over it; it is halved
otherwise, so that what is left at the end is proven best. Every number is a pair of sides, as in
:mod:`optimizer.lower`: at worst and at best over the facts' intervals; each side has a span over the box. CP-SAT is not
asked, and confirms it in the tests; what is too wide for this search is handed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Final

import numpy as np

from models.evaluate import Knobs
from models.expr import Algebra, AtMost, Both, Cond, Const, Curve, Either, Expr, Knob, Walk, parts
from models.interval import Interval
from optimizer.solve import Question, bound_condition, hard_requires, judged_requires

#: Rounds of halving after which a question is left to CP-SAT.
MOST_ROUNDS: Final = 400
#: Boxes of one question that are halved in one round.
AT_ONCE: Final = 6
#: Boxes held for one question, beyond which it is left to CP-SAT.
MOST_BOXES: Final = 3000
#: Questions read together; more make the arrays slower than they save.
TOGETHER: Final = 512
#: Sums and products stay far below what 64 bits hold.
_LARGEST: Final = 1 << 60

#: How far a condition holds was not decided.
OPEN: Final = -1

#: Below every goal: no shape was found yet.
_NOTHING: Final = np.iinfo(np.int64).min

#: Whole numbers, one for all boxes or one each; the same for truths.
Ints = Any
Truths = Any


class NotForBoxes(Exception):
    """The questions need facts that nobody gave, or are written in a way this search does not cover."""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """What one side of a number can be over each box."""

    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """A number at worst and at best over the facts' intervals; one object where it is exact."""

    low: Span
    high: Span

    @property
    def exact(self) -> bool:
        """Whether both sides are one."""
        return self.low is self.high


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A truth over each box: everywhere in it, and anywhere in it."""

    always: Truths
    ever: Truths


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """A condition: that it surely holds, and that it may."""

    sure: Literal
    maybe: Literal


@dataclass(frozen=True, slots=True)
class Best:
    """The best of one question: ``value`` in the goal's own count, at worst over the facts; None where no shape is.

    ``shape`` are the free knobs. ``proven`` is False where the rounds or the boxes did not suffice: nothing is known.
    """

    value: int | None
    shape: dict[str, int]
    proven: bool


def _least(a: Ints, b: Ints) -> Ints:
    return min(a, b) if type(a) is int and type(b) is int else np.minimum(a, b)


def _most(a: Ints, b: Ints) -> Ints:
    return max(a, b) if type(a) is int and type(b) is int else np.maximum(a, b)


def _all(a: Truths, b: Truths) -> Truths:
    if a is False or b is False:
        return False
    return b if a is True else a if b is True else a & b


def _not(a: Truths) -> Truths:
    return (not a) if type(a) is bool else ~a


def _truth(value: Any) -> Truths:
    return value if type(value) is bool else np.asarray(value) if np.ndim(value) else bool(value)


_TRUE: Final = Literal(True, True)


class OnBoxes(Algebra[Sides, Holds]):
    """Reads expressions over boxes of the free knobs, for many questions at once.

    ``knobs`` and ``facts`` are values, ``follows`` the defaults that follow from knobs that move. ``inside`` becomes
    False where a curve has no value.
    """

    def __init__(self, knobs: Mapping[str, Sides], follows: Mapping[str, Expr], as_is: Mapping[str, Interval],
                 facts: Mapping[str, Sides], zeroed: frozenset[str] = frozenset()) -> None:
        self._knobs, self._follows, self._as_is = knobs, follows, as_is
        self._facts, self._zeroed = facts, zeroed
        self.walk: Walk[Sides, Holds] = Walk(self)
        self.inside = _TRUE

    @staticmethod
    def sides(low: Ints, high: Ints) -> Sides:
        """A number that is the same all over a box: ``low`` at worst, ``high`` at best."""
        side = Span(low, low)
        return Sides(side, side if low is high else Span(high, high))

    def const(self, value: int) -> Sides:
        return self.sides(value, value)

    def knob(self, name: str) -> Sides:
        if name in self._knobs:
            return self._knobs[name]
        if name in self._follows:
            return self.walk.number(self._follows[name])
        raise NotForBoxes(name)

    def as_is(self, name: str) -> Sides:
        if name not in self._as_is:
            raise NotForBoxes(name)
        value = self._as_is[name]
        return self.sides(value.low, value.low if value.exact else value.high)

    def fact(self, name: str, otherwise: Callable[[], Sides] | None) -> Sides:
        if name in self._facts:
            return self._facts[name]
        if otherwise is not None:
            return otherwise()
        if name in self._zeroed:
            return self.const(0)
        raise NotForBoxes(name)

    def between(self, low: Sides, high: Sides, nominal: Sides) -> Sides:
        return Sides(self._extreme([low.low, high.low], _least), self._extreme([low.high, high.high], _most))

    def agree(self, name: str, ways: Sequence[Callable[[], Sides]]) -> Sides:
        known: list[Sides] = []
        for way in ways:
            try:
                known.append(way())
            except NotForBoxes:
                continue
        if not known:
            raise NotForBoxes(name)
        if len(known) == 1:
            return known[0]
        low = self._extreme([sides.low for sides in known], _most)
        high = self._extreme([sides.high for sides in known], _least)
        # where they contradict each other (the check says so) either may be right
        meet = self._compare(low, high)
        return Sides(self._choose(meet, low, self._extreme([sides.low for sides in known], _least)),
                     self._choose(meet, high, self._extreme([sides.high for sides in known], _most)))

    def add(self, terms: Sequence[Sides]) -> Sides:
        low = self._sum([term.low for term in terms])
        return Sides(low, low if all(term.exact for term in terms) else self._sum([term.high for term in terms]))

    @staticmethod
    def _sum(spans: Sequence[Span]) -> Span:
        low, high = sum(span.low for span in spans), sum(span.high for span in spans)
        return Span(low, high)

    def negative(self, inner: Sides) -> Sides:
        low = Span(-inner.high.high, -inner.high.low)
        return Sides(low, low if inner.exact else Span(-inner.low.high, -inner.low.low))

    def product(self, left: Sides, right: Sides) -> Sides:
        if right.exact and type(right.low.low) is int and right.low.low is right.low.high:
            left, right = right, left
        factor = left.low.low
        if left.exact and type(factor) is int and factor is left.low.high:
            if factor < 0:
                return self.negative(self.product(self.const(-factor), right))
            low = Span(right.low.low * factor, right.low.high * factor)
            return Sides(low, low if right.exact else Span(right.high.low * factor, right.high.high * factor))
        if np.min(left.low.low) < 0 or np.min(right.low.low) < 0:
            raise NotForBoxes("a product of what may be negative")
        if float(np.max(left.high.high)) * float(np.max(right.high.high)) > _LARGEST:
            raise NotForBoxes("a product exceeds 60 bits")
        low = Span(left.low.low * right.low.low, left.low.high * right.low.high)
        return Sides(low, low if left.exact and right.exact else Span(left.high.low * right.high.low,
                                                                      left.high.high * right.high.high))

    def quotient(self, left: Sides, right: Sides) -> Sides:
        if np.min(right.low.low) <= 0:
            raise NotForBoxes("division by what may not be positive")
        if type(right.high.high) is not int and np.min(left.low.low) < 0:
            raise NotForBoxes("a quotient of what may be negative by an unknown")
        low = self._divide(left.low, right.high)
        return Sides(low, low if left.exact and right.exact else self._divide(left.high, right.low))

    @staticmethod
    def _divide(left: Span, right: Span) -> Span:
        if right.low is right.high:
            return Span(left.low // right.low, left.high // right.low)
        return Span(_least(left.low // right.low, left.low // right.high),
                    _most(left.high // right.low, left.high // right.high))

    def remainder(self, left: Sides, modulus: int) -> Sides:
        if not left.exact:
            return self.sides(0, modulus - 1)
        low, high = left.low.low, left.low.high
        one = low // modulus == high // modulus
        if type(one) is bool:
            span = Span(low % modulus, high % modulus) if one else Span(0, modulus - 1)
        else:
            span = Span(np.where(one, low % modulus, 0), np.where(one, high % modulus, modulus - 1))
        return Sides(span, span)

    @staticmethod
    def _extreme(spans: Sequence[Span], pick: Callable[[Ints, Ints], Ints]) -> Span:
        low, high = spans[0].low, spans[0].high
        for span in spans[1:]:
            low, high = pick(low, span.low), pick(high, span.high)
        return Span(low, high)

    def _extremes(self, items: Sequence[Sides], pick: Callable[[Ints, Ints], Ints]) -> Sides:
        low = self._extreme([item.low for item in items], pick)
        if all(item.exact for item in items):
            return Sides(low, low)
        return Sides(low, self._extreme([item.high for item in items], pick))

    def least(self, items: Sequence[Sides]) -> Sides:
        return self._extremes(items, _least)

    def greatest(self, items: Sequence[Sides]) -> Sides:
        return self._extremes(items, _most)

    def curve(self, axis: Sides, curve: Curve) -> Sides:
        first, last = curve.xs[0], curve.xs[-1]
        for span in {id(span): span for span in (axis.low, axis.high)}.values():
            self.inside = Literal(
                _all(self.inside.always, _all(_truth(span.low >= first), _truth(span.high <= last))),
                _all(self.inside.ever, _all(_truth(span.high >= first), _truth(span.low <= last))))
        table = _Curve(curve)
        if axis.exact:
            span = table.over(axis.low)
            return Sides(span, span)
        if table.rises:
            return Sides(table.over(axis.low), table.over(axis.high))
        if table.falls:
            return Sides(table.over(axis.high), table.over(axis.low))
        raise NotForBoxes("a curve with turns over what is not exact")

    def select(self, condition: Holds, then: Callable[[], Sides], otherwise: Callable[[], Sides]) -> Sides:
        if _everywhere(condition.sure.always):
            return then()
        if _nowhere(condition.maybe.ever):
            return otherwise()
        a, b = then(), otherwise()
        if condition.sure is condition.maybe:
            low = self._choose(condition.sure, a.low, b.low)
            if a.exact and b.exact:
                return Sides(low, low)
            return Sides(low, self._choose(condition.sure, a.high, b.high))
        worst, best = self._extreme([a.low, b.low], _least), self._extreme([a.high, b.high], _most)
        impossible = Literal(_not(condition.maybe.ever), _not(condition.maybe.always))
        return Sides(self._choose(condition.sure, a.low, self._choose(impossible, b.low, worst)),
                     self._choose(condition.sure, a.high, self._choose(impossible, b.high, best)))

    @staticmethod
    def _choose(literal: Literal, then: Span, otherwise: Span) -> Span:
        if literal.always is True or then is otherwise:
            return then
        if literal.ever is False:
            return otherwise
        low, high = _least(then.low, otherwise.low), _most(then.high, otherwise.high)
        return Span(np.where(literal.always, then.low, np.where(literal.ever, low, otherwise.low)),
                    np.where(literal.always, then.high, np.where(literal.ever, high, otherwise.high)))

    def at_most(self, left: Sides, right: Sides) -> Holds:
        sure = self._compare(left.high, right.low)
        return Holds(sure, sure if left.exact and right.exact else self._compare(left.low, right.high))

    @staticmethod
    def _compare(left: Span, right: Span) -> Literal:
        return Literal(_truth(left.high <= right.low), _truth(left.low <= right.high))

    def both(self, items: Sequence[Holds]) -> Holds:
        sure = self._every([item.sure for item in items])
        if all(item.sure is item.maybe for item in items):
            return Holds(sure, sure)
        return Holds(sure, self._every([item.maybe for item in items]))

    @staticmethod
    def _every(literals: Sequence[Literal]) -> Literal:
        always: Truths = True
        ever: Truths = True
        for literal in literals:
            always, ever = _all(always, literal.always), _all(ever, literal.ever)
        return Literal(always, ever)

    def either(self, items: Sequence[Holds]) -> Holds:
        return self.negation(self.both([self.negation(item) for item in items]))

    def negation(self, inner: Holds) -> Holds:
        sure = Literal(_not(inner.maybe.ever), _not(inner.maybe.always))
        if inner.sure is inner.maybe:
            return Holds(sure, sure)
        return Holds(sure, Literal(_not(inner.sure.ever), _not(inner.sure.always)))

    def read(self, node: Cond) -> Holds:
        """The condition over each box; what stands behind an exception that holds everywhere is not read."""
        if not isinstance(node, Either):
            return self.walk.condition(node)
        items = []
        for item in node.items:
            items.append(self.read(item))
            if _everywhere(items[-1].sure.always):
                return Holds(_TRUE, _TRUE)
        return self.either(items)

    def demanded(self, node: Cond) -> Literal:
        """That ``node`` surely holds; a condition taken for true elsewhere is read here by its parts."""
        match node:
            case AtMost(left, right):
                return self.at_most(self.walk.number(left), self.walk.number(right)).sure
            case Both(items):
                return self._every([self.demanded(item) for item in items])
            case Either(items):
                none: Truths = True
                never: Truths = True
                for item in items:
                    sure = self.walk.condition(item).sure
                    if sure.always is True:
                        return _TRUE
                    none, never = _all(none, _not(sure.always)), _all(never, _not(sure.ever))
                return Literal(_not(none), _not(never))
            case _:
                return self.walk.condition(node).sure


def _everywhere(truths: Truths) -> bool:
    return truths is True or (truths is not False and bool(np.all(truths)))


def _nowhere(truths: Truths) -> bool:
    return truths is False or (truths is not True and not np.any(truths))


def _of_sides(sides: Sides, which: Ints) -> Sides:
    """A number of each question as that of each box."""
    low = _of_span(sides.low, which)
    return Sides(low, low if sides.exact else _of_span(sides.high, which))


def _of_span(span: Span, which: Ints) -> Span:
    low = span.low if np.ndim(span.low) == 0 else span.low[which]
    return Span(low, low if span.high is span.low else span.high if np.ndim(span.high) == 0 else span.high[which])


def _of_holds(held: Holds, which: Ints) -> Holds:
    """A condition of each question as that of each box."""
    sure = _of_literal(held.sure, which)
    return Holds(sure, sure if held.sure is held.maybe else _of_literal(held.maybe, which))


def _of_literal(literal: Literal, which: Ints) -> Literal:
    always, ever = (truth if np.ndim(truth) == 0 else truth[which] for truth in (literal.always, literal.ever))
    return Literal(always, ever)


class _Curve:
    """A curve, read over spans: its values at both ends and at the points between."""

    def __init__(self, curve: Curve) -> None:
        self._xs, self._ys = np.array(curve.xs), np.array(curve.ys)
        steps = [after - before for before, after in pairwise(curve.ys)]
        self.rises, self.falls = all(step >= 0 for step in steps), all(step <= 0 for step in steps)
        #: least and greatest of each run of 2^level points
        self._least, self._most = [self._ys], [self._ys]
        width = 1
        while 2 * width <= len(curve.xs):
            for levels, pick in ((self._least, np.minimum), (self._most, np.maximum)):
                levels.append(pick(levels[-1][:-width], levels[-1][width:]))
            width *= 2

    def at(self, x: Ints) -> Ints:
        """The values at ``x``, rounded down, as the declaration has them."""
        x = np.clip(x, self._xs[0], self._xs[-1])
        place = np.clip(np.searchsorted(self._xs, x, side="right"), 1, len(self._xs) - 1)
        x0, y0 = self._xs[place - 1], self._ys[place - 1]
        return y0 + (x - x0) * (self._ys[place] - y0) // (self._xs[place] - x0)

    def over(self, span: Span) -> Span:
        """The least and the greatest value over a span."""
        low, high = self.at(span.low), self.at(span.high)
        if self.rises:
            return Span(low, high)
        if self.falls:
            return Span(high, low)
        least, most = np.minimum(low, high), np.maximum(low, high)
        start = np.searchsorted(self._xs, span.low, side="left")
        stop = np.searchsorted(self._xs, span.high, side="right")
        count = np.maximum(stop - start, 0)
        for level in range(len(self._least)):
            here = (count >> level) == 1  # the longest run that the span holds, from either end
            first = np.clip(start, 0, len(self._least[level]) - 1)
            last = np.clip(stop - (1 << level), 0, len(self._least[level]) - 1)
            for place in (first, last):
                least = np.where(here, np.minimum(least, self._least[level][place]), least)
                most = np.where(here, np.maximum(most, self._most[level][place]), most)
        return Span(least, most)


def best_of(questions: Sequence[Question]) -> list[Best]:
    """The best of each question. Those that differ only in the values of knobs and facts are read together.

    Raises nothing: what this search does not cover comes back unproven.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, question in enumerate(questions):
        groups.setdefault(_alike(question), []).append(place)
    found: dict[int, Best] = {}
    for places in groups.values():
        for start in range(0, len(places), TOGETHER):
            part = places[start:start + TOGETHER]
            try:
                found |= zip(part, _Search([questions[place] for place in part]).run(), strict=True)
            except NotForBoxes:
                found |= {place: Best(None, {}, False) for place in part}
    return [found[place] for place in range(len(questions))]


def rungs(question: Question, shape: Mapping[str, int], name: str, ends: tuple[int, int],
          conditions: Sequence[Cond]) -> list[tuple[int, int]]:
    """The ranges of knob ``name`` between ``ends``, in order, over each of which every condition reads the same: surely
    met, surely not, or hanging on digits nobody printed; all other knobs as in ``shape``.

    Conditions that lack facts do not count. Raises NotForBoxes where there are too many ranges.
    """
    search = _Search([replace(question, base=dict(shape), free={name: ends}, bounds=())], conditions)
    low, high = search._low, search._high
    judged = [condition for place, condition in enumerate(conditions) if place not in search._skipped]
    done: list[tuple[int, int, bytes]] = []
    while len(low):
        algebra = search._reading(np.zeros(len(low), dtype=np.int64), low, high)
        same = np.ones(len(low), dtype=bool)
        truths = []
        for condition in judged:
            held = algebra.read(condition)
            for literal in (held.sure, held.maybe):
                always, ever = (np.broadcast_to(truth, len(low)) for truth in (literal.always, literal.ever))
                same &= always == ever
                truths.append(always)
        signs = np.stack([*truths, np.zeros(len(low), dtype=bool)], axis=1)
        done += [(int(low[place, 0]), int(high[place, 0]), signs[place].tobytes()) for place in np.flatnonzero(same)]
        if len(done) + len(low) > MOST_BOXES:
            raise NotForBoxes("too many ranges")
        low, high = low[~same], high[~same]
        middle = low + (high - low) // 2
        low, high = np.concatenate([low, middle + 1]), np.concatenate([middle, high])
    found: list[tuple[int, int, bytes]] = []
    for start, stop, sign in sorted(done):
        if found and found[-1][2] == sign:
            found[-1] = found[-1][0], stop, sign
        else:
            found.append((start, stop, sign))
    grid = int(search._grid[0])
    return [(start * grid, stop * grid) for start, stop, _ in found]


@dataclass(frozen=True, slots=True)
class Away:
    """A knob or a fact that moves away from ``value``, one way, in steps of ``unit``, ``most`` of them."""

    name: str
    fact: bool
    value: Interval
    sign: int
    unit: int
    most: int


def first_broken(question: Question, shape: Mapping[str, int], ways: Sequence[Away],
                 conditions: Sequence[Cond]) -> list[int | None]:
    """For each of ``ways`` the least number of steps at which some condition is not sure to hold in ``shape``.

    None where none is, :data:`OPEN` where that was not decided in :data:`MOST_ROUNDS`. A condition that lacks facts
    somewhere on a way does not count on it.
    """
    if not ways:
        return []
    model = question.site.model
    moved = {way.name for way in ways if not way.fact}
    knobs = Knobs(model, shape, open_ones=moved)
    as_is = Knobs(model, question.site.given.as_is)
    follows = {name: spec.default for name, spec in model.knobs.items()
               if name not in knobs and name not in moved and isinstance(spec.default, Expr)}
    values = {name: OnBoxes.sides(knobs[name].low, knobs[name].low if knobs[name].exact else knobs[name].high)
              for name in knobs}
    given = {name: OnBoxes.sides(value.low, value.low if value.exact else value.high)
             for name, value in question.site.given.facts.items()}

    def reading(places: Sequence[int], low: Any, high: Any) -> OnBoxes:
        own, facts = dict(values), dict(given)
        for name in {ways[place].name for place in places} | moved:
            way = next(way for way in ways if way.name == name)
            here = np.array([ways[place].name == name for place in places])
            by = np.array([ways[place].sign * ways[place].unit for place in places])
            least = np.where(here, np.where(by > 0, by * low, by * high), 0)
            most = np.where(here, np.where(by > 0, by * high, by * low), 0)
            near = Span(way.value.low + least, way.value.low + most)
            far = near if way.value.exact else Span(way.value.high + least, way.value.high + most)
            (facts if way.fact else own)[name] = Sides(near, far)
        return OnBoxes(own, follows, as_is, facts)

    found: list[int | None] = [None] * len(ways)
    waiting = {place: [(1, way.most)] for place, way in enumerate(ways) if way.most >= 1}
    counting = list(conditions)
    for _ in range(MOST_ROUNDS):
        if not waiting:
            break
        places = list(waiting)
        low, high = (np.array(ends, dtype=np.int64) for ends in zip(*(waiting[place].pop() for place in places),
                                                                    strict=True))
        algebra = reading(places, low, high)
        always: Truths = True
        ever: Truths = True
        for condition in list(counting):
            try:
                sure = algebra.read(condition).sure
            except NotForBoxes:
                if len(ways) > 1:  # what lacks on one way may be at hand on the others
                    return [first_broken(question, shape, [way], conditions)[0] for way in ways]
                counting.remove(condition)
                continue
            always, ever = _all(always, sure.always), _all(ever, sure.ever)
        for place, a, b, whole, some in zip(places, low.tolist(), high.tolist(), np.broadcast_to(always, len(places)),
                                            np.broadcast_to(ever, len(places)), strict=True):
            if not some:
                found[place] = a
                del waiting[place]
                continue
            if not whole and a < b:
                middle = a + (b - a) // 2
                waiting[place] += [(middle + 1, b), (a, middle)]
            if not waiting[place]:
                del waiting[place]
    for place in waiting:
        found[place] = OPEN
    return found


def _alike(question: Question) -> tuple[Any, ...]:
    given = question.site.given
    return (
        id(question.site.model), id(question.goal.objective), question.goal.sense, question.goal.shifts,
        tuple(question.free), tuple((bound.label, id(bound.expr)) for bound in question.bounds), question.without,
        tuple(sorted(question.base)), tuple(sorted(question.given)), given.limits, id(given.as_is),
        tuple((name, given.facts[name].exact) for name in sorted(given.facts)),
    )


def _stacked(values: Sequence[int]) -> Ints:
    first = values[0]
    return first if all(value == first for value in values) else np.array(values, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Boxes in grid steps: ``which`` question each is of, its ends, and the best that the goal can be in it."""

    which: Any
    low: Any
    high: Any
    bound: Any

    def where(self, keep: Any) -> _Boxes:
        """Those of ``keep``."""
        return _Boxes(self.which[keep], self.low[keep], self.high[keep], self.bound[keep])

    def joined(self, other: _Boxes) -> _Boxes:
        """Both, those that are single shapes left out: they were judged as such."""
        wide = other.where((other.high > other.low).any(axis=1))
        return _Boxes(*(np.concatenate([getattr(self, name), getattr(wide, name)])
                        for name in ("which", "low", "high", "bound")))

    def foremost(self, most: int) -> tuple[_Boxes, _Boxes]:
        """Of each question the ``most`` boxes with the best bounds, and the others."""
        order = np.lexsort((-self.bound, self.which))
        which = self.which[order]
        starts = np.r_[True, which[1:] != which[:-1]]
        place = np.arange(len(order)) - np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
        return self.where(order[place < most]), self.where(order[place >= most])


class _Search:
    """One group of questions that are read together; or ``conditions`` alone, with nothing taken for true."""

    def __init__(self, questions: Sequence[Question], conditions: Sequence[Cond] | None = None) -> None:
        self._first = first = questions[0]
        model = first.site.model
        self._questions = questions
        self._names = list(first.free)
        grids = [model.knobs[name].grid for name in self._names]
        self._grid = np.array(grids, dtype=np.int64)
        ends = np.array([[(-(-question.free[name][0] // grid), question.free[name][1] // grid)
                          for name, grid in zip(self._names, grids, strict=True)] for question in questions],
                        dtype=np.int64).reshape(len(questions), len(grids), 2)
        self._low, self._high = ends[:, :, 0], ends[:, :, 1]
        self._held, self._follows = self._fixed()
        self._as_is = Knobs(model, first.site.given.as_is)
        given = [question.site.given.facts for question in questions]
        self._facts: dict[str, tuple[Ints, Ints]] = {}
        for name in given[0]:
            low = _stacked([facts[name].low for facts in given])
            high = low if given[0][name].exact else _stacked([facts[name].high for facts in given])
            self._facts[name] = (low, high)
        self._sign = 1 if first.goal.sense == "max" else -1
        self._assumed: list[Cond] = []
        self._demands: list[tuple[Cond, Any]] = []
        if conditions is None:
            for same in zip(*(question.bounds for question in questions), strict=True):
                if any(bound.value != same[0].value for bound in same):
                    raise NotForBoxes("bounds differ")
            self._assumed = [require.holds for require in judged_requires(first)]
            self._demands += [(require.holds, None) for require in hard_requires(first)]
            self._demands += [(bound_condition(model, bound), bound) for bound in first.bounds]
        else:
            self._demands += [(condition, None) for condition in conditions]
        self._skipped: set[int] = set()
        self._still: list[tuple[Expr | Cond, Any]] = []
        self._judge_all()
        self._still = self._settled([*(condition for condition, _ in self._demands), self._first.goal.objective])

    def _fixed(self) -> tuple[dict[str, tuple[Ints, Ints]], dict[str, Expr]]:
        model, questions = self._first.site.model, self._questions
        each = [Knobs(model, question.base, open_ones=question.free) for question in questions]
        held: dict[str, tuple[Ints, Ints]] = {}
        for name in each[0]:
            if not all(name in knobs for knobs in each):
                raise NotForBoxes(name)
            low = _stacked([knobs[name].low for knobs in each])
            exact = all(knobs[name].exact for knobs in each)
            held[name] = (low, low if exact else _stacked([knobs[name].high for knobs in each]))
        follows = {name: spec.default for name, spec in model.knobs.items()
                   if name not in held and name not in self._names and isinstance(spec.default, Expr)}
        return held, follows

    def _reading(self, which: Ints, low: Any, high: Any) -> OnBoxes:
        """The algebra over boxes: ``which`` question each is of, and its ends in grid steps."""
        def each(values: Ints) -> Ints:
            return values if type(values) is int else values[which]

        def ends(values: Mapping[str, tuple[Ints, Ints]]) -> dict[str, tuple[Ints, Ints]]:
            return {name: (start := each(least), start if least is most else each(most))
                    for name, (least, most) in values.items()}

        knobs = {name: OnBoxes.sides(*values) for name, values in ends(self._held).items()}
        for place, name in enumerate(self._names):
            step = int(self._grid[place])
            start = low[:, place] * step
            span = Span(start, start if low is high else high[:, place] * step)
            knobs[name] = Sides(span, span)
        facts = {name: OnBoxes.sides(*values) for name, values in ends(self._facts).items()}
        algebra = OnBoxes(knobs, self._follows, self._as_is, facts)
        for node, value in self._still:
            if isinstance(node, Expr):
                algebra.walk.take(node, _of_sides(value, which))
            else:
                algebra.walk.assume(node, _of_holds(value, which))
        for condition in self._assumed:
            algebra.walk.assume(condition, Holds(_TRUE, _TRUE))
        return algebra

    def _judge_all(self) -> None:
        """Finds the requirements that lack facts somewhere: they bound nothing, as in the solve."""
        which = np.arange(len(self._questions))
        algebra = self._reading(which, self._low, self._high)
        for place, (condition, bound) in enumerate(self._demands):
            try:
                algebra.demanded(condition)
            except NotForBoxes:
                if bound is not None:
                    raise
                self._skipped.add(place)

    def _settled(self, nodes: Sequence[Expr | Cond]) -> list[tuple[Expr | Cond, Any]]:
        """What no free knob moves of ``nodes``, read once, so that each round reads the rest alone."""
        opened = set(self._names) | set(self._follows)
        moves: dict[int, bool] = {}

        def moving(node: Expr | Cond) -> bool:
            if id(node) not in moves:
                own = isinstance(node, Knob) and node.name in opened
                moves[id(node)] = own or any(moving(part) for part in parts(node))
            return moves[id(node)]

        algebra = self._reading(np.arange(len(self._questions)), self._low, self._high)
        taken = {id(condition) for condition in self._assumed}
        seen: set[int] = set()
        found: list[tuple[Expr | Cond, Any]] = []
        pending: list[Expr | Cond] = [*nodes, *self._follows.values()]
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if moving(node):
                pending += parts(node)
                continue
            if isinstance(node, Const | Knob) or id(node) in taken:
                continue
            try:
                value = algebra.walk.number(node) if isinstance(node, Expr) else algebra.walk.condition(node)
            except NotForBoxes:
                pending += parts(node)  # a branch that no box takes, or a fact that only shifts the goal
                continue
            found.append((node, value))
        return found

    def _judge(self, which: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
        """Of each box: whether every shape in it will do, whether any may, and the best that the goal can be there."""
        count = len(which)
        if not count:
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)
        algebra = self._reading(which, low, high)
        always: Truths = True
        ever: Truths = True
        for place, (condition, _) in enumerate(self._demands):
            if place not in self._skipped:
                literal = algebra.demanded(condition)
                always, ever = _all(always, literal.always), _all(ever, literal.ever)
        algebra._zeroed = self._first.goal.shifts
        pair = algebra.walk.number(self._first.goal.objective)
        span = pair.low if self._sign > 0 else pair.high
        bound = span.high if self._sign > 0 else -span.low
        always, ever = _all(always, algebra.inside.always), _all(ever, algebra.inside.ever)
        return (np.broadcast_to(always, count), np.broadcast_to(ever, count),
                np.broadcast_to(np.asarray(bound, dtype=np.int64), count))

    def run(self) -> list[Best]:
        """The best of each question."""
        count = len(self._questions)
        best = np.full(count, _NOTHING, dtype=np.int64)
        shape = self._low.copy()
        given_up = np.zeros(count, dtype=bool)
        which = np.flatnonzero(~(self._low > self._high).any(axis=1))
        fresh = _Boxes(which, self._low[which], self._high[which], np.full(len(which), np.iinfo(np.int64).max))
        fresh = self._judged(fresh, best, shape)
        boxes = fresh.where(fresh.bound > best[fresh.which])
        for _ in range(MOST_ROUNDS):
            boxes = boxes.where((boxes.bound > best[boxes.which]) & ~given_up[boxes.which])
            if not len(boxes.which):
                break
            given_up |= np.bincount(boxes.which, minlength=count) > MOST_BOXES
            chosen, rest = boxes.foremost(AT_ONCE)
            fresh = self._halved(chosen, best)
            self._try_corners(fresh, best, shape)
            boxes = rest.joined(fresh)
        else:
            given_up[np.unique(boxes.which)] = True
        return [self._told(place, best[place], shape[place], bool(given_up[place])) for place in range(count)]

    def _judged(self, boxes: _Boxes, best: Any, shape: Any) -> _Boxes:
        """The boxes that may hold a better shape, with what the goal can be there at best; corners are tried."""
        self._try_corners(boxes, best, shape)
        _, ever, bound = self._judge(boxes.which, boxes.low, boxes.high)
        return replace(boxes, bound=bound).where(ever & (boxes.high > boxes.low).any(axis=1))

    def _halved(self, boxes: _Boxes, best: Any) -> _Boxes:
        """The halves of each box that may hold a better shape, cut along the knob that leaves the least of it."""
        width, count = len(self._names), len(boxes.which)
        middle = boxes.low + (boxes.high - boxes.low) // 2
        lows, highs = [], []
        for along in range(width):
            left, right = boxes.high.copy(), boxes.low.copy()
            left[:, along], right[:, along] = middle[:, along], middle[:, along] + 1
            lows += [boxes.low, right]
            highs += [left, boxes.high]
        which = np.tile(boxes.which, 2 * width)
        low, high = np.concatenate(lows), np.concatenate(highs)
        low = np.minimum(low, high)  # a knob that cannot be cut is not chosen below
        _, ever, bound = self._judge(which, low, high)
        kept = ever & (bound > best[which])
        # what is left of each half: nothing, or how much of the way down to the best shape its bound still is
        above = boxes.bound.astype(float) - best[boxes.which].astype(float)
        share = np.clip((bound - best[which].astype(float)) / np.tile(above, 2 * width), 0.0, 1.0)
        cost = np.where(kept, share, 0.0).reshape(width, 2, count).sum(axis=1)
        share = (boxes.high - boxes.low) / np.maximum(self._high - self._low, 1)[boxes.which]
        cost = np.where((boxes.high > boxes.low).T, cost - 0.25 * share.T, np.inf)
        along = np.argmin(cost, axis=0)
        rows = np.arange(count)
        take = np.concatenate([(2 * along) * count + rows, (2 * along + 1) * count + rows])
        take = take[kept[take]]
        return _Boxes(which[take], low[take], high[take], bound[take])

    def _told(self, place: int, value: Any, shape: Any, given_up: bool) -> Best:
        if given_up:
            return Best(None, {}, False)
        if value == _NOTHING:
            return Best(None, {}, True)
        knobs = {name: int(at * step) for name, at, step in zip(self._names, shape, self._grid, strict=True)}
        return Best(self._sign * int(value), knobs, True)

    def _try_corners(self, boxes: _Boxes, best: Any, shape: Any) -> None:
        """Judges the corners and the middle of each box as single shapes, and keeps the best that will do."""
        which, low, high = boxes.which, boxes.low, boxes.high
        width = low.shape[1]
        corners: Iterable[tuple[int, ...]] = product((0, 1), repeat=width) if width <= 3 else (
            (0,) * width, (1,) * width)
        at = [np.where(np.array(corner, dtype=bool), high, low) for corner in corners]
        at.append((low + high) // 2)
        points = np.concatenate(at)
        whose = np.tile(which, len(at))
        always, _, value = self._judge(whose, points, points)
        good = np.flatnonzero(always & (value > best[whose]))
        if not len(good):
            return
        order = good[np.lexsort((value[good], whose[good]))]
        last = np.r_[whose[order][1:] != whose[order][:-1], True]
        take = order[last]
        best[whose[take]] = value[take]
        shape[whose[take]] = points[take]
