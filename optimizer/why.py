"""Why not, and what would have to give: all small conflicts, the least repairs, and what would bind next.

A question that nothing answers is explained by its minimal conflicts (sets of constraints and requirements that cannot
hold together, though every smaller part can) and by repairs: for one member alone, or for a minimal set together, the
least amount in its own unit by which it would have to give. What is found is computed again without the solver.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any, Final, Literal

from models.declare import Require
from models.evaluate import Reader
from models.expr import AtMost, Cond, Expr, Knob, Missing, Truth, Value, Walk, lift, maximum, select
from models.interval import MIB, Interval
from optimizer.check import Check, MissingFacts, check, how_to_get
from optimizer.conflicts import explore
from optimizer.solve import (
    Answer,
    Bound,
    Disagreement,
    OutOfTime,
    Question,
    Ranked,
    allows,
    better_than,
    companions_of,
    hard_requires,
    range_of,
    remedy_of,
    solve,
    what_binds,
)

if TYPE_CHECKING:
    from optimizer.lower import Lowering

#: Minimal conflicts and corrections that are looked for, together.
MOST: Final = 48
#: What all solves of one explanation may take together.
SECONDS: Final = 8.0
#: What all held knobs may take to show what each allows, and each of them at least.
HELD_SECONDS: Final = 4.0
LEAST_SECONDS: Final = 0.5
#: What operators would call one step of giving, by unit; others count one by one.
STEPS: Final = {"B": 64 * MIB, "tokens": 1024, "positions": 65_536, "MiB": 64}


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One thing that may have to give: a constraint, a bound of the user's, or a value held by ``--given``.

    It gives in ``1 / scale`` of ``unit``; ``step`` is what an operator would call one step of that.
    """

    name: str
    source: str
    remedy: str
    unit: str
    step: int
    part: Require | Bound | str
    scale: int = 1

    @property
    def kind(self) -> Literal["constraint", "bound", "given"]:
        """What it is, in a word."""
        return "constraint" if isinstance(self.part, Require) else "bound" if isinstance(self.part, Bound) else "given"

    @property
    def fixed(self) -> bool:
        """Whether it cannot give at all: a matter of form has no more or less."""
        return isinstance(self.part, Require) and self.part.form


@dataclass(frozen=True, slots=True)
class Give:
    """By how much a member gives, in ``1 / scale`` of its unit; of a choice it is 1.

    ``to`` is where a bound or a given value is then; None for a constraint.
    """

    member: Member
    amount: int
    to: int | None

    @property
    def name(self) -> str:
        """The member's."""
        return self.member.name


@dataclass(frozen=True, slots=True)
class Repair:
    """The least by which one member, or several together, must give, and the shape this allows.

    ``steps`` is the cost of the whole: each amount in operator's steps, added up; ``proven`` says that nothing less
    will do.
    """

    gives: tuple[Give, ...]
    steps: Fraction
    proven: bool
    shape: dict[str, int]
    changes: dict[str, tuple[int | None, int]]
    checked: Check


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation of an infeasible question.

    ``helpless`` are members of conflicts that no giving of their own repairs, ``undecided`` those of which the time
    limit, or facts that lack, leave open whether it does; ``complete`` says that all minimal conflicts are listed.
    """

    question: Question
    conflicts: tuple[tuple[Member, ...], ...]
    complete: bool
    single: tuple[Repair, ...]
    helpless: tuple[str, ...]
    undecided: tuple[str, ...]
    joint: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class NextBound:
    """What binds the best shape, and what would bind next if that gave way.

    ``gave`` is what of it can give way: constraints, bounds and given values, but not the end of what a knob can be.
    ``best`` is then rank 1; None where nothing can give way, or ``lacking`` says why it is not known. ``gain`` is how
    much better it is, in the goal's own count; ``slack`` what is left now of each constraint or bound that would bind
    then, with unit and scale.
    """

    binding: tuple[str, ...]
    gave: tuple[str, ...]
    best: Ranked | None
    answer: Answer | None
    gain: int | None
    then: tuple[str, ...]
    slack: dict[str, tuple[int, str, int]]
    lacking: str | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A knob that nobody opened and that alone keeps the goal where it is: what is best if it may move.

    ``value`` is where it is held; ``gain`` how much better ``best`` is, in the goal's own count. Both are None where
    that was not found in time; ``proven`` says that nothing is better than ``best``.
    """

    knob: str
    value: int
    best: Ranked | None
    answer: Answer
    gain: int | None
    proven: bool


