"""A remedy says what helps this shape: what buys nothing here is not offered."""

from __future__ import annotations

import pytest

from models.declare import Verdict
from models.evaluate import evaluate
from tests.made_sites import IQ4R, site
from tests.optimizer.servers import ask
from tests.optimizer.test_laws_cli import SITES

Capture = pytest.CaptureFixture[str]
FUNDED, UNIFIED = str(SITES / "host-pool"), str(SITES / "unified-memory")
RAISE = "raise host_pool_mib, or ask for fewer or shorter sequences"


def remedy(capsys: Capture, site: str, constraint: str, *words: str) -> str:
    document = ask(capsys, "check", site, *words, "--json").document
    (found,) = (item for item in document["constraints"] if item["name"] == constraint)
    assert found["ok"] is False
    assert f"{constraint}: {found['remedy']}" in " ".join(ask(capsys, "check", site, *words).out.split())
    assert isinstance(found["remedy"], str)
    return found["remedy"]


@pytest.mark.parametrize(("pool", "raised"), [
    (12_288, True), (30_000, True),
    # plane 29.66 GiB and shadow slots: from 30,446 MiB on the floor is 0 (operator note 000's main trap)
    (30_447, False), (44_928, False),
])
def test_a_host_pool_past_the_plane_is_not_raised(pool: int, raised: bool, capsys: Capture) -> None:
    said = remedy(capsys, FUNDED, "pool_contract", "--set", "max_num_seqs=24", "--set", f"host_pool_mib={pool}")
    assert (said == RAISE) is raised
    assert ("buys nothing" in said) is not raised
    assert said.endswith("ask for fewer or shorter sequences")


@pytest.mark.parametrize("command", ["solve", "why"])
def test_a_conflict_does_not_offer_what_was_tried(command: str, capsys: Capture) -> None:
    words = (FUNDED, "--goal", "slab", "--given", "max_num_seqs=24", "--given", "max_model_len=200000", "--json")
    for given, raised in ((), False), (("--given", "host_pool_mib=12288"), True):
        said = ask(capsys, command, *words, *given)
        assert said.code == 3
        members = said.document["conflict" if command == "solve" else "members"]
        (pool,) = (item for item in members if item["name"] == "pool_contract")
        assert (pool["remedy"] == RAISE) is raised
        assert pool["remedy"].endswith("ask for fewer or shorter sequences")


@pytest.mark.parametrize(("knobs", "start"), [
    ({"vram_weights_mib": 20_000, "vram_kv_mib": 5_000}, "raise vram_kv_mib"),
    ({"vram_kv_mib": 5_000}, "raise vram_kv_mib"),
    ({"vram_weights_mib": 26_000}, "lower vram_weights_mib"), ({}, "raise host_pool_mib"),
])
def test_what_funds_the_cache_of_1_2_depends_on_what_is_stated(knobs: dict[str, int], start: str) -> None:
    words: dict[str, str | int] = {
        "tp": 2, "max_num_seqs": 16, "max_model_len": 200_000, "kv_cache_dtype": "fp8", "host_pool_mib": 12_288,
        "num_speculative_tokens": 2, **knobs}
    facts = {"card_total": "31.86GiB", "already_held": "343.02MiB", "activation_arena": "1.10GiB",
             "step_staging": "25MiB", "hardware_queues": "100.05MiB", "static_weights": "3.34GiB"}
    made = site("radiance@1.2.2", container=IQ4R, knobs=words, facts=facts)
    found = evaluate(made.model, made.given, made.knobs).constraint("pool_contract")
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert found.remedy.startswith(start)


def test_ram_read_while_the_server_runs_is_no_ram_before_its_start(capsys: Capture) -> None:
    # operator note 004: MemAvailable read 74 GiB while the engine held 103.5 of 121.2
    said = remedy(capsys, UNIFIED, "pin_floor", "--fact", "mem_available=74GiB")
    assert said.startswith("read mem_available before the server starts")
    words = ("--engine", "halogen@0.13.0", "--config", str(SITES / "unified-memory" / "serve.env"), "--fact",
             "mem_total=127104060KiB", "--fact", "mem_available=74GiB", "--json")
    document = ask(capsys, "check", *words).document
    (found,) = (item for item in document["constraints"] if item["name"] == "pin_floor")
    assert found["remedy"].startswith("free RAM before the start")
