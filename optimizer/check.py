"""Is this shape going to work? The predicted ledger, every constraint, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from measurements.site import Site
from models import upgrades
from models.declare import EngineModel, Outcome, Verdict
from models.evaluate import Checked, Evaluation, Knobs, Quantity, Reader, evaluate
from models.interval import Interval

SCHEMA_VERSION: Final = 1


class MissingFacts(Exception):
    """Not enough facts for a verdict; ``missing`` holds name, unit and how to get each."""

    def __init__(self, missing: list[dict[str, str]]) -> None:
        super().__init__("not enough facts: " + ", ".join(item["name"] for item in missing))
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Check:
    """One shape of a site, judged."""

    site: Site
    shape: dict[str, int]
    evaluation: Evaluation
    verdict: Verdict
    outcome: Outcome
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...]
    upgrade: tuple[str, ...] = ()


def how_to_get(model: EngineModel, names: Iterable[str]) -> list[dict[str, str]]:
    """For each missing fact or knob: its unit, and the ledger line or command that supplies it."""
    found = []
    for name in names:
        if name in model.facts:
            spec = model.facts[name]
            found.append({"name": name, "unit": spec.unit, "how": spec.how})
        else:
            knob = model.knobs.get(name)
            how = f"set {name} in the config (the log tells what the engine chose)"
            found.append({"name": name, "unit": knob.unit if knob else "", "how": how})
    return found


def check(site: Site, shape: Mapping[str, int] | None = None, reader: Reader | None = None) -> Check:
    """Judges ``shape`` (the site's own where none is given), by ``reader`` where one is at hand.

    A flag that the version no longer knows is a refusal before anything else. Raises MissingFacts when a verdict
    needs facts that nobody gave.
    """
    own = dict(site.knobs if shape is None else shape)
    model = site.model
    result = evaluate(model, site.given, own, reader)
    unset = {name: told for name, told in site.unknown.items() if name not in own}
    if unset and not site.removed:
        raise MissingFacts([
            {"name": name, "unit": model.knobs[name].unit, "how": f"set it in the config: {told}"}
            for name, told in unset.items()
        ])
    if result.missing and not site.removed:
        raise MissingFacts(how_to_get(model, result.missing))
    verdict, outcome, outcomes = result.verdict, result.outcome, result.outcomes
    if site.removed:
        verdict, outcome, outcomes = Verdict.DOES_NOT_FIT, Outcome.REFUSED_AT_BOOT, (Outcome.REFUSED_AT_BOOT,)
    contradictions = _contradictions(site, result)
    if contradictions and verdict is Verdict.FITS:
        verdict = Verdict.KNIFE_EDGE  # evidence against the arithmetic leaves nothing certain
    return Check(site, own, result, verdict, outcome, outcomes, tuple(_warnings(site, result, contradictions)),
                 tuple(upgrade_notes(site)))


def _contradictions(site: Site, result: Evaluation) -> list[str]:
    found = list(site.contradictions)
    for name in result.contradicted:
        row = result.quantities.get(name)
        if row is not None and name in site.given.printed:
            seen = site.given.printed[name]
            found.append(f"{name}: predicted {row.low:,} to {row.high:,} {row.unit}, the ledger printed "
                         f"{seen.low:,} to {seen.high:,}")
        else:
            found.append(f"{name}: the facts given for it contradict each other")
    return found


def _warnings(site: Site, result: Evaluation, contradictions: list[str]) -> Iterable[str]:
    model = site.model
    for removed, place in site.removed:
        yield (f"{removed.name} ({place}) is gone since {removed.since}: the engine refuses to start on it. "
               f"Instead: {removed.instead} [{removed.source}]")
    for text in contradictions:
        yield f"does not add up: {text}"
    yield from site.warnings
    if model.basis == "believed":
        yield f"{site.engine} is in a known range but has no evidence of its own: its rules are believed"
    yield from result.notes
    yield from arena_notes(site, result.shape)
    for checked in result.constraints:
        name = checked.require.name
        if checked.missing:
            yield f"{name} cannot be decided without {', '.join(sorted(checked.missing))}"
        elif not checked.hard and checked.verdict not in (None, Verdict.FITS):
            sure = "is not met" if checked.verdict is Verdict.DOES_NOT_FIT else "may not be met"
            yield f"{name} {sure} (a matter of quality): {checked.remedy} [{checked.require.source}]"
    yield from _operator_contract(result)


def arena_notes(site: Site, shape: Mapping[str, Interval]) -> Iterable[str]:
    """Says which settings differ from the boot whose measured rows are used, where they change those rows."""
    boot = Knobs(site.model, site.given.as_is)
    moved = [name for name in site.model.arena_knobs
             if name in shape and name in boot and shape[name] != boot[name]]
    if moved and not site.given.facts.keys().isdisjoint(("activation_arena", "pair_ceiling", "settled_free")):
        yield (f"{', '.join(moved)} is not what it was in the boot that the facts are from: what is measured at boot "
               "(the activation arena, a pair's ceiling) may move; read the next ledger before trusting the last MiB")


def _operator_contract(result: Evaluation) -> Iterable[str]:
    """Says so where the operators' pool formula and the engine's own carve judge differently."""
    try:
        operator, own = result.constraint("operator_contract"), result.constraint("pool_contract")
    except KeyError:
        return
    if not operator.applies or not own.applies or operator.verdict is None or own.verdict is None:
        return
    if operator.verdict is Verdict.FITS and own.verdict is not Verdict.FITS:
        yield ("operator_contract is met but the engine's own carve is not: the formula's 110 and 448 MiB hold at "
               "draft depth 2, less 2 MiB of alignment")


def upgrade_notes(site: Site) -> list[str]:
    """What changed between the version the site runs and the one asked about; empty where they are one."""
    if site.runs is None or site.runs.engine != site.engine.engine:
        return []
    return upgrades.between(site.engine.engine, site.runs.version, site.engine.version)


def quantity_json(quantity: Quantity) -> dict[str, Any]:
    """One quantity as the JSON answers carry it."""
    found: dict[str, Any] = {
        "value": quantity.value, "low": quantity.low, "high": quantity.high, "unit": quantity.unit,
        "source": quantity.source, "basis": quantity.basis,
    }
    if quantity.predicted is not None:
        found["predicted"] = {"low": quantity.predicted.low, "high": quantity.predicted.high}
    return found


def constraint_json(checked: Checked) -> dict[str, Any]:
    """One constraint as the JSON answers carry it; ``ok`` is null where facts are missing to tell."""
    require = checked.require
    return {
        "name": require.name,
        "ok": None if checked.verdict is None else checked.verdict is Verdict.FITS,
        "verdict": None if checked.verdict is None else checked.verdict.word,
        "applies": checked.applies,
        "slack": checked.low, "slack_high": checked.high, "unit": require.unit,
        "phase": require.phase.value, "hard": checked.hard, "outcome": require.broken.word,
        "remedy": checked.remedy, "source": require.source, "basis": require.basis,
        "missing": sorted(checked.missing),
    }


def shape_json(model: EngineModel, shape: Mapping[str, Interval]) -> dict[str, Any]:
    """Every knob that matters for memory, as a user would write it; null where the engine chooses within bounds."""
    return {
        name: spec.show(shape[name].low) if shape[name].exact else None
        for name, spec in model.knobs.items()
        if name in shape and not spec.inert
    }


def defaults_json(site: Site, shape: Mapping[str, Interval]) -> dict[str, Any]:
    """The defaults in force: knobs the user's files do not state, with where each default comes from."""
    return {
        name: {"value": spec.show(shape[name].low) if shape[name].exact else None, "source": spec.default_source}
        for name, spec in site.model.knobs.items()
        if name in shape and name not in site.knobs and not spec.inert and spec.default_source
    }


def facts_json(site: Site) -> dict[str, Any]:
    """Every fact used, with its interval, source and basis."""
    return {
        name: {"low": fact.value.low, "high": fact.value.high,
               "unit": unit_of(site.model, name), "source": fact.source, "basis": fact.basis}
        for name, fact in sorted(site.facts.items())
    }


def unit_of(model: EngineModel, fact: str) -> str:
    """The unit of a fact, per card or not."""
    spec = model.facts.get(fact) or model.facts.get(fact.rpartition(".")[0])
    return spec.unit if spec else ""


def engine_json(site: Site) -> dict[str, Any]:
    """The engine as the JSON answers carry it."""
    return {"name": site.model.name, "version": site.model.version, "basis": site.model.basis,
            "container": site.model.container}


def check_json(found: Check) -> dict[str, Any]:
    """The whole answer of ``check``."""
    site, result = found.site, found.evaluation
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(site),
        "shape": shape_json(site.model, result.shape),
        "verdict": found.verdict.word,
        "outcome": found.outcome.word,
        "quantities": {name: quantity_json(q) for name, q in result.quantities.items()},
        "constraints": [constraint_json(c) for c in result.constraints],
        "warnings": list(found.warnings),
        "defaults": defaults_json(site, result.shape),
        "facts": facts_json(site),
        "unmapped": [f"{setting.key} at {setting.place}" for setting in site.mapped.unmapped],
        "binding_cards": dict(site.binding),
        "open_facts": how_to_get(
            site.model, sorted({name for c in result.constraints for name in c.missing})
        ),
    }
    if len(found.outcomes) > 1 or found.verdict is Verdict.KNIFE_EDGE:
        document["outcomes"] = [outcome.word for outcome in found.outcomes]
    if found.upgrade:
        document["upgrade"] = list(found.upgrade)
    return document