class _Open(Exception):
    """Whether a repair exists is not known."""


def members_of(question: Question) -> list[Member]:
    """Everything that may have to give, in the order: constraints, bounds, given values."""
    model = question.site.model
    found = [Member(require.name, require.source, remedy_of(question, require), require.unit,
                    STEPS.get(require.unit, 1), require) for require in hard_requires(question)]
    for bound in {bound.label: bound for bound in question.bounds}.values():
        source = bound.why or f"--{bound.sense.replace(' ', '-')}"
        if bound.expr is None and bound.name in model.knobs:
            spec = model.knobs[bound.name]
            unit, step, scale = spec.unit, spec.step, spec.scale
        else:
            unit = bound.unit if bound.expr is not None else model.rows[bound.name].unit
            step, scale = STEPS.get(unit, bound.scale), bound.scale
        found.append(Member(bound.label, source, bound.remedy, unit, step, bound, scale))
    for name in _held(question):
        spec = model.knobs[name]
        loose = spec.kind in ("choice", "switch")
        found.append(Member(f"{name}={spec.show(question.given[name])}", "--given", "let it move",
                            "" if loose else spec.unit, 1 if loose else spec.step, name, 1 if loose else spec.scale))
    return found


def _held(question: Question) -> list[str]:
    """The knobs held by ``--given`` that could move; of how many cards there are the whole model is written."""
    knobs = question.site.model.knobs
    return [name for name in question.given if not knobs[name].inert and knobs[name].kind != "text" and name != "tp"]


def _off(question: Question, knob: str) -> Expr:
    """How far a given value is from where it is held; of a choice, every other is one away."""
    held, now = lift(question.given[knob]), Knob(knob)
    if question.site.model.knobs[knob].kind in ("choice", "switch"):
        return select(now.equals(held), 0, 1)
    return maximum(now - held, held - now)


def _slack(question: Question, member: Member) -> Expr:
    """What is left of a member; below 0 it is broken by that much."""
    part = member.part
    if isinstance(part, Require):
        return part.slack
    if isinstance(part, Bound):
        model = question.site.model
        expr = part.expr or (Knob(part.name) if part.name in model.knobs else model.rows[part.name].expr)
        return expr - part.value if part.sense == "at least" else lift(part.value) - expr
    return 0 - _off(question, part)


def _condition(question: Question, member: Member, give: Expr | None = None) -> Cond:
    """The member as a condition, met where it gives by ``give`` at most."""
    part = member.part
    if isinstance(part, Require):
        return part.holds if give is None else part.unless | AtMost(part.need, part.limit + give)
    return AtMost(0 - _slack(question, member), lift(0) if give is None else give)


def why(question: Question, *, seconds: float = SECONDS) -> Why | None:
    """The explanation of a question that no shape answers; None where some shape does.

    Raises MissingFacts where a requirement of the user's needs facts that nobody gave, and Disagreement when a
    repaired shape does not do what the solver says.
    """
    until = time.monotonic() + seconds
    explorer = _Explorer(question, members_of(question), until)
    if explorer.possible(range(len(explorer.kept))):
        return None
    conflicts, corrections, complete = explorer.explore()
    single: list[Repair] = []
    helpless: list[str] = []
    undecided: list[str] = []
    for place in sorted(frozenset().union(*conflicts)):
        member = explorer.kept[place]
        try:
            repair = _repair(question, explorer.kept, [member], until)
        except _Open:
            undecided.append(member.name)
            continue
        if repair is None:
            helpless.append(member.name)
        else:
            single.append(repair)
    joint: list[Repair] = []
    for correction in corrections:
        if len(correction) > 1:
            try:
                repair = _repair(question, explorer.kept, [explorer.kept[place] for place in sorted(correction)], until)
            except _Open:
                complete = False
                continue
            if repair is not None:
                joint.append(repair)
    listed = [tuple(explorer.kept[place] for place in sorted(conflict)) for conflict in conflicts]
    return Why(question, tuple(listed), complete, tuple(sorted(single, key=_cost)), tuple(helpless), tuple(undecided),
               tuple(sorted(joint, key=_cost)))


def _cost(repair: Repair) -> Fraction:
    return repair.steps


