"""Gates against the model: the bash arithmetic says of every shape what `check` says of it."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from measurements.site import Site, load, read_site
from models.declare import Verdict
from optimizer.check import MissingFacts, check
from optimizer.gates import Gates, compose
from tests.optimizer.bats import as_script, bash, bats, needs_bash, needs_bats, verdicts
from tests.optimizer.servers import HALOGEN_READ, SERVERS, STATED, Server, ask, pair_env
from tests.optimizer.test_schema import valid

Capture = pytest.CaptureFixture[str]
SITES = Path(__file__).parents[2] / "measurements" / "sites"
WITH_ENV = ("stated-pair", "host-pool", "unified-memory")
EACH = 60

#: Values that reach every branch: around what the sites have, and far from it.
AXES: Mapping[str, tuple[int, ...]] = {
    "max_num_seqs": (1, 2, 3, 4, 5, 8, 9, 40), "max_model_len": (1, 4096, 156_800, 156_804, 200_000, 262_144),
    "kv_cache_dtype": (0, 1), "num_speculative_tokens": (0, 1, 2, 3, 7), "gpu_headroom_mib": (0, 96, 512, 3072),
    "host_pool_mib": (0, 4096, 12_288, 14_464, 15_226, 31_000, 40_960), "max_num_batched_tokens": (512, 2048, 8192),
    "tp_wire": (0, 1), "placement": (0, 1, 2, 3), "ngram_placement": (0, 1, 2), "weights_disk_tier": (0, 1),
    "deterministic": (0, 1), "prefix_cache_host_mib": (0, 4096), "checkpoint_slots": (0, 1, 8, 40),
    "checkpoint_interval": (64, 2048), "vram_weights_mib": (0, 3000, 22_208, 24_057, 25_600, 26_071),
    "vram_kv_mib": (0, 100, 3543, 5120, 5369, 6912, 8142), "expert_vs_cache_ratio": (1, 400_000, 820_000, 999_999),
    "ttm_min_mib": (0, 60_000, 83_328, 92_788, 98_304), "ttm_target_mib": (0, 87_424, 96_884, 120_000),
    "ctx": (1, 4096, 131_072, 262_144, 262_145, 524_288),
    "kv_pool_positions": (256, 262_144, 262_145, 524_288, 1 << 20),
    "kv_pool_fit": (0, 1), "host_reserve_gib": (0, 12_500, 15_000, 16_000, 17_000, 18_000, 24_000),
    "max_tok": (1, 8192, 16_384, 32_768, 65_536), "kv_slots": (1, 4, 16), "vision_tower": (0, 1),
    "flash_pin_trunk": (0, 1), "rope_yarn": (0, 2, 4), "cache_entries": (0, 20, 200), "cache_branches": (0, 2),
    "prompt_cache": (0, 1), "cache_file": (0, 1), "cache_inplace": (0, 1), "composable_context": (0, 1),
    "composable_context_bytes": (0, 1 << 33), "prefill_keep_trunk": (0, 1),
}


def shipped(name: str) -> Site:
    return load(read_site(SITES / name))


def served(name: str, folder: Path) -> Site:
    """One of the small servers as a site; what its words do not say is left open."""
    from optimizer.cli import _sources

    words = SERVERS[name].words(folder)
    taken: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        taken.setdefault(option, []).append(value)
    (ledger,), (engine,) = taken.get("--ledger", [None]), taken["--engine"]
    sessions = int(taken["--sessions"][0]) if "--sessions" in taken else None
    return load(_sources(None, [Path(file) for file in taken["--config"]], Path(ledger) if ledger else None, engine,
                         None, taken.get("--fact"), sessions, None, None, None))


def shapes(site: Site, rng: random.Random, count: int) -> list[dict[str, int]]:
    """The site's own shape and others: some knobs moved, to near and far, or left out."""
    own = {name: value for name, value in site.knobs.items() if site.model.knobs[name].kind != "text"}
    found = [own]
    movable = [name for name in AXES if name in site.model.knobs and name != "tp"]
    while len(found) < count:
        shape = dict(own)
        for name in rng.sample(movable, rng.choice((1, 1, 2, 3, 5))):
            spec = site.model.knobs[name]
            value = rng.choice(AXES[name])
            if name in own and rng.random() < 0.3:
                value = own[name] + rng.choice((-1, 1)) * rng.choice((1, 2, 64, spec.step))
            shape[name] = min(max(value, spec.low), spec.high)
        if site.ledger is None and rng.random() < 0.2 and len(shape) > 2:
            del shape[rng.choice([name for name in shape if name != "tp"])]
        found.append(shape)
    return found


