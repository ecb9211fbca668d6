"""Probing a live server: whose points these are, what is measured, and the answer that says all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from measurements.records import ReadError
from measurements.site import Site
from models.engines import resolve
from models.interval import Interval
from optimizer.check import SCHEMA_VERSION

if TYPE_CHECKING:
    from measurements.probe.ladder import Limits
    from measurements.probe.metrics import Snapshot
    from measurements.probe.run import Measured, Probe, Rate
    from measurements.probe.write import Subject

#: Where the key is read from unless the user names another variable.
KEY_ENV: Final = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Asked:
    """What the user asked to be measured, and within which bounds."""

    url: str
    site: Site | None = None
    engine: str | None = None
    model: str | None = None
    depths: Sequence[int] = ()
    streams: int = 1
    boundary: bool = False
    repeat: int = 1
    window: int | None = None
    out: Path | None = None
    limits: Limits | None = None
    key_env: str | None = None
    yes: bool = False
    record: Path | None = None


def probe(asked: Asked, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measures the server and appends its points to the file that was named; the whole answer of ``probe``.

    What it was and what the server counted meanwhile goes on record, as ``record_of`` says where. ``tell`` is given
    progress. Raises ReadError where nothing may or can be measured: another machine without
    ``yes``, no such server, a plan that its window or the bounds do not allow, a file that is no points file, a server
    that contradicts the site.
    """
    from measurements.probe.client import Client, server_at
    from measurements.probe.ladder import Limits, ladder, within
    from measurements.probe.run import Probe
    from measurements.probe.write import append, demand_file, rows_of

    server = server_at(asked.url)
    limits = asked.limits or Limits()
    if not server.local and not asked.yes:
        raise ReadError(f"{server.host} is not this machine, and a probe puts load on it: up to {limits.requests} "
                        f"requests in {limits.seconds:g} s. Say --yes if that is meant", kind="usage")
    if asked.out is not None:
        if asked.site is None and asked.engine is None:
            raise ReadError("--out needs to know whose points these are: give the site, or --engine NAME@VERSION",
                            kind="usage")
        demand_file(asked.out)
    record = record_of(asked)
    if record is not None:
        _demand_record(record)
    key = _key(asked.key_env)
    rows: list[dict[str, str]] = []
    kept = 0
    subject: Subject | None = None

    def keep(found: Measured) -> str | None:
        nonlocal kept
        if subject is None:
            return None
        new = rows_of(found, subject)
        rows.extend(new)
        if asked.out is not None:
            try:
                append(asked.out, new)
            except ReadError as error:
                return f"{asked.out}: {error.message}"
            kept = len(rows)
        return None

    measuring = Probe(Client(server, key), limits, tell=tell, keep=keep, key_env=asked.key_env or KEY_ENV)
    if key is not None and not server.secure and not server.local:
        measuring.told.append("the key travels unencrypted: this is http")
    measuring.greet(asked.model)
    _same_server(asked, measuring)
    window, slots = measuring.window, measuring.slots or _slots(asked.site)
    at_once = (asked.streams if asked.streams > 1 else slots or 1) if asked.boundary else 0
    legs = ladder(window, asked.depths, streams=asked.streams, boundary=at_once, repeat=asked.repeat)
    measuring.limits = within(legs, limits)
    now = datetime.now(UTC)
    source = f"shapewright probe of {server.shown.partition('//')[2]} at {now:%Y-%m-%d %H:%M:%S} UTC"
    subject = _subject(asked, measuring, f"{now:%Y-%m-%d}", source)
    if subject is None:
        measuring.told.append("no points: nobody says whose they would be (give the site, or --engine NAME@VERSION)")
    measuring.measure(legs)
    document = _document(asked, measuring, len(legs), rows, kept, source)
    if record is not None:
        _keep_record(record, document, subject, measuring, now)
    return document


def record_of(asked: Asked) -> Path | None:
    """Where a probe goes on record: the file that was named; where points are kept, the site's records, or those
    beside the points; None where nothing is to be kept."""
    from measurements.history import NAME
    from optimizer.apply import record_file

    if asked.record is not None or asked.out is None:
        return asked.record
    return asked.out.parent / NAME if asked.site is None else record_file(asked.site.sources, None)


