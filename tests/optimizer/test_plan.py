"""Plans that operators would make: the notes' own moves, one knob at a time, in the only order that works."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

import measurements
from measurements.site import Site, load, read_site
from models.declare import EngineModel
from models.engines import build, resolve
from models.interval import MIB
from optimizer.check import MissingFacts
from optimizer.plan import MOST, Plan, Target, plan, stated_target
from tests.made_sites import IQ4R, site
from tests.optimizer.servers import BUDGET, FUNDED, HALOGEN_CLAMPED, HOST, Server, ask, funded_env, halogen_env
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]
SITES = Path(measurements.__file__).parent / "sites"


def told(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    """The plan's document, valid."""
    said = ask(capsys, "plan", *words, "--json")
    assert said.code == code, said
    valid("error" if code in (2, 4) else "plan", said.document)
    return said.document


def order(document: Mapping[str, Any]) -> list[set[str]]:
    return [set(step["changes"]) for step in document["steps"]]


def example(name: str) -> Site:
    return load(read_site(SITES / name))


def to(of: Site, **values: str) -> Plan:
    return plan(of, stated_target(of, values))


def test_a_stated_pair_trades_pool_for_slab_in_one_deploy(capsys: Capture) -> None:
    """Note 001's own change: both pools under one ceiling of 30,969 MiB."""
    found = told(capsys, str(SITES / "stated-pair"), "--to", "vram_weights_mib=25600", "--to", "vram_kv_mib=5369")
    assert order(found) == [{"vram_weights_mib", "vram_kv_mib"}]
    step = found["steps"][0]
    assert step["moves"] == [["vram_weights_mib", "vram_kv_mib"]]
    assert step["back"] == {"vram_weights_mib": 22_208, "vram_kv_mib": 6912}
    assert (step["nearest"]["name"], step["nearest"]["slack"]) == ("pair_ceiling", 0)
    rows = {row["row"]: row for row in step["rows"]}
    assert rows["vram_weights"]["change"] == (25_600 - 22_208) * MIB
    assert rows["vram_kv"]["after"]["value"] == 5369 * MIB
    assert any("settled at" in text for text in step["reads"])


def test_both_pools_up_are_two_deploys() -> None:
    found = to(example("stated-pair"), vram_weights_mib="23000", vram_kv_mib="7400")
    assert [tuple(step.changes) for step in found.steps] in (
        [("vram_weights_mib",), ("vram_kv_mib",)], [("vram_kv_mib",), ("vram_weights_mib",)])
    assert found.orders == 2


def test_the_readme_plan(capsys: Capture) -> None:
    """The window shrinks before the pool does; what changes the arena comes while there is room."""
    found = told(capsys, str(SITES / "stated-pair"), "--goal", "context", "--given", "max_num_seqs=4", "--at-least",
                 "vram_weights=25600MiB")
    assert order(found) == [{"max_model_len"}, {"max_num_seqs"}, {"vram_weights_mib", "vram_kv_mib"}]
    assert [step["unmeasured"] for step in found["steps"]] == [False, True, True]
    assert {item["name"] for item in found["steps"][1]["again"]} == {"pair_ceiling", "settle_floor"}
    assert found["steps"][0]["why"][0]["stop"]["broken"][0]["name"] == "pool_contract"
    assert found["orders"] == 4
    assert (found["target"]["goal"], found["target"]["rank"]) == ("context", 1)


def test_a_host_pool_takes_its_gates_along(capsys: Capture) -> None:
    """Note 000: when pool or slots change, TTM_MIN_MIB and its target change in the same commit."""
    found = told(capsys, str(SITES / "host-pool"), "--to", "max_num_seqs=8", "--to", "host_pool_mib=15226")
    assert order(found) == [{"host_pool_mib"}, {"max_num_seqs"}]
    gates = [[(item["knob"], item["from"], item["to"]) for item in step["along"]] for step in found["steps"]]
    assert gates[0] == [("ttm_min_mib", 83_328, 89_204), ("ttm_target_mib", 87_424, 93_300)]
    assert gates[1] == [("ttm_min_mib", 89_204, 92_788), ("ttm_target_mib", 93_300, 96_884)]
    assert found["steps"][1]["back"] == {"max_num_seqs": 4, "ttm_min_mib": 89_204, "ttm_target_mib": 93_300}
    rows = {row["row"]: row for row in found["steps"][1]["rows"]}
    assert rows["kv_tokens"]["change"] > 0
    assert not any(row["change"] for row in found["steps"][0]["rows"])


