"""From the shape that runs to another one in deploys of one knob each, every shape on the way fitting.

What counts as one deploy: one knob; or both pools of a pair, where one grows and the other shrinks; with either, the
pinned-RAM gate and its target, which follow the pinned ledger. The fewest deploys win, then the least risk
(:data:`RULE` says it for people), proven by trying every set of knobs that may stand at its new value while the others
do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, Final, Literal

from measurements.records import ReadError
from measurements.site import Site
from models.declare import EngineModel, Require, Verdict
from models.evaluate import Checked, Knobs, Quantity, Reader
from optimizer.check import (
    SCHEMA_VERSION,
    Check,
    MissingFacts,
    arena_notes,
    check,
    constraint_json,
    engine_json,
    how_to_get,
    quantity_json,
    shape_json,
)
from optimizer.solve import Answer, Companion, current, gates_of, moving_with, pinned_of, spelled_out

#: Knobs that may differ: all sets of them are tried.
MOST: Final = 12
#: What a plan keeps to, for people.
RULE: Final = (
    "a deploy changes one knob, straight to its new value; both pools of a pair count as one where one grows and the "
    "other shrinks, and so do the pinned-RAM gate and its target with whatever moves the pinned ledger",
    "no other knob moves: a way through a knob outside the target, or by a stop half-way, is not looked for",
    "a knob of the KV pool and one of placement (experts, n-gram table, embedding) never move in one deploy",
    "every shape on the way fits: a knife edge does not count; what runs now may be anything",
    "fewest deploys of two knobs, then fewest deploys, then least risk",
    "risk, in this order: room at the deploys that change what the activation arena takes (the nearer a limit, the "
    "worse); how many deploys rest on an arena that nobody has measured yet; room at all deploys; then the order in "
    "which the engine's knobs are listed. Room is the smallest slack of the hard memory limits, in steps that a "
    "setting could use up, each deploy counting 1 / (1 + room)",
)
#: Facts that a boot measures, and that change with the arena.
_ARENA: Final = ("activation_arena", "pair_ceiling", "settled_free", "settle_floor")

#: A set of knobs at their new values, one bit each.
Done = int


@dataclass(frozen=True, slots=True)
class Target:
    """The shape to come to: knobs to set, and who asks for it.

    ``gates`` says whether the pinned-RAM gates in it are meant as they are; they else follow the pinned ledger.
    """

    values: Mapping[str, int]
    gates: bool
    rank: int | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """What speaks against a shape: constraints that it breaks or may break, or facts to tell."""

    knobs: tuple[str, ...]
    broken: tuple[Checked, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a deploy stands in its place: ``after`` or ``before`` another, and what would break; else it is ``free``."""

    kind: Literal["after", "before", "free", "only"]
    step: int | None = None
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class Risk:
    """What one deploy, or all of a plan, adds to the risk: the less the better, the first figure first."""

    arena: Fraction = Fraction(0)
    unmeasured: int = 0
    room: Fraction = Fraction(0)

    def __add__(self, other: Risk) -> Risk:
        return Risk(self.arena + other.arena, self.unmeasured + other.unmeasured, self.room + other.room)

    @property
    def key(self) -> tuple[Fraction, int, Fraction]:
        return self.arena, self.unmeasured, self.room


@dataclass(frozen=True, slots=True)
class Step:
    """One deploy. ``moves`` are what counts as one each; ``alone`` says of two why neither can go by itself.

    ``back`` are the exact values before it, None where the setting was not there.
    """

    number: int
    changes: dict[str, tuple[int | None, int]]
    moves: tuple[tuple[str, ...], ...]
    along: tuple[Companion, ...]
    why: tuple[Reason, ...]
    alone: tuple[Stop, ...]
    checked: Check
    nearest: Checked | None
    rows: tuple[tuple[str, Quantity | None, Quantity], ...]
    reads: tuple[str, ...]
    again: tuple[str, ...]
    unmeasured: bool
    back: dict[str, int | None]
    notes: tuple[str, ...]
    risk: Risk


