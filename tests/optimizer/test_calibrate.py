"""``calibrate``: known answers by hand, the tables of operator note 004, contradictions, drift, and the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

import pytest

import measurements
from measurements.observed import of_log, read_observed
from measurements.records import ReadError
from measurements.site import Site, Sources, load, read_site
from models.declare import Outcome
from models.interval import GIB, MIB, Interval, point, size
from optimizer import lower
from optimizer.calibrate import Calibration, calibrate
from optimizer.calibrated import calibrate_json
from optimizer.check import MissingFacts
from optimizer.lower import Reach, Side
from optimizer.render.calibrate import show_calibrate
from optimizer.solve import Disagreement, OutOfTime
from tests.optimizer.servers import ask
from tests.optimizer.test_schema import VALIDATORS, answered, edited, valid

Capture = pytest.CaptureFixture[str]
SITE = Path(measurements.__path__[0]) / "sites" / "unified-memory"
OBSERVED, TABLE = SITE / "observed.toml", SITE / "reference-points.toml"
NEED = "device_need_and_vision"


def bare(*facts: str) -> Site:
    """halogen 0.13.0 with w4b weights, and nothing known of a host but ``facts``."""
    stated = dict(fact.split("=") for fact in facts)
    return load(Sources(engine="halogen@0.13.0", facts={"checkpoint": "w4b", **stated}))


def told(folder: Path, text: str, site: Site | None = None, constants: Mapping[str, str | None] | None = None,
         seconds: float = 30.0) -> Calibration:
    path = folder / "observed.toml"
    path.write_text(text, encoding="utf-8")
    return calibrate(site or bare(), read_observed(path), constants=constants, seconds=seconds)


def spans(found: Calibration) -> dict[str, Interval]:
    """The constants of the only reading."""
    (reading,) = found.readings
    return {constant.spec.name: constant.interval for constant in reading.constants}


def by(statements: Sequence[Any]) -> set[str]:
    return {statement.name for statement in statements}


TWO_FIGURES = """\
[[observed]]
about = "small"
set = { kv_pool_positions = 262144, max_tok = 32768 }
printed = { device_need = "27.8GiB" }
[[observed]]
about = "large"
set = { kv_pool_positions = 524288, max_tok = 32768 }
printed = { device_need = "35.0GiB" }
"""


def test_bytes_a_position_from_two_published_figures(tmp_path: Path) -> None:
    found = told(tmp_path, TWO_FIGURES)
    # 7.2 GiB, each figure printed to a tenth: 7.1 to 7.3 GiB for 262,144 positions more
    assert spans(found)["position_bytes"] == Interval(
        ceil(Fraction("7.1") * GIB / 262_144), floor(Fraction("7.3") * GIB / 262_144)) == Interval(29_082, 29_900)
    position = found.readings[0].constants[0]
    assert by(position.low.by) == by(position.high.by) == {"small: device_need 27.8GiB", "large: device_need 35.0GiB"}
    assert position.stands == "inside"
    assert position.default == point(29_500)
    # the 28 KiB a position of operator note 004 are not among them
    assert 28 * 1024 not in position.interval
    assert set(spans(found)) == {"position_bytes", "work_fixed", "work_slope"}  # no margin was spoken of


BUDGETS = """\
[[observed]]
about = "35.8"
elsewhere = true
set = { kv_pool_positions = 524288, max_tok = 32768, vision_tower = 1, host_reserve_gib = 20 }
facts = { device_budget = "35.8GiB" }
outcome = "clamped"
[[observed]]
about = "37.4"
elsewhere = true
set = { kv_pool_positions = 524288, max_tok = 32768, vision_tower = 1, host_reserve_gib = 20 }
facts = { device_budget = "37.4GiB" }
outcome = "serves"
"""


def test_the_margin_from_budgets_alone(tmp_path: Path) -> None:
    found = told(tmp_path, BUDGETS, constants={"fit_margin_vision": None})
    # 3.8 GiB of work, to a tenth, beside 2 x 8.4 GiB: only the margin is in question
    slope = 840 * GIB // 100
    need = Interval(*(524_288 * 29_500 + 38 * GIB // 10 + noise * (GIB // 20) + 2 * slope for noise in (-1, 1)))
    clamped, fits = size("35.8GiB"), size("37.4GiB")
    (constant,) = found.readings[0].constants
    assert constant.interval == Interval(clamped.low - need.high + 1, fits.high - need.low)
    assert (by(constant.low.by), by(constant.high.by)) == ({"35.8: clamped"}, {"37.4: serves"})
    assert constant.low.confirmed
    assert constant.high.confirmed  # one constant alone: intervals decide
    assert constant.line == f"fit_margin_vision={constant.interval.low}B..{constant.interval.high}B"
    # stacked upon the tower's 1.97 GiB a margin of 1.5 is refuted
    assert size("3.47GiB").low > constant.interval.high


def test_a_margin_without_vision_is_another_constant(tmp_path: Path) -> None:
    found = told(tmp_path, BUDGETS.replace("vision_tower = 1", "vision_tower = 0"))
    assert "fit_margin" in spans(found)
    assert "fit_margin_vision" not in spans(found)
    mixed = told(tmp_path, BUDGETS.replace("vision_tower = 1", "vision_tower = 0", 1),
                 constants={"fit_margin": None, "fit_margin_vision": None})
    (plain, vision) = mixed.readings[0].constants
    assert (plain.high.by, vision.low.by) == ((), ())  # each hears of one boot alone


@pytest.fixture(scope="module")
def noted() -> Calibration:
    """The shipped observations of operator note 004 and the vendor's figures."""
    return calibrate(load(read_site(SITE)), read_observed(OBSERVED))


