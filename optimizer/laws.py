"""The laws that measured points make: forms, weights, errors, ranges, contradictions, and a line to draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurements.laws.law import LEVEL
from measurements.records import ReadError
from measurements.site import Site
from models.evaluate import Reader
from models.laws import FORMS, Metric
from optimizer.check import SCHEMA_VERSION, MissingFacts, engine_json
from optimizer.speed import Used, Workload, at_shape, matches, of_site, read_site_points

if TYPE_CHECKING:
    from measurements.laws.fit import Rival
    from measurements.laws.law import Law, Prediction
    from measurements.points import PointsReading


@dataclass(frozen=True, eq=False)
class Shown:
    """One law, with what it says of the site's own shape; ``beyond`` is what of that lies outside its data."""

    law: Law
    used: Used | None
    at: dict[str, float] | None
    prediction: Prediction | None
    beyond: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Laws:
    """What a set of points tells: the laws, and sets of points that make none with the reason."""

    site: Site | None
    reading: PointsReading
    shown: tuple[Shown, ...]
    unfitted: tuple[tuple[Law, str], ...]
    elsewhere: tuple[tuple[Law, str], ...]


def laws(site: Site | None, points: Sequence[Path | str] = (), *, workload: Workload | None = None,
         metric: Metric | None = None) -> Laws:
    """The laws of the points that ``site`` names, or of ``points``.

    Of a site, those that are its own are shown and the others listed with what tells them apart. Raises MissingFacts
    when no set of points makes a law, and ReadError for a file that is none.
    """
    from measurements.laws.studies import laws_of
    from measurements.points import read_points

    load = workload or Workload()
    if site is not None:
        reading = read_site_points(site)
    elif points:
        reading = read_points(points)
    else:
        raise ReadError("give a site whose site.toml names points, or --points FILE", kind="usage")
    shown: list[Shown] = []
    unfitted: list[tuple[Law, str]] = []
    elsewhere: list[tuple[Law, str]] = []
    made = laws_of(reading.points)
    for law in made if site is None else of_site(site, made, load):
        if metric is not None and law.metric != metric:
            continue
        if site is not None:
            if law.engine != site.model.name:
                elsewhere.append((law, f"of {law.engine}"))
                continue
            used, never, beyond = matches(site, law, load)
            if never or (beyond and not load.extrapolate):
                elsewhere.append((law, "; ".join((*never, *beyond))))
                continue
        if law.why_not:
            unfitted.append((law, law.why_not))
        elif site is None:
            shown.append(Shown(law, None, None, None, ()))
        else:
            shown.append(_shown(site, law, used, load))
    if not shown:
        raise MissingFacts(list(_lacking(reading, unfitted, elsewhere, metric)))
    return Laws(site, reading, tuple(shown), tuple(unfitted), tuple(elsewhere))


def _shown(site: Site, law: Law, used: Used, load: Workload) -> Shown:
    try:
        at = at_shape(used, Reader(site.model, site.given, site.knobs))
    except MissingFacts:
        return Shown(law, used, None, None, ())
    if any(axis.name not in at for axis in law.varying):
        return Shown(law, used, None, None, ())
    beyond = law.outside(at, prompt=load.prompt_tokens)
    found = law.predict(at, LEVEL) if not beyond or load.extrapolate else None
    return Shown(law, used, at, found, (*used.beyond, *beyond))


def _lacking(reading: PointsReading, unfitted: Sequence[tuple[Law, str]], elsewhere: Sequence[tuple[Law, str]],
             metric: str | None) -> Iterator[dict[str, str]]:
    what = f"{metric or 'prefill or decode'} points"
    reasons = [f"{law.name}: {why}" for law, why in (*unfitted, *elsewhere)]
    reasons += [f"{refusal.place} is refused: {refusal.reason}" for refusal in reading.refused]
    how = "measure at two settings at least, each under the probe rules"
    more = f"; {' | '.join(reasons[:5])}{' | ...' if len(reasons) > 5 else ''}" if reasons else ""
    yield {"name": what, "unit": "t/s", "how": how + more}


