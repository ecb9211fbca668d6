"""Goals on speed: a law of measured points, put to a question and encoded as its objective.

The objective is the law at a confidence: the rate that one new measurement reaches with that probability, as a
piecewise-linear curve in thousandths of a token a second (or of time, in microseconds a request) over whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from measurements.laws.law import LEVEL
from measurements.records import ReadError
from measurements.site import Site
from models.declare import Goal
from models.evaluate import Reader
from models.expr import Both, Curve, Expr, Knob, Missing, Value, knobs_in, lift, maximum, minimum, select, total
from models.interval import Interval
from models.laws import Axis, LawSpec, Metric
from models.versions import parse_version
from optimizer.check import MissingFacts
from optimizer.reach import reach

if TYPE_CHECKING:
    from measurements.laws.law import Law, Prediction
    from measurements.points import Point, PointsReading

#: The goals on speed, each with what it means and the metrics whose laws it needs.
GOALS: Final[dict[str, tuple[str, tuple[Metric, ...]]]] = {
    "prefill": ("tokens a second of one prompt", ("prefill",)),
    "decode": ("tokens a second of one stream's answer", ("decode",)),
    "decode-total": ("tokens a second of all streams' answers together", ("decode",)),
    "balanced": ("seconds of one request: its prompt and its answer", ("prefill", "decode")),
}
#: Why a shape stays where it is along what no point states.
UNSTATED: Final = "the points do not state it"
#: Generated tokens of the request that `balanced` times, unless the user says otherwise.
ANSWER_TOKENS: Final = 512
#: Points of a curve between the ends of the data, beside the measured ones.
POINTS: Final = 48
#: How many settings beside the curve's own axis are tabulated.
MOST_TABLES: Final = 64
#: Thousandths: what one unit of an objective in rates counts.
MILLI: Final = 1000
#: Microseconds: what one unit of an objective in time counts.
MICRO: Final = 1_000_000
#: Draws of a request's time.
REQUESTS: Final = 4000


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of the server, beside the shape.

    ``prompt_tokens`` is the prompt (for decode, the context); None stands for what most points were measured at.
    ``confidence`` is the probability with which one new measurement reaches the rate that is optimised.
    ``extrapolate`` admits laws and shapes outside the data, labelled. ``weights`` multiply what each metric counts in
    ``balanced``.
    """

    prompt_tokens: int | None = None
    answer_tokens: int = ANSWER_TOKENS
    streams: int | None = None
    corpus: str | None = None
    confidence: float = 0.5
    extrapolate: bool = False
    weights: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Used:
    """A law as one question uses it. ``spec`` is what the site's own model declares of the metric.

    ``at`` are the workload's values on the law's axes. ``tied`` says that as many streams run as there are slots.
    ``beyond`` is what lies outside the law's data or is of another version, in words: then answers are extrapolated.
    """

    law: Law
    spec: LawSpec
    at: dict[str, float]
    prompt: int | None
    streams: int | None
    tied: bool
    beyond: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        """What is measured."""
        return self.law.metric

    def axis_expr(self, axis: Axis) -> Expr | None:
        """The axis's value for a shape of this site; None for what the workload sets."""
        if axis.name == "streams" and self.tied:
            return Knob(self.spec.slots)
        return self.spec.axis(axis.name).expr


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the shape stays within a law's data on one axis."""

    axis: str
    expr: Expr
    low: int
    high: int
    unit: str
    why: str
    remedy: str = "measure beyond, or ask with --extrapolate"


class Measured:
    """The points of a site, and the laws fitted from them, each metric's once."""

    def __init__(self, points: PointsReading) -> None:
        self.points = points
        self._laws: dict[tuple[str, Metric], tuple[Law, ...]] = {}

    def laws(self, engine: str, metric: Metric) -> tuple[Law, ...]:
        """The laws of a metric of an engine."""
        from measurements.laws.studies import laws_of

        key = (engine, metric)
        if key not in self._laws:
            self._laws[key] = tuple(laws_of(self.own(engine, metric)))
        return self._laws[key]

    def own(self, engine: str, metric: Metric) -> list[Point]:
        """The points of a metric of an engine."""
        return [point for point in self.points.points if point.engine == engine and point.metric == metric]


