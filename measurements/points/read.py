"""Points files: measured speeds as rows of CSV, each admitted by the probe rules or refused with the rule it breaks.

The schema and the rules are in ``README.md`` beside this module.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn, cast

from measurements.points.point import Point, PointsReading, Refusal
from measurements.records import Place, ReadError
from models.engines import engine_name
from models.laws import Metric
from models.versions import UnknownEngine, UnknownVersion, dotted, parse_version

#: Given instead of a path, it stands for all points files that come along.
REFERENCE: Final = "reference"

OPTIONAL: Final = ("depth", "rep", "note")
COLUMNS: Final = ("engine", "version", "model", "knobs", "tokens_in", "depth", "tokens_out", "streams", "cache",
                  "corpus", "metric", "value", "unit", "rep", "date", "source", "note")
MOST_BYTES: Final = 16 << 20
#: More points than this are a log, not evidence that anyone sifted.
MOST_ROWS: Final = 5000
#: Tokens a second between which a rate can be meant.
SLOWEST: Final = 1e-6
FASTEST: Final = 1e8
#: A decode rate over fewer generated tokens is noise; over fewer than ``GOOD`` it is labelled.
FEWEST: Final = 128
GOOD: Final = 512

_METRICS: Final = ("prefill", "decode", "decode-total")
_UNITS: Final = {
    "t/s": "t/s", "tok/s": "t/s", "tokens/s": "t/s", "tok_per_s": "t/s",
    "ms/token": "ms/token", "ms/t": "ms/token", "ms/tok": "ms/token",
    "s": "s",
}
_NOTHING: Final = ("", "null", "none")

_NUMBER = re.compile(r"-?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"\d+(?:_\d+)*", re.ASCII)
_MOST_DIGITS: Final = 12
_KNOB = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_.\-]*)=(?P<value>\S+)", re.ASCII)
_RANGE = re.compile(r"\s*[-–]\s*")
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?", re.ASCII)
_CLOSED = re.compile(r'"[ \t]+(?=,|$)')
#: What a secret looks like by itself, and words of which the name of one has some. They match more than is redacted:
#: text without them is not worth loading the reader of secrets for.
_SUSPECT = re.compile(r"://|bearer|basic|[A-Za-z0-9+/_=\-]{20}|-----|sk-|gh[pousr]_|github_pat_|hf_|glpat-|xox|akia|aiza"
                      r"|nvapi-|eyj", re.IGNORECASE)
_NAMING = re.compile(r"(?i:key|secret|pass|pw|cred|auth|bearer|jwt|cookie|token)(?!(?<=token)s)")
_JOINED = re.compile(r"key|secret|passw|passphrase|credential", re.IGNORECASE)
_GIVING = re.compile(r"[=:]|-[A-Za-z]")
_BETWEEN = re.compile(r"[^A-Za-z0-9]+")


def reference_files() -> tuple[Path, ...]:
    """The points files that come along, in the order of their names."""
    return tuple(sorted(Path(__file__).parent.glob("*.csv")))


def read_points(paths: Sequence[Path | str]) -> PointsReading:
    """The measured speeds in points files; the word ``reference`` stands for all files that come along.

    Rates are tokens a second. A row that breaks a probe rule is refused, never an error; a file given twice counts
    once. Files that come along are called ``reference/NAME`` in places. Raises ReadError, with file and line and what
    would be right, when a file is missing, is not UTF-8 text, holds no points, lacks a column or has an unknown one,
    when a cell is not what its column holds, or when a row repeats another one in all but its note; of kind ``usage``
    when no file is given.
    """
    if not paths:
        raise ReadError(f"no points file is given: name one, or the word {REFERENCE}", kind="usage")
    points: list[Point] = []
    refused: list[Refusal] = []
    files: dict[str, str] = {}
    seen: dict[tuple[object, ...], Place] = {}
    for path, file in _named(paths):
        text = _load(path, file)
        real = os.path.realpath(path)
        if real in files:
            continue
        files[real] = file
        for row in _rows(text, file):
            if len(seen) >= MOST_ROWS:
                row.fail(f"more than {MOST_ROWS:,} points: keep the settings and repeats that tell something")
            key, result = _judge(row)
            before = seen.setdefault(key, row.place)
            if before is not row.place:
                other = f"line {before.line}" if before.file == file else str(before)
                row.fail(f"line {row.place.line} repeats {other}: a repeated measurement needs its own rep")
            if isinstance(result, Point):
                points.append(result)
            else:
                refused.append(result)
    return PointsReading(tuple(points), tuple(refused), tuple(files.values()))


def _named(paths: Sequence[Path | str]) -> Iterator[tuple[Path | str, str]]:
    """Each file to read, and what it is called."""
    for path in paths:
        if str(path) == REFERENCE:
            yield from ((shipped, f"{REFERENCE}/{shipped.name}") for shipped in reference_files())
        else:
            yield path, str(path)


def _load(path: Path | str, file: str) -> str:
    try:
        if os.path.isdir(path):
            raise ReadError("this is a folder: name the points file in it", file=file)
        with open(path, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ReadError(f"no such file: name a CSV file of points, or the word {REFERENCE}", file=file) from None
    except PermissionError:
        raise ReadError("no permission to read this file: make it readable", file=file) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable file name"
        raise ReadError(f"cannot be read ({reason.lower()}): name a CSV file of points", file=file) from None
    if len(data) > MOST_BYTES:
        raise ReadError(f"larger than {MOST_BYTES >> 20} MiB: it should be a CSV file of points", file=file)
    if (zero := data.find(b"\0")) >= 0:
        raise ReadError("this is a binary file (or UTF-16): it should be a CSV file in UTF-8", file=file,
                        line=data.count(b"\n", 0, zero) + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError("not UTF-8 text here: save the file as UTF-8", file=file,
                        line=data.count(b"\n", 0, error.start) + 1) from None
    if not text.strip():
        raise ReadError(f"this file is empty: it should name the columns {', '.join(COLUMNS)}, and hold points",
                        file=file)
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class _Row:
    """One row: its cells by column, trimmed; "" where a column is not there."""

    cells: Mapping[str, str]
    place: Place

    def fail(self, message: str) -> NoReturn:
        """Raises ReadError here."""
        raise ReadError(message, file=self.place.file, line=self.place.line)

    def bad(self, column: str, right: str) -> NoReturn:
        """Raises ReadError: the cell is not what it should be."""
        cell = self.cells[column]
        self.fail(f"{column} is {_shown(cell)}: {right}" if cell else f"{column} is blank: {right}")


def _rows(text: str, file: str) -> Iterator[_Row]:
    """The rows below the header. A cell holds no line break, so that an open quote swallows no row."""
    names: list[str] = []
    rows = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip(" \t,") or line.lstrip().startswith("#"):
            continue
        cells = _cells(line, file, number)
        if not names:
            names = _header(cells, file, number)
            continue
        rows += 1
        if len(cells) < len(names) or any(cells[len(names):]):
            raise ReadError(
                f"this row has {len(cells)} cells, the header names {len(names)} columns: leave a cell blank where "
                "nothing is known, and put a cell that holds a comma in double quotes", file=file, line=number)
        yield _Row(dict.fromkeys(OPTIONAL, "") | dict(zip(names, cells, strict=False)), Place(file, number))
    if not names:
        raise ReadError(f"no line names the columns: the first should be {','.join(COLUMNS)}", file=file)
    if not rows:
        raise ReadError("this file names its columns but holds no points", file=file)


def _cells(line: str, file: str, number: int) -> list[str]:
    try:
        (cells,) = csv.reader([_CLOSED.sub('"', line)], strict=True, skipinitialspace=True)
    except csv.Error as error:
        said = str(error)
        if "unexpected end" in said:
            said = "a double quote is left open: close it on the same line, as a cell holds no line break"
        elif "expected after" in said:
            said = 'a cell goes on behind its closing quote: write a quote inside a cell twice ("")'
        raise ReadError(said, file=file, line=number) from None
    return [" ".join(cell.split()) for cell in cells]


def _header(cells: list[str], file: str, number: int) -> list[str]:
    def fail(message: str) -> NoReturn:
        raise ReadError(message, file=file, line=number)

    names = [cell.lower().replace("-", "_") for cell in cells]
    while names and not names[-1]:
        names.pop()
    if not any(name in COLUMNS for name in names):
        apart = " separated by commas" if len(names) == 1 else ""
        fail(f"the first line should name the columns{apart}: {', '.join(COLUMNS)}")
    for name in names:
        if not name:
            fail(f"column {names.index(name) + 1} has no name; known columns: {', '.join(COLUMNS)}")
        if name not in COLUMNS:
            from difflib import get_close_matches

            near = get_close_matches(name, COLUMNS, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            fail(f"unknown column {_shown(name)}{hint}; known columns: {', '.join(COLUMNS)}")
        if names.count(name) > 1:
            fail(f"column {name} stands here twice: keep one of them")
    missing = [name for name in COLUMNS if name not in names and name not in OPTIONAL]
    if missing:
        fail(f"column {', '.join(missing)} is missing; there are: {', '.join(names)}")
    return names


def _judge(row: _Row) -> tuple[tuple[object, ...], Point | Refusal]:
    """What the row is, and what makes it the same measurement as another. Raises ReadError."""
    metric = _metric(row)
    unit = _unit(row)
    engine = _engine(row)
    version, version_label = _version(row, engine)
    model = _text(row, "model", required=True)
    knobs = _knobs(row)
    tokens_in, tokens_out = _count(row, "tokens_in"), _count(row, "tokens_out")
    depth, streams = _count(row, "depth"), _count(row, "streams")
    cache = _cache(row)
    corpus, source = _text(row, "corpus"), _text(row, "source", required=True)
    rep, date, note = _text(row, "rep"), _date(row), _text(row, "note")
    value = _value(row)
    if streams is None and metric == "decode-total":
        row.bad("streams", "say how many streams share this figure, or give one stream's rate as decode")
    if streams == 0:
        row.bad("streams", "at least 1")
    if metric == "prefill" and tokens_in == 0:
        row.bad("tokens_in", "a prefill has at least 1 token; leave it blank where the prompt is not known")
    seconds_of = None
    if unit == "s":
        seconds_of = _seconds_of(row, metric, tokens_in, tokens_out)
    key = (engine, version, model, tuple(sorted(knobs.items())), tokens_in, depth or 0, tokens_out, streams or 1, cache,
           corpus, metric, value, unit, rep, date, source)
    reason = _refusal(metric, value, tokens_in, depth, tokens_out, cache)
    if reason is not None:
        return key, Refusal(row.place, reason, source)
    rate = _rate(row, value or 0.0, unit, seconds_of)
    if metric == "decode-total":
        rate /= streams or 1
    if not SLOWEST <= rate <= FASTEST:
        row.bad("value", "no server is that fast or slow: 0.000001 to 100,000,000 t/s can be meant")
    point = Point(
        engine=engine, version=version, model=model, metric=_of_one(metric), rate=rate, tokens_in=tokens_in,
        depth=depth or 0, tokens_out=tokens_out, streams=streams or 1, cache=cache, corpus=corpus, knobs=knobs,
        date=date, source=source, rep=rep, note=note, place=row.place,
        labels=tuple(_labels(metric, version_label, tokens_in, tokens_out, cache, corpus)))
    return key, point


def _refusal(metric: str, value: float | None, tokens_in: int | None, depth: int | None, tokens_out: int | None,
             cache: str) -> str | None:
    """The probe rule that the row breaks, if any."""
    if not value:
        return "null or zero: the server gave no rate"
    if metric == "prefill":
        if cache == "warm":
            return "a warm prefix answers from the cache: a false prefill"
        if tokens_in is None and depth is None:
            return "prompt tokens not stated: a prefill rate needs the prompt's length"
    elif tokens_out is not None and tokens_out < FEWEST:
        return f"a decode rate over {tokens_out} generated tokens is noise: {FEWEST} at least, {GOOD} preferred"
    return None


def _labels(metric: str, version_label: str, tokens_in: int | None, tokens_out: int | None, cache: str,
            corpus: str) -> Iterator[str]:
    if version_label:
        yield version_label
    if metric == "prefill":
        if tokens_in is None:
            yield "prompt tokens not stated"
        if not cache:
            yield "cold or warm not stated"
        return
    if tokens_in is None:
        yield "context not stated"
    if tokens_out is None:
        yield "generated tokens not stated"
    elif tokens_out < GOOD:
        yield f"over {tokens_out} generated tokens ({GOOD} preferred)"
    if not corpus:
        yield "corpus not stated: comparable within its own source only"


def _seconds_of(row: _Row, metric: str, tokens_in: int | None, tokens_out: int | None) -> int:
    """The tokens that seconds in ``value`` were spent on."""
    if metric == "decode-total":
        row.bad("unit", "seconds are for prefill, or for one stream's decode; give t/s of all streams")
    column, tokens = ("tokens_in", tokens_in) if metric == "prefill" else ("tokens_out", tokens_out)
    if tokens is None:
        row.bad(column, f"seconds say nothing without the tokens they were spent on; state {column}, or give t/s")
    return tokens


def _rate(row: _Row, value: float, unit: str, tokens: int | None) -> float:
    """Tokens a second; ``value`` is above 0."""
    if unit == "t/s":
        return value
    return (1000 if unit == "ms/token" else tokens or 0) / value


def _of_one(metric: str) -> Metric:
    return "prefill" if metric == "prefill" else "decode"


def _metric(row: _Row) -> str:
    metric = row.cells["metric"].lower().replace("_", "-")
    if metric not in _METRICS:
        row.bad("metric", f"one of {', '.join(_METRICS)} (the last is the sum over all streams)")
    return metric


def _unit(row: _Row) -> str:
    unit = _UNITS.get(row.cells["unit"].lower().replace(" ", ""))
    if unit is None:
        row.bad("unit", "t/s (tokens a second), ms/token, or s (seconds for all the tokens of a prefill or a decode)")
    return unit


def _engine(row: _Row) -> str:
    if not row.cells["engine"]:
        row.bad("engine", "name the engine that was measured")
    try:
        return engine_name(_clear(row.cells["engine"])[:60])
    except UnknownEngine as error:
        row.fail(str(error))


def _version(row: _Row, engine: str) -> tuple[str, str]:
    """The version or range in dotted numbers, and what to say of it."""
    text = row.cells["version"]
    if not text:
        return "", "version not stated"
    words = _RANGE.split(text)
    try:
        found = [parse_version(engine, word) for word in words]
    except UnknownVersion:
        row.bad("version", "write 1.2.3, or a range that it lies in as 1.0.0-1.2.4, or leave it blank")
    if len(found) > 2 or (len(found) == 2 and any(word.count(".") < 2 for word in words)):
        row.bad("version", "write a range with all three numbers at both ends, as 1.0.0-1.2.4")
    low, high = found[0], found[-1]
    if low > high:
        row.bad("version", "the first version of a range is the older one")
    if low == high:
        return dotted(low), ""
    return f"{dotted(low)}-{dotted(high)}", f"build known only to lie in {dotted(low)} to {dotted(high)}"


def _knobs(row: _Row) -> dict[str, str]:
    knobs: dict[str, str] = {}
    for word in _plain(row, "knobs").split():
        match = _KNOB.fullmatch(word)
        if match is None:
            hidden = word not in _clear(row.cells["knobs"])  # what follows a secret's name may be the secret
            row.fail(f"knobs: {'a word' if hidden else _shown(word)} is no setting; write NAME=VALUE with spaces "
                     "between, as in tp=2 vram_weights_mib=22208")
        name = match["name"].lower().replace("-", "_")
        if name in knobs:
            row.fail(f"knobs: {name} stands here twice; keep one of them")
        knobs[name] = _clear_knob(name, match["value"])
    return knobs


def _count(row: _Row, column: str) -> int | None:
    cell = row.cells[column]
    if not cell:
        return None
    if not _WHOLE.fullmatch(cell):
        row.bad(column, "a whole number without commas, such as 43500 or 43_500, or blank where it is not known")
    if len(cell) - cell.count("_") > _MOST_DIGITS:
        row.bad(column, f"no more than {_MOST_DIGITS} digits")
    return int(cell)


def _cache(row: _Row) -> Literal["cold", "warm", ""]:
    cache = row.cells["cache"].lower()
    if cache not in ("cold", "warm", ""):
        row.bad("cache", "cold, warm, or blank where it is not known")
    return cast(Literal["cold", "warm", ""], cache)


def _value(row: _Row) -> float | None:
    """The figure; None where the server gave none."""
    cell = row.cells["value"]
    if cell.lower() in _NOTHING:
        return None
    if not _NUMBER.fullmatch(cell):
        row.bad("value", "a plain number such as 3397 or 18.4, with a point and without commas; its unit goes in the "
                "column unit")
    value = float(cell)
    if value < 0:
        row.bad("value", "a speed or a time is above 0")
    if not value < math.inf:
        row.bad("value", "a finite number")
    return value


def _date(row: _Row) -> str:
    cell = row.cells["date"]
    if not cell:
        return ""
    from datetime import date

    try:
        if not _DATE.fullmatch(cell):
            raise ValueError
        date.fromisoformat(cell if len(cell) > len("2026-10") else f"{cell}-01")
    except ValueError:
        row.bad("date", "write 2026-10-13 or 2026-10, or leave it blank")
    return cell


def _text(row: _Row, column: str, *, required: bool = False) -> str:
    """Text of one line with nothing in it that looks like a secret."""
    text = _plain(row, column)
    if required and not text:
        row.bad(column, {"model": "name the model file that was measured",
                         "source": "say where the figure is from, such as my probe of the first boot"}[column])
    return _clear(text)


def _plain(row: _Row, column: str) -> str:
    text = row.cells[column]
    if not text.isprintable():
        odd = next(character for character in text if not character.isprintable())
        row.fail(f"{column} holds a character that does not print (U+{ord(odd):04X}): take it out")
    return text


def _clear(text: str) -> str:
    """``text`` without secrets."""
    if not _SUSPECT.search(text) and not (_GIVING.search(text) and _names_secret(text)):
        return text
    from measurements.config import redact

    return redact(text)


def _clear_knob(name: str, value: str) -> str:
    if not _names_secret(name):
        return _clear(value)
    from measurements.config.secrets import SECRET, is_secret_key

    return SECRET if is_secret_key(name) else _clear(value)


def _names_secret(text: str) -> bool:
    """Whether there may be a secret's name in it."""
    return bool(_NAMING.search(text) or _JOINED.search(_BETWEEN.sub("", text)))


def _shown(text: str) -> str:
    """A cell for messages: without secrets, and no longer than people read."""
    text = _clear(text)
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
