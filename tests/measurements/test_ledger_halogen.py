"""Startup logs of halogen-flash-server."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.interval import GIB, MIB, Interval, point, printed
from tests.measurements.ledger_logs import contradictions, log, read


def test_a_pool_that_fits(tmp_path: Path) -> None:
    reading = read(tmp_path, log("halogen-fits"))
    assert (reading.engine, reading.version, reading.boots, reading.missing) == ("halogen", "0.13.0", 1, ())
    assert reading.generation.words == "0.11.9 or later"
    assert reading.findings == ()
    for name, figure in (
        ("mem_total", Interval(125 * GIB, 126 * GIB - 1)),
        ("mem_available", printed("121.7", GIB)),
        ("resident_weights", printed("67.7", GIB)),
        ("device_budget", printed("37.4", GIB)),
        ("margin", printed("1.5", GIB)),
        ("vision_resident", printed("0.84", GIB)),
        ("vision_scratch", printed("1.14", GIB)),
        ("gtt_used", Interval(0, printed("0.0", GIB).high)),
        ("gtt_total", printed("124.0", GIB)),
        ("weights_locked", printed("68.0", GIB)),
        ("kv_pool", printed("14.4", GIB)),
        ("working_memory", printed("21.4", GIB)),
        ("host_left", printed("10.9", GIB)),
        ("meminfo_will_say", printed("78.9", GIB)),
        ("carve_out", printed("2.0", GIB)),
        ("slot_state", printed("111.0", MIB)),
        ("compaction_stalls", point(12)),
        ("free_blocks", point(1306)),
        ("checkpoint", "w4b"),
        ("mode", "engine"),
    ):
        assert reading.facts[name].value == figure, name
    for name, figure in (
        ("pool_positions", point(524288)),
        ("device_need", printed("35.0", GIB)),
        ("device_other", printed("20.6", GIB)),
        ("locked_total", printed("103.8", GIB)),
        ("gtt_need", printed("31.6", GIB)),
        ("clamped", "no"),
        ("outcome_seen", "serves"),
    ):
        assert reading.rows[name].value == figure, name
    assert {name: knob.value for name, knob in reading.knobs.items()} == {
        "kv_pool_positions": point(524288),
        "kv_slots": point(4),
        "ctx": point(262144),
        "max_tok": point(32768),
        "host_reserve_gib": printed("20.0", GIB),
        "cache_entries": point(20),
        "vision_tower": "ON",
    }
    assert reading.facts["device_budget"].place.line == 7


def test_a_clamp_in_wrapped_lines(tmp_path: Path) -> None:
    reading = read(tmp_path, log("halogen-clamped"))
    assert reading.version is None
    assert reading.rows["clamped"].value == "yes"
    assert reading.rows["pool_positions"].value == point(262144)
    assert reading.rows["pool_positions"].place.line == 4
    assert reading.rows["device_after_clamp"].value == printed("27.8", GIB)
    assert reading.knobs["kv_pool_positions"].value == point(524288)
    assert reading.facts["device_budget"].value == printed("35.8", GIB)
    assert reading.facts["device_budget"].place.line == 2
    assert reading.rows["outcome_seen"].value == "clamped"
    assert contradictions(reading) == []


def test_no_sizing_block_and_weights_read_from_the_checkpoint(tmp_path: Path) -> None:
    reading = read(tmp_path, log("halogen-v2"))
    assert (reading.version, reading.generation.words) == ("0.17.4", "0.15.1 or later")
    assert reading.facts["resident_weights"].value == printed("62.1", GIB)
    assert reading.facts["checkpoint"].value == "v2"
    assert reading.facts["pinned"].value == printed("62.11", GIB)
    assert reading.facts["mem_available"].value == printed("117.0", GIB)
    assert reading.facts["mem_available_at_pin"].value == printed("116.8", GIB)
    assert "device_budget" not in reading.facts
    assert (reading.rows["clamped"].value, reading.findings) == ("no", ())


def test_an_estimate_of_the_weights_is_no_fact(tmp_path: Path) -> None:
    line = next(line for line in log("halogen-fits").split("\n") if "KV budget" in line)
    assert "resident_weights" not in read(tmp_path, line).facts


def test_a_note_is_not_a_clamp(tmp_path: Path) -> None:
    assert "Lowering HALOGEN_KV_POOL_POSITIONS" in log("halogen-fits")
    assert read(tmp_path, log("halogen-fits")).rows["clamped"].value == "no"
    softer = log("halogen-clamped").replace("LOWERING THE POOL TO", "Lowering the pool to")
    assert "clamped" not in read(tmp_path, softer).rows


@pytest.mark.parametrize("line", [
    "halogen: NOTE on a smaller host it says LOWERING THE POOL TO 262144 (~27.8 GiB)",
    'api: a user asks "what does kv pool: 524288 positions need ~35.0 GiB, LOWERING THE POOL TO 262144 mean?"',
    "halogen: NOTE a server without room refuses to start", "somebody refused to start",
    "checkpoint: refusing to pin 65.60 GiB at first", "dmalloc: FAILED requesting 0.750 GiB, and tried again",
])
@pytest.mark.parametrize("first", [True, False])
def test_what_looks_like_an_outcome_is_none(tmp_path: Path, line: str, first: bool) -> None:
    head, rest = log("halogen-fits").split("\n", 1)
    reading = read(tmp_path, f"{head}\n{line}\n{rest}" if first else f"{head}\n{rest}{line}\n")
    assert reading.rows["outcome_seen"].value == "serves"
    assert reading.rows["pool_positions"].value == point(524_288)
    assert reading.rows["clamped"].value == "no"
    assert (contradictions(reading), reading.ended) == ([], True)


@pytest.mark.parametrize(
    ("lines", "outcome", "facts"),
    [
        (
            "dmalloc: FAILED requesting 0.750 GiB after 39.703 GiB in 647 allocations (out of memory)\n"
            "HIP ops.h:122: out of memory\n",
            "out_of_memory_at_boot",
            {"oom_requested": printed("0.750", GIB), "oom_after": printed("39.703", GIB)},
        ),
        (
            "checkpoint: refusing to pin 65.60 GiB, MemAvailable is 45.92 GiB and the floor is 16.00 GiB.\n"
            "kv pool: host RAM 47 GiB, less 67.7 resident weights and 20.0 reserved "
            "… = 0.0 GiB for the device\n",
            "refused_at_boot",
            {
                "pin_asked": printed("65.60", GIB),
                "pin_floor": printed("16.00", GIB),
                "mem_available_at_pin": printed("45.92", GIB),
                "device_budget": printed("0.0", GIB),
            },
        ),
        (
            "halogen: GTT in use before this start: 98.1 GiB of 118.0 (19.9 free; this start puts about "
            "31.6 GiB there)\n"
            "halogen: refusing to start: free GTT does not hold it\n",
            "refused_at_boot",
            {"gtt_used": printed("98.1", GIB), "gtt_total": printed("118.0", GIB)},
        ),
        (
            "startup [  78.5 s] KV pool reserved: 449 contiguous 2 MiB blocks free (898 MiB), "
            "11783 compaction stalls during that step (806 failed)\n"
            "halogen: WARNING 11783 compaction stalls (806 of them failed) while 'KV pool reserved'.\n",
            "stalls",
            {"compaction_stalls": point(11783), "free_blocks": point(449)},
        ),
    ],
)
def test_what_went_wrong(tmp_path: Path, lines: str, outcome: str, facts: dict[str, object]) -> None:
    reading = read(tmp_path, lines)
    assert reading.rows["outcome_seen"].value == outcome
    assert {name: reading.facts[name].value for name in facts} == facts
    assert [finding.severity for finding in reading.findings] == ["note"]


def test_memory_that_runs_out_while_serving_is_no_failed_boot(tmp_path: Path) -> None:
    later = "dmalloc: FAILED requesting 0.750 GiB after 39.703 GiB in 647 allocations (out of memory)\n"
    reading = read(tmp_path, log("halogen-fits") + later)
    assert reading.rows["outcome_seen"].value == "serves"
    assert [finding.severity for finding in reading.findings] == ["note"]


@pytest.mark.parametrize(
    ("name", "right", "wrong", "said"),
    [
        ("halogen-fits", "= 37.4 GiB for", "= 39.4 GiB for", "host RAM less weights and reserve is"),
        ("halogen-fits", "(about 14.4 GiB)", "(about 7.2 GiB)", "524288 positions take 14.40 GiB"),
        ("halogen-fits", "14.4 GiB of KV pool", "7.2 GiB of KV pool", "kv_pool is printed as 7.2 GiB"),
        ("halogen-fits", "103.8 GiB in all", "93.8 GiB in all", "locked_total is printed as 93.8 GiB"),
        ("halogen-fits", "(124.0 free", "(104.0 free", "gtt_free is printed as 104.0"),
        ("halogen-fits", "ONE pool of 524288", "ONE pool of 262144", "pool_positions is printed as 524288"),
        ("halogen-fits", "~35.0 GiB (20.6", "~27.8 GiB (20.6", "device_need is printed as 27.8 GiB"),
        ("halogen-v2", "one 32768-position", "one 65536-position", "no line says that the pool was lowered"),
        ("halogen-clamped", "= 35.8 GiB for", "= 37.8 GiB for", "although the budget holds it"),
        ("halogen-clamped", "7.2 GiB of KV", "14.4 GiB of KV", "262144 positions take"),
    ],
)
def test_what_does_not_add_up_is_said(tmp_path: Path, name: str, right: str, wrong: str, said: str) -> None:
    text = log(name)
    assert right in text
    reading = read(tmp_path, text.replace(right, wrong))
    assert any(said in finding for finding in contradictions(reading)), reading.findings
    assert all(finding.places for finding in reading.findings)


def test_fewer_tokens_than_were_asked_for(tmp_path: Path) -> None:
    reading = read(tmp_path, log("halogen-fits").replace("max_tok 32768, BATCHED", "max_tok 16384, BATCHED"))
    assert reading.knobs["max_tok"].value == point(16384)
    assert [(finding.severity, len(finding.places)) for finding in reading.findings] == [("note", 2)]


def test_the_last_complete_boot_counts(tmp_path: Path) -> None:
    whole, clamped = log("halogen-fits"), log("halogen-clamped")
    assert (read(tmp_path, whole + clamped).boots, read(tmp_path, whole + clamped).rows["clamped"].value) == (
        2,
        "yes",
    )
    reading = read(tmp_path, whole + whole[: whole.index("slots: 1 -> 4")])
    assert (reading.boots, reading.rows["locked_total"].printed) == (2, "103.8 GiB")
    assert [(finding.severity, finding.places[0].line) for finding in reading.findings] == [
        ("note", whole.count("\n") + 1)
    ]


def test_a_boot_that_ended_in_a_refusal_is_complete(tmp_path: Path) -> None:
    refused = (
        "halogen: halogen-flash-server 0.13.0, mode all\n"
        "checkpoint: refusing to pin 65.60 GiB, MemAvailable is 45.92 GiB and the floor is 16.00 GiB.\n"
    )
    assert read(tmp_path, log("halogen-fits") + refused).rows["outcome_seen"].value == "refused_at_boot"


def test_a_start_up_clock_that_goes_back_is_another_boot(tmp_path: Path) -> None:
    line = (
        "startup [   3.4 s] KV pool reserved: 9 contiguous 2 MiB blocks free (18 MiB), 5 compaction stalls "
        "during that step (0 failed)\n"
    )
    reading = read(tmp_path, line + line.replace("3.4 s", "2.9 s").replace("5 comp", "7 comp"))
    assert (reading.boots, reading.facts["compaction_stalls"].value) == (2, point(7))


def test_a_gguf_and_its_eyes(tmp_path: Path) -> None:
    line = "halogen: model /models/flash-UD.gguf\nhalogen: vision ON, tower /models/mmproj.gguf\n"
    reading = read(tmp_path, "halogen: halogen-flash-server 0.15.1, mode all\n" + line)
    assert reading.facts["checkpoint"].value == "gguf"
    assert reading.facts["checkpoint"].place.line == 2
