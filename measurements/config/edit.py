"""The smallest change of the user's own files that gives the settings asked for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from measurements.config.clean import without_secrets
from measurements.config.detect import dialect
from measurements.config.env import beside
from measurements.config.file import ODD
from measurements.config.found import Found, Survey
from measurements.config.mapping import Mapped
from measurements.config.read import again
from measurements.config.trace import Stretch
from measurements.config.uses import holder, mentions
from measurements.records import ConfigReading, Setting

_SIMPLE: Final = re.compile(r"[A-Za-z0-9_.:/\-]+")
#: What stands before the default of an expansion: ``${NAME:-``.
_DEFAULT_OF: Final = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*):?[-=][\"']?$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Edit:
    """``texts`` holds the new text of every changed file; ``refused`` each knob left as it is, and why.

    ``notes`` say of variables that no file held before that something must take them.
    """

    texts: dict[str, str] = field(default_factory=dict)
    refused: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


class _RefusedError(Exception):
    """A change that would be a guess."""


@dataclass(frozen=True, slots=True)
class _Splice:
    """New text for a stretch: a value in place, a deletion, or (``key``) a setting added."""

    stretch: Stretch
    text: str
    value: str | None = None
    key: str | None = None


def edit(reading: ConfigReading, mapped: Mapped, changes: Mapping[str, str | None], *,
         spelling: Mapping[str, str]) -> Edit:
    """Change the knobs of ``mapped`` in the files of ``reading``: a new value each, or None to remove it.

    A knob that is set is changed where its value stands. One that is not is added behind the last knob that
    is, in the same style: as its flag, or as the file's prefix and its UPPER_SNAKE name in ``spelling``. Each
    change is read again, and refused unless it gave exactly that change. So is what is right only if nothing else
    decides when the server starts (a knob set twice, a default, an ``if``, what the file's own reader takes literally),
    and what would change something besides: a variable or an anchor that is used elsewhere too. Raises nothing.
    """
    before = again(reading.text)
    gone = {knob for knob, value in changes.items() if value is None}
    accepted: list[_Splice] = []
    refused = []
    for knob, value in changes.items():
        try:
            splices = accepted + (_remove(before, mapped, knob) if value is None else
                                  _set(before, mapped, knob, value, spelling, gone))
            _check(before, splices, reading.text, mapped)
        except _RefusedError as why:
            refused.append((knob, str(why)))
        else:
            accepted = splices
    texts = _apply(reading.text, accepted)
    notes = [f"{splice.key} is new in {splice.stretch.source.file}: see that what starts the server takes it"
             for splice in accepted if splice.key is not None and not splice.key.startswith("--")]
    return Edit({file: text for file, text in texts.items() if text != reading.text[file]}, tuple(refused),
                tuple(notes))


def unified_diff(reading: ConfigReading, edit: Edit) -> str:
    """``edit`` as a unified diff with the user's own file names, secrets in it replaced by ``<secret>``."""
    old = _shown(reading.text)
    new = _shown({**reading.text, **edit.texts})
    out = list[str]()
    for file in edit.texts:
        out += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in difflib.unified_diff(_lines(old[file]), _lines(new[file]), file, file)]
    return "".join(out)


def _lines(text: str) -> list[str]:
    # Not splitlines: it also splits at characters that end no line in these files.
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _shown(texts: Mapping[str, str]) -> dict[str, str]:
    return {file: ODD.sub("\ufffd", text) for file, text in without_secrets(texts).items()}


def _set(before: Survey, mapped: Mapped, knob: str, value: str, spelling: Mapping[str, str],
         gone: set[str]) -> list[_Splice]:
    if _SIMPLE.fullmatch(value) is None:
        raise _RefusedError("the new value would need quotes: write it by hand")
    setting = mapped.knobs.get(knob)
    if setting is None:
        return [_added(before, mapped, knob, value, spelling, gone)]
    if setting.value == value:
        return []
    if setting.secret:
        raise _RefusedError(f"{setting.key} at {setting.place} holds a secret: keep the value in a setting of its own")
    if setting.value is None:
        raise _RefusedError(f"{setting.key} at {setting.place} is a flag without a value: write one behind it")
    if setting.span is None:
        raise _RefusedError(f"the value of {setting.key} at {setting.place} is put together from other text: "
                            "write it out there")
    found = _find(before, setting)
    stretch = Stretch(before.sources[setting.place.file], *setting.span)
    _demand_only_one(mapped, knob, setting)
    _demand_sure(before, setting, stretch)
    _demand_unused(before, mapped, knob, setting, stretch)
    return [_Splice(stretch, found.write(value), value)]


