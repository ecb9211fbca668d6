"""The tables that log readers are written in: what is printed under which name, and how lines carry it.

A rule is a phrase every matching line holds and a pattern with ``<name>`` where a named figure stands.
Whatever a pattern finds becomes one Reading; figures that a boot prints twice are reconciled here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal

from measurements.ledger.text import BROKEN, Line
from measurements.records import Finding, Generation, LedgerReading, Place, Reading
from models.interval import GIB, Interval, point, printed, show_bytes, size

Section = Literal["facts", "rows", "knobs", "version", "hidden"]
Cards = Literal["plain", "tagged", "folded", "always"]
Repeat = Literal["same", "join", "sum", "first", "last"]

#: Outcomes a log can show, the gravest first.
_OUTCOMES: Final = (
    "out_of_memory_at_boot",
    "refused_at_boot",
    "rejects_long_requests",
    "stalls",
    "clamped",
    "serves",
)

# a number stands whole: no digit, point or place of a break may touch it
_NUMBER = rf"(?<![\d.,{BROKEN}])\d{{1,15}}(?:\.\d{{1,6}})?(?!\.?\d|[.,]?{BROKEN})"
_COUNT = rf"(?<![\d.,{BROKEN}])(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,15}})(?![\d,]*\d|\.\d|[.,]?{BROKEN})"


def _gib(text: str) -> Interval:
    return printed(text.removesuffix("GiB").rstrip(), GIB)


def _gib_cut(text: str) -> Interval:
    return printed(text, GIB, truncated="." not in text)


def _count(text: str) -> Interval:
    return point(int(text.replace(",", "")))


#: What a figure looks like in a line, and what it then is.
_KINDS: Final[Mapping[str, tuple[str, Callable[[str], Interval | str]]]] = {
    "size": (rf"{_NUMBER}\s?(?:[KMG]iB|B)(?!\w)", size),
    "gib": (rf"{_NUMBER}(?: GiB(?!\w))?", _gib),
    "gib_cut": (_NUMBER, _gib_cut),
    "count": (_COUNT, _count),
    "decimal": (_NUMBER, str),
    "checkpoint": (r"w4b|v2|ht43", str),
    "word": (r"[A-Za-z][\w.-]*(?<![.-])", str),
    "version": (r"\d{1,4}\.\d{1,4}\.\d{1,4}(?![\w.]*\d)", str),
}


@dataclass(frozen=True, slots=True)
class Name:
    """How the figure of one name is written, where it belongs and what printing it twice means.

    ``cards``: ``plain`` ignores rank tags; ``tagged`` ends the name in the card where a line tells it;
    ``folded`` does so only where the cards differ; ``always`` does so even for a lone line without a tag.
    ``label`` is the reading's name where it is built from what the line says.
    """

    section: Section
    kind: str
    unit: str = "B"
    cards: Cards = "plain"
    repeat: Repeat = "same"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A phrase that every matching line holds, and the pattern that then finds the named figures."""

    phrase: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Event:
    """A line that tells how the boot went: the outcome it stands for, and a note for people.

    The group ``said`` of the pattern, where it has one, is what is shown of a message that may be broken over lines.
    """

    phrase: str
    pattern: re.Pattern[str]
    outcome: str
    note: str = ""
    at_boot: bool = True


def event(phrase: str, pattern: str, outcome: str, note: str = "", *, at_boot: bool = True) -> Event:
    """An event of a line that holds ``phrase`` and matches ``pattern``."""
    return Event(phrase, re.compile(pattern, re.ASCII), outcome, note, at_boot)


