"""Predictions against made boot logs: known answers, look-alikes, other settings, and what took what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import measurements
from measurements.history import read_history, sealed
from optimizer.schema import schema
from tests.measurements.ledger_logs import DISGUISES, log
from tests.optimizer.servers import (
    BUDGET,
    DERIVED,
    HALOGEN_LOG,
    HALOGEN_READ,
    HOST,
    Said,
    Server,
    ask,
    funded_env,
    halogen_env,
    pair_env,
    site_of,
    with_config,
)
from tests.optimizer.test_schema import valid

SITES = Path(measurements.__file__).parent / "sites"
Capture = pytest.CaptureFixture[str]
NOTE = "halogen: NOTE this server holds most of the machine. Lowering HALOGEN_KV_POOL_POSITIONS gives some back.\n"


def predicted(folder: Path, capsys: Capture, server: Server, *words: str) -> Path:
    """A site whose shape is on record as predicted; ``words`` are those of apply."""
    site = site_of(folder, server)
    said = ask(capsys, "apply", str(site), *words, "--write", "--json")
    assert said.document["written"], said.document
    return site


def judged(capsys: Capture, site: Path, text: str, *words: str) -> Said:
    """What ``verdict`` says of a log, valid."""
    new = site / "new.log"
    new.write_text(text, encoding="utf-8")
    said = ask(capsys, "verdict", str(site), "--ledger", str(new), *words, "--json")
    if said.code == 2:
        valid("error", said.document)
    else:
        valid("verdict", said.document)
        for fact in said.document["facts"]:
            assert fact["moved"] == (fact["by"] is not None)
    return said


DERIVED_WITH_SLOTS = replace(DERIVED, log=DERIVED.log + "".join(
    f"I[{rank}] mover: 18537 slab slots (64 shadow), 6605 pinned pool slots, 3.34 GiB static vram\n"
    for rank in (0, 1)))


def _line(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines()) if part in line)


def rows(document: Mapping[str, Any]) -> dict[str, str]:
    """The status of each row."""
    return {row["name"]: row["status"] for row in document["rows"]}


def row(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The row of that name."""
    (found,) = (item for item in document["rows"] if item["name"] == name)
    assert isinstance(found, dict)
    return found