@dataclass(frozen=True, slots=True)
class Plan:
    """The deploys to ``target``; ``orders`` counts the orders that fit with as few of them.

    ``two_knobs``: some deploy needs two knobs. ``no_path``: the target fits, and not even so it can be come to;
    ``reached`` is then how far it goes and ``stops`` what speaks against each next deploy. ``does_not_fit``: the
    target itself does not, ``stops`` saying why.
    """

    site: Site
    target: Target
    status: Literal["planned", "two_knobs", "no_path", "does_not_fit"]
    now: Check | None
    last: Check
    changes: dict[str, tuple[int | None, int]]
    steps: tuple[Step, ...]
    orders: int
    risk: Risk
    reached: dict[str, tuple[int | None, int]]
    stops: tuple[Stop, ...]
    mixed: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]


def stated_target(site: Site, words: Mapping[str, str]) -> Target:
    """The target that names each knob to change. Raises ReadError of kind ``usage`` for what no deploy can set."""
    values = spelled_out(site, words)
    return Target(values, bool(set(moving_with()) & values.keys()))


def ranked_target(answer: Answer, rank: int) -> Target:
    """The target that is a ranked shape. Raises ReadError of kind ``usage`` where there are fewer."""
    if not 1 <= rank <= len(answer.shapes):
        raise ReadError(f"there is no rank {rank}: the answer has {len(answer.shapes)} shapes", kind="usage")
    question, gates = answer.question, moving_with()
    asked = bool(set(gates) & {*question.free, *question.given})
    shape = answer.shapes[rank - 1].shape
    return Target({name: value for name, value in shape.items() if asked or name not in gates}, asked, rank, answer)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One shape of the way: whether it fits, and what a plan needs to know of it."""

    shape: dict[str, int]
    along: tuple[Companion, ...]
    reader: Reader
    checked: Check | None
    fits: bool
    missing: tuple[str, ...]
    nearest: Checked | None
    room: Fraction

    def broken(self) -> tuple[Checked, ...]:
        found = () if self.checked is None else self.checked.evaluation.constraints
        return tuple(c for c in found if c.hard and c.verdict not in (None, Verdict.FITS))


class _Way:
    """All shapes between the running one and the target, each judged when it is first asked for."""

    def __init__(self, site: Site, target: Target) -> None:
        self.site, self.model = replace(site, removed=()), site.model
        self._target = target
        self._now = Reader(site.model, site.given, site.knobs)
        known = self._now.knobs
        self.running = {name: value.low for name, value in known.items() if value.exact}
        gates = moving_with()
        changed = [name for name in site.model.knobs
                   if name in target.values and self.running.get(name) != target.values[name]]
        self._gates = {name: target.values[name] for name in gates if name in changed and target.gates}
        names = [name for name in changed if name not in gates]
        self._base = dict(site.knobs) | self._kept(names)
        movers = 0
        if self._gates:
            movers = sum(1 << place for place, name in enumerate(names) if self._pins(name))
        if self._gates and not movers:  # nothing that they follow: a deploy of their own
            names += list(self._gates)
            self._gates = {}
        self._movers = movers
        self.names = tuple(names)
        self.all: Done = (1 << len(names)) - 1
        self._judged: dict[Done, _Judged] = {}
        if len(names) > MOST:
            raise ReadError(f"{len(names)} knobs differ ({', '.join(names)}); a plan orders {MOST} at most: name a "
                            "target on the way with --to", kind="usage")
        self.units = tuple(self._units())

    def _kept(self, names: Sequence[str]) -> dict[str, int]:
        """Knobs that the target has as they are, which no file states and whose default would move along."""
        values = self._target.values
        bare = dict(self.site.knobs) | {name: values[name] for name in names}
        after = Knobs(self.model, bare)
        return {name: value for name, value in values.items()
                if name not in bare and (name not in after or after[name].low != value or not after[name].exact)}

    def _pins(self, name: str) -> bool:
        shape = self._base | {name: self._target.values[name]}
        rest = self._base | {other: value for other, value in self._target.values.items() if other != name}
        ends = [pinned_of(self.site, Reader(self.model, self.site.given, knobs))
                for knobs in (self._base, shape, rest, self._base | dict(self._target.values))]
        return ends[0] != ends[1] or ends[2] != ends[3]

    def _units(self) -> Iterator[Done]:
        """What counts as one: every knob, and both pools of a pair where one grows and the other shrinks."""
        gates = [place for place, name in enumerate(self.names) if name in moving_with()]
        for place in range(len(self.names)):
            if place not in gates:
                yield 1 << place
        if gates:
            yield sum(1 << place for place in gates)
        for pair in self.model.trades:
            if set(pair) <= set(self.names):
                old, new = ([values.get(name, 0) for name in pair] for values in (self.running, self._target.values))
                if all((*old, *new)) and (new[0] - old[0]) * (new[1] - old[1]) < 0:
                    yield sum(1 << self.names.index(name) for name in pair)

    def knobs(self, part: Done) -> tuple[str, ...]:
        """The knobs of a set, in the order in which the engine lists them."""
        return tuple(name for place, name in enumerate(self.names) if part >> place & 1)

    def mixes(self, part: Done) -> bool:
        """Whether a deploy of these would resize the KV pool and change a placement."""
        names, model = self.knobs(part), self.model
        return any(pool in names and place in names and pool != place
                   for pool in model.pool_knobs for place in model.placement_knobs)

    def deploys(self, done: Done, at_once: int) -> Iterator[tuple[Done, tuple[Done, ...]]]:
        """What may be deployed next, as a set and as the units of it; up to ``at_once`` units."""
        left = [unit for unit in self.units if not unit & done]
        for unit in left:
            yield unit, (unit,)
        if at_once > 1:
            singles = set(left)
            for one, other in combinations(left, 2):
                both = one | other
                if not one & other and both not in singles and not self.mixes(both):
                    yield both, (one, other)

    def changes(self, before: Done, after: Done) -> dict[str, tuple[int | None, int]]:
        return {name: (self.running.get(name), self._target.values[name]) for name in self.knobs(after & ~before)}

    def at(self, done: Done) -> _Judged:
        """The shape with these knobs at their new values, judged."""
        if done not in self._judged:
            self._judged[done] = self._judge(done)
        return self._judged[done]

    def _judge(self, done: Done) -> _Judged:
        shape = self._base | {name: self._target.values[name] for name in self.knobs(done)}
        along: tuple[Companion, ...] = ()
        if done == 0:
            shape = dict(self.site.knobs)
        elif self._gates and done & self._movers == self._movers:
            along = tuple(Companion(name, self.site.knobs.get(name, 0), value, "as asked for")
                          for name, value in self._gates.items())
        elif not set(moving_with()) & set(self.names):
            along = gates_of(self.site, self._now, shape)
        shape |= {companion.knob: companion.after for companion in along}
        reader = Reader(self.model, self.site.given, shape)
        try:
            checked = check(self.site, shape, reader)
        except MissingFacts as error:
            names = tuple(item["name"] for item in error.missing)
            return _Judged(shape, along, reader, None, False, names, None, Fraction(0))
        missing = tuple(sorted({name for c in checked.evaluation.constraints if c.missing and any(
            shape.get(knob, 0) < self.running.get(knob, 0) for knob in c.require.guards) for name in c.missing}))
        limits = [c for c in checked.evaluation.constraints if _limits(c.require) and c.hard and c.low is not None]
        nearest = min(limits, key=lambda c: c.low or 0, default=None)
        room = Fraction(0)
        if nearest is not None and nearest.low is not None:
            room = Fraction(1, 1 + max(nearest.low, 0) // self.model.grain)
        fits = checked.verdict is Verdict.FITS and not missing
        return _Judged(shape, along, reader, checked, fits, missing, nearest, room)

    def arena(self, before: Done, after: Done) -> bool:
        """Whether a deploy changes what the activation arena takes."""
        return any(name in self.model.arena_knobs for name in self.knobs(after & ~before))

    def unmeasured(self, done: Done) -> bool:
        """Whether the figures of this shape rest on an arena of other settings."""
        return bool(list(arena_notes(self.site, self.at(done).reader.knobs)))

    def risk(self, before: Done, after: Done) -> Risk:
        room = self.at(after).room
        return Risk(room if self.arena(before, after) else Fraction(0), int(self.unmeasured(after)), room)

    def stop(self, before: Done, part: Done) -> Stop | None:
        """What speaks against deploying ``part`` on a shape; None where nothing does."""
        judged = self.at(before | part)
        return None if judged.fits else Stop(self.knobs(part), judged.broken(), judged.missing)


def _limits(require: Require) -> bool:
    return require.unit == "B" and not require.form and require.use in ("always", "moved")


@dataclass(frozen=True, slots=True)
class _Path:
    """The best way to a shape so far, and how many there are with as few deploys."""

    doubles: int
    deploys: int
    risk: Risk
    order: tuple[tuple[Done, ...], ...]
    ways: int

    @property
    def key(self) -> tuple[Any, ...]:
        return self.doubles, self.deploys, *self.risk.key, tuple(_listed(deploy) for deploy in self.order)


def _listed(deploy: tuple[Done, ...]) -> tuple[int, ...]:
    """The places of a deploy's knobs in the list, which break the last ties."""
    parts = sum(deploy)
    return tuple(place for place in range(parts.bit_length()) if parts >> place & 1)