@dataclass(frozen=True, eq=False)
class Speed:
    """A goal on speed, put to a site: the laws it uses, and how they are weighed against each other."""

    name: str
    workload: Workload
    used: tuple[Used, ...]
    how: str = ""
    measured: Measured | None = None

    @property
    def extrapolated(self) -> tuple[str, ...]:
        """What lies outside the data."""
        return tuple(dict.fromkeys(text for used in self.used for text in used.beyond))

    @property
    def unit(self) -> str:
        """What the answer is in."""
        return "s" if self.name == "balanced" else "t/s"


def read_site_points(site: Site) -> PointsReading:
    """The measured points that the site names.

    Raises MissingFacts when it names none, and ReadError for a file that is none.
    """
    from measurements.points import REFERENCE, read_points

    if not site.sources.points:
        raise MissingFacts([{
            "name": "points", "unit": "t/s",
            "how": f"measured speeds: --points FILE, or points in site.toml; --points {REFERENCE} takes those that "
                   "come along, measured on other machines",
        }])
    return read_points(site.sources.points)


def law_of(site: Site, metric: Metric, workload: Workload, fixed: Callable[[Expr], float | None], *,
           tied: bool = False, measured: Measured | None = None, reach: int | None = None) -> Used:
    """The law of ``metric`` that holds for this site and workload: of its engine, version, model and settings.

    ``reach`` is the longest context that the data must know, where that is not the prompt. ``fixed`` gives a shape
    axis's value where nothing that moves changes it. Of several, the one that is least outside counts, then the one
    of the nearest version, then the one with the most settings. Raises MissingFacts, with what the laws at hand
    lack, when none holds.
    """
    from measurements.laws.studies import model_word

    measured = measured or Measured(read_site_points(site))
    reading, own = measured.points, measured.own(site.model.name, metric)
    found: list[tuple[tuple[object, ...], Used]] = []
    reasons: list[tuple[int, str]] = []
    for law in of_site(site, measured.laws(site.model.name, metric), workload):
        used, never, beyond = matches(site, law, workload, tied=tied)
        at = {name: value for name, value in {**used.at, **_fixed_at(used, fixed)}.items()
              if name != "streams" or not never}
        beyond = (*beyond, *law.outside(at, prompt=reach or workload.prompt_tokens))
        if not never and (not beyond or workload.extrapolate):
            found.append(((len(beyond), _away(law, site), -law.arms), replace(used, beyond=beyond)))
        reasons.append((len(never) * 10 + len(beyond), f"{law.name}: {'; '.join((*never, *beyond))}"))
    if found:
        return min(found, key=lambda item: item[0])[1]
    here = f"no measured {metric} of {site.engine} with {model_word(site.model_name) or 'its model'} at these settings"
    nearest = [text for _, text in sorted(reasons, key=lambda item: item[0])]
    if not own and reading.points:
        engines = ", ".join(sorted({point.engine for point in reading.points}))
        nearest.append(f"the points are of {engines}" if engines != site.model.name else f"none is of {metric}")
    near = f"; nearest: {' | '.join(nearest[:3])}" if nearest else ""
    more = "; --extrapolate takes what is outside, labelled" if (
        any(weight < 10 for weight, _ in reasons) and not workload.extrapolate) else ""
    raise MissingFacts([{"name": f"{metric} points", "unit": "t/s", "how": f"{here}{near}{more}"}])


def of_site(site: Site, laws: Sequence[Law], workload: Workload) -> tuple[Law, ...]:
    """``laws``, with those that may all be of this site's own build and settings counted as one for each corpus."""
    own: dict[tuple[Metric, str, str], list[Law]] = {}
    for law in laws:
        never, beyond = _objections(site, law, workload) if law.engine == site.model.name else (["another engine"], ())
        if not never and not beyond:
            own.setdefault(_together(law), []).append(law)
    kept = {id(law) for group in own.values() for law in group[1:]}
    return tuple(_pooled(tuple(own[_together(law)]), site.model.version)
                 if any(law is other for other in own.get(_together(law), ())) else law
                 for law in laws if id(law) not in kept)


@lru_cache(maxsize=32)
def _pooled(laws: tuple[Law, ...], version: str) -> Law:
    """Laws of one site as one; a question a step away finds it again."""
    from measurements.laws.studies import pooled

    return pooled(laws, version)


