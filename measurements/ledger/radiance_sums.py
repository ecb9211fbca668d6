"""What must add up in a boot ledger of radiance."""

from __future__ import annotations

from typing import Final

from measurements.ledger.grammar import Law, Settled, between, times
from models.interval import MIB, Interval, point, show_bytes

_HEADROOM: Final = "gpu_headroom_mib|left_to_host"
_LAWS: Final = (
    Law(
        "claimable",
        ("card_total",),
        ("already_held", "activation_arena", _HEADROOM),
        where_printed=(
            "step_staging",
            "hardware_queues",
            "drift",
            "prefetch",
            "vram_weights_mib",
            "vram_kv_mib",
        ),
    ),
    Law("elastic", ("claimable",), ("static_weights",), unless="vram_weights_mib"),
    Law("elastic", ("claimable",), given="vram_weights_mib"),
    Law("vram_weights", ("static_weights", "experts"), slack=Interval(0, MIB), unless="vram_weights_mib"),
    Law(
        "unclaimed",
        ("card_total",),
        ("already_held", "activation_arena", "vram_weights", "vram_kv"),
        where_printed=("step_staging", "hardware_queues", "prefill_staging"),
        perhaps=("drift", "prefetch"),
    ),
    Law("pair_total", ("vram_weights", "vram_kv")),
    Law("pair_card", ("card_total",)),
    Law("pair_left", ("pair_card",), ("pair_total",)),
    Law("settle_floor", (_HEADROOM, "settle_kept")),
    Law("checkpoint_slots", ("checkpoint_slots_backed", "checkpoint_slots_withdrawn")),
)
#: What a settled card may have over its unclaimed VRAM before the engine itself remarks on it.
_REMARKABLE: Final = 256 * MIB


def check(boot: Settled) -> None:
    """Records what does not add up among a boot's readings, within what printing leaves open."""
    for law in _LAWS:
        law.check(boot)
    for each in (_shares, _pools, _groups, _slots, _sampler, _checkpoints, _arena, _settled_free):
        each(boot)


def _shares(boot: Settled) -> None:
    """What elastic is shared into must fit in it, and the cache's budget in its share."""
    for card in boot.cards("elastic"):
        parts = [
            name for part in ("experts", "kv_cache", "prefill_staging") if boot.figure(name := part + card)
        ]
        elastic = boot.figure("elastic" + card) or point(0)
        least = sum((boot.figure(name) or point(0)).low for name in parts)
        if least > elastic.high:
            boot.say(
                f"{' + '.join(parts)} are at least {show_bytes(least)}, more than elastic{card}, "
                f"{between(elastic, 'B')}",
                "elastic" + card,
                *parts,
            )
    for card in boot.cards("kv_cache"):
        share, budget = boot.figure("kv_cache" + card), boot.figure("vram_kv" + card)
        if share and budget and budget.low > share.high and boot.get("vram_kv_mib") is None:
            boot.say(
                f"vram_kv{card} is larger than the kv cache row it comes from",
                "kv_cache" + card,
                "vram_kv" + card,
            )


def _pools(boot: Settled) -> None:
    """The pools were made of the table's budgets: on the card that bound it they are the same."""
    for pool, row in (
        ("pools.vram_weights", "vram_weights"),
        ("pools.vram_kv", "vram_kv"),
        ("kv_pool_size", "vram_kv"),
    ):
        for card in boot.cards(row):
            budget = boot.figure(row + card)
            pools = [
                name
                for name in ([pool + card] if card else [pool + each for each in boot.cards(pool)])
                if boot.figure(name)
            ]
            if budget and pools and not any(budget.meet(boot.figure(name) or budget) for name in pools):
                boot.say(
                    f"{row}{card} is {between(budget, 'B')}, but no card's pool is: "
                    + ", ".join((boot.get(name) or boot.rows[row + card]).printed for name in pools),
                    row + card,
                    *pools,
                )
    statics = boot.figure("static_weights")
    for card in boot.cards("mover_static"):
        on_card = boot.figure("mover_static" + card)
        if statics and on_card and on_card.low > statics.high:
            boot.say(
                f"mover_static{card} is more than static_weights, the largest share of any card",
                "static_weights",
                "mover_static" + card,
            )


