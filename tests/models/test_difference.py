"""What a boot printed, moved to another shape: by hand, and by trying what the facts allow."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from measurements.site import Site
from models.difference import Difference
from models.evaluate import Knobs, Quantity, evaluate
from models.expr import Knob, OnIntervals, Truth, Value, Walk, between, lift, maximum, minimum, select
from models.interval import GIB, MIB, Interval, point, size
from tests.made_sites import IQ4R, site

TENTH = GIB // 10
#: Operator note 004: 103.5 GiB in all, at reserve 15 and at 16, and 7.1 left.
NOTE = {"ctx": 262_144, "kv_pool_positions": 524_288, "max_tok": 32_768, "kv_slots": 4, "vision_tower": 1,
        "host_reserve_gib": 15}
SEEN = size("103.5GiB")


def rows(shape: dict[str, int]) -> dict[str, Quantity]:
    bare = site("halogen@0.13.0", container="w4b", knobs=NOTE, facts={"mem_total": "127104060KiB",
                                                                      "host_left": "7.1GiB"})
    made = replace(bare, given=replace(bare.given, printed={"locked_total": SEEN}))
    return evaluate(made.model, made.given, made.knobs | shape).quantities


def test_what_does_not_move_a_row_does_not_widen_it() -> None:
    now = rows({})
    seen = now["locked_total"]
    assert SEEN.low <= seen.low < seen.high == SEEN.high
    for shape in ({"host_reserve_gib": 16_000}, {"cache_entries": 21}, {"max_tok": 40_000, "ctx": 32_768},
                  {"flash_pin_trunk": 1}):
        row = rows(shape)["locked_total"]
        assert (row.value, row.low, row.high) == (seen.value, seen.low, seen.high), shape
        assert row.predicted == seen.predicted
        assert row.predicted is not None
        assert row.predicted.high - row.predicted.low > 5 * (row.high - row.low)
    held = rows({"host_reserve_gib": 16_000})["held_total"]
    assert (held.value, held.low, held.high) == (now["held_total"].value, now["held_total"].low, now["held_total"].high)


def test_half_the_pool_gives_back_what_half_a_pool_takes() -> None:
    now, less = rows({}), rows({"kv_pool_positions": 262_144})
    for name in ("locked_total", "held_total"):
        assert now[name].low - less[name].low == now[name].high - less[name].high == 262_144 * 29_500
    entries = rows({"cache_entries": 30})["held_total"]
    assert entries.low - now["held_total"].low == entries.high - now["held_total"].high == 10 * 111 * MIB


@pytest.mark.parametrize("shape", [{"max_tok": 16_384}, {"kv_slots": 8}])
def test_what_was_measured_at_other_settings_may_be_off_by_something_else(shape: dict[str, int]) -> None:
    # 12.5 to 12.9 GiB of working memory were printed at 16,384 tokens, 21.1 to 21.4 at 32,768: no one line holds all
    row = rows(shape)["locked_total"]
    assert row.high - row.low > 3 * TENTH > 3 * (SEEN.high - SEEN.low) - 4


def difference(node: object, old: dict[str, int], new: dict[str, int]) -> Value:
    def walk(knobs: dict[str, int]) -> Walk[Value, Truth]:
        return Walk(OnIntervals(knobs={name: point(value) for name, value in knobs.items()}, as_is={}, facts={}))

    ends = [{name: point(value) for name, value in knobs.items()} for knobs in (old, new)]
    return Difference(walk(old), walk(new), (ends[0], ends[1]), ()).number(node)  # type: ignore[arg-type]


def test_each_kind_of_expression() -> None:
    unknown, a = between(0, 100), Knob("a")
    for node, moved in (
        (a + unknown, (5, 5)), (a - unknown, (5, 5)), (unknown * a, (0, 500)), (unknown + 3, (0, 0)),
        ((a + unknown) // 2, (2, 3)), (maximum(a, unknown), (0, 5)), (maximum(a, 9 - unknown), (5, 5)),
        (minimum(a + unknown, 70), (0, 5)),
        (select(a <= 100, a * 2 + unknown, 0), (10, 10)), (select(a <= 12, unknown, unknown + 7), (-93, 107)),
        (between(0, 9, per=(a,)), (-9, 9)), (between(0, 9, per=(lift(1),)), (0, 0)), (between(0, a), (-10, 15)),
    ):
        assert difference(node, {"a": 10}, {"a": 15}) == Interval(*moved)


class Picked(OnIntervals):
    """One of the values that what is only known to lie between two can have."""

    pick = 0

    def between(self, low: Value, high: Value, nominal: Value) -> Value:
        return (low, nominal, high)[self.pick]


WIDE = {
    "card_total": "31.86GiB", "already_held": "272.61MiB", "activation_arena": "1.10GiB", "step_staging": "6.11MiB",
    "hardware_queues": "100.05MiB", "static_weights": "3.34GiB",
}
SITES = {
    "halogen": (site("halogen@0.13.0", container="w4b", knobs=NOTE, facts={"mem_total": "121.22GiB",
                                                                            "host_left": "7.1GiB"}),
                {"kv_pool_positions": (1024, 4096, 256), "max_tok": (8192, 40_000, 1), "kv_slots": (1, 8, 1),
                 "host_reserve_gib": (10, 24, 1000), "cache_entries": (0, 40, 1), "vision_tower": (0, 1, 1),
                 "flash_pin_trunk": (0, 1, 1)}),
    "halogen, later": (site("halogen@0.17.4", container="v2", knobs=NOTE | {"kv_slots": 2},
                            facts={"mem_total": "121.22GiB", "host_left": "7.1GiB"}),
                       {"kv_pool_positions": (1024, 4096, 256), "max_tok": (8192, 40_000, 1), "kv_slots": (1, 8, 1)}),
    "derived": (site("radiance@1.0.13", container=IQ4R, facts=WIDE, knobs={
        "tp": 2, "max_num_seqs": 2, "max_model_len": 262_144, "kv_cache_dtype": "fp8", "host_pool_mib": 12_288,
        "num_speculative_tokens": 3, "gpu_headroom_mib": 512, "expert_vs_cache_ratio": "0.82"}),
        {"max_num_seqs": (1, 6, 1), "max_model_len": (4096, 262_144, 1), "gpu_headroom_mib": (48, 700, 1),
         "expert_vs_cache_ratio": (5000, 9000, 100), "host_pool_mib": (9000, 20_000, 1)}),
    "funded": (site("radiance@1.8.1", container=IQ4R, facts=WIDE | {"drift": "1.2MiB", "prefetch": "3.4MiB",
                                                                    "ngram_table": "47.68GiB"}, knobs={
        "tp": 2, "max_num_seqs": 4, "max_model_len": 200_000, "kv_cache_dtype": "fp8", "host_pool_mib": 12_288,
        "num_speculative_tokens": 2}),
        {"max_num_seqs": (1, 12, 1), "max_model_len": (4096, 262_144, 1), "gpu_headroom_mib": (48, 700, 1),
         "host_pool_mib": (9000, 32_000, 1)}),
}


@pytest.mark.parametrize("name", SITES)
def test_every_difference_that_the_facts_allow_is_inside(name: str) -> None:
    made, moves = SITES[name]
    rng = random.Random(name)
    tighter = told = 0
    for _ in range(40):
        shapes = [made.knobs | {knob: rng.randint(low, high) * unit for knob, (low, high, unit) in
                                rng.sample(sorted(moves.items()), rng.randint(1, len(moves)))} for _ in range(2)]
        knobs = [Knobs(made.model, shape) for shape in shapes]
        walks = [Walk(OnIntervals(knobs=values, as_is=Knobs(made.model, made.given.as_is), facts=made.given.facts))
                 for values in knobs]
        both = Difference(walks[0], walks[1], (knobs[0], knobs[1]), made.given.facts.keys())
        spans = {row.name: both.number(row.expr) for row in made.model.rows.values()}
        for row in made.model.rows.values():
            span, old, new = spans[row.name], walks[0].number(row.expr), walks[1].number(row.expr)
            if isinstance(span, Interval) and isinstance(old, Interval) and isinstance(new, Interval):
                told += 1
                tighter += span.high - span.low < (new - old).high - (new - old).low
        for _ in range(6):
            values = exact(rng, made, knobs)
            for row in made.model.rows.values():
                span = spans[row.name]
                if isinstance(span, Interval):
                    old, new = (one.number(row.expr) for one in values)
                    if isinstance(old, Interval) and isinstance(new, Interval):
                        assert old.exact
                        assert new.exact
                        assert span.low <= new.low - old.low <= span.high, row.name
    assert tighter > told // 4


def exact(rng: random.Random, made: Site, knobs: list[Knobs]) -> list[Walk[Value, Truth]]:
    """Both shapes on one choice of all that is not known exactly."""
    facts = {name: point(rng.choice((span.low, span.high, rng.randint(span.low, span.high))))
             for name, span in made.given.facts.items()}
    pick = rng.randint(0, 2)
    found = []
    for values in knobs:
        chosen = {name: point(value.low) for name, value in values.items()}
        algebra = Picked(knobs=chosen, as_is=Knobs(made.model, made.given.as_is), facts=facts)
        algebra.pick = pick
        found.append(Walk(algebra))
    return found
