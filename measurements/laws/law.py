"""One law: measurements that may be compared, the rivals fitted to them, and what may be asked of them.

Measurements belong to one law when engine, version, model and every key of the declaration are the same; where text
was generated, the corpus too, for drafts are accepted at another rate in each. What varies among them and is an axis is
fitted. What varies and is no axis is reported: its effect is not separated from the axes' own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from measurements.points.point import Point
from models.interval import MIB, size
from models.laws import Axis, LawSpec, Metric

if TYPE_CHECKING:
    from measurements.laws.fit import Fit
    from measurements.laws.forms import Floats

#: How many of new measurements the interval of a prediction holds.
LEVEL: Final = 0.9
#: How far beyond an end of the data, relative to it, a workload still counts as the one measured.
NEAR: Final = 0.05
#: More pairs that contradict each other are not listed.
MOST_CONTRADICTIONS: Final = 20
#: No setting has more digits.
MOST_DIGITS: Final = 15
#: How far a printed row counts beyond what it says, in MiB: less than operators call another setting.
PRINTED: Final = 64
#: Places between the ends of a law's data where its line is drawn.
LINE: Final = 64
#: Two measurements at one setting contradict each other when they differ by more than the noise does in 90 of 100.
CONTRADICTS: Final = 1.645 * math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two measurements of one setting that noise does not explain."""

    first: Point
    second: Point

    @property
    def text(self) -> str:
        """For people."""
        a, b = self.first, self.second
        apart = max(a.rate, b.rate) / min(a.rate, b.rate) - 1
        return (f"{a.rate:,.4g} t/s ({a.source}, {a.place}) against {b.rate:,.4g} t/s ({b.source}, {b.place}) at one "
                f"setting: {apart:.0%} apart; both count")