class _Explorer:
    """One model with a switch for every member, asked for all its minimal conflicts and corrections."""

    def __init__(self, question: Question, members: Sequence[Member], until: float) -> None:
        from optimizer.lower import Stages

        self._until = until
        lowering = _opened(question, _held(question))
        literals = [lowering.literal(str(place)) for place in range(len(members))]
        held = {member.part: literal for member, literal in zip(members, literals, strict=True)
                if isinstance(member.part, str)}
        self.kept: list[Member] = []
        self._literals: list[Any] = []
        for member, literal in zip(members, literals, strict=True):
            before = lowering.size
            if _demand_where_held(question, lowering, member, literal, held) and lowering.size > before:
                self.kept.append(member)
                self._literals.append(literal)
        self._stages = Stages(lowering, until - time.monotonic())

    def possible(self, places: Collection[int]) -> bool:
        """Whether the members at ``places`` can all hold; an undecided set counts as possible."""
        chosen = set(places)
        return self._stages.possible({literal: place in chosen for place, literal in enumerate(self._literals)})

    def explore(self) -> tuple[list[frozenset[int]], list[frozenset[int]], bool]:
        """Minimal conflicts, minimal corrections (what is left out of a largest possible set), whether these are all.
        """
        return explore(len(self.kept), self.possible, most=MOST, until=self._until)


def _opened(question: Question, givens: Collection[str]) -> Lowering:
    """A lowering in which the values held by ``--given`` among ``givens`` may move."""
    from optimizer.lower import Lowering

    model = question.site.model
    free = dict(question.free)
    for name in givens:
        low, high = model.knobs[name].domain()
        free[name] = (min(low, question.given[name]), max(high, question.given[name]))
    requires = [require.holds for require in hard_requires(question)]
    return Lowering(model, question.site.given, question.base, free, requires)


def _demand_where_held(question: Question, lowering: Lowering, member: Member, literal: Any,
                       held: Mapping[str, Any]) -> bool:
    """Demands ``member`` where ``literal`` holds; whether the facts allow to judge it.

    What lacks facts as soon as a given value moves is demanded where that value is held, and bounds nothing elsewhere.
    Raises MissingFacts where a bound of the user's cannot be judged even so.
    """
    from optimizer.lower import Lacking

    condition = _condition(question, member)
    try:
        lowering.demand(condition, literal)
    except Lacking:
        pass
    else:
        return True
    needed = list(held)
    lacking = _lacking(question, condition, ())
    if lacking:
        if isinstance(member.part, Require):
            return False  # what cannot be judged bounds nothing
        raise MissingFacts(how_to_get(question.site.model, sorted(lacking)))
    for name in held:
        rest = [other for other in needed if other != name]
        if not _lacking(question, condition, [other for other in held if other not in rest]):
            needed = rest
    part = lowering.holding({name: question.given[name] for name in needed})
    part.demand(condition, [literal, *(held[name] for name in needed)])
    return True


def _lacking(question: Question, condition: Cond, givens: Collection[str]) -> frozenset[str]:
    """The facts that ``condition`` lacks while ``givens`` may move."""
    from optimizer.lower import Lacking

    try:
        _opened(question, givens).demand(condition)
    except Lacking as error:
        return error.names
    return frozenset()


