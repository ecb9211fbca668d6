"""Measured legs as rows of a points file: appended whole, what stood there before kept byte for byte."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measurements.points.read import COLUMNS, read_points
from measurements.probe.counting import CORPUS
from measurements.probe.run import Measured, Rate
from measurements.records import ReadError


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose points these are: engine, version ("" where not known), model file, and the settings it runs with."""

    engine: str
    version: str
    model: str
    knobs: Mapping[str, str]
    date: str
    source: str


def rows_of(found: Measured, subject: Subject) -> list[dict[str, str]]:
    """The points of a leg by column: those that the probe rules admit, and no others."""
    barred = {text.partition(":")[0] for text in found.refused}
    rows = []

    def add(metric: str, rate: Rate, tokens_out: str) -> None:
        rows.append({
            "engine": subject.engine, "version": subject.version, "model": subject.model,
            "knobs": " ".join(f"{name}={value}" for name, value in subject.knobs.items()),
            "tokens_in": str(found.tokens_in or ""), "depth": "", "tokens_out": tokens_out,
            "streams": str(found.streams), "cache": "warm" if found.kind == "warm" else "cold",
            "corpus": CORPUS if metric != "prefill" else "", "metric": metric, "value": f"{rate.value:.6g}",
            "unit": "t/s", "rep": str(found.rep), "date": subject.date, "source": subject.source,
            "note": "; ".join((*_of(metric, found.notes), *_seen(found))),
        })

    if found.kind == "ladder" and found.prefill is not None and "prefill" not in barred:
        add("prefill", found.prefill, "")
    if found.decode is not None and "decode" not in barred and found.kind != "boundary":
        add("decode-total" if found.streams > 1 else "decode", found.decode, str(found.generated))
    return rows


def _of(metric: str, notes: Iterable[str]) -> list[str]:
    """The notes that are not of the other metric."""
    other = "decode" if metric == "prefill" else "prefill"
    return [note for note in notes if not note.startswith(other)]


def _seen(found: Measured) -> list[str]:
    return [f"{value:,.0f} {name} while it ran" for name, value in
            (("preemptions", found.preemptions), ("evictions", found.evictions)) if value]


def demand_file(path: Path) -> None:
    """Raises ReadError unless ``path`` is a points file to append to, or a name for a new one in a folder there is."""
    if path.exists():
        read_points([path])
        return
    if not path.parent.is_dir():
        raise ReadError("its folder does not exist", file=str(path), kind="usage")


def append(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Adds ``rows`` at the end of a points file, made where there is none.

    The whole of it is written beside the file, read as points, and put in its place in one step: whatever happens,
    the file is the old one or the new one. Raises ReadError where the file is none, or cannot be written.
    """
    if not rows:
        return
    real = Path(os.path.realpath(path))
    try:
        before = real.read_bytes() if real.exists() else b""
        columns = _columns(before) or COLUMNS
        end = b"\r\n" if b"\r\n" in before else b"\n"
        text = io.StringIO()
        out = csv.writer(text, lineterminator=end.decode())
        if not before.strip():
            out.writerow(columns)
        for row in rows:
            out.writerow([row[name] for name in columns])
        gap = b"" if not before or before.endswith((b"\n", b"\r")) else end
        _replace(real, before + gap + text.getvalue().encode())
    except OSError as error:
        raise ReadError(f"cannot be written ({(error.strerror or 'no reason given').lower()})", file=str(path),
                        kind="usage") from None


def _columns(data: bytes) -> list[str]:
    """The columns that a points file names, in its order."""
    for line in data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.strip(" \t,") and not line.lstrip().startswith("#"):
            (cells,) = csv.reader([line], skipinitialspace=True)
            names = [cell.strip().lower().replace("-", "_") for cell in cells]
            while names and not names[-1]:
                names.pop()
            return names
    return []


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        read_points([part])
        part.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