def _search(way: _Way, at_once: int) -> dict[Done, _Path]:
    """The best path to every shape that can be come to in deploys of ``at_once`` units at most.

    Costs only add up, so that the best path to a shape begins with the best one to each shape on it.
    """
    found: dict[Done, _Path] = {0: _Path(0, 0, Risk(), (), 1)}
    levels: dict[int, list[Done]] = {0: [0]}
    for size in range(len(way.names)):
        for done in levels.get(size, ()):
            path = found[done]
            for part, units in way.deploys(done, at_once):
                after = done | part
                if not way.at(after).fits:
                    continue
                new = _Path(path.doubles + (len(units) > 1), path.deploys + 1, path.risk + way.risk(done, after),
                            (*path.order, units), path.ways)
                old = found.get(after)
                if old is None:
                    levels.setdefault(after.bit_count(), []).append(after)
                    found[after] = new
                    continue
                few, more = (old.doubles, old.deploys), (new.doubles, new.deploys)
                ways = old.ways + new.ways if few == more else old.ways if few < more else new.ways
                found[after] = replace(min(old, new, key=lambda path: path.key), ways=ways)
    return found


def plan(site: Site, target: Target) -> Plan:
    """The deploys from the shape that runs to ``target``.

    Raises MissingFacts where the target, or every way to it, needs facts that nobody gave, and ReadError of kind
    ``usage`` where more than :data:`MOST` knobs differ.
    """
    way = _Way(site, target)
    now, last = current(site), way.at(way.all)
    if last.checked is None or (last.missing and not last.broken()):
        raise MissingFacts(how_to_get(site.model, last.missing))
    warnings = [f"{gone.name} ({place}) is gone since {gone.since}: the first deploy, like every other, must leave it "
                f"out. Instead: {gone.instead}" for gone, place in site.removed]
    warnings += [] if now is None else [text for text in now.warnings if text in last.checked.warnings]

    def made(status: Literal["planned", "two_knobs", "no_path", "does_not_fit"], path: _Path | None = None,
             far: Done = 0, stops: tuple[Stop, ...] = (), mixed: tuple[tuple[str, ...], ...] = ()) -> Plan:
        assert last.checked is not None
        steps = () if path is None else tuple(_steps(way, path))
        return Plan(site, target, status, now, last.checked, way.changes(0, way.all), steps,
                    path.ways if path else 0, path.risk if path else Risk(), way.changes(0, far), stops, mixed,
                    tuple(dict.fromkeys(warnings)))

    if not last.fits:
        return made("does_not_fit", stops=(Stop(way.knobs(way.all), last.broken(), last.missing),))
    found = _search(way, 1)
    if way.all in found:
        return made("planned", found[way.all])
    unknown = sorted({name for judged in way._judged.values() for name in judged.missing})
    found = _search(way, 2)
    if unknown:
        warnings.append(f"some shapes on the way cannot be judged without {', '.join(unknown)}: with them a plan of "
                        "one knob a deploy may exist")
    if way.all in found:
        return made("two_knobs", found[way.all])
    unknown = sorted({name for judged in way._judged.values() for name in judged.missing})
    if unknown:
        raise MissingFacts(how_to_get(site.model, unknown))
    far = max(found, key=lambda done: (done.bit_count(), -done))
    stops = [way.stop(far, part) for part, _ in way.deploys(far, 2)]
    left = [unit for unit in way.units if not unit & far]
    mixed = [way.knobs(one | other) for one, other in combinations(left, 2)
             if not one & other and way.mixes(one | other) and way.at(far | one | other).fits]
    return made("no_path", far=far, stops=tuple(stop for stop in stops if stop is not None), mixed=tuple(mixed))


