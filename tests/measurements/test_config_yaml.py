from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from measurements.records import ReadError
from tests.measurements.config_files import check_spans, one, read, values, written

COMPOSE = """\
x-shared: &shared
  H_CTX: 4096
services:
  store:
    image: store:16
    environment:
      STORE_PASSWORD: opensesame
  hal:
    image: "registry/hal:0.13.0"
    env_file: [more.env, {path: gone.env, required: false}]
    environment:
      <<: *shared
      H_KV_SLOTS: "4"  # slots
      H_MAX_TOK: ${TOK:-16384}
      H_HOST:
  rad:
    image: rad:1
    environment: ["R_A=1", R_B=2]
    command: >-
      --tp 2
      --max-num-seqs ${SEQS:-8}
      --price $$4
  bra:
    entrypoint: [radiance]
    command: ["--tp", "2", '--max-num-seqs=8', --api-key, opensesame]
  das:
    command:
      - --tp
      - 2
      - "--max-num-seqs=8"
"""


@pytest.mark.parametrize("text", [COMPOSE, COMPOSE.replace("\n", "\r\n"), "\ufeff" + COMPOSE,
                                  "# \N{GRINNING FACE} \u00e9\n---\n" + COMPOSE])
def test_compose(tmp_path: Path, text: str) -> None:
    reading = read(tmp_path, text, "compose.yml", more_env="H_RESERVE=20\n")
    assert values(reading, "store") == {"STORE_PASSWORD": "<secret>"}
    assert values(reading, "hal") == {"H_RESERVE": "20", "H_CTX": "4096", "H_KV_SLOTS": "4",
                                      "H_MAX_TOK": "16384"}
    assert values(reading, "rad") == {"R_A": "1", "R_B": "2", "--tp": "2", "--max-num-seqs": "8",
                                      "--price": "$4"}
    assert values(reading, "bra") == {"--tp": "2", "--max-num-seqs": "8", "--api-key": "<secret>"}
    assert values(reading, "das") == {"--tp": "2", "--max-num-seqs": "8"}
    check_spans(reading)
    for setting in reading.settings:
        line = text.split("\n")[(setting.place.line or 0) - 1]
        assert setting.key in line or "<<" in line or setting.place.file.endswith("more.env")
    assert [image for image, _ in reading.images] == ["store:16", "registry/hal:0.13.0", "rad:1"]
    assert len(reading.warnings) == 1
    assert "H_HOST" in reading.warnings[0]
    assert reading.text[str(tmp_path / "compose.yml")] == text


def test_compose_takes_variables_from_the_env_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SEQS=4\nPASSWORD=opensesame\n")
    reading = read(tmp_path, "services:\n  a:\n    command: --max-num-seqs ${SEQS:-8} --x ${PASSWORD}\n",
                   "c.yaml")
    flag = one(reading, "--max-num-seqs")
    assert (flag.value, flag.place.file, flag.place.line) == ("4", str(tmp_path / ".env"), 1)
    assert written(reading, flag) == "4"
    assert one(reading, "--x").value == "<secret>"
    assert [setting.key for setting in reading.settings] == ["--max-num-seqs", "--x"]


def test_a_shell_in_a_container(tmp_path: Path) -> None:
    reading = read(tmp_path,
                   "services:\n  a:\n    environment: {N: 4}\n    command:\n      - sh\n      - -c\n"
                             "      - |\n        set -e\n        exec radiance --tp 2 \\\n"
                             "          --max-num-seqs $$N --port 80\n", "c.yaml")
    assert values(reading) == {"N": "4", "--tp": "2", "--max-num-seqs": "4", "--port": "80"}
    check_spans(reading)
    assert (one(reading, "--tp").place.line, one(reading, "--max-num-seqs").place.line) == (9, 3)


def test_escapes_in_yaml_cannot_be_edited_but_are_read(tmp_path: Path) -> None:
    reading = read(tmp_path, 'services:\n  a:\n    command: "radiance --a \\"4\\" --b\\t5"\n', "c.yaml")
    assert values(reading) == {"--a": "4", "--b": "5"}
    assert [(setting.span, setting.place.line) for setting in reading.settings] == [(None, 3), (None, 3)]


