"""One endpoint: engine, host, model file and the user's own files, put together.

A site holds the knobs as they are, the facts with their intervals and sources, and what a ledger printed. It reads
files and asks readers; it decides nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final

from measurements.config import Mapped, map_settings, read_config
from measurements.history import NAME, Record, file_digest, read_history, record_of_boot
from measurements.records import ConfigReading, LedgerReading, Place, ReadError, Reading, Setting
from models.declare import BadValue, Basis, EngineModel, FactSpec, KnobSpec, Outcome, Removed
from models.engines import EngineVersion, build, engine_name, engine_names, known_versions, resolve
from models.evaluate import Given, Knobs, Quantity, Reader, evaluate, fold_cards
from models.interval import MIB, Interval, point, show_bytes, size
from models.versions import UnknownEngine, UnknownVersion, parse_version

_IMAGE = re.compile(r"(?P<name>[\w.-]+):v?(?P<version>\d+\.\d+(?:\.\d+)?)(?:[-@+].*)?$")
#: Figures that a version derives by its own rules, and so say nothing of another one.
_OF_ONE_BUILD: Final = (
    "host_left", "resident_weights", "device_budget", "boot_reserve", "kv_blocks", "settle_floor")
_WHOLE: Final = re.compile(r"\d{1,15}")
_SITE_KEYS: Final = ("engine", "config", "ledger", "points", "host", "service", "sessions", "facts", "boot",
                     "set", "limits", "about")


@dataclass(frozen=True, slots=True)
class FactValue:
    """A fact with where it comes from and how well it is known."""

    value: Interval
    source: str
    basis: Basis = "read"


@dataclass(frozen=True, slots=True)
class Sources:
    """The files and words a user gave on the command line or in a ``site.toml``.

    ``boot`` are knobs as they were when the ``facts`` were measured; ``runs`` is the engine and version the site
    runs now, where another one is asked about; ``points`` are files of measured speeds, or the word ``reference`` for
    those that come along. ``records`` is the file of predictions and verdicts, where the user named another one.
    """

    config: tuple[Path, ...] = ()
    ledger: Path | None = None
    host: Path | None = None
    engine: str | None = None
    service: str | None = None
    sessions: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    boot: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    site: Path | None = None
    runs: str | None = None
    points: tuple[Path | str, ...] = ()
    records: Path | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """Everything known of one endpoint.

    ``filed`` are the knobs the user's files state, ``knobs`` the same with what was set on top; ``given`` is what
    a model is asked with. ``removed`` are stated knobs the version no longer knows. ``runs`` is the version the
    site runs now, where another one is asked about. ``unknown`` are knobs that no file states and whose default
    the log contradicts, with what it prints.
    """

    engine: EngineVersion
    model: EngineModel
    config: ConfigReading | None
    mapped: Mapped
    ledger: LedgerReading | None
    filed: dict[str, int]
    knobs: dict[str, int]
    origins: dict[str, str]
    facts: dict[str, FactValue]
    binding: dict[str, int]
    given: Given
    removed: tuple[tuple[Removed, str], ...]
    contradictions: tuple[str, ...]
    warnings: tuple[str, ...]
    sources: Sources
    runs: EngineVersion | None = None
    model_name: str = ""
    unknown: Mapping[str, str] = field(default_factory=dict)


def read_site(folder: Path) -> Sources:
    """What a ``site.toml`` (or the folder that holds one) names; its paths are relative to itself.

    Raises ReadError when it is missing, no TOML, or says something this version does not know.
    """
    path = folder / "site.toml" if folder.is_dir() else folder
    if not path.exists():
        where = "holds no site.toml" if folder.is_dir() else "does not exist"
        raise ReadError(f"{where}; give a site folder, or --config FILE", file=str(folder))
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ReadError("is not a text file; a site.toml is TOML", file=str(path)) from None
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise ReadError(f"is not valid TOML: {error}", file=str(path), line=int(found[1]) if found else None) from None
    for key in data:
        if key not in _SITE_KEYS:
            raise ReadError(f"{key!r} means nothing here; known: {', '.join(_SITE_KEYS)}", file=str(path),
                            line=_line_of(text, key))
    base = path.parent

    def names(key: str) -> list[Path]:
        value = data.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise ReadError(f"{key} is a file name or a list of them", file=str(path), line=_line_of(text, key))
        return [base / item for item in listed]

    def table(key: str) -> dict[str, str]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            raise ReadError(f"{key} is a table: [{key}]", file=str(path), line=_line_of(text, key))
        return {name: _plain(item) for name, item in value.items()}

    def word(key: str) -> str | None:
        value = data.get(key)
        if value is not None and not isinstance(value, str):
            raise ReadError(f"{key} is a text in quotes", file=str(path), line=_line_of(text, key))
        return value

    sessions = data.get("sessions")
    if sessions is not None and (not isinstance(sessions, int) or isinstance(sessions, bool) or sessions < 1):
        raise ReadError("sessions is a whole number from 1", file=str(path), line=_line_of(text, "sessions"))
    limits = data.get("limits", [])
    if not isinstance(limits, list) or not all(isinstance(item, str) for item in limits):
        raise ReadError("limits is a list of constraint names", file=str(path), line=_line_of(text, "limits"))
    ledgers, hosts = names("ledger"), names("host")
    return Sources(
        config=tuple(names("config")), ledger=ledgers[0] if ledgers else None, host=hosts[0] if hosts else None,
        engine=word("engine"), service=word("service"), sessions=sessions, facts=table("facts"), boot=table("boot"),
        sets=table("set"), limits=tuple(limits), site=path, points=tuple(_points(data.get("points"), base, names)),
    )


def _points(value: Any, base: Path, names: Callable[[str], list[Path]]) -> list[Path | str]:
    from measurements.points import REFERENCE

    return [REFERENCE if path == base / REFERENCE else path for path in names("points")] if value else []


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _line_of(text: str, key: str) -> int | None:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[?\s*{re.escape(key)}\b", line):
            return number
    return None


def load(sources: Sources) -> Site:
    """Reads the files a user named and puts the site together.

    Raises ReadError for a file or value that cannot be what it should be, UnknownEngine and UnknownVersion for
    an engine nobody described.
    """
    config = read_config(list(sources.config)) if sources.config else None
    if config is not None and sources.service is not None:
        images = map_settings(config, {}, scope=sources.service).images
        config = replace(config, images=images)
    named = engine_name(sources.engine.partition("@")[0]) if sources.engine else None
    ledger = _ledger(sources.ledger, named or _engine_hint(config))
    engine = _engine(sources, config, ledger)
    if ledger is not None and ledger.engine != engine.engine:
        raise ReadError(f"is a log of {ledger.engine}, not of {engine.engine}", file=str(sources.ledger))
    return _assemble(sources, config, ledger, engine)


def records_of(sources: Sources) -> Path | None:
    """Where the records of a site stand: as named, in its folder, or beside its first file; None where nothing says."""
    if sources.records is not None:
        return sources.records
    if sources.site is not None:
        return (sources.site if sources.site.is_dir() else sources.site.parent) / NAME
    return sources.config[0].parent / NAME if sources.config else None


def _runs_now(sources: Sources, ledger: LedgerReading | None, engine: EngineVersion) -> EngineVersion | None:
    """The other version that the site runs now, as far as anything says; None where it is the one asked about."""
    if sources.runs:
        return resolve(sources.runs)
    if ledger is None:
        return None
    if ledger.version:
        printed_by = EngineVersion(ledger.engine, parse_version(ledger.engine, ledger.version))
        return None if printed_by == engine else printed_by
    # one of 1.0 always says so
    older = ledger.generation.until == (1, 0) and ledger.generation.rules_out(engine.version)
    return EngineVersion("radiance", (1, 0, 13)) if older else None


def _ledger(path: Path | None, engine: str | None) -> LedgerReading | None:
    if path is None:
        return None
    from measurements.ledger import read_ledger

    return read_ledger(path, engine=engine)


def _engine_hint(config: ConfigReading | None) -> str | None:
    """The engine an image name or the settings' own prefix names; None where they name none."""
    if config is None:
        return None
    for image, _ in config.images:
        for name in engine_names():
            if name in image.lower():
                return name
    if any(setting.key.upper().startswith("HALOGEN_") for setting in config.settings):
        return "halogen"
    return None


