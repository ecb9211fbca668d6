"""The best shapes for a goal: encoded, solved, ranked, and each checked again without the solver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from measurements.records import ReadError
from measurements.site import Site, knob_value
from models.declare import BadValue, EngineModel, Goal, KnobSpec, Phase, Require, Verdict
from models.evaluate import Reader
from models.expr import ALWAYS, AtMost, Cond, Expr, Knob, Missing, knobs_in, lift
from models.interval import GIB, MIB, Interval, size
from optimizer.check import Check, MissingFacts, arena_notes, check, how_to_get
from optimizer.speed import GOALS, Encoder, Speed, Workload, ends_of, needs_of, opens, predicted, put, reached

if TYPE_CHECKING:
    from measurements.laws.law import Prediction
    from optimizer.speed import Measured

#: What all solves of one question may take together; a small model needs milliseconds.
SECONDS: Final = 8.0
#: RAM beside a unified-memory server below which its own note warns.
ENOUGH_LEFT: Final = 10 * GIB
#: The gate that refuses to start below the pinned ledger, and the limit that the serve script raises before.
_GATES: Final = ("ttm_min_mib", "ttm_target_mib")
#: What of the pinned ledger may not be known and is the same in every shape.
_UNKNOWN_PINS: Final = frozenset(("ngram_table", "ngram_size"))


class OutOfTime(ReadError):
    """The time limit was reached before any shape was found."""


class Disagreement(Exception):
    """A shape the solver returned fails the plain arithmetic: a defect, never an answer."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A requirement beside the engine's: a knob or quantity at least or at most a value (in its base unit).

    The user asks for it, or ``why`` says who does; ``expr`` is what it bounds where no knob or row is called so, in
    ``1 / scale`` of ``unit``.
    """

    name: str
    sense: Literal["at least", "at most"]
    value: int
    text: str
    why: str = ""
    remedy: str = "ask for less"
    expr: Expr | None = None
    unit: str = ""
    scale: int = 1

    @property
    def label(self) -> str:
        """How conflicts and binding lists name it."""
        return f"{self.sense} {self.name}={self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a goal, the shape it starts from, which knobs may move, and what must hold.

    ``running`` are all knob values as they are, defaults included, and ``now`` reads them. ``speed`` are the laws that
    a goal on speed rests on; ``order`` the goals that came before this one, and itself; ``before`` the laws of those.
    ``without`` names constraints that do not count: what would become of a shape that breaks one does not.
    """

    site: Site
    goal: Goal
    base: dict[str, int]
    given: dict[str, int]
    free: dict[str, tuple[int, int]]
    held: tuple[str, ...]
    bounds: tuple[Bound, ...]
    top: int
    running: dict[str, int]
    now: Reader
    speed: Speed | None = None
    order: tuple[str, ...] = ()
    before: tuple[Speed, ...] = ()
    without: frozenset[str] = frozenset()

    @property
    def speeds(self) -> tuple[Speed, ...]:
        """All laws that the answer rests on: of this goal, and of those that came before it."""
        return (*(() if self.speed is None else (self.speed,)), *self.before)


