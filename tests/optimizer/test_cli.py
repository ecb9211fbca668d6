"""The contract of the command line: exit codes, what stands on stdout, and what on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from optimizer.cli import run
from tests.optimizer.servers import (
    BUDGET,
    CEILING,
    DERIVED,
    FUNDED,
    HALOGEN,
    HALOGEN_READ,
    STATED,
    Server,
    ask,
    facts,
    halogen_env,
    pair_env,
    site_of,
    with_config,
)
from tests.optimizer.test_schema import KINDS, valid

Capture = pytest.CaptureFixture[str]
COMMANDS = ("init", "check", "ledger", "free", "solve", "why", "pareto", "plan", "probe", "propose", "report",
            "calibrate", "sensitivity", "gates", "apply")


def test_help(capsys: Capture) -> None:
    for words in ([], ["--help"], ["-h"]):
        said = ask(capsys, *words)
        assert said.code == 0
        for command in COMMANDS:
            assert command in said.out
    for command in COMMANDS:
        said = ask(capsys, command, "--help")
        assert (said.code, said.err) == (0, "")
        for option in ("--json", "--config", "--ledger", "--engine"):
            assert option in said.out, command


#: What people read for each outcome, in part.
SPOKEN = {
    "serves": "serves", "clamped": "pool", "preempts": "preempts", "rejects_long_requests": "long requests",
    "stalls": "stalls", "out_of_memory_at_boot": "out of memory", "refused_at_boot": "refuses",
}


@pytest.mark.parametrize(("server", "code", "verdict", "outcome"), KINDS.values(), ids=KINDS)
def test_tables_say_what_the_json_says(
    server: Server, code: int, verdict: str, outcome: str, tmp_path: Path, capsys: Capture,
) -> None:
    said = ask(capsys, "check", *server.words(tmp_path))
    assert (said.code, said.err) == (code, "")
    head = said.out.splitlines()[0]
    assert verdict.replace("_", " ") in head
    assert SPOKEN[outcome] in head
    assert server.engine.replace("@", " ") in head


EXITS: Mapping[str, tuple[int, Sequence[str]]] = {
    "solved": (0, ("solve", "--goal", "slab")),
    "infeasible": (3, ("solve", "--goal", "slab", "--at-least", "vram_weights=30000MiB")),
    "proposed": (0, ("propose", "--goal", "slab")),
    "nothing to propose": (3, ("propose", "--goal", "slab", "--at-least", "vram_weights=30000MiB")),
    "planned": (0, ("plan", "--goal", "sessions")),
    "nothing to plan to": (3, ("plan", "--goal", "slab", "--at-least", "vram_weights=30000MiB")),
    "planned to what does not fit": (3, ("plan", "--to", "vram_kv_mib=9000")),
    "planned to nothing": (2, ("plan",)),
    "free": (0, ("free",)),
    "wrong": (2, ("solve", "--goal", "speed")),
}


@pytest.mark.parametrize(("code", "words"), EXITS.values(), ids=EXITS)
def test_exit_codes_are_those_of_the_contract(
    code: int, words: Sequence[str], tmp_path: Path, capsys: Capture,
) -> None:
    site = site_of(tmp_path, STATED)
    for named in (str(site), str(site / "site.toml")):
        for as_json in ([], ["--json"]):
            said = ask(capsys, words[0], named, *words[1:], *as_json)
            assert said.code == code
            assert (said.err == "") == (code != 2 or bool(as_json))


def test_free_answers_even_where_the_shape_does_not_fit(tmp_path: Path, capsys: Capture) -> None:
    words = with_config(HALOGEN, halogen_env(reserve=24)).words(tmp_path)
    assert ask(capsys, "check", *words).code == 3
    assert ask(capsys, "free", *words).code == 0


def test_a_site_and_its_words_answer_alike(tmp_path: Path, capsys: Capture) -> None:
    for number, server in enumerate((STATED, DERIVED, FUNDED, HALOGEN_READ)):
        folder = tmp_path / str(number)
        folder.mkdir()
        site = site_of(folder, server)
        words = server.words(folder)
        named = ask(capsys, "check", str(site), "--json")
        spelled = ask(capsys, "check", *words, "--json")
        assert named.code == spelled.code
        for key in ("shape", "verdict", "outcome", "quantities", "constraints"):
            assert named.document[key] == spelled.document[key]


def test_words_on_the_command_line_win_over_the_site(tmp_path: Path, capsys: Capture) -> None:
    site = str(site_of(tmp_path, STATED))
    document = ask(capsys, "check", site, "--set", "max_num_seqs=5", "--fact", "pair_ceiling=29000MiB",
                   "--json").document
    assert document["shape"]["max_num_seqs"] == 5
    assert document["facts"]["pair_ceiling"]["high"] == 29_000 << 20
    assert document["outcome"] != "serves"


def test_names_with_hyphens_are_the_same(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    document = ask(capsys, "solve", *words, "--goal", "host_ram", "--given", "max-num-seqs=3", "--free",
                   "gpu-headroom-mib", "--top", "1", "--json").document
    assert document["goal"] == "host-ram"
    assert document["given"] == {"max_num_seqs": 3}
    assert "gpu_headroom_mib" in document["free"]


@pytest.mark.parametrize(("number", "outcome"), [(1, "serves"), (4, "serves"), (5, "preempts")])
def test_sessions(number: int, outcome: str, tmp_path: Path, capsys: Capture) -> None:
    """Radiance asks for as many as there are sequences, unless it is told how many must be held at once."""
    words = with_config(STATED, pair_env(22_208, 6_912, 5, 200_000)).words(tmp_path)
    assert ask(capsys, "check", *words, "--json").document["outcome"] == "preempts"
    said = ask(capsys, "check", *words, "--sessions", str(number), "--json")
    assert said.document["outcome"] == outcome


def test_sessions_of_halogen(tmp_path: Path, capsys: Capture) -> None:
    words = HALOGEN.words(tmp_path)
    assert ask(capsys, "check", *words, "--json").code == 0
    said = ask(capsys, "check", *words, "--sessions", "2", "--json")
    assert (said.code, said.document["outcome"]) == (3, "preempts")


def test_a_matter_of_quality_can_be_made_a_limit(tmp_path: Path, capsys: Capture) -> None:
    config = pair_env(22_208, 6_912, 7, 32_768, spec=3, more="FRANK_ARCHON_TP_WIRE=wht6\n")
    words = with_config(STATED, config).words(tmp_path)
    said = ask(capsys, "check", *words, "--json")
    assert (said.code, said.document["verdict"]) == (0, "fits")
    assert any(text.startswith("lossy_wire_rows is not met") for text in said.document["warnings"])
    said = ask(capsys, "check", *words, "--limit", "lossy_wire_rows", "--json")
    assert (said.code, said.document["verdict"]) == (3, "does_not_fit")
    (wire,) = [c for c in said.document["constraints"] if c["name"] == "lossy_wire_rows"]
    assert (wire["hard"], wire["ok"], wire["slack"]) == (True, False, -3)


def test_facts_carry_their_precision(tmp_path: Path, capsys: Capture) -> None:
    words = Server("halogen@0.13.0", HALOGEN.config).words(tmp_path)
    exact = ask(capsys, "check", *words, *facts("mem_total=127104060KiB"), "--json").document["facts"]["mem_total"]
    assert exact["low"] == exact["high"] == 127_104_060 << 10
    wide = ask(capsys, "check", *words, *facts("mem_total=121.2GiB"), "--json").document["facts"]["mem_total"]
    assert 0 <= wide["high"] - wide["low"] - (1 << 30) / 10 + 2 < 3
    assert wide["low"] < 121.2 * (1 << 30) < wide["high"]


def test_what_is_assumed_is_labelled(tmp_path: Path, capsys: Capture) -> None:
    document = ask(capsys, "check", *HALOGEN.words(tmp_path), "--json").document
    assert any("w4b is assumed" in text for text in document["warnings"])
    words = Server("radiance@1.0.9", STATED.config, facts=CEILING).words(tmp_path)
    document = ask(capsys, "check", *words, "--json").document
    assert document["engine"]["basis"] == "believed"
    assert any("no evidence of its own" in text for text in document["warnings"])


def test_defaults_are_named_with_their_source(tmp_path: Path, capsys: Capture) -> None:
    document = ask(capsys, "check", *HALOGEN.words(tmp_path), "--json").document
    assert "cache_entries" in document["defaults"]
    assert set(document["defaults"]).isdisjoint(("ctx", "kv_pool_positions", "max_tok", "kv_slots"))
    for name, default in document["defaults"].items():
        assert default["value"] == document["shape"][name]
        assert default["source"]


def test_settings_that_are_no_knob_are_listed(tmp_path: Path, capsys: Capture) -> None:
    words = with_config(HALOGEN, halogen_env(pool=262_144, more="HALOGEN_TEMPERATURE=1.0\nTZ=UTC\n")).words(tmp_path)
    listed = ask(capsys, "check", *words, "--json").document["unmapped"]
    assert [text.partition(" at ")[0] for text in listed] == ["HALOGEN_TEMPERATURE", "TZ"]
    assert listed[0].endswith("halogen.env:7")


def test_ledger_takes_a_site_and_its_config(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, DERIVED)
    for words in ([str(site)], [str(site / "site.toml")], [str(site / "boot.log")],
                  ["--ledger", str(site / "boot.log")]):
        said = ask(capsys, "ledger", *words, "--json")
        assert (said.code, said.document["contradictions"]) == (0, [])
    (tmp_path / "other.sh").write_text(DERIVED.config["serve.sh"].replace("seqs 2", "seqs 4"), encoding="utf-8")
    said = ask(capsys, "ledger", str(site / "boot.log"), "--config", str(tmp_path / "other.sh"), "--engine",
               "radiance@1.0.13", "--json")
    valid("ledger", said.document)
    assert any("max_num_seqs is 4 in the config" in text for text in said.document["contradictions"])


def test_a_log_of_another_setting_is_told(tmp_path: Path, capsys: Capture) -> None:
    config = {"serve.sh": DERIVED.config["serve.sh"].replace("seqs 2", "seqs 4")}
    document = ask(capsys, "check", *with_config(DERIVED, config).words(tmp_path), "--json").document
    assert any("the ledger is of another setting: max_num_seqs is 4" in text for text in document["warnings"])
    assert not any("predicted" in row for row in document["quantities"].values())


def test_a_log_that_contradicts_a_fact_leaves_nothing_certain(tmp_path: Path, capsys: Capture) -> None:
    words = [*HALOGEN_READ.words(tmp_path), *facts("mem_total=127104060KiB")]
    said = ask(capsys, "check", *words, "--json")
    assert (said.code, said.document["verdict"]) == (3, "knife_edge")
    assert any(text.startswith("does not add up: device_budget") for text in said.document["warnings"])


def test_init_then_everything(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "site"
    words = DERIVED.words(tmp_path)
    for more in ([], ["--force"], ["--force", "--copy"]):
        assert ask(capsys, "init", str(folder), *words, *more, "--set", "max_num_seqs=2").code == 0
        own = ask(capsys, "check", str(folder), "--json")
        assert (own.code, own.document["verdict"]) == (0, "fits")
    assert (folder / "boot.log").is_file()
    assert ask(capsys, "ledger", str(folder), "--json").code == 0
    assert ask(capsys, "solve", str(folder), "--goal", "slab", "--top", "1", "--json").code == 0


def program(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The installed program, as a user runs it."""
    path = Path(sysconfig.get_path("scripts")) / "shapewright"
    start = [str(path)] if path.exists() else [sys.executable, "-m", "optimizer"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run([*start, *words], capture_output=True, text=True, timeout=60, cwd=folder, env=environment)


def test_the_program_itself(tmp_path: Path) -> None:
    STATED.words(tmp_path)
    words = ["--config", "frank.env", "--engine", STATED.engine, *facts(*CEILING)]
    done = program("check", *words, "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    valid("check", json.loads(done.stdout))
    assert done.stdout.startswith("{\n")
    assert done.stdout.endswith("}\n")
    done = program("solve", *words, "--goal", "slab", "--given", "max_num_seqs=3", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    valid("solve", document)
    best = document["shapes"][0]["shape"]
    assert best["vram_weights_mib"] + best["vram_kv_mib"] == 30_969
    done = program("check", *words, "--set", "max_num_seqs=5", folder=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert "preempts" in done.stdout
    done = program("check", "--config", "frank.env", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    valid("error", json.loads(done.stdout))
    done = program("check", "--config", "gone.env", "--engine", STATED.engine, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("shapewright: gone.env: ")
    assert done.stderr.count("\n") == 1
    done = program("check", *words[:-2], folder=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    STATED.words(tmp_path)
    words = [*STATED.words(tmp_path), "--json"]
    code = "import sys\nfrom optimizer.__main__ import main\nmain()\n"
    with subprocess.Popen([sys.executable, "-c", code, "check", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert "Traceback" not in errors


def test_a_defect_is_told_apart_from_wrong_input(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("with API_KEY=sk-live-4f8Kq2Xv9Rt4Yw7Zb1Nc6 in it")

    monkeypatch.delenv("SHAPEWRIGHT_TRACEBACK", raising=False)
    monkeypatch.setattr("optimizer.cli.check", broken)
    assert run(["check", *STATED.words(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "a defect of shapewright" in said.err
    assert "sk-live" not in said.err


def test_options_that_are_repeated_add_up(tmp_path: Path, capsys: Capture) -> None:
    words = Server("radiance@1.8.1", FUNDED.config).words(tmp_path)
    document = ask(capsys, "check", *words, *facts(*BUDGET), "--set", "max_num_seqs=3", "--set",
                   "max_model_len=100000", "--json").document
    assert (document["shape"]["max_num_seqs"], document["shape"]["max_model_len"]) == (3, 100_000)
    assert len(document["facts"]) >= len(BUDGET)


def test_the_readme_says_which_command_takes_what() -> None:
    import re

    import typer.main

    from optimizer.cli import app

    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    said = " ".join(readme.partition("\nAll take `--json`")[2].partition("Exit codes:")[0].split())
    commands = typer.main.get_group(app).commands
    taking = {option: {name for name, command in commands.items()
                       if any(option in param.opts for param in command.params)}
              for option in ("--json", "--set", "--fact", "--sessions", "--given", "--at-least", "--at-most", "--free")}
    assert taking["--json"] == set(commands) == set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE))

    def names(text: str) -> set[str]:
        return set(re.findall(r"`([a-z]+)`", text))

    match = re.search(r"All but (.+) take `--set .+ all of these but (.+) `--fact .+ all of those but (.+) "
                      r"`--sessions N`\. (.+) take `--given`, `--at-least`, `--at-most` and `--free`\.", said)
    assert match is not None
    assert taking["--set"] == set(commands) - names(match[1])
    assert taking["--fact"] == taking["--set"] - names(match[2])
    assert taking["--sessions"] == taking["--fact"] - names(match[3])
    assert taking["--given"] == taking["--at-least"] == taking["--at-most"] == taking["--free"] == names(match[4])
