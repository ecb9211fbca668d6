from __future__ import annotations

from pathlib import Path

from measurements.config import read_config
from tests.measurements.config_files import check_spans, one, read, values, written

UNIT = """\
[Unit]
Description=a server
Environment=NOT=here

[Service]
# a comment
Environment="H_CTX=4096" 'H_NAME=two words' H_KV_SLOTS=4
Environment=H_MAX_TOK=1 \\
  H_FIT=1
EnvironmentFile=-/nowhere/at/all
EnvironmentFile=more.env
ExecStartPre=/bin/sleep --seconds 3
ExecStart=-/usr/bin/radiance --tp 2 \\
  ; in between
  --max-num-seqs=${H_KV_SLOTS} --port "8000"
"""


def test_a_unit(tmp_path: Path) -> None:
    for text in (UNIT, UNIT.replace("\n", "\r\n"), "\ufeff" + UNIT):
        reading = read(tmp_path, text, "a.service", more_env="H_CTX=8192\n")
        assert values(reading) == {"H_CTX": "8192", "H_NAME": "two words", "H_KV_SLOTS": "4",
                                   "H_MAX_TOK": "1",
                                   "H_FIT": "1", "--tp": "2", "--max-num-seqs": "4", "--port": "8000"}
        check_spans(reading)
        assert one(reading, "--port").place.line == 15
        assert one(reading, "--max-num-seqs").place.line == 7
        assert one(reading, "H_FIT").place.line == 9
        assert reading.warnings == ()


def test_an_empty_assignment_takes_back(tmp_path: Path) -> None:
    reading = read(tmp_path, "[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n"
                             "ExecStart=x --tp 1\nExecStart=\nExecStart=x --tp 2\n")
    assert [(s.key, s.value) for s in reading.settings] == [("B", "2"), ("--tp", "2")]


def test_a_quadlet(tmp_path: Path) -> None:
    reading = read(tmp_path, "[Container]\nImage=docker.io/x/hal:0.13.0\nEnvironment=H_CTX=4096\n"
                             "Exec=--tp 2 --max-num-seqs 8\n", "hal.container")
    assert values(reading) == {"H_CTX": "4096", "--tp": "2", "--max-num-seqs": "8"}
    assert reading.images[0][0] == "docker.io/x/hal:0.13.0"
    assert written(reading, one(reading, "--max-num-seqs")) == "8"


def test_a_missing_env_file_without_a_dash_is_a_warning(tmp_path: Path) -> None:
    reading = read(tmp_path, "[Service]\nEnvironmentFile=gone.env\nExecStart=x --tp 1\n")
    assert "gone.env" in reading.warnings[0]
    assert ":2:" in reading.warnings[0]


def test_a_unit_that_starts_a_container(tmp_path: Path) -> None:
    reading = read(tmp_path, "[Service]\nExecStart=/usr/bin/podman run --rm -e H_CTX=1 hal:1 --tp 2\n")
    assert values(reading) == {"H_CTX": "1", "--tp": "2"}
    assert reading.images[0][0] == "hal:1"


def test_a_drop_in_takes_back_what_the_unit_set(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text("[Service]\nEnvironment=H_CTX=1\nExecStart=x --tp 1 --max-num-seqs 8\n")
    (tmp_path / "b.conf").write_text("[Service]\nExecStart=\nExecStart=x --tp 2\n")
    assert values(read_config([tmp_path / "a.service", tmp_path / "b.conf"])) == {"H_CTX": "1", "--tp": "2"}


def test_what_is_not_read_of_a_unit_is_told(tmp_path: Path) -> None:
    reading = read(tmp_path, "[Container]\nImage=i\nPodmanArgs=--env H_CTX=1 --memory 4g\nExec=--tp 2\n", "a.container")
    assert ":3: what PodmanArgs= sets is not read" in reading.warnings[0]
    reading = read(tmp_path, "[Service]\nEnvironmentFile=e.env\nExecStart=x --tp 2\n", "a.service",
                   e_env="export H_CTX=1\n")
    assert "e.env:1: H_CTX has export before it, which systemd does not read" in reading.warnings[0]
