"""Every answer of every command keeps to its schema, for every generation of both engines."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from models.declare import Basis, Outcome, Phase, Verdict
from models.engines import build, resolve
from optimizer.schema import NAMES, schema
from optimizer.speed import GOALS as SPEED_GOALS
from tests.optimizer.servers import (
    BUDGET,
    DERIVED,
    FUNDED,
    HALOGEN,
    HOST,
    MEASURED,
    SERVERS,
    STALLED_LOG,
    STATED,
    Said,
    Server,
    ask,
    facts,
    funded_env,
    halogen_env,
    measured,
    pair_env,
    site_of,
    with_config,
)

VALIDATORS = {name: Draft202012Validator(schema(name)) for name in NAMES}
GOALS = ("context", "sequences", "sessions", "slab", "host-ram", "headroom")


def valid(name: str, document: Mapping[str, Any]) -> None:
    """The document keeps to its schema, and what a schema cannot say holds too."""
    VALIDATORS[name].validate(document)
    finite(document)
    for part in parts(document):
        low, high = part.get("low"), part.get("high")
        if isinstance(low, int) and isinstance(high, int):
            assert low <= high, part
            if isinstance(part.get("value"), int):
                assert low <= part["value"] <= high, part
        if isinstance(part.get("slack"), int) and isinstance(part.get("slack_high"), int):
            assert part["slack"] <= part["slack_high"], part
            if part["ok"]:
                assert part["slack"] >= 0, part
            elif part["verdict"] == "does_not_fit":
                assert part["slack_high"] < 0, part


def finite(node: Any) -> None:
    """No number in a document is NaN or infinite."""
    if isinstance(node, float):
        assert math.isfinite(node)
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        finite(item)


def parts(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a document."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from parts(item)


def answered(said: Said, name: str) -> dict[str, Any]:
    """The document of an answer, valid, with an exit code that goes with it."""
    assert said.err == ""
    if said.code in (2, 4):
        valid("error", said.document)
        assert (said.document["error"]["kind"] == "missing_facts") == (said.code == 4)
        return said.document
    valid(name, said.document)
    return said.document


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_complete_in_themselves(name: str) -> None:
    pointers = [part["$ref"] for part in parts(schema(name)) if isinstance(part.get("$ref"), str)]
    assert all(pointer.startswith("#/$defs/") for pointer in pointers)
    assert {pointer.removeprefix("#/$defs/") for pointer in pointers} <= set(schema(name)["$defs"])


def test_there_is_no_schema_of_another_name() -> None:
    with pytest.raises(KeyError):
        schema("common")


def test_words_are_those_of_the_models() -> None:
    shared = schema("check")["$defs"]
    assert shared["verdict"]["enum"] == [verdict.word for verdict in Verdict]
    assert shared["outcome"]["enum"] == [outcome.word for outcome in Outcome]
    assert shared["phase"]["enum"] == [phase.value for phase in Phase]
    assert shared["basis"]["enum"] == list(Basis.__args__)  # type: ignore[attr-defined]
    assert shared["goal"]["enum"] == list(GOALS)
    assert shared["speed_goal"]["enum"] == list(SPEED_GOALS)
    for engine in ("radiance@1.0.13", "radiance@1.8.1", "halogen@0.13.0"):
        model = build(resolve(engine), container="")
        assert set(model.goals) | set(model.no_goals) <= set(GOALS)


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_check(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "check", *server.words(tmp_path), "--json")
    document = answered(said, "check")
    assert said.code == (0 if document["verdict"] == "fits" else 3)
    assert f"{document['engine']['name']}@{document['engine']['version']}" == server.engine
    assert {item["name"] for item in document["open_facts"]} == {
        name for constraint in document["constraints"] for name in constraint["missing"]
    }


@pytest.mark.parametrize(("name", "goal"), [
    (name, goal) for name in SERVERS for goal in GOALS if (name, goal) != ("radiance 1.2", "context")
])
def test_solve(name: str, goal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = SERVERS[name].words(tmp_path)
    said = ask(capsys, "solve", *words, "--json", "--goal", goal, "--top", "2")
    document = answered(said, "solve")
    if name.startswith("halogen") and goal == "slab":
        assert (said.code, document["error"]["kind"]) == (2, "usage")
        return
    assert said.code == 0
    assert document["status"] == "optimal"
    ranked_well(document)


def ranked_well(document: Mapping[str, Any]) -> None:
    """Ranks count from 1, the shapes differ, each fits, and its changes are those of its shape."""
    shapes = document["shapes"]
    assert [shape["rank"] for shape in shapes] == list(range(1, len(shapes) + 1))
    assert len({str(shape["shape"]) for shape in shapes}) == len(shapes)
    assert not set(document["free"]) & set(document["held"])
    assert not set(document["free"]) & set(document["given"])
    for shape in shapes:
        assert shape["verdict"] == "fits"
        assert shape["outcome"] == "serves"
        for knob, (old, new) in shape["changes"].items():
            assert shape["shape"][knob] == new != old
            assert knob in document["free"] or knob in document["given"]


@pytest.mark.parametrize("name", ["radiance 1.0 stated", "radiance 1.0 derived", "halogen 0.13 with its log",
                                  "halogen 0.5 clamped"])
def test_free(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "free", *SERVERS[name].words(tmp_path), "--json")
    document = answered(said, "free")
    assert said.code == 0
    assert len({use["goal"] for use in document["uses"]}) == len(document["uses"])


@pytest.mark.parametrize("name", SERVERS)
def test_propose(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "propose", *SERVERS[name].words(tmp_path), "--json", "--goal", "host-ram", "--top", "1")
    document = answered(said, "propose")
    assert said.code == 0
    ranked_well(document)
    assert set(document["predicted"]) <= set(document["shapes"][0]["quantities"])


@pytest.mark.parametrize("name", SERVERS)
def test_plan(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "plan", *SERVERS[name].words(tmp_path), "--json", "--goal", "host-ram")
    document = answered(said, "plan")
    assert said.code == (0 if document["status"] in ("planned", "two_knobs") else 3)
    assert [step["step"] for step in document["steps"]] == list(range(1, document["deploys"] + 1))


@pytest.mark.parametrize("name", [name for name, server in SERVERS.items() if server.log])
def test_ledger(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = SERVERS[name]
    server.words(tmp_path)
    said = ask(capsys, "ledger", str(tmp_path / "boot.log"), "--json")
    document = answered(said, "ledger")
    assert said.code == 0
    assert document["engine"]["name"] == server.engine.partition("@")[0]
    assert document["contradictions"] == []
    for item in [*document["facts"].values(), *document["rows"].values(), *document["knobs"].values()]:
        file, _, line = item["source"].rpartition(":")
        assert file == str(tmp_path / "boot.log")
        assert 1 <= int(line) <= server.log.count("\n")


def test_ledger_of_a_boot_that_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "boot.log"
    log.write_text(DERIVED.log.partition("  static weights")[0], encoding="utf-8")
    said = ask(capsys, "ledger", str(log), "--json")
    valid("ledger", said.document)
    assert said.code == 4
    assert "static_weights" in said.document["missing"]


@pytest.mark.parametrize("name", SERVERS)
def test_init(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = SERVERS[name].words(tmp_path)
    said = ask(capsys, "init", str(tmp_path / "site"), *words, "--json")
    assert said.code == 0
    document = answered(said, "init")
    assert document["engine"] == SERVERS[name].engine
    assert Path(document["site"]).is_file()
    for command in document["next"]:
        program, word, folder = command.split()
        assert (program, folder) == ("shapewright", str(tmp_path / "site"))
        if word == "check":
            answered(ask(capsys, word, folder, "--json"), "check")


KINDS: Mapping[str, tuple[Server, int, str, str]] = {
    "fits": (STATED, 0, "fits", "serves"),
    "eats the settle floor": (with_config(STATED, pair_env(26_000, 5_069, 3, 200_000)), 3, "does_not_fit", "serves"),
    "past the settle floor": (
        with_config(STATED, pair_env(26_071, 5_120, 3, 200_000)), 3, "does_not_fit", "out_of_memory_at_boot"),
    "preempts": (with_config(STATED, pair_env(22_208, 6_912, 5, 200_000)), 3, "does_not_fit", "preempts"),
    "rejects": (
        with_config(STATED, pair_env(26_071, 3_543, 1, 262_144, dtype="bf16")), 3, "does_not_fit",
        "rejects_long_requests"),
    "preempts 1.8": (with_config(FUNDED, funded_env(8)), 3, "does_not_fit", "preempts"),
    "refused": (
        with_config(FUNDED, funded_env(more="VRAM_KV_MIB=6912\n")), 3, "does_not_fit", "refused_at_boot"),
    "knife edge": (with_config(HALOGEN, halogen_env(reserve=17)), 3, "knife_edge", "clamped"),
    "clamped": (with_config(HALOGEN, halogen_env(reserve=24)), 3, "does_not_fit", "clamped"),
    "out of memory": (
        with_config(HALOGEN, halogen_env(max_tok=65_536, reserve=15)), 3, "does_not_fit", "out_of_memory_at_boot"),
    "pool below the context": (
        with_config(HALOGEN, halogen_env(pool=131_072)), 3, "does_not_fit", "refused_at_boot"),
    "stalls": (
        Server("halogen@0.5.8", halogen_env(pool=262_144), log=STALLED_LOG, facts=HOST), 3, "does_not_fit",
        "stalls"),
}


@pytest.mark.parametrize(("server", "code", "verdict", "outcome"), KINDS.values(), ids=KINDS)
def test_every_kind_of_verdict(
    server: Server, code: int, verdict: str, outcome: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    said = ask(capsys, "check", *server.words(tmp_path), "--json")
    document = answered(said, "check")
    assert (said.code, document["verdict"], document["outcome"]) == (code, verdict, outcome)
    if verdict == "knife_edge":
        assert document["outcomes"] == ["serves", "clamped"]


def test_infeasible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*STATED.words(tmp_path), "--json", "--goal", "slab", "--given", "max_num_seqs=8", "--given",
             "kv_cache_dtype=bf16", "--at-least", "vram_weights=25600MiB"]
    for command in ("solve", "propose"):
        said = ask(capsys, command, *words)
        document = answered(said, command)
        assert (said.code, document["status"]) == (3, "infeasible")
        named = {item["name"] for item in document["conflict"]}
        assert "at least vram_weights=25600MiB" in named
        assert named & {"max_num_seqs=8", "kv_cache_dtype=bf16"}


def test_missing_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = Server("radiance@1.0.13", DERIVED.config).words(tmp_path)
    for command in ("check", "solve", "free", "propose"):
        said = ask(capsys, command, *words, "--json")
        document = answered(said, command)
        assert said.code == 4
        assert {"card_total", "already_held", "static_weights"} <= {item["name"] for item in document["missing"]}
        assert all(item["how"] for item in document["missing"])


@pytest.mark.parametrize(("words", "kind"), [
    (["check"], "usage"),
    (["check", "--nonsense"], "usage"),
    (["chekc"], "usage"),
    (["check", "no-such-folder"], "unreadable"),
    (["check", "--config", "no-such-file"], "unreadable"),
    (["ledger"], "usage"),
    (["ledger", "no-such-file"], "unreadable"),
])
def test_errors(words: list[str], kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, *words, "--json")
    assert (said.code, answered(said, "check")["error"]["kind"]) == (2, kind)


@pytest.mark.parametrize(("engine", "kind"), [
    ("vllm@1.0.0", "unknown_engine"), ("halogen@9.9.0", "unknown_version"), ("halogen", "unknown_version"),
])
def test_unknown_engines(engine: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = Server(engine, HALOGEN.config, facts=HOST).words(tmp_path)
    for command in ("check", "solve", "free", "propose"):
        said = ask(capsys, command, *words, "--json")
        assert (said.code, answered(said, command)["error"]["kind"]) == (2, kind)


def test_upgrade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = str(site_of(tmp_path, STATED))
    said = ask(capsys, "check", site, "--json", "--engine", "radiance@1.8.1")
    document = answered(said, "check")
    assert (said.code, document["outcome"]) == (3, "refused_at_boot")
    assert any("--vram-weights-mib" in text for text in document["upgrade"])
    assert "upgrade" not in ask(capsys, "check", site, "--json").document
    words = [site, "--json", "--engine", "radiance@1.8.1", *facts(*BUDGET)]
    for command, more in (("solve", ["--goal", "host-ram"]), ("propose", ["--goal", "host-ram"])):
        said = ask(capsys, command, *words, *more)
        assert said.code == 0
        assert answered(said, command)["current"]["upgrade"] == document["upgrade"]


def test_a_fact_per_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = ("card_total.0=32624MiB", "card_total.1=32560MiB", *BUDGET[1:])
    document = answered(ask(capsys, "check", *Server("radiance@1.8.1", FUNDED.config, facts=pair).words(tmp_path),
                            "--json"), "check")
    assert document["binding_cards"]["card_total"] == 1
    assert "card_total.0" in document["facts"]


def edited(document: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A copy of the document with a change."""
    found = copy.deepcopy(document)
    change(found)
    return found


