"""The forms of a term of time per token, as columns of a linear fit.

Each form is linear in its size ``b`` once its own parameter (a knee ``k`` or a scale ``s``) is held, so a law is fitted
over a grid of these parameters by least squares with ``b >= 0``. :data:`models.laws.FORMS` says what each means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.laws import Axis

Floats = NDArray[np.float64]

#: Forms with a parameter of their own: these need three arms at least, for two never tell a jump from a slope.
SHAPED: Final = frozenset(("hinge", "threshold", "saturating", "roofline"))
#: Forms that fewer than three places on an axis cannot tell from a line.
BENT: Final = SHAPED | {"valley"}
#: What keeps columns that nothing tells apart solvable, in parts of their own squares.
RIDGE: Final = 1e-9
#: How many knees or scales a fit tries.
GRID: Final = 40


@dataclass(frozen=True, slots=True)
class Span:
    """The axis as it was measured: its ends, and the places between them, in order, with the ends."""

    axis: Axis
    low: float
    high: float
    places: tuple[float, ...] = ()

    @property
    def width(self) -> float:
        """The distance between the ends, 1 where there is none."""
        return self.high - self.low or 1.0


@dataclass(frozen=True, slots=True)
class Term:
    """One axis in one form."""

    span: Span
    form: str

    @property
    def shaped(self) -> bool:
        """Whether it has a parameter of its own."""
        return self.form in SHAPED

    @property
    def columns(self) -> int:
        """How many sizes ``b`` it has."""
        if self.form == "offset":
            return max(len(self.span.axis.choices) - 1, 1)
        return 2 if self.form == "valley" else 1

    @property
    def signed(self) -> bool:
        """Whether its size may be negative: time may move either way along the axis."""
        return self.span.axis.way == "either" and self.form != "valley"

    def grid(self) -> Floats:
        """The parameters to try: knees across the measured range, or scales from a twelfth of it to all of it."""
        if self.form == "saturating":
            return self.span.width * np.geomspace(1 / 12, 1.2, GRID // 2)
        inner = self.span.low + self.span.width * (np.arange(GRID) + 0.5) / GRID
        if self.form != "threshold":
            return np.asarray(inner)
        # a jump may lie between two places that are nearer to each other than the grid's steps
        places = np.array(self.span.places)
        empty = np.diff(np.searchsorted(inner, places)) == 0
        return np.sort(np.concatenate([inner, ((places[1:] + places[:-1]) / 2)[empty]]))

    def cell(self) -> float:
        """Half the distance between two knees of the grid; 0 for scales."""
        return 0.0 if self.form == "saturating" else self.span.width / GRID / 2

    def within(self, knees: Floats, near: Floats) -> Floats:
        """``knees`` of jumps, moved to where they part the same places as ``near`` do; of other forms as they are."""
        if self.form != "threshold" or len(self.span.places) < 2:
            return knees
        places = np.array(self.span.places)
        after = np.clip(np.searchsorted(places, near), 1, len(places) - 1)
        return np.asarray(np.clip(knees, np.nextafter(places[after - 1], np.inf), places[after]))

    def column(self, x: Floats, parameter: Any) -> Floats:
        """The term's columns for unit sizes, shape ``x.shape + (columns,)``.

        ``x`` are values on the axis and ``parameter`` a knee or scale, both broadcast against each other.
        """
        span = self.span
        low, high, width = span.low, span.high, span.width
        rises = span.axis.way != "falls"
        if self.form == "offset":
            which = np.arange(1, self.columns + 1)
            return np.asarray(np.round(x)[..., None] == which, dtype=np.float64)
        if self.form == "valley":
            parts = (low / np.maximum(x, 1e-9) + 0 * x, (x - low) / width + 0 * x)
            return np.asarray(np.stack(parts, axis=-1), dtype=np.float64)
        if self.form in ("slope", "reverse"):
            value = (x - low) / width if rises == (self.form == "slope") else (high - x) / width
        elif self.form == "inverse":
            value = low / np.maximum(x, 1e-9) + 0 * x
        elif self.form == "hinge":
            value = np.maximum(x - parameter, 0) / width if rises else (high - np.maximum(x, parameter)) / width
        elif self.form == "threshold":
            value = (x >= parameter).astype(np.float64) if rises else (x < parameter).astype(np.float64)
        elif self.form == "roofline":
            value = np.minimum(x - low, parameter - low) / width if rises else np.maximum(parameter - x, 0) / width
        else:
            fallen = np.exp(-(x - low) / parameter)
            value = 1 - fallen if rises else fallen
        return np.asarray(value + 0.0 * x, dtype=np.float64)[..., None]


def smallest(design: Floats, target: Floats, signed: Sequence[bool]) -> tuple[Floats, Floats, Floats]:
    """Least squares with sizes that may not be negative, for many problems at once.

    ``design`` is (..., n, p), ``target`` (..., n), ``signed`` says for each column whether it may be negative.
    Returns the sizes (..., p), the residual sums of squares (...), and the inverse normal matrices (..., p, p), zero
    for columns at their bound. Every set of columns is tried, which is exact: the best set with allowed signs is the
    constrained optimum. Meant for a handful of columns.
    """
    gram = np.einsum("...ni,...nj->...ij", design, design)
    right = np.einsum("...ni,...n->...i", design, target)
    total = np.einsum("...n,...n->...", target, target)
    return smallest_of(gram, right, total, signed)


def smallest_of(gram: Floats, right: Floats, total: Floats, signed: Sequence[bool]) -> tuple[Floats, Floats, Floats]:
    """:func:`smallest` of normal matrices (..., p, p), right sides (..., p) and sums of squared targets (...)."""
    p = gram.shape[-1]
    # columns of one length: a hair of ridge then means the same to each
    length = np.sqrt(np.einsum("...ii->...i", gram))
    length = np.where(length > 1e-9 * np.maximum(length.max(-1, keepdims=True), 1e-300), length, 1.0)
    gram = gram / (length[..., :, None] * length[..., None, :])
    right = right / length
    total, *_ = np.broadcast_arrays(total, right[..., 0])
    shape = total.shape
    best = np.array(total, dtype=np.float64)
    sizes = np.zeros((*shape, p))
    inverse = np.zeros((*shape, p, p))
    for chosen in range(1, 1 << p):
        kept = [i for i in range(p) if chosen >> i & 1]
        part = gram[..., kept, :][..., :, kept] + RIDGE * np.eye(len(kept))
        inverted = np.linalg.inv(np.broadcast_to(part, (*shape, len(kept), len(kept))))
        found = np.einsum("...ij,...j->...i", inverted, np.broadcast_to(right, (*shape, p))[..., kept])
        left = total - np.einsum("...i,...i->...", found, np.broadcast_to(right, (*shape, p))[..., kept])
        bound = [place for place, i in enumerate(kept) if not signed[i]]
        better = np.all(found[..., bound] >= 0, axis=-1) & (left < best - 1e-12 * total)
        best = np.where(better, left, best)
        full = np.zeros((*shape, p))
        full[..., kept] = found
        sizes = np.where(better[..., None], full, sizes)
        whole = np.zeros((*shape, p, p))
        for a, i in enumerate(kept):
            for b, j in enumerate(kept):
                whole[..., i, j] = inverted[..., a, b]
        inverse = np.where(better[..., None, None], whole, inverse)
    return sizes / length, np.maximum(best, 0.0), inverse / (length[..., :, None] * length[..., None, :])