def _demand_record(file: Path) -> None:
    """Raises ReadError, before anything is measured, where ``file`` takes no records."""
    from measurements.history import writing

    if file.exists():
        with writing(file):
            return
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise ReadError("records cannot be written here (no such folder, or read-only); name a place that can be with "
                        "--record FILE", file=str(file), kind="usage")


def _keep_record(file: Path, document: dict[str, Any], subject: Subject | None, measuring: Probe,
                 now: datetime) -> None:
    """Adds the probe to the records; where that fails, the answer says so."""
    from measurements.history import append, relative_to, sealed
    from measurements.probe.metrics import changes

    out = None if document["file"] is None else relative_to(file, Path(document["file"]))
    body = {
        "engine": None if subject is None else {"name": subject.engine, "version": subject.version},
        "knobs": {} if subject is None else dict(subject.knobs),
        "server": document["server"]["url"], "model": document["server"]["model"], "source": document["source"],
        "file": out, "points": document["written"], "limits": document["limits"], "cost": document["cost"],
        "legs": [{name: leg[name] for name in ("kind", "depth", "rep", "streams", "preemptions", "evictions")}
                 for leg in document["legs"]],
        "counters": document["counters"], "change": _counters_json(changes(measuring.before, measuring.after)),
        "harm": document["harm"], "stopped": document["stopped"],
    }
    record = sealed("probe", body, now)
    try:
        document["told"] += append(file, record)
        document["record"] = {"id": record["id"], "file": str(file)}
    except ReadError as error:
        document["told"].append(f"not on record: {file}: {error.message}")


def _key(name: str | None) -> str | None:
    """The key, from the environment alone; what a user mistook for the name of a variable is not repeated."""
    found = os.environ.get(name or KEY_ENV, "").strip()
    if name is not None and not found:
        raise ReadError("the variable that --key-env names is not set", kind="usage")
    return found or None


def _same_server(asked: Asked, measuring: Probe) -> None:
    """Takes the window from whoever states it. Raises ReadError where server and site contradict each other."""
    site = asked.site
    for what, told, stated in (
        ("window", measuring.window, asked.window or _stated(site, "window")), ("slots", measuring.slots, _slots(site)),
    ):
        if told is not None and stated is not None and told != stated:
            if what == "window" and asked.window is not None:
                raise ReadError(f"--window {stated}: the server's window is {told:,} tokens", kind="usage")
            knob = _knob(site, what)
            raise ReadError(f"the server's {what} {'is' if what == 'window' else 'are'} {told:,}, the site states "
                            f"{knob}={stated}: points would carry settings that do not run. Give the right files, or "
                            f"--set {knob}={told}", kind="usage")
    measuring.window = measuring.window or asked.window or _stated(site, "window")


def _knob(site: Site | None, what: str) -> str | None:
    if site is None or "decode" not in site.model.laws:
        return None
    spec = site.model.laws["decode"]
    return spec.window if what == "window" else spec.slots


def _stated(site: Site | None, what: str) -> int | None:
    name = _knob(site, what)
    if site is None or name is None or name not in site.model.knobs:
        return None
    value = site.knobs.get(name)
    default = site.model.knobs[name].default
    if value is None and isinstance(default, int) and name not in site.unknown:
        value = default
    return value or None


def _slots(site: Site | None) -> int | None:
    return _stated(site, "slots")


def _subject(asked: Asked, measuring: Probe, date: str, source: str) -> Subject | None:
    from measurements.probe.write import Subject

    site = asked.site
    if site is not None:
        model = site.model_name or site.model.container
        model = _shown(measuring) if model in ("", "unknown") else model
        return Subject(site.model.name, site.model.version, _word(model), knobs_of(site), date, source)
    if asked.engine is None:
        return None
    engine = resolve(asked.engine)
    return Subject(engine.engine, str(engine).partition("@")[2], _word(_shown(measuring)), {}, date, source)


def _shown(measuring: Probe) -> str:
    """The model as the server calls it, without what looks like a secret."""
    return measuring.client.clean(measuring.model)


def _word(model: str) -> str:
    from measurements.laws.studies import model_word

    return model_word(model) or "unknown"


