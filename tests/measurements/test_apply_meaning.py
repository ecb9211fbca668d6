"""What an edit means to those who read the file in earnest, bash and YAML: one value changes, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from measurements.config import map_settings
from measurements.config.comment import comment_above
from measurements.config.edit import Edit, edit
from tests.measurements.config_files import NAMES, SPELLING, read

#: Every value that is set stands at four, and is to be five.
OLD, NEW = "4", "5"


def asked(folder: Path, text: str, name: str, **others: str) -> tuple[Edit, str]:
    """The edit of ``text`` that sets the slots, commented, and the text that it gives."""
    reading = read(folder, text, name, **others)
    done = edit(reading, map_settings(reading, NAMES), {"max_num_seqs": NEW}, spelling=SPELLING)
    if not done.refused:
        done, _ = comment_above(reading, done, "of ours")
    return done, done.texts.get(str(folder / name), text)


def run(folder: Path, text: str) -> str:
    """What bash starts, with its words and variables, when it runs the script."""
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    for name in ("radiance", "sleep", "docker"):
        (bin_ / name).write_text('#!/bin/bash\necho "$(basename "$0") [$*] MAX_SEQS=$MAX_SEQS TP=$TP"\n')
        (bin_ / name).chmod(0o755)
    (folder / "run.sh").write_text(text)
    done = subprocess.run(["bash", "run.sh"], cwd=folder, env={"PATH": f"{bin_}:/usr/bin:/bin"}, text=True,
                          capture_output=True, check=False)
    return done.stdout + done.stderr


SCRIPTS = [
    "radiance --tp 2 \\\n  --max-num-seqs 4 \\\n  --ctx 9 # 4\n",
    "radiance --max-num-seqs='4' \"--tp=2\"\n",
    "N=4\nradiance --max-num-seqs \"$N\" --tp 2 # $N\n",
    "export MAX_SEQS=4 TP=2\n# MAX_SEQS=4\nradiance --ctx 9\n",
    "MAX_SEQS=4\nTP=2\nexport TP MAX_SEQS\nradiance\n",
    "A=(\n  --tp 2\n  --max-num-seqs 4 # four\n)\nradiance \"${A[@]}\"\n",
    "MAX_SEQS=4 radiance --tp 2\n",
    "cat <<E > /dev/null\nMAX_SEQS=4\nE\nradiance --tp 2 --max-num-seqs 4\n",
    "bash -c 'radiance --max-num-seqs 4 --tp 2'\n",
    "export MAX_SEQS=4\ndocker run -e MAX_SEQS -e TP=2 i\n",
    "if true; then\n  radiance --max-num-seqs 4\nfi\n",
    "for i in 1; do radiance --max-num-seqs 4; done\n",
    ". ./a.env\nradiance --max-num-seqs \"$MAX_SEQS\"\n",
]


@pytest.mark.parametrize("text", SCRIPTS)
def test_bash_starts_the_same_but_for_the_value(tmp_path: Path, text: str) -> None:
    text = "#!/bin/bash\n" + text
    other = {"a_env": "# 4\nMAX_SEQS='4'\nTP=2\n"} if "a.env" in text else {}
    before = (run(read_folder(tmp_path, other), text), text)
    done, new = asked(tmp_path, text, "x.sh", **other)
    assert done.refused == ()
    for file, changed in done.texts.items():
        Path(file).write_text(changed)
    after = run(tmp_path, new)
    assert OLD in before[0]
    assert after == before[0].replace(OLD, NEW)


def read_folder(folder: Path, others: dict[str, str]) -> Path:
    """``folder`` with the files that a script reads."""
    for name, text in others.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize(("text", "says"), [
    ("if [ -n \"$BIG\" ]; then\n  N=4\nelse\n  N=8\nfi\nradiance --max-num-seqs $N\n", "x.sh:5 stands in an if"),
    ("case $1 in\n big) N=8;;\n *) N=4;;\nesac\nradiance --max-num-seqs $N\n", "stands in an if or a case"),
    ("N=8\nN=4\nradiance --max-num-seqs $N\n", "feeds more than max_num_seqs"),
    ("if [ -n \"$BIG\" ]; then\n  N=4\nfi\nradiance --max-num-seqs $N\n", "stands in an if"),
    ("[ -n \"$BIG\" ] && N=4\nradiance --max-num-seqs $N\n", r"behind && or \|\|"),
    ("A=(--tp 2)\nif x; then A+=(--max-num-seqs 4); fi\nradiance \"${A[@]}\"\n", "stands in an if"),
    ("N=4\nsleep $N\nradiance --max-num-seqs $N\n", "x.sh:3, .*x.sh:4"),
    ("N=4\nradiance --max-num-seqs $N --host-pool-mib $((N*1000))\n", "feeds more"),
    ("N=4\ncat > a.env <<E\nMAX_SEQS=$N\nE\nradiance --max-num-seqs $N\n", "feeds more"),
    ("N=4\nread N < f\nradiance --max-num-seqs $N\n", "feeds more"),
    ("export MAX_SEQS=4\nunset MAX_SEQS\nradiance --tp 2\n", "feeds more"),
    ("C='radiance --max-num-seqs 4'\n$C\n", "it would change C at .*x.sh:2 too"),
])
def test_a_script_that_decides_more_is_left_alone(tmp_path: Path, text: str, says: str) -> None:
    done, _ = asked(tmp_path, "#!/bin/bash\n" + text, "x.sh")
    assert done.texts == {}
    ((_, why),) = done.refused
    assert re.search(says, why), why


LLM = "services:\n  llm:\n    image: i\n"
POD = "kind: Pod\nspec:\n  containers:\n  - name: llm\n"


def leaves(item: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every value of a document by the way to it, aliases followed."""
    if isinstance(item, dict):
        return {key: value for name, part in item.items() for key, value in leaves(part, (*path, name)).items()}
    if isinstance(item, list):
        return {key: value for place, part in enumerate(item) for key, value in leaves(part, (*path, place)).items()}
    return {path: item}


