"""The engines' arithmetic written out by hand, step by step, as their source and documents list it.

Nothing here touches the declared models: these are the oracles the declarations are compared with. The first part
is on plain numbers, one boot at a time; the second bounds the same rows over the facts' intervals for whole grids
of shapes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

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


def block_tables(seqs: int, length: int, carved: int = 3) -> int:
    """Bytes of a step's block tables: each of two paged groups, carved three times, every array on 256 bytes."""
    one = up(4 * seqs * (-(-length // 4) + 1), 256)
    return carved * (one + one)


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


# --- whole grids of shapes, bounded over the facts' intervals --------------------------------------------------------

Whole = NDArray[np.int64]
Fact = tuple[int, int]


@dataclass(frozen=True)
class Tried:
    """Every shape of a grid: which surely hold (by constraint), and bounds of the rows and objectives.

    ``short`` is by how much a constraint is missed at worst; 0 or less where it holds, or does not apply; ``excused``
    says where it does not.
    """

    holds: dict[str, NDArray[np.bool_]]
    low: dict[str, Whole]
    high: dict[str, Whole]
    short: dict[str, Whole]
    excused: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


class _Musts:
    """Constraints of one grid: ``need`` at most ``limit`` where nothing excuses it."""

    def __init__(self) -> None:
        self.short: dict[str, Whole] = {}
        self.excused: dict[str, NDArray[np.bool_]] = {}

    def must(self, name: str, need: Whole | int, limit: Whole | int, excused: NDArray[np.bool_] | bool = False) -> None:
        self.short[name] = np.where(excused, 0, np.asarray(need, dtype=np.int64) - limit)
        self.excused[name] = np.broadcast_to(excused, self.short[name].shape)

    @property
    def holds(self) -> dict[str, NDArray[np.bool_]]:
        return {name: short <= 0 for name, short in self.short.items()}


def _up(value: Whole, unit: int) -> Whole:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class RadianceSite:
    """What does not move: the generation, exact knobs and the facts' bounds (a missing fact is absent)."""

    family: str
    facts: dict[str, Fact]
    boot: dict[str, int]
    sessions: int | None
    exact: bool
    fp8: bool
    spec: int
    slots: int
    stages: bool
    tp: int = 2


def try_radiance(of: RadianceSite, knobs: dict[str, Whole]) -> Tried:
    """Rows, constraints and objectives of radiance for every shape of a grid, on the pessimistic side.

    ``knobs`` holds arrays of one size: sequences, length, headroom, host pool, ratio, both stated pools (0 derives).
    """
    low: dict[str, Whole] = {}
    high: dict[str, Whole] = {}
    musts = _Musts()
    must = musts.must
    seqs, length = knobs["max_num_seqs"], knobs["max_model_len"]
    host = knobs["host_pool_mib"] * MIB
    weights, kv = knobs["vram_weights_mib"] * MIB, knobs["vram_kv_mib"] * MIB
    w_stated, kv_stated = weights > 0, kv > 0
    both, derived = w_stated & kv_stated, ~w_stated & ~kv_stated
    headroom = knobs["gpu_headroom_mib"] * MIB
    facts = of.facts

    # the pool: states a sequence, checkpoints (in the pool before 1.1), then blocks of four tokens
    one = kv_pool(seqs=1, length=4, fp8=of.fp8, spec=of.spec, slots=of.slots, in_pool=of.family == "A")
    copies = 2 if of.spec else 1
    fixed = np.zeros_like(seqs)
    for size, linear in ((54 * MIB, True), ((3 + of.spec) * 368_640, False), (23_296, True), (4 * (2 + of.spec), False),
                         ((3 + of.spec) * 40_960, False)):
        fixed = fixed + _up(size * seqs * (copies if linear else 1), PAGE)
    fixed = fixed + 2 * PAGE
    if of.family == "A" and of.slots:
        fixed = fixed + of.slots * one.stride + GRANULE
    each = -(-length // 4)
    demand = fixed + seqs * each * one.page
    sessions = seqs if of.sessions is None else np.full_like(seqs, of.sessions)

    def blocks(pool: Whole) -> Whole:
        found: Whole = np.maximum(pool - fixed, 0) // one.page
        return found

    # the budget
    budgeted = "card_total" in facts
    if budgeted:
        boot = of.boot["max_num_seqs"], of.boot["max_model_len"]
        shapes = [(int(s), int(n)) for s, n in zip(seqs.flat, length.flat, strict=True)]
        more = np.array([block_tables(*shape) for shape in shapes]).reshape(seqs.shape) - block_tables(*boot)
        # three carvings were printed from 1.0.9 on, before it may be one: the row holds them, unless stated below
        carved = 3 if "hardware_queues" in facts else 1
        own = np.array([block_tables(*shape, carved) for shape in shapes]).reshape(seqs.shape)
        staging_low, staging_high = (np.maximum(end + more, np.minimum(end, own)) for end in facts["step_staging"])
        charges = ["already_held", "activation_arena"]
        charges += [name for name in ("hardware_queues", "drift", "prefetch") if name in facts]
        least = facts["card_total"][0] - sum(facts[name][1] for name in charges)
        most = facts["card_total"][1] - sum(facts[name][0] for name in charges)
        claim_low = least - headroom - staging_high - weights - kv
        claim_high = most - headroom - staging_low - weights - kv
        must("claimable_covers", 0, claim_low)
        low["claimable"], high["claimable"] = claim_low, claim_high
        statics_low, statics_high = facts["static_weights"]
        plane_low, plane_high = facts["expert_plane"]
        spare_low, spare_high = facts["spare"]
        elastic_low = np.where(w_stated, claim_low, np.maximum(claim_low - statics_high, 0))
        elastic_high = np.where(w_stated, claim_high, np.maximum(claim_high - statics_low, 0))
        if of.family == "A":
            keep = 1_000_000 - knobs["expert_vs_cache_ratio"]
            room_low = np.maximum(elastic_low, 0) * keep // 1_000_000
            room_high = np.maximum(elastic_high, 0) * keep // 1_000_000
            offer_low = np.maximum(room_low, elastic_low - plane_high)
            offer_high = np.maximum(room_high, elastic_high - plane_low)
            share_low = np.maximum(elastic_low, 0) - room_low
            share_high = np.maximum(elastic_high, 0) - room_high
            first_low = np.minimum(np.maximum(share_low, elastic_low - demand), plane_low)
            first_high = np.minimum(np.maximum(share_high, elastic_high - demand), plane_high)
            whole_low, whole_high = plane_low, plane_high
        else:
            whole_low, whole_high = plane_low + spare_low, plane_high + spare_high
            floor_low = np.minimum(np.maximum(whole_low - host, 0), whole_low)
            floor_high = np.minimum(np.maximum(whole_high - host, 0), whole_high)
            offer_low = np.maximum(elastic_low - floor_high, 0)
            offer_high = np.maximum(elastic_high - floor_low, 0)
            first_low = np.minimum(np.maximum(elastic_low - demand, floor_low), whole_low)
            first_high = np.minimum(np.maximum(elastic_high - demand, floor_high), whole_high)
            must("expert_floor_covered", floor_high, elastic_low, ~derived)
        offer_low = np.where(w_stated, claim_low, offer_low)
        offer_high = np.where(w_stated, claim_high, offer_high)
        cache_low = np.where(kv_stated, kv, np.minimum(offer_low, demand))
        cache_high = np.where(kv_stated, kv, np.minimum(offer_high, demand))
        full_low, full_high = np.minimum(elastic_low, plane_low), np.minimum(elastic_high, plane_high)
        first_low = np.where(w_stated, weights - statics_high, np.where(kv_stated, full_low, first_low))
        first_high = np.where(w_stated, weights - statics_low, np.where(kv_stated, full_high, first_high))
        stage_low = np.zeros_like(seqs)
        stage_high = np.zeros_like(seqs)
        if of.family == "A" and of.stages:
            layer = facts["expert_layer_max"][0] // PAGE
            some_low = (layer - np.maximum(first_high, 0) * layer // plane_low) * PAGE
            some_high = (layer - np.maximum(first_low, 0) * layer // plane_high) * PAGE
            sure = (first_high < plane_low) & (2 * some_high < first_low) & ~w_stated
            never = (first_low >= plane_high) | (2 * some_low >= first_high) | w_stated
            stage_low = np.where(sure, 2 * some_low, np.where(never, 0, np.minimum(2 * some_low, 0)))
            stage_high = np.where(never, 0, np.maximum(2 * some_high, 0))
        experts_low, experts_high = first_low - stage_high, first_high - stage_low
        low["experts"], high["experts"] = experts_low, experts_high
        grant_low = np.minimum(statics_low, np.maximum(claim_low, 0)) + experts_low
        grant_high = np.minimum(statics_high, np.maximum(claim_high, 0)) + experts_high
        over_high = np.where(w_stated, 0, -grant_low % MIB if of.exact else MIB - 1)
        over_low = over_high if of.exact else np.zeros_like(seqs)
        low["vram_weights"] = np.where(w_stated, weights, _up(grant_low, MIB))
        high["vram_weights"] = np.where(w_stated, weights, _up(grant_high, MIB))
        left_low, left_high = np.maximum(cache_low - over_high, 0), np.maximum(cache_high - over_low, 0)
        low["vram_kv"] = np.where(kv_stated, kv, left_low // MIB * MIB)
        high["vram_kv"] = np.where(kv_stated, kv, left_high // MIB * MIB)
        capped = ~kv_stated & (offer_low >= demand) & (sessions <= seqs)
        full = ~kv_stated & (offer_low >= demand)
        idle_low = np.maximum(elastic_low - demand - whole_high, 0)
        unpaid = np.minimum(cache_low - over_high, 0)
        spill = left_low % MIB if of.exact else np.zeros_like(seqs)
        single = np.where(w_stated, claim_low - high["vram_kv"], claim_low - high["vram_weights"] - stage_high)
        low["above headroom"] = np.where(both, claim_low, np.where(derived, idle_low + spill + unpaid, single))
        resident = np.where(w_stated, weights - statics_high, experts_low)
        must("weights_hold_statics", statics_high, weights, ~w_stated)
        if of.family != "C":
            must("experts_placed", plane_high, resident - spare_high + host, derived & (of.family == "B"))
        if of.family != "A":
            most_host = max(-(-(plane_low + spare_low) // MIB) * MIB, of.boot["host_pool_mib"] * MIB)
            must("host_pool_within_plane", host, most_host)
    else:
        low["vram_kv"] = high["vram_kv"] = kv
        low["vram_weights"] = high["vram_weights"] = weights
        capped = full = np.zeros_like(both)
    pool = low["vram_kv"]
    must("kv_pool_opens", fixed + one.page, pool)
    must("one_full_request", fixed + each * one.page, pool, capped)
    must("pool_contract", fixed + sessions * each * one.page, pool, capped)
    if "pair_ceiling" in facts and of.family != "C":
        moved = headroom - of.boot["gpu_headroom_mib"] * MIB
        must("pair_ceiling", weights + kv, facts["pair_ceiling"][0] - moved, ~both)
        if "settle_floor" in facts:  # the floor holds the headroom, which pays for what it took from the ceiling
            must("settle_floor", weights + kv, facts["pair_ceiling"][0] + facts["settle_floor"][0], ~both)
        low["pair headroom"] = facts["pair_ceiling"][0] - moved - weights - kv
    # pinned RAM, the n-gram table on disk
    pinned = of.tp * host
    pinned = pinned + 2048 * MIB
    if of.family != "A":
        pinned = pinned + of.slots * of.tp * one.stride
    high["pinned"] = pinned
    for fact, name in (("mem_total", "pinned_within_ram"), ("memlock", "pinned_within_memlock")):
        if fact in facts:
            must(name, pinned, facts[fact][0])
    low["kv_tokens"] = blocks(pool) * 4
    low["sessions"] = np.maximum(blocks(pool) // each, np.where(full, seqs, 0))
    return Tried(musts.holds, low, high, musts.short, musts.excused)


@dataclass(frozen=True)
class HalogenSite:
    """What does not move on a halogen server; ``later`` from 0.15.1, ``trunk`` where keeping it is asked for."""

    checkpoint: str
    later: bool
    facts: dict[str, Fact]
    sessions: int
    fit: bool
    vision: bool
    trunk: bool
    weights: Fact
    trunk_known: bool
    gtt: bool
    boot: dict[str, int]


def try_halogen(of: HalogenSite, knobs: dict[str, Whole]) -> Tried:
    """Rows, constraints and objectives of halogen for every shape of a grid, on the pessimistic side.

    ``knobs``: ctx, kv_pool_positions, max_tok, kv_slots, host_reserve_gib (in thousandths), cache_entries.
    """
    ctx, pool = knobs["ctx"], knobs["kv_pool_positions"]
    tokens = np.minimum(knobs["max_tok"], ctx)
    step = GIB // 20

    def line(base: int, slope: int, per: int, of_tokens: Whole) -> Whole:
        return (base * GIB + of_tokens * slope * GIB // per) // 10

    # the fit's own two constants, whole bytes each: what is taken whatever the tokens, and for each 16,384 of them
    fixed, slope = (38, 840) if not of.later else (38, 440) if of.checkpoint == "v2" else (95, 155)
    work = fixed * GIB // 10 + tokens * (slope * GIB // 100) // 16_384
    other = work + step + (11 * GIB // 2 if of.trunk else 0)
    margin = printed_high(197, 100) if of.vision else printed_high(15, 10)
    if of.later:
        margin = 21 * GIB // 10
    facts = of.facts
    tower = printed_high(84, 100) if of.vision and of.later else 0
    budget = facts["mem_total"][0] - facts["resident_weights"][1] - tower - knobs["host_reserve_gib"] * GIB // 1000
    budget = np.maximum(budget, 0)
    musts = _Musts()
    must = musts.must
    runs = (pool > ctx) & of.fit
    must("fit", pool * 29_500 + other + margin, budget, ~runs)
    must("pool_holds_context", ctx, pool)
    must("pool_grid", pool % 256, 0)
    must("context_within_rope", ctx, 262_144)
    must("device_ceiling", pool * 29_500 + other, printed_low(39_703, 1000))
    must("sessions_held", of.sessions * ctx, pool)
    slots, entries = knobs["kv_slots"], knobs["cache_entries"]
    held = moving(of, ctx, pool, knobs["max_tok"], slots, entries)
    tenth = GIB // 10
    noise = 4 * tenth if of.later and of.checkpoint == "v2" else tenth * 3 // 2
    weights = of.weights[1] + (84 * GIB // 100 if of.vision and of.trunk_known else 0)
    # what a boot's own total leaves out of the vision tower: all of it up to 0.15.1, its scratch since
    unlisted = 0
    if of.vision:
        unlisted = printed_high(197, 100) - (printed_low(84, 100) if of.trunk_known else 0)
    must("held_within_ram", held + weights + noise + unlisted, facts["mem_total"][0])
    if "mem_available" in facts:
        must("pin_floor", np.full_like(pool, weights + 16 * GIB), facts["mem_available"][0])
    if of.gtt and "gtt_total" in facts:
        if not of.later:
            arena = line(0, 167, 32_768, tokens)
        elif of.checkpoint == "v2":
            arena = line(0, 88, 32_768, tokens)
        else:
            arena = line(60, 31, 32_768, tokens)
        need = pool * 29_500 + slots * 115 * MIB + arena + 2 * step
        must("gtt_gate", need, facts["gtt_total"][0] - facts["gtt_used"][1])
    low: dict[str, Whole] = {"sessions": pool // ctx}
    if "host_left" in facts:
        was = moving(of, *(np.array(of.boot[name]) for name in (
            "ctx", "kv_pool_positions", "max_tok", "kv_slots", "cache_entries")))
        low["host_left"] = facts["host_left"][0] + was - held
        must("left_on_host", -low["host_left"], 0)
    return Tried(musts.holds, low, {"held": held + weights + noise + unlisted}, musts.short,
                 musts.excused)


def moving(of: HalogenSite, ctx: Whole, pool: Whole, max_tok: Whole, slots: Whole, entries: Whole) -> Whole:
    """What is held and moved by settings: the pool, measured working memory, slots and prompt-cache entries."""
    tokens = np.minimum(max_tok, ctx)
    if not of.later:
        work = (37 * GIB + tokens * 88 * GIB // 16_384) // 10
    elif of.checkpoint == "v2":
        work = (36 * GIB + tokens * 45 * GIB // 16_384) // 10
    else:
        work = (95 * GIB + tokens * 15 * GIB // 16_384) // 10
    trunk = 11 * GIB // 2 if of.trunk else 0
    found: Whole = pool * 29_500 + work + (slots - 4 + entries) * 111 * MIB + trunk
    return found


def printed_high(number: int, per: int) -> int:
    """The largest byte count that prints as ``number / per`` GiB, in the decimals that ``per`` has."""
    return (2 * number + 1) * GIB // (2 * per)


def printed_low(number: int, per: int) -> int:
    """The least byte count that prints so."""
    return -(-(2 * number - 1) * GIB // (2 * per))
