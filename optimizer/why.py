"""Why not, and what would have to give: all small conflicts, the least repairs, and what would bind next.

A question that nothing answers is explained by its minimal conflicts (sets of constraints and requirements that cannot
hold together, though every smaller part can) and by repairs: for one member alone, or for a minimal set together, the
least amount in its own unit by which it would have to give. What is found is computed again without the solver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from models.declare import Require
from models.evaluate import Reader
from models.expr import AtMost, Cond, Expr, Knob, Missing, Truth, Value, Walk, lift, maximum
from models.interval import MIB, Interval
from optimizer.check import Check, MissingFacts, check, how_to_get
from optimizer.solve import (
    Answer,
    Bound,
    Disagreement,
    Question,
    Ranked,
    companions_of,
    hard_requires,
    solve,
    what_binds,
)

if TYPE_CHECKING:
    from optimizer.lower import Lowering

#: Minimal conflicts and repairs that are looked for.
MOST: Final = 12
#: What all solves of one explanation may take together.
SECONDS: Final = 8.0
#: What operators would call one step of giving, by unit; others count one by one.
STEPS: Final = {"B": 64 * MIB, "tokens": 1024, "positions": 65_536, "MiB": 64}


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One thing that may have to give: a constraint, a bound of the user's, or a value held by ``--given``."""

    name: str
    source: str
    remedy: str
    unit: str
    step: int
    part: Require | Bound | str


@dataclass(frozen=True, slots=True)
class Give:
    """By how much a member gives, in ``unit``; of a choice it is 1."""

    name: str
    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The least by which one member, or several together, must give, and the shape this allows.

    ``steps`` is the cost of the whole: each amount in operator's steps, added up.
    """

    gives: tuple[Give, ...]
    steps: float
    shape: dict[str, int]
    changes: dict[str, tuple[int | None, int]]
    checked: Check


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation of an infeasible question. ``helpless`` are members of conflicts that no giving of their own
    repairs; ``complete`` says that all minimal conflicts are listed.
    """

    question: Question
    conflicts: tuple[tuple[Member, ...], ...]
    complete: bool
    single: tuple[Repair, ...]
    helpless: tuple[str, ...]
    joint: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class NextBound:
    """What binds the best shape, and what would bind next if that gave way.

    ``best`` is then rank 1, or None where nothing would bind any more; ``gain`` how much better it is, in the goal's
    own count; ``slack`` what is left now, in its unit, of each constraint that would bind then.
    """

    binding: tuple[str, ...]
    best: Ranked | None
    gain: int | None
    then: tuple[str, ...]
    slack: dict[str, tuple[int, str]]


def members_of(question: Question) -> list[Member]:
    """Everything that may have to give, in the order: constraints, bounds, given values."""
    model = question.site.model
    found = [Member(require.name, require.source, require.remedy, require.unit, STEPS.get(require.unit, 1), require)
             for require in hard_requires(question) if not require.form]
    for bound in question.bounds:
        unit = _unit_of(question, bound)
        found.append(Member(bound.label, bound.why or f"--{bound.sense.replace(' ', '-')}", bound.remedy, unit,
                            STEPS.get(unit, 1), bound))
    for name, value in question.given.items():
        spec = model.knobs[name]
        found.append(Member(f"{name}={spec.show(value)}", "--given", "let it move", spec.unit, spec.step, name))
    return found


def _unit_of(question: Question, bound: Bound) -> str:
    model = question.site.model
    if bound.name in model.knobs:
        return model.knobs[bound.name].unit
    return model.rows[bound.name].unit if bound.name in model.rows else ""


def _condition(question: Question, member: Member, give: Expr | None = None) -> Cond:
    """The member as a condition, met where it gives by ``give`` at most."""
    give = give or lift(0)
    part = member.part
    if isinstance(part, Require):
        return part.unless | AtMost(part.need, part.limit + give)
    if isinstance(part, Bound):
        model = question.site.model
        expr = part.expr or (Knob(part.name) if part.name in model.knobs else model.rows[part.name].expr)
        value = lift(part.value)
        return AtMost(value - give, expr) if part.sense == "at least" else AtMost(expr, value + give)
    held = lift(question.given[part])
    return AtMost(maximum(Knob(part) - held, held - Knob(part)), give)