def written(site: Site, shape: Mapping[str, int], file: Path, rng: random.Random) -> Path:
    """The shape as an env file, in no order, with what people put around values."""
    texts = {name: setting.value for name, setting in site.mapped.knobs.items()
             if site.model.knobs.get(name) and site.model.knobs[name].kind == "text"}
    lines = ["# a file\n"]
    for name, value in [*texts.items(), *shape.items()]:
        text = value if isinstance(value, str) else site.model.knobs[name].write(value or 0)
        quote = rng.choice(("", "", '"', "'"))
        after = rng.choice(("", "", "   # as it was", "\r"))
        key = rng.choice((site.mapped.prefix, "export " + site.mapped.prefix)) + name.upper()
        lines.append(f"{key}={quote}{text}{quote}{after}\n")
    rng.shuffle(lines)
    file.write_text("".join(lines), encoding="utf-8", newline="")
    return file


def judged(site: Site, shape: Mapping[str, int], found: Gates) -> tuple[dict[str, str], bool]:
    """What the model says of each gated constraint; and whether its answer is that all is well."""
    try:
        result = check(site, shape)
    except MissingFacts:
        from models.evaluate import evaluate

        evaluation, well = evaluate(site.model, site.given, shape), False
    else:
        evaluation, well = result.evaluation, result.verdict is Verdict.FITS
    said = {}
    for gate in found.gates:
        if gate.require is not None:
            verdict = evaluation.constraint(gate.name).verdict
            said[gate.name] = "open" if verdict is None else verdict.word
    return said, well


