"""Every engine generation under the one contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from models.radiance.engine import TRAINED_CONTEXT
from tests.contract import Bounds, EngineContract, Facts, Names, Words
from tests.made_sites import IQ4R, W4, Word

_SHAPE: dict[str, str | int] = {
    "tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 2, "max_model_len": 262_144, "num_speculative_tokens": 3,
    "host_pool_mib": 12_288, "gpu_headroom_mib": 512, "placement": "expert_tiered", "ngram_placement": "disk",
}
_BUDGET: dict[str, Word] = {
    "card_total": "31.86GiB", "already_held": "272.61MiB", "activation_arena": "1.10GiB", "step_staging": "3.11MiB",
    "static_weights": "3.34GiB", "settled_free": "585.27MiB", "settle_floor": "548.46MiB",
}
_QUEUES: dict[str, Word] = {"hardware_queues": "100.05MiB"}
_LATER: dict[str, Word] = _QUEUES | {"drift": "12.50MiB", "prefetch": "4.25MiB"}
_RANGES = {
    "max_num_seqs": (1, 16), "max_model_len": (1, TRAINED_CONTEXT), "kv_cache_dtype": (0, 1),
    "num_speculative_tokens": (0, 3), "gpu_headroom_mib": (48, 1024), "host_pool_mib": (0, 40_960),
}
_GRIDS = {"max_model_len": 2048, "expert_vs_cache_ratio": 10_000, "host_pool_mib": 64, "gpu_headroom_mib": 16}


class TestRadiance105(EngineContract):
    """Family A before the hardware queues: a derived split of the iq4r container."""

    engine = "radiance@1.0.5"
    container = IQ4R
    knobs: ClassVar[Words] = _SHAPE | {"expert_vs_cache_ratio": "0.82"}
    facts: ClassVar[Facts] = _BUDGET
    required: ClassVar[Names] = (
        "card_total", "already_held", "activation_arena", "static_weights", "expert_plane",
        "num_speculative_tokens",
    )
    ranges: ClassVar[Bounds] = _RANGES | {
        "expert_vs_cache_ratio": (100_000, 990_000), "placement": (0, 3), "deterministic": (0, 1),
    }
    grids: ClassVar[Mapping[str, int]] = _GRIDS


class TestRadiance1013Pair(EngineContract):
    """A stated pair under a known ceiling: nothing of the budget block is read."""

    engine = "radiance@1.0.13"
    container = W4
    knobs: ClassVar[Words] = _SHAPE | {
        "max_num_seqs": 4, "max_model_len": 200_000, "num_speculative_tokens": 2, "vram_weights_mib": 22_208,
        "vram_kv_mib": 6_912, "host_pool_mib": 40_960, "gpu_headroom_mib": 96,
    }
    facts: ClassVar[Facts] = {"pair_ceiling": "30969MiB"}
    required: ClassVar[Names] = ("pair_ceiling", "num_speculative_tokens")
    instead: ClassVar[Mapping[str, Names]] = {"pair_ceiling": ("settled_free", "settle_floor")}
    ranges: ClassVar[Bounds] = _RANGES | {
        "vram_weights_mib": (1, 40_000), "vram_kv_mib": (1, 30_000), "checkpoint_slots": (0, 16),
    }
    grids: ClassVar[Mapping[str, int]] = _GRIDS


class TestRadiance1013Derived(TestRadiance105):
    """The boot of the two real ledgers."""

    engine = "radiance@1.0.13"
    facts: ClassVar[Facts] = _BUDGET | _QUEUES
    required: ClassVar[Names] = (*TestRadiance105.required, "step_staging", "hardware_queues")


class TestRadiance1013CacheStated(TestRadiance1013Derived):
    """The cache alone is stated: the experts take what is left."""

    knobs: ClassVar[Words] = {**_SHAPE, "vram_kv_mib": 4600, "gpu_headroom_mib": 96}
    required: ClassVar[Names] = ("card_total", "already_held", "activation_arena", "step_staging", "hardware_queues",
                                 "num_speculative_tokens")
    ranges: ClassVar[Bounds] = _RANGES | {"vram_kv_mib": (1, 30_000), "placement": (0, 3)}


class TestRadiance1013WeightsStated(TestRadiance1013Derived):
    """The weights alone are stated: the cache takes what is left, up to its demand."""

    knobs: ClassVar[Words] = {**_SHAPE, "vram_weights_mib": 25_000, "gpu_headroom_mib": 96}
    required: ClassVar[Names] = TestRadiance1013CacheStated.required
    ranges: ClassVar[Bounds] = _RANGES | {"vram_weights_mib": (1, 40_000), "placement": (0, 3)}


class TestRadiance122(EngineContract):
    """Family B: the host pool funds the cache, and pools may still be stated."""

    engine = "radiance@1.2.2"
    container = IQ4R
    knobs: ClassVar[Words] = _SHAPE | {"max_num_seqs": 4, "max_model_len": 200_000, "gpu_headroom_mib": 96}
    facts: ClassVar[Facts] = _BUDGET | _QUEUES
    required: ClassVar[Names] = (
        "card_total", "already_held", "activation_arena", "step_staging", "hardware_queues", "static_weights",
        "expert_plane", "num_speculative_tokens",
    )
    ranges: ClassVar[Bounds] = _RANGES | {
        "vram_weights_mib": (0, 40_000), "vram_kv_mib": (0, 30_000), "checkpoint_interval": (64, 8192),
    }
    grids: ClassVar[Mapping[str, int]] = _GRIDS
    tight = False  # the spare and the automatic checkpoint slots are only believed
    play = 64 << 20


class TestRadiance181(EngineContract):
    """Family C: no pools to state, drift and prefetch charged."""

    engine = "radiance@1.8.1"
    container = IQ4R
    knobs: ClassVar[Words] = TestRadiance122.knobs
    facts: ClassVar[Facts] = _BUDGET | _LATER
    required: ClassVar[Names] = (*TestRadiance122.required, "drift", "prefetch")
    ranges: ClassVar[Bounds] = _RANGES | {"checkpoint_slots": (0, 64)}
    grids: ClassVar[Mapping[str, int]] = _GRIDS
    tight = False
    play = 64 << 20


class TestRadianceDescribed(EngineContract):
    """A container nobody knows, on one card, described by facts alone."""

    engine = "radiance@1.0.13"
    container = "some-other.rad"
    knobs: ClassVar[Words] = {
        **_SHAPE, "tp": 1, "gpu_headroom_mib": 96, "expert_vs_cache_ratio": "0.7", "max_model_len": 65_536,
        "host_pool_mib": 8192,
    }
    facts: ClassVar[Facts] = _BUDGET | _QUEUES | {
        "expert_plane": "24.50GiB", "expert_layer_max": "512MiB", "unit_max": "2MiB", "slot_stride": "1.95MiB",
        "movable_units": 12_000, "kv_page_fp8": "58.50KiB", "kv_page_bf16": "110.50KiB", "kv_block": 4,
        "kv_state": "110.00MiB", "checkpoint_bytes": "56.00MiB", "ngram_size": "12.00GiB",
    }
    required: ClassVar[Names] = (
        "card_total", "already_held", "activation_arena", "step_staging", "hardware_queues", "static_weights",
        "expert_plane", "kv_page_fp8", "kv_block", "kv_state", "checkpoint_bytes",
    )
    ranges: ClassVar[Bounds] = {**TestRadiance105.ranges, "max_model_len": (1, 65_536)}
    grids: ClassVar[Mapping[str, int]] = _GRIDS


class HalogenContract(EngineContract):
    """What the halogen generations share."""

    knobs: ClassVar[Words] = {"ctx": 262_144, "kv_pool_positions": 524_288, "max_tok": 16_384, "host_reserve_gib": 20}
    facts: ClassVar[Facts] = {"mem_total": "125.08GiB", "host_left": "9.8GiB", "mem_available": "118.0GiB"}
    required: ClassVar[Names] = ("mem_total", "resident_weights")
    ranges: ClassVar[Bounds] = {
        "ctx": (4096, 262_144), "kv_pool_positions": (4096, 1_048_576), "max_tok": (1024, 65_536),
        "host_reserve_gib": (0, 30_000), "kv_slots": (1, 16), "kv_pool_fit": (0, 1), "vision_tower": (0, 1),
        "cache_entries": (0, 64),
    }
    grids: ClassVar[Mapping[str, int]] = {"ctx": 2048, "kv_pool_positions": 4096, "max_tok": 1024}
    tight = False  # the engine is closed: its constants are known to a print step


class TestHalogen058(HalogenContract):
    """Before the GTT gate."""

    engine = "halogen@0.5.8"
    container = "w4b"


class TestHalogen0130(HalogenContract):
    """The last documents of w4b."""

    engine = "halogen@0.13.0"
    container = "w4b"


class TestHalogen0151(HalogenContract):
    """The weights are read from the checkpoint, the margin covers vision."""

    engine = "halogen@0.15.1"
    container = "v2"


class TestHalogen0174Trunk(HalogenContract):
    """Keeping the trunk: a refusal instead of a clamp."""

    engine = "halogen@0.17.4"
    container = "v2"
    knobs: ClassVar[Words] = {**HalogenContract.knobs, "prefill_keep_trunk": 1}
    ranges: ClassVar[Bounds] = {**HalogenContract.ranges, "prefill_keep_trunk": (0, 1)}