@dataclass(frozen=True, slots=True)
class Prediction:
    """One new measurement, tokens a second: median, and the interval that holds it with probability ``level``."""

    median: float
    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show a law along: places ``x`` on an axis, and all axes at each of them.

    ``held`` are the other axes, ``observed`` the points that lie on the line (which one, and where).
    """

    axis: str
    unit: str
    x: tuple[float, ...]
    at: tuple[dict[str, float], ...]
    held: dict[str, float]
    observed: tuple[tuple[int, float], ...]
    choices: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Law:
    """The measurements of one law, and its fit.

    ``conditions`` are the keys' values as the points state them, "" where they do not. ``values`` are the points'
    values on each axis (None: not stated).
    """

    spec: LawSpec
    engine: str
    version: str
    model: str
    corpus: str
    conditions: Mapping[str, str]
    points: tuple[Point, ...]
    left_out: tuple[tuple[Point, str], ...]
    values: Mapping[str, tuple[float | None, ...]]
    note: str = ""

    @property
    def metric(self) -> Metric:
        """What is measured."""
        return self.spec.metric

    @property
    def name(self) -> str:
        """For people: metric, engine, versions, model and, where it counts, corpus and stated keys."""
        versions = self.version.replace("-", " to ") or "(version not stated)"
        words = [self.metric, f"{self.engine} {versions}", self.model]
        words += [f"{name}={value}" if value not in ("stated", "derived") else f"{value} pools"
                  for name, value in self.conditions.items() if value]
        if self.corpus:
            words.append(self.corpus)
        return ", ".join(words)

    @cached_property
    def varying(self) -> tuple[Axis, ...]:
        """The axes along which the points differ."""
        return tuple(axis for axis in self.spec.axes if len(set(self.values[axis.name])) > 1)

    @cached_property
    def held(self) -> dict[str, float | None]:
        """The axes along which the points agree, each with its value; None where no point states it."""
        return {axis.name: self.values[axis.name][0] for axis in self.spec.axes if axis not in self.varying}

    @property
    def arms(self) -> int:
        """How many settings were measured."""
        return len(set(self._settings()))

    def _settings(self) -> list[tuple[float | None, ...]]:
        return list(zip(*(self.values[axis.name] for axis in self.varying), strict=True)) if self.varying else [
            () for _ in self.points]

    def range_of(self, axis: str) -> tuple[float, float] | None:
        """The ends of the data on an axis; None where no point states it.

        What was read from a printed row reaches :data:`PRINTED` further: rows are printed to 0.01 GiB, and so is what
        a shape's own row is computed from.
        """
        known = [value for value in self.values[axis] if value is not None]
        if not known:
            return None
        printed = any(name in point.knobs for name in self.spec.axis(axis).also for point in self.points)
        reach = PRINTED if printed else 0
        return min(known) - reach, max(known) + reach

    @property
    def why_not(self) -> str:
        """Why these points make no law that could rank shapes; "" when they do."""
        if len(self.points) < 2:
            return "one point: a law needs two settings at least"
        if not self.varying:
            return "all points are at one setting: nothing tells what a change would do"
        return ""

    @cached_property
    def fit(self) -> Fit:
        """The rivals, fitted and weighed."""
        import numpy as np

        from measurements.laws.fit import Data, Fit, span_of

        time = np.array([1 / point.rate for point in self.points])
        axes = {axis.name: np.array(self.values[axis.name], dtype=np.float64) for axis in self.varying}
        settings, repeats = self._settings(), [_repeat_key(point) for point in self.points]
        arms = {setting: place for place, setting in enumerate(dict.fromkeys(settings))}
        pairs = list(zip(settings, repeats, strict=True))
        groups = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
        arm, group = np.array([arms[setting] for setting in settings]), np.array([groups[pair] for pair in pairs])
        return Fit(Data(time, axes, arm, group), [span_of(axis, axes[axis.name]) for axis in self.varying])

    @cached_property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """Pairs of points at one setting, as far as they state it, that noise does not explain; repeats are noise."""
        by_setting: dict[tuple[float | None, ...], list[Point]] = {}
        for setting, point in zip(self._settings(), self.points, strict=True):
            by_setting.setdefault(setting, []).append(point)
        allowed = CONTRADICTS * self.fit.noise.value
        found: list[Contradiction] = []
        for group in by_setting.values():
            for i, a in enumerate(group):
                found += [Contradiction(a, b) for b in group[:i]
                          if abs(math.log(a.rate / b.rate)) > allowed and _agree(a, b)
                          and (_repeat_key(a) != _repeat_key(b) or not self.fit.noise.repeats)]
                if len(found) >= MOST_CONTRADICTIONS:
                    return tuple(found[:MOST_CONTRADICTIONS])
        return tuple(found)

    @cached_property
    def not_separated(self) -> tuple[str, ...]:
        """What moved along with the axes, so that the law may credit it to them."""
        return tuple(self._not_separated())

    def _not_separated(self) -> Iterator[str]:
        known = {name for axis in self.spec.axes for name in (axis.name, *axis.also)}
        known |= {key.knob for key in self.spec.keys} | {self.spec.window}
        others = dict.fromkeys(name for point in self.points for name in point.knobs if name not in known)
        for name in others:
            along = [axis for axis in self.varying if self._moves_with(axis, name)]
            if along:
                axis = along[0]
                why = dict(axis.shares).get(name)
                seen = sorted({(value, point.knobs.get(name, "not stated"))
                               for value, point in zip(self.values[axis.name], self.points, strict=True)
                               if value is not None})
                where = "; ".join(f"{self.show(axis, value)} with {_number(text)}" for value, text in seen)
                axes = " and ".join(axis.name for axis in along)
                yield (f"{name} moved along with {axes}, or is not stated, so their effects are not separated"
                       f"{f' ({why})' if why else ''}: {axis.name} {where}")
        for i, axis in enumerate(self.varying):
            for other in self.varying[:i]:
                # depth and request both follow from a prompt's length, and differ in form
                if {axis.name, other.name} != {"depth", "request"} and not self._crossed(axis.name, other.name):
                    yield (f"{axis.name} and {other.name} moved together: no setting differs in one of them alone, so "
                           "their effects are not separated")

    def _moves_with(self, axis: Axis, knob: str) -> bool:
        """Whether ``knob`` is not held while the axis moves: not the same set of values at each place on the axis."""
        sets: dict[float | None, set[str | None]] = {}
        for value, point in zip(self.values[axis.name], self.points, strict=True):
            sets.setdefault(value, set()).add(point.knobs.get(knob))
        return len({frozenset(texts) for texts in sets.values()}) > 1

    def _crossed(self, one: str, other: str) -> bool:
        """Whether some two settings differ in ``one`` and not in ``other``, and some two the other way round."""
        pairs = set(zip(self.values[one], self.values[other], strict=True))
        alone = {a: len({b for c, b in pairs if c == a}) for a, _ in pairs}
        back = {b: len({a for a, c in pairs if c == b}) for _, b in pairs}
        return max(alone.values()) > 1 and max(back.values()) > 1

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the points do not state, or less than they should, with how many of them."""
        counted = Counter(label for point in self.points for label in point.labels)
        found = [self.note] if self.note else []
        for axis in self.varying:
            bent = [form for form in axis.forms if form in ("hinge", "threshold", "saturating", "roofline")]
            if bent and len(set(self.values[axis.name])) == 2:
                found.append(f"{axis.name} was measured at two places: between them a prediction allows for every "
                             "form, and lies beside the straight line")
        if self.varying and self.fit.unexplained is not None:
            found.append(f"no form here explains these points: the best is {self.fit.unexplained:.1%} off, the noise "
                         f"is {self.fit.noise.value:.1%}; something else differs, or the truth has another form")
        found += [f"{label} ({count} of {len(self.points)} points)" if count < len(self.points) else label
                 for label, count in counted.items()]
        for axis in self.spec.axes:
            silent = sum(axis_value(axis, point) is None for point in self.points)
            if self.held.get(axis.name) is not None and silent:
                found.append(f"{silent} of {len(self.points)} points do not state {axis.name}; the others agree on it")
        missing = [name for name, value in self.held.items() if value is None and name != "request"]
        missing += [name for name, value in self.conditions.items() if not value]
        if missing:
            found.append(f"the points do not state {', '.join(dict.fromkeys(missing))}")
        return tuple(found)

    def show(self, axis: Axis, value: float) -> str:
        """A value on an axis, for people."""
        if axis.choices:
            return axis.choices[int(value)]
        return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.4g}"

    @cached_property
    def usual_prompt(self) -> int | None:
        """The prompt (for decode: the context) that most points were measured at, the longer one of equals."""
        lengths = Counter(_extent(point) for point in self.points)
        known = {length: count for length, count in lengths.items() if length is not None}
        return max(known, key=lambda length: (known[length], length)) if known else None

    @cached_property
    def usual_streams(self) -> int:
        """How many streams most points were measured with, the fewest of equals."""
        counted = Counter(point.streams for point in self.points)
        return min(counted, key=lambda streams: (-counted[streams], streams))

    def workload(self, prompt: int | None, streams: int | None) -> dict[str, float]:
        """The workload's values on the axes. ``prompt`` tokens stand for the whole prompt, or the context of decode."""
        found: dict[str, float] = {}
        for axis in self.spec.axes:
            if axis.expr is not None:
                continue
            if axis.name == "streams" and streams is not None:
                found["streams"] = streams
            elif axis.name == "depth" and prompt is not None:
                found["depth"] = prompt / 2 if self.metric == "prefill" else prompt
            elif axis.name == "request" and prompt is not None:
                found["request"] = prompt
        return found

    def outside(self, at: Mapping[str, float], *, prompt: int | None = None) -> tuple[str, ...]:
        """What of ``at`` lies outside the data, in words; empty when nothing does.

        ``prompt`` is judged against the prompts measured, as a whole. Along an axis that no point varies nothing tells
        its effect, and the words say so; whoever extrapolates there takes it as none.
        """
        found = []
        varied = {axis.name for axis in self.varying}
        none = " alone, so what another would do is not known"
        ends = [extent for point in self.points if (extent := _extent(point)) is not None]
        if prompt is not None and ends:
            # a stretch of a prompt lies as deep, on average, as a whole prompt of its depth and its end together
            low = min(ends if self.metric == "decode" else (
                point.depth + extent for point in self.points if (extent := _extent(point)) is not None))
            if not low * (1 - NEAR) <= prompt <= max(ends) * (1 + NEAR):
                found.append(f"{'a prompt' if self.metric == 'prefill' else 'a context'} of {prompt:,} tokens: "
                             f"measured {_ends(low, max(ends))}{'' if varied & {'depth', 'request'} else none}")
        for axis in self.spec.axes:
            value, ends_of = at.get(axis.name), self.range_of(axis.name)
            if value is None or ends_of is None or axis.name in ("depth", "request"):
                continue
            alone = "" if axis.name in varied else none
            if axis.choices:
                if value not in self.values[axis.name]:
                    seen = sorted({self.show(axis, v) for v in self.values[axis.name] if v is not None})
                    found.append(f"{axis.name} {self.show(axis, value)}: measured {', '.join(seen)}{alone}")
            elif not ends_of[0] <= value <= ends_of[1]:
                found.append(f"{axis.name} {value:,.0f}: measured {_ends(*ends_of)} {axis.unit}{alone}")
        return tuple(found)

    def grid(self, at: Mapping[str, float], axis: str | None = None,
             values: Sequence[float] = ()) -> dict[str, Floats]:
        """``at`` as arrays over ``values`` of one axis, for the fit; axes that were held drop out."""
        import numpy as np

        count = max(len(values), 1)
        found = {}
        for varied in self.varying:
            if varied.name == axis:
                found[varied.name] = np.array(values, dtype=np.float64)
            else:
                found[varied.name] = np.full(count, at[varied.name], dtype=np.float64)
        return found or {"": np.zeros(count)}

    def predict(self, at: Mapping[str, float], level: float = LEVEL) -> Prediction:
        """One new measurement at ``at``, which must hold every axis that varies. Raises KeyError where it does not."""
        low, median, high = self.fit.quantiles(self.grid(at), ((1 - level) / 2, 0.5, (1 + level) / 2))[:, 0]
        return Prediction(float(median), float(low), float(high), level)

    def rates(self, at: Mapping[str, float], axis: str | None = None, values: Sequence[float] = (), *,
              level: float | None = None, rival: int | None = None) -> list[float]:
        """Tokens a second along ``values`` of one axis (or at ``at`` alone), the other axes as in ``at``.

        By ``level`` the quantile of one new measurement over all rivals, by ``rival`` the median of that one (its
        place in ``fit.rivals``), else what all rivals expect by weight.
        """
        grid = self.grid(at, axis, values)
        if rival is not None:
            found = self.fit.typical(self.fit.rivals[rival], grid)
        elif level is not None:
            found = self.fit.quantiles(grid, (level,))[0]
        else:
            found = self.fit.mean(grid)
        return [float(rate) for rate in found]

    def drawn(self, at: Mapping[str, float], count: int, seed: int = 11) -> list[float]:
        """``count`` new measurements at ``at``, tokens a second, drawn from all rivals by weight."""
        import numpy as np

        rates, weights = self.fit.sample(self.grid(at))
        rng = np.random.default_rng(seed)
        return [float(rate) for rate in rng.choice(rates[:, 0], size=count, p=weights)]

    @cached_property
    def shares(self) -> dict[str, dict[str, float]]:
        """For each axis that varies, the weight of rivals by what they say of it.

        ``none``: no effect; ``jump``: a threshold; ``gradual``: every other form.
        """
        found: dict[str, dict[str, float]] = {}
        for axis in self.varying:
            share = found.setdefault(axis.name, {"none": 0.0, "gradual": 0.0, "jump": 0.0})
            for rival in self.fit.rivals:
                forms = [term.form for term in rival.terms if term.span.axis.name == axis.name]
                kind = "none" if not forms else "jump" if forms[0] == "threshold" else "gradual"
                share[kind] += rival.weight
        return found

    @cached_property
    def verdict(self) -> str:
        """What the measurements settle, in words."""
        best = self.fit.decided
        if best is not None:
            return f"decided: {best.name}"
        rivals = [rival.name for rival in self.fit.counted if rival.weight >= 0.05]
        if len(rivals) < 2:
            few = "one setting is" if self.arms == 1 else f"{self.arms} settings are"
            return f"not decided: {few} too few to rule others out"
        return f"not decided between {', '.join(rivals[:-1])} and {rivals[-1]}"

    @cached_property
    def line(self) -> Line | None:
        """The law along the axis it is best shown on, inside its data; None where nothing varies.

        A shape's own axis goes before the workload's. The other axes stay at what most points share.
        """
        if not self.varying:
            return None
        axis = min(self.varying, key=lambda axis: (axis.expr is None, bool(axis.choices), axis.name == "request"))
        whole = {"depth", "request"} & {varied.name for varied in self.varying}
        as_prompt = axis.name in ("depth", "request") and self.metric == "prefill" and (
            self.held.get("request", 0) is not None)
        if as_prompt:
            moving, name = frozenset(whole), "prompt_tokens"
            places = [_extent(point) for point in self.points]
        else:
            moving, name = frozenset((axis.name,)), axis.name
            places = [None if value is None else round(value) for value in self.values[axis.name]]
        rest = [tuple(self.values[other.name][i] for other in self.varying if other.name not in moving)
                for i in range(len(self.points))]
        usual = Counter(rest).most_common(1)[0][0]
        names = [other.name for other in self.varying if other.name not in moving]
        others = {name: value for name, value in zip(names, usual, strict=True) if value is not None}
        shown = tuple(i for i, setting in enumerate(rest) if setting == usual)
        known = [place for place in places if place is not None]
        if axis.choices:
            xs = sorted({float(place) for place in known})
        else:
            low, high = min(known), max(known)
            xs = sorted({low + (high - low) * i / LINE for i in range(LINE + 1)} | {float(place) for place in known})
        at = [{**others, **({"depth": x / 2, "request": x} if as_prompt else {axis.name: x})} for x in xs]
        return Line(name, axis.unit, tuple(xs), tuple(at), others,
                    tuple((i, float(place)) for i in shown if (place := places[i]) is not None), axis.choices)

    def along(self, at: Sequence[Mapping[str, float]],
              level: float = LEVEL) -> tuple[list[list[float]], list[list[float]]]:
        """Rates at each of ``at``: low, median and high of one new measurement, and each counted rival's median."""
        import numpy as np

        grid = {axis.name: np.array([place[axis.name] for place in at], dtype=np.float64) for axis in self.varying}
        quantiles = self.fit.quantiles(grid, ((1 - level) / 2, 0.5, (1 + level) / 2))
        return ([[float(rate) for rate in row] for row in quantiles],
                [[float(rate) for rate in self.fit.typical(rival, grid)] for rival in self.fit.counted])

    def told(self, at: Mapping[str, float], axis: str, values: Sequence[float]) -> list[float]:
        """What one new measurement at each of ``values`` would tell of which rival is true, in nats."""
        return [float(nats) for nats in self.fit.information(self.grid(at, axis, values))]

    def with_point(self, at: Mapping[str, float], rate: float) -> Law:
        """This law after one more measurement: of ``rate`` tokens a second at ``at``."""
        values = {name: (*known, at.get(name, self.held.get(name))) for name, known in self.values.items()}
        like = self.points[0]
        new = Point(
            engine=like.engine, version=like.version, model=like.model, metric=like.metric, rate=rate,
            tokens_in=like.tokens_in, depth=like.depth, tokens_out=like.tokens_out, streams=like.streams,
            cache=like.cache, corpus=like.corpus, knobs={}, date="", source="a measurement to come", rep="", note="",
            place=like.place,
        )
        return Law(self.spec, self.engine, self.version, self.model, self.corpus, self.conditions,
                   (*self.points, new), self.left_out, values, self.note)