@needs_bash
@pytest.mark.parametrize("name", [*WITH_ENV, "two-r9700", *SERVERS])
def test_bash_says_of_every_shape_what_the_model_says(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    site = served(name, tmp_path) if name in SERVERS else shipped(name)
    found = compose(site, ("serve.env",))
    count = EACH if name in WITH_ENV else EACH // 2
    tried = shapes(site, rng, count)
    files = [written(site, shape, tmp_path / f"{place}.env", rng) for place, shape in enumerate(tried)]
    names = [gate.name for gate in found.gates]
    seen: Counter[str] = Counter()
    gated = {gate.name for gate in found.gates}
    for shape, told in zip(tried, verdicts(found.text, names, files, tmp_path), strict=True):
        expected, well = judged(site, shape, found)
        assert {gate: told[gate] for gate in expected} == expected, shape
        seen.update(expected.values())
        passes = all(verdict == "fits" for verdict in told.values())
        if passes:  # what no gate minds, the model minds only for what is said to be not gated, or nothing
            minded = [c.require.name for c in check(site, shape).evaluation.constraints
                      if c.hard and c.verdict not in (None, Verdict.FITS)]
            assert gated.isdisjoint(minded)
            assert set(minded) <= {item.name for item in found.not_gated} | {
                r.name for r in site.model.requires if r.use == "evidence"}
        elif well:  # quality that is gated all the same, or left open by the model
            failing = {gate for gate, verdict in told.items() if verdict != "fits"}
            soft = {gate.name for gate in found.gates if not gate.hard}
            assert failing <= soft | {gate for gate, verdict in expected.items() if verdict == "open"}
    assert seen["fits"] > count
    assert seen["does_not_fit"]


@needs_bash
def test_every_verdict_is_met(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for name in ("stated-pair", "unified-memory"):
        rng = random.Random(name)
        site = shipped(name)
        found = compose(site, ("serve.env",))
        for shape in shapes(site, rng, EACH):
            seen.update(judged(site, shape, found)[0].values())
    assert set(seen) == {"fits", "knife_edge", "does_not_fit", "open"}


def test_gates_name_formula_source_and_what_is_not_gated() -> None:
    found = compose(shipped("stated-pair"), ("serve.env",))
    formulas = {gate.name: gate.formula for gate in found.gates}
    assert formulas["pair_ceiling"] == "vram_weights_mib * MiB + vram_kv_mib * MiB <= pair_ceiling"
    assert formulas["lossy_wire_rows"] == "max_num_seqs * (1 + num_speculative_tokens) <= 25"
    assert formulas["ttm_gate"] == "pinned_total <= ttm_min_mib * MiB"
    assert formulas["pool_contract"].endswith("<= vram_kv")
    skipped = {item.name: item for item in found.not_gated}
    assert skipped["pinned_within_memlock"].missing == ("memlock",)
    assert "# not gated: pinned_within_memlock: needs memlock (ulimit -l, times 1024)" in found.text
    assert "--limit operator_contract" in skipped["operator_contract"].why
    assert "fact_pair_ceiling=32473350144  # given as pair_ceiling (read)" in found.text
    assert not any(line.strip().startswith(("source ", ". ", "eval ")) for line in found.text.splitlines())


def test_a_limit_of_the_site_is_gated() -> None:
    from dataclasses import replace

    site = shipped("stated-pair")
    limited = replace(site, given=replace(site.given, limits=frozenset(("operator_contract",))))
    assert "operator_contract" in {gate.name for gate in compose(limited, ("serve.env",)).gates}
    assert "operator_contract" not in {gate.name for gate in compose(site, ("serve.env",)).gates}


@needs_bash
@pytest.mark.parametrize("name", WITH_ENV)
def test_the_file_is_sound_bash(name: str, tmp_path: Path) -> None:
    text = compose(shipped(name), ("serve.env",)).text
    bash(f"set -euo pipefail\nBATS_TEST_DIRNAME=/\n{as_script(text)}", tmp_path)


EDITS = {
    "stated-pair": {"BIG_VRAM_WEIGHTS_MIB": "24058", "BIG_TTM_MIN_MIB": "60000", "BIG_TTM_TARGET_MIB": "65000"},
    "host-pool": {"MAX_SEQS": "8"},
    "unified-memory": {"HALOGEN_HOST_RESERVE_GIB": "17"},
}


@needs_bats
@pytest.mark.parametrize("name", WITH_ENV)
def test_bats_passes_the_shipped_file_and_fails_what_check_fails(name: str, tmp_path: Path, capsys: Capture) -> None:
    repo = tmp_path / "it's a repo"
    shutil.copytree(SITES / name, repo)
    (repo / "tests").mkdir()
    out = repo / "tests" / "gates.bats"
    said = ask(capsys, "gates", str(repo), "--out", str(out))
    assert said.code == 0
    shape = (repo / "serve.env").read_text(encoding="utf-8")
    for edit in ({}, EDITS[name]):
        lines = [line for line in shape.splitlines() if line.partition("=")[0] not in edit]
        lines += [f"{key}={value}" for key, value in edit.items()]
        (repo / "serve.env").write_text("\n".join(lines) + "\n", encoding="utf-8")
        passed, text = bats(out)
        told = ask(capsys, "check", str(repo), "--json").document
        failing = {c["name"] for c in told["constraints"] if c["ok"] is False}
        assert {gate for gate, ok in passed.items() if not ok} == failing & set(passed)
        assert bool(edit) == bool(failing & set(passed)), edit
        for gate in failing & set(passed):
            formula = next(g for g in json.loads(ask(capsys, "gates", str(SITES / name), "--json").out)["gates"]
                           if g["name"] == gate)
            assert f"# {formula['formula']}"[:200] in text
            assert f"#   remedy: {formula['remedy']}" in text


@needs_bats
def test_another_file_and_a_missing_one(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "gates.bats"
    assert ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(out)).code == 0
    other = tmp_path / "other.env"
    text = (SITES / "stated-pair" / "serve.env").read_text(encoding="utf-8")
    other.write_text(text.replace("SEQS=3", "SEQS=9"), encoding="utf-8")
    only = "^(pool_contract|lossy_wire_rows|pair_ceiling)"
    passed, _ = bats(out, {"ENV_FILE": str(other)}, only=only)
    assert passed == {"pool_contract": False, "lossy_wire_rows": False, "pair_ceiling": True}
    passed, text = bats(out, {"ENV_FILE": str(tmp_path / "gone.env")}, only=only)
    assert set(passed.values()) == {False}
    assert "no env file at" in text


READ = {
    "as it is": ("", "fits"),
    "later counts": ("BIG_MAX_SEQS=9\nBIG_MAX_SEQS=3\n", "fits"),
    "earlier does not": ("BIG_MAX_SEQS=3\nBIG_MAX_SEQS=9\n", "does_not_fit"),
    "another name": ("BIG_MAX_NUM_SEQS=9\n", "does_not_fit"),
    "bare": ("MAX_SEQS=9\n", "does_not_fit"),
    "lower case": ("big_max_seqs=9\n", "does_not_fit"),
    "export and quotes": ("  export BIG_MAX_SEQS = '9'  # nine\n", "does_not_fit"),
    "in quotes with space": ('BIG_MAX_SEQS=" 9 "\n', "does_not_fit"),
    "commented out": ("#BIG_MAX_SEQS=9\n; BIG_MAX_SEQS=9\n", "fits"),
    "no line end": ("BIG_MAX_SEQS=9", "does_not_fit"),
    "carriage returns": ("BIG_MAX_SEQS=9\r\n", "does_not_fit"),
    "comment after": ("BIG_MAX_SEQS=9 # not 3#4\n", "does_not_fit"),
    "empty is unset": ("BIG_TTM_MIN_MIB=5\nBIG_TTM_MIN_MIB=\n", "fits"),
    "a comment for a value": ("BIG_MAX_SEQS=9\nBIG_MAX_SEQS=# 3\n", "does_not_fit"),
    "underscores": ("BIG_MAX_MODEL_LEN=200_000\n", None),
    "zeros": ("BIG_MAX_SEQS=009\n", "does_not_fit"),
    "automatic": ("BIG_MAX_SEQS=4\nBIG_MAX_MODEL_LEN=0\n", "does_not_fit"),
    "not a knob": ("OTHER_MAX=x\nHF_TOKEN=$(cat /etc/passwd)\n", "fits"),
    "a word": ("BIG_MAX_SEQS=many\n", None),
    "a decimal": ("BIG_MAX_SEQS=3.5\n", None),
    "a negative": ("BIG_MAX_SEQS=-3\n", None),
    "too many": ("BIG_MAX_SEQS=4097\n", None),
    "far too many": ("BIG_MAX_SEQS=99999999999999999999\n", None),
    "a variable": ("N=3\nBIG_MAX_SEQS=$N\n", None),
    "a command": ("BIG_MAX_SEQS=$(touch pwned; echo 3)\n", None),
    "arithmetic": ("BIG_MAX_SEQS=a[$(touch pwned)]\n", None),
    "an open quote": ('BIG_MAX_SEQS="3\n', None),
    "after a quote": ('BIG_MAX_SEQS="3"4\n', None),
    "no such choice": ("BIG_KV_DTYPE=int4\n", None),
    "a choice in capitals": ("BIG_KV_DTYPE=FP8\n", "fits"),
    "exported by name": ("export BIG_MAX_SEQS BIG_TP\n", "fits"),
    "in a quoted value": ("NOTE='was BIG_MAX_SEQS=9'\n", "fits"),
}


@needs_bash
def test_files_are_read_as_the_reader_reads_them_or_refused(tmp_path: Path) -> None:
    site = shipped("stated-pair")
    found = compose(site, ("serve.env",))
    own = (SITES / "stated-pair" / "serve.env").read_text(encoding="utf-8")
    files = []
    for place, (text, _) in enumerate(READ.values()):
        file = tmp_path / f"{place}.env"
        file.write_text(own + text, encoding="utf-8", newline="")
        files.append(file)
    for (name, (_, wanted)), file, told in zip(
        READ.items(), files, verdicts(found.text, ["pool_contract"], files, tmp_path), strict=True
    ):
        assert told.get("pool_contract") == wanted, name
        if wanted is not None:
            from dataclasses import replace

            read = load(replace(read_site(SITES / "stated-pair"), config=(file,)))
            verdict = check(site, read.knobs).evaluation.constraint("pool_contract").verdict
            assert verdict is not None
            assert verdict.word == wanted, name
    assert not (tmp_path / "pwned").exists()
    assert not Path("pwned").exists()


#: What a shell would take for a setting, and a reader of KEY=VALUE lines would not.
SHELL_ONLY = ("declare -x BIG_MAX_SEQS=9", "readonly BIG_MAX_SEQS=9", "BIG_MAX_SEQS+=9", "export A=1 BIG_MAX_SEQS=9",
              "A=1;BIG_MAX_SEQS=9", "if true; then BIG_MAX_SEQS=9; fi", "N='a\nBIG_MAX_SEQS=9\n'", "BIG_MAX_SEQS=9\0",
              "unset A BIG_MAX_SEQS", "read BIG_MAX_SEQS", "BIG_MAX_SEQS", "  . ./other.env", "source other.env")
#: And what changes no setting.
HARMLESS = ("set -a", "HOME", "export BIG_MAX_SEQS", "unset A", "[ -f x ] && echo max_num_seqs", "echo * ?")


@needs_bash
def test_what_only_a_shell_would_read_does_not_pass(tmp_path: Path) -> None:
    found = compose(shipped("stated-pair"), ("serve.env",))
    own = (SITES / "stated-pair" / "serve.env").read_text(encoding="utf-8")
    files = []
    for place, line in enumerate((*SHELL_ONLY, *HARMLESS)):
        files.append(tmp_path / f"{place}.env")
        files[-1].write_text(f"{own}{line}\n", encoding="utf-8")
    told = verdicts(found.text, ["pool_contract"], files, tmp_path)
    assert tuple(line for line, said in zip((*SHELL_ONLY, *HARMLESS), told, strict=True) if said) == HARMLESS


GONE = {
    "unified-memory": {"HALOGEN_HOST_RESERVE_GIB": "kv_pool_fit"},
    "derived": {"MAX_NUM_SEQS": "pool_contract", "MAX_NUM_BATCHED_TOKENS": "arena_as_measured",  # 256; 8,192
                "HOST_POOL_MIB": "experts_placed", "TP": "made_for", "KV_CACHE_DTYPE": "pool_contract"},
}


@needs_bash
@pytest.mark.parametrize("name", GONE)
def test_a_line_that_goes_leaves_the_engines_default_not_the_logs_value(name: str, tmp_path: Path) -> None:
    site = shipped(name) if name in WITH_ENV else two_cards_in_env(tmp_path)
    found = compose(site, ("serve.env",))
    assert site.config is not None
    (text,) = site.config.text.values()
    files = [tmp_path / "whole.env"]
    files[0].write_text(text, encoding="utf-8")
    for key in GONE[name]:
        files.append(tmp_path / f"{key}.env")
        files[-1].write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"{key}=")),
                             encoding="utf-8")
    whole, *told = verdicts(found.text, [gate.name for gate in found.gates], files, tmp_path)
    assert set(whole.values()) == {"fits"}
    for gate, said in zip(GONE[name].values(), told, strict=True):
        assert said[gate] == ("knife_edge" if gate == "arena_as_measured" else "does_not_fit"), gate


