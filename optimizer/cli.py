"""The command line: reads the words a user gave, asks, and prints the answer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from measurements.config import redact
from measurements.records import ReadError
from measurements.site import Sources, load, read_site, spelled
from models.declare import Verdict
from models.engines import engine_name
from models.versions import UnknownEngine, UnknownVersion
from optimizer.check import SCHEMA_VERSION, MissingFacts, check, check_json

if TYPE_CHECKING:
    from measurements.site import Site
    from optimizer.solve import Question
    from optimizer.speed import Workload

app = typer.Typer(
    name="shapewright",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SiteArg = Annotated[Path | None, typer.Argument(help="A site folder or its site.toml.", show_default=False)]
ConfigOpt = Annotated[list[Path] | None, typer.Option(
    "--config", "-c", help="Env file, flags, script, compose, Kubernetes or unit file. Repeatable.")]
LedgerOpt = Annotated[Path | None, typer.Option("--ledger", "-l", help="The engine's boot log.")]
EngineOpt = Annotated[str | None, typer.Option("--engine", "-e", metavar="NAME@VERSION", help="Engine and version.")]
SetOpt = Annotated[list[str] | None, typer.Option("--set", metavar="KNOB=VALUE", help="Set a knob. Repeatable.")]
FactOpt = Annotated[list[str] | None, typer.Option(
    "--fact", metavar="NAME=VALUE", help="Give a fact, with its unit: --fact pair_ceiling=30969MiB. Repeatable.")]
SessionsOpt = Annotated[int | None, typer.Option(
    "--sessions", min=1, help="Full-length sequences that must fit at once.")]
HostOpt = Annotated[Path | None, typer.Option(
    "--host", help="Folder with saved meminfo, ttm pages_limit and DRM memory files.")]
ServiceOpt = Annotated[str | None, typer.Option("--service", help="Which service or container of the file.")]
LimitOpt = Annotated[list[str] | None, typer.Option(
    "--limit", metavar="CONSTRAINT", help="Make a matter of quality a hard limit. Repeatable.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
GoalOpt = Annotated[str, typer.Option(
    "--goal", "-g", help="context, sequences, sessions, slab, host-ram, headroom; by measured speeds: prefill, "
                         "decode, decode-total, balanced.")]
SpeedGoalOpt = Annotated[str, typer.Option("--goal", "-g", help="prefill, decode, decode-total or balanced.")]
PointsOpt = Annotated[list[str] | None, typer.Option(
    "--points", "-p", metavar="FILE", help="Measured speeds, CSV; reference: those that come along. Repeatable.")]
PromptOpt = Annotated[int | None, typer.Option(
    "--prompt-tokens", min=1, metavar="N", help="The prompt, for decode the context. Else as most points.")]
AnswerOpt = Annotated[int, typer.Option(
    "--answer-tokens", min=1, metavar="N", help="Generated tokens of the request that balanced times.")]
StreamsOpt = Annotated[int | None, typer.Option(
    "--streams", min=1, metavar="N", help="Streams at once. Else 1, for decode-total all slots.")]
ConfidenceOpt = Annotated[float, typer.Option(
    "--confidence", min=0.01, max=0.99, help="Optimise the speed that one measurement reaches so surely.")]
CorpusOpt = Annotated[str | None, typer.Option("--corpus", help="Which corpus's decode points count.")]
BeyondOpt = Annotated[bool, typer.Option(
    "--extrapolate", help="Answer outside the data too, labelled so.")]
WeightOpt = Annotated[list[str] | None, typer.Option(
    "--weight", metavar="METRIC=N", help="balanced: count the time of prefill or decode N times. Repeatable.")]
OrderOpt = Annotated[str | None, typer.Option(
    "--order", metavar="GOAL,GOAL", help="balanced: each goal within 1 % of its best, in this order.")]
GivenOpt = Annotated[list[str] | None, typer.Option("--given", metavar="KNOB=VALUE", help="Hold a knob here.")]
AtLeastOpt = Annotated[list[str] | None, typer.Option(
    "--at-least", metavar="Q=VALUE", help="A knob or quantity must be at least this.")]
AtMostOpt = Annotated[list[str] | None, typer.Option(
    "--at-most", metavar="Q=VALUE", help="A knob or quantity must be at most this.")]
FreeOpt = Annotated[list[str] | None, typer.Option("--free", metavar="KNOB", help="Let a knob move.")]
WriteOpt = Annotated[bool, typer.Option("--write", help="Write it; without this nothing is touched.")]
RecordOpt = Annotated[Path | None, typer.Option(
    "--record", metavar="FILE", help="The file of predictions and verdicts. Else beside the site.toml.")]
RankOpt = Annotated[int, typer.Option("--rank", min=1, max=100, help="Which ranked shape to edit in.")]
TopOpt = Annotated[int, typer.Option("--top", min=1, max=100, help="How many shapes.")]


def _sources(site: Path | None, config: list[Path] | None, ledger: Path | None, engine: str | None,
             sets: list[str] | None, facts: list[str] | None, sessions: int | None, host: Path | None,
             service: str | None, limits: list[str] | None, points: list[str] | None = None) -> Sources:
    named = read_site(site) if site is not None else Sources()
    if site is None and not config and ledger is None:
        raise ReadError("give a site folder, or --config FILE (and --ledger FILE)", kind="usage")
    if named.engine and engine and engine_name(engine.partition("@")[0]) != engine_name(named.engine.partition("@")[0]):
        raise ReadError(f"the site runs {named.engine}; another engine is another site", kind="usage", file=str(site))
    runs = named.engine if engine is not None and engine != named.engine else None
    return replace(
        named,
        config=tuple(config) if config else named.config,
        ledger=ledger or named.ledger,
        host=host or named.host,
        engine=engine or named.engine,
        service=service or named.service,
        sessions=sessions if sessions is not None else named.sessions,
        facts={**named.facts, **spelled(facts or ())},
        sets={**named.sets, **spelled(sets or ())},
        limits=(*named.limits, *(limits or ())),
        runs=runs,
        points=_points(points) or named.points,
    )


def _points(words: list[str] | None) -> tuple[Path | str, ...]:
    from measurements.points import REFERENCE

    return tuple(word if word == REFERENCE else Path(word) for word in words or ())


def _site(*words: Any) -> Site:
    return load(_sources(*words))


def _workload(prompt: int | None, answer: int, streams: int | None, corpus: str | None, confidence: float,
              extrapolate: bool, weights: list[str] | None) -> Workload:
    from optimizer.speed import Workload

    if not 0 < confidence < 1:
        raise ReadError(f"--confidence {confidence}: write a probability from 0.01 to 0.99", kind="usage")
    counted: dict[str, int] = {}
    for metric, text in spelled(weights or ()).items():
        if metric not in ("prefill", "decode"):
            raise ReadError(f"--weight {metric}: balanced times prefill and decode", kind="usage")
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1000):
            raise ReadError(f"--weight {metric}={text}: write a whole number from 1 to 1000", kind="usage")
        counted[metric] = int(text)
    return Workload(prompt, answer, streams, corpus, confidence, extrapolate, counted)


def _print(document: dict[str, Any], as_json: bool, render: Callable[[dict[str, Any]], None]) -> None:
    if as_json:
        print(json.dumps(document, indent=2, allow_nan=False))
    else:
        render(document)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"shapewright {version('shapewright')}")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Which settings should this LLM server have, and what will they buy?

    Ranked shapes, proven best, with the lines to change and the ledger the next boot must print.
    """


