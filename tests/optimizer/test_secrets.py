"""Nothing that looks like a secret leaves a user's file: not in answers, diffs, errors, nor in copies of a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.optimizer.servers import CEILING, DERIVED_LOG, HALOGEN_LOG, STATED, Server, ask, pair_env

Capture = pytest.CaptureFixture[str]

KEY = "sk-live-4f8Kq2Xv9Rt4Yw7Zb1Nc6"
TOKEN = "hf_Zb1Nc6Md3Pf5Hg0AkJ8sLq2X"
WORD = "opensesame-and-more"
LOGIN = "swordfish77"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = (KEY, TOKEN, WORD, LOGIN, JWT)

FLAGS = (
    "--model /models/qwen3.8-flash-next-w4.rad --tp 2 --kv-cache-dtype fp8 --max-num-seqs 4 --max-model-len 200000 "
    "--vram-weights-mib 22208 --vram-kv-mib 6912 --host-pool-mib 40960 --num-speculative-tokens 2"
)
ENV = pair_env(22_208, 6_912, 4, 200_000, more=f"""\
FRANK_ARCHON_API_KEY={KEY}
HF_TOKEN="{TOKEN}"
DB_PASSWORD='{WORD}'
export PROXY=http://user:{LOGIN}@proxy.example:3128/
AUTHORIZATION=Bearer {JWT}
# old: API_KEY={WORD}
""")
SCRIPT = {"serve.sh": f"""\
#!/bin/sh
export HF_TOKEN={TOKEN}
DB_PASSWORD='{WORD}'
# curl -H "Authorization: Bearer {JWT}" http://user:{LOGIN}@host.example/
exec radiance {FLAGS} \\
  --api-key {KEY} \\
  --gpu-headroom-mib 96
"""}
COMPOSE = {"compose.yaml": f"""\
services:
  llm:
    image: registry.example/radiance:1.0.13
    environment:
      FRANK_ARCHON_API_KEY: "{KEY}"
      HF_TOKEN: {TOKEN}
      DB_PASSWORD: {WORD}
      PROXY: http://user:{LOGIN}@proxy.example:3128/
    command: {FLAGS} --api-key {KEY} --auth-token {JWT}
"""}
KUBERNETES = {"deploy.yaml": f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm
spec:
  template:
    spec:
      containers:
        - name: llm
          image: registry.example/radiance:1.0.13
          env:
            - name: FRANK_ARCHON_API_KEY
              value: "{KEY}"
            - name: HF_TOKEN
              value: {TOKEN}
            - name: DB_PASSWORD
              value: {WORD}
            - name: PROXY
              value: http://user:{LOGIN}@proxy.example:3128/
          args: [{', '.join(f'"{word}"' for word in FLAGS.split())}, "--auth-token", "{JWT}"]
"""}
UNIT = {"llm.service": f"""\
[Service]
Environment=HF_TOKEN={TOKEN} "DB_PASSWORD={WORD}"
Environment=PROXY=http://user:{LOGIN}@proxy.example:3128/
ExecStart=/usr/bin/radiance {FLAGS} --api-key {KEY} --auth-token {JWT}
"""}
FILES: Mapping[str, Mapping[str, str]] = {
    "env": ENV, "script": SCRIPT, "compose": COMPOSE, "kubernetes": KUBERNETES, "unit": UNIT,
}


def clean(text: str) -> None:
    """No secret stands in the text."""
    assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize("config", FILES.values(), ids=FILES)
@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["tables", "json"])
def test_answers(config: Mapping[str, str], as_json: list[str], tmp_path: Path, capsys: Capture) -> None:
    words = [*Server("radiance@1.0.13", config, facts=CEILING).words(tmp_path), *as_json]
    goal = ["--goal", "slab", "--given", "max_num_seqs=3", "--top", "1"]
    runs = [["check"], ["solve", *goal], ["propose", *goal], ["free"]]
    runs += [["solve", *goal, "--at-least", "vram_weights=30000MiB", "--given", "max_num_seqs=8"]]
    for run in runs:
        said = ask(capsys, run[0], *words, *run[1:])
        assert said.code == (3 if "--at-least" in run else 0)
        clean(said.out + said.err)
        if run[0] == "propose":
            text = str(said.document["diff"]) if as_json else said.out
            assert "max" in text.lower()