@dataclass(frozen=True, slots=True)
class Companion:
    """A value that must move with another: the gate that refuses to start below the pinned ledger."""

    knob: str
    before: int
    after: int
    why: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """One shape of an answer: its changes, the objective's interval, and the check it passed.

    ``binding`` is what less slack is left of than one step could use; :func:`what_binds` says more of rank 1.

    ``gain`` is how much better it is than the shape as it is, worst case against worst case; None where that is
    not known.
    """

    rank: int
    shape: dict[str, int]
    changes: dict[str, tuple[int | None, int]]
    objective: Interval
    value: int | None
    gain: int | None
    binding: tuple[str, ...]
    checked: Check
    companions: tuple[Companion, ...]
    notes: tuple[str, ...]
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """One member of a minimal set that cannot hold together."""

    name: str
    source: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a solve. ``status`` is ``infeasible`` with a conflict, or says whether rank 1 is proven."""

    question: Question
    status: Literal["optimal", "feasible", "infeasible"]
    shapes: tuple[Ranked, ...]
    conflict: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()


def goal_of(model: EngineModel, name: str) -> Goal:
    """The goal of that name. Raises ReadError of kind ``usage`` naming the goals this engine has."""
    word = name.strip().lower().replace("_", "-")
    if word in model.goals:
        return model.goals[word]
    known = ", ".join([*model.goals, *GOALS])
    why = f" ({model.no_goals[word]})" if word in model.no_goals else ""
    raise ReadError(f"{model.name} has no goal {name!r}{why}; its goals: {known}", kind="usage")


def ask(
    site: Site, goal: str, *, given: Mapping[str, str] | None = None, at_least: Sequence[tuple[str, str]] = (),
    at_most: Sequence[tuple[str, str]] = (), free: Sequence[str] = (), top: int = 5,
    workload: Workload | None = None,
) -> Question:
    """Puts a question together: a knob moves only where the goal, the split or the user opens it.

    A goal on speed (:data:`optimizer.speed.GOALS`) is asked for ``workload``.

    Raises ReadError of kind ``usage`` for a name or value that means nothing here, and MissingFacts where no measured
    speed says anything about the goal.
    """
    model = site.model
    word = goal.strip().lower().replace("_", "-")
    fast = word in GOALS
    load = workload or Workload()
    if fast:
        target = Goal(word, GOALS[word][0], lift(0), "max", "t/s", moves=opens(site, word, load))
    else:
        target = goal_of(model, goal)
    base = dict(site.knobs)
    fixed: dict[str, int] = {}
    for name, text in (given or {}).items():
        value = knob_value(model, name, text)
        if value is None:
            raise ReadError(f"--given {name}={text} names no value to hold", kind="usage")
        demand_layout(site, name, value, f"--given {name}={text}")
        fixed[name] = value
    base |= fixed
    bounds = [_bound(model, name, text, "at least") for name, text in at_least]
    bounds += [_bound(model, name, text, "at most") for name, text in at_most]
    for bound in bounds:
        demand_layout(site, bound.name, None, f"a bound on {bound.name}")
    reader = Reader(model, site.given, base)
    opened = [*target.moves, *(name for name, when in model.split if reader.condition(when) is True)]
    opened += [bound.name for bound in bounds if bound.name in model.knobs]
    for name in free:
        spec = model.knobs.get(name)
        if spec is None:
            knob_value(model, name, "")  # says which knobs there are
        if spec is None or spec.kind == "text" or spec.inert or name == "tp":
            raise ReadError(f"{name} cannot be opened: it moves nothing that is solved for", kind="usage")
        opened.append(name)
    names = [name for name in dict.fromkeys(opened) if name not in fixed]
    now = Reader(model, site.given, site.knobs)
    moved = {name for name in target.shifts_while_held
             if name in names or reader.knobs.get(name) != now.knobs.get(name)}
    if reader.condition(target.shifts_when) is not True or moved:
        target = replace(target, shifts=frozenset())
    ranges = {name: range_of(model.knobs[name], reader, base, name) for name in names}
    held = tuple(name for name, spec in model.knobs.items()
                 if name not in names and not spec.inert and name in reader.knobs)
    for name in names:  # a free knob starts from its value as it is, stated or not
        if name not in base and name in reader.knobs:
            base[name] = reader.knobs[name].middle
    running = {name: value.middle for name, value in now.knobs.items()}
    question = Question(site, target, base, fixed, ranges, held, tuple(bounds), top, running, now)
    asked_for = {*free, *(bound.name for bound in bounds)}
    return _with_speed(question, word, load, asked_for) if fast else question


def demand_layout(site: Site, name: str, value: int | None, asked: str) -> None:
    """Raises ReadError of kind ``usage`` where a knob would move that the model itself was built for."""
    if name == "tp" and value != site.knobs.get("tp", 1):
        raise ReadError(f"{asked}: what a card holds of the model hangs on tp, and every figure with it; ask with "
                        f"--set tp=N, as of another server", kind="usage")


def spelled_out(site: Site, words: Mapping[str, str]) -> dict[str, int]:
    """The values that ``--to`` spells out. Raises ReadError of kind ``usage`` for what no prediction can follow."""
    values: dict[str, int] = {}
    for name, text in words.items():
        value = knob_value(site.model, name, text)
        if site.model.knobs[name].inert:
            raise ReadError(f"--to {name}={text}: nothing here tells what it does to memory, so nothing can be "
                            "predicted of it; set it by hand", kind="usage")
        if value is None:
            raise ReadError(f"--to {name}={text} leaves the value to the engine; write the number", kind="usage")
        demand_layout(site, name, value, f"--to {name}={text}")
        values[name] = value
    return values


def with_speed(question: Question) -> Question:
    """A question whose goal on speed was written for another shape, with the goal of its own.

    Raises MissingFacts where no measured speed says anything of it, and ReadError of kind ``usage``.
    """
    if question.speed is None:
        return question
    plain = replace(question, bounds=tuple(bound for bound in question.bounds if not bound.why), speed=None)
    return _with_speed(plain, question.goal.name, question.speed.workload, question.free.keys(),
                       question.speed.measured)


def moving_with() -> tuple[str, ...]:
    """Knobs that follow others where nobody sets them: see :func:`companions_of`."""
    return _GATES


def _with_speed(question: Question, name: str, workload: Workload, asked_for: Collection[str],
                measured: Measured | None = None) -> Question:
    """The question with its goal encoded from the laws that hold here, and bounded by their data."""
    site, model = question.site, question.site.model
    reader = Reader(model, site.given, question.base)
    speed = put(site, name, workload, reader, question.free, measured)
    for used in speed.used:
        slots = used.law.spec.slots
        if name == "decode-total" and not used.tied and slots in question.free and slots not in asked_for:
            # the law knows one number of streams only: more slots would change nothing that it tells
            ranges = {knob: ends for knob, ends in question.free.items() if knob != slots}
            question = replace(question, free=ranges, held=(*question.held, slots))
            speed = put(site, name, workload, reader, ranges, speed.measured)
    bounds = list(question.bounds)
    for knob, value, why in needs_of(speed):
        bounds.append(Bound(knob, "at least", value, f"{value:,}", why, "ask for a smaller workload"))
    bounds += data_bounds(speed, question, reader)
    target = Encoder(speed, site, question.base, question.free, reader).goal()
    return replace(question, goal=replace(target, moves=question.goal.moves), bounds=tuple(bounds), speed=speed)


def demand_law(question: Question) -> None:
    """Raises MissingFacts where the one law behind a goal on speed knows a single setting: nothing ranks shapes."""
    if question.speed is None or len(question.speed.used) > 1:
        return
    law = question.speed.used[0].law
    if law.why_not:
        raise MissingFacts([{"name": f"{law.metric} points", "unit": "t/s",
                             "how": f"{law.name}: {law.why_not}; next says what to measure"}])


def data_bounds(speed: Speed, question: Question, reader: Reader) -> list[Bound]:
    """Bounds that keep shapes within the data of the laws behind ``speed``."""
    found: list[Bound] = []
    for ends in ends_of(speed, question.site, question.free, reader):
        sides: tuple[tuple[Literal["at least", "at most"], int], ...] = (("at least", ends.low), ("at most", ends.high))
        for sense, value in sides:
            unit = f" {ends.unit}" if ends.unit else ""
            found.append(Bound(ends.axis, sense, value, f"{value:,}{unit}", ends.why, ends.remedy, ends.expr,
                               ends.unit))
    return found


def ask_in_order(
    site: Site, order: Sequence[str], *, given: Mapping[str, str] | None = None,
    at_least: Sequence[tuple[str, str]] = (), at_most: Sequence[tuple[str, str]] = (), free: Sequence[str] = (),
    top: int = 5, workload: Workload | None = None, seconds: float = SECONDS,
) -> Question:
    """The last goal of ``order`` as a question, with every goal before it held within 1 % of its best, in turn.

    What any of the goals opens is free in all. Raises what :func:`ask` and :func:`solve` do.
    """
    words = [word.strip().lower().replace("_", "-") for word in order]
    if len(words) < 2 or "balanced" in words or len(set(words)) < len(words):
        raise ReadError("an order names two goals at least, each once and none of them balanced: "
                        "--order prefill,sessions", kind="usage")
    opened = list(free)
    for word in words:
        moves = opens(site, word, workload or Workload()) if word in GOALS else goal_of(site.model, word).moves
        opened += [name for name in moves if name not in (given or {})]
    asked = [ask(site, word, given=given, at_least=at_least, at_most=at_most, free=list(dict.fromkeys(opened)),
                 top=top if word == words[-1] else 1, workload=workload) for word in words]
    # where the laws of one goal end, all of them do
    kept = list({(bound.label, bound.why): bound for question in asked for bound in question.bounds
                 if bound.why}.values())
    for place, (word, question) in enumerate(zip(words, asked, strict=True)):
        own = [bound for bound in question.bounds if not bound.why]
        before = tuple(other.speed for other in asked[:place] if other.speed is not None)
        question = replace(question, bounds=(*own, *kept), order=tuple(words), before=before)
        if place == len(words) - 1:
            return question
        answer = solve(question, seconds=seconds)
        if not answer.shapes:
            return question
        goal, reached = question.goal, answer.shapes[0].objective
        best = reached.low if goal.sense == "max" else reached.high
        least = -(-best * 99 // 100) if goal.sense == "max" else best * 101 // 100
        shown = f"{least / goal.scale:,.6g} {goal.unit}"
        kept.append(Bound(word, "at least" if goal.sense == "max" else "at most", least, shown,
                          "within 1 % of its best inside the data" if any(q.speed for q in asked) else
                          "within 1 % of its best", "change the order of the goals", goal.objective, goal.unit,
                          goal.scale))
    raise AssertionError("the last goal returns")


def range_of(spec: KnobSpec, reader: Reader, base: Mapping[str, int], name: str) -> tuple[int, int]:
    """The bounds in which ``name`` may move when it is free. Raises MissingFacts where its value is not known."""
    if name not in reader.knobs:
        raise MissingFacts([{"name": name, "unit": spec.unit, "how": f"set {name} in the config"}])
    low, high = spec.domain()
    now = base.get(name, reader.knobs[name].middle)
    if now % spec.grid == 0:  # the running value is always allowed
        low, high = min(low, now), max(high, now)
    if not spec.upwards:
        high = max(now - now % spec.grid, low)
    return low, high


def _bound(model: EngineModel, name: str, text: str, sense: Literal["at least", "at most"]) -> Bound:
    if name in model.knobs and model.knobs[name].kind in ("int", "decimal", "switch", "choice"):
        value = knob_value(model, name, text)
        if value is None:
            raise ReadError(f"{sense} {name}={text} names no value", kind="usage")
        return Bound(name, sense, value, text)
    if name not in model.rows:
        known = ", ".join([*model.rows, *(n for n, s in model.knobs.items() if not s.inert)])
        raise ReadError(f"{name!r} is neither a knob nor a quantity here; known: {known}", kind="usage")
    row = model.rows[name]
    try:
        if row.unit == "B":
            span = size(text)
        elif text.isascii() and text.isdigit() and len(text) < 16:
            span = Interval(int(text), int(text))
        else:
            raise BadValue(f"{text!r} is not a whole number of {row.unit}")
    except ValueError as error:
        raise ReadError(f"{sense} {name}: {error}", kind="usage") from None
    return Bound(name, sense, span.high if sense == "at least" else span.low, text)


def _expr_of(model: EngineModel, name: str) -> Expr:
    return Knob(name) if name in model.knobs else model.rows[name].expr


def bound_condition(model: EngineModel, bound: Bound) -> AtMost:
    """The bound as a condition."""
    value = lift(bound.value)
    expr = bound.expr or _expr_of(model, bound.name)
    return AtMost(value, expr) if bound.sense == "at least" else AtMost(expr, value)


def hard_requires(question: Question) -> Iterator[Require]:
    """The constraints that a returned shape must meet: all but evidence of past boots and matters of quality."""
    return (require for require in judged_requires(question) if require.name not in question.without)


def judged_requires(question: Question) -> Iterator[Require]:
    """The constraints that any question about these shapes must meet, those in ``without`` too."""
    limits = question.site.given.limits
    asked = bool(set(_GATES) & {*question.free, *question.given})  # then no companion moves them
    for require in question.site.model.requires:
        counts = require.use == "always" or (require.use == "moved" and asked)
        judged = counts and (require.phase is not Phase.QUALITY or require.name in limits)
        if judged or require.use == "search":
            yield require


def remedy_of(question: Question, require: Require) -> str:
    """What mends ``require`` where no shape of ``question`` meets it: its free knobs were tried at all their values."""
    if not require.instead:
        return require.remedy
    tried = question.base | {name: Interval(low, high) for name, (low, high) in question.free.items()}
    return Reader(question.site.model, question.site.given, tried).remedy_of_all(require)


def solve(question: Question, *, seconds: float = SECONDS) -> Answer:
    """The best shapes, rank by rank, each at least an operator's step from the ones before.

    Raises MissingFacts when the goal, a requirement or the verdict needs facts that nobody gave, OutOfTime when
    ``seconds`` are over before any shape is found, and Disagreement when a shape fails the plain arithmetic.
    """
    from optimizer.lower import Stages, changed, far_from, moved

    model = question.site.model
    lowering = lowered(question, question.free, list(hard_requires(question)), question.bounds)
    objective = _objective(lowering, question)
    steps = {name: model.knobs[name].step for name in question.free}
    senses: list[tuple[Any, Literal["max", "min"]]] = [
        (objective, question.goal.sense), *tie_breaks(lowering, question), (changed(lowering, question.base), "min"),
        (lowering.number(model.spare).low, "max"),
        (moved(lowering, question.base, steps), "min"),
    ]
    stages = Stages(lowering, seconds)
    shapes: list[Ranked] = []
    status: Literal["optimal", "feasible", "infeasible"] = "optimal"
    warnings: list[str] = []
    reached: int | None = None
    while len(shapes) < question.top:
        found = stages.run(senses, reached, question.running)
        if found.status == "unknown":
            warnings.append(f"the solver's time limit of {seconds:g} s was reached after {len(shapes)} shapes")
            if not shapes:
                raise OutOfTime(f"no shape was found within {seconds:g} s; hold more knobs with --given",
                                kind="usage")
            break
        if found.status == "infeasible":
            break
        if found.status == "feasible":
            status = "feasible"
            warnings.append(f"rank {len(shapes) + 1} is not proven best: the time limit of {seconds:g} s was reached")
        reached = found.objective if status == "optimal" else None
        shapes.append(ranked_shape(question, len(shapes) + 1, found.shape, lowering.skipped))
        if not question.free:
            break
        far_from(lowering, found.shape, steps)
    if not shapes:
        return infeasible(question, seconds)
    warnings += lacking_constraints(question)
    return Answer(question, status, tuple(shapes), (), tuple(warnings))


def what_binds(answer: Answer, ranked: Ranked, *, seconds: float = SECONDS) -> tuple[str, ...]:
    """What forbids more than ``ranked`` gives: by its slack, or, where a step of the goal of rank 1 is too coarse for
    that to show, a minimal set that forbids a better value.
    """
    if ranked.binding or ranked.rank != 1:
        return ranked.binding
    return forbids(answer.question, better_than(answer.question, ranked), seconds=seconds)


def forbids(question: Question, wanted: Cond, *, seconds: float = SECONDS) -> tuple[str, ...]:
    """A minimal set of what cannot hold together with ``wanted``; empty where all can."""
    return tuple(item.name for item in _shrink(question, list(hard_requires(question)), seconds, wanted))


def allows(question: Question, wanted: Cond, *, seconds: float = SECONDS) -> bool:
    """Whether some shape that answers ``question`` meets ``wanted`` too; what is left undecided counts as possible.

    Raises MissingFacts where a bound or ``wanted`` needs facts that nobody gave.
    """
    from optimizer.lower import Lacking, Stages

    lowering = lowered(question, question.free, list(hard_requires(question)), question.bounds)
    lowering.zeroed = question.goal.shifts
    try:
        lowering.demand(wanted)
    except Lacking as error:
        raise MissingFacts(how_to_get(question.site.model, sorted(error.names))) from None
    return Stages(lowering, seconds).possible({})


def better_than(question: Question, best: Ranked) -> Cond:
    """That the goal is reached better than by ``best``."""
    goal = question.goal
    if goal.sense == "max":
        return AtMost(lift(best.objective.low + 1), goal.objective)
    return AtMost(goal.objective, lift(best.objective.high - 1))


def current(site: Site) -> Check | None:
    """The site's own shape, judged; None where that needs facts nobody gave."""
    try:
        return check(site)
    except MissingFacts:
        return None