def test_schemas_are_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*STATED.words(tmp_path), "--json"]
    check = ask(capsys, "check", *words).document
    solve = ask(capsys, "solve", *words, "--goal", "slab", "--top", "1").document
    propose = ask(capsys, "propose", *words, "--goal", "slab", "--top", "1").document
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("check", edited(check, lambda d: d.update(extra=1))),
        ("check", edited(check, lambda d: d.update(schema_version=2))),
        ("check", edited(check, lambda d: d.update(verdict="maybe"))),
        ("check", edited(check, lambda d: d.update(outcome="preempts"))),
        ("check", edited(check, lambda d: d.pop("quantities"))),
        ("check", edited(check, lambda d: d["constraints"][1].update(ok=False))),
        ("check", edited(check, lambda d: d["quantities"]["vram_kv"].update(low=1.5))),
        ("check", edited(check, lambda d: d["quantities"]["vram_kv"].pop("unit"))),
        ("check", edited(check, lambda d: d["shape"].update({"Max-Seqs": 1}))),
        ("solve", edited(solve, lambda d: d.update(diff=""))),
        ("solve", edited(solve, lambda d: d.update(status="infeasible"))),
        ("solve", edited(solve, lambda d: d.update(conflict=[]))),
        ("solve", edited(solve, lambda d: d["shapes"][0]["objective"].update(low=1))),
        ("solve", edited(solve, lambda d: d["shapes"][0]["changes"].update(tp=[2]))),
        ("propose", edited(propose, lambda d: d.pop("diff"))),
        ("propose", edited(propose, lambda d: d.update(note=""))),
        ("propose", edited(propose, lambda d: d["edits"].update(tp=2))),
        ("error", {"schema_version": 1, "error": {"kind": "bug", "message": "x", "file": None, "line": None}}),
        ("error", {"schema_version": 1, "error": {"kind": "usage", "message": "x", "file": None}}),
        ("error", {"schema_version": 1, "error": {"kind": "missing_facts", "message": "x", "file": None,
                                                  "line": None}}),
    ]
    for number, (name, document) in enumerate(wrong):
        assert not VALIDATORS[name].is_valid(document), number