def _together(law: Law) -> tuple[Metric, str, str]:
    return law.metric, law.corpus, law.conditions.get("streams", "")


def matches(site: Site, law: Law, workload: Workload, *,
            tied: bool = False) -> tuple[Used, tuple[str, ...], tuple[str, ...]]:
    """The law as this site would use it, why it is never this site's, and what only ``--extrapolate`` admits."""
    never, beyond = _objections(site, law, workload)
    used = _used(site, law, workload, tied)
    known = law.held.get("streams")
    if known is not None and used.streams is not None and used.streams != known:
        # streams share one step: that more of them cost nothing is known to be false
        never.append(f"{used.streams} streams: measured with {known:g} alone")
    return replace(used, beyond=beyond), tuple(never), beyond


def _used(site: Site, law: Law, workload: Workload, tied: bool) -> Used:
    prompt = law.usual_prompt if workload.prompt_tokens is None else workload.prompt_tokens
    streams = workload.streams
    if tied and not any(axis.name == "streams" for axis in law.varying):
        slots = law.spec.slots  # all slots busy, which the law may not know
        streams, tied = site.knobs.get(slots, Reader(site.model, site.given, site.knobs).knobs[slots].middle), False
    if streams is None and not tied:
        ends = law.range_of("streams") if "streams" in law.values else None
        streams = 1 if ends is None or ends[0] <= 1 <= ends[1] else law.usual_streams
    at = law.workload(prompt, streams if "streams" in law.values else None)
    return Used(law, site.model.laws[law.metric], at, prompt, streams, tied, ())


def _fixed_at(used: Used, fixed: Callable[[Expr], float | None]) -> dict[str, float]:
    found = {}
    for axis in used.law.spec.axes:
        expr = used.axis_expr(axis)
        value = None if expr is None else fixed(expr)
        if value is not None:
            found[axis.name] = value
    return found


def _objections(site: Site, law: Law, workload: Workload) -> tuple[list[str], tuple[str, ...]]:
    """Why the law is not one of this site: what no flag admits, and what only ``--extrapolate`` does."""
    from measurements.laws.studies import model_word

    never, beyond = [], []
    own, known = model_word(site.model_name), site.model.container
    if law.model not in (own, known):
        never.append(f"another model than {own or 'the site names'}")
    for key in law.spec.keys:
        measured, here = law.conditions[key.knob], _site_condition(site, key.knob, key.presence)
        if measured and here and measured != here:
            words = f"{key.knob} {here} here" if key.presence else f"{key.knob}={here} here"
            never.append(words)
    if law.metric == "prefill":
        beside, asked = int(law.conditions.get("streams", "1")), workload.streams or 1
        if beside != asked:
            never.append(f"{asked} prompt{'s' if asked > 1 else ''} at once: measured with {beside}")
    if workload.corpus is not None and law.spec.by_corpus and workload.corpus != law.corpus:
        never.append(f"another corpus than {workload.corpus!r}")
    if not _covers(law, site):
        beyond.append(f"measured on {law.version.replace('-', ' to ') or 'a version not stated'}, the site runs "
                      f"{site.model.version}")
    return never, tuple(beyond)


def _site_condition(site: Site, knob: str, presence: bool) -> str:
    spec = site.model.knobs.get(knob)
    value = site.knobs.get(knob)
    if presence:
        return "stated" if value else "derived"
    if spec is None:
        return ""
    if spec.kind == "text":
        setting = site.mapped.knobs.get(knob)
        return (setting.value or "") if setting is not None and not setting.secret else ""
    if value is None and isinstance(spec.default, int) and knob != "tp":
        value = spec.default
    return "" if value is None else spec.write(value)


def _covers(law: Law, site: Site) -> bool:
    return bool(law.version) and not any(_away(law, site))


def _away(law: Law, site: Site) -> tuple[int, ...]:
    """How far the law's versions are from the site's, part by part; all 0 where they include it."""
    if not law.version:
        return (1 << 20,)
    low, _, high = law.version.partition("-")
    ends = parse_version(law.engine, low), parse_version(law.engine, high or low)
    own = site.engine.version
    if ends[0] <= own <= ends[1]:
        return (0, 0, 0)
    end = ends[0] if own < ends[0] else ends[1]
    return tuple(abs(a - b) for a, b in zip(end, own, strict=True))


