"""Sorts points into laws: what may be compared with what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from measurements.laws.law import Law, axis_value, names_in
from measurements.points.point import Point
from measurements.records import ReadError
from models.declare import EngineModel
from models.engines import EngineVersion, build, known_range
from models.laws import Axis, Key, LawSpec
from models.versions import Version, parse_version


def model_word(name: str) -> str:
    """A model file's name without folder and ending, in lower case: what tells one model from another."""
    word = name.replace("\\", "/").rsplit("/", 1)[-1].lower()
    for ending in (".rad", ".hgn", ".gguf", ".bin"):
        word = word.removesuffix(ending)
    return word


def laws_of(points: Iterable[Point]) -> tuple[Law, ...]:
    """The laws that ``points`` make, in the order of their first points; with one point or arm a law has no use yet.

    Raises ReadError where a point states a knob that its engine does not have, or a value that is none.
    """
    groups: dict[tuple[object, ...], list[Point]] = {}
    specs: dict[tuple[object, ...], LawSpec] = {}
    models: dict[str, EngineModel] = {}
    for point in points:
        named = f"{point.engine}@{point.version}"
        if named not in models:
            models[named] = _model_for(point)
        model = models[named]
        _must_know(model, point)
        spec = model.laws.get(point.metric)
        if spec is None:
            continue
        conditions = tuple((key.knob, _condition(key, point)) for key in spec.keys)
        if point.metric == "prefill" and point.streams > 1:  # prompts beside each other share the machine
            conditions += (("streams", str(point.streams)),)
        # a corpus that nobody names is the source's own
        corpus = (point.corpus or f"corpus of {point.source}") if spec.by_corpus else ""
        key = (point.engine, point.version, model_word(point.model), point.metric, conditions, corpus)
        groups.setdefault(key, []).append(point)
        specs.setdefault(key, spec)
    return tuple(_law(specs[key], group, dict(key[4]), str(key[5]))  # type: ignore[call-overload]
                 for key, group in groups.items())


def pooled(laws: Sequence[Law], version: str) -> Law:
    """One law of the points of ``laws``, which all may be of one build: the site's own, of ``version``.

    What some of them do not state is taken as the others state it, and the law says so.
    """
    if len(laws) == 1:
        return laws[0]
    first = laws[0]
    conditions = {name: next((law.conditions[name] for law in laws if law.conditions[name]), "")
                  for name in first.conditions}
    law = _law(first.spec, [point for law in laws for point in law.points] +
               [point for law in laws for point, _ in law.left_out], conditions, first.corpus)
    loose = [point for law in laws for point in law.points
             if law.version != version or any(value != law.conditions[name] for name, value in conditions.items())]
    said = (f"{len(loose)} points whose build or settings are not stated in full are counted as this site's, beside "
            f"{len(law.points) - len(loose)} that are")
    return replace(law, version=version, note=said if loose else "")


def _model_for(point: Point) -> EngineModel:
    """A model of the point's engine that knows its knobs: of its version, or of the nearest that is described."""
    return build(EngineVersion(point.engine, nearest(point.engine, point.version)), container="")


def nearest(engine: str, version: str) -> Version:
    """The described version nearest to the newest that ``version`` (one, a range, or "") may mean."""
    wanted = parse_version(engine, version.rpartition("-")[2]) if version else known_range(engine)[-1][1]
    best = known_range(engine)[0][0]
    for low, high in known_range(engine):
        if low <= wanted <= high:
            return wanted
        best = max((end for end in (best, low, high) if end <= wanted), default=best)
    return best


def _must_know(model: EngineModel, point: Point) -> None:
    for name in names_in([point]):
        gone = {item.name for item in model.removed}
        if name in model.knobs or name in model.rows or name in gone:
            continue
        near = get_close_matches(name, [*model.knobs, *model.rows], 1)
        hint = f"; did you mean {near[0]}?" if near else f"; its knobs: {', '.join(model.knobs)}"
        raise ReadError(f"{model.name} has no knob or row {name!r}{hint}", file=point.place.file,
                        line=point.place.line)


def _condition(key: Key, point: Point) -> str:
    text = point.knobs.get(key.knob)
    if not key.presence:
        return text or ""
    if text not in (None, "", "0"):
        return "stated"
    derived = any(name in point.knobs for name in ("expert_vs_cache_ratio", "vram_weights", "host_pool_mib"))
    return "derived" if derived or text == "0" else ""


def _law(spec: LawSpec, points: Sequence[Point], conditions: dict[str, str], corpus: str) -> Law:
    values: dict[str, list[float | None]] = {axis.name: [] for axis in spec.axes}
    for point in points:
        for axis in spec.axes:
            values[axis.name].append(_value(axis, point))
    if any(point.depth for point in points if point.metric == "prefill"):
        values["request"] = [None] * len(points)  # stretches of a prompt do not tell what a request costs by itself
    kept, left_out = list(points), []
    for axis in spec.axes:
        known = {value for value in values[axis.name] if value is not None}
        if len(known) < 2 or None not in values[axis.name]:
            if None in values[axis.name] and known:
                values[axis.name] = [next(iter(known))] * len(kept)  # the others do not state what they share
            continue
        gone = [i for i, value in enumerate(values[axis.name]) if value is None]
        left_out += [(kept[i], f"{axis.name} is not stated, and it differs among the others") for i in gone]
        kept = [point for i, point in enumerate(kept) if i not in gone]
        values = {name: [v for i, v in enumerate(row) if i not in gone] for name, row in values.items()}
    first = points[0]
    return Law(spec, first.engine, first.version, model_word(first.model), corpus, conditions, tuple(kept),
               tuple(left_out), {name: tuple(row) for name, row in values.items()})


def _value(axis: Axis, point: Point) -> float | None:
    try:
        return axis_value(axis, point)
    except ValueError as error:
        raise ReadError(str(error), file=point.place.file, line=point.place.line) from None