@app.command("check")
def check_command(
    site: SiteArg = None, config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None,
    sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None,
    service: ServiceOpt = None, limits: LimitOpt = None, as_json: JsonOpt = False,
) -> int:
    """Is this shape going to work? The whole predicted ledger, each constraint's slack."""
    found = check(_site(site, config, ledger, engine, sets, facts, sessions, host, service, limits))
    from optimizer.render.answers import show_check

    _print(check_json(found), as_json, show_check)
    return 0 if found.verdict is Verdict.FITS else 3


def _pairs(items: list[str] | None) -> list[tuple[str, str]]:
    return [pair for item in items or () for pair in spelled([item]).items()]


def _question(site: Site, goal: str, given: list[str] | None, at_least: list[str] | None,
              at_most: list[str] | None, free: list[str] | None, top: int, workload: Workload,
              order: str | None = None) -> Question:
    from optimizer.solve import ask, ask_in_order

    names = [name.strip().replace("-", "_").lower() for name in free or ()]
    if workload.weights and (order is not None or goal.strip().lower() != "balanced"):
        raise ReadError("--weight goes with --goal balanced, and not with --order", kind="usage")
    if order is not None:
        if goal.strip().lower() != "balanced":
            raise ReadError("--order goes with --goal balanced", kind="usage")
        return ask_in_order(site, order.split(","), given=spelled(given or ()), at_least=_pairs(at_least),
                            at_most=_pairs(at_most), free=names, top=top, workload=workload)
    return ask(site, goal, given=spelled(given or ()), at_least=_pairs(at_least), at_most=_pairs(at_most),
               free=names, top=top, workload=workload)


@app.command("solve")
def solve_command(
    site: SiteArg = None, goal: GoalOpt = "context", given: GivenOpt = None, at_least: AtLeastOpt = None,
    at_most: AtMostOpt = None, free: FreeOpt = None, top: TopOpt = 5, config: ConfigOpt = None,
    ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None, facts: FactOpt = None,
    sessions: SessionsOpt = None, host: HostOpt = None, service: ServiceOpt = None, limits: LimitOpt = None,
    points: PointsOpt = None, prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512,
    streams: StreamsOpt = None, corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5,
    extrapolate: BeyondOpt = False, weight: WeightOpt = None, order: OrderOpt = None, as_json: JsonOpt = False,
) -> int:
    """The best shapes for a goal, ranked, each checked again without the solver."""
    from optimizer.documents import solve_json
    from optimizer.render.answers import show_solve
    from optimizer.solve import demand_law, solve

    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    question = _question(own, goal, given, at_least, at_most, free, top, load, order)
    demand_law(question)
    answer = solve(question)
    _print(solve_json(answer), as_json, show_solve)
    return 3 if answer.status == "infeasible" else 0


