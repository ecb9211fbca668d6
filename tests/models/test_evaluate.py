"""A shape judged by plain arithmetic: several cards folded, verdicts, outcomes, and what is said to be missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.declare import FactSpec, Outcome, Verdict
from models.engines import build, resolve
from models.evaluate import Given, Knobs, evaluate, fold_cards
from models.interval import GIB, MIB, Interval, point, size
from tests import twin
from tests.made_sites import IQ4R, W4, site

SPECS = build(resolve("radiance@1.0.13"), container="").facts


def test_the_smallest_card_and_the_largest_program_bind() -> None:
    folded, binding = fold_cards(SPECS, {
        "card_total.0": point(16 * GIB), "card_total.1": point(32 * GIB),
        "static_weights.0": size("3.34GiB"), "static_weights.1": size("3.29GiB"),
        "activation_arena.0": point(5), "activation_arena.1": point(7),
    })
    assert folded["card_total"] == point(16 * GIB)
    assert folded["static_weights"] == size("3.34GiB")
    assert folded["activation_arena"] == point(7)
    assert binding == {"card_total": 0, "static_weights": 0, "activation_arena": 1}


def test_overlapping_cards_fold_to_every_possible_extreme() -> None:
    folded, _ = fold_cards(SPECS, {
        "card_total.0": Interval(10, 20), "card_total.1": Interval(12, 14),
        "step_staging.0": Interval(10, 20), "step_staging.1": Interval(12, 24),
    })
    assert folded["card_total"] == Interval(10, 14)
    assert folded["step_staging"] == Interval(12, 24)


def test_what_is_held_is_the_capacity_less_the_least_free() -> None:
    # card 1 is larger and fuller: capacity 100 from card 0, free 60 from card 1
    folded, binding = fold_cards(SPECS, {
        "card_total.0": point(100), "already_held.0": point(30),
        "card_total.1": point(120), "already_held.1": point(60),
    })
    assert folded["already_held"] == point(40)
    assert binding["already_held"] == 1
    # the smaller card has more free than the larger: nothing can be held below zero
    folded, _ = fold_cards(SPECS, {
        "card_total.0": point(100), "already_held.0": point(0),
        "card_total.1": point(200), "already_held.1": point(100),
    })
    assert folded["already_held"] == point(0)


def test_one_capacity_for_all_cards() -> None:
    folded, binding = fold_cards(SPECS, {
        "card_total": point(100), "already_held.0": Interval(10, 20), "already_held.1": Interval(15, 18),
    })
    assert folded["already_held"] == Interval(15, 20)
    assert binding == {"already_held": 1}


def test_a_fact_without_a_card_loses_to_its_cards() -> None:
    folded, _ = fold_cards(SPECS, {
        "static_weights": point(1), "static_weights.0": point(5), "static_weights.1": point(4)})
    assert folded["static_weights"] == point(5)
    assert "static_weights.0" not in folded


def test_other_names_stay_as_they_are() -> None:
    specs = {"x": FactSpec("x", "B", "how")}
    assert fold_cards(specs, {"x": point(1), "y": point(2)}) == ({"x": point(1), "y": point(2)}, {})


SPAN = st.tuples(st.integers(0, 50), st.integers(0, 9)).map(lambda p: Interval(p[0], p[0] + p[1]))


@given(st.lists(st.tuples(SPAN, SPAN), min_size=1, max_size=4), st.data())
def test_the_fold_holds_what_the_engine_computes(cards: list[tuple[Interval, Interval]], data: st.DataObject) -> None:
    facts: dict[str, Interval] = {}
    for number, (spare, held) in enumerate(cards):
        facts[f"already_held.{number}"] = held
        facts[f"card_total.{number}"] = Interval(spare.low + held.high, spare.high + held.high)
    folded, _ = fold_cards(SPECS, facts)
    totals = [data.draw(st.integers(s.low + h.high, s.high + h.high)) for s, h in cards]
    used = [data.draw(st.integers(h.low, h.high)) for _, h in cards]
    capacity = min(totals)
    free = min(total - held for total, held in zip(totals, used, strict=True))
    assert capacity in folded["card_total"]
    assert max(capacity - free, 0) in folded["already_held"]


PAIR: dict[str, str | int] = {
    "tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 4, "max_model_len": 200_000, "vram_weights_mib": 22_208,
    "vram_kv_mib": 6_912, "host_pool_mib": 40_960, "num_speculative_tokens": 2,
}


def judged(
    ceiling: str | Interval, knobs: dict[str, str | int] | None = None, limits: tuple[str, ...] = (),
) -> tuple[Verdict, tuple[Outcome, ...]]:
    made = site("radiance@1.0.13", container=W4, knobs=PAIR | (knobs or {}), limits=limits,
                facts={"pair_ceiling": ceiling})
    found = evaluate(made.model, made.given, made.knobs)
    assert found.outcome is found.outcomes[-1]
    return found.verdict, found.outcomes


def test_verdict_is_the_worst_and_a_knife_edge_lists_what_is_possible() -> None:
    pair = 22_208 + 6_912
    serves = (Outcome.SERVES,)
    assert judged(f"{pair}MiB") == (Verdict.FITS, serves)
    # a MiB over the ceiling eats the settle floor: it does not fit, the engine only warns
    assert judged(f"{pair - 1}MiB") == (Verdict.DOES_NOT_FIT, serves)
    knife = Interval(pair * MIB - 1, pair * MIB)
    assert judged(knife) == (Verdict.KNIFE_EDGE, serves)
    # below the least floor (96 + 36.46 MiB) it certainly serves, above the largest it certainly runs out
    assert judged(f"{pair - 132}MiB") == (Verdict.DOES_NOT_FIT, serves)
    assert judged(f"{pair - 150}MiB") == (Verdict.DOES_NOT_FIT, (Outcome.SERVES, Outcome.OUT_OF_MEMORY_AT_BOOT))
    assert judged(f"{pair - 210}MiB") == (Verdict.DOES_NOT_FIT, (Outcome.OUT_OF_MEMORY_AT_BOOT,))
    assert judged("30969MiB", {"max_num_seqs": 5}) == (Verdict.DOES_NOT_FIT, (Outcome.PREEMPTS,))


def test_a_matter_of_quality_counts_only_where_the_site_says_so() -> None:
    rows: dict[str, str | int] = {"max_num_seqs": 9, "max_model_len": 32_768, "tp_wire": "wht6"}
    assert judged("30969MiB", rows)[0] is Verdict.FITS
    assert judged("30969MiB", rows, ("lossy_wire_rows",))[0] is Verdict.DOES_NOT_FIT


def test_rows_without_facts_are_said_to_be_unread() -> None:
    made = site("radiance@1.0.13", container=W4, knobs=PAIR, facts={"pair_ceiling": "30969MiB"})
    found = evaluate(made.model, made.given, made.knobs)
    assert "card_total" in found.unread["claimable"]
    assert "claimable" not in found.quantities
    assert found.missing == ()
    assert found.constraint("claimable_covers").verdict is None
    assert "card_total" in found.constraint("claimable_covers").missing
    with pytest.raises(KeyError):
        found.constraint("no such thing")


def test_a_default_that_follows_from_another() -> None:
    model = build(resolve("halogen@0.17.4"), container="v2")
    assert Knobs(model, {})["kv_pool_positions"] == point(524_288)
    assert Knobs(model, {"ctx": 1 << 20})["kv_pool_positions"] == point(1 << 20)
    assert Knobs(model, {"ctx": 1000})["kv_pool_positions"] == point(2000)
    assert Knobs(model, {})["cache_entries"] == point(24)
    assert Knobs(model, {"kv_slots": 2, "cache_branches": 3})["cache_entries"] == point(16)
    assert "num_speculative_tokens" not in Knobs(build(resolve("radiance@1.0.13"), container=""), {})


def test_a_printed_row_narrows_the_running_shape_and_others_by_what_differs() -> None:
    knobs: dict[str, str | int] = {"tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 2,
                                    "num_speculative_tokens": 3, "host_pool_mib": 12_288,
             "gpu_headroom_mib": 512, "expert_vs_cache_ratio": "0.82"}
    facts = {"card_total": "31.86GiB", "already_held": "272.61MiB", "activation_arena": "1.10GiB",
             "step_staging": "3.11MiB", "hardware_queues": "100.05MiB", "static_weights": "3.34GiB"}
    made = site("radiance@1.0.13", container=IQ4R, knobs=knobs, facts=facts)
    plain = evaluate(made.model, made.given, made.knobs).quantities["elastic"]
    assert plain.predicted is None
    seen = replace(made.given, printed={"elastic": size("26.56GiB")})
    narrowed = evaluate(made.model, seen, made.knobs).quantities["elastic"]
    assert narrowed.predicted == Interval(plain.low, plain.high)
    span = size("26.56GiB")
    assert (narrowed.low, narrowed.high) == (max(plain.low, span.low), min(plain.high, span.high))
    # one sequence less leaves what its block tables took, to the byte
    own = evaluate(made.model, made.given, made.knobs | {"max_num_seqs": 1}).quantities["elastic"]
    other = evaluate(made.model, seen, made.knobs | {"max_num_seqs": 1}).quantities["elastic"]
    assert other.predicted == Interval(own.low, own.high)
    tables = twin.block_tables(2, 262_144) - twin.block_tables(1, 262_144)
    assert (other.low, other.high) == (narrowed.low + tables, narrowed.high + tables)
    wrong = evaluate(made.model, replace(made.given, printed={"elastic": size("20GiB")}), made.knobs)
    assert wrong.contradicted == ("elastic",)
    assert (wrong.quantities["elastic"].low, wrong.quantities["elastic"].high) == (plain.low, plain.high)


def test_a_block_count_says_which_pool_it_was_carved_from() -> None:
    knobs: dict[str, str | int] = {"tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 2, "num_speculative_tokens": 3}
    made = site("radiance@1.0.13", container=IQ4R, knobs=knobs, facts={
        "card_total": "31.86GiB", "already_held": "272.61MiB", "activation_arena": "1.10GiB", "step_staging": "3.11MiB",
        "hardware_queues": "100.05MiB", "static_weights": "3.34GiB", "kv_blocks": 131_044})
    found = evaluate(made.model, made.given, made.knobs).quantities
    assert (found["vram_kv"].low, found["vram_kv"].high) == (4430 * MIB, 4430 * MIB)


def test_evidence_of_a_past_boot_is_left_out_where_there_is_none() -> None:
    made = site("halogen@0.13.0", container="w4b", facts={"mem_total": "125.1GiB"})
    names = {c.require.name for c in evaluate(made.model, made.given, made.knobs).constraints}
    assert "compaction" not in names
    given = Given(made.given.as_is, {**made.given.facts, "compaction_stalls": point(11_783)})
    found = evaluate(made.model, given, made.knobs)
    assert found.constraint("compaction").verdict is Verdict.DOES_NOT_FIT
    assert found.outcome is Outcome.STALLS
