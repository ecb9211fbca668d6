"""Observation files: what is read, and every error with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

import measurements
from measurements.observed import Entry, Observed, observe, of_log, outcomes_of, own_boot, read_observed
from measurements.records import Place, ReadError
from measurements.site import Site, Sources, load, read_site
from models.declare import Outcome
from models.interval import GIB, Interval, point, size

SITE = Path(measurements.__path__[0]) / "sites" / "unified-memory"
CONSTANTS = ("position_bytes", "work_fixed", "work_slope", "fit_margin", "fit_margin_vision")


@pytest.fixture(scope="module")
def own() -> Site:
    return load(read_site(SITE))


def entries(folder: Path, text: str) -> list[Entry]:
    path = folder / "observed.toml"
    path.write_text(text, encoding="utf-8")
    return read_observed(path)


def refused(folder: Path, text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        entries(folder, text)
    assert caught.value.file == str(folder / "observed.toml")
    return caught.value


def seen(folder: Path, text: str, site: Site) -> Observed:
    (entry,) = entries(folder, text)
    return observe(entry, site, CONSTANTS)


ONE = """\
# a comment

[[observed]]
about = "one"
source = "a note"
set = { host_reserve_gib = 18.5, vision_tower = true }
outcome = "clamped"
printed = { device_need = "35.0GiB", pool_positions = 262144 }

[[asked]]
about = "two"

  [asked.set]
  max-tok = 16384
"""


def test_what_an_entry_says(tmp_path: Path) -> None:
    one, two = entries(tmp_path, ONE)
    assert (one.about, one.source, one.asked, one.elsewhere) == ("one", "a note", False, False)
    assert one.sets == {"host_reserve_gib": "18.5", "vision_tower": "1"}
    assert one.outcome == "clamped"
    assert one.printed == {"device_need": "35.0GiB", "pool_positions": "262144"}
    assert one.place == Place(str(tmp_path / "observed.toml"), 3)
    assert (one.lines["host_reserve_gib"], one.lines["outcome"], one.lines["device_need"]) == (6, 7, 8)
    assert (two.about, two.asked, two.sets, two.place.line, two.lines["max-tok"]) == (
        "two", True, {"max_tok": "16384"}, 10, 14)


def test_labels_of_their_own(tmp_path: Path) -> None:
    found = entries(tmp_path, '[[observed]]\noutcome = "serves"\n[[observed]]\noutcome = "clamped"\n')
    assert [entry.about for entry in found] == ["observed 1", "observed 2"]


@pytest.mark.parametrize(("text", "line", "says"), [
    ("", None, "holds no entry"),
    ("[[observed]", 1, "not valid TOML"),
    ("foo = 1\n", 1, "'foo' means nothing here"),
    ("x = 1\n[[observed]]\n", 1, "'x' means nothing"),
    ("observed = 3\n", 1, "list of entries"),
    ("observed = [1]\n", 1, "list of entries"),
    ('[[observed]]\nabout = "a"\noutcom = "serves"\n', 3, "'outcom' means nothing in [[observed]]; known: about"),
    ('[[asked]]\nabout = "a"\noutcome = "serves"\n', 3, "what is asked has no outcome yet"),
    ('[[observed]]\nabout = "a"\n', 2, "states nothing"),
    ('[[observed]]\nabout = ""\noutcome = "serves"\n', 2, "about is a text"),
    ("[[observed]]\noutcome = 3\n", 2, "outcome is a text"),
    ('[[observed]]\noutcome = "serves"\nset = 5\n', 3, "set is a table"),
    ('[[observed]]\noutcome = "serves"\nfacts = [1]\n', 3, "facts is a table"),
    ('[[observed]]\noutcome = "serves"\nelsewhere = "yes"\n', 3, "elsewhere is true or false"),
    ("[[observed]]\n\nprinted = { device_need = [1] }\n", 3, "device_need is a number or a text"),
    ("[[observed]]\n\nprinted = { device_need = 1979-05-27 }\n", 3, "device_need is a number or a text"),
    ('[[observed]]\nabout = "a"\noutcome = "serves"\n[[observed]]\nabout = "a"\noutcome = "serves"\n', 5,
     "already the label"),
])
def test_files_that_are_wrong(text: str, line: int | None, says: str, tmp_path: Path) -> None:
    error = refused(tmp_path, text)
    assert error.line == line
    assert says in error.message


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "observed.toml"
    for content, says in ((b"\x00\xff\xfe", "not a text file"), (b"#" * (1 << 20) + b"\n", "larger than 1 MiB")):
        path.write_bytes(content)
        with pytest.raises(ReadError, match=says):
            read_observed(path)
    with pytest.raises(ReadError, match="cannot be read"):
        read_observed(tmp_path / "gone.toml")
    with pytest.raises(ReadError, match="cannot be read"):
        read_observed(tmp_path)


def test_a_setting_on_top_of_the_sites_own(tmp_path: Path, own: Site) -> None:
    found = seen(tmp_path, '[[observed]]\nset = { host_reserve_gib = 18 }\noutcome = "clamped"\n', own)
    assert found.shape == own.knobs | {"host_reserve_gib": 18_000}
    assert found.outcome is Outcome.CLAMPED
    assert found.given.facts == own.given.facts
    assert found.given.printed == {}
    assert found.given.as_is == own.given.as_is  # the site's facts are of its own boot


def test_another_host_knows_nothing_of_this_one(tmp_path: Path, own: Site) -> None:
    found = seen(tmp_path, '[[observed]]\nelsewhere = true\nset = { host_reserve_gib = 20 }\n'
                           'facts = { device_budget = "35.8GiB" }\noutcome = "clamped"\n', own)
    assert found.given.facts["device_budget"] == size("35.8GiB")
    assert not {"mem_total", "host_left", "boot_reserve", "boot_pool"} & found.given.facts.keys()
    assert found.given.facts["resident_weights"] == size("67.7GiB")  # of the model file, not of the host
    assert found.given.as_is["host_reserve_gib"] == 20_000
    assert found.shape["kv_pool_positions"] == 524_288
    assert found.own == {"device_budget": size("35.8GiB")}


def test_files_of_this_host_say_nothing_of_another(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       127104060 kB\nMemAvailable:   100000000 kB\n", encoding="utf-8")
    here = load(Sources(engine="halogen@0.13.0", host=tmp_path, facts={"checkpoint": "w4b"}))
    assert "mem_total" in here.given.facts
    found = seen(tmp_path, '[[observed]]\nelsewhere = true\noutcome = "clamped"\n', here)
    assert not {"mem_total", "mem_available"} & found.given.facts.keys()
    assert "mem_total" in seen(tmp_path, '[[observed]]\noutcome = "clamped"\n', here).given.facts


RATIO_LOG = """\
VRAM budget, per card:
  card total          31.86 GiB
  already held       264.55 MiB   measured
  claimable            2.53 GiB
  vram_weights        22.94 GiB   stated by --vram-weights-mib
  vram_kv              4.33 GiB   stated by --vram-kv-mib