@app.command("why")
def why_command(
    site: SiteArg = None, goal: GoalOpt = "context", given: GivenOpt = None, at_least: AtLeastOpt = None,
    at_most: AtMostOpt = None, free: FreeOpt = None, config: ConfigOpt = None, ledger: LedgerOpt = None,
    engine: EngineOpt = None, sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None,
    host: HostOpt = None, service: ServiceOpt = None, limits: LimitOpt = None, points: PointsOpt = None,
    prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512, streams: StreamsOpt = None,
    corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5, extrapolate: BeyondOpt = False,
    weight: WeightOpt = None, order: OrderOpt = None, as_json: JsonOpt = False,
) -> int:
    """Why no better? What would have to give, and by how much; of what can be had, what binds and what would next."""
    from optimizer.documents import why_json
    from optimizer.render.answers import show_why
    from optimizer.solve import demand_law, solve

    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    question = _question(own, goal, given, at_least, at_most, free, 1, load, order)
    demand_law(question)
    answer = solve(question)
    _print(why_json(answer), as_json, show_why)
    return 3 if answer.status == "infeasible" else 0


@app.command("propose")
def propose_command(
    site: SiteArg = None, goal: GoalOpt = "context", given: GivenOpt = None, at_least: AtLeastOpt = None,
    at_most: AtMostOpt = None, free: FreeOpt = None, top: TopOpt = 5, rank: RankOpt = 1, config: ConfigOpt = None,
    ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None, facts: FactOpt = None,
    sessions: SessionsOpt = None, host: HostOpt = None, service: ServiceOpt = None, limits: LimitOpt = None,
    points: PointsOpt = None, prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512,
    streams: StreamsOpt = None, corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5,
    extrapolate: BeyondOpt = False, weight: WeightOpt = None, order: OrderOpt = None, as_json: JsonOpt = False,
) -> int:
    """Solve, then the smallest edit of your own file and the rows the next boot must print."""
    from optimizer.documents import solve_json
    from optimizer.propose import propose, propose_json
    from optimizer.render.answers import show_propose, show_solve
    from optimizer.solve import demand_law, solve

    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    question = _question(own, goal, given, at_least, at_most, free, max(top, rank), load, order)
    demand_law(question)
    answer = solve(question)
    if answer.status == "infeasible":
        _print(solve_json(answer), as_json, show_solve)
        return 3
    _print(propose_json(propose(answer, rank)), as_json, show_propose)
    return 0


@app.command("plan")
def plan_command(
    site: SiteArg = None,
    goal: Annotated[str | None, typer.Option(
        "--goal", "-g", help="Plan to a shape that solve ranks for this goal.")] = None,
    to: Annotated[list[str] | None, typer.Option(
        "--to", metavar="KNOB=VALUE", help="Plan to the running shape with this knob changed. Repeatable.")] = None,
    given: GivenOpt = None, at_least: AtLeastOpt = None, at_most: AtMostOpt = None, free: FreeOpt = None,
    rank: Annotated[int, typer.Option("--rank", min=1, max=100, help="Which ranked shape to plan to.")] = 1,
    config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None,
    facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None, service: ServiceOpt = None,
    limits: LimitOpt = None, points: PointsOpt = None, prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512,
    streams: StreamsOpt = None, corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5,
    extrapolate: BeyondOpt = False, weight: WeightOpt = None, order: OrderOpt = None, as_json: JsonOpt = False,
) -> int:
    """From the shape that runs to the target in deploys of one knob each, every shape on the way fitting."""
    from optimizer.plan import plan, plan_json, ranked_target, stated_target
    from optimizer.render.answers import show_solve
    from optimizer.render.deploys import show_plan

    if (goal is None) is (not to):
        raise ReadError("plan to what? give --goal GOAL, or --to KNOB=VALUE for each knob (not both)", kind="usage")
    if to and (given or at_least or at_most or free or order or weight or rank > 1):
        raise ReadError("--to spells the target out; --rank and the options that choose a shape go with --goal",
                        kind="usage")
    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    if goal is None:
        target = stated_target(own, spelled(to or ()))
    else:
        from optimizer.documents import solve_json
        from optimizer.solve import demand_law, solve

        load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
        question = _question(own, goal, given, at_least, at_most, free, rank, load, order)
        demand_law(question)
        answer = solve(question)
        if answer.status == "infeasible":
            _print(solve_json(answer), as_json, show_solve)
            return 3
        target = ranked_target(answer, rank)
    found = plan(own, target)
    _print(plan_json(found), as_json, show_plan)
    return 0 if found.status in ("planned", "two_knobs") else 3


