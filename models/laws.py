"""How a law is declared: what a measured speed depends on, and what makes two measurements two laws.

A law is time per token as a sum of one constant and one term for each axis along which something was measured. The
engine declares the axes and the forms each may take; which form the measurements support is found where laws are
fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from models.expr import Expr

#: What is measured: tokens a second of a prompt, or of one stream's answer.
Metric = Literal["prefill", "decode"]

#: The forms a term of time per token may take along an axis, and what each means physically. ``c`` is the constant
#: part, ``b`` is at least 0 unless the axis may work either way.
FORMS: Final = {
    "slope": "every step counts the same: c + b (end - x)",
    "hinge": "flat up to a knee k, then every step counts: c + b (end - max(x, k))",
    "threshold": "a jump at k: c + b [x < k]",
    "saturating": "every step counts less than the one before: c + b exp(-(x - start) / s)",
    "roofline": "the larger of a fixed time and one that shrinks with x: max(c, c + b (k - x)), as when transfers of "
                "non-resident experts hide behind compute",
    "inverse": "a fixed cost shared by x: c + b / x",
    "valley": "a fixed cost shared by x, and one that grows with it: c + b / x + d x",
    "reverse": "every step counts the same, the other way than expected; tried where no other form explains the points",
    "offset": "one time for each choice",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that time per token depends on.

    ``name`` is a knob, or ``depth`` (tokens before the one in question, on average), ``request`` (tokens of one
    prompt) or ``streams``. ``forms`` are the rivals beside no effect at all. Time per token ``falls`` or ``rises``
    with the axis, or may do ``either``. ``expr`` is the axis's value for a shape in ``unit``, None for what the
    workload sets. ``also`` names what a point may state instead, by row name (sizes with a unit, taken in MiB).
    ``shares`` names knobs that are known to act on the same thing, each with how.
    """

    name: str
    unit: str
    forms: tuple[str, ...]
    way: Literal["falls", "rises", "either"]
    expr: Expr | None = None
    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    shares: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """A knob whose value makes another law; with ``presence``, whether it is stated at all does."""

    knob: str
    presence: bool = False


@dataclass(frozen=True, slots=True)
class LawSpec:
    """What the laws of one metric may depend on.

    ``slots`` is the knob that bounds how many streams there can be, ``window`` the one that bounds a prompt. ``moves``
    are knobs that a goal on this metric opens beside the split. ``by_corpus``: what text was generated changes the
    figure, so that corpora are never compared.
    """

    metric: Metric
    axes: tuple[Axis, ...]
    keys: tuple[Key, ...]
    slots: str
    window: str
    by_corpus: bool = False
    moves: tuple[str, ...] = ()

    def axis(self, name: str) -> Axis:
        """The axis of that name. Raises KeyError."""
        return {axis.name: axis for axis in self.axes}[name]
