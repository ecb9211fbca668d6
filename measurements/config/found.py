"""What the readers collect while they go through a user's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from measurements.config.file import ODD
from measurements.config.secrets import SECRET, is_secret_key, is_secret_value, redact
from measurements.config.trace import Source, Stretch, Traced
from measurements.records import Place, ReadError, Setting

_MOST_SETTINGS: Final = 100_000
_MOST_WARNINGS: Final = 100


#: Who reads an env file that another file names: they differ in quotes and comments.
EnvReader = Literal["a shell", "docker run --env-file", "systemd", "compose", "compose with format: raw"]


def as_is(value: str) -> str:
    """How most files hold a new value: exactly so."""
    return value


@dataclass(frozen=True, slots=True)
class Found:
    """A setting, and what an edit has to know about where it stands.

    ``whole`` is what to delete to be rid of the setting; ``after`` where another setting may be put behind it
    and ``sibling`` the text of that one, from its key and value; ``write`` how a new value is written in
    place. None where such an edit would be a guess.
    """

    setting: Setting
    whole: Stretch | None = None
    after: Stretch | None = None
    sibling: Callable[[str, str], str] | None = None
    write: Callable[[str], str] = as_is


@dataclass(slots=True)
class Survey:
    """Everything found so far. ``fetch`` gives the text of a file that another names, None if it has none.

    ``hidden`` are the stretches that hold secrets; ``images`` carry the scope they belong to; ``included``
    names the files whose settings were read because another names them, ``readers`` who reads each of these when the
    server starts; ``doubtful`` are assignments that a script makes under a condition; ``parts`` hold what each kind of
    entry of a unit gave; ``here`` is where text stands whose characters cannot be placed one by one.
    """

    fetch: Callable[[str], str | None]
    found: list[Found] = field(default_factory=list)
    images: list[tuple[str, Place, str]] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    hidden: list[Stretch] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    included: set[str] = field(default_factory=set)
    readers: dict[str, set[EnvReader]] = field(default_factory=dict)
    doubtful: list[Stretch] = field(default_factory=list)
    parts: dict[str, list[Found]] = field(default_factory=dict)
    here: Place | None = None

    def know(self, source: Source) -> None:
        """Keep the text of ``source``, by its name."""
        self.sources[source.file] = source

    def warn(self, place: Place, text: str) -> None:
        """Note what the user should know about ``place``."""
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings[ODD.sub("\ufffd", f"{place}: {redact(text)}")] = None
        else:
            self.warnings["there are more warnings than these"] = None

    def where(self, value: Traced, written: Stretch | None = None) -> Place | None:
        """The place of a word: of its first character, or else of what writes it."""
        return value.where(0) or (written.source.place(written.start) if written else self.here)

    def setting(self, key: str, value: Traced | None, home: Stretch | None, style: Literal["env", "flag"],
                scope: str, *, place: Place) -> Setting:
        """A setting as the records want it, with secrets taken out.

        ``home`` is the text that writes the setting. A value that stands elsewhere, because a variable was
        assigned there, is placed there: that is the line to change.
        """
        shown = redact(key)
        if value is None:
            return Setting(shown, None, place, style, None, scope)
        if shown != key or is_secret_key(key) or SECRET in value.value or is_secret_value(value.value):
            self.hide(value)
            return Setting(shown, SECRET, place, style, None, scope, secret=True)
        span = value.span()
        if span is None:
            return Setting(shown, value.value, place, style, None, scope)
        direct = home is not None and home.source is span.source and home.start <= span.start <= home.end
        if not direct:
            place = span.source.place(span.start)
        elif place.file != span.source.file:
            return Setting(shown, value.value, place, style, None, scope)
        return Setting(shown, value.value, place, style, (span.start, span.end), scope, direct=direct)

    def hide(self, value: Traced) -> None:
        """Remember that ``value`` is a secret, wherever it stands."""
        self.hidden += [Stretch(source, start, start + len(text))
                        for text, source, start in value.pieces if source is not None and text]

    def add(self, found: Found) -> None:
        """Keep a setting. Raises ReadError when there are more of them than any real configuration has."""
        if len(self.found) >= _MOST_SETTINGS:
            raise ReadError(f"more than {_MOST_SETTINGS:,} settings: name the file of one server",
                            file=found.setting.place.file)
        self.found.append(found)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is found meanwhile may be taken back by this name."""
        known = len(self.found)
        yield
        self.parts.setdefault(name, []).extend(self.found[known:])

    def take_back(self, name: str) -> None:
        """Forget what was found as this part."""
        gone = {id(item) for item in self.parts.pop(name, [])}
        self.found = [item for item in self.found if id(item) not in gone]

    def beside(self, file: str, written: str) -> Source | None:
        """The file that ``file`` names as ``written``, relative to itself; None when it is not there."""
        name = os.path.normpath(os.path.join(os.path.dirname(file), written))
        for known, source in self.sources.items():
            if os.path.normpath(known) == name:
                return source
        text = self.fetch(name)
        if text is None:
            return None
        self.know(Source(name, text))
        return self.sources[name]
