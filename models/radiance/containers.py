"""The containers (model files) whose constants are known, and how an unknown one is described by facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from models.declare import Basis
from models.expr import Expr, Fact, align_up, lift, select, total
from models.interval import GIB, KIB, MIB, Interval, point, size

#: How a declaration reads a knob: of the shape under question, or as the boot had it.
Reads = Callable[[str], Expr]

PAGE: Final = 4 * KIB  # every region of the pool and every weight unit is aligned to this
GRANULE: Final = 2 * MIB  # the driver's mapping step; checkpoint strides of 56 and 58 MiB show it

_GROUPS = "KV groups of two boot ledgers, byte-exact"
_SLAB = "slab and pool slots of two boot ledgers"
_SEED_SLAB = "operator note 001: 1,313 slots per 1,792 MiB of slab; 16,235 + 8,893 - 64 movable units"


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Recurrent state of one kind, per sequence. ``size`` is bytes of one state at the knobs' draft depth."""

    name: str
    size: Expr
    linear: bool


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How the KV pool is laid out a rank: bytes a block of ``block`` tokens takes over all paged groups."""

    page: Expr
    block: Expr
    states: Expr
    checkpoint: Expr
    paged_groups: int


@dataclass(frozen=True, slots=True)
class Container:
    """A model file: its constants a rank at two ranks, and the KV groups its architecture has."""

    name: str
    constants: Mapping[str, tuple[Interval, Basis, str]]


def _iq4r() -> Container:
    # 3 x 2560 x 640 weights at 4 bits plus a byte per 64; a rank holds 2 or 3 of 5 blocks, in turn by expert
    units, mean = 25_078, 1_269_760
    return Container(
        "iq4r",
        {
            "movable_units": (point(units), "read", _SLAB),
            "slot_stride": (point(mean), "inferred", _SLAB),
            "expert_plane": (point(units * mean), "inferred", _SLAB),
            "expert_layer_max": (point(512 * mean), "inferred", _SLAB),
            "unit_max": (point(1488 * KIB), "inferred", _SLAB),
            "ngram_size": (size("47.68GiB"), "read", "placement line of two boot ledgers"),
        },
    )


def _w4() -> Container:
    # slot counts are whole, so 1,313 slots between two slabs 1,792 MiB apart leave the stride this wide
    low, high = 1792 * MIB // 1314, 1792 * MIB // 1312
    units = 25_064
    return Container(
        "w4",
        {
            "movable_units": (point(units), "inferred", _SEED_SLAB),
            "slot_stride": (Interval(low, high), "believed", _SEED_SLAB),
            "expert_plane": (Interval(units * low, units * high), "believed", _SEED_SLAB),
            "unit_max": (Interval(low, 2 * high), "believed", _SEED_SLAB),
            "ngram_size": (size("47.68GiB"), "read", "n-gram file of Qwen3.8-Flash-Next"),
        },
    )


KNOWN: Final = {"iq4r": _iq4r(), "w4": _w4()}
ContainerName = Literal["iq4r", "w4", ""]


def recognise(model: str) -> ContainerName:
    """Which known container a model file's name means; "" where it is none of them."""
    name = model.rsplit("/", 1)[-1].lower()
    if "flash" not in name or "3.8" not in name:
        return "iq4r" if name == "iq4r" else "w4" if name == "w4" else ""
    if "iq4r" in name:
        return "iq4r"
    return "w4" if "w4" in name else ""


def layout(container: str, tp: int, read: Reads) -> KvLayout:
    """The KV layout: of a known container at two ranks, else from facts that the user or a ledger gives."""
    return _flash_next(read) if container in KNOWN and tp == 2 else _described(read)


def state_groups(read: Reads) -> tuple[StateGroup, ...]:
    """The recurrent state of Qwen3.8-Flash-Next a rank at two ranks, by draft depth."""
    depth = read("num_speculative_tokens")
    return (
        StateGroup("kv_gdn_state", lift(54 * MIB), linear=True),
        StateGroup("kv_gdn_conv", (3 + depth) * (5120 * 2 * 36), linear=False),
        StateGroup("kv_qsa_tail", lift(22 * KIB + 768), linear=True),
        StateGroup("kv_ple_tok", (2 + depth) * 4, linear=False),
        StateGroup("kv_ple_conv", (3 + depth) * (40 * KIB), linear=False),
    )


def _flash_next(read: Reads) -> KvLayout:
    fp8 = read("kv_cache_dtype").equals(1)
    seqs, depth = read("max_num_seqs"), read("num_speculative_tokens")
    copies = select(depth >= 1, 2, 1)  # a draft needs the state before it as well
    groups = state_groups(read)
    return KvLayout(
        page=select(fp8, 26 * KIB, 52 * KIB) + (3 * KIB + 256),  # the index key is the same at both dtypes
        block=lift(4),
        states=total([align_up(g.size * seqs * (copies if g.linear else 1), PAGE) for g in groups]),
        checkpoint=total([g.size for g in groups]),
        paged_groups=2,
    )


def _described(read: Reads) -> KvLayout:
    fp8 = read("kv_cache_dtype").equals(1)
    return KvLayout(
        page=select(fp8, Fact("kv_page_fp8"), Fact("kv_page_bf16")),
        block=Fact("kv_block"),
        states=read("max_num_seqs") * align_up(Fact("kv_state"), PAGE),
        checkpoint=Fact("checkpoint_bytes"),
        paged_groups=2,
    )


#: Static weights printed for Qwen3.8-Flash-Next at two ranks: 3.29 GiB without vision to 4.03 GiB with it.
STATICS: Final = Interval(int(3.285 * GIB), int(4.035 * GIB))