def lowered(question: Question, free: Mapping[str, tuple[int, int]], requires: Sequence[Require],
            bounds: Sequence[Bound]) -> Any:
    """A lowering with every requirement posted that the facts allow to judge.

    Raises MissingFacts where a bound needs facts that nobody gave.
    """
    from optimizer.lower import Lacking, Lowering

    site = question.site
    lowering = Lowering(site.model, site.given, question.base, free, [r.holds for r in judged_requires(question)])
    for require in requires:
        try:
            lowering.demand(require.holds)
        except Lacking as error:
            lowering.skipped[require.name] = error.names  # the check names it, where it is open there too
    for bound in bounds:
        try:
            lowering.demand(bound_condition(site.model, bound))
        except Lacking as error:
            raise MissingFacts(how_to_get(site.model, sorted(error.names))) from None
    return lowering


def _objective(lowering: Any, question: Question) -> Any:
    from optimizer.lower import Lacking

    goal = question.goal
    lowering.zeroed = goal.shifts
    try:
        pair = lowering.number(goal.objective)
    except Lacking as error:
        raise MissingFacts(how_to_get(question.site.model, sorted(error.names))) from None
    return pair.low if goal.sense == "max" else pair.high


def tie_breaks(lowering: Any, question: Question) -> Iterator[tuple[Any, Literal["max", "min"]]]:
    """What the goal itself says of shapes that are equal by its objective."""
    for expr, sense in question.goal.then:
        pair = lowering.number(expr)
        yield (pair.low if sense == "max" else pair.high), sense


