from __future__ import annotations

from pathlib import Path

import pytest

from measurements.config import map_settings, read_config
from measurements.records import ReadError
from tests.measurements.config_files import NAMES, read


def _knobs(folder: Path, text: str, name: str = "settings", scope: str | None = None) -> dict[str,
                                                                                              str | None]:
    mapped = map_settings(read(folder, text, name), NAMES, scope=scope)
    return {knob: setting.value for knob, setting in mapped.knobs.items()}


def test_a_prefix_of_the_operators_own(tmp_path: Path) -> None:
    mapped = map_settings(read(tmp_path,
                               "MY_BOX_MAX_SEQS=4\nMY_BOX_VRAM_KV_MIB=1\nMY_BOX_PORT=80\nPATH_CTX=7\n"),
                               NAMES)
    assert mapped.prefix == "MY_BOX_"
    assert {knob: setting.value for knob, setting in mapped.knobs.items()} == {"max_num_seqs": "4",
                                                                               "vram_kv_mib": "1"}
    assert [setting.key for setting in mapped.unmapped] == ["MY_BOX_PORT", "PATH_CTX"]
    assert mapped.warnings == ()


@pytest.mark.parametrize(("text", "prefix", "knobs"), [
    ("CTX=1\nTP=2\n", "", {"ctx": "1", "tp": "2"}),
    ("H_CTX=1\n", "H_", {"ctx": "1"}),
    ("H_CTX=1\nTP=2\n", "H_", {"ctx": "1", "tp": "2"}),
    ("CTX=1\nTP=2\nOTHER_MAX_TOK=3\n", "", {"ctx": "1", "tp": "2"}),
    ("H_CTX=1\nH_TP=2\nX_H_CTX=9\n", "H_", {"ctx": "1", "tp": "2"}),
    ("H_POOL_CTX=1\nH_TP=2\nH_CTX=3\n", "H_", {"tp": "2", "ctx": "3"}),
    ("h_ctx=1\nh_tp=2\n", "H_", {"ctx": "1", "tp": "2"}),
    ("HCTX=1\nHTP=2\n", "", {}),
])
def test_prefixes(tmp_path: Path, text: str, prefix: str, knobs: dict[str, str]) -> None:
    mapped = map_settings(read(tmp_path, text, "x.env"), NAMES)
    assert (mapped.prefix, {knob: setting.value for knob, setting in mapped.knobs.items()}) == (prefix, knobs)


def test_prefixes_that_tie_are_told(tmp_path: Path) -> None:
    mapped = map_settings(read(tmp_path, "AB_CTX=1\nA_TP=2\n"), NAMES)
    assert list(mapped.knobs) == ["tp"]
    assert [setting.key for setting in mapped.unmapped] == ["AB_CTX"]
    assert "AB_CTX" in mapped.warnings[0]


def test_the_longest_name_wins(tmp_path: Path) -> None:
    names = {"KV_MIB": "wrong", "VRAM_KV_MIB": "vram_kv_mib"}
    mapped = map_settings(read(tmp_path, "H_VRAM_KV_MIB=1\n"), names)
    assert (mapped.prefix, list(mapped.knobs)) == ("H_", ["vram_kv_mib"])


def test_flags_are_matched_by_their_names_only(tmp_path: Path) -> None:
    mapped = map_settings(read(tmp_path,
                               "--max-num-seqs 4 --kv-dtype fp8 --max_model_len 1 --my-tp 2 -tp 3\n"), NAMES)
    assert {knob: setting.value for knob, setting in mapped.knobs.items()} == {
        "max_num_seqs": "4", "kv_cache_dtype": "fp8"}
    assert [setting.key for setting in mapped.unmapped] == ["--max_model_len", "--my-tp", "-tp"]


@pytest.mark.parametrize(("text", "value", "lines"), [
    ("CTX=1\nTP=2\nCTX=3\n", "3", (1, 3)),
    ("#!/bin/sh\nCTX=1\nradiance --ctx 2 --tp 1\n", "2", (2, 3)),
    ("#!/bin/sh\nradiance --ctx 2 --tp 1\nexport CTX=1\n", "2", (3, 2)),
    ("#!/bin/sh\nradiance --ctx 2 --tp 1 --ctx 3\n", "3", (2, 2)),
    ("services:\n  a:\n    environment:\n      - CTX=1\n      - CTX=2\n", "2", (4, 5)),
])
def test_of_two_one_counts_and_both_are_named(tmp_path: Path, text: str, value: str,
                                              lines: tuple[int, int]) -> None:
    reading = read(tmp_path, text)
    mapped = map_settings(reading, NAMES)
    assert mapped.knobs["ctx"].value == value
    (warning,) = mapped.warnings
    file = next(iter(reading.text))
    other, winner = (f"{file}:{line}" for line in lines)
    assert other in warning
    assert f"{winner} counts" in warning
    assert len(mapped.shadowed["ctx"]) == 1


def test_a_variable_that_feeds_a_flag_is_no_second_setting(tmp_path: Path) -> None:
    mapped = map_settings(read(tmp_path, "#!/bin/sh\nCTX=1\nN=2\nradiance --ctx $CTX --tp $N\n"), NAMES)
    assert mapped.warnings == ()
    assert mapped.unmapped == ()


TWO = ("services:\n  a: {image: 'a:1', environment: {H_CTX: 1, H_TP: 2}}\n"
       "  b: {image: 'b:1', environment: {H_CTX: 3}}\n")


def test_the_scope_with_most_knobs(tmp_path: Path) -> None:
    mapped = map_settings(read(tmp_path, TWO), NAMES)
    assert (mapped.scope, mapped.knobs["ctx"].value, mapped.images[0][0]) == ("a", "1", "a:1")
    assert _knobs(tmp_path, TWO, scope="b") == {"ctx": "3"}
    assert len(map_settings(read(tmp_path, TWO), NAMES, scope="b").images) == 1


def test_scopes_that_tie_have_to_be_chosen(tmp_path: Path) -> None:
    text = TWO.replace(", H_TP: 2", "")
    with pytest.raises(ReadError, match="a and b") as error:
        _knobs(tmp_path, text)
    assert error.value.kind == "usage"
    assert _knobs(tmp_path, text, scope="b") == {"ctx": "3"}
    with pytest.raises(ReadError, match="there is a, b") as error:
        _knobs(tmp_path, text, scope="c")
    assert error.value.kind == "usage"


def test_what_is_set_for_all_counts_in_every_scope_but_behind_its_own(tmp_path: Path) -> None:
    (tmp_path / "all.env").write_text("H_CTX=9\nH_MAX_TOK=5\n")
    (tmp_path / "c.yml").write_text(TWO)
    mapped = map_settings(read_config([tmp_path / "c.yml", tmp_path / "all.env"]), NAMES, scope="b")
    assert {knob: setting.value for knob, setting in mapped.knobs.items()} == {"ctx": "3", "max_tok": "5"}
    assert len(mapped.warnings) == 1


def test_nothing_of_the_engines_is_no_error(tmp_path: Path) -> None:
    mapped = map_settings(read(tmp_path, "A=1\n"), NAMES)
    assert (mapped.knobs, mapped.prefix, mapped.scope) == ({}, "", "")
