"""Boot ledgers of radiance."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.interval import GIB, KIB, MIB, Interval, point, printed
from tests.measurements.ledger_logs import contradictions, everything, log, read, values


def test_every_row_of_the_budget_with_its_line_and_precision(tmp_path: Path) -> None:
    reading = read(tmp_path, log("radiance-derived"))
    assert (reading.engine, reading.version, reading.boots, reading.missing) == ("radiance", None, 1, ())
    assert reading.generation.words == "1.0.x (1.0.9 or later)"
    for name, figure, line in (
        ("card_total", printed("31.86", GIB), 11),
        ("already_held", printed("264.55", MIB), 12),
        ("activation_arena", printed("1.10", GIB), 13),
        ("step_staging", printed("3.11", MIB), 14),
        ("hardware_queues", printed("100.04", MIB), 16),
        ("static_weights", printed("3.34", GIB), 20),
    ):
        assert (reading.facts[name].value, reading.facts[name].place.line) == (figure, line)
    for name, figure in (
        ("claimable", printed("29.90", GIB)),
        ("elastic", printed("26.56", GIB)),
        ("experts", printed("21.93", GIB)),
        ("kv_cache", printed("4.33", GIB)),
        ("prefill_staging", printed("310.29", MIB)),
        ("vram_weights", printed("25.27", GIB)),
        ("vram_kv", printed("4.33", GIB)),
        ("unclaimed", printed("512.33", MIB)),
    ):
        assert reading.rows[name].value == figure
    assert reading.knobs["gpu_headroom_mib"].value == printed("512.00", MIB)
    assert reading.facts["card_total"].place.file == str(tmp_path / "boot.log")
    assert reading.facts["card_total"].printed == "31.86 GiB"
    assert reading.findings == ()


def test_cards_are_told_apart_where_the_log_does(tmp_path: Path) -> None:
    reading = read(tmp_path, log("radiance-derived"))
    assert reading.facts["settled_free.0"].value == printed("572.71", MIB)
    assert reading.facts["settled_free.1"].value == printed("566.78", MIB)
    assert reading.facts["settle_floor"].value == printed("548.46", MIB)
    assert reading.facts["movable_units"].value == point(25078)
    assert [reading.rows[f"slab_slots.{card}"].value for card in (0, 1)] == [point(18537), point(18585)]
    assert [reading.rows[f"pool_slots.{card}"].value for card in (0, 1)] == [point(6605), point(6557)]
    assert reading.rows["mover_static.1"].value == printed("3.29", GIB)
    assert reading.rows["pools.vram_kv.1"].value == printed("4.33", GIB)
    # two lines, and neither says of which card: the figure lies somewhere between
    assert reading.rows["lent_kv_slots"].value == Interval(3081, 3088)


def test_the_cache_in_blocks_pages_and_offsets(tmp_path: Path) -> None:
    reading = read(tmp_path, log("radiance-derived"))
    assert reading.facts["kv_blocks"].value == point(131044)
    assert reading.rows["kv_tokens"].value == point(524176)
    assert reading.facts["checkpoints_offset"].value == point(4156555264)
    assert reading.facts["kv.kv_attn.page"].value == printed("26.00", KIB)
    assert reading.facts["kv.kv_attn.block"].value == point(4)
    assert reading.facts["kv.kv_gdn_state.state"].value == printed("54.00", MIB)
    assert reading.facts["kv.kv_gdn_state.slots"].value == point(4)
    assert reading.facts["kv.kv_qsa_bkey.layers"].value == point(13)
    assert reading.facts["checkpoint_stride"].value == printed("58.00", MIB)
    assert reading.rows["checkpoint_slots_withdrawn"].value == point(1)
    assert not any("none" in name for name in everything(reading))


def test_settings_the_log_names(tmp_path: Path) -> None:
    knobs = read(tmp_path, log("radiance-derived")).knobs
    assert {name: knob.value for name, knob in knobs.items()} == {
        "gpu_headroom_mib": printed("512.00", MIB),
        "expert_vs_cache_ratio": "0.82",
        "max_num_seqs": point(2),
        "max_model_len": point(262144),
        "num_speculative_tokens": point(3),
        "max_num_batched_tokens": point(2048),
        "checkpoint_interval": point(2048),
        "checkpoint_slots": point(8),
        "host_pool_mib": printed("12.00", GIB),
        "embedding_placement": "auto",
        "ngram_placement": "disk",
        "prefix_cache": "disabled",
    }


def test_a_table_on_disk_is_no_pinned_table(tmp_path: Path) -> None:
    text = log("radiance-derived")
    assert "ngram_table" not in read(tmp_path, text).facts
    assert read(tmp_path, text).facts["ngram_size"].value == printed("47.68", GIB)
    pinned = read(tmp_path, text.replace("(47.68 GiB) disk:", "(47.68 GiB) ram:"))
    assert pinned.facts["ngram_table"].value == printed("47.68", GIB)


def test_a_stated_pair(tmp_path: Path) -> None:
    reading = read(tmp_path, log("radiance-stated"))
    assert reading.generation.words == "stated pair (1.0.9 to 1.2)"
    assert reading.knobs["vram_weights_mib"].value == printed("21.69", GIB)
    assert reading.knobs["vram_kv_mib"].value == printed("6.75", GIB)
    assert reading.facts["settled_free.0"].value == printed("2.01", GIB)
    assert reading.facts["settle_floor"].value == printed("209.19", MIB)
    assert reading.facts["settle_kept"].value == printed("113.19", MIB)
    assert reading.rows["pair_left"].value == printed("3.42", GIB)
    assert reading.missing == ()
    assert reading.findings == ()


def test_a_split_that_the_host_pool_funds(tmp_path: Path) -> None:
    reading = read(tmp_path, log("radiance-funded"))
    assert reading.generation.words == "1.1 or later"
    assert reading.facts["drift"].value == printed("20.00", MIB)
    assert reading.facts["prefetch"].value == printed("64.00", MIB)
    assert reading.rows["kv_tokens"].value == point(1542144)
    assert reading.rows["sessions"].value == "7.7"
    assert reading.knobs["max_model_len"].value == point(200000)
    assert contradictions(reading) == []


def test_what_is_left_to_the_host_of_an_integrated_card(tmp_path: Path) -> None:
    text = log("radiance-derived").replace(
        "--gpu-headroom-mib 512.00 MiB   left", "left to the host   512.00 MiB   left"
    )
    text = text.replace("(the 512.00 MiB --gpu-headroom-mib and", "(the room and")
    reading = read(tmp_path, text)
    assert reading.facts["left_to_host"].value == printed("512.00", MIB)
    assert "gpu_headroom_mib" not in reading.knobs
    assert (reading.missing, contradictions(reading)) == ((), [])


def test_tables_tagged_card_by_card(tmp_path: Path) -> None:
    def tagged(line: str) -> list[str]:
        if line.startswith("  ") and "layers" not in line and ("GiB" in line or "MiB" in line):
            return [f"[0]{line}", "[1]" + line.replace("264.55 MiB", "265.10 MiB").replace("31.86", "31.87")]
        return [line]

    table, rest = log("radiance-derived").split("I[0] pools:")
    text = "\n".join(row for line in table.split("\n") for row in tagged(line)) + "I[0] pools:" + rest
    reading = read(tmp_path, text)
    assert reading.facts["card_total.0"].value == printed("31.86", GIB)
    assert reading.facts["card_total.1"].value == printed("31.87", GIB)
    assert reading.facts["already_held.1"].value == printed("265.10", MIB)
    assert "card_total" not in reading.facts
    assert reading.rows["vram_kv.1"].value == printed("4.33", GIB)
    assert reading.missing == ()
    assert contradictions(reading) == []


def test_ranks_interleaved_line_by_line(tmp_path: Path) -> None:
    first = [
        "I[0] mover: 10 slab slots (2 shadow), 5 pinned pool slots, 3.34 GiB static vram",
        "I[0] pools:",
        "I[0] heat engine: 13 movable units",
    ]
    second = [
        "I[1] mover: 9 slab slots (2 shadow), 6 pinned pool slots, 3.29 GiB static vram",
        "I[1] pools:",
        "I[1] heat engine: 13 movable units",
    ]
    pools = [
        "vram_kv 4.33 GiB budget, 0 B used, 4.33 GiB free",
        "vram_kv 4.35 GiB budget, 0 B used, 4.35 GiB free",
    ]
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    reading = read(tmp_path, "\n".join(mixed[:4] + pools + mixed[4:]))
    assert reading.rows["slab_slots.0"].value == point(10)
    assert reading.rows["slab_slots.1"].value == point(9)
    assert reading.facts["movable_units"].value == point(13)
    # both headings came first, so whose rows these are is not said
    assert reading.rows["pools.vram_kv"].value == Interval(
        printed("4.33", GIB).low, printed("4.35", GIB).high
    )


def test_the_last_complete_boot_counts(tmp_path: Path) -> None:
    whole = log("radiance-derived")
    later = whole.replace("26.56 GiB", "26.57 GiB")
    reading = read(tmp_path, whole + later)
    assert (reading.boots, reading.rows["elastic"].printed) == (2, "26.57 GiB")
    for kept in (8, 14, 25, 40, 60):
        reading = read(tmp_path, whole + "\n".join(later.split("\n")[:kept]))
        assert (reading.boots, reading.rows["elastic"].printed) == (2, "26.56 GiB")
        assert [(finding.severity, finding.places[0].line) for finding in reading.findings] == [
            ("note", whole.count("\n") + 1)
        ]


def test_boots_without_a_device_line_begin_with_their_table(tmp_path: Path) -> None:
    table = log("radiance-derived").split("I VRAM budget", 1)[1].split("I[0] pools:")[0]
    reading = read(tmp_path, f"I VRAM budget{table}I VRAM budget{table.replace('31.86', '31.85')}")
    assert (reading.boots, reading.facts["card_total"].printed) == (2, "31.85 GiB")


def test_a_boot_that_is_cut_off_names_what_it_lacks(tmp_path: Path) -> None:
    lines = log("radiance-derived").split("\n")
    reading = read(tmp_path, "\n".join(lines[:16]))
    assert reading.missing == (
        "gpu_headroom_mib",
        "claimable",
        "static_weights",
        "elastic",
        "experts",
        "kv_cache",
        "vram_weights",
        "vram_kv",
        "unclaimed",
    )
    assert reading.facts["hardware_queues"].value == printed("100.04", MIB)
    assert read(tmp_path, "\n".join(line for line in lines if "step staging" not in line)).missing == (
        "step_staging",
    )


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "claimable           29.90 GiB",
            "claimable           29.70 GiB",
            "claimable is printed as 29.70 GiB",
        ),
        ("elastic             26.56 GiB", "elastic             26.96 GiB", "elastic is printed as 26.96 GiB"),
        (
            "experts           21.93 GiB",
            "experts           22.93 GiB",
            "vram_weights is printed as 25.27 GiB",
        ),
        (
            "unclaimed          512.33 MiB",
            "unclaimed          112.33 MiB",
            "unclaimed is printed as 112.33 MiB",
        ),
        ("kv cache           4.33 GiB", "kv cache           4.93 GiB", "more than elastic"),
        ("(524176 tokens)", "(524172 tokens)", "131044 blocks of 4 tokens are 524176 tokens"),
        ("=  3.25 GiB", "=  3.95 GiB", "131044 blocks of 26.00 KiB are"),
        ("= 216.00 MiB", "= 108.00 MiB", "4 slots of 54.00 MiB are"),
        ("this rank), 8 rows", "this rank), 9 rows", "9 sampler rows are not 2 sequences"),
        ("18537 slab slots", "18538 slab slots", "are 25079, not the 25078 movable units"),
        ("= 464.00 MiB", "= 406.00 MiB", "8 checkpoint slots of 58.00 MiB"),
        ("7 of 8 backed", "6 of 8 backed", "checkpoint_slots is printed as 8"),
        ("backs 2 sequences", "backs 3 sequences", "max_num_seqs is printed as 2 and as 3 in one boot"),
        ("at 262144 tokens at once", "at 200000 tokens at once", "max_model_len is printed as 262144"),
        ("and 36.46 MiB kept", "and 96.46 MiB kept", "settle_floor is printed as 548.46 MiB"),
        ("vram_kv          4.33 GiB budget", "vram_kv          6.75 GiB budget", "but no card's pool is"),
        ("3.34 GiB static vram", "4.34 GiB static vram", "more than static_weights"),
        ("= 1.40 GiB", "= 1.60 GiB", "the arena's parts are"),
    ],
)
def test_what_does_not_add_up_is_said(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    text = log("radiance-derived")
    assert right in text
    reading = read(tmp_path, text.replace(right, wrong))
    assert any(said in finding for finding in contradictions(reading)), reading.findings
    assert all(finding.places for finding in reading.findings)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("total 28.44 GiB", "total 30.00 GiB", "pair_total is printed as 30.00 GiB"),
        ("card's 31.86 GiB", "card's 15.98 GiB", "pair_card is printed as 15.98 GiB"),
        ("so 3.42 GiB", "so 1.86 GiB", "pair_left is printed as 1.86 GiB"),
    ],
)
def test_a_stated_pair_that_does_not_add_up(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    reading = read(tmp_path, log("radiance-stated").replace(right, wrong))
    assert any(said in finding for finding in contradictions(reading)), reading.findings


def test_halves_of_two_boots(tmp_path: Path) -> None:
    text = """\
