"""Startup logs of halogen-flash-server: the pre-flight estimate, the pool's fit and what is held."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from measurements.ledger.grammar import (
    Boot,
    Grammar,
    Law,
    Name,
    Settled,
    between,
    event,
    last_complete,
    times,
)
from measurements.ledger.text import Line
from measurements.records import Finding, Generation, LedgerReading, Reading
from models.interval import Interval, point

ENGINE: Final = "halogen"
#: Bytes a pool position costs with its block scratch, and its KV rows alone; in every version seen.
POSITION: Final = 29500
POSITION_ROWS: Final = 26624

_NAMES: Final = {
    "version": Name("version", "version", ""),
    "mode": Name("facts", "word", ""),
    "checkpoint": Name("facts", "checkpoint", ""),
    # the host
    "mem_total": Name("facts", "gib_cut"),
    "mem_available": Name("facts", "size"),
    "mem_available_at_pin": Name("facts", "size", repeat="last"),
    "carve_out": Name("facts", "size"),
    "gtt_used": Name("facts", "gib"),
    "gtt_total": Name("facts", "gib"),
    "gtt_free": Name("rows", "gib"),
    "gtt_need": Name("rows", "size"),
    # the pre-flight estimate
    "preflight_kv": Name("rows", "size"),
    "preflight_cache": Name("rows", "size"),
    "preflight_working": Name("rows", "size"),
    # the fit
    "resident_weights": Name("facts", "gib"),
    "host_reserve_gib": Name("knobs", "gib"),
    "device_budget": Name("facts", "size"),
    "margin": Name("facts", "gib"),
    "vision": Name("facts", "size"),
    "vision_resident": Name("facts", "gib"),
    "vision_scratch": Name("facts", "gib"),
    "device_need": Name("rows", "size"),
    "device_other": Name("rows", "size"),
    "device_after_clamp": Name("rows", "size"),
    "clamp": Name("hidden", "count", "positions"),
    "kept": Name("hidden", "count", "positions"),
    # settings the log names
    "kv_pool_positions": Name("knobs", "count", "positions"),
    "kv_slots": Name("knobs", "count", "slots"),
    "ctx": Name("knobs", "count", "tokens"),
    "max_tok": Name("knobs", "count", "tokens", repeat="last"),
    "cache_entries": Name("knobs", "count", "entries"),
    "vision_tower": Name("knobs", "word", ""),
    # what is held
    "pool_positions": Name("rows", "count", "positions"),
    "pool_reserved": Name("rows", "size"),
    "slot_state": Name("facts", "size"),
    "kv_rows": Name("rows", "size"),
    "pinned": Name("facts", "size", repeat="sum"),
    "weights_locked": Name("facts", "size"),
    "kv_pool": Name("facts", "size"),
    "working_memory": Name("facts", "size"),
    "locked_total": Name("rows", "size"),
    "host_left": Name("facts", "size"),
    "meminfo_will_say": Name("facts", "size"),
    "ngram_size": Name("facts", "size"),
    "free_blocks": Name("facts", "count", "blocks", repeat="last"),
    "compaction_stalls": Name("facts", "count", "stalls", repeat="sum"),
    # what went wrong
    "pin_asked": Name("facts", "size", repeat="last"),
    "pin_floor": Name("facts", "size"),
    "oom_requested": Name("facts", "size", repeat="first"),
    "oom_after": Name("facts", "size", repeat="first"),
}

#: How the line begins that lowers the pool: notes and requests may quote its end.
_CLAMP: Final = r"^kv pool: \d+ positions need ~(?:(?!LOWERING|kv pool:).)*"

_RULES: Final = (
    ("halogen-flash-server ", r"^halogen: halogen-flash-server <version>"),
    ("halogen-flash-server ", r"^halogen: halogen-flash-server .*, mode <mode>"),
    ("KV budget", r"KV budget <kv_slots> slot"),
    ("KV budget", r"KV budget .* over one <kv_pool_positions>-position pool"),
    ("KV budget", r"KV budget .*\(each request up to <ctx>\) = <preflight_kv>"),
    ("KV budget", r"KV budget .*\+ <preflight_cache> prompt cache"),
    ("KV budget", r"KV budget .*\broughly <resident_weights> \(read from the checkpoint\) of weights"),
    ("KV budget", r"KV budget .* and <preflight_working> of (?:scratch|working memory)\b"),
    ("KV budget", r"KV budget .*\(HALOGEN_MAX_TOK <max_tok>\)"),
    ("KV budget", r"KV budget .*\bMemAvailable now <mem_available>"),
    ("GTT in use", r"GTT in use before this start: <gtt_used> of <gtt_total>"),
    ("GTT in use", r"GTT in use before this start: .*\(<gtt_free> free"),
    ("GTT in use", r"GTT in use before this start: .*\bputs about <gtt_need> there"),
    (".hgn", r"[-_/ ]<checkpoint>(?:\.overlay)?\.hgn\b"),
    (".gguf", r"^(?!.*(?:vision|mmproj)).*\.(?P<checkpoint>gguf)\b"),
    ("vision ON", r"^halogen: vision <vision_tower>,"),
    (
        "vision tower configured",
        r"^kv pool: vision tower configured, <vision> \(<vision_resident> resident weights"
        r"(?: \+ <vision_scratch> worst-case scratch)?",
    ),
    ("charged against", r"^kv pool: .*\bcharged against the <margin> margin"),
    ("host RAM", r"^kv pool: host RAM <mem_total> GiB"),
    ("host RAM", r"^kv pool: host RAM .*\bless <resident_weights> resident weights"),
    ("host RAM", r"^kv pool: host RAM .* and <host_reserve_gib> reserved\b"),
    ("host RAM", r"^kv pool: host RAM .* = <device_budget> for the device"),
    ("positions, ~", r"^kv pool: <kept> positions, ~<device_need>"),
    ("positions, ~", r"^kv pool: <kv_pool_positions> positions, ~"),
    ("everything but the pool", r"^kv pool: .*\(<device_other> of it for everything but the pool"),
    ("everything but the pool", r"^kv pool: .*\bat max_tok <max_tok>"),
    ("positions need ~", r"^kv pool: <kv_pool_positions> positions need ~<device_need>"),
    ("positions need ~", r"^kv pool: .*\(plus <margin> of margin\)"),
    ("LOWERING THE POOL TO", rf"{_CLAMP}LOWERING THE POOL TO <pool_positions>\b"),
    ("LOWERING THE POOL TO", rf"{_CLAMP}LOWERING THE POOL TO <clamp>(?: \(~<device_after_clamp>\))?"),
    ("reserving the KV pool", r"\breserving the KV pool, <pool_positions> positions"),
    ("reserving the KV pool", r"\breserving the KV pool, .* positions \((?:about )?<pool_reserved>\)"),
    ("POOLED", r"^slots: \d+ -> <kv_slots> POOLED(?:, <slot_state> each)?"),
    ("ONE pool of", r"^slots: .*\bONE pool of <pool_positions> positions(?: \(<kv_rows>\))?"),
    ("prompt cache ON", r"\bprompt cache ON, .*\(<cache_entries> entries"),
    ("prompt cache ON", r"\bprompt cache ON, .* each at ctx <ctx>\)"),
    (
        "weights locked in RAM",
        r"\bmemory: <weights_locked> of weights locked in RAM"
        r"(?: \(<vision_resident> of them the vision tower's\))?",
    ),
    ("weights locked in RAM", r"\bmemory: .*, <kv_pool> of KV pool"),
    ("weights locked in RAM", r"\bmemory: .*, <working_memory> of working memory"),
    ("weights locked in RAM", r"\bmemory: .*, <locked_total> in all"),
    ("carved out", r"\bmemory: <carve_out> of this machine's RAM is carved out"),
    ("lookup table", r"\bmemory: the model's <ngram_size> lookup table"),
    ("n-gram table", r"^n-gram table: <ngram_size> from"),
    ("contiguous 2 MiB blocks", r"^startup .*: <free_blocks> contiguous 2 MiB blocks\b(?! of free)"),
    ("left for everything else", r"\bhost memory left for everything else: .*\(<host_left> total"),
    ("will report about", r"\bMemAvailable will report about <meminfo_will_say> instead"),
    ("checkpoint: pinned", r"^checkpoint: pinned <pinned> in\b"),
    ("checkpoint: pinned", r"^checkpoint: pinned .*\bMemAvailable was <mem_available_at_pin>"),
    ("refusing to pin", r"^checkpoint: refusing to pin <pin_asked>"),
    ("refusing to pin", r"^checkpoint: refusing to pin .*, MemAvailable is <mem_available_at_pin>"),
    ("refusing to pin", r"^checkpoint: refusing to pin .*\bthe floor is <pin_floor>"),
    ("stalls during that step", r"\b<compaction_stalls> compaction stalls during that step"),
    ("dmalloc: FAILED", r"^dmalloc: FAILED requesting <oom_requested> after <oom_after> in\b"),
    ("listening on", r"\blistening on \S+, <kv_slots> slots? over ONE <pool_positions>-position KV pool"),
    ("listening on", r"\blistening on .*\beach request up to <ctx>"),
    ("listening on", r"\blistening on .*\bmax_tok <max_tok>"),
)

_EVENTS: Final = (
    event(
        "dmalloc: FAILED",
        r"^dmalloc: FAILED requesting [\d.]+ GiB",
        "out_of_memory_at_boot",
        "the device ran out of memory",
    ),
    event("out of memory", r"^HIP .*: out of memory", "out_of_memory_at_boot"),
    event(
        "refusing to pin",
        r"^checkpoint: refusing to pin [\d.]+ GiB",
        "refused_at_boot",
        "the server refused to pin its weights: too little RAM was available",
    ),
    event(
        "to start",
        r"^(?:halogen|flash_serve|kv pool|checkpoint): (?!NOTE|WARNING).*"
        r"\b(?P<said>(?:[Rr]efus(?:ing|es|ed)|REFUSING) to start)\b",
        "refused_at_boot",
        "the server refused to start",
    ),
    event(
        "at least --ctx",
        r"--kv-pool \d+: at least --ctx",
        "refused_at_boot",
        "the server refused the pool: it must hold one request of ctx",
    ),
    event(
        "WARNING",
        r"\bWARNING \d+ compaction stalls",
        "stalls",
        "the kernel had to move memory about while the server started: it stalls",
    ),
    event(
        "LOWERING THE POOL TO",
        rf"{_CLAMP}(?P<said>LOWERING THE POOL TO \d+)",
        "clamped",
        "the engine lowered the pool to fit the host",
    ),
    event("listening on", r"^flash_serve: listening on\b", "serves"),
    event("engine listening", r"^halogen: engine listening\b", "serves"),
)

_GRAMMAR: Final = Grammar(_NAMES, _RULES, _EVENTS)

_LAWS: Final = (
    Law("gtt_free", ("gtt_total",), ("gtt_used",)),
    Law("locked_total", ("weights_locked", "kv_pool", "working_memory")),
    Law("vision", ("vision_resident", "vision_scratch")),
)
_STARTS: Final = re.compile(
    r"(?:halogen|flash_serve|kv pool|checkpoint|overlay|slots|memory|n-gram table|dmalloc): |startup \[|HIP /"
)
_MARKS: Final = (
    ("version", re.compile(r"halogen: halogen-flash-server ")),
    ("preflight", re.compile(r"halogen: KV budget ")),
    ("sizing", re.compile(r"kv pool: host RAM ")),
    ("startup", re.compile(r"startup \[")),
)
_CLOCK = re.compile(r"startup \[ ?(\d{1,9}\.\d{1,3}) s\]", re.ASCII)
_FAILURES: Final = ("out_of_memory_at_boot", "refused_at_boot")
#: Oldest version that prints such a line, the youngest first.
_SINCE: Final = (
    ("(read from the checkpoint) of weights", (0, 15, 1)),
    ("GTT in use before this start", (0, 11, 9)),
    ("is carved out for the iGPU", (0, 5, 6)),
    ("of weights locked in RAM", (0, 5, 3)),
    ("kv pool: host RAM", (0, 3, 1)),
)


def starts(text: str) -> bool:
    """Whether an unindented line is one of the engine's own, and not the rest of one."""
    return _STARTS.match(text) is not None


