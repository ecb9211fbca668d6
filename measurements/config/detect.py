"""Which kind of file this is, told from what it holds; its name only decides where that leaves a doubt."""

from __future__ import annotations

import os
import re
from typing import Final, Literal

from measurements.config.env import LINE
from measurements.config.trace import Source

Dialect = Literal["env", "shell", "yaml", "systemd"]

_SECTION: Final = re.compile(r"\[[A-Z][A-Za-z0-9\-]*\]")
_YAML_START: Final = re.compile(r"---(?:\s|$)|%YAML|\{\s*(?:$|[\"'])")
_YAML_KEY: Final = re.compile(r"[\"']?[A-Za-z_][\w.\-]*[\"']?[ \t]*:(?:[ \t]|$)")
# VAR=1 program --flag ...: an assignment in front of a command, not a value with spaces in it.
_COMMAND: Final = re.compile(
    r"(?:[A-Za-z_]\w*=[^\s'\"]*[ \t]+)+[^\s\-#=][^\s=]*(?:[ \t]+\S+)*?[ \t]+--[A-Za-z]")


def dialect(source: Source) -> Dialect:
    """The dialect of ``source``. Anything that is nothing else is read as a shell would read it."""
    name = os.path.basename(source.file).lower()
    text = source.text.lstrip("\ufeff")
    if text.startswith("#!"):
        return "shell"
    lines = [line for line in (raw.strip() for raw in text.split("\n")) if line and line[0] not in "#;"]
    first = lines[0] if lines else ""
    if _SECTION.fullmatch(first):
        return "systemd"
    if _YAML_START.match(first) or (_YAML_KEY.match(first) and not LINE.match(first)):
        return "yaml"
    if name.endswith((".yml", ".yaml", ".json")):
        return "yaml"
    if name == ".env" or name.startswith(".env.") or name.endswith(".env"):
        return "env"
    if name.endswith((".sh", ".bash")):
        return "shell"
    return "env" if lines and all(_is_env(line) for line in lines) else "shell"


def _is_env(line: str) -> bool:
    match = LINE.match(line)
    return match is not None and not line.startswith("(", match.end()) and not _COMMAND.match(line[:4096])
