"""Measuring: leg after leg, within bounds, until the plan is done or the server shows the first sign of harm."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from measurements.points.read import FEWEST
from measurements.probe.client import Answer, Client, Fault
from measurements.probe.counting import TASK, TEMPLATE, Counter, count_above, head, prose, tokenize
from measurements.probe.ladder import ANSWER, SPARE, Kind, Leg, Limits
from measurements.probe.metrics import Snapshot, began_anew, read_metrics, rose
from measurements.records import ReadError

#: A token that takes so many times as long as before, and longer by ``SLACK`` seconds in all, is harm.
WORSE: Final = 10
SLACK: Final = 1.0
#: The clock here and the server's own timings are said to disagree beyond this share.
DISAGREE: Final = 0.1
#: Tokens that came so many times slower than the server says it made them are no figure of the server.
SLOWED: Final = 2
_CLOCK: Final = "the clock here"
#: A cold prompt of which a cache answered more makes no prefill figure: the head of a chat template is always there
#: again. What a cache answered is not counted as computed.
CACHED: Final = 0.02
#: The share of what was meant that a prompt at the boundary has at least.
_FILLED: Final = 0.95
#: Engines that draft may go beyond the tokens asked for, by this share.
_BEYOND: Final = 0.1
#: Others were served where the server generated more than was asked for here, by this share and these tokens.
_OTHERS: Final = 0.1
OTHERS: Final = 16
#: The part of the time that is kept for a last look at the counters, and its seconds at most.
_LAST: Final = 0.05
_LAST_LOOK: Final = 1.0
#: Seconds between looks at a server that loads its model, and the longest a doubling wait becomes.
_LOADING: Final = 2.0
_LONGEST_WAIT: Final = 30.0
_ASIDE: Final = 10.0
#: What greedy decoding without thinking takes, beside what every server knows; a server that refuses one goes without.
_OPTIONAL: Final[dict[str, Any]] = {
    "ignore_eos": True, "min_tokens": 0, "chat_template_kwargs": {"enable_thinking": False},
    "stream_options": {"include_usage": True}, "seed": 0,
}
_ON_THE_WAY: Final = "something on the way slows the stream down (probe the server itself), or the timings are not true"
_MARKER_TASK: Final = ("\n\nWhat is the marker of this text, which its first line names? Answer with the marker alone.")


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens a second, how it was found, and what the other way says (None where there is no other)."""

    value: float
    how: str
    other: float | None = None

    @property
    def apart(self) -> bool:
        """Whether both ways disagree."""
        return self.other is not None and not 1 - DISAGREE < self.other / self.value < 1 + DISAGREE


@dataclass(frozen=True, slots=True)
class Measured:
    """What one leg brought.

    ``tokens_in``, ``cached`` and ``generated`` are of one stream, the least of several; None where nobody told.
    ``decode`` is one stream's rate, of several the sum over all in the time in which all wrote (``each`` has them one
    by one). ``first`` and ``total`` are seconds, of several the longest. ``notes`` say how figures were found,
    ``refused`` what made no point and why. ``markers`` are those that came back, of how many.
    """

    kind: Kind
    depth: int
    rep: int
    streams: int
    tokens_in: int | None = None
    cached: int | None = None
    generated: int | None = None
    prefill: Rate | None = None
    decode: Rate | None = None
    each: tuple[float, ...] = ()
    first: float | None = None
    total: float = 0.0
    markers: tuple[int, int] | None = None
    preemptions: float | None = None
    evictions: float | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class _Stop(Exception):
    """The probe ends here: at harm, or at a bound."""

    def __init__(self, text: str, *, harm: bool) -> None:
        super().__init__(text)
        self.text = text
        self.harm = harm


class _Skip(Exception):
    """This leg cannot be measured; the next may."""