def _engine(sources: Sources, config: ConfigReading | None, ledger: LedgerReading | None) -> EngineVersion:
    if sources.engine and "@" in sources.engine:
        return resolve(sources.engine)
    name = engine_name(sources.engine) if sources.engine else None
    if ledger is not None and ledger.version is not None and name in (None, ledger.engine):
        return resolve(f"{ledger.engine}@{ledger.version}")
    name = name or (ledger.engine if ledger else _engine_hint(config))
    for image, _ in config.images if config else ():
        found = _IMAGE.search(image)
        if found and name and name in image.lower():
            return resolve(f"{name}@{found['version']}")
    if name is None:
        raise UnknownEngine(f"which engine is this? Say --engine NAME@VERSION; known: {known_versions()}")
    generation = f" (the log reads as {ledger.generation})" if ledger and ledger.generation else ""
    example = {"radiance": "radiance@1.0.13", "halogen": "halogen@0.13.0"}[name]
    raise UnknownVersion(f"which version of {name} is this?{generation} Say --engine NAME@VERSION, such as {example}; "
                         f"known: {known_versions()}")


def _assemble(sources: Sources, config: ConfigReading | None, ledger: LedgerReading | None,
              engine: EngineVersion) -> Site:
    draft = build(engine, container="")
    empty = ConfigReading((), {})
    mapped = map_settings(config or empty, draft.names(), scope=sources.service)
    _must_speak_of(engine, config, mapped)
    warnings = [*(config.warnings if config else ()), *mapped.warnings]
    try:
        filed, texts, removed, origins = _knobs(draft, mapped)
    except ReadError as error:  # a file that is not there may be why
        gone = [text for text in warnings if "is not there, so its settings are not read" in text]
        raise ReadError("; ".join((error.message, *gone)), file=error.file, line=error.line, kind=error.kind) from None
    known_sets = _sets(draft, sources)
    for name in sources.sets.keys() - known_sets.keys():  # set to the engine's own choice
        filed.pop(name, None)
    texts |= {name: value for name, value in sources.sets.items() if draft.knobs[name].kind == "text"}
    if "tp" in draft.knobs and ledger is not None and "cards" in ledger.facts:
        cards = ledger.facts["cards"]
        if isinstance(cards.value, Interval) and "tp" not in filed:
            filed["tp"] = cards.value.low
            origins["tp"] = str(cards.place)
    tp = known_sets.get("tp", filed.get("tp", 1))
    container, container_source = _container(engine, texts, sources, ledger)
    try:
        model = build(engine, container=container, tp=tp)
    except BadValue as error:
        raise ReadError(str(error), kind="usage") from None
    runs = _runs_now(sources, ledger, engine)
    facts: dict[str, FactValue] = {
        name: FactValue(value, source, basis) for name, (value, basis, source) in model.constants.items()
    }
    contradictions: list[str] = []
    unknown: dict[str, str] = {}
    boot: dict[str, int | Interval] = dict(filed)
    for name, text in sources.boot.items():
        measured_at = knob_value(model, name, text) if name in model.knobs else None
        if measured_at is not None:
            boot[name] = measured_at
    printed: dict[str, Interval] = {}
    if ledger is not None and _other_cards(ledger, tp):
        warnings.append("the ledger is of another number of cards than tp: its figures a card are not used")
        ledger = None
    if sources.host is not None:
        from measurements.host import read_host

        known, told = _of_the_servers_cards(read_host(sources.host), tp, ledger)
        _take(facts, model.facts, known.values(), sources.host.name)
        for name in sorted(told.keys() & model.facts.keys()):
            warnings.append(f"{name} is not taken from the host: {told[name]}")
            how = f"--fact {name}=...: {told[name]}"
            model = replace(model, facts={**model.facts, name: replace(model.facts[name], how=how)})
    if ledger is not None:
        same_build = runs is None
        readings = [item for item in ledger.facts.values() if same_build or item.name not in _OF_ONE_BUILD]
        _take(facts, model.facts, readings, None)
        if not same_build:
            warnings.append("the ledger is of another version: its rows are no check here, and its facts may differ")
        contradictions += [finding.text for finding in ledger.findings if finding.severity == "contradiction"]
        warnings += [finding.text for finding in ledger.findings if finding.severity == "note"]
        on_record = _boot_on_record(model, sources, ledger, {}, warnings)
        foreign = _boot_knobs(model, ledger, filed, boot, origins, unknown)
        if on_record is not None and not _boot_knobs(model, ledger, _exact(on_record.settings), {}, {}, {}):
            foreign += _unnamed(model, ledger, filed, on_record)
            boot = {name: value for name, value in boot.items() if name in ledger.knobs} | on_record.settings
            certain = True
        else:
            certain = not foreign
        warnings += [f"the ledger is of another setting: {text}" for text in foreign]
        if "mem_available" not in facts and "mem_available_at_pin" in ledger.facts:
            _take(facts, model.facts, [replace(ledger.facts["mem_available_at_pin"], name="mem_available")], None)
        if same_build:
            facts |= _boot_facts(model, ledger, boot) | _outcome_seen(ledger)
        if certain and same_build:
            printed = printed_rows(ledger)
        for name in ledger.knobs.keys() & boot.keys() - sources.sets.keys():
            # what the log says of knobs that the file leaves open; another version has defaults of its own
            value = boot[name]
            if isinstance(value, int) and (same_build or model.knobs[name].default is None):
                filed.setdefault(name, value)
    given_by_user = _user_facts(model.facts, sources)
    warnings += _outranked(model, facts, given_by_user, boot)
    for name in list(facts):  # a figure for all cards replaces what was read of each
        if name.rpartition(".")[0] in given_by_user:
            del facts[name]
    facts |= given_by_user
    if sources.sessions is not None:
        facts["sessions"] = FactValue(point(sources.sessions), "--sessions")
    _limits(model, sources)
    plain = {name: fact.value for name, fact in facts.items()}
    folded, binding = fold_cards(model.facts, plain)
    if sources.ledger is None and not sources.boot:
        on_record = _boot_on_record(model, sources, None, folded, warnings)
        if on_record is not None and _tells_apart(model, folded, filed, boot, on_record.settings):
            warnings += [f"the facts are of another setting: {text}; say under [boot] where they are of this one"
                         for text in _unnamed(model, None, filed, on_record)]
            boot = on_record.settings
    given = Given(boot, folded, printed, frozenset(sources.limits))
    if container_source:
        origins["container"] = container_source
    return Site(engine, model, config, mapped, ledger, filed, filed | known_sets, origins, facts, binding, given,
                removed, tuple(contradictions), tuple(warnings), sources, runs, container or model.container,
                {name: told for name, told in unknown.items() if name not in known_sets})


