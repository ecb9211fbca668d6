"""Bash arithmetic against the reading on intervals, for made-up expressions: the same bounds, the same truth."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from measurements.site import Site
from models.declare import EngineModel, row
from models.evaluate import Given
from models.expr import (
    Agree,
    AsIs,
    Cond,
    Expr,
    Fact,
    Knob,
    Missing,
    OnIntervals,
    Walk,
    between,
    lift,
    maximum,
    minimum,
    remainder,
    select,
)
from models.interval import Interval, point
from optimizer.bash import Bash, CannotWrite, Words
from tests.made_sites import site
from tests.optimizer.bats import bash, needs_bash

KNOBS = ("ctx", "max_tok", "kv_slots")
FACTS = {"here": point(77), "there": Interval(-50, 900), "below": Interval(-9, -2), "count": Interval(3, 7)}


class Maker:
    """Expressions at random, of every kind."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def number(self, depth: int) -> Expr:
        pick = self._rng.random()
        if depth == 0 or pick < 0.1:
            return self._rng.choice([
                lift(self._rng.randint(-100, 100)), Knob(self._rng.choice(KNOBS)), Fact(self._rng.choice([*FACTS])),
                AsIs("ctx"), Fact("gone", lift(5)), Fact("gone"),
            ] if self._rng.random() < 0.3 else [
                lift(self._rng.randint(-100, 100)), Knob(self._rng.choice(KNOBS)), Fact(self._rng.choice([*FACTS]))])
        a, b = self.number(depth - 1), self.number(depth - 1)
        kind = self._rng.randrange(10)
        if kind < 2:
            return a + b
        if kind == 2:
            return a - b
        if kind == 3:
            return a * self._rng.choice([lift(-3), lift(7), Fact("count"), Fact("there"), Fact("below"), b])
        if kind == 4:
            return a // self._rng.choice([lift(1), lift(7), Fact("count"), Knob("kv_slots")])
        if kind == 5:
            return remainder(a, self._rng.choice([1, 5, 64]))
        if kind == 6:
            return self._rng.choice([minimum, maximum])(a, b, self.number(depth - 1))
        if kind == 7:
            return select(self.condition(depth - 1), a, b)
        if kind == 8:
            return row(self._rng.choice(["one", "two", "three"]), a)
        return between(minimum(a, b), maximum(a, b)) if self._rng.random() < 0.5 else Agree(
            "both", (Fact("there"), Fact("gone"), lift(self._rng.randint(-40, 40))))

    def condition(self, depth: int) -> Cond:
        a, b = self.number(depth), self.number(depth)
        found: Cond = self._rng.choice([a <= b, a < b, a.equals(b), a >= b])
        if self._rng.random() < 0.3:
            found = self._rng.choice([found & (b <= 20), found | (a <= 3), ~found])
        return found


def engine() -> Site:
    return site("halogen@0.13.0", knobs={"ctx": 40, "max_tok": 3, "kv_slots": 2})


def asked(model: EngineModel, values: Mapping[str, int]) -> OnIntervals:
    return OnIntervals(knobs={name: point(value) for name, value in values.items()}, as_is={"ctx": point(40)},
                       facts=FACTS)


@needs_bash
def test_bash_bounds_what_intervals_bound(tmp_path: Path) -> None:
    rng = random.Random(20)
    made = engine()
    given = Given({"ctx": 40}, FACTS)
    script: list[str] = []
    expected: list[str] = []
    values = [{"ctx": rng.choice((1, 2, 40, 262_144, 1 << 20)), "max_tok": rng.randint(1, 300),
               "kv_slots": rng.randint(1, 64)} for _ in range(6)]
    kinds = set[str]()
    count = 0
    while count < 150:
        maker = Maker(rng)
        number, condition = maker.number(4), maker.condition(3)
        writer = Bash(made.model, given)
        try:
            told, truth = writer.number(number), writer.walk.condition(condition)
        except CannotWrite:
            continue
        count += 1
        flags = [str(int(flag)) if isinstance(flag, bool) else flag
                 for flag in (told.open, truth.sure, truth.never, truth.open)]
        texts = [told.low.text, told.high.text, *flags]
        statements, _ = writer.used(texts)
        for each in values:
            script += [f"knob_{name}={value}" for name, value in each.items()]
            script += [f"{constant.name}={constant.value}" for constant in writer.constants.values()]
            script += [f"{statement.name}=$(( {statement.text} ))" for statement in statements]
            script.append("echo " + " ".join(f"$(( {text} ))" for text in texts))
            walk = Walk(asked(made.model, each))
            value, holds = walk.number(number), walk.condition(condition)
            known = f"{value.low} {value.high} 0" if isinstance(value, Interval) else "1"
            states = {True: "1 0 0", False: "0 1 0", None: "0 0 0"}
            kinds.add("missing" if isinstance(holds, Missing) else str(holds))
            expected.append(f"{known} {'0 0 1' if isinstance(holds, Missing) else states[holds]}")
    lines = bash("\n".join(script), tmp_path).splitlines()
    assert len(lines) == len(expected)
    for line, wanted in zip(lines, expected, strict=True):
        low, high, unknown, *rest = line.split()
        assert " ".join(["1", *rest] if unknown == "1" else [low, high, "0", *rest]) == wanted
    assert kinds == {"True", "False", "None", "missing"}


def test_what_64_bits_cannot_hold_is_refused() -> None:
    writer = Bash(engine().model, Given({}, {"vast": point(1 << 50)}))
    with pytest.raises(CannotWrite, match="62 bits"):
        writer.number(Fact("vast") * Knob("ctx"))
    with pytest.raises(CannotWrite, match="nothing"):
        writer.number(Knob("ctx") // Knob("max_tok") // Knob("cache_branches"))
    writer.number(Fact("vast") * 4)


def test_formulas_in_words() -> None:
    def said(node: Expr) -> str:
        return Walk(Words()).number(node)

    a, b = Knob("a"), Fact("b")
    assert said(a * (1 << 20) + b - 3) == "a * MiB + b - 3"
    assert said((a + b) * 2 // 7) == "((a + b) * 2) / 7"
    assert said(row("kept", a + b) - row("held", a)) == "kept - held"
    assert said(select(a.equals(2), b, 0)) == "(b if a = 2 else 0)"
    assert said(select(~(a >= 1), maximum(a, b), AsIs("a"))) == "(max(a, b) if a < 1 else boot.a)"
    assert said(between(1, b)) == "(1 to b)"