def test_a_fit_that_fits(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    said = judged(capsys, site, log("halogen-fits"))
    document = said.document
    assert (said.code, document["status"], document["other_settings"]) == (0, "held", [])
    assert rows(document) == {"pool_positions": "exact", "host_left": "within", "locked_total": "within",
                              "device_need": "within", "device_budget": "within"}
    assert "Lowering HALOGEN_KV_POOL_POSITIONS" in log("halogen-fits")  # a look-alike is no clamp
    assert document["outcome"]["seen"] == "serves"
    assert document["outcome"]["agrees"] is True
    assert row(document, "pool_positions")["printed"] == {"low": 524_288, "high": 524_288}
    (rate,) = (fact["now"] for fact in document["facts"] if fact["name"] == "bytes_per_token")
    assert rate["low"] <= 26_624 <= rate["high"] <= rate["low"] + 2


def test_a_pool_that_was_halved(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    said = judged(capsys, site, log("halogen-clamped"))
    document = said.document
    assert (said.code, document["status"]) == (3, "off")
    outcome = document["outcome"]
    assert (outcome["predicted"], outcome["seen"], outcome["agrees"]) == (["serves"], "clamped", False)
    assert outcome["line"] == "LOWERING THE POOL TO 262144"
    line = int(outcome["source"].rpartition(":")[2])
    assert "RAM cannot spare it. LOWERING" in (site / "new.log").read_text(encoding="utf-8").splitlines()[line - 1]
    lost = row(document, "pool_positions")
    assert (lost["status"], lost["by"]) == ("off", {"low": -262_144, "high": -262_144})
    (cause,) = lost["causes"]
    assert (cause["name"], cause["effect"]) == ("mem_total", {"low": -262_144, "high": -262_144})
    assert cause["by"]["high"] < 0  # 125 GiB then, 123 now
    assert row(document, "device_need")["status"] == "within"  # it asked for as much as predicted
    budget = row(document, "device_budget")
    assert budget["by"]["low"] <= -1.6 * 2**30 <= budget["by"]["high"]
    assert all(item["name"] in ("locked_total", "host_left") for found in document["rows"] for item in found["gained"])
    assert [found["gained"] for found in document["rows"] if found["name"] in ("device_budget", "pool_positions")] == [
        [], []]
    moved = {fact["name"] for fact in document["facts"] if fact["moved"]}
    assert moved == {"mem_total", "compaction_stalls"}


def test_only_the_note_is_added(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    text = HALOGEN_LOG + "halogen: a later word\n" + NOTE * 3
    document = judged(capsys, site, text).document
    assert document["status"] == "held"
    assert document["outcome"]["seen"] == "serves"
    lying = text.replace("Lowering HALOGEN", "LOWERING HALOGEN")
    assert judged(capsys, site, lying).document["outcome"]["seen"] == "serves"


def test_a_note_that_quotes_the_clamp_is_none(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    note = "halogen: NOTE on a smaller host it says LOWERING THE POOL TO 262144 (~27.8 GiB)\n"
    document = judged(capsys, site, log("halogen-fits") + note).document
    assert (document["status"], document["outcome"]["seen"], document["contradictions"]) == ("held", "serves", [])
    assert rows(document)["pool_positions"] == "exact"


def test_a_predicted_clamp_that_comes(tmp_path: Path, capsys: Capture) -> None:
    server = Server("halogen@0.13.0", halogen_env(reserve=15), facts=("mem_total=123.5GiB",))
    site = predicted(tmp_path, capsys, server, "--to", "host_reserve_gib=20", "--anyway")
    said = judged(capsys, site, log("halogen-clamped").replace("11783 compaction stalls", "12 compaction stalls"))
    document = said.document
    assert document["outcome"]["predicted"] == ["clamped"]
    assert document["outcome"]["agrees"] is True
    assert (said.code, document["status"]) == (0, "held")
    said = judged(capsys, site, log("halogen-clamped"))
    assert (said.code, said.document["why"]) == (3, "by this boot's own figures compaction does not hold")
    assert row(document, "pool_positions")["status"] == "exact"


@pytest.mark.parametrize("seen", ["fits", "clamped"])
def test_a_knife_edge_allows_both(tmp_path: Path, capsys: Capture, seen: str) -> None:
    server = Server("halogen@0.13.0", halogen_env(reserve=15), facts=HOST)
    site = predicted(tmp_path, capsys, server, "--to", "host_reserve_gib=17", "--anyway")
    budget = "host RAM 121 GiB, less 67.7 resident weights and 17.0 reserved for the rest = 36.5 GiB for the device"
    kept = "524288 positions, ~35.0 GiB (20.6 GiB of it for everything but the pool, at max_tok 32768)"
    lost = "524288 positions need ~35.0 GiB (plus 1.5 of margin) and host RAM cannot spare it. LOWERING THE POOL TO " \
           "262144 (~27.8 GiB)"
    pool = {"fits": 524_288, "clamped": 262_144}[seen]
    text = (f"kv pool: {budget}\nkv pool: {kept if seen == 'fits' else lost}\n"
            f"flash_serve: listening on 0.0.0.0:8730, 4 slots over ONE {pool}-position KV pool, each request up to "
            "262144, max_tok 32768\n")
    document = judged(capsys, site, text).document
    assert document["outcome"]["predicted"] == ["serves", "clamped"]
    assert (document["status"], document["outcome"]["agrees"]) == ("held", True)
    assert rows(document)["pool_positions"] == "within"


def test_a_prediction_that_was_never_set_is_told(tmp_path: Path, capsys: Capture) -> None:
    """What a kill between the record and the file leaves, or an edit that was taken back."""
    config = tmp_path / "halogen.env"
    site = site_of(tmp_path, HALOGEN_READ)
    before = config.read_bytes()
    assert ask(capsys, "apply", str(site), "--to", "host_reserve_gib=19", "--write", "--json").document["written"]
    assert not any("never set" in note for note in judged(capsys, site, log("halogen-fits")).document["notes"])
    config.write_bytes(before)
    (note,) = judged(capsys, site, log("halogen-fits")).document["notes"]
    assert note == "halogen.env holds what it held before this prediction: it was never set, or taken back"


def test_another_setting_is_said_first_and_voids(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=19")
    said = judged(capsys, site, log("halogen-fits"), "--write")
    document = said.document
    assert (said.code, document["status"]) == (3, "void")
    (text,) = document["other_settings"]
    assert text.startswith("host_reserve_gib is 19 in the prediction, 20.0 at ")
    assert all((item["causes"], item["left"]) == ([], None) for item in document["rows"])
    assert document["next_ledger"] is None
    told = ask(capsys, "history", str(site), "--json").document["predictions"][0]["verdicts"][0]
    assert (told["status"], told["off"], told["moved"]) == ("void", [], [])
    out = ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log")).out
    assert out.index("host_reserve_gib is 19") < out.index("device_budget")
    assert "off by" in out
    assert "explains" not in out
    assert "every prediction" not in out  # a void verdict settles nothing: the prediction still waits


def test_another_version_voids(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    document = judged(capsys, site, log("halogen-fits").replace("server 0.13.0", "server 0.13.2")).document
    assert document["status"] == "void"
    assert document["other_settings"] == ["the version is 0.13.0 in the prediction, 0.13.2 in the log"]
    other = log("halogen-fits").replace("flash-w4b.overlay.hgn", "flash-v2.hgn")
    assert judged(capsys, site, other).document["status"] == "void"


def test_cards_to_the_byte(tmp_path: Path, capsys: Capture) -> None:
    printed = (SITES / "two-r9700" / "boot.log").read_text(encoding="utf-8")
    site = predicted(tmp_path, capsys, replace(DERIVED, log=printed), "--to", "host_pool_mib=12288")
    said = judged(capsys, site, log("radiance-derived"))
    document = said.document
    assert (said.code, document["status"], document["other_settings"]) == (0, "held", [])
    found = rows(document)
    assert found["kv_blocks"] == found["kv_tokens"] == "exact"
    assert found["vram_kv"] == found["claimable"] == "within"
    assert row(document, "kv_blocks")["printed"] == {"low": 131_044, "high": 131_044}
    assert document["outcome"] == {"predicted": ["serves"], "seen": None, "agrees": None, "line": None, "source": None}
    rate = {fact["name"]: fact for fact in document["facts"]}["bytes_per_token"]
    assert rate["now"] == rate["was"]
    assert rate["now"]["low"] <= 7_488 <= rate["now"]["high"]
    assert found["slab_slots"] == "exact"
    assert row(document, "slab_slots")["source"].endswith(f":{1 + _line(log('radiance-derived'), '18537 slab')}")


@pytest.mark.parametrize("name", ["crlf", "journal", "coloured compose", "terminal of 100"])
def test_however_the_log_was_saved(tmp_path: Path, capsys: Capture, name: str) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    assert judged(capsys, site, DISGUISES[name](log("halogen-fits"))).code == 0


def changed(*pairs: tuple[str, str]) -> str:
    """The derived log with figures replaced, each of which stands there."""
    text = log("radiance-derived")
    for old, new in pairs:
        assert re.search(old, text), old
        text = re.sub(old, new, text)
    return text


def test_what_the_arena_took(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "host_pool_mib=12288")
    text = changed((r"activation arena     1\.10", "activation arena     1.30"), ("claimable           29.90",
                   "claimable           29.70"), ("elastic             26.56", "elastic             26.36"),
                   ("experts           21.93", "experts           21.73"), (r"vram_weights        25\.27",
                   "vram_weights        25.07"))
    said = judged(capsys, site, text)
    assert (said.code, said.document["status"]) == (3, "off")
    assert said.document["why"] == "4 rows are off"
    for name in ("claimable", "elastic", "experts", "vram_weights"):
        found = row(said.document, name)
        assert found["status"] == "off"
        (cause,) = found["causes"]
        assert cause["name"] == "activation_arena"
        assert cause["by"]["low"] <= 0.2 * 2**30 <= cause["by"]["high"]
        assert cause["effect"]["high"] < -0.18 * 2**30
        assert max(found["by"]["low"], cause["effect"]["low"]) <= min(found["by"]["high"], cause["effect"]["high"])
        # both prints leave 0.01 GiB open, and the effect no less
        assert cause["effect"]["high"] - cause["effect"]["low"] >= 0.018 * 2**30
        assert found["left"] is None
    out = ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log")).out
    assert re.search(r"claimable, -\d+\.\d\d MiB to -\d+\.\d\d MiB: activation_arena \+\d+\.\d\d MiB", out)
    text = changed(("claimable           29.90", "claimable           28.90"))  # and nothing that would explain it
    document = judged(capsys, site, text).document
    assert any(told.startswith("claimable is printed as 28.90 GiB, but") for told in document["contradictions"])
    assert row(document, "claimable")["causes"] == []
    assert row(document, "claimable")["left"]["high"] < -0.98 * 2**30
    assert "does not add up" in ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log")).out


def test_what_a_row_lost_another_got(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "host_pool_mib=12288")
    text = changed(("experts           21.93", "experts           21.43"),
                   ("kv cache           4.33", "kv cache           4.83"))
    document = judged(capsys, site, text).document
    lost, got = row(document, "experts"), row(document, "kv_cache")
    assert [item["name"] for item in lost["gained"]] == ["kv_cache"]
    assert [item["name"] for item in got["gained"]] == ["experts"]
    assert lost["causes"] == []
    out = ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log")).out
    assert re.search(r"experts, -.*: kv_cache got \+", out)
    assert re.search(r"kv_cache, \+.*: experts lost -", out)


def test_what_is_not_printed_is_said(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    text = "".join(line + "\n" for line in log("halogen-fits").splitlines() if "in all" not in line)
    document = judged(capsys, site, text).document
    assert (document["status"], rows(document)["locked_total"]) == ("held", "unprinted")
    assert "not printed" in ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log")).out


def test_a_boot_that_was_cut_off_is_open(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "host_pool_mib=12288")
    said = judged(capsys, site, log("radiance-derived").partition("  static weights")[0])
    assert (said.code, said.document["status"]) == (4, "open")
    assert "cut off" in said.document["why"]


@pytest.mark.parametrize("lines", [10, 20])
def test_a_start_that_never_comes_up_holds_nothing(tmp_path: Path, capsys: Capture, lines: int) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    text = "\n".join(log("halogen-fits").splitlines()[:lines])
    assert "listening" not in text
    said = judged(capsys, site, text, "--write")
    assert (said.code, said.document["status"]) == (4, "open")
    assert said.document["next_ledger"] is None
    assert judged(capsys, site, log("halogen-fits")).document["status"] == "held"  # it still waited


def test_cards_that_never_settled_hold_nothing(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "host_pool_mib=12288")
    said = judged(capsys, site, "".join(log("radiance-derived").partition("unclaimed  ")[:2]) + " 512.33 MiB\n")
    assert (said.code, said.document["status"]) == (4, "open")


def test_the_last_word_on_the_pool_counts(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    document = judged(capsys, site, log("halogen-fits").replace("524288-position KV", "262144-position KV")).document
    assert (document["status"], row(document, "pool_positions")["by"]) == ("off", {"low": -262_144, "high": -262_144})
    early = log("halogen-fits").replace("reserving the KV pool, 524288", "reserving the KV pool, 262144")
    said = judged(capsys, site, early)
    assert rows(said.document)["pool_positions"] == "exact"
    assert (said.code, said.document["status"]) == (4, "open")
    assert "contradicts itself" in said.document["why"]


def test_a_boot_that_failed(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    text = HALOGEN_LOG.split("startup")[0] + "dmalloc: FAILED requesting 8.4 GiB after 31.2 GiB in 120 allocations " \
        "(out of memory)\n"
    said = judged(capsys, site, text)
    assert (said.code, said.document["status"]) == (3, "off")
    assert said.document["outcome"]["seen"] == "out_of_memory_at_boot"
    assert said.document["next_ledger"] is None


def test_a_shape_that_preempts_shows_so_later(tmp_path: Path, capsys: Capture) -> None:
    server = with_config(DERIVED, {"serve.sh": DERIVED.config["serve.sh"]}, )
    site = predicted(tmp_path, capsys, server, "--to", "expert_vs_cache_ratio=0.87", "--anyway")
    (record,) = read_history(site / "shapewright-history.jsonl").records
    assert record["outcomes"] == ["preempts"]
    text = log("radiance-derived").replace("ratio 0.82 divides", "ratio 0.87 divides")
    assert judged(capsys, site, text).document["outcome"]["agrees"] is None


def test_which_prediction_is_judged(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=19")
    predicted(tmp_path, capsys, with_config(HALOGEN_READ, halogen_env(reserve=19)), "--to", "host_reserve_gib=20")
    first, second = (record["id"] for record in read_history(site / "shapewright-history.jsonl").records)
    fits = log("halogen-fits")
    assert judged(capsys, site, fits).document["prediction"]["id"] == second  # shown, so it is still without one
    said = judged(capsys, site, fits, "--write")
    assert (said.code, said.document["prediction"]["id"]) == (0, second)
    assert f"has judged prediction {second} already" in judged(capsys, site, fits).document["error"]["message"]
    assert judged(capsys, site, fits + "# x\n").document["prediction"]["id"] == first  # another log
    assert judged(capsys, site, fits, "--id", second[:5].upper()).document["prediction"]["id"] == second
    records = read_history(site / "shapewright-history.jsonl").records
    assert [record["kind"] for record in records] == ["prediction", "prediction", "verdict"]
    assert (records[2]["of"], records[2]["id"]) == (second, said.document["record"]["id"])
    for wanted, right in (("zzz", "no prediction of id"), ("", "2 predictions of id")):
        assert right in judged(capsys, site, fits, "--id", wanted).document["error"]["message"]


def test_all_have_their_verdict(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    assert judged(capsys, site, log("halogen-fits"), "--write").code == 0
    said = judged(capsys, site, log("halogen-fits"))
    assert said.code == 2
    assert "every prediction has its verdict: --id" in said.document["error"]["message"]


def _of_before(site: Path) -> list[str]:
    return ["--ledger", str(site / "boot.log")]


def _missing(site: Path) -> list[str]:
    return ["--ledger", str(site / "gone.log")]


def _foreign(site: Path) -> list[str]:
    (site / "other.log").write_text(log("radiance-derived"), encoding="utf-8")
    return ["--ledger", str(site / "other.log")]


def _no_record(site: Path) -> list[str]:
    return [*_of_before(site), "--record", str(site / "gone.jsonl")]


@pytest.mark.parametrize(("words", "right"), [
    (_of_before, "is the log that the prediction was made from"), (_missing, "no such file"),
    (_foreign, "no line of it looks like halogen"), (_no_record, "no such file of records"),
    (lambda _: [], "give the log of the boot after the change"),
])
def test_wrong_words(tmp_path: Path, capsys: Capture, words: Callable[[Path], list[str]], right: str) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    said = ask(capsys, "verdict", str(site), *words(site))
    assert (said.code, said.out) == (2, "")
    assert right in said.err


def test_no_prediction_at_all(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    said = ask(capsys, "verdict", str(site), "--ledger", str(site / "boot.log"))
    assert said.code == 2
    assert "apply --write records one" in said.err


@pytest.mark.parametrize("change", [
    {"engine": {"name": "halogen", "version": "99.0.0", "container": "w4b"}}, {"shape": {"tp": "x", "ctx": "many"}},
    {"shape": {"kv_cache_dtype": 7, "ctx": True}}, {"outcomes": []}, {"printed": ["nothing"]},
    {"rows": {"pool_positions": {"low": 1, "high": 1, "unit": "sheep", "basis": "read"}}},
    {"facts": {}, "as_is": {}}, {"ledger": 3}, {"outcomes": ["sleeps"]},
])
def test_records_of_other_hands_are_no_defect(tmp_path: Path, capsys: Capture, change: dict[str, Any]) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    file = site / "shapewright-history.jsonl"
    record = json.loads(file.read_text(encoding="utf-8"))
    forged = sealed("prediction", {**record, **change}, datetime(2026, 12, 1, tzinfo=UTC))
    file.write_text(json.dumps(forged) + "\n", encoding="utf-8")
    (site / "new.log").write_text(log("halogen-clamped"), encoding="utf-8")
    for words in (["verdict", str(site), "--ledger", str(site / "new.log")], ["history", str(site)]):
        ask(capsys, *words)
        ask(capsys, *words, "--json")


def test_more_boots_in_one_log(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    document = judged(capsys, site, log("halogen-clamped") + log("halogen-fits")).document
    assert document["status"] == "held"
    assert any("2 boots: the last complete one counts" in text for text in document["notes"])


def test_a_ratio_that_is_printed_with_two_decimals(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "expert_vs_cache_ratio=0.8211")
    assert judged(capsys, site, log("radiance-derived")).document["other_settings"] == []
    site = predicted(tmp_path, capsys, with_config(DERIVED, DERIVED.config), "--to", "expert_vs_cache_ratio=0.8")
    newest = read_history(site / "shapewright-history.jsonl").records[-1]["id"]
    assert judged(capsys, site, log("radiance-derived"), "--id", newest).document["status"] == "void"


def test_a_pair_that_the_boot_derived_is_another(tmp_path: Path, capsys: Capture) -> None:
    config = pair_env(22_208, 4_430, 2, 262_144, spec=3, more="FRANK_ARCHON_GPU_HEADROOM_MIB=512\n")
    server = Server("radiance@1.0.13", {"frank.env": config["frank.env"].replace("-w4.rad", "-fp8-iq4r-moe.rad")},
                    facts=("pair_ceiling=30969MiB",))
    site = predicted(tmp_path, capsys, server, "--to", "vram_weights_mib=22300", "--anyway")
    document = judged(capsys, site, log("radiance-derived")).document
    assert document["status"] == "void"
    assert any("vram_weights_mib is 22300" in text for text in document["other_settings"])


def test_the_schema_is_strict(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    document = judged(capsys, site, log("halogen-clamped")).document
    validator = Draft202012Validator(schema("verdict"))
    off = row(document, "pool_positions")
    for change in ({"status": "lost"}, {"status": "void"}, {"extra": 1}, {"rows": [{**off, "by": None}]},
                   {"rows": [{**off, "status": "exact"}]}, {"rows": [{**off, "printed": None}]},
                   {"other_settings": ["x"]}, {"record": {"file": "x", "id": "no"}},
                   {"outcome": {**document["outcome"], "seen": "naps"}},
                   {"facts": [{**document["facts"][0], "moved": True, "by": None}]},
                   {"prediction": {**document["prediction"], "time": "yesterday"}}):
        assert not validator.is_valid({**document, **change}), change


def test_of_two_that_wait_the_one_that_the_log_is_of(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    predicted(tmp_path, capsys, with_config(HALOGEN_READ, halogen_env(reserve=20)), "--to", "host_reserve_gib=19")
    old, new = (record["id"] for record in read_history(site / "shapewright-history.jsonl").records)
    document = judged(capsys, site, log("halogen-fits")).document
    assert (document["prediction"]["id"], document["status"]) == (old, "held")
    assert any(text.startswith(f"{new} is newer and waits too") for text in document["notes"])
    neither = log("halogen-fits").replace("20.0 reserved", "18.0 reserved").replace("37.4 GiB", "39.4 GiB")
    document = judged(capsys, site, neither).document
    assert (document["prediction"]["id"], document["status"]) == (new, "void")


def test_what_is_measured_at_every_boot_is_said_to_be(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    def with_left(text: str) -> str:
        return re.sub(r"\((\S+) GiB total", "(10.2 GiB total", text)

    said = judged(capsys, site, with_left(log("halogen-fits")), "--write")
    document = said.document
    assert (said.code, document["status"], rows(document)["host_left"]) == (0, "held", "drifted")
    assert document["why"].startswith("every row that was printed agrees once host_left is as this boot measured")
    (note,) = document["notes"]
    assert note.startswith("host_left is measured anew at every boot")
    assert "the server itself holds what was predicted (locked_total)" in note
    history = ask(capsys, "history", str(site), "--json").document
    valid("history", history)
    (told,) = history["predictions"][0]["verdicts"]
    assert ([item["name"] for item in told["drifted"]], told["off"]) == (["host_left"], [])
    assert "host_left drifted" in ask(capsys, "history", str(site)).out
    # where the server does not hold what was predicted, or it tells too little, what is left may be its doing
    id_ = document["prediction"]["id"]
    for old, new in (("103.8 GiB in all", "104.8 GiB in all"), ("memory: 68.0", "memory is 68.0")):
        document = judged(capsys, site, with_left(log("halogen-fits").replace(old, new)), "--id", id_).document
        assert (document["status"], rows(document)["host_left"]) == ("off", "off")


def test_a_change_that_only_what_is_left_shows_does_not_drift(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "cache_entries=30")
    silent = "".join(line + "\n" for line in log("halogen-fits").splitlines() if "prompt cache" not in line)
    document = judged(capsys, site, silent).document
    assert (document["why"], rows(document)["host_left"]) == ("host_left is off", "off")


def test_what_follows_from_a_change_is_part_of_it(tmp_path: Path, capsys: Capture) -> None:
    later = Server("halogen@0.13.8", halogen_env(reserve=20), log=HALOGEN_LOG.replace("0.13.0", "0.13.8"))
    site = predicted(tmp_path, capsys, later, "--to", "kv_slots=2")  # takes 12 cache entries with it
    text = later.log.replace("1 -> 4 POOLED", "1 -> 2 POOLED").replace("21.4 GiB", "21.2 GiB").replace("103.8", "103.6")
    document = judged(capsys, site, text.replace("10.9 GiB total", "12.0 GiB total")).document
    assert (document["why"], rows(document)["locked_total"]) == ("host_left is off", "within")


def test_a_table_that_the_change_makes_smaller_has_not_moved(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "max_num_seqs=1")
    text = log("radiance-derived").replace("2 sequences all", "1 sequences all").replace("8 rows", "4 rows")
    text = text.replace("264.55 MiB", "364.55 MiB").replace("29.90 GiB", "29.80 GiB")
    moved = {}
    for staging in ("1.61 MiB", "3.11 MiB"):  # one sequence's three tables of 262,400 B, twice, and 0.11 beside
        document = judged(capsys, site, text.replace("3.11 MiB", staging)).document
        moved[staging] = {fact["name"] for fact in document["facts"] if fact["moved"]} & {
            "step_staging", "already_held"}
        causes = {cause["name"] for cause in row(document, "claimable")["causes"]}
        assert causes == moved[staging], document["other_settings"]
    assert moved == {"1.61 MiB": {"already_held"}, "3.11 MiB": {"already_held", "step_staging"}}


@pytest.mark.parametrize(("held", "claimable", "status"), [
    ("271.85", "29.89", "held"), ("271.85", "29.87", "off"), ("264.55", "29.89", "off")])
def test_what_others_hold_of_a_card(held: str, claimable: str, status: str, tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "expert_vs_cache_ratio=0.821")
    text = log("radiance-derived").replace("ratio 0.82 ", "ratio 0.821 ").replace("264.55 MiB", f"{held} MiB")
    text = text.replace("29.90 GiB", f"{claimable} GiB").replace("26.56 GiB", "26.55 GiB")
    document = judged(capsys, site, text).document
    assert document["status"] == status, document["rows"]
    if status == "held":
        found = row(document, "claimable")
        assert (found["status"], found["anew"], found["left"]) == ("drifted", ["already_held"], None)
        assert [cause["name"] for cause in found["causes"]] == ["already_held"]


@pytest.mark.parametrize(("slots", "status"), [("18533", "held"), ("18532", "held"), ("18539", "off")])
def test_whole_slots_drift_by_whole_slots(slots: str, status: str, tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED_WITH_SLOTS, "--to", "prefix_cache_host_mib=1024")
    # 5 MiB less of 1.21 MiB each: four or five slots, as the rest of a slot was
    text = DERIVED_WITH_SLOTS.log.replace("264.55 MiB", "269.55 MiB").replace("18537", slots)
    document = judged(capsys, site, text).document
    assert document["status"] == status, document["rows"]


def test_a_boot_that_denies_its_own_shape(tmp_path: Path, capsys: Capture) -> None:
    for file in (SITES / "stated-pair").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert ask(capsys, "apply", str(tmp_path), "--to", "vram_kv_mib=7000", "--write").code == 0
    under = STATED_LOG.replace("settled at 1.00 GiB", "settled at 120.00 MiB")
    said = judged(capsys, tmp_path, under)
    assert (said.code, said.document["status"]) == (3, "off")
    assert said.document["why"].startswith("by this boot's own figures settled_above_floor")


def test_a_record_names_the_log_from_its_own_folder(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    secret = site / "sk-abcdefghijklmnopqrstuvwxyz0123456789"
    secret.mkdir()
    (secret / "new.log").write_text(log("halogen-clamped"), encoding="utf-8")
    ask(capsys, "verdict", str(site), "--ledger", str(secret / "new.log"), "--write")
    written = (site / "shapewright-history.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    assert str(tmp_path) not in written
    assert secret.name not in written
    assert json.loads(written)["outcome"]["source"] == "<secret>/new.log:4"


def test_the_log_of_before_may_be_that_of_an_older_prediction(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    (site / "boot.log").write_text(log("halogen-fits"), encoding="utf-8")
    assert ask(capsys, "apply", str(site), "--to", "host_reserve_gib=19", "--write").code == 0
    said = ask(capsys, "verdict", str(site), "--ledger", str(site / "boot.log"), "--json")
    old, new = read_history(site / "shapewright-history.jsonl").records
    assert (said.document["prediction"]["id"], said.document["status"]) == (old["id"], "held")
    said = ask(capsys, "verdict", str(site), "--ledger", str(site / "boot.log"), "--id", new["id"])
    assert (said.code, "is the log that the prediction was made from" in said.err) == (2, True)


def test_a_file_that_was_changed_since_is_told(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=19")
    text = log("halogen-fits").replace("20.0 reserved", "19.0 reserved").replace("37.4 GiB", "38.4 GiB")
    assert judged(capsys, site, text).document["notes"] == []
    env = site / "halogen.env"
    env.write_text(env.read_text(encoding="utf-8") + "HALOGEN_CACHE_ENTRIES=40\n", encoding="utf-8")
    (note,) = judged(capsys, site, text).document["notes"]
    assert note.startswith("halogen.env was changed since this prediction wrote it")


FUNDED_LOG = """\
I device: AQL backend, 2 device(s) [0:gfx1201 1:gfx1201]
I VRAM budget, per card:
  card total          31.86 GiB
  already held       347.00 MiB   measured
  drift              {drift} MiB   since the last boot
  activation arena     1.10 GiB   computed
  step staging         3.00 MiB   block tables and staging
  hardware queues    100.00 MiB   measured
  prefetch             0.00 MiB
  --gpu-headroom-mib  96.00 MiB   left alone
  claimable           {claimable} GiB
  static weights       3.34 GiB   off the top
  elastic             {elastic} GiB
    experts           {experts} GiB
    kv cache           {kv} GiB
  vram_weights        {weights} GiB   static + experts
  vram_kv              {kv} GiB   the cache's share
  unclaimed           96.40 MiB
I kv: the cache can grow to {kv} GiB a card -- {tokens} tokens of context, 6 sessions at 200000
"""


def funded(tmp_path: Path, capsys: Capture) -> Path:
    """A cache that its demand does not bound, funded by 1,024 MiB more."""
    server = Server("radiance@1.8.1", funded_env(8), facts=BUDGET)
    site = predicted(tmp_path, capsys, server, "--to", "host_pool_mib=13312", "--anyway")
    (record,) = read_history(site / "shapewright-history.jsonl").records
    assert record["changes"] == {"host_pool_mib": [12_288, 13_312]}
    return site


def figures(site: Path, *, drift: float = 0, shift: float = 0) -> str:
    """The log that follows from the prediction, with ``drift`` MiB taken and ``shift`` GiB given to the experts."""
    (record,) = read_history(site / "shapewright-history.jsonl").records
    gib = {name: (item["low"] + item["high"]) / 2**31 for name, item in record["rows"].items()}
    taken = drift / 1024
    kv = gib["kv_cache"] - taken - shift
    tokens = (record["rows"]["kv_tokens"]["low"] + record["rows"]["kv_tokens"]["high"]) // 2
    tokens -= int((taken + shift) * 2**30 / 7488)
    return FUNDED_LOG.format(
        drift=f"{drift:.2f}", claimable=f"{gib['claimable'] - taken:.2f}", elastic=f"{gib['elastic'] - taken:.2f}",
        experts=f"{gib['experts'] + shift:.2f}", kv=f"{kv:.2f}", weights=f"{gib['vram_weights'] + shift:.2f}",
        tokens=tokens)


def test_a_cache_that_the_host_pool_funds(tmp_path: Path, capsys: Capture) -> None:
    site = funded(tmp_path, capsys)
    document = judged(capsys, site, figures(site)).document
    assert document["status"] == "held"
    # all that such a ledger tells of a token: what is given for it
    (given,) = (fact for fact in document["facts"] if fact["name"] == "given_per_token")
    kv, tokens = (row(document, name)["printed"] for name in ("vram_kv", "kv_tokens"))
    assert given["was"] is None
    assert given["now"] == {"low": kv["low"] // tokens["low"], "high": -(-kv["high"] // tokens["low"])}
    assert given["now"]["low"] > 7_488


def test_drift_took_it(tmp_path: Path, capsys: Capture) -> None:
    site = funded(tmp_path, capsys)
    document = judged(capsys, site, figures(site, drift=204.8)).document
    for name in ("claimable", "elastic", "kv_cache", "vram_kv"):
        found = row(document, name)
        (cause,) = found["causes"]
        assert (cause["name"], found["left"], found["gained"]) == ("drift", None, [])
        assert -205 * 2**20 <= cause["effect"]["low"] <= cause["effect"]["high"] <= -204 * 2**20
    assert any(text.startswith("drift was stated, and this boot tells another") for text in document["notes"])


def test_a_change_that_did_not_take_place(tmp_path: Path, capsys: Capture) -> None:
    site = funded(tmp_path, capsys)
    document = judged(capsys, site, figures(site, shift=1)).document
    assert [item["name"] for item in row(document, "kv_cache")["gained"]] == ["experts"]
    assert [item["name"] for item in row(document, "vram_kv")["gained"]] == ["vram_weights"]
    assert row(document, "kv_cache")["left"] is not None
    assert "every row is as it would be without the change of host_pool_mib: was the server started anew with it?" \
        in document["notes"]
    out = ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log")).out
    assert re.search(r"vram_kv, -.*: vram_weights got \+.*; no fact that the log tells explains it", out)


def test_a_change_that_nothing_shows(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, DERIVED, "--to", "host_pool_mib=13312")
    document = judged(capsys, site, log("radiance-derived")).document
    assert document["other_settings"]  # this log names the pool
    silent = "".join(line + "\n" for line in log("radiance-derived").splitlines() if "host_pool" not in line)
    document = judged(capsys, site, silent).document
    assert document["status"] == "held"
    assert any(text.startswith("the log does not name host_pool_mib") for text in document["notes"])


STATED_LOG = """\
I device: AQL backend, 2 device(s) [0:gfx1201 1:gfx1201]
I VRAM budget, per card:
  card total          31.86 GiB
  already held       343.00 MiB   measured
  activation arena   957.70 MiB   from the buffer plan
  step staging         3.11 MiB   the step batch
  hardware queues    100.05 MiB   measured
  --gpu-headroom-mib  96.00 MiB   left alone
  vram_weights        21.69 GiB   stated by --vram-weights-mib
  vram_kv              6.84 GiB   stated by --vram-kv-mib
  unclaimed            1.96 GiB   the headroom, and rounding
W card 0 settled at 1.00 GiB free against 209.19 MiB (the 96.00 MiB --gpu-headroom-mib and 113.19 MiB kept)
"""


def test_a_stated_ceiling_is_refreshed(tmp_path: Path, capsys: Capture) -> None:
    for file in (SITES / "stated-pair").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert ask(capsys, "apply", str(tmp_path), "--to", "vram_kv_mib=7000", "--write").code == 0
    document = judged(capsys, tmp_path, STATED_LOG).document
    assert document["status"] == "held"
    (fact,) = (item for item in document["facts"] if item["name"] == "pair_ceiling")
    assert fact["moved"]
    assert fact["source"].endswith(":12")
    # what was settled above the floor, and the pair
    least, most = (int((settled - 209.19) * 2**20) + 29_208 * 2**20 for settled in (1023.99 - 5.12, 1024.01 + 5.12))
    assert least <= fact["now"]["low"] <= fact["now"]["high"] <= most
    assert any(text.startswith("pair_ceiling was stated, and this boot tells another") for text in document["notes"])
    toml = tmp_path / "site.toml"
    assert document["next_ledger"] == "new.log"
    text = toml.read_text(encoding="utf-8").replace("points = ", 'ledger = "new.log"\npoints = ')
    toml.write_text(text, encoding="utf-8")
    checked = ask(capsys, "check", str(tmp_path), "--json").document
    assert any(told.startswith("pair_ceiling is stated as 30.24 GiB, and the ledger tells 29.3")
               for told in checked["warnings"])
    toml.write_text(re.sub("pair_ceiling = .*", "", text), encoding="utf-8")
    checked = ask(capsys, "check", str(tmp_path), "--json").document  # [boot] is of another boot than this log
    assert checked["quantities"]["pair_ceiling"]["low"] == fact["now"]["low"]
    assert checked["quantities"]["pair_ceiling"]["high"] == fact["now"]["high"]
    assert not any("pair_ceiling" in told for told in checked["warnings"])


def test_another_generation_voids(tmp_path: Path, capsys: Capture) -> None:
    site = predicted(tmp_path, capsys, HALOGEN_READ, "--to", "host_reserve_gib=20")
    other = log("halogen-fits").replace("halogen-flash-server 0.13.0, ", "halogen-flash-server, ")
    assert judged(capsys, site, other).document["status"] == "held"
    other = re.sub("(roughly [^,]*?) of weights", r"\\1 (read from the checkpoint) of weights", other)
    document = judged(capsys, site, other).document
    (told,) = document["other_settings"]
    assert told == "the version is 0.13.0 in the prediction, and the log reads as 0.15.1 or later"
    (tmp_path / "cards").mkdir()
    site = funded(tmp_path / "cards", capsys)
    assert "the version is 1.8.1 in the prediction, and the log reads as 1.0.x (1.0.9 or later)" in judged(
        capsys, site, log("radiance-derived")).document["other_settings"]
