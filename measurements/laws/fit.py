"""Fits rival forms of one law to measured times, weighs them, and predicts.

The law is time per token: a constant and one term for each axis that varies. Rivals differ in the form of a term, or
leave it out. Noise is relative. A rival's weight is the mean of two: small-sample evidence (AICc, in which the noise
known beforehand counts as so many measurements more) and the density it gave to each arm when that arm was left out.
Where the two disagree both rivals keep weight, so that a form is ruled out only by both. A prediction is drawn from all
rivals by weight, each refitted to resampled measurements, with the noise of one new measurement on top.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from measurements.laws.forms import BENT, SHAPED, Floats, Span, Term, smallest, smallest_of
from models.laws import Axis

#: Relative noise of one measurement where nothing was repeated, as operators state it, and how many measurements it
#: counts for. Repeats replace it.
STATED_NOISE: Final = 0.03
STATED_COUNT: Final = 3
#: A pooled noise below this is the print's own precision, not the machine's.
LEAST_NOISE: Final = 0.002
#: How often each rival is refitted to resampled measurements.
DRAWS: Final = 400
#: The least time a token may take, in parts of the least one measured: a line drawn on would reach nothing, then less.
FASTEST: Final = 0.5
#: Further off, in logarithms, nothing is told: a rival that is so wrong is wrong.
FARTHEST: Final = 20.0
#: How often a fit is bent towards relative errors; the second time changes nothing that matters.
BENDS: Final = 2
#: Rivals below this weight take no part in predictions.
NEGLIGIBLE: Final = 0.002
#: Of rivals that predict the same, a simpler one with this part of the best one's weight names the law.
SIMPLER: Final = 0.3
#: The weight that decides for a form.
DECIDES: Final = 0.9
#: The weight that the other of two forms which are much alike may keep.
ALIKE: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Measurements of one law: seconds a token ``(n,)``, the axes' values ``(n,)`` each, and which arm each is of.

    An arm is one setting; ``repeats`` groups what one source measured again at one arm.
    """

    time: Floats
    axes: Mapping[str, Floats]
    arm: NDArray[np.int64]
    repeats: NDArray[np.int64]

    @property
    def arms(self) -> int:
        """How many settings were measured."""
        return len(np.unique(self.arm))


def _sorted(data: Data) -> Data:
    """The measurements by setting and time, arms in that order: a file's order changes no number."""
    order = np.lexsort((data.time, *reversed(list(data.axes.values()))))

    def numbered(labels: NDArray[np.int64]) -> NDArray[np.int64]:
        known = {label: place for place, label in enumerate(dict.fromkeys(labels[order].tolist()))}
        return np.array([known[label] for label in labels[order].tolist()], dtype=np.int64)

    return Data(data.time[order], {name: values[order] for name, values in data.axes.items()}, numbered(data.arm),
                numbered(data.repeats))


@dataclass(frozen=True, slots=True)
class Noise:
    """Relative noise of one measurement, and how many measurements know it beside the fit's own residuals."""

    value: float
    count: int
    repeats: int

    @property
    def beside(self) -> int:
        """How many measurements know it that are not themselves fitted."""
        return 0 if self.repeats else self.count

    @property
    def how(self) -> str:
        """Where it is from, for people."""
        return f"from {self.repeats} repeats" if self.repeats else "assumed: too little was repeated"


