"""Known outcomes narrow the constants of an engine that nobody printed whole, by the engine's own arithmetic.

Every observation is read as statements: what became of the boot, and figures as printed. One CP-SAT model holds all of
them. A constant is one unknown for all; so is a fact that is known to an interval (weights printed as 67.7 GiB) for all
that share it, while what is measured anew at every boot is an unknown of each. What the declaration itself only bounds
(a believed threshold) may be anything in its bounds, for each condition by itself. So statements exclude only what
could not have been, whatever the digits that nobody printed. What a statement means:

- *serves*: every constraint that bites at boot holds (or its breach only warns). What only load shows (a request that
  is too long, preemption) is not seen at boot, and so says nothing.
- any other outcome: some constraint that ends so is broken, and none that bites at boot and ends worse. Where two ways
  lead to one outcome, either may have been it. What ends better is not asked: a refused server never gets there.
- a printed row: the row's value lies within the printed step.

The least and the greatest value of each constant are proven by the solver, and each is checked again by plain interval
arithmetic: at the end value every statement is possible; beyond it some statement is not, where intervals alone tell.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from measurements.observed import MOST as MOST_OBSERVED
from measurements.observed import Entry, Observed, observe, own_boot
from measurements.records import ReadError
from measurements.site import Site, fact_value
from models.declare import BadValue, EngineModel, FactSpec, Outcome, Phase, Require, Verdict
from models.evaluate import Knobs, Reader, Shape, evaluate
from models.expr import NEVER, AtMost, Cond, Either, Expr, Fact, Missing, facts_in, knobs_in, lift
from models.interval import Interval, point
from optimizer.check import MissingFacts, how_to_get
from optimizer.conflicts import explore
from optimizer.drift import Drift, drift
from optimizer.solve import Disagreement, OutOfTime

if TYPE_CHECKING:
    from optimizer.lower import Lowering, Pair, Reach, Sense

#: What all solves of one calibration may take together.
SECONDS: Final = 30.0
#: Minimal conflicts and largest consistent sets that are looked for, together.
MOST: Final = 48
#: Consistent sets under which constants are narrowed; of more, the others are only named.
READINGS: Final = 4
#: Boxes of the other constants that plain arithmetic tries, to confirm an end by itself.
BOXES: Final = 48
#: Pairs of settings that are compared.
PAIRS: Final = 16

Facts = Mapping[str, Interval]


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One thing that an observation states: its outcome, a printed row, or a constant that its own log printed.

    It can be true where every one of ``conditions`` holds for some value of what is not known. ``against`` says why it
    cannot be true whatever the constants are; empty where it can.
    """

    observed: Observed
    what: str
    text: str
    conditions: tuple[Cond, ...]
    against: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.observed.about}: {self.text}"


@dataclass(frozen=True, slots=True)
class End:
    """One end of a constant's interval: no value beyond it agrees with all statements.

    ``by`` is a minimal set of statements that alone forbids what is beyond (empty where the prior ends there, and where
    no time was left to find it: ``explained`` is then False). ``proven`` is False where the time limit came first: the
    end is then no tighter than it must be. ``confirmed`` says that interval arithmetic alone forbids what is beyond.
    """

    value: int
    by: tuple[Statement, ...]
    proven: bool
    explained: bool
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant: what it may be, before (``prior``) and after; ``default`` is what the declaration has for it."""

    spec: FactSpec
    prior: Interval
    low: End
    high: End
    default: Interval | None

    @property
    def interval(self) -> Interval:
        """What it may be after all."""
        return Interval(self.low.value, self.high.value)

    @property
    def narrowed(self) -> bool:
        """Whether it is known better than before, on both sides."""
        return self.low.value > self.prior.low and self.high.value < self.prior.high

    @property
    def stands(self) -> Literal["inside", "partly", "outside"] | None:
        """Whether the declared value agrees with what was observed; None where nothing is declared."""
        if self.default is None:
            return None
        meet = self.default.meet(self.interval)
        return "outside" if meet is None else "inside" if meet == self.default else "partly"

    @property
    def line(self) -> str:
        """It as a word for ``--fact``."""
        return f"{self.spec.name}={self.words}"

    @property
    def words(self) -> str:
        """Its interval as a fact is written."""
        unit, found = self.spec.unit if self.spec.unit == "B" else "", self.interval
        return f"{found.low}{unit}" if found.exact else f"{found.low}{unit}..{found.high}{unit}"


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What the constants may be if all statements but ``left_out`` are true."""

    left_out: tuple[Statement, ...]
    constants: tuple[Constant, ...]

    @property
    def facts(self) -> dict[str, Interval]:
        """The constants as facts."""
        return {constant.spec.name: constant.interval for constant in self.constants}


