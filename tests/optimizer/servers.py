"""Small servers with real figures, as the files their operators would have, and the program asked about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.cli import run


@dataclass(frozen=True, slots=True)
class Server:
    """The files of one server by name, and the words that name them and what is known besides."""

    engine: str
    config: Mapping[str, str]
    log: str = ""
    facts: Sequence[str] = ()
    more: Sequence[str] = ()

    def words(self, folder: Path) -> list[str]:
        """Writes the files into ``folder`` and returns the command's options."""
        found = ["--engine", self.engine]
        for name, text in self.config.items():
            (folder / name).write_bytes(text.encode())
            found += ["--config", str(folder / name)]
        if self.log:
            (folder / "boot.log").write_text(self.log, encoding="utf-8")
            found += ["--ledger", str(folder / "boot.log")]
        for fact in self.facts:
            found += ["--fact", fact]
        return [*found, *self.more]


@dataclass(frozen=True, slots=True)
class Said:
    """What the program answered."""

    code: int
    out: str
    err: str
    document: dict[str, Any] = field(default_factory=dict)


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    """Runs the program in this process; with ``--json`` the document is read, and nothing may stand beside it."""
    capsys.readouterr()
    code = run(words)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert code in (0, 2, 3, 4), err
    if "--json" not in words:
        return Said(code, out, err)
    document = json.loads(out, parse_constant=_no_number)
    assert isinstance(document, dict)
    assert "{" not in err
    return Said(code, out, err, document)


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def site_of(folder: Path, server: Server) -> Path:
    """The server as a site folder, made by hand: a ``site.toml`` beside its files."""
    server.words(folder)
    lines = [f'engine = "{server.engine}"', f"config = {json.dumps(list(server.config))}"]
    if server.log:
        lines.append('ledger = "boot.log"')
    if server.facts:
        lines.append("[facts]")
        lines += [f'"{name}" = "{value}"' for name, _, value in (fact.partition("=") for fact in server.facts)]
    (folder / "site.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def with_config(server: Server, config: Mapping[str, str], *more: str) -> Server:
    """``server`` with other files, and with further words."""
    return replace(server, config=config, more=(*server.more, *more))


def facts(*given: str) -> list[str]:
    """The words that give facts."""
    return [word for fact in given for word in ("--fact", fact)]


def pair_env(weights: int, kv: int, sequences: int, length: int, *, dtype: str = "fp8", spec: int = 2,
             more: str = "") -> dict[str, str]:
    """An env file that states both pools, in the words of its operator."""
    return {"frank.env": f"""\
# the big box
FRANK_ARCHON_MODEL=/models/qwen3.8-flash-next-w4.rad
FRANK_ARCHON_TP=2
FRANK_ARCHON_KV_DTYPE={dtype}

# sizing
FRANK_ARCHON_MAX_SEQS={sequences}
FRANK_ARCHON_MAX_MODEL_LEN={length}   # what people ask for
FRANK_ARCHON_VRAM_WEIGHTS_MIB={weights}
FRANK_ARCHON_VRAM_KV_MIB={kv}
FRANK_ARCHON_HOST_POOL_MIB=40960
FRANK_ARCHON_SPEC_TOKENS={spec}
{more}"""}


def halogen_env(*, pool: int | None = 524_288, max_tok: int = 32_768, reserve: int = 24,
                more: str = "") -> dict[str, str]:
    """An env file of halogen with a vision tower."""
    asked = "" if pool is None else f"HALOGEN_KV_POOL_POSITIONS={pool}\n"
    return {"halogen.env": f"""\
HALOGEN_CTX=262144
{asked}HALOGEN_MAX_TOK={max_tok}
HALOGEN_HOST_RESERVE_GIB={reserve}
HALOGEN_VISION_TOWER=1
HALOGEN_KV_SLOTS=4
{more}"""}


CEILING = ("pair_ceiling=30969MiB",)
STATED = Server("radiance@1.0.13", pair_env(22_208, 6_912, 4, 200_000), facts=CEILING)

DERIVED_FLAGS = (
    "radiance --model /models/qwen3.8-next-flash-fp8-iq4r-moe.rad --tp 2 --max-num-seqs {sequences} "
    "--max-model-len 262144 --placement expert_tiered --host-pool-mib 12288 --ngram-placement disk "
    "--gpu-headroom-mib {headroom} --expert-vs-cache-ratio 0.82 --kv-cache-dtype fp8 --num-speculative-tokens 3 "
    "--max-num-batched-tokens 2048 --no-prefix-cache\n"
)
#: What 1.0.13 measured and derived on two cards of 31.86 GiB, in its own words.
DERIVED_LOG = """\
I device: AQL backend, 2 device(s) [0:gfx1201 1:gfx1201]
I speculation: 'mtp' drafts 3 token(s) a step in 3 serial pass(es)
I placement: n-gram table (47.68 GiB) disk: as asked
I kv: the pool backs 100% of the worst case (2 sequences all at 262144 tokens), 2.0 full-length sessions.
I VRAM budget, per card:
  card total          31.86 GiB
  already held       264.55 MiB   measured
  activation arena     1.10 GiB   computed
  step staging         3.11 MiB   tables
  hardware queues    100.04 MiB   3 a card at 33.35 MiB each
  --gpu-headroom-mib 512.00 MiB   left unclaimed on purpose
  ------------------------------
  claimable           29.90 GiB
  static weights       3.34 GiB   off the top
  ------------------------------
  elastic             26.56 GiB   what --expert-vs-cache-ratio 0.82 divides
    experts           21.93 GiB   83% of it
    kv cache           4.33 GiB   16% of it
    prefill staging  310.29 MiB   out of the experts
  ==============================
  vram_weights        25.27 GiB   static + experts
  vram_kv              4.33 GiB   the cache's share
  unclaimed          512.33 MiB   the headroom, and what MiB rounding could not place
I[0] card 0 settled at 572.71 MiB free, against 548.46 MiB (the 512.00 MiB --gpu-headroom-mib and 36.46 MiB kept)
I[1] card 1 settled at 566.78 MiB free, against 548.46 MiB (the 512.00 MiB --gpu-headroom-mib and 36.46 MiB kept)
"""
DERIVED = Server("radiance@1.0.13", {"serve.sh": DERIVED_FLAGS.format(sequences=2, headroom=512)}, log=DERIVED_LOG)

FUNDED_12 = Server(
    "radiance@1.2.2",
    {"serve.sh": "radiance --model /models/qwen3.8-next-flash-fp8-iq4r-moe.rad --tp 2 --tp-wire wht6 "
                 "--max-num-seqs 8 --max-model-len 200000 --placement expert_tiered --host-pool-mib 12288 "
                 "--gpu-headroom-mib 3072 --kv-cache-dtype fp8 --num-speculative-tokens 3 "
                 "--max-num-batched-tokens 2048\n"},
    facts=("card_total=31.86GiB", "already_held=343.02MiB", "activation_arena=1.10GiB", "step_staging=3.11MiB",
           "hardware_queues=100.05MiB", "static_weights=3.34GiB"),
    more=("--sessions", "1"),
)

BUDGET = ("card_total=32624MiB", "already_held=347MiB", "drift=0MiB", "activation_arena=1126MiB",
          "step_staging=3MiB", "hardware_queues=100MiB", "prefetch=0MiB", "static_weights=3420MiB",
          "expert_plane=30368MiB", "unit_max=1488KiB")
#: Placed beside BUDGET, so that what only shifts a goal is known as well.
SETTLED = ("settled_free=160MiB", "settle_floor=132MiB", "ngram_table=0B")


def funded_env(sequences: int = 4, *, more: str = "") -> dict[str, str]:
    """An env file of 1.8.1, which funds the cache by the host pool."""
    return {".env": f"""\
MODEL=/models/qwen3.8-next-flash-fp8-iq4r-moe.rad
MAX_SEQS={sequences}
MAX_MODEL_LEN=200000
HOST_POOL_MIB=12288
GPU_HEADROOM_MIB=96
KV_DTYPE=fp8
SPEC_TOKENS=3
TP=2
PLACEMENT=expert_tiered
{more}"""}


FUNDED = Server("radiance@1.8.1", funded_env(), facts=BUDGET)

HOST = ("mem_total=127104060KiB",)
HALOGEN = Server("halogen@0.13.0", halogen_env(pool=262_144), facts=HOST)
HALOGEN_LOG = """\
halogen: halogen-flash-server 0.13.0, mode engine
halogen: vision ON, tower /models/qwen38-flash-next-vision.hgn (857M)
kv pool: host RAM 125 GiB, less 67.7 resident weights and 20.0 reserved for the n-gram page cache and the OS = \
37.4 GiB for the device
kv pool: 524288 positions, ~35.0 GiB (20.6 GiB of it for everything but the pool, at max_tok 32768)
startup [   3.4 s] KV pool reserved: 1526 contiguous 2 MiB blocks free (3052 MiB), 0 compaction stalls during that \
step (0 failed)
slots: 1 -> 4 POOLED, 111.0 MiB each of O(1) state; the KV is ONE pool of 524288 positions (13312.0 MiB) carved
startup [   3.4 s] memory: 68.0 GiB of weights locked in RAM, 14.4 GiB of KV pool, 21.4 GiB of working memory, \
103.8 GiB in all
startup [   3.4 s] host memory left for everything else: 1306 contiguous 2 MiB blocks (10.9 GiB total, most of it \
not contiguous)
halogen: engine listening after 6s
"""
HALOGEN_READ = Server("halogen@0.13.0", halogen_env(reserve=20), log=HALOGEN_LOG)
#: A start of 0.5.8 that halved its pool.
CLAMPED_LOG = """\
kv pool: host RAM 123 GiB, less 67.7 resident weights and 20.0 reserved
         for the n-gram page cache and the OS = 35.8 GiB for the device
kv pool: 524288 positions need ~35.0 GiB (plus 1.5 of margin) and host
         RAM cannot spare it. LOWERING THE POOL TO 262144 (~27.8 GiB).
"""
HALOGEN_CLAMPED = Server("halogen@0.5.8", {"halogen.env": "HALOGEN_VISION_TOWER=1\n"}, log=CLAMPED_LOG)
HALOGEN_LATE = Server(
    "halogen@0.17.4",
    {"halogen.env": "HALOGEN_CHECKPOINT=/models/qwen38-flash-next-v2.hgn\nHALOGEN_CTX=32768\n"
                    "HALOGEN_KV_POOL_POSITIONS=65536\nHALOGEN_KV_SLOTS=1\nHALOGEN_MAX_TOK=16384\n"},
    facts=("mem_total=118.4GiB", "gtt_total=118.0GiB", "gtt_used=0.1GiB"),
)
#: The stalls of a busy host, in the log's own words.
STALLED_LOG = """\
startup [  78.5 s] KV pool reserved: 449 contiguous 2 MiB blocks free (898 MiB), 11783 compaction stalls during \
that step (806 failed)
startup [  78.6 s] memory: 68.0 GiB of weights locked in RAM, 7.2 GiB of KV pool, 21.1 GiB of working memory, \
96.3 GiB in all
"""

#: One server of every generation of memory rules.
SERVERS: Mapping[str, Server] = {
    "radiance 1.0 stated": STATED,
    "radiance 1.0 derived": DERIVED,
    "radiance 1.2": FUNDED_12,
    "radiance 1.8": FUNDED,
    "halogen 0.5 clamped": HALOGEN_CLAMPED,
    "halogen 0.13": HALOGEN,
    "halogen 0.13 with its log": HALOGEN_READ,
    "halogen 0.17": HALOGEN_LATE,
}

POINT_COLUMNS = ("engine", "version", "model", "knobs", "tokens_in", "depth", "tokens_out", "streams", "cache",
                 "corpus", "metric", "value", "unit", "rep", "date", "source", "note")
#: A prompt that fits every server here, and how much of an answer counts.
PROMPT, GENERATED = 20_000, 512


def point(server: Server, rate: float | str, *, model: str = "", knobs: str = "", metric: str = "prefill",
          cells: Mapping[str, int | str] | None = None, **more: int | str) -> str:
    """A row of a points file, measured on ``server`` with cold prompts; ``cells`` and ``more`` are other columns."""
    name, _, own = server.engine.partition("@")
    row: dict[str, object] = {
        "engine": name, "version": own, "model": model or MODELS[name], "knobs": knobs,
        "tokens_in": PROMPT, "tokens_out": "" if metric == "prefill" else GENERATED, "cache": "cold", "metric": metric,
        "value": rate, "unit": "t/s", "source": "a probe", **(cells or {}), **more,
    }
    return ",".join(str(row.get(column, "")) for column in POINT_COLUMNS)


def points(*rows: str) -> str:
    """A points file of these rows."""
    return "\n".join((",".join(POINT_COLUMNS), *rows)) + "\n"


MODELS: Mapping[str, str] = {"radiance": "qwen3.8-flash-next-w4", "halogen": "w4b"}
_PAIRS = ((22_208, 3_397), (23_000, 3_402), (24_000, 3_290), (25_600, 3_584), (26_071, 4_379))


def _decodes(server: Server, knobs: str, model: str = "") -> list[str]:
    """Decode with one to eight streams at two contexts, in two corpora."""
    return [point(server, rate, metric="decode-total" if streams > 1 else "decode", streams=streams, tokens_in=context,
                  corpus=corpus, knobs=knobs, model=model)
            for corpus, share in (("prose", 1.0), ("code [of ours]", 1.4))
            for context, far in ((PROMPT, 1.0), (50_000, 0.9))
            for streams, rate in ((1, 124.1 * share * far), (2, 171 * share * far), (4, 190 * share * far),
                                  (8, 201 * share * far))]


def _stated() -> str:
    rows = [point(STATED, rate, knobs=f"tp=2 vram_weights_mib={slab} vram_kv_mib={29_614 - slab}")
            for slab, rate in _PAIRS]
    rows += [point(STATED, 3_290, knobs="tp=2 vram_weights_mib=25600", source="another probe [of 3]")]
    return points(*rows, *_decodes(STATED, "tp=2 vram_weights_mib=24000"))


def _derived() -> str:
    split = "tp=2 expert_vs_cache_ratio={} vram_weights={}GiB"
    model = "qwen3.8-next-flash-fp8-iq4r-moe"
    rows = [point(DERIVED, rate, model=model, knobs=split.format(ratio, slab), rep=rep)
            for ratio, slab, rates in ((0.6, 19.5, (1_700, 1_712)), (0.7, 22.4, (1_900, 1_893)),
                                       (0.75, 23.8, (1_993, 1_988)), (0.82, 25.27, (2_193, 2_150)))
            for rep, rate in enumerate(rates)]
    return points(*rows, *_decodes(DERIVED, split.format(0.82, 25.27), model))


def _funded() -> str:
    model = "qwen3.8-next-flash-fp8-iq4r-moe"
    split = "tp=2 host_pool_mib={} vram_weights_mib=0 vram_weights={}GiB"
    rows = [point(FUNDED, rate, model=model, knobs=split.format(pool, slab))
            for pool, slab, rate in ((12_288, 23.4, 2_750), (10_240, 22.1, 2_430), (8_192, 20.0, 2_010),
                                     (14_336, 24.9, 2_840))]
    return points(*rows, *_decodes(FUNDED, "tp=2 host_pool_mib=12288 vram_weights_mib=0", model))


def _halogen() -> str:
    rows = [point(HALOGEN, rate, knobs=f"max_tok={most}", tokens_in=prompt)
            for prompt, far in ((8_192, 0.95), (PROMPT, 1.0), (131_072, 0.93))
            for most, rate in ((8_192, 1_100 * far), (16_384, 1_300 * far), (32_768, 1_420 * far))]
    return points(*rows, *_decodes(HALOGEN, "mtp_depth=0"))


#: Servers with made-up speeds measured on them.
MEASURED: Mapping[str, tuple[Server, str]] = {
    "stated pair": (STATED, _stated()),
    "derived split": (DERIVED, _derived()),
    "funded by the host pool": (FUNDED, _funded()),
    "halogen": (HALOGEN, _halogen()),
}


def measured(folder: Path, server: Server, text: str | bytes, name: str = "points.csv") -> list[str]:
    """The words that name ``server`` and a points file, all written into ``folder``."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [*server.words(folder), "--points", str(path)]