def two_cards_in_env(folder: Path) -> Site:
    """The shipped two-card boot, its flags as an env file."""
    from dataclasses import replace

    sources = read_site(SITES / "two-r9700")
    site = load(sources)
    file = folder / "serve.env"
    file.write_text("".join(f"{name.upper()}={setting.value}\n" for name, setting in site.mapped.knobs.items()
                            if setting.value), encoding="utf-8")
    return load(replace(sources, config=(file,)))


@needs_bash
def test_what_was_set_beside_the_file_must_not_be_another_in_it(tmp_path: Path, capsys: Capture) -> None:
    sets = ["--set", "max_num_seqs=4", "--set", "host_pool_mib=40960", "--set", "model=/m/qwen3.8-flash-next-w4.rad"]
    out = tmp_path / "gates.bats"
    said = ask(capsys, "gates", str(SITES / "stated-pair"), *sets, "--out", str(out), "--json")
    valid("gates", said.document)
    made_for = said.document["gates"][0]
    assert made_for["verdict"] == "does_not_fit"
    assert "max_num_seqs = 4" in made_for["formula"]
    assert "the settings as they are do not pass: made_for" in said.document["warnings"]
    own = (SITES / "stated-pair" / "serve.env").read_text(encoding="utf-8")
    silent = "".join(line for line in own.splitlines(keepends=True) if "SEQS" not in line and "MODEL=" not in line)
    files: list[Path] = []
    for text in (own, silent, *(f"{silent}BIG_{line}\n" for line in ("MAX_SEQS=4", "MAX_SEQS=40", "MODEL=/m/x.rad"))):
        files.append(tmp_path / f"{len(files)}.env")
        files[-1].write_text(text, encoding="utf-8")
    told = verdicts(said.document["bats"], ["made_for"], files, tmp_path)
    assert [item["made_for"] for item in told] == ["does_not_fit", "fits", "fits", "does_not_fit", "does_not_fit"]