class Grammar:
    """An engine's names and rules, compiled."""

    def __init__(
        self, names: Mapping[str, Name], rules: Iterable[tuple[str, str]], events: Sequence[Event] = ()
    ) -> None:
        self.names = names
        self.rules = [Rule(phrase, re.compile(self._expand(pattern), re.ASCII)) for phrase, pattern in rules]
        self.events = events

    def _expand(self, pattern: str) -> str:
        def group(match: re.Match[str]) -> str:
            name = match[1]
            if name == "card":
                return r"(?P<card>\d{1,3})"
            if name == "group":
                return r"(?P<group>[a-z]\w*)"
            return f"(?P<{name}>{_KINDS[self.names[name].kind][0]})"

        return re.sub(r"(?<!\?P)<(\w+)>", group, pattern)

    def gather(self, lines: Sequence[Line], file: str) -> Boot:
        """Everything the rules find in the lines of one boot."""
        boot = Boot(lines, file)
        for line in lines:
            for rule in self.rules:
                if rule.phrase in line.text:
                    for match in rule.pattern.finditer(line.text):
                        self._take(match, line, boot)
            for kind in self.events:
                if kind.phrase in line.text and (found := kind.pattern.search(line.text)):
                    said = "said" if "said" in kind.pattern.groupindex else 0
                    boot.events.append((kind, line.place(file, found.start(said)), found[said]))
        return boot

    def _take(self, match: re.Match[str], line: Line, boot: Boot) -> None:
        groups = match.groupdict()
        card = int(groups["card"]) if groups.get("card") else line.rank
        for key, text in groups.items():
            if text is None or key in ("card", "group"):
                continue
            name = self.names[key]
            reading = Reading(
                name.label.format_map(groups) or key,
                _KINDS[name.kind][1](text),
                name.unit,
                line.place(boot.file, match.start(key)),
                text,
            )
            boot.seen.setdefault(reading.name, (name, {}))[1].setdefault(card, []).append(reading)


@dataclass(slots=True)
class Boot:
    """What one boot printed, before anything is reconciled."""

    lines: Sequence[Line]
    file: str
    seen: dict[str, tuple[Name, dict[int | None, list[Reading]]]] = field(default_factory=dict)
    events: list[tuple[Event, Place, str]] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return name in self.seen

    def __bool__(self) -> bool:
        return any(name.section != "hidden" for name, _ in self.seen.values())

    def settle(self) -> Settled:
        """One reading a name and card; what disagrees becomes a finding."""
        settled = Settled()
        for base, (name, by_card) in self.seen.items():
            for card, readings in _by_card(name, by_card).items():
                repeat: Repeat = "join" if name.cards == "always" and card is None else name.repeat
                full = base if card is None else f"{base}.{card}"
                settled.put(name.section, replace(_one(readings, repeat), name=full))
                if repeat == "same":
                    settled.findings.extend(_differing(full, readings))
        return settled