@app.command("apply")
def apply_command(
    site: SiteArg = None,
    goal: Annotated[str | None, typer.Option(
        "--goal", "-g", help="As for solve: the best shape for this.")] = None,
    to: Annotated[list[str] | None, typer.Option(
        "--to", metavar="KNOB=VALUE", help="This value, instead of a goal's best. Repeatable.")] = None,
    given: GivenOpt = None, at_least: AtLeastOpt = None, at_most: AtMostOpt = None, free: FreeOpt = None,
    top: TopOpt = 5, rank: RankOpt = 1, config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None,
    sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None,
    service: ServiceOpt = None, limits: LimitOpt = None, points: PointsOpt = None, prompt_tokens: PromptOpt = None,
    answer_tokens: AnswerOpt = 512, streams: StreamsOpt = None, corpus: CorpusOpt = None,
    confidence: ConfidenceOpt = 0.5, extrapolate: BeyondOpt = False, weight: WeightOpt = None, order: OrderOpt = None,
    write: WriteOpt = False,
    comment: Annotated[bool, typer.Option(
        "--comment", help="Put what is predicted above the value, as a comment.")] = False,
    anyway: Annotated[bool, typer.Option(
        "--anyway", help="Write a shape too that does not surely fit.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What to remember, for the record.")] = "",
    record: RecordOpt = None, as_json: JsonOpt = False,
) -> int:
    """Set a shape in your own files and record what the next boot must print; without --write, show it only."""
    from datetime import UTC, datetime

    from optimizer.apply import apply_json, carry_out, plan_of_answer, plan_of_values, record_file, why_not
    from optimizer.render.deploys import show_apply

    if to and (goal is not None or given or at_least or at_most or free or order):
        raise ReadError("--to says the values itself: leave out --goal and what goes with it", kind="usage")
    if not (to or goal or order):
        raise ReadError("say what to set: --to KNOB=VALUE, or --goal GOAL for its best shape", kind="usage")
    sources = replace(_sources(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points),
                      records=record)
    own = load(sources)
    now = datetime.now(UTC)
    if to:
        plan = plan_of_values(own, spelled(to), now=now, comment=comment, note=note)
    else:
        from optimizer.documents import solve_json
        from optimizer.render.answers import show_solve
        from optimizer.solve import demand_law, solve

        load_asked = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
        question = _question(own, goal or "context", given, at_least, at_most, free, max(top, rank), load_asked, order)
        demand_law(question)
        answer = solve(question)
        if answer.status == "infeasible":
            _print(solve_json(answer), as_json, show_solve)
            return 3
        plan = plan_of_answer(answer, rank, now=now, comment=comment, note=note)
    path = record_file(sources, record)
    why = why_not(plan, write=write, anyway=anyway)
    done = carry_out(plan, path) if why is None else None
    _print(apply_json(plan, path, done, why), as_json, show_apply)
    return 0 if plan.checked.verdict is Verdict.FITS else 3


@app.command("verdict")
def verdict_command(
    site: SiteArg = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", "-l", help="The log of the boot after the change.")] = None,
    config: ConfigOpt = None, record: RecordOpt = None,
    which: Annotated[str | None, typer.Option(
        "--id", metavar="ID", help="Of the prediction; else the newest without a verdict.")] = None,
    write: WriteOpt = False, as_json: JsonOpt = False,
) -> int:
    """Did the boot print what was predicted? Row by row, and what took what is missing; --write records it."""
    from datetime import UTC, datetime

    from measurements.history import read_history
    from optimizer.render.deploys import show_verdict
    from optimizer.verdict import exit_code, judge, keep, verdict_json, verdict_record

    path = _record_file(site, config, record)
    if ledger is None:
        raise ReadError("give the log of the boot after the change: --ledger FILE", kind="usage")
    if record is not None and not record.exists():
        raise ReadError("no such file of records: apply --write makes one", file=str(record))
    found = judge(read_history(path), which, ledger)
    kept: tuple[str | None, tuple[str, ...]] = (None, ())
    if write:
        sealed = verdict_record(found, datetime.now(UTC))
        kept = str(sealed["id"]), keep(path, sealed)
    _print(verdict_json(found, path, *kept), as_json, show_verdict)
    return exit_code(found)


@app.command("history")
def history_command(
    site: SiteArg = None, config: ConfigOpt = None, record: RecordOpt = None,
    last: Annotated[int | None, typer.Option(
        "--last", metavar="N", min=1, help="The newest N predictions and probes.")] = None,
    as_json: JsonOpt = False,
) -> int:
    """What was predicted, and what became of it; what was probed."""
    from measurements.history import read_history
    from optimizer.history import history_json
    from optimizer.render.deploys import show_history

    path = _record_file(site, config, record)
    if record is not None and not record.exists():
        raise ReadError("no such file of records: apply --write makes one", file=str(record))
    _print(history_json(read_history(path), last), as_json, show_history)
    return 0


def _record_file(site: Path | None, config: list[Path] | None, record: Path | None) -> Path:
    """Where the records of a site stand; its other files need not be there."""
    from optimizer.apply import record_file

    if record is not None:
        return record
    sources = read_site(site) if site is not None else Sources()
    return record_file(replace(sources, config=tuple(config) if config else sources.config), None)