def _extent(point: Point) -> int | None:
    return None if point.tokens_in is None else point.depth + point.tokens_in


def _repeat_key(point: Point) -> tuple[object, ...]:
    return (point.source, point.streams, tuple(sorted(point.knobs.items())))


def _agree(a: Point, b: Point) -> bool:
    """Whether no knob is stated differently by both."""
    return all(b.knobs.get(name, text) == text for name, text in a.knobs.items())


def _number(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text


def _ends(low: float, high: float) -> str:
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def axis_value(axis: Axis, point: Point) -> float | None:
    """The point's value on an axis; None where it does not state one.

    Raises ValueError, in words, where what it states is no value there.
    """
    if axis.name == "streams":
        return point.streams
    if axis.name == "request":
        return point.tokens_in
    if axis.name == "depth":
        if point.metric == "prefill":
            return None if point.tokens_in is None else point.depth + point.tokens_in / 2
        return None if point.tokens_in is None else point.depth + point.tokens_in
    text = point.knobs.get(axis.name)
    if axis.choices:
        if text is None:
            return None
        if text.lower() not in axis.choices:
            raise ValueError(f"{axis.name} is {text!r}; choose {', '.join(axis.choices)}")
        return axis.choices.index(text.lower())
    if text is not None and text != "0":
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{axis.name} is {text!r}, which is not a whole number of {axis.unit}")
        if len(text) > MOST_DIGITS:
            raise ValueError(f"{axis.name} is far out of range")
        return int(text)
    for name in axis.also:
        if name in point.knobs:
            try:
                return size(point.knobs[name]).middle / MIB
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return None


def names_in(points: Iterable[Point]) -> dict[str, Point]:
    """Every knob or row name that the points state, with a point that does."""
    return {name: point for point in points for name in point.knobs}