def knobs_of(site: Site) -> dict[str, str]:
    """The settings that a point measured on this site carries: what its files state, what laws depend on besides.

    A default counts where no log contradicts it; a pool that is not stated is written as 0, and what the log printed
    of it stands beside.
    """
    found = {name: site.model.knobs[name].write(value) for name, value in site.knobs.items()
             if not site.model.knobs[name].inert}
    for spec in site.model.laws.values():
        wanted = {key.knob: key.presence for key in spec.keys} | {
            axis.name: False for axis in spec.axes if axis.expr is not None}
        for name, presence in wanted.items():
            knob, setting = site.model.knobs.get(name), site.mapped.knobs.get(name)
            if name in found or name in site.unknown or knob is None:
                continue
            if knob.kind == "text":
                if setting is not None and setting.value and not setting.secret:
                    found[name] = setting.value
            elif presence:
                found[name] = "0"
            elif isinstance(knob.default, int) and name != "tp":
                found[name] = knob.write(knob.default)
        for axis in spec.axes:
            for row in axis.also:
                printed = site.ledger.rows.get(row) if site.ledger is not None else None
                if (printed is not None and isinstance(printed.value, Interval) and printed.printed
                        and found.get(axis.name) in (None, "0")):
                    found[row] = printed.printed.replace(" ", "")
    return {name: text for name, text in found.items() if text and not any(c.isspace() for c in text)}


def _document(asked: Asked, measuring: Probe, planned: int, rows: list[dict[str, str]], kept: int,
              source: str) -> dict[str, Any]:
    from optimizer.check import engine_json

    slope, _ = measuring.counter.line()
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": None if asked.site is None else engine_json(asked.site),
        "server": {"url": measuring.client.server.shown, "model": _shown(measuring), "window": measuring.window,
                   "slots": measuring.slots},
        "source": source,
        "limits": {"seconds": measuring.limits.seconds, "requests": measuring.limits.requests,
                   "tokens": measuring.limits.tokens},
        "cost": {"seconds": round(measuring.elapsed, 3), "requests": measuring.requests,
                 "tokens": measuring.tokens},
        "counting": {"how": measuring.counter.how or None,
                     "tokens_per_character": slope if measuring.counter.known else None},
        "planned": planned,
        "legs": [_leg_json(found) for found in measuring.found],
        "counters": {"before": _counters_json(measuring.before), "after": _counters_json(measuring.after)},
        "harm": measuring.harm,
        "stopped": measuring.stopped,
        "told": list(dict.fromkeys(measuring.told)),
        "file": str(asked.out) if kept else None,
        "written": kept,
        "points": rows,
        "record": None,
    }


def _leg_json(found: Measured) -> dict[str, Any]:
    return {
        "kind": found.kind, "depth": found.depth, "rep": found.rep, "streams": found.streams,
        "tokens_in": found.tokens_in, "cached": found.cached, "generated": found.generated,
        "prefill": _rate_json(found.prefill), "decode": _rate_json(found.decode), "each": list(found.each),
        "first": found.first, "total": found.total,
        "markers": None if found.markers is None else {"back": found.markers[0], "of": found.markers[1]},
        "preemptions": found.preemptions, "evictions": found.evictions,
        "notes": list(dict.fromkeys(found.notes)), "refused": list(dict.fromkeys(found.refused)),
    }


def _rate_json(rate: Rate | None) -> Mapping[str, Any] | None:
    return None if rate is None else {"value": rate.value, "how": rate.how, "other": rate.other}


def _counters_json(snapshot: Snapshot | None) -> Mapping[str, float | None] | None:
    if snapshot is None or not snapshot.said:
        return None
    return {name: getattr(snapshot, name) for name in ("preemptions", "evictions", "kv_use")}


def exit_code(document: Mapping[str, Any], asked: Asked) -> int:
    """3 where harm was seen, a missing marker included; 2 where what should be kept could not be; 130 as every program
    that was interrupted."""
    if document["harm"] is not None:
        return 3
    if document["stopped"] == "interrupted":
        return 130
    unkept = asked.out is not None and document["written"] < len(document["points"])
    return 2 if unkept or (document["record"] is None and record_of(asked) is not None) else 0
