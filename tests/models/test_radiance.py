"""radiance: known answers from its ledgers and source, and agreement with the arithmetic written out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from measurements.site import Site
from models.declare import Outcome, Verdict
from models.engines import build, resolve
from models.evaluate import Evaluation, Reader, evaluate
from models.expr import Knob
from models.interval import GIB, KIB, MIB, Interval, point, size
from models.radiance.containers import recognise, state_groups
from tests import twin
from tests.made_sites import IQ4R, W4, Word, site

#: A container that facts describe whole, so that every figure of a test is its own.
DESCRIBED: dict[str, Word] = {
    "kv_page_fp8": 29_952, "kv_page_bf16": 56_576, "kv_block": 4, "kv_state": "110MiB", "checkpoint_bytes": "56MiB",
}
SHAPE: dict[str, str | int] = {
    "tp": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 2, "max_model_len": 262_144, "num_speculative_tokens": 3,
    "host_pool_mib": 12_288, "gpu_headroom_mib": 512,
}


def judged(engine: str, knobs: Mapping[str, str | int], facts: Mapping[str, Word], *, container: str = IQ4R,
           sessions: int | None = None) -> Evaluation:
    made = site(engine, container=container, knobs=SHAPE | dict(knobs), facts=facts, sessions=sessions)
    return evaluate(made.model, made.given, made.knobs)


def exact(found: Evaluation, name: str) -> int:
    quantity = found.quantities[name]
    assert quantity.low == quantity.high, f"{name} is not exact"
    assert quantity.value == quantity.low
    return quantity.low


class Read:
    """Single rows and constraints of one shape, where thousands of shapes are read."""

    def __init__(self, of: Site) -> None:
        self._model = of.model
        self._reader = Reader(of.model, of.given, of.knobs)
        self._requires = {require.name: require for require in of.model.requires}

    def exact(self, name: str) -> int:
        """The row's value, which must be known exactly."""
        value = self._reader.number(self._model.rows[name].expr)
        assert isinstance(value, Interval), f"{name} lacks {value}"
        assert value.exact, f"{name} is not exact"
        return value.low

    def fits(self, name: str) -> bool:
        """Whether the constraint holds, which must be decided."""
        truth = self._reader.condition(self._requires[name].holds)
        assert isinstance(truth, bool), f"{name} is open"
        return truth


def read(engine: str, knobs: Mapping[str, str | int], facts: Mapping[str, Word]) -> Read:
    return Read(site(engine, container=IQ4R, knobs=SHAPE | dict(knobs), facts=facts))


# --- the resolver of 1.0.x ----------------------------------------------------------------------------------------


UNIT: dict[str, Word] = {
    "card_total": "32GiB", "already_held": "512MiB", "activation_arena": "144MiB", "step_staging": 0,
    "static_weights": "2GiB", "expert_plane": "200GiB", "expert_layer_max": "1GiB", "unit_max": "2MiB", "spare": 0,
}


def test_the_resolvers_own_unit_test() -> None:
    # capacity 32 GiB, held 512 MiB, headroom 96, arena 144 MiB, statics 2 GiB, plane 200 GiB, ratio 0.75
    found = judged("radiance@1.0.5", {"gpu_headroom_mib": 96, "expert_vs_cache_ratio": "0.75"}, UNIT)
    assert exact(found, "claimable") == 32 * GIB - 752 * MIB
    assert exact(found, "elastic") == 32 * GIB - 752 * MIB - 2 * GIB
    assert 96 * MIB <= exact(found, "unclaimed") < 98 * MIB


def test_the_smaller_of_two_cards_binds() -> None:
    cards = {k: v for k, v in UNIT.items() if k not in ("card_total", "already_held")}
    one = judged("radiance@1.0.5", {}, UNIT | {"card_total": "16GiB"})
    two = judged("radiance@1.0.5", {}, cards | {
        "card_total.0": "16GiB", "card_total.1": "32GiB", "already_held.0": "512MiB", "already_held.1": "512MiB"})
    assert exact(two, "claimable") == exact(one, "claimable") == 16 * GIB - (512 + 512 + 144) * MIB