def test_gates_that_are_asked_for_count_with_what_they_follow() -> None:
    found = to(example("host-pool"), max_num_seqs="8", host_pool_mib="15226", ttm_min_mib="95000",
               ttm_target_mib="97000")
    assert [tuple(step.changes) for step in found.steps] == [("host_pool_mib",), ("max_num_seqs",)]
    assert [(item.knob, item.after) for item in found.steps[1].along] == [
        ("ttm_min_mib", 95_000), ("ttm_target_mib", 97_000)]
    alone = to(example("host-pool"), ttm_min_mib="84000", ttm_target_mib="88000")
    assert [set(step.changes) for step in alone.steps] == [{"ttm_min_mib", "ttm_target_mib"}]
    assert alone.status == "planned"


def test_the_reserve_comes_down_before_the_pool_goes_up_and_back_after(capsys: Capture) -> None:
    """Note 004: at reserve 20 the pool would be halved in silence."""
    small = ("--set", "host_reserve_gib=20", "--set", "kv_pool_positions=262144")
    up = told(capsys, str(SITES / "unified-memory"), *small, "--to", "kv_pool_positions=524288", "--to",
              "host_reserve_gib=15")
    assert order(up) == [{"host_reserve_gib"}, {"kv_pool_positions"}]
    reason = up["steps"][1]["why"][0]
    assert (reason["kind"], reason["step"]) == ("after", 1)
    assert reason["stop"]["broken"][0]["name"] == "kv_pool_fit"
    assert reason["stop"]["broken"][0]["outcome"] == "clamped"
    assert any("LOWERING THE POOL" in text for text in up["steps"][1]["reads"])
    assert not any("LOWERING THE POOL" in text for text in up["steps"][0]["reads"])
    down = told(capsys, str(SITES / "unified-memory"), "--to", "kv_pool_positions=262144", "--to",
                "host_reserve_gib=20")
    assert order(down) == [{"kv_pool_positions"}, {"host_reserve_gib"}]
    assert up["orders"] == down["orders"] == 1


TWO = {"ctx": "262144", "kv_pool_positions": "262144"}


def cramped() -> Site:
    """A pool at its context, and a reserve under which no pool beyond a context fits."""
    return site("halogen@0.13.0", container="w4b", facts={"mem_total": "127104060KiB"}, knobs={
        "ctx": 131_072, "kv_pool_positions": 131_072, "host_reserve_gib": 45, "vision_tower": 1})


def test_a_step_that_needs_two_knobs_says_which_limit_forbids_either() -> None:
    found = to(cramped(), **TWO)
    assert found.status == "two_knobs"
    (step,) = found.steps
    assert step.moves == (("ctx",), ("kv_pool_positions",))
    stops = {stop.knobs: [item.require.name for item in stop.broken] for stop in step.alone}
    assert stops == {("ctx",): ["pool_holds_context", "sessions_held"], ("kv_pool_positions",): ["kv_pool_fit"]}


def test_what_no_plan_of_these_knobs_can_do_is_not_said_of_all(tmp_path: Path, capsys: Capture) -> None:
    """The reserve lowered first, a plan of one knob a deploy leads to the same pool and context."""
    words = Server("halogen@0.13.0", {"h.env": "HALOGEN_CHECKPOINT=qwen38-flash-next-w4b.hgn\nHALOGEN_VISION_TOWER=1\n"
                                      "HALOGEN_CTX=131072\nHALOGEN_KV_POOL_POSITIONS=131072\n"
                                      "HALOGEN_HOST_RESERVE_GIB=45\n"}, facts=HOST).words(tmp_path)
    target = ("--to", "ctx=262144", "--to", "kv_pool_positions=262144")
    said = " ".join(ask(capsys, "plan", *words, *target).out.split())
    assert "two knobs at once in it" in said
    assert "one at a time would take a knob outside the target, or a stop half-way" in said
    assert "lower host_reserve_gib" in said
    assert told(capsys, *words, *target, "--to", "host_reserve_gib=15")["two_knob_deploys"] == 0


