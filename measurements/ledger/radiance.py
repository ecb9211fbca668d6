"""Boot ledgers of radiance: the VRAM budget table and the lines around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from measurements.ledger.grammar import Boot, Grammar, Name, Settled, event, last_complete
from measurements.ledger.radiance_sums import check
from measurements.ledger.text import Line
from measurements.records import Generation, LedgerReading

ENGINE: Final = "radiance"

#: The budget table's rows, in its order: label and name.
_TABLE: Final = (
    ("card total", "card_total"),
    ("already held", "already_held"),
    ("drift", "drift"),
    ("activation arena", "activation_arena"),
    ("step staging", "step_staging"),
    ("hardware queues", "hardware_queues"),
    ("prefetch", "prefetch"),
    ("--gpu-headroom-mib", "gpu_headroom_mib"),
    ("left to the host", "left_to_host"),
    ("claimable", "claimable"),
    ("static weights", "static_weights"),
    ("elastic", "elastic"),
    ("experts", "experts"),
    ("kv cache", "kv_cache"),
    ("unusable", "unusable"),
    ("prefill staging", "prefill_staging"),
    ("vram_weights", "vram_weights"),
    ("vram_kv", "vram_kv"),
    ("unclaimed", "unclaimed"),
)

_NAMES: Final = {
    "version": Name("version", "version", ""),
    "backend": Name("facts", "word", ""),
    "cards": Name("facts", "count", "cards"),
    "device_kind": Name("facts", "word", "", "folded"),
    "trained_context": Name("facts", "count", "tokens"),
    # the budget table
    **{
        name: Name("facts", "size", "B", "tagged")
        for name in (
            "card_total",
            "already_held",
            "drift",
            "activation_arena",
            "step_staging",
            "hardware_queues",
            "prefetch",
            "left_to_host",
            "static_weights",
        )
    },
    **{
        name: Name("rows", "size", "B", "tagged")
        for name in (
            "claimable",
            "elastic",
            "experts",
            "kv_cache",
            "unusable",
            "prefill_staging",
            "vram_weights",
            "vram_kv",
            "unclaimed",
            "pair_total",
            "pair_card",
            "pair_left",
        )
    },
    # settings the log names
    **{
        name: Name("knobs", "size")
        for name in ("gpu_headroom_mib", "vram_weights_mib", "vram_kv_mib", "host_pool_mib")
    },
    "expert_vs_cache_ratio": Name("knobs", "decimal", "ratio"),
    "max_num_seqs": Name("knobs", "count", "sequences"),
    "max_model_len": Name("knobs", "count", "tokens"),
    "num_speculative_tokens": Name("knobs", "count", "tokens"),
    "max_num_batched_tokens": Name("knobs", "count", "tokens"),
    "checkpoint_interval": Name("knobs", "count", "tokens"),
    "checkpoint_slots": Name("knobs", "count", "slots"),
    "embedding_placement": Name("knobs", "word", ""),
    "ngram_placement": Name("knobs", "word", ""),
    "prefix_cache": Name("knobs", "word", ""),
    # weights and their homes
    "token_embedding": Name("facts", "size"),
    "token_embedding_in": Name("facts", "word", ""),
    "ngram_size": Name("facts", "size"),
    "ngram_table": Name("facts", "size"),
    "ngram_table_in": Name("facts", "word", ""),
    "movable_units": Name("facts", "count", "units", "folded"),
    "routed_layers": Name("facts", "count", "layers", "folded"),
    "slab_slots": Name("rows", "count", "slots", "always"),
    "shadow_slots": Name("rows", "count", "slots", "always"),
    "pool_slots": Name("rows", "count", "slots", "always"),
    "mover_static": Name("rows", "size", "B", "always"),
    "lent_kv_slots": Name("rows", "count", "slots", "always"),
    "lent_kv": Name("rows", "size", "B", "always"),
    "lent_arena_slots": Name("rows", "count", "slots", "always"),
    "lent_arena": Name("rows", "size", "B", "always"),
    **{
        f"pools_{name}": Name("rows", "size", "B", "always", label=f"pools.{name}")
        for name in ("vram_weights", "vram_kv", "host_pool")
    },
    # arena and step
    "arena_plan": Name("facts", "size", "B", "folded"),
    "arena_device": Name("facts", "size", "B", "folded"),
    "arena_scratch": Name("facts", "size", "B", "folded"),
    "arena_scratch_regions": Name("facts", "count", "regions", "folded"),
    "arena_total": Name("facts", "size", "B", "folded"),
    "prefill_buffer": Name("facts", "size", "B", "folded"),
    "prefill_chunk": Name("rows", "count", "tokens"),
    "sampler_rows": Name("rows", "count", "rows"),
    "step_ring": Name("facts", "size"),
    "step_slab": Name("facts", "size"),
    # the KV cache
    "kind": Name("facts", "word", "", label="kv.{group}.kind"),
    "layers": Name("facts", "count", "layers", label="kv.{group}.layers"),
    "block": Name("facts", "count", "tokens", label="kv.{group}.block"),
    "page": Name("facts", "size", label="kv.{group}.page"),
    "blocks": Name("facts", "count", "blocks", label="kv.{group}.blocks"),
    "state": Name("facts", "size", label="kv.{group}.state"),
    "slots": Name("facts", "count", "slots", label="kv.{group}.slots"),
    "group_size": Name("rows", "size", label="kv.{group}.size"),
    "tokens": Name("rows", "count", "tokens", label="kv.{group}.tokens"),
    "kv_tokens": Name("rows", "count", "tokens"),
    "kv_growth": Name("rows", "size", "B", "tagged"),
    "sessions": Name("rows", "decimal", "sessions"),
    "kv_pool_size": Name("rows", "size", "B", "folded"),
    "kv_groups_end": Name("facts", "count", "B", "folded"),
    "checkpoints_offset": Name("facts", "count", "B", "folded"),
    "checkpoint_stride": Name("facts", "size"),
    "checkpoint_region": Name("rows", "size"),
    "checkpoint_slots_backed": Name("rows", "count", "slots"),
    "checkpoint_slots_withdrawn": Name("rows", "count", "slots"),
    # what was left at the end
    "settled_free": Name("facts", "size", "B", "always"),
    "settle_floor": Name("facts", "size", "B", "folded"),
    "settle_kept": Name("facts", "size", "B", "folded"),
    "disk_tier": Name("hidden", "word", "", repeat="first"),
}

_EVENTS: Final = (
    event(
        "SHORT BY",
        r"SHORT BY",
        "refused_at_boot",
        "the fixed costs do not fit on the card: the server refused",
    ),
    event(
        "DID NOT FIT",
        r"DID NOT FIT",
        "refused_at_boot",
        "weights had no place: neither VRAM nor the host pool holds them",
    ),
    event(
        "unknown option",
        r"unknown option",
        "refused_at_boot",
        "the server does not know an option it was given",
    ),
    event(
        "but the context limit is",
        r"holds [\d,]+ tokens but the context limit is",
        "rejects_long_requests",
        "a paged pool holds less than one full-length sequence",
    ),
)

_RULES: Final = (
    ("radiance ", r"^radiance v?<version>"),
    (" backend", r"^device: <backend> backend"),
    (" backend", r"^device: .* backend, <cards> device"),
    (" backend", r"[\[ ]<card>:<device_kind>(?=[ \]])"),
    (" ctx", r"^model: .* <trained_context> ctx\b"),
    *((label, rf"^{label} <{name}>(?! (?:budget|used|free))") for label, name in _TABLE),
    ("--expert-vs-cache-ratio", r"^elastic .*what --expert-vs-cache-ratio <expert_vs_cache_ratio> divides"),
    ("stated by --vram-weights-mib", r"^vram_weights <vram_weights_mib> stated by"),
    ("stated by --vram-kv-mib", r"^vram_kv <vram_kv_mib> stated by"),
    (
        "VRAM budgets total",
        r"^VRAM budgets total <pair_total> of the card's <pair_card>(?:, so <pair_left>)?",
    ),
    (" all at ", r"(?:\(|\bbacks )<max_num_seqs> sequences? all at <max_model_len> tokens"),
    ("full-length session", r"^kv: .*, <sessions> full-length sessions?\b"),
    ("cache can grow", r"^kv: the cache can grow to <kv_growth> a card\b"),
    ("cache can grow", r"^kv: the cache can grow .* <kv_tokens> tokens of context"),
    ("cache can grow", r"^kv: the cache can grow .*, <sessions> sessions? at <max_model_len>"),
    ("speculation:", r"^speculation: .*\bdrafts <num_speculative_tokens> token"),
    ("sampler:", r"^sampler: .*, <sampler_rows> rows\b"),
    ("chunk geometry:", r"^chunk geometry: .*\bcheckpoint interval <checkpoint_interval>"),
    ("chunk geometry:", r"^chunk geometry: .*\bmax_tok <max_num_batched_tokens>"),
    ("chunk geometry:", r"^chunk geometry: .*\bprefill chunks of at most <prefill_chunk>"),
    ("token embedding", r"^placement: token embedding \(<token_embedding> a rank\)"),
    ("token embedding", r"^placement: token embedding \([^)]*\) <token_embedding_in>"),
    ("token embedding", r"^placement: token embedding \([^)]*\) \w+ \(<embedding_placement>\)"),
    ("token embedding", r"^placement: token embedding \([^)]*\) <embedding_placement>: as asked"),
    ("n-gram table", r"^placement: n-gram table \(<ngram_size>\)"),
    ("n-gram table", r"^placement: n-gram table \(<ngram_table>\) ram\b"),
    ("n-gram table", r"^placement: n-gram table \([^)]*\) <ngram_table_in>"),
    ("n-gram table", r"^placement: n-gram table \([^)]*\) \w+ \(<ngram_placement>\)"),
    ("n-gram table", r"^placement: n-gram table \([^)]*\) <ngram_placement>: as asked"),
    (
        "slab slots",
        r"^mover: <slab_slots> slab slots \(<shadow_slots> shadow\), <pool_slots> pinned pool slots",
    ),
    ("static vram", r"^mover: .* pool slots, (?:.*, )?<mover_static> static vram"),
    ("can be lent", r"^mover: <lent_kv_slots> slots can be lent out of the KV cache(?: \(<lent_kv>\))?"),
    (
        "can be lent",
        r"^mover: <lent_arena_slots> slots can be lent out of the activation arena(?: \(<lent_arena>\))?",
    ),
    ("movable units", r"^heat engine: <movable_units> movable units"),
    ("budget,", r"^vram_weights <pools_vram_weights> budget,"),
    ("budget,", r"^vram_kv <pools_vram_kv> budget,"),
    ("budget,", r"^host_pool <pools_host_pool> budget,"),
    ("budget,", r"^host_pool <host_pool_mib> budget,"),
    ("activation arena:", r"^activation arena: .* of <arena_plan> \(the fixed region"),
    (
        "scratch =",
        r"^arena: <arena_device> device \+ <arena_scratch_regions> x <arena_scratch> scratch = <arena_total>",
    ),
    ("prefill staging:", r"^prefill staging: two <prefill_buffer> buffers"),
    ("prefill staging:", r"^prefill staging: .* of <routed_layers> routed layers"),
    ("step batch:", r"^step batch: <step_ring> pinned staging ring \+ <step_slab> device slab"),
    (
        " layers block ",
        r"^<group> <kind> <layers> layers block <block> tok page <page> <blocks> blocks = <group_size>"
        r"(?: \(<tokens> tokens\))?",
    ),
    (" layers state ", r"^<group> <kind> <layers> layers state <state> <slots> slots = <group_size>"),
    ("pool at ", r"^pool at \S+ <kv_pool_size>"),
    ("pool at ", r"^pool at .* groups at \+\d+\.\.\+<kv_groups_end>"),
    ("pool at ", r"^pool at .* checkpoints at \+<checkpoints_offset>"),
    (
        "checkpoints ",
        r"^checkpoints \w+ <checkpoint_slots> slots x <checkpoint_stride> = <checkpoint_region>",
    ),
    (
        "checkpoint slots:",
        r"^checkpoint slots: <checkpoint_slots_backed> of <checkpoint_slots> backed"
        r"(?: \(<checkpoint_stride> each\))?(?:, <checkpoint_slots_withdrawn> withdrawn)?",
    ),
    ("it has to keep free", r"^checkpoint slots: .* under the <settle_floor> it has to keep free"),
    ("settled at", r"^card <card> settled at <settled_free> free"),
    ("settled at", r"^card <card> settled at .* free,? against (?:the )?<settle_floor>"),
    ("settled at", r"^card <card> settled at .* and <settle_kept> kept for"),
    ("settled at", r"^card \d+ settled at .*\(the <gpu_headroom_mib> --gpu-headroom-mib"),
    ("prefix cache:", r"^prefix cache: <prefix_cache>"),
    ("tier", r"\b(?P<disk_tier>disk|file)[- ]tier\b"),
)

_GRAMMAR: Final = Grammar(_NAMES, _RULES, _EVENTS)

_STARTS: Final = re.compile(
    r"(?:"
    + "|".join(label for label, _ in _TABLE)
    + r"|host_pool)\s+\d|[-=]{8,}|[a-z]\w*\s+\w+\s+\d+ layers\s|"
    r"\(none\)\s|vLLM stock\s|least-waste\s|radiance\s|pool at\s|checkpoints\s+\w+\s+\d|req \S+ ",
    re.ASCII,
)
_DEVICE = re.compile(r"device: .*\bbackend\b")
_EARLY = re.compile(r"model: |declare: |speculation: ")
_LATE = re.compile(
    r"VRAM budget, per card|card total |claimable |unclaimed |pools:|mover: |arena: |heat engine: |"
    r"checkpoint slots: |card \d+ settled "
)
_TABLE_HEAD: Final = "VRAM budget, per card"


def starts(text: str) -> bool:
    """Whether an unindented line without tag is one of the engine's own, and not the rest of one."""
    return _STARTS.match(text) is not None