def read(lines: Sequence[Line], file: str) -> LedgerReading | None:
    """The last complete boot in the lines; None where no line is one of this engine's."""
    found = last_complete(list(_boots(lines)), lambda part: _GRAMMAR.gather(part, file), _level, 1)
    if found is None:
        return None
    boot, boots, cut_off = found
    settled = boot.settle()
    if cut_off is not None:
        settled.findings.append(cut_off)
    _outcome(boot, settled)
    _clamped(settled)
    _effective_max_tok(boot, settled)
    for law in _LAWS:
        law.check(settled)
    for check in (_budget, _pool_bytes, _fit):
        check(settled)
    return settled.ledger(ENGINE, _generation(boot), boots, ended="outcome_seen" in settled.rows)


def _boots(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """The lines of each boot.

    A version line, a second pre-flight or sizing block, or a start-up clock that goes back begins one.
    """
    part: list[Line] = []
    seen: set[str] = set()
    clock = 0.0
    for line in lines:
        mark = next((name for name, pattern in _MARKS if pattern.match(line.text)), "")
        time = _CLOCK.match(line.text)
        if (
            (mark == "version" and part)
            or (mark == "preflight" and seen - {"version"})
            or (mark == "sizing" and mark in seen)
            or (time and float(time[1]) < clock)
        ):
            yield part
            part, seen = [], set()
        clock = float(time[1]) if time else clock if part else 0.0
        seen |= {mark} - {""}
        part.append(line)
    yield part


def _level(boot: Boot) -> int:
    """How far a boot got: 1 where it ended, in service or in a refusal."""
    ended = "locked_total" in boot or any(
        seen.outcome in (*_FAILURES, "serves") for seen, _, _ in boot.events
    )
    return 1 if ended else 0


def _generation(boot: Boot) -> Generation:
    for phrase, version in _SINCE:
        if any(phrase in line.text for line in boot.lines):
            return Generation(f"{'.'.join(map(str, version))} or later", version)
    return Generation()


def _outcome(boot: Boot, settled: Settled) -> None:
    served = any(seen.outcome == "serves" for seen, _, _ in boot.events)
    for seen, place, text in boot.events:
        settled.tell(seen, place)
        if not (served and seen.outcome in _FAILURES):  # it came up all the same, or failed long after
            settled.outcome(seen.outcome, place, text)


def _clamped(boot: Settled) -> None:
    """Files whether the pool was lowered, where a line says so."""
    lowered, asked, final = (boot.get(name) for name in ("clamp", "kv_pool_positions", "pool_positions"))
    if final is None and (kept := boot.get("kept")) is not None:
        final = boot.rows["pool_positions"] = Reading(
            "pool_positions", kept.value, kept.unit, kept.place, kept.printed
        )
    if lowered is not None:
        boot.rows["clamped"] = Reading("clamped", "yes", "", lowered.place, lowered.printed)
    elif asked is not None and final is not None and asked.value == final.value:
        boot.rows["clamped"] = Reading("clamped", "no", "", final.place, final.printed)
    elif asked is not None and final is not None:
        boot.say(
            f"{asked.printed} positions were asked for and {final.printed} are armed, "
            "but no line says that the pool was lowered",
            "kv_pool_positions",
            "pool_positions",
        )


def _effective_max_tok(boot: Boot, settled: Settled) -> None:
    """What the engine runs with may be less than what it was asked for."""
    printed = (
        [reading for readings in boot.seen["max_tok"][1].values() for reading in readings]
        if ("max_tok" in boot)
        else []
    )
    if len({reading.value for reading in printed}) > 1:
        first, last = printed[0], printed[-1]
        settled.findings.append(
            Finding(
                f"max_tok was asked as {first.printed} and is {last.printed}",
                (first.place, last.place),
                "note",
            )
        )


def _budget(boot: Settled) -> None:
    """The device's budget is host RAM less weights and reserve, never below nothing."""
    total, weights, reserve, budget = (
        boot.figure(name) for name in ("mem_total", "resident_weights", "host_reserve_gib", "device_budget")
    )
    if not (total and weights and reserve and budget):
        return
    left = total - weights - reserve
    expected = Interval(max(left.low, 0), max(left.high, 0))
    if expected.meet(budget) is None:
        boot.say(
            f"host RAM less weights and reserve is {between(expected, 'B')}, not {boot.facts['device_budget'].printed}",
            "mem_total",
            "resident_weights",
            "host_reserve_gib",
            "device_budget",
        )


def _pool_bytes(boot: Settled) -> None:
    """What the pool is printed to cost follows from its positions."""
    other = boot.figure("device_other") or None
    for positions, cost, rate, beside in (
        ("pool_positions", "pool_reserved", POSITION, point(0)),
        ("pool_positions", "kv_pool", POSITION, point(0)),
        ("pool_positions", "kv_rows", POSITION_ROWS, point(0)),
        ("kv_pool_positions", "device_need", POSITION, other),
    ):
        count, printed = boot.figure(positions), boot.figure(cost)
        if count is None or printed is None or beside is None:
            continue
        expected = times(count, point(rate)) + beside
        if expected.meet(printed) is None:
            extra = "" if beside == point(0) else " and everything else"
            boot.say(
                f"{count.low} positions{extra} take {between(expected, 'B')}, "
                f"but {cost} is printed as {(boot.get(cost) or boot.rows[cost]).printed}",
                positions,
                cost,
            )


def _fit(boot: Settled) -> None:
    """The engine lowers a pool that its budget does not hold, and no other."""
    budget, need, margin = (boot.figure(name) for name in ("device_budget", "device_need", "margin"))
    if not (budget and need):
        return
    if boot.get("clamp") is not None and margin and budget.low >= (need + margin).high:
        boot.say(
            "the pool was lowered although the budget holds it with its margin",
            "device_budget",
            "device_need",
            "clamp",
        )
    if boot.get("kept") is not None and boot.get("clamp") is None and budget.high < need.low:
        boot.say(
            "the pool was kept although the budget does not hold it", "device_budget", "device_need", "kept"
        )
