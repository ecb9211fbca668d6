"""The program: ``shapewright``, also as ``python -m optimizer``."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line and exits with its code."""
    from optimizer.cli import run

    if sys.argv[1:2] and sys.argv[1] in ("solve", "propose", "free") and not {"-h", "--help"} & set(sys.argv):
        from optimizer.lean import load_solver_without_pandas

        load_solver_without_pandas()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
