"""The commands of a deploy, one after the other: what one leaves behind is what the next goes by."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.measurements.ledger_logs import log
from tests.optimizer.servers import DERIVED, HALOGEN, HALOGEN_READ, STATED, Server, ask, site_of

Capture = pytest.CaptureFixture[str]


def words(option: str, values: Mapping[str, object]) -> list[str]:
    """``values`` as the words of an option that is repeated."""
    return [word for name, value in values.items() for word in (option, f"{name}={value}")]


def foretold(capsys: Capture, site: Path, *more: str) -> tuple[str, dict[str, tuple[int, int]]]:
    """The verdict of ``check``, and its rows."""
    document = ask(capsys, "check", str(site), *more, "--json").document
    return document["verdict"], {name: (row["low"], row["high"]) for name, row in document["quantities"].items()}


def go_on_from(site: Path, name: str) -> None:
    """Names a log in the ``site.toml``, as ``verdict`` says."""
    toml = site / "site.toml"
    lines = [line for line in toml.read_text(encoding="utf-8").splitlines() if not line.startswith("ledger")]
    toml.write_text("\n".join([f"ledger = {json.dumps(name)}", *lines]) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("server", "changes"), [
    (HALOGEN_READ, {"cache_entries": 40}),  # what this log names nowhere
    (HALOGEN_READ, {"vision_tower": 0}),
    (HALOGEN_READ, {"kv_slots": 3}),  # what it does
    (DERIVED, {"kv_cache_dtype": "bf16"}),
    (DERIVED, {"max_num_seqs": 1, "deterministic": 1}),
    (STATED, {"gpu_headroom_mib": 160}),  # a ceiling by hand, of a boot that had 96
], ids=lambda value: ",".join(value) if isinstance(value, dict) else "")
def test_between_the_edit_and_the_boot_the_log_is_of_what_runs(server: Server, changes: Mapping[str, Any],
                                                              tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, server)
    before = foretold(capsys, site)
    asked = foretold(capsys, site, *words("--set", changes))
    assert ask(capsys, "apply", str(site), *words("--to", changes), "--write", "--anyway", "--json").document["written"]
    assert foretold(capsys, site) == asked
    document = ask(capsys, "check", str(site), "--json").document
    assert all(any("of another setting" in text and name in text for text in document["warnings"]) for name in changes)
    # and back again, before any boot
    old = {name: document["shape"][name] for name in changes}
    was = ask(capsys, "history", str(site), "--json").document["predictions"][0]["changes"]
    back = {name: old_value if old_value is not None else None for name, (old_value, _) in was.items()}
    assert back.keys() == old.keys()
    if None not in back.values():
        assert foretold(capsys, site, *words("--set", back)) == before


def test_facts_that_no_boot_measures_are_of_any(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN)
    asked = foretold(capsys, site, "--set", "host_reserve_gib=16")
    assert ask(capsys, "apply", str(site), "--to", "host_reserve_gib=16", "--write").code == 0
    assert foretold(capsys, site) == asked
    assert "another setting" not in ask(capsys, "check", str(site)).out


def test_two_edits_before_one_boot(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    both = {"vision_tower": 0, "host_reserve_gib": 18}
    asked = foretold(capsys, site, *words("--set", both))[1]
    for name, value in both.items():
        said = ask(capsys, "apply", str(site), "--to", f"{name}={value}", "--write", "--json").document
    assert {name: (row["low"], row["high"]) for name, row in said["predicted"].items()} == {
        name: asked[name] for name in said["predicted"]}


def test_a_log_that_judged_the_later_of_two_does_not_judge_the_other(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    for reserve in (18, 19):
        ask(capsys, "apply", str(site), "--to", f"host_reserve_gib={reserve}", "--write")
    text = log("halogen-fits").replace("20.0 reserved", "19.0 reserved").replace("37.4 GiB", "38.4 GiB")
    (site / "new.log").write_text(text, encoding="utf-8")
    asked = "verdict", str(site), "--ledger", str(site / "new.log")
    assert ask(capsys, *asked, "--write").code == 0
    old, new = ask(capsys, "history", str(site), "--json").document["predictions"]
    assert ([item["status"] for item in new["verdicts"]], old["verdicts"]) == (["held"], [])
    again = ask(capsys, *asked)
    assert (again.code, f"has judged prediction {new['id']} already (held)" in again.err) == (2, True)
    assert ask(capsys, *asked, "--id", new["id"]).code == 0
    assert "none; a later one" in ask(capsys, "history", str(site)).out


def test_a_judged_log_is_of_what_was_predicted(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    with (site / "site.toml").open("a", encoding="utf-8") as toml:
        toml.write("[boot]\nvision_tower = 1\n")  # of the boot before
    ask(capsys, "apply", str(site), "--to", "vision_tower=0", "--write")
    # the tower gives back what it held, which nothing else shows
    text = "".join(f"{line}\n" for line in log("halogen-fits").splitlines() if "vision" not in line)
    (site / "new.log").write_text(text.replace("10.9 GiB total", "12.5 GiB total"), encoding="utf-8")
    said = ask(capsys, "verdict", str(site), "--ledger", str(site / "new.log"), "--write", "--json").document
    assert said["status"] == "held"
    go_on_from(site, said["next_ledger"])
    gib = 2**30
    low, high = foretold(capsys, site)[1]["host_left"]
    assert 12.4 * gib < low < high < 12.6 * gib
    low, high = foretold(capsys, site, "--set", "vision_tower=1")[1]["host_left"]
    assert 10.4 * gib < low < high < 11.8 * gib


def test_records_that_say_nothing_of_the_log(tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, replace(HALOGEN_READ))
    ask(capsys, "apply", str(site), "--to", "cache_entries=40", "--write")
    (site / "boot.log").write_text(log("halogen-fits") + "a later line\n", encoding="utf-8")
    new = foretold(capsys, site)  # another log: the config is all there is to go by
    for text in ("", "no record\n", (site / "shapewright-history.jsonl").read_text(encoding="utf-8")[:-9]):
        (site / "shapewright-history.jsonl").write_text(text, encoding="utf-8")
        assert foretold(capsys, site) == new


def test_a_site_by_a_link(tmp_path: Path, capsys: Capture) -> None:
    real = tmp_path / "real"
    real.mkdir()
    site_of(real, HALOGEN_READ)
    (tmp_path / "far" / "away").mkdir(parents=True)
    link = tmp_path / "far" / "away" / "site"
    link.symlink_to(os.path.relpath(real, link.parent))
    said = ask(capsys, "apply", str(link), "--to", "host_reserve_gib=19", "--write", "--json").document
    assert said["written"]
    new = tmp_path / "logs"
    new.mkdir()
    text = log("halogen-fits").replace("20.0 reserved", "19.0 reserved").replace("37.4 GiB", "38.4 GiB")
    (new / "n.log").write_text(text, encoding="utf-8")
    document = ask(capsys, "verdict", str(link), "--ledger", str(new / "n.log"), "--write", "--json").document
    assert document["status"] == "held"
    go_on_from(link, document["next_ledger"])
    assert foretold(capsys, link) == foretold(capsys, real)
    (real / "halogen.env").write_text((real / "halogen.env").read_text(encoding="utf-8") + "# x\n", encoding="utf-8")
    document = ask(capsys, "verdict", str(link), "--ledger", str(new / "n.log"), "--id", document["prediction"]["id"],
                   "--json").document
    assert any(text.startswith("halogen.env was changed since") for text in document["notes"])


@pytest.mark.parametrize("server", [HALOGEN_READ, DERIVED], ids=["env", "script"])
def test_the_way_back_leaves_the_file_as_it_was(server: Server, tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, server)
    (name,) = server.config
    first, then = ("host_reserve_gib=16", "host_reserve_gib=20") if server is HALOGEN_READ else (
        "max_num_seqs=1", "max_num_seqs=2")
    before = (site / name).read_bytes()
    ask(capsys, "apply", str(site), "--to", first, "--write", "--comment")
    assert b"# shapewright 20" in (site / name).read_bytes()
    steps = ask(capsys, "plan", str(site), "--to", then, "--json").document["steps"]
    assert len(steps) == 1
    assert ask(capsys, "apply", str(site), "--to", then, "--write").code == 0  # what the comment said is past
    assert (site / name).read_bytes() == before


@pytest.mark.parametrize("damage", ["an edited line", "no file of records"])
def test_records_that_tell_nothing_are_told(damage: str, tmp_path: Path, capsys: Capture) -> None:
    site = site_of(tmp_path, HALOGEN_READ)
    assert ask(capsys, "apply", str(site), "--to", "cache_entries=40", "--write", "--anyway", "--json").document[
        "written"]
    (records,) = tmp_path.rglob("*.jsonl")
    assert "history passes over" not in ask(capsys, "check", str(site)).out
    if damage == "an edited line":
        text = records.read_text(encoding="utf-8").replace('"note": ""', '"note": "mine"')
        records.write_text(text, encoding="utf-8")
        said = "what history passes over there (line 1)"
    else:
        with records.open("ab") as stream:
            stream.truncate((64 << 20) + 1)
        said = "does not tell how the server was set at that boot"
    assert any(said in text for text in ask(capsys, "check", str(site), "--json").document["warnings"])