card total          31.86 GiB
vram_weights        25.00 GiB   stated by --vram-weights-mib
vram_kv              5.00 GiB   stated by --vram-kv-mib
unclaimed          477.30 MiB   the headroom, the unusable above, rounding
W card 0 settled at 2.01 GiB free against 209.19 MiB (the 96.00 MiB
--gpu-headroom-mib and 113.19 MiB kept for the static region)
"""
    reading = read(tmp_path, text)
    (finding,) = reading.findings
    assert "different boots" in finding.text
    assert [place.line for place in finding.places] == [1, 2, 3, 5]
    assert reading.missing == ("already_held", "activation_arena", "step_staging")


def test_more_free_than_unclaimed_is_remarked_on(tmp_path: Path) -> None:
    text = log("radiance-derived").replace("572.71 MiB", "1972.71 MiB").replace("566.78 MiB", "1972.71 MiB")
    (finding,) = read(tmp_path, text).findings
    assert (finding.severity, "far more than" in finding.text) == ("note", True)


def test_units_may_lie_on_disk(tmp_path: Path) -> None:
    text = log("radiance-derived").replace("6605 pinned", "6505 pinned")
    assert contradictions(read(tmp_path, text))
    assert not contradictions(read(tmp_path, text + "I load: 100 weights in the disk tier\n"))


def test_a_refusal_is_noted(tmp_path: Path) -> None:
    text = "\n".join(log("radiance-derived").split("\n")[:18])
    reading = read(tmp_path, text + "\nE VRAM does not cover the fixed costs: SHORT BY 752.00 MiB\n")
    assert reading.rows["outcome_seen"].value == "refused_at_boot"
    assert [finding.severity for finding in reading.findings] == ["note"]


def test_one_card_without_tags_is_card_0(tmp_path: Path) -> None:
    text = "I mover: 10 slab slots (2 shadow), 5 pinned pool slots, 3.34 GiB static vram\n"
    assert read(tmp_path, text).rows["slab_slots.0"].value == point(10)


def test_a_version_is_taken_where_one_is_printed(tmp_path: Path) -> None:
    assert read(tmp_path, "I radiance 1.2.4\n" + log("radiance-derived")).version == "1.2.4"


def test_numbers_cut_in_two_are_not_read(tmp_path: Path) -> None:
    text = log("radiance-derived").replace("max_tok 2048 ->", "max_tok 20\n48 ->")
    assert "max_num_batched_tokens" not in values(read(tmp_path, text))