def _steps(way: _Way, path: _Path) -> Iterator[Step]:
    states = [0]
    for units in path.order:
        states.append(states[-1] | sum(units))
    for number, units in enumerate(path.order, 1):
        before, after = way.at(states[number - 1]), way.at(states[number])
        assert after.checked is not None
        old = {companion.knob: companion for companion in before.along}
        new = {companion.knob: companion for companion in after.along}
        along = []
        for name in moving_with():
            was, becomes = before.shape.get(name, 0), after.shape.get(name, 0)
            if was != becomes and name not in way.names:
                why = new[name].why if name in new else f"as before {', '.join(old)} moved"
                along.append(Companion(name, was, becomes, why))
        changes = way.changes(states[number - 1], states[number])
        kept = {name: (way.running.get(name), value) for name, value in after.shape.items()
                if name not in before.shape and name not in changes and name not in moving_with()}
        back = {name: before.shape.get(name) for name in (*changes, *kept, *(item.knob for item in along))}
        alone = () if len(units) < 2 else tuple(
            stop for unit in units if (stop := way.stop(states[number - 1], unit)) is not None)
        arena = way.arena(states[number - 1], states[number])
        facts = [name for name in _ARENA if name in way.site.given.facts] if arena else []
        said = () if before.checked is None else before.checked.warnings
        yield Step(
            number, changes | kept, tuple(way.knobs(unit) for unit in units), tuple(along),
            tuple(_reasons(way, path, states, number)), alone, after.checked, after.nearest,
            tuple(_rows(way.model, before, after)),
            tuple(note.text for note in way.model.reads if after.reader.condition(note.when) is True),
            tuple(facts), way.unmeasured(states[number]), back,
            (*(f"{name} is written down at the value that it has: unstated it would follow" for name in kept),
             *(text for text in after.checked.warnings if text not in said)),
            way.risk(states[number - 1], states[number]),
        )


