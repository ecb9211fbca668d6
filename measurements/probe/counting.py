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
#: Two counts of one prompt contradict each other where one is so many times the other, and by more than a template's
#: tokens.
APART: Final = 1.5
TEMPLATE: Final = 64
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
    ``bare`` are characters and tokens of a text without a template around it, ``seen`` those of answered prompts.
    """

    how: str = ""
    call: str | None = None
    bare: tuple[int, int] | None = None
    seen: dict[int, int] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether the server told anything."""
        return bool(self.bare or self.seen)

    def learn(self, characters: int, tokens: int) -> None:
        """An answered prompt of so many characters had so many tokens."""
        if characters > 0 and tokens > 0:
            self.seen[characters] = tokens

    def line(self) -> tuple[float, float]:
        """Tokens to each character, and tokens of the template around a prompt."""
        if self.bare is not None:
            slope = self.bare[1] / self.bare[0]
            return slope, max((self.seen[low] - slope * low for low in [min(self.seen, default=0)] if low), default=0.0)
        if not self.seen:
            return _FIRST, 0.0
        low, high = min(self.seen), max(self.seen)
        slope = (self.seen[high] - self.seen[low]) / (high - low) if high >= 2 * low else 0.0
        if slope <= 0:
            return self.seen[high] / high, 0.0
        return slope, max(0.0, self.seen[low] - slope * low)

    def contradicted(self, characters: int, tokens: int) -> bool:
        """Whether a count of a prompt cannot be true where the one of :attr:`bare` is."""
        if self.bare is None or not self.seen:  # a template may be as long as it likes until one was seen
            return False
        slope, base = self.line()
        return not slope * characters / APART - TEMPLATE <= tokens <= (slope * characters + base) * APART + TEMPLATE

    def tokens(self, characters: int) -> int:
        """About how many tokens a prompt of so many characters has."""
        slope, base = self.line()
        return round(slope * characters + base)

    def at_most(self, characters: int) -> int:
        """What a prompt of so many characters is charged before it is sent: until a token was counted, as much as a
        tokenizer makes of it that knows bytes alone, in a template."""
        return round(self.tokens(characters) * 1.02) + 8 if self.known else characters * 3 // 2 + TEMPLATE

    def characters(self, tokens: int) -> int:
        """How many characters make a prompt of about so many tokens."""
        slope, base = self.line()
        return max(1, int((tokens - base) / slope))


@dataclass(frozen=True, slots=True)
class Above:
    """What became of a prompt above the window: in words, the window that a refusal names, and what it cost."""

    said: str
    window: int | None = None
    tokens: int = 0


def count_above(client: Client, path: str, model: str, window: int, counter: Counter, seconds: float) -> Above | None:
    """Learns the ratio from one prompt above the window: refused with its count, nothing is computed.

    None where there is nothing at ``path``. Raises Fault for what is no refusal.
    """
    text = prose(window * _ABOVE)
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0}
    body |= {"messages": [{"role": "user", "content": text}]} if path.endswith("/chat/completions") else {
        "prompt": text}
    try:
        answer = client.ask(path, body, min(_FREE, seconds))
    except Fault as fault:
        if fault.kind == "late":
            return Above("a prompt above the window was not refused at once: that request was given up", None,
                         counter.at_most(len(text)))
        if fault.kind != "refused":
            raise
        if fault.count is None:
            return None if fault.status in (404, 405) else Above(
                f"a prompt above the window is refused without its count ({fault.message})", fault.window)
        if fault.count <= (fault.window or window) + 1:  # it was cut there before it was counted
            return Above("a prompt above the window was refused, counted only as far as the window", fault.window)
        counter.bare = len(text), fault.count
        counter.how = "a refusal that names the count"
        return Above(f"a prompt above the window was refused: {fault.count:,} tokens in {len(text):,} characters, "
                     "nothing was computed", fault.window)
    if answer.prompt_tokens and answer.prompt_tokens > window:  # else it was cut, and says nothing of its length
        counter.learn(len(text), answer.prompt_tokens)
        counter.how = "usage figures"
    return Above("a prompt above the window was answered, not refused: the server cut it, or its window is larger",
                 None, answer.prompt_tokens or counter.at_most(len(text)))


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