def _knobs(model: EngineModel, mapped: Mapped) -> tuple[
    dict[str, int], dict[str, str], tuple[tuple[Removed, str], ...], dict[str, str]
]:
    """Stated knobs, stated texts, removed knobs with their places, and where each stands."""
    values: dict[str, int] = {}
    texts: dict[str, str] = {}
    removed: list[tuple[Removed, str]] = []
    origins: dict[str, str] = {}
    gone = {item.name: item for item in model.removed}
    for name, setting in mapped.knobs.items():
        origins[name] = str(setting.place)
        if name in gone:
            if setting.value not in (None, ""):
                removed.append((gone[name], f"{setting.key} at {setting.place}"))
            continue
        spec = model.knobs[name]
        if spec.kind == "text":
            if setting.value and not setting.secret:
                texts[name] = setting.value
            continue
        value = _value(spec, setting.value, setting.place, setting)
        if value is not None:
            values[name] = value
    return values, texts, tuple(removed), origins


def _value(spec: KnobSpec, text: str | None, place: Place, setting: Setting | None = None) -> int | None:
    """The parsed value; None where the text asks for the engine's own choice."""
    if text is not None and spec.automatic is not None and text.strip().lower() == spec.automatic:
        return None
    if setting is not None and setting.style == "env" and text == "" and spec.kind != "switch":
        return None  # an empty variable is one that is not set
    try:
        return spec.parse(text)
    except BadValue as error:
        left = re.search(r"\$\{?(\w+)", text or "") if setting is not None else None
        told = (f"{spec.name} is {text!r}, and none of the files read sets {left[1]}; name the file that does where "
                "the server reads it, or write the value" if left else str(error))
        raise ReadError(told, file=place.file, line=place.line) from None