def test_links_on_the_way_are_no_matter_of_the_file(tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(SITES / "stated-pair", tmp_path / "real" / "repo")
    (tmp_path / "real" / "repo" / "tests").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    repo = tmp_path / "link" / "repo"
    (repo / "tests" / "linked.bats").symlink_to("gates.bats")
    assert ask(capsys, "gates", str(repo), "--out", str(repo / "tests" / "linked.bats")).code == 0
    assert "default_files=(\"$BATS_TEST_DIRNAME\"/'../serve.env')" in (
        repo / "tests" / "gates.bats").read_text(encoding="utf-8")
    assert (repo / "tests" / "linked.bats").is_symlink()


@needs_bash
def test_another_model_file_and_settings_that_are_gone_do_not_pass(tmp_path: Path) -> None:
    for name, lines in (("stated-pair", ("BIG_TP=1\n", "BIG_MODEL=/m/qwen3.8-next-flash-fp8-iq4r-moe.rad\n")),
                        ("host-pool", ("VRAM_KV_MIB=6912\n", "EXPERT_VS_CACHE_RATIO=0.8\n"))):
        found = compose(shipped(name), ("serve.env",))
        own = (SITES / name / "serve.env").read_text(encoding="utf-8")
        files = []
        for place, line in enumerate(("", *lines)):
            files.append(tmp_path / f"{name}{place}.env")
            files[-1].write_text(own + line, encoding="utf-8")
        gate = "made_for" if name == "stated-pair" else "removed_settings"
        told = [said[gate] for said in verdicts(found.text, [gate], files, tmp_path)]
        assert told == ["fits", "does_not_fit", "does_not_fit"]


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "gates.bats"
    said = ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(out), "--json")
    valid("gates", said.document)
    assert said.document["file"] == str(out)
    assert said.document["bats"] == out.read_text(encoding="utf-8")
    printed = ask(capsys, "gates", str(SITES / "stated-pair"))
    assert printed.code == 0
    assert printed.out.splitlines()[0] == "#!/usr/bin/env bats"
    assert ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(out)).code == 0  # its own file anew
    shown = " ".join(ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(out)).out.split())
    for gate in said.document["gates"]:
        assert f"{gate['name']} fits" in shown
    for item in said.document["not_gated"]:
        assert f"- {item['name']}: " in shown


