"""Measurements made from a known law: how often a fit finds the law again, and how often its intervals hold.

``python -m tests.measurements.simulated [RUNS]`` prints the tables; ``test_laws_fit.py`` asserts on fewer runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measurements.laws.fit import Data, Fit, Rival, span_of
from measurements.laws.forms import Floats
from models.laws import Axis

SLAB = Axis("slab", "MiB", ("slope", "hinge", "threshold", "saturating", "roofline"), "falls")
DEPTH = Axis("depth", "tokens", ("slope",), "rises")
TURN = Axis("depth", "tokens", ("slope", "saturating"), "rises")
REQUEST = Axis("request", "tokens", ("inverse",), "falls")
STREAMS = Axis("streams", "streams", ("slope", "hinge"), "rises")
DTYPE = Axis("dtype", "", ("offset",), "either", choices=("bf16", "fp8"))
WIRE = Axis("wire", "", ("offset",), "either", choices=("exact", "half", "none"))
BATCH = Axis("batch", "tokens", ("slope", "inverse"), "either")
CHUNK = Axis("chunk", "tokens", ("slope", "inverse", "valley"), "either")

#: The ends of the data on each axis.
ENDS: Mapping[str, tuple[float, float]] = {
    "slab": (20_000.0, 28_000.0), "depth": (1_000.0, 200_000.0), "request": (500.0, 200_000.0),
    "streams": (1.0, 12.0), "dtype": (0.0, 1.0), "wire": (0.0, 2.0), "batch": (2_048.0, 32_768.0),
    "chunk": (2_048.0, 32_768.0),
}
NOISE = 0.03


@dataclass(frozen=True, slots=True)
class Truth:
    """A law to find again: for each axis its form, "" where the axis has no effect."""

    name: str
    axes: tuple[Axis, ...]
    forms: tuple[str, ...]

    @property
    def rival(self) -> str:
        """What the true rival is called."""
        used = [(axis, form) for axis, form in zip(self.axes, self.forms, strict=True) if form]
        if not used:
            return "constant"
        if len(self.axes) == 1:
            return used[0][1]
        return " + ".join(f"{form} in {axis.name}" for axis, form in used)


def _one(axis: Axis, form: str) -> Truth:
    return Truth(f"{form or 'constant'} in {axis.name}", (axis,), (form,))


TRUTHS = (
    _one(SLAB, ""), _one(SLAB, "slope"), _one(SLAB, "hinge"), _one(SLAB, "threshold"), _one(SLAB, "saturating"),
    _one(SLAB, "roofline"), _one(STREAMS, "slope"), _one(STREAMS, "hinge"), _one(TURN, "slope"),
    _one(TURN, "saturating"), _one(REQUEST, "inverse"), _one(BATCH, "inverse"), _one(BATCH, "slope"),
    _one(DTYPE, "offset"), _one(WIRE, "offset"),
    Truth("streams and depth", (DEPTH, STREAMS), ("slope", "slope")),
    Truth("streams (hinge) and depth", (DEPTH, STREAMS), ("slope", "hinge")),
    Truth("dtype and depth", (DEPTH, DTYPE), ("slope", "offset")),
    Truth("request and depth", (DEPTH, REQUEST), ("slope", "inverse")),
    Truth("slab (hinge) and depth", (SLAB, DEPTH), ("hinge", "slope")),
    Truth("slab (hinge), depth idle", (SLAB, DEPTH), ("hinge", "")),
    _one(CHUNK, "valley"), _one(CHUNK, "inverse"),
)
BY_NAME: Mapping[str, Truth] = {truth.name: truth for truth in TRUTHS}


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """One draw of a truth: effects of 40 to 60 % of the constant, knees in the middle half, scales to suit."""

    truth: Truth
    base: float
    effects: tuple[Floats, ...]
    knees: tuple[float, ...]

    def time(self, at: Mapping[str, Floats]) -> Floats:
        """Seconds a token, without noise; written apart from the forms that are fitted."""
        total = np.ones(len(next(iter(at.values()))))
        for axis, form, b, k in zip(self.truth.axes, self.truth.forms, self.effects, self.knees, strict=True):
            low, high = ENDS[axis.name]
            total = total + _term(axis, form, at[axis.name], (at[axis.name] - low) / (high - low), b, k)
        return np.asarray(self.base * total)


def _term(axis: Axis, form: str, x: Floats, u: Floats, b: Floats, k: float) -> Floats:
    """``u`` runs from 0 to 1 along the axis; the term is 0 where time is least and ``b`` where it is most."""
    falls = axis.way == "falls"
    if form == "offset":
        return np.asarray(b[x.astype(int)])
    late, early = np.maximum(u - k, 0) / (1 - k), np.exp(-2 * u / k)
    found = {
        "": 0 * u,
        "slope": 1 - u if falls else u,
        "inverse": ENDS[axis.name][0] / x,
        "valley": ENDS[axis.name][0] / x + k * u,
        "hinge": 1 - late if falls else late,
        "threshold": np.where(u < k, 1.0, 0.0),
        "saturating": early if falls else 1 - early,
        "roofline": np.maximum(k - u, 0) / k,
    }[form]
    return np.asarray(b[0] * found)


def draw(truth: Truth, rng: np.random.Generator) -> Drawn:
    """A law of this kind, at random."""
    effects = []
    for axis in truth.axes:
        sizes = rng.uniform(0.4, 0.6, max(len(axis.choices), 1))
        if axis.choices:
            sizes = np.concatenate([[0.0], np.arange(1, len(axis.choices)) * sizes[1:]])
        effects.append(sizes)
    return Drawn(truth, float(10 ** rng.uniform(-4, -1)), tuple(effects),
                 tuple(float(rng.uniform(0.25, 0.75)) for _ in truth.axes))


def settings(truth: Truth, arms: int, rng: np.random.Generator) -> dict[str, Floats]:
    """``arms`` settings spread over the data's range: both ends and jittered between, or crossed for two axes."""
    first = truth.axes[0]
    if len(truth.axes) == 1:
        return {first.name: _spread(first, arms, rng)}
    second = truth.axes[1]
    if second.name == "request":
        request = _spread(second, arms, rng)
        return {first.name: request / 2, second.name: request}
    # of the two, the axis with more forms is seen at more places
    few = max(len(second.choices), 2 if arms < 9 or "slab" in (first.name, second.name) else 3)
    many = max(arms // few, 2)
    wide, other = (many, few) if first is SLAB or second.choices else (few, many)
    one, two = _spread(first, wide, rng), _spread(second, max(other, -(-arms // wide)), rng)
    return {first.name: np.tile(one, len(two))[:arms], second.name: np.repeat(two, wide)[:arms]}


def _spread(axis: Axis, count: int, rng: np.random.Generator) -> Floats:
    low, high = ENDS[axis.name]
    if axis.choices:
        return np.asarray(np.arange(count) % len(axis.choices), dtype=np.float64)
    u = np.linspace(0, 1, count).astype(np.float64)
    if count > 2:
        u[1:-1] += rng.uniform(-0.3, 0.3, count - 2) / (count - 1)
    x = low * (high / low) ** u if "inverse" in axis.forms else low + (high - low) * u
    return np.asarray(np.round(x), dtype=np.float64)


def inside(truth: Truth, count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Random places inside the data."""
    found = {}
    for axis in truth.axes:
        low, high = ENDS[axis.name]
        if axis.choices:
            found[axis.name] = rng.integers(0, len(axis.choices), count).astype(np.float64)
        elif "inverse" in axis.forms:
            found[axis.name] = low * (high / low) ** rng.uniform(0, 1, count)
        else:
            found[axis.name] = rng.uniform(low, high, count)
    if len(truth.axes) > 1 and truth.axes[1].name == "request":
        found["depth"] = found["request"] / 2
    return found


def data_of(time: Floats, axes: Mapping[str, Floats]) -> Data:
    """Measurements of one source; an arm is what has the same setting."""
    rows = list(zip(*axes.values(), strict=True)) if axes else [()] * len(time)
    seen = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    arm = np.array([seen[row] for row in rows], dtype=np.int64)
    return Data(np.asarray(time, dtype=np.float64), dict(axes), arm, arm)


def fitted(time: NDArray[np.floating[Any]], axes: Mapping[Axis, NDArray[np.floating[Any]]]) -> Fit:
    """The fit along those of ``axes`` that vary."""
    varying = {axis: np.asarray(values, dtype=np.float64) for axis, values in axes.items()
               if len(np.unique(values)) > 1}
    return Fit(data_of(np.asarray(time, dtype=np.float64), {axis.name: values for axis, values in varying.items()}),
               [span_of(axis, values) for axis, values in varying.items()])


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One law, measured and fitted.

    ``wrong`` is the name of a rival that was decided for though it is not the truth and differs from the truth's own
    fit (or, where the arms are too few for that, from the true law) by more than the noise. ``covered`` is the share of
    new measurements within the 90 % interval, ``width`` the median ratio of its ends less 1.
    """

    fit: Fit
    top: bool
    agrees: bool
    decided: bool
    wrong: str
    weight: float
    covered: float
    width: float


def run(truth: Truth, arms: int, repeats: int, seed: int, places: int = 25) -> Run:
    """Measures a law of this kind at ``arms`` settings, ``repeats`` times each, and fits it."""
    rng = np.random.default_rng([seed, arms, repeats, TRUTHS.index(truth)])
    law = draw(truth, rng)
    axes = {name: np.repeat(values, repeats) for name, values in settings(truth, arms, rng).items()}
    clean = law.time(axes)
    fit = fitted(clean * np.exp(NOISE * rng.standard_normal(len(clean))), {a: axes[a.name] for a in truth.axes})
    true = next((rival for rival in fit.rivals if rival.name == truth.rival), None)
    top, decided = fit.rivals[0], fit.decided
    everywhere = {a.name: v for a, v in zip(truth.axes, inside(truth, 200, rng).values(), strict=True)}
    own = law.time(everywhere)

    def apart(rival: Rival) -> bool:
        rates = fit.typical(rival, everywhere)
        reference = fit.typical(true, everywhere) if true is not None else 1 / own
        return bool(np.any(np.abs(np.log(rates / reference)) > fit.noise.value))

    new = inside(truth, places, rng)
    rates = np.exp(NOISE * rng.standard_normal(places)) / law.time(new)
    low, high = fit.quantiles(new, (0.05, 0.95))
    return Run(
        fit=fit, top=top is true, agrees=top is true or (true is not None and not apart(top)),
        decided=decided is not None,
        wrong=decided.name if decided is not None and decided is not true and apart(decided) else "",
        weight=true.weight if true is not None else 0.0,
        covered=float(np.mean((low <= rates) & (rates <= high))), width=float(np.median(high / low - 1)))


def runs(truth: Truth, arms: int, repeats: int, count: int, first: int = 0) -> list[Run]:
    """``count`` runs with the seeds from ``first``."""
    return [run(truth, arms, repeats, seed) for seed in range(first, first + count)]


def sampling_error(shares: Sequence[float]) -> float:
    """The standard error of a mean of shares, over independent runs."""
    return float(np.std(shares, ddof=1) / math.sqrt(len(shares))) if len(shares) > 1 else 1.0


def lines_of(truth: Truth, arms: int, repeats: int, found: Sequence[Run]) -> Iterator[str]:
    """One line of the table."""
    def share(values: Sequence[bool]) -> str:
        return f"{100 * sum(values) / len(values):5.0f}"

    covered = [one.covered for one in found]
    yield (f"{truth.name:26} {arms:3} x {repeats} {share([one.top for one in found])} "
           f"{share([one.agrees for one in found])} {share([one.decided for one in found])} "
           f"{share([bool(one.wrong) for one in found])} {np.mean([one.weight for one in found]):7.2f} "
           f"{100 * np.mean(covered):6.1f} +- {100 * sampling_error(covered):3.1f} "
           f"{100 * np.median([one.width for one in found]):6.1f}")


def _batch(job: tuple[str, int, int, int]) -> list[str]:
    name, arms, repeats, count = job
    return list(lines_of(BY_NAME[name], arms, repeats, runs(BY_NAME[name], arms, repeats, count, 1000)))


def main(arguments: Sequence[str]) -> None:
    """Prints recovery and coverage of every truth, at three sizes of study."""
    from concurrent.futures import ProcessPoolExecutor

    count = int(arguments[0]) if arguments else 100
    sizes = [(12, 3), (5, 1), (4, 1), (3, 1), (2, 1)] if len(arguments) < 2 else [
        (int(a), int(b)) for a, b in (text.split("x") for text in arguments[1].split(","))]
    names = [truth.name for truth in TRUTHS if len(arguments) < 3 or arguments[2] in truth.name]
    print(f"{count} runs each, in %: the truth is the top rival, or agrees with it within the noise; some rival is")
    print("decided for, a wrong one is; the truth's mean weight; new measurements within the 90 % interval; its width")
    print(f"{'truth':26} {'study':>7} {'top':>5} {'agree':>5} {'decid':>5} {'wrong':>5} {'weight':>7} {'covered':>13} "
          "width")
    # what two arms leave out of two axes or three choices is not inside the data
    jobs = [(name, *size, count) for size in sizes for name in names
            if size[0] >= max(2 * len(BY_NAME[name].axes) - 1, *(len(axis.choices) for axis in BY_NAME[name].axes))]
    with ProcessPoolExecutor() as pool:
        for lines in pool.map(_batch, jobs):
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