def _groups(boot: Settled) -> None:
    """A KV group's size and tokens follow from its page and blocks, or its state and slots."""
    for name in [name for name in boot.rows if name.startswith("kv.") and name.endswith(".size")]:
        group = name[:-5]
        for each, count in (("page", "blocks"), ("state", "slots")):
            one, many, whole = (
                boot.figure(f"{group}.{each}"),
                boot.figure(f"{group}.{count}"),
                boot.figure(name),
            )
            if one and many and whole and times(one, many).meet(whole) is None:
                boot.say(
                    f"{many.low} {count} of {boot.facts[f'{group}.{each}'].printed} are "
                    f"{between(times(one, many), 'B')}, not {boot.rows[name].printed}",
                    name,
                    f"{group}.{each}",
                    f"{group}.{count}",
                )
        blocks, block, tokens = (boot.figure(f"{group}.{part}") for part in ("blocks", "block", "tokens"))
        if blocks and block and tokens and times(blocks, block) != tokens:
            boot.say(
                f"{blocks.low} blocks of {block.low} tokens are {blocks.low * block.low} tokens, not {tokens.low}",
                f"{group}.tokens",
                f"{group}.blocks",
                f"{group}.block",
            )


def _slots(boot: Settled) -> None:
    """Every movable unit has a place: a slab slot that is no shadow, or a slot of the pinned pool."""
    for card in boot.cards("slab_slots"):
        slab, shadow, pool = (
            boot.figure(name + card) for name in ("slab_slots", "shadow_slots", "pool_slots")
        )
        which = "movable_units" if boot.figure("movable_units") else "movable_units" + card
        units = boot.figure(which)
        if slab and shadow and pool and units and slab.exact and pool.exact:
            placed = slab.low - shadow.low + pool.low
            if placed > units.low or (placed < units.low and boot.get("disk_tier") is None):
                boot.say(
                    f"{slab.low} slab slots - {shadow.low} shadow + {pool.low} pool slots are {placed}, "
                    f"not the {units.low} movable units",
                    "slab_slots" + card,
                    "pool_slots" + card,
                    which,
                )


def _sampler(boot: Settled) -> None:
    """The sampler has a row for every token of a step: one a sequence, and one for each draft of it."""
    rows, seqs = boot.figure("sampler_rows"), boot.figure("max_num_seqs")
    drafts = boot.figure("num_speculative_tokens")
    if not (rows and seqs):
        return
    if drafts and rows.low != seqs.low * (1 + drafts.low):
        boot.say(
            f"{rows.low} sampler rows are not {seqs.low} sequences x (1 + {drafts.low} drafted tokens)",
            "sampler_rows",
            "max_num_seqs",
            "num_speculative_tokens",
        )
    elif seqs.low and rows.low % seqs.low:
        boot.say(
            f"{rows.low} sampler rows are no multiple of {seqs.low} sequences", "sampler_rows", "max_num_seqs"
        )


def _checkpoints(boot: Settled) -> None:
    slots, stride, region = (
        boot.figure(name) for name in ("checkpoint_slots", "checkpoint_stride", "checkpoint_region")
    )
    if slots and stride and region and times(slots, stride).meet(region) is None:
        boot.say(
            f"{slots.low} checkpoint slots of {boot.facts['checkpoint_stride'].printed} are "
            f"{between(times(slots, stride), 'B')}, not {boot.rows['checkpoint_region'].printed}",
            "checkpoint_slots",
            "checkpoint_stride",
            "checkpoint_region",
        )


def _arena(boot: Settled) -> None:
    for card in boot.cards("arena_total"):
        total, device, regions, scratch = (
            boot.figure(name + card)
            for name in ("arena_total", "arena_device", "arena_scratch_regions", "arena_scratch")
        )
        if (
            total
            and device
            and regions
            and scratch
            and (device + times(scratch, regions)).meet(total) is None
        ):
            boot.say(
                f"the arena's parts are {between(device + times(scratch, regions), 'B')}, "
                f"not {boot.facts['arena_total' + card].printed}",
                "arena_total" + card,
            )


def _settled_free(boot: Settled) -> None:
    """A card cannot settle with more free than the budgets leave of it: then two boots are mixed."""
    free = {
        card: figure for card in boot.cards("settled_free") if (figure := boot.figure("settled_free" + card))
    }
    if not free:
        return
    card = min(free, key=lambda each: free[each].low)
    own = card if boot.get("card_total" + card) else ""
    total, weights, kv, unclaimed = (
        boot.figure(name + own) for name in ("card_total", "vram_weights", "vram_kv", "unclaimed")
    )
    settled = boot.facts["settled_free" + card].printed
    if total and weights and kv and free[card].low > (total - weights - kv).high:
        boot.say(
            f"the card settled at {settled} free, but the budgets leave only "
            f"{between(total - weights - kv, 'B')} of it: these lines are of different boots",
            "settled_free" + card,
            "card_total" + own,
            "vram_weights" + own,
            "vram_kv" + own,
        )
        return
    unbacked = boot.figure("checkpoint_region") or point(2 * _REMARKABLE)
    if unclaimed and free[card].low > (unclaimed + unbacked).high + _REMARKABLE:
        boot.say(
            f"the card settled at {settled} free, far more than the {boot.rows['unclaimed' + own].printed} unclaimed",
            "settled_free" + card,
            "unclaimed" + own,
            severity="note",
        )