def test_what_cannot_be_gated_is_refused(tmp_path: Path, capsys: Capture) -> None:
    said = ask(capsys, "gates", str(SITES / "two-r9700"))
    assert said.code == 2
    assert "does not stand in an env file" in said.err
    own = tmp_path / "mine.bats"
    own.write_text("@test 'mine' { true; }\n", encoding="utf-8")
    said = ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(own))
    assert said.code == 2
    assert own.read_text(encoding="utf-8").startswith("@test 'mine'")
    assert ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(own), "--force").code == 0
    assert own.read_text(encoding="utf-8").startswith("#!/usr/bin/env bats")
    for place in (tmp_path, tmp_path / "gone" / "x.bats"):
        assert ask(capsys, "gates", str(SITES / "stated-pair"), "--out", str(place)).code == 2
    words = Server("radiance@1.0.13", pair_env(22_208, 6_912, 4, 200_000)).words(tmp_path)
    assert ask(capsys, "gates", *words).code == 4


def test_settings_that_do_not_pass_are_said(tmp_path: Path, capsys: Capture) -> None:
    words = Server("radiance@1.0.13", pair_env(26_071, 6_912, 4, 200_000), facts=STATED.facts).words(tmp_path)
    said = ask(capsys, "gates", *words, "--json")
    assert said.code == 0
    assert said.document["warnings"] == ["the settings as they are do not pass: settle_floor, pair_ceiling"]


@needs_bash
def test_no_secret_and_no_foreign_word_reaches_the_file(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "sk-live-4f8Kq2Xv9Rt4Yw7Zb1Nc6 $(touch pwned) `x` 'y"
    folder.mkdir()
    server = Server("halogen@0.13.0", {"halogen.env": HALOGEN_READ.config["halogen.env"]
                                       + "API_KEY=opensesame-and-more\nHALOGEN_CHECKPOINT=/m/it's-w4b.hgn\n"},
                    log=HALOGEN_READ.log)
    words = server.words(folder)
    out = folder / "gates.bats"
    assert ask(capsys, "gates", *words, "--out", str(out)).code == 0
    text = out.read_text(encoding="utf-8")
    assert "opensesame" not in text
    assert "sk-live" not in text
    assert "default_files=(\"$BATS_TEST_DIRNAME\"/'halogen.env')" in text
    bash(f"BATS_TEST_DIRNAME=/\n{as_script(text)}", tmp_path)
    plain = tmp_path / "plain.env"
    shutil.copy(folder / "halogen.env", plain)
    assert verdicts(text, ["made_for"], [plain], tmp_path) == [{"made_for": "fits"}]
    assert not (tmp_path / "pwned").exists()
