"""The table of left-out errors that the read-me of the shipped points shows is what the fits give."""

from __future__ import annotations

import re
from pathlib import Path

import measurements
from tests.benchmarks.left_out import rows

ROW = re.compile(r"\| (?P<name>[^|]+) \| (?P<points>\d+) \| (?P<settings>\d+) \| (?P<typical>[\d.]+)% \| "
                 r"(?P<worst>[\d.]+)% \|")


def test_the_table_is_what_the_fits_give() -> None:
    text = (Path(measurements.__file__).parent / "points" / "README.md").read_text(encoding="utf-8")
    table = {found["name"]: found for found in ROW.finditer(text)}
    computed = rows()
    assert [name for name, *_ in computed] == list(table)
    for name, points, settings, typical, worst in computed:
        shown = table[name]
        assert (points, settings) == (int(shown["points"]), int(shown["settings"])), name
        # another build of numpy may round elsewhere
        assert abs(100 * typical - float(shown["typical"])) < 0.2, name
        assert abs(100 * worst - float(shown["worst"])) < 0.2, name