def test_the_reserve_table_comes_out(noted: Calibration) -> None:
    assert noted.consistent
    found = {one.observed.about: one for one in noted.predicted}
    serves, halves = (Outcome.SERVES,), (Outcome.CLAMPED,)
    for reserve, outcomes, budget in ((24, halves, 29.516), (18, halves, 35.516), (17, serves + halves, 36.516),
                                      (16, serves, 37.516), (15, serves, 38.516)):
        one = found[f"reserve {reserve}"]
        assert one.outcomes == outcomes, reserve
        (fit,) = [bound for bound in one.bounds if bound.require.name == "kv_pool_fit"]
        assert abs(fit.limit.middle / GIB - budget) < 0.01
        assert fit.limit.high - fit.limit.low <= GIB // 10
        assert 35.4 * GIB < fit.need.low < 36.5 * GIB < fit.need.high < 37.6 * GIB
        assert (fit.slack.low >= 0) is (outcomes == serves)
        assert (fit.slack.high < 0) is (outcomes == halves)


def test_what_the_shipped_outcomes_leave(noted: Calibration) -> None:
    (reading,) = noted.readings
    assert not reading.left_out
    for constant in reading.constants:
        assert constant.stands == "inside", constant.spec.name
        assert constant.low.proven
        assert constant.high.proven
    margin = spans(noted)["fit_margin_vision"]
    assert size("1.5GiB").meet(margin) == size("1.5GiB")
    assert spans(noted)["work_slope"].meet(size("8.4GiB")) is not None
    assert 28 * 1024 not in spans(noted)["position_bytes"]


def test_a_reserve_allocates_nothing(noted: Calibration) -> None:
    (pair,) = [one for one in noted.compared if one.knob == "host_reserve_gib" and one.values == (15_000, 16_000)]
    assert pair.moved == {"device_budget": point(-GIB)}
    assert {"held_total", "host_left", "locked_total", "pool_positions"} <= set(pair.same)
    assert not pair.undecided
    (edge,) = [one for one in noted.compared if one.knob == "host_reserve_gib" and one.values == (16_000, 17_000)]
    assert edge.undecided["pool_positions"] == Interval(-262_144, 0)


