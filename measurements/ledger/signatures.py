"""Phrases of each engine's own: counted to tell whose log a file is, before its reader is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIGNATURES: Final[Mapping[str, tuple[str, ...]]] = {
    "radiance": (
        "device: ",
        "model: ",
        "sampler: ",
        "speculation: ",
        "placement: ",
        "mover: ",
        "VRAM budget, per card",
        "card total ",
        "already held ",
        "activation arena",
        "claimable ",
        "vram_weights ",
        "vram_kv ",
        "unclaimed ",
        "slab slots (",
        " movable units",
        " settled at ",
        "KV layer bundles",
        "pool backs ",
        "slots can be lent out",
        "VRAM budgets total",
        "checkpoint slots: ",
        "the cache can grow to ",
    ),
    "halogen": (
        "halogen-flash-server",
        "halogen: KV budget",
        "kv pool: ",
        "flash_serve: ",
        "compaction stalls",
        "contiguous 2 MiB blocks",
        "dmalloc: FAILED",
        "checkpoint: pinned ",
        "checkpoint: refusing to pin",
        "of weights locked in RAM",
        "GTT in use before this start",
        "reserving the KV pool",
        "POOLED, ",
    ),
}
