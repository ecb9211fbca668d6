"""What can be done with the free memory: the amount, and one best use per goal with nothing given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from measurements.site import Site, Sources, load, spelled
from optimizer.free import Free, free
from optimizer.solve import ask as ask_solver
from optimizer.solve import solve
from tests.optimizer.servers import (
    BUDGET,
    DERIVED,
    FUNDED,
    FUNDED_12,
    HALOGEN,
    HALOGEN_LATE,
    HALOGEN_READ,
    SERVERS,
    SETTLED,
    STATED,
    Server,
    ask,
    pair_env,
    with_config,
)

Capture = pytest.CaptureFixture[str]

THREE = {
    "radiance 1.0 stated": STATED, "radiance 1.0 derived": DERIVED, "radiance 1.8": FUNDED,
    "radiance 1.8 settled": Server("radiance@1.8.1", FUNDED.config, facts=(*BUDGET, *SETTLED)),
    "halogen 0.13 with its log": HALOGEN_READ, "halogen 0.17": HALOGEN_LATE,
}


def site(server: Server, folder: Path) -> Site:
    """The server, read."""
    server.words(folder)
    return load(Sources(
        config=tuple(folder / name for name in server.config), ledger=folder / "boot.log" if server.log else None,
        engine=server.engine, facts=spelled(server.facts),
    ))


def uses(found: Free) -> list[tuple[str, Any]]:
    """The goals that have a best use, each with its answer."""
    return [(use.goal, use.answer) for use in found.uses if use.answer is not None and use.answer.shapes]


@pytest.mark.parametrize("server", THREE.values(), ids=THREE)
def test_a_use_is_what_the_solver_gives_with_the_same_bounds(
    server: Server, tmp_path: Path, capsys: Capture,
) -> None:
    found = free(site(server, tmp_path))
    assert len(uses(found)) >= 4
    for goal, answer in uses(found):
        question = answer.question
        model = question.site.model
        words = ["--goal", goal, "--top", "1", "--json"]
        for bound in question.bounds:
            unit = model.rows[bound.name].unit if bound.name in model.rows else ""
            words += [f"--{bound.sense.replace(' ', '-')}", f"{bound.name}={bound.value}{'B' if unit == 'B' else ''}"]
        for name, (low, high) in question.free.items():
            spec = model.knobs[name]
            words += ["--at-least", f"{name}={spec.write(low)}", "--at-most", f"{name}={spec.write(high)}"]
        said = ask(capsys, "solve", *server.words(tmp_path), *words)
        assert said.code == 0, goal
        best = said.document["shapes"][0]
        mine = answer.shapes[0]
        assert set(said.document["free"]) == set(question.free)
        assert (best["objective"]["value"], best["objective"]["change"]) == (mine.value, mine.gain), goal


@pytest.mark.parametrize("server", THREE.values(), ids=THREE)
def test_nothing_is_given_up(server: Server, tmp_path: Path, capsys: Capture) -> None:
    said = ask(capsys, "free", *server.words(tmp_path), "--json")
    assert said.code == 0
    now = said.document["current"]
    for use in said.document["uses"]:
        if "best" not in use:
            assert use["status"] in ("missing_facts", "infeasible")
            continue
        best = use["best"]
        assert (best["verdict"], best["outcome"]) == ("fits", "serves")
        assert best["objective"]["change"] is None or best["objective"]["change"] >= 0
        for knob in ("max_num_seqs", "max_model_len", "ctx", "kv_slots", "max_tok"):
            if knob in best["shape"]:
                assert best["shape"][knob] >= now["shape"][knob]
        if "host_pool_mib" in best["shape"]:
            assert best["shape"]["host_pool_mib"] <= now["shape"]["host_pool_mib"]
            assert best["shape"]["gpu_headroom_mib"] >= min(96, now["shape"]["gpu_headroom_mib"])
        if "host_reserve_gib" in best["shape"]:
            assert "host_reserve_gib" not in best["changes"]
        if now["engine"]["name"] == "halogen" and use["goal"] not in ("host-ram", "headroom"):
            assert best["shape"]["kv_pool_positions"] >= now["quantities"]["pool_positions"]["low"]
        for name, cost in use["costs"].items():
            assert cost["from"] != cost["to"], name


@pytest.mark.parametrize("goal", ["context", "sequences", "sessions", "slab", "headroom", "host-ram"])
def test_a_stated_pair_keeps_its_pools(goal: str, tmp_path: Path) -> None:
    found = free(site(STATED, tmp_path))
    (answer,) = [answer for name, answer in uses(found) if name == goal]
    best = answer.shapes[0]
    if goal in ("context", "sequences", "sessions"):
        assert best.shape["vram_weights_mib"] >= 22_208
    elif goal == "slab":
        assert best.shape["vram_kv_mib"] >= 6_912
    else:  # a larger weights pool may take over what the host pool gives back
        assert best.shape["vram_weights_mib"] >= 22_208
        assert best.shape["vram_kv_mib"] >= 6_912
    if goal == "headroom":
        assert best.changes == {}
    assert best.shape["vram_weights_mib"] + best.shape["vram_kv_mib"] <= 30_969


def test_the_amount_of_a_stated_pair(tmp_path: Path, capsys: Capture) -> None:
    document = ask(capsys, "free", *STATED.words(tmp_path), "--json").document
    amount = document["free"]
    assert (amount["value"], amount["unit"]) == ((30_969 - 22_208 - 6_912) << 20, "B")
    people = ask(capsys, "free", *STATED.words(tmp_path)).out
    assert "1,849 MiB" in people


def test_the_amount_of_a_settled_boot(tmp_path: Path, capsys: Capture) -> None:
    amount = ask(capsys, "free", *DERIVED.words(tmp_path), "--json").document["free"]
    floor = 548.46
    least = 566.78  # of the two cards
    assert abs(amount["value"] / (1 << 20) - (least - floor)) < 0.02
    assert amount["low"] <= amount["value"] <= amount["high"]


def test_the_amount_on_unified_memory(tmp_path: Path, capsys: Capture) -> None:
    amount = ask(capsys, "free", *HALOGEN_READ.words(tmp_path), "--json").document["free"]
    assert abs(amount["value"] / (1 << 30) - 10.9) < 0.06


def test_the_amount_is_not_made_up(tmp_path: Path, capsys: Capture) -> None:
    for server in (FUNDED, HALOGEN):
        said = ask(capsys, "free", *server.words(tmp_path), "--json")
        assert (said.code, said.document["free"]) == (0, None)
        assert "not known" in ask(capsys, "free", *server.words(tmp_path)).out


def test_a_pair_over_its_ceiling_has_nothing_free(tmp_path: Path, capsys: Capture) -> None:
    words = with_config(STATED, pair_env(26_000, 5_069, 3, 200_000)).words(tmp_path)
    document = ask(capsys, "free", *words, "--json").document
    assert document["free"]["value"] == -(100 << 20)
    assert document["current"]["verdict"] == "does_not_fit"


@pytest.mark.parametrize("name", [name for name in SERVERS if name not in THREE])
def test_free_answers_everywhere(name: str, tmp_path: Path, capsys: Capture) -> None:
    words = SERVERS[name].words(tmp_path)
    said = ask(capsys, "free", *words)
    assert (said.code, said.err) == (0, "")
    for goal in ("context", "sequences", "sessions"):
        assert goal in said.out


def test_the_longest_context_of_a_funded_cache_is_found_in_time(tmp_path: Path) -> None:
    question = ask_solver(site(FUNDED_12, tmp_path), "context", top=1)
    answer = solve(question, seconds=3.0)
    assert (answer.status, answer.shapes[0].value) == ("optimal", 262_144)


def test_free_needs_what_check_needs(tmp_path: Path, capsys: Capture) -> None:
    said = ask(capsys, "free", *Server("radiance@1.0.13", DERIVED.config).words(tmp_path), "--json")
    assert said.code == 4