@pytest.fixture(scope="module")
def table() -> Calibration:
    """The shipped reference points of operator note 004."""
    return calibrate(load(read_site(SITE)), read_observed(TABLE))


def test_the_contradiction_of_the_reference_points(table: Calibration) -> None:
    found = table
    assert not found.consistent
    assert found.complete
    wrong = f"row 4: {NEED} 46.5GiB"
    conflicts = [by(conflict) for conflict in found.conflicts]
    assert {f"row 2: {NEED} 28.6GiB", f"row 3: {NEED} 37.0GiB", wrong} in conflicts
    assert {f"row 1: {NEED} 29.8GiB", f"row 2: {NEED} 28.6GiB", wrong} in conflicts
    assert all(wrong in conflict for conflict in conflicts)
    (reading,) = found.readings
    assert by(reading.left_out) == {wrong}
    assert all(constant.stands == "inside" for constant in reading.constants)
    # without it the row's outcome stands: 46.57 is what the halved pool needs
    one = next(one for one in found.predicted if one.observed.about == "row 4")
    assert Outcome.OUT_OF_MEMORY_AT_BOOT in one.outcomes


def test_statements_that_cannot_be_by_themselves(tmp_path: Path) -> None:
    found = told(tmp_path, """\
[[observed]]
about = "below the context"
set = { kv_pool_positions = 131072 }
outcome = "serves"
[[observed]]
about = "full"
set = { kv_pool_positions = 262144 }
outcome = "clamped"
[[observed]]
about = "huge"
printed = { device_need = "999999GiB" }
""", bare("mem_total=200GiB"))
    assert [by(conflict) for conflict in found.conflicts] == [
        {"below the context: serves"}, {"full: clamped"}, {"huge: device_need 999999GiB"}]
    against = {statement.name: statement.against for statement in found.statements}
    assert against["below the context: serves"] == ("pool_holds_context is broken: refused at boot",)
    assert against["full: clamped"] == ("kv_pool_fit cannot be broken here",)
    assert "whatever the constants are" in against["huge: device_need 999999GiB"][0]


def test_where_no_fit_check_runs_an_outcome_says_nothing(tmp_path: Path) -> None:
    found = told(tmp_path, '[[observed]]\nset = { kv_pool_positions = 262144, max_tok = 16384 }\noutcome = "serves"\n',
                 bare("mem_total=400GiB"))
    assert found.silent == found.statements
    assert all(not one.low.by and not one.high.by for one in found.readings[0].constants)


def test_weights_are_the_same_at_every_boot(tmp_path: Path) -> None:
    # printed weights leave a tenth of a GiB open; but two boots of one host have the same
    text = """\
[[observed]]
about = "clamps"
set = { kv_pool_positions = 524288, host_reserve_gib = 18 }
outcome = "clamped"
[[asked]]
about = "less"
set = { kv_pool_positions = 524288, host_reserve_gib = 18.01 }
"""
    host = bare("mem_total=127104060KiB")
    held = {"fit_margin": None, "work_fixed": f"{38 * GIB // 10}B"}
    found = told(tmp_path, text, host, held)
    assert found.predicted[1].outcomes == (Outcome.CLAMPED,)
    alone = told(tmp_path, text.replace("18.01", "17.99"), host, held)
    assert alone.predicted[1].outcomes == (Outcome.SERVES, Outcome.CLAMPED)