def opens(site: Site, name: str, workload: Workload) -> tuple[str, ...]:
    """The knobs that a goal on speed moves beside the split."""
    found: list[str] = []
    for metric in GOALS[name][1]:
        spec = site.model.laws.get(metric)
        if spec is None:
            raise ReadError(f"{site.model.name} declares no law of {metric}", kind="usage")
        found += spec.moves
        if name == "decode-total" and workload.streams is None:
            found.append(spec.slots)
    return tuple(dict.fromkeys(found))


def put(site: Site, name: str, workload: Workload, reader: Reader, free: Iterable[str],
        measured: Measured | None = None) -> Speed:
    """The laws that goal ``name`` uses on this site, where the knobs in ``free`` may move.

    ``reader`` reads the shape that is asked about: what it sets, and not what runs, decides which law holds. Raises
    MissingFacts when one is not at hand.
    """
    moving = set(free)
    site = replace(site, knobs=site.knobs | {
        knob: value.middle for knob, value in reader.knobs.items()
        if knob in site.knobs or value.middle != site.model.knobs[knob].default})

    def fixed(expr: Expr) -> float | None:
        if knobs_in(expr) & moving:
            return None
        value = reader.number(expr)
        return None if isinstance(value, Missing) else value.middle

    measured = measured or Measured(read_site_points(site))
    tied = name == "decode-total" and workload.streams is None
    if name == "balanced":
        used = _request(site, workload, fixed, measured)
    else:
        used = tuple(law_of(site, metric, workload, fixed, tied=tied, measured=measured) for metric in GOALS[name][1])
    if workload.extrapolate:
        used = tuple(replace(one, beyond=(*one.beyond, *_unbounded(one, moving))) for one in used)
    return Speed(name, workload, used, _how(name, workload, used), measured)