@dataclass(slots=True)
class Settled:
    """One boot's readings by section, and what was found about them."""

    facts: dict[str, Reading] = field(default_factory=dict)
    rows: dict[str, Reading] = field(default_factory=dict)
    knobs: dict[str, Reading] = field(default_factory=dict)
    version: Reading | None = None
    hidden: dict[str, Reading] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def put(self, section: Section, reading: Reading) -> None:
        """Files a reading under its name."""
        if section == "version":
            self.version = reading
        else:
            sections = {"facts": self.facts, "rows": self.rows, "knobs": self.knobs, "hidden": self.hidden}
            sections[section][reading.name] = reading

    def get(self, name: str) -> Reading | None:
        """The reading of that full name, whatever its section."""
        for section in (self.facts, self.rows, self.knobs, self.hidden):
            if name in section:
                return section[name]
        return None

    def figure(self, name: str) -> Interval | None:
        """The figure of that full name; None where it was not printed, or is a word."""
        reading = self.get(name)
        return reading.value if reading is not None and isinstance(reading.value, Interval) else None

    def cards(self, base: str) -> list[str]:
        """The endings under which ``base`` was printed: "" for the plain name, ``.0`` for a card."""
        names = chain(self.facts, self.rows, self.knobs, self.hidden)
        endings = [name.removeprefix(base) for name in names if name.startswith(base)]
        return [ending for ending in endings if not ending or (ending[0] == "." and ending[1:].isdecimal())]

    def places(self, *names: str) -> tuple[Place, ...]:
        """Where the named readings stood, in file order, each once."""
        found = {reading.place for name in names if (reading := self.get(name)) is not None}
        return tuple(sorted(found, key=lambda place: place.line or 0))

    def say(
        self, text: str, *names: str, severity: Literal["contradiction", "note"] = "contradiction"
    ) -> None:
        """Records a finding about the named readings."""
        self.findings.append(Finding(text, self.places(*names), severity))

    def tell(self, event: Event, place: Place) -> None:
        """Records what an event means for people, each event once, with every line that tells it."""
        if not event.note:
            return
        for index, finding in enumerate(self.findings):
            if finding.text == event.note:
                self.findings[index] = replace(finding, places=(*finding.places, place))
                return
        self.findings.append(Finding(event.note, (place,), "note"))

    def outcome(self, outcome: str, place: Place, text: str) -> None:
        """Files the outcome a log shows, unless a graver one is filed."""
        known = self.rows.get("outcome_seen")
        if known is None or _OUTCOMES.index(outcome) < _OUTCOMES.index(str(known.value)):
            self.rows["outcome_seen"] = Reading("outcome_seen", outcome, "", place, text)

    def ledger(
        self, engine: str, generation: Generation, boots: int, missing: tuple[str, ...] = (), *, ended: bool
    ) -> LedgerReading:
        """The record of this boot."""
        version = None if self.version is None else str(self.version.value)
        return LedgerReading(
            engine,
            version,
            generation,
            self.facts,
            self.rows,
            self.knobs,
            tuple(self.findings),
            boots,
            missing,
            ended,
        )


@dataclass(frozen=True, slots=True)
class Law:
    """A sum that must close: ``target = plus - minus``, all of one card, within what printing leaves open.

    ``where_printed`` are further terms that count where a log prints them; ``perhaps`` are printed ones of
    which nobody knows whether they count. ``slack`` is what the engine's own rounding adds. The law is asked
    only with ``given`` printed and ``unless`` not. ``a|b`` is whichever of the two is printed.
    """

    target: str
    plus: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    where_printed: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    slack: Interval = field(default_factory=lambda: point(0))
    given: str = ""
    unless: str = ""

    def check(self, boot: Settled) -> None:
        """Records a contradiction for every card on which the sum cannot close."""
        if self.given and boot.get(self.given) is None:
            return
        if self.unless and boot.get(self.unless) is not None:
            return
        for card in boot.cards(self.target):
            self._check(boot, card)

    def _check(self, boot: Settled, card: str) -> None:
        def term(name: str) -> str | None:
            for each in name.split("|"):
                for full in (each + card, each):
                    if boot.figure(full) is not None and (full != each or not card or each in boot.knobs):
                        return full
            return None

        extra = [name for name in self.where_printed if term(name) or boot.cards(name)]
        plus, minus = [term(name) for name in self.plus], [term(name) for name in (*self.minus, *extra)]
        unsure = [full for name in self.perhaps if (full := term(name))]
        added, taken = [name for name in plus if name], [name for name in minus if name]
        if len(added) < len(plus) or len(taken) < len(minus):
            return
        total = self.slack
        for name in added:
            total += _figure(boot, name)
        for name in taken:
            total -= _figure(boot, name)
        allowed = total
        for name in unsure:
            allowed = allowed.join(allowed - _figure(boot, name))
        target = self.target + card
        if _figure(boot, target).meet(allowed) is None:
            how = " - ".join((" + ".join(added), *taken, *(f"({name})" for name in unsure)))
            shown = boot.get(target) or _NOTHING
            boot.say(
                f"{target} is printed as {shown.printed}, but {how} is {between(allowed, shown.unit)}",
                target,
                *added,
                *taken,
                *unsure,
            )