def test_a_constant_that_is_stated(tmp_path: Path) -> None:
    text = TWO_FIGURES + '[[observed]]\nabout = "said"\nfacts = { position_bytes = "29000B..29100B" }\n' + (
        'printed = { device_need = "20GiB..60GiB" }\nset = { kv_pool_positions = 262144 }\n')
    assert spans(told(tmp_path, text))["position_bytes"] == Interval(29_082, 29_100)
    wrong = told(tmp_path, text.replace("29000B..29100B", "29000B..29081B"))
    assert [by(conflict) for conflict in wrong.conflicts] == [
        {"small: device_need 27.8GiB", "large: device_need 35.0GiB", "said: position_bytes 29000B..29081B"}]
    assert len(wrong.readings) == 3
    # a fact given for the site narrows what it may be from the start
    assert spans(told(tmp_path, TWO_FIGURES, bare("position_bytes=29100B..29200B")))["position_bytes"] == Interval(
        29_100, 29_200)
    with pytest.raises(ReadError, match="outside of what it may be"):
        told(tmp_path, TWO_FIGURES, bare("position_bytes=1B"))


def test_an_outcome_needs_its_facts(tmp_path: Path) -> None:
    text = '[[observed]]\nabout = "x"\nset = {{ kv_pool_positions = 524288 }}\noutcome = "{}"\n'
    with pytest.raises(MissingFacts) as caught:
        told(tmp_path, text.format("clamped"))
    assert [item["name"] for item in caught.value.missing] == ["mem_total"]
    assert "'x'" in caught.value.missing[0]["how"]
    with pytest.raises(MissingFacts) as caught:
        told(tmp_path, text.format("refused_at_boot"), bare("mem_total=200GiB"))
    assert {item["name"] for item in caught.value.missing} == {"gtt_total", "gtt_used", "mem_available"}
    # what a boot that ran out of memory would have left is printed by none: it may have been that
    unsure = told(tmp_path, text.format("out_of_memory_at_boot"), bare("mem_total=121GiB"))
    assert unsure.silent == unsure.statements
    assert "without host_left it is not known what led to out of memory" in unsure.warnings[0]
    with pytest.raises(MissingFacts):
        told(tmp_path, '[[asked]]\nset = { kv_pool_positions = 524288 }\n')


def test_a_time_limit_leaves_more_open_and_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutOfTime):
        told(tmp_path, TWO_FIGURES, seconds=0.0)
    known = spans(told(tmp_path, TWO_FIGURES))
    honest = lower.Stages.reach

    def tired(self: lower.Stages, side: Side, sense: lower.Sense, switches: Mapping[Any, bool],
              tell: Mapping[str, Side] | None = None) -> Reach | None:
        return None if honest(self, side, sense, switches, tell) is None else Reach(
            side.high if sense == "max" else side.low, {}, False)

    monkeypatch.setattr(lower.Stages, "reach", tired)
    found = told(tmp_path, TWO_FIGURES)
    for constant in found.readings[0].constants:
        assert not constant.low.proven
        assert not constant.high.proven
        assert constant.interval.meet(known[constant.spec.name]) == known[constant.spec.name]


def test_a_solver_that_errs_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lower.Stages.reach

    def lying(self: lower.Stages, side: Side, sense: lower.Sense, switches: Mapping[Any, bool],
              tell: Mapping[str, Side] | None = None) -> Reach | None:
        found = honest(self, side, sense, switches, tell)
        if found is None or not found.told:
            return found
        off = -1 if sense == "min" else 1
        name = next(name for name, one in (tell or {}).items() if one is side)
        return Reach(found.value + off, {**found.told, name: found.told[name] + off}, found.proven)

    monkeypatch.setattr(lower.Stages, "reach", lying)
    with pytest.raises(Disagreement, match="cannot be at position_bytes"):
        told(tmp_path, TWO_FIGURES)


