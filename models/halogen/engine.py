"""halogen-flash-server, declared: the fit check, the pre-flight gates, and what is held in RAM.

The engine is closed: the constants are recomputed from what it prints and from its documents
(``models/SOURCES.md``), each to one print step. Two kinds of figure must not be mixed: the *fit's* own estimates,
which decide whether the pool is halved, and the *measured* ones, which say how much RAM is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

from models.declare import (
    Basis,
    EngineModel,
    FactSpec,
    Goal,
    KnobSpec,
    Note,
    Outcome,
    Phase,
    Require,
    Row,
    Stack,
    row,
    seen_in_the_log,
)
from models.expr import (
    ALWAYS,
    NEVER,
    Agree,
    AsIs,
    Cond,
    Expr,
    Fact,
    Knob,
    between,
    lift,
    maximum,
    minimum,
    remainder,
    select,
)
from models.interval import GIB, MIB, Interval, printed, size
from models.laws import Axis, Key, LawSpec, Metric
from models.versions import Version

Checkpoint = Literal["w4b", "v2", "ht43", "gguf", ""]

#: Bytes a pool position takes: KV rows of 26,624 B and block scratch (facts 4; all versions).
POSITION: Final = 29_500
_POSITION: Final = Fact("position_bytes", lift(POSITION))
KV_ROW: Final = 26_624
#: O(1) state of one serving slot or prompt-cache entry, as printed; the pre-flight estimates 115 MiB.
SLOT: Final = 111 * MIB
SLOT_ESTIMATE: Final = 115 * MIB
NATIVE_CONTEXT: Final = 262_144
#: Past the native context a prompt is worked on in pieces of this many tokens.
LONG_MAX_TOK: Final = 16_384
#: MemAvailable that must be left at the last pin, printed by a refusal.
PIN_FLOOR: Final = 16 * GIB
#: Device memory at which allocation failed: seen at 39.7 GiB, and the documents' ceiling of 46 to 47 GiB.
DEVICE_CEILING: Final = Interval(printed("39.703", GIB).low, 47 * GIB)
#: Compaction stalls of a boot: clean ones cost 45 at most, the engine's own alarm is at 1,000.
STALLS: Final = Interval(45, 999)
#: The trunk kept for prefill on v2, and the vision tower: its weights alone, up to weights and worst-case scratch.
KEEP_TRUNK: Final = 11 * GIB // 2
VISION: Final = Interval(printed("0.84", GIB).low, printed("1.97", GIB).high)
_STEP: Final = GIB // 20  # half a print step of 0.1 GiB

_FIT = "fit lines of 0.5.8 and 0.13.0, recomputed"
_FIT_LATER = "vendor documents 0.15.1 and later"
_MEASURED = "memory lines of real boots"
_PREFLIGHT = "pre-flight lines, recomputed"


def _tenths(base: int, slope: int, per_tokens: int, tokens: Expr) -> Expr:
    """``base / 10 GiB + slope / 10 GiB x tokens / per_tokens``, in bytes, rounded down once."""
    return (base * GIB + tokens * (slope * (GIB // per_tokens))) // 10


def recognise(name: str) -> Checkpoint:
    """The checkpoint a file name means; "" where it is none of the known ones."""
    word = name.rsplit("/", 1)[-1].lower()
    if word.endswith(".gguf") or word == "gguf":
        return "gguf"
    names: tuple[Checkpoint, ...] = ("w4b", "ht43", "v2")
    for known in names:
        if known in re.split(r"[-.]", word):
            return known
    return ""


#: Weights that stay resident, as the fit counts them from 0.15.1 on, GiB as printed.
_RESIDENT_LATER: Final = {"w4b": "68.0GiB", "v2": "62.1GiB", "ht43": "53.7GiB"}


def _resident(checkpoint: Checkpoint, early: bool) -> tuple[Interval, Basis, str] | None:
    if early:
        if checkpoint == "w4b":
            return size("67.7GiB"), "read", _FIT
        if checkpoint == "v2":  # whether the early fit knew v2's own size is not known
            return size("62.1GiB").join(size("67.7GiB")), "believed", "vendor change log: v2 on 0.15.0 and older"
        return None
    if checkpoint in _RESIDENT_LATER:
        return size(_RESIDENT_LATER[checkpoint]), "read", _FIT_LATER
    return None


def _work(checkpoint: Checkpoint, early: bool, tokens: Expr) -> Expr:
    """What the fit counts beside the pool, bytes: a fixed part, and one that grows with the tokens of a step."""
    noise = between(-_STEP, _STEP, 0, per=(tokens,))

    def line(fixed: int, slope: int) -> Expr:  # tenths of a GiB, the second for 16,384 tokens
        start, growth = lift(fixed * GIB // 10) + noise, lift(slope * GIB // 100)
        return Fact("work_fixed", start) + (tokens * Fact("work_slope", growth)) // 16_384

    if early:
        return line(38, 840)
    if checkpoint == "v2":
        return line(38, 440)
    if checkpoint in ("w4b", "gguf"):
        return line(95, 155)
    small, fixed = _tenths(38, 88, 32_768, tokens), _tenths(95, 31, 32_768, tokens)
    return between(minimum(small, fixed), maximum(small, fixed)) + noise


def _working_memory(checkpoint: Checkpoint, early: bool, tokens: Expr, slots: Expr) -> Expr:
    """Working memory as the engine prints it once loaded, bytes, without its uncertainty."""
    by_slot = (slots - 4) * SLOT
    if early:
        return _tenths(37, 88, 16_384, tokens) + by_slot
    if checkpoint == "v2":
        return _tenths(36, 45, 16_384, tokens) + by_slot
    return _tenths(95, 15, 16_384, tokens) + by_slot


def _working_noise(checkpoint: Checkpoint, early: bool, tokens: Expr, slots: Expr) -> Expr:
    """What the working memory may be off by: for the same tokens and slots the same at every start of a host."""
    tenth = GIB // 10
    low, high = -(tenth * 3 // 2), tenth * 3 // 2
    if not early and checkpoint == "v2":
        low, high = -tenth, 4 * tenth  # 7.8 and 8.1 GiB were both printed for one slot
    elif checkpoint == "gguf":
        low, high = -2 * tenth, 4 * tenth
    elif checkpoint in ("ht43", ""):
        low, high = -5 * GIB, tenth  # nobody has measured it; no more than w4b's
    return between(low, high, 0, per=(tokens, slots))


def _knobs(version: Version) -> dict[str, KnobSpec]:
    ctx = Knob("ctx")
    if version >= (0, 13, 3):
        entries: int | Expr = Knob("kv_slots") * (2 * Knob("cache_branches") + 2)
        entries_source = "vendor documents: slots x (2 + 2 x branches)"
    else:
        entries = 8 if version <= (0, 11, 2) else 16 if version <= (0, 12, 0) else 20
        entries_source = "vendor documents: the default of this version"
    docs = "vendor documents"
    specs = [
        KnobSpec("ctx", "tokens", low=1, high=1 << 20, step=1024, default=NATIVE_CONTEXT, default_source=docs),
        KnobSpec("kv_pool_positions", "positions", low=1, high=1 << 24, free_low=256, grid=256, step=65_536,
                 default=maximum(ctx, minimum(2 * ctx, 1 << 20)), default_source="vendor documents: twice ctx"),
        KnobSpec("kv_pool_fit", kind="switch", high=1, default=1, default_source=docs),
        KnobSpec("host_reserve_gib", "GiB", kind="decimal", scale=1000, high=1_000_000, grid=1000, step=1000,
                 default=20_000, default_source=docs, upwards=False),
        KnobSpec("max_tok", "tokens", low=1, high=1 << 20, free_low=1024, step=8192, default=32_768,
                 default_source=docs),
        KnobSpec("kv_slots", "slots", low=1, high=64, default=4, default_source=docs),
        KnobSpec("vision_tower", kind="switch", high=1, path=True, default_source=docs),
        KnobSpec("flash_pin_trunk", kind="switch", high=1, default=1, default_source=docs),
        KnobSpec("rope_yarn", "", low=0, high=4, default=0, default_source=docs),
        KnobSpec("cache_entries", "entries", high=4096, default=entries, default_source=entries_source),
        KnobSpec("cache_branches", "branches", high=64, default=2, default_source=docs),
        KnobSpec("prompt_cache", "", high=8, default=1, default_source=docs),
        KnobSpec("cache_file", kind="switch", high=1, path=True, default_source=docs),
        KnobSpec("cache_inplace", kind="switch", high=1, default=1, default_source=docs),
        KnobSpec("composable_context", kind="switch", high=1, default_source=docs),
        KnobSpec("composable_context_bytes", "bytes", high=1 << 44, default=4 * GIB, default_source=docs),
        KnobSpec("prefill_keep_trunk", kind="switch", high=1, default_source=docs),
        KnobSpec("checkpoint", kind="text", default=None, inert=True),
        *(KnobSpec(name, kind="text", default=None, inert=True) for name in (
            "weights_lock", "vision_max_pixels", "cache_dir", "cache_disk_gib", "indexer_budget",
            "prefill_chunk", "admit_chunk", "mtp_depth", "ngram_table", "bind", "port", "verbose",
            "startup_progress", "dmalloc_log", "spec_adapt", "mtp_prefill", "engine_watchdog_s",
        )),
    ]
    return {spec.name: spec for spec in specs}


def _facts() -> dict[str, FactSpec]:
    specs = [
        FactSpec("mem_total", "B", "grep MemTotal /proc/meminfo, or log line `kv pool: host RAM N GiB`"),
        FactSpec("mem_available", "B", "log line `MemAvailable now X GiB`, or grep MemAvailable /proc/meminfo, before "
                 "the server starts: while it runs the figure is another", each_boot=True),
        FactSpec("resident_weights", "B",
                 "log line `less W resident weights`, or set HALOGEN_CHECKPOINT (or --fact checkpoint=NAME: "
                 "w4b, v2, ht43)"),
        FactSpec("device_budget", "B", "log line `kv pool: host RAM ... = X GiB for the device`"),
        FactSpec("boot_pool", "positions", "log line `listening ... KV pool`: the pool after a clamp"),
        FactSpec("boot_reserve", "B", "log line `kv pool: ... and R reserved`"),
        FactSpec("checkpoint", "", "the checkpoint's file name", words=("w4b", "v2", "ht43", "gguf")),
        FactSpec("gtt_total", "B", "log line `GTT in use before this start: U GiB of T`"),
        FactSpec("gtt_used", "B", "log line `GTT in use before this start: U GiB of T`", each_boot=True),
        FactSpec("host_left", "B", "log line `host memory left for everything else`", each_boot=True),
        FactSpec("outcome_seen", "", "the log's own failure line", cap=len(Outcome) - 1),
        # constants of the closed engine, recomputed from what it prints; calibrate narrows them by what became of boots
        FactSpec("position_bytes", "B", f"known to be {POSITION:,} B a position; calibrate narrows it from boots",
                 least=1, prior=Interval(KV_ROW, 32 << 10)),
        FactSpec("work_fixed", "B", "the fit's working memory at no tokens; calibrate narrows it from boots",
                 prior=Interval(0, 16 * GIB)),
        FactSpec("work_slope", "B", "the fit's working memory for each 16,384 tokens of max_tok; calibrate narrows it",
                 prior=Interval(0, 16 * GIB)),
        FactSpec("fit_margin", "B", "what the fit wants free beside its need; calibrate narrows it from boots",
                 prior=Interval(0, 4 * GIB)),
        FactSpec("fit_margin_vision", "B", "the same where a vision tower is charged against it (to 0.15.0)",
                 prior=Interval(0, 4 * GIB)),
        FactSpec("compaction_stalls", "stalls", "log lines `N compaction stalls during that step`, added up",
                 each_boot=True),
    ]
    return {spec.name: spec for spec in specs}


class _Memory:
    """The fit check and what is held, for one version and checkpoint."""

    def __init__(self, version: Version, checkpoint: Checkpoint) -> None:
        self.version = version
        self.early = version < (0, 15, 1)
        self.checkpoint = checkpoint
        ctx, asked = Knob("ctx"), Knob("kv_pool_positions")
        self.tokens = self.effective(Knob)
        vision = Knob("vision_tower")
        trunk = Knob("prefill_keep_trunk") * KEEP_TRUNK if version >= (0, 15, 2) else lift(0)
        resident = Fact("resident_weights")
        # from 0.15.1 the weights are read from the file; whether the tower's 0.84 GiB is among them is not known
        tower = lift(0) if self.early else vision * between(0, printed("0.84", GIB).high)
        reserve = Knob("host_reserve_gib") * GIB // 1000
        boot = Fact("boot_reserve", AsIs("host_reserve_gib") * GIB // 1000)
        whole = Fact("mem_total") - resident
        seen = Fact("device_budget")  # a printed 0.0 is a floor and says nothing of what is below
        base = Agree("device_budget", (select(seen > _STEP, seen + boot, whole), whole))
        self.budget = row("device_budget", maximum(base - tower - reserve, 0))
        self.other = row("work", _work(checkpoint, self.early, self.tokens) + trunk)
        self.wanted = asked * _POSITION
        self.need = row("device_need", self.wanted + self.other)
        if self.early:
            engine_text = printed("1.5", GIB)
            plain = Fact("fit_margin", between(engine_text.low, engine_text.high, 3 * GIB // 2))
            # whether 1.97 GiB of vision can exceed the margin it is charged against, nobody has tested: with a tower
            # the margin is a constant of its own, and what is known of the other says nothing of it
            charged = Fact("fit_margin_vision", between(engine_text.low, printed("1.97", GIB).high, 3 * GIB // 2))
            self.margin: Expr = select(vision >= 1, charged, plain)
        else:
            self.margin = Fact("fit_margin", between(19 * GIB // 10, 21 * GIB // 10, 2 * GIB))
        self.runs = Knob("kv_pool_fit").equals(1) & (asked > ctx)
        self.refuses = Knob("prefill_keep_trunk").equals(1) if version >= (0, 15, 2) else NEVER
        self.fit = self._fit("kv_pool_fit", Outcome.CLAMPED, "", ~self.runs | self.refuses)
        self.trunk_fit = self._fit("keep_trunk_fit", Outcome.REFUSED_AT_BOOT, ", or drop prefill_keep_trunk",
                                   ~self.runs | ~self.refuses)
        smaller = self._halved(maximum(ctx, asked // 2), ctx, 15)
        self.pool = row("pool_positions", select(self.fit.holds, asked, smaller))
        self.device = row("device_held", self.pool * _POSITION + self.other)
        self.locked = row("locked_total", self._locked(version))
        self.cache = row("prompt_cache", self.entries(Knob))

    def _fit(self, name: str, broken: Outcome, instead: str, unless: Cond) -> Require:
        known = self.early and self.checkpoint == "w4b"
        return Require(
            name, self.need + self.margin, self.budget, "B", Phase.BOOT, broken,
            "lower kv_pool_positions or max_tok, or lower host_reserve_gib (it allocates nothing: lowering it only "
            "admits a larger pool)" + instead,
            _FIT if self.early else _FIT_LATER, "inferred" if known else "believed", unless=unless,
        )

    @staticmethod
    def effective(read: Callable[[str], Expr]) -> Expr:
        """Tokens of a prompt worked on at once."""
        ctx = read("ctx")
        most = select(ctx > NATIVE_CONTEXT, LONG_MAX_TOK, ctx)
        return minimum(read("max_tok"), most)

    def _halved(self, pool: Expr, ctx: Expr, depth: int) -> Expr:
        # halved until it fits, never below the context; there it stays even if that does not fit
        fits = pool * _POSITION + self.other + self.margin <= self.budget
        if depth == 0:
            return pool
        smaller = self._halved(maximum(ctx, pool // 2), ctx, depth - 1)
        return select((pool <= ctx) | fits, pool, smaller)

    def moving(self, read: Callable[[str], Expr], pool: Expr) -> Expr:
        """Bytes held that settings move: the pool, working memory, and the prompt cache."""
        working = _working_memory(self.checkpoint, self.early, self.effective(read), read("kv_slots"))
        trunk = read("prefill_keep_trunk") * KEEP_TRUNK if self.version >= (0, 15, 2) else lift(0)
        return pool * _POSITION + working + self.entries(read) + trunk

    def vision_moved(self) -> Expr:
        """Bytes that switching the vision tower off (or on) gives back (or takes)."""
        now, before = Knob("vision_tower"), AsIs("vision_tower")
        held = between(VISION.low, VISION.high)
        return select(now.equals(before), 0, select(now >= 1, 0 - held, held))

    def _locked(self, version: Version) -> Expr:
        weights: Expr
        if self.checkpoint == "w4b":
            weights = between(*_ends("68.0GiB"))
        elif self.checkpoint in _RESIDENT_LATER:
            weights = between(*_ends(_RESIDENT_LATER[self.checkpoint]))
        else:
            weights = Fact("resident_weights")
        tower = Knob("vision_tower") * (84 * GIB // 100) if version >= (0, 15, 2) else lift(0)
        self.weights = weights + tower
        self.pinned = pinned = select(Knob("flash_pin_trunk").equals(1), self.weights, 0)
        working = _working_memory(self.checkpoint, self.early, self.tokens, Knob("kv_slots"))
        trunk = Knob("prefill_keep_trunk") * KEEP_TRUNK if version >= (0, 15, 2) else lift(0)
        noise = _working_noise(self.checkpoint, self.early, self.tokens, Knob("kv_slots"))
        self.working = working + trunk + noise
        return pinned + self.pool * _POSITION + self.working

    @staticmethod
    def entries(read: Callable[[str], Expr]) -> Expr:
        """Bytes of the prompt cache and of composable context in host RAM."""
        off = read("prompt_cache").equals(0) | read("cache_file").equals(1)
        kept = select(read("cache_inplace").equals(0), read("ctx") * KV_ROW, read("cache_entries") * SLOT)
        composable = select(read("composable_context").equals(1), read("composable_context_bytes"), 0)
        return select(off, 0, kept) + composable


def _ends(text: str) -> tuple[int, int]:
    interval = size(text)
    return interval.low, interval.high


def _gtt_need(memory: _Memory, checkpoint: Checkpoint) -> Expr:
    pool, slots = Knob("kv_pool_positions"), Knob("kv_slots")
    if memory.early:
        arena = _tenths(0, 167, 32_768, memory.tokens)
    elif checkpoint == "v2":
        arena = _tenths(0, 88, 32_768, memory.tokens)
    else:
        arena = _tenths(60, 31, 32_768, memory.tokens)
    return pool * POSITION + slots * SLOT_ESTIMATE + arena + between(-2 * _STEP, 2 * _STEP, 0)


def _requires(
    version: Version, checkpoint: Checkpoint, m: _Memory, held: Expr, host_left: Expr
) -> tuple[Require, ...]:
    pool, ctx = Knob("kv_pool_positions"), Knob("ctx")
    boot = Phase.BOOT
    found = [
        m.fit,
        Require("pool_holds_context", ctx, pool, "positions", boot, Outcome.REFUSED_AT_BOOT,
                "raise kv_pool_positions to ctx, or lower ctx", "the engine's own error text"),
        Require("pool_grid", remainder(pool, 256), lift(0), "positions", boot, Outcome.REFUSED_AT_BOOT,
                "make kv_pool_positions a multiple of 256", "the engine's own error text", form=True),
        Require("context_within_rope", ctx, NATIVE_CONTEXT * maximum(Knob("rope_yarn"), 1), "tokens", boot,
                Outcome.REFUSED_AT_BOOT, "set rope_yarn=2 (524,288) or 4 (1,048,576)", "vendor documents"),
        Require("device_ceiling", m.device, between(DEVICE_CEILING.low, DEVICE_CEILING.high), "B", boot,
                Outcome.OUT_OF_MEMORY_AT_BOOT, "lower max_tok or kv_pool_positions",
                "a failure at 39.7 GiB; vendor documents say 46 to 47", "believed"),
        Require("held_within_ram", held, Fact("mem_total"), "B", boot,
                Outcome.OUT_OF_MEMORY_AT_BOOT, "lower kv_pool_positions, max_tok or cache_entries", _MEASURED,
                "believed"),
        # what the OS and neighbours hold is in no total of the engine's: only what a boot left tells of it
        Require("left_on_host", lift(0), host_left, "B", boot, Outcome.OUT_OF_MEMORY_AT_BOOT,
                "lower kv_pool_positions, max_tok, kv_slots or cache_entries, or free RAM that others hold", _MEASURED,
                "believed"),
        Require("pin_floor", m.pinned + PIN_FLOOR, Fact("mem_available"), "B", boot, Outcome.REFUSED_AT_BOOT,
                "free RAM before the start: 16 GiB of MemAvailable must be left at the last pin",
                "a printed refusal", "believed", unless=Knob("flash_pin_trunk").equals(0),
                # a log that says what was left is of a server that had room to pin
                instead=((Fact("host_left", lift(-1)) >= 0,
                          "read mem_available before the server starts: the log here is of one that did start, and "
                          "while it runs MemAvailable shows what is left and its locked weights, not what a start has; "
                          "if it was read before, free RAM: 16 GiB of it must be left at the last pin"),)),
        Require("sessions_held", Fact("sessions", lift(1)) * ctx, m.pool, "positions", Phase.RUN_TIME,
                Outcome.PREEMPTS, "raise kv_pool_positions: a request that finds no span waits",
                "vendor documents: a request reserves prompt + max_tokens"),
        Require("room_for_neighbours", lift(10 * GIB), host_left, "B", Phase.QUALITY, Outcome.SERVES,
                "lower kv_pool_positions, max_tok or cache_entries", "the engine's own note", "believed"),
        Require("compaction", Fact("compaction_stalls"), between(STALLS.low, STALLS.high), "stalls", boot,
                Outcome.STALLS, "start on a host whose memory is not fragmented (after a reboot)",
                "the engine's own warning; clean starts cost 45 at most", "believed",
                use="evidence"),
        *seen_in_the_log(),
    ]
    if version >= (0, 15, 2):
        found.append(m.trunk_fit)
        if checkpoint != "v2":
            found.append(Require("keep_trunk_needs_v2", Knob("prefill_keep_trunk"), lift(0), "", boot,
                                 Outcome.REFUSED_AT_BOOT, "drop prefill_keep_trunk", _FIT_LATER, "believed"))
    if version >= (0, 15, 0) and checkpoint == "v2":
        found.append(Require("pin_trunk_on_v2", 1 - Knob("flash_pin_trunk"), lift(0), "", boot,
                             Outcome.REFUSED_AT_BOOT, "set flash_pin_trunk=1", "vendor change log"))
    if version >= (0, 11, 9):
        found.append(Require("gtt_gate", _gtt_need(m, checkpoint), Fact("gtt_total") - Fact("gtt_used"), "B", boot,
                             Outcome.REFUSED_AT_BOOT,
                             "raise ttm.pages_limit, lower kv_pool_positions or max_tok, or reboot if a dead "
                             "process still holds GTT", _PREFLIGHT, "inferred"))
    return tuple(found)


def _laws() -> dict[Metric, LawSpec]:
    """What speed depends on: a pass reads the weights once for max_tok tokens, and attention reads the context."""
    keys = (Key("mtp_depth"), Key("pld"), Key("flash_pin_trunk"))
    return {
        "prefill": LawSpec(
            "prefill", (Axis("depth", "tokens", ("slope",), "rises"), Axis("request", "tokens", ("inverse",), "falls"),
                        Axis("max_tok", "tokens", ("slope", "inverse", "valley"), "either", Knob("max_tok"))),
            (Key("flash_pin_trunk"),), "kv_slots", "ctx", moves=("max_tok",),
        ),
        "decode": LawSpec(
            "decode", (Axis("depth", "tokens", ("slope", "saturating"), "rises"),
                       Axis("streams", "streams", ("slope", "hinge"), "rises")),
            keys, "kv_slots", "ctx", by_corpus=True,
        ),
    }


def _stacks(m: _Memory, vision: Expr) -> tuple[Stack, ...]:
    """Where the host's RAM goes, as measured; and what the fit check counts, which is another figure."""
    total, left = Fact("mem_total"), m.budget - m.need - m.margin
    held: tuple[tuple[str, Expr], ...] = (
        ("weights", m.pinned), ("kv pool", m.pool * _POSITION), ("working memory", m.working),
        ("prompt cache", m.cache), ("vision tower", vision))
    return (
        Stack("host", "RAM of the host", "B", total,
              (*held, ("everything else: system, neighbours, free", total - m.locked - m.cache - vision)), _MEASURED),
        Stack("fit", "What the fit check counts (it decides whether the pool is halved)", "B", m.budget,
              (("pool asked for", m.wanted), ("working memory", m.other), ("margin", m.margin),
               ("left in the budget", left)), _FIT if m.early else _FIT_LATER, when=m.runs),
    )