@pytest.mark.parametrize("config", FILES.values(), ids=FILES)
def test_errors(config: Mapping[str, str], tmp_path: Path, capsys: Capture) -> None:
    (name, text), = config.items()
    broken = {name: text.replace("40960", "many").replace("6912", f"{WORD}")}
    for engine, files in (("radiance@1.0.13", broken), ("radiance@1.0.14", config), ("halogen@0.13.0", config),
                          ("radiance@1.8.1", config), ("", config)):
        words = Server(engine, files).words(tmp_path)
        for as_json in ([], ["--json"]):
            for command in ("check", "propose"):
                said = ask(capsys, command, *words, *as_json)
                assert said.code in (2, 3, 4)
                clean((said.out + said.err).replace(f"is '{WORD}'", ""))


@pytest.mark.parametrize(("line", "said"), [
    (f"FRANK_ARCHON_MAX_SEQS={KEY}\n", "frank.env:1: max_num_seqs is '<secret>'"),
    (f"A=1\nDB_PASSWORD='{WORD}\n", "frank.env:2: "),
    (f"FRANK_ARCHON_KV_DTYPE={TOKEN}\n", "frank.env:1: kv_cache_dtype is '<secret>'"),
])
def test_a_secret_where_a_value_belongs(line: str, said: str, tmp_path: Path, capsys: Capture) -> None:
    words = Server("radiance@1.0.13", {"frank.env": line}).words(tmp_path)
    for as_json in ([], ["--json"]):
        answer = ask(capsys, "check", *words, *as_json)
        assert answer.code == 2
        clean(answer.out + answer.err)
    assert said in ask(capsys, "check", *words).err


@pytest.mark.parametrize("config", FILES.values(), ids=FILES)
def test_copies_of_a_site(config: Mapping[str, str], tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "site"
    words = Server("radiance@1.0.13", config, facts=CEILING).words(tmp_path)
    said = ask(capsys, "init", str(folder), *words, "--copy")
    assert said.code == 0
    clean(said.out + said.err)
    copied = {path.name for path in folder.iterdir()}
    assert copied == {"site.toml", *config}
    for name in copied:
        clean((folder / name).read_text(encoding="utf-8"))
    own = ask(capsys, "check", *words, "--json").document
    copy = ask(capsys, "check", str(folder), "--json").document
    assert copy["shape"] == own["shape"]
    assert copy["verdict"] == own["verdict"]
    (name, text), = config.items()
    assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_logs(tmp_path: Path, capsys: Capture) -> None:
    start = f"I radiance --api-key {KEY} --model http://user:{LOGIN}@store.example/m.rad\nHF_TOKEN={TOKEN}\n"
    log = tmp_path / "boot.log"
    log.write_text(f"{start}{DERIVED_LOG}W request with Authorization: Bearer {JWT}\nDB_PASSWORD={WORD}\n",
                   encoding="utf-8")
    for as_json in ([], ["--json"]):
        said = ask(capsys, "ledger", str(log), *as_json)
        assert said.code == 0
        clean(said.out + said.err)
    words = [*STATED.words(tmp_path), "--ledger", str(log)]
    for as_json in ([], ["--json"]):
        said = ask(capsys, "check", *words, *as_json)
        clean(said.out + said.err)
    folder = tmp_path / "site"
    assert ask(capsys, "init", str(folder), *words, "--copy").code == 0
    copied = (folder / "boot.log").read_text(encoding="utf-8")
    clean(copied)
    assert "card total          31.86 GiB" in copied


def test_logs_of_halogen(tmp_path: Path, capsys: Capture) -> None:
    env = {"h.env": f"HALOGEN_CTX=262144\nHALOGEN_KV_POOL_POSITIONS=524288\nHALOGEN_API_KEY={KEY}\nHF_TOKEN={TOKEN}\n"
                    f"HALOGEN_VISION_TOWER=1\nHALOGEN_CACHE_DIR=/cache\nAUTH={WORD}\n"}
    words = Server("halogen@0.13.0", env,
                   log=HALOGEN_LOG + f"GET /v1 Authorization: Bearer {JWT}\n").words(tmp_path)
    for command in ("check", "free"):
        for as_json in ([], ["--json"]):
            said = ask(capsys, command, *words, *as_json)
            assert said.code == 0
            clean(said.out + said.err)
