"""Saved host files."""

from __future__ import annotations

from pathlib import Path

import pytest

from measurements.host import read_host
from measurements.records import ReadError
from models.interval import point

MEMINFO = (
    "MemTotal:       127104060 kB\nMemFree:         9000 kB\nMemAvailable:   77594624 kB\nSwapTotal: 0 kB\n"
)


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_whatever_is_there_is_read(tmp_path: Path) -> None:
    put(tmp_path, "meminfo", MEMINFO)
    put(tmp_path, "pages_limit", "31457280\n")
    put(tmp_path, "memlock", "unlimited\n")
    put(tmp_path, "notes.txt", "not looked at")
    put(tmp_path, "card0/mem_info_vram_total", "34208743424\n")
    put(tmp_path, "card0/mem_info_vram_used", "277399142\n")
    put(tmp_path, "card0/mem_info_gtt_total", "66000000000\n")
    put(tmp_path, "card0-DP-1/status", "connected\n")
    facts = read_host(tmp_path)
    assert {name: fact.value for name, fact in facts.items()} == {
        "mem_total": point(127104060 * 1024),
        "mem_available": point(77594624 * 1024),
        "ttm_limit": point(31457280 * 4096),
        "memlock": "unlimited",
        "card_total.0": point(34208743424),
        "card_used.0": point(277399142),
        "gtt_total": point(66000000000),
    }
    assert {fact.unit for fact in facts.values()} == {"B"}
    assert str(facts["mem_available"].place) == f"{tmp_path / 'meminfo'}:3"


def test_a_tree_as_the_kernel_has_it(tmp_path: Path) -> None:
    put(tmp_path, "proc/meminfo", MEMINFO)
    put(tmp_path, "sys/module/ttm/parameters/pages_limit", "100\n")
    for card in (0, 1):
        put(tmp_path, f"sys/class/drm/card{card}/device/mem_info_vram_total", f"{card + 5}\n")
        put(tmp_path, f"sys/class/drm/card{card}/device/mem_info_gtt_used", f"{card + 7}\n")
    facts = read_host(tmp_path)
    assert facts["ttm_limit"].value == point(409600)
    assert [facts[f"card_total.{card}"].value for card in (0, 1)] == [point(5), point(6)]
    assert [facts[f"gtt_used.{card}"].value for card in (0, 1)] == [point(7), point(8)]


def test_locked_memory_in_kib(tmp_path: Path) -> None:
    put(tmp_path, "ulimit_l", "8192\n")
    assert read_host(tmp_path)["memlock"].value == point(8192 * 1024)


def test_an_empty_folder_says_nothing(tmp_path: Path) -> None:
    assert read_host(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "text", "said", "line"),
    [
        ("meminfo", "MemFree: 1 kB\nMemTotal: lots\n", "MemTotal should be", 2),
        ("meminfo", "MemTotal: 12 MB\n", "MemTotal should be", 1),
        ("meminfo", "Hello: 1\n", "no MemTotal", None),
        ("meminfo", "\n", "empty", None),
        ("pages_limit", "\nmany\n", "ttm_limit should be one whole number", 2),
        ("pages_limit", "-1\n", "ttm_limit should be one whole number", 1),
        ("pages_limit", "unlimited\n", "ttm_limit should be one whole number", 1),
        ("pages_limit", "1\n2\n", "ttm_limit should be one whole number", 1),
        ("memlock", "1e9\n", "whole number or `unlimited`", 1),
        ("memlock", "9" * 5000, "whole number or `unlimited`", 1),
        ("card0/mem_info_vram_total", "0x10\n", "card_total.0 should be", 1),
        ("card0/mem_info_vram_total", "\0", "binary", 1),
    ],
)
def test_what_cannot_be_read_is_refused_by_line(
    tmp_path: Path, name: str, text: str, said: str, line: int | None
) -> None:
    put(tmp_path, name, text)
    with pytest.raises(ReadError, match=said) as error:
        read_host(tmp_path)
    assert (error.value.file, error.value.line) == (str(tmp_path / name), line)


def test_files_that_disagree_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "memlock", "8388608\n")
    put(tmp_path, "ulimit_l", "8192\n")
    assert read_host(tmp_path)["memlock"].value == point(8388608)
    put(tmp_path, "ulimit_l", "unlimited\n")
    with pytest.raises(ReadError, match="keep one of them"):
        read_host(tmp_path)


def test_no_folder_is_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path, "meminfo", MEMINFO)
    with pytest.raises(ReadError, match="this is a file"):
        read_host(tmp_path / "meminfo")
    with pytest.raises(ReadError, match="no such folder"):
        read_host(tmp_path / "none")
    put(tmp_path, "memlock/x", "1")
    with pytest.raises(ReadError, match="folder"):
        read_host(tmp_path)