def _sets(model: EngineModel, sources: Sources) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in sources.sets.items():
        try:
            value = knob_value(model, name, text)
        except ReadError as error:
            raise ReadError(error.message, kind=error.kind, **_stated(sources, name, text)) from None
        if value is not None:
            found[name] = value
    return found


def _must_speak_of(engine: EngineVersion, config: ConfigReading | None, mapped: Mapped) -> None:
    """Raises ReadError where a config holds settings and not one is of this engine: defaults would answer for it."""
    if config is None or not config.settings or mapped.knobs:
        return
    if not any(engine.engine in image.lower() for image, _ in config.images):
        raise ReadError(f"none of its settings is a knob of {engine}: name the right engine, or the right file",
                        file=config.settings[0].place.file)


def _stated(sources: Sources, name: str, text: str) -> dict[str, Any]:
    """The file and line of the ``site.toml`` that states ``name`` so; empty where the command line did."""
    if sources.site is not None:
        for number, line in enumerate(sources.site.read_text(encoding="utf-8").splitlines(), 1):
            if re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", line) and text in line:
                return {"file": str(sources.site), "line": number}
    return {}


def knob_value(model: EngineModel, name: str, text: str) -> int | None:
    """``text`` as a value of the knob called ``name``; None for text knobs and automatic values.

    Raises ReadError of kind ``usage`` naming the knobs there are, or what a right value looks like.
    """
    if name not in model.knobs:
        gone = {item.name: item for item in model.removed}
        if name in gone:
            raise ReadError(f"{name} is gone since {gone[name].since}: {gone[name].instead}", kind="usage")
        known = ", ".join(n for n, spec in model.knobs.items() if not spec.inert)
        raise ReadError(f"{model.name} {model.version} has no knob {name!r}; its knobs: {known}", kind="usage")
    spec = model.knobs[name]
    if spec.kind == "text" or (spec.automatic is not None and text.strip().lower() == spec.automatic):
        return None
    try:
        return spec.parse(text)
    except BadValue as error:
        raise ReadError(str(error), kind="usage") from None


def _container(engine: EngineVersion, texts: Mapping[str, str], sources: Sources,
               ledger: LedgerReading | None) -> tuple[str, str]:
    """The model file's name and who said it: the user, the config, or the log."""
    fact, knob = ("container", "model") if engine.engine == "radiance" else ("checkpoint", "checkpoint")
    if fact in sources.facts:
        return sources.facts[fact], f"--fact {fact}"
    if knob in texts:
        return texts[knob], knob
    if ledger is not None and fact in ledger.facts:
        reading = ledger.facts[fact]
        if isinstance(reading.value, str):
            return reading.value, str(reading.place)
    return "", ""


