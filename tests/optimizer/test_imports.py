"""What asks nothing of a solver does not import one; arrows point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import measurements
import models
import optimizer
from tests.optimizer.servers import DERIVED, HALOGEN, STATED, point, points, site_of

HEAVY = ("ortools", "scipy", "pandas", "numpy")
TOP = Path(__file__).parents[2]
ROOTS = {"models": models, "measurements": measurements, "optimizer": optimizer}


def modules_of(*words: str) -> tuple[int, set[str]]:
    """The exit code of the program and the top-level packages it had imported by then."""
    code = (
        "import sys\n"
        "from optimizer.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    code = end.code or 0\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    first, *names = done.stderr.splitlines()[-1].split()
    return int(first), set(names)


def test_help_and_quick_commands_import_nothing_heavy(tmp_path: Path) -> None:
    pair, derived = tmp_path / "pair", tmp_path / "derived"
    for folder, server in ((pair, STATED), (derived, DERIVED)):
        folder.mkdir()
        site_of(folder, server)
    env = tmp_path / "halogen"
    env.mkdir()
    words = HALOGEN.words(env)
    for code, asked in (
        (0, ["--help"]), (0, ["solve", "--help"]), (0, ["check", str(pair)]), (0, ["check", str(derived), "--json"]),
        (0, ["plan", str(pair), "--to", "max_model_len=190000"]),
        (0, ["ledger", str(derived / "boot.log")]), (0, ["ledger", str(derived), "--json"]),
        (0, ["calibrate", "--help"]), (0, ["init", str(tmp_path / "new"), *words]), (2, ["check", "gone"]),
        (0, ["apply", str(pair), "--to", "vram_kv_mib=6900", "--write"]), (0, ["history", str(pair)]),
        (3, ["verdict", str(pair), "--ledger", str(derived / "boot.log")]),
        (2, ["probe", str(pair), "--url", "http://127.0.0.1:9"]),
    ):
        seen, names = modules_of(*asked)
        assert seen == code, asked
        assert names.isdisjoint(HEAVY), asked


def test_laws_import_no_solver_and_check_no_points(tmp_path: Path) -> None:
    site = site_of(tmp_path, STATED)
    toml = site / "site.toml"
    toml.write_text('points = "points.csv"\n' + toml.read_text(encoding="utf-8"), encoding="utf-8")
    (site / "points.csv").write_bytes(b"\0")
    for words in (["check", str(site)], ["check", str(site), "--json"]):
        seen, names = modules_of(*words)
        assert (seen, names & {*HEAVY, "matplotlib"}) == (0, set())
    rows = (point(STATED, rate, knobs=f"tp=2 vram_weights_mib={slab}")
            for slab, rate in ((22_208, 3_397), (26_071, 4_379)))
    (site / "points.csv").write_text(points(*rows), encoding="utf-8")
    for words in (["laws", str(site)], ["laws", "--points", "reference", "--json"]):
        seen, names = modules_of(*words)
        assert (seen, names & {"ortools", "pandas", "matplotlib"}) == (0, set())


def test_a_report_draws_only_when_a_picture_is_asked_for(tmp_path: Path) -> None:
    words = ["report", *HALOGEN.words(tmp_path), "--goal", "sessions"]
    seen, names = modules_of(*words, "--json")
    assert (seen, names & {"matplotlib", "rich"}) == (0, set())
    seen, names = modules_of(*words, "--html", str(tmp_path / "page.html"))
    assert seen == 0
    assert "matplotlib" in names


def test_json_and_help_import_no_tables(tmp_path: Path) -> None:
    folder = tmp_path / "pair"
    folder.mkdir()
    site_of(folder, STATED)
    for words in (["check", str(folder), "--json"], ["--help"]):
        assert "yaml" not in modules_of(*words)[1]
    assert "rich" not in modules_of("check", str(folder), "--json")[1]


def files_of(root: str) -> Iterator[Path]:
    """The modules of one of the top-level packages."""
    (folder,) = ROOTS[root].__path__
    yield from sorted(Path(folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The packages a module imports, and whether it does so only when a function is called (or for types)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late: set[int] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if lazy or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            late |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in late
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or "", id(node) in late


@pytest.mark.parametrize(("root", "allowed"), [
    ("models", {"models"}),
    ("measurements", {"measurements", "models", "yaml", "tomlkit", "scipy", "numpy"}),
    ("optimizer", {"optimizer", "measurements", "models", "typer", "rich", "ortools", "matplotlib", "numpy", "SALib"}),
])
def test_arrows_point_one_way(root: str, allowed: set[str]) -> None:
    for path in files_of(root):
        for name, _ in imports(path):
            top = name.partition(".")[0]
            assert top in allowed | sys.stdlib_module_names, f"{path} imports {name}"


def test_what_costs_is_imported_where_it_is_used() -> None:
    watched = ("ortools", "rich", "scipy", "numpy", "SALib", "yaml", "tomlkit", "typer", "matplotlib")
    places = {package: set[str]() for package in watched}
    for root in ROOTS:
        for path in files_of(root):
            for name, late in imports(path):
                top = name.partition(".")[0]
                if top in places:
                    places[top].add(str(path.relative_to(TOP)))
                    fits = path.parent.name == "laws" and path.name in ("fit.py", "forms.py")  # these import late
                    at_head = {"yaml", "typer"} | ({"ortools"} if path.name == "lower.py" else set())
                    at_head |= {"numpy"} if fits or path.name == "many.py" else set()
                    assert late or top in at_head, f"{path} imports {name} at its head"
    assert places["ortools"] == {"optimizer/lower.py"}
    assert all(place.startswith("optimizer/render/") for place in places["rich"])
    assert places["typer"] <= {"optimizer/cli.py"}
    assert places["matplotlib"] <= {"optimizer/plot.py", "optimizer/pictures.py"}


@pytest.mark.parametrize(("module", "itself"), [
    ("optimizer.lower", ()), ("measurements.laws.fit", ()), ("measurements.laws.forms", ("fit.py",)),
    ("optimizer.many", ("spread.py",)), ("optimizer.spread", ()),
])
def test_what_imports_what_costs_is_imported_late(module: str, itself: tuple[str, ...]) -> None:
    for root in ROOTS:
        for path in files_of(root):
            late = [late for name, late in imports(path) if name == module]
            assert all(late) or path.name in itself, f"{path} imports {module} at its head"
