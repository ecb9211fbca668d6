"""`collect` as its user meets it: what it says, and that the other commands take what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.measurements.test_collect import KEY, KUBERNETES, SECRETS, program, put, system
from tests.optimizer.servers import HALOGEN_LOG, HALOGEN_READ, ask
from tests.optimizer.test_imports import modules_of
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]


def test_from_a_host_to_an_answer(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "boot.txt", f"{HALOGEN_LOG}api key {KEY}\n")
    program(tmp_path / "bin", "podman", f'[ "$1" = logs ] && exec cat {tmp_path}/boot.txt; echo 0')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    own = put(tmp_path, "own/halogen.env", HALOGEN_READ.config["halogen.env"] + f"API_KEY={KEY}\n")
    out = tmp_path / "it is here"
    said = ask(capsys, "collect", str(out), "--container", "llm", "--config", str(own), "--json")
    assert said.code == 0
    valid("collect", said.document)
    assert said.document["engine"] == "halogen"
    assert KEY not in "".join(path.read_text(encoding="utf-8") for path in out.rglob("*") if path.is_file())
    assert KEY not in said.out
    words = ["--config", str(out / "halogen.env"), "--ledger", str(out / "boot.log"), "--host", str(out)]
    assert said.document["next"][0].startswith(f"shapewright check --config '{out / 'halogen.env'}'")
    told = ask(capsys, "check", *words, "--json")
    assert told.code in (0, 3)
    assert told.document["engine"]["version"] == "0.13.0"
    plain = ask(capsys, "init", str(tmp_path / "site"), *words, "--copy")
    assert plain.code == 0
    assert ask(capsys, "check", str(tmp_path / "site")).code in (0, 3)


def test_a_copied_manifest_leaves_its_secrets_behind(tmp_path: Path, capsys: Capture) -> None:
    own = put(tmp_path, "llm.yaml", KUBERNETES)
    said = ask(capsys, "init", str(tmp_path / "site"), "--config", str(own), "--engine", "halogen@0.13.0", "--copy")
    assert said.code == 0
    copied = (tmp_path / "site" / "llm.yaml").read_text(encoding="utf-8")
    assert not [secret for secret in (*SECRETS, "plain words of it") if secret in copied]


def test_what_init_copies_holds_no_secret_of_any_file(tmp_path: Path, capsys: Capture) -> None:
    own = put(tmp_path, "own/halogen.env", HALOGEN_READ.config["halogen.env"] + "DB_PASSWORD=plain-and-weak\n")
    log = put(tmp_path, "own/boot.log", f"{HALOGEN_LOG}login with plain-and-weak\n")
    words = ["--config", str(own), "--ledger", str(log)]
    assert ask(capsys, "init", str(tmp_path / "site"), *words, "--copy").code == 0
    assert "plain-and-weak" not in "".join(
        path.read_text(encoding="utf-8") for path in (tmp_path / "site").iterdir())
    before, after = (ask(capsys, "check", *more, "--json").document for more in (words, [str(tmp_path / "site")]))
    assert after["quantities"] == before["quantities"]


def test_init_leaves_the_files_that_lie_there_already(tmp_path: Path, capsys: Capture) -> None:
    text = HALOGEN_READ.config["halogen.env"] + f"API_KEY={KEY}\n"
    own, log = put(tmp_path, "site/halogen.env", text), put(tmp_path, "boot.log", f"{HALOGEN_LOG}key {KEY}\n")
    said = ask(capsys, "init", str(tmp_path / "site"), "--config", str(own), "--ledger", str(log), "--copy")
    assert said.code == 0
    assert own.read_text(encoding="utf-8") == text
    assert KEY not in (tmp_path / "site" / "boot.log").read_text(encoding="utf-8")
    assert ask(capsys, "check", str(tmp_path / "site")).code in (0, 3)


def test_a_card_that_the_server_does_not_use_is_none_of_its_cards(tmp_path: Path, capsys: Capture) -> None:
    """The kernel counts the screen's card and the processor's own, and numbers none as the engine does."""
    root = system(tmp_path / "root")
    put(root, "sys/class/drm/card10/device/mem_info_vram_total", "536870912\n")
    out = tmp_path / "out"
    assert ask(capsys, "collect", str(out), "--root", str(root)).code == 0
    site = Path(__file__).parents[2] / "measurements" / "sites" / "two-r9700"
    plain, told = (ask(capsys, "check", str(site), *more, "--json").document for more in ([], ["--host", str(out)]))
    assert told["verdict"] == plain["verdict"] == "fits"
    assert told["quantities"]["claimable"] == plain["quantities"]["claimable"]
    own = site.parent / "host-pool"
    lines = [line for line in (own / "site.toml").read_text(encoding="utf-8").splitlines() if "card_total" not in line]
    put(tmp_path, "site/site.toml", "\n".join(lines))
    put(tmp_path, "site/serve.env", (own / "serve.env").read_text(encoding="utf-8"))
    said = ask(capsys, "check", str(tmp_path / "site"), "--host", str(out), "--json")
    assert said.code == 4
    assert [item["name"] for item in said.document["missing"]] == ["card_total"]
    assert "the host shows 3 cards" in said.document["missing"][0]["how"]
    for name in ("card10", "card1"):  # two alike: it does not matter which are which
        (out / name / "mem_info_vram_total").write_text("34208743424\n", encoding="utf-8")
    said = ask(capsys, "check", str(tmp_path / "site"), "--host", str(out), "--json")
    assert said.document["quantities"]["claimable"]["value"] is not None


def test_tables_say_what_the_json_says(tmp_path: Path, capsys: Capture) -> None:
    root = system(tmp_path / "root")
    document = ask(capsys, "collect", str(tmp_path / "a"), "--root", str(root), "--json").document
    valid("collect", document)
    assert document["facts"]["card_total.0"]["value"] == 34_208_743_424
    shown = ask(capsys, "collect", str(tmp_path / "b"), "--root", str(root))
    assert shown.code == 0
    for item in document["items"]:
        assert item["name"] in shown.out
        assert item["state"] in shown.out
    for name in document["facts"]:
        assert name in shown.out


def test_nothing_there_is_an_answer_too(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "root").mkdir()
    said = ask(capsys, "collect", str(tmp_path / "out"), "--root", str(tmp_path / "root"), "--unit", "llm", "--json")
    assert said.code == 0
    valid("collect", said.document)
    assert said.document["facts"] == {}
    assert said.document["next"] == []


@pytest.mark.parametrize("words", [
    ["--container", "a", "--unit", "b"], ["--container", "-v"], ["--root", "/no/such/folder"],
])
def test_what_cannot_be_asked(words: list[str], tmp_path: Path, capsys: Capture) -> None:
    said = ask(capsys, "collect", str(tmp_path / "out"), *words, "--json")
    assert said.code == 2
    valid("error", said.document)
    assert not (tmp_path / "out").exists()


def test_a_full_folder_is_refused(tmp_path: Path, capsys: Capture) -> None:
    put(tmp_path, "full/mine", "x")
    said = ask(capsys, "collect", str(tmp_path / "full"))
    assert said.code == 2
    assert said.err == f"shapewright: {tmp_path / 'full'}: holds something already: name a new folder\n"


def test_neither_collect_nor_gates_import_anything_heavy(tmp_path: Path) -> None:
    heavy = {"ortools", "scipy", "pandas", "numpy", "matplotlib"}
    (tmp_path / "root").mkdir()
    site = Path(__file__).parents[2] / "measurements" / "sites" / "stated-pair"
    for words in (["collect", str(tmp_path / "out"), "--root", str(tmp_path / "root")],
                  ["gates", str(site), "--out", str(tmp_path / "g.bats")]):
        code, names = modules_of(*words)
        assert (code, names & heavy) == (0, set()), words
