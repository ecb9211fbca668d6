"""An answer can be deployed: its diff applies, and the edited file, read again, gives exactly the ranked shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import measurements
from measurements.ledger import read_ledger
from models.engines import build, resolve
from tests.optimizer.servers import (
    BUDGET,
    CEILING,
    DERIVED,
    DERIVED_FLAGS,
    FUNDED,
    FUNDED_12,
    HALOGEN,
    HALOGEN_CLAMPED,
    HALOGEN_LATE,
    HALOGEN_READ,
    STATED,
    Server,
    ask,
    facts,
    funded_env,
    halogen_env,
    pair_env,
    site_of,
    with_config,
)

Capture = pytest.CaptureFixture[str]

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def apply(diff: str) -> dict[str, str]:
    """The new text of every file that a unified diff names; every line it shows must stand where it says."""
    new: dict[str, str] = {}
    name, done, old, out = "", 0, list[str](), list[str]()
    for line in re.findall(r"[^\n]*\n|[^\n]+", diff):
        if line.startswith("--- "):
            if name:
                new[name] = "".join([*out, *old[done:]])
            name, done, out = line[4:-1], 0, []
            old = re.findall(r"[^\n]*\n|[^\n]+", Path(name).read_bytes().decode())
        elif line.startswith("+++ "):
            assert line[4:-1] == name
        elif hunk := _HUNK.fullmatch(line):
            start = int(hunk[1]) - (hunk[2] != "0")
            out += old[done:start]
            done = start
        elif line.startswith("\\"):
            out[-1] = out[-1].removesuffix("\n")
        elif line[0] in " -":
            assert old[done].removesuffix("\n") == line[1:].removesuffix("\n")
            if line[0] == " ":
                out.append(old[done])
            done += 1
        else:
            out.append(line[1:])
    if name:
        new[name] = "".join([*out, *old[done:]])
    return new


def deploy(diff: str) -> None:
    """Writes what the diff says into the files it names."""
    for name, text in apply(diff).items():
        Path(name).write_bytes(text.encode())


def texts(folder: Path, server: Server) -> dict[str, str]:
    """The server's files as they are now."""
    return {name: (folder / name).read_bytes().decode() for name in server.config}