@dataclass(frozen=True, slots=True)
class Bound:
    """A constraint on memory that depends on the constants: what it needs, what there is, and what is left, bytes."""

    require: Require
    need: Interval
    limit: Interval
    slack: Interval


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the calibrated model says of one setting: the outcomes that are possible (none where facts lack), and why.

    ``rows`` are the rows that the observation states, with what they are now predicted to be. ``open`` are facts whose
    constraints could not be judged.
    """

    observed: Observed
    outcomes: tuple[Outcome, ...]
    bounds: tuple[Bound, ...]
    rows: dict[str, Interval]
    open: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two settings that differ in one knob: by how much each row's prediction moves, over all constants that are left.

    ``moved`` rows move whatever the constants are, ``same`` ones never do; ``undecided`` ones may, ``unknown`` lack
    facts.
    """

    knob: str
    before: Observed
    after: Observed
    values: tuple[int, int]
    moved: dict[str, Interval]
    undecided: dict[str, Interval]
    same: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The whole answer. ``readings`` are the largest sets of statements that can all be true, the constants narrowed
    under each (one with nothing left out where no statement contradicts another); ``others`` are what further largest
    sets leave out. ``complete`` says that all conflicts and sets are listed. ``silent`` statements hold whatever the
    constants are.
    """

    site: Site
    observed: tuple[Observed, ...]
    statements: tuple[Statement, ...]
    silent: tuple[Statement, ...]
    conflicts: tuple[tuple[Statement, ...], ...]
    complete: bool
    readings: tuple[Narrowed, ...]
    others: tuple[tuple[Statement, ...], ...]
    predicted: tuple[Predicted, ...]
    compared: tuple[Compared, ...]
    drift: Drift | None
    warnings: tuple[str, ...]

    @property
    def consistent(self) -> bool:
        """Whether all statements can be true together."""
        return not self.conflicts


def calibrate(site: Site, entries: Sequence[Entry], *, constants: Mapping[str, str | None] | None = None,
              boots: Sequence[Entry] = (), seconds: float = SECONDS) -> Calibration:
    """What ``entries`` (and the boot logs ``boots``, and the site's own) say of the engine's constants.

    ``constants`` picks those in question, each with the interval it may lie in (None: its prior). Raises ReadError for
    what cannot be read, MissingFacts where a statement cannot be judged without facts that nobody gave, OutOfTime where
    not one set of statements that can be true was found, and Disagreement when plain arithmetic does not find what the
    solver found.
    """
    if site.removed:
        gone = ", ".join(removed.name for removed, _ in site.removed)
        raise ReadError(f"{site.engine} does not know {gone}: name the version that these boots ran", kind="usage")
    priors = priors_of(site, constants)
    own = own_boot(site)
    logs = [*([own] if own is not None else []), *boots]
    if not logs and not entries:
        raise ReadError("give what was observed: --observed FILE, --boot LOG, or a site with a boot log of its own",
                        kind="usage")
    if len(logs) + len(entries) > MOST_OBSERVED:
        count = len(logs) + len(entries)
        raise ReadError(f"these are {count} observations; ask about {MOST_OBSERVED} at a time at most", kind="usage")
    observed = [observe(entry, site, priors) for entry in (*logs, *entries)]
    if len({item.about for item in observed}) < len(observed):
        raise ReadError("two boot logs, or a log and an observation, have one name: labels must tell them apart",
                        kind="usage")
    found = _Question(site, observed, priors, time.monotonic() + seconds).answer()
    readings = [item for item in observed if item.reading is not None and item.entry in logs]
    return replace(found, drift=drift(site.model, readings) if len(readings) > 1 else None)


def priors_of(site: Site, picked: Mapping[str, str | None] | None) -> dict[str, Interval]:
    """The constants in question with what they may be; a fact that the site gives narrows its prior.

    Raises ReadError of kind ``usage`` for a name that is no uncertain constant, or an interval that leaves nothing.
    """
    specs = {name: spec for name, spec in site.model.facts.items() if spec.prior is not None}
    found: dict[str, Interval] = {}
    for name in picked or specs:
        spec = specs.get(name)
        if spec is None or spec.prior is None:
            raise ReadError(f"{name!r} is no uncertain constant of {site.engine}; these are: {', '.join(specs)}",
                            kind="usage")
        prior = spec.prior
        text = (picked or {}).get(name)
        if text is not None:
            try:
                stated = fact_value(spec, name, text)
            except BadValue as error:
                raise ReadError(str(error), kind="usage") from None
            assert stated is not None
            prior = stated
        given = site.given.facts.get(name)
        narrowed = prior if given is None else prior.meet(given)
        if narrowed is None:
            ends = [f"{value:,}" for value in (given.low, given.high, prior.low, prior.high)] if given else []
            raise ReadError(f"{name} is given as {ends[0]} to {ends[1]}, outside of what it may be: {ends[2]} to "
                            f"{ends[3]} {spec.unit}", kind="usage")
        found[name] = narrowed
    return found


def hard_of(model: EngineModel, limits: Collection[str] = ()) -> list[Require]:
    """The constraints that decide an outcome; evidence of past boots is none."""
    return [require for require in model.requires if require.use in ("always", "moved")
            and (require.phase is not Phase.QUALITY or require.name in limits)]


class _Question:
    """All statements in one solver model, each with a switch."""

    def __init__(self, site: Site, observed: Sequence[Observed], priors: Mapping[str, Interval], until: float) -> None:
        from optimizer.lower import Lowering, Stages

        self.site, self.observed, self.priors, self.until = site, observed, dict(priors), until
        self.warnings: dict[str, None] = dict.fromkeys(site.warnings)
        ends = {name: (prior.low, prior.high) for name, prior in priors.items()}
        self._lowerings: dict[int, Lowering] = {}
        #: Unknowns by name, and for each observation which unknown a fact of its is.
        self._unknown: dict[str, Any] = {}
        self._keys: dict[int, dict[str, str]] = {}
        self._readers: dict[tuple[int, tuple[tuple[str, Interval], ...]], Reader] = {}
        first = Lowering(site.model, site.given, {}, {}, opened=ends)
        self._first = first
        self._unknown |= first.opened
        for item in observed:
            keys = self._keys[id(item)] = {name: name for name in priors} | dict(self._open_facts(item))
            self._lowerings[id(item)] = self._read(item, keys)
        self.statements = [statement for item in observed if not item.entry.asked for statement in self._stated(item)]
        self.switches: list[Any] = []
        self.silent: list[Statement] = []
        for place, statement in enumerate(self.statements):
            literal = first.literal(str(place))
            if not self._post(statement, literal):
                self.silent.append(statement)
            self.switches.append(literal)
        self._stages = Stages(first, until - time.monotonic(), linear=True)
        for item in observed:
            for name in sorted(self.reader(item, self.priors).intervals.contradicted):
                said = f"{item.about}: the facts given for {name} contradict each other; either may be right"
                self.warnings[said] = None
        self.constants = {name: prior for name, prior in self.priors.items() if name in first.touched}

    def _read(self, item: Observed, keys: Mapping[str, str]) -> Lowering:
        """``item`` in the solver's model, its facts being these unknowns."""
        from optimizer.lower import Lowering

        opened = {name: self._unknown[key] for name, key in keys.items()}
        return Lowering(item.site.model, item.given, cast(Shape, item.shape), {}, opened=opened, beside=self._first,
                        agreeing=True)

    def _open_facts(self, item: Observed) -> Iterator[tuple[str, str]]:
        """The facts of ``item`` that are known to an interval, each with the unknown that it is."""
        facts = item.site.model.facts
        for name, value in item.given.facts.items():
            spec = facts.get(name)
            if value.exact or spec is None:
                continue
            alone = spec.each_boot or name in item.own
            key = f"{name} of {item.about}" if alone else f"{name} {value.low} {value.high}"
            if key not in self._unknown:
                self._unknown[key] = self._first.unknown(value.low, value.high)
            yield name, key

    # reading statements

    def reader(self, item: Observed, facts: Facts) -> Reader:
        """The model read for one observation, with these values of the constants."""
        key = id(item), tuple(sorted(facts.items()))
        if key not in self._readers:
            given = replace(item.given, facts={**item.given.facts, **facts})
            self._readers[key] = Reader(item.site.model, given, cast(Shape, item.shape))
        return self._readers[key]

    def _stated(self, item: Observed) -> Iterator[Statement]:
        model = item.site.model
        reader = self.reader(item, self.priors)
        if item.outcome is not None:
            lacking = {name: told for name, told in item.site.unknown.items() if name not in item.shape}
            missing = evaluate(model, item.given, cast(Shape, item.shape), reader).missing
            if missing or lacking:
                raise self._missing(item, [*lacking, *missing])
            conditions = self._conditions(item, item.outcome, at_boot=True)
            yield Statement(item, "outcome", item.outcome.word.replace("_", " "), conditions,
                            tuple(self._never(item, item.outcome)))
        rows = {**model.rows, **model.sums}
        for name, printed in item.printed.items():
            row = rows[name]
            value = reader.number(row.expr)
            of_the_log = name not in item.entry.printed
            if isinstance(value, Missing):
                if of_the_log:
                    continue
                raise self._missing(item, sorted(value.names))
            if of_the_log and not facts_in(row.expr).keys() & self.priors.keys():
                continue  # what a log prints of the rest is for `check` to judge
            against = () if value.meet(printed) else (
                f"{name} is {value.low:,} to {value.high:,} {row.unit} whatever the constants are",)
            yield Statement(item, name, f"{name} {self._text(item, name)}",
                            (AtMost(row.expr, lift(printed.high)), AtMost(lift(printed.low), row.expr)), against)
        for name, value in item.own.items():
            if name in self.priors:
                fact, prior = Fact(name), self.priors[name]
                against = () if value.meet(prior) else (f"{name} is taken to be {prior.low:,} to {prior.high:,}",)
                yield Statement(item, name, f"{name} {self._text(item, name)}",
                                (AtMost(fact, lift(value.high)), AtMost(lift(value.low), fact)), against)

    @staticmethod
    def _text(item: Observed, name: str) -> str:
        if name in item.entry.printed:
            return item.entry.printed[name]
        if name in item.entry.facts:
            return item.entry.facts[name]
        if item.reading is not None:
            reading = item.reading.rows.get(name) or item.reading.facts.get(name)
            if reading is not None and reading.printed:
                return reading.printed
        value = item.printed.get(name) or item.own[name]
        return f"{value.low:,}" if value.exact else f"{value.low:,} to {value.high:,}"

    @staticmethod
    def _missing(item: Observed, names: Iterable[str]) -> MissingFacts:
        found = how_to_get(item.site.model, dict.fromkeys(names))
        return MissingFacts([{**one, "how": f"{one['how']} (for {item.about!r}, {item.entry.place})"} for one in found])

    def _conditions(self, item: Observed, outcome: Outcome, *, at_boot: bool) -> tuple[Cond, ...]:
        """What must be possible for ``outcome``; ``at_boot``: as far as a boot shows it."""
        reader = self.reader(item, self.priors)
        hard = hard_of(item.site.model, item.given.limits)
        found: list[Cond] = []
        for require in hard:
            if require.broken > outcome and (not at_boot or require.phase is Phase.BOOT):
                truth = reader.condition(require.holds)
                if not isinstance(truth, Missing) and truth is not True:
                    found.append(require.holds)
        ways = [require for require in hard if require.broken is outcome]
        if outcome is Outcome.SERVES or not ways:
            return tuple(found)
        truths = [reader.condition(require.holds) for require in ways]
        if any(truth is False for truth in truths):
            return tuple(found)
        lacking = sorted({name for truth in truths if isinstance(truth, Missing) for name in truth.names})
        if lacking and at_boot:  # of a prediction it is said what was not judged
            if all(truth is True or isinstance(truth, Missing) for truth in truths):
                raise self._missing(item, lacking)
            self.warnings[f"{item.about}: without {', '.join(lacking)} it is not known what led to "
                          f"{outcome.word.replace('_', ' ')}, so that says only that nothing worse happened"] = None
            return tuple(found)
        broken = [~require.holds for require, truth in zip(ways, truths, strict=True) if truth is None]
        found.append(NEVER if not broken else broken[0] if len(broken) == 1 else Either(tuple(broken)))
        return tuple(found)

    def _never(self, item: Observed, outcome: Outcome) -> Iterator[str]:
        """Why ``outcome`` cannot be, whatever the constants are."""
        reader = self.reader(item, self.priors)
        hard = hard_of(item.site.model, item.given.limits)
        for require in hard:
            if require.broken > outcome and require.phase is Phase.BOOT and reader.condition(require.holds) is False:
                yield f"{require.name} is broken: {require.broken.word.replace('_', ' ')}"
        ways = [require for require in hard if require.broken is outcome]
        if outcome is not Outcome.SERVES and ways and all(reader.condition(way.holds) is True for way in ways):
            yield f"{', '.join(way.name for way in ways)} cannot be broken here"

    def _post(self, statement: Statement, literal: Any) -> bool:
        """Demands ``statement`` where ``literal`` holds; whether that forbids anything."""
        from optimizer.lower import Lacking

        lowering = self._lowerings[id(statement.observed)]
        reader = self.reader(statement.observed, self.priors)
        says = False
        for condition in statement.conditions:
            truth = reader.condition(condition)
            if truth is True:
                continue
            demanded = NEVER if truth is False else condition
            try:
                _read(lowering, demanded)
            except Lacking as error:
                lacking = ", ".join(sorted(error.names))
                self.warnings[f"{statement.name} is judged only in part without {lacking}"] = None
                continue
            before = lowering.size
            lowering.allow(demanded, literal)
            says = says or lowering.size > before
        return says

    def impossible(self, statement: Statement, facts: Facts) -> bool:
        """Whether plain interval arithmetic rules ``statement`` out for all these values of the constants."""
        reader = self.reader(statement.observed, facts)
        return any(reader.condition(condition) is False for condition in statement.conditions)

    # asking the solver

    def _only(self, places: Collection[int]) -> dict[Any, bool]:
        chosen = set(places)
        return {literal: place in chosen for place, literal in enumerate(self.switches)}

    def possible(self, places: Collection[int]) -> bool:
        """Whether the statements at ``places`` can all be true."""
        return self._stages.possible(self._only(places))

    def answer(self) -> Calibration:
        """Everything that is asked of the statements."""
        conflicts, corrections, complete = explore(len(self.statements), self.possible, most=MOST,
                                                   until=time.monotonic() + (self.until - time.monotonic()) / 2)
        complete = complete and not self._stages.undecided
        if not corrections:
            raise OutOfTime("the time limit came before any set of statements was found that can be true; give fewer "
                            "observations, or fewer constants with --constant", kind="usage")
        corrections.sort(key=lambda correction: (len(correction), sorted(correction)))
        least = len(corrections[0]) if corrections else 0
        largest = [item for item in corrections if len(item) == least][:READINGS]
        readings = tuple(self._narrow(correction) for correction in largest)
        if conflicts and not complete:
            self.warnings["not all conflicts were looked for: there are too many, or the time limit came first"] = None
        return Calibration(
            self.site, tuple(self.observed), tuple(self.statements), tuple(self.silent),
            tuple(tuple(self.statements[place] for place in sorted(conflict))
                  for conflict in sorted(conflicts, key=lambda one: (len(one), sorted(one)))), complete, readings,
            tuple(tuple(self.statements[place] for place in sorted(item)) for item in corrections
                  if item not in largest),
            tuple(self._predict(item, largest, readings) for item in self.observed) if readings else (),
            tuple(self._compare(largest)) if readings else (), None, tuple(self.warnings),
        )

    def _narrow(self, left_out: frozenset[int]) -> Narrowed:
        kept = [place for place in range(len(self.statements)) if place not in left_out]
        senses: tuple[Sense, Sense] = ("min", "max")
        # all ends before any reason: a time limit then costs reasons first
        found = {(name, sense): self._reach(name, sense, kept) for name in self.constants for sense in senses}
        constants = [
            Constant(self.site.model.facts[name], prior,
                     self._end(name, "min", found[name, "min"], kept), self._end(name, "max", found[name, "max"], kept),
                     self._default(name))
            for name, prior in self.constants.items()
        ]
        if not all(end.proven for constant in constants for end in (constant.low, constant.high)):
            self.warnings["the time limit came first: a constant of which it says so may be known better"] = None
        return Narrowed(tuple(self.statements[place] for place in sorted(left_out)), tuple(constants))

    def _reach(self, name: str, sense: Sense, kept: Collection[int]) -> Reach:
        found = self._stages.reach(self._first.opened[name], sense, self._only(kept), self._unknown)
        if found is None:
            raise Disagreement("statements that can all be true have no solution")
        return found

    def _end(self, name: str, sense: Sense, found: Reach, kept: Sequence[int]) -> End:
        prior, low = self.priors[name], sense == "min"
        if found.proven:
            if found.told[name] != found.value:
                raise Disagreement(f"{name} is {found.told[name]:,} where the solver says {found.value:,}")
            for place in kept:
                if self.impossible(self.statements[place], self._at(self.statements[place].observed, found.told)):
                    raise Disagreement(f"{self.statements[place].name} cannot be at {name} {found.value:,}")
        if found.value == (prior.low if low else prior.high):
            return End(found.value, (), found.proven, found.proven, False)
        by = self._least(name, sense, found.value, kept) if found.proven else None
        past = Interval(prior.low, found.value - 1) if low else Interval(found.value + 1, prior.high)
        statements = tuple(self.statements[place] for place in sorted(by if by is not None else kept))
        return End(found.value, statements if by is not None else (), found.proven, by is not None,
                   self._excluded(statements, {**self.priors, name: past}, name))

    def _least(self, name: str, sense: Sense, value: int, kept: Sequence[int]) -> list[int] | None:
        """A minimal part of ``kept`` that alone lets the constant go no further than ``value``; None in no time.

        Takes a statement that is broken where the others let it go, until it goes no further, and then leaves out
        what it did not take.
        """
        side = self._first.opened[name]
        by: list[int] = []
        while True:
            found = self._stages.reach(side, sense, self._only(by), self._unknown)
            if found is None or not found.proven:
                return None
            if found.value == value:
                break
            broken = next((place for place in kept if place not in by and self.impossible(
                self.statements[place], self._at(self.statements[place].observed, found.told))), None)
            if broken is None:
                raise Disagreement(f"{name} {found.value:,} breaks no statement, and cannot be")
            by.append(broken)
        for place in list(by):
            rest = [other for other in by if other != place]
            found = self._stages.reach(side, sense, self._only(rest))
            if found is None or not found.proven:
                return None
            if found.value == value:
                by = rest
        return by

    def _at(self, item: Observed, told: Mapping[str, int]) -> dict[str, Interval]:
        """The values of all unknowns as facts of one observation."""
        return {name: point(told[key]) for name, key in self._keys[id(item)].items()}

    def _excluded(self, statements: Sequence[Statement], box: dict[str, Interval], held: str) -> bool:
        """Whether interval arithmetic alone rules out all of ``box``, halving the other constants now and then."""
        pending, tried = [box], 0
        while pending:
            part = pending.pop()
            tried += 1
            if any(self.impossible(statement, part) for statement in statements):
                continue
            wide = [name for name in self.constants if name != held and not part[name].exact]
            if tried + len(pending) >= BOXES or not wide:
                return False
            widest = max(wide, key=lambda name: (part[name].high - part[name].low)
                         / max(self.priors[name].high - self.priors[name].low, 1))
            span = part[widest]
            pending += [{**part, widest: Interval(span.low, span.middle)},
                        {**part, widest: Interval(span.middle + 1, span.high)}]
        return True

    def _default(self, name: str) -> Interval | None:
        """What the declaration has for a constant that nobody gives."""
        for item in self.observed:
            model = item.site.model
            nodes: list[Expr | Cond] = [row.expr for row in (*model.rows.values(), *model.sums.values())]
            for node in (*nodes, *(require.holds for require in model.requires)):
                fact = facts_in(node).get(name)
                if fact is None:
                    continue
                if fact.otherwise is None:
                    return None
                value = self.reader(item, {}).number(fact.otherwise)
                if isinstance(value, Interval):
                    return value
        return None

    # what the calibrated model says

    def _predict(self, item: Observed, left_out: Sequence[frozenset[int]], readings: Sequence[Narrowed]) -> Predicted:
        """The outcomes, bounds and rows of one setting under any of the readings."""
        outcomes: set[Outcome] = set()
        bounds: dict[str, Bound] = {}
        rows: dict[str, Interval] = {}
        missing: dict[str, None] = {}
        for correction, reading in zip(left_out, readings, strict=True):
            kept = [place for place in range(len(self.statements)) if place not in correction]
            reader = self.reader(item, {**self.priors, **reading.facts})
            result = evaluate(item.site.model, item.given, cast(Shape, item.shape), reader)
            if item.entry.asked and result.missing:
                raise self._missing(item, result.missing)
            missing |= dict.fromkeys(sorted({name for one in result.constraints for name in one.missing}))
            if not result.missing:  # else what decides first is not known, and nothing can be said
                outcomes |= self._outcomes(item, result.outcomes, kept)
            for checked in result.constraints:
                require = checked.require
                if checked.applies and checked.hard and not checked.missing and self._depends(require):
                    now = self._bound(item, require, reader, kept, decided=checked.verdict is not Verdict.KNIFE_EDGE)
                    bounds[require.name] = now if require.name not in bounds else _wider(bounds[require.name], now)
            for name in item.entry.printed:
                value = reader.number({**item.site.model.rows, **item.site.model.sums}[name].expr)
                if isinstance(value, Interval):
                    rows[name] = value if name not in rows else rows[name].join(value)
        return Predicted(item, tuple(sorted(outcomes)), tuple(bounds.values()), rows, tuple(missing))

    def _depends(self, require: Require) -> bool:
        return require.unit == "B" and bool(facts_in(require.holds).keys() & self.constants.keys())

    def _outcomes(self, item: Observed, plain: Sequence[Outcome], kept: Collection[int]) -> set[Outcome]:
        """Of the outcomes that interval arithmetic leaves open, those that some constants allow."""
        if len(plain) == 1:
            return set(plain)
        found: set[Outcome] = set()
        for outcome in plain:
            literal = self._first.literal("")
            trial = Statement(item, "outcome", outcome.word, self._conditions(item, outcome, at_boot=False))
            self._post(trial, literal)
            if self._stages.possible({**self._only(kept), literal: True}):
                found.add(outcome)
        if not found:
            raise Disagreement(f"{item.about}: no outcome is possible")
        return found

    def _bound(self, item: Observed, require: Require, reader: Reader, kept: Collection[int], *,
               decided: bool) -> Bound:
        """What is needed, there and left: where that decides anything over all constants together."""
        main = any(require.name in names for _, names in item.site.model.needs)
        over = kept if main or not decided else None
        moves = facts_in(require.limit).keys() & self.constants.keys()
        return Bound(require, self._span(item, require.need, reader, over),
                     self._span(item, require.limit, reader, over if moves else None),
                     self._span(item, require.slack, reader, over))

    def _span(self, item: Observed, node: Expr, reader: Reader, kept: Collection[int] | None) -> Interval:
        """What ``node`` may be, over all constants that agree with the statements at ``kept`` together."""
        from optimizer.lower import Lacking

        plain = reader.number(node)
        if not isinstance(plain, Interval):
            raise Disagreement(f"{item.about}: what was judged cannot be computed")
        if kept is None:
            return plain
        try:
            pair = self._lowerings[id(item)].number(node)
        except Lacking:  # of a branch that plain arithmetic rules out
            return plain
        return Interval(self._far(pair.low, "min", kept, plain), self._far(pair.high, "max", kept, plain))

    def _far(self, side: Any, sense: Sense, kept: Collection[int], within: Interval) -> int:
        """How far ``side`` goes; never beyond ``within``, which plain arithmetic has for the constants' own ends."""
        if side.fixed:
            return int(side.low)
        found = self._stages.reach(side, sense, self._only(kept))
        if found is None:
            raise Disagreement("statements that can all be true have no solution")
        if found.value in within:
            return found.value
        if found.proven:
            raise Disagreement(f"the solver finds {found.value:,}, plain arithmetic {within.low:,} to {within.high:,}")
        return within.low if sense == "min" else within.high  # the time limit left open what intervals close

    def _compare(self, left_out: Sequence[frozenset[int]]) -> Iterator[Compared]:
        """Settings beside each other that differ in one knob alone, on the same facts."""
        model = self.site.model
        plain = [item for item in self.observed if item.reading is None and not item.entry.elsewhere]
        knobs = {id(item): dict(Knobs(item.site.model, item.shape)) for item in plain}
        groups: dict[tuple[str, Any], dict[int, Observed]] = {}
        for item in plain:
            for name, value in knobs[id(item)].items():
                if not value.exact or model.knobs[name].inert:
                    continue
                rest = tuple(sorted((other, one.low, one.high) for other, one in knobs[id(item)].items()
                                    if other != name))
                facts = tuple(sorted((other, one.low, one.high) for other, one in item.given.facts.items()))
                groups.setdefault((name, (rest, facts)), {}).setdefault(value.low, item)
        count = 0
        for (name, _), by_value in groups.items():
            for (low, before), (high, after) in pairwise(sorted(by_value.items())):
                count += 1
                if count > PAIRS:
                    return
                yield self._compared(name, before, after, (low, high), left_out)

    def _compared(self, knob: str, before: Observed, after: Observed, values: tuple[int, int],
                  left_out: Sequence[frozenset[int]]) -> Compared:
        from optimizer.lower import Lacking

        found = Compared(knob, before, after, values, {}, {}, (), ())
        same: list[str] = []
        unknown: list[str] = []
        # both settings on the very same host and boot: what the knob does, not what else differs from boot to boot
        keys = self._keys[id(before)]
        beside = self._read(after, keys)
        for name, row in self.site.model.rows.items():
            if any(isinstance(self.reader(item, self.priors).number(row.expr), Missing) for item in (before, after)):
                unknown.append(name)
            elif knob not in knobs_in(row.expr):
                same.append(name)
            else:
                try:
                    first, second = self._lowerings[id(before)].number(row.expr), beside.number(row.expr)
                except Lacking:
                    unknown.append(name)
                    continue
                by = self._difference(first, second, left_out)
                if by == point(0):
                    same.append(name)
                else:
                    (found.undecided if 0 in by else found.moved)[name] = by
        return replace(found, same=tuple(same), unknown=tuple(unknown))

    def _difference(self, first: Pair, second: Pair, left_out: Sequence[frozenset[int]]) -> Interval:
        """By how much ``second`` is more than ``first``: each side of what is predicted, over all constants."""
        sides = [(second.low, first.low)]
        if not (first.exact and second.exact):
            sides.append((second.high, first.high))
        ends: list[int] = []
        for correction in left_out:
            kept = [place for place in range(len(self.statements)) if place not in correction]
            for left, right in sides:
                gap = self._first.total([(left, 1), (right, -1)])
                senses: tuple[Sense, Sense] = ("min", "max")
                ends += [self._far(gap, sense, kept, Interval(gap.low, gap.high)) for sense in senses]
        return Interval(min(ends), max(ends))


def _read(lowering: Lowering, condition: Cond) -> None:
    """Encodes what ``condition`` is written with, so that demanding it adds nothing but the demand."""
    if isinstance(condition, AtMost):
        lowering.number(condition.left)
        lowering.number(condition.right)
    else:
        lowering.condition(condition)


def _wider(one: Bound, other: Bound) -> Bound:
    return Bound(one.require, one.need.join(other.need), one.limit.join(other.limit), one.slack.join(other.slack))
