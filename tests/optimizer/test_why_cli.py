"""``why`` on the command line: known answers on the example sites, documents, exit codes, what people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from models.interval import MIB
from tests.optimizer.servers import DERIVED, FUNDED, HALOGEN, STATED, Said, Server, ask
from tests.optimizer.test_laws_cli import AS_NOTED, PAIR, SITES
from tests.optimizer.test_schema import answered, valid

Capture = pytest.CaptureFixture[str]
SLAB = ("--goal", "slab", "--given", "max_num_seqs=4", "--given", "max_model_len=262144",
        "--at-least", "vram_weights=25600MiB")
BOUND = "at least vram_weights=25600MiB"


def explained(said: Said) -> dict[str, Any]:
    document = answered(said, "why")
    assert (said.code == 3) is (document["status"] == "infeasible")
    if said.code == 3:
        members = {item["name"] for item in document["members"]}
        assert members >= {name for conflict in document["conflicts"] for name in conflict}
        in_conflicts = {name for conflict in document["conflicts"] for name in conflict}
        alone = {item["gives"][0]["name"] for item in document["single"]}
        assert alone | {*document["helpless"], *document["undecided"]} == in_conflicts
        assert not alone & {*document["helpless"], *document["undecided"]}
        for key in ("single", "joint"):
            steps = [item["steps"] for item in document[key]]
            assert steps == sorted(steps)
    return document


def alone(document: Mapping[str, Any]) -> dict[str, Any]:
    """The give of each single repair."""
    return {item["gives"][0]["name"]: item["gives"][0] for item in document["single"]}


def test_the_stated_pair(capsys: Capture) -> None:
    document = explained(ask(capsys, "why", PAIR, *SLAB, "--json"))
    wanted = {"pool_contract", BOUND, "max_num_seqs=4", "max_model_len=262144"}
    assert {frozenset(conflict) for conflict in document["conflicts"]} == {
        frozenset({*wanted, "pair_ceiling"}), frozenset({*wanted, "settle_floor"})}
    assert document["complete"]
    gives = alone(document)
    assert gives["max_num_seqs=4"] == {
        "name": "max_num_seqs=4", "amount": 2, "unit": "sequences", "way": "lower", "to": 2}
    assert gives[BOUND] == {
        "name": BOUND, "amount": 3_156_213_760, "unit": "B", "way": "less", "to": 25_600 * MIB - 3_156_213_760}
    length = gives["max_model_len=262144"]
    assert (length["amount"], length["unit"], length["way"], length["to"]) == (105_344, "tokens", "lower", 156_800)
    assert (gives["pool_contract"]["way"], gives["pool_contract"]["to"]) == ("short", None)
    assert {*document["helpless"]} == {"settle_floor", "pair_ceiling"}
    (together,) = document["joint"]
    assert {give["name"] for give in together["gives"]} == {"settle_floor", "pair_ceiling"}
    shapes = {item["gives"][0]["name"]: item for item in document["single"]}
    assert shapes["max_num_seqs=4"]["changes"]["max_num_seqs"] == [3, 2]
    assert shapes["max_num_seqs=4"]["verdict"] == shapes[BOUND]["verdict"] == "fits"
    assert shapes["pool_contract"]["verdict"] == "does_not_fit"


def test_a_repaired_question_has_an_answer_and_a_little_less_has_none(capsys: Capture) -> None:
    for given, code in ((("--given", "max_num_seqs=2"), 0), (("--given", "max_num_seqs=3"), 3)):
        words = ("--goal", "slab", *given, "--given", "max_model_len=262144", "--at-least", "vram_weights=25600MiB")
        assert ask(capsys, "solve", PAIR, *words, "--json").code == code
    for least, code in ((22_590, 0), (22_591, 3)):
        words = (*SLAB[:-1], f"vram_weights={least}MiB")
        assert ask(capsys, "solve", PAIR, *words, "--json").code == code
    for length, code in ((156_800, 0), (156_804, 3)):
        words = (*SLAB[:4], "--given", f"max_model_len={length}", *SLAB[6:])
        assert ask(capsys, "solve", PAIR, *words, "--json").code == code


def test_what_binds_and_what_would_next(capsys: Capture) -> None:
    document = explained(ask(capsys, "why", PAIR, "--given", "max_num_seqs=4", "--json"))
    assert document["best"]["objective"]["value"] == 262_144
    assert "max_model_len at its highest (262144)" in document["binding"]
    assert document["next"]["best"]["gain"] == 0
    assert document["next"]["best"]["binding"] == ["max_model_len at its highest (262144)"]

    words = ("--given", "max_num_seqs=4", "--at-least", "vram_weights=25600MiB")
    document = explained(ask(capsys, "why", PAIR, *words, "--json"))
    assert document["best"]["objective"]["value"] == 156_800
    assert document["binding"] == ["pool_contract", "pair_ceiling", BOUND]
    after = document["next"]
    assert after["given_up"] == document["binding"]
    assert after["best"]["gain"] == 262_144 - 156_800

    document = explained(ask(capsys, "why", str(SITES / "two-r9700"), "--goal", "sequences", "--json"))
    (left,) = document["next"]["best"]["slack"]
    assert left["name"] == document["next"]["best"]["binding"][0] == "one_full_request"
    assert (left["unit"], left["slack"] > 0) == ("B", True)
    assert document["next"]["best"]["gain"] > 0


RESERVE = ("--goal", "sessions", "--given", "host_reserve_gib=80", "--at-least", "kv_pool_positions=300000")
KINDS: Mapping[str, tuple[Server, tuple[str, ...], int]] = {
    "stated": (STATED, ("--goal", "slab"), 0),
    "stated, none": (STATED, ("--goal", "slab", "--at-least", "vram_weights=30000MiB"), 3),
    "derived": (DERIVED, ("--goal", "sequences"), 0),
    "derived, a ratio": (DERIVED, ("--goal", "sessions", "--at-least", "max_num_seqs=9", "--given",
                                   "expert_vs_cache_ratio=0.9"), 3),
    "funded": (FUNDED, ("--goal", "host-ram"), 0),
    "funded, none": (FUNDED, ("--goal", "host-ram", "--given", "max_num_seqs=200"), 3),
    "halogen": (HALOGEN, ("--goal", "sessions"), 0),
    "halogen, none": (HALOGEN, ("--goal", "context", "--at-least", "kv_pool_positions=3000000"), 3),
    "halogen, reserve": (HALOGEN, RESERVE, 3),
}


@pytest.mark.parametrize(("server", "words", "code"), KINDS.values(), ids=KINDS)
def test_every_kind_of_server(server: Server, words: tuple[str, ...], code: int, tmp_path: Any,
                              capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ask(capsys, "why", *server.words(tmp_path), *words, "--json")
    assert said.code == code, said.out
    document = explained(said)
    monkeypatch.setattr("optimizer.render.base._WIDTH", 80)
    shown = ask(capsys, "why", *server.words(tmp_path), *words)
    assert shown.code == code
    flat = " ".join(shown.out.split())
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    assert not any(mark in flat for mark in ("[/", "[bold", "[dim", "[red", "…"))
    if code == 0:
        for name in document["binding"]:
            assert name in flat
        return
    for item in document["single"]:
        assert item["gives"][0]["name"] in flat
        for name, (_, new) in item["changes"].items():
            assert f"{name} " in flat
            assert f"-> {new:,}" in flat if isinstance(new, int) else str(new) in flat
    for name in document["helpless"]:
        assert name in flat


def test_scaled_amounts(tmp_path: Any, capsys: Capture) -> None:
    """A knob in decimals gives in its own unit, never in millionths."""
    document = explained(ask(capsys, "why", *HALOGEN.words(tmp_path), *RESERVE, "--json"))
    give = alone(document)["host_reserve_gib=80"]
    assert give["unit"] == "GiB"
    assert 0 < give["amount"] <= 80
    assert give["to"] == 80 - give["amount"]


def test_words_for_people(capsys: Capture) -> None:
    text = " ".join(ask(capsys, "why", PAIR, *SLAB).out.split())
    for part in (
        "No shape does this. Any one of these would mend it:",
        "max_num_seqs=4: lower by 2 sequences, to 2 then max_num_seqs 3 -> 2",
        f"{BOUND}: ask for 3,010 MiB less, 22,590 MiB",
        "max_model_len=262144: lower by 105,344 tokens, to 156,800",
        "pool_contract: 2.94 GiB short; raise vram_kv_mib",
        "Alone these cannot help: settle_floor, pair_ceiling",
        "settle_floor: 2.74 GiB short",
    ):
        assert part in text, part
    text = " ".join(ask(capsys, "why", PAIR, "--given", "max_num_seqs=4", "--at-least", "vram_weights=25600MiB").out
                    .split())
    assert "The best: 156,800 tokens" in text
    assert "If this gave way (pool_contract, pair_ceiling, at least vram_weights=25600MiB): better by 105,344" in text


def test_a_choice_and_solves_hint(capsys: Capture) -> None:
    words = ("--goal", "slab", "--given", "max_num_seqs=3", "--given", "kv_cache_dtype=bf16", "--given",
             "max_model_len=200000", "--at-least", "vram_weights=22400MiB")
    document = explained(ask(capsys, "why", PAIR, *words, "--json"))
    assert alone(document)["kv_cache_dtype=bf16"] == {
        "name": "kv_cache_dtype=bf16", "amount": 1, "unit": "", "way": "other", "to": "fp8"}
    assert "kv_cache_dtype=bf16: fp8 instead" in ask(capsys, "why", PAIR, *words).out
    shown = ask(capsys, "solve", PAIR, *words)
    assert shown.code == 3
    assert shown.out.rstrip().endswith(
        "`shapewright why` with the same words says what would have to give, and by how much")


def test_speed_outside_the_data(capsys: Capture) -> None:
    words = ("--goal", "prefill", *AS_NOTED, "--at-most", "vram_weights_mib=20000")
    document = explained(ask(capsys, "why", PAIR, *words, "--json"))
    (conflict,) = document["conflicts"]
    assert set(conflict) == {"at most vram_weights_mib=20000", "at least vram_weights_mib=22,208 MiB"}
    gives = alone(document)
    assert {give["amount"] for give in gives.values()} == {2208}
    assert gives["at most vram_weights_mib=20000"]["way"] == "more"
    data = next(item for item in document["members"] if item["name"].startswith("at least"))
    assert "measured speeds reach no further" in data["source"]
    assert "--extrapolate" in data["remedy"]
    text = " ".join(ask(capsys, "why", PAIR, *words).out.split())
    assert "at least vram_weights_mib=22,208 MiB: would have to be 2,208 MiB less, 20,000 MiB" in text
    assert "at most vram_weights_mib=20000: allow 2,208 MiB more, 22,208 MiB" in text
    best = explained(ask(capsys, "why", PAIR, "--goal", "prefill", *AS_NOTED, "--json"))
    assert best["best"]["objective"]["unit"] == "t/s"
    assert best["next"]["given_up"]


def test_goals_in_order(capsys: Capture) -> None:
    words = ("--goal", "balanced", "--order", "sessions,prefill", *AS_NOTED)
    document = explained(ask(capsys, "why", PAIR, *words, "--json"))
    assert document["order"] == ["sessions", "prefill"]


@pytest.mark.parametrize(("words", "code"), [
    (("--goal", "fame"), 2), (("--given", "nothing=1"), 2), (("--at-least", "vram_weights=much"), 2),
    (("--top", "2"), 2), (("--goal", "prefill", "--prompt-tokens", "100000"), 4),
    (("--goal", "headroom", "--at-least", "claimable=1MiB"), 4),
])
def test_what_cannot_be_asked(words: tuple[str, ...], code: int, capsys: Capture) -> None:
    said = ask(capsys, "why", PAIR, *words, "--json")
    assert said.code == code
    valid("error", said.document)


FUNDED_SITE = str(SITES / "host-pool")


def test_a_held_knob_that_limits_the_goal_is_named(capsys: Capture) -> None:
    # the demand is the cap: four sequences are four sessions, whatever the host pool funds
    document = explained(ask(capsys, "why", FUNDED_SITE, "--goal", "sessions", "--json"))
    assert (document["binding"], document["next"]) == ([], None)
    (held,) = document["held_back"]
    assert (held["knob"], held["value"]) == ("max_num_seqs", 4)
    gain = held["best"]["gain"]
    assert 1 <= gain <= 17 - 4  # 17 sequences are what the plane allows; to prove it takes seconds
    assert held["best"]["proven"] is False or gain == 17 - 4
    assert held["best"]["objective"]["value"] == 4 + gain
    assert held["best"]["changes"]["max_num_seqs"] == [4, 4 + gain]
    text = " ".join(ask(capsys, "why", FUNDED_SITE, "--goal", "sessions").out.split())
    assert "max_num_seqs=4: with --free max_num_seqs better by " in text
    assert "Nothing of this can give way" not in text


@pytest.mark.parametrize(("words", "count"), [
    ((FUNDED_SITE, "--goal", "sessions", "--given", "host_pool_mib=12288"), 1),
    ((FUNDED_SITE, "--goal", "headroom"), 0), ((str(SITES / "two-r9700"), "--goal", "sessions"), 2),
])
def test_what_is_held_back_is_what_free_opens(words: tuple[str, ...], count: int, capsys: Capture) -> None:
    document = explained(ask(capsys, "why", *words, "--json"))
    assert document["binding"] == []
    told = {item["knob"]: item["best"] for item in document["held_back"]}
    assert len(told) == count
    now = ask(capsys, "solve", *words, "--top", "1", "--json").document["shapes"][0]["objective"]
    for knob in document["held"]:
        if knob in document["given"] or knob == "tp":
            continue
        said = ask(capsys, "solve", *words, "--free", knob, "--top", "1", "--json")
        best = said.document["shapes"][0]["objective"]
        better = best["value"] is not None and best["value"] > now["value"]
        assert (knob in told) is better, knob
        if better and said.document["status"] == "optimal":
            assert now["value"] < told[knob]["objective"]["value"] <= best["value"]
            assert not told[knob]["proven"] or told[knob]["objective"]["value"] == best["value"]
    stated = [item for item in document["held_back"] if item["knob"] == "vram_kv_mib"]
    assert all("on a site that derives it" in item["best"]["notes"][0] for item in stated)