def laws_json(found: Laws) -> dict[str, Any]:
    """The whole answer of ``laws``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": None if found.site is None else engine_json(found.site),
        "files": list(found.reading.files),
        "points": len(found.reading.points),
        "refused": [{"file": refusal.place.file, "line": refusal.place.line, "reason": refusal.reason,
                     "source": refusal.source} for refusal in found.reading.refused],
        "laws": [law_json(shown) for shown in found.shown],
        "unfitted": [{"name": law.name, "why": why} for law, why in found.unfitted],
        "elsewhere": [{"name": law.name, "why": why} for law, why in found.elsewhere],
    }


def law_json(shown: Shown) -> dict[str, Any]:
    """One law with its rivals and a line to draw."""
    law, fit = shown.law, shown.law.fit
    errors = sorted(float(error) for error in fit.left_out_errors)
    line = law.line
    best = fit.decided
    return {
        "name": law.name,
        "metric": law.metric,
        "engine": law.engine,
        "version": law.version,
        "model": law.model,
        "corpus": law.corpus or None,
        "conditions": {name: value or None for name, value in law.conditions.items()},
        "points": len(law.points),
        "settings": law.arms,
        "sources": list(dict.fromkeys(point.source for point in law.points)),
        "ranges": [_range_json(law, axis.name) for axis in law.varying],
        "held": _values_json(law, law.held),
        "noise": {"value": fit.noise.value, "how": fit.noise.how},
        "verdict": law.verdict,
        "decided": None if best is None else best.name,
        "shares": law.shares,
        "forms": [_rival_json(law, rival) for rival in fit.rivals if rival.weight >= 0.0005],
        "left_out": {"median": errors[len(errors) // 2] if len(errors) % 2 else
                     sum(errors[len(errors) // 2 - 1:len(errors) // 2 + 1]) / 2, "worst": errors[-1]},
        "contradictions": [item.text for item in law.contradictions],
        "not_separated": list(law.not_separated),
        "labels": list(law.labels),
        "not_used": [{"file": point.place.file, "line": point.place.line, "why": why}
                     for point, why in law.left_out],
        "curve": None if line is None else _curve_json(law),
        "observed": [] if line is None else _observed_json(law),
        "prediction": _prediction_json(shown),
        "beyond": list(shown.beyond),
    }


def _range_json(law: Law, name: str) -> dict[str, Any]:
    ends = law.range_of(name)
    assert ends is not None
    low, high = (_values_json(law, {name: end})[name] for end in ends)
    return {"axis": name, "unit": law.spec.axis(name).unit, "low": low, "high": high}


def _values_json(law: Law, values: Mapping[str, float | None]) -> dict[str, int | float | str | None]:
    """Values on the law's axes: numbers, and of an axis of choices the word."""
    found: dict[str, int | float | str | None] = {}
    for name, value in values.items():
        choices = law.spec.axis(name).choices
        if value is None:
            found[name] = None
        elif choices:
            found[name] = choices[int(value)]
        else:
            found[name] = int(value) if value == int(value) else value
    return found


def _rival_json(law: Law, rival: Rival) -> dict[str, Any]:
    """A form with its weight, errors, and the rates that it expects at both ends of the line."""
    line = law.line
    ends: list[float] = []
    if line is not None:
        place = law.fit.rivals.index(rival)
        ends = [law.rates(at, rival=place)[0] for at in (line.at[0], line.at[-1])]
    forms = [(term, FORMS[term.form]) for term in rival.terms]
    knees = iter(rival.parameters)
    return {
        "name": rival.name,
        "weight": rival.weight,
        "evidence": rival.evidence if rival.evidence > float("-inf") else None,
        "left_out_score": rival.left_out,
        "left_out_error": rival.error,
        "terms": [{"axis": term.span.axis.name, "form": term.form, "means": means,
                   "knee": next(knees) if term.shaped else None} for term, means in forms],
        "seconds_per_token": list(rival.sizes),
        "from": ends[0] if ends else None,
        "to": ends[1] if ends else None,
    }


def _curve_json(law: Law) -> dict[str, Any]:
    line = law.line
    assert line is not None
    (low, median, high), rivals = law.along(line.at, LEVEL)
    return {
        "axis": line.axis, "unit": line.unit, "at": _values_json(law, line.held), "level": LEVEL, "x": list(line.x),
        "median": median, "low": low, "high": high,
        "forms": {rival.name: rates for rival, rates in zip(law.fit.counted, rivals, strict=True)},
        "choices": list(line.choices) if line.choices else None,
    }


def _observed_json(law: Law) -> list[dict[str, Any]]:
    line = law.line
    assert line is not None
    odd = {id(point) for item in law.contradictions for point in (item.first, item.second)}
    return [
        {"x": x, "rate": law.points[i].rate, "source": law.points[i].source, "place": str(law.points[i].place),
         "contradicts": id(law.points[i]) in odd}
        for i, x in line.observed
    ]


def _prediction_json(shown: Shown) -> dict[str, Any] | None:
    line, found = shown.law.line, shown.prediction
    if found is None or shown.at is None:
        return None
    x = None
    if line is not None:
        x = shown.used.prompt if line.axis == "prompt_tokens" and shown.used else shown.at.get(line.axis)
    return {"x": x, "at": _values_json(shown.law, shown.at), "median": found.median, "low": found.low,
            "high": found.high, "level": found.level, "extrapolated": bool(shown.beyond)}


def workload_json(workload: Workload, used: Sequence[Used]) -> Mapping[str, Any]:
    """The workload as a question used it, defaults filled in."""
    prompts = [item.prompt for item in used if item.prompt is not None]
    streams = [item.streams for item in used if item.streams is not None]
    return {
        "prompt_tokens": prompts[0] if prompts else None,
        "streams": "all slots" if any(item.tied for item in used) else (streams[-1] if streams else None),
        "answer_tokens": workload.answer_tokens,
        "confidence": workload.confidence,
    }