def between(value: Interval, unit: str) -> str:
    """An interval for people, in ``unit``."""

    def show(number: int) -> str:
        return show_bytes(number) if unit == "B" else f"{number:,} {unit}".rstrip()

    low, high = show(value.low), show(value.high)
    return low if low == high else f"{low} to {high}"


def times(value: Interval, count: Interval) -> Interval:
    """The product of two intervals that are not negative."""
    return Interval(value.low * count.low, value.high * count.high)


def last_complete(
    parts: Sequence[Sequence[Line]],
    gather: Callable[[Sequence[Line]], Boot],
    level: Callable[[Boot], int],
    whole: int,
) -> tuple[Boot, int, Finding | None] | None:
    """The last boot among those that got furthest, how many there are, and a note on a later one cut off.

    ``parts`` are the lines of each; ``whole`` is the level of a boot that got as far as any can. None where
    no part holds a figure.
    """
    best: tuple[int, int, Boot] | None = None
    seen: set[int] = set()
    for index in range(len(parts) - 1, -1, -1):
        if best is not None and best[0] == whole and index:
            seen.add(index)  # it begins with a line that begins boots, and nothing better is left to find
            continue
        boot = gather(parts[index])
        if not boot:
            continue
        seen.add(index)
        if best is None or level(boot) > best[0]:
            best = level(boot), index, boot
    if best is None:
        return None
    later = sorted(index for index in seen if index > best[1])
    if not later:
        return best[2], len(seen), None
    places = tuple(Place(best[2].file, parts[index][0].number) for index in later)
    return (
        best[2],
        len(seen),
        Finding(
            f"a later boot begins at line {places[0].line} and is cut off: this is the last complete one",
            places,
            "note",
        ),
    )


_NOTHING: Final = Reading("", point(0), "B", Place(""))


def _figure(boot: Settled, name: str) -> Interval:
    return boot.figure(name) or point(0)


def _by_card(name: Name, by_card: dict[int | None, list[Reading]]) -> dict[int | None, list[Reading]]:
    everything = sorted(chain.from_iterable(by_card.values()), key=lambda reading: reading.place.line or 0)
    if name.cards == "plain" or (
        name.cards == "folded" and len({reading.value for reading in everything}) == 1
    ):
        return {None: everything}
    if name.cards == "always" and by_card.keys() == {None} and len(everything) == 1:
        return {0: everything}
    return by_card


def _one(readings: Sequence[Reading], repeat: Repeat) -> Reading:
    figures = [reading.value for reading in readings if isinstance(reading.value, Interval)]
    if repeat == "last":
        return readings[-1]
    if repeat == "first" or len(figures) < len(readings):
        return readings[0]
    if repeat == "same":
        # where they disagree, the engine's last word is what it came to
        agree = max(value.low for value in figures) <= min(value.high for value in figures)
        return min(readings, key=_width) if agree else readings[-1]
    value = figures[0]
    for other in figures[1:]:
        value = value + other if repeat == "sum" else value.join(other)
    shown = (
        dict.fromkeys(reading.printed for reading in readings)
        if repeat == "join"
        else [reading.printed for reading in readings]
    )
    return replace(
        readings[-1 if repeat == "sum" else 0],
        value=value,
        printed=(" + " if repeat == "sum" else " / ").join(shown),
    )


def _width(reading: Reading) -> int:
    return reading.value.high - reading.value.low if isinstance(reading.value, Interval) else 0


def _differing(name: str, readings: Sequence[Reading]) -> Iterable[Finding]:
    first = readings[0]
    for other in readings[1:]:
        if isinstance(first.value, Interval) and isinstance(other.value, Interval):
            same = first.value.meet(other.value) is not None
        else:
            same = first.value == other.value
        if not same:
            yield Finding(
                f"{name} is printed as {first.printed} and as {other.printed} in one boot",
                (first.place, other.place),
            )
            return