def _of_the_servers_cards(host: Mapping[str, Reading], cards: int, ledger: LedgerReading | None) -> tuple[
    dict[str, Reading], dict[str, str]
]:
    """What ``host`` says of the server's own cards, and by fact why it says nothing of them.

    A host may show cards that the server does not use, as the one inside its processor, and the kernel numbers them
    otherwise than an engine its ranks: which they are is known where all are alike. What the log says counts before.
    """
    known, told = dict(host), dict[str, str]()
    by_fact: dict[str, dict[str, Reading]] = {}
    for name, reading in host.items():
        plain, _, card = name.rpartition(".")
        if card.isdigit():
            by_fact.setdefault(plain, {})[name] = reading
    logged = {name.partition(".")[0] for name in ledger.facts} if ledger is not None else set()
    for fact, readings in by_fact.items():
        values = {str(reading.value): reading.printed for reading in readings.values()}
        if fact in logged:
            known = {name: reading for name, reading in known.items() if name not in readings}
        elif len(readings) > cards and len(values) > 1:
            known = {name: reading for name, reading in known.items() if name not in readings}
            told[fact] = (f"the host shows {len(readings)} cards ({', '.join(values.values())} bytes), the server uses "
                          f"{cards}, and which is not known")
    return known, told


def _take(facts: dict[str, FactValue], specs: Mapping[str, FactSpec], readings: Iterable[Reading],
          where: str | None) -> None:
    for reading in readings:
        plain = reading.name.rpartition(".")[0] if reading.name[-1:].isdigit() else ""
        spec = specs.get(reading.name) or specs.get(plain)
        if spec is None:
            continue
        source = f"{where}/{reading.place}" if where else str(reading.place)
        if isinstance(reading.value, Interval):
            facts[reading.name] = FactValue(reading.value, source)
        elif reading.value == "unlimited":
            facts[reading.name] = FactValue(point(spec.cap), source)


def fact_value(spec: FactSpec, name: str, text: str) -> Interval | None:
    """A fact as the user gives it: a whole number is exact, a decimal one step of its last digit wide.

    ``LOW..HIGH`` is all from the one to the other. None for words. Raises BadValue naming what would be right.
    """
    if spec.words or spec.name in ("container", "checkpoint"):
        return None
    low, dots, high = text.partition("..")
    value = _one_value(spec, name, low)
    if dots:
        upper = _one_value(spec, name, high)
        if value.low > upper.high:
            raise BadValue(f"{name} is {text!r}, which is empty; write the lesser value first")
        value = Interval(value.low, max(upper.high, value.high))
    if value.high > spec.cap:
        raise BadValue(f"{name} is {text!r}, which is more than can be meant")
    if value.low < spec.least:
        raise BadValue(f"{name} is {text!r}, which may be nothing at all; write more than 0")
    return value


def _one_value(spec: FactSpec, name: str, text: str) -> Interval:
    if spec.unit == "B":
        if text.strip().lower() == "unlimited" and spec.name == "memlock":
            return point(spec.cap)
        try:
            return size(text)
        except ValueError as error:
            raise BadValue(f"{name}: {error}") from None
    word = text.strip()
    if not _WHOLE.fullmatch(word):
        raise BadValue(f"{name} is {text!r}; write a whole number{' of ' + spec.unit if spec.unit else ''}")
    return point(int(word))


def _other_cards(ledger: LedgerReading, tp: int) -> bool:
    cards = ledger.facts.get("cards")
    return cards is not None and isinstance(cards.value, Interval) and tp not in cards.value


def _outcome_seen(ledger: LedgerReading) -> dict[str, FactValue]:
    """What the log shows to have become of its boot, as a number the models know."""
    reading = ledger.rows.get("outcome_seen")
    for outcome in Outcome:
        if reading is not None and reading.value == outcome.word:
            return {"outcome_seen": FactValue(point(outcome.value), str(reading.place))}
    return {}


def _user_facts(specs: Mapping[str, FactSpec], sources: Sources) -> dict[str, FactValue]:
    found: dict[str, FactValue] = {}
    for name, text in sources.facts.items():
        plain, _, card = name.rpartition(".")
        spec = specs.get(name) or (specs.get(plain) if card.isdigit() else None)
        if spec is None:
            raise ReadError(f"no fact is called {name!r}; known: {', '.join(specs)}", kind="usage",
                            **_stated(sources, name, text))
        try:
            value = fact_value(spec, name, text)
        except BadValue as error:
            raise ReadError(str(error), kind="usage", **_stated(sources, name, text)) from None
        if value is not None:
            found[name] = FactValue(value, f"--fact {name}" if sources.site is None else f"given as {name}")
    return found


