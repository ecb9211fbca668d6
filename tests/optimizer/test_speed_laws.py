"""Which law a goal on speed uses, what it says where none holds, and what becomes of several axes and of no bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from measurements.records import Place, ReadError, Setting
from measurements.site import Site
from models.evaluate import Reader
from models.expr import Curve, Expr, Missing
from models.interval import MIB
from optimizer.check import MissingFacts
from optimizer.solve import Question, ask, hard_requires, solve
from optimizer.speed import Speed, Workload
from tests.made_points import HIDDEN, Row, measured
from tests.made_sites import site, with_grids

FILE = "qwen3.8-flash-next-w4.rad"
HALOGEN_FILE = "qwen3.8-flash-next-w4b"
SLABS = (22_208, 23_000, 24_000, 25_600, 26_071)


def rate(slab: int, form: str = "slope") -> float:
    """The law that only the test knows."""
    return 4000 / (1 + HIDDEN[form]((slab - SLABS[0]) / (SLABS[-1] - SLABS[0]), 0.43))


def rows(slabs: Sequence[int] = SLABS, *, metric: str = "prefill", streams: Sequence[int] = (1,),
         version: str = "1.0.13", model: str = FILE, form: str = "slope", tokens: int = 43_500, corpus: str = "prose",
         dtypes: Mapping[str, float] | None = None, knobs: Mapping[str, str | int] | None = None) -> list[Row]:
    """Each slab measured twice, with each number of streams and each dtype."""
    found = []
    for slab in slabs:
        for count in streams:
            for dtype, share in (dtypes or {"": 1.0}).items():
                words: dict[str, str | int] = {"tp": 2, "vram_weights_mib": slab}
                words |= {"kv_cache_dtype": dtype} if dtype else {}
                speed = rate(slab, form) * share / (1 + 0.1 * (count - 1))
                found += [Row("radiance", version, model, metric, speed * (1 + 0.004 * rep), {**words, **(knobs or {})},
                              tokens, count, corpus if metric == "decode" else "", rep) for rep in (0, 1)]
    return found


def server(folder: Path, points: Sequence[Row], *, engine: str = "radiance@1.0.13", file: str = FILE,
           facts: Mapping[str, int] | None = None, knobs: Mapping[str, str | int] | None = None) -> Site:
    """A stated pair that serves 43,500 tokens to three."""
    words: dict[str, str | int] = {
        "tp": 2, "vram_weights_mib": 22_208, "vram_kv_mib": 6_912, "max_num_seqs": 3, "max_model_len": 200_000,
             "kv_cache_dtype": "fp8", "num_speculative_tokens": 2, "host_pool_mib": 24_576,
        **(knobs or {})}
    made = site(engine, container="w4", knobs=words, facts=facts or {"pair_ceiling": 30_969 * MIB})
    return measured(made, folder / "points.csv", points, file)


def speed_of(question: Question) -> Speed:
    assert question.speed is not None
    return question.speed


def lacking(of: Site, goal: str = "prefill", *, given: Mapping[str, str] | None = None,
            workload: Workload | None = None) -> str:
    """Why no law holds."""
    with pytest.raises(MissingFacts) as caught:
        ask(of, goal, given=given, workload=workload)
    (missing,) = caught.value.missing
    assert missing["name"].endswith("points")
    return missing["how"]


# --- what no flag admits ------------------------------------------------------------------------------------------


NEVER: dict[str, tuple[str, list[Row], dict[str, str | int], str]] = {
    "another model": ("prefill", rows(model="qwen3.8-flash-next-iq4r.rad"), {},
                      "another model than qwen3.8-flash-next-w4"),
    "a model whose name begins alike": ("prefill", rows(model="qwen3.8-flash-next-w4a8"), {}, "another model"),
    "fewer cards": ("prefill", rows(knobs={"tp": 1}), {}, "tp=2 here"),
    "another wire": ("prefill", rows(knobs={"tp_wire": "wht6"}), {"tp_wire": "exact"}, "tp_wire=exact here"),
    "another wire than the default": ("prefill", rows(knobs={"tp_wire": "wht6"}), {}, "tp_wire=exact here"),
    "a stated pool": ("prefill", rows(), {"vram_weights_mib": 0, "vram_kv_mib": 0}, "vram_weights_mib derived here"),
    "a derived pool": ("prefill", rows(knobs={"vram_weights_mib": 0, "vram_weights": "24000MiB"}), {},
                       "vram_weights_mib stated here"),
    "another depth of drafts": ("decode", rows(metric="decode", knobs={"num_speculative_tokens": 3}), {},
                                "num_speculative_tokens=2 here"),
    "more streams than the one number measured": ("decode-total", rows(metric="decode"), {},
                                                  "3 streams: measured with 1 alone"),
}


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("extrapolate", [False, True])
def test_what_no_flag_admits(name: str, extrapolate: bool, tmp_path: Path) -> None:
    goal, points, knobs, words = NEVER[name]
    why = lacking(server(tmp_path, points, knobs=knobs), goal, workload=Workload(extrapolate=extrapolate))
    assert words in why
    assert "--extrapolate" not in why


def test_another_corpus(tmp_path: Path) -> None:
    of = server(tmp_path, rows(metric="decode"))
    for extrapolate in (False, True):
        load = Workload(corpus="code", extrapolate=extrapolate)
        assert "another corpus than 'code'" in lacking(of, "decode", workload=load)
    assert speed_of(ask(of, "decode", workload=Workload(corpus="prose"))).extrapolated == ()
    both = server(tmp_path, rows(metric="decode") + rows(SLABS[:3], metric="decode", corpus="code"))
    assert speed_of(ask(both, "decode", workload=Workload(corpus="code"))).used[0].law.corpus == "code"
    # a prompt has no corpus
    assert speed_of(ask(server(tmp_path, rows()), "prefill", workload=Workload(corpus="code"))).extrapolated == ()


def test_no_points_at_all(tmp_path: Path) -> None:
    of = server(tmp_path, rows())
    none = replace(of, sources=replace(of.sources, points=()))
    assert "--points FILE" in lacking(none)
    assert "no measured decode of radiance@1.0.13 with qwen3.8-flash-next-w4" in lacking(of, "decode")
    assert "no measured decode" in lacking(of, "balanced")


def test_what_the_question_sets_decides(tmp_path: Path) -> None:
    of = server(tmp_path, rows(metric="decode", knobs={"num_speculative_tokens": 2}))
    assert "num_speculative_tokens=0 here" in lacking(of, "decode", given={"num_speculative_tokens": "0"})
    exact = server(tmp_path, rows(knobs={"tp_wire": "exact"}))  # which the site has by default
    assert speed_of(ask(exact, "prefill")).extrapolated == ()
    assert "tp_wire=wht6 here" in lacking(exact, given={"tp_wire": "wht6"})
    pair = server(tmp_path, rows())
    assert "vram_weights_mib derived here" in lacking(pair, given={"vram_weights_mib": "0", "vram_kv_mib": "0"})
    derived = server(tmp_path, rows(), knobs={"vram_weights_mib": 0, "vram_kv_mib": 0})
    stated = ask(derived, "prefill", given={"vram_weights_mib": "24000", "vram_kv_mib": "6900"})
    assert speed_of(stated).extrapolated == ()
    two = server(tmp_path, rows(metric="decode", streams=(2,)))
    assert "3 streams" in lacking(two, "decode-total")
    assert speed_of(ask(two, "decode-total", given={"max_num_seqs": "2"})).used[0].streams == 2


def test_a_knob_that_makes_another_law_stays(tmp_path: Path) -> None:
    stated: tuple[dict[str, str | int], ...] = ({"num_speculative_tokens": 2}, {})
    for knobs in stated:
        of = server(tmp_path, rows(metric="decode", knobs=knobs))
        for extrapolate in (False, True):
            load = Workload(extrapolate=extrapolate)
            question = ask(of, "decode", free=["num_speculative_tokens"], top=2, workload=load)
            assert "num_speculative_tokens" in question.free
            answer = solve(question)
            assert answer.status == "optimal"
            assert {ranked.shape["num_speculative_tokens"] for ranked in answer.shapes} == {2}
    derived = {"card_total": 34_208_743_424, "already_held": 322_000_000, "activation_arena": 1_181_116_006,
               "step_staging": 3 * MIB, "static_weights": 4_219_800_000, "expert_plane": 26 << 30,
               "expert_layer_max": 640 * MIB, "hardware_queues": 100 * MIB, "spare": 4 * MIB, "unit_max": 2 * MIB,
               "slot_stride": MIB, "movable_units": 25_000, "pair_ceiling": 32_000 * MIB}
    words: dict[str, str | int] = {"vram_weights_mib": 0, "vram_weights": "24000MiB"}
    points = rows((0,), knobs=words) + rows((0,), knobs={**words, "vram_weights": "30500MiB"})
    of = server(tmp_path, points, facts=derived,
                knobs={"vram_weights_mib": 0, "vram_kv_mib": 0, "max_num_seqs": 1})
    answer = solve(ask(of, "prefill", free=["vram_weights_mib"], top=2))
    assert [ranked.shape["vram_weights_mib"] for ranked in answer.shapes] == [0, 0]


# --- what --extrapolate admits, labelled ---------------------------------------------------------------------------


BEYOND: dict[str, tuple[str, list[Row], dict[str, str | int], Workload, str]] = {
    "an older version": ("prefill", rows(version="1.0.12"), {}, Workload(),
                         "measured on 1.0.12, the site runs 1.0.13"),
    "a range that ends before": ("prefill", rows(version="1.0.0-1.0.12"), {}, Workload(),
                                 "measured on 1.0.0 to 1.0.12, the site runs 1.0.13"),
    "a range that begins after": ("prefill", rows(version="1.1.0-1.2.4"), {}, Workload(), "measured on 1.1.0 to 1.2.4"),
    "no version": ("prefill", rows(version=""), {}, Workload(), "measured on a version not stated"),
    "a longer prompt": ("prefill", rows(), {}, Workload(prompt_tokens=150_000),
                        "a prompt of 150,000 tokens: measured 43,500"),
    "a shorter prompt": ("prefill", rows(), {}, Workload(prompt_tokens=1_000), "a prompt of 1,000 tokens"),
    "a longer context": ("decode", rows(metric="decode"), {}, Workload(prompt_tokens=150_000),
                         "a context of 150,000 tokens: measured 43,500"),
    "more streams than measured": ("decode", rows(metric="decode", streams=(1, 2)), {}, Workload(streams=3),
                                   "streams 3: measured 1 to 2"),
    "another dtype": ("prefill", rows(dtypes={"bf16": 1.0}), {}, Workload(), "kv_cache_dtype fp8: measured bf16"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_extrapolating_admits(name: str, tmp_path: Path) -> None:
    goal, points, knobs, load, words = BEYOND[name]
    of = server(tmp_path, points, knobs=knobs)
    why = lacking(of, goal, workload=load)
    assert words in why
    assert "--extrapolate takes" in why
    answer = solve(ask(of, goal, workload=replace(load, extrapolate=True), top=1))
    assert answer.status == "optimal"
    assert any(words in text for text in speed_of(answer.question).extrapolated)


def test_a_held_slab_outside_the_data(tmp_path: Path) -> None:
    of = server(tmp_path, rows(SLABS[1:]))
    held = {"vram_weights_mib": "22208", "max_num_seqs": "2"}
    answer = solve(ask(of, "prefill", given=held))
    assert answer.status == "infeasible"
    assert {member.name.partition(" (")[0] for member in answer.conflict} == {
        "vram_weights_mib=22208", "at least vram_weights_mib=23,000 MiB"}
    assert any(member.source == "the measured speeds reach no further" for member in answer.conflict)
    everything = {**held, "vram_kv_mib": "6912"}
    assert "vram_weights_mib 22,208: measured 23,000 to 26,071 MiB" in lacking(of, given=everything)
    for given in (held, everything):
        taken = solve(ask(of, "prefill", given=given, workload=Workload(extrapolate=True), top=1))
        assert any("measured 23,000 to 26,071" in text for text in speed_of(taken.question).extrapolated)
        law = speed_of(taken.question).used[0].law
        assert taken.shapes[0].objective.low == int(law.rates({"vram_weights_mib": 22_208}, level=0.5)[0] * 1000)
    assert speed_of(ask(of, "prefill", given={"vram_weights_mib": "23000"})).extrapolated == ()


@pytest.mark.parametrize(("version", "load"), [
    ("1.0.13", Workload()), ("1.0.0-1.2.4", Workload()), ("1.0.13-1.2.4", Workload()), ("1.0.0-1.0.13", Workload()),
    ("1.0.13", Workload(prompt_tokens=45_000)), ("1.0.13", Workload(prompt_tokens=42_000)),
])
def test_what_lies_within(version: str, load: Workload, tmp_path: Path) -> None:
    assert speed_of(ask(server(tmp_path, rows(version=version)), "prefill", workload=load)).extrapolated == ()


def test_halogen_drafts_and_pins(tmp_path: Path) -> None:
    def points(**knobs: str | int) -> list[Row]:
        return [Row("halogen", "0.13.0", HALOGEN_FILE, "decode", 25 / (1 + 0.1 * n), knobs, 8_000, n, "prose", rep)
                for n in (1, 2, 4) for rep in (1, 2)]

    made = site("halogen@0.13.0", container="w4b", knobs={"ctx": 65_536, "kv_pool_positions": 524_288, "kv_slots": 4},
                facts={"mem_total": 128 << 30, "resident_weights": 679 * (1 << 30) // 10})
    depth = Setting("HALOGEN_MTP_DEPTH", "3", Place("serve.env", 1), "env")
    drafting = replace(made, mapped=replace(made.mapped, knobs={"mtp_depth": depth}))
    for of, found, words in ((drafting, points(mtp_depth=0), "mtp_depth=3 here"),
                             (made, points(flash_pin_trunk=0), "flash_pin_trunk=1 here")):
        there = measured(of, tmp_path / "points.csv", found, HALOGEN_FILE)
        for extrapolate in (False, True):
            assert words in lacking(there, "decode", workload=Workload(extrapolate=extrapolate))
    there = measured(drafting, tmp_path / "points.csv", points(mtp_depth=3), HALOGEN_FILE)
    assert solve(ask(there, "decode-total", top=1)).shapes[0].shape["kv_slots"] == 4


# --- which of several ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loose_first", [False, True])
def test_points_that_may_be_of_one_build_make_one_law(loose_first: bool, tmp_path: Path) -> None:
    loose, own = rows(version="1.0.0-1.2.4"), rows(SLABS[:3], version="1.0.13")
    of = server(tmp_path, [*loose, *own] if loose_first else [*own, *loose])
    law = speed_of(ask(of, "prefill")).used[0].law
    assert (law.version, law.arms, len(law.points)) == ("1.0.13", 5, len(loose) + len(own))
    assert law.note.startswith(f"{len(loose)} points whose build")
    assert law.note in law.labels
    # of one build alone there is nothing to say
    alone = speed_of(ask(server(tmp_path, loose), "prefill")).used[0].law
    assert (alone.version, alone.note) == ("1.0.0-1.2.4", "")


def test_a_law_that_holds_comes_before_a_larger_one_that_does_not(tmp_path: Path) -> None:
    of = server(tmp_path, rows(version="1.0.12") + rows(SLABS[:2], version="1.0.13"))
    for extrapolate in (False, True):
        used = speed_of(ask(of, "prefill", workload=Workload(extrapolate=extrapolate))).used[0]
        assert used.law.version == "1.0.13"


# --- several axes, against plain arithmetic --------------------------------------------------------------------------


def between(xs: Sequence[int], ys: Sequence[int], x: int) -> int:
    place = max(i for i, at in enumerate(xs) if at <= x)
    if xs[place] == x:
        return ys[place]
    width = xs[place + 1] - xs[place]
    return (ys[place] * (xs[place + 1] - x) + ys[place + 1] * (x - xs[place])) // width


def knots(low: int, high: int, known: Sequence[int]) -> list[int]:
    return sorted({low + (high - low) * step // 48 for step in range(49)} | set(known))


@pytest.mark.parametrize(("goal", "form"), [("prefill", "threshold"), ("prefill", "slope"), ("decode-total", "slope")])
def test_a_table_for_each_dtype_and_number_of_streams(goal: str, form: str, tmp_path: Path) -> None:
    """The cache's dtype moves with the slab (and the streams): every shape of a grid by the plain reading."""
    metric = "decode" if goal == "decode-total" else "prefill"
    streams = (1, 2, 4) if metric == "decode" else (1,)
    of = server(tmp_path, rows(SLABS[:1] + SLABS[2:], metric=metric, streams=streams, form=form,
                               dtypes={"bf16": 1.06, "fp8": 1.0}),
                knobs={"max_model_len": 120_000})
    grids = {"vram_weights_mib": 173, "vram_kv_mib": 811}
    question = ask(with_grids(of, grids), goal, free=["kv_cache_dtype"], top=1)
    ranges = {"vram_weights_mib": (21_106, 27_161), "vram_kv_mib": (1_622, 8_110), "kv_cache_dtype": (0, 1)}
    if metric == "decode":
        ranges["max_num_seqs"] = (1, 6)
    question = replace(question, free={name: ranges[name] for name in question.free})
    assert set(question.free) == set(ranges)
    law = speed_of(question).used[0].law
    xs = knots(SLABS[0], SLABS[-1], [SLABS[0], *SLABS[2:]])
    tables: dict[tuple[int, int], list[int]] = {}
    best: tuple[int, dict[str, int]] | None = None
    for dtype in (0, 1):
        for seqs in range(1, 5) if metric == "decode" else (3,):
            at = {"kv_cache_dtype": float(dtype), "streams": float(seqs)}
            times = seqs if metric == "decode" else 1
            found = law.rates(at, "vram_weights_mib", [float(x) for x in xs], level=0.5)
            tables[dtype, seqs] = [int(one * 1000 * times) for one in found]
            for weights in range(22_317, 26_072, 173):
                value = between(xs, tables[dtype, seqs], weights)
                if best is not None and value <= best[0]:
                    continue
                for kv in range(1_622, 8_111, 811):
                    shape = {"kv_cache_dtype": dtype, "max_num_seqs": seqs}
                    shape |= {"vram_weights_mib": weights, "vram_kv_mib": kv}
                    reader = Reader(of.model, of.given, of.knobs | shape)
                    truths = [reader.condition(require.holds) for require in hard_requires(question)]
                    if all(truth is True or isinstance(truth, Missing) for truth in truths):
                        best = value, shape
                        break
    answer = solve(question)
    assert best is not None
    ranked = answer.shapes[0]
    assert (answer.status, ranked.objective.low) == ("optimal", best[0])
    assert tables[ranked.shape["kv_cache_dtype"], ranked.shape["max_num_seqs"]][0] > 0


