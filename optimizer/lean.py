"""Spares a solving process the import of pandas, which costs as much as the rest of the solver's import.

The solver's module needs two names of pandas for variables indexed by data frames, which nothing here uses. The
program's own process gives it a stand-in for these; whoever imports the packages as a library gets pandas itself.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def load_solver_without_pandas() -> None:
    """Imports the solver with a stand-in for pandas, or as it is where that does not work or is too late."""
    if "pandas" in sys.modules or "ortools.sat.python.cp_model" in sys.modules:
        return
    stand_in = ModuleType("pandas")
    for name in ("Index", "Series"):
        setattr(stand_in, name, type(name, (), {}))
    sys.modules["pandas"] = stand_in
    try:
        import_module("optimizer.lower")
    except Exception:  # a release that needs more of pandas: the plain import decides
        for name in ("optimizer.lower", "ortools.sat.python.cp_model"):
            sys.modules.pop(name, None)
    finally:
        del sys.modules["pandas"]