@app.command("pareto")
def pareto_command(
    words: Annotated[list[str] | None, typer.Argument(
        metavar="[SITE] GOAL GOAL [GOAL]", help="Two or three goals; what is no goal is the site.",
        show_default=False)] = None,
    named: Annotated[Path | None, typer.Option("--site", help="A site folder or its site.toml.")] = None,
    given: GivenOpt = None, at_least: AtLeastOpt = None, at_most: AtMostOpt = None, free: FreeOpt = None,
    config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None,
    facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None, service: ServiceOpt = None,
    limits: LimitOpt = None, points: PointsOpt = None, prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512,
    streams: StreamsOpt = None, corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5,
    extrapolate: BeyondOpt = False, weight: WeightOpt = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: a .png or .svg file.")] = None,
    as_json: JsonOpt = False,
) -> int:
    """Two or three goals against each other: every shape that is not beaten, proven, and the knee."""
    from optimizer.pareto import ask_goals, pareto, pareto_json, spoken
    from optimizer.render.tradeoffs import show_pareto

    if plot is not None:
        from optimizer.plot import demand_picture

        demand_picture(plot)
    site, goals = spoken(words or (), named, alone=not config and ledger is None)
    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    names = [name.strip().replace("-", "_").lower() for name in free or ()]
    front = pareto(ask_goals(own, goals, given=spelled(given or ()), at_least=_pairs(at_least),
                             at_most=_pairs(at_most), free=names, workload=load))
    document = pareto_json(front)
    if plot is not None and front.points:
        from optimizer.plot import save_pareto

        document["pictures"] = [str(save_pareto(document, plot))]
    _print(document, as_json, show_pareto)
    return 3 if front.status == "infeasible" else 0


@app.command("sensitivity")
def sensitivity_command(
    site: SiteArg = None, goal: GoalOpt = "context", given: GivenOpt = None, at_least: AtLeastOpt = None,
    at_most: AtMostOpt = None, free: FreeOpt = None, config: ConfigOpt = None, ledger: LedgerOpt = None,
    engine: EngineOpt = None, sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None,
    host: HostOpt = None, service: ServiceOpt = None, limits: LimitOpt = None, points: PointsOpt = None,
    prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512, streams: StreamsOpt = None,
    corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5, extrapolate: BeyondOpt = False,
    weight: WeightOpt = None,
    everywhere: Annotated[bool, typer.Option(
        "--global", help="All uncertain facts at once: how likely shapes fit, which fact that hangs on.")] = False,
    samples: Annotated[int, typer.Option("--samples", help="--global: draws, a power of two.")] = 128,
    seed: Annotated[int, typer.Option("--seed", min=0, help="--global: of the draws.")] = 1,
    as_json: JsonOpt = False,
) -> int:
    """What is each knob and each fact worth? Re-solved a step away, and to the ends of what is known."""
    from optimizer.documents import solve_json
    from optimizer.render.answers import show_solve
    from optimizer.render.tradeoffs import show_sensitivity
    from optimizer.sensitivity import Sensitivity, sensitivity, sensitivity_json

    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    found = sensitivity(_question(own, goal, given, at_least, at_most, free, 1, load))
    if not isinstance(found, Sensitivity):
        _print(solve_json(found), as_json, show_solve)
        return 3
    drawn = None
    if everywhere:
        from optimizer.render.base import progress
        from optimizer.spread import spread

        with progress("drawing facts") as told:
            drawn = spread(found, samples=samples, seed=seed, progress=told)
    _print(sensitivity_json(found, drawn), as_json, show_sensitivity)
    return 0


@app.command("report")
def report_command(
    site: SiteArg = None, goal: GoalOpt = "context", given: GivenOpt = None, at_least: AtLeastOpt = None,
    at_most: AtMostOpt = None, free: FreeOpt = None, top: TopOpt = 5, config: ConfigOpt = None,
    ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None, facts: FactOpt = None,
    sessions: SessionsOpt = None, host: HostOpt = None, service: ServiceOpt = None, limits: LimitOpt = None,
    points: PointsOpt = None, prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512,
    streams: StreamsOpt = None, corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5,
    extrapolate: BeyondOpt = False, weight: WeightOpt = None, order: OrderOpt = None,
    against: Annotated[str | None, typer.Option(
        "--pareto", metavar="GOAL,GOAL", help="Which goals to trade off. Else the goal against its rival.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as one page.")] = None,
    drawn: Annotated[Path | None, typer.Option(
        "--pictures", metavar="FOLDER", help="Write each picture as a file.")] = None,
    kind: Annotated[str, typer.Option("--format", help="Of the pictures: png or svg.")] = "png",
    as_json: JsonOpt = False,
) -> int:
    """Everything about a goal in one page: memory, best shapes, trade-off, sensitivities, laws, sources."""
    from optimizer.render.sites import show_report, show_written
    from optimizer.report import Asked, no_answer, report_json

    if kind not in ("png", "svg"):
        raise ReadError(f"--format {kind}: png or svg", kind="usage")
    if html is not None or drawn is not None:
        from optimizer.plot import demand_places

        demand_places(html, drawn)
    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    names = [name.strip().replace("-", "_").lower() for name in free or ()]
    asked = Asked(own, goal, given or (), _pairs(at_least), _pairs(at_most), names, load)
    document = report_json(asked, lambda: _question(own, goal, given, at_least, at_most, free, top, load, order),
                           against=against.split(",") if against is not None else ())
    files: dict[Path, bytes] = {}
    if drawn is not None:
        from optimizer.pictures import pictures
        from optimizer.plot import FILE

        files |= {drawn / f"{item.name}.{kind}": item.draw(kind, FILE) for item in pictures(document)}
    if html is not None:
        from optimizer.page import page

        files[html] = page(document)
    if files:
        from optimizer.plot import write_files

        if drawn is not None:
            drawn.mkdir(exist_ok=True)
        write_files(files)
    if html is not None:
        document["page"] = str(html)
    if drawn is not None and (paths := [str(path) for path in files if path != html]):
        document["pictures"] = paths
    _print(document, as_json, show_report if html is None and drawn is None else show_written)
    return 3 if no_answer(document) else 0


