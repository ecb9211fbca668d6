"""radiance, declared: what each of its three generations does with VRAM and pinned RAM.

``models/SOURCES.md`` says what the named sources are. All sizes are bytes a rank; MiB knobs are counted in MiB.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from models.declare import (
    RATIO_UNIT,
    Basis,
    EngineModel,
    FactSpec,
    Goal,
    KnobSpec,
    Note,
    Outcome,
    Phase,
    Removed,
    Require,
    Row,
    Stack,
    row,
    seen_in_the_log,
)
from models.expr import (
    ALWAYS,
    NEVER,
    AsIs,
    Cond,
    Expr,
    Fact,
    Knob,
    Named,
    align_down,
    align_up,
    between,
    ceil_div,
    lift,
    maximum,
    minimum,
    remainder,
    select,
    total,
)
from models.interval import MIB, Interval, printed
from models.laws import Axis, Key, LawSpec, Metric
from models.radiance.containers import GRANULE, KNOWN, PAGE, STATICS, Reads, layout
from models.versions import Version

Family = Literal["A", "B", "C"]

#: The context the known model was trained on, tokens.
TRAINED_CONTEXT: Final = 262_144
#: Rows of a step that the lossy wire still sums exactly (operator note 001).
LOSSY_WIRE_ROWS: Final = 25
#: Slab slots that hold no resident: 64 in every printed mover line.
SHADOW_SLOTS: Final = 64
#: The step batch's pinned ring, 9.35 MiB at 2 sequences; and the notes' allowance for everything else pinned.
PINNED_RING: Final = 9 * MIB
PINNED_OTHER: Final = 2048 * MIB
#: Kept free above the headroom at settling: 36.46 MiB printed by 1.0.12 and 1.0.13, 113.19 MiB by the build of
#: operator note 001.
KEPT_LOW: Final = printed("36.46", MIB).low
KEPT_HIGH: Final = printed("113.19", MIB).high

_SOURCE = "engine source 1.0.x"
_KV = "engine source 1.0.x (KV manager), exact on two ledgers"
_FUNDING = "operator note 000 (1.8.1)"
_CEILING = "operator note 001: settled free - floor + pair"
_PINNED = "operator note 000: pinned ledger"


def family(version: Version) -> Family:
    """Which generation of memory rules a version follows."""
    if version < (1, 1, 0):
        return "A"
    return "B" if version < (1, 3, 0) else "C"


def _knobs(of: Family) -> dict[str, KnobSpec]:
    mib = "MiB"
    specs = [
        KnobSpec(
            "max_num_seqs", "sequences", low=1, high=4096, free_high=256, default=256,
            default_source=_SOURCE, short=("max_seqs",), source=_SOURCE,
        ),
        KnobSpec(
            "max_model_len", "tokens", low=1, high=TRAINED_CONTEXT, step=1024, default=TRAINED_CONTEXT,
            default_source="engine source 1.0.x: 0 means the trained context", short=("max_ctx", "max_len"),
            automatic="0",
        ),
        KnobSpec(
            "kv_cache_dtype", kind="choice", choices=("bf16", "fp8"), high=1, default=0, default_source=_SOURCE,
            short=("kv_dtype",),
        ),
        KnobSpec(
            "num_speculative_tokens", "tokens", high=16, default=None, automatic="auto",
            short=("spec_tokens", "spec", "num_spec_tokens"),
        ),
        KnobSpec("tp", "cards", low=1, high=8, default=1, default_source="assumed", short=("tensor_parallel",)),
        KnobSpec("gpu_headroom_mib", mib, high=1 << 20, free_low=48, step=64, default=96, default_source=_SOURCE,
                 short=("gpu_headroom", "headroom_mib")),
        KnobSpec("host_pool_mib", mib, high=1 << 22, step=1024, default=0, default_source=_SOURCE),
        KnobSpec("max_num_batched_tokens", "tokens", low=1, high=1 << 20, step=1024, default=8192,
                 default_source=_SOURCE, short=("mnbt", "max_batched_tokens")),
        KnobSpec("checkpoint_interval", "tokens", low=64, high=1 << 20, default=2048, default_source=_SOURCE),
        KnobSpec("tp_wire", kind="choice", choices=("exact", "wht6"), high=1, default=0, default_source=_SOURCE),
        KnobSpec("placement", kind="choice", choices=("auto", "all_vram", "layer_offload", "expert_tiered"),
                 high=3, default=0, default_source=_SOURCE),
        KnobSpec("ngram_placement", kind="choice", choices=("unstated", "ram", "disk"), high=2, free_low=1, default=0,
                 default_source="the default is not known"),
        KnobSpec("embedding_placement", kind="choice", choices=("auto", "vram", "ram"), high=2, inert=True),
        KnobSpec("deterministic", kind="switch", high=1),
        KnobSpec("weights_disk_tier", kind="switch", high=1),
        KnobSpec("prefix_cache_host_mib", mib, high=1 << 22, step=1024, short=("prefix_cache_mib",),
                 default_source=_SOURCE),
        KnobSpec("ttm_min_mib", mib, high=1 << 22, default_source="the site's own gate; absent here"),
        KnobSpec("ttm_target_mib", mib, high=1 << 22, default_source="the site's own gate; absent here"),
        KnobSpec("prefix_cache_disk_mib", mib, high=1 << 30, inert=True),
        *(KnobSpec(name, kind="text", default=None, inert=True)
          for name in ("model", "host", "port", "prefix_cache_dir", "checkpoint_policy", "mm_max_patches",
                       "served_model_name")),
        KnobSpec("no_prefix_cache", kind="switch", high=1, inert=True),
    ]
    # what the checkpoints take moved from the pool to pinned RAM with 1.1.0, and became a policy
    slots = KnobSpec("checkpoint_slots", "slots", high=4096, default=8, default_source=_SOURCE, automatic="auto")
    if of != "A":
        slots = KnobSpec("checkpoint_slots", "slots", high=4096, automatic="auto", default=_automatic_slots(),
                         default_source="operator note 000: slots x (1 + kept); kept per sequence is only believed")
    specs.append(slots)
    if of == "A":
        specs.append(KnobSpec("expert_vs_cache_ratio", "", kind="decimal", scale=RATIO_UNIT, low=1, high=RATIO_UNIT - 1,
                              step=RATIO_UNIT // 100, grid=RATIO_UNIT // 10_000, default=3 * RATIO_UNIT // 4,
                              default_source=_SOURCE))
    if of != "C":
        specs += [KnobSpec(name, mib, high=1 << 20, free_low=1, step=64, default_source=f"{_SOURCE}: 0 derives it")
                  for name in ("vram_weights_mib", "vram_kv_mib")]
    return {spec.name: spec if spec.default_source else replace(spec, default_source=_SOURCE) for spec in specs}


def _automatic_slots() -> Expr:
    # kept = 1 + floor(log2(length / interval)), counted by its powers of two; one more is believed possible
    length, interval = Knob("max_model_len"), Knob("checkpoint_interval")
    kept = total([select(length >= interval * (1 << k), 1, 0) for k in range(12)])
    return Knob("max_num_seqs") * (kept + between(0, 1, per=(length, interval)))


def _removed(of: Family) -> tuple[Removed, ...]:
    gone: list[Removed] = []
    if of != "A":
        gone.append(Removed("expert_vs_cache_ratio", "1.1.0",
                            "the split follows from host_pool_mib and from max_num_seqs x max_model_len",
                            "release notes"))
    if of == "C":
        gone += [Removed(name, "1.3.0", "size the cache by max_num_seqs x max_model_len and fund it by host_pool_mib",
                         "operator note 000; release notes") for name in ("vram_weights_mib", "vram_kv_mib")]
    return tuple(gone)


#: What spares giving a container's constants one by one.
_KNOWN: Final = f" (or name a known model file: --fact container={' or '.join(KNOWN)})"


def _facts(of: Family, hardware_queues: bool) -> dict[str, FactSpec]:
    def ledger(name: str, text: str, fold: Literal["min", "max", "held", "none"] = "max") -> FactSpec:
        return FactSpec(name, "B", f"boot ledger, row `{text}`", fold)

    specs = [
        ledger("card_total", "card total", "min"),
        replace(ledger("already_held", "already held", "held"), each_boot=True),
        ledger("activation_arena", "activation arena"),
        ledger("step_staging", "step staging"),
        *([ledger("hardware_queues", "hardware queues")] if hardware_queues else []),
        *([replace(ledger(name, name), prior=Interval(0, 1024 * MIB), each_boot=name == "drift")
           for name in ("drift", "prefetch")]
          if of != "A" else []),
        ledger("static_weights", "static weights"),
        ledger("left_to_host", "left to the host"),
        FactSpec("settled_free", "B", "boot ledger, line `card N settled at X free`", "min", each_boot=True),
        FactSpec("settle_floor", "B", "boot ledger, line `settled at ... against Y`", "max",
                 prior=Interval(0, 1024 * MIB)),
        FactSpec("pair_ceiling", "B", "settled free - settle floor + the pair of that boot (operator note 001)", "min"),
        FactSpec("boot_pair", "B", "boot ledger, rows vram_weights + vram_kv", "min"),
        FactSpec("expert_plane", "B",
                 "printed experts + host pool of a full host pool, or the container's layout" + _KNOWN, "max", least=1),
        FactSpec("expert_layer_max", "B", "the container's largest routed layer a rank" + _KNOWN, "max"),
        FactSpec("unit_max", "B", "the container's largest movable unit a rank" + _KNOWN, "max"),
        FactSpec("spare", "B", "the planner's shadow slots and ring, in bytes a rank", "max",
                 prior=Interval(0, 1024 * MIB)),
        FactSpec("movable_units", "units", "boot ledger, line `heat engine: N movable units`" + _KNOWN, "max"),
        FactSpec("slot_stride", "B", "the container's mean movable unit a rank" + _KNOWN, "max", least=1),
        FactSpec("kv_page_fp8", "B", "boot ledger: page sizes of the paged KV groups, added up, fp8" + _KNOWN, "max",
                 least=1),
        FactSpec("kv_page_bf16", "B", "boot ledger: page sizes of the paged KV groups, added up, bf16" + _KNOWN, "max",
                 least=1),
        FactSpec("kv_block", "tokens", "boot ledger: `block N tok` of the paged KV groups" + _KNOWN, "max", least=1),
        FactSpec("kv_state", "B", "boot ledger: state groups of one sequence, all copies, added up" + _KNOWN, "max"),
        FactSpec("checkpoint_bytes", "B", "boot ledger: one state of each state group, added up" + _KNOWN, "max"),
        FactSpec("kv_blocks", "blocks", "boot ledger: `N blocks` of the paged KV groups", "min"),
        FactSpec("container", "", "the model file's name", words=tuple(KNOWN)),
        FactSpec("integrated_gpu", "", "1 where a card is an integrated GPU", cap=1),
        FactSpec("mem_total", "B", "grep MemTotal /proc/meminfo"),
        FactSpec("mem_available", "B", "grep MemAvailable /proc/meminfo, before the server starts", each_boot=True),
        FactSpec("ttm_limit", "B", "cat /sys/module/ttm/parameters/pages_limit, times 4096"),
        FactSpec("memlock", "B", "ulimit -l, times 1024"),
        FactSpec("ngram_table", "B", "boot ledger, line `placement: n-gram table`; 0B where it stays on disk"),
        FactSpec("outcome_seen", "", "the log's own failure line", cap=len(Outcome) - 1),
        FactSpec("ngram_size", "B", "the size of the container's n-gram table"),
        FactSpec("pinned_other", "B", "pinned RAM beside the pool, the table and the cache; calibrate narrows it",
                 prior=Interval(0, 8192 * MIB)),
    ]
    return {spec.name: spec for spec in specs}


class _Budget:
    """The VRAM budget in the order the engine spends it.

    ``read`` reads a knob: of the shape under question, or as the boot had it that the facts are from.
    """

    def __init__(self, of: Family, queues: bool, container: str, tp: int, read: Reads) -> None:
        self._of = of
        self._read = read
        self._pool(container, tp)
        self._claimable(queues)
        self._split()
        self._grant()

    def _pool(self, container: str, tp: int) -> None:
        # KV manager: fixed part first, then whole blocks of every paged group (facts 2, byte-exact)
        kv = layout(container, tp, self._read)
        slots = self._read("checkpoint_slots")
        self.stride = align_up(kv.checkpoint, GRANULE)
        # 1.1.0 moved the checkpoints out of the pool into pinned RAM
        in_pool = select(slots >= 1, slots * self.stride + GRANULE, 0) if self._of == "A" else lift(0)
        self.checkpoint = kv.checkpoint
        self.page, self.block = kv.page, kv.block
        self.fixed = row("kv_fixed", kv.states + in_pool + PAGE * kv.paged_groups)
        self.blocks_each = row("blocks_per_sequence", ceil_div(self._read("max_model_len"), kv.block))
        self.demand = row("kv_ceiling", self.fixed + self._read("max_num_seqs") * self.blocks_each * kv.page)

    def _claimable(self, queues: bool) -> None:
        integrated = select(Fact("integrated_gpu", lift(0)) >= 1, Fact("mem_total") // 8, 0)
        self.headroom = row(
            "headroom_kept", maximum(self._read("gpu_headroom_mib") * MIB, Fact("left_to_host", integrated))
        )
        self.staging = row("step_staging", self._staging(queues))
        fixed = [Fact("already_held"), self.headroom, Fact("activation_arena"), self.staging]
        if queues:
            fixed.append(Fact("hardware_queues"))
        if self._of != "A":
            # 1.1 to 1.2: nobody has seen these rows; the 1.8.1 formula names them
            absent = lift(0) if self._of == "B" else None
            fixed += [Fact("drift", absent), Fact("prefetch", absent)]
        self.charges = tuple(fixed)
        self.before_pools = Fact("card_total") - total(fixed)
        if self._of == "C":
            self.weights_stated: Cond = NEVER
            self.kv_stated: Cond = NEVER
            self.stated_weights, self.stated_kv = lift(0), lift(0)
            self.cache_mib = lift(0)
        else:
            weights, kv = self._read("vram_weights_mib"), self._read("vram_kv_mib")
            self.weights_stated, self.kv_stated = weights >= 1, kv >= 1
            self.stated_weights, self.stated_kv = weights * MIB, kv * MIB
            self.cache_mib = kv
        self.both_stated = self.weights_stated & self.kv_stated
        self.pair = self.stated_weights + self.stated_kv
        self.claimable = row("claimable", self.before_pools - self.pair)

    def _staging(self, queues: bool) -> Expr:
        # the block tables are carved for the worst step, so they move with sequences and length (exact on two ledgers)
        # the first 1.0.x commits have no such row at all, the later ones may carve the tables once or three times
        unseen = None if queues else between(0, _tables(AsIs) + MIB)
        stated = Fact("step_staging", unseen)
        # a row stated below the tables of its own boot does not add up: it takes nothing off those of another shape
        least = minimum(stated, _tables(self._read, 3 if queues else 1))
        return maximum(stated + _tables(self._read) - _tables(AsIs), least)

    def _split(self) -> None:
        statics, plane = Fact("static_weights"), Fact("expert_plane")
        # a stated weights pool is taken off before; the statics are then inside it
        self.elastic = row(
            "elastic", select(self.weights_stated, self.claimable, maximum(self.claimable - statics, 0))
        )
        elastic, demand = self.elastic, self.demand
        stride = Fact("slot_stride", Fact("unit_max"))
        self.spare = Fact("spare", between(2 * Fact("unit_max"), SHADOW_SLOTS * stride))
        if self._of == "A":
            # Experts take the ratio, then what the cache leaves above its ceiling, up to the plane; the cache
            # takes what experts leave. elastic - floor(elastic * (1 - r)) is ceil(elastic * r): written so,
            # elastic enters in one direction only and intervals stay as tight as the facts.
            ratio = self._read("expert_vs_cache_ratio")
            divided = maximum(elastic, 0)  # below zero only where a stated pool is refused, which divides nothing
            share = ceil_div(divided * ratio, RATIO_UNIT)
            derived_experts = minimum(maximum(share, elastic - demand), plane)
            cache_share = (divided * (RATIO_UNIT - ratio)) // RATIO_UNIT
            offered = maximum(cache_share, elastic - plane)
            self.unusable = maximum(elastic - demand - plane, 0)
            self.floor = row("expert_floor", lift(0))
        else:
            # the experts keep what the host pool cannot hold, the cache takes the rest up to its demand, and
            # what the cache does not want returns to the experts
            whole = plane + self.spare
            # the disk tier stages four of the widest units and four windows of 32 MiB in the pool
            tier = self._read("weights_disk_tier").equals(1)
            room = self._read("host_pool_mib") * MIB - select(tier, 4 * Fact("unit_max") + 128 * MIB, 0)
            room = maximum(room, 0)
            self.floor = row("expert_floor", minimum(whole, maximum(whole - room, 0)))
            derived_experts = minimum(maximum(elastic - demand, self.floor), whole)
            offered = maximum(elastic - self.floor, 0)
            self.unusable = maximum(elastic - demand - whole, 0)
        #: what a derived cache may have, before its demand caps it
        self.offered = select(self.kv_stated, 0, select(self.weights_stated, self.claimable, offered))
        self.kv_cache = row(
            "kv_cache",
            select(self.kv_stated, self.stated_kv, minimum(self.offered, demand)),
        )
        before_stage = select(
            self.weights_stated, self.stated_weights - statics,
            select(self.kv_stated, minimum(elastic, plane), derived_experts),
        )
        self.prefill_staging = row("prefill_staging", self._stage(before_stage, plane))
        self.experts = row("experts", before_stage - self.prefill_staging)

    def _stage(self, experts: Expr, plane: Expr) -> Expr:
        # two buffers of one layer's non-resident share, only out of a derived weights pool (facts 1, step 8)
        if self._of != "A":
            return lift(0)
        layer = Fact("expert_layer_max") // PAGE
        one = (layer - (maximum(experts, 0) * layer) // plane) * PAGE
        placed = self._read("placement").equals(0) | self._read("placement").equals(3)
        taken = placed & self._read("deterministic").equals(0) & (plane > experts) & (2 * one < experts)
        return select(self.weights_stated, 0, select(taken, 2 * one, 0))

    def _grant(self) -> None:
        # whole MiB: up for the weights, down for the cache, which also pays what the weights were rounded by
        statics = minimum(Fact("static_weights"), maximum(self.claimable, 0))
        weights = statics + self.experts
        over = select(self.weights_stated, 0, remainder(0 - weights, MIB))
        self.vram_weights = row(
            "vram_weights", select(self.weights_stated, self.stated_weights, align_up(weights, MIB))
        )
        left = maximum(self.kv_cache - over, 0)
        self.vram_kv = row("vram_kv", select(self.kv_stated, self.stated_kv, align_down(left, MIB)))
        # capacity less every charge and both grants, with the terms that cancel taken out
        derived = self.unusable + remainder(left, MIB) + minimum(self.kv_cache - over, 0)
        one_stated = select(self.weights_stated, self.claimable - self.vram_kv,
                            self.claimable - self.vram_weights - self.prefill_staging)
        any_stated = self.weights_stated | self.kv_stated
        self.unclaimed = row(
            "unclaimed",
            self.headroom
            + select(self.both_stated, self.claimable, select(any_stated, one_stated, derived)),
        )
        # a derived pool that stands at its ceiling counts as full, whatever rounding to MiB takes off
        self.at_cap = ~self.kv_stated & (self.offered >= self.demand)
        self.blocks = row("kv_blocks", maximum(self.vram_kv - self.fixed, 0) // self.page)
        self.tokens = row("kv_tokens", self.blocks * self.block)
        resident = maximum(self.vram_weights - Fact("static_weights"), 0)
        # units come in two sizes; which of them are resident shifts the mean by some tens of slots
        slots = resident // Fact("slot_stride") + between(-SHADOW_SLOTS, SHADOW_SLOTS, per=(resident,))
        self.slots = row("slab_slots", minimum(maximum(slots, 0), Fact("movable_units") + SHADOW_SLOTS))


def _tables(read: Reads, carvings: int = 3) -> Expr:
    """Bytes of the block tables: two paged groups of 4-token blocks, 4 B an entry; three carvings were seen."""
    entries = read("max_num_seqs") * (ceil_div(read("max_model_len"), 4) + 1)
    return 2 * carvings * align_up(4 * entries, 256)


def _pinned(of: Family, version: Version, budget: _Budget) -> Named:
    """Pinned RAM of all ranks (operator note 000; terms by version in facts 5)."""
    return row("pinned_total", total(list(_pinned_terms(of, version, budget))))


def _pinned_terms(of: Family, version: Version, budget: _Budget) -> tuple[Named, ...]:
    """What is pinned, each under a name."""
    placement = Knob("ngram_placement")
    stated = select(placement.equals(0), Fact("ngram_table"), select(placement.equals(1), Fact("ngram_size"), 0))
    # before 1.0.9 the table was a mapped file, which the kernel can drop
    ngram = Fact("ngram_table", stated if version >= (1, 0, 9) else lift(0))
    tp = Knob("tp")
    terms = [row("host_pool", tp * Knob("host_pool_mib") * MIB), row("ngram_in_ram", ngram),
             row("prefix_cache", Knob("prefix_cache_host_mib") * MIB)]
    if of == "A":
        terms.append(row("other_pinned", Fact("pinned_other", between(PINNED_RING, PINNED_OTHER))))
    else:
        # a slot is one checkpoint on every rank; 111.98 MiB was printed for two, between these
        slot = between(tp * budget.checkpoint, tp * budget.stride)
        terms += [row("other_pinned", Fact("pinned_other", lift(PINNED_OTHER))),
                  row("checkpoints", Knob("checkpoint_slots") * slot)]
    return tuple(terms)


def _requires(
    of: Family, queues: bool, budget: _Budget, ceiling: Named, pinned: Named, known: bool
) -> tuple[Require, ...]:
    b = budget
    moved = Knob("gpu_headroom_mib") * MIB - AsIs("gpu_headroom_mib") * MIB
    kept = between(KEPT_LOW, KEPT_HIGH) if queues else lift(0)  # before 1.0.9 the floor is the headroom alone
    floor = Fact("settle_floor", AsIs("gpu_headroom_mib") * MIB + kept) + moved
    sessions = _sessions()
    full = b.fixed + sessions * b.blocks_each * b.page
    capped = b.at_cap & (sessions <= Knob("max_num_seqs"))
    funding = "lower max_num_seqs or max_model_len, use fp8, or give the cache more"
    fewer = "ask for fewer or shorter sequences"
    more = "raise vram_kv_mib (or lower expert_vs_cache_ratio), or " + fewer
    instead: tuple[tuple[Cond, str], ...] = ()
    opens: tuple[tuple[Cond, str], ...] = ()
    if of != "A":
        more = "raise host_pool_mib, or " + fewer
        held = "the host pool holds the whole expert plane, and more of it buys nothing: "
        past = ~b.weights_stated & ~b.kv_stated & (b.floor <= 0)
        instead = ((b.kv_stated, "raise vram_kv_mib, or " + fewer),
                   (b.weights_stated, "lower vram_weights_mib, or " + fewer), (past, held + fewer))
        opens = ((past, "the pool must hold its state and one block; " + held + fewer),)
    # the serve script raises the limit to its target before the engine starts
    target = Knob("ttm_target_mib") * MIB
    ttm_limit = select(target >= 1, maximum(target, Fact("ttm_limit", lift(0))), Fact("ttm_limit"))
    operator_rate = select(Knob("kv_cache_dtype").equals(1), 7_488, 14_144)
    operator = (Knob("max_num_seqs") * Knob("max_model_len") * operator_rate
                + 110 * MIB * Knob("max_num_seqs") + 448 * MIB)
    found = [
        Require("claimable_covers", b.pair, b.before_pools, "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT,
                "lower the stated pools or the headroom by the amount that is short", _SOURCE),
        Require("arena_as_measured", Knob("max_num_batched_tokens"),
                between(AsIs("max_num_batched_tokens"), 1 << 20), "tokens", Phase.BOOT,
                Outcome.OUT_OF_MEMORY_AT_BOOT,
                "keep max_num_batched_tokens, or read the ledger of a boot with the new value: the arena grows with it",
                "boot ledger, row `activation arena`", "believed"),
        Require("kv_pool_opens", b.fixed + b.page, b.vram_kv, "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT,
                "the pool must hold its state and one block: " + funding, _KV, instead=opens),
        Require("one_full_request", b.fixed + b.blocks_each * b.page, b.vram_kv, "B", Phase.REQUEST,
                Outcome.REJECTS_LONG_REQUESTS, more, _KV, unless=capped, instead=instead),
        Require("pool_contract", full, b.vram_kv, "B", Phase.RUN_TIME, Outcome.PREEMPTS, more,
                "engine source 1.0.x (KV manager); operator notes 001, 003", unless=capped, instead=instead),
        Require("lossy_wire_rows", Knob("max_num_seqs") * (1 + Knob("num_speculative_tokens")),
                lift(LOSSY_WIRE_ROWS), "rows", Phase.QUALITY, Outcome.SERVES,
                "fewer sequences or drafts, or tp_wire=exact", "operator note 001",
                unless=Knob("tp_wire").equals(0), gated=True),
        Require("pinned_within_ttm", pinned, Fact("ttm_limit"), "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT,
                "raise ttm.pages_limit, or lower host_pool_mib", _PINNED, unless=target >= 1),
        Require("pinned_within_ttm_target", pinned, maximum(target, Fact("ttm_limit", lift(0))), "B", Phase.BOOT,
                Outcome.REFUSED_AT_BOOT, "raise ttm_target_mib, or lower host_pool_mib", _PINNED,
                unless=~(target >= 1), use="moved"),
        Require("pinned_within_memlock", pinned, Fact("memlock"), "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT,
                "set LimitMEMLOCK=infinity, or lower host_pool_mib", _PINNED),
        Require("pinned_within_ram", pinned, Fact("mem_total"), "B", Phase.BOOT, Outcome.OUT_OF_MEMORY_AT_BOOT,
                "lower host_pool_mib", _PINNED),
        Require("ttm_gate", pinned, Knob("ttm_min_mib") * MIB, "B", Phase.QUALITY, Outcome.SERVES,
                "raise ttm_min_mib to the pinned ledger, and ttm_target_mib with it", _PINNED,
                unless=Knob("ttm_min_mib").equals(0), gated=True),
        Require("ttm_gate_opens", Knob("ttm_min_mib") * MIB, ttm_limit, "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT,
                "raise ttm_target_mib (or ttm.pages_limit) above ttm_min_mib", _PINNED,
                unless=Knob("ttm_min_mib").equals(0)),
    ]
    if of == "A":
        found.append(
            Require("operator_contract", operator, b.vram_kv, "B", Phase.QUALITY, Outcome.SERVES,
                    "raise vram_kv_mib by what is short; the operators' formula (110 MiB a sequence, 448 MiB) is "
                    "exact at draft depth 2 only",
                    "operator notes 001, 003", unless=b.at_cap)
        )
    found.append(
        Require("settled_above_floor", Fact("settle_floor"), Fact("settled_free"), "B", Phase.BOOT, Outcome.SERVES,
                "raise gpu_headroom_mib (or lower a stated pool) by the amount that is short",
                "boot ledger, settled line", use="evidence")
    )
    placed = "raise host_pool_mib, free VRAM for experts, or set --weights-disk-tier"
    if of != "C":
        # what a boot has not printed yet lies within what it printed elsewhere for the known containers
        statics = Fact("static_weights", between(STATICS.low, STATICS.high) if known else None)
        resident = select(b.weights_stated, b.stated_weights - statics, b.experts)
        pair_only = ~b.both_stated
        funded = ~b.weights_stated & ~b.kv_stated if of == "B" else NEVER  # then expert_floor_covered says it
        found += [
            Require("settle_floor", b.pair, ceiling + floor, "B", Phase.BOOT, Outcome.OUT_OF_MEMORY_AT_BOOT,
                    "lower vram_weights_mib or vram_kv_mib by the amount that is short", _CEILING,
                    unless=pair_only),
            Require("pair_ceiling", b.pair, ceiling, "B", Phase.BOOT, Outcome.SERVES,
                    "lower vram_weights_mib or vram_kv_mib by the amount that is short", _CEILING,
                    unless=pair_only),
            Require("weights_hold_statics", statics, b.vram_weights, "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT,
                    "raise vram_weights_mib", _SOURCE, "believed" if known else "read",
                    guards=("vram_weights_mib",),
                    unless=~b.weights_stated),
            Require("experts_placed", Fact("expert_plane"),
                    resident - b.spare + Knob("host_pool_mib") * MIB, "B", Phase.BOOT,
                    Outcome.REFUSED_AT_BOOT, placed, "engine source 1.0.x (planner)", "inferred",
                    guards=("host_pool_mib", "vram_weights_mib"),
                    unless=Knob("weights_disk_tier").equals(1) | Knob("placement").equals(2) | funded),
        ]
    if of != "A":
        found += [
            Require("expert_floor_covered", b.floor, b.elastic, "B", Phase.BOOT, Outcome.REFUSED_AT_BOOT, placed,
                    _FUNDING, "believed", unless=b.weights_stated | b.kv_stated,
                    guards=("host_pool_mib",)),
            Require("host_pool_within_plane", Knob("host_pool_mib") * MIB,
                    maximum(align_up(Fact("expert_plane") + b.spare, MIB), AsIs("host_pool_mib") * MIB), "B",
                    Phase.QUALITY, Outcome.SERVES, "a host pool beyond the expert plane buys nothing", _FUNDING,
                    use="search"),
        ]
    return (*found, *seen_in_the_log())


def _sessions() -> Expr:
    return Fact("sessions", Knob("max_num_seqs"))


def _ceiling(of: Family, boot: _Budget) -> Named:
    if of == "C":
        return row("pair_ceiling", lift(0))
    # a boot that derived its split had a staging region as well, which a stated pair gets back
    pair = Fact("boot_pair", boot.vram_weights + boot.vram_kv + boot.prefill_staging)
    read = Fact("pair_ceiling", Fact("settled_free") - Fact("settle_floor") + pair)
    return row("pair_ceiling", read - (Knob("gpu_headroom_mib") - AsIs("gpu_headroom_mib")) * MIB)


def _goals(of: Family, budget: _Budget, pinned: Named, headroom: Named) -> dict[str, Goal]:
    shifts = frozenset(("ngram_table", "ngram_size"))
    found = [
        Goal("context", "longest max_model_len", Knob("max_model_len"), "max", "tokens", ("max_model_len",)),
        Goal("sequences", "most sequences at once", Knob("max_num_seqs"), "max", "sequences", ("max_num_seqs",)),
        Goal("sessions", "full-length conversations held",
             maximum(budget.blocks // budget.blocks_each,
                     select(budget.at_cap, Knob("max_num_seqs"), 0)), "max", "sessions"),
        Goal("slab", "VRAM for experts", budget.experts, "max", "B", (), frozenset(("static_weights",)),
             budget.weights_stated),
        Goal("host-ram", "least pinned RAM", pinned, "min", "B", ("host_pool_mib",), shifts,
             shifts_while_held=("ngram_placement",)),
        Goal("headroom", "settled free VRAM above the floor", headroom, "max", "B", (),
             frozenset(("pair_ceiling", "settled_free", "settle_floor"))),
    ]
    return {goal.name: goal for goal in found}


def _laws(budget: _Budget) -> dict[Metric, LawSpec]:
    """What speed depends on: experts in VRAM spare their transfer, and the cache is read once a token."""
    slab = Axis(
        "vram_weights_mib", "MiB", ("slope", "hinge", "threshold", "saturating", "roofline"), "falls",
        budget.vram_weights // MIB, also=("vram_weights",),
        shares=(("vram_kv_mib", "idle cache is lent to the slab, so a smaller pool takes back what it lent"),
                ("vram_kv", "idle cache is lent to the slab, so a smaller pool takes back what it lent"),
                ("host_pool_mib", "experts that are in neither VRAM nor the host pool come from disk")),
    )
    dtype = Axis("kv_cache_dtype", "", ("offset",), "either", Knob("kv_cache_dtype"), choices=("bf16", "fp8"))
    # a stated weights pool has no prefill stager, the lossy wire sends less
    keys = (Key("tp"), Key("tp_wire"), Key("vram_weights_mib", presence=True))
    return {
        "prefill": LawSpec(
            "prefill", (slab, Axis("depth", "tokens", ("slope",), "rises"),
                        Axis("request", "tokens", ("inverse",), "falls"), dtype),
            keys, "max_num_seqs", "max_model_len",
        ),
        "decode": LawSpec(
            "decode", (Axis("depth", "tokens", ("slope",), "rises"), dtype,
                       Axis("streams", "streams", ("slope", "hinge"), "rises"),
                       replace(slab, forms=("slope",))),
            (*keys, Key("num_speculative_tokens")), "max_num_seqs", "max_model_len", by_corpus=True,
        ),
    }


def _stacks(of: Family, version: Version, b: _Budget, ceiling: Named, known: bool) -> tuple[Stack, ...]:
    """Where a card's VRAM and the host's RAM go."""
    def named(terms: tuple[Expr, ...]) -> tuple[tuple[str, Expr], ...]:
        return tuple((term.name.replace("_", " "), term) for term in terms if isinstance(term, Named | Fact))

    statics = Fact("static_weights")
    pools: tuple[tuple[str, Expr], ...] = (
        ("static weights", statics), ("experts", b.vram_weights - statics), ("kv cache", b.vram_kv))
    staging = (("prefill staging", b.prefill_staging),) if of == "A" else ()
    pinned = _pinned_terms(of, version, b)
    rest = Fact("mem_total") - total(list(pinned))
    found = [
        Stack("card", "VRAM of a card", "B", Fact("card_total"),
              (*named(b.charges), *pools, *staging, ("unclaimed", b.unclaimed - b.headroom)), _SOURCE, Knob("tp")),
        Stack("host", "RAM of the host", "B", Fact("mem_total"),
              (*named(pinned), ("everything else: system, neighbours, free", rest)), _PINNED),
    ]
    if of != "C":
        likely = Fact("static_weights", between(STATICS.low, STATICS.high) if known else None)
        inside = (("static weights", likely), ("experts", b.vram_weights - likely)) if known else (
            ("weights and experts", b.vram_weights),)
        found.insert(1, Stack(
            "pair", "VRAM of a card, as far as its pair ceiling tells", "B", ceiling,
            (*inside, ("kv cache", b.vram_kv), ("left under the ceiling", ceiling - b.pair)), _CEILING, Knob("tp"),
            b.both_stated, instead_of="card"))
    return tuple(found)


def _prints(of: Family, b: _Budget) -> tuple[tuple[str, Cond], ...]:
    # of a stated pool nothing is shared out; from 1.1 on only the rows that notes name are known to be printed
    split = (("experts", ~b.weights_stated), ("kv_cache", ~b.kv_stated), ("elastic", ~b.both_stated))
    if of != "A":
        slots = (("slab_slots", ALWAYS),) if of == "B" else ()
        return (("vram_kv", ALWAYS), ("kv_tokens", ALWAYS), ("vram_weights", ALWAYS), *slots, *split,
                ("claimable", ALWAYS))
    return (("vram_kv", ALWAYS), ("kv_blocks", ALWAYS), ("kv_tokens", ALWAYS), ("vram_weights", ALWAYS),
            ("slab_slots", ALWAYS), *split, ("prefill_staging", b.prefill_staging >= 1), ("claimable", ALWAYS),
            ("unclaimed", ALWAYS))


def _reads(of: Family) -> tuple[Note, ...]:
    """Log lines to read after a boot (operator notes 000, 001, 003)."""
    capacity = ("`kv: the pool backs ...` (or `backs N sequences all at M tokens at once`): N and M are max_num_seqs "
                "and max_model_len; less means that long requests are refused or preempted")
    if of != "A":
        capacity = ("`kv: the cache can grow to X a card -- N tokens of context, M sessions at W`: N is the kv_tokens "
                    "predicted, W is max_model_len")
    return (
        Note(capacity),
        Note("`card N settled at X free, against Y`, of every card: X stays above Y"),
        Note("`sampler: ... R rows`: R is max_num_seqs x (1 + drafts), within the 25 rows that the lossy wire is exact "
             "for", ~Knob("tp_wire").equals(0)),
        Note("`mover: N slab slots` and `slots can be lent`: experts on the card, and what they borrow from the pool"),
    )


def build(version: Version, basis: Basis, *, container: str, tp: int) -> EngineModel:
    """The model of one radiance version with one container on ``tp`` cards.

    ``container`` is the name of a known one, or "" for one that facts describe. Raises nothing: an unknown
    container's constants are facts that turn up missing.
    """
    of = family(version)
    queues = version >= (1, 0, 9)
    budget = _Budget(of, queues, container, tp, Knob)
    boot = _Budget(of, queues, container, tp, AsIs)
    pinned = _pinned(of, version, budget)
    ceiling = _ceiling(of, boot)
    # settled free above the floor: what that boot had, moved by what this shape leaves unclaimed
    left = budget.unclaimed - budget.headroom - (boot.unclaimed - boot.headroom)
    above_floor = Fact("settled_free") - Fact("settle_floor") + left
    headroom = row("headroom", select(budget.both_stated, ceiling - budget.pair, above_floor))
    known = container in KNOWN and tp == 2
    b = budget
    basis_b: Basis = "read" if of == "A" else "believed"
    rules = _SOURCE if of == "A" else _FUNDING
    split_basis: Basis = "inferred" if of == "A" else "believed"
    rows = [
        Row("claimable", b.claimable, "B", rules, basis_b),
        Row("elastic", b.elastic, "B", rules, basis_b),
        *([] if of == "A" else [Row("expert_floor", b.floor, "B", _FUNDING, "believed")]),
        Row("experts", b.experts, "B", rules, split_basis),
        Row("kv_cache", b.kv_cache, "B", rules, split_basis),
        Row("prefill_staging", b.prefill_staging, "B", rules, split_basis),
        Row("vram_weights", b.vram_weights, "B", rules, basis_b),
        Row("vram_kv", b.vram_kv, "B", rules, basis_b),
        Row("unclaimed", b.unclaimed, "B", rules, basis_b),
        Row("kv_blocks", b.blocks, "blocks", _KV, "read"),
        Row("kv_tokens", b.tokens, "tokens", _KV, "read"),
        Row("kv_ceiling", b.demand, "B", _KV, "read"),
        Row("slab_slots", b.slots, "slots", "engine source 1.0.x (planner)", "inferred"),
        Row("pinned_total", pinned, "B", _PINNED, "believed"),
        *([] if of == "C" else [Row("pair_ceiling", ceiling, "B", _CEILING, "inferred")]),
        Row("headroom", headroom, "B", _CEILING, "inferred"),
    ]
    unstated = ~b.weights_stated & ~b.kv_stated
    split: list[tuple[str, Cond]] = [("vram_weights_mib", b.weights_stated), ("vram_kv_mib", b.kv_stated)]
    if of == "A":
        split.append(("expert_vs_cache_ratio", unstated))
    else:
        split.append(("host_pool_mib", unstated))
    constants = dict(KNOWN[container].constants) if known else {}
    return EngineModel(
        name="radiance",
        version=".".join(map(str, version)),
        basis=basis,
        container=container or "unknown",
        knobs=_knobs(of),
        facts=_facts(of, queues),
        rows={r.name: r for r in rows},
        requires=_requires(of, queues, budget, ceiling, pinned, known),
        goals=_goals(of, budget, pinned, headroom),
        no_goals={},
        split=tuple(split if of != "C" else split[2:]),
        needs=(
            (~b.both_stated, ("claimable_covers",)),
            (b.both_stated, ("pair_ceiling", "claimable_covers")),
            (~NEVER, ("pool_contract",)),
        ),
        sessions=_sessions(),
        # experts on the card are no slack: giving them up to leave VRAM idle would be a loss
        spare=0 - b.cache_mib - Knob("host_pool_mib"),
        removed=_removed(of),
        notes=(
            Note("the pool is at its cap, but rounding to whole MiB leaves it a little under the full length: "
                 "a request of exactly max_model_len may be refused",
                 b.at_cap & Knob("max_num_seqs").equals(1)),
            Note("a stated vram_weights_mib gets no prefill staging region: long prefills run without the stager",
                 b.weights_stated if of == "A" else NEVER),
            *(() if of == "A" else (Note(
                "the cache is under its demand: more sequences raise the demand alone, and the recurrent state of each "
                "(about 110 MiB) comes out of the tokens", ~b.at_cap),)),
            Note("step_staging does not add up: the block tables of the boot it is from (its sequences and length) "
                 "take more by themselves; read the row again, or say under [boot] which settings it is of",
                 Fact("step_staging") < _tables(AsIs, 3 if queues else 1)),
            Note("the host pool is larger than the expert plane: what exceeds it buys nothing",
                 Knob("host_pool_mib") * MIB >= Fact("expert_plane") + b.spare),
        ),
        constants=constants,
        implied={
            "vram_kv": (align_up(b.fixed + Fact("kv_blocks") * b.page, MIB),
                        align_down(b.fixed + (Fact("kv_blocks") + 1) * b.page - 1, MIB)),
        },
        grain=MIB,
        words={
            "free": "VRAM above the engine's own settle floor, per card",
            "other_tools": "rocm-smi shows what no allocation covers: that counts the settle floor (the headroom, and "
                           "what is kept for step staging and kernels built on first use), which a first launch needs. "
                           "It does not show the KV cache's idle blocks, which are already lent to experts.",
        },
        laws=_laws(budget),
        stacks=_stacks(of, version, budget, ceiling, known),
        prints=_prints(of, budget),
        shares=(("experts", "kv_cache", "prefill_staging"), ("vram_weights", "vram_kv", "unclaimed")),
        trades=() if of == "C" else (("vram_weights_mib", "vram_kv_mib"),),
        # from 1.1 on the host pool funds the cache, and holds the experts that the cards do not
        pool_knobs={"A": ("vram_kv_mib", "expert_vs_cache_ratio"), "B": ("vram_kv_mib", "host_pool_mib"),
                    "C": ("host_pool_mib",)}[of],
        placement_knobs=("placement", "weights_disk_tier", "ngram_placement", "embedding_placement", "host_pool_mib"),
        reads=_reads(of),
        arena_knobs=("max_num_seqs", "num_speculative_tokens", "max_num_batched_tokens", "mm_max_patches",
                     "embedding_placement"),
    )

