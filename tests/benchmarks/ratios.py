"""Prints the speed figures as ratios and medians of one run: ``python -m tests.benchmarks.ratios``.

Whole commands are compared with the import of the solver in the same run, because machines differ and are noisy.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITES = ROOT / "measurements" / "sites"
ROUNDS = 9


def command(*words: str) -> float:
    """Seconds of processor time that one command takes, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=False, stdout=subprocess.DEVNULL, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def interleaved(commands: dict[str, tuple[str, ...]]) -> dict[str, float]:
    """The median of each command, all taken in turns so that a slow moment hits every one."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, words in commands.items():
            taken[name].append(command(*words))
    return {name: statistics.median(values) for name, values in taken.items()}


def warm(site: str, goal: str, top: int) -> float:
    """Milliseconds of a warm solve: the median after one to warm up."""
    from measurements.site import load, read_site
    from optimizer.solve import ask, solve

    own = load(read_site(SITES / site))
    solve(ask(own, goal, top=top))
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        solve(ask(own, goal, top=top))
        taken.append(time.process_time() - start)
    return statistics.median(taken) * 1000


def set_of(site: str, *goals: str) -> tuple[int, float]:
    """Points of the set of these goals, and milliseconds of a warm search: the median after one to warm up."""
    from measurements.site import load, read_site
    from optimizer.pareto import ask_goals, pareto

    questions = ask_goals(load(read_site(SITES / site)), goals)
    points = len(pareto(questions).points)
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        pareto(questions)
        taken.append(time.process_time() - start)
    return points, statistics.median(taken) * 1000


def re_solves(site: str, goal: str, count: int = 512) -> float:
    """Questions a second, each the one asked with its facts at other values."""
    from measurements.site import load, read_site
    from models.interval import point
    from optimizer.many import best_of
    from optimizer.sensitivity import with_facts
    from optimizer.solve import ask

    question = ask(load(read_site(SITES / site)), goal, top=1)
    rng = random.Random(1)
    asked = [with_facts(question, {name: point(rng.randint(value.low, value.high))
                                   for name, value in question.site.given.facts.items() if not value.exact})
             for _ in range(count)]
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        best_of(asked)
        taken.append(time.process_time() - start)
    return count / statistics.median(taken)


def peak(*words: str) -> float:
    """MiB of peak memory of one command."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, sys.executable, *words], check=True, cwd=ROOT,
                          capture_output=True, text=True)
    return int(done.stdout) / 1024


def main() -> None:
    """Runs every figure and prints a line each."""
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "")
    pair, cards, host = (str(SITES / name) for name in ("stated-pair", "two-r9700", "unified-memory"))
    found = interleaved({
        "import ortools": ("-c", "from ortools.sat.python import cp_model"),
        "solve, top 5, stated pair": ("-m", "optimizer", "solve", pair, "--goal", "slab"),
        "solve, top 5, two cards": ("-m", "optimizer", "solve", cards, "--goal", "sequences"),
        "solve, top 5, unified memory": ("-m", "optimizer", "solve", host, "--goal", "sessions"),
        "import ortools and scipy": ("-c", "from ortools.sat.python import cp_model; import scipy.special"),
        "solve prefill, top 5, stated pair": ("-m", "optimizer", "solve", pair, "--goal", "prefill"),
        "laws, stated pair": ("-m", "optimizer", "laws", pair),
        "laws, all points that come along": ("-m", "optimizer", "laws", "--points", "reference"),
        "next, stated pair": ("-m", "optimizer", "next", pair),
        "sensitivity, stated pair": ("-m", "optimizer", "sensitivity", pair, "--goal", "context"),
        "sensitivity, unified memory": ("-m", "optimizer", "sensitivity", host, "--goal", "sessions"),
        "check, two cards": ("-m", "optimizer", "check", cards),
        "--help": ("-m", "optimizer", "--help"),
    })
    base, both = found["import ortools"], found["import ortools and scipy"]
    for name, seconds in found.items():
        measured = any(word in name for word in ("prefill", "laws", "next"))
        against = f"{seconds / both:5.2f} x the import of ortools and scipy" if measured else (
            f"{seconds / base:5.2f} x the import of ortools")
        print(f"{name:34} {seconds * 1000:7.0f} ms  {against}")
    for site, goal in (("stated-pair", "slab"), ("two-r9700", "sequences"), ("host-pool", "sequences"),
                       ("unified-memory", "sessions")):
        one, ten = warm(site, goal, 1), warm(site, goal, 10)
        print(f"{'warm: ' + site + ', ' + goal:32} {one:7.1f} ms for rank 1, {ten:6.1f} ms for ten ranks")
    for site, goals in (("host-pool", ("sequences", "slab")), ("stated-pair", ("prefill", "context"))):
        points, taken = set_of(site, *goals)
        print(f"{'warm: ' + site + ', ' + ' against '.join(goals):48} {taken:7.0f} ms for {points} points")
    for site, goal in (("two-r9700", "sequences"), ("stated-pair", "context"), ("stated-pair", "prefill"),
                       ("host-pool", "sequences"), ("unified-memory", "sessions")):
        print(f"{'re-solves: ' + site + ', ' + goal:40} {re_solves(site, goal):7.0f} a second")
    print(f"{'peak memory, solve, two cards':32} {peak('-m', 'optimizer', 'solve', cards):7.0f} MiB")


if __name__ == "__main__":
    main()
