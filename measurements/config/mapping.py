"""Finding an engine's knobs among a user's settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from measurements.config.read import again
from measurements.records import ConfigReading, Place, ReadError, Setting


@dataclass(frozen=True, slots=True)
class Mapped:
    """The knobs a configuration sets.

    ``knobs`` holds the setting that counts for each knob, ``shadowed`` the ones it overrides, ``unmapped``
    what no knob is named after. ``prefix`` is the operator's own (``""`` or ending in ``_``); ``scope`` the
    service or container that was chosen; ``images`` those of that scope.
    """

    knobs: dict[str, Setting]
    unmapped: tuple[Setting, ...] = ()
    warnings: tuple[str, ...] = ()
    prefix: str = ""
    scope: str = ""
    images: tuple[tuple[str, Place], ...] = ()
    shadowed: dict[str, tuple[Setting, ...]] = field(default_factory=dict)


def map_settings(reading: ConfigReading, names: Mapping[str, str], *, scope: str | None = None) -> Mapped:
    """The knobs that ``reading`` sets, by ``names``: every accepted UPPER_SNAKE name and the knob it means.

    A flag matches by its name; an env key by its name, bare or behind the one prefix that explains most keys.
    A flag counts before an env key, a service's own setting before one for all, a later before an earlier;
    a warning names both. Without ``scope`` the scope with most knobs is taken.
    Raises ReadError of kind ``usage`` when scopes tie or ``scope`` is none of them.
    """
    scopes = list(dict.fromkeys(setting.scope for setting in reading.settings if setting.scope))
    if scope is not None and scope not in scopes and not (scope == "" and not scopes):
        known = ", ".join(scopes) or "none: this configuration has only one"
        raise ReadError(f"no service or container named {scope!r}; there is {known}", kind="usage")
    if scope is None:
        scope = _choose(reading, names, scopes)
    settings = [setting for setting in reading.settings if setting.scope in ("", scope)]
    prefix, *rivals = _prefixes(settings, names)
    matches: dict[str, list[Setting]] = {}
    unmapped = []
    for setting in settings:
        knob = _knob(setting, names, prefix)
        if knob is None:
            unmapped.append(setting)
        else:
            matches.setdefault(knob, []).append(setting)
    knobs, shadowed, warnings = {}, {}, []
    for knob, found in matches.items():
        *others, winner = sorted(found, key=lambda setting: (setting.style == "flag", setting.scope != ""))
        knobs[knob] = winner
        if others:
            shadowed[knob] = tuple(others)
        warnings += [f"{knob} is set by {other.key} at {other.place} and by {winner.key} at {winner.place}: "
                     f"{winner.key} at {winner.place} counts" for other in others if not _same(other, winner)]
    warnings += [f"{setting.key} at {setting.place} is not read, because as many keys begin with {prefix}"
                 for setting in unmapped for rival in rivals if setting.style == "env"
                 and setting.key.upper().startswith(rival) and setting.key.upper()[len(rival):] in names]
    # A variable that only feeds a knob's flag is accounted for.
    rest = tuple(setting for setting in unmapped
                 if not any(_same(setting, knob) for knob in knobs.values()))
    return Mapped(knobs, rest, tuple(warnings), prefix, scope, _images(reading, scope), shadowed)


def _same(one: Setting, other: Setting) -> bool:
    """Whether both take their value from the same characters of the same file."""
    return one.span is not None and one.span == other.span and one.place.file == other.place.file


def _choose(reading: ConfigReading, names: Mapping[str, str], scopes: list[str]) -> str:
    counts = {}
    for scope in scopes:
        own = [setting for setting in reading.settings if setting.scope == scope]
        prefix = _prefixes((setting for setting in reading.settings
                            if setting.scope in ("", scope)), names)[0]
        counts[scope] = len({knob for setting in own if (knob := _knob(setting, names, prefix)) is not None})
    most = max(counts.values(), default=0)
    if most == 0:
        return ""
    best = [scope for scope, count in counts.items() if count == most]
    if len(best) > 1:
        raise ReadError(f"{' and '.join(best)} set equally many knobs: choose one of them", kind="usage")
    return best[0]


def _prefixes(settings: Iterable[Setting], names: Mapping[str, str]) -> list[str]:
    """The prefix that explains most keys, then those that explain as many.

    Of equals the shortest comes first, but any before none: bare names count beside a prefix anyway.
    """
    counts: Counter[str] = Counter()
    for key in {setting.key.upper() for setting in settings if setting.style == "env"}:
        if key in names:
            counts[""] += 1
        for start in range(1, len(key)):
            if key[start - 1] == "_" and key[start:] in names:
                counts[key[:start]] += 1
    most = max(counts.values(), default=0)
    equal = (prefix for prefix, count in counts.items() if count == most)
    return sorted(equal, key=lambda prefix: (not prefix, len(prefix), prefix)) or [""]


def _knob(setting: Setting, names: Mapping[str, str], prefix: str) -> str | None:
    if setting.style == "flag":
        if not setting.key.startswith("--") or "_" in setting.key:
            return None
        return names.get(setting.key[2:].replace("-", "_").upper())
    key = setting.key.upper()
    if prefix and key.startswith(prefix) and key[len(prefix):] in names:
        return names[key[len(prefix):]]
    return names.get(key)


def _images(reading: ConfigReading, scope: str) -> tuple[tuple[str, Place], ...]:
    if not scope or len(reading.images) < 2:
        return reading.images
    # A reading does not say whose each image is: look again.
    return tuple((image, place) for image, place, owner in again(reading.text).images if owner in ("", scope))