def _rows(model: EngineModel, before: _Judged, after: _Judged) -> Iterator[tuple[str, Quantity | None, Quantity]]:
    """What the boot after a deploy prints, with the same row of the boot before."""
    assert after.checked is not None
    old = {} if before.checked is None else before.checked.evaluation.quantities
    for name, when in model.prints:
        row = after.checked.evaluation.quantities.get(name)
        if row is not None and after.reader.condition(when) is True:
            yield name, old.get(name) if before.reader.condition(when) is True else None, row


def _reasons(way: _Way, path: _Path, states: Sequence[Done], number: int) -> Iterator[Reason]:
    """Why the deploy of that number is not earlier, and not later."""
    if len(path.order) == 1:
        yield Reason("only")
        return
    part, bound = sum(path.order[number - 1]), False
    for earlier in range(number - 2, -1, -1):
        stop = way.stop(states[earlier], part)
        if stop is not None:
            yield Reason("after", earlier + 1, stop)
            bound = True
            break
    for later in range(number, len(path.order)):
        without = states[later] & ~part
        stop = way.stop(without, sum(path.order[later]))
        if stop is not None:
            yield Reason("before", later + 1, stop)
            bound = True
            break
    if not bound:
        yield Reason("free")


def plan_json(found: Plan) -> dict[str, Any]:
    """The whole answer of ``plan``."""
    site, target = found.site, found.target
    model = site.model
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(site),
        "status": found.status,
        "rule": list(RULE),
        "current": None if found.now is None else _verdict_json(found.now),
        "target": {
            "rank": target.rank,
            "goal": None if target.answer is None else target.answer.question.goal.name,
            "shape": shape_json(model, found.last.evaluation.shape),
            "changes": _changes_json(model, found.changes),
            **_verdict_json(found.last),
            "notes": [] if target.answer is None or target.rank is None else
            list(target.answer.shapes[target.rank - 1].notes),
        },
        "deploys": len(found.steps),
        "two_knob_deploys": sum(len(step.moves) > 1 for step in found.steps),
        "orders": found.orders,
        "risk": _risk_json(found.risk),
        "steps": [_step_json(found, step) for step in found.steps],
        "warnings": list(found.warnings),
    }
    if found.status in ("no_path", "does_not_fit"):
        document["stops"] = [_stop_json(model, stop) for stop in found.stops]
    if found.status == "no_path":
        document["reached"] = _changes_json(model, found.reached)
        document["mixed"] = [list(names) for names in found.mixed]
    return document