@pytest.mark.parametrize("text", [
    LLM + "    environment:\n      MAX_SEQS: 4 # 4\n      TP: 4\n",
    LLM + "    environment: &e {TP: 2, MAX_SEQS: \"4\"}\n",
    LLM + "    environment:\n    - TP=2\n    - 'MAX_SEQS=4'\n",
    LLM + "    command: >-\n      --tp 2\n      --max-num-seqs 4\n",
    LLM + "    command:\n    - sh\n    - -c\n    - |\n      exec radiance \\\n        --max-num-seqs 4\n",
    LLM + "    environment: {N: \"4\"}\n    command: sh -c \"radiance --max-num-seqs $$N\"\n",
    "x-n: &n 4\n" + LLM + "    environment: {MAX_SEQS: *n, TP: 2}\n",
    "x-e: &e\n  MAX_SEQS: 4\n  TP: 2\n" + LLM + "    environment: {<<: *e, CTX: 9}\n",
    POD + "    env:\n    - {name: N, value: \"4\"}\n    args: [--max-num-seqs, $(N), --tp, \"2\"]\n",
    POD + "    env:\n    - value: '4'\n      name: MAX_SEQS\n    - name: TP\n      value: \"2\"\n",
    POD + "    envFrom: [{configMapRef: {name: c}}]\n---\nkind: ConfigMap\nmetadata: {name: c}\ndata: {MAX_SEQS: 4}\n",
    "{\"services\": {\"llm\": {\"environment\": {\"MAX_SEQS\": 4, \"TP\": \"2\"}}}}",
])
def test_yaml_holds_the_same_but_for_the_value(tmp_path: Path, text: str) -> None:
    done, new = asked(tmp_path, text, "c.yaml")
    assert done.refused == ()
    before, after = (leaves(list(yaml.safe_load_all(content))) for content in (text, new))
    assert before.keys() == after.keys()
    # what only keeps a value to be used elsewhere is no place of its own
    changed = [path for path in before if before[path] != after[path] and not str(path[1]).startswith("x-")]
    assert len(changed) == 1
    assert str(after[changed[0]]) == str(before[changed[0]]).replace(OLD, NEW)


