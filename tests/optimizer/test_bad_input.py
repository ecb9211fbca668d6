"""What cannot be right is said in one clear line, with file and line, and never by a traceback."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.optimizer.servers import (
    BUDGET,
    CEILING,
    DERIVED,
    FUNDED,
    HALOGEN,
    HALOGEN_LOG,
    HOST,
    STATED,
    Said,
    Server,
    ask,
    facts,
    funded_env,
    halogen_env,
    site_of,
)
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]
RADIANCE = ("--engine", "radiance@1.0.13")


def refused(capsys: Capture, *words: str, kind: str = "usage", code: int = 2) -> str:
    """The one line said of words that cannot be answered; the JSON document says the same."""
    said = ask(capsys, *words)
    assert (said.code, said.out) == (code, "")
    lines = said.err.splitlines()
    assert lines[0].startswith("shapewright: ")
    assert len(lines) == 1 or code == 4
    as_json = ask(capsys, *words, "--json")
    assert (as_json.code, as_json.err) == (code, "")
    valid("error", as_json.document)
    error = as_json.document["error"]
    assert error["kind"] == kind
    place = "".join(f"{error[part]}:" for part in ("file", "line") if error[part] is not None)
    assert lines[0] == f"shapewright: {place}{' ' if place else ''}{error['message']}"
    return lines[0]


def at(line: str) -> str:
    """The file and line that a message begins with."""
    return line.removeprefix("shapewright: ").partition(": ")[0]


@pytest.mark.parametrize("version", ["1.0.14", "1.9.0", "9.9.0", "garbage", "1.0.13.5", "-1", "1.0.13@2", "", "1..2"])
def test_unknown_version_of_radiance(version: str, tmp_path: Path, capsys: Capture) -> None:
    words = Server(f"radiance@{version}", STATED.config, facts=CEILING).words(tmp_path)
    line = refused(capsys, "check", *words, kind="unknown_version")
    known = "1.0.0 to 1.0.13, 1.1.0 to 1.2.4, 1.3.0 to 1.8.1"
    assert known in line or "is not a version; write it as radiance@1.2.3" in line


@pytest.mark.parametrize("version", ["0.17.5", "9.9.0", "0.3.0", "1.0.13"])
def test_unknown_version_of_halogen(version: str, tmp_path: Path, capsys: Capture) -> None:
    words = Server(f"halogen@{version}", HALOGEN.config, facts=HOST).words(tmp_path)
    for command in ("check", "solve", "free", "propose", "init"):
        folder = [str(tmp_path / "new")] if command == "init" else []
        line = refused(capsys, command, *folder, *words, kind="unknown_version")
        assert version in line
        assert "0.3.1 to 0.17.4" in line
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("engine", ["vllm@1.0.0", "vllm", "@1.0.13", "radiance 1.0.13"])
def test_unknown_engine(engine: str, tmp_path: Path, capsys: Capture) -> None:
    words = Server(engine, STATED.config, facts=CEILING).words(tmp_path)
    line = refused(capsys, "check", *words, kind="unknown_engine")
    assert "radiance 1.0.0 to 1.0.13" in line
    assert "halogen 0.3.1 to 0.17.4" in line


def test_no_engine_and_no_version(tmp_path: Path, capsys: Capture) -> None:
    STATED.words(tmp_path)
    HALOGEN.words(tmp_path)
    (tmp_path / "boot.log").write_text(DERIVED.log, encoding="utf-8")
    frank, halogen = str(tmp_path / "frank.env"), str(tmp_path / "halogen.env")
    line = refused(capsys, "check", "--config", frank, kind="unknown_engine")
    assert "--engine NAME@VERSION" in line
    for words in (["--config", frank, "--engine", "radiance"], ["--config", halogen]):
        line = refused(capsys, "check", *words, kind="unknown_version")
        assert "--engine NAME@VERSION" in line
    line = refused(capsys, "check", "--config", frank, "--ledger", str(tmp_path / "boot.log"), kind="unknown_version")
    assert "the log reads as 1.0.x (1.0.9 or later)" in line


def test_each_missing_fact_is_named_with_how_to_get_it(tmp_path: Path, capsys: Capture) -> None:
    for number, fact in enumerate(BUDGET):
        name = fact.partition("=")[0]
        rest = [*BUDGET[:number], *BUDGET[number + 1:]]
        words = Server("radiance@1.8.1", funded_env(), facts=rest).words(tmp_path)
        said = ask(capsys, "check", *words, "--json")
        if name in ("expert_plane", "unit_max"):  # the known container brings them
            assert said.code == 0
            continue
        assert said.code == 4
        valid("error", said.document)
        assert [item["name"] for item in said.document["missing"]] == [name]
        assert f"row `{name.replace('_', ' ')}`" in said.document["missing"][0]["how"]
        people = ask(capsys, "check", *words)
        assert (people.code, people.out) == (4, "")
        assert people.err.splitlines()[1].startswith(f"  {name} (B): boot ledger, row")


def test_constants_of_an_unknown_container_are_missing_facts(tmp_path: Path, capsys: Capture) -> None:
    config = {"some.env": "MODEL=/models/nobody-knows.rad\nMAX_SEQS=4\nMAX_MODEL_LEN=200000\nHOST_POOL_MIB=12288\n"}
    said = ask(capsys, "check", *Server("radiance@1.8.1", config, facts=BUDGET).words(tmp_path), "--json")
    assert said.code == 4
    assert {"kv_page_bf16", "kv_block", "kv_state"} <= {item["name"] for item in said.document["missing"]}


@pytest.mark.parametrize(("text", "line", "right"), [
    ("# sizing\nFRANK_ARCHON_MAX_SEQS=abc\n", 2, "write a number from 1 to 4096 sequences"),
    ("FRANK_ARCHON_MAX_SEQS=0\n", 1, "write a number from 1 to 4096 sequences"),
    ("FRANK_ARCHON_MAX_SEQS=4.0\n", 1, "not a whole number"),
    ("FRANK_ARCHON_MAX_SEQS=99999999999999999999\n", 1, "far out of range"),
    ("\n\nFRANK_ARCHON_VRAM_KV_MIB=-5\n", 3, "a negative value means nothing here"),
    ("FRANK_ARCHON_KV_DTYPE=fp4\n", 1, "choose bf16, fp8"),
    ("FRANK_ARCHON_MAX_MODEL_LEN=999999999\n", 1, "to 262144 tokens"),
    ("FRANK_ARCHON_MAX_SEQS=4\r\nFRANK_ARCHON_TP=two\r\n", 2, "write a number from 1 to 8 cards"),
    ("A=1\nFRANK_ARCHON_MAX_SEQS=\"4\n", 2, "close it"),
])
def test_wrong_value_in_an_env_file(text: str, line: int, right: str, tmp_path: Path, capsys: Capture) -> None:
    words = Server("radiance@1.0.13", {"frank.env": text}, facts=CEILING).words(tmp_path)
    message = refused(capsys, "check", *words, kind="unreadable")
    assert at(message) == f"{tmp_path / 'frank.env'}:{line}"
    assert right in message


@pytest.mark.parametrize(("word", "right"), [
    ("bogus=1", "no knob 'bogus'; its knobs: max_num_seqs, max_model_len"),
    ("host_reserve_gib=20", "radiance 1.0.13 has no knob 'host_reserve_gib'"),
    ("max_num_seqs=0", "write a number from 1 to 4096 sequences"),
    ("max_num_seqs=-1", "a negative value means nothing here"),
    ("max_num_seqs=4=5", "not a whole number"),
    ("max_num_seqs", "is not NAME=VALUE"),
    ("max_num_seqs=", "is not NAME=VALUE"),
    ("expert_vs_cache_ratio=1.5", "write a number from"),
    ("tp=5", "takes 1, 2, 4, 8"),
])
def test_wrong_set(word: str, right: str, tmp_path: Path, capsys: Capture) -> None:
    assert right in refused(capsys, "check", *STATED.words(tmp_path), "--set", word)


def test_set_of_a_removed_knob(tmp_path: Path, capsys: Capture) -> None:
    words = FUNDED.words(tmp_path)
    line = refused(capsys, "check", *words, "--set", "vram_kv_mib=6912")
    assert "gone since 1.3.0" in line
    assert "host_pool_mib" in line
    line = refused(capsys, "solve", *words, "--given", "expert_vs_cache_ratio=0.8")
    assert "gone since 1.1.0" in line


@pytest.mark.parametrize(("word", "right"), [
    ("pair_ceiling=30969", "such as 30969MiB"),
    ("pair_ceiling=-1MiB", "is not a size"),
    ("pair_ceiling=30969 MB", "write a number with B, KiB, MiB or GiB"),
    ("pair_ceiling=many", "is not a size"),
    ("pair_ceiling=999999999999GiB", "more than can be meant"),
    ("pair_ceiling", "is not NAME=VALUE"),
    ("nothing=1MiB", "no fact is called 'nothing'; known: card_total"),
    ("movable_units=5MiB", "write a whole number of units"),
    ("card_total.x=5MiB", "no fact is called 'card_total.x'"),
])
def test_wrong_fact(word: str, right: str, tmp_path: Path, capsys: Capture) -> None:
    assert right in refused(capsys, "check", *STATED.words(tmp_path), "--fact", word)


@pytest.mark.parametrize(("words", "right"), [
    (["--goal", "speed"], "its goals: context, sequences, sessions, slab, host-ram, headroom"),
    (["--given", "bogus=1"], "no knob 'bogus'"),
    (["--given", "max_num_seqs"], "is not NAME=VALUE"),
    (["--given", "max_num_seqs=auto"], "not a whole number"),
    (["--given", "num_speculative_tokens=auto"], "names no value to hold"),
    (["--given", "model=other.rad"], "names no value to hold"),
    (["--at-least", "bogus=1MiB"], "neither a knob nor a quantity here; known: claimable, elastic"),
    (["--at-least", "vram_kv=100"], "such as 30969MiB"),
    (["--at-least", "vram_kv"], "is not NAME=VALUE"),
    (["--at-most", "kv_tokens=5MiB"], "is not a whole number of tokens"),
    (["--free", "bogus"], "no knob 'bogus'"),
    (["--free", "tp"], "tp cannot be opened"),
    (["--free", "model"], "model cannot be opened"),
    (["--top", "0"], "0 is not in the range"),
    (["--top", "some"], "not a valid int"),
    (["--sessions", "0"], "0 is not in the range"),
    (["--limit", "bogus"], "no constraint is called 'bogus'; known: arena_as_measured, claimable_covers"),
    (["--bogus"], "No such option"),
    (["extra", "words"], "unexpected extra argument"),
])
def test_wrong_question(words: list[str], right: str, tmp_path: Path, capsys: Capture) -> None:
    assert right in refused(capsys, "solve", *STATED.words(tmp_path), *words).replace("--bogus ", "")


def test_slab_on_halogen(tmp_path: Path, capsys: Capture) -> None:
    for command in ("solve", "propose"):
        line = refused(capsys, command, *HALOGEN.words(tmp_path), "--goal", "slab")
        assert "halogen keeps all weights in RAM and has no slab" in line
        assert "its goals: context, sequences, sessions, host-ram, headroom" in line


def test_propose_needs_a_file_and_a_rank_there_is(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "boot.log").write_text(DERIVED.log, encoding="utf-8")
    log = ["--ledger", str(tmp_path / "boot.log"), *RADIANCE, "--fact", "container=iq4r", "--set", "tp=2", "--set",
           "host_pool_mib=12288"]
    assert "give it with --config FILE" in refused(capsys, "propose", *log, "--goal", "sessions", "--top", "1")
    words = [*HALOGEN.words(tmp_path), "--goal", "sessions", "--rank", "3"]
    assert "there is no rank 3" in refused(capsys, "propose", *words)


@pytest.mark.parametrize(("data", "right"), [
    (b"", "empty"),
    (b"\n \r\n", "empty"),
    (b"\x7fELF\x00\x01\x02", "binary"),
    ("MAX_SEQS=4\n".encode("utf-16"), "UTF-16"),
    (b"MAX_SEQS=4\nNOTE=caf\xe9\n", "not UTF-8"),
    (b"hello world\n", "no setting in this file"),
    (b"=MAX_SEQS" * 1_100_000, "no setting in this file"),
    (b"# " + b"x" * (17 << 20), "larger than 16 MiB"),
])
def test_wrong_config_file(data: bytes, right: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "some.env"
    path.write_bytes(data)
    line = refused(capsys, "check", "--config", str(path), *RADIANCE, kind="unreadable")
    assert at(line).startswith(str(path))
    assert right in line


@pytest.mark.parametrize(("data", "right"), [
    (b"", "empty"),
    (b"\x00" * 100, "binary"),
    (b"a line of words, none of them of any engine\n" * 240_000, "no line of it looks like"),
    (random.Random(1).randbytes(10_000_000).replace(b"\x00", b"\n"), "no line of it looks like"),
    (b"VRAM budget, per card", "no line of it looks like"),
])
def test_wrong_ledger(data: bytes, right: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(data)
    if data.startswith(b"VRAM"):
        assert ask(capsys, "ledger", str(path)).code in (2, 4)
        return
    for words in (["ledger", str(path)], ["check", *STATED.words(tmp_path), "--ledger", str(path)]):
        line = refused(capsys, *words, kind="unreadable")
        assert at(line).startswith(str(path))
        assert right in line


def test_folders_where_files_belong(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    for more in (["check", "--config", str(folder), *RADIANCE], ["check", *words, "--ledger", str(folder)],
                 ["check", str(folder)], ["ledger", str(folder)]):
        line = refused(capsys, *more, kind="unreadable")
        assert at(line) == str(folder)
    assert "holds no site.toml" in refused(capsys, "check", str(folder), kind="unreadable")


def test_files_that_are_not_there(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    gone = str(tmp_path / "gone")
    for more in (["check", "--config", gone, *RADIANCE], ["check", *words, "--ledger", gone], ["ledger", gone],
                 ["check", gone], ["check", *words, "--host", gone], ["check", f"{gone}/site.toml"]):
        assert gone in at(refused(capsys, *more, kind="unreadable"))


def test_a_file_that_vanishes(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, STATED)
    assert ask(capsys, "check", str(site)).code == 0
    (tmp_path / "frank.env").unlink()
    for command in ("check", "solve", "free", "propose"):
        assert at(refused(capsys, command, str(site), kind="unreadable")) == str(site / "frank.env")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    (tmp_path / "frank.env").chmod(0)
    assert "permission" in refused(capsys, "check", *words, kind="unreadable")


@pytest.mark.parametrize(("text", "line", "right"), [
    ("engine = \n", 1, "is not valid TOML"),
    ('engine = "radiance@1.0.13"\n[facts\n', 2, "is not valid TOML"),
    ('engine = "radiance@1.0.13"\n\ncolour = "red"\n', 3, "'colour' means nothing here; known: engine, config"),
    ("engine = 5\n", 1, "engine is a text in quotes"),
    ('engine = "radiance@1.0.13"\nconfig = 5\n', 2, "config is a file name or a list of them"),
    ('engine = "radiance@1.0.13"\nconfig = ["frank.env", 5]\n', 2, "config is a file name or a list of them"),
    ('config = "frank.env"\nsessions = 0\n', 2, "sessions is a whole number from 1"),
    ('config = "frank.env"\nsessions = true\n', 2, "sessions is a whole number from 1"),
    ('config = "frank.env"\nfacts = 1\n', 2, "facts is a table"),
    ('config = "frank.env"\nlimits = 1\n', 2, "limits is a list of constraint names"),
])
def test_broken_site(text: str, line: int, right: str, tmp_path: Path, capsys: Capture) -> None:
    STATED.words(tmp_path)
    (tmp_path / "site.toml").write_text(text, encoding="utf-8")
    for named in (tmp_path, tmp_path / "site.toml"):
        message = refused(capsys, "check", str(named), kind="unreadable")
        assert at(message) == f"{tmp_path / 'site.toml'}:{line}"
        assert right in message


@pytest.mark.parametrize(("text", "right"), [
    ('[facts]\npair_ceiling = "30969"\n', "such as 30969MiB"),
    ('[facts]\npair_ceiling = 30969\n', "such as 30969MiB"),
    ('[facts]\nnothing = "1MiB"\n', "no fact is called 'nothing'"),
    ('[set]\nbogus = 1\n', "no knob 'bogus'"),
    ('[set]\nmax_num_seqs = 0\n', "write a number from 1 to 4096 sequences"),
])
def test_wrong_value_in_a_site(text: str, right: str, tmp_path: Path, capsys: Capture) -> None:
    STATED.words(tmp_path)
    head = f'engine = "{STATED.engine}"\nconfig = "frank.env"\n'
    (tmp_path / "site.toml").write_text(head + text, encoding="utf-8")
    line = refused(capsys, "check", str(tmp_path))
    assert at(line) == f"{tmp_path / 'site.toml'}:4"
    assert right in line


def test_an_unknown_limit_in_a_site(tmp_path: Path, capsys: Capture) -> None:
    STATED.words(tmp_path)
    text = f'engine = "{STATED.engine}"\nconfig = "frank.env"\nlimits = ["bogus"]\n'
    (tmp_path / "site.toml").write_text(text, encoding="utf-8")
    line = refused(capsys, "check", str(tmp_path))
    assert at(line) == str(tmp_path / "site.toml")
    assert "no constraint is called 'bogus'" in line


def test_a_site_that_is_no_text(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "site.toml").write_bytes(b"\xff\xfe\x00")
    line = refused(capsys, "check", str(tmp_path), kind="unreadable")
    assert at(line) == str(tmp_path / "site.toml")


def test_the_log_of_another_engine(tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "halogen.log"
    log.write_text(HALOGEN_LOG, encoding="utf-8")
    for words in (["check", *STATED.words(tmp_path), "--ledger", str(log)], ["ledger", str(log), *RADIANCE]):
        line = refused(capsys, *words, kind="unreadable")
        assert at(line) == str(log)
        assert "a log of halogen" in line


def test_the_config_of_another_engine(tmp_path: Path, capsys: Capture) -> None:
    """Defaults alone must not answer for a file that says nothing of the engine."""
    (tmp_path / "halogen.log").write_text(HALOGEN_LOG, encoding="utf-8")
    STATED.words(tmp_path)
    frank, log = str(tmp_path / "frank.env"), str(tmp_path / "halogen.log")
    named = ["--engine", "halogen@0.13.0", *facts(*HOST)]
    for words in (["--config", frank, "--ledger", log], ["--config", frank, *named]):
        line = refused(capsys, "check", *words, kind="unreadable")
        assert at(line) == frank
        assert "none of its settings is a knob of halogen@0.13.0" in line
    words = Server("radiance@1.8.1", halogen_env(), facts=(*BUDGET, "container=iq4r")).words(tmp_path)
    assert "none of its settings is a knob of radiance@1.8.1" in refused(capsys, "check", *words, kind="unreadable")


def test_an_image_alone_speaks_of_its_engine(tmp_path: Path, capsys: Capture) -> None:
    compose = "services:\n  llm:\n    image: example/halogen-flash-server:0.13.0\n    environment:\n      TZ: UTC\n"
    (tmp_path / "compose.yaml").write_text(compose, encoding="utf-8")
    said = ask(capsys, "check", "--config", str(tmp_path / "compose.yaml"), *facts(*HOST), "--json")
    assert said.document["engine"]["version"] == "0.13.0"
    assert said.document["unmapped"]


def test_init_overwrites_nothing(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    folder = tmp_path / "site"
    assert ask(capsys, "init", str(folder), *words).code == 0
    before = (folder / "site.toml").read_bytes()
    assert "--force" in refused(capsys, "init", str(folder), *words)
    assert (folder / "site.toml").read_bytes() == before
    assert "cannot be written" in refused(capsys, "init", str(tmp_path / "frank.env"), *words)
    assert (tmp_path / "frank.env").read_text(encoding="utf-8") == STATED.config["frank.env"]


def test_answers_of_people_stay_off_stderr(tmp_path: Path, capsys: Capture) -> None:
    words = STATED.words(tmp_path)
    for command in ("check", "free"):
        said: Said = ask(capsys, command, *words)
        assert (said.code, said.err) == (0, "")
        assert said.out


def test_a_variable_that_no_file_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit, env = tmp_path / "a.service", tmp_path / "llm.env"
    unit.write_text("[Service]\nEnvironmentFile=/nowhere/llm.env\nExecStart=radiance --tp 2 --max-num-seqs ${N}\n")
    env.write_text("N=3\n")  # not where the unit looks
    said = ask(capsys, "check", "--config", str(unit), "--config", str(env), "--engine", "radiance@1.0.13")
    assert said.code == 2
    for part in (f"{unit}:3: ", "none of the files read sets N;", f"{unit}:2: the file /nowhere/llm.env is not there"):
        assert part in said.err
