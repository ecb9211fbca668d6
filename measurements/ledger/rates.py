"""What a token of the pool costs by a boot's own rows of its KV cache."""

from __future__ import annotations

from measurements.records import LedgerReading, Reading
from models.interval import Interval


def bytes_per_token(ledger: LedgerReading) -> Reading | None:
    """Bytes of KV rows a token takes (on each card), rounded outwards to whole bytes; None where no row tells.

    radiance prints page and block of every paged group; halogen the rows and the positions of its one pool. Sources:
    the group table of ``kv: KV layer bundles``, and the ``POOLED`` line. Raises nothing.
    """
    figures = {**ledger.facts, **ledger.rows}

    def span(name: str) -> Interval | None:
        reading = figures.get(name)
        return reading.value if reading is not None and isinstance(reading.value, Interval) else None

    low = high = 0
    place = None
    for name, reading in figures.items():
        if not (name.startswith("kv.") and name.endswith(".page")):
            continue
        page, block = span(name), span(name.removesuffix("page") + "block")
        if page is None or block is None or block.low < 1:
            return None
        # over a common denominator it would be finer; a page is printed to 10 B, so this is fine enough
        low, high = low + page.low // block.high, high - (-page.high // block.low)
        place = place or reading.place
    if place is None:
        rows, positions = span("kv_rows"), span("pool_positions")
        if rows is None or positions is None or positions.low < 1:
            return None
        low, high, place = rows.low // positions.high, -(-rows.high // positions.low), figures["kv_rows"].place
    return Reading("bytes_per_token", Interval(low, high), "B", place)


def given_per_token(given: Interval | None, tokens: Interval | None) -> Interval | None:
    """Bytes of the cache that are given for a token, what a sequence holds besides its tokens included, rounded
    outwards to whole bytes: all that a ledger without a group table tells (1.1 and later). None where one is unknown.
    """
    if given is None or tokens is None or tokens.low < 1:
        return None
    return Interval(given.low // tokens.high, -(-given.high // tokens.low))