def ranked_shape(question: Question, rank: int, found: Mapping[str, int],
                 skipped: Mapping[str, frozenset[str]], known: tuple[Reader, Check] | None = None) -> Ranked:
    """What the solver found, checked by plain arithmetic; ``skipped`` are constraints it could not post.

    ``known`` reads and judges the same shape already, for another goal.

    Raises Disagreement where the shape fails the check, and MissingFacts where only missing facts could tell.
    """
    site, model = question.site, question.site.model
    shape = question.base | dict(found)
    companions = companions_of(question, shape)
    shape |= {companion.knob: companion.after for companion in companions}
    if known is None:
        without = [require.holds for require in model.requires if require.name in question.without]
        reader = Reader(model, site.given, shape, without)
        checked = check(replace(site, removed=()), shape, reader)
    else:
        reader, checked = known
    broken = [c.require.name for c in checked.evaluation.constraints
              if c.hard and c.require.name not in question.without and c.require.use in ("always", "moved")
              and c.verdict not in (None, Verdict.FITS)]
    broken += [b.label for b in question.bounds if reader.condition(bound_condition(model, b)) is not True]
    if broken and all(name in skipped for name in broken):
        # what could not be posted for want of facts turns out to forbid this shape: other shapes may need the facts
        raise MissingFacts(how_to_get(model, sorted(frozenset().union(*(skipped[name] for name in broken)))))
    if broken:
        raise Disagreement(f"rank {rank} breaks {', '.join(broken)} by plain arithmetic")
    _demand_guards(question, checked)
    value = reader.number(question.goal.objective)
    shift = isinstance(value, Missing)
    if isinstance(value, Missing):
        value = reader.shifted(question.goal.objective, question.goal.shifts)
    if isinstance(value, Missing):
        raise Disagreement(f"the objective of rank {rank} cannot be computed")
    changes = {name: (question.running.get(name), new) for name, new in shape.items()
               if question.running.get(name) != new}
    best = None if shift else (value.low if question.goal.sense == "max" else value.high)
    if question.speed is not None:  # the law itself, where the solver had it in stretches
        exact = reached(question.speed, reader)
        best = best if exact is None else round(exact * question.goal.scale)
    gain = _gain(question, reader) if changes else 0
    binding = tuple(dict.fromkeys(_binding(question, checked, reader, shape)))
    return Ranked(rank, shape, changes, value, best, gain, binding, checked, companions,
                  tuple(_notes(question, reader, shape, changes, binding)),
                  None if question.speed is None else predicted(question.speed, reader))


