"""The smallest change of the user's own files that gives the settings asked for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from measurements.config.clean import without_secrets
from measurements.config.file import ODD
from measurements.config.found import Found, Survey
from measurements.config.mapping import Mapped
from measurements.config.read import again
from measurements.config.trace import Stretch
from measurements.records import ConfigReading, Setting

_SIMPLE: Final = re.compile(r"[A-Za-z0-9_.:/\-]+")
#: What stands before the default of an expansion: ``${NAME:-``.
_DEFAULT_OF: Final = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*):?[-=][\"']?$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Edit:
    """``texts`` holds the new text of every changed file; ``refused`` each knob left as it is, and why."""

    texts: dict[str, str] = field(default_factory=dict)
    refused: tuple[tuple[str, str], ...] = ()


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
         spelling: Mapping[str, str], strict: bool = False) -> Edit:
    """Change the knobs of ``mapped`` in the files of ``reading``: a new value each, or None to remove it.

    A knob that is set is changed where its value stands. One that is not is added behind the last knob that
    is, in the same style: as its flag, or as the file's prefix and its UPPER_SNAKE name in ``spelling``. Each
    change is read again, and refused unless it gave exactly that change. ``strict`` also refuses what is right only
    if nothing else decides when the server starts: a key set twice in one file, the default of a ``${NAME:-1}``, and
    quotes or a comment beside a value in a file whose reader takes them literally. Raises nothing.
    """
    before = again(reading.text)
    gone = {knob for knob, value in changes.items() if value is None}
    accepted: list[_Splice] = []
    refused = []
    for knob, value in changes.items():
        try:
            splices = accepted + (_remove(before, mapped, knob) if value is None else
                                  _set(before, mapped, knob, value, spelling, gone, strict))
            _check(before, splices, reading.text, mapped)
        except _RefusedError as why:
            refused.append((knob, str(why)))
        else:
            accepted = splices
    texts = _apply(reading.text, accepted)
    return Edit({file: text for file, text in texts.items() if text != reading.text[file]}, tuple(refused))


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
         gone: set[str], strict: bool) -> list[_Splice]:
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
    for other in before.found:
        if _span(other.setting) == _span(setting) and not _only_feeds(other.setting, setting, mapped, knob):
            raise _RefusedError(f"{setting.place} also sets {other.setting.key}"
                                + (f" of {other.setting.scope}" if other.setting.scope else "")
                                + ": give each a value of its own")
    stretch = Stretch(before.sources[setting.place.file], *setting.span)
    if strict:
        _demand_plain(before, mapped, knob, setting, stretch)
    return [_Splice(stretch, found.write(value), value)]


def _demand_plain(before: Survey, mapped: Mapped, knob: str, setting: Setting, stretch: Stretch) -> None:
    """Raises _RefusedError where what the server gets hangs on more than the characters of the value."""
    source, start, end = stretch
    for other in mapped.shadowed.get(knob, ()):
        same = (other.key, other.style, other.place.file) == (setting.key, setting.style, setting.place.file)
        if same and other.span != setting.span:
            raise _RefusedError(f"{setting.key} is set twice, at {other.place} and at {setting.place}: keep one of "
                                "them")
    line_start, line_end = source.line_start(start), source.line_end(end)
    for used in before.found:
        key = used.setting.key
        if key == setting.key or _span(used.setting) != _span(setting):
            continue
        # the variable that is assigned right here may feed this knob, and nothing else
        if re.search(rf"(?<![\w-]){re.escape(key)}[=\s:]*[\"']?$", source.text[line_start:start]) is None:
            raise _RefusedError(f"{setting.place} also sets {key}: give each a value of its own")
    default = _DEFAULT_OF.search(source.text, line_start, start)
    if default is not None:
        name = default["name"]
        raise _RefusedError(f"{setting.place} is the default of ${{{name}}}: what {name} holds when the server starts "
                            f"counts before it; write the value plainly, or set {name}")
    readers = before.readers.get(source.file, set())
    quoted = source.text[start - 1:start] in ("'", '"') and start > line_start
    tail = source.text[end + quoted:line_end].strip()
    for reader in sorted(readers):
        if (reader == "docker run --env-file" and (quoted or tail)) or (reader == "systemd" and tail):
            what = "quotes" if quoted and not tail else "a comment behind the value"
            raise _RefusedError(f"{setting.place} has {what}, which {reader} takes for a part of it: "
                                f"write {setting.key}={setting.value} and nothing more on the line")


def _only_feeds(other: Setting, setting: Setting, mapped: Mapped, knob: str) -> bool:
    """Whether a setting with the same characters for its value is this one, or the variable behind it."""
    if other.scope not in ("", setting.scope, mapped.scope):
        return False
    if (other.key, other.style) == (setting.key, setting.style):
        return True
    others = [known for name, known in mapped.knobs.items() if name != knob]
    return other.style == "env" and other not in others


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
        expected.append(_row(setting, values.get(at, setting.value) if at else setting.value))
    after = again(_apply(texts, splices))
    missing = set(added)
    position = 0
    for found in after.found:
        row = _row(found.setting, found.setting.value)
        if position < len(expected) and row == expected[position]:
            position += 1
        elif (row[0], row[1]) in added and row[3] in ("", mapped.scope):
            missing.discard((row[0], row[1]))
        else:
            raise _RefusedError("it would change another setting too")
    if position < len(expected) or missing:
        raise _RefusedError("it would change another setting too")


def _stretch(stretch: Stretch) -> tuple[str, int, int]:
    return (stretch.source.file, stretch.start, stretch.end)