def test_a_card_too_small_is_refused() -> None:
    found = judged("radiance@1.0.5", {"gpu_headroom_mib": 96}, UNIT | {"card_total": "256MiB"})
    assert found.constraint("claimable_covers").verdict is Verdict.DOES_NOT_FIT
    assert found.constraint("claimable_covers").low == (256 - 752) * MIB
    assert found.outcome is Outcome.REFUSED_AT_BOOT


def test_a_cache_at_its_ceiling_gives_the_rest_to_the_experts() -> None:
    found = judged("radiance@1.0.5", {"max_num_seqs": 1, "max_model_len": 4096, "expert_vs_cache_ratio": "0.1"},
                   UNIT | {"expert_plane": "8GiB"})
    elastic, ceiling = exact(found, "elastic"), exact(found, "kv_ceiling")
    assert exact(found, "kv_cache") == ceiling
    assert exact(found, "experts") + exact(found, "prefill_staging") == min(elastic - ceiling, 8 * GIB)
    # what neither wants stays unclaimed
    assert exact(found, "unclaimed") > 512 * MIB + (elastic - ceiling - 8 * GIB)


def test_experts_at_their_plane_give_the_rest_to_the_cache() -> None:
    facts = UNIT | {"expert_plane": "8GiB"}
    found = judged("radiance@1.0.5", {"max_num_seqs": 64, "expert_vs_cache_ratio": "0.9"}, facts)
    assert exact(found, "experts") == 8 * GIB
    assert exact(found, "prefill_staging") == 0
    assert exact(found, "kv_cache") == exact(found, "elastic") - 8 * GIB


def test_an_integrated_gpu_leaves_an_eighth_to_the_host() -> None:
    base = exact(judged("radiance@1.0.5", {"gpu_headroom_mib": 96}, UNIT), "claimable")
    host = UNIT | {"integrated_gpu": 1, "mem_total": "64GiB"}
    assert exact(judged("radiance@1.0.5", {"gpu_headroom_mib": 96}, host), "claimable") == base - 8 * GIB + 96 * MIB
    # a headroom above the reserve stays
    wide = judged("radiance@1.0.5", {"gpu_headroom_mib": 9000}, host)
    assert exact(wide, "claimable") == base - 9000 * MIB + 96 * MIB
    # a ledger's own row wins
    said = host | {"left_to_host": "5GiB"}
    assert exact(judged("radiance@1.0.5", {"gpu_headroom_mib": 96}, said), "claimable") == base - 5 * GIB + 96 * MIB


@pytest.mark.parametrize(("weights", "kv"), [(20_000, 0), (0, 4_000), (20_000, 4_000), (0, 0)])
def test_stated_pools(weights: int, kv: int) -> None:
    found = judged("radiance@1.0.5", {"vram_weights_mib": weights, "vram_kv_mib": kv}, UNIT)
    before = 32 * GIB - (512 + 512 + 144) * MIB
    assert exact(found, "claimable") == before - (weights + kv) * MIB
    if weights:
        # the statics are inside a stated weights pool, and no staging region is taken from it
        assert exact(found, "elastic") == exact(found, "claimable")
        assert exact(found, "experts") == weights * MIB - 2 * GIB
        assert exact(found, "vram_weights") == weights * MIB
        assert exact(found, "prefill_staging") == 0
    else:
        assert exact(found, "elastic") == exact(found, "claimable") - 2 * GIB
        assert exact(found, "prefill_staging") > 0
    if kv:
        assert exact(found, "vram_kv") == kv * MIB
    elif weights:
        assert exact(found, "kv_cache") == min(before - weights * MIB, exact(found, "kv_ceiling"))


@pytest.mark.parametrize(("knobs", "taken"), [
    ({}, True), ({"placement": "expert_tiered"}, True), ({"placement": "all_vram"}, False),
    ({"placement": "layer_offload"}, False), ({"deterministic": 1}, False), ({"vram_weights_mib": 20_000}, False),
    ({"vram_kv_mib": 4_000}, True),
])
def test_where_a_staging_region_is_taken(knobs: dict[str, str | int], taken: bool) -> None:
    assert (exact(judged("radiance@1.0.5", knobs, UNIT), "prefill_staging") > 0) is taken