def _demand_only_one(mapped: Mapped, knob: str, setting: Setting) -> None:
    """Raises _RefusedError where the knob has another setting that may count instead of this one."""
    for other in mapped.shadowed.get(knob, ()):
        if other.style != setting.style or other.span == setting.span:
            continue
        if other.key != setting.key:
            raise _RefusedError(f"{other.key} at {other.place} and {setting.key} at {setting.place} mean the same: "
                                "keep one of them")
        if other.place.file == setting.place.file:
            raise _RefusedError(f"{setting.key} is set twice, at {other.place} and at {setting.place}: keep one of "
                                "them")


def _demand_unused(before: Survey, mapped: Mapped, knob: str, setting: Setting, stretch: Stretch) -> None:
    """Raises _RefusedError where something else takes the value too."""
    own = {(known.key, known.style) for known in (setting, *mapped.shadowed.get(knob, ()))}
    names, taken = set[str](), 0
    for found in before.found:
        other = found.setting
        if _span(other) != _span(setting):
            continue
        holds = other.direct and other.style == "env" and other not in mapped.knobs.values()
        mine = holds or (other.key, other.style) in own
        if not mine or other.scope not in ("", setting.scope, mapped.scope):
            raise _RefusedError(f"{setting.place} also sets {other.key}"
                                + (f" of {other.scope}" if other.scope else "") + ": give each a value of its own")
        if other.direct and other.style == "env":
            names.add(other.key)
        taken += not other.direct
    if not names and not setting.direct and (name := holder(stretch)) is not None:
        names.add(name)  # a file that only feeds another, as .env does compose
    for name in names:
        found_at = [str(place) for place in mentions(before.sources.values(), name, stretch)]
        if len(found_at) > taken:
            raise _RefusedError(f"{name} at {setting.place} feeds more than {knob}: it is taken or set at "
                                f"{', '.join(dict.fromkeys(found_at))}; write the value where {knob} is set, or change "
                                "it by hand")
    if dialect(stretch.source) == "yaml":
        from measurements.config.nodes import ways_to  # yaml is slow to import and seldom needed

        if ways_to(stretch.source, stretch.start) > 1:
            raise _RefusedError(f"{setting.place} stands behind an anchor that is used elsewhere too: write the value "
                                "out where it is meant")


def _demand_sure(before: Survey, setting: Setting, stretch: Stretch) -> None:
    """Raises _RefusedError where what the server gets hangs on more than the characters of the value."""
    source, start, end = stretch
    if any(part.source is source and part.start <= start and end <= part.end for part in before.doubtful):
        raise _RefusedError(f"{setting.place} stands in an if or a case, or behind && or ||: what counts is decided "
                            "when the script runs; write the value where it always counts")
    line_start = source.line_start(start)
    default = _DEFAULT_OF.search(source.text, line_start, start)
    if default is not None:
        name = default["name"]
        raise _RefusedError(f"{setting.place} is the default of ${{{name}}}: what {name} holds when the server starts "
                            f"counts before it; write the value plainly, or set {name}")
    if dialect(source) != "env":
        return
    readers = before.readers.get(source.file, set())
    above = source.text[source.line_start(line_start - 1):line_start].strip() if line_start else ""
    if above.endswith("\\") and (above[0] not in "#;" or "systemd" in readers):  # systemd also goes on in comments
        raise _RefusedError(f"{setting.place} follows a line that ends in a backslash: some readers take both for one "
                            "line; end that line otherwise")
    for reader in sorted(readers):
        for what, misread in beside(source, start, end).items():
            if reader in misread:
                raise _RefusedError(f"{setting.place} has {what}, which {reader} {misread[reader]}: "
                                    f"write {setting.key}={setting.value} and nothing more on the line")