def companions_of(question: Question, shape: Mapping[str, int]) -> tuple[Companion, ...]:
    """The pinned-RAM gate, moved by what the pinned ledger moves: see :func:`gates_of`.

    Empty where the user sets or opens one of the two: it stays as it is asked for.
    """
    if set(_GATES) & {*question.free, *question.given}:
        return ()
    return gates_of(question.site, question.now, shape)


def pinned_of(site: Site, reader: Reader) -> int | None:
    """The pinned ledger of the shape that ``reader`` reads, in bytes at most; what only shifts it may be missing."""
    row = site.model.rows.get("pinned_total")
    value = None if row is None else reader.shifted(row.expr, _UNKNOWN_PINS)
    return value.high if isinstance(value, Interval) else None


def gates_of(site: Site, now: Reader, shape: Mapping[str, int]) -> tuple[Companion, ...]:
    """What the gate and its target must be in ``shape``, where that is not what they are.

    ``now`` reads the running shape. The gate rises to the whole ledger, and the target with it, where they would
    stand below; the file's own gap between them is kept. Empty where the site states neither.
    """
    row = site.model.rows.get("pinned_total")
    least, target = (site.knobs.get(name, 0) for name in _GATES)
    if row is None or not (least or target):
        return ()
    reader = Reader(site.model, site.given, shape)
    old, new, whole = pinned_of(site, now), pinned_of(site, reader), reader.number(row.expr)
    if old is None or new is None or isinstance(now.number(row.expr), Missing) is not isinstance(whole, Missing):
        return ()  # what one of the two shapes pins is not known, so neither is the difference
    step = -(-(new - old) // MIB)
    needed = -(-whole.high // MIB) if isinstance(whole, Interval) else 0
    moves, needs = f"the pinned ledger moves by {step:+,} MiB", f"the pinned ledger needs {needed:,} MiB"
    found = []
    limit = site.given.facts.get("ttm_limit")
    after = max(least + step, needed if step else 0)
    if step and limit and not target and after * MIB > limit.low:  # nothing raises the limit: the gate must still open
        after, moves = max(limit.low // MIB, needed), "the host's limit is no higher, and the gate must open"
    if least and after != least:
        found.append(Companion("ttm_min_mib", least, after, needs if after > least + step else moves))
    gap = after - least if least else step
    covered = max(target + gap, limit.low // MIB if limit else 0) >= needed
    aim = target + gap if covered else needed
    if target and aim != target:
        why = "keeps its gap to ttm_min_mib" if covered and least else moves if covered else needs
        if limit and aim * MIB > limit.high:
            why += f"; the host's limit is {limit.high // MIB:,} MiB now, so it must be raised to the target first"
        found.append(Companion("ttm_target_mib", target, aim, why))
    return tuple(found)


def _demand_guards(question: Question, checked: Check) -> None:
    """Raises MissingFacts where the shape lowers a knob past what an open constraint may forbid."""
    for c in checked.evaluation.constraints:
        lowered = [name for name in c.require.guards
                   if checked.shape.get(name, 0) < (question.running.get(name) or 0)]
        if c.missing and lowered:
            raise MissingFacts(how_to_get(question.site.model, sorted(c.missing)))


def _binding(question: Question, checked: Check, reader: Reader, shape: Mapping[str, int]) -> Iterator[str]:
    """What leaves less slack than one step could use: constraints, the user's bounds, the ends of knobs."""
    model = question.site.model
    for c in checked.evaluation.constraints:
        if c.applies and c.hard and c.low is not None and not c.require.form and c.require.name not in question.without:
            grain = model.grain if c.require.unit == "B" else 256 if c.require.unit == "positions" else 1
            if 0 <= c.low < grain and knobs_in(c.require.slack) & question.free.keys():
                yield c.require.name
    for bound in question.bounds:
        value = reader.number(bound.expr or _expr_of(model, bound.name))
        if isinstance(value, Interval):
            slack = value.low - bound.value if bound.sense == "at least" else bound.value - value.high
            unit = model.rows[bound.name].unit if bound.name in model.rows and bound.expr is None else ""
            if 0 <= slack < (model.grain if unit == "B" else 1):
                yield bound.label
    for name, (low, high) in question.free.items():
        if shape[name] == high and low < high and name in question.goal.moves:
            yield f"{name} at its highest ({model.knobs[name].show(high)})"


def _notes(
    question: Question, reader: Reader, shape: Mapping[str, int], changes: Mapping[str, tuple[int | None, int]],
    binding: Sequence[str],
) -> Iterator[str]:
    """What an operator must know before taking this shape."""
    knobs = question.site.knobs
    if "vram_weights_mib" in changes and knobs.get("vram_weights_mib", 0) == 0:
        yield ("this states vram_weights_mib on a site that derives it: a stated weights pool gets no prefill staging "
               "region, so long prefills lose their stager")
    if "vram_kv_mib" in changes and knobs.get("vram_kv_mib", 0) == 0:
        yield "this states vram_kv_mib on a site that derives it: the cache no longer follows the ratio"
    yield from _fewer_experts(question, reader)
    yield from arena_notes(question.site, reader.knobs)
    if (question.running.get("host_pool_mib") or 0) < shape.get("host_pool_mib", 0):
        limits = [n for n in ("ttm_limit", "memlock", "mem_total") if n not in question.site.given.facts]
        if limits:
            yield (f"more pinned RAM, and nothing here says whether the host has it: give {', '.join(limits)} "
                   "(a boot over the limit is refused, or takes the host down)")
    yield from _less_for_neighbours(question, reader)
    if "gpu_headroom_mib" in changes and shape["gpu_headroom_mib"] < 96:
        yield "a headroom of 48 MiB was measured decode-neutral; nothing below it was tested (operator note 000)"
    if "host_reserve_gib" in question.held and "kv_pool_fit" in binding:
        yield ("kv_pool_fit binds: --free host_reserve_gib may admit a larger pool (the reserve allocates nothing, so "
               "lowering it costs only the RAM that the pool then takes)")
    if "host_reserve_gib" in changes:
        yield "host_reserve_gib allocates nothing: lowering it only admits a larger pool, raising it frees nothing"


def _fewer_experts(question: Question, reader: Reader) -> Iterator[str]:
    row = question.site.model.rows.get("vram_weights")
    if row is None:
        return
    now, new = question.now.plain(row.expr), reader.plain(row.expr)
    if isinstance(now, Interval) and isinstance(new, Interval) and now.low - new.low >= 64 * MIB:
        yield (f"vram_weights falls by {(now.low - new.low) // MIB:,} MiB: fewer experts stay on the card; to keep "
               f"them, ask with --at-least vram_weights={now.low // MIB}MiB")


def _less_for_neighbours(question: Question, reader: Reader) -> Iterator[str]:
    row = question.site.model.rows.get("host_left")
    if row is None:
        return
    now, new = question.now.plain(row.expr), reader.plain(row.expr)
    if isinstance(now, Interval) and isinstance(new, Interval) and new.low < now.low and new.low < ENOUGH_LEFT:
        yield (f"this leaves {new.low / GIB:.1f} GiB for everything else on the host: under 10 GiB the engine itself "
               f"warns of minutes-long stalls; to keep room, ask with --at-least host_left={now.low // MIB}MiB")


def _gain(question: Question, reader: Reader) -> int | None:
    """How much better the shape that ``reader`` reads is than the one as it is, without what a ledger narrowed."""
    goal = question.goal
    if question.speed is not None:
        before, after = reached(question.speed, question.now), reached(question.speed, reader)
        if before is None or after is None:
            return None
        return round((after - before if goal.sense == "max" else before - after) * goal.scale)
    now, new = (shape.shifted(goal.objective, goal.shifts) for shape in (question.now, reader))
    if isinstance(now, Missing) or isinstance(new, Missing):
        return None
    return new.low - now.low if goal.sense == "max" else now.high - new.high


def lacking_constraints(question: Question) -> Iterator[str]:
    """Constraints of the search itself that missing facts leave out (the checks name all others)."""
    reader = Reader(question.site.model, question.site.given, question.base)
    for require in question.site.model.requires:
        if require.use == "search":
            truth = reader.condition(require.holds)
            if isinstance(truth, Missing):
                yield f"{require.name} does not limit the search: {', '.join(sorted(truth.names))} is not known"


def infeasible(question: Question, seconds: float) -> Answer:
    """Names a minimal conflict, after the verdict was confirmed without the solver where that is possible."""
    requires = list(hard_requires(question))
    warnings: list[str] = []
    from optimizer.many import best_of  # it asks questions of this module

    [found] = best_of([question])
    if found.value is not None:
        raise Disagreement("the solver says infeasible, plain arithmetic finds a shape")
    if not found.proven:
        warnings.append("infeasible by CP-SAT; the search without it was too large to confirm this")
    conflict = _shrink(question, requires, seconds)
    return Answer(question, "infeasible", (), tuple(conflict), tuple(warnings))


def _shrink(
    question: Question, requires: Sequence[Require], seconds: float, wanted: Cond = ALWAYS
) -> list[Conflict]:
    """A minimal set that cannot hold together (with ``wanted``), by leaving out one member after another.

    Empty when everything can hold. Values held by ``--given`` are members too: leaving one out opens its knob.
    """
    kept = _shrink_switched(question, [*requires, *question.bounds], seconds, wanted)
    if kept is None:
        return []
    held = list(question.given)
    for name in list(held):
        rest = [other for other in held if other != name]
        if not _possible(question, kept, rest, seconds, wanted):
            held = rest
    return [_conflict(question, member) for member in [*kept, *held]]


def _shrink_switched(
    question: Question, members: Sequence[Require | Bound], seconds: float, wanted: Cond
) -> list[Require | Bound] | None:
    """A minimal conflict among ``members``, each behind a literal of one model; None when all can hold."""
    from optimizer.lower import Lacking, Stages

    lowering = lowered(question, question.free, [], [])
    literals: dict[int, Any] = {}
    for place, member in enumerate(members):
        condition = member.holds if isinstance(member, Require) else bound_condition(question.site.model, member)
        literal, before = lowering.literal(str(place)), lowering.size
        try:
            lowering.demand(condition, literal)
        except Lacking:
            continue
        if lowering.size > before:  # else it holds whatever the knobs are
            literals[place] = literal
    lowering.zeroed = question.goal.shifts  # not before: what a constraint lacks counts as nothing in the goal alone
    lowering.demand(wanted)
    stages = Stages(lowering, seconds)

    def possible(places: Sequence[int]) -> bool:
        return stages.possible({literal: place in places for place, literal in literals.items()})

    kept = list(literals)
    if possible(kept):
        return None
    for place in list(kept):
        rest = [other for other in kept if other != place]
        if not possible(rest):
            kept = rest
    return [members[place] for place in kept]


def _possible(question: Question, kept: Sequence[Require | Bound], held: Sequence[str], seconds: float,
              wanted: Cond) -> bool:
    from optimizer.lower import Stages

    model = question.site.model
    free = dict(question.free)
    free |= {name: model.knobs[name].domain() for name in question.given if name not in held}
    lowering = lowered(question, free, [m for m in kept if isinstance(m, Require)],
                        [m for m in kept if isinstance(m, Bound)])
    lowering.zeroed = question.goal.shifts
    lowering.demand(wanted)
    return Stages(lowering, seconds).possible({})


def _conflict(question: Question, member: Require | Bound | str) -> Conflict:
    if isinstance(member, Require):
        return Conflict(member.name, member.source, remedy_of(question, member))
    if isinstance(member, Bound):
        source = member.why or f"--{member.sense.replace(' ', '-')}"
        return Conflict(member.label, source, member.remedy)
    spec = question.site.model.knobs[member]
    return Conflict(f"{member}={spec.show(question.given[member])}", "--given", "let it move")