def why(question: Question, *, seconds: float = SECONDS) -> Why | None:
    """The explanation of a question that no shape answers; None where some shape does.

    Raises MissingFacts where a requirement of the user's needs facts that nobody gave, and Disagreement when a
    repaired shape does not do what the solver says.
    """
    members = members_of(question)
    explorer = _Explorer(question, members, seconds)
    if explorer.possible(range(len(explorer.kept))):
        return None
    conflicts, corrections, complete = explorer.explore()
    listed = [tuple(explorer.kept[place] for place in sorted(conflict)) for conflict in conflicts]
    single: list[Repair] = []
    helpless: list[str] = []
    for place in sorted(set().union(*conflicts)):
        member = explorer.kept[place]
        repair = _repair(question, explorer.kept, (member,), seconds)
        if repair is None:
            helpless.append(member.name)
        else:
            single.append(repair)
    joint = [repair for correction in corrections if len(correction) > 1
             if (repair := _repair(question, explorer.kept, [explorer.kept[place] for place in sorted(correction)],
                                   seconds)) is not None]
    return Why(question, tuple(listed), complete, tuple(sorted(single, key=lambda item: item.steps)),
               tuple(helpless), tuple(sorted(joint, key=lambda item: item.steps)))


class _Explorer:
    """One model with a switch for every member, asked for all its minimal conflicts and corrections."""

    def __init__(self, question: Question, members: Sequence[Member], seconds: float) -> None:
        from optimizer.lower import Lacking, Stages

        lowering = _opened(question, [member.part for member in members if isinstance(member.part, str)])
        self.kept: list[Member] = []
        literals: list[Any] = []
        for place, member in enumerate(members):
            literal, before = lowering.literal(str(place)), lowering.size
            try:
                lowering.demand(_condition(question, member), literal)
            except Lacking as error:
                if isinstance(member.part, Require):
                    continue  # what cannot be judged bounds nothing
                raise MissingFacts(how_to_get(question.site.model, sorted(error.names))) from None
            if lowering.size > before:
                self.kept.append(member)
                literals.append(literal)
        for require in hard_requires(question):
            if require.form:
                lowering.demand(require.holds)
        self._literals = literals
        self._stages = Stages(lowering, seconds)

    def possible(self, places: Collection[int]) -> bool:
        """Whether the members at ``places`` can all hold; an undecided set counts as possible."""
        chosen = set(places)
        return self._stages.possible({literal: place in chosen for place, literal in enumerate(self._literals)})

    def explore(self) -> tuple[list[frozenset[int]], list[frozenset[int]], bool]:
        """Minimal conflicts, minimal corrections (what is left out of a largest possible set), whether these are all.

        Takes a set that is in no known possible set and holds no known conflict, and makes it a new one of either.
        """
        everything = frozenset(range(len(self.kept)))
        conflicts: list[frozenset[int]] = []
        corrections: list[frozenset[int]] = []
        while len(conflicts) + len(corrections) < 4 * MOST:
            seed = _unexplored(everything, conflicts, corrections)
            if seed is None:
                return conflicts, corrections, True
            if self.possible(seed):
                grown = set(seed)
                for place in sorted(everything - seed):
                    if self.possible(grown | {place}):
                        grown.add(place)
                corrections.append(everything - grown)
            else:
                shrunk = set(seed)
                for place in sorted(seed):
                    if not self.possible(shrunk - {place}):
                        shrunk.discard(place)
                conflicts.append(frozenset(shrunk))
        return conflicts, corrections, False


def _unexplored(everything: frozenset[int], conflicts: Sequence[frozenset[int]],
                corrections: Sequence[frozenset[int]]) -> frozenset[int] | None:
    """A largest set that holds no conflict whole, and something of every correction; None when there is none left."""

    def search(chosen: frozenset[int]) -> frozenset[int] | None:
        whole = next((conflict for conflict in conflicts if conflict <= chosen), None)
        if whole is None:
            return chosen if all(chosen & correction for correction in corrections) else None
        if not all(chosen & correction for correction in corrections):
            return None
        for place in sorted(whole):
            found = search(chosen - {place})
            if found is not None:
                return found
        return None

    return search(everything)


def _opened(question: Question, givens: Collection[str]) -> Lowering:
    """A lowering in which the values held by ``--given`` among ``givens`` may move."""
    from optimizer.lower import Lowering

    model = question.site.model
    free = dict(question.free)
    for name in givens:
        low, high = model.knobs[name].domain()
        free[name] = (min(low, question.given[name]), max(high, question.given[name]))
    requires = [require.holds for require in hard_requires(question)]
    lowering = Lowering(model, question.site.given, question.base, free, requires)
    lowering.zeroed = question.goal.shifts
    return lowering


