"""The boot logs that the ledger tests read, and what people and tools do to logs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Final

from measurements.ledger import read_ledger
from measurements.records import LedgerReading, Reading

FIXTURES: Final = Path(__file__).parent / "fixtures"
LOGS: Final = (
    "radiance-derived",
    "radiance-stated",
    "radiance-funded",
    "halogen-fits",
    "halogen-clamped",
    "halogen-v2",
)


def log(name: str) -> str:
    """The text of a fixture without the comment at its head."""
    lines = (FIXTURES / f"{name}.log").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("# ")) + "\n"


def read(folder: Path, text: str | bytes, engine: str | None = None) -> LedgerReading:
    """A reading of ``text`` as a log file in ``folder``."""
    path = folder / "boot.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_ledger(path, engine=engine)


def everything(reading: LedgerReading) -> dict[str, Reading]:
    """All figures of a reading by name."""
    return {**reading.facts, **reading.rows, **reading.knobs}


def values(reading: LedgerReading) -> dict[str, object]:
    """All values of a reading by name, without where they stood."""
    return {name: each.value for name, each in everything(reading).items()}


def contradictions(reading: LedgerReading) -> list[str]:
    """What a reading says does not add up."""
    return [finding.text for finding in reading.findings if finding.severity == "contradiction"]


def every_line(change: Callable[[str], str]) -> Callable[[str], str]:
    """What does ``change`` to each line."""
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


def before(prefix: str) -> Callable[[str], str]:
    """What puts ``prefix`` before each line."""
    return every_line(lambda line: prefix + line)


def terminal(width: int) -> Callable[[str], str]:
    """What a terminal makes of long lines: it breaks at its edge, even inside a word.

    One more long line stands first: a single broken line would not show that a terminal broke it.
    """

    def wrap(line: str) -> str:
        return "\n".join(line[at : at + width] for at in range(0, len(line), width))

    return lambda text: every_line(wrap)("I vocab:" + " token" * 80 + "\n" + text)


def paste(width: int) -> Callable[[str], str]:
    """What people make of long lines: breaks between words, the rest indented."""

    def wrap(line: str) -> str:
        return "\n".join(
            textwrap.wrap(
                line, width, subsequent_indent=" " * 9, break_long_words=False, break_on_hyphens=False
            )
        )

    return every_line(wrap)


DISGUISES: Final[dict[str, Callable[[str], str]]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "compose": before("engine-1  | "),
    "coloured compose": before("\x1b[36mengine-1  |\x1b[0m "),
    "service": before("[engine] "),
    "kubectl": before("[pod/engine-0/engine] 2026-11-29T10:00:00.123456789Z "),
    "kubernetes file": before("2026-11-29T10:00:00.123456789Z stderr F "),
    "podman timestamps": before("2026-11-29T10:00:00+01:00 "),
    "compose timestamps": before("engine-1  | 2026-11-29T10:00:00.123456789Z "),
    "journal": before("Nov 29 10:00:00 host engine[123]: "),
    "journal early in a month": before("Nov  9 10:00:00 host engine[123]: "),
    "journal iso": before("2026-11-29T10:00:00+0100 host engine[123]: "),
    "journal full": before("Sun 2026-11-29 10:00:00 UTC host engine[123]: "),
    "colour": every_line(lambda line: "\x1b[32m" + line.replace("GiB", "\x1b[1mGiB\x1b[0m") + "\x1b[0m"),
    "indented": before("    "),
    "unindented": every_line(str.strip),
    "terminal of 80": terminal(80),
    "terminal of 100": terminal(100),
    "terminal and compose": lambda text: terminal(120)(before("engine-1  | ")(text)),
    "paste of 80": paste(80),
    "paste of 64": paste(64),
}
