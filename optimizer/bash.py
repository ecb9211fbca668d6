"""Writes expressions as bash arithmetic: every number becomes a pair of 64-bit integers that bound it.

One more reading of a declaration. A fact stands at both ends of its interval, as the solver has it, so that what is
demanded of the pessimistic sides holds for every value the facts allow. Ranges are followed along: what they decide is
not written, and what could leave 64 bits, or divide by nothing, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from models.declare import EngineModel, KnobSpec
from models.evaluate import Given, Knobs, Reader
from models.expr import Algebra, Curve, Expr, Named, Walk
from models.interval import GIB, MIB, Interval

#: Bash counts in 64 bits and wraps in silence; sums of two such numbers still fit.
LARGEST: Final = 1 << 62
_LONG: Final = 88
_NAME = re.compile(r"[a-z_][a-z0-9_]*")

#: A bash condition: known beforehand, or text that is an atom or stands in brackets.
Flag = bool | str


class CannotWrite(Exception):
    """An expression that 64-bit arithmetic cannot be trusted with; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One bound of a number: its text, and the range it can take."""

    text: str
    low: int
    high: int

    @property
    def literal(self) -> bool:
        """Whether it is written as a number."""
        return self.text.removeprefix("-").isdigit()

    @property
    def atom(self) -> bool:
        """Whether its text needs no brackets beside an operator."""
        return _NAME.fullmatch(self.text) is not None or self.text.isdigit()

    @property
    def wrapped(self) -> str:
        """Its text, in brackets where an operator beside it would tear it apart."""
        return self.text if self.atom else f"({self.text})"


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """The two sides of a number, one object where it is exact; not known where ``open`` is true, for want of ``lacks``.
    """

    low: Side
    high: Side
    open: Flag = False
    lacks: frozenset[str] = frozenset()

    @property
    def exact(self) -> bool:
        """Whether both sides are one."""
        return self.low is self.high


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A condition: where it surely holds, where it surely does not, and where it is not known for want of ``lacks``.

    Where none of the three is true it hangs on digits nobody printed; a ``crisp`` one never does.
    """

    sure: Flag
    never: Flag
    open: Flag = False
    lacks: frozenset[str] = frozenset()
    crisp: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment ``name=$(( text ))``; ``words`` are the formula of a named row."""

    name: str
    text: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """One figure the arithmetic is written with: ``kind`` is ``fact`` or ``boot`` (a knob as the boot had it)."""

    name: str
    value: int
    kind: str
    of: str


def literal(value: int) -> Side:
    """``value`` as a side."""
    if abs(value) > LARGEST:
        raise CannotWrite("a figure exceeds 62 bits")
    return Side(str(value), value, value)


def negated(flag: Flag) -> Flag:
    """Where ``flag`` is not true."""
    if isinstance(flag, bool):
        return not flag
    return flag[1:] if flag.startswith("!") else f"!{flag}"


def all_of(flags: Iterable[Flag]) -> Flag:
    """Where all ``flags`` are true."""
    texts: list[str] = []
    for flag in flags:
        if flag is False or (isinstance(flag, str) and negated(flag) in texts):
            return False
        if isinstance(flag, str) and flag not in texts:
            texts.append(flag)
    if not texts:
        return True
    return texts[0] if len(texts) == 1 else f"({' && '.join(texts)})"


def any_of(flags: Iterable[Flag]) -> Flag:
    """Where at least one of ``flags`` is true."""
    texts: list[str] = []
    for flag in flags:
        if flag is True or (isinstance(flag, str) and negated(flag) in texts):
            return True
        if isinstance(flag, str) and flag not in texts:
            texts.append(flag)
    if not texts:
        return False
    return texts[0] if len(texts) == 1 else f"({' || '.join(texts)})"


class Bash(Algebra[Number, Truth]):
    """Reads expressions as statements of bash, for shapes whose knobs a bash program reads.

    The variable ``knob_NAME`` holds a knob in its own unit, within what the engine accepts; where a default is no
    plain number, ``unset_NAME`` is 1 if nobody set it. ``held`` are knobs with one value whatever the file says (None:
    the engine chooses), ``defaults`` the values that unset ones take other than the engine's. Raises CannotWrite from
    :meth:`number` and :meth:`condition`.
    """

    def __init__(self, model: EngineModel, given: Given, *, held: Mapping[str, int | None] | None = None,
                 defaults: Mapping[str, int] | None = None) -> None:
        self._specs = model.knobs
        self._given = given
        self._held = held or {}
        self._defaults = defaults or {}
        self._as_is = Knobs(model, given.as_is)
        self._printed = dict(Reader(model, given, given.as_is).narrowing)
        self._same: Flag | None = None
        self._taken: dict[str, int] = {}
        self._written: dict[str, str] = {}
        self._words = Walk(Words())
        self._row = ""
        self.statements: list[Statement] = []
        self.constants: dict[str, Constant] = {}
        self.walk = _Rows(self)

    def number(self, node: Expr) -> Number:
        """``node`` as a pair of bounds."""
        return self.walk.number(node)

    def words_of(self, node: Named) -> None:
        """Remembers the formula of the row that is written next."""
        self._row = self._words.number(node.inner)

    def default_of(self, name: str) -> int | Expr | None:
        """What a knob is where the file leaves it open; None where nobody knows."""
        default = self._defaults.get(name)
        return self._specs[name].default if default is None else default

    def used(self, texts: Iterable[str]) -> tuple[list[Statement], set[str]]:
        """The statements that ``texts`` rest on, in order, and every name that they all mention."""
        names = {name for text in texts for name in _NAME.findall(text)}
        kept: list[Statement] = []
        for statement in reversed(self.statements):
            if statement.name in names:
                kept.append(statement)
                names |= set(_NAME.findall(statement.text))
        return kept[::-1], names

    # statements

    def _fresh(self, stem: str) -> str:
        count = self._taken[stem] = self._taken.get(stem, 0) + 1
        return stem if count == 1 and stem not in ("t", "c") else f"{stem}_{count}"

    def _assign(self, text: str, stem: str = "t", words: str = "") -> str:
        text = unbracketed(text)
        if stem in ("t", "c") and text in self._written:
            return self._written[text]
        name = self._fresh(stem)
        self._written[text] = name
        self.statements.append(Statement(name, text, words))
        return name

    def _kept(self, side: Side, stem: str = "t") -> Side:
        """``side`` as a variable (or a number), so that it can be named more than once."""
        if side.literal or side.atom:
            return side
        return Side(self._assign(side.text, stem), side.low, side.high)

    def _side(self, text: str, low: int, high: int) -> Side:
        if max(abs(low), abs(high)) > LARGEST:
            raise CannotWrite("a quantity may exceed 62 bits")
        if low == high and not any(name in text for name in ("fact_", "boot_")):
            return literal(low)
        side = Side(text, low, high)
        return self._kept(side) if len(text) > _LONG else side

    def _flag(self, flag: Flag) -> Flag:
        return self._assign(flag, "c") if isinstance(flag, str) and len(flag) > _LONG // 2 else flag

    # the algebra

    def const(self, value: int) -> Number:
        side = literal(value)
        return Number(side, side)

    def _missing(self, name: str) -> Number:
        nothing = literal(0)
        return Number(nothing, nothing, True, frozenset((name,)))

    def _constant(self, value: Interval, kind: str, of: str) -> Number:
        ends = []
        for end, suffix in ((value.low, "_low"), (value.high, "_high")):
            name = f"{kind}_{of}{'' if value.exact else suffix}"
            self.constants[name] = Constant(name, end, kind, of)
            literal(end)  # raises where it is too large
            ends.append(Side(name, end, end))
        return Number(ends[0], ends[0] if value.exact else ends[1])

    def between(self, low: Number, high: Number, nominal: Number) -> Number:
        return Number(self._extreme([low.low, high.low], least=True), self._extreme([low.high, high.high], least=False),
                      any_of((low.open, high.open)), low.lacks | high.lacks)

    def agree(self, name: str, ways: Sequence[Callable[[], Number]]) -> Number:
        values = [way() for way in ways]
        known = [value for value in values if value.open is False]
        if any(isinstance(value.open, str) for value in values):
            raise CannotWrite(f"whether {name} is known hangs on the settings")
        if not known:
            return values[-1]
        agreed = known[0]
        for way in known[1:]:
            low = self._extreme([agreed.low, way.low], least=False)
            high = self._extreme([agreed.high, way.high], least=True)
            meet = self._compare(low, high)
            agreed = Number(self._choose(meet, low, self._extreme([agreed.low, way.low], least=True)),
                            self._choose(meet, high, self._extreme([agreed.high, way.high], least=False)))
        return agreed

    def knob(self, name: str) -> Number:
        spec = self._specs[name]
        if name in self._held:
            value = self._held[name]
            if value is not None:
                return self.const(value)
            default = spec.default
            if isinstance(default, Expr):
                return self.walk.number(default)
            return self._missing(name) if default is None else self.const(default)
        own, default = _read(name, spec), self.default_of(name)
        if default is None:
            return Number(own, own, f"unset_{name}", frozenset((name,)))
        if isinstance(default, int):
            side = Side(own.text, min(own.low, default), max(own.high, default))
            return Number(side, side)
        follows = self.walk.number(default)
        low = self._kept(self._choose(f"unset_{name}", follows.low, own), f"value_{name}")
        high = low if follows.exact else self._kept(self._choose(f"unset_{name}", follows.high, own), f"most_{name}")
        return Number(low, high, all_of((f"unset_{name}", follows.open)), follows.lacks)

    def as_is(self, name: str) -> Number:
        return self._constant(self._as_is[name], "boot", name) if name in self._as_is else self._missing(name)

    def fact(self, name: str, otherwise: Callable[[], Number] | None) -> Number:
        if name in self._given.facts:
            return self._constant(self._given.facts[name], "fact", name)
        if otherwise is None:
            return self._missing(name)
        value = otherwise()
        if value.open is not False or not (value.low.literal and value.high.literal) or not value.high.high:
            return value
        return self._constant(Interval(value.low.low, value.high.high), "fact", name)  # the declaration's own figure

    def named(self, name: str, value: Number) -> Number:
        words, self._row = self._row, ""
        if value.open is True:
            return value
        if name in self._printed:
            value = self._narrowed(name, value)
        low = self._row_side(f"row_{name}" if value.exact else f"row_{name}_low", value.low, words)
        high = low if value.exact else self._row_side(f"row_{name}_high", value.high, "")
        return Number(low, high, value.open, value.lacks)

    def _row_side(self, name: str, side: Side, words: str) -> Side:
        return side if side.literal else Side(self._assign(side.text, name, words), side.low, side.high)

    def _narrowed(self, name: str, value: Number) -> Number:
        # what the log of this very shape printed; where it contradicts the prediction, that one stands
        seen = self._printed[name]
        low = self._extreme([value.low, literal(seen.low)], least=False)
        high = self._extreme([value.high, literal(seen.high)], least=True)
        counts = self._flag(all_of((self._same_shape(), self._compare(low, high))))
        if counts is False:
            return value
        return Number(self._choose(counts, low, value.low), self._choose(counts, high, value.high), value.open,
                      value.lacks)

    def _same_shape(self) -> Flag:
        """Whether every knob is as it was in the boot that the log is of."""
        if self._same is None:
            equal: list[Flag] = []
            for name, spec in self._specs.items():
                if spec.kind == "text":
                    continue
                now = self.knob(name)
                if name not in self._as_is:
                    equal.append(now.open)
                    continue
                then = self._as_is[name]
                equal += [negated(now.open), self._equals(now.low, then.low), self._equals(now.high, then.high)]
            same = all_of(equal)
            self._same = self._assign(same, "same_shape") if isinstance(same, str) else same
        return self._same

    def _equals(self, side: Side, value: int) -> Flag:
        if side.low == side.high:
            return side.low == value
        return f"({side.wrapped} == {value})" if side.low <= value <= side.high else False

    def add(self, terms: Sequence[Number]) -> Number:
        low = self._sum([term.low for term in terms])
        exact = all(term.exact for term in terms)
        return Number(low, low if exact else self._sum([term.high for term in terms]), *_unknown(terms))

    def _sum(self, sides: Sequence[Side]) -> Side:
        fixed = sum(side.low for side in sides if side.literal)
        text = ""
        for side in sides:
            if side.literal:
                continue
            minus = side.text.startswith("-")
            part = side.text[1:] if minus else side.text
            text += (f" {'-' if minus else '+'} " if text else "-" if minus else "") + part
        if not text:
            return literal(fixed)
        if fixed:
            text += f" {'-' if fixed < 0 else '+'} {abs(fixed)}"
        return self._side(text, sum(side.low for side in sides), sum(side.high for side in sides))

    def negative(self, inner: Number) -> Number:
        low = self._minus(inner.high)
        return Number(low, low if inner.exact else self._minus(inner.low), inner.open, inner.lacks)

    def _minus(self, side: Side) -> Side:
        if side.literal:
            return literal(-side.low)
        return Side(f"-{side.wrapped}", -side.high, -side.low)

    def product(self, left: Number, right: Number) -> Number:
        unknown = _unknown((left, right))
        lows, highs = [left.low, left.high], [right.low, right.high]
        if left.exact and right.exact:
            low = self._times(left.low, right.low)
            return Number(low, low, *unknown)
        if left.low.low >= 0 and right.low.low >= 0:
            return Number(self._times(left.low, right.low), self._times(left.high, right.high), *unknown)
        corners = [self._times(a, b) for a in dict.fromkeys(lows) for b in dict.fromkeys(highs)]
        return Number(self._extreme(corners, least=True), self._extreme(corners, least=False), *unknown)

    def _times(self, a: Side, b: Side) -> Side:
        if a.literal and b.literal:
            return literal(a.low * b.low)
        for one, other in ((a, b), (b, a)):
            if one.literal and one.low in (0, 1):
                return literal(0) if one.low == 0 else other
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._side(f"{a.wrapped} * {b.wrapped}", min(ends), max(ends))

    def quotient(self, left: Number, right: Number) -> Number:
        unknown = _unknown((left, right))
        if unknown[0] is True:
            return Number(literal(0), literal(0), *unknown)
        if min(right.low.low, right.high.low) <= 0:
            raise CannotWrite("a division by what may be nothing")
        if left.exact and right.exact:
            low = self._divide(left.low, right.low)
            return Number(low, low, *unknown)
        by = dict.fromkeys((right.low, right.high))
        return Number(self._extreme([self._divide(left.low, b) for b in by], least=True),
                      self._extreme([self._divide(left.high, b) for b in by], least=False), *unknown)

    def _divide(self, a: Side, b: Side) -> Side:
        """Rounded down, which bash itself does above zero only."""
        if b.literal and b.low == 1:
            return a
        corners = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
        if a.literal and b.literal:
            return literal(corners[0])
        if a.low >= 0:
            return self._side(f"{a.wrapped} / {b.wrapped}", min(corners), max(corners))
        a, b = self._kept(a), self._kept(b)
        text = f"{a.text} >= 0 ? {a.text} / {b.text} : -(({b.text} - 1 - {a.wrapped}) / {b.text})"
        return self._kept(self._side(text, min(corners), max(corners)))

    def remainder(self, left: Number, modulus: int) -> Number:
        by = literal(modulus)
        if left.exact:
            rest = self._rest(left.low, modulus)
            return Number(rest, rest, left.open, left.lacks)
        one = self._compare(self._divide(left.high, by), self._divide(left.low, by))  # in the same stretch
        return Number(self._choose(one, self._rest(left.low, modulus), literal(0)),
                      self._choose(one, self._rest(left.high, modulus), literal(modulus - 1)), left.open, left.lacks)

    def _rest(self, side: Side, modulus: int) -> Side:
        if side.low == side.high:
            return literal(side.low % modulus)
        inner = f"{side.wrapped} % {modulus}"
        return self._side(inner if side.low >= 0 else f"({inner} + {modulus}) % {modulus}", 0, modulus - 1)

    def least(self, items: Sequence[Number]) -> Number:
        return self._both_extremes(items, least=True)

    def greatest(self, items: Sequence[Number]) -> Number:
        return self._both_extremes(items, least=False)

    def _both_extremes(self, items: Sequence[Number], *, least: bool) -> Number:
        unknown = _unknown(items)
        low = self._extreme([item.low for item in items], least=least)
        if all(item.exact for item in items):
            return Number(low, low, *unknown)
        return Number(low, self._extreme([item.high for item in items], least=least), *unknown)

    def _extreme(self, sides: Sequence[Side], *, least: bool) -> Side:
        sides = list({side.text: side for side in sides}.values())
        if least:
            bound = min(side.high for side in sides)
            sides = [side for side in sides if side.low < bound or side.high == bound]
        else:
            bound = max(side.low for side in sides)
            sides = [side for side in sides if side.high > bound or side.low == bound]
        if all(side.low == side.high for side in sides):
            sides = sides[:1]  # all that are left are equal
        pick = min if least else max
        found = sides[0]
        for side in sides[1:]:
            a, b = self._kept(found), self._kept(side)
            text = f"{a.text} {'<' if least else '>'} {b.text} ? {a.text} : {b.text}"
            found = self._kept(self._side(text, pick(a.low, b.low), pick(a.high, b.high)))
        return found

    def curve(self, axis: Number, curve: Curve) -> Number:
        raise CannotWrite("a law is no matter of whole numbers")

    def select(self, condition: Truth, then: Callable[[], Number], otherwise: Callable[[], Number]) -> Number:
        if condition.open is True:
            nothing = literal(0)
            return Number(nothing, nothing, True, condition.lacks)
        if condition.sure is True:
            return then()
        if condition.never is True:
            return otherwise()
        a, b = then(), otherwise()
        opens = [condition.open, all_of((condition.sure, a.open)), all_of((condition.never, b.open))]
        if not condition.crisp:
            opens.append(all_of((negated(condition.sure), negated(condition.never), any_of((a.open, b.open)))))
        lacks = condition.lacks | a.lacks | b.lacks
        unknown = (self._flag(any_of(opens)), lacks)
        low = self._pick(condition, a.low, b.low, least=True)
        if condition.crisp and a.exact and b.exact:
            return Number(low, low, *unknown)
        return Number(low, self._pick(condition, a.high, b.high, least=False), *unknown)

    def _pick(self, condition: Truth, a: Side, b: Side, *, least: bool) -> Side:
        if condition.crisp:
            return self._choose(condition.sure, a, b)
        either = self._extreme([a, b], least=least)
        return self._choose(condition.sure, a, self._choose(condition.never, b, either))

    def _choose(self, flag: Flag, then: Side, otherwise: Side) -> Side:
        if isinstance(flag, bool):
            return then if flag else otherwise
        if then.text == otherwise.text:
            return then
        text = f"{flag} ? {then.wrapped} : {otherwise.wrapped}"
        return self._kept(self._side(text, min(then.low, otherwise.low), max(then.high, otherwise.high)))

    def at_most(self, left: Number, right: Number) -> Truth:
        unknown, lacks = _unknown((left, right))
        if unknown is True:
            return Truth(False, False, True, lacks)
        known = negated(unknown)
        sure = self._compare(left.high, right.low)
        if left.exact and right.exact:
            return Truth(all_of((known, sure)), all_of((known, negated(sure))), unknown, lacks)
        never = negated(self._compare(left.low, right.high))
        return Truth(all_of((known, sure)), all_of((known, never)), unknown, lacks, sure is True or never is True)

    def _compare(self, left: Side, right: Side) -> Flag:
        if left.high <= right.low:
            return True
        if left.low > right.high:
            return False
        return self._flag(f"({left.text} <= {right.text})" if "?" not in left.text + right.text
                          else f"({left.wrapped} <= {right.wrapped})")

    def both(self, items: Sequence[Truth]) -> Truth:
        never = self._flag(any_of(item.never for item in items))
        if never is True:
            return Truth(False, True)
        sure = self._flag(all_of(item.sure for item in items))
        unknown = self._flag(all_of((negated(never), any_of(item.open for item in items))))
        lacks = frozenset[str]().union(*(item.lacks for item in items))
        return Truth(sure, never, unknown, lacks if unknown is not False else frozenset(),
                     all(item.crisp for item in items))

    def either(self, items: Sequence[Truth]) -> Truth:
        return self.negation(self.both([self.negation(item) for item in items]))

    def negation(self, inner: Truth) -> Truth:
        return Truth(inner.never, inner.sure, inner.open, inner.lacks, inner.crisp)


class _Rows(Walk[Number, Truth]):
    """A walk that tells its algebra the formula of each row before it is written."""

    def __init__(self, algebra: Bash) -> None:
        super().__init__(algebra)
        self._bash = algebra

    def _number(self, node: Expr) -> Number:
        if isinstance(node, Named):
            value = self.number(node.inner)  # its own rows are written first
            self._bash.words_of(node)
            return self._bash.named(node.name, value)
        return super()._number(node)


def unbracketed(text: str) -> str:
    """``text`` without brackets around the whole of it."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if place and place == len(text) - 1 else text
    return text