def test_the_pool_and_a_placement_never_move_together() -> None:
    of = cramped()
    of = replace(of, model=replace(of.model, placement_knobs=("ctx",)))
    found = to(of, **TWO)
    assert (found.status, found.steps, found.mixed) == ("no_path", (), (("ctx", "kv_pool_positions"),))
    assert {stop.knobs for stop in found.stops} == {("ctx",), ("kv_pool_positions",)}
    far = to(of, max_tok="16384", **TWO)
    assert (far.status, set(far.reached)) == ("no_path", {"max_tok"})


def test_gates_and_pools_are_declared_with_the_engine() -> None:
    for engine in ("radiance@1.0.13", "radiance@1.2.2", "radiance@1.8.1", "halogen@0.13.0"):
        model: EngineModel = build(resolve(engine), container="")
        assert model.reads
        assert model.pool_knobs
        assert {*model.pool_knobs, *model.placement_knobs, *(knob for pair in model.trades for knob in pair)} <= set(
            model.knobs)


def test_a_target_that_does_not_fit(capsys: Capture) -> None:
    found = told(capsys, str(SITES / "stated-pair"), "--to", "vram_kv_mib=9000", code=3)
    assert found["status"] == "does_not_fit"
    short = {item["name"]: item["short"] for item in found["stops"][0]["broken"]}
    assert short["pair_ceiling"] == (22_208 + 9000 - 30_969) * MIB
    edge = told(capsys, str(SITES / "unified-memory"), "--to", "host_reserve_gib=17", code=3)
    assert (edge["status"], edge["target"]["verdict"]) == ("does_not_fit", "knife_edge")


def test_what_runs_may_be_anything(tmp_path: Path, capsys: Capture) -> None:
    words = Server("halogen@0.13.0", halogen_env(reserve=24), facts=HOST).words(tmp_path)
    assert ask(capsys, "check", *words).code == 3
    found = told(capsys, *words, "--to", "host_reserve_gib=15", "--to", "max_tok=16384")
    assert found["current"] == {"verdict": "does_not_fit", "outcome": "clamped"}
    assert found["deploys"] == 2


def test_nothing_to_deploy(tmp_path: Path, capsys: Capture) -> None:
    assert told(capsys, str(SITES / "stated-pair"), "--to", "max_num_seqs=3")["deploys"] == 0
    words = Server("halogen@0.13.0", halogen_env(reserve=24), facts=HOST).words(tmp_path)
    found = told(capsys, *words, "--to", "host_reserve_gib=24", code=3)
    assert (found["status"], found["stops"][0]["knobs"]) == ("does_not_fit", [])


def test_an_infeasible_goal_is_told_as_solve_tells_it(capsys: Capture) -> None:
    found = told(capsys, str(SITES / "stated-pair"), "--goal", "slab", "--at-least", "vram_weights=40000MiB", code=3)
    assert found["status"] == "infeasible"


@pytest.mark.parametrize("words", [
    (), ("--goal", "slab", "--to", "max_num_seqs=4"), ("--to", "max_num_seqs=4", "--given", "max_num_seqs=4"),
    ("--to", "max_num_seqs=4", "--rank", "2"), ("--to", "tp=4"), ("--to", "model=other.rad"), ("--to", "gone=1"),
    ("--to", "max_num_seqs=none"), ("--to", "checkpoint_slots=auto"), ("--to", "embedding_placement=ram"),
    ("--goal", "slab", "--given", "tp=1"),
    ("--goal", "slab", "--given", "vram_weights_mib=22208", "--given", "vram_kv_mib=6912", "--rank", "2"),
])
def test_wrong_words(words: tuple[str, ...], capsys: Capture) -> None:
    assert told(capsys, str(SITES / "stated-pair"), *words, code=2)["error"]["kind"] == "usage"


def test_missing_facts_are_named(tmp_path: Path, capsys: Capture) -> None:
    bare = Server(FUNDED.engine, funded_env(), facts=BUDGET[:1])
    found = told(capsys, *bare.words(tmp_path), "--to", "max_num_seqs=5", code=4)
    assert "activation_arena" in {item["name"] for item in found["missing"]}


def test_a_way_that_hangs_on_missing_facts_asks_for_them() -> None:
    """Lowering the host pool may leave experts without a place: without the plane nobody can tell."""
    of = site("radiance@1.0.13", container="", knobs={
        "tp": 2, "vram_weights_mib": 22_208, "vram_kv_mib": 6912, "max_num_seqs": 3, "max_model_len": 200_000,
        "host_pool_mib": 40_960, "num_speculative_tokens": 2}, facts={"pair_ceiling": "30969MiB"})
    with pytest.raises(MissingFacts):
        to(of, host_pool_mib="20000")