def test_no_staging_region_where_it_would_not_fit_twice() -> None:
    found = judged("radiance@1.0.5", {"expert_vs_cache_ratio": "0.0001", "max_num_seqs": 64}, UNIT)
    assert exact(found, "prefill_staging") == 0
    assert exact(found, "experts") > 0


def test_versions_that_charge_hardware_queues() -> None:
    queues = UNIT | {"hardware_queues": "100MiB"}
    before = exact(judged("radiance@1.0.8", {}, UNIT), "claimable")
    assert exact(judged("radiance@1.0.8", {}, queues), "claimable") == before
    assert exact(judged("radiance@1.0.9", {}, queues), "claimable") == before - 100 * MIB
    assert judged("radiance@1.0.9", {}, UNIT).unread["claimable"] == {"hardware_queues"}


ROWS = ("claimable", "elastic", "experts", "kv_cache", "prefill_staging", "vram_weights", "vram_kv", "unclaimed")


def drawn_boot(rng: random.Random) -> tuple[twin.Card, twin.Asked, twin.Pool, dict[str, str | int], dict[str, Word]]:
    """A boot of 1.0.x at random: figures of every size, so that each branch of the resolver is taken."""
    seqs, length = rng.randint(1, 24), rng.choice((4096, 65_537, 200_000, 262_144))
    fp8, spec, slots = rng.random() < 0.6, rng.randint(0, 3), rng.choice((0, 1, 8, 16))
    pool = twin.kv_pool(seqs=seqs, length=length, fp8=fp8, spec=spec, slots=slots)
    queues = rng.choice((0, rng.randint(0, 128 * MIB)))
    integrated = rng.choice((0, 0, 0, rng.randint(8 * GIB, 64 * GIB)))
    capacity = rng.randint(1 * GIB, 48 * GIB)
    card = twin.Card(
        capacity=capacity, held=rng.randint(0, GIB), arena=rng.randint(0, 2 * GIB), staging=rng.randint(0, 64 * MIB),
        queues=queues, statics=rng.randint(0, 6 * GIB), plane=rng.randint(1, 1 << rng.randint(24, 36)),
        layer=rng.randint(1, 1 << 18) * twin.PAGE, ceiling=pool.ceiling, integrated_ram=integrated,
    )
    half = capacity // MIB
    weights = rng.choice((0, 0, rng.randint(1, half)))
    kv = rng.choice((0, 0, rng.randint(1, half // 2)))
    stages = rng.random() < 0.7
    asked = twin.Asked(rng.randint(0, 1024), weights, kv, rng.randint(1, 9999) * 100, stages)
    knobs: dict[str, str | int] = {
        "tp": 2, "max_num_seqs": seqs, "max_model_len": length, "kv_cache_dtype": "fp8" if fp8 else "bf16",
        "num_speculative_tokens": spec, "checkpoint_slots": slots, "gpu_headroom_mib": asked.headroom_mib,
        "vram_weights_mib": weights, "vram_kv_mib": kv, "expert_vs_cache_ratio": f"0.{asked.ratio:06d}",
    }
    if not stages:
        knobs |= rng.choice(({"placement": "all_vram"}, {"placement": "layer_offload"}, {"deterministic": "1"}))
    facts: dict[str, Word] = {
        "card_total": capacity, "already_held": card.held, "activation_arena": card.arena, "step_staging": card.staging,
        "hardware_queues": queues, "static_weights": card.statics, "expert_plane": card.plane,
        "expert_layer_max": card.layer, "unit_max": 2 * MIB, "spare": 0,
    }
    if integrated:
        facts |= {"integrated_gpu": 1, "mem_total": integrated}
    return card, asked, pool, knobs, facts


def test_the_declared_budget_is_the_resolvers_own() -> None:
    rng = random.Random(20_261)
    seen = dict.fromkeys(("refused", "derived", "weights stated", "cache stated", "both stated", "staged"), 0)
    for _ in range(3000):
        card, asked, pool, knobs, facts = drawn_boot(rng)
        said = twin.resolve_1_0(card, asked)
        found = read("radiance@1.0.13", knobs, facts)
        refused = not found.fits("claimable_covers")
        assert refused is said.refused
        if refused:
            seen["refused"] += 1
            assert found.exact("claimable") == said.claimable
            continue
        stated = bool(asked.weights_mib) + 2 * bool(asked.kv_mib)
        seen[("derived", "weights stated", "cache stated", "both stated")[stated]] += 1
        seen["staged"] += said.prefill_staging > 0
        got = {name: found.exact(name) for name in ROWS}
        assert got == {name: getattr(said, name) for name in ROWS}, (card, asked)
        assert found.exact("kv_blocks") == pool.blocks(said.vram_kv), (card, asked)
        assert found.exact("kv_tokens") == 4 * pool.blocks(said.vram_kv)
        assert found.fits("kv_pool_opens") is (pool.blocks(said.vram_kv) > 0)
    assert min(seen.values()) >= 100, seen


def test_the_engines_floats_are_within_a_byte_and_a_page() -> None:
    # the engine takes the cache's share and the staged share in doubles; the twin and the model take them exactly
    rng = random.Random(7)
    for _ in range(20_000):
        elastic, ratio = rng.randint(0, 48 * GIB), rng.randint(1, 9999) * 100
        exactly = elastic * (1_000_000 - ratio) // 1_000_000
        assert abs(int(float(elastic) * (1.0 - ratio / 1_000_000)) - exactly) <= 1


# --- the KV block manager -----------------------------------------------------------------------------------------


def test_the_pool_of_two_real_ledgers_byte_for_byte() -> None:
    facts: dict[str, Word] = UNIT | {"kv_blocks": 131_044}
    made = site("radiance@1.0.13", container=IQ4R, knobs=SHAPE | {"vram_kv_mib": 4430}, facts={
        k: v for k, v in facts.items() if k != "kv_blocks"})
    found = evaluate(made.model, made.given, made.knobs)
    pool = twin.kv_pool(seqs=2, length=262_144, fp8=True, spec=3, slots=8)
    assert pool.fixed == 720_150_528
    assert exact(found, "kv_ceiling") == pool.ceiling
    assert round(pool.ceiling / MIB, 3) == 4430.789
    assert exact(found, "kv_blocks") == pool.blocks(4430 * MIB) == 131_044
    assert exact(found, "kv_tokens") == 524_176
    # the fixed part: the smallest pool that opens is one block above it
    assert found.constraint("kv_pool_opens").low == 4430 * MIB - 720_150_528 - 29_952


@pytest.mark.parametrize(("spec", "state", "checkpoint", "stride"), [
    (2, "109.998", "55.975", 56), (3, "110.39", "56.366", 58),
])
def test_states_by_draft_depth(spec: int, state: str, checkpoint: str, stride: int) -> None:
    pool = twin.kv_pool(seqs=1, length=4, fp8=True, spec=spec, slots=8)
    assert f"{pool.state / MIB:.{len(state.partition('.')[2])}f}" == state
    assert f"{pool.checkpoint / MIB:.3f}" == checkpoint
    assert pool.stride == stride * MIB
    assert 8 * pool.stride == (448 if spec == 2 else 464) * MIB
    # the declared groups are the same: one more sequence costs one state (on pages), one more slot a stride
    def fixed(**more: str | int) -> int:
        found = judged("radiance@1.0.13", {"num_speculative_tokens": spec, "vram_kv_mib": 4096} | more, UNIT)
        low = found.constraint("kv_pool_opens").low
        assert low is not None
        return 4096 * MIB - low

    assert fixed(checkpoint_slots=9) - fixed(checkpoint_slots=8) == stride * MIB
    assert abs(fixed(max_num_seqs=3) - fixed(max_num_seqs=2) - pool.state) < 5 * 4096
    assert fixed(checkpoint_slots=0) == fixed(checkpoint_slots=8) - 8 * stride * MIB - 2 * MIB


@pytest.mark.parametrize(("dtype", "rate"), [("fp8", 7_488), ("bf16", 14_144)])
def test_bytes_a_token(dtype: str, rate: int) -> None:
    def ceiling(length: int) -> int:
        knobs: dict[str, str | int] = {"kv_cache_dtype": dtype, "max_num_seqs": 1, "max_model_len": length}
        return exact(judged("radiance@1.0.13", knobs, UNIT), "kv_ceiling")

    assert ceiling(200_000) - ceiling(100_000) == 100_000 * rate
    assert ceiling(5) - ceiling(4) == 4 * rate  # whole blocks of four tokens
    assert ceiling(8) == ceiling(5)


def test_the_carve_is_the_engines_own() -> None:
    rng = random.Random(31)
    for _ in range(1500):
        seqs, length, fp8 = rng.randint(1, 64), rng.randint(1, 262_144), rng.random() < 0.5
        spec, slots, mib = rng.randint(0, 8), rng.randint(0, 32), rng.randint(1, 24_000)
        older = rng.random() < 0.5
        pool = twin.kv_pool(seqs=seqs, length=length, fp8=fp8, spec=spec, slots=slots, in_pool=older)
        found = read("radiance@1.0.13" if older else "radiance@1.2.2", {
            "max_num_seqs": seqs, "max_model_len": length, "kv_cache_dtype": "fp8" if fp8 else "bf16",
            "num_speculative_tokens": spec, "checkpoint_slots": slots, "vram_kv_mib": mib, "vram_weights_mib": 1000,
        }, UNIT)
        assert found.exact("kv_ceiling") == pool.ceiling
        assert found.exact("kv_blocks") == pool.blocks(mib * MIB)
        assert found.fits("pool_contract") is (pool.blocks(mib * MIB) >= seqs * -(-length // 4))
        assert found.fits("one_full_request") is (pool.blocks(mib * MIB) >= -(-length // 4))


def test_block_tables_move_with_sequences_and_length() -> None:
    rng = random.Random(5)
    base: dict[str, str | int] = {**SHAPE, "max_num_seqs": 2}
    facts = UNIT | {"hardware_queues": 0, "step_staging": "4MiB"}
    for _ in range(200):
        seqs, length = rng.randint(1, 256), rng.randint(1, 262_144)
        made = site("radiance@1.0.13", container=IQ4R, knobs=base | {"max_num_seqs": seqs, "max_model_len": length},
                    boot=base, facts=facts)
        before = site("radiance@1.0.13", container=IQ4R, knobs=base, facts=facts)
        moved = exact(evaluate(before.model, before.given, before.knobs), "claimable") - exact(
            evaluate(made.model, made.given, made.knobs), "claimable")
        assert moved == twin.block_tables(seqs, length) - twin.block_tables(2, 262_144)
    assert round(twin.block_tables(2, 262_144) / MIB, 2) == 3.0


#: Of 4 sequences of 200,000 tokens: two groups, three carvings, 4 x 50,001 entries of 4 bytes on 256.
TABLES_OF_FOUR = 6 * 800_256


@pytest.mark.parametrize(("stated", "said"), [(3 * MIB, True), (TABLES_OF_FOUR - 1, True), (TABLES_OF_FOUR, False),
                                              (4801 << 10, False)])
def test_staging_holds_the_tables_of_every_shape(stated: int, said: bool) -> None:
    assert twin.block_tables(4, 200_000) == TABLES_OF_FOUR == 4689 << 10
    base: dict[str, str | int] = {**SHAPE, "max_num_seqs": 4, "max_model_len": 200_000}
    facts = UNIT | {"hardware_queues": 0, "step_staging": stated}
    now = site("radiance@1.0.13", container=IQ4R, knobs=base, facts=facts)
    as_it_is = evaluate(now.model, now.given, now.knobs)
    # what is stated counts as it stands, for the boot it is of
    assert exact(as_it_is, "claimable") + stated == exact(judged("radiance@1.0.13", base, facts | {
        "step_staging": 0}), "claimable")
    assert any("step_staging does not add up" in text for text in as_it_is.notes) is said
    one = evaluate(now.model, now.given, now.knobs | {"max_num_seqs": 1})
    staging = stated - (exact(one, "claimable") - exact(as_it_is, "claimable"))
    assert staging == max(stated - TABLES_OF_FOUR, 0) + twin.block_tables(1, 200_000)


def test_the_declared_states_by_name() -> None:
    names = [group.name for group in state_groups(Knob)]
    assert names == ["kv_gdn_state", "kv_gdn_conv", "kv_qsa_tail", "kv_ple_tok", "kv_ple_conv"]


def test_a_described_container_is_carved_by_its_facts() -> None:
    found = judged("radiance@1.0.13", {"vram_kv_mib": 4430, "vram_weights_mib": 20_000}, UNIT | DESCRIBED, container="")
    fixed = 2 * 110 * MIB + 8 * 56 * MIB + 2 * MIB + 2 * 4096
    assert exact(found, "kv_blocks") == (4430 * MIB - fixed) // 29_952


# --- 1.1 to 1.8 ---------------------------------------------------------------------------------------------------


FUNDED: dict[str, Word] = {
    "card_total": "32624MiB", "already_held": "347MiB", "drift": 0, "activation_arena": "1126MiB",
    "step_staging": "3MiB", "hardware_queues": "100MiB", "prefetch": 0, "static_weights": "3420MiB",
    "expert_plane": "30368MiB", "unit_max": "1488KiB", "spare": "2976KiB", "expert_layer_max": "620MiB",
}
FOUR: dict[str, str | int] = {"max_num_seqs": 4, "max_model_len": 200_000, "gpu_headroom_mib": 96}


@pytest.mark.parametrize("engine", ["radiance@1.1.0", "radiance@1.2.2", "radiance@1.3.0", "radiance@1.8.1"])
def test_the_funding_is_the_documents_own(engine: str) -> None:
    rng = random.Random(engine)
    seen = dict.fromkeys(("refused", "capped", "short", "no floor", "full plane"), 0)
    for _ in range(700):
        seqs, length, spec = rng.randint(1, 24), rng.choice((8192, 65_536, 200_000, 262_144)), rng.randint(0, 3)
        fp8, host = rng.random() < 0.6, rng.choice((0, rng.randint(0, 45_000)))
        plane, spare = rng.randint(1 * MIB, 1 << rng.randint(30, 36)), rng.randint(0, 128 * MIB)
        capacity, statics = rng.randint(2 * GIB, 48 * GIB), rng.randint(0, 8 * GIB)
        held, drift, arena = rng.randint(0, GIB), rng.randint(0, 64 * MIB), rng.randint(0, GIB)
        pool = twin.kv_pool(seqs=seqs, length=length, fp8=fp8, spec=spec, slots=0, in_pool=False)
        found = read(engine, {
            "max_num_seqs": seqs, "max_model_len": length, "num_speculative_tokens": spec, "host_pool_mib": host,
            "kv_cache_dtype": "fp8" if fp8 else "bf16", "gpu_headroom_mib": 96,
        }, FUNDED | {"card_total": capacity, "already_held": held, "drift": drift, "activation_arena": arena,
                     "static_weights": statics, "expert_plane": plane, "spare": spare})
        before = capacity - held - drift - arena - 199 * MIB  # headroom 96, staging 3, queues 100
        said = twin.fund(capacity=before, statics=statics, plane=plane, spare=spare, host_pool=host * MIB,
                         demand=pool.ceiling)
        refused = not (found.fits("expert_floor_covered") and found.fits("claimable_covers"))
        assert refused is (said.refused or before < 0)
        seen["refused"] += refused
        if refused:
            continue
        for name in ("claimable", "elastic", "experts", "kv_cache", "vram_weights", "vram_kv"):
            assert found.exact(name) == getattr(said, name), name
        assert found.exact("prefill_staging") == 0
        assert found.exact("kv_blocks") == pool.blocks(said.vram_kv)
        seen["capped"] += said.kv_cache == pool.ceiling
        seen["short"] += said.kv_cache < pool.ceiling
        seen["no floor"] += host * MIB >= plane + spare
        seen["full plane"] += said.experts == plane + spare
    assert min(seen.values()) >= 20, seen


def test_the_seeds_worked_example() -> None:
    found = judged("radiance@1.8.1", FOUR, FUNDED)
    assert exact(found, "claimable") == 30_952 * MIB
    assert exact(found, "elastic") == 27_532 * MIB
    assert exact(found, "expert_floor") == (30_368 - 12_288) * MIB + 2976 * KIB
    assert exact(found, "kv_cache") == exact(found, "kv_ceiling")
    assert exact(found, "experts") == 27_532 * MIB - exact(found, "kv_ceiling")
    assert found.verdict is Verdict.FITS


def test_a_host_pool_exactly_full() -> None:
    # 1.2.2 printed 14,994 slab slots (64 of them shadow) with a host pool of 12,288 MiB: 10,148 units are pooled
    stride = 1_269_760
    found = judged("radiance@1.2.2", FOUR | {"max_num_seqs": 8, "gpu_headroom_mib": 3072}, {
        **{k: v for k, v in FUNDED.items() if k not in ("expert_plane", "unit_max", "spare", "expert_layer_max")},
        "spare": 64 * stride}, sessions=1)
    slots = found.quantities["slab_slots"]
    assert slots.value is not None
    assert abs(slots.value - 14_994) <= 1
    assert slots.low <= 14_994 <= slots.high
    assert exact(found, "expert_floor") == exact(found, "experts") == (25_078 + 64) * stride - 12_288 * MIB
    assert found.constraint("expert_floor_covered").verdict is Verdict.FITS


def test_host_ram_beyond_the_plane_buys_nothing() -> None:
    rows = ("expert_floor", "experts", "kv_cache", "vram_kv", "vram_weights", "kv_blocks")
    eight = FOUR | {"max_num_seqs": 8, "ngram_placement": "disk"}
    full = judged("radiance@1.8.1", eight | {"host_pool_mib": 30_371}, FUNDED)
    more = judged("radiance@1.8.1", eight | {"host_pool_mib": 31_011}, FUNDED)
    less = judged("radiance@1.8.1", eight | {"host_pool_mib": 12_288}, FUNDED)
    assert exact(full, "expert_floor") == 0
    assert [exact(full, name) for name in rows] == [exact(more, name) for name in rows]
    assert exact(less, "kv_cache") < exact(full, "kv_cache")
    pinned = [found.quantities["pinned_total"] for found in (full, more)]
    assert pinned[1].low - pinned[0].low == pinned[1].high - pinned[0].high == 2 * 640 * MIB


def test_demand_alone_changes_nothing() -> None:
    # past what the host pool funds, more sequences only move the demand
    rows = ("expert_floor", "experts", "kv_cache")
    eight = judged("radiance@1.8.1", FOUR | {"max_num_seqs": 8}, FUNDED)
    sixteen = judged("radiance@1.8.1", FOUR | {"max_num_seqs": 16}, FUNDED)
    # the test's facts are of each shape's own boot, so the tables are inside the given step staging
    assert [exact(eight, name) for name in rows] == [exact(sixteen, name) for name in rows]
    assert exact(sixteen, "kv_ceiling") > exact(eight, "kv_ceiling")
    assert eight.outcome is Outcome.PREEMPTS


def test_a_demand_that_is_met_counts_as_full() -> None:
    found = judged("radiance@1.8.1", FOUR, FUNDED)
    contract = found.constraint("pool_contract")
    assert contract.verdict is Verdict.FITS
    assert not contract.applies  # rounding to whole MiB took off the last tokens
    assert exact(found, "kv_tokens") < 4 * 200_000


def test_checkpoints_leave_the_pool_with_1_1() -> None:
    disk = FOUR | {"ngram_placement": "disk"}
    old = judged("radiance@1.0.13", disk, FUNDED)
    new = judged("radiance@1.1.0", disk, FUNDED)
    assert exact(old, "kv_ceiling") - exact(new, "kv_ceiling") == (8 * 58 + 2) * MIB
    # eight states were in the pool; the automatic policy keeps seven or eight a sequence, on both ranks
    pool = twin.kv_pool(seqs=4, length=200_000, fp8=True, spec=3, slots=8)
    assert new.quantities["pinned_total"].low - old.quantities["pinned_total"].high == 4 * 7 * 2 * pool.checkpoint


# --- containers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "container"), [
    (IQ4R, "iq4r"), (f"/models/{W4}", "w4"), ("iq4r", "iq4r"), ("W4", "w4"), ("", ""), ("llama-w4.rad", ""),
    ("qwen3.8-flash-next-q8.rad", ""), ("qwen3.6-flash-iq4r.rad", ""),
])
def test_a_container_by_its_name(name: str, container: str) -> None:
    assert recognise(name) == container


def test_slots_of_the_iq4r_container() -> None:
    constants = build(resolve("radiance@1.0.13"), container=IQ4R, tp=2).constants
    assert constants["movable_units"][0] == point(25_078)
    plane = constants["expert_plane"][0]
    assert plane.exact
    assert f"{plane.low / GIB:.3f}" == "29.656"
    # the stager's two buffers as two ledgers print them, from their own slabs
    layer = constants["expert_layer_max"][0].low
    for experts, printed in (("22.22GiB", 155.58), ("22.24GiB", 155.14)):
        share = (plane.low - size(experts).middle) / plane.low * layer / MIB
        assert abs(share - printed) < 0.25


def test_constants_hold_at_two_ranks_only() -> None:
    assert build(resolve("radiance@1.0.13"), container=IQ4R, tp=1).constants == {}
    found = judged("radiance@1.0.13", {"tp": 1}, {k: v for k, v in UNIT.items() if k != "spare"})
    assert {"kv_page_fp8"} <= set().union(*found.unread.values())


# --- pinned RAM ---------------------------------------------------------------------------------------------------


def test_pinned_ram_by_version() -> None:
    facts: dict[str, Word] = FUNDED | {"ngram_size": "48GiB"}
    shape = FOUR | {"host_pool_mib": 40_960, "prefix_cache_host_mib": 1024, "ngram_placement": "ram"}
    pools = 2 * 40_960 * MIB + 1024 * MIB
    mapped = judged("radiance@1.0.8", shape, facts).quantities["pinned_total"]
    assert (mapped.low, mapped.high) == (pools + 9 * MIB, pools + 2048 * MIB)
    table = judged("radiance@1.0.13", shape, facts).quantities["pinned_total"]
    assert (table.low, table.high) == (mapped.low + 48 * GIB, mapped.high + 48 * GIB)
    disk = judged("radiance@1.0.13", shape | {"ngram_placement": "disk"}, facts).quantities["pinned_total"]
    assert (disk.low, disk.high) == (mapped.low, mapped.high)
    unstated = judged("radiance@1.0.13", shape | {"ngram_placement": "unstated"}, facts)
    assert unstated.unread["pinned_total"] == {"ngram_table"}
    kept = judged("radiance@1.8.1", shape | {"checkpoint_slots": 4}, facts).quantities["pinned_total"]
    checkpoint = twin.kv_pool(seqs=1, length=4, fp8=True, spec=3, slots=8)
    assert kept.low == pools + 48 * GIB + 2048 * MIB + 4 * 2 * checkpoint.checkpoint
    assert kept.high == pools + 48 * GIB + 2048 * MIB + 4 * 2 * checkpoint.stride


@pytest.mark.parametrize(("fact", "constraint", "outcome"), [
    ("ttm_limit", "pinned_within_ttm", Outcome.REFUSED_AT_BOOT),
    ("memlock", "pinned_within_memlock", Outcome.REFUSED_AT_BOOT),
    ("mem_total", "pinned_within_ram", Outcome.OUT_OF_MEMORY_AT_BOOT),
])
def test_limits_of_the_host(fact: str, constraint: str, outcome: Outcome) -> None:
    shape = FOUR | {"ngram_placement": "disk", "checkpoint_slots": 0}
    need = 2 * 12_288 * MIB + 2048 * MIB
    fits = judged("radiance@1.8.1", shape, FUNDED | {fact: need})
    assert fits.constraint(constraint).low == 0
    assert fits.verdict is Verdict.FITS
    short = judged("radiance@1.8.1", shape, FUNDED | {fact: need - 1})
    assert short.constraint(constraint).verdict is Verdict.DOES_NOT_FIT
    assert short.outcome is outcome
    unknown = judged("radiance@1.8.1", shape, FUNDED)
    assert unknown.constraint(constraint).verdict is None
    assert unknown.constraint(constraint).missing == {fact}


@pytest.mark.parametrize(("length", "kept"), [(2048, 1), (4096, 2), (200_000, 7), (262_144, 8), (2047, 0)])
def test_automatic_checkpoint_slots(length: int, kept: int) -> None:
    found = judged("radiance@1.8.1", {"max_num_seqs": 4, "max_model_len": length}, FUNDED)
    assert found.shape["checkpoint_slots"] == Interval(4 * kept, 4 * (kept + 1))
