"""Measured legs as rows of a points file: appended whole, what stood there before kept byte for byte."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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


#: A row by which a file shows that it takes rows, before anything is measured.
_SAMPLE: Final = {"engine": "radiance", "model": "m", "tokens_in": "1", "streams": "1", "metric": "prefill",
                  "value": "1", "unit": "t/s", "source": "shapewright probe"}


def demand_file(path: Path) -> None:
    """Raises ReadError unless ``path`` is a points file that can be appended to, or a name for a new one."""
    _append(path, [{name: _SAMPLE.get(name, "") for name in COLUMNS}], put=False)


def append(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Adds ``rows`` at the end of a points file, made where there is none.

    The whole of it is written beside the file, read as points, and put in its place in one step, one probe after the
    other: whatever happens, the file is the old one or the new one. Raises ReadError where the file is none, or cannot
    be written.
    """
    if rows:
        _append(path, rows, put=True)


def _append(path: Path, rows: Sequence[Mapping[str, str]], *, put: bool) -> None:
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise ReadError("its folder does not exist", file=str(path), kind="usage")
    try:
        with _alone(real.parent):
            if real.exists() and not real.is_file():
                raise ReadError("is no regular file: name a points file", file=str(path), kind="usage")
            before = real.read_bytes() if real.exists() else b""
            part = _part(real, before + _text(before, rows))
            try:
                try:
                    read_points([part])
                except ReadError as error:  # said of the file that the user knows
                    message = error.message.replace(str(part), str(path))
                    raise ReadError(message, file=str(path), line=error.line, kind=error.kind) from None
                if put:
                    part.replace(real)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise ReadError(f"cannot be written ({(error.strerror or 'no reason given').lower()})", file=str(path),
                        kind="usage") from None


def _text(before: bytes, rows: Sequence[Mapping[str, str]]) -> bytes:
    """What is added behind what stands there, with its line ends and its columns."""
    try:
        columns = _columns(before) or COLUMNS
    except ValueError:
        columns = COLUMNS  # no UTF-8: the reader says so
    end = b"\r\n" if b"\r\n" in before else b"\n"
    text = io.StringIO()
    out = csv.writer(text, lineterminator=end.decode())
    if not before.strip():
        out.writerow(columns)
    for row in rows:
        out.writerow([row.get(name, "") for name in columns])
    gap = b"" if not before or before.endswith((b"\n", b"\r")) else end
    return gap + text.getvalue().encode()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps other probes that append in this folder out, where its file system has locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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


def _part(path: Path, data: bytes) -> Path:
    """A file with ``data`` beside ``path``, down to the disk, with its mode and owner. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if path.exists():
                state = path.stat()
                with suppress(PermissionError):
                    os.fchown(file.fileno(), state.st_uid, state.st_gid)
                os.fchmod(file.fileno(), state.st_mode & 0o7777)
            else:
                os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