@app.command("next")
def next_command(
    site: SiteArg = None, goal: SpeedGoalOpt = "prefill", given: GivenOpt = None, at_least: AtLeastOpt = None,
    at_most: AtMostOpt = None, free: FreeOpt = None, config: ConfigOpt = None, ledger: LedgerOpt = None,
    engine: EngineOpt = None, sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None,
    host: HostOpt = None, service: ServiceOpt = None, limits: LimitOpt = None, points: PointsOpt = None,
    prompt_tokens: PromptOpt = None, answer_tokens: AnswerOpt = 512, streams: StreamsOpt = None,
    corpus: CorpusOpt = None, confidence: ConfidenceOpt = 0.5, extrapolate: BeyondOpt = False,
    weight: WeightOpt = None, as_json: JsonOpt = False,
) -> int:
    """Which one measurement would settle most, and what each outcome would mean."""
    from optimizer.documents import solve_json
    from optimizer.measure import next_json, next_measurement
    from optimizer.render.answers import show_solve
    from optimizer.render.speeds import show_next
    from optimizer.solve import solve
    from optimizer.speed import GOALS

    if goal.strip().lower().replace("_", "-") not in GOALS:
        raise ReadError(f"next is about measured speeds: --goal {', '.join(GOALS)}", kind="usage")
    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    load = _workload(prompt_tokens, answer_tokens, streams, corpus, confidence, extrapolate, weight)
    question = _question(own, goal, given, at_least, at_most, free, 1, load)
    answer = solve(question)
    if answer.status == "infeasible":
        _print(solve_json(answer), as_json, show_solve)
        return 3
    _print(next_json(next_measurement(question), answer), as_json, show_next)
    return 0


@app.command("laws")
def laws_command(
    site: SiteArg = None, config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None,
    sets: SetOpt = None, facts: FactOpt = None, host: HostOpt = None, service: ServiceOpt = None,
    points: PointsOpt = None,
    metric: Annotated[str | None, typer.Option("--metric", help="prefill or decode only.")] = None,
    prompt_tokens: PromptOpt = None, streams: StreamsOpt = None, corpus: CorpusOpt = None,
    extrapolate: BeyondOpt = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw them: a .png or .svg file.")] = None,
    as_json: JsonOpt = False,
) -> int:
    """What measured speeds tell: each law's form, weight, error, range, points and contradictions."""
    from optimizer.laws import laws, laws_json
    from optimizer.render.speeds import show_laws

    if metric not in (None, "prefill", "decode"):
        raise ReadError(f"--metric {metric}: prefill or decode", kind="usage")
    load = _workload(prompt_tokens, 512, streams, corpus, 0.5, extrapolate, None)
    alone = site is None and not config and ledger is None
    own = None if alone else _site(site, config, ledger, engine, sets, facts, None, host, service, None, points)
    document = laws_json(laws(own, _points(points), workload=load, metric=metric))  # type: ignore[arg-type]
    if plot is not None:
        from optimizer.plot import save_laws

        document["pictures"] = [str(path) for path in save_laws(document, plot)]
    _print(document, as_json, show_laws)
    return 0


@app.command("calibrate")
def calibrate_command(
    site: SiteArg = None,
    observed: Annotated[list[Path] | None, typer.Option(
        "--observed", "-o", metavar="FILE", help="Observations, TOML: settings and what became of them. Repeatable.")
    ] = None,
    boot: Annotated[list[Path] | None, typer.Option(
        "--boot", metavar="LOG", help="A further boot log of this site. Repeatable.")] = None,
    constant: Annotated[list[str] | None, typer.Option(
        "--constant", metavar="NAME[=LOW..HIGH]", help="Only these constants are uncertain. Repeatable.")] = None,
    config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None,
    facts: FactOpt = None, host: HostOpt = None, service: ServiceOpt = None, as_json: JsonOpt = False,
) -> int:
    """What do known outcomes tell of the engine's constants? Narrowed intervals, contradictions, what they predict."""
    from measurements.observed import of_log, read_observed
    from optimizer.calibrate import calibrate
    from optimizer.calibrated import calibrate_json
    from optimizer.render.calibrate import show_calibrate

    own = _site(site, config, ledger, engine, sets, facts, None, host, service, None)
    picked: dict[str, str | None] = {}
    for word in constant or ():
        name, equals, value = word.partition("=")
        if not name.strip() or (equals and not value.strip()):
            raise ReadError(f"--constant {word!r} is not NAME or NAME=LOW..HIGH", kind="usage")
        picked[name.strip().replace("-", "_").lower()] = value.strip() if equals else None
    entries = [entry for path in observed or () for entry in read_observed(path)]
    found = calibrate(own, entries, constants=picked, boots=[of_log(path) for path in boot or ()])
    _print(calibrate_json(found), as_json, show_calibrate)
    return 0 if found.consistent else 3


