"""What changes for sizing from one version of an engine to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from models.versions import Version, dotted


@dataclass(frozen=True, slots=True)
class Change:
    """One change: ``flag`` (gone or new), ``memory`` (moves between VRAM and RAM) or ``row`` (means something else)."""

    since: Version
    kind: Literal["flag", "memory", "row"]
    text: str
    source: str


_MAP: Final = "release notes"
_SEED: Final = "operator note 000"

_RADIANCE: Final = (
    Change((1, 0, 9), "row", "a `hardware queues` row appears (100 MiB a card), and the settle floor grows by what "
           "is kept for step staging and one queue", _MAP),
    Change((1, 0, 9), "memory", "the n-gram table is no longer a mapped file: --ngram-placement ram pins 47.68 GiB",
           _MAP),
    Change((1, 1, 0), "flag", "--expert-vs-cache-ratio is gone: a server given it does not start", _MAP),
    Change((1, 1, 0), "memory", "linear-state snapshots move from the KV pool to pinned RAM: the pool needs 448 MiB "
           "less at draft depth 2, the pinned ledger gains the checkpoint store", _MAP),
    Change((1, 1, 0), "row", "`experts` is what the host pool cannot hold, and `kv cache` takes the rest up to its "
           "demand; no prefill staging region is taken from the experts", _MAP),
    Change((1, 3, 0), "flag", "--vram-weights-mib and --vram-kv-mib are gone: a server given them does not start",
           _MAP),
    Change((1, 3, 0), "memory", "the token embedding moves to RAM by default: static weights fall by 606 MiB a rank, "
           "so a `static weights` row of an older boot is too high", _MAP),
    Change((1, 8, 1), "row", "`drift` and `prefetch` are charged before claimable; `kv cache` is the ceiling that the "
           "cache can grow to", _SEED),
)
_HALOGEN: Final = (
    Change((0, 11, 3), "memory", "the prompt cache holds 16 entries by default instead of 8 (0.9 GiB more)",
           "vendor documents"),
    Change((0, 11, 9), "row", "the start refuses when free GTT is below what it will need", "vendor change log"),
    Change((0, 12, 1), "memory", "the prompt cache holds 20 entries by default instead of 16 (0.4 GiB more)",
           "vendor documents"),
    Change((0, 13, 3), "memory", "the prompt cache holds 24 entries by default at 4 slots (2.6 GiB) instead of 20",
           "vendor documents"),
    Change((0, 15, 1), "row", "the fit reads the weights and the working memory from the checkpoint; the margin is "
           "about 2.0 GiB instead of 1.5 and covers vision", "vendor change log"),
    Change((0, 15, 2), "flag", "prefill_keep_trunk exists: 5.5 GiB on v2, and a refusal instead of a clamp",
           "vendor change log"),
)
_CHANGES: Final = {"radiance": _RADIANCE, "halogen": _HALOGEN}


def between(engine: str, old: Version, new: Version) -> list[str]:
    """The changes on the way from ``old`` to ``new``, oldest first; going back, what is undone.

    Empty for the same version.
    """
    low, high = min(old, new), max(old, new)
    undone = "" if new >= old else "undone: "
    return [
        f"{undone}since {dotted(change.since)} ({change.kind}): {change.text} [{change.source}]"
        for change in _CHANGES[engine]
        if low < change.since <= high
    ]
