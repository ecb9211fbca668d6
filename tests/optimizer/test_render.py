"""Words for people: one of something is not several."""

from __future__ import annotations

import re

import pytest

from models.engines import build, resolve
from optimizer.render.base import amount
from tests.optimizer.servers import ask
from tests.optimizer.test_laws_cli import PAIR

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("unit", "one"), [
    ("sessions", "1 session"), ("sequences", "1 sequence"), ("entries", "1 entry"), ("branches", "1 branch"),
    ("tokens", "1 token"), ("GiB", "1 GiB"), ("MiB", "1 MiB"), ("t/s", "1 t/s"), ("s", "1 s"), ("", "1"),
])
def test_one_is_singular(unit: str, one: str) -> None:
    assert amount(1, unit) == one
    assert amount(-1, unit) == f"-{one}"
    assert amount(1.0, unit) == one
    assert amount(2, unit) == f"2 {unit}".rstrip()
    assert amount(0, unit) == f"0 {unit}".rstrip()
    assert amount(1001, unit) == f"1,001 {unit}".rstrip()


@pytest.mark.parametrize("engine", ["radiance@1.0.13", "radiance@1.8.1", "halogen@0.13.0"])
def test_every_unit_that_is_declared_has_a_singular(engine: str) -> None:
    model = build(resolve(engine), container="")
    units = {item.unit for part in (model.knobs, model.rows, model.facts, model.goals) for item in part.values()}
    for unit in units - {"B", ""}:
        assert re.fullmatch(r"1 ([KMG]iB|byte|branch|entry|[a-z]+[^s])", amount(1, unit)), unit


@pytest.mark.parametrize("words", [
    ("free",), ("solve", "--goal", "sessions", "--given", "vram_weights_mib=23000"),
    ("why", "--goal", "sessions", "--given", "max_num_seqs=3", "--given", "max_model_len=200000", "--given",
     "vram_kv_mib=6912", "--given", "kv_cache_dtype=bf16"),
])
def test_answers_for_people(words: tuple[str, ...], capsys: Capture) -> None:
    text = " ".join(ask(capsys, words[0], PAIR, *words[1:]).out.split())
    assert not re.search(r"(?<![\d,.])1 (sessions|sequences|tokens|slots|positions|points|blocks)\b", text)