def _read(name: str, spec: KnobSpec) -> Side:
    return Side(f"knob_{name}", spec.low, spec.high)


def _unknown(items: Sequence[Number]) -> tuple[Flag, frozenset[str]]:
    return any_of(item.open for item in items), frozenset[str]().union(*(item.lacks for item in items))


class Words(Algebra[str, str]):
    """Writes expressions for people: rows, knobs and facts by name, one level deep."""

    def const(self, value: int) -> str:
        return str(value)

    def between(self, low: str, high: str, nominal: str) -> str:
        return f"({low} to {high})"

    def agree(self, name: str, ways: Sequence[Callable[[], str]]) -> str:
        return f"({' and '.join(way() for way in ways)})"

    def knob(self, name: str) -> str:
        return name

    def as_is(self, name: str) -> str:
        return f"boot.{name}"

    def fact(self, name: str, otherwise: Callable[[], str] | None) -> str:
        return name

    def named(self, name: str, value: str) -> str:
        return name

    def add(self, terms: Sequence[str]) -> str:
        text = ""
        for term in terms:
            if term != "0":
                text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
        return text.removeprefix(" + ").lstrip() or "0"

    def negative(self, inner: str) -> str:
        return "0" if inner == "0" else f"-{_bracketed(inner)}"

    def product(self, left: str, right: str) -> str:
        one, other = (_SIZES.get(item, item) for item in (left, right))
        return f"{_bracketed(one)} * {_bracketed(other)}"

    def quotient(self, left: str, right: str) -> str:
        return f"{_bracketed(left)} / {_bracketed(_SIZES.get(right, right))}"

    def remainder(self, left: str, modulus: int) -> str:
        return f"{_bracketed(left)} mod {modulus}"

    def least(self, items: Sequence[str]) -> str:
        return f"min({', '.join(items)})"

    def greatest(self, items: Sequence[str]) -> str:
        return f"max({', '.join(items)})"

    def curve(self, axis: str, curve: Curve) -> str:
        return f"{curve.of}({axis})"

    def select(self, condition: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
        if condition in ("always", "never"):
            return then() if condition == "always" else otherwise()
        a, b = then(), otherwise()
        return a if a == b else f"({a} if {condition} else {b})"

    def at_most(self, left: str, right: str) -> str:
        return f"{right} >= {left}" if left.isdigit() else f"{left} <= {right}"

    def both(self, items: Sequence[str]) -> str:
        if len(items) == 2 and set(items) == {f"{(one := items[0].split()[0])} <= {(two := items[0].split()[-1])}",
                                              f"{one} >= {two}"}:
            return f"{one} = {two}"
        return self._joined(items, " and ", "always", "never")

    def either(self, items: Sequence[str]) -> str:
        return self._joined(items, " or ", "never", "always")

    @staticmethod
    def _joined(items: Sequence[str], word: str, nothing: str, all_over: str) -> str:
        if all_over in items:
            return all_over
        kept = list(dict.fromkeys(item for item in items if item != nothing))
        return nothing if not kept else kept[0] if len(kept) == 1 else f"({word.join(kept)})"

    def negation(self, inner: str) -> str:
        words = {"always": "never", "never": "always"}
        if inner in words:
            return words[inner]
        if inner.startswith("not "):
            return inner.removeprefix("not ")
        match = _COMPARED.fullmatch(inner)
        return f"{match[1]} {_OPPOSITE[match[2]]} {match[3]}" if match else f"not {inner}"


_SIZES: Final = {str(MIB): "MiB", str(GIB): "GiB"}
_COMPARED = re.compile(r"([\w. ()*/+-]+) (<=|>=) ([\w. ()*/+-]+)")
_OPPOSITE: Final = {"<=": ">", ">=": "<"}


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text and not _CALL.fullmatch(text) else text


_CALL = re.compile(r"(?:min|max)?\([^()]*\)")