@app.command("probe")
def probe_command(
    url: Annotated[str, typer.Option("--url", "-u", metavar="URL", help="The server: http://HOST:PORT.")],
    site: SiteArg = None, config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None,
    sets: SetOpt = None, service: ServiceOpt = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Which of the server's models.")] = None,
    depths: Annotated[list[str] | None, typer.Option(
        "--depths", metavar="N,N", help="Prompt lengths in tokens. Else three, up to half the window.")] = None,
    streams: Annotated[int, typer.Option("--streams", min=1, max=256, metavar="N", help="Also N answers at once.")] = 1,
    boundary: Annotated[bool, typer.Option(
        "--boundary", help="Also fill the window N times at once (--streams, else all slots); each marker must "
                           "come back.")] = False,
    repeat: Annotated[int, typer.Option(
        "--repeat", min=1, max=20, metavar="K", help="Measure each depth K times.")] = 1,
    window: Annotated[int | None, typer.Option(
        "--window", min=1, metavar="N", help="The window in tokens, where neither server nor site tells it.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv", help="Append the points here.")] = None,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=1, max=86_400, metavar="S")] = 600,
    max_requests: Annotated[int, typer.Option(
        "--max-requests", min=1, max=10_000, metavar="N", help="Of completions; looks at /metrics and calls of "
                                                               "/tokenize do not count.")] = 60,
    max_tokens: Annotated[int | None, typer.Option(
        "--max-tokens", min=1, metavar="N", help="Of prompts and answers together. Else 400,000 and the boundary.",
        show_default=False)] = None,
    key_env: Annotated[str | None, typer.Option(
        "--key-env", metavar="NAME", help="The environment variable with the API key. Else OPENAI_API_KEY.",
        show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Yes, put load on a server of another machine.")] = False,
    record: Annotated[Path | None, typer.Option(
        "--record", metavar="FILE", help="Put the probe on record here. Else, with --out: the site's records, or "
                                         "shapewright-history.jsonl beside the points.", show_default=False)] = None,
    as_json: JsonOpt = False,
) -> int:
    """Measure a live server under the probe rules, and write points that laws take."""
    from measurements.probe.ladder import Limits
    from optimizer.probe import Asked, exit_code, probe
    from optimizer.render.speeds import show_probe

    alone = site is None and not config and ledger is None
    own = None if alone else _site(site, config, ledger, engine, sets, None, None, None, service, None)
    if alone and sets:
        raise ReadError("--set is about a site: give one, or --config FILE", kind="usage")
    asked = Asked(url, own, engine, model, _depths(depths), streams, boundary, repeat, window, out,
                  Limits(max_seconds, max_requests, max_tokens), key_env, yes, record)
    quiet = as_json and not sys.stderr.isatty()
    document = probe(asked, (lambda _: None) if quiet else lambda text: print(f"  {text}", file=sys.stderr, flush=True))
    _print(document, as_json, show_probe)
    return exit_code(document, asked)


def _depths(words: list[str] | None) -> list[int]:
    found = []
    for word in (part.strip().replace("_", "") for text in words or () for part in text.split(",")):
        if not (word.isascii() and word.isdigit() and len(word) <= 9):
            raise ReadError(f"--depths {word!r}: write whole numbers of tokens, as 2048,16384", kind="usage")
        found.append(int(word))
    return found


@app.command("free")
def free_command(
    site: SiteArg = None, config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None,
    sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None,
    service: ServiceOpt = None, limits: LimitOpt = None, as_json: JsonOpt = False,
) -> int:
    """What can we do with the free VRAM (or RAM)? One best use per goal, side by side."""
    from optimizer.free import free, free_json
    from optimizer.render.answers import show_free

    found = free(_site(site, config, ledger, engine, sets, facts, sessions, host, service, limits))
    _print(free_json(found), as_json, show_free)
    return 0


@app.command("ledger")
def ledger_command(
    log: Annotated[Path | None, typer.Argument(help="A boot log, a site folder or its site.toml.",
                                               show_default=False)] = None,
    config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None, as_json: JsonOpt = False,
) -> int:
    """Read a boot log: the facts found, with their lines, and what does not add up."""
    from measurements.ledger import read_ledger
    from measurements.site import foreign_to
    from models.engines import engine_name
    from optimizer.ledger import ledger_json
    from optimizer.render.sites import show_ledger

    named = read_site(log) if log is not None and (log.is_dir() or log.suffix == ".toml") else Sources()
    path = ledger or named.ledger or (log if not named.site else None)
    if path is None:
        raise ReadError("give the boot log", kind="usage", file=str(log) if log else None)
    wanted = engine or named.engine
    reading = read_ledger(path, engine=engine_name(wanted.partition("@")[0]) if wanted else None)
    configs = tuple(config) if config else named.config
    foreign = foreign_to(reading, replace(named, config=configs, ledger=path, engine=wanted)) if configs else ()
    _print(ledger_json(reading, foreign=foreign), as_json, show_ledger)
    return 4 if reading.missing else 0


@app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="The site folder to make.")],
    config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None, sets: SetOpt = None,
    facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None, service: ServiceOpt = None,
    limits: LimitOpt = None, points: PointsOpt = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the files into the folder, secrets taken out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write an existing site.toml anew.")] = False,
    as_json: JsonOpt = False,
) -> int:
    """Make a site folder from a config and a ledger."""
    from measurements.init import write_site
    from optimizer.render.sites import show_init

    sources = _sources(None, config, ledger, engine, sets, facts, sessions, host, service, limits, points)
    own = load(sources)
    if facts and ledger is None:  # figures given by hand hold for the settings of now
        boot = {name: own.model.knobs[name].write(value) for name, value in own.filed.items()
                if not own.model.knobs[name].inert}
        sources = replace(sources, boot=boot)
    path = write_site(folder, sources, str(own.engine), copy=copy, force=force)
    document = {
        "schema_version": SCHEMA_VERSION, "site": str(path), "engine": str(own.engine),
        "next": [f"shapewright check {folder}", f"shapewright free {folder}"],
    }
    _print(document, as_json, show_init)
    return 0