KUBERNETES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cfg}
data:
  H_CTX: "4096"
  other.conf: |
    X=1
    Y=2
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {word: opensesame}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  template:
    spec:
      initContainers: [{name: first, image: i, args: [--tp, "9"]}]
      containers:
        - name: hal
          image: hal:0.13.0
          envFrom:
            - configMapRef: {name: cfg}
            - secretRef: {name: hidden}
          env:
            - name: H_KV_SLOTS
              value: "4"
            - {name: H_FIT, value: '1'}
            - name: H_COPY
              valueFrom: {configMapKeyRef: {name: cfg, key: H_CTX}}
            - name: H_WORD
              valueFrom: {secretKeyRef: {name: hidden, key: word}}
          command: [radiance]
          args: ["--tp", "2", "--max-num-seqs=$(H_KV_SLOTS)", "--port", "$(NOT_SET)"]
"""


@pytest.mark.parametrize("text", [KUBERNETES, KUBERNETES.replace("\n", "\r\n"), "\ufeff" + KUBERNETES])
def test_kubernetes(tmp_path: Path, text: str) -> None:
    reading = read(tmp_path, text, "pod.yaml")
    assert values(reading) == {"H_CTX": "4096", "H_KV_SLOTS": "4", "H_FIT": "1", "H_COPY": "4096",
                               "H_WORD": "<secret>", "--tp": "2", "--max-num-seqs": "4",
                               "--port": "$(NOT_SET)"}
    check_spans(reading)
    assert one(reading, "H_KV_SLOTS").place.line == 29
    assert [image for image, _ in reading.images] == ["hal:0.13.0"]
    assert any("Secret" in warning for warning in reading.warnings)


def test_a_config_map_alone(tmp_path: Path) -> None:
    reading = read(tmp_path, KUBERNETES.split("---")[0], "map.yaml")
    assert values(reading) == {"H_CTX": "4096"}


@pytest.mark.parametrize(("text", "line"), [
    ("services:\n  a: [1\n  b: 2\n", 3), ("services:\n\ta: 1\n", 2), ("kind: 'Pod\n", 2),
    ("services: *none\n", 1)])
def test_broken_yaml_is_named_with_its_line_and_without_its_text(tmp_path: Path, text: str,
                                                                 line: int) -> None:
    with pytest.raises(ReadError) as error:
        read(tmp_path, text, "c.yml")
    assert error.value.line is not None
    assert abs(error.value.line - line) <= 1
    assert "none" not in error.value.message


def test_alias_bombs_do_not_go_off(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    merges = ["m0: &m0 {K: 1}"] + [f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}, *m{i - 1}]}}" for i in range(1,
                                                                                                           60)]
    tail = ["services:", "  a:", "    command: *a29", "    environment: *m59", "    env_file: *a29",
            "  b: {environment: [*a29, A=1]}"]
    assert values(read(tmp_path, "\n".join(lines + merges + tail), "c.yml")) == {"K": "1", "A": "1"}


def test_yaml_that_holds_itself(tmp_path: Path) -> None:
    reading = read(tmp_path,
                   "services: &s\n  a: &a\n    environment: &e {<<: *e, K: 1}\n    x: *a\n    y: *s\n",
                   "c.yml")
    assert values(reading) == {"K": "1"}
    with pytest.raises(ReadError):
        read(tmp_path, "kind: Pod\nspec: &s\n  template: *s\n", "p.yml")


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReadError):
        read(tmp_path, "services: " + "[" * 5000, "c.yml")
    with pytest.raises(ReadError):
        read(tmp_path, "radiance --tp " + "${A:-" * 5000 + "}" * 5000, "s.sh")


def test_yaml_is_only_imported_for_yaml() -> None:
    code = "import sys, measurements.config; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_a_service_extends_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    text = "services:\n  a:\n    environment: [MY_TP=2]\n    extends: {file: b.yml, service: b}\n"
    reading = read(tmp_path, text, "c.yml")
    assert ":4: what a service takes by extends is not read" in reading.warnings[0]
