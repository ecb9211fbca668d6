"""Known outcomes: what became of settings that were tried, and what was printed, each with its file and line.

An observation is a boot of the site with settings and facts of its own (or of another host with the same engine and
model file), what became of it, and figures of it as they were printed. A reader decides nothing: what an observation
means for a constant is the optimizer's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from measurements.config import redact
from measurements.records import LedgerReading, Place, ReadError
from measurements.site import Site, Sources, fact_value, knob_value, load, printed_rows
from models.declare import BadValue, EngineModel, FactSpec, Outcome
from models.evaluate import BootKnobs, Given
from models.interval import Interval, point

#: Observations of one question; each is a part of one solver model.
MOST: Final = 120
_LARGEST: Final = 1 << 20
_KINDS: Final = ("observed", "asked")
_KEYS: Final = ("about", "source", "set", "facts", "elsewhere", "outcome", "printed", "ledger")
_ASKED_KEYS: Final = ("about", "source", "set", "facts", "elsewhere")
_HEAD = re.compile(r"\s*\[\[\s*(?P<kind>[\w-]+)\s*\]\]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``[[observed]]`` or ``[[asked]]`` entry as written, or a boot log named on the command line.

    ``elsewhere`` says that it was another host (or boot): what the site knows of its own does not hold there.
    """

    about: str
    place: Place
    source: str = ""
    sets: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    outcome: str | None = None
    printed: Mapping[str, str] = field(default_factory=dict)
    ledger: Path | None = None
    elsewhere: bool = False
    asked: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)

    def refuse(self, message: str, key: str = "") -> ReadError:
        """The error that ``key`` of this entry is."""
        return ReadError(redact(message), file=self.place.file, line=self.lines.get(key, self.place.line))


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation, read: the site as it was then, its settings, and what is stated of it.

    ``shape`` are its knobs, in each knob's own unit; one that a log prints to a step only is an interval. ``given`` is
    what a model is asked with, without any printed row: these are ``printed``, statements like any other.
    ``own`` are facts that this very boot printed or was given. ``reading`` is its log, where it has one.
    """

    entry: Entry
    site: Site
    shape: BootKnobs
    given: Given
    outcome: Outcome | None
    printed: Mapping[str, Interval]
    own: Mapping[str, Interval]
    reading: LedgerReading | None = None

    @property
    def about(self) -> str:
        """What its author calls it."""
        return self.entry.about


def read_observed(path: Path) -> list[Entry]:
    """The entries of an observations file, in file order; a ``ledger`` is named relative to the file.

    Raises ReadError with file and line when it is missing, no TOML, empty, or says something unknown.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise ReadError("is larger than 1 MiB: an observations file is a short list", file=str(path))
        text = path.read_bytes().decode("utf-8-sig")
        data = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ReadError("is not a text file; observations are TOML", file=str(path)) from None
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        raise ReadError(f"is not valid TOML: {redact(str(error))}", file=str(path),
                        line=int(found[1]) if found else None) from None
    blocks = _Blocks(text)
    for key in data:
        if key not in _KINDS:
            raise ReadError(f"{redact(repr(key))} means nothing here; write [[observed]] and [[asked]] entries",
                            file=str(path), line=blocks.line_of(key))
    found_entries: list[tuple[int, Entry]] = []
    labels: dict[str, int | None] = {}
    for kind in _KINDS:
        listed = data.get(kind, [])
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            raise ReadError(f"{kind} is a list of entries: [[{kind}]]", file=str(path), line=blocks.line_of(kind))
        for number, item in enumerate(listed):
            entry = _Item(path, kind, item, *blocks.block(kind, number), number + 1).entry()
            if entry.about in labels:
                raise entry.refuse(f"{entry.about!r} is already the label of another entry; labels tell them apart",
                                   "about")
            labels[entry.about] = entry.place.line
            found_entries.append((entry.place.line or 0, entry))
    if not found_entries:
        raise ReadError("holds no entry; write [[observed]] with set, facts, outcome, printed or ledger",
                        file=str(path))
    return [entry for _, entry in sorted(found_entries, key=lambda pair: pair[0])]