def _outranked(model: EngineModel, read: Mapping[str, FactValue], stated: Mapping[str, FactValue],
               boot: Mapping[str, int | Interval]) -> list[str]:
    """Stated facts that cannot be what the files tell: by their own line, or by what a model makes of their lines."""
    found = []
    folded: dict[str, Interval] = {}
    if not model.rows.keys().isdisjoint(stated):
        folded, _ = fold_cards(model.facts, {name: fact.value for name, fact in read.items()})
    for name, fact in stated.items():
        told = read[name].value if name in read else None
        source = read[name].source if name in read else "the ledger"
        if told is None and name in model.rows:
            row = Reader(model, Given(boot, folded), boot).quantity(model.rows[name])
            told = Interval(row.low, row.high) if isinstance(row, Quantity) else None
        if told is not None and told.meet(fact.value) is None:
            unit = model.facts[name].unit if name in model.facts else "B"
            shown = [f"{_shown(value.low, unit)} to {_shown(value.high, unit)}" if not value.exact
                     else _shown(value.low, unit) for value in (fact.value, told)]
            found.append(f"{name} is stated as {shown[0]}, and {source} tells {shown[1]}: what is stated counts")
    return found


def _shown(value: int, unit: str) -> str:
    return show_bytes(value) if unit == "B" else f"{value:,} {unit}".rstrip()


def _limits(model: EngineModel, sources: Sources) -> None:
    names = {require.name for require in model.requires}
    for name in sources.limits:
        if name not in names:
            raise ReadError(f"no constraint is called {name!r}; known: {', '.join(sorted(names))}", kind="usage",
                            file=str(sources.site) if sources.site else None)


def _boot_knobs(model: EngineModel, ledger: LedgerReading, filed: Mapping[str, int],
                boot: dict[str, int | Interval], origins: dict[str, str], unknown: dict[str, str]) -> list[str]:
    """Fills ``boot`` with the knobs the ledger names; returns where it contradicts the config."""
    foreign: list[str] = []
    for name, reading in ledger.knobs.items():
        spec = model.knobs.get(name)
        if spec is None or spec.kind == "text":
            continue
        allowed = _allowed(spec, reading)
        if allowed is None:
            continue
        stated = filed.get(name)
        default = spec.default if isinstance(spec.default, int) else None
        if stated is not None and stated in allowed:
            if (measured_at := boot.get(name)) is not None and (
                    measured_at if isinstance(measured_at, Interval) else point(measured_at)).meet(allowed) is None:
                boot[name] = stated
            continue
        if stated is not None:
            foreign.append(f"{name} is {spec.show(stated)} in the config, {reading.printed or spec.show(allowed.low)} "
                           f"at {reading.place}")
        elif default is not None and default not in allowed and not allowed.exact:
            if name in ("vram_weights_mib", "vram_kv_mib"):  # to leave these out is to derive them
                foreign.append(f"{name} is not in the config, {reading.printed} at {reading.place}")
            else:  # the log contradicts the default and does not tell the value: nobody knows it
                unknown[name] = f"the log prints {reading.printed} at {reading.place}"
        if stated is not None or default is None or default not in allowed:
            boot[name] = allowed.low if allowed.exact else allowed
            origins.setdefault(name, str(reading.place))
    for name in ("vram_weights_mib", "vram_kv_mib"):
        row = ledger.rows.get(name.removesuffix("_mib"))
        if filed.get(name) and row is not None and name not in ledger.knobs:
            foreign.append(f"{name} is {filed[name]} in the config, the boot derived it ({row.place})")
            boot[name] = 0
    return foreign


@dataclass(frozen=True, slots=True)
class _Known:
    """How the boot was set that facts are from, by the record of a prediction."""

    settings: dict[str, int | Interval]
    prediction: Record


def _boot_on_record(model: EngineModel, sources: Sources, ledger: LedgerReading | None,
                    facts: Mapping[str, Interval], warnings: list[str]) -> _Known | None:
    """What the site's own records tell of the boot that its log or its facts are from; None where they tell nothing,
    and ``warnings`` get a line where that is for records that cannot be read.

    A file says how the server is to be set; a log names a part of what it was set to. Between an edit and the boot
    after it the two differ, and what a log leaves out would pass for as the file has it.
    """
    file = records_of(sources)
    if file is None or not file.is_file():
        return None
    try:
        history = read_history(file)
        digest = file_digest(ledger.file) if ledger is not None and ledger.file is not None else None
        if ledger is not None and digest is None:
            return None
        found = record_of_boot(history, digest, {name: (value.low, value.high) for name, value in facts.items()})
        if found is None and history.skipped:
            warnings.append(f"{file.name}: what history passes over there (line "
                            f"{', '.join(str(item.line) for item in history.skipped[:3])}) may have told how the "
                            "server was set at that boot: what no log names counts as the config has it")
        if found is None or found[0]["engine"]["name"] != model.name:
            return None
        settings: dict[str, int | Interval] = {}
        for name, value in found[1].items():
            if name not in model.knobs:
                continue
            if isinstance(value, list):
                settings[name] = value[0] if value[0] == value[1] else Interval(value[0], value[1])
            elif (stated := knob_value(model, name, str(value))) is not None:
                settings[name] = stated
    except (ReadError, BadValue) as error:
        warnings.append(f"{file.name} does not tell how the server was set at that boot ({error}): what no log names "
                        "counts as the config has it")
        return None
    return _Known(settings, found[0])