def _repair(question: Question, members: Sequence[Member], giving: Sequence[Member], seconds: float) -> Repair | None:
    """The least by which ``giving`` must give for all others to hold; None where that cannot be."""
    from optimizer.lower import Lacking, Stages, changed, moved

    model = question.site.model
    givens = [member.part for member in giving if isinstance(member.part, str)]
    lowering = _opened(question, givens)
    gives: list[tuple[Member, Any]] = []
    for place, member in enumerate(giving):
        name = f"give {place}"
        gives.append((member, lowering.slack(name)))
        lowering.demand(_condition(question, member, Knob(name)))
    for member in members:
        if member not in giving and not isinstance(member.part, str):
            lowering.demand(_condition(question, member))
    for require in hard_requires(question):
        if require.form:
            try:
                lowering.demand(require.holds)
            except Lacking:
                continue
    largest = max(member.step for member in giving)
    cost = lowering.total([(side, max(largest // member.step, 1)) for member, side in gives])
    steps = {name: model.knobs[name].step for name in lowering.variables}
    base = {name: question.base.get(name, question.given.get(name, 0)) for name in lowering.variables}
    stages = Stages(lowering, seconds)
    found = stages.run([(cost, "min"), (changed(lowering, base), "min"), (lowering.number(model.spare).low, "max"),
                        (moved(lowering, base, steps), "min")])
    if found.status not in ("optimal", "feasible"):
        return None
    return _checked(question, members, giving, found.shape)


def _checked(question: Question, members: Sequence[Member], giving: Sequence[Member],
             found: Mapping[str, int]) -> Repair:
    """The repair as plain arithmetic has it: what each member is short by, and that all others hold."""
    site = question.site
    shape = question.base | dict(found)
    shape |= {companion.knob: companion.after for companion in companions_of(question, shape)}
    reader = Reader(site.model, site.given, shape)
    # what becomes of a shape that breaks a constraint (a pool that is halved) does not, where the constraint gives
    walk: Walk[Value, Truth] = Walk(reader.intervals)
    for member in giving:
        if isinstance(member.part, Require):
            walk.assume(member.part.holds, True)
    gives = []
    for member in giving:
        amount = _short(question, member, walk)
        if amount is None or amount > 0:
            gives.append(Give(member.name, amount or 0, member.unit))
    truths = {member.name: walk.condition(_condition(question, member)) for member in members if member not in giving}
    broken = [name for name, truth in truths.items() if truth is not True and not isinstance(truth, Missing)]
    if broken:
        raise Disagreement(f"a repair breaks {', '.join(broken)} by plain arithmetic")
    steps = sum(give.amount / member.step for give, member in zip(gives, giving, strict=False))
    changes = {name: (question.running.get(name), value) for name, value in shape.items()
               if question.running.get(name) != value}
    return Repair(tuple(gives), steps, shape, changes, check(replace(site, removed=()), shape, reader))


def _short(question: Question, member: Member, walk: Walk[Value, Truth]) -> int | None:
    """By how much ``member`` is missed in the shape that ``walk`` reads, at worst."""
    part = member.part
    if isinstance(part, Require):
        slack = walk.number(part.slack)
    elif isinstance(part, Bound):
        model = question.site.model
        expr = part.expr or (Knob(part.name) if part.name in model.knobs else model.rows[part.name].expr)
        slack = walk.number(expr - part.value if part.sense == "at least" else lift(part.value) - expr)
    else:
        held = lift(question.given[part])
        slack = walk.number(0 - maximum(Knob(part) - held, held - Knob(part)))
    return max(-slack.low, 0) if isinstance(slack, Interval) else None


def next_bound(answer: Answer, *, seconds: float = SECONDS) -> NextBound | None:
    """What binds rank 1 of ``answer`` and what would bind next; None where it has no shape."""
    if not answer.shapes:
        return None
    question, first = answer.question, answer.shapes[0]
    binding = what_binds(answer, first, seconds=seconds)
    if not binding:
        return NextBound((), None, None, (), {})
    loose = replace(
        question, top=1, without=frozenset(binding),
        bounds=tuple(bound for bound in question.bounds if bound.label not in binding),
    )
    after = solve(loose, seconds=seconds)
    if not after.shapes:
        return NextBound(binding, None, None, (), {})
    best = after.shapes[0]
    sign = 1 if question.goal.sense == "max" else -1
    gain = sign * ((best.objective.low if sign > 0 else best.objective.high)
                   - (first.objective.low if sign > 0 else first.objective.high))
    then = what_binds(after, best, seconds=seconds)
    slack = {c.require.name: (c.low, c.require.unit) for c in first.checked.evaluation.constraints
             if c.require.name in then and c.low is not None}
    return NextBound(binding, best, gain, then, slack)


def answers(found: Why) -> Iterator[Repair]:
    """All repairs, the cheapest first."""
    yield from sorted((*found.single, *found.joint), key=lambda item: item.steps)