def _request(site: Site, workload: Workload, fixed: Callable[[Expr], float | None],
             measured: Measured) -> tuple[Used, ...]:
    """The laws of one request: prefill of its prompt, and decode at the context that its answer has on average.

    Without a stated prompt it is the one that most prefill points were measured at.
    """
    prefill = law_of(site, "prefill", workload, fixed, measured=measured)
    prompt = prefill.prompt or 0
    whole = prompt + workload.answer_tokens
    decode = law_of(site, "decode", replace(workload, prompt_tokens=prompt + workload.answer_tokens // 2), fixed,
                    measured=measured, reach=whole)
    return prefill, replace(decode, prompt=whole)


def _unbounded(used: Used, moving: Collection[str]) -> Iterator[str]:
    """The axes along which shapes may leave the data, in words."""
    for axis in used.law.spec.axes:
        expr, ends = used.axis_expr(axis), used.law.range_of(axis.name)
        if expr is None or not knobs_in(expr) & set(moving):
            continue
        if ends is None:
            yield f"{axis.name}: the {used.metric} points do not state it, so its effect is not known and taken as none"
            continue
        low, high = (used.law.show(axis, value) for value in ends)
        known = f"measured {low}" if low == high else f"measured {low} to {high}"
        alone = "" if axis in used.law.varying else " alone, so what another would do is not known and taken as none"
        if not (axis.choices and axis in used.law.varying):
            yield f"{axis.name} of {used.metric} is not bounded by the data: {known}{f' {axis.unit}'.rstrip()}{alone}"


def _how(name: str, workload: Workload, used: Sequence[Used]) -> str:
    if name != "balanced":
        return ""
    prompt, answer = used[0].prompt, workload.answer_tokens
    text = f"weighted: the time of a request of {prompt:,} prompt and {answer:,} generated tokens"
    odd = {metric: weight for metric, weight in workload.weights.items() if weight != 1}
    return text + "".join(f", {metric} counted {weight} times" for metric, weight in odd.items())


def ends_of(speed: Speed, site: Site, free: Mapping[str, tuple[int, int]], reader: Reader) -> list[Ends]:
    """Where each axis that may move stays within the data.

    An axis that no point states stays where it is now, for nothing tells what another value does. When the answer may
    extrapolate, axes are not bounded. A knob that makes another law always stays.
    """
    found: list[Ends] = []
    for used in speed.used:
        for key in used.law.spec.keys:
            if key.knob not in free or key.knob not in reader.knobs:
                continue
            spec, low = site.model.knobs[key.knob], reader.knobs[key.knob].middle
            high = low
            if key.presence:
                low, high = (1, spec.high) if low else (0, 0)
            if not low <= free[key.knob][0] <= free[key.knob][1] <= high:
                why = f"another {key.knob} is another law" if used.law.conditions[key.knob] else (
                    UNSTATED)
                found.append(Ends(key.knob, Knob(key.knob), low, high, spec.unit, why,
                                  f"measure with another {key.knob}"))
        for axis in used.law.spec.axes:
            expr, ends = used.axis_expr(axis), used.law.range_of(axis.name)
            if expr is None or speed.workload.extrapolate or not knobs_in(expr) & set(free):
                continue
            if ends is None:
                now = reader.number(expr)
                if isinstance(now, Interval):
                    found.append(Ends(axis.name, expr, now.low, now.high, axis.unit, UNSTATED))
            else:
                low, high = -int(-ends[0] // 1), int(ends[1] // 1)
                found.append(Ends(axis.name, expr, min(low, high), max(low, high), axis.unit,
                                  "the measured speeds reach no further"))
    return found


def needs_of(speed: Speed) -> list[tuple[str, int, str]]:
    """Knobs that the workload needs to be at least so high: name, value, and why."""
    found = []
    for used in speed.used:
        if used.prompt is not None:
            what = "a prompt" if used.metric == "prefill" else "a context"
            found.append((used.law.spec.window, used.prompt, f"{what} of {used.prompt:,} tokens"))
        if used.streams is not None and used.streams > 1:
            found.append((used.law.spec.slots, used.streams, f"{used.streams} streams"))
    return list(dict.fromkeys(found))


class Encoder:
    """Encodes a goal on speed over the free knobs of one question."""

    def __init__(self, speed: Speed, site: Site, base: Mapping[str, int], free: Mapping[str, tuple[int, int]],
                 reader: Reader) -> None:
        self._speed = speed
        self._site, self._base, self._free, self._reader = site, base, free, reader

    def goal(self) -> Goal:
        """The goal: the law at the question's confidence, and what all rivals expect among equals."""
        level = 1 - self._speed.workload.confidence
        sense: Literal["max", "min"] = "min" if self._speed.name == "balanced" else "max"
        first = self._objective(lambda used: {"level": level})
        then = self._objective(lambda used: {})
        meaning = GOALS[self._speed.name][0]
        scale = MICRO if self._speed.name == "balanced" else MILLI
        return Goal(self._speed.name, meaning, first, sense, self._speed.unit, scale=scale, then=((then, sense),))

    def rival(self, law: Used, place: int) -> Expr:
        """The objective if one rival of ``law`` were the truth: its median. Of other laws it is what all expect."""
        return self._objective(lambda used: {"rival": place} if used is law else {})

    def moving(self, used: Used) -> bool:
        """Whether anything that is free changes what this law says."""
        return bool(self._moving(used))

    @property
    def moves(self) -> bool:
        """Whether anything that is free changes what the laws say."""
        return any(self._moving(used) for used in self._speed.used)

    def _objective(self, how: Callable[[Used], dict[str, float | int]]) -> Expr:
        parts = [self._part(used, how(used)) for used in self._speed.used]
        return parts[0] if len(parts) == 1 else total(parts)

    def _moving(self, used: Used) -> list[tuple[Axis, Expr]]:
        found = []
        for axis in used.law.varying:
            expr = used.axis_expr(axis)
            if expr is not None and knobs_in(expr) & self._free.keys() and not self._still(expr):
                found.append((axis, expr))
        return found

    def _still(self, expr: Expr) -> bool:
        """Whether what is free does not move ``expr`` after all: a stated pool is what it is, whatever others do."""
        value = self._reach(expr)
        return isinstance(value, Interval) and value.exact

    def _reach(self, expr: Expr) -> Value:
        return reach(self._site.model, self._site.given, self._base, self._free, expr)

    def _part(self, used: Used, how: dict[str, float | int]) -> Expr:
        moving = self._moving(used)
        at = dict(used.at)
        for axis in used.law.varying:
            expr = used.axis_expr(axis)
            if expr is not None and not any(axis is other for other, _ in moving):
                at[axis.name] = self._value(expr)
        sizes = {axis.name: self._values(used, axis, expr) for axis, expr in moving}
        numeric = [(axis, expr) for axis, expr in moving if not axis.choices]
        main = max(numeric, key=lambda pair: len(sizes[pair[0].name]), default=None)
        others = [(axis, expr) for axis, expr in moving if main is None or axis is not main[0]]
        settings = list(product(*(sizes[axis.name] for axis, _ in others)))
        # between tabulated values of another axis than the curve's own there is no table to take
        gaps = any(not axis.choices and len(sizes[axis.name]) <= sizes[axis.name][-1] - sizes[axis.name][0]
                   for axis, _ in others)
        if gaps or len(settings) > MOST_TABLES:
            names = ", ".join(sorted(set().union(*(knobs_in(expr) for _, expr in moving)) & self._free.keys()))
            raise ReadError(f"{used.metric} depends on several knobs that are free ({names}): hold one with --given",
                            kind="usage")
        result: Expr | None = None
        for setting in settings:
            here = at | {axis.name: float(value) for (axis, _), value in zip(others, setting, strict=True)}
            table = self._table(used, here, main, sizes, how)
            if result is None:
                result = table
                continue
            chosen = [expr.equals(int(value)) for (_, expr), value in zip(others, setting, strict=True)]
            result = select(Both(tuple(chosen)), table, result)
        assert result is not None
        return result

    def _value(self, expr: Expr) -> float:
        value = self._reader.number(expr)
        if isinstance(value, Missing):
            raise MissingFacts([{"name": name, "unit": "", "how": "the law depends on it"} for name in value.names])
        return value.middle

    def _values(self, used: Used, axis: Axis, expr: Expr) -> list[int]:
        """Whole values of an axis to tabulate: all it may take within the data, or a grid over them."""
        ends = used.law.range_of(axis.name)
        assert ends is not None
        if axis.choices:
            return sorted({int(value) for value in used.law.values[axis.name] if value is not None})
        low, high = -int(-ends[0] // 1), int(ends[1] // 1)
        if high - low < MOST_TABLES:
            found = set(range(low, max(high, low) + 1))
        else:
            found = {low + (high - low) * i // POINTS for i in range(POINTS + 1)}
            found |= {int(value) for value in used.law.values[axis.name] if value is not None and low <= value <= high}
        if self._speed.workload.extrapolate:
            bounds = self._reach(expr)
            if isinstance(bounds, Interval):  # outwards ever farther apart: close to the data the law bends most
                found |= {high + step for step in _outwards(bounds.high - high)}
                found |= {low - step for step in _outwards(low - max(bounds.low, 1))}
        return sorted(found)

    def _table(self, used: Used, at: Mapping[str, float], main: tuple[Axis, Expr] | None,
               sizes: Mapping[str, Sequence[int]], how: dict[str, float | int]) -> Expr:
        level, rival = how.get("level"), how.get("rival")
        kind = {"level": level, "rival": None if rival is None else int(rival)}
        if main is None:
            (rate,) = used.law.rates(at, **kind)  # type: ignore[arg-type]
            return lift(self._scaled(used, rate, at.get("streams", 1.0)))
        axis, expr = main
        xs = list(sizes[axis.name])
        if len(xs) == 1:
            xs.append(xs[0] + 1)  # a curve needs two points; the ends of the data bound what is asked
        rates = used.law.rates(at, axis.name, [float(x) for x in xs], **kind)  # type: ignore[arg-type]
        streams = [float(x) if axis.name == "streams" else at.get("streams", 1.0) for x in xs]
        ys = [self._scaled(used, rate, count) for rate, count in zip(rates, streams, strict=True)]
        return Curve(f"{used.metric} of {axis.name} outside what was measured", expr, tuple(xs), tuple(ys))

    def _scaled(self, used: Used, rate: float, streams: float) -> int:
        if self._speed.name == "balanced":
            return round(MICRO * _counted(self._speed, used) / rate)
        return int(rate * MILLI * (streams if self._speed.name == "decode-total" else 1))


def _outwards(distance: int) -> list[int]:
    """Steps from 1 to ``distance``: all up to 12, then each a sixth longer than the one before."""
    found = []
    step = 1
    while step < distance:
        found.append(step)
        step += max(step // 6, 1)
    return [*found, distance] if distance > 0 else []


def robust(rivals: Sequence[tuple[Expr, int]], sense: Literal["max", "min"] = "max") -> Expr:
    """What a shape reaches of each rival's own best, in millionths: the worst share of a rate, the worst multiple of
    a time.

    ``rivals`` are each one's objective and the best it can have.
    """
    shares = [expr * MICRO // lift(max(best, 1)) for expr, best in rivals]
    return minimum(*shares) if sense == "max" else maximum(*shares)


def expected(speed: Speed, ats: Sequence[Mapping[str, float]], law: Used | None, place: int) -> float:
    """What a shape reaches if rival ``place`` of ``law`` is the truth, in the goal's unit.

    ``ats`` are the axes of each law at the shape.
    """
    return _joined(speed, ats, [used.law.rates(at, rival=place) if used is law else used.law.rates(at)
                                for used, at in zip(speed.used, ats, strict=True)])


def _joined(speed: Speed, ats: Sequence[Mapping[str, float]], rates: Sequence[Sequence[float]]) -> float:
    """What the goal makes of its laws' rates, one each, in its unit."""
    if speed.name == "balanced":
        return sum(_counted(speed, used) / rate for used, (rate,) in zip(speed.used, rates, strict=True))
    ((rate,),) = rates
    return rate * _streams(speed, ats[0])


def _streams(speed: Speed, at: Mapping[str, float]) -> float:
    """How many streams' rates the goal counts together."""
    return at.get("streams", 1.0) if speed.name == "decode-total" else 1.0


def at_shape(used: Used, reader: Reader) -> dict[str, float]:
    """The law's axes at one shape. Raises MissingFacts where a fact lacks to tell."""
    at = dict(used.at)
    for axis in used.law.spec.axes:
        expr = used.axis_expr(axis)
        if expr is None:
            continue
        value = reader.number(expr)
        if not isinstance(value, Missing):
            at[axis.name] = value.middle
        elif axis in used.law.varying:
            raise MissingFacts([{"name": name, "unit": "", "how": "the law depends on it"} for name in value.names])
    return at


def _outside(speed: Speed, ats: Sequence[Mapping[str, float]]) -> bool:
    return not speed.workload.extrapolate and any(
        used.law.outside(at) for used, at in zip(speed.used, ats, strict=True))


def reached(speed: Speed, reader: Reader) -> float | None:
    """What the goal optimises, of one shape, from the laws themselves: tokens a second that one measurement reaches
    with the confidence asked for, or seconds; None where the data do not reach so far.
    """
    try:
        ats = [at_shape(used, reader) for used in speed.used]
    except MissingFacts:
        return None
    if _outside(speed, ats):
        return None
    level = 1 - speed.workload.confidence
    return _joined(speed, ats, [used.law.rates(at, level=level) for used, at in zip(speed.used, ats, strict=True)])


def _counted(speed: Speed, used: Used) -> int:
    """Tokens of the request that `balanced` times, each as often as its metric counts."""
    tokens = (used.prompt or 0) if used.metric == "prefill" else speed.workload.answer_tokens
    return tokens * speed.workload.weights.get(used.metric, 1)


def predicted(speed: Speed, reader: Reader) -> Prediction | None:
    """What one new measurement of a shape will say, in the goal's unit; None where the data do not reach so far."""
    from measurements.laws.law import Prediction

    ats = [at_shape(used, reader) for used in speed.used]
    if _outside(speed, ats):
        return None
    if speed.name != "balanced":
        (used,), (at,) = speed.used, ats
        found = used.law.predict(at, LEVEL)
        times = _streams(speed, at)
        return Prediction(found.median * times, found.low * times, found.high * times, LEVEL)
    total_time = [0.0] * REQUESTS
    for place, (used, at) in enumerate(zip(speed.used, ats, strict=True)):
        tokens = _counted(speed, used)
        for i, rate in enumerate(used.law.drawn(at, REQUESTS, seed=11 + place)):
            total_time[i] += tokens / rate
    total_time.sort()
    edge = round((1 - LEVEL) / 2 * (REQUESTS - 1))
    return Prediction(total_time[REQUESTS // 2], total_time[edge], total_time[-1 - edge], LEVEL)
