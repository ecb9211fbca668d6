"""Prints how far the laws of the shipped points are off where a setting was left out, as the table of
``measurements/points/README.md``: ``python -m tests.benchmarks.left_out``.
"""

from __future__ import annotations

from optimizer.laws import laws, laws_json


def rows() -> list[tuple[str, int, int, float, float]]:
    """Law, points, settings, and the typical and worst relative error of left-out settings."""
    return [(law["name"], law["points"], law["settings"], law["left_out"]["median"], law["left_out"]["worst"])
            for law in laws_json(laws(None, ["reference"]))["laws"]]


def main() -> None:
    """Prints the table in Markdown."""
    print("| law | points | settings | typical | worst |\n|---|---|---|---|---|")
    for name, points, settings, typical, worst in rows():
        print(f"| {name} | {points} | {settings} | {typical:.1%} | {worst:.1%} |")


if __name__ == "__main__":
    main()
