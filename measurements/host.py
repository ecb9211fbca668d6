"""What a host says of itself: saved files from /proc and /sys, read as facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from measurements.ledger.text import load
from measurements.records import Place, ReadError, Reading
from models.interval import KIB, Interval, point

#: The kernel's page on the hosts both engines run on, where no file ``page_size`` says otherwise; ttm counts in it.
PAGE: Final = 4096
_MOST_BYTES: Final = 1 << 20

_MEMINFO = re.compile(r"(MemTotal|MemAvailable):\s*(.*)")
_KILOBYTES = re.compile(r"(\d{1,15}) kB")
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_CARD = re.compile(r"card(\d{1,3})", re.ASCII)

#: Names of the one-figure files, each by the places it may stand in; and what its number counts.
_SINGLE: Final = (
    ("ttm_limit", ("pages_limit", "ttm_pages_limit", "sys/module/ttm/parameters/pages_limit"), PAGE),
    ("memlock", ("memlock",), 1),
    ("memlock", ("ulimit_l",), KIB),
)
_OF_CARD: Final = (
    ("card_total", "mem_info_vram_total"),
    ("card_used", "mem_info_vram_used"),
    ("gtt_total", "mem_info_gtt_total"),
    ("gtt_used", "mem_info_gtt_used"),
)
_CARD_FOLDERS: Final = ("card*", "card*/device", "sys/class/drm/card*/device")


def read_host(folder: Path) -> dict[str, Reading]:
    """The facts in a folder of saved host files, sizes in bytes, exact; files it does not know are ignored.

    Reads ``meminfo`` (``mem_total``, ``mem_available``), ``pages_limit`` (``ttm_limit``, in pages of 4,096 bytes or as
    many as ``page_size`` says), ``memlock`` in
    bytes or ``ulimit_l`` in KiB (``memlock``, a size or the word ``unlimited``) and each card's
    ``mem_info_*`` (``card_total.0``, ``card_used.0``; ``gtt_total`` and ``gtt_used``, ending in the card
    where there are several; a card's number is the kernel's). Available memory is what it was when the file
    was saved. Raises ReadError when the folder is missing, a file in it cannot be read or holds no such
    figure, or two files of one fact disagree.
    """
    try:
        if not folder.is_dir():
            there = folder.exists()
            raise ReadError(
                "this is a file: name the folder of saved host files"
                if there
                else "no such folder: name the folder of saved host files",
                file=str(folder),
            )
    except (OSError, ValueError):
        raise ReadError("not a usable folder name", file=str(folder)) from None
    facts: dict[str, Reading] = {}
    for reading in _readings(folder):
        known = facts.setdefault(reading.name, reading)
        if known.value != reading.value:
            raise ReadError(
                f"{reading.name} is {reading.printed} here, but {known.printed} in {known.place}: keep one of them",
                file=reading.place.file,
                line=reading.place.line,
            )
    return facts


def _readings(folder: Path) -> Iterator[Reading]:
    for name in ("meminfo", "proc/meminfo"):
        if _exists(folder / name):
            yield from _meminfo(folder / name)
    page = _page(folder)
    for fact, names, unit in _SINGLE:
        for name in names:
            if _exists(folder / name):
                words = ("unlimited", "infinity") if fact == "memlock" else ()
                yield _single(folder / name, fact, page if fact == "ttm_limit" else unit, words)
    yield from _cards(folder)


def _page(folder: Path) -> int:
    if not _exists(folder / "page_size"):
        return PAGE
    value = _single(folder / "page_size", "page_size", 1).value
    if not isinstance(value, Interval) or value.low < 1 or value.low & (value.low - 1):
        raise ReadError("page_size should be a power of two", file=str(folder / "page_size"))
    return value.low


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _meminfo(path: Path) -> Iterator[Reading]:
    found = False
    for number, line in enumerate(load(path, what="a saved /proc/meminfo", most=_MOST_BYTES).split("\n"), 1):
        if not (match := _MEMINFO.match(line.strip())):
            continue
        if not (amount := _KILOBYTES.fullmatch(match[2].strip())):
            raise ReadError(
                f"{match[1]} should be a whole number of kB, as in `{match[1]}: 131157432 kB`",
                file=str(path),
                line=number,
            )
        found = True
        yield Reading(
            "mem_total" if match[1] == "MemTotal" else "mem_available",
            point(int(amount[1]) * KIB),
            "B",
            Place(str(path), number),
            f"{amount[1]} kB",
        )
    if not found:
        raise ReadError(
            "no MemTotal or MemAvailable in it: it should be a saved /proc/meminfo", file=str(path)
        )


def _single(path: Path, fact: str, unit: int, words: tuple[str, ...] = ()) -> Reading:
    lines = load(path, what="a file with one whole number", most=_MOST_BYTES).split("\n")
    number = next(index for index, line in enumerate(lines, 1) if line.strip())
    text = lines[number - 1].strip()
    value: Interval | str
    if text in words:
        value = "unlimited"
    elif _WHOLE.fullmatch(text) and not any(line.strip() for line in lines[number:]):
        value = point(int(text) * unit)
    else:
        alternative = " or `unlimited`" if words else ""
        raise ReadError(f"{fact} should be one whole number{alternative}", file=str(path), line=number)
    return Reading(fact, value, "B", Place(str(path), number), text)


def _cards(folder: Path) -> Iterator[Reading]:
    cards: dict[int, Path] = {}
    for pattern in _CARD_FOLDERS:
        for path in sorted(folder.glob(pattern)):
            match = _CARD.fullmatch(path.parent.name if path.name == "device" else path.name)
            if match and any(_exists(path / name) for _, name in _OF_CARD):
                cards.setdefault(int(match[1]), path)
    for fact, name in _OF_CARD:
        having = [card for card in sorted(cards) if _exists(cards[card] / name)]
        for card in having:
            plain = fact.startswith("gtt_") and len(having) == 1
            yield _single(cards[card] / name, fact if plain else f"{fact}.{card}", 1)
