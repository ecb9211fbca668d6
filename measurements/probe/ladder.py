"""What a probe asks, planned before anything is sent: which prompts, in which order, within which bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from measurements.records import ReadError

#: Generated tokens of a measured answer, and those of a stream among several, which must overlap with all others.
ANSWER: Final = 512
SHARED_ANSWER: Final = 1024
#: Generated tokens in which a marker must come back, and what a prompt at the boundary leaves free beside them.
MARKER_ANSWER: Final = 64
SPARE: Final = 32
#: The ladder unless the user names depths: these parts of the window.
_PARTS: Final = (32, 8, 2)
_LEAST: Final = 256
#: Depths where no window is known.
_UNKNOWN: Final = (512, 2048, 6144)
SECONDS: Final = 600
REQUESTS: Final = 60
TOKENS: Final = 400_000

Kind = Literal["ladder", "warm", "streams", "boundary"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a probe may cost at most: seconds of time, requests, and tokens of prompts and answers."""

    seconds: float = SECONDS
    requests: int = REQUESTS
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Leg:
    """One thing to measure: prompts of ``depth`` tokens, ``streams`` at once, an answer of ``answer`` tokens each."""

    kind: Kind
    depth: int
    answer: int
    streams: int = 1
    rep: int = 1

    @property
    def tokens(self) -> int:
        """What it costs, prompts and answers."""
        return self.streams * (self.depth + self.answer)

    @property
    def words(self) -> str:
        """For progress."""
        depth = f"{self.depth:,} tokens"
        again = f", repetition {self.rep}" if self.rep > 1 else ""
        return {"ladder": f"cold prompt of {depth}{again}", "warm": f"the same prompt of {depth} again{again}",
                "streams": f"{self.streams} streams at {depth}{again}",
                "boundary": f"{self.streams} prompts of {depth} at once, each with a marker"}[self.kind]


def ladder(window: int | None, depths: Sequence[int], *, streams: int, boundary: int, repeat: int,
           answer: int = ANSWER) -> tuple[Leg, ...]:
    """The legs of a probe, cheap ones first; ``boundary`` is how many prompts fill the window at once, 0 for none.

    Raises ReadError of kind ``usage`` where a depth and its answer do not fit the window, or none can be chosen.
    """
    if window is not None and window < _LEAST + answer:
        raise ReadError(f"a window of {window:,} tokens is too short to measure in: an answer has {answer}",
                        kind="usage")
    room = None if window is None else window - answer - SPARE
    for depth in depths:
        if depth < 16 or (room is not None and depth > room):
            right = "16 tokens at least" if room is None else (
                f"from 16 to {room:,} tokens, so that {answer} generated ones fit the window")
            raise ReadError(f"--depths {depth}: {right}", kind="usage")
    chosen = sorted(set(depths)) if depths else _own(window, room)
    legs = [Leg("ladder", depth, answer, rep=rep) for depth in chosen for rep in range(1, repeat + 1)]
    legs += [Leg("warm", chosen[-1], answer)]
    if streams > 1:
        shared = SHARED_ANSWER if window is None else min(SHARED_ANSWER, window - chosen[0] - SPARE)
        legs += [Leg("streams", chosen[0], shared, streams, rep) for rep in range(1, repeat + 1)]
    if boundary:
        if window is None:
            raise ReadError("--boundary needs the window: name it with --window, or give a site that states it",
                            kind="usage")
        legs.append(Leg("boundary", window - MARKER_ANSWER - SPARE, MARKER_ANSWER, boundary))
    return tuple(legs)


def _own(window: int | None, room: int | None) -> list[int]:
    if window is None or room is None:
        return list(_UNKNOWN)
    return sorted({min(max(window // part, _LEAST), room) for part in _PARTS})


def within(legs: Sequence[Leg], limits: Limits) -> Limits:
    """The limits with the tokens they allow: unless the user said otherwise, modest, and beside that the boundary.

    Raises ReadError of kind ``usage`` where the plan cannot be had within what the user said.
    """
    boundary = sum(leg.tokens for leg in legs if leg.kind == "boundary")
    allowed = limits.tokens if limits.tokens is not None else TOKENS + boundary * 5 // 4
    requests = sum(leg.streams for leg in legs)
    if boundary > allowed:
        raise ReadError(f"--boundary takes {boundary:,} tokens, --max-tokens allows {allowed:,}", kind="usage")
    if requests > limits.requests and boundary and sum(
            leg.streams for leg in legs if leg.kind == "boundary") > limits.requests:
        raise ReadError(f"--boundary takes more requests than --max-requests {limits.requests} allows", kind="usage")
    return Limits(limits.seconds, limits.requests, allowed)