def _unnamed(model: EngineModel, ledger: LedgerReading | None, filed: Mapping[str, int], known: _Known) -> list[str]:
    """Where the config states otherwise what a boot had, and its log says nothing of it."""
    now, then = Knobs(model, filed), Knobs(model, known.settings)
    named = set() if ledger is None else ledger.knobs.keys()
    return [f"{name} is {model.knobs[name].show(now[name].low)} in the config, and was "
            f"{model.knobs[name].show(then[name].low)} at that boot (prediction {known.prediction['id']})"
            for name in now if name in then and name not in named and now[name] != then[name]]


def _tells_apart(model: EngineModel, facts: Mapping[str, Interval], shape: Mapping[str, int],
                 *boots: Mapping[str, int | Interval]) -> bool:
    """Whether it matters which of ``boots`` the facts are from."""
    found = [evaluate(model, Given(boot, dict(facts)), shape) for boot in boots]
    return any((one.quantities, one.constraints) != (found[0].quantities, found[0].constraints) for one in found)


def _exact(settings: Mapping[str, int | Interval]) -> dict[str, int]:
    """The settings that are known to one value."""
    return {name: value for name, value in settings.items() if isinstance(value, int)}


def foreign_to(ledger: LedgerReading, sources: Sources) -> tuple[str, ...]:
    """Settings that the log names and the config states otherwise: the log is of another boot.

    Raises ReadError and the errors of an unknown engine as :func:`load` does.
    """
    config = read_config(list(sources.config))
    engine = _engine(sources, config, ledger)
    model = build(engine, container="")
    filed, *_ = _knobs(model, map_settings(config, model.names(), scope=sources.service))
    unknown: dict[str, str] = {}
    foreign = _boot_knobs(model, ledger, filed, {}, {}, unknown)
    return (*foreign, *(f"{name} is not in the config, {told}" for name, told in unknown.items()))


