"""JSON Schemas of the answers that ``--json`` prints."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

NAMES: Final = ("apply", "calibrate", "check", "collect", "error", "free", "gates", "history", "init", "laws", "ledger",
                "next", "pareto", "plan", "probe", "propose", "report", "sensitivity", "solve", "verdict", "why")

_SHARED: Final = "common.json#"


def schema(name: str) -> dict[str, Any]:
    """The schema of that name (one of :data:`NAMES`), complete in itself. Raises KeyError for any other."""
    if name not in NAMES:
        raise KeyError(name)
    own = _load(name)
    shared = _load("common")["$defs"] | own.get("$defs", {})
    for other in _whole(own):
        inner = _load(other)
        shared |= inner.pop("$defs", {}) | {f"answer_of_{other}": {key: item for key, item in inner.items()
                                                                   if not key.startswith("$") or key == "$ref"}}
    bundled: dict[str, Any] = _bundled(own | {"$defs": shared})
    return bundled


def _whole(node: Any) -> set[str]:
    """The schemas that a part of one refers to as a whole."""
    found = set[str]()
    for key, item in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "$ref" and item.removesuffix(".json") in NAMES:
            found.add(item.removesuffix(".json"))
        found |= _whole(item)
    return found


def _load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files(__package__) / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _bundled(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _pointer(item) if key == "$ref" else _bundled(item) for key, item in node.items()}
    return [_bundled(item) for item in node] if isinstance(node, list) else node


def _pointer(text: str) -> str:
    if text.startswith(_SHARED):
        return text.removeprefix("common.json")
    other = text.removesuffix(".json")
    return f"#/$defs/answer_of_{other}" if other in NAMES else text