@app.command("collect")
def collect_command(
    folder: Annotated[Path, typer.Argument(help="A new folder for what is found.")],
    container: Annotated[str | None, typer.Option(
        "--container", metavar="NAME", help="The server's container: its log, its memory limit.")] = None,
    unit: Annotated[str | None, typer.Option(
        "--unit", metavar="NAME", help="The server's systemd unit, of the system or the user.")] = None,
    config: ConfigOpt = None,
    root: Annotated[Path, typer.Option(
        "--root", metavar="DIR", help="Another file system root, as of a mounted disk.")] = Path("/"),
    as_json: JsonOpt = False,
) -> int:
    """On the host: the facts, the log and the config into one folder, without secrets, for the other commands."""
    from measurements.collect import collect
    from optimizer.collect import collect_json
    from optimizer.render.sites import show_collect

    _print(collect_json(collect(folder, container=container, unit=unit, configs=config or (), root=root)), as_json,
           show_collect)
    return 0


@app.command("gates")
def gates_command(
    site: SiteArg = None, config: ConfigOpt = None, ledger: LedgerOpt = None, engine: EngineOpt = None,
    sets: SetOpt = None, facts: FactOpt = None, sessions: SessionsOpt = None, host: HostOpt = None,
    service: ServiceOpt = None, limits: LimitOpt = None,
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", metavar="FILE.bats", help="Write the tests here; else they are printed.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is no gates file.")] = False,
    as_json: JsonOpt = False,
) -> int:
    """The site's constraints as a bats file for your own repository: plain bash over your env file."""
    from optimizer.gates import gates, gates_json, write_gates

    own = _site(site, config, ledger, engine, sets, facts, sessions, host, service, limits)
    if out is not None and not out.parent.is_dir():
        raise ReadError("cannot be written: the folder does not exist", file=str(out), kind="usage")
    found = gates(own, Path() if out is None else out.parent)
    if out is None and not as_json:
        print(found.text, end="")
        return 0
    if out is not None:
        write_gates(found, out, force=force)
    from optimizer.render.sites import show_gates

    _print(gates_json(found, out), as_json, show_gates)
    return 0


def _error_json(kind: str, message: str, file: str | None = None, line: int | None = None,
                missing: list[dict[str, str]] | None = None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "error": {"kind": kind, "message": message, "file": file, "line": line},
    }
    if missing is not None:
        document["missing"] = missing
    return document


def _fail(code: int, document: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(document, indent=2))
        return code
    error = document["error"]
    where = f"{error['file']}:{error['line']}: " if error["line"] else f"{error['file']}: " if error["file"] else ""
    print(f"shapewright: {where}{error['message']}", file=sys.stderr)
    for item in document.get("missing", ()):
        unit = f" ({item['unit']})" if item["unit"] else ""
        print(f"  {item['name']}{unit}: {item['how']}", file=sys.stderr)
    return code


def run(words: Sequence[str]) -> int:
    """Runs the program on ``words`` and returns its exit code; nothing but a defect leaves a traceback."""
    as_json = "--json" in words
    words = words or ["--help"]
    try:
        code = app(list(words), standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        return _fail(2, _error_json("usage", error.format_message()), as_json)
    except typer.Abort:
        print("shapewright: stopped", file=sys.stderr)
        return 130
    except ReadError as error:
        return _fail(2, _error_json(error.kind, error.message, error.file, error.line), as_json)
    except UnknownEngine as error:
        return _fail(2, _error_json("unknown_engine", str(error)), as_json)
    except UnknownVersion as error:
        return _fail(2, _error_json("unknown_version", str(error)), as_json)
    except MissingFacts as error:
        return _fail(4, _error_json("missing_facts", str(error), missing=error.missing), as_json)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except SystemExit:  # the reader of the output went away in the middle of a table
        return 0
    except OSError as error:
        return _fail(2, _error_json("usage", f"the answer cannot be written: {error.strerror}"), as_json)
    except Exception as error:
        if "SHAPEWRIGHT_TRACEBACK" in os.environ:
            raise
        text = f"{type(error).__name__}: {redact(str(error))}"
        message = (f"a defect of shapewright, not of your files: {text}\n"
                   "  set SHAPEWRIGHT_TRACEBACK=1 to see where, and report it")
        return _fail(1, _error_json("defect", message), as_json)
