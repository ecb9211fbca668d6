"""Questions, answers and their words; the solver's optima are tried in the twin's own tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from measurements.records import ReadError
from measurements.site import Site, Sources, load
from models.declare import Verdict
from models.interval import GIB, MIB, Interval
from optimizer import many
from optimizer.check import MissingFacts, check
from optimizer.many import Best
from optimizer.solve import Answer, Disagreement, ask, solve
from tests.made_sites import IQ4R, W4, Word, site

PAIR: dict[str, str | int] = {
    "tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 4, "max_model_len": 200_000, "vram_weights_mib": 22_208,
    "vram_kv_mib": 6_912, "host_pool_mib": 40_960, "num_speculative_tokens": 2,
}
DERIVED: dict[str, str | int] = {
    "tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 2, "host_pool_mib": 12_288, "gpu_headroom_mib": 512,
    "expert_vs_cache_ratio": "0.82", "num_speculative_tokens": 3, "placement": "expert_tiered",
    "ngram_placement": "disk",
}
BOOT: dict[str, Word] = {
    "card_total": "31.86GiB", "already_held": "272.61MiB", "activation_arena": "1.10GiB", "step_staging": "3.11MiB",
    "hardware_queues": "100.05MiB", "static_weights": "3.34GiB",
}


def pair(knobs: Mapping[str, str | int] | None = None, ceiling: str = "30969MiB") -> Site:
    return site("radiance@1.0.13", container=W4, knobs=PAIR | dict(knobs or {}), facts={"pair_ceiling": ceiling})


def names(answer: Answer) -> set[str]:
    return {member.name for member in answer.conflict}


def test_what_moves_and_what_is_held() -> None:
    question = ask(pair(), "context", given={"max_num_seqs": "3"})
    assert list(question.free) == ["max_model_len", "vram_weights_mib", "vram_kv_mib"]
    assert question.given == {"max_num_seqs": 3}
    assert {"max_num_seqs", "host_pool_mib", "kv_cache_dtype", "gpu_headroom_mib"} <= set(question.held)
    derived = ask(site("radiance@1.0.13", container=IQ4R, knobs=DERIVED, facts=BOOT), "sessions")
    assert list(derived.free) == ["expert_vs_cache_ratio"]
    later = {name: value for name, value in DERIVED.items() if name != "expert_vs_cache_ratio"}
    funded = ask(site("radiance@1.8.1", container=IQ4R, knobs=later, facts=BOOT), "sessions")
    assert list(funded.free) == ["host_pool_mib"]
    halogen = ask(site("halogen@0.13.0", container="w4b", facts={"mem_total": "125GiB"}), "sequences")
    assert set(halogen.free) == {"kv_slots", "kv_pool_positions"}
    one = {name: value for name, value in PAIR.items() if name != "vram_kv_mib"}
    half = site("radiance@1.0.13", container=IQ4R, knobs=one, facts=BOOT)
    assert list(ask(half, "sessions").free) == ["vram_weights_mib"]


def test_user_opens_knobs() -> None:
    assert "gpu_headroom_mib" in ask(pair(), "sessions", free=["gpu_headroom_mib"]).free
    assert "max_num_seqs" in ask(pair(), "context", at_least=[("max_num_seqs", "6")]).free
    assert "vram_kv_mib" not in ask(pair(), "context", given={"vram_kv_mib": "5000"}).free


@pytest.mark.parametrize(("goal", "words", "message"), [
    ("speed", {}, "has no goal 'speed'; its goals: context, sequences"),
    ("context", {"given": {"no_such": "1"}}, "has no knob 'no_such'"),
    ("context", {"given": {"max_num_seqs": "0"}}, "write a number from 1"),
    ("context", {"given": {"max_model_len": "0"}}, "names no value to hold"),
    ("context", {"free": ["tp"]}, "tp cannot be opened"),
    ("context", {"free": ["model"]}, "model cannot be opened"),
    ("context", {"free": ["nothing"]}, "has no knob 'nothing'"),
    ("context", {"at_least": [("vram_weights", "much")]}, "is not a size"),
    ("context", {"at_least": [("no_row", "1")]}, "neither a knob nor a quantity"),
    ("context", {"at_most": [("kv_tokens", "1.5")]}, "not a whole number of tokens"),
])
def test_words_that_mean_nothing(goal: str, words: dict[str, object], message: str) -> None:
    with pytest.raises(ReadError) as caught:
        ask(pair(), goal, **words)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert caught.value.kind == "usage"


def test_halogen_has_no_slab() -> None:
    made = site("halogen@0.13.0", container="w4b", facts={"mem_total": "125GiB"})
    with pytest.raises(ReadError, match="keeps all weights in RAM"):
        ask(made, "slab")


def test_a_bound_holds_for_every_value_a_print_allows() -> None:
    question = ask(pair(), "slab", at_least=[("vram_weights", "24.50GiB")], at_most=[("vram_kv", "5.50GiB")])
    least, most = question.bounds
    assert least.value == int(24.505 * GIB)
    assert most.value == -(-int(5.495 * GIB * 1000) // 1000)
    assert (least.label, most.label) == ("at least vram_weights=24.50GiB", "at most vram_kv=5.50GiB")


def test_the_longest_context_that_a_slab_leaves() -> None:
    answer = solve(ask(pair(), "context", at_least=[("vram_weights", "25600MiB")], top=3))
    best = answer.shapes[0]
    assert answer.status == "optimal"
    assert (best.shape["vram_weights_mib"], best.shape["vram_kv_mib"]) == (25_600, 30_969 - 25_600)
    # one token more and the pool no longer holds four sequences
    longer = check(pair(), best.shape | {"max_model_len": best.shape["max_model_len"] + 4})
    assert longer.verdict is Verdict.DOES_NOT_FIT
    assert best.value == best.shape["max_model_len"]
    assert best.changes["max_model_len"] == (200_000, best.value)
    assert "pair_ceiling" in best.binding or "pool_contract" in best.binding
    assert [shape.rank for shape in answer.shapes] == [1, 2, 3]


def test_fewer_changed_knobs_come_first() -> None:
    answer = solve(ask(pair(), "sequences", given={"max_num_seqs": "4"}, top=1))
    assert answer.shapes[0].changes == {}
    assert answer.shapes[0].objective == Interval(4, 4)


def test_infeasible_names_a_minimal_conflict() -> None:
    words = {"max_num_seqs": "8", "max_model_len": "200000", "kv_cache_dtype": "bf16"}
    question = ask(pair(), "slab", given=words, at_least=[("vram_weights", "25600MiB")])
    answer = solve(question)
    assert answer.status == "infeasible"
    assert answer.shapes == ()
    assert names(answer) <= {"pair_ceiling", "settle_floor", "pool_contract", "at least vram_weights=25600MiB",
                             *(f"{name}={value}" for name, value in words.items())}
    # leaving any member out makes it solvable
    for name in words:
        rest = {other: value for other, value in words.items() if other != name}
        looser = solve(ask(pair(), "slab", given=rest, free=[name], at_least=[("vram_weights", "25600MiB")], top=1))
        assert (looser.status == "optimal") is (f"{name}={words[name]}" in names(answer)), name
    assert solve(ask(pair(), "slab", given=words, top=1)).status == "optimal"


def test_what_the_solver_calls_infeasible_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ask(pair(), "slab", given={"max_num_seqs": "8", "kv_cache_dtype": "bf16"},
                   at_least=[("vram_weights", "25600MiB")])
    assert solve(question).warnings == ()
    monkeypatch.setattr(many, "best_of", lambda asked: [Best(None, {}, False) for _ in asked])
    (said,) = solve(question).warnings
    assert "too large to confirm this" in said
    monkeypatch.setattr(many, "best_of", lambda asked: [Best(1, {}, True) for _ in asked])
    with pytest.raises(Disagreement):
        solve(question)



def test_a_derived_site_is_told_what_stating_a_pool_loses() -> None:
    made = site("radiance@1.0.13", container=IQ4R, knobs=DERIVED, facts=BOOT)
    stated = solve(ask(made, "sessions", given={"vram_weights_mib": "24000"}, top=1)).shapes[0]
    assert stated.changes["vram_weights_mib"] == (0, 24_000)
    assert any("no prefill staging region" in note for note in stated.notes)
    held = solve(ask(made, "sessions", top=1)).shapes[0].shape
    assert held.get("vram_weights_mib", 0) == held.get("vram_kv_mib", 0) == 0


def test_a_goal_without_its_facts_asks_for_them() -> None:
    made = site("radiance@1.0.13", container=W4, knobs=PAIR, facts={})
    with pytest.raises(MissingFacts) as caught:
        solve(ask(made, "context"))
    assert {"settled_free", "settle_floor"} <= {item["name"] for item in caught.value.missing}


def test_a_value_that_only_shifts_is_not_made_up() -> None:
    answer = solve(ask(pair(), "slab", given={"max_num_seqs": "3"}, top=1))
    best = answer.shapes[0]
    assert best.value is None  # the static weights are not known
    assert best.gain == (best.shape["vram_weights_mib"] - 22_208) * MIB


DESCRIBED: dict[str, Word] = {
    "pair_ceiling": "30969MiB", "kv_page_fp8": 29_952, "kv_block": 4, "kv_state": "110MiB", "checkpoint_bytes": "56MiB",
    "expert_plane": "24GiB", "static_weights": "3GiB", "unit_max": "2MiB", "spare": 0,
}


def test_the_table_on_disk_is_found_without_its_size() -> None:
    knobs = PAIR | {"tp": 1, "ngram_placement": "ram"}
    made = site("radiance@1.0.13", knobs=knobs, facts=DESCRIBED)
    with_size = site("radiance@1.0.13", knobs=knobs, facts=DESCRIBED | {"ngram_size": "48GiB"})
    best = solve(ask(with_size, "host-ram", free=["ngram_placement"], top=1)).shapes[0]
    assert best.shape["ngram_placement"] == 2
    try:
        found = solve(ask(made, "host-ram", free=["ngram_placement"], top=1)).shapes[0]
    except MissingFacts:
        return  # asking for the size is right as well
    assert found.shape["ngram_placement"] == 2


def test_an_unknown_placement_is_no_better_than_a_known_one() -> None:
    made = site("radiance@1.0.13", knobs=PAIR | {"tp": 1, "ngram_placement": "ram"},
                facts=DESCRIBED | {"ngram_size": "48GiB"})
    answer = solve(ask(made, "host-ram", free=["ngram_placement"], top=3))
    assert 0 not in {ranked.shape["ngram_placement"] for ranked in answer.shapes}


def test_unpinning_is_found_without_the_weights_size() -> None:
    knobs: dict[str, str | int] = {"ctx": 262_144, "kv_pool_positions": 262_144}
    facts: dict[str, Word] = {"mem_total": "125GiB"}
    known = site("halogen@0.16.0", container="a.gguf", knobs=knobs, facts=facts | {"resident_weights": "70GiB"})
    best = solve(ask(known, "host-ram", free=["flash_pin_trunk"], top=1)).shapes[0]
    assert best.shape["flash_pin_trunk"] == 0
    unknown = site("halogen@0.16.0", container="a.gguf", knobs=knobs, facts=facts)
    try:
        found = solve(ask(unknown, "host-ram", free=["flash_pin_trunk"], top=1)).shapes[0]
    except MissingFacts:
        return
    assert found.shape["flash_pin_trunk"] == 0


@pytest.mark.parametrize("name", [
    "expert_plane", "slot_stride", "kv_page_fp8", "kv_block",
])
@pytest.mark.parametrize("engine", ["radiance@1.0.13", "radiance@1.8.1"])
def test_what_others_are_divided_by_is_not_nothing(engine: str, name: str) -> None:
    facts = {**{k: str(v) for k, v in BOOT.items()}, "drift": "0B", "prefetch": "0B", "expert_plane": "24GiB",
             "expert_layer_max": "512MiB", "unit_max": "2MiB", "slot_stride": "2MiB", "movable_units": "12000",
             "kv_page_fp8": "29952B", "kv_page_bf16": "56576B", "kv_block": "4", "kv_state": "110MiB",
             "checkpoint_bytes": "56MiB"}
    if engine == "radiance@1.0.13":
        facts = {k: v for k, v in facts.items() if k not in ("drift", "prefetch")}
    facts[name] = "0" if name == "kv_block" else "0B"
    sets = {"tp": "2", "num_speculative_tokens": "2", "kv_cache_dtype": "fp8", "host_pool_mib": "12288",
            "max_num_seqs": "2"}
    with pytest.raises(ReadError, match=f"{name} is '0B?', which may be nothing at all"):
        load(Sources(engine=engine, facts=facts, sets=sets))
    facts[name] = "1" if name == "kv_block" else "4096B"
    assert check(load(Sources(engine=engine, facts=facts, sets=sets))).verdict in Verdict


def test_a_gate_without_a_target_rises_no_further_than_it_opens() -> None:
    """The host's limit is what it is: a gate that kept its distance to the pinned ledger would refuse every start."""
    facts: dict[str, Word] = BOOT | {
        "expert_plane": 20 * GIB, "unit_max": 2 * MIB, "slot_stride": MIB, "movable_units": 25_000, "spare": 40 * MIB,
        "drift": "10MiB", "prefetch": "4MiB", "expert_layer_max": 4_096_000, "ttm_limit": 41_000 * MIB,
    }
    knobs: dict[str, str | int] = {name: value for name, value in DERIVED.items() if name != "expert_vs_cache_ratio"}
    of = site("radiance@1.2.2", container=IQ4R, facts=facts,
              knobs=knobs | {"host_pool_mib": 4_000, "ttm_min_mib": 40_000, "checkpoint_slots": 0})
    best = solve(ask(of, "sequences", top=1)).shapes[0]
    assert best.shape["host_pool_mib"] > 4_000
    assert best.shape["ttm_min_mib"] == 41_000
    assert best.checked.verdict is Verdict.FITS