@pytest.mark.parametrize(("text", "others"), [
    (LLM + "    environment: {MAX_SEQS: &n 4}\n    deploy: {replicas: *n}\n", {}),
    ("x-n: &n 4\n" + LLM + "    environment: {MAX_SEQS: *n}\n    deploy: {replicas: *n}\n", {}),
    ("x-e: &e {MAX_SEQS: 4}\n" + LLM + "    environment: {<<: *e, TP: 2}\n  two: {image: j, labels: *e}\n", {}),
    (LLM + "    command: &c [--max-num-seqs, \"4\"]\n    x-copy: *c\n", {}),
    ("kind: Deployment\nspec:\n  replicas: &n 4\n"
     "  template: {spec: {containers: [{name: a, args: [--max-num-seqs, *n]}]}}\n", {}),
    (LLM + "    environment: {MAX_SEQS: '${N}'}\n    deploy: {replicas: '${N}'}\n", {"_env": "N = 4\n"}),
    (POD + "    env: [{name: N, value: \"4\"}]\n    args: [--max-num-seqs, $(N)]\n"
     "    readinessProbe: {exec: {command: [x, $(N)]}}\n", {}),
])
def test_yaml_that_takes_the_value_elsewhere_too_is_left_alone(tmp_path: Path, text: str,
                                                               others: dict[str, str]) -> None:
    done, _ = asked(tmp_path, text, "c.yaml", **others)
    assert done.texts == {}
    ((_, why),) = done.refused
    assert "used elsewhere too" in why or "feeds more than max_num_seqs" in why


@pytest.mark.parametrize(("name", "text", "others", "says"), [
    ("x.service", "[Service]\nEnvironment=N=4\nExecStartPre=x ${N}\nExecStart=r --max-num-seqs ${N}\n", {},
     "feeds more than max_num_seqs: it is taken or set at .*:3, .*:4"),
    ("x.env", "MAX_SEQS=4\nMAX_NUM_SEQS=4\n", {}, "x.env:1 and MAX_NUM_SEQS at .*x.env:2 mean the same"),
    ("x.env", "A=1 \\\nMAX_SEQS=4\n", {}, "x.env:2 follows a line that ends in a backslash"),
    ("x.service", "[Service]\nEnvironmentFile=a.env\nExecStart=r\n", {"a_env": "# so \\\nMAX_SEQS=4\n"},
     "a.env:2 follows a line that ends in a backslash"),
    ("x.service", "[Service]\nEnvironmentFile=a.env\nExecStart=r\n", {"a_env": "export MAX_SEQS=4\n"},
     "a.env:1 has export before it, which systemd does not read"),
    ("c.yaml", LLM + "    env_file: [{path: a.env, format: raw}]\n", {"a_env": "MAX_SEQS=\"4\"\n"},
     "has quotes, which compose with format: raw takes for a part of it"),
])
def test_what_some_reader_takes_otherwise_is_left_alone(tmp_path: Path, name: str, text: str, others: dict[str, str],
                                                        says: str) -> None:
    done, _ = asked(tmp_path, text, name, **others)
    assert done.texts == {}
    ((_, why),) = done.refused
    assert re.search(says, why), why


def test_what_a_file_did_not_hold_before_must_be_taken_by_something(tmp_path: Path) -> None:
    done, new = asked(tmp_path, "TP=2\n", "x.env")
    assert new.endswith("\nMAX_SEQS=5\n")
    assert done.notes == (f"MAX_SEQS is new in {tmp_path / 'x.env'}: see that what starts the server takes it",)
    assert asked(tmp_path, "radiance --tp 2\n", "x.sh")[0].notes == ()
