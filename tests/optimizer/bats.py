"""Gates files run: many env files in one bash process, or one by bats itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

BASH = shutil.which("bash")
BATS = shutil.which("bats")

needs_bash = pytest.mark.skipif(BASH is None, reason="bash is not installed here")
needs_bats = pytest.mark.skipif(None in (BATS, BASH), reason="bats is not installed here: apt-get install bats")


def as_script(text: str) -> str:
    """A bats file as the bash it is made of: each test a function."""
    return re.sub(r'^@test ".*" \{$', "each_test() {", text, flags=re.MULTILINE)


def bash(script: str, folder: Path) -> str:
    """What a script prints; it must end well and say nothing on stderr."""
    file = folder / "script.sh"
    file.write_text(script, encoding="utf-8")
    assert BASH is not None
    done = subprocess.run([BASH, str(file)], capture_output=True, text=True, timeout=60, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    return done.stdout


def verdicts(text: str, names: Sequence[str], files: Sequence[Path], folder: Path) -> list[dict[str, str]]:
    """Each gate's verdict for each env file, by one bash process; empty for a file that it cannot read."""
    listed = " ".join(f"'{file}'" for file in files)
    head = text.partition("\n@test ")[0]
    told = bash(f"""{head}
for one in {listed}; do
  echo "file"
  if read_settings "$one" > /dev/null; then
    arithmetic
    for gate in {' '.join(names)}; do
      verdict=none
      gate_$gate > /dev/null || :
      echo "$gate $verdict"
    done
  fi
done
""", folder)
    found: list[dict[str, str]] = []
    for line in told.splitlines():
        if line == "file":
            found.append({})
        else:
            name, _, verdict = line.partition(" ")
            found[-1][name] = verdict
    assert len(found) == len(files)
    return found


def bats(file: Path, env: Mapping[str, str] | None = None, *, only: str = "") -> tuple[dict[str, bool], str]:
    """Which tests of a gates file pass, as bats itself says, and all that it said."""
    assert BATS is not None
    words = ["--filter", only] if only else []
    done = subprocess.run([BATS, "--tap", *words, str(file)], capture_output=True, text=True, timeout=120, check=False,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})})
    found = {match[2]: match[1] == "ok"
             for match in re.finditer(r"^(ok|not ok) \d+ (\w+):", done.stdout, flags=re.MULTILINE)}
    assert f"1..{len(found)}" in done.stdout, done.stdout + done.stderr
    assert done.returncode == (0 if all(found.values()) else 1)
    return found, done.stdout