def _span(setting: Setting) -> tuple[str, tuple[int, int]] | None:
    return None if setting.span is None else (setting.place.file, setting.span)


def _find(before: Survey, setting: Setting) -> Found:
    for found in before.found:
        if found.setting == setting:
            return found
    raise _RefusedError(f"{setting.key} at {setting.place} was not read from these files")


def _remove(before: Survey, mapped: Mapped, knob: str) -> list[_Splice]:
    splices = []
    winner = mapped.knobs.get(knob)
    # What the winner overrides goes too: it would count again.
    for setting in (*mapped.shadowed.get(knob, ()), *([winner] if winner is not None else ())):
        whole = _find(before, setting).whole
        if whole is None:
            raise _RefusedError(f"{setting.key} at {setting.place} does not stand on its own: remove it by hand")
        splices.append(_Splice(whole, ""))
    return splices


def _added(before: Survey, mapped: Mapped, knob: str, value: str, spelling: Mapping[str, str],
           gone: set[str]) -> _Splice:
    anchors = [setting for name, setting in mapped.knobs.items() if name not in gone]
    last = next((found for found in reversed(before.found)
                 if found.setting in anchors and found.after is not None and found.sibling is not None), None)
    if last is None or last.after is None or last.sibling is None:
        raise _RefusedError("there is no setting of this engine to add it behind")
    if last.setting.style == "flag":
        key = "--" + knob.replace("_", "-")
    elif knob in spelling:
        key = mapped.prefix + spelling[knob]
    else:
        raise _RefusedError("it has no name for a file of this kind")
    return _Splice(last.after, last.sibling(key, value), value, key)


def _apply(texts: Mapping[str, str], splices: list[_Splice]) -> dict[str, str]:
    out = dict(texts)
    for file in {splice.stretch.source.file for splice in splices}:
        text, parts, position = texts[file], list[str](), 0
        mine = (splice for splice in splices if splice.stretch.source.file == file)
        for splice in sorted(mine, key=lambda splice: (splice.stretch.start, splice.stretch.end)):
            _, start, end = splice.stretch
            if start < position and splice.text:
                raise _RefusedError("two changes would touch the same characters")
            parts += [text[position:start], splice.text]
            position = max(position, end)
        out[file] = "".join([*parts, text[position:]])
    return out


def _row(setting: Setting, value: str | None) -> tuple[str, str | None, str, str, bool, str]:
    return (setting.key, value, setting.style, setting.scope, setting.secret, setting.place.file)


def _check(before: Survey, splices: list[_Splice], texts: Mapping[str, str], mapped: Mapped) -> None:
    """Read the files with ``splices`` again. Raises _RefusedError unless exactly those changes came of it."""
    values = {_stretch(splice.stretch): splice.value for splice in splices
              if splice.key is None and splice.text}
    gone = {_stretch(splice.stretch) for splice in splices if not splice.text}
    added = {(splice.key, splice.value) for splice in splices if splice.key is not None}
    expected = []
    for found in before.found:
        setting = found.setting
        if found.whole is not None and _stretch(found.whole) in gone:
            if setting.scope not in ("", mapped.scope):
                raise _RefusedError(f"{setting.place} also counts for {setting.scope}")
            continue
        at = None if setting.span is None else (setting.place.file, *setting.span)
        expected.append((_row(setting, values.get(at, setting.value) if at else setting.value), setting))
    after = again(_apply(texts, splices))
    missing = set(added)
    position = 0
    for found in after.found:
        row = _row(found.setting, found.setting.value)
        if position < len(expected) and row == expected[position][0]:
            position += 1
        elif (row[0], row[1]) in added and row[3] in ("", mapped.scope):
            missing.discard((row[0], row[1]))
        else:
            raise _other(expected[position][1] if position < len(expected) else found.setting)
    if position < len(expected):
        raise _other(expected[position][1])
    if missing:
        raise _RefusedError("what is added there would not be read: write it by hand")


def _other(setting: Setting) -> _RefusedError:
    return _RefusedError(f"it would change {setting.key} at {setting.place} too: write both by hand")


def _stretch(stretch: Stretch) -> tuple[str, int, int]:
    return (stretch.source.file, stretch.start, stretch.end)
