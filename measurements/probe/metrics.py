"""What a server counts of itself: its Prometheus page, and what rose between two looks at it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Sign = Literal["preemptions", "evictions", "kv_use", "generated", "running"]

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?:[^\"}]|\"(?:\\.|[^\"\\])*\")*\})?"
                     r"\s+(?P<value>\S+)(?:\s+-?\d+)?")
#: By which words of a counter's or gauge's name each sign is known; engines prefix them with their own name.
_NAMES: Final[Mapping[Sign, tuple[re.Pattern[str], ...]]] = {
    "preemptions": (re.compile(r"preempt\w*_total$|preemptions$"),),
    "evictions": (re.compile(r"evict\w*_total$|evictions$"),),
    "kv_use": (re.compile(r"(?:kv|gpu)_cache_usage(?:_perc|_ratio)?$|kv_util$"),),
    "generated": (re.compile(r"(?:generation_tokens|generated_tokens|tokens_predicted)_total$"),),
    "running": (re.compile(r"(?:num_requests_running|requests_processing)$"),),
}
#: Longest line that is read: a sample of a counter is shorter.
_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look: what was counted so far, summed over labels; None where the server does not count it.

    ``kv_use`` is the share of the KV cache in use, from 0 to 1, the largest of several; ``generated`` are tokens and
    ``running`` requests, of whomever.
    """

    preemptions: float | None = None
    evictions: float | None = None
    kv_use: float | None = None
    generated: float | None = None
    running: float | None = None

    @property
    def said(self) -> bool:
        """Whether the page told anything of use here."""
        return any(value is not None for value in (self.preemptions, self.evictions, self.kv_use))


def read_metrics(text: str) -> Snapshot:
    """The counters of a Prometheus page; what is not a finite number above or at 0 is passed over."""
    found: dict[Sign, list[float]] = {"preemptions": [], "evictions": [], "kv_use": [], "generated": [], "running": []}
    for line in text.splitlines():
        if line.startswith("#") or len(line) > _LONGEST:
            continue
        match = _SAMPLE.fullmatch(line.strip())
        if match is None:
            continue
        for sign, patterns in _NAMES.items():
            if any(pattern.search(match["name"]) for pattern in patterns):
                value = _number(match["value"])
                if value is not None:
                    found[sign].append(value)
    use = max(found["kv_use"], default=None)
    return Snapshot(_sum(found["preemptions"]), _sum(found["evictions"]),
                    use if use is None or use <= 1 else use / 100, _sum(found["generated"]), _sum(found["running"]))


def rose(before: Snapshot | None, after: Snapshot | None, sign: Literal["preemptions", "evictions"]) -> float | None:
    """By how much a counter rose; None where either look does not tell, or the counter began anew."""
    if before is None or after is None:
        return None
    first = before.preemptions if sign == "preemptions" else before.evictions
    last = after.preemptions if sign == "preemptions" else after.evictions
    if last is None:
        return None
    difference = last - (first or 0.0)  # a counter with no sample yet is at 0
    return difference if difference >= 0 else None


def began_anew(before: Snapshot | None, after: Snapshot | None) -> bool:
    """Whether a counter fell: the server was started again between both looks."""
    if before is None or after is None:
        return False
    return any(first is not None and last is not None and last < first for first, last in (
        (before.preemptions, after.preemptions), (before.evictions, after.evictions),
        (before.generated, after.generated)))


def changes(before: Snapshot | None, after: Snapshot | None) -> Snapshot | None:
    """What changed between both looks; None where one of them does not tell, in parts and in all."""
    if before is None or after is None:
        return None
    use = None if before.kv_use is None or after.kv_use is None else after.kv_use - before.kv_use
    return Snapshot(rose(before, after, "preemptions"), rose(before, after, "evictions"), use)


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
