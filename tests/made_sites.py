"""Sites made of plain words, without files: an engine, a model file, knobs as a user writes them, and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from measurements.config import Mapped
from measurements.site import FactValue, Site, Sources, knob_value
from models.declare import EngineModel
from models.engines import build, resolve
from models.evaluate import Given, fold_cards
from models.interval import Interval, point, size

#: A knob or fact as a test writes it: exact, an interval, or text with a unit.
Word = str | int | Interval

IQ4R = "qwen3.8-next-flash-fp8-iq4r-moe.rad"
W4 = "qwen3.8-flash-next-w4.rad"


def fact(value: Word) -> Interval:
    """A fact: a whole number is exact, a text is a size with its unit."""
    if isinstance(value, Interval):
        return value
    return point(value) if isinstance(value, int) else size(value)


@cache
def declared(engine: str, container: str, tp: int) -> EngineModel:
    """The model; it never changes, so that thousands of sites may share one."""
    return build(resolve(engine), container=container, tp=tp)


def site(
    engine: str, *, container: str = "", knobs: Mapping[str, str | int] | None = None,
    facts: Mapping[str, Word] | None = None, boot: Mapping[str, str | int] | None = None,
    sessions: int | None = None, limits: Sequence[str] = (),
) -> Site:
    """A site of ``engine`` that runs ``knobs``; ``boot`` are those the facts are from, where they differ."""
    words = {name: str(value) for name, value in (knobs or {}).items()}
    version = resolve(engine)
    model = declared(engine, container, int(words.get("tp", "1")))
    values = read(model, words)
    known = {name: value for name, (value, _, _) in model.constants.items()}
    stated = {name: fact(value) for name, value in (facts or {}).items()}
    if sessions is not None:
        stated["sessions"] = point(sessions)
    folded, binding = fold_cards(model.facts, known | stated)
    as_is = values if boot is None else read(model, {name: str(value) for name, value in boot.items()})
    given = Given(as_is, folded, {}, frozenset(limits))
    sources = {name: FactValue(value, "the test") for name, value in (known | stated).items()}
    return Site(version, model, None, Mapped({}), None, dict(as_is), values, {}, sources, binding, given, (), (), (),
                Sources(engine=engine))


def read(model: EngineModel, words: Mapping[str, str]) -> dict[str, int]:
    """Knobs as a user writes them, in each knob's own unit."""
    found = {}
    for name, text in words.items():
        value = knob_value(model, name, text)
        assert value is not None, f"{name}={text} names no value"
        found[name] = value
    return found


def with_facts(of: Site, facts: Mapping[str, Interval]) -> Site:
    """``of`` with exactly these facts."""
    return replace(of, given=replace(of.given, facts=dict(facts)),
                   facts={name: FactValue(value, "the test") for name, value in facts.items()})


def with_grids(of: Site, grids: Mapping[str, int]) -> Site:
    """``of`` with a model whose knobs move on coarser grids, so that every value can be tried."""
    knobs = {name: replace(spec, grid=grids.get(name, spec.grid)) for name, spec in of.model.knobs.items()}
    return replace(of, model=replace(of.model, knobs=knobs))