def _verdict_json(checked: Check) -> dict[str, Any]:
    return {"verdict": checked.verdict.word, "outcome": checked.outcome.word}


def _changes_json(model: EngineModel, changes: Mapping[str, tuple[int | None, int]]) -> dict[str, list[Any]]:
    return {name: [None if old is None else model.knobs[name].show(old), model.knobs[name].show(new)]
            for name, (old, new) in changes.items()}


def _risk_json(risk: Risk) -> dict[str, Any]:
    return {"arena": float(risk.arena), "unmeasured": risk.unmeasured, "room": float(risk.room)}


def _step_json(found: Plan, step: Step) -> dict[str, Any]:
    model = found.site.model
    return {
        "step": step.number,
        "changes": _changes_json(model, step.changes),
        "moves": [list(move) for move in step.moves],
        "along": [{"knob": item.knob, "from": item.before, "to": item.after, "why": item.why} for item in step.along],
        "why": [{"kind": reason.kind, "step": reason.step,
                 "stop": None if reason.stop is None else _stop_json(model, reason.stop)} for reason in step.why],
        "alone": [_stop_json(model, stop) for stop in step.alone],
        **_verdict_json(step.checked),
        "nearest": None if step.nearest is None else constraint_json(step.nearest),
        "rows": [{"row": name, "before": None if old is None else quantity_json(old), "after": quantity_json(new),
                  "change": None if old is None or old.value is None or new.value is None else new.value - old.value}
                 for name, old, new in step.rows],
        "reads": list(step.reads),
        "again": how_to_get(model, step.again),
        "unmeasured": step.unmeasured,
        "back": {name: None if value is None else _as_filed(found.site, name, value)
                 for name, value in step.back.items()},
        "notes": list(step.notes),
        "risk": _risk_json(step.risk),
    }


def _as_filed(site: Site, name: str, value: int) -> Any:
    """A value to go back to: of a switch that may name a file the file's own words, for they say more than on."""
    spec, setting = site.model.knobs[name], site.mapped.knobs.get(name)
    named = spec.path and value and site.filed.get(name) == value and setting is not None and not setting.secret
    return setting.value if named and setting is not None and setting.value else spec.show(value)


def _stop_json(model: EngineModel, stop: Stop) -> dict[str, Any]:
    return {
        "knobs": list(stop.knobs),
        "broken": [{"name": c.require.name, "verdict": None if c.verdict is None else c.verdict.word,
                    "short": None if c.low is None or c.low > 0 else -c.low, "unit": c.require.unit,
                    "outcome": c.require.broken.word, "remedy": c.remedy} for c in stop.broken],
        "missing": how_to_get(model, stop.missing),
    }
