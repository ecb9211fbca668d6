"""``sensitivity``: what the operators' notes say of knobs comes out by itself, on sites and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measurements.site import load, read_site
from models.evaluate import Reader
from models.interval import GIB, MIB, Interval
from optimizer import many, spread
from optimizer.check import MissingFacts, check
from optimizer.sensitivity import KnobWorth, Sensitivity, sensitivity
from optimizer.solve import Question, ask, bound_condition, hard_requires, solve
from optimizer.spread import Chance
from tests.made_sites import IQ4R, site
from tests.optimizer.servers import Said
from tests.optimizer.servers import ask as run
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]
SITES = Path(__file__).resolve().parents[2] / "measurements" / "sites"
FUNDED = {"card_total": "32624MiB", "already_held": "347MiB", "drift": "0MiB", "activation_arena": "1126MiB",
          "step_staging": "5MiB", "hardware_queues": "100MiB", "prefetch": "0MiB", "static_weights": "3420MiB"}


_TOLD: dict[tuple[str, ...], dict[str, Any]] = {}


def told(capsys: Capture, *words: str, again: bool = False) -> dict[str, Any]:
    """The answer as a document; asked once, unless ``again``."""
    if words not in _TOLD or again:
        said: Said = run(capsys, "sensitivity", *words, "--json")
        assert said.code == 0
        valid("sensitivity", said.document)
        _TOLD[words] = said.document
    return _TOLD[words]


def knob_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(knob for knob in document["knobs"] if knob["knob"] == name)
    return found


@pytest.mark.parametrize("goal", ["sessions", "headroom", "host-ram"])
def test_raising_the_reserve_never_gives_memory_back(goal: str, capsys: Capture) -> None:
    """Operator note 004: the reserve is a term of the fit check, and no allocation."""
    reserve = knob_of(told(capsys, str(SITES / "unified-memory"), "--goal", goal), "host_reserve_gib")
    assert [(reserve[side]["reoptimised"], reserve[side]["fixed"]) for side in ("down", "up")] == [(0, 0), (0, 0)]
    assert reserve["moves"] == {"device_budget": {"by": -GIB, "unit": "B"}}
    assert "kv_pool_fit holds either way" in reserve["nothing"]


def test_the_reserves_of_note_004_come_out_by_themselves(capsys: Capture) -> None:
    """524,288 positions at max_tok 32,768 with vision: 24 and 18 clamp, 17 stands on the edge, 16 and 15 fit."""
    reserve = knob_of(told(capsys, str(SITES / "unified-memory"), "--goal", "sessions"), "host_reserve_gib")
    rungs = {value: rung for rung in reserve["running"] for value in (15, 16, 17, 18, 24)
             if rung["from"] <= value <= rung["to"]}
    assert {value: (rung["verdict"], rung["outcome"]) for value, rung in rungs.items()} == {
        15: ("fits", "serves"), 16: ("fits", "serves"), 17: ("knife_edge", "clamped"),
        18: ("does_not_fit", "clamped"), 24: ("does_not_fit", "clamped")}
    assert rungs[15] is rungs[16]
    assert reserve["stays_best"] == {"from": None, "to": 16}
    assert all(rungs[value]["broken"] == ["kv_pool_fit"] for value in (17, 18, 24))


def funded(goal: str, sequences: int, pool: int, sessions: int) -> dict[str, KnobWorth]:
    """radiance 1.8.1 with a host pool that does not move."""
    made = site("radiance@1.8.1", container=IQ4R, facts=FUNDED, sessions=sessions, knobs={
        "max_num_seqs": sequences, "max_model_len": 200_000, "tp": 2, "kv_cache_dtype": "fp8",
        "num_speculative_tokens": 2, "gpu_headroom_mib": 96, "host_pool_mib": pool, "ngram_placement": "disk",
        "placement": "expert_tiered"})
    found = sensitivity(ask(made, goal, given={"host_pool_mib": str(pool)}, top=1),
                        knobs=("max_num_seqs", "host_pool_mib"), facts=())
    assert isinstance(found, Sensitivity)
    return {worth.knob: worth for worth in found.knobs}


def test_the_demand_knob_of_181_changes_nothing() -> None:
    """Operator note 000: the cache is what the host pool funds; a higher demand raises the demand alone."""
    demand = funded("sessions", 12, 12_288, 4)["max_num_seqs"]
    assert [(move.reoptimised, move.alone) for move in (demand.down, demand.up) if move] == [(0, 0), (0, 0)]
    assert demand.nothing is not None
    assert "kv_ceiling stays above (claimable, elastic, expert_floor)" in demand.nothing
    slab = funded("slab", 12, 12_288, 4)["max_num_seqs"]
    assert slab.nothing is not None
    assert "in experts, expert_floor counts: it is more than (elastic, kv_ceiling) by 8." in slab.nothing


def test_a_host_pool_beyond_the_plane_changes_nothing() -> None:
    """Operator note 000: past the expert plane, more host RAM moves no byte of VRAM."""
    for goal in ("sessions", "slab"):
        pool = funded(goal, 8, 44_928, 8)["host_pool_mib"]
        assert pool.down is not None
        assert (pool.down.reoptimised, pool.down.alone) == (0, 0)
        assert set(pool.moves) == {"pinned_total"}
        assert pool.nothing is not None
        assert ("in expert_floor, 0 counts: it is more than (expert_plane, spare, host_pool_mib, ...) by 14."
                in pool.nothing)
    below = funded("slab", 8, 20_000, 8)["host_pool_mib"]
    assert below.nothing is not None
    assert "in experts, (elastic, kv_ceiling) counts: it is more than expert_floor by" in below.nothing


def test_two_knobs_may_be_worth_more_together(capsys: Capture) -> None:
    """Without the fit check and with a smaller step, three sessions are had; either by itself gains none."""
    document = told(capsys, str(SITES / "unified-memory"), "--goal", "sessions")
    pairs = [pair for pair in document["together"] if pair["knobs"] == {"kv_pool_fit": 0, "max_tok": 24_576}]
    assert pairs == [{"knobs": {"kv_pool_fit": 0, "max_tok": 24_576}, "together": 1, "apart": [0, 0], "more": 1}]


def test_a_step_of_the_stated_pair(capsys: Capture) -> None:
    """64 MiB of slab are 64 MiB of slab; the headroom takes what it is given; more sequences take their cache."""
    document = told(capsys, str(SITES / "stated-pair"), "--goal", "slab", "--fact", "static_weights=4.03GiB")
    assert (knob_of(document, "gpu_headroom_mib")["up"]["reoptimised"],
            knob_of(document, "gpu_headroom_mib")["down"]["reoptimised"]) == (-64 * MIB, 48 * MIB)
    assert knob_of(document, "vram_weights_mib")["down"]["reoptimised"] == -64 * MIB
    assert knob_of(document, "vram_weights_mib")["up"]["reoptimised"] is None
    sequences = knob_of(document, "max_num_seqs")["up"]
    assert -1700 * MIB < sequences["reoptimised"] < -1400 * MIB
    assert sequences["fixed"] is None
    assert sequences["fixed_verdict"] == "does_not_fit"


@pytest.mark.parametrize(("name", "goal"), [
    ("stated-pair", "context"), ("two-r9700", "sequences"), ("host-pool", "slab"), ("unified-memory", "sessions"),
])
def test_drifts_and_ranges_hold_by_plain_arithmetic(name: str, goal: str) -> None:
    """One short of where it is said to flip everything holds for sure, and there it does not."""
    question = ask(load(read_site(SITES / name)), goal, top=1)
    found = sensitivity(question)
    assert isinstance(found, Sensitivity)
    flips = 0
    for fact in found.facts:
        for drift, sign in zip(fact.flips, (-1, 1), strict=True):
            if drift is not None:
                flips += 1
                for by, wanted in ((drift - 1, True), (drift, False)):
                    value = Interval(fact.value.low + sign * by, fact.value.high + sign * by)
                    assert surely(question, found.best.shape, {fact.fact: value}) is wanted, (fact.fact, sign, by)
    assert flips >= 2
    ends = 0
    for worth in found.knobs:
        if worth.free or worth.stays is None:
            continue
        for end in worth.stays:
            if end is not None:
                ends += 1
                assert surely(question, found.best.shape | {worth.knob: end}, {}), worth.knob
    assert ends >= 1


def surely(question: Question, shape: Mapping[str, int], facts: Mapping[str, Interval]) -> bool:
    given = question.site.given
    reader = Reader(question.site.model, replace(given, facts={**given.facts, **facts}, printed={}), shape)
    conditions = [require.holds for require in hard_requires(question)]
    conditions += [bound_condition(question.site.model, bound) for bound in question.bounds]
    return all(reader.condition(condition) is True for condition in conditions
               if reader.condition(condition) in (True, False, None))


def test_speeds_are_priced_too(capsys: Capture) -> None:
    document = told(capsys, str(SITES / "stated-pair"), "--goal", "prefill")
    sequences = knob_of(document, "max_num_seqs")
    assert sequences["down"]["reoptimised"] > 300  # their cache becomes slab
    assert sequences["up"]["reoptimised"] < -300
    assert sequences["down"]["fixed"] == 0
    assert knob_of(document, "kv_cache_dtype")["down"]["why_not"]
    assert knob_of(document, "host_pool_mib")["nothing"]
    assert document["laws"]


def test_what_is_infeasible_is_told_as_solve_tells_it(capsys: Capture) -> None:
    words = (str(SITES / "stated-pair"), "--goal", "slab", "--given", "max_num_seqs=8",
             "--at-least", "vram_weights=25600MiB")
    said = run(capsys, "sensitivity", *words, "--json")
    assert said.code == 3
    assert said.document == run(capsys, "solve", *words, "--top", "1", "--json").document


@pytest.mark.parametrize("words", [
    ("--goal", "speed"), ("--samples", "100", "--global"), ("--samples", "0", "--global"), ("--seed", "-1"),
])
def test_wrong_words(words: tuple[str, ...], capsys: Capture) -> None:
    said = run(capsys, "sensitivity", str(SITES / "unified-memory"), *words)
    assert said.code == 2


def test_all_facts_at_once(capsys: Capture) -> None:
    words = (str(SITES / "two-r9700"), "--goal", "slab", "--global", "--samples", "32")
    document = told(capsys, *words)
    found = document["global"]
    assert document == told(capsys, *words, again=True)  # the same seed
    assert (found["samples"], found["running_fits"]["share"], found["best_fits"]["share"]) == (32, 1, 1)
    low, middle, high = (found["goal"][end] for end in ("low", "median", "high"))
    assert low < middle < high
    assert 10 * MIB < high - low < 30 * MIB  # three print steps of 0.01 GiB, added up
    # three prints of one step each make all of it, and alike
    shares = {share["fact"]: share["total"] for share in found["shares"]}
    three = ("card_total", "activation_arena", "static_weights")
    assert sum(shares[name] for name in three) == pytest.approx(1, abs=0.2)
    assert all(shares[name] > 0.15 for name in three)
    assert all(value < 0.05 for name, value in shares.items() if name not in three)
    assert found["explained"] == "slab"


def test_a_knife_edge_has_a_chance(capsys: Capture) -> None:
    """At a reserve of 17 the running shape hangs on digits nobody printed."""
    document = told(capsys, str(SITES / "unified-memory"), "--goal", "sessions", "--set", "host_reserve_gib=17",
                    "--global", "--samples", "64")
    found = document["global"]
    assert 0 < found["running_fits"]["share"] < 1
    assert found["running_fits"]["low"] < found["running_fits"]["share"] < found["running_fits"]["high"]
    assert found["best_fits"]["share"] == 1
    assert max(found["shares"], key=lambda share: share["total"])["fact"] == "fit_margin_vision"


def test_without_salib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "SALib.sample", None)
    said = run(capsys, "sensitivity", str(SITES / "unified-memory"), "--goal", "sessions", "--global")
    assert said.code == 2
    assert "pip install 'shapewright[global]'" in said.err


def test_shares_of_draws_have_wilson_intervals() -> None:
    assert Chance(8, 10).ends == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert Chance(10, 10).ends == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert Chance(0, 10).ends == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_what_neither_search_decides_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "MOST_ROUNDS", 1)
    question = ask(load(read_site(SITES / "two-r9700")), "slab", top=1)
    found = sensitivity(question, knobs=("max_num_seqs",), facts=("card_total",))
    assert isinstance(found, Sensitivity)
    by_solver = {worth.knob: worth.up for worth in found.knobs}
    monkeypatch.undo()
    again = sensitivity(question, knobs=("max_num_seqs",), facts=("card_total",))
    assert isinstance(again, Sensitivity)
    assert {worth.knob: worth.up for worth in again.knobs} == by_solver  # CP-SAT says the same
    assert "down" in found.facts[0].open
    assert again.facts[0].open == ()


def test_tables_for_the_terminal(capsys: Capture) -> None:
    said = run(capsys, "sensitivity", str(SITES / "unified-memory"), "--goal", "sessions", "--global", "--samples",
               "16")
    assert said.code == 0
    for words in ("halogen 0.13.0", "a step of the goal is 1", "kv_pool_positions", "458,752", "knife edge",
                  "Worth more together", "kv_pool_fit 0 and max_tok 24,576: +1", "it moves device_budget",
                  "What becomes of the running shape", "18 to 1,000", "How far each fact may drift",
                  "All uncertain facts at once", "nobody measured that"):
        assert words in " ".join(said.out.split()), words
    assert spread.RULE


def test_a_gain_of_speed_is_the_laws_own(capsys: Capture) -> None:
    """Not that of the straight stretches which the search has of it."""
    pair = str(SITES / "stated-pair")
    document = told(capsys, pair, "--goal", "prefill")

    def best(*words: str) -> float:
        shapes = run(capsys, "solve", pair, "--goal", "prefill", "--top", "1", *words, "--json").document["shapes"]
        return float(shapes[0]["objective"]["value"])

    now = best()
    for name, value in (("max_num_seqs", 2), ("gpu_headroom_mib", 160), ("num_speculative_tokens", 3)):
        worth = knob_of(document, name)
        gain = next(worth[side]["reoptimised"] for side in ("down", "up") if worth[side]["to"] == value)
        assert gain == pytest.approx(best("--given", f"{name}={value}") - now, abs=0.002), name


@pytest.mark.parametrize("name", ["stated-pair", "two-r9700", "host-pool", "unified-memory"])
def test_ranges_of_the_running_shape_are_checks_own(name: str) -> None:
    """At both ends of each range, with that knob alone set: gates stay, and defaults follow."""
    own = load(read_site(SITES / name))
    found = sensitivity(ask(own, "host-ram", top=1), facts=())
    assert isinstance(found, Sensitivity)
    ends = 0
    for worth in found.knobs:
        for rung in worth.rungs:
            for value in (rung.low, rung.high):
                said = check(own, {**own.knobs, worth.knob: value})
                assert (said.verdict, said.outcome) == (rung.verdict, rung.outcome), (worth.knob, value)
                ends += 1
    assert ends >= 50


def test_defaults_that_follow_are_not_frozen() -> None:
    """Prompt-cache entries follow the slots and the branches on halogen from 0.13.3 on."""
    made = site("halogen@0.17.4", container="v2", facts={"mem_total": "121.2159GiB", "host_left": "12GiB"}, knobs={
        "ctx": 262_144, "kv_pool_positions": 262_144, "max_tok": 16_384, "kv_slots": 4, "host_reserve_gib": 20})
    found = sensitivity(ask(made, "host-ram", top=1), knobs=("kv_slots", "cache_branches"), facts=())
    assert isinstance(found, Sensitivity)
    for worth in found.knobs:
        assert {rung.verdict.word for rung in worth.rungs} >= {"fits", "does_not_fit"}, worth.knob
        assert worth.stays is not None
        assert worth.stays[1] is not None


def test_what_nobody_stated_is_not_priced(capsys: Capture) -> None:
    words = (str(SITES / "host-pool"), "--goal", "host-ram")
    placement = knob_of(told(capsys, *words), "ngram_placement")
    assert placement["down"]["to"] == "unstated"
    assert placement["down"]["reoptimised"] is None
    assert placement["down"]["why_not"] == "not known without ngram_table"
    assert placement["up"]["reoptimised"] > 47 * GIB  # on disk it takes no RAM
    assert run(capsys, "solve", *words, "--given", "ngram_placement=unstated").code == 4
    wire = knob_of(told(capsys, str(SITES / "stated-pair"), "--goal", "prefill"), "tp_wire")
    assert wire["down"]["why_not"]


def test_what_lies_outside_the_data_is_said(capsys: Capture) -> None:
    said = run(capsys, "sensitivity", str(SITES / "stated-pair"), "--goal", "prefill", "--extrapolate")
    assert "Extrapolated: nobody measured there" in said.out


def test_a_shape_that_fits_but_was_not_measured_is_not_called_unfit(capsys: Capture) -> None:
    said = run(capsys, "sensitivity", str(SITES / "stated-pair"), "--goal", "balanced")
    line = next(line for line in said.out.splitlines() if line.startswith("vram_weights_mib"))
    assert line.count("outside the data") == 2
    assert "no fit: no shape fits there, or none within the data" in said.out


def test_a_step_that_needs_facts_nobody_gave_is_not_known() -> None:
    """Of an unknown container only the fp8 pages are known: solve asks for those of bf16, and no gain stands for them.
    """
    made = site("radiance@1.0.13", facts={
        "pair_ceiling": "30969MiB", "settle_floor": "209MiB", "static_weights": "4GiB", "kv_page_fp8": "26KiB",
        "kv_block": 4, "kv_state": "110MiB", "checkpoint_bytes": "55MiB"}, knobs={
        "tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 3, "max_model_len": 100_000, "vram_weights_mib": 22_208,
        "vram_kv_mib": 6912, "num_speculative_tokens": 2, "host_pool_mib": 40_960})
    question = ask(made, "context", top=1)
    found = sensitivity(question)
    assert isinstance(found, Sensitivity)
    knobs = {worth.knob: worth for worth in found.knobs}
    down = knobs["kv_cache_dtype"].down
    assert down is not None
    assert (down.reoptimised, down.alone, down.verdict, down.why_not) == (
        None, None, None, "not known without kv_page_bf16")
    assert knobs["kv_cache_dtype"].rungs == ()
    with pytest.raises(MissingFacts):
        solve(ask(made, "context", given={"kv_cache_dtype": "bf16"}, top=1))
    # how far experts may lose memory depends on the plane, which nobody gave
    assert knobs["host_pool_mib"].down is not None
    assert "expert_plane" in knobs["host_pool_mib"].down.why_not
    assert any("vram_weights_mib is not lowered" in text for text in found.warnings)
    assert found.base == solve(question).shapes[0].objective.low


def test_differences_carry_their_own_unit() -> None:
    """Tokens are no bytes: what is worked on at once is the least of max_tok and ctx."""
    made = site("halogen@0.13.0", container="w4b", facts={"mem_total": "121.2159GiB"}, knobs={
        "ctx": 16_384, "kv_pool_positions": 262_144, "max_tok": 65_536, "host_reserve_gib": 20})
    found = sensitivity(ask(made, "host-ram", top=1), knobs=("max_tok",), facts=())
    assert isinstance(found, Sensitivity)
    (worth,) = found.knobs
    assert worth.nothing is not None
    assert "ctx counts: it is less than max_tok by 49,152 tokens" in worth.nothing
