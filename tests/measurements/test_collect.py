"""Collecting a host: made-up file systems, programs of our own on PATH, and secrets planted in every file."""

from __future__ import annotations

import base64
import os
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measurements import collect as collecting
from measurements.collect import Collected, Item, Ran, collect, run
from measurements.config import read_config
from measurements.host import read_host
from measurements.ledger import read_ledger
from measurements.records import ReadError
from models.interval import point
from tests.measurements.ledger_logs import LOGS, log

MEMINFO = "MemTotal:       127104060 kB\nMemFree:         9000 kB\nMemAvailable:   77594624 kB\nSwapTotal: 0 kB\n"
KEY = "sk-live-4f8Kq2Xv9Rt4Yw7Zb1Nc6"
TOKEN = "hf_Zb1Nc6Md3Pf5Hg0AkJ8sLq2X"
WORD = "opensesame-and-more"
SECRETS = (KEY, TOKEN, WORD)
#: What no command of a test may reach.
NOWHERE = "/nowhere"


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def system(folder: Path) -> Path:
    """A file system with two cards."""
    put(folder, "proc/meminfo", MEMINFO)
    put(folder, "proc/sys/kernel/osrelease", "6.14.0-test\n")
    put(folder, "sys/module/ttm/parameters/pages_limit", "31457280\n")
    for card in (0, 1):
        for name, value in (("vram_total", 34_208_743_424), ("vram_used", 277_399_142), ("gtt_total", 66_000_000_000),
                            ("gtt_used", 1_000_000)):
            put(folder, f"sys/class/drm/card{card}/device/mem_info_{name}", f"{value + card}\n")
    put(folder, "sys/class/drm/card0-DP-1/status", "connected\n")
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = put(folder, name, f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def items(found: Collected) -> dict[str, Item]:
    return {item.name: item for item in found.items}


def answers(**said: Ran | None) -> tuple[Callable[[Sequence[str], float, bool], Ran | None], list[list[str]]]:
    """Programs that answer by their first words joined with ``_``; all others are not installed."""
    asked: list[list[str]] = []

    def ask(words: Sequence[str], seconds: float, together: bool) -> Ran | None:
        asked.append(list(words))
        assert 0 < seconds <= 120
        named = [word for word in words if not word.startswith("-")]
        return said.get("_".join(named[:2])) or said.get(named[0])

    return ask, asked


def test_a_folder_that_the_readers_read(tmp_path: Path) -> None:
    found = collect(tmp_path / "out", root=system(tmp_path / "root"))
    facts = read_host(tmp_path / "out")
    assert facts["mem_total"].value == point(127104060 * 1024)
    assert facts["mem_available"].value == point(77594624 * 1024)
    assert facts["ttm_limit"].value == point(31457280 * 4096)
    assert facts["card_total.1"].value == point(34_208_743_425)
    assert facts["gtt_used.0"].value == point(1_000_000)
    assert "memlock" not in facts
    assert (tmp_path / "out" / "meminfo").read_text(encoding="utf-8") == MEMINFO
    assert items(found)["memlock"].state == "not asked"
    said = tomllib.loads((tmp_path / "out" / "MANIFEST.toml").read_text(encoding="utf-8"))
    assert [item["name"] for item in said["item"]] == [item.name for item in found.items]
    for item in said["item"]:
        assert item["when"].endswith("Z")
        assert (item["state"] == "taken") == ((tmp_path / "out" / item.get("file", "gone")).is_file())
        assert item["state"] == "taken" or item["why"]


def test_a_machine_without_any_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", NOWHERE)
    (tmp_path / "root").mkdir()
    found = collect(tmp_path / "out", root=tmp_path / "root", configs=[tmp_path / "gone.env"])
    assert {item.state for item in found.items} == {"absent", "not asked"}
    assert all(item.why for item in found.items)
    assert read_host(tmp_path / "out") == {}
    here = collect(tmp_path / "here", container="llm")
    assert items(here)["service log"].state == "absent"
    assert items(here)["service log"].why == "podman is not installed; docker is not installed"
    assert items(here)["memlock"].state == "absent"


@pytest.mark.parametrize(("name", "text", "what", "why"), [
    ("proc/meminfo", "Hello: 1\n", "meminfo", "no MemTotal"),
    ("proc/meminfo", "MemTotal: 12 MB\n", "meminfo", "no MemTotal"),
    ("sys/module/ttm/parameters/pages_limit", "many\n", "ttm_limit", "not one whole number"),
    ("sys/class/drm/card1/device/mem_info_vram_total", "\n", "card1 vram_total", "not one whole number"),
    ("sys/class/drm/card1/device/mem_info_vram_total", "1\0", "card1 vram_total", "a binary file"),
])
def test_what_the_readers_could_not_use_is_left_out_and_said(
    name: str, text: str, what: str, why: str, tmp_path: Path
) -> None:
    put(system(tmp_path / "root"), name, text)
    item = items(collect(tmp_path / "out", root=tmp_path / "root"))[what]
    assert (item.state, item.file) == ("unusable", None)
    assert why in str(item.why)
    assert read_host(tmp_path / "out")  # all else is there


def test_what_may_not_be_read_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = system(tmp_path / "root")
    opened = Path.open

    def denied(path: Path, *words: Any, **more: Any) -> Any:
        if path.name == "pages_limit" and root in path.parents:  # root itself may read everything
            raise PermissionError(13, "Permission denied")
        return opened(path, *words, **more)

    monkeypatch.setattr(Path, "open", denied)
    item = items(collect(tmp_path / "out", root=root))["ttm_limit"]
    assert (item.state, item.command) == ("no permission", "sudo cat /sys/module/ttm/parameters/pages_limit")


def test_a_larger_page(tmp_path: Path) -> None:
    put(tmp_path, "pages_limit", "100\n")
    put(tmp_path, "page_size", "65536\n")
    assert read_host(tmp_path)["ttm_limit"].value == point(6_553_600)
    put(tmp_path, "page_size", "5000\n")
    with pytest.raises(ReadError, match="power of two"):
        read_host(tmp_path)


def test_the_log_of_a_container_and_the_limit_of_its_process(tmp_path: Path) -> None:
    text = log("radiance-derived")
    ask, asked = answers(podman_inspect=Ran(0, f"{os.getpid()}\n".encode()), podman_logs=Ran(0, text.encode()))
    found = collect(tmp_path / "out", container="llm", ask=ask)
    assert asked == [["podman", "inspect", "--type", "container", "--format", "{{.State.Pid}}", "llm"],
                     ["podman", "logs", "llm"]]
    assert read_ledger(tmp_path / "out" / "boot.log").engine == "radiance"
    if Path("/proc/self/limits").exists():
        assert items(found)["memlock"].source == f"/proc/{os.getpid()}/limits"
        assert "memlock" in read_host(tmp_path / "out")
    # the server runs: what is available now is not what a start has
    assert "mem_available" not in read_host(tmp_path / "out")
    assert "MemAvailable" in (tmp_path / "out" / "running" / "meminfo").read_text(encoding="utf-8")
    assert found.notes == ()


def test_docker_where_podman_does_not_know_it(tmp_path: Path) -> None:
    ask, _ = answers(podman=Ran(125, b"", b"Error: no such container llm\n"), docker_inspect=Ran(0, b"0\n"),
                     docker_logs=Ran(0, log("halogen-fits").encode()))
    found = collect(tmp_path / "out", container="llm", ask=ask)
    assert items(found)["service log"].source == "docker logs llm"
    assert items(found)["memlock"].state == "absent"
    assert "does not run" in str(items(found)["memlock"].why)
    assert "mem_available" in read_host(tmp_path / "out")


def test_a_container_that_stands_still_is_not_looked_for_elsewhere(tmp_path: Path) -> None:
    ask, asked = answers(podman_inspect=Ran(0, b"0\n"), podman_logs=Ran(0, log("halogen-fits").encode()),
                         docker=Ran(1, b"", b"Error: No such container: llm\n"))
    found = collect(tmp_path / "out", container="llm", ask=ask)
    assert [words[0] for words in asked] == ["podman", "podman"]
    assert items(found)["memlock"].why == "podman: the container does not run"
    assert items(found)["memlock"].command is None


@pytest.mark.parametrize(("done", "state", "command"), [
    (Ran(None, b"half of"), "timed out", "podman logs llm"),
    (Ran(125, b"", b"Error: permission denied\n"), "no permission", "sudo podman logs llm"),
    (Ran(125, b"Error: no such container llm\n"), "absent", "sudo podman logs llm"),
    (Ran(1, b"", b"Error: database is locked\n"), "failed", "podman logs llm"),
    (Ran(0, b" \n"), "empty", "sudo podman logs llm"),
])
def test_a_log_that_does_not_come(done: Ran, state: str, command: str, tmp_path: Path) -> None:
    ask, _ = answers(podman=done)
    item = items(collect(tmp_path / "out", container="llm", ask=ask))["service log"]
    assert (item.state, item.command, item.file) == (state, command, None)
    assert not (tmp_path / "out" / "boot.log").exists()


def test_a_unit(tmp_path: Path) -> None:
    shown = b"LoadState=loaded\nMainPID=0\nLimitMEMLOCKSoft=infinity\n"
    ask, asked = answers(systemctl=Ran(0, shown), journalctl=Ran(0, log("halogen-v2").encode()))
    found = collect(tmp_path / "out", unit="llm@1.service", ask=ask)
    assert asked[-1][-1] == "--unit=llm@1.service"
    assert read_host(tmp_path / "out")["memlock"].value == "unlimited"
    assert items(found)["service log"].state == "taken"
    ask, asked = answers(systemctl=Ran(0, b"LoadState=not-found\n"), journalctl=Ran(
        0, b"-- No entries --\n", b"Hint: You are currently not seeing messages from other users and the system.\n"))
    found = collect(tmp_path / "other", unit="llm", ask=ask)
    assert asked[-1][-1] == "--user-unit=llm"
    assert items(found)["service log"].state == "no permission"
    assert str(items(found)["service log"].command).startswith("sudo journalctl ")
    assert items(found)["memlock"].state == "absent"


def test_another_root_has_a_journal_of_its_own(tmp_path: Path) -> None:
    ask, asked = answers(journalctl=Ran(0, log("halogen-v2").encode()), podman=Ran(0, b"not asked"))
    collect(tmp_path / "out", unit="llm", root=system(tmp_path / "root"), ask=ask)
    assert [words[:3] for words in asked] == [["journalctl", "--directory", str(tmp_path / "root/var/log/journal")]]
    found = collect(tmp_path / "other", container="llm", root=tmp_path / "root", ask=ask)
    assert len(asked) == 1
    assert items(found)["service log"].state == "not asked"


def test_programs_are_really_run_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program(tmp_path, "podman", 'echo "$# $2"; echo wrong >&2')
    assert run(["podman", "logs", "a b;c"], 10, True) == Ran(0, b"2 a b;c\nwrong\n")
    assert run(["podman", "logs", "x"], 10, False) == Ran(0, b"2 x\n", b"wrong\n")
    assert run(["no-such-program-here"], 10, True) is None
    program(tmp_path, "podman", "echo first; sleep 60 & sleep 60")
    begun = time.monotonic()
    assert run(["podman"], 0.5, True) == Ran(None, b"first\n")
    assert time.monotonic() - begun < 10
    monkeypatch.setattr(collecting, "HEAD", 1000)
    monkeypatch.setattr(collecting, "TAIL", 3000)
    program(tmp_path, "podman", "seq 1 100000")
    done = run(["podman"], 30, True)
    assert done is not None
    lines = done.out.decode().split("\n")
    assert (lines[0], lines[-2]) == ("1", "100000")
    assert lines.count("") == 3  # one gap, and the end
    assert all(line == "" or line.isdigit() for line in lines)
    assert len(done.out) - 2 + done.left_out == len("".join(f"{n}\n" for n in range(1, 100_001)))
    assert len(done.out) < 1000 + 3000 + (1 << 16) + 2


CONFIGS = {
    "serve.env": f"HALOGEN_CTX=262144\nHALOGEN_KV_SLOTS=4\nAPI_KEY={KEY}\nHF_TOKEN='{TOKEN}'\nDB_PASSWORD={WORD}\n",
    "compose.yaml": "services:\n  llm:\n    image: halogen:0.13.0\n    env_file: env/more.env\n    environment:\n"
                    f"      API_KEY: {KEY}\n      DB_PASSWORD: \"{WORD}\"\n",
    "env/more.env": f"HALOGEN_MAX_TOK=32768\nHF_TOKEN={TOKEN}\n",
    "llm.service": f"[Service]\nEnvironment=HF_TOKEN={TOKEN}\nEnvironment=\"DB_PASSWORD={WORD}\"\n"
                   f"ExecStart=/usr/bin/radiance --tp 2 --api-key {KEY}\n",
}


def planted(text: str) -> str:
    """A text with secrets by name, by look, and one that only a config tells to be one."""
    return f"{text}Authorization: Bearer {TOKEN}\nusing key {KEY} now\napi_key={WORD}\nconnected as {WORD} to it\n"


def test_no_secret_is_in_any_file(tmp_path: Path) -> None:
    root = system(tmp_path / "root")
    put(root, "proc/meminfo", planted(MEMINFO))
    put(root, "proc/sys/kernel/osrelease", planted("6.14\n"))
    paths = [put(tmp_path / "own", name, text) for name, text in CONFIGS.items()]
    ask, _ = answers(journalctl=Ran(0, planted(log("halogen-fits")).encode()))
    given = [path for path in paths if path.name != "more.env"]
    found = collect(tmp_path / "out", unit="llm", root=root, configs=given, ask=ask)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {"meminfo", "kernel", "boot.log", "serve.env", "compose.yaml", "llm.service", "more.env"} <= {
        path.name for path in files}
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not [secret for secret in SECRETS if secret in text], path.name
    assert "connected as <secret> to it" in (tmp_path / "out" / "boot.log").read_text(encoding="utf-8")
    assert not [secret for secret in SECRETS if secret in str(found)]
    # what is no secret is as it was, and read as before
    assert read_host(tmp_path / "out")["mem_total"].value == point(127104060 * 1024)
    before = {(s.key, s.value, s.style) for s in read_config(given).settings if not s.secret}
    after = {(s.key, s.value, s.style) for s in read_config([tmp_path / "out" / p.name for p in given]).settings
             if not s.secret}
    assert after == before


KUBERNETES = f"""apiVersion: v1
kind: Secret
metadata: {{name: llm}}
data:
  first: {base64.b64encode(WORD.encode()).decode()}
stringData:
  second: |
    {TOKEN}
  third: plain words of it
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: llm}}
data:
  HALOGEN_CTX: "262144"
  HALOGEN_KV_SLOTS: "4"
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm}}
spec:
  template:
    spec:
      containers:
      - name: llm
        image: halogen:0.13.0
        env:
        - name: HALOGEN_CTX
          valueFrom:
            configMapKeyRef:
              name: llm
              key: HALOGEN_CTX
        - {{name: HALOGEN_KV_SLOTS, valueFrom: {{configMapKeyRef: {{name: llm, key: HALOGEN_KV_SLOTS}}}}}}
        - name: HF_TOKEN
          valueFrom: {{secretKeyRef: {{name: llm, key: first}}}}
        - name: DB_PASSWORD
          value: |
            {KEY}
"""


def test_a_manifest_loses_its_secrets_and_nothing_that_is_read(tmp_path: Path) -> None:
    own = put(tmp_path, "own/llm.yaml", KUBERNETES)
    ask, _ = answers(podman=Ran(0, planted(log("halogen-fits")).encode()))
    collect(tmp_path / "out", container="llm", configs=[own], ask=ask)
    texts = {name: (tmp_path / "out" / name).read_text(encoding="utf-8") for name in ("llm.yaml", "boot.log")}
    secrets = (*SECRETS, base64.b64encode(WORD.encode()).decode(), "plain words of it")
    for text in texts.values():
        assert not [secret for secret in secrets if secret in text]
    assert "connected as <secret> to it" in texts["boot.log"]  # it stands in the Secret in base64 alone
    read, again = read_config([own]), read_config([tmp_path / "out" / "llm.yaml"])
    assert [s.value for s in read.settings if not s.secret] == ["262144", "4"]
    assert [(s.key, s.value) for s in again.settings if not s.secret] == [
        (s.key, s.value) for s in read.settings if not s.secret]
    assert [image for image, _ in again.images] == ["halogen:0.13.0"]


def test_the_password_of_a_login_is_looked_for_alone(tmp_path: Path) -> None:
    own = put(tmp_path, "serve.env", f"CTX=1\nPROXY=http://bob:{WORD}@proxy:3128/\n")
    ask, _ = answers(podman=Ran(0, f"{log('halogen-fits')}bob said {WORD} twice\n".encode()))
    collect(tmp_path / "out", container="llm", configs=[own], ask=ask)
    assert "bob said <secret> twice" in (tmp_path / "out" / "boot.log").read_text(encoding="utf-8")


def test_a_key_behind_its_scheme_and_digits_alone(tmp_path: Path) -> None:
    """Digits count as a whole word only: they may be part of a figure."""
    own = put(tmp_path, "serve.env", f"CTX=1\nHEADERS=Authorization: Bearer {WORD}\nDB_PASSWORD=48151623\n")
    text = f"{log('halogen-fits')}with {WORD}\npin 48151623, 3448151623 B, 0.48151623\n"
    ask, _ = answers(podman=Ran(0, text.encode()))
    collect(tmp_path / "out", container="llm", configs=[own], ask=ask)
    told = (tmp_path / "out" / "boot.log").read_text(encoding="utf-8")
    assert told.endswith("with <secret>\npin <secret>, 3448151623 B, 0.48151623\n")


def test_a_compose_file_can_be_read_as_before(tmp_path: Path) -> None:
    own = put(tmp_path, "compose.yml", "services:\n  llm:\n    image: x/halogen:0.13.0\n"
              "    environment:\n      - HALOGEN_CTX=4\n"
              f'    labels:\n      - "proxy.auth.users=admin:{WORD}/"\n      - "a=b"\n')
    collect(tmp_path / "out", configs=[own], root=system(tmp_path / "root"))
    copy = tmp_path / "out" / "compose.yml"
    assert WORD not in copy.read_text(encoding="utf-8")
    before, after = ([(item.key, item.value) for item in read_config([file]).settings] for file in (own, copy))
    assert before == after == [("HALOGEN_CTX", "4")]


def test_a_word_of_the_engine_is_not_torn_out_of_its_log(tmp_path: Path) -> None:
    own = put(tmp_path, "serve.env", f"CTX=1\nSORT_KEY=memory\nDB_PASSWORD=halogen\nAPI_KEY={WORD}\n")
    text = f"{log('halogen-fits')}seen {WORD}\n"
    ask, _ = answers(podman=Ran(0, text.encode()))
    found = collect(tmp_path / "out", container="llm", configs=[own], ask=ask)
    assert (tmp_path / "out" / "boot.log").read_text(encoding="utf-8") == text.replace(WORD, "<secret>")
    assert any(note.startswith("boot.log: ") for note in found.notes)


def test_what_a_program_says_of_a_failure_holds_no_secret(tmp_path: Path) -> None:
    own = put(tmp_path, "own/serve.env", CONFIGS["serve.env"])
    ask, _ = answers(podman=Ran(1, b"", f"Error: login {WORD} refused, key {KEY}\n".encode()))
    found = collect(tmp_path / "out", container="llm", configs=[own], ask=ask)
    text = (tmp_path / "out" / "MANIFEST.toml").read_text(encoding="utf-8")
    assert not [secret for secret in SECRETS if secret in text + str(found)]
    assert "refused" in text


@pytest.mark.parametrize("name", LOGS)
def test_a_log_reads_as_before(name: str, tmp_path: Path) -> None:
    ask, _ = answers(podman=Ran(0, log(name).encode()))
    collect(tmp_path / "out", container="llm", ask=ask)
    own = put(tmp_path, "own.log", log(name))
    read, again = read_ledger(own), read_ledger(tmp_path / "out" / "boot.log")

    def figures(reading: Any) -> dict[str, Any]:
        return {key: (item.value, item.unit) for part in (reading.facts, reading.rows, reading.knobs)
                for key, item in part.items()}

    assert figures(again) == figures(read)
    assert replace(again, facts={}, rows={}, knobs={}, findings=()) == replace(
        read, facts={}, rows={}, knobs={}, findings=())


def test_configs_that_cannot_be_taken_are_said(tmp_path: Path) -> None:
    own = put(tmp_path, "own/serve.env", "CTX=1\n")
    other = put(tmp_path, "other/serve.env", "CTX=2\n")
    binary = put(tmp_path, "own/binary.env", "\0")
    empty = put(tmp_path, "own/empty.env", "\n")
    far = put(tmp_path, "own/compose.yaml",
              "services:\n  a:\n    image: halogen:0.13.0\n    env_file: ../other/serve.env\n")
    found = collect(tmp_path / "out", configs=[own, other, binary, empty, tmp_path, far], root=tmp_path)
    states = [(item.state, item.file) for item in found.items if item.name == "config"]
    assert states == [("taken", "serve.env"), ("not asked", None), ("unusable", None), ("empty", None),
                      ("unusable", None), ("taken", "compose.yaml")]
    assert [item.state for item in found.items if item.name == collecting.INCLUDED] == ["not asked"]
    assert (tmp_path / "out" / "serve.env").read_text(encoding="utf-8") == "CTX=1\n"


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    full = put(tmp_path, "full/mine", "x").parent
    for folder in (full, full / "mine"):
        with pytest.raises(ReadError, match="holds something"):
            collect(folder, root=tmp_path)
    assert [path.name for path in full.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    collect(tmp_path / "empty", root=tmp_path)
    assert (tmp_path / "empty" / "MANIFEST.toml").exists()


@pytest.mark.parametrize("name", ["-v", "--privileged", "a b", "a;b", "", "a/b", "$(id)"])
def test_names_that_cannot_be(name: str, tmp_path: Path) -> None:
    ask, asked = answers()
    for container, unit in ((name, None), (None, name)):
        with pytest.raises(ReadError, match="cannot be a name"):
            collect(tmp_path / "out", root=tmp_path, ask=ask, container=container, unit=unit)
    assert asked == []
    assert not (tmp_path / "out").exists()
