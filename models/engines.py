"""The engines that are described, and their models by version and container."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from models.declare import BadValue, EngineModel
from models.versions import HALOGEN, RADIANCE, Known, UnknownEngine, UnknownVersion, Version, parse_version

_KNOWN: Final[dict[str, Known]] = {"radiance": RADIANCE, "halogen": HALOGEN}
_ALIASES: Final = {"halogen-flash-server": "halogen", "halogen-flash": "halogen"}


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """One engine and the version asked about."""

    engine: str
    version: Version

    def __str__(self) -> str:
        return f"{self.engine}@{'.'.join(map(str, self.version))}"


def engine_names() -> tuple[str, ...]:
    """The engines that are described."""
    return tuple(_KNOWN)


def known_versions() -> str:
    """All described engines with their versions, for messages."""
    return "; ".join(f"{known.engine} {known.text()}" for known in _KNOWN.values())


def known_range(engine: str) -> tuple[tuple[Version, Version], ...]:
    """The described versions of an engine, as ranges with both ends, oldest first."""
    return tuple(sorted(_KNOWN[engine].ranges))


def engine_name(text: str) -> str:
    """The engine's own name. Raises UnknownEngine, naming the known ones."""
    name = text.strip().lower()
    name = _ALIASES.get(name, name)
    if name not in _KNOWN:
        raise UnknownEngine(f"engine {text.strip()!r} is not described; known: {known_versions()}")
    return name


def resolve(text: str) -> EngineVersion:
    """``radiance@1.0.13`` as engine and version.

    Raises UnknownEngine and UnknownVersion, both naming what is known.
    """
    name, _, version = text.partition("@")
    engine = engine_name(name)
    if not version.strip():
        raise UnknownVersion(f"{engine} needs a version, such as {engine}@1.2.3; known: {_KNOWN[engine].text()}")
    found = parse_version(engine, version)
    _KNOWN[engine].check(found)
    return EngineVersion(engine, found)


def build(of: EngineVersion, *, container: str, tp: int = 1) -> EngineModel:
    """The model of an engine version with the model file called ``container`` (a name or path; "" unknown).

    Raises BadValue when the version does not know what ``tp`` or the container ask for.
    """
    basis = _KNOWN[of.engine].basis(of.version)
    if of.engine == "radiance":
        from models.radiance.containers import recognise
        from models.radiance.engine import build as radiance

        allowed = (1, 2, 3, 4, 8) if of.version >= (1, 1, 1) else (1, 2, 4, 8)
        if tp not in allowed:
            raise BadValue(f"tp is {tp}; radiance {'.'.join(map(str, of.version))} takes {_listed(allowed)}")
        return radiance(of.version, basis, container=recognise(container), tp=tp)
    from models.halogen.engine import build as halogen
    from models.halogen.engine import recognise as checkpoint_of

    checkpoint = checkpoint_of(container)
    assumed = not container and of.version <= (0, 15, 0)
    return halogen(of.version, basis, checkpoint="w4b" if assumed else checkpoint, assumed=assumed)


def _listed(items: Iterable[int]) -> str:
    return ", ".join(map(str, items))
