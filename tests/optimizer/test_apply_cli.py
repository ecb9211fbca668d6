"""``apply`` on files as operators have them: what is shown, what is written, what is refused, and what is on record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import optimizer.apply
from measurements.config.write import Written, write_files
from measurements.history import read_history
from measurements.records import ReadError
from measurements.site import load, read_site
from optimizer.apply import carry_out, plan_of_values
from optimizer.schema import schema
from tests.optimizer.servers import (
    DERIVED,
    FUNDED,
    HALOGEN,
    HALOGEN_READ,
    MEASURED,
    STATED,
    Said,
    Server,
    ask,
    halogen_env,
    measured,
    pair_env,
    site_of,
    with_config,
)
from tests.optimizer.test_schema import valid

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
Capture = pytest.CaptureFixture[str]


def listing(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def applied(capsys: Capture, *words: str) -> Said:
    """What ``apply`` answers, valid."""
    said = ask(capsys, "apply", *words, "--json")
    assert said.code in (0, 3), said.document
    valid("apply", said.document)
    return said


def recorded(folder: Path) -> list[Mapping[str, Any]]:
    """The records beside a site."""
    found = read_history(folder / "shapewright-history.jsonl")
    assert found.skipped == ()
    return list(found.records)


def test_without_write_nothing_is_touched(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, STATED)
    before = listing(tmp_path)
    said = applied(capsys, str(site), "--goal", "slab", "--comment")
    assert said.code == 0
    document = said.document
    assert (document["written"], document["why_not"]) == (False, "--write was not given")
    assert document["record"]["id"] is None
    assert "-FRANK_ARCHON_VRAM_WEIGHTS_MIB=22208\n" in document["diff"]
    assert "+# shapewright " in document["diff"]
    assert listing(tmp_path) == before
    assert "Nothing was written" in ask(capsys, "apply", str(site), "--goal", "slab").out
    assert listing(tmp_path) == before


def test_it_writes_what_propose_shows(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, STATED)
    proposed = ask(capsys, "propose", str(site), "--goal", "slab", "--json").document
    old = (tmp_path / "frank.env").read_bytes()
    document = applied(capsys, str(site), "--goal", "slab", "--write", "--note", "for the weekend").document
    for part in ("diff", "edits", "predicted", "rank"):
        assert document[part] == proposed[part]
    new = (tmp_path / "frank.env").read_bytes()
    (file,) = document["files"]
    assert Path(file["backup"]).read_bytes() == old
    changed = [pair for pair in zip(old.splitlines(), new.splitlines(), strict=True) if pair[0] != pair[1]]
    assert [line.partition(b"=")[0] for line, _ in changed] == [
        b"FRANK_ARCHON_VRAM_WEIGHTS_MIB", b"FRANK_ARCHON_VRAM_KV_MIB"]
    (record,) = recorded(tmp_path)
    assert record["id"] == document["record"]["id"]
    assert (record["goal"], record["note"], record["outcomes"]) == ("slab", "for the weekend", ["serves"])
    assert record["changes"] == document["changes"]
    assert record["files"] == [{"file": "frank.env", "before": file["before"], "after": file["after"]}]
    for name, row in document["predicted"].items():
        assert (record["rows"][name]["low"], record["rows"][name]["high"]) == (row["low"], row["high"])
    assert set(record["printed"]) == set(document["predicted"])
    assert applied(capsys, str(site), "--goal", "slab").document["diff"] == ""


def test_values_may_be_spelled(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    document = applied(capsys, str(site), "--to", "host-reserve-gib=19", "--write").document
    assert (document["goal"], document["rank"], document["changes"]) == (None, None, {"host_reserve_gib": [20, 19]})
    assert "HALOGEN_HOST_RESERVE_GIB=19\n" in (tmp_path / "halogen.env").read_text(encoding="utf-8")
    out = ask(capsys, "apply", str(site), "--to", "host_reserve_gib=20", "--write").out
    assert "as spelled: host_reserve_gib 19 -> 20" in out
    assert "is on record in" in out
    assert (tmp_path / "halogen.env").read_text(encoding="utf-8") == HALOGEN_READ.config["halogen.env"]
    assert [record["changes"] for record in recorded(tmp_path)] == [
        {"host_reserve_gib": [20, 19]}, {"host_reserve_gib": [19, 20]}]


def test_a_shape_as_it_is_may_be_put_on_record(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    before = listing(tmp_path)
    document = applied(capsys, str(site), "--to", "host_reserve_gib=20", "--write").document
    assert (document["diff"], document["files"], document["written"]) == ("", [], True)
    after = listing(tmp_path)
    assert set(after) - set(before) == {"shapewright-history.jsonl"}
    assert len(recorded(tmp_path)) == 1
    out = ask(capsys, "apply", str(site), "--to", "host_reserve_gib=20", "--write").out
    assert "the files already have this shape; what its next boot must print is put on record" in out


def test_what_the_files_did_not_hold_must_be_taken_by_something(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, STATED)
    note = f"FRANK_ARCHON_GPU_HEADROOM_MIB is new in {tmp_path / 'frank.env'}: see that what starts the server takes it"
    assert note in applied(capsys, str(site), "--to", "gpu_headroom_mib=64").document["warnings"]
    proposed = ask(capsys, "propose", str(site), "--goal", "slab", "--given", "gpu_headroom_mib=64", "--json").document
    assert note in proposed["warnings"]


def test_what_moves_along_moves_with_spelled_values_too(tmp_path: Path, capsys: Capture) -> None:
    server = with_config(FUNDED, {".env": FUNDED.config[".env"] + "TTM_MIN_MIB=83328\nTTM_TARGET_MIB=87424\n"})
    site = site_of(tmp_path, server)
    document = applied(capsys, str(site), "--to", "host_pool_mib=13312").document
    moved = {item["knob"]: item["to"] - item["from"] for item in document["companions"]}
    assert moved["ttm_min_mib"] >= 2048
    assert f"+TTM_MIN_MIB={83328 + moved['ttm_min_mib']}\n" in document["diff"]


def test_what_a_version_no_longer_knows_goes_with_the_edit(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, with_config(FUNDED, {".env": FUNDED.config[".env"] + "VRAM_KV_MIB=6912\n"}))
    said = applied(capsys, str(site), "--to", "host_pool_mib=13312", "--write")
    assert (said.code, said.document["edits"]["vram_kv_mib"], said.document["written"]) == (0, None, True)
    assert "VRAM_KV_MIB" not in (tmp_path / ".env").read_text(encoding="utf-8")


def test_a_goal_on_speed(tmp_path: Path, capsys: Capture) -> None:
    server, text = MEASURED["stated pair"]
    document = applied(capsys, *measured(tmp_path, server, text), "--goal", "prefill", "--write").document
    assert (document["goal"], document["written"]) == ("prefill", True)
    assert recorded(tmp_path)[0]["goal"] == "prefill"


@pytest.mark.parametrize(("reserve", "why"), [("17", "knife edge"), ("24", "does not fit")])
def test_a_shape_that_may_fail_is_written_only_on_demand(tmp_path: Path, capsys: Capture, reserve: str,
                                                         why: str) -> None:
    site = site_of(tmp_path, Server("halogen@0.13.0", halogen_env(reserve=15), facts=("mem_total=127104060KiB",)))
    before = listing(tmp_path)
    said = applied(capsys, str(site), "--to", f"host_reserve_gib={reserve}", "--write")
    assert said.code == 3
    assert why in said.document["why_not"]
    assert listing(tmp_path) == before
    assert "--anyway" in ask(capsys, "apply", str(site), "--to", f"host_reserve_gib={reserve}", "--write").out
    said = applied(capsys, str(site), "--to", f"host_reserve_gib={reserve}", "--write", "--anyway")
    assert (said.code, said.document["written"]) == (3, True)
    outcomes = ["serves", "clamped"] if reserve == "17" else ["clamped"]
    assert recorded(tmp_path)[0]["outcomes"] == outcomes


ENV = STATED.config["frank.env"]
GUESSES = {
    "twice": (ENV + "FRANK_ARCHON_VRAM_KV_MIB=6912\n", "is set twice, at"),
    "default": (ENV.replace("MIB=6912", "MIB=${KV:-6912}"), "is the default of ${KV}"),
    "put together": (ENV.replace("MIB=6912", "MIB=69${X:-12}"), "put together from other text"),
    "shared": (ENV.replace("FRANK_ARCHON_VRAM_KV_MIB=6912", "N=6912\nFRANK_ARCHON_VRAM_KV_MIB=$N\nOTHER=$N"),
               "also sets OTHER"),
}


@pytest.mark.parametrize(("text", "why"), GUESSES.values(), ids=GUESSES)
def test_a_guess_is_refused_and_nothing_written(tmp_path: Path, capsys: Capture, text: str, why: str) -> None:
    site = site_of(tmp_path, with_config(STATED, {"frank.env": text}))
    before = listing(tmp_path)
    words = [str(site), "--to", "vram_kv_mib=6900", "--to", "vram_weights_mib=22209"]
    document = applied(capsys, *words).document
    assert [(item["knob"], why in item["why"]) for item in document["refused"]] == [("vram_kv_mib", True)]
    assert "+FRANK_ARCHON_VRAM_WEIGHTS_MIB=22209" in document["diff"]
    said = ask(capsys, "apply", *words, "--write")
    assert (said.code, said.out) == (2, "")
    assert "nothing was written, for this would be a guess: vram_kv_mib=6900: " in said.err
    assert why in said.err
    assert "frank.env:" in said.err
    assert listing(tmp_path) == before
    asked = (str(site), "--goal", "slab", "--given", "max_num_seqs=3")
    proposed, document = ask(capsys, "propose", *asked, "--json").document, applied(capsys, *asked).document
    assert proposed["diff"] == document["diff"] != ""
    assert proposed["refused"] == document["refused"] != []
    assert "The diff alone is another shape" in ask(capsys, "propose", *asked).out


def test_a_file_that_changes_meanwhile_is_left_alone(tmp_path: Path, capsys: Capture,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_of(tmp_path, STATED)

    def late(*words: Any) -> Written:
        with (tmp_path / "frank.env").open("a", encoding="utf-8") as stream:
            stream.write("# written by hand\n")
        return write_files(*words)

    monkeypatch.setattr(optimizer.apply, "write_files", late)
    said = ask(capsys, "apply", str(site), "--goal", "slab", "--write", "--json")
    assert said.code == 2
    valid("error", said.document)
    assert "was changed since it was read: ask again" in said.document["error"]["message"]
    assert (tmp_path / "frank.env").read_text(encoding="utf-8") == ENV + "# written by hand\n"
    assert recorded(tmp_path) == []


def test_no_record_no_change(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_of(tmp_path, STATED)
    before = listing(tmp_path)
    said = ask(capsys, "apply", str(site), "--goal", "slab", "--write", "--record", str(tmp_path / "no" / "h"))
    assert said.code == 2
    assert "--record FILE" in said.err
    assert listing(tmp_path) == before

    def full(*_: object) -> None:
        raise ReadError("the record did not arrive whole", kind="usage")

    monkeypatch.setattr("measurements.history.Writer.append", full)
    said = ask(capsys, "apply", str(site), "--goal", "slab", "--write")
    assert said.code == 2
    assert "did not arrive whole; nothing was changed" in said.err
    after = listing(tmp_path)
    assert after.pop("shapewright-history.jsonl") == b""
    assert after == before


SECRET = "hf_abcdefghijklmnopqrstuvwxyz"


def test_secrets_stay_where_they_are_and_are_told_to_nobody(tmp_path: Path, capsys: Capture) -> None:
    lines = {
        "serve.sh": DERIVED.config["serve.sh"].replace("--tp 2", f"--api-key {SECRET} --tp 2").strip() + "\n",
        "frank.env": ENV.replace("# sizing", f"HF_TOKEN={SECRET}\n# sizing")
                        .replace("KV_MIB=6912", f"KV_MIB=6912 # {SECRET}"),
    }
    for name, server in (("serve.sh", DERIVED), ("frank.env", STATED)):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        site = site_of(folder, with_config(server, {name: lines[name]}))
        words = [str(site), "--goal", "slab", "--given", "max_num_seqs=1", "--write", "--comment", "--note",
                 f"token {SECRET}"]
        said = ask(capsys, "apply", *words)
        assert said.code == 0
        assert SECRET not in said.out + said.err
        assert (folder / name).read_text(encoding="utf-8").count(SECRET) == lines[name].count(SECRET)
        assert SECRET not in (folder / "shapewright-history.jsonl").read_text(encoding="utf-8")
        assert SECRET not in json.dumps(applied(capsys, *words[:-2]).document)


def test_a_question_that_nothing_answers(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, STATED)
    before = listing(tmp_path)
    said = ask(capsys, "apply", str(site), "--goal", "slab", "--given", "max_num_seqs=8", "--given",
               "kv_cache_dtype=bf16", "--at-least", "vram_weights=25600MiB", "--write", "--json")
    assert (said.code, said.document["status"]) == (3, "infeasible")
    valid("apply", said.document)
    assert listing(tmp_path) == before


@pytest.mark.parametrize(("words", "right"), [
    (["--to", "max_num_seqs=2", "--goal", "slab"], "leave out --goal"),
    (["--to", "max_num_seqs=two"], "not a whole number"),
    (["--to", "max_seqs=2"], "its knobs:"),
    (["--to", "model=x"], "nothing here tells what it does to memory"),
    (["--to", "embedding_placement=ram"], "nothing here tells what it does to memory"),
    (["--to", "checkpoint_slots=auto"], "write the number"),
    ([], "--to KNOB=VALUE, or --goal GOAL"),
    (["--given", "max_num_seqs=2"], "--to KNOB=VALUE, or --goal GOAL"),
    (["--to", "tp=1"], "ask with --set tp=N"),
    (["--goal", "slab", "--given", "tp=1"], "ask with --set tp=N"),
    (["--goal", "slab", "--at-most", "tp=1"], "ask with --set tp=N"),
    (["--goal", "fame"], "its goals:"),
])
def test_wrong_words(tmp_path: Path, capsys: Capture, words: list[str], right: str) -> None:
    site = site_of(tmp_path, STATED)
    before = listing(tmp_path)
    said = ask(capsys, "apply", str(site), *words, "--write")
    assert (said.code, said.out) == (2, "")
    assert right in said.err
    assert listing(tmp_path) == before


def test_it_needs_a_file_and_facts(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "boot.log").write_text(DERIVED.log, encoding="utf-8")
    said = ask(capsys, "apply", "--ledger", str(tmp_path / "boot.log"), "--engine", DERIVED.engine, "--fact",
               "container=iq4r", "--set", "host_pool_mib=12288", "--to", "max_num_seqs=1", "--write")
    assert said.code == 2
    assert "give it with --config FILE" in said.err
    words = Server("radiance@1.0.13", DERIVED.config).words(tmp_path)
    assert ask(capsys, "apply", *words, "--to", "max_num_seqs=1", "--write").code == 4


def test_without_a_site_the_records_lie_beside_the_file(tmp_path: Path, capsys: Capture) -> None:
    document = applied(capsys, *HALOGEN.words(tmp_path), "--to", "kv_slots=2", "--write").document
    assert document["record"]["file"] == str(tmp_path / "shapewright-history.jsonl")
    assert len(recorded(tmp_path)) == 1


def test_two_files_are_written_both(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pair_env(22_208, 6_912, 4, 200_000)["frank.env"]
    first, second = whole.split("# sizing\n")
    server = with_config(STATED, {"a.env": first + "FRANK_ARCHON_MAX_SEQS=4\n",
                                  "b.env": second.replace("FRANK_ARCHON_MAX_SEQS=4\n", "")})
    site = site_of(tmp_path, server)
    before, real, calls = listing(tmp_path), os.replace, []

    def failing(*words: str) -> None:
        calls.append(words)
        if len(calls) == 2:
            raise OSError(30, "Read-only file system")
        real(*words)

    words = [str(site), "--to", "max_num_seqs=3", "--to", "vram_kv_mib=6900", "--write"]
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", failing)
        said = ask(capsys, "apply", *words)
    assert said.code == 2
    assert "nothing was changed" in said.err
    after = listing(tmp_path)
    assert after.pop("shapewright-history.jsonl") == b""
    assert after == before
    assert len(applied(capsys, *words).document["files"]) == 2
    assert "MAX_SEQS=3" in (tmp_path / "a.env").read_text(encoding="utf-8")
    assert "KV_MIB=6900" in (tmp_path / "b.env").read_text(encoding="utf-8")


def test_a_kill_leaves_whole_files_and_none_without_its_record(tmp_path: Path) -> None:
    """Killed at every call that touches the disk, one after the other."""
    first, second = pair_env(22_208, 6_912, 4, 200_000)["frank.env"].split("# sizing\n")
    server = with_config(STATED, {"a.env": first + "FRANK_ARCHON_MAX_SEQS=4\n",
                                  "b.env": second.replace("FRANK_ARCHON_MAX_SEQS=4\n", "")})
    values = {"max_num_seqs": "3", "vram_kv_mib": "6900"}
    seen, calls = set(), 0
    while True:
        folder = tmp_path / str(calls)
        folder.mkdir()
        plan = plan_of_values(load(read_site(site_of(folder, server))), values, now=NOW)
        old, record = dict(plan.edit.texts), folder / "shapewright-history.jsonl"
        before = {file: Path(file).read_text(encoding="utf-8") for file in old}
        killed = killed_at(calls, partial(carry_out, plan, record))
        new = [file for file in old if Path(file).read_text(encoding="utf-8") == plan.edit.texts[file]]
        assert all(Path(file).read_text(encoding="utf-8") == before[file] for file in old if file not in new)
        predictions = read_history(record).of("prediction")
        assert predictions or not new
        seen.add((len(new), len(predictions)))
        if not killed:
            break
        again = plan_of_values(load(read_site(folder)), values, now=NOW)  # and nothing stands in the way
        carry_out(again, record)
        assert {file: Path(file).read_text(encoding="utf-8") for file in old} == plan.edit.texts
        calls += 1
    assert seen == {(0, 0), (0, 1), (1, 1), (2, 1)}
    assert calls > 20


def killed_at(call: int, what: Callable[[], object]) -> bool:
    """Whether a process that is killed at this one of its calls to the disk got there before it was done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, whose locks the child does not take
        child = os.fork()
    if child == 0:
        left = [call]

        def dying(real: Callable[..., Any], *words: Any, **named: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*words, **named)

        for name in ("open", "write", "fsync", "fchmod", "replace", "unlink"):
            setattr(os, name, partial(dying, getattr(os, name)))
        what()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_two_at_once_leave_one_shape_and_its_record(tmp_path: Path) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    code = "import sys; from optimizer.cli import run; sys.exit(run(sys.argv[1:]))"
    processes = [subprocess.Popen([sys.executable, "-c", code, "apply", str(site), "--to", f"host_reserve_gib={value}",
                                   "--write"], cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) for value in (18, 19)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    done = [value for value, process in zip((18, 19), processes, strict=True) if process.returncode == 0]
    assert done, errors
    assert all("changed since it was read" in error for error in errors if error)
    records = recorded(tmp_path)
    assert sorted(record["shape"]["host_reserve_gib"] for record in records) == done
    last = records[-1]["shape"]["host_reserve_gib"]
    assert (tmp_path / "halogen.env").read_text(encoding="utf-8") == halogen_env(reserve=last)["halogen.env"]
    assert len(list(tmp_path.glob("*.bak"))) == len(done)
    assert not list(tmp_path.glob(".*.new"))


def test_the_schema_is_strict(tmp_path: Path, capsys: Capture) -> None:
    from jsonschema import Draft202012Validator

    site = site_of(tmp_path, STATED)
    validator = Draft202012Validator(schema("apply"))
    shown = applied(capsys, str(site), "--goal", "slab").document
    written = applied(capsys, str(site), "--goal", "slab", "--write").document
    wrong: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (shown, {"written": True}), (shown, {"why_not": None}), (shown, {"extra": 1}), (shown, {"verdict": "maybe"}),
        (shown, {"goal": "fame"}), (shown, {"rank": 0}), (shown, {"edits": {"tp": 2}}),
        (shown, {"record": {"file": "x", "id": "0" * 12}}), (written, {"why_not": "x"}),
        (written, {"record": {"file": "x", "id": None}}), (written, {"record": {"file": "x", "id": "xyz"}}),
        (written, {"refused": [{"knob": "tp", "why": "x"}]}), (written, {"outcomes": []}),
        (written, {"files": [{**written["files"][0], "backup": None}]}),
        (written, {"files": [{**written["files"][0], "before": "abc"}]}),
    ]
    for document, change in wrong:
        assert not validator.is_valid({**document, **change}), change
    assert not validator.is_valid({key: value for key, value in shown.items() if key != "diff"})