def test_what_is_known_of_one_value_must_agree(tmp_path: Path) -> None:
    # a printed budget, and what memory less the weights leaves: the weights are then the ones that both allow
    weights, margin = size("67.7GiB"), {"fit_margin": None, "work_fixed": f"{38 * GIB // 10}B"}
    total = 20 * GIB + size("35.8GiB").high + weights.low - GIB // 20  # whole: 35.70 to 35.80 GiB; printed: from 35.75
    found = told(tmp_path, f"""\
[[observed]]
about = "kept"
elsewhere = true
set = {{ kv_pool_positions = 524288, host_reserve_gib = 20 }}
facts = {{ device_budget = "35.8GiB", mem_total = "{total}B" }}
outcome = "serves"
""", constants=margin)
    need = 524_288 * 29_500 + 38 * GIB // 10 + 2 * (840 * GIB // 100)
    budget = Interval(total - weights.high - 20 * GIB, total - weights.low - 20 * GIB).meet(size("35.8GiB"))
    assert budget is not None
    assert budget.low == size("35.8GiB").low
    assert spans(found)["fit_margin"] == Interval(0, budget.high - need)
    (bound,) = [one for one in found.predicted[0].bounds if one.require.name == "kv_pool_fit"]
    assert bound.limit == budget
    assert not found.warnings


def test_facts_that_contradict_each_other_are_said_to(tmp_path: Path) -> None:
    found = told(tmp_path, """\
[[observed]]
about = "odd"
elsewhere = true
set = { kv_pool_positions = 524288, host_reserve_gib = 20 }
facts = { device_budget = "29.0GiB", mem_total = "124GiB" }
outcome = "serves"
""")
    assert found.warnings == ("odd: the facts given for device_budget contradict each other; either may be right",)


def test_schemas_are_strict(noted: Calibration, table: Calibration) -> None:
    good, bad = calibrate_json(noted), calibrate_json(table)
    wrong = [
        edited(good, lambda d: d.update(note="")),
        edited(good, lambda d: d.pop("drift")),
        edited(good, lambda d: d.update(consistent=False)),
        edited(bad, lambda d: d.update(consistent=True)),
        edited(good, lambda d: d["readings"][0]["constants"][0].update(fact="position_bytes=1..")),
        edited(good, lambda d: d["readings"][0]["constants"][0]["low"].update(value=1.5)),
        edited(good, lambda d: d["readings"][0]["constants"][0].update(declared_stands="so")),
        edited(good, lambda d: d["observations"][0].update(outcomes=["explodes"])),
        edited(good, lambda d: d["observations"][0]["bounds"][0].pop("need")),
        edited(good, lambda d: d["compared"][0].update(observations=["one"])),
        edited(bad, lambda d: d["conflicts"].append([])),
    ]
    for number, document in enumerate(wrong):
        assert not VALIDATORS["calibrate"].is_valid(document), number


def test_too_many_at_once(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="these are 121 observations; ask about 120 at a time"):
        told(tmp_path, "".join(f'[[observed]]\nabout = "{n}"\noutcome = "serves"\n' for n in range(121)))


def test_constants_picked(tmp_path: Path) -> None:
    found = told(tmp_path, TWO_FIGURES, constants={"position_bytes": "29400B..29600B", "work_fixed": None})
    assert set(spans(found)) == {"position_bytes", "work_fixed"}
    assert found.readings[0].constants[0].prior == Interval(29_400, 29_600)
    with pytest.raises(ReadError, match=r"no uncertain constant of halogen@0\.13\.0; these are: position_bytes"):
        told(tmp_path, TWO_FIGURES, constants={"mem_total": None})
    with pytest.raises(ReadError, match="not a size"):
        told(tmp_path, TWO_FIGURES, constants={"work_fixed": "9"})




