"""Points files made of plain words: measurements of a law that only the test knows."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from measurements.site import Site

COLUMNS = ("engine", "version", "model", "knobs", "tokens_in", "depth", "tokens_out", "streams", "cache", "corpus",
           "metric", "value", "unit", "rep", "date", "source", "note")

#: Time per token along an axis, from 0 at its lower end to 1 at its upper one, as a share of the constant.
HIDDEN: Mapping[str, Callable[[float, float], float]] = {
    "none": lambda u, k: 0.0,
    "slope": lambda u, k: 0.5 * (1 - u),
    "hinge": lambda u, k: 0.5 * (1 - max(u, k)),
    "threshold": lambda u, k: 0.5 if u < k else 0.0,
    "saturating": lambda u, k: 0.6 * math.exp(-4 * u),
    "roofline": lambda u, k: 0.7 * max(k - u, 0.0),
    "inverse": lambda u, k: 0.4 / (1 + 3 * u),
}


@dataclass(frozen=True)
class Row:
    """One measurement; what is None stays blank."""

    engine: str
    version: str
    model: str
    metric: str
    rate: float
    knobs: Mapping[str, str | int]
    tokens_in: int | None = None
    streams: int | None = None
    corpus: str = ""
    rep: int = 1
    source: str = "made for a test"


def write(path: Path, rows: Iterable[Row]) -> Path:
    """The rows as a points file; ``decode-total`` where several streams run, so that it is divided again."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for row in rows:
            shared = row.metric == "decode" and (row.streams or 1) > 1
            out.writerow((
                row.engine, row.version, row.model, " ".join(f"{name}={value}" for name, value in row.knobs.items()),
                "" if row.tokens_in is None else row.tokens_in, "", "" if row.metric == "prefill" else 512,
                row.streams or "", "cold", row.corpus, "decode-total" if shared else row.metric,
                repr(row.rate * (row.streams or 1) if shared else row.rate), "t/s", row.rep, "", row.source, ""))
    return path


def noisy(rng: random.Random, rate: float) -> float:
    """A measured rate: 1 % of noise."""
    return rate * math.exp(rng.gauss(0, 0.01))


def measured(of: Site, path: Path, rows: Iterable[Row], model_name: str) -> Site:
    """``of`` with these points and this model file."""
    file = write(path, rows)
    return replace(of, model_name=model_name, sources=replace(of.sources, points=(file,)))
