"""The engines' arithmetic written out by hand, step by step, as their source and documents list it.

Nothing here touches the declared models: these are the oracles the declarations are compared with. The first part
is on plain numbers, one boot at a time; the second bounds the same rows over the facts' intervals for whole grids
of shapes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

MIB = 1 << 20
GIB = 1 << 30
PAGE = 4096
GRANULE = 2 * MIB


def up(value: int, unit: int) -> int:
    """The least multiple of ``unit`` that is not below ``value``."""
    return value if value % unit == 0 else value + unit - value % unit


# --- the KV block manager (facts 2) -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """The KV groups of Qwen3.8-Flash-Next a rank at two ranks: what a pool of them takes."""

    fixed: int
    page: int
    ceiling: int
    state: int
    checkpoint: int
    stride: int

    def blocks(self, pool: int) -> int:
        """Blocks carved out of ``pool`` bytes, group by group as the engine does; 0 where it refuses."""
        rest = pool - self.fixed
        if rest <= 0:
            return 0
        tokens = rest * 4 // self.page  # rest / (sum of page / block), truncated
        return max(tokens // 4, 0)


def kv_pool(*, seqs: int, length: int, fp8: bool, spec: int, slots: int, in_pool: bool = True) -> Pool:
    """Lays the groups out one after another; ``in_pool`` is whether checkpoints are carved from the pool (1.0.x)."""
    copies = 2 if spec > 0 else 1
    groups = [  # bytes of one state, and whether a draft keeps the state before it as well
        (54 * MIB, True),
        ((3 + spec) * 5120 * 2 * 36, False),
        (23_296, True),
        (4 * (2 + spec), False),
        (40 * 1024 * (3 + spec), False),
    ]
    fixed = 0
    for size, linear in groups:
        fixed += up(size * seqs * (copies if linear else 1), PAGE)
    checkpoint = sum(size for size, _ in groups)
    stride = up(checkpoint, GRANULE)
    if in_pool and slots > 0:
        fixed += slots * stride + GRANULE
    paged = [26 * 1024 if fp8 else 52 * 1024, 3328]
    for _ in paged:
        fixed += PAGE
    ceiling = fixed
    for page in paged:
        ceiling += seqs * -(-length // 4) * page
    state = sum(size * (copies if linear else 1) for size, linear in groups)
    return Pool(fixed, sum(paged), ceiling, state, checkpoint, stride)


def block_tables(seqs: int, length: int) -> int:
    """Bytes of a step's block tables: each of two paged groups, carved three times, every array on 256 bytes."""
    one = up(4 * seqs * (-(-length // 4) + 1), 256)
    return 3 * (one + one)


# --- the resolver of 1.0.x (facts 1) ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """What the resolver of a card is given, in bytes."""

    capacity: int
    held: int
    arena: int
    staging: int
    queues: int
    statics: int
    plane: int
    layer: int
    ceiling: int
    integrated_ram: int = 0


@dataclass(frozen=True)
class Asked:
    """The knobs the resolver reads. ``ratio`` counts in millionths."""

    headroom_mib: int
    weights_mib: int
    kv_mib: int
    ratio: int
    stages: bool


@dataclass(frozen=True)
class Granted:
    """The rows of the budget block. ``refused`` when the fixed costs are not covered; the rest then means nothing."""

    refused: bool
    claimable: int
    elastic: int = 0
    experts: int = 0
    kv_cache: int = 0
    prefill_staging: int = 0
    vram_weights: int = 0
    vram_kv: int = 0
    unclaimed: int = 0
    headroom: int = 0


def resolve_1_0(card: Card, asked: Asked) -> Granted:
    """The 1.0.x resolver, in the order of its own steps, with its decimal constants taken exactly."""
    # 1: headroom; an integrated GPU leaves an eighth of the RAM to the host
    headroom = max(asked.headroom_mib, 0) * MIB
    if card.integrated_ram:
        headroom = max(headroom, card.integrated_ram // 8)
    # 4
    want_w, want_kv = asked.weights_mib <= 0, asked.kv_mib <= 0
    # 5
    fixed = card.held + headroom + card.arena + card.staging + card.queues
    if not want_w:
        fixed += asked.weights_mib * MIB
    if not want_kv:
        fixed += asked.kv_mib * MIB
    claimable = card.capacity - fixed
    if claimable < 0:
        return Granted(True, claimable)
    # 6
    statics = card.statics
    if want_w:
        statics = min(statics, claimable)
        elastic = max(claimable - statics, 0)
    else:
        elastic = claimable
    # 7
    weights = asked.weights_mib * MIB
    kv = asked.kv_mib * MIB
    exp = weights - card.statics  # inside a stated weights pool the statics come first
    if want_w and want_kv:
        kv0 = elastic * (1_000_000 - asked.ratio) // 1_000_000
        exp0 = elastic - kv0
        kv = min(kv0, card.ceiling)
        exp = min(exp0, card.plane)
        spare = elastic - kv - exp
        fill = min(spare, card.plane - exp)
        exp += fill
        spare -= fill
        fill = min(spare, card.ceiling - kv)
        kv += fill
        weights = statics + exp
    elif want_kv:
        kv = min(claimable, card.ceiling)
    elif want_w:
        exp = min(elastic, card.plane)
        weights = statics + exp
    # 8
    stage = 0
    if want_w and asked.stages and card.plane > exp:
        share = Fraction(card.plane - exp, card.plane)
        one = up(ceil(share * card.layer), PAGE)
        if 2 * one < exp:
            stage = 2 * one
            exp -= stage
            weights = statics + exp
    # 9
    weights_mib = -(-weights // MIB)
    over = weights_mib * MIB - weights
    kv_mib = max(kv - over, 0) // MIB if want_kv else asked.kv_mib
    # 10
    unclaimed = (card.capacity - card.held - card.arena - card.staging - card.queues - stage
                 - weights_mib * MIB - kv_mib * MIB)
    return Granted(False, claimable, elastic, exp, kv, stage, weights_mib * MIB, kv_mib * MIB, unclaimed, headroom)


# --- the funding of 1.1 to 1.8 (facts 3) --------------------------------------------------------------------------


def fund(*, capacity: int, statics: int, plane: int, spare: int, host_pool: int, demand: int) -> Granted:
    """Experts keep what the host pool cannot hold, the cache takes the rest up to its demand, the experts what is left.

    ``capacity`` is the card less every charge before the static weights.
    """
    elastic = max(capacity - statics, 0)
    floor = plane + spare - host_pool
    floor = min(max(floor, 0), plane + spare)
    kv = elastic - floor
    kv = max(kv, 0)
    kv = min(kv, demand)
    experts = floor
    if elastic - kv > experts:  # what the cache does not want returns to the experts
        experts = min(elastic - kv, plane + spare)
    weights = min(statics, max(capacity, 0)) + experts
    weights_mib = -(-weights // MIB)
    kv_mib = max(kv - (weights_mib * MIB - weights), 0) // MIB
    return Granted(elastic < floor, capacity, elastic, experts, kv, 0, weights_mib * MIB, kv_mib * MIB)


# --- halogen (facts 1.1, 1.2) -------------------------------------------------------------------------------------


def halogen_work(checkpoint: str, *, early: bool, tokens: int) -> Fraction:
    """What the fit counts beside the pool, in bytes: the line through the documents' figures."""
    gib = Fraction(GIB)
    if early:
        return gib * Fraction(38, 10) + gib * Fraction(84, 10) * tokens / 16_384
    if checkpoint == "v2":
        return gib * Fraction(38, 10) + gib * Fraction(88, 10) * tokens / 32_768
    return gib * Fraction(95, 10) + gib * Fraction(31, 10) * tokens / 32_768


def halogen_fit(*, pool: int, ctx: int, budget: Fraction, other: Fraction, margin: Fraction, fit: bool = True) -> int:
    """The pool after the fit: halved until it fits, never below the context."""
    if not fit or pool <= ctx:
        return pool
    while Fraction(pool * 29_500) + other + margin > budget:
        if pool <= ctx:
            break
        pool = max(ctx, pool // 2)
    return pool