SCRIPT = {"serve.sh": """\
#!/bin/sh
# two cards; read the ledger before touching
set -e
MODEL=/models/qwen3.8-flash-next-w4.rad

exec radiance --model "$MODEL" \\
  --tp 2 --kv-cache-dtype fp8 \\
  --max-num-seqs 4 --max-model-len 200000 \\
  --vram-weights-mib 22208 --vram-kv-mib 6912 \\
  --host-pool-mib 40960 --num-speculative-tokens 2  # drafts
"""}
COMPOSE = {"compose.yaml": """\
# the LLM box
services:
  llm:
    image: registry.example/radiance:1.0.13
    environment:
      FRANK_ARCHON_MODEL: /models/qwen3.8-flash-next-w4.rad
      FRANK_ARCHON_TP: 2
      FRANK_ARCHON_KV_DTYPE: fp8
      FRANK_ARCHON_MAX_SEQS: "4"      # people at once
      FRANK_ARCHON_MAX_MODEL_LEN: 200000
      FRANK_ARCHON_VRAM_WEIGHTS_MIB: 22208
      FRANK_ARCHON_VRAM_KV_MIB: '6912'
      FRANK_ARCHON_HOST_POOL_MIB: 40960
      FRANK_ARCHON_SPEC_TOKENS: 2
    restart: always
"""}
KUBERNETES = {"deploy.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers:
        - name: llm
          image: registry.example/radiance:1.0.13
          args:
            - --model=/models/qwen3.8-flash-next-w4.rad
            - --tp=2
            - --kv-cache-dtype=fp8   # half the bytes
            - --max-num-seqs=4
            - --max-model-len=200000
            - --vram-weights-mib=22208
            - --vram-kv-mib=6912
            - --host-pool-mib=40960
            - --num-speculative-tokens=2
"""}
UNIT = {"llm.service": """\
[Unit]
Description=LLM

[Service]
Environment=FRANK_ARCHON_MODEL=/models/qwen3.8-flash-next-w4.rad FRANK_ARCHON_TP=2
Environment="FRANK_ARCHON_KV_DTYPE=fp8" "FRANK_ARCHON_MAX_SEQS=4"
# sizing
Environment=FRANK_ARCHON_MAX_MODEL_LEN=200000
Environment=FRANK_ARCHON_VRAM_WEIGHTS_MIB=22208
Environment=FRANK_ARCHON_VRAM_KV_MIB=6912
Environment=FRANK_ARCHON_HOST_POOL_MIB=40960 FRANK_ARCHON_SPEC_TOKENS=2
ExecStart=/usr/bin/radiance
"""}
CRLF = {name: text.replace("\n", "\r\n") for name, text in STATED.config.items()}
OPEN_END = {name: text.rstrip("\n") for name, text in STATED.config.items()}
STATED_FILES: Mapping[str, Mapping[str, str]] = {
    "env": STATED.config, "crlf": CRLF, "no newline at the end": OPEN_END, "script": SCRIPT, "compose": COMPOSE,
    "kubernetes": KUBERNETES, "unit": UNIT,
}
SLAB = ("--goal", "slab", "--given", "max_num_seqs=3")

ROUNDS: Sequence[tuple[str, Server, Sequence[str]]] = [
    *((name, with_config(STATED, config), SLAB) for name, config in STATED_FILES.items()),
    ("1.0 host-ram", STATED, ("--goal", "host-ram")),
    ("1.0 context", STATED, ("--goal", "context")),
    ("1.0 derived", DERIVED, ("--goal", "sequences")),
    ("1.0 derived host-ram", DERIVED, ("--goal", "host-ram", "--free", "gpu_headroom_mib")),
    ("1.2", FUNDED_12, ("--goal", "host-ram")),
    ("1.8", FUNDED, ("--goal", "sequences")),
    ("1.8 host-ram", FUNDED, ("--goal", "host-ram", "--given", "max_num_seqs=8")),
    ("halogen 0.5", HALOGEN_CLAMPED, ("--goal", "host-ram")),
    ("halogen 0.13", HALOGEN, ("--goal", "sequences")),
    ("halogen 0.13 log", HALOGEN_READ, ("--goal", "headroom")),
    ("halogen 0.13 adds a line", with_config(HALOGEN, halogen_env(pool=None)), ("--goal", "sessions")),
    ("halogen 0.17", HALOGEN_LATE, ("--goal", "sessions")),
]


@pytest.mark.parametrize(("server", "goal"), [(server, goal) for _, server, goal in ROUNDS],
                         ids=[name for name, _, _ in ROUNDS])
def test_the_edited_file_gives_the_ranked_shape(
    server: Server, goal: Sequence[str], tmp_path: Path, capsys: Capture,
) -> None:
    words = server.words(tmp_path)
    before = texts(tmp_path, server)
    for rank in (1, 2):
        server.words(tmp_path)
        said = ask(capsys, "propose", *words, *goal, "--json", "--top", "2", "--rank", str(rank))
        if rank == 2 and said.code == 2:
            assert "there is no rank 2" in said.document["error"]["message"]
            continue
        assert said.code == 0
        document = said.document
        assert document["refused"] == []
        deploy(document["diff"])
        ranked = document["shapes"][rank - 1]
        after = ask(capsys, "check", *words, "--json").document
        assert after["shape"] == ranked["shape"]
        assert after["verdict"] == "fits"
        kept(before, texts(tmp_path, server), document)
        if any(fact.startswith("step_staging") for fact in server.facts) and {
            "max_num_seqs", "max_model_len"
        } & set(document["edits"]):
            continue  # a row of the old boot, given by hand, no longer holds for the new one
        for name, row in document["predicted"].items():
            # the log stays that of the boot before: what it printed tells of the new shape as well, while it is the
            # log of the shape that runs
            again = after["quantities"][name]
            assert again["low"] <= row["low"] <= row["high"] <= again["high"]
            assert server.log or (row["low"], row["high"]) == (again["low"], again["high"])


def kept(before: Mapping[str, str], after: Mapping[str, str], document: Mapping[str, Any]) -> None:
    """What the diff does not show is as it was: order, comments, ends of lines; only edited values differ."""
    assert set(document["edits"]) == {
        knob for knob, (old, new) in document["shapes"][document["rank"] - 1]["changes"].items() if old != new
    }
    for name, text in before.items():
        new = after[name]
        added = new.count("\n") - text.count("\n")
        ends = "\r\n" if "\r\n" in text else "\n"
        assert new.count("\r\n") - text.count("\r\n") == (added if ends == "\r\n" else 0)
        comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
        assert [line for line in new.splitlines() if line.lstrip().startswith("#")] == comments
        values = re.compile(r"\b\d+(?:\.\d+)?\b")
        old_lines = [values.sub("N", line) for line in text.splitlines()]
        new_lines = [values.sub("N", line) for line in new.splitlines()]
        if not added:
            assert [line.startswith(old) for old, line in zip(old_lines, new_lines, strict=True)].count(False) <= 1


def test_a_shape_that_is_the_file_changes_nothing(tmp_path: Path, capsys: Capture) -> None:
    words = HALOGEN.words(tmp_path)
    said = ask(capsys, "propose", *words, "--goal", "sessions", "--top", "1", "--json")
    assert (said.document["diff"], said.document["edits"]) == ("", {})
    assert "Nothing to change" in ask(capsys, "propose", *words, "--goal", "sessions", "--top", "1").out


def test_propose_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    for as_json in ([], ["--json"]):
        assert ask(capsys, "propose", *words, *SLAB, *as_json).code == 0
    assert texts(tmp_path, STATED) == STATED.config


def test_the_diff_that_people_see_is_the_same(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    diff = ask(capsys, "propose", *words, *SLAB, "--json").document["diff"]
    assert diff
    assert diff in ask(capsys, "propose", *words, *SLAB).out


def test_set_values_become_part_of_the_edit(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    said = ask(capsys, "propose", *words, "--set", "max_num_seqs=3", "--goal", "slab", "--json")
    assert said.document["edits"]["max_num_seqs"] == "3"
    deploy(said.document["diff"])
    after = ask(capsys, "check", *words, "--json").document
    assert after["shape"] == said.document["shapes"][0]["shape"]


TTM = "TTM_MIN_MIB=30720\nTTM_TARGET_MIB=34816\n"


@pytest.mark.parametrize("goal", [
    ("--goal", "host-ram"), ("--goal", "host-ram", "--given", "max_num_seqs=8"), ("--goal", "sequences"),
])
def test_the_gates_of_pinned_ram_move_along(goal: Sequence[str], tmp_path: Path, capsys: Capture) -> None:
    server = Server("radiance@1.8.1", funded_env(more=TTM), facts=(*BUDGET, "ngram_table=0B"))
    words = server.words(tmp_path)
    said = ask(capsys, "propose", *words, *goal, "--json", "--top", "1")
    assert said.code == 0
    moves = {item["knob"]: item for item in said.document["companions"]}
    low, target = moves["ttm_min_mib"], moves["ttm_target_mib"]
    assert (low["from"], target["from"]) == (30_720, 34_816)
    assert target["to"] - low["to"] == target["from"] - low["from"]
    best = said.document["shapes"][0]
    pool = best["shape"]["host_pool_mib"]
    if best["shape"]["max_num_seqs"] == 4:
        assert low["to"] - low["from"] == 2 * (pool - 12_288)
    pinned = best["quantities"]["pinned_total"]
    assert low["to"] << 20 >= pinned["high"]
    deploy(said.document["diff"])
    text = (tmp_path / ".env").read_text(encoding="utf-8")
    assert f"TTM_MIN_MIB={low['to']}\nTTM_TARGET_MIB={target['to']}\n" in text
    assert ask(capsys, "check", *words, "--json").document["shape"] == best["shape"]


def test_gates_stay_where_pinned_ram_stays(tmp_path: Path, capsys: Capture) -> None:
    more = "FRANK_ARCHON_TTM_MIN_MIB=86016\nFRANK_ARCHON_TTM_TARGET_MIB=90112\n"
    words = with_config(STATED, pair_env(22_208, 6_912, 4, 200_000, more=more)).words(tmp_path)
    said = ask(capsys, "propose", *words, *SLAB, "--json")
    assert said.document["companions"] == []
    assert "TTM" not in "".join(line for line in said.document["diff"].splitlines() if line.startswith(("+F", "-F")))


@pytest.mark.parametrize("goal", ["host-ram", "sessions", "slab"])
@pytest.mark.parametrize("name", ["env", "crlf", "script", "compose", "kubernetes", "unit"])
def test_an_upgrade_takes_the_removed_flags_out(name: str, goal: str, tmp_path: Path, capsys: Capture) -> None:
    server = with_config(STATED, STATED_FILES[name])
    site = str(site_of(tmp_path, server))
    asked = [site, "--engine", "radiance@1.8.1", *facts(*BUDGET), "--json"]
    assert ask(capsys, "check", *asked).document["outcome"] == "refused_at_boot"
    said = ask(capsys, "propose", *asked, "--goal", goal, "--top", "1")
    assert said.code == 0
    document = said.document
    assert document["edits"]["vram_weights_mib"] is None
    assert document["edits"]["vram_kv_mib"] is None
    assert document["refused"] == []
    deploy(document["diff"])
    text = "".join(texts(tmp_path, server).values()).lower().replace("-", "_")
    assert "vram_weights" not in text
    assert "vram_kv" not in text
    after = ask(capsys, "check", *asked)
    assert (after.code, after.document["outcome"]) == (0, "serves")
    assert after.document["shape"] == document["shapes"][0]["shape"]


def test_an_upgrade_of_a_derived_split_takes_the_ratio_out(tmp_path: Path, capsys: Capture) -> None:
    server = Server("radiance@1.0.13", {"serve.sh": DERIVED_FLAGS.format(sequences=2, headroom=512)})
    site = str(site_of(tmp_path, server))
    asked = [site, "--engine", "radiance@1.8.1", *facts(*BUDGET), "--json"]
    document = ask(capsys, "propose", *asked, "--goal", "host-ram", "--top", "1").document
    assert document["edits"]["expert_vs_cache_ratio"] is None
    deploy(document["diff"])
    assert "--expert-vs-cache-ratio" not in texts(tmp_path, server)["serve.sh"]
    after = ask(capsys, "check", *asked).document
    assert (after["outcome"], after["shape"]) == ("serves", document["shapes"][0]["shape"])


@pytest.mark.parametrize(("more", "lost"), [
    (("--given", "vram_weights_mib=25000"), "prefill staging region"),
    (("--given", "vram_weights_mib=25000", "--given", "vram_kv_mib=4500"), "prefill staging region"),
    (("--at-least", "vram_kv_mib=4500"), "the cache no longer follows the ratio"),
    (("--at-least", "vram_weights_mib=20000"), "prefill staging region"),
])
def test_stating_a_pool_says_first_what_is_lost(
    more: Sequence[str], lost: str, tmp_path: Path, capsys: Capture,
) -> None:
    words = DERIVED.words(tmp_path)
    said = ask(capsys, "propose", *words, "--goal", "slab", "--top", "1", *more, "--json")
    best = said.document["shapes"][0]
    assert "on a site that derives it" in best["notes"][0]
    assert lost in best["notes"][0]
    people = ask(capsys, "propose", *words, "--goal", "slab", "--top", "1", *more).out
    assert lost in " ".join(people.split())


@pytest.mark.parametrize("goal", ["sequences", "sessions", "slab", "host-ram", "headroom"])
@pytest.mark.parametrize("server", [DERIVED, FUNDED_12], ids=["1.0", "1.2"])
def test_a_derived_site_stays_one_unasked(server: Server, goal: str, tmp_path: Path, capsys: Capture) -> None:
    words = server.words(tmp_path)
    for shape in ask(capsys, "solve", *words, "--goal", goal, "--top", "3", "--json").document["shapes"]:
        assert (shape["shape"]["vram_weights_mib"], shape["shape"]["vram_kv_mib"]) == (0, 0)


OPENED = ("--free", "host_reserve_gib")


@pytest.mark.parametrize(("goal", "reserve", "more"), [
    *((goal, 16, OPENED) for goal in ("sequences", "sessions", "host-ram", "headroom")),
    *((goal, 24, OPENED) for goal in ("sequences", "sessions")),
    *((goal, 24, ()) for goal in ("sequences", "sessions", "host-ram", "headroom")),
    *((goal, 24, OPENED) for goal in ("host-ram", "headroom")),
])
def test_the_reserve_is_never_raised(
    goal: str, reserve: int, more: Sequence[str], tmp_path: Path, capsys: Capture,
) -> None:
    words = with_config(HALOGEN, halogen_env(reserve=reserve)).words(tmp_path)
    document = ask(capsys, "solve", *words, "--goal", goal, "--top", "2", *more, "--json").document
    for shape in document["shapes"]:
        assert shape["shape"]["host_reserve_gib"] <= reserve
        if "host_reserve_gib" in shape["changes"]:
            assert any("host_reserve_gib allocates nothing" in note for note in shape["notes"])
        if not more:
            assert "host_reserve_gib" not in shape["changes"]


def test_more_pinned_ram_is_not_promised_to_be_there(tmp_path: Path, capsys: Capture) -> None:
    words = FUNDED.words(tmp_path)
    asked = ["--goal", "host-ram", "--given", "max_num_seqs=8", "--top", "1", "--json"]
    best = ask(capsys, "propose", *words, *asked).document["shapes"][0]
    assert best["shape"]["host_pool_mib"] > 12_288
    assert any("nothing here says whether the host has it" in note for note in best["notes"])
    known = facts("ngram_table=0B", "memlock=unlimited", "ttm_limit=64GiB", "mem_total=125GiB")
    best = ask(capsys, "propose", *words, *known, *asked).document["shapes"][0]
    assert not any("nothing here says" in note for note in best["notes"])
    short = facts("ngram_table=0B", "memlock=unlimited", "ttm_limit=24GiB", "mem_total=125GiB")
    said = ask(capsys, "propose", *words, *short, *asked)
    assert said.code == 3
    assert "pinned_within_ttm" in {item["name"] for item in said.document["conflict"]}


def test_settings_in_several_files_are_edited_where_they_stand(tmp_path: Path, capsys: Capture) -> None:
    host, mark, sizing = STATED.config["frank.env"].partition("# sizing\n")
    config = {"host.env": host, "sizing.env": mark + sizing}
    server = Server("radiance@1.0.13", config, facts=CEILING)
    words = server.words(tmp_path)
    document = ask(capsys, "propose", *words, *SLAB, "--json").document
    assert list(apply(document["diff"])) == [str(tmp_path / "sizing.env")]
    deploy(document["diff"])
    assert (tmp_path / "host.env").read_text(encoding="utf-8") == config["host.env"]
    assert ask(capsys, "check", *words, "--json").document["shape"] == document["shapes"][0]["shape"]


def test_the_next_boot_must_print_what_was_predicted(tmp_path: Path, capsys: Capture) -> None:
    """The rows that a boot prints are all predicted, each as an interval that the figure must lie in."""
    document = ask(capsys, "propose", *DERIVED.words(tmp_path), "--goal", "sequences", "--top", "1",
                   "--json").document
    assert {"claimable", "elastic", "experts", "kv_cache", "vram_weights", "vram_kv", "kv_tokens"} <= set(
        document["predicted"])
    document = ask(capsys, "propose", *HALOGEN_READ.words(tmp_path), "--goal", "headroom", "--top", "1",
                   "--json").document
    # the pool falls to the context, where no sizing lines print
    assert list(document["predicted"]) == ["pool_positions", "host_left", "locked_total"]


MEMORY = ["pool_positions", "host_left", "locked_total"]
SIZING = ["device_need", "device_budget"]
POOLS = ["vram_kv", "kv_tokens", "vram_weights"]
SPLIT = ["experts", "kv_cache", "elastic"]
STAGED = ["vram_kv", "kv_blocks", "kv_tokens", "vram_weights", "slab_slots", *SPLIT, "prefill_staging", "claimable",
          "unclaimed"]


@pytest.mark.parametrize(("site", "words", "rows"), [
    # where the pool stands at the context no fit check runs, and no `kv pool:` line is printed
    ("unified-memory", ("--goal", "sessions", "--at-least", "host_left=10GiB"), MEMORY),
    ("unified-memory", ("--goal", "sessions", "--given", "kv_pool_fit=0"), MEMORY),
    ("unified-memory", ("--goal", "sessions", "--given", "max_tok=16384"), [*MEMORY, *SIZING]),
    ("host-pool", ("--goal", "host-ram", "--given", "max_num_seqs=8"), [*POOLS, *SPLIT, "claimable"]),
    ("two-r9700", ("--goal", "sequences"), STAGED),
    # a stated weights pool has no staging region, and no split is printed of what is stated
    ("stated-pair", ("--goal", "slab"), ["vram_kv", "kv_blocks", "kv_tokens", "vram_weights", "slab_slots"]),
])
def test_the_next_boot_prints_what_is_predicted(site: str, words: Sequence[str], rows: Sequence[str],
                                                capsys: Capture) -> None:
    folder = Path(measurements.__path__[0]) / "sites" / site
    document = ask(capsys, "propose", str(folder), *words, "--top", "1", "--json").document
    assert set(document["predicted"]) <= set(document["shapes"][0]["quantities"])
    assert [name for name in rows if name in document["shapes"][0]["quantities"]] == list(document["predicted"])
    if (folder / "boot.log").exists():  # of a fitting boot, with sizing lines
        log = read_ledger(folder / "boot.log")
        printed = {name.partition(".")[0] for name in (*log.rows, *log.facts)}
        assert set(document["predicted"]) <= printed


@pytest.mark.parametrize(("engine", "rows"), [
    ("halogen@0.5.2", ["pool_positions"]), ("halogen@0.5.3", ["pool_positions", "host_left", "locked_total"]),
])
def test_memory_lines_are_there_since_0_5_3(engine: str, rows: Sequence[str]) -> None:
    model = build(resolve(engine), container="w4b")
    assert [name for name, _ in model.prints][:-2] == rows
    assert all(name in model.rows for name, _ in model.prints)