def test_a_default_that_would_follow_is_written_down(tmp_path: Path, capsys: Capture) -> None:
    of = site("halogen@0.13.0", container="w4b", facts={"mem_total": "127104060KiB"},
              knobs={"ctx": 131_072, "host_reserve_gib": 15})
    found = plan(of, Target({"ctx": 65_536, "kv_pool_positions": 262_144}, gates=False))
    (step,) = found.steps
    assert step.changes == {"ctx": (131_072, 65_536), "kv_pool_positions": (262_144, 262_144)}
    assert step.back == {"ctx": 131_072, "kv_pool_positions": None}
    assert step.checked.evaluation.shape["kv_pool_positions"].low == 262_144
    clamped = told(capsys, *HALOGEN_CLAMPED.words(tmp_path), "--to", "host_reserve_gib=15")
    assert clamped["steps"][0]["back"] == {"host_reserve_gib": None}


def test_the_way_back_names_the_file_that_a_switch_named(tmp_path: Path, capsys: Capture) -> None:
    text = halogen_env(reserve=15)["halogen.env"].replace("VISION_TOWER=1", "VISION_TOWER=/models/tower.hgn")
    words = Server("halogen@0.13.0", {"halogen.env": text}, facts=HOST).words(tmp_path)
    assert told(capsys, *words, "--to", "vision_tower=0")["steps"][0]["back"] == {"vision_tower": "/models/tower.hgn"}
    assert "the way back: vision_tower /models/tower.hgn" in ask(capsys, "plan", *words, "--to", "vision_tower=0").out


def test_flags_that_are_gone_are_named(tmp_path: Path, capsys: Capture) -> None:
    old = Server("radiance@1.8.1", funded_env(more="VRAM_KV_MIB=6912\n"), facts=BUDGET)
    found = told(capsys, *old.words(tmp_path), "--to", "max_num_seqs=5")
    assert any("vram_kv_mib" in text and "leave it out" in text for text in found["warnings"])


def test_too_many_knobs_are_refused() -> None:
    of = site("radiance@1.0.13", container=IQ4R, knobs={"tp": 2, "max_num_seqs": 3})
    values = {name: of.knobs.get(name, 0) + 7 for name, spec in of.model.knobs.items()
              if spec.kind in ("int", "decimal") and name != "tp" and not name.startswith("ttm")}
    assert len(values) > MOST
    with pytest.raises(Exception, match="orders 12 at most"):
        plan(of, Target(values, gates=False))


def test_tables_for_the_terminal(capsys: Capture) -> None:
    said = ask(capsys, "plan", str(SITES / "host-pool"), "--to", "max_num_seqs=8", "--to", "host_pool_mib=15226").out
    for part in ("2 deploys, of one knob each", "no other order of as few fits", "1. host_pool_mib 12,288 -> 15,226",
                 "with ttm_min_mib 83,328 -> 89,204", "why here: before 2", "the boot must print", "the way back",
                 "measured anew: activation_arena", "What the plan keeps to"):
        assert part in said
    said = ask(capsys, "plan", str(SITES / "unified-memory"), "--to", "host_reserve_gib=17").out
    assert "The target itself is no shape to deploy" in said
    said = ask(capsys, "plan", str(SITES / "stated-pair"), "--to", "max_num_seqs=3").out
    assert "Nothing to deploy" in said


def test_the_schema_is_strict(capsys: Capture) -> None:
    good = told(capsys, str(SITES / "stated-pair"), "--to", "max_num_seqs=4")
    breaks: list[Callable[[dict[str, Any]], object]] = [
        lambda d: d.update(more=1), lambda d: d["steps"][0].pop("back"), lambda d: d.update(status="two_knobs"),
        lambda d: d["steps"][0].update(verdict="knife_edge"), lambda d: d["steps"][0]["why"][0].update(kind="after"),
        lambda d: d.update(stops=[]), lambda d: d["target"].update(verdict="does_not_fit"),
    ]
    for break_it in breaks:
        broken = copy.deepcopy(good)
        break_it(broken)
        with pytest.raises(ValidationError):
            valid("plan", broken)