def test_drift_between_boots(tmp_path: Path) -> None:
    text = (SITE / "boot.log").read_text(encoding="utf-8")
    second, third = tmp_path / "second.log", tmp_path / "third.log"
    second.write_text(text.replace("7.1 GiB total", "5.9 GiB total").replace("103.5 GiB in all", "103.7 GiB in all")
                      .replace("21.1 GiB of working", "21.3 GiB of working"), encoding="utf-8")
    third.write_text(text.replace("15.0 reserved", "18.0 reserved").replace("= 38.5", "= 35.5"), encoding="utf-8")
    found = calibrate(load(read_site(SITE)), [], boots=[of_log(second), of_log(third)])
    drift = found.drift
    assert drift is not None
    assert drift.boots == ("the site's own boot (boot.log)", str(second))
    assert drift.other == {str(third): "host_reserve_gib is 18.0, not 15.0"}
    facts = {spread.name: spread for spread in drift.facts}
    left = facts["host_left"]
    assert left.hull == size("5.9GiB").join(size("7.1GiB"))
    assert left.apart == size("7.1GiB").low - size("5.9GiB").high
    assert facts["resident_weights"].apart == 0
    rows = {spread.name: spread for spread in drift.rows}
    total = rows["locked_total"]
    assert total.apart == size("103.7GiB").low - size("103.5GiB").high
    assert total.less is not None
    # 68.0 + 14.404 + 21.3 GiB, the sum to 0.15 and the weights to 0.05: about 103.7
    assert total.less[str(second)].low < 0 < total.less[str(second)].high
    assert total.less["the site's own boot (boot.log)"].low == (
        total.less[str(second)].low + total.values["the site's own boot (boot.log)"].low
        - total.values[str(second)].low)
    # what is measured at each boot is never made one: both figures stand
    assert {spread.name for spread in drift.facts if spread.apart > 0} == {"host_left", "working_memory"}


def test_what_it_hands_on_is_read_by_other_commands(noted: Calibration, capsys: Capture) -> None:
    document = calibrate_json(noted)
    valid("calibrate", document)
    lines = [constant["fact"] for constant in document["readings"][0]["constants"]]
    assert [line.partition("=")[0] for line in lines] == [
        fact.partition(" =")[0] for fact in document["readings"][0]["site_facts"]]
    words = [word for line in lines for word in ("--fact", line)]
    for reserve, code in (("15", 0), ("17", 3), ("18", 3)):
        assert ask(capsys, "check", str(SITE), "--set", f"host_reserve_gib={reserve}", *words).code == code


def test_a_contradiction_read_aloud(table: Calibration, noted: Calibration, capsys: Capture) -> None:
    valid("calibrate", calibrate_json(table))
    show_calibrate(calibrate_json(table))
    flat = " ".join(capsys.readouterr().out.split())
    assert "17 statements of 7 observations cannot all be true" in flat
    assert f"Every conflict holds: row 4: {NEED} 46.5GiB" in flat
    assert f"If all is true but this: row 4: {NEED} 46.5GiB" in flat
    show_calibrate(calibrate_json(noted))
    flat = " ".join(capsys.readouterr().out.split())
    assert "18 statements of 10 observations can all be true" in flat
    assert "position_bytes: 29,287 to 29,593 B; declared 29,500 B: within it" in flat
    assert "reserve 17 asked serves or halves" in flat
    assert "moves: device_budget by -1,024 MiB the same: device_need, pool_positions" in flat