def test_more_streams_than_tables_is_no_answer(tmp_path: Path) -> None:
    """Between tabulated numbers of streams there is no table: to take another one would be a wrong number."""
    of = server(tmp_path, rows(metric="decode", streams=(1, 40, 80)), knobs={"max_model_len": 44_000})
    with pytest.raises(ReadError, match="hold one with --given"):
        ask(of, "decode-total")
    answer = solve(ask(of, "decode-total", given={"vram_weights_mib": "22208"}, top=1))
    law = speed_of(answer.question).used[0].law
    seqs = answer.shapes[0].shape["max_num_seqs"]
    exact = law.rates({"streams": seqs, "vram_weights_mib": 22_208}, level=0.5)[0] * 1000 * seqs
    assert answer.shapes[0].value == pytest.approx(exact, rel=0.005)


# --- how close a curve is to its law ---------------------------------------------------------------------------------


def curve_of(node: Expr) -> Curve:
    assert isinstance(node, Curve)
    return node


@pytest.mark.parametrize(("form", "confidence"), [*((form, 0.5) for form in HIDDEN), ("slope", 0.9), ("hinge", 0.9)])
def test_a_curve_is_close_to_its_law(form: str, confidence: float, tmp_path: Path) -> None:
    of = server(tmp_path, rows((*SLABS, 22_700, 25_000), form=form))
    question = ask(of, "prefill", workload=Workload(confidence=confidence))
    curve = curve_of(question.goal.objective)
    assert (curve.xs[0], curve.xs[-1]) == (SLABS[0], SLABS[-1])
    places = list(range(SLABS[0], SLABS[-1] + 1, 7))
    law = speed_of(question).used[0].law
    exact = law.rates({}, "vram_weights_mib", [float(x) for x in places], level=1 - confidence)
    off = [abs(curve.at(x) / 1000 / one - 1) for x, one in zip(places, exact, strict=True)]
    # a jump is a line across one of 48 stretches
    assert sorted(off)[len(off) * 9 // 10] < 0.004
    assert max(off) < (0.25 if form == "threshold" else 0.05)


# --- no bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "slabs"), [
    ("slope", (22_208, 22_700, 23_000)), ("slope", (26_400, 27_500)), ("saturating", (22_208, 25_000, 26_071)),
    ("none", (22_208, 25_000, 26_071)),
])
def test_extrapolated_shapes_are_labelled_and_have_the_laws_own_speed(form: str, slabs: tuple[int, ...],
                                                                      tmp_path: Path) -> None:
    of = server(tmp_path, rows(slabs, form=form))
    question = ask(of, "prefill", workload=Workload(extrapolate=True), top=2)
    answer = solve(question)
    assert answer.status == "optimal"
    speed = speed_of(answer.question)
    for ranked in answer.shapes:
        slab = ranked.shape["vram_weights_mib"]
        exact = speed.used[0].law.rates({}, "vram_weights_mib", [float(slab)], level=0.5)[0]
        assert ranked.value == pytest.approx(exact * 1000, rel=0.005)
        if not slabs[0] <= slab <= slabs[-1]:
            assert any("vram_weights_mib" in text and f"{slabs[0]:,}" in text for text in speed.extrapolated)
        assert ranked.prediction is not None
    # the law all over the pairs that the ceiling admits
    places = [float(x) for x in range(15_000, 30_000, 10)]
    allowed = solve(ask(of, "slab", given={}, top=1)).shapes[0].shape["vram_weights_mib"]
    inside = [x for x in places if x <= allowed]
    top = max(speed.used[0].law.rates({}, "vram_weights_mib", inside, level=0.5)) * 1000
    assert answer.shapes[0].value == pytest.approx(top, rel=0.005)


def test_within_the_data_nothing_is_labelled_but_shapes_stay_inside(tmp_path: Path) -> None:
    of = server(tmp_path, rows((22_300, 23_000, 24_000)))
    answer = solve(ask(of, "prefill", top=4))
    assert speed_of(answer.question).extrapolated == ()
    for ranked in answer.shapes:
        assert 22_300 <= ranked.shape["vram_weights_mib"] <= 24_000
    assert answer.shapes[0].shape["vram_weights_mib"] == 24_000
