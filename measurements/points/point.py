"""One measured speed, as a points file states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from measurements.records import Place
from models.laws import Metric


@dataclass(frozen=True, slots=True)
class Point:
    """A speed that the probe rules admit.

    ``rate`` is tokens a second: of the prompt's ``tokens_in`` tokens for ``prefill``, of one stream's answer for
    ``decode`` (a figure for all streams together is already divided by them). ``depth`` counts tokens that were in
    the context before. ``version`` is as written, one version or a range ``1.0.0-1.2.4`` within which the build is
    only known to lie; "" is not stated. ``knobs`` are settings and rows as written. ``place`` is the file and line.
    ``labels`` say what is not stated, or less than it should be.
    """

    engine: str
    version: str
    model: str
    metric: Metric
    rate: float
    tokens_in: int | None
    depth: int
    tokens_out: int | None
    streams: int
    cache: Literal["cold", "warm", ""]
    corpus: str
    knobs: Mapping[str, str]
    date: str
    source: str
    rep: str
    note: str
    place: Place
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that is no evidence, with the probe rule it breaks."""

    place: Place
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class PointsReading:
    """All rows of the points files: what is admitted, and what is not and why."""

    points: tuple[Point, ...]
    refused: tuple[Refusal, ...]
    files: tuple[str, ...]