def _repair(question: Question, members: Sequence[Member], giving: Sequence[Member], until: float) -> Repair | None:
    """The least by which ``giving`` must give for all others to hold; None where that cannot be.

    Raises _Open where that is not known.
    """
    from optimizer.lower import LARGEST, Lacking, Stages, changed, moved

    if any(member.fixed for member in giving):
        return None
    model = question.site.model
    lowering = _opened(question, [member.part for member in giving if isinstance(member.part, str)])
    sides: list[Any] = []
    try:
        for place, member in enumerate(giving):
            name = f"give {place}"
            sides.append(lowering.slack(name, max(-lowering.number(_slack(question, member)).low.low, 0)))
            lowering.demand(_condition(question, member, Knob(name)))
    except Lacking:
        raise _Open from None
    judged = [member for member in members if member not in giving and not isinstance(member.part, str)]
    for member in list(judged):
        try:
            lowering.demand(_condition(question, member))
        except Lacking:
            judged.remove(member)
    whole = lcm(*(member.step for member in giving))
    if sum(side.high * (whole // member.step) for side, member in zip(sides, giving, strict=True)) > LARGEST:
        whole = max(member.step for member in giving)
    cost = lowering.total([(side, max(whole // member.step, 1)) for side, member in zip(sides, giving, strict=True)])
    steps = {name: model.knobs[name].step for name in lowering.variables}
    base = {name: question.base[name] for name in lowering.variables}
    objectives: list[Any] = [(cost, "min"), (changed(lowering, base), "min"), (moved(lowering, base, steps), "min")]
    with suppress(Lacking):
        objectives.insert(2, (lowering.number(model.spare).low, "max"))
    # half of the time left, so that one hard repair does not use up what the others need
    found = Stages(lowering, (until - time.monotonic()) / 2).run(objectives, start=base)
    if found.status == "unknown":
        raise _Open
    if found.status == "infeasible":
        return None
    return _checked(question, judged, giving, found.shape, proven=found.status == "optimal")


def _checked(question: Question, judged: Sequence[Member], giving: Sequence[Member], found: Mapping[str, int], *,
             proven: bool) -> Repair:
    """The repair as plain arithmetic has it: what each member is short by, and that all others hold.

    Raises _Open where a constraint that lacked facts to be posted turns out to forbid the shape, and Disagreement where
    one that was posted does.
    """
    site = question.site
    shape = question.base | dict(found)
    # what becomes of a shape that breaks a constraint (a pool that is halved) does not, where the constraint gives
    walk: Walk[Value, Truth] = Walk(Reader(site.model, site.given, shape).intervals)
    for member in giving:
        if isinstance(member.part, Require):
            walk.assume(member.part.holds, True)
    gives = [give for member in giving if (give := _given_way(question, member, walk, shape)).amount]
    broken = [member.name for member in judged if walk.condition(_condition(question, member)) is not True]
    if broken:
        raise Disagreement(f"a repair breaks {', '.join(broken)} by plain arithmetic")
    posted = {member.name for member in (*judged, *giving)}
    for require in hard_requires(question):
        if require.name not in posted and walk.condition(require.holds) in (False, None):
            raise _Open
    shape |= {companion.knob: companion.after for companion in companions_of(question, shape)}
    steps = sum((Fraction(give.amount, give.member.step) for give in gives), Fraction(0))
    changes = {name: (question.running.get(name), value) for name, value in shape.items()
               if question.running.get(name) != value}
    return Repair(tuple(gives), steps, proven, shape, changes, check(replace(site, removed=()), shape))


def _given_way(question: Question, member: Member, walk: Walk[Value, Truth], shape: Mapping[str, int]) -> Give:
    """By how much ``member`` is missed in the shape that ``walk`` reads, at worst."""
    part = member.part
    slack = walk.number(_slack(question, member))
    if not isinstance(slack, Interval):
        raise Disagreement(f"by how much {member.name} gives cannot be computed")
    amount = max(-slack.low, 0)
    if isinstance(part, Require):
        # what was assumed is the condition as a whole, not its exception
        return Give(member, 0 if walk.condition(part.unless) is True else amount, None)
    if isinstance(part, Bound):
        return Give(member, amount, part.value - amount if part.sense == "at least" else part.value + amount)
    return Give(member, amount, shape[part])


def next_bound(answer: Answer, *, seconds: float = SECONDS) -> NextBound | None:
    """What binds rank 1 of ``answer`` and what would bind next; None where it has no shape."""
    if not answer.shapes:
        return None
    question, first = answer.question, answer.shapes[0]
    binding = what_binds(answer, first, seconds=seconds)
    members = {member.name: member for member in members_of(question)}
    gave = [members[name] for name in binding if name in members]
    loose = _loosened(question, gave)
    if not gave:
        return NextBound(binding, (), None, None, None, (), {})
    names = tuple(member.name for member in gave)
    try:
        after = solve(loose, seconds=seconds)
    except MissingFacts as error:
        lacking = ", ".join(item["name"] for item in error.missing)
        return NextBound(binding, names, None, None, None, (), {}, f"{lacking} not known")
    except OutOfTime:
        return NextBound(binding, names, None, None, None, (), {}, "not found in time")
    if not after.shapes:
        raise Disagreement("fewer requirements allow less")
    best = after.shapes[0]
    gain = _worth(question, best) - _worth(question, first)
    then = what_binds(after, best, seconds=seconds)
    reader = Reader(question.site.model, question.site.given, first.shape)
    slack = {}
    for name in then:
        member = members.get(name)
        if member is not None and member.kind != "given":
            left = reader.number(_slack(question, member))
            if isinstance(left, Interval):
                slack[name] = (left.low, member.unit, member.scale)
    return NextBound(binding, names, best, after, gain, then, slack)


def held_back(answer: Answer, *, seconds: float = HELD_SECONDS) -> tuple[HeldBack, ...]:
    """Where nothing forbids more than rank 1 of ``answer`` gives: each held knob that allows more when it alone may
    move too, the one that gives most first.

    A knob that lacks facts to be moved is left out; so is a goal on speed, whose laws are encoded for the knobs that
    move.
    """
    question = answer.question
    if not answer.shapes or question.speeds:
        return ()
    first, until = answer.shapes[0], time.monotonic() + seconds
    opened: dict[str, Question] = {}
    for name in question.held:
        spec = question.site.model.knobs[name]
        if name in question.given or name == "tp" or spec.kind == "text":
            continue
        with suppress(MissingFacts):
            loose = _opening(question, name)
            if allows(loose, better_than(question, first), seconds=seconds):
                opened[name] = loose
    found = []
    for place, (name, loose) in enumerate(opened.items()):
        # one hard knob must not use up what the others need; what is found is better, if not proven best
        share = max((until - time.monotonic()) / (len(opened) - place), LEAST_SECONDS)
        value = loose.base[name]
        try:
            after = solve(_above(loose, first), seconds=share)
        except (MissingFacts, OutOfTime):
            found.append(HeldBack(name, value, None, answer, None, False))
            continue
        if after.shapes:  # else what was undecided is decided now: it allows nothing more
            best = after.shapes[0]
            found.append(HeldBack(name, value, best, after, _worth(question, best) - _worth(question, first),
                                  after.status == "optimal"))
    return tuple(sorted(found, key=lambda item: -(item.gain or 0)))


def _above(question: Question, first: Ranked) -> Question:
    """The question with no shape that is not better than ``first``; as it is where only a shift of the goal is known.
    """
    goal = question.goal
    if first.value is None or isinstance(Reader(question.site.model, question.site.given, first.shape)
                                         .number(goal.objective), Missing):
        return question
    most = goal.sense == "max"
    bound = Bound(goal.name, "at least" if most else "at most",
                  first.objective.low + 1 if most else first.objective.high - 1, "more" if most else "less",
                  expr=goal.objective, unit=goal.unit, scale=goal.scale)
    return replace(question, bounds=(*question.bounds, bound))


def _opening(question: Question, name: str) -> Question:
    """The question as it is with ``--free name`` besides."""
    site = question.site
    reader = Reader(site.model, site.given, question.base)
    ends = range_of(site.model.knobs[name], reader, question.base, name)
    goal = replace(question.goal, shifts=frozenset()) if name in question.goal.shifts_while_held else question.goal
    return replace(question, goal=goal, top=1, free=question.free | {name: ends},
                   base={name: reader.knobs[name].middle} | question.base,
                   held=tuple(other for other in question.held if other != name))


def _worth(question: Question, ranked: Ranked) -> int:
    """The goal as a count of which more is better; where a fact that only shifts it lacks, shifted."""
    value, most = ranked.value, question.goal.sense == "max"
    if value is None:
        value = ranked.objective.low if most else ranked.objective.high
    return value if most else -value


def _loosened(question: Question, gave: Sequence[Member]) -> Question:
    """The question without these members; a given value among them may move."""
    model = question.site.model
    names = {member.name for member in gave}
    opened = [member.part for member in gave if isinstance(member.part, str)]
    free = dict(question.free)
    for name in opened:
        low, high = model.knobs[name].domain()
        free[name] = (min(low, question.given[name]), max(high, question.given[name]))
    return replace(
        question, top=1, free=free, held=tuple(name for name in question.held if name not in opened),
        given={name: value for name, value in question.given.items() if name not in opened},
        without=question.without | {member.name for member in gave if isinstance(member.part, Require)},
        bounds=tuple(bound for bound in question.bounds if bound.label not in names),
    )


def answers(found: Why) -> Iterator[Repair]:
    """All repairs, the cheapest first."""
    yield from sorted((*found.single, *found.joint), key=_cost)
