"""How many tokens a text has: from a refusal that names the count, the server's tokenize call, or usage figures."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from measurements.probe.client import Client, Fault

#: What the generated text is called in points: an essay that this module asks for, version 1.
CORPUS: Final = "probe essay 1"
TASK: Final = ("\n\nNow write a long essay about the sea, of at least two thousand words. Begin at once, and do not "
               "stop early.")
#: Characters for each token of the window, so that a prompt is surely above it: a common word is one token.
_ABOVE: Final = 8
#: Seconds that a prompt above the window may take: a refusal takes none.
_FREE: Final = 20.0
#: Tokens to each character until a server told better.
_FIRST: Final = 0.22
_TEXT: Final = (
    "the a this that one every no some of to in for with from over under behind between river stone light winter "
    "field garden letter window morning evening harbour ship road bridge village city house door table bread water "
    "salt fire cloud storm island mountain forest bird horse fish child mother brother teacher doctor farmer sailor "
    "captain king stranger friend winter summer music silence story question answer reason number paper glass iron "
    "gold wool silk green white black yellow quiet heavy narrow early distant ordinary strange patient careful bright "
    "hollow gentle walked carried opened counted followed remembered believed promised waited wondered gathered "
    "measured turned left found built broke sold kept crossed answered slowly often never almost together again "
    "however because although before after while until perhaps")


@lru_cache(maxsize=1)
def _essay(blocks: int) -> str:
    rng, known = random.Random(1), _TEXT.split()
    sentences = []
    for _ in range(blocks * 64):
        words = rng.choices(known, k=rng.randint(6, 15))
        sentences.append(f"{words[0].capitalize()} {' '.join(words[1:])}.")
    return " ".join(sentences)


def prose(characters: int) -> str:
    """The first characters of one endless text of common words, which repeats nothing: drafts cannot lean on it."""
    blocks = 1
    while len(_essay(blocks)) < characters:
        blocks *= 2
    return _essay(blocks)[:max(characters, 0)]


def head() -> str:
    """A new beginning for a prompt, so that no cache answers it: common words, so that each has as many tokens."""
    known = _TEXT.split()
    return f"{' '.join(secrets.choice(known) for _ in range(10))}.\n"


@dataclass
class Counter:
    """Tokens of prompts made of :func:`prose`, as far as the server told.

    ``how`` says where the ratio is from; ``call`` is the server's tokenize call (body keys), None where it has none.
    """

    how: str = ""
    call: str | None = None
    seen: dict[int, int] = field(default_factory=dict)

    def learn(self, characters: int, tokens: int) -> None:
        """A prompt of so many characters had so many tokens."""
        if characters > 0 and tokens > 0:
            self.seen[characters] = tokens

    def line(self) -> tuple[float, float]:
        """Tokens to each character, and tokens of the template around a prompt."""
        if not self.seen:
            return _FIRST, 0.0
        low, high = min(self.seen), max(self.seen)
        if high < 2 * low:
            return self.seen[high] / high, 0.0
        slope = (self.seen[high] - self.seen[low]) / (high - low)
        return slope, max(0.0, self.seen[low] - slope * low)

    def tokens(self, characters: int) -> int:
        """About how many tokens a prompt of so many characters has."""
        slope, base = self.line()
        return round(slope * characters + base)

    def characters(self, tokens: int) -> int:
        """How many characters make a prompt of about so many tokens."""
        slope, base = self.line()
        return max(1, int((tokens - base) / slope))


def count_above(client: Client, model: str, window: int, counter: Counter) -> tuple[str, int | None]:
    """Learns the ratio from one prompt above the window: refused with its count, nothing is computed.

    Returns what happened in words, and the window that the refusal names. Raises Fault for what is no refusal.
    """
    text = prose(window * _ABOVE)
    try:
        answer = client.ask("/v1/completions", {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0},
                            _FREE)
    except Fault as fault:
        if fault.kind == "late":
            return "a prompt above the window was not refused at once: that request was given up", None
        if fault.kind != "refused":
            raise
        if fault.count is None:
            return f"a prompt above the window is refused without its count ({fault.message})", fault.window
        counter.learn(len(text), fault.count)
        counter.how = "a refusal that names the count"
        return (f"a prompt above the window was refused: {fault.count:,} tokens in {len(text):,} characters, nothing "
                "was computed"), fault.window
    if answer.prompt_tokens:
        counter.learn(len(text), answer.prompt_tokens)
        counter.how = "usage figures"
    return "a prompt above the window was answered, not refused: the server cut it, or its window is larger", None


def tokenize(client: Client, model: str, text: str, counter: Counter, seconds: float = 10.0) -> int | None:
    """Tokens of ``text`` by the server's own call; None where it has none. Raises Fault for what harms."""
    for call in (counter.call,) if counter.call else ("content", "prompt"):
        try:
            found = client.post("/tokenize", {call: text, "model": model}, seconds)
        except Fault as fault:
            if fault.kind in ("refused", "unusable", "late"):
                continue
            raise
        count = _count(found)
        if count:
            counter.call = call
            return count
    return None


def _count(found: Any) -> int | None:
    if isinstance(found, dict):
        if isinstance(found.get("count"), int):
            return int(found["count"])
        if isinstance(found.get("tokens"), list):
            return len(found["tokens"])
    return None