SPEED_ANSWERS: Mapping[str, tuple[str, ...]] = {
    "laws": (), "prefill": ("--top", "2"), "decode": ("--top", "1"),
    "decode-total": ("--top", "1", "--confidence", "0.8"), "balanced": ("--top", "1", "--prompt-tokens", "20000"),
    "propose": ("--goal", "prefill", "--top", "1"), "next": ("--goal", "prefill"),
}


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("asked", SPEED_ANSWERS)
def test_speeds(name: str, asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server, text = MEASURED[name]
    command = [asked] if asked in ("laws", "propose", "next") else ["solve", "--goal", asked]
    said = ask(capsys, *command, *measured(tmp_path, server, text), *SPEED_ANSWERS[asked], "--json")
    document = answered(said, command[0])
    assert said.code == 0
    if command[0] in ("solve", "propose"):
        ranked_well(document)
        for shape in document["shapes"]:
            found = shape["objective"]["prediction"]
            assert found["low"] <= found["median"] <= found["high"]


def test_speed_schemas_are_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server, text = MEASURED["stated pair"]
    words = [*measured(tmp_path, server, text), "--json"]
    solve = ask(capsys, "solve", *words, "--goal", "prefill", "--top", "1").document
    laws = ask(capsys, "laws", *words).document
    after = ask(capsys, "next", *words).document
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("solve", edited(solve, lambda d: d.pop("speed"))),
        ("solve", edited(solve, lambda d: d.pop("within"))),
        ("solve", edited(solve, lambda d: d.update(goal="slab"))),
        ("solve", edited(solve, lambda d: d.update(order=["prefill"]))),
        ("solve", edited(solve, lambda d: d["shapes"][0]["objective"].pop("prediction"))),
        ("solve", edited(solve, lambda d: d["shapes"][0]["objective"].update(value=None))),
        ("solve", edited(solve, lambda d: d["shapes"][0]["objective"]["prediction"].update(sure=1))),
        ("solve", edited(solve, lambda d: d["speed"].update(note=""))),
        ("solve", edited(solve, lambda d: d["speed"]["laws"][0].update(noise=0))),
        ("solve", edited(solve, lambda d: d["speed"]["laws"][0]["weights"].update(hinge=1.2))),
        ("solve", edited(solve, lambda d: d["speed"]["workload"].update(streams="some"))),
        ("solve", edited(solve, lambda d: d["within"][0].pop("why"))),
        ("laws", edited(laws, lambda d: d.update(laws=[]))),
        ("laws", edited(laws, lambda d: d.update(note=""))),
        ("laws", edited(laws, lambda d: d["laws"][0].update(metric="ttft"))),
        ("laws", edited(laws, lambda d: d["laws"][0].update(points=1))),
        ("laws", edited(laws, lambda d: d["laws"][0]["forms"][0].update(weight=1.5))),
        ("laws", edited(laws, lambda d: d["laws"][0]["forms"][0].update(left_out_error=None))),
        ("laws", edited(laws, lambda d: d["laws"][0]["curve"].update(extra=1))),
        ("laws", edited(laws, lambda d: d["laws"][0]["ranges"][0].update(low=None))),
        ("laws", edited(laws, lambda d: d["laws"][0]["prediction"].pop("level"))),
        ("next", edited(after, lambda d: d.update(goal="slab"))),
        ("next", edited(after, lambda d: d.update(recommended=None))),
        ("next", edited(after, lambda d: d.update(measure=None, why=None))),
        ("next", edited(after, lambda d: d["law"].update(verdict=""))),
        ("next", edited(after, lambda d: d["outcomes"][0].update(rate=0))),
        ("next", edited(after, lambda d: d["measure"].update(verdict="knife_edge"))),
        ("next", solve),
    ]
    for name, document in (("solve", solve), ("laws", laws), ("next", after)):
        valid(name, document)
    for number, (name, document) in enumerate(wrong):
        assert not VALIDATORS[name].is_valid(document), number