def test_the_command(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "observed.toml"
    path.write_text(TWO_FIGURES, encoding="utf-8")
    words = ["calibrate", "--engine", "halogen@0.13.0", "--config", str(SITE / "serve.env"), "--observed", str(path)]
    said = ask(capsys, *words, "--json", "--constant", "position_bytes", "--constant", "work_fixed=0GiB..8GiB")
    assert (said.code, answered(said, "calibrate")["consistent"]) == (0, True)
    path.write_text(TWO_FIGURES.replace("35.0", "39.0"), encoding="utf-8")  # 44 KiB a position
    said = ask(capsys, *words, "--json")
    document = answered(said, "calibrate")
    assert (said.code, document["consistent"], document["complete"]) == (3, False, True)
    assert document["conflicts"] == [["small: device_need 27.8GiB", "large: device_need 39.0GiB"]]
    assert [reading["left_out"] for reading in document["readings"]] == [
        ["small: device_need 27.8GiB"], ["large: device_need 39.0GiB"]]
    flat = " ".join(ask(capsys, *words).out.split())
    assert "small: device_need 27.8GiB; large: device_need 39.0GiB" in flat
    assert "2 largest sets can be true" in flat


def test_the_command_refuses(capsys: Capture, tmp_path: Path) -> None:
    empty = tmp_path / "empty.toml"
    empty.touch()
    for words, code in (
        (["calibrate"], 2), (["calibrate", str(SITE), "--observed", str(empty)], 2),
        (["calibrate", str(SITE), "--observed", str(tmp_path / "gone")], 2),
        (["calibrate", str(SITE), "--constant", "="], 2), (["calibrate", str(SITE), "--constant", "nonsense"], 2),
        (["calibrate", str(SITE), "--boot", str(SITE / "boot.log"), "--boot", str(SITE / "boot.log")], 2),
        (["calibrate", str(SITE.parent / "stated-pair")], 2),
        (["calibrate", str(SITE.parent / "two-r9700"), "--observed", str(OBSERVED)], 2),
    ):
        said = ask(capsys, *words, "--json")
        assert said.code == code, words
        assert said.document["error"]["kind"] in ("usage", "unreadable")
    lacking = tmp_path / "lacking.toml"
    lacking.write_text('[[observed]]\nelsewhere = true\noutcome = "clamped"\n', encoding="utf-8")
    said = ask(capsys, "calibrate", str(SITE), "--observed", str(lacking), "--json")
    assert (said.code, [item["name"] for item in said.document["missing"]]) == (4, ["mem_total"])


def test_what_only_load_shows_is_not_seen_at_boot(tmp_path: Path) -> None:
    pair = load(read_site(SITE.parent / "stated-pair"))
    text = '[[observed]]\nabout = "{0}"\nset = {{ max_num_seqs = {1} }}\noutcome = "{0}"\n'
    facts = {"mem_total": "400GiB", "ttm_limit": "400GiB", "memlock": "unlimited", "card_total": "32GiB",
             "already_held": "0MiB", "activation_arena": "0MiB", "step_staging": "0MiB", "hardware_queues": "0MiB",
             "ngram_table": "0B"}
    host = load(replace(pair.sources, facts={**pair.sources.facts, **facts}))
    for outcome, sequences, possible in (("serves", 5, True), ("serves", 3, True), ("preempts", 5, True),
                                         ("preempts", 3, False), ("refused_at_boot", 5, False)):
        found = told(tmp_path, text.format(outcome, sequences), host)
        assert found.consistent is possible, (outcome, sequences)
        expected = Outcome.PREEMPTS if sequences == 5 else Outcome.SERVES
        assert found.predicted[0].outcomes == (expected,)


def test_radiance_too(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "observed.toml"
    path.write_text("""\
[[observed]]
about = "as it runs"
outcome = "serves"
[[observed]]
about = "too much pinned"
set = { host_pool_mib = 18432, ttm_target_mib = 92000 }
facts = { memlock = "unlimited" }
outcome = "refused_at_boot"
""", encoding="utf-8")
    said = ask(capsys, "calibrate", str(SITE.parent / "host-pool"), "--observed", str(path), "--json")
    document = answered(said, "calibrate")
    assert said.code == 0
    (constant,) = document["readings"][0]["constants"]
    assert constant["name"] == "pinned_other"
    # tp x host pool, the table, the prefix cache and 4 x (8 or 9) checkpoints of 111.9 to 112 MiB fill the 98,304 MiB
    page = constant["low"]["value"]
    table = 47.68 * 1024
    least, most = (98_304 - 2 * 18_432 - 4096 - table - 4 * kept * each for kept, each in ((9, 112), (8, 111.9)))
    assert least - 64 <= page / MIB <= most + 64
    assert constant["low"]["by"] == ["too much pinned: refused at boot"]