I[0] card 0 settled at 572.71 MiB free, against 548.46 MiB (the 512.00 MiB --gpu-headroom-mib and 36.46 MiB kept)
"""


def test_what_a_log_rounds_is_as_stated(tmp_path: Path) -> None:
    site = load(Sources(engine="radiance@1.0.13", facts={"container": "x"}))
    (tmp_path / "pair.log").write_text(RATIO_LOG, encoding="utf-8")
    entry = '[[observed]]\nset = { vram_weights_mib = %d, vram_kv_mib = 4434 }\nledger = "pair.log"\n'
    for weights, fits in ((23_490, True), (23_500, False)):  # 22.94 GiB: 23,485.4 to 23,495.7 MiB
        (one,) = entries(tmp_path, entry % weights)
        if fits:
            found = observe(one, site, ())
            assert (found.shape["vram_weights_mib"], found.given.as_is["vram_weights_mib"]) == (weights, weights)
        else:
            with pytest.raises(ReadError, match=r"says vram_weights_mib 23500, its log 22\.94 GiB"):
                observe(one, site, ())


def test_figures_are_one_print_step_wide(tmp_path: Path, own: Site) -> None:
    found = seen(tmp_path, '[[observed]]\nprinted = { device_need = "35.0GiB", pool_positions = 262144, '
                           'device_need_and_margin = "36GiB..37.5GiB" }\n', own)
    assert found.printed == {
        "device_need": Interval(-(-(35 * GIB * 20 - GIB) // 20), (35 * GIB * 20 + GIB) // 20),
        "pool_positions": point(262_144), "device_need_and_margin": Interval(36 * GIB, size("37.5GiB").high)}


@pytest.mark.parametrize(("text", "line", "says"), [
    ("set = { host_reserv = 3 }", 2, "no knob 'host_reserv'; its knobs: ctx"),
    ("set = { kv_pool_positions = -5 }", 2, "negative value"),
    ("set = { max_tok = nan }", 2, "not a whole number"),
    ("\nfacts = { memtotal = 3 }", 3, "no fact is called 'memtotal'; known: mem_total"),
    ('facts = { mem_total = "-5GiB" }', 2, "not a size"),
    ("facts = { mem_total = 5 }", 2, "not a size"),
    ('facts = { mem_total = "2GiB..1GiB" }', 2, "is empty"),
    ('printed = { vram_kv = "1GiB" }', 2, "no row 'vram_kv'; known: device_budget"),
    ('printed = { device_need = "-1GiB" }', 2, "not a size"),
    ('printed = { pool_positions = "some" }', 2, "whole number"),
    ('set = { checkpoint = "qwen-v2.hgn" }', 2, "another model file (v2, not w4b)"),
])
def test_entries_that_cannot_be(text: str, line: int, says: str, tmp_path: Path, own: Site) -> None:
    (entry,) = entries(tmp_path, f'[[observed]]\n{text}\noutcome = "serves"\n')
    with pytest.raises(ReadError) as caught:
        observe(entry, own, CONSTANTS)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "observed.toml"), line)
    assert says in caught.value.message


def test_outcomes_are_the_engines_own(tmp_path: Path, own: Site) -> None:
    for word, outcome in (("Serves", Outcome.SERVES), ("out of memory at boot", Outcome.OUT_OF_MEMORY_AT_BOOT),
                          ("refused-at-boot", Outcome.REFUSED_AT_BOOT), ("stalls", Outcome.STALLS)):
        assert seen(tmp_path, f'[[observed]]\noutcome = "{word}"\n', own).outcome is outcome
    for word in ("explodes", "rejects_long_requests"):  # halogen has no rule that ends so
        (entry,) = entries(tmp_path, f'[[observed]]\nabout = "x"\noutcome = "{word}"\n')
        with pytest.raises(ReadError, match="known: serves, clamped, preempts, stalls, out_of_memory") as caught:
            observe(entry, own, CONSTANTS)
        assert caught.value.line == 3
    assert Outcome.REJECTS_LONG_REQUESTS not in outcomes_of(own.model)


def test_constants_in_question_are_no_facts_of_a_boot(tmp_path: Path, own: Site) -> None:
    found = seen(tmp_path, '[[observed]]\nfacts = { position_bytes = "29000B..29100B" }\noutcome = "serves"\n', own)
    assert "position_bytes" not in found.given.facts
    assert found.own["position_bytes"] == Interval(29_000, 29_100)


def test_secrets_go_no_further(tmp_path: Path, own: Site) -> None:
    secret = "sk-abcdefghijklmnop1234567890"
    text = f'[[observed]]\nabout = "token={secret}"\nsource = "key {secret}"\noutcome = "serves"\n'
    (entry,) = entries(tmp_path, text)
    assert secret not in repr(entry)
    (entry,) = entries(tmp_path, f'[[observed]]\nset = {{ host_reserve_gib = "{secret}" }}\noutcome = "serves"\n')
    with pytest.raises(ReadError) as caught:
        observe(entry, own, CONSTANTS)
    assert secret not in caught.value.message
    assert secret not in refused(tmp_path, f'["{secret}"]\n').message


LOG = """\
halogen: halogen-flash-server 0.13.0, mode all
kv pool: host RAM 121 GiB, less 67.7 resident weights and 18.0 reserved for the n-gram page cache and the OS = 35.5 GiB for the device
kv pool: 524288 positions need ~35.0 GiB (plus 1.5 of margin) and host RAM cannot spare it. LOWERING THE POOL TO 262144 (~27.8 GiB)
startup [   2.6 s] reserving the KV pool, 262144 positions (about 7.2 GiB)
startup [   3.4 s] memory: 68.0 GiB of weights locked in RAM, 7.2 GiB of KV pool, 21.3 GiB of working memory, 96.5 GiB in all
flash_serve: listening on 127.0.0.1:8730, 4 slots over ONE 262144-position KV pool, each request up to 262144, max_tok 32768
"""  # noqa: E501


def test_a_log_is_an_observation(tmp_path: Path, own: Site) -> None:
    (tmp_path / "clamped.log").write_text(LOG, encoding="utf-8")
    text = '[[observed]]\nabout = "clamped"\nset = { host_reserve_gib = 18 }\nledger = "clamped.log"\n'
    found = seen(tmp_path, text, own)
    assert found.outcome is Outcome.CLAMPED
    assert found.shape["host_reserve_gib"] == 18_000
    assert found.shape["kv_pool_positions"] == 524_288
    assert found.printed["device_need"] == size("35.0GiB")
    assert found.printed["pool_positions"] == point(262_144)
    assert found.given.facts["device_budget"] == size("35.5GiB")  # its own, not the site's
    assert "host_left" not in found.given.facts
    without = seen(tmp_path, '[[observed]]\nledger = "clamped.log"\n', own)
    assert without.shape["host_reserve_gib"] == 18_000  # the log itself says so
    logged = observe(of_log(tmp_path / "clamped.log"), own, CONSTANTS)
    assert (logged.outcome, logged.shape) == (found.outcome, found.shape)
    (entry,) = entries(tmp_path, '[[observed]]\nset = { host_reserve_gib = 15 }\nledger = "clamped.log"\n')
    with pytest.raises(ReadError, match=r"says host_reserve_gib 15, its log 18\.0") as caught:
        observe(entry, own, CONSTANTS)
    assert caught.value.line == 2


def test_logs_that_are_not(tmp_path: Path, own: Site) -> None:
    (entry,) = entries(tmp_path, '[[observed]]\nledger = "gone.log"\n')
    with pytest.raises(ReadError, match="no such file"):
        observe(entry, own, CONSTANTS)
    (tmp_path / "other.log").write_text("VRAM budget, per card:\n  card total 31.86 GiB\n", encoding="utf-8")
    with pytest.raises(ReadError, match="seems to be a log of radiance"):
        observe(of_log(tmp_path / "other.log"), own, CONSTANTS)


def test_the_sites_own_boot(own: Site) -> None:
    entry = own_boot(own)
    assert entry is not None
    found = observe(entry, own, CONSTANTS)
    assert found.outcome is Outcome.SERVES
    assert found.shape["host_reserve_gib"] == 15_000
    assert own_boot(load(Sources(engine="halogen@0.13.0", facts={"checkpoint": "w4b"}))) is None