def noise_of(data: Data) -> Noise:
    """Pooled relative standard deviation of repeats; the stated one where fewer than two measurements repeat others."""
    squares, spare = 0.0, 0
    for group in np.unique(data.repeats):
        logs = np.log(data.time[data.repeats == group])
        squares += float(((logs - logs.mean()) ** 2).sum())
        spare += len(logs) - 1
    if spare < 2:
        return Noise(STATED_NOISE, STATED_COUNT, 0)
    return Noise(max(math.sqrt(squares / spare), LEAST_NOISE), min(spare, STATED_COUNT), spare)


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """One candidate law, fitted.

    ``sizes`` are its constant and terms in seconds a token at its best parameters, ``parameters`` the knee or scale of
    each shaped term. ``evidence`` and ``left_out`` are log scores (AICc / -2, and the log density of left-out arms),
    ``error`` the median relative error of left-out arms by this rival alone.
    """

    terms: tuple[Term, ...]
    sizes: tuple[float, ...]
    parameters: tuple[float, ...]
    residual: float
    evidence: float
    left_out: float
    error: float
    weight: float
    fastest: float
    several: bool
    _draws: tuple[Floats, Floats, Floats, Floats]

    @property
    def name(self) -> str:
        """Its forms in words: ``constant``, ``hinge``, or with several axes ``slope in depth + offset in dtype``.

        No two rivals of one law have the same.
        """
        if not self.terms:
            return "constant"
        if not self.several:
            return self.terms[0].form
        return " + ".join(f"{term.form} in {term.span.axis.name}" for term in self.terms)

    def times(self, at: Mapping[str, Floats]) -> Floats:
        """Drawn times a token at axis values of shape ``(m,)``, shape ``(draws, m)``, without noise.

        None is less than ``fastest``, which only matters beyond the data.
        """
        sizes, parameters, *_ = self._draws
        columns = _columns(self.terms, at, parameters[:, None, :])
        return np.asarray(np.maximum(np.einsum("dmp,dp->dm", columns, sizes), self.fastest))

    @property
    def noises(self) -> Floats:
        """A relative error of one new measurement for each draw."""
        return self._draws[2]

    @property
    def spreads(self) -> Floats:
        """The relative noise of each draw."""
        return self._draws[3]


def _columns(terms: Sequence[Term], at: Mapping[str, Floats], parameters: Floats) -> Floats:
    """The design at ``at``, values (..., m), under ``parameters`` (..., 1, shaped terms): shape (..., m, p)."""
    some = next(iter(at.values()))
    shape = np.broadcast_shapes(some.shape, parameters.shape[:-1])
    found = [np.ones((*shape, 1))]
    shaped = 0
    for term in terms:
        x = at[term.span.axis.name]
        parameter = parameters[..., shaped] if term.shaped else np.zeros(1)
        shaped += term.shaped
        found.append(np.broadcast_to(term.column(x, parameter), (*shape, term.columns)))
    return np.concatenate(found, axis=-1)


def _candidates(spans: Sequence[Span], data: Data, *, reverse: bool) -> list[tuple[Term, ...]]:
    """All rivals whose parameters the arms can tell: no more of them than arms, knees only past two arms an axis.

    With ``reverse`` also those in which an axis works the other way than is expected of it.
    """
    choices: list[list[Term | None]] = []
    for span in spans:
        seen = len(np.unique(data.axes[span.axis.name]))
        forms = [form for form in span.axis.forms if form not in BENT or seen >= 3]
        if reverse and span.axis.way != "either":
            forms.append("reverse")
        choices.append([None, *(Term(span, form) for form in forms)])
    found = []
    for combination in itertools.product(*choices):
        terms = tuple(term for term in combination if term is not None)
        if sum(term.shaped for term in terms) <= 2 and _size(terms) <= data.arms:
            found.append(terms)
    return found


def _size(terms: Sequence[Term]) -> int:
    return 1 + sum(term.columns + term.shaped for term in terms)


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """One candidate on all its parameters: design (k, n, p) of relative times, and the parameters (k, shaped).

    ``told`` (k, n) are the relative times of its best fit, and ``bent`` and ``target`` the problem whose least squares
    are those of the logarithms near it: relative errors proper, however far the candidate is off.
    """

    terms: tuple[Term, ...]
    parameters: Floats
    design: Floats
    signed: tuple[bool, ...]
    told: Floats
    bent: Floats
    target: Floats