class Probe:
    """One probe of one server. ``tell`` is given progress in words, ``keep`` each leg's result as soon as it is there;
    what ``keep`` returns is why the probe should end, None to go on.

    After :meth:`measure`: ``found`` are the results, ``harm`` what was seen of it (None: nothing), ``stopped`` why the
    plan was not finished, ``told`` what a reader of the figures should know, ``before`` and ``after`` the server's own
    counters (None where it shows none), ``requests`` and ``tokens`` what it cost.
    """

    def __init__(self, client: Client, limits: Limits, *, tell: Callable[[str], None] = lambda _: None,
                 keep: Callable[[Measured], str | None] = lambda _: None, sleep: Callable[[float], None] = time.sleep,
                 key_env: str = "") -> None:
        self.client = client
        self.limits = limits
        self.tell, self.keep, self._sleep = tell, keep, sleep
        self.model = ""
        self.window: int | None = None
        self.slots: int | None = None
        self.counter = Counter()
        self.found: list[Measured] = []
        self.told: list[str] = []
        self.harm: str | None = None
        self.stopped: str | None = None
        self.before: Snapshot | None = None
        self.after: Snapshot | None = None
        self.requests = self.tokens = 0
        self.started = time.monotonic()
        self._key_env = key_env
        self._up = self._blind = False
        self._drops = 0
        self._last_prompt = ""
        self._sizes: dict[int, int] = {}  # characters between head and task, by depth
        self._path = "/v1/chat/completions"
        self._without: set[str] = set()
        self._best_decode = self._best_prefill = math.inf  # seconds a token
        self._lock = threading.Lock()
        self._slowed = False  # streams come later than the server makes them
        self._own = 0  # tokens generated for this probe, or that may have been
        self._beyond = 0.0  # what the server counts beyond them, at most so far: its counter may lag behind

    # ---- meeting the server

    def greet(self, model: str | None) -> None:
        """Waits while the server loads; learns the model's name, the window and the slots, as far as it tells.

        Raises ReadError where there is no such server, it has several models and none is named, or it asks for a key.
        """
        entries = self._models()
        names = [item["id"] for item in entries]
        if model is None and len(names) > 1:
            shown = ", ".join(self.client.clean(name) for name in names[:8])
            raise ReadError(f"the server has several models: say --model, one of {shown}", kind="usage")
        self.model = model or (names[0] if names else "default")
        own = next((item for item in entries if item["id"] == self.model), {})
        meta = own.get("meta")
        window = _positive(own.get("max_model_len")) or _positive(meta.get("n_ctx") if isinstance(meta, dict) else None)
        props = self._aside("/props")
        self.window, self.slots = window, None
        if isinstance(props, dict):
            settings = props.get("default_generation_settings")
            inside = settings.get("n_ctx") if isinstance(settings, dict) else None
            self.window = self.window or _positive(inside)
            self.slots = _positive(props.get("total_slots"))

    def _models(self) -> list[dict[str, Any]]:
        """The models that the server lists, each with its ``id``."""
        wait = _LOADING
        while True:
            try:
                text = self.client.get("/v1/models", min(_ASIDE, max(self.left, 0.1)))
                break
            except Fault as fault:
                if fault.kind not in ("loading", "busy"):
                    self._no_server(fault)
                wait = self._wait(fault, wait, "the server is loading" if fault.kind == "loading" else "busy (429)")
        found = _json(text)
        listed = found.get("data") if isinstance(found, dict) else None
        return [item for item in listed if isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"]] \
            if isinstance(listed, list) else []

    def _aside(self, path: str) -> Any:
        """A page that not every server has."""
        try:
            return _json(self.client.get(path, min(_ASIDE, max(self.left, 0.1))))
        except Fault:
            return None

    def _no_server(self, fault: Fault) -> NoReturn:
        where = self.client.server.shown
        if fault.status in (401, 403):
            raise ReadError(f"{where} asks for a key ({fault.status}): export it as {self._key_env or 'a variable'} "
                            "(--key-env names another)", kind="usage")
        said = fault.message if where in fault.message else f"{where}: {fault.message}"
        raise ReadError(f"{said}; nothing was measured", kind="usage")

    @property
    def left(self) -> float:
        """Seconds that are left to measure in; a last look at the counters is not among them."""
        return self.limits.seconds - min(_LAST_LOOK, _LAST * self.limits.seconds) - self.elapsed

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.started

    # ---- measuring

    def measure(self, legs: Sequence[Leg]) -> None:
        """Goes through the plan. Raises ReadError where the server answers nothing that can be measured."""
        try:
            try:
                self._prepare()
                for number, leg in enumerate(legs, 1):
                    self.tell(f"{number}/{len(legs)} {leg.words}")
                    self._leg(leg)
            except _Stop as stop:
                self.client.close()
                self.stopped = stop.text
                self.harm = stop.text if stop.harm else None
            except _Skip as skip:
                self.stopped = str(skip)
            self._last_look()
        except KeyboardInterrupt:
            self.client.close()
            self.stopped = self.stopped or "interrupted"
        if not self.found and self.harm is None and self.stopped != "interrupted":
            raise ReadError(f"nothing could be measured: {self.stopped or '; '.join(self.told) or 'no leg was left'}",
                            kind="usage")

    def _prepare(self) -> None:
        """A short answer, which warms the server and settles what it takes; then what a token is."""
        self.before = self.after = self._look()
        if self.before is None:
            self.told.append("the server shows no counters (/metrics): preemptions and evictions were not seen")
            self._blind = True
        elif self.before.preemptions is None and self.before.evictions is None:
            self.told.append("the server's counters (/metrics) tell of no preemptions or evictions so far")
        self.tell("a short answer to begin with")
        answer, text = self._once(lambda: f"{head()}{prose(200)}{TASK}", 8)
        if answer.prompt_tokens:
            self.counter.learn(len(text), answer.prompt_tokens)
            self.counter.how = "usage figures"
        if self.window is not None:
            self._above(self.window)
        sample = prose(2000)
        try:
            count = tokenize(self.client, self.model, sample, self.counter)
        except Fault as fault:
            self._judge(fault)
            count = None
        if count and self.counter.bare is None:
            self.counter.bare = len(sample), count
            self.counter.how = "the server's tokenize call"
        if not self.counter.how:
            self.told.append("the server tells no token counts: neither a refusal, nor a tokenize call, nor usage")

    def _above(self, window: int) -> None:
        """Asks one prompt above the window: of completions, which have no template, else as all others are asked."""
        self.tell("counting tokens: one prompt above the window, which costs nothing")
        for path in dict.fromkeys(("/v1/completions", self._path)):
            self._charge(0)
            try:
                above = count_above(self.client, path, self.model, window, self.counter, max(self.left, 0.1))
            except Fault as fault:
                self._judge(fault)
                self.told.append(f"a prompt above the window: {fault.message}")
                return
            if above is not None:
                self.tokens += above.tokens
                self.told.append(above.said)
                if above.window is not None and above.window != window:
                    self.told.append(f"the refusal names a window of {above.window:,} tokens, not {window:,}")
                return

    def _leg(self, leg: Leg) -> None:
        start, own = self.after, self._own
        try:
            if leg.kind == "boundary":
                found = self._boundary(leg)
            elif leg.kind == "streams":
                found = self._streams(leg)
            else:
                found = self._single(leg)
        except _Skip as skip:
            self.told.append(f"{leg.words}: {skip}")
            return
        self.after = self._look()
        found = replace(found, preemptions=rose(start, self.after, "preemptions"),
                        evictions=rose(start, self.after, "evictions"))
        harm = self._harm(found, leg)
        if began_anew(start, self.after):
            harm = f"the server's counters began anew, so that it was started again: {leg.words}"
        if harm is not None and leg.kind != "boundary":
            found = replace(found, refused=(*found.refused, *(f"{what}: harm was seen while it ran"
                                                              for what in ("prefill", "decode"))))
        elif (others := self._others(self._own - own)) and leg.kind != "boundary":
            found = replace(found, refused=(*found.refused, *(
                f"{what}: others were served meanwhile ({others:,.0f} tokens)" for what in ("prefill", "decode"))))
        running = 0.0 if self.after is None else self.after.running
        if running:  # no reason to refuse it: such a gauge may lag behind
            found = replace(found, notes=(*found.notes, f"requests of others that ran as it ended, by the server's "
                                                        f"gauge: {running:,.0f}"))
        self.found.append(found)
        unkept = self.keep(found)
        if harm is not None:
            raise _Stop(harm, harm=True)
        if unkept is not None:
            raise _Stop(unkept, harm=False)

    def _others(self, own: int) -> float:
        """Tokens that the server generated for others in a leg that had ``own`` itself; 0 where it does not tell."""
        if self.before is None or self.after is None or self.after.generated is None:
            return 0.0
        beyond = self.after.generated - (self.before.generated or 0.0) - self._own
        others, self._beyond = beyond - self._beyond, max(beyond, self._beyond)
        return others if others > _OTHERS * own + OTHERS else 0.0

    def _harm(self, found: Measured, leg: Leg) -> str | None:
        """What of harm a leg shows: a marker that is missing, preemptions, tokens ten times slower than the best."""
        if found.markers is not None and found.markers[0] < found.markers[1]:
            return f"{found.markers[0]} of {found.markers[1]} markers came back: {'; '.join(found.refused)}"
        if found.preemptions:
            return f"{found.preemptions:,.0f} preemptions while this ran: {leg.words}"
        fresh = found.prefill if leg.kind == "ladder" else None
        for what, rate, tokens, best in (
            ("generated token", found.decode, (found.generated or 0) * leg.streams, self._best_decode),
            ("prompt token", fresh, found.tokens_in or 0, self._best_prefill),
        ):
            took = 0.0 if rate is None else 1 / rate.value
            if took > WORSE * best and (took - best) * tokens > SLACK:
                return f"a {what} took {took / best:.0f} times as long as before: {leg.words}"
        if found.decode is not None:
            self._best_decode = min(self._best_decode, 1 / found.decode.value)
        if fresh is not None:
            self._best_prefill = min(self._best_prefill, 1 / fresh.value)
        return None

    def _single(self, leg: Leg) -> Measured:
        if leg.kind == "warm":
            if not self._last_prompt:
                raise _Skip("no cold prompt was answered before it")
            answer, text = self._once(lambda: self._last_prompt, leg.answer)
        else:
            answer, text = self._once(lambda: self._cold(leg.depth), leg.answer)
        generated, notes = self._generated(answer)
        if leg.kind == "ladder" and generated is not None and generated < leg.answer:
            # a nonce can make a model stop at once: asked again with another
            self.tell(f"the answer stopped after {generated} tokens: asked again")
            answer, text = self._once(lambda: self._cold(leg.depth), leg.answer)
            generated, notes = self._generated(answer)
        self._last_prompt = text
        tokens_in, more = self._tokens_in(answer, text)
        notes += more
        refused: list[str] = []
        if answer.reasoning:
            notes.append("the answer holds reasoning although thinking was switched off")
        prefill, decode = self._prefill(answer, tokens_in), self._decode(answer, generated)
        if answer.streamed and not answer.paced and (generated or 0) > 1:
            notes.append("the stream came in lumps: no times were read from it")
        if leg.kind == "ladder" and not answer.paced and (prefill is None or decode is None):
            prefill, decode, more = self._by_difference(leg, answer, generated, prefill, decode)
            notes += more
        for name, rate in (("prefill", prefill), ("decode", decode)):
            if rate is not None:
                notes.append(f"{name} by {rate.how}")
                if rate.apart:
                    notes.append(f"{name}: {_rate(rate.value)} by {rate.how}, {_rate(rate.other or 0)} by the other")
        cached = answer.cached
        if leg.kind == "warm":
            refused.append("prefill: a warm prefix is no prefill")
            if cached is not None:
                notes.append(f"a cache answered {cached:,} of {tokens_in or 0:,} prompt tokens")
        elif prefill is None:
            refused.append("prefill: neither a time to the first token nor the server's timings" if tokens_in
                           else "prefill: the prompt's tokens are not known")
        elif tokens_in is None:
            refused.append("prefill: the prompt's tokens are not known")
        elif cached and cached > min(max(CACHED * tokens_in, TEMPLATE), tokens_in / 4):
            refused.append(f"prefill: a cache answered {cached:,} of {tokens_in:,} tokens of a prompt with a new head")
        refused += self._no_decode(decode, generated, ANSWER, leg.answer)
        if decode is not None and decode.how == _CLOCK and (decode.other or 0) > SLOWED * decode.value:
            self._slowed = True
            refused.append(f"decode: {_rate(decode.value)} here, {_rate(decode.other or 0)} by the server's timings: "
                           f"{_ON_THE_WAY}")
        return Measured(leg.kind, leg.depth, leg.rep, 1, tokens_in, cached, generated, prefill, decode,
                        first=answer.first if answer.paced else None, total=answer.total, notes=tuple(notes),
                        refused=tuple(refused))

    def _no_decode(self, decode: Rate | None, generated: int | None, least: int, asked: int) -> list[str]:
        if generated is None:
            return ["decode: nobody told how many tokens were generated"]
        if generated < least:
            return [f"decode: only {generated} tokens were generated, {least} are needed"]
        if generated > asked * (1 + _BEYOND):
            return [f"decode: the server counts {generated:,} generated tokens, {asked:,} were asked for at most"]
        return [] if decode is not None else ["decode: neither times of a stream nor the server's timings"]

    def _by_difference(self, leg: Leg, answer: Answer, generated: int | None, prefill: Rate | None,
                       decode: Rate | None) -> tuple[Rate | None, Rate | None, list[str]]:
        """Of a server that neither streams nor times: the same depth again, with an answer of one token."""
        self.tell("no times can be read from the answer: the same depth again with an answer of one token")
        short, text = self._once(lambda: self._cold(leg.depth), 1)
        tokens, notes = self._tokens_in(short, text)
        fresh = None if tokens is None else tokens - (short.cached or 0)
        if prefill is None and fresh:
            prefill = Rate(fresh / short.total, "the time of an answer of one token")
        more = answer.total - short.total
        if decode is None and generated and generated > 1 and more > short.total / 2:  # else it is mostly noise
            decode = Rate((generated - 1) / more, "the difference to an answer of one token")
        return prefill, decode, notes

    def _streams(self, leg: Leg) -> Measured:
        texts = [self._cold(leg.depth) for _ in range(leg.streams)]
        answers: list[Answer] = []
        for outcome in self._together(texts, leg.answer, forced=True):
            if isinstance(outcome, Fault):
                raise _Skip(f"not all streams ran: {outcome.message}")
            answers.append(outcome)
        counted = [self._generated(answer) for answer in answers]
        notes = list(dict.fromkeys(note for _, some in counted for note in some))
        generated = [count for count, _ in counted]
        ins = [self._tokens_in(answer, text) for answer, text in zip(answers, texts, strict=True)]
        notes += dict.fromkeys(note for _, some in ins for note in some)
        tokens_in = min((count for count, _ in ins if count is not None), default=None)
        each = tuple(rate.value for answer, count in zip(answers, generated, strict=True)
                     if (rate := self._decode(answer, count)) is not None)
        total, within = _shared_rate(answers, generated)
        refused = ["prefill: prompts at once wait for each other"]
        most = max((count for count in generated if count is not None), default=0)
        if most > leg.answer * (1 + _BEYOND):
            refused += self._no_decode(None, most, 0, leg.answer)
        elif not all(answer.paced for answer in answers):
            refused.append("decode: the streams came in lumps, so that they have no times")
        elif self._slowed:
            refused.append(f"decode: {_ON_THE_WAY}")
        elif total is None or within is None:
            refused.append("decode: the streams did not write at the same time, or their tokens were not counted")
        else:
            notes.append(f"decode by the clock here, while all {leg.streams} wrote: {within} tokens each")
            if within < FEWEST:
                refused.append(f"decode: all wrote at once for {within} tokens only, {FEWEST} are needed")
        cached = [answer.cached for answer in answers if answer.cached is not None]
        return Measured(
            leg.kind, leg.depth, leg.rep, leg.streams, tokens_in, max(cached, default=None), within,
            decode=None if total is None else Rate(total, _CLOCK), each=each,
            first=max((answer.first for answer in answers if answer.first is not None and answer.paced), default=None),
            total=max(answer.total for answer in answers), notes=tuple(notes), refused=tuple(refused))

    def _boundary(self, leg: Leg) -> Measured:
        depth = leg.depth if self.counter.call else int(leg.depth * 0.995)
        notes: list[str] = []
        for attempt in (1, 2):
            markers = [f"M{secrets.token_hex(4)}".upper() for _ in range(leg.streams)]
            texts = [self._fitted(f"The marker of this text is {marker}.\n", depth, _MARKER_TASK) for marker in markers]
            outcomes = list(self._together(texts, leg.answer, forced=False))
            too_long = [item for item in outcomes if isinstance(item, Fault) and item.kind == "refused" and item.count]
            if not too_long or attempt == 2:
                break
            over = too_long[0]
            depth = int(depth * min(1.0, leg.depth / (over.count or 1))) - SPARE
            notes.append(f"a first try was refused ({over.message}): made shorter")
            self.tell(notes[-1])
        back, missing = 0, []
        for number, (marker, outcome) in enumerate(zip(markers, outcomes, strict=True), 1):
            if isinstance(outcome, Fault):
                missing.append(f"prompt {number} was not answered ({outcome.message})")
            elif marker in (said := outcome.text + outcome.reasoning).upper():
                back += 1
            elif any(other in said.upper() for other in markers):
                missing.append(f"prompt {number} brought the marker of another")
            elif (outcome.generated or 0) <= 1:
                missing.append(f"prompt {number} was taken, its answer stopped after one token")
            else:
                missing.append(f"prompt {number} was answered without its marker")
        counts = [answer.prompt_tokens for answer in outcomes
                  if isinstance(answer, Answer) and answer.prompt_tokens is not None]
        times = [answer.total for answer in outcomes if isinstance(answer, Answer)]
        if counts and min(counts) < _FILLED * leg.depth:
            missing.append(f"prompts of {min(counts):,} tokens, {leg.depth:,} were meant: that is not the boundary")
            self.told.append(missing[-1])
        return Measured(leg.kind, leg.depth, leg.rep, leg.streams, min(counts, default=None), None, None,
                        total=max(times, default=0.0), markers=(back, leg.streams), notes=tuple(notes),
                        refused=tuple(missing))

    # ---- prompts and counts

    def _cold(self, tokens: int) -> str:
        """A prompt that no cache knows; of one depth always as long, so that a repetition is one."""
        start = head()
        size = self._sizes.setdefault(tokens, max(self.counter.characters(tokens) - len(start) - len(TASK), 1))
        return f"{start}{prose(size)}{TASK}"

    def _prompt(self, start: str, tokens: int, tail: str) -> str:
        size = self.counter.characters(tokens) - len(start) - len(tail)
        return f"{start}{prose(max(size, 1))}{tail}"

    def _fitted(self, start: str, tokens: int, tail: str) -> str:
        """A prompt of no more than so many tokens, counted by the server where it does that."""
        text = self._prompt(start, tokens, tail)
        if self.counter.call:
            base = round(self.counter.line()[1])
            count = self._counted(text)
            if count is not None and count + base > tokens:
                keep = int(len(text) * tokens / (count + base)) - len(start) - len(tail) - 8
                text = f"{start}{prose(max(keep, 1))}{tail}"
        return text

    def _counted(self, text: str) -> int | None:
        if not self.counter.call:
            return None
        try:
            return tokenize(self.client, self.model, text, self.counter, min(_ASIDE, max(self.left, 0.1)))
        except Fault as fault:
            self._judge(fault)
            return None

    def _tokens_in(self, answer: Answer, text: str) -> tuple[int | None, list[str]]:
        if answer.prompt_tokens:
            told = answer.prompt_tokens
            if self.counter.contradicted(len(text), told):
                return None, [f"the server counts {told:,} tokens of a prompt that has about "
                              f"{self.counter.tokens(len(text)):,} by {self.counter.how}: neither was taken"]
            self.counter.learn(len(text), told)
            self.counter.how = self.counter.how or "usage figures"
            return told, []
        if (count := self._counted(text)) is not None:
            return count, ["prompt tokens by the server's tokenize call, without its template"]
        if self.counter.how:
            return self.counter.tokens(len(text)), [f"prompt tokens by the ratio of {self.counter.how}"]
        return None, []

    def _generated(self, answer: Answer) -> tuple[int | None, list[str]]:
        if answer.generated is not None:
            return answer.generated, []
        if (count := self._counted(answer.reasoning + answer.text)) is not None:
            return count, ["generated tokens by the server's tokenize call"]
        return None, []

    # ---- rates

    def _prefill(self, answer: Answer, tokens_in: int | None) -> Rate | None:
        """By the server's timings, unless the first token was there before they say the prompt was read."""
        clock, own = None, answer.timings.prompt_rate
        if answer.first and tokens_in and answer.paced:
            clock = max(tokens_in - (answer.cached or 0), 1) / answer.first
        if clock is not None and (own is None or clock > own * (1 + DISAGREE)):
            return Rate(clock, "the time to the first token", own)
        return None if own is None else Rate(own, "the server's timings", clock)

    def _decode(self, answer: Answer, generated: int | None) -> Rate | None:
        """By the clock, unless the server's timings say that no token was made that fast: then something held it back.
        """
        clock, own, marks = None, answer.timings.decode_rate, answer.marks
        if generated and answer.paced:
            # what came with the first piece was made before
            later = sum(mark > marks[0] for mark in marks) / len(marks)
            clock = generated * later / (marks[-1] - marks[0])
        if clock is not None and (own is None or clock <= own * (1 + DISAGREE)):
            return Rate(clock, _CLOCK, own)
        return None if own is None else Rate(own, "the server's timings", clock)

    # ---- requests

    def _together(self, texts: Sequence[str], answer: int, *, forced: bool) -> Iterable[Answer | Fault]:
        """All prompts at once, each by a thread of its own. Raises _Stop where one of them shows harm."""
        outcomes: list[Answer | Fault | None] = [None] * len(texts)
        first: list[Fault] = []
        gate = threading.Barrier(len(texts))
        costs = [self.counter.at_most(len(text)) + answer for text in texts]
        self._charge(sum(costs), requests=len(texts))

        def one(place: int) -> None:
            try:
                gate.wait(_ASIDE)
                outcomes[place] = self._send(texts[place], answer, forced=forced, beside=len(texts))
            except Fault as fault:
                outcomes[place] = fault
                with self._lock:
                    first.append(fault)
                if fault.kind in ("broken", "unreachable", "loading", "slow"):
                    self.client.close()  # the others are not waited for
            except threading.BrokenBarrierError:
                outcomes[place] = Fault("late", "the requests could not be sent at once")

        threads = [threading.Thread(target=one, args=(place,), daemon=True) for place in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for cost, outcome in zip(costs, outcomes, strict=True):
            self._settle(cost, outcome)
        for fault in first:
            if fault.kind != "busy":
                self._judge(fault, dropped=True)
        return [item for item in outcomes if item is not None]

    def _once(self, prompt: Callable[[], str], answer: int) -> tuple[Answer, str]:
        """One answer and its prompt, through what passes: a server that is busy or loads, a dropped connection, a field
        that it refuses. The prompt is made anew each time: of a request that was dropped a cache may know the last.
        """
        wait = 1.0
        while True:
            text = prompt()
            cost = self.counter.at_most(len(text)) + answer
            self._charge(cost)
            try:
                found = self._send(text, answer, forced=True)
            except Fault as fault:
                self._settle(cost, fault)
                if fault.kind == "busy" or (fault.kind == "loading" and not self._up):
                    wait = self._wait(fault, wait, "the server is busy (429)" if fault.kind == "busy"
                                      else "the server is loading (503)")
                elif fault.kind == "dropped" and not self._drops:
                    self._drops += 1
                    self.told.append(f"{fault.message}: asked again")
                    self.tell(self.told[-1])
                elif not self._yields(fault):
                    self._judge(fault, dropped=True)
                    raise _Skip(fault.message) from None
                continue
            self._up = True
            self._settle(cost, found)
            return found, text

    def _send(self, text: str, answer: int, *, forced: bool, beside: int = 1) -> Answer:
        tokens = self.counter.tokens(len(text))
        writing = WORSE * self._best_decode * answer * beside + SLACK
        allowed = (WORSE * self._best_prefill * tokens * beside + SLACK) + writing + _ASIDE
        whole = max(self.left, 0.1)
        try:
            return self.client.ask(self._path, self._body(text, answer, forced), min(whole, allowed), writing=writing)
        except Fault as fault:
            if fault.kind == "late" and allowed < whole:
                raise Fault("slow", f"no answer in {allowed:.0f} s, ten times what it took before") from None
            raise

    def _body(self, text: str, answer: int, forced: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": answer, "temperature": 0, "stream": True}
        if self._path.endswith("/chat/completions"):
            body["messages"] = [{"role": "user", "content": text}]
        else:
            body["prompt"] = text
        body |= {**_OPTIONAL, "min_tokens": answer}
        gone = self._without | (set() if forced else {"ignore_eos", "min_tokens"})
        if not self._path.endswith("/chat/completions"):
            gone = gone | {"chat_template_kwargs"}
        if "max_tokens" in gone:
            body["max_completion_tokens"] = answer
        if "stream" in gone:
            gone = gone | {"stream_options"}
        return {name: value for name, value in body.items() if name not in gone}

    def _yields(self, fault: Fault) -> bool:
        """Whether a refusal is of something that can be left out; then it is, and said."""
        if fault.kind != "refused" or fault.count is not None or fault.status in (401, 403):
            return False
        if fault.status in (404, 405) and self._path.endswith("/chat/completions"):
            self._path = "/v1/completions"
            self.told.append("no chat completions here: plain completions are measured, without a template")
            return True
        if fault.status not in (400, 422):
            return False
        left = [name for name in ("max_tokens", *_OPTIONAL, "stream") if name not in self._without]
        named = [name for name in left if name in fault.message and (name != "stream" or "stream_options" in
                                                                    self._without)]
        choice = named[0] if named else next((name for name in left if name not in ("max_tokens",)), None)
        if choice is None or (self._up and not named):
            return False
        self._without.add(choice)
        self.told.append(f"the server refuses {choice}: left out"
                         + (", thinking could not be switched off" if choice == "chat_template_kwargs" else ""))
        return True

    def _judge(self, fault: Fault, *, dropped: bool = False) -> None:
        """Raises where the probe must end: _Stop, or ReadError where nothing was answered yet."""
        if fault.kind == "late":
            raise _Stop(f"the time allowed is over ({self.limits.seconds:g} s)", harm=False)
        if fault.kind == "slow":
            raise _Stop(f"slower than ten times before: {fault.message}", harm=True)
        harmful = fault.kind in ("broken", "unreachable", "loading") or (fault.kind == "dropped" and dropped)
        if not self._up and (harmful or fault.kind == "unusable" or fault.status in (401, 403, 404)):
            self._no_server(fault)
        if harmful:
            again = " again" if fault.kind == "dropped" and self._drops else ""
            raise _Stop(f"the server fails after it had answered{again}: {fault.message}", harm=True)

    def _wait(self, fault: Fault, wait: float, why: str) -> float:
        """Waits as the server asks, or longer each time; returns the next wait. Raises at the bound as _judge does."""
        asked = max(fault.wait or 0.0, wait)  # never sooner than by itself: a server may ask for no wait at all
        if asked >= self.left:
            text = f"{why}, the next try is due in {asked:.4g} s, and {max(self.left, 0):.3g} s are left"
            if not self._up:
                raise ReadError(f"{self.client.server.shown}: {text}; nothing was measured", kind="usage")
            raise _Stop(text, harm=False)
        self.tell(f"{why}: waiting {asked:.1f} s")
        self._sleep(asked)
        return min(wait * 2, _LONGEST_WAIT)

    def _charge(self, tokens: int, *, requests: int = 1) -> None:
        """Counts a request before it is sent. Raises _Stop where a bound would be passed."""
        limits = self.limits
        if self.left <= 0:
            raise _Stop(f"the time allowed is over ({limits.seconds:g} s)", harm=False)
        if self.requests + requests > limits.requests:
            raise _Stop(f"--max-requests {limits.requests} is reached", harm=False)
        if limits.tokens is not None and self.tokens + tokens > limits.tokens:
            raise _Stop(f"the next request would pass --max-tokens {limits.tokens:,}", harm=False)
        self.requests += requests
        self.tokens += tokens

    def _settle(self, cost: int, outcome: Answer | Fault | None) -> None:
        """Puts what a request took, as far as the server tells, in the place of what it was charged."""
        if isinstance(outcome, Fault) and outcome.kind in ("busy", "loading", "refused"):
            self.tokens -= cost  # nothing was computed
            return
        told = outcome.generated if isinstance(outcome, Answer) else None
        self._own += cost if told is None else told
        if isinstance(outcome, Answer) and outcome.prompt_tokens is not None and outcome.generated is not None:
            self.tokens += outcome.prompt_tokens + outcome.generated - cost

    def _look(self) -> Snapshot | None:
        """The server's counters; where it showed none, it is not asked again."""
        if self._blind:
            return None
        try:
            text = self.client.get("/metrics", min(_ASIDE, max(self.left / 4, 0.1)))
        except Fault as fault:
            if fault.kind == "unreachable" and self._up:
                raise _Stop(f"the server fails after it had answered: {fault.message}", harm=True) from None
            return None
        return None if text is None else read_metrics(text)

    def _last_look(self) -> None:
        """The counters at the end, whatever ended it; the last that were seen where there is no more to see."""
        self.client = self.client.anew()
        if self._blind:
            return
        with contextlib.suppress(Fault):
            text = self.client.get("/metrics", min(_LAST_LOOK, max(self.limits.seconds - self.elapsed, 0.1)))
            self.after = self.after if text is None else read_metrics(text)


def _shared_rate(answers: Sequence[Answer], generated: Sequence[int | None]) -> tuple[float | None, int | None]:
    """Tokens a second of all streams while all of them wrote, and the fewest tokens of one in that time."""
    if any(count is None or not answer.paced for answer, count in zip(answers, generated, strict=True)):
        return None, None
    start, end = max(answer.marks[0] for answer in answers), min(answer.marks[-1] for answer in answers)
    if end <= start:
        return None, None
    counts = [sum(start < mark <= end for mark in answer.marks) * (count or 0) / len(answer.marks)
              for answer, count in zip(answers, generated, strict=True)]
    return (sum(counts) / (end - start), int(min(counts))) if min(counts) >= 1 else (None, None)


def _rate(value: float) -> str:
    return f"{value:,.0f} t/s" if value >= 1000 else f"{value:.4g} t/s"


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else None


def _json(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None