def read(lines: Sequence[Line], file: str) -> LedgerReading | None:
    """The last complete boot in the lines; None where no line is one of this engine's."""
    found = last_complete(
        list(_boots(lines)), lambda part: _GRAMMAR.gather(_with_pool_ranks(part), file), _level, 3
    )
    if found is None:
        return None
    boot, boots, cut_off = found
    settled = boot.settle()
    if cut_off is not None:
        settled.findings.append(cut_off)
    _backed_tokens(settled)
    _outcome(boot, settled)
    check(settled)
    generation = _generation(boot)
    # nobody has seen the last lines of 1.1 and later, nor what the first builds say of free memory
    unseen = generation.since >= (1, 1) or ("kv_pool_size" in boot and "hardware_queues" not in boot)
    ended = "settled_free" in boot or "outcome_seen" in settled.rows or unseen
    return settled.ledger(ENGINE, generation, boots, _missing(boot), ended=ended)


def _boots(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines of each boot: a device line, a rank's second table or an early line after one begins it."""
    part: list[Line] = []
    devices: set[int | None] = set()
    tables: set[int | None] = set()
    late = done = False
    for line in lines:
        device, table = _DEVICE.match(line.text) is not None, line.text.startswith(_TABLE_HEAD)
        if (
            (device and (late or line.rank in devices))
            or (table and line.rank in tables)
            or (done and _EARLY.match(line.text))
        ):
            yield part
            part, devices, tables, late, done = [], set(), set(), False, False
        if device:
            devices.add(line.rank)
        if table:
            tables.add(line.rank)
        late = late or _LATE.match(line.text) is not None
        done = done or line.text.startswith("unclaimed ")
        part.append(line)
    yield part


def _with_pool_ranks(lines: Sequence[Line]) -> list[Line]:
    """The lines, with the rank of a ``pools:`` heading given to the untagged rows under it.

    Where several headings come before the rows, nothing says whose a row is.
    """
    ranked: list[Line] = []
    headings: list[int | None] = []
    rows = False
    for line in lines:
        if line.text == "pools:":
            headings = [line.rank] if rows else [*headings, line.rank]
            rows = False
        elif " budget, " in line.text:
            rows = True
            if line.rank is None and len(headings) == 1:
                line = replace(line, rank=headings[0])
        elif line.rank is not None:
            headings, rows = [], False
        ranked.append(line)
    return ranked


def _level(boot: Boot) -> int:
    """How far a boot got: 1 with a whole budget table, 2 where its cache stands, 3 where it settled."""
    if not any(name in boot for _, name in _TABLE) or _missing(boot):
        return 0
    return 3 if "settled_free" in boot else 2 if "kv_pool_size" in boot else 1


def _missing(boot: Boot) -> tuple[str, ...]:
    """The rows that every build prints and that this boot, once begun, lacks."""
    names = [name for _, name in _TABLE]
    tagged = {
        card
        for name in names
        if name in boot
        for card in boot.seen[name][1]
        if _NAMES[name].cards == "tagged"
    }
    begun = any(line.text.startswith(_TABLE_HEAD) or _DEVICE.match(line.text) for line in boot.lines)
    if not tagged and not begun:  # lines picked out of a log, not a boot that was cut off
        return ()
    wanted = set(names) - {
        "drift",
        "prefetch",
        "hardware_queues",
        "left_to_host",
        "unusable",
        "prefill_staging",
    }
    if "left_to_host" in boot:
        wanted -= {"gpu_headroom_mib"}
    if "claimable" in boot and "hardware_queues" not in boot:  # the first builds had no such rows
        wanted -= {"step_staging"}
    if "vram_weights_mib" in boot:
        wanted -= {"static_weights", "experts"}
    if "vram_weights_mib" in boot or "vram_kv_mib" in boot:
        wanted -= {"claimable", "elastic", "kv_cache"}
    cards = sorted(card for card in tagged if card is not None)
    missing = []
    for name in names:
        printed = boot.seen[name][1] if name in boot else {}
        if name not in wanted or None in printed or (printed and _NAMES[name].cards == "plain"):
            continue
        if not printed:
            missing.append(name)
        else:
            missing.extend(f"{name}.{card}" for card in cards if card not in printed)
    return tuple(missing)


def _generation(boot: Boot) -> Generation:
    stated = [name for name in ("vram_weights_mib", "vram_kv_mib") if name in boot]
    late = "hardware_queues" in boot or "settle_kept" in boot
    if "expert_vs_cache_ratio" in boot or any("--expert-vs-cache-ratio" in line.text for line in boot.lines):
        return Generation("1.0.x (1.0.9 or later)", (1, 0, 9), (1, 0)) if late else Generation("1.0.x", (), (1, 0))
    if stated:
        what = "stated pair" if len(stated) == 2 else "one pool stated"
        since = (1, 0, 9) if late else (1, 0, 0)
        return Generation(f"{what} ({'.'.join(map(str, since))} to 1.2)", since, (1, 2))
    return Generation("1.1 or later", (1, 1, 0)) if "elastic" in boot or "kv_growth" in boot else Generation()


def _backed_tokens(boot: Settled) -> None:
    """The tokens and blocks of the cache: those of the full group that holds least."""
    full = [
        name[3:-5]
        for name, reading in boot.facts.items()
        if name.startswith("kv.") and name.endswith(".kind") and reading.value == "full"
    ]
    for section, label, name in ((boot.facts, "blocks", "kv_blocks"), (boot.rows, "tokens", "kv_tokens")):
        found = [
            (figure.low, group)
            for group in full
            if (figure := boot.figure(f"kv.{group}.{label}")) is not None
        ]
        if not found:
            continue
        least = section[f"kv.{min(found)[1]}.{label}"]
        printed = section.get(name)
        if printed is not None and printed.value != least.value:
            boot.say(
                f"the cache can grow to {printed.printed} tokens, but its groups hold {least.printed}",
                name,
                least.name,
                severity="note",
            )
        section[name] = replace(least, name=name)


def _outcome(boot: Boot, settled: Settled) -> None:
    for seen, place, text in boot.events:
        settled.tell(seen, place)
        if not ("settled_free" in boot and seen.outcome == "refused_at_boot"):  # it came up all the same
            settled.outcome(seen.outcome, place, text)