def _grid(terms: tuple[Term, ...], data: Data, scale: Floats, relative: Floats) -> _Grid:
    axes = [term.grid() for term in terms if term.shaped]
    parameters = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes)) if axes else np.zeros((1, 0))
    columns = _columns(terms, data.axes or {"": np.zeros(len(data.time))}, parameters[:, None, :])
    signed = [False]
    for term in terms:
        signed += [term.signed or term.form == "offset"] * term.columns
    design = columns / scale[:, None]
    sizes, _, _ = smallest(design, relative[None, :], signed)
    for _ in range(BENDS):
        # no time is negative or nothing: a candidate that says so is far off, not infinitely so
        told = np.maximum(np.einsum("knp,kp->kn", design, sizes), 0.05)
        bent, target = design / told[..., None], 1 + np.log(relative / told)
        sizes, _, _ = smallest(bent, target, signed)
    return _Grid(terms, parameters, design, tuple(signed), told, bent, target)


class Fit:
    """All rivals of one law, fitted to ``data`` along ``spans``, the axes that vary."""

    def __init__(self, data: Data, spans: Sequence[Span]) -> None:
        self.data = _sorted(data)
        self.spans = tuple(spans)
        self.noise = noise_of(data)
        self.rivals = self._fitted(reverse=False)
        if self.unexplained is not None:  # perhaps an axis works the other way here: no form then says so yet
            del self.unexplained
            self.rivals = self._fitted(reverse=True)

    def _fitted(self, *, reverse: bool) -> tuple[Rival, ...]:
        data = self.data
        # relative to the arm's mean: weights that follow each measurement would favour the fast ones
        scale = np.array([data.time[data.arm == arm].mean() for arm in data.arm])
        relative = data.time / scale
        grids = [_grid(terms, data, scale, relative)
                 for terms in _candidates(self.spans, data, reverse=reverse)]
        solved = [smallest(grid.bent, grid.target, grid.signed) for grid in grids]
        polished = [_polished(grid, *found[:2], relative) for grid, found in zip(grids, solved, strict=True)]
        evidence = np.array([self._evidence(left, len(relative), _size(grid.terms))
                             for grid, (_, left) in zip(grids, polished, strict=True)])
        folds = [self._left_out(grid, relative) for grid in grids]
        scores = np.array([fold.score for fold in folds])
        if data.arms > 1 and self._alone.all():
            weights = _shares(np.array([self._between_choices(left, len(relative), _size(grid.terms))
                                        for grid, (_, left) in zip(grids, polished, strict=True)]))
        else:
            weights = (_shares(evidence) + _shares(scores)) / 2
        self._fold_errors(folds)
        found = []
        for place in np.argsort(-weights, kind="stable"):
            grid, (sizes, left) = grids[place], polished[place]
            best = int(np.argmin(solved[place][1]))
            found.append(Rival(
                terms=grid.terms, sizes=tuple(map(float, sizes)), parameters=tuple(map(float, grid.parameters[best])),
                residual=float(left), evidence=float(evidence[place]), left_out=float(scores[place]),
                error=float(np.median(np.abs(np.expm1(folds[place].errors)))) if data.arms > 1 else math.nan,
                weight=float(weights[place]), fastest=float(data.time.min()) * FASTEST,
                several=len(self.spans) > 1,
                _draws=self._draws(grid, solved[place], relative, np.random.default_rng([7, int(place)])),
            ))
        return tuple(found)

    def _evidence(self, residual: float, n: int, parameters: int) -> float:
        """AICc / -2, or BIC / -2 where that asks more of a parameter, as it does from about twelve measurements on.

        The noise known beforehand enters as measurements without a parameter of their own.
        """
        count = n + self.noise.count
        k = parameters + 1
        if count - k - 1 <= 0:
            return -math.inf
        spread = (residual + self.noise.count * self.noise.value**2) / count
        akaike = 2 * k + 2 * k * (k + 1) / (count - k - 1)
        return -0.5 * (count * math.log(spread) + max(akaike, k * math.log(count)))

    def _between_choices(self, residual: float, n: int, parameters: int) -> float:
        """Evidence where there are only choices, each measured at one arm, so that no arm can be left out.

        BIC / -2 of what the sizes leave free: AICc would rule out any difference that was measured once.
        """
        count = n + self.noise.count
        spread = (residual + self.noise.count * self.noise.value**2) / (count - parameters)
        return -0.5 * ((count - parameters) * math.log(spread) + parameters * math.log(count))

    def _left_out(self, grid: _Grid, relative: Floats) -> _Fold:
        data = self.data
        arms = np.unique(data.arm)
        if len(arms) < 2:
            return _Fold(0.0, np.zeros(0), np.zeros(0))
        out = data.arm[None, :] == arms[:, None]  # (arms, n)
        mine = np.argmax(out, axis=0)  # (n,)
        rest = 1.0 - np.eye(len(arms))
        bent, target = grid.bent, grid.target
        grams = np.stack([np.einsum("kni,knj->kij", bent[:, row], bent[:, row]) for row in out])
        rights = np.stack([np.einsum("kni,kn->ki", bent[:, row], target[:, row]) for row in out])
        totals = np.stack([(target[:, row] ** 2).sum(1) for row in out])
        sizes, left, inverse = smallest_of(np.tensordot(rest, grams, 1),
                                           np.tensordot(rest, rights, 1), rest @ totals, grid.signed)
        count = (~out).sum(1)[:, None] + self.noise.count  # (arms, 1)
        spread = left + self.noise.count * self.noise.value**2  # (arms, k)
        logs = -0.5 * count * np.log(spread)
        chances = np.exp(logs - logs.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        free = np.maximum(count - _size(grid.terms), 1)
        # log of what each measurement is told without its arm, less what it is: (n, k)
        wrong = np.clip(np.einsum("knp,nkp->nk", bent, sizes[mine]) - target.T, -FARTHEST, FARTHEST)
        leverage = np.einsum("knp,nkpq,knq->nk", bent, inverse[mine], bent)
        width = (spread / free)[mine]
        each = _student(wrong, np.sqrt(width * (1 + np.minimum(leverage, 25.0))), free[mine])
        density = out.astype(np.float64) @ each  # (arms, k), all of an arm's measurements together
        score = np.log(np.einsum("ak,ak->a", chances, np.exp(density - density.max(1, keepdims=True))))
        score = score + density.max(1)
        errors = out @ np.einsum("nk,nk->n", chances[mine], wrong) / out.sum(1)
        evidence = np.array([self._evidence(float(left[a].min()), int((~out[a]).sum()), _size(grid.terms))
                             if _size(grid.terms) <= len(arms) - 1 else -math.inf for a in range(len(arms))])
        return _Fold(float(score[~self._alone].sum()), errors, evidence)

    @cached_property
    def _alone(self) -> NDArray[np.bool_]:
        """Arms that alone have some choice: nothing else tells its effect, so leaving them out scores nobody."""
        arms = np.unique(self.data.arm)
        found = np.zeros(len(arms), dtype=np.bool_)
        for span in self.spans:
            if span.axis.choices:
                own = np.array([self.data.axes[span.axis.name][self.data.arm == arm][0] for arm in arms])
                found |= (own[:, None] == own[None, :]).sum(1) == 1
        return found

    def _fold_errors(self, folds: Sequence[_Fold]) -> None:
        """The error of each left-out arm by all rivals together, weighed without that arm."""
        if self.data.arms < 2:
            self.left_out_errors = np.zeros(0)
            return
        logs = np.stack([fold.evidence for fold in folds])
        logs[0, ~np.isfinite(logs).any(0)] = 0.0  # too little is left for any law: the constant one
        share = np.exp(logs - logs.max(0))
        share /= share.sum(0)
        self.left_out_errors = np.abs(np.expm1((share * np.stack([fold.errors for fold in folds])).sum(0)))

    def _draws(self, grid: _Grid, solved: tuple[Floats, Floats, Floats], relative: Floats,
               rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        from scipy.special import chdtri, ndtri

        _, left, _ = solved
        count = len(relative) + self.noise.count
        spread = left + self.noise.count * self.noise.value**2
        logs = -0.5 * count * np.log(spread)
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        which = rng.choice(len(chances), size=DRAWS, p=chances)
        # repeats are among the residuals: they know the noise once
        free = max(len(relative) + self.noise.beside - _size(grid.terms), 1)
        variance = spread[which] / max(count - _size(grid.terms), 1)
        # noise at even quantiles: a random handful would be off to one side, in every fit alike
        even = (np.arange(DRAWS) + 0.5) / DRAWS
        sigma = np.sqrt(variance * free / chdtri(free, rng.permutation(even)))
        parameters = grid.parameters[which]
        cells = np.array([term.cell() for term in grid.terms if term.shaped])
        if len(cells):  # a threshold lies anywhere between the two arms that it parts
            moved = parameters + rng.uniform(-1, 1, parameters.shape) * cells
            shaped = [term for term in grid.terms if term.shaped]
            parameters = np.stack([term.within(moved[:, i], parameters[:, i]) for i, term in enumerate(shaped)], -1)
        again = grid.target[which] + sigma[:, None] * rng.standard_normal((DRAWS, len(relative)))
        if any(term.form == "threshold" for term in grid.terms):
            design = grid.bent[which]
        else:
            scale = self.data.time / relative
            axes = self.data.axes or {"": np.zeros(len(relative))}
            columns = _columns(grid.terms, axes, parameters[:, None, :]) / scale[:, None]
            design = columns / grid.told[which][..., None]
        sizes, _, _ = smallest(design, again, grid.signed)
        return sizes, parameters, sigma * ndtri(rng.permutation(even)), sigma

    @cached_property
    def counted(self) -> tuple[Rival, ...]:
        """The rivals that take part in predictions."""
        return tuple(rival for rival in self.rivals if rival.weight >= NEGLIGIBLE)

    @cached_property
    def unexplained(self) -> float | None:
        """How far measurements are off the best rival, relative, where the noise does not explain it; else None.

        Its squares exceed what noise alone would leave in 99 of 100.
        """
        from scipy.special import chdtri

        best = min(self.rivals, key=lambda rival: rival.residual)
        free = len(self.data.time) - _size(best.terms)
        if free < 1 or best.residual <= self.noise.value**2 * float(chdtri(free, 0.01)):
            return None
        return math.sqrt(best.residual / free)

    def sample(self, at: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """Drawn rates of one new measurement, tokens a second (draws, m), and the weight of each draw."""
        rates, weights = [], []
        slowest = float(self.data.time.max()) * 20
        loose = self._loosened(at)
        for rival in self.counted:
            times = np.minimum(rival.times(loose), slowest)
            rates.append(np.exp(rival.noises[:, None]) / times)
            weights.append(np.full(DRAWS, rival.weight / DRAWS))
        weight = np.concatenate(weights)
        return np.concatenate(rates), weight / weight.sum()

    def _loosened(self, at: Mapping[str, Floats]) -> dict[str, Floats]:
        """``at``, where two places on an axis tell no knee from a slope: then each draw goes its own way between them.

        A slope at the moved place is what another form says at the place itself.
        """
        found = dict(at)
        for i, span in enumerate(self.spans):
            terms = [Term(span, form) for form in span.axis.forms if form in SHAPED]
            if len(span.places) != 2 or not terms or "slope" not in span.axis.forms:
                continue
            rng = np.random.default_rng([13, i])
            forms, knees = rng.integers(0, len(terms) + 1, DRAWS), rng.uniform(0.01, 0.99, (DRAWS, 1))
            x = at[span.axis.name]
            moved = np.repeat(x[None, :], DRAWS, axis=0)
            between = (x > span.low) & (x < span.high)
            ends = np.array(span.places)
            for place, term in enumerate(terms):
                mine = forms == place
                parameter = span.low + span.width * knees[mine] if term.form != "saturating" else term.grid()[
                    (knees[mine] * len(term.grid())).astype(int)]
                low, high = np.moveaxis(term.column(ends, parameter)[..., 0], -1, 0)[..., None]
                share = (term.column(x, parameter)[..., 0] - low) / (high - low)
                moved[mine] = np.where(between, span.low + span.width * share, x)
            found[span.axis.name] = moved
        return found

    def quantiles(self, at: Mapping[str, Floats], levels: Sequence[float]) -> Floats:
        """Quantiles of one new measurement, tokens a second: shape (levels, m)."""
        rates, weights = self.sample(at)
        order = np.argsort(rates, axis=0)
        ranked = np.take_along_axis(rates, order, 0)
        reached = np.cumsum(weights[order], axis=0)
        found = []
        for level in levels:
            place = np.minimum((reached < level - 1e-12).sum(0), len(ranked) - 1)
            found.append(ranked[place, np.arange(ranked.shape[1])])
        return np.stack(found)

    def typical(self, rival: Rival, at: Mapping[str, Floats]) -> Floats:
        """The median rate of one rival, tokens a second (m,)."""
        return np.asarray(1 / np.median(rival.times(at), axis=0))

    def mean(self, at: Mapping[str, Floats]) -> Floats:
        """The rate over all rivals by weight, from each one's median, tokens a second (m,)."""
        total = sum(rival.weight for rival in self.counted)
        return np.asarray(sum(self.typical(rival, at) * (rival.weight / total) for rival in self.counted))

    def information(self, at: Mapping[str, Floats]) -> Floats:
        """What one new measurement at each of ``at`` would tell of which rival is true, in nats (m,).

        The mutual information of rival and outcome: nothing where all expect the same within the noise, at most the
        entropy of the rivals' weights.
        """
        rivals = self.counted
        weights = np.array([rival.weight for rival in rivals])
        weights = weights / weights.sum()
        slowest = float(self.data.time.max()) * 20
        logs = [-np.log(np.minimum(rival.times(at), slowest)) for rival in rivals]
        spreads = [np.maximum(rival.spreads, LEAST_NOISE) for rival in rivals]
        low = min(float(log.min()) for log in logs) - 3 * self.noise.value
        high = max(float(log.max()) for log in logs) + 3 * self.noise.value
        outcomes = np.linspace(low, high, 96)
        chances = []
        for log, spread in zip(logs, spreads, strict=True):
            away = (outcomes[None, None, :] - log[:, :, None]) / spread[:, None, None]
            density = (np.exp(-0.5 * away**2) / spread[:, None, None]).mean(0) + 1e-12
            chances.append(density / density.sum(-1, keepdims=True))
        each = np.stack(chances)
        mixed = np.einsum("r,rmo->mo", weights, each)
        return np.asarray(np.einsum("r,rmo->m", weights, each * np.log(each / mixed)))

    @cached_property
    def decided(self) -> Rival | None:
        """The rival that the measurements settle on, if they do.

        Rivals that predict the same within the noise, all over the data, count together. Weight alone decides
        nothing with fewer than two arms more than a rival has parameters, nor where a knee has fewer than two arms on
        one side: a jump, a bend and one odd arm are then the same data. Nor does it decide between a roofline and an
        exponential, which are much alike, until the other one has next to none.
        """
        best = self.rivals[0]
        needed = _size([max((Term(span, form) for form in span.axis.forms), key=lambda term: _size([term]))
                        for span in self.spans])
        # a choice has one form, which repeats decide
        spare = 2 if any(not span.axis.choices for span in self.spans) else 0
        if self.data.arms < needed + spare or len(self.data.time) <= needed or not self.spans:
            return None
        at = self._everywhere()
        own = self.typical(best, at)
        apart = [rival for rival in self.counted
                 if not np.all(np.abs(np.log(self.typical(rival, at) / own)) < self.noise.value)]
        if sum(rival.weight for rival in self.counted if rival not in apart) < DECIDES:
            return None
        if any(rival.weight > ALIKE and _alike(rival.terms) == _alike(best.terms) for rival in apart):
            return None
        shaped = [term for term in best.terms if term.shaped]
        for term, knee in zip(shaped, best.parameters, strict=True):
            x = self.data.axes[term.span.axis.name]
            below, above = len(np.unique(x[x < knee])), len(np.unique(x[x >= knee]))
            if term.form != "saturating" and min(below, above) < 2:
                return None
        # of rivals that predict the same the simplest says what is known
        alike = [rival for rival in self.counted if rival not in apart and rival.weight >= best.weight * SIMPLER]
        return min(alike, key=lambda rival: (_size(rival.terms), -rival.weight))

    def _everywhere(self) -> dict[str, Floats]:
        """Axis values all over the data: along one axis evenly, along several at the measured settings."""
        if len(self.spans) == 1 and self.spans[0].axis.way and not self.spans[0].axis.choices:
            span = self.spans[0]
            return {span.axis.name: np.linspace(span.low, span.high, 33)}
        return dict(self.data.axes)


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """Leave-one-arm-out of one rival: its score, its log error for each arm, its evidence without each arm."""

    score: float
    errors: Floats
    evidence: Floats


def _alike(terms: Sequence[Term]) -> list[tuple[str, str]]:
    """Axes and forms, with one word for the two forms that fall steeply at first and level out."""
    return [(term.span.axis.name, "levels out" if term.form in ("saturating", "roofline") else term.form)
            for term in terms]


def _shares(logs: Floats) -> Floats:
    if not np.isfinite(logs).any():
        return np.full(len(logs), 1 / len(logs))
    shares = np.exp(logs - logs[np.isfinite(logs)].max())
    return np.asarray(shares / shares.sum())


def _student(value: Floats, scale: Floats, free: NDArray[np.int64]) -> Floats:
    """Log density of Student's t with ``free`` degrees of freedom."""
    from scipy.special import gammaln

    constant = gammaln((free + 1) / 2) - gammaln(free / 2) - 0.5 * np.log(free * np.pi)
    return np.asarray(constant - np.log(scale) - (free + 1) / 2 * np.log1p((value / scale) ** 2 / free))


def _polished(grid: _Grid, sizes: Floats, left: Floats, relative: Floats) -> tuple[Floats, float]:
    """The best sizes of a candidate, refined for relative errors proper (in logarithms), and what is left.

    Gauss's and Newton's steps by numpy: importing scipy's own costs more than all fits of a site together.
    """
    best = int(np.argmin(left))
    design, found, logs = grid.design[best], sizes[best], np.log(relative)
    told = design @ found
    if np.any(told <= 0):
        return found, float(left[best])
    residual = float(((np.log(told) - logs) ** 2).sum())
    for _ in range(6):
        again, _, _ = smallest(design / told[:, None], 1 + logs - np.log(told), grid.signed)
        nearer = design @ again
        if np.any(nearer <= 0):
            break
        better = float(((np.log(nearer) - logs) ** 2).sum())
        if better >= residual * (1 - 1e-9):
            break
        found, told, residual = again, nearer, better
    return found, residual


def span_of(axis: Axis, values: Floats) -> Span:
    """The axis as measured."""
    return Span(axis, float(values.min()), float(values.max()), tuple(map(float, np.unique(values))))