def _allowed(spec: KnobSpec, reading: Reading) -> Interval | None:
    """The knob's values, in its own unit, that print as ``reading``."""
    value = reading.value
    if isinstance(value, str):
        try:
            return point(spec.parse(value))
        except BadValue:
            return None
    if reading.unit == "B" and spec.unit == "MiB":
        low, high = -(-value.low // MIB), value.high // MIB
        return Interval(low, high) if low <= high else None
    if reading.unit == "B" and spec.unit == "GiB":
        low, high = (value.low * spec.scale) >> 30, -((-value.high * spec.scale) >> 30)
        whole = -(-low // spec.scale) * spec.scale
        return point(whole) if whole <= high else Interval(low, high)
    return Interval(value.low * spec.scale, value.high * spec.scale)


@dataclass(frozen=True, slots=True)
class BootFigures:
    """What one boot's log says in a model's words: its facts, card by card and folded, and the rows it printed."""

    facts: dict[str, FactValue]
    folded: dict[str, Interval]
    printed: dict[str, Interval]


def boot_figures(model: EngineModel, ledger: LedgerReading, shape: Mapping[str, int]) -> BootFigures:
    """The figures of a boot of ``shape``; of several cards a row is the least. Raises nothing."""
    facts: dict[str, FactValue] = {}
    _take(facts, model.facts, ledger.facts.values(), None)
    facts |= _boot_facts(model, ledger, shape)
    folded, _ = fold_cards(model.facts, {name: fact.value for name, fact in facts.items()})
    return BootFigures(facts, folded, printed_rows(ledger))


def other_settings(model: EngineModel, ledger: LedgerReading, shape: Mapping[str, int]) -> list[str]:
    """Where a log names a setting that is not that of ``shape``: it is the boot of another one. Raises nothing.

    A number that a log prints with few decimals is every number that prints so.
    """
    found = []
    asked = {finding.text.partition(" and is ")[0] for finding in ledger.findings if finding.severity == "note"}
    for name, reading in ledger.knobs.items():
        spec = model.knobs.get(name)
        if spec is None or spec.kind == "text" or spec.inert or name not in shape:
            continue
        value, allowed = shape[name], _allowed(spec, reading)
        if allowed is None or value in allowed or f"{name} was asked as {spec.show(value)}" in asked:
            continue
        if isinstance(reading.value, str) and _prints_as(spec.write(value), reading.value):
            continue
        found.append(f"{name} is {spec.show(value)} in the prediction, {reading.printed or spec.show(allowed.low)} at "
                     f"{reading.place}")
    for name in ("vram_weights_mib", "vram_kv_mib"):
        row = ledger.rows.get(name.removesuffix("_mib"))
        if shape.get(name) and row is not None and name not in ledger.knobs:
            found.append(f"{name} is {shape[name]} in the prediction, the boot derived it ({row.place})")
    cards = ledger.facts.get("cards")
    if "tp" in shape and _other_cards(ledger, shape["tp"]) and cards is not None:
        found.append(f"tp is {shape['tp']} in the prediction, the log is of {cards.printed} cards at {cards.place}")
    return found


def _prints_as(written: str, printed: str) -> bool:
    """Whether a plain decimal prints as another one with fewer decimals, rounded or cut."""
    if not (re.fullmatch(r"\d+\.\d+", printed) and re.fullmatch(r"\d+(\.\d+)?", written)):
        return False
    step = Decimal(1).scaleb(-len(printed.partition(".")[2]))
    return any(Decimal(written).quantize(step, rounding) == Decimal(printed)
               for rounding in (ROUND_HALF_EVEN, ROUND_HALF_UP, ROUND_DOWN))


def _boot_facts(
    model: EngineModel, ledger: LedgerReading, boot: Mapping[str, int | Interval]
) -> dict[str, FactValue]:
    """Facts that follow from a boot's rows alone: its pair, its reserve, and an unknown container's KV layout."""
    found: dict[str, FactValue] = {}
    rows = ledger.rows
    if model.name == "halogen":
        reserve = ledger.knobs.get("host_reserve_gib")
        if reserve is not None and isinstance(reserve.value, Interval):
            found["boot_reserve"] = FactValue(reserve.value, str(reserve.place))
        pool = rows.get("pool_positions")
        if pool is not None and isinstance(pool.value, Interval):
            found["boot_pool"] = FactValue(pool.value, str(pool.place))
        return found
    weights, kv = rows.get("vram_weights"), rows.get("vram_kv")
    exact = all(isinstance(value, int) and value for value in (boot.get("vram_weights_mib"), boot.get("vram_kv_mib")))
    if weights and kv and not exact and isinstance(weights.value, Interval) and isinstance(kv.value, Interval):
        pair = weights.value + kv.value
        stage = rows.get("prefill_staging")
        if stage and isinstance(stage.value, Interval):
            pair = pair + stage.value  # a stated pair has no staging region; the boot that printed this had one
        found["boot_pair"] = FactValue(pair, f"{weights.place}, {kv.place}")
    if model.container == "unknown" or not model.constants:
        found |= _kv_facts(ledger, boot)
    return found


def _kv_facts(ledger: LedgerReading, boot: Mapping[str, int | Interval]) -> dict[str, FactValue]:
    groups: dict[str, dict[str, Reading]] = {}
    for name, reading in ledger.facts.items():
        parts = name.split(".")
        if len(parts) == 3 and parts[0] == "kv" and isinstance(reading.value, Interval):
            groups.setdefault(parts[1], {})[parts[2]] = reading
    paged = [group for group in groups.values() if "page" in group]
    stateful = [group for group in groups.values() if "state" in group and "slots" in group]
    seqs, dtype = boot.get("max_num_seqs"), boot.get("kv_cache_dtype")
    seqs = seqs if isinstance(seqs, int) else None
    found: dict[str, FactValue] = {}

    def span(group: Mapping[str, Reading], key: str) -> Interval:
        value = group[key].value
        assert isinstance(value, Interval)
        return value

    if paged and dtype is not None:
        page = Interval(sum(span(g, "page").low for g in paged), sum(span(g, "page").high for g in paged))
        place = str(paged[0]["page"].place)
        found["kv_page_fp8" if dtype == 1 else "kv_page_bf16"] = FactValue(page, place)
        if all("block" in group for group in paged):
            found["kv_block"] = FactValue(span(paged[0], "block"), place)
    if stateful and seqs:
        place = str(stateful[0]["state"].place)
        low = sum(span(g, "state").low * span(g, "slots").low for g in stateful) // seqs
        high = sum(-(-span(g, "state").high * span(g, "slots").high // 4096) * 4096 for g in stateful)
        found["kv_state"] = FactValue(Interval(low, -(-high // seqs)), place, "inferred")
        states = Interval(sum(span(g, "state").low for g in stateful), sum(span(g, "state").high for g in stateful))
        found["checkpoint_bytes"] = FactValue(states, place, "inferred")
    return found


def printed_rows(ledger: LedgerReading) -> dict[str, Interval]:
    """What the ledger printed for each row; of several cards, the least."""
    found: dict[str, Interval] = {}
    by_card: dict[str, list[Interval]] = {}
    for name, reading in ledger.rows.items():
        plain, _, card = name.rpartition(".")
        if not isinstance(reading.value, Interval):
            continue
        if card.isdigit():
            by_card.setdefault(plain, []).append(reading.value)
        else:
            found[name] = reading.value
    for name, values in by_card.items():
        found.setdefault(name, Interval(min(v.low for v in values), min(v.high for v in values)))
    blocks = ledger.facts.get("kv_blocks")
    if blocks is not None and isinstance(blocks.value, Interval):
        found["kv_blocks"] = blocks.value
    return found


def spelled(text: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping; the last of a name counts. Raises ReadError of kind ``usage``."""
    found: dict[str, str] = {}
    for item in text:
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ReadError(f"{item!r} is not NAME=VALUE", kind="usage")
        found[name.strip().replace("-", "_").lower()] = value.strip()
    return found
