"""Knobs: what a user may write, what is refused, and how a value is written back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.declare import BadValue, KnobSpec, Outcome, Verdict

SEQS = KnobSpec("max_num_seqs", "sequences", low=1, high=4096)
RATIO = KnobSpec("ratio", "", kind="decimal", scale=1_000_000, low=1, high=999_999, grid=100)
RESERVE = KnobSpec("host_reserve_gib", "GiB", kind="decimal", scale=1000, high=1_000_000)
LENGTH = KnobSpec("max_model_len", "tokens", low=1, high=262_144)
DTYPE = KnobSpec("kv_cache_dtype", kind="choice", choices=("bf16", "fp8"), high=1)
SWITCH = KnobSpec("fit", kind="switch", high=1)
TOWER = KnobSpec("vision_tower", kind="switch", high=1, path=True)


@pytest.mark.parametrize(("spec", "text", "value"), [
    (SEQS, "4", 4), (SEQS, " 4 ", 4), (LENGTH, "262144", 262_144), (RATIO, "0.82", 820_000), (RATIO, "0.000001", 1),
    (RESERVE, "24", 24_000), (RESERVE, "24.5", 24_500), (RESERVE, "0", 0), (DTYPE, "FP8", 1), (DTYPE, "bf16", 0),
    (SWITCH, None, 1), (SWITCH, "yes", 1), (SWITCH, "off", 0), (SWITCH, "", 0), (TOWER, "/models/tower.bin", 1),
    (TOWER, "0", 0),
])
def test_parsed(spec: KnobSpec, text: str | None, value: int) -> None:
    assert spec.parse(text) == value


@pytest.mark.parametrize(("spec", "text", "message"), [
    (SEQS, None, "has no value; write a number from 1 to 4096 sequences"),
    (SEQS, "  ", "has no value"),
    (SEQS, "-4", "a negative value means nothing here"),
    (SEQS, "four", "is 'four', which is not a whole number"),
    (SEQS, "4.0", "not a whole number"),
    (SEQS, "1_0", "not a whole number"),
    (LENGTH, "262_144", "not a whole number"),
    (SEQS, "٤", "not a whole number"),
    (SEQS, "0", "is 0; write a number from 1 to 4096"),
    (SEQS, "4097", "is 4097; write a number"),
    (SEQS, "9" * 16, "far out of range"),
    (RATIO, "0", "is 0; write a number from 0.000001 to 0.999999"),
    (RATIO, "1", "is 1; write a number"),
    (RATIO, "1e-2", "not a plain number"),
    (RATIO, "-0.5", "not a plain number"),
    (RATIO, "0.1234567", "too many decimals"),
    (RATIO, ".5", "not a plain number"),
    (DTYPE, "int4", "is 'int4'; choose bf16, fp8"),
    (SWITCH, "maybe", "is 'maybe'; write 1 or 0"),
    (RESERVE, "1001", "is 1001; write a number from 0 to 1000 GiB"),
])
def test_refused_with_what_would_be_right(spec: KnobSpec, text: str | None, message: str) -> None:
    with pytest.raises(BadValue) as caught:
        spec.parse(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(spec.name)


@given(st.integers(1, 999_999))
def test_a_decimal_is_written_back_exactly(value: int) -> None:
    assert RATIO.parse(RATIO.write(value)) == value


@given(st.integers(1, 4096), st.integers(0, 1))
def test_numbers_and_choices_are_written_back_exactly(number: int, choice: int) -> None:
    assert SEQS.parse(SEQS.write(number)) == number
    assert DTYPE.parse(DTYPE.write(choice)) == choice
    assert SWITCH.parse(SWITCH.write(choice)) == choice


def test_the_solver_moves_on_the_grid_inside_the_bounds() -> None:
    assert KnobSpec("a", low=1, high=1000, grid=256).domain() == (256, 768)
    assert KnobSpec("a", high=1000, free_low=48, free_high=960, grid=64).domain() == (64, 960)
    assert SEQS.domain() == (1, 4096)


def test_order_of_outcomes_and_verdicts() -> None:
    order = ["serves", "clamped", "preempts", "rejects_long_requests", "stalls", "out_of_memory_at_boot",
             "refused_at_boot"]
    assert [outcome.word for outcome in sorted(Outcome)] == order
    assert [verdict.word for verdict in sorted(Verdict)] == ["fits", "knife_edge", "does_not_fit"]
    assert all(a < b for a, b in pairwise(sorted(Outcome)))


def test_names_a_file_may_use() -> None:
    from models.engines import build, resolve

    model = build(resolve("radiance@1.3.0"), container="")
    names = model.names()
    assert names["MAX_SEQS"] == names["MAX_NUM_SEQS"] == "max_num_seqs"
    assert names["VRAM_KV_MIB"] == "vram_kv_mib"  # gone, and still recognised
    assert len(names) > len(model.knobs)
