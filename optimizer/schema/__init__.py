"""JSON Schemas of the answers that ``--json`` prints."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

NAMES: Final = ("calibrate", "check", "error", "free", "init", "laws", "ledger", "next", "pareto", "propose", "solve",
                "why")

_SHARED: Final = "common.json#"


def schema(name: str) -> dict[str, Any]:
    """The schema of that name (one of :data:`NAMES`), complete in itself. Raises KeyError for any other."""
    if name not in NAMES:
        raise KeyError(name)
    own: dict[str, Any] = _bundled(_load(name))
    return own | {"$defs": _load("common")["$defs"] | own.get("$defs", {})}


def _load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files(__package__) / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _bundled(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: item.removeprefix("common.json") if key == "$ref" and item.startswith(_SHARED) else _bundled(item)
            for key, item in node.items()
        }
    return [_bundled(item) for item in node] if isinstance(node, list) else node
