"""The words in which an engine is declared: knobs, facts, rows, constraints, goals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Final, Literal

from models.expr import ALWAYS, NEVER, AtMost, Cond, Expr, Fact, Named, lift, select
from models.interval import Interval
from models.laws import LawSpec, Metric

#: A ratio knob counts in millionths, so that ``0.82`` is a whole number and never a float.
RATIO_UNIT: Final = 1_000_000

_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,9})?")

#: How well something is known. ``read``: in the engine's source or documents, or printed by it. ``inferred``:
#: recomputed by us and equal to what logs print. ``believed``: one source, or the range it must lie in.
#: ``assumed``: a choice nobody confirmed.
Basis = Literal["read", "inferred", "believed", "assumed"]


class Phase(Enum):
    """When a broken constraint bites."""

    BOOT = "boot"
    REQUEST = "request"
    RUN_TIME = "run time"
    QUALITY = "quality"


class Outcome(IntEnum):
    """What becomes of a boot, from best to worst; a refused server never reaches what would come later."""

    SERVES = 0
    CLAMPED = 1
    PREEMPTS = 2
    REJECTS_LONG_REQUESTS = 3
    STALLS = 4
    OUT_OF_MEMORY_AT_BOOT = 5
    REFUSED_AT_BOOT = 6

    @property
    def word(self) -> str:
        """The name the JSON answers carry."""
        return self.name.lower()


class Verdict(IntEnum):
    """Whether a shape fits: for every value the facts allow, for some, or for none."""

    FITS = 0
    KNIFE_EDGE = 1
    DOES_NOT_FIT = 2

    @property
    def word(self) -> str:
        """The name the JSON answers carry."""
        return self.name.lower()


class BadValue(ValueError):
    """A setting or fact that cannot mean anything here; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """What the operator may set: its values, default, and how far a solver may move it.

    ``low`` to ``high`` is what the engine accepts, in ``unit``, on multiples of ``grid``; ``free_low`` and
    ``free_high`` are the bounds of a solver where they are narrower. ``step`` is the least difference that an
    operator would call a different setting. A ``decimal`` knob counts in ``1 / scale`` of its unit, so that
    it is never a float. A ``switch`` takes 1 or 0; with ``path`` also a file name, which is on. ``default`` is a
    value in the knob's own unit, an expression over
    other knobs, or None where nobody knows it. ``inert`` knobs are known and change no memory
    here. Where ``upwards`` is off, raising the knob buys nothing, and no solver does.
    """

    name: str
    unit: str = ""
    kind: Literal["int", "decimal", "choice", "switch", "text"] = "int"
    scale: int = 1
    low: int = 0
    high: int = 1 << 40
    free_low: int | None = None
    free_high: int | None = None
    grid: int = 1
    step: int = 1
    default: int | Expr | None = 0
    default_source: str = ""
    choices: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    automatic: str | None = None
    source: str = ""
    path: bool = False
    inert: bool = False
    upwards: bool = True

    def parse(self, text: str | None) -> int:
        """The knob's value from what a user wrote.

        Raises BadValue saying what would be right.
        """
        if self.kind == "switch":
            return self._switch(text)
        if text is None or not text.strip():
            raise BadValue(f"{self.name} has no value; {self.expected}")
        word = text.strip()
        if self.kind == "choice":
            lowered = word.lower()
            if lowered not in self.choices:
                raise BadValue(f"{self.name} is {word!r}; {self.expected}")
            return self.choices.index(lowered)
        if self.kind == "decimal":
            return self._decimal(word)
        if word.startswith("-") and word[1:].isdigit():
            raise BadValue(f"{self.name} is {word}: a negative value means nothing here; {self.expected}")
        if not (word.isascii() and word.isdigit()):  # an engine that reads 200_000 as digits reads 200
            raise BadValue(f"{self.name} is {word!r}, which is not a whole number; {self.expected}")
        if len(word) > 15:
            raise BadValue(f"{self.name} is far out of range; {self.expected}")
        return self._in_range(int(word))

    def _switch(self, text: str | None) -> int:
        if text is None:
            return 1
        word = text.strip().lower()
        if word in ("1", "true", "yes", "on"):
            return 1
        if word in ("", "0", "false", "no", "off"):
            return 0
        if self.path:
            return 1
        raise BadValue(f"{self.name} is {text.strip()!r}; {self.expected}")

    def _decimal(self, word: str) -> int:
        if _DECIMAL.fullmatch(word) is None:
            raise BadValue(f"{self.name} is {word!r}, which is not a plain number; {self.expected}")
        scaled = Decimal(word) * self.scale
        if scaled != scaled.to_integral_value():
            raise BadValue(f"{self.name} is {word}, which has too many decimals; {self.expected}")
        return self._in_range(int(scaled))

    def _in_range(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise BadValue(f"{self.name} is {self.show(value)}; {self.expected}")
        return value

    @property
    def expected(self) -> str:
        """What a right value looks like, for error messages."""
        if self.kind == "switch":
            return "write 1 or 0"
        if self.kind == "choice":
            return f"choose {', '.join(self.choices)}"
        unit = f" {self.unit}" if self.unit else ""
        return f"write a number from {self.write(self.low)} to {self.write(self.high)}{unit}"

    def show(self, value: int) -> int | float | str:
        """``value`` as the user would write it."""
        if self.kind == "choice":
            return self.choices[value]
        if self.scale > 1 and value % self.scale:
            return value / self.scale
        return value // self.scale

    def write(self, value: int) -> str:
        """``value`` as text for the user's own file."""
        if self.scale > 1:
            return f"{Decimal(value) / self.scale:f}"
        return str(self.show(value))

    def domain(self) -> tuple[int, int]:
        """The bounds a solver may move the knob in, on its grid."""
        low = self.low if self.free_low is None else self.free_low
        high = self.high if self.free_high is None else self.free_high
        return -(-low // self.grid) * self.grid, high // self.grid * self.grid


@dataclass(frozen=True, slots=True)
class FactSpec:
    """What must be given: a figure of the host, the engine's boot or the container.

    ``how`` tells which ledger line or command supplies it. ``fold`` says what several cards make of it:
    ``min``, ``max``, or ``held`` (capacity less the least free). ``least`` and ``cap`` are the ends of what makes
    sense: what others are divided by is at least 1. ``prior`` marks a constant of the engine that nobody printed whole:
    what it may be before any boot was observed. The declaration has a value for it, which a given fact replaces.
    ``each_boot`` marks what is measured anew at every boot: one boot's figure is not another's.
    """

    name: str
    unit: str
    how: str
    fold: Literal["min", "max", "held", "none"] = "none"
    words: tuple[str, ...] = ()
    least: int = 0
    cap: int = 1 << 50
    prior: Interval | None = None
    each_boot: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One named quantity.

    ``discrete`` values have no middle: only the interval matters where it is not exact, and of what depends on it.
    """

    name: str
    expr: Named
    unit: str
    source: str
    basis: Basis = "read"
    discrete: bool = False


@dataclass(frozen=True, slots=True)
class Require:
    """``need <= limit``, or else ``broken``; the slack is ``limit - need`` in ``unit``.

    It does not apply where ``unless`` holds. ``use`` says where it counts: ``always``; as ``evidence``, which
    a log showed of a past boot and which judges that boot alone; in a ``search``, where it only keeps a solver
    from values that buy nothing; or as one that companion values are ``moved`` to meet, so that it is judged but
    bounds no search. ``guards`` names knobs that it keeps from being lowered too far: an answer
    that lowers one needs it decided. A matter of ``form`` (a multiple of 256) never counts as what binds. Where a
    condition of ``instead`` holds, its text is the remedy; the first counts. A matter of quality that is ``gated`` is
    one that operators hold their files to all the same.
    """

    name: str
    need: Expr
    limit: Expr
    unit: str
    phase: Phase
    broken: Outcome
    remedy: str
    source: str
    basis: Basis = "read"
    unless: Cond = NEVER
    use: Literal["always", "evidence", "search", "moved"] = "always"
    guards: tuple[str, ...] = ()
    form: bool = False
    instead: tuple[tuple[Cond, str], ...] = ()
    gated: bool = False
    #: The condition as a whole; one object, so that other expressions can be written with it.
    holds: Cond = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", self.unless | AtMost(self.need, self.limit))

    @property
    def slack(self) -> Expr:
        """How far the constraint is from binding, in ``unit``."""
        return self.limit - self.need


@dataclass(frozen=True, slots=True)
class Goal:
    """What may be asked for: the objective, its direction and unit, and the knobs it may move by itself.

    ``shifts`` are facts that move the objective by a constant alone, so that an answer without them is still the
    best one; its value is then not known. They do so where ``shifts_when`` holds and the knobs in
    ``shifts_while_held`` do not move. ``scale`` is how many of the objective make one ``unit``. Among shapes that are
    equal by the objective, ``then`` decides, in order.
    """

    name: str
    meaning: str
    objective: Expr
    sense: Literal["max", "min"]
    unit: str
    moves: tuple[str, ...] = ()
    shifts: frozenset[str] = frozenset()
    shifts_when: Cond = ALWAYS
    shifts_while_held: tuple[str, ...] = ()
    scale: int = 1
    then: tuple[tuple[Expr, Literal["max", "min"]], ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """A knob that this version no longer knows: the engine does not start on it."""

    name: str
    since: str
    instead: str
    source: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell where ``when`` holds (or where it cannot be ruled out); it changes no verdict."""

    text: str
    when: Cond = ALWAYS


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the memory of one place goes: ``parts`` in the order the engine spends it, which add up to ``total``.

    The last part is what is left, below 0 where too much was asked for. ``cards`` counts the cards that each have such
    a stack (a part or total that is a fact by itself is then read card by card); None for what there is once. It says
    something only where ``when`` holds; one ``instead_of`` another says it where that one lacks facts.
    """

    name: str
    title: str
    unit: str
    total: Expr
    parts: tuple[tuple[str, Expr], ...]
    source: str
    cards: Expr | None = None
    when: Cond = ALWAYS
    instead_of: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class EngineModel:
    """One engine version with one container, declared; equal to itself alone.

    ``split`` names the knobs that share the memory out: they move in every solve. ``constants`` are facts the
    known container brings, each with its basis and source. ``needs`` are sets of constraints, with the condition
    under which they count: one of each set must be decidable before a verdict is given. ``spare``
    breaks the last ties between shapes, in MiB: more of it is better. ``arena_knobs`` change what the activation
    arena takes, and so are beyond a ceiling that was read from one boot. ``implied`` bounds rows by what a boot
    printed elsewhere (a block count says which pool it was carved from). ``grain`` is the least slack, in bytes,
    that another setting could use up: below it a constraint binds. ``words`` explain free memory to people: what
    other tools show and why. ``laws`` say what measured speeds depend on, ``stacks`` where memory goes. ``prints`` are
    the rows that a boot prints, those that prove most first, each with when it does; what nobody saw printed is not
    among them. ``shares`` are rows that divide one amount among them: what one lost, another of them got. ``sums`` are
    quantities that no ledger prints as a row of its own but that people state as one figure: an observation may give
    them.

    For deploys: ``trades`` are pairs of knobs under one ceiling, of which one grows as the other shrinks.
    ``pool_knobs`` size the KV pool, and ``placement_knobs`` say where experts and tables live: the same ledger lines
    move with both, so that one deploy with a knob of each tells nothing of either (a knob that is both is so by
    itself). ``reads`` are the log lines to read after a boot, and what they must say.
    """

    name: str
    version: str
    basis: Basis
    container: str
    knobs: Mapping[str, KnobSpec]
    facts: Mapping[str, FactSpec]
    rows: Mapping[str, Row]
    requires: tuple[Require, ...]
    goals: Mapping[str, Goal]
    no_goals: Mapping[str, str]
    split: tuple[tuple[str, Cond], ...]
    needs: tuple[tuple[Cond, tuple[str, ...]], ...]
    sessions: Expr
    spare: Expr
    removed: tuple[Removed, ...] = ()
    notes: tuple[Note, ...] = ()
    constants: Mapping[str, tuple[Interval, Basis, str]] = field(default_factory=dict)
    arena_knobs: tuple[str, ...] = ()
    implied: Mapping[str, tuple[Expr, Expr]] = field(default_factory=dict)
    grain: int = 1
    words: Mapping[str, str] = field(default_factory=dict)
    laws: Mapping[Metric, LawSpec] = field(default_factory=dict)
    sums: Mapping[str, Row] = field(default_factory=dict)
    stacks: tuple[Stack, ...] = ()
    prints: tuple[tuple[str, Cond], ...] = ()
    shares: tuple[tuple[str, ...], ...] = ()
    trades: tuple[tuple[str, str], ...] = ()
    pool_knobs: tuple[str, ...] = ()
    placement_knobs: tuple[str, ...] = ()
    reads: tuple[Note, ...] = ()

    def names(self) -> dict[str, str]:
        """Every name a user's file may call a knob by, in upper case, with the knob it means."""
        found: dict[str, str] = {}
        for spec in self.knobs.values():
            for name in (spec.name, *spec.short):
                found[name.upper()] = spec.name
        for gone in self.removed:
            found[gone.name.upper()] = gone.name
        return found


def row(name: str, expr: Expr | int) -> Named:
    """``expr`` under the name that the ledger gives its row."""
    return Named(name, lift(expr))


def seen_in_the_log() -> tuple[Require, ...]:
    """What a log showed to have become of its own boot, as evidence about that very shape."""
    seen = Fact("outcome_seen")
    worst = (Outcome.REJECTS_LONG_REQUESTS, Outcome.OUT_OF_MEMORY_AT_BOOT, Outcome.REFUSED_AT_BOOT)
    return tuple(
        Require(f"log_shows_{outcome.word}", select(seen.equals(outcome.value), 1, 0), lift(0), "", Phase.BOOT,
                outcome, "the log says why; change what it names", "the log's own line", use="evidence")
        for outcome in worst
    )