class _Blocks:
    """Where the entries of a TOML text begin and where each of their keys stands."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._heads: dict[str, list[int]] = {kind: [] for kind in _KINDS}
        self._starts: list[int] = []
        for number, line in enumerate(self._lines, 1):
            head = _HEAD.match(line)
            if head and head["kind"] in _KINDS:
                self._heads[head["kind"]].append(number)
                self._starts.append(number)

    def line_of(self, key: str) -> int | None:
        """The first line that begins with ``key``."""
        return next((number for number, line in enumerate(self._lines, 1)
                     if re.match(rf"[\s\[\"']*{re.escape(key)}\b", line)), None)

    def block(self, kind: str, number: int) -> tuple[int | None, Sequence[str]]:
        """The first line of the entry of that number, and its lines; of entries written inline, nothing."""
        if number >= len(self._heads[kind]):
            return self.line_of(kind), ()
        start = self._heads[kind][number]
        end = min((other for other in self._starts if other > start), default=len(self._lines) + 1)
        return start, self._lines[start - 1:end - 1]


class _Item:
    """One entry's table, checked key by key."""

    def __init__(self, path: Path, kind: str, table: Mapping[str, Any], line: int | None, lines: Sequence[str],
                 number: int) -> None:
        self._path, self._kind, self._table = path, kind, table
        self._line, self._lines, self._number = line, lines, number
        self._seen: dict[str, int] = {}

    def _line_of(self, key: str) -> int | None:
        if self._line is not None:
            for number, line in enumerate(self._lines, self._line):
                if re.search(rf"(?:^|[\s,{{.\[\"']){re.escape(key)}[\"'\]]*\s*(?:=|\.|$)", line):
                    self._seen.setdefault(key, number)
                    return number
        return self._line

    def _refuse(self, message: str, key: str) -> ReadError:
        return ReadError(redact(message), file=str(self._path), line=self._line_of(key))

    def entry(self) -> Entry:
        allowed = _KEYS if self._kind == "observed" else _ASKED_KEYS
        for key in self._table:
            if key not in allowed:
                more = "; what is asked has no outcome yet" if key in _KEYS else ""
                raise self._refuse(f"{key!r} means nothing in [[{self._kind}]]; known: {', '.join(allowed)}{more}", key)
        elsewhere = self._table.get("elsewhere", False)
        if not isinstance(elsewhere, bool):
            raise self._refuse("elsewhere is true or false", "elsewhere")
        ledger = self._word("ledger")
        sets, facts, printed = self._words("set"), self._words("facts"), self._words("printed")
        outcome = self._word("outcome")
        about = self._word("about") or f"{self._kind} {self._number}"
        if self._kind == "observed" and outcome is None and not printed and ledger is None:
            raise self._refuse("states nothing: give outcome, printed or ledger, or write [[asked]]", "about")
        for key in ("about", "outcome", "ledger"):
            self._line_of(key)
        return Entry(
            " ".join(redact(about).split()), Place(str(self._path), self._line), redact(self._word("source") or ""),
            sets, facts, outcome, printed, self._path.parent / ledger if ledger is not None else None, elsewhere,
            self._kind == "asked", dict(self._seen),
        )

    def _word(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self._refuse(f"{key} is a text in quotes", key)
        return None if value is None else value.strip()

    def _words(self, key: str) -> dict[str, str]:
        table = self._table.get(key, {})
        if not isinstance(table, dict):
            raise self._refuse(f"{key} is a table: {key} = {{ NAME = VALUE }}", key)
        found: dict[str, str] = {}
        for name, value in table.items():
            if not isinstance(value, str | int | float):
                raise self._refuse(f"{key}: {name} is a number or a text in quotes", name)
            found[name.strip().replace("-", "_").lower()] = str(int(value)) if isinstance(value, bool) else str(value)
            self._line_of(name)
        return found


def of_log(path: Path) -> Entry:
    """A boot log of the site, as an observation."""
    return Entry(str(path), Place(str(path)), ledger=path)


def own_boot(site: Site) -> Entry | None:
    """The site's own boot as an observation; None where it has no log that its settings and version printed."""
    path = site.sources.ledger
    if path is None or site.ledger is None or site.runs is not None:
        return None
    return Entry(f"the site's own boot ({path.name})", Place(str(path)), ledger=path)


def outcomes_of(model: EngineModel) -> tuple[Outcome, ...]:
    """What can become of a boot by this model's constraints (or stalls, which a log shows), from best to worst."""
    return tuple(sorted({Outcome.SERVES, *(require.broken for require in model.requires
                                           if require.use != "evidence" or require.broken is Outcome.STALLS)}))


def observe(entry: Entry, site: Site, constants: Collection[str]) -> Observed:
    """``entry`` read beside ``site``; the engine's ``constants`` in question are no facts of a boot.

    Raises ReadError with file and line for a knob, fact, row or outcome that is not known or cannot be, and what
    :func:`measurements.site.load` does.
    """
    model = site.model
    for name, text in entry.sets.items():
        _knob(entry, model, name, text)
    facts = {name: _fact(entry, model, name, text) for name, text in entry.facts.items()}
    outcome = _outcome(entry, model)
    printed = {name: _row(entry, model, name, text) for name, text in entry.printed.items()}
    then = _loaded(entry, site)
    if then.model.container != model.container:
        named = next((name for name in ("checkpoint", "container", "model") if name in entry.lines), "")
        raise entry.refuse(f"is of another model file ({then.model.container}, not {model.container}): its constants "
                           "are others", named)
    if then.knobs.get("tp") != site.knobs.get("tp"):
        raise entry.refuse("is of another number of cards: what a card holds is another", "tp")
    own = {name: value for name, value in facts.items() if value is not None}
    reading = then.ledger if entry.ledger is not None else None
    as_is: dict[str, int | Interval] = dict(then.given.as_is)
    shape: dict[str, int | Interval] = dict(then.knobs)
    if reading is not None or entry.elsewhere:
        for name, value in then.knobs.items():
            if name in entry.sets:
                seen = as_is.get(name)
                span = point(seen) if isinstance(seen, int) else seen
                if reading is not None and name in reading.knobs and span is not None and value not in span:
                    printed_as = reading.knobs[name].printed or model.knobs[name].write(span.low)
                    raise entry.refuse(f"says {name} {model.knobs[name].write(value)}, its log {printed_as}", name)
                as_is[name] = value
        shape |= as_is
    if reading is not None:
        rows = {**model.rows, **model.sums}
        printed = {name: value for name, value in printed_rows(reading).items() if name in rows} | printed
        own = {name: then.given.facts[name] for name in reading.facts if name in then.given.facts} | own
        outcome = _seen(reading) if outcome is None else outcome
    kept = {name: value for name, value in then.given.facts.items() if name not in constants}
    given = replace(then.given, as_is=as_is, facts=kept, printed={})
    return Observed(entry, then, shape, given, outcome, printed, own, reading)


def _loaded(entry: Entry, site: Site) -> Site:
    """The site as it was: with this entry's settings, facts and log."""
    sources = site.sources
    changed: Sources = replace(sources, sets={**sources.sets, **entry.sets}, engine=str(site.engine), runs=None,
                               points=())
    if entry.elsewhere or entry.ledger is not None:
        words = {name: text for name, text in sources.facts.items() if name in ("container", "checkpoint")}
        kept = words if entry.elsewhere else dict(sources.facts)
        boot = dict(entry.sets) if entry.elsewhere else {**sources.boot, **entry.sets}
        changed = replace(changed, ledger=entry.ledger, facts=kept, boot=boot)
    if entry.elsewhere:
        changed = replace(changed, host=None)
    changed = replace(changed, facts={**changed.facts, **entry.facts})
    if not (entry.sets or entry.facts or entry.elsewhere or entry.ledger):
        return site
    try:
        return load(changed)
    except ReadError as error:
        if error.file is None:
            raise entry.refuse(error.message) from None
        raise


def _knob(entry: Entry, model: EngineModel, name: str, text: str) -> None:
    try:
        knob_value(model, name, text)
    except ReadError as error:
        raise entry.refuse(error.message, name) from None


def _fact(entry: Entry, model: EngineModel, name: str, text: str) -> Interval | None:
    plain, _, card = name.rpartition(".")
    spec = model.facts.get(name) or (model.facts.get(plain) if card.isdigit() else None)
    if spec is None:
        raise entry.refuse(f"no fact is called {name!r}; known: {', '.join(model.facts)}", name)
    try:
        return fact_value(spec, name, text)
    except BadValue as error:
        raise entry.refuse(str(error), name) from None


def _row(entry: Entry, model: EngineModel, name: str, text: str) -> Interval:
    rows = {**model.rows, **model.sums}
    if name not in rows:
        raise entry.refuse(f"{model.name} {model.version} has no row {name!r}; known: {', '.join(rows)}", name)
    try:
        value = fact_value(FactSpec(name, rows[name].unit, ""), name, text)
    except BadValue as error:
        raise entry.refuse(str(error), name) from None
    assert value is not None
    return value


def _outcome(entry: Entry, model: EngineModel) -> Outcome | None:
    if entry.outcome is None:
        return None
    word = entry.outcome.strip().lower().replace("-", "_").replace(" ", "_")
    known = outcomes_of(model)
    for outcome in known:
        if outcome.word == word:
            return outcome
    raise entry.refuse(f"outcome {entry.outcome!r} is none that {model.name} {model.version} has; known: "
                       f"{', '.join(outcome.word for outcome in known)}", "outcome")


def _seen(reading: LedgerReading) -> Outcome | None:
    row = reading.rows.get("outcome_seen")
    return next((outcome for outcome in Outcome if row is not None and row.value == outcome.word), None)