def _reads(version: Version, m: _Memory) -> tuple[Note, ...]:
    """Log lines to read after a boot (operator note 004)."""
    memory = (
        Note("`memory: ... in all` and `host memory left for everything else`: what is held and what is left; two "
             "settings that print the same do not do what their names say"),
    )
    return (
        Note("`LOWERING THE POOL` or `cannot spare it`: must not be there; a clamped server looks healthy, and only "
             "the log tells", m.runs),
        Note("`reserving the KV pool, N positions` and `ONE pool of N positions`: N is the pool asked for"),
        *(memory if version >= (0, 5, 3) else ()),
        Note("`compaction stalls`: 45 at most in a clean start"),
        Note("`listening`: then ask for one real completion, for /health answers before anything is proven"),
    )


def build(version: Version, basis: Basis, *, checkpoint: Checkpoint, assumed: bool) -> EngineModel:
    """The model of one halogen version with one checkpoint; ``assumed`` when nobody named the checkpoint."""
    m = _Memory(version, checkpoint)
    # what the log adds up leaves the tower out (to 0.15.1) or its scratch
    unlisted = VISION if version < (0, 15, 2) else Interval(0, VISION.high - VISION.low)
    vision = Knob("vision_tower") * between(unlisted.low, unlisted.high)
    held = row("held_total", m.locked + m.cache + vision)
    # What is left cannot be derived from totals (it was 7 GiB off once): it is read from a log, and moved by
    # the difference the settings make.
    pins, pinned = Knob("flash_pin_trunk"), AsIs("flash_pin_trunk")
    unpinned = select(pins.equals(pinned), 0, select(pins >= 1, 0 - m.weights, m.weights))
    boot_pool = Fact("boot_pool", AsIs("kv_pool_positions"))
    moved = m.moving(AsIs, boot_pool) - m.moving(Knob, m.pool) + unpinned + m.vision_moved()
    host_left = row("host_left", Fact("host_left") + moved)
    source = _FIT if m.early else _FIT_LATER
    fit_basis: Basis = "inferred" if m.early and checkpoint == "w4b" else "believed"
    rows = [
        Row("device_budget", m.budget, "B", source, fit_basis),
        Row("device_need", m.need, "B", source, fit_basis),
        Row("pool_positions", m.pool, "positions", source, fit_basis, discrete=True),
        Row("device_held", m.device, "B", source, fit_basis),
        Row("locked_total", m.locked, "B", _MEASURED, "believed"),
        Row("prompt_cache", m.cache, "B", "prompt cache line: 111 MiB an entry", "read"),
        Row("held_total", held, "B", _MEASURED, "believed"),
        Row("host_left", host_left, "B", _MEASURED, "believed"),
    ]
    stated = "a sum that operators state; the engine prints its parts"
    tower = Knob("vision_tower") * between(*_ends("1.97GiB"))
    sums = [
        Row("device_other", m.other, "B", source, fit_basis),
        Row("device_need_and_margin", row("device_need_and_margin", m.need + m.margin), "B", stated, fit_basis),
        Row("device_need_and_vision", row("device_need_and_vision", m.need + tower), "B", stated, fit_basis),
    ]
    goals = [
        Goal("context", "longest ctx", Knob("ctx"), "max", "tokens", ("ctx",)),
        Goal("sequences", "most serving slots (a speed knob: they share one pool)",
             Knob("kv_slots"), "max", "slots", ("kv_slots",)),
        Goal("sessions", "full-length conversations held", m.pool // Knob("ctx"), "max", "sessions"),
        Goal("host-ram", "least RAM held", held, "min", "B", ("kv_pool_positions",),
             frozenset(("resident_weights",)), shifts_while_held=("flash_pin_trunk",)),
        Goal("headroom", "RAM left for everything else", host_left, "max", "B", (), frozenset(("host_left",))),
    ]
    constant = _resident(checkpoint, m.early)
    notes = [
        Note("no fit check runs and no sizing lines print: the pool stands at the context",
             Knob("kv_pool_positions") <= Knob("ctx")),
        Note("kv_pool_fit=0: no fit check runs, what is asked for is allocated or fails",
             Knob("kv_pool_fit").equals(0)),
        Note("max_tok is above ctx: ctx bounds what is worked on at once", Knob("max_tok") > Knob("ctx")),
        Note(f"max_tok is capped to {LONG_MAX_TOK:,} past a context of {NATIVE_CONTEXT:,}",
             (Knob("ctx") > NATIVE_CONTEXT) & (Knob("max_tok") > LONG_MAX_TOK)),
        Note("max_tok other than 16384 and 32768 follows the same line, but no log shows it",
             ~(m.tokens.equals(16_384) | m.tokens.equals(32_768))),
        Note("flash_pin_trunk=0 leaves the weights unpinned: decode falls to about a sixth (6 against 37 t/s)",
             Knob("flash_pin_trunk").equals(0)),
    ]
    if assumed:
        notes.append(Note("no checkpoint is named: w4b is assumed, as the servers up to 0.15.0 had no other default"))
    return EngineModel(
        name="halogen",
        version=".".join(map(str, version)),
        basis=basis,
        container=checkpoint or "unknown",
        knobs=_knobs(version),
        facts=_facts(),
        rows={r.name: r for r in rows},
        requires=_requires(version, checkpoint, m, held, host_left),
        goals={goal.name: goal for goal in goals},
        no_goals={"slab": "halogen keeps all weights in RAM and has no slab"},
        split=(("kv_pool_positions", ALWAYS),),
        needs=((~m.refuses, ("kv_pool_fit",)), (m.refuses, ("keep_trunk_fit",))),
        sessions=Fact("sessions", lift(1)),
        spare=0 - m.moving(Knob, Knob("kv_pool_positions")) // MIB,
        notes=tuple(notes),
        grain=256 * POSITION,
        words={
            "free": "RAM left for everything else once the server is loaded",
            "other_tools": "free and MemAvailable count the server's locked weights as reclaimable file cache, which "
                           "they are not: they report about what is left plus the weights. MemTotal is already less "
                           "the firmware's carve-out for the iGPU.",
        },
        laws=_laws(),
        sums={r.name: r for r in sums},
        stacks=_stacks(m, vision),
        prints=(
            ("pool_positions", ALWAYS),
            # the memory lines are there since 0.5.3; the sizing lines (`kv pool:`) only where the fit check runs
            *((name, ALWAYS) for name in ("host_left", "locked_total") if version >= (0, 5, 3)),
            ("device_need", m.runs), ("device_budget", m.runs),
        ),
        shares=(("locked_total", "host_left"),),
        constants={} if constant is None else {"resident_weights": constant},
        pool_knobs=("kv_pool_positions",),
        reads=_reads(version, m),
    )
