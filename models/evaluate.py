"""A shape, checked by plain integer arithmetic: the whole predicted ledger, and each constraint's slack.

Nothing here touches a solver: this is what every answer is checked with again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from models.declare import Basis, EngineModel, FactSpec, Outcome, Phase, Require, Row, Verdict
from models.difference import Difference
from models.expr import Cond, Expr, Missing, OnIntervals, OnNominal, Truth, Value, Walk
from models.interval import Interval, point

Shape = Mapping[str, int]
#: Knobs as a boot had them: a log may print one to a step only.
BootKnobs = Mapping[str, int | Interval]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a model is asked about, beside the shape; equal to itself alone.

    ``as_is`` are the stated knobs of the boot that the facts are from, ``facts`` the given figures in base units
    (bytes, tokens, counts), ``printed`` what a ledger of the as-is shape printed for named rows, ``limits`` the quality
    constraints that this site makes hard.
    """

    as_is: BootKnobs
    facts: Mapping[str, Interval]
    printed: Mapping[str, Interval] = field(default_factory=dict)
    limits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Quantity:
    """A named row: ``value`` is the best-supported figure within ``low`` to ``high``.

    ``value`` is None where only the interval matters, of the row itself or of one that it depends on. ``predicted`` is
    the interval before a printed row narrowed it, of this shape or moved from the one that printed it; None where none
    did.
    """

    name: str
    value: int | None
    low: int
    high: int
    unit: str
    source: str
    basis: Basis
    predicted: Interval | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """One constraint, judged. ``verdict`` is None where ``missing`` facts leave it open.

    ``low`` and ``high`` bound the slack in ``unit``; both None where it does not apply or is open. ``remedy`` is what
    mends this shape.
    """

    require: Require
    verdict: Verdict | None
    applies: bool
    low: int | None
    high: int | None
    remedy: str
    missing: frozenset[str] = frozenset()
    hard: bool = True


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything a model says about one shape."""

    shape: dict[str, Interval]
    quantities: dict[str, Quantity]
    constraints: tuple[Checked, ...]
    verdict: Verdict
    outcome: Outcome
    outcomes: tuple[Outcome, ...]
    contradicted: tuple[str, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]
    unread: dict[str, frozenset[str]]

    def constraint(self, name: str) -> Checked:
        """The constraint of that name. Raises KeyError when the model has none."""
        for checked in self.constraints:
            if checked.require.name == name:
                return checked
        raise KeyError(name)


class Knobs(Mapping[str, Interval]):
    """The value of every knob of a model in one shape; a knob nobody set has its default.

    A knob whose default nobody knows is absent, so that what depends on it turns up as missing; so are the knobs
    in ``open_ones``, and every default that follows from one.
    """

    def __init__(self, model: EngineModel, shape: BootKnobs, open_ones: Collection[str] = ()) -> None:
        self._values: dict[str, Interval] = {}
        pending: dict[str, Expr] = {}
        for name, spec in model.knobs.items():
            if spec.kind == "text" or name in open_ones:
                continue
            if name in shape:
                stated = shape[name]
                self._values[name] = stated if isinstance(stated, Interval) else point(stated)
            elif isinstance(spec.default, Expr):
                pending[name] = spec.default
            elif spec.default is not None:
                self._values[name] = point(spec.default)
        while pending:  # a default may follow from another default
            for name, default in list(pending.items()):
                walk = Walk(OnIntervals(knobs=self._values, as_is={}, facts={}))
                value = walk.number(default)
                if isinstance(value, Interval):
                    self._values[name] = value
                    del pending[name]
                    break
            else:
                return

    def __getitem__(self, name: str) -> Interval:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Reader:
    """Reads a model's expressions for one shape: on intervals, and at the best-supported figures.

    A knob of ``shape`` may be an interval: then the reading is of all shapes that it allows.
    What is written with a condition in ``assumed`` takes it for true. Where ``narrowed`` is off, nothing that a ledger
    printed of this very shape counts, so that it compares with others.
    """

    def __init__(self, model: EngineModel, given: Given, shape: BootKnobs, assumed: Collection[Cond] = (), *,
                 narrowed: bool = True) -> None:
        self._model, self._given, self._assumed = model, given, assumed
        self.knobs = Knobs(model, shape)
        as_is = Knobs(model, given.as_is)
        same = self._same = dict(self.knobs) == dict(as_is)
        self._inputs = {"knobs": self.knobs, "as_is": as_is, "facts": given.facts}
        self._narrowing = self._all_printed() if same and narrowed else {}
        self.intervals = OnIntervals(knobs=self.knobs, as_is=as_is, facts=given.facts, printed=self._narrowing)
        self._walk = self._reading(self.intervals)
        self._shifted: dict[frozenset[str], Walk[Value, Truth]] = {}

    def _reading(self, algebra: OnIntervals) -> Walk[Value, Truth]:
        walk: Walk[Value, Truth] = Walk(algebra)
        for condition in self._assumed:
            walk.assume(condition, True)
        return walk

    def _all_printed(self) -> dict[str, Interval]:
        found = dict(self._given.printed)
        for name, (low_end, high_end) in self._model.implied.items():
            low, high = self._plain.number(low_end), self._plain.number(high_end)
            if isinstance(low, Missing) or isinstance(high, Missing) or low.low > high.high:
                continue
            implied = Interval(low.low, high.high)
            found[name] = found.get(name, implied).meet(implied) or found[name]
        return found

    @cached_property
    def _plain(self) -> Walk[Value, Truth]:
        return self._reading(OnIntervals(knobs=self.knobs, as_is=self._inputs["as_is"], facts=self._given.facts))

    @cached_property
    def _nominal(self) -> Walk[Value, Truth]:
        def middles(values: Mapping[str, Interval]) -> dict[str, Interval]:
            return {name: point(value.middle) for name, value in values.items()}

        return self._reading(OnNominal(knobs=middles(self.knobs), as_is=middles(self._inputs["as_is"]),
                                       facts=middles(self._given.facts)))

    @property
    def narrowing(self) -> Mapping[str, Interval]:
        """What a ledger of this very shape printed for named rows; empty where it is of another one."""
        return self._narrowing

    def number(self, node: Expr) -> Value:
        """The interval of ``node``, narrowed by what a ledger of this very shape printed."""
        return self._walk.number(node)

    def shifted(self, node: Expr, zeroed: frozenset[str]) -> Value:
        """The interval of ``node`` with the facts ``zeroed`` counted as 0 where nobody gave them."""
        if zeroed not in self._shifted:
            self._shifted[zeroed] = self._reading(OnIntervals(knobs=self.knobs, as_is=self._inputs["as_is"],
                                                              facts=self._given.facts, zeroed=zeroed))
        return self._shifted[zeroed].number(node)

    def plain(self, node: Expr) -> Value:
        """The interval of ``node`` without what a ledger narrowed."""
        return self._plain.number(node) if self._narrowing else self.number(node)

    def condition(self, node: Cond) -> Truth:
        """The truth of ``node`` over all values the facts allow."""
        return self._walk.condition(node)

    def quantity(self, row: Row) -> Quantity | frozenset[str]:
        """The row as a quantity, or the names of the facts it lacks."""
        value = self._walk.number(row.expr)
        if isinstance(value, Missing):
            return value.names
        predicted = None
        if row.name in self._narrowing:
            plain = self._plain.number(row.expr)
            predicted = plain if isinstance(plain, Interval) else None
        moved = self._moved(row.expr)
        meet = None if moved is None else value.meet(moved)
        if meet is not None and meet != value:
            value, predicted = meet, value
        best = value.low if value.exact else self._best(row, value)
        hidden = not value.exact and (row.discrete or self._hangs(row.expr))
        return Quantity(row.name, None if hidden else best, value.low, value.high, row.unit, row.source,
                        row.basis, predicted)

    def _moved(self, node: Expr) -> Interval | None:
        """What a ledger of another shape tells of ``node``: what it narrowed there, moved by the difference."""
        if self._boot is None:
            return None
        boot, difference = self._boot
        was = boot.number(node)
        if not isinstance(was, Interval) or was == boot.plain(node):
            return None
        by = difference.number(node)
        return was + by if isinstance(by, Interval) else None

    @cached_property
    def _boot(self) -> tuple[Reader, Difference] | None:
        """The shape that the ledger is of, and how this one differs; None where it is the same, or there is no ledger.
        """
        if self._same or not self._given.printed:
            return None
        boot = _boot_of(self._model, self._given)
        return boot, Difference(boot._walk, self._walk, (boot.knobs, self.knobs), self._given.facts.keys())

    def _hangs(self, node: Expr) -> bool:
        """Whether ``node`` depends on a row that has no middle and is not decided here: then neither has it."""
        return any(first.number(node) != last.number(node) for first, last in self._undecided)

    @cached_property
    def _undecided(self) -> list[tuple[Walk[Value, Truth], Walk[Value, Truth]]]:
        # for each such row two readings, in which it has its least and its greatest value
        found = []
        for row in self._model.rows.values():
            value = self.number(row.expr) if row.discrete else None
            if isinstance(value, Interval) and not value.exact:
                ends = [self._narrowing | {row.name: point(end)} for end in (value.low, value.high)]
                first, last = (self._reading(OnIntervals(knobs=self.knobs, as_is=self._inputs["as_is"],
                                                         facts=self._given.facts, printed=end)) for end in ends)
                found.append((first, last))
        return found

    def _best(self, row: Row, within: Interval) -> int:
        nominal = self._nominal.number(row.expr)
        best = nominal.low if isinstance(nominal, Interval) else within.middle
        return min(max(best, within.low), within.high)

    def remedy(self, require: Require) -> str:
        """What mends ``require`` in this shape."""
        return next((text for when, text in require.instead if self.condition(when) is True), require.remedy)

    def remedy_of_all(self, require: Require) -> str:
        """What mends ``require`` though all shapes read here were tried: nothing that helps in a part of them only."""
        return next((text for when, text in require.instead if self.condition(when) in (True, None)), require.remedy)

    def check(self, require: Require) -> Checked:
        """``require`` judged for this shape."""
        remedy = self.remedy(require)
        hard = require.phase is not Phase.QUALITY or require.name in self._given.limits
        past = require.use == "evidence" and not self._same  # it judges the boot that showed it, no other shape
        if past or self.condition(require.unless) is True:
            return Checked(require, Verdict.FITS, False, None, None, remedy, hard=hard)
        truth = self.condition(require.holds)
        slack = self.number(require.slack)
        if isinstance(truth, Missing):
            return Checked(require, None, True, None, None, remedy, truth.names, hard)
        low, high = (None, None) if isinstance(slack, Missing) else (slack.low, slack.high)
        verdict = {True: Verdict.FITS, None: Verdict.KNIFE_EDGE, False: Verdict.DOES_NOT_FIT}[truth]
        return Checked(require, verdict, True, low, high, remedy, hard=hard)


@lru_cache(maxsize=8)
def _boot_of(model: EngineModel, given: Given) -> Reader:
    """The reading of the boot that the facts are from: every shape that is compared with it shares it."""
    return Reader(model, given, given.as_is)


def evaluate(model: EngineModel, given: Given, shape: Shape, reader: Reader | None = None) -> Evaluation:
    """Every row, constraint and note of ``model`` for ``shape``, by ``reader`` where one is at hand.

    ``missing`` names what a verdict needs and nobody gave; ``unread`` maps rows that could not be computed to
    the facts they lack. Raises nothing: what is not known is said in the result.
    """
    reader = reader or Reader(model, given, shape)
    quantities: dict[str, Quantity] = {}
    unread: dict[str, frozenset[str]] = {}
    for declared in model.rows.values():
        found = reader.quantity(declared)
        if isinstance(found, Quantity):
            quantities[declared.name] = found
        else:
            unread[declared.name] = found
    verdict, outcome, outcomes, constraints = judge(model, reader)
    notes = tuple(note.text for note in model.notes if reader.condition(note.when) is True)
    return Evaluation(
        dict(reader.knobs), quantities, constraints, verdict, outcome, outcomes,
        tuple(sorted(reader.intervals.contradicted)), notes, lacking(model, reader, constraints), unread,
    )


def judge(model: EngineModel, reader: Reader) -> tuple[Verdict, Outcome, tuple[Outcome, ...], tuple[Checked, ...]]:
    """The verdict on the shape that ``reader`` reads, its outcome, the outcomes possible, and every constraint."""
    constraints = tuple(
        checked
        for checked in (reader.check(r) for r in model.requires if r.use != "search")
        if not (checked.require.use == "evidence" and (checked.missing or checked.verdict is Verdict.FITS))
    )
    return *_judge(constraints), constraints


def _judge(constraints: tuple[Checked, ...]) -> tuple[Verdict, Outcome, tuple[Outcome, ...]]:
    hard = [c for c in constraints if c.hard and c.verdict is not None]
    verdict = max((c.verdict for c in hard if c.verdict is not None), default=Verdict.FITS)
    certain = max((c.require.broken for c in hard if c.verdict is Verdict.DOES_NOT_FIT), default=Outcome.SERVES)
    possible = {c.require.broken for c in hard if c.verdict is Verdict.KNIFE_EDGE and c.require.broken > certain}
    outcomes = tuple(sorted({certain, *possible}))
    return verdict, outcomes[-1], outcomes


def lacking(model: EngineModel, reader: Reader, constraints: tuple[Checked, ...]) -> tuple[str, ...]:
    """The facts that a verdict on the shape needs, and nobody gave."""
    by_name = {c.require.name: c for c in constraints}
    found: list[str] = []
    for when, names in model.needs:
        counts = reader.condition(when)
        if counts is False:
            continue
        if isinstance(counts, Missing):
            found += sorted(counts.names)
        open_ones = [by_name[name].missing for name in names if by_name[name].missing]
        if len(open_ones) == len(names):
            found += sorted(open_ones[0])
    return tuple(dict.fromkeys(found))


def fold_cards(
    specs: Mapping[str, FactSpec], facts: Mapping[str, Interval]
) -> tuple[dict[str, Interval], dict[str, int]]:
    """Per-card facts (``card_total.0``) folded as the engine folds them, and the card that binds for each.

    The smallest capacity and the largest program bind; what is held is the capacity less the least free.
    A fact given without a card wins over none, and loses to its cards.
    """
    folded = {name: value for name, value in facts.items() if "." not in name}
    binding: dict[str, int] = {}
    cards: dict[str, dict[int, Interval]] = {}
    for name, value in facts.items():
        plain, _, card = name.rpartition(".")
        if plain in specs and card.isdigit():
            cards.setdefault(plain, {})[int(card)] = value
    for name, by_card in cards.items():
        how = specs[name].fold
        if how == "held":
            continue
        least = how == "min"
        pick = min(by_card, key=lambda c: by_card[c].middle if least else -by_card[c].middle)
        ends = [(v.low, v.high) for v in by_card.values()]
        ends_low, ends_high = zip(*ends, strict=True)
        folded[name] = Interval(min(ends_low), min(ends_high)) if least else Interval(max(ends_low), max(ends_high))
        binding[name] = pick
    if "already_held" in cards:
        folded["already_held"], binding["already_held"] = _held(cards, folded)
    return folded, binding


def _held(cards: Mapping[str, Mapping[int, Interval]], folded: Mapping[str, Interval]) -> tuple[Interval, int]:
    held = cards["already_held"]
    totals = cards.get("card_total", {})
    if not totals or set(totals) != set(held):
        # one capacity for all cards: the fullest card has the least free
        pick = max(held, key=lambda c: held[c].middle)
        return Interval(max(v.low for v in held.values()), max(v.high for v in held.values())), pick
    free = {card: totals[card] - held[card] for card in held}
    pick = min(free, key=lambda c: free[c].middle)
    capacity = folded["card_total"]
    if all(totals[pick].high <= totals[c].low for c in totals) and all(
        free[pick].high <= free[c].low for c in free if c != pick
    ):
        return held[pick], pick
    least = Interval(min(v.low for v in free.values()), min(v.high for v in free.values()))
    difference = capacity - least
    return Interval(max(difference.low, 0), max(difference.high, 0)), pick
