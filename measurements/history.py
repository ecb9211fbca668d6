"""What was predicted and what became of it, and what was probed: an append-only file of plain text to keep in git.

One record a line, as JSON with sorted keys. The ``id`` of a record is the beginning of the SHA-256 of all else in it,
so that a line which a kill or a full disk left torn, or which somebody edited, is recognised; it stays in the file, is
passed over and told. The next record then begins on a line of its own. Only a record whose own change failed is taken
back, by who just wrote it, while the lock is held.

Records are appended under an exclusive lock (``flock``) by one write at the end of the file (``O_APPEND``), and are on
the disk before :func:`append` returns. Where a file system has no locks (some network and FUSE mounts), a record is
still one write, and is read again to see that it arrived whole: two writers of two machines may then tear a line, which
the one that lost it is told.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from measurements.config.secrets import redact
from measurements.records import ReadError
from models.declare import Outcome

#: The file's name in a site's folder.
NAME: Final = "shapewright-history.jsonl"
SCHEMA: Final = 1
#: How long to wait for another writer.
SECONDS: Final = 10.0
_ID_LENGTH: Final = 12
_MOST_BYTES: Final = 64 << 20
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is no whole record of ours, with why it is passed over."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class History:
    """The whole records of a file, in order, and the lines that were passed over."""

    file: Path
    records: tuple[Record, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def of(self, kind: str) -> list[Record]:
        """The records of one kind, in order."""
        return [record for record in self.records if record["kind"] == kind]


def id_of(record: Record) -> str:
    """The id of a record: of everything in it but an id."""
    return hashlib.sha256(_plain({**record, "id": ""}).encode()).hexdigest()[:_ID_LENGTH]


def file_digest(file: Path) -> str | None:
    """The SHA-256 of a file, by which a record knows it again; None of a pipe, which can be read once only."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
    except OSError:
        return None


def relative_to(records: Path, file: Path) -> str:
    """A file's name from the folder of the records: the folder may be moved, and the records with it.

    Through the folders as they are, for a name with ``..`` leads elsewhere from a link to a folder.
    """
    try:
        real = os.path.join(os.path.realpath(file.parent), file.name)
        name = os.path.relpath(real, os.path.realpath(records.parent))
    except ValueError:  # another drive
        name = str(file)
    return redact(name.encode("utf-8", "replace").decode())


def record_of_boot(history: History, ledger: str | None, facts: Mapping[str, tuple[int, int]]) -> tuple[
    Record, Mapping[str, Any]
] | None:
    """The prediction that tells how the boot was set that facts are from, and its settings; None where none does.

    The boot is that of the log whose digest is ``ledger``: a prediction that held by it says what it ran, one that
    was made from it what it had been. Without a log it is the boot that the same ``facts`` were measured at.
    Settings are texts and numbers as ``shape`` has them, or pairs of ends as ``as_is``.
    """
    predictions = {record["id"]: record for record in history.of("prediction")}
    for verdict in reversed(history.of("verdict") if ledger is not None else []):
        if log_of(verdict) == ledger and verdict["status"] == "held":
            judged = predictions.get(verdict["of"])
            if judged is not None:
                return judged, judged["shape"]
    for record in sorted(predictions.values(), key=lambda record: str(record["time"])):  # a merge may leave any order
        if log_of(record) != ledger:
            continue
        if ledger is not None or facts == {name: (fact["low"], fact["high"]) for name, fact in record["facts"].items()}:
            return record, record["as_is"]
    return None


def log_of(record: Record) -> Any:
    """The digest of the log that a record names; None where it names none."""
    log = record.get("ledger")
    return log.get("sha256") if isinstance(log, dict) else None


def stamp(now: datetime) -> str:
    """A time as records carry it: UTC, to the microsecond."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def sealed(kind: str, body: Record, now: datetime) -> dict[str, Any]:
    """A record of ``kind`` with its time and id."""
    record: dict[str, Any] = {**body, "schema": SCHEMA, "kind": kind, "time": stamp(now)}
    return {**record, "id": id_of(record)}


def _plain(record: Record) -> str:
    # ASCII: a torn line is then never half a character
    return json.dumps(record, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))


def read_history(file: Path) -> History:
    """The records of ``file``; none where there is no such file.

    Raises ReadError where it is a folder, larger than 64 MiB, or cannot be read.
    """
    try:
        if file.is_dir():
            raise ReadError("this is a folder: name the file of records", file=str(file))
        with file.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return History(file)
    except (OSError, ValueError) as error:
        raise _cannot(file, "read", error) from None
    if len(data) > _MOST_BYTES:
        raise ReadError(f"larger than {_MOST_BYTES >> 20} MiB: this is no file of records", file=str(file))
    records, skipped = [], []
    at: dict[str, int] = {}
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _record(line)
        if isinstance(found, str):
            torn = "its end is missing: the program or the machine stopped in mid-write"
            last = number == len(lines)  # nothing behind it, not even the break that ends a record
            skipped.append(Skipped(number, torn if last and found == _NOT_WHOLE else found))
        elif found["id"] in at:  # a merge of git may bring a line twice
            skipped.append(Skipped(number, f"the same record as line {at[found['id']]}"))
        else:
            at[found["id"]] = number
            records.append(found)
    return History(file, tuple(records), tuple(skipped))


_NOT_WHOLE: Final = "not a whole record: torn in mid-write, or edited"


def _record(line: bytes) -> Record | str:
    """The record of a line, or why it is none."""
    if line.startswith((b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")):
        return "a conflict of git: keep the records of both sides, and take this line out"
    try:
        record = json.loads(line.decode("utf-8").strip("\ufeff \t\r"))
    except (ValueError, RecursionError):
        return _NOT_WHOLE
    if not isinstance(record, dict):
        return _NOT_WHOLE
    try:
        whole = record.get("id") == id_of(record)
    except (ValueError, TypeError, RecursionError):
        whole = False
    if not whole:
        return "changed since it was written: its id is not that of what it says"
    if record.get("schema") != SCHEMA or record.get("kind") not in _FIELDS:
        return "a record of another version of shapewright"
    try:
        sound = _sound(record)
    except (KeyError, TypeError, ValueError, AttributeError):
        sound = False
    return record if sound else "not what a record holds: made by another program"


_FIELDS: Final = ("prediction", "verdict", "probe")


def _sound(record: Record) -> bool:
    """Whether a record holds all that is read of it. May raise KeyError, TypeError, ValueError or AttributeError."""
    def ends(item: Any) -> bool:
        return item is None or (_whole(item["low"]) and _whole(item["high"]) and item["low"] <= item["high"])

    def texts(*items: Any) -> bool:
        return all(isinstance(item, str) for item in items)

    if not texts(record["time"]):
        return False
    known = {outcome.word for outcome in Outcome}
    if record["kind"] == "verdict":
        return (texts(record["of"], record["why"], *record["other_settings"])
                and record["status"] in ("held", "off", "void", "open")
                and record["outcome"]["seen"] in {None, *known}
                and all(texts(row["name"], row["status"], row["unit"]) and ends(row["by"]) for row in record["rows"])
                and all(texts(fact["name"]) and isinstance(fact["moved"], bool) for fact in record["facts"]))
    if record["kind"] == "probe":
        return _sound_probe(record)
    engine = record["engine"]
    tables = (*record["rows"].values(), *record["facts"].values())
    return bool(texts(engine["name"], engine["version"], engine["container"], record["note"], record["verdict"])
                and isinstance(record["goal"], str | None)
                and record["outcomes"] and known.issuperset(record["outcomes"])
                and texts(*record["printed"], *(item["file"] for item in record["files"]))
                and all(isinstance(value, int | str) for value in record["shape"].values())
                and all(len(pair) == 2 and all(isinstance(value, int | str | None) for value in pair)
                        for pair in record["changes"].values())
                and all(len(pair) == 2 and _whole(pair[0]) and _whole(pair[1]) for pair in record["as_is"].values())
                and all(item is not None and ends(item) and texts(item["unit"]) for item in tables)
                and all(texts(row["basis"]) for row in record["rows"].values()))


def _sound_probe(record: Record) -> bool:
    def figures(item: Any) -> bool:
        return item is None or all(value is None or (isinstance(value, int | float) and not isinstance(value, bool))
                                   for value in (item["preemptions"], item["evictions"], item["kv_use"]))

    counters, engine = record["counters"], record["engine"]
    return bool(all(isinstance(record[name], str) for name in ("server", "model", "source"))
                and all(isinstance(record[name], str | None) for name in ("file", "harm", "stopped"))
                and _whole(record["points"]) and record["points"] >= 0
                and (engine is None or all(isinstance(engine[name], str) for name in ("name", "version")))
                and all(isinstance(value, str) for value in record["knobs"].values())
                and all(figures(counters[when]) for when in ("before", "after")) and figures(record["change"]))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Writer:
    """A file of records, open and locked. ``notes`` say what the file system cannot promise."""

    def __init__(self, file: Path, descriptor: int, notes: Sequence[str]) -> None:
        self._file, self._descriptor, self.notes = file, descriptor, tuple(notes)
        self._added: tuple[int, int] | None = None  # from where to where the newest record stands

    def append(self, record: Record) -> None:
        """Adds a record at the end, on a line of its own, down to the disk.

        Raises ReadError where it did not arrive whole; a part of it may then stand there, and is known as torn.
        """
        line = (_plain(record) + "\n").encode("ascii")
        try:
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # what was torn before stays a line of its own
            written = os.write(self._descriptor, line)
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            self._added = end - written, end
            os.fsync(self._descriptor)
            whole = written == len(line) and os.pread(self._descriptor, len(line), end - len(line)) == line
        except OSError as error:
            raise _cannot(self._file, "written", error) from None
        if not whole:
            raise ReadError("the record did not arrive whole (the disk may be full, or another machine wrote at the "
                            "same time): make room, and ask again", file=str(self._file), kind="usage")


    def take_back(self) -> None:
        """Removes what :func:`append` added last, where it is still the end of the file: what it was for failed."""
        if self._added is None:
            return
        begin, end = self._added
        with suppress(OSError):
            if os.fstat(self._descriptor).st_size == end:
                os.ftruncate(self._descriptor, begin)
                os.fsync(self._descriptor)
        self._added = None


@contextmanager
def writing(file: Path) -> Iterator[Writer]:
    """Opens ``file`` to append to it, made where it is missing, and keeps others out until the end.

    Raises ReadError of kind ``usage`` where it cannot be written, or another writer keeps it for ten seconds.
    """
    from measurements.config.write import sync_folder

    there = file.exists()
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except (OSError, ValueError) as error:
            raise _cannot(file, "written", error) from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ReadError("is no regular file: name one with --record", file=str(file), kind="usage")
            notes = _lock(file, descriptor)
            if not _is_still(file, descriptor):
                continue  # somebody put another file in its place while this one was waited for
            _demand_records(file, descriptor)
            if not there:
                sync_folder(os.path.dirname(os.path.abspath(file)))
            yield Writer(file, descriptor, notes)
            return
        finally:
            os.close(descriptor)  # the lock goes with it


#: How a record begins: keys are sorted.
_BEGIN: Final = (b'{"as_is": ', b'{"facts": ', b'{"change": ')


def _demand_records(file: Path, descriptor: int) -> None:
    """Raises ReadError where a file holds something else: a record would spoil it."""
    head = os.pread(descriptor, max(map(len, _BEGIN)), 0)
    if not head or any(begin.startswith(head[:len(begin)]) for begin in _BEGIN) or read_history(file).records:
        return
    raise ReadError("holds something else than records: name another file with --record", file=str(file), kind="usage")


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(descriptor))
    except OSError:
        return False


def append(file: Path, record: Record) -> tuple[str, ...]:
    """Adds one record to ``file``; returns what the file system cannot promise. Raises as :func:`writing` does."""
    with writing(file) as writer:
        writer.append(record)
        return writer.notes


def _lock(file: Path, descriptor: int) -> list[str]:
    try:
        import fcntl
    except ImportError:  # not on this system
        return ["nothing locks files here: two writers at once may tear a record, which is then told"]
    until = time.monotonic() + SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return []
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return ["this file system has no locks: two writers at once may tear a record, which is then told"]
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR):
                raise _cannot(file, "locked", error) from None
        if time.monotonic() > until:
            raise ReadError(f"another shapewright has been writing to it for {SECONDS:.0f} s: ask again when it is "
                            "done", file=str(file), kind="usage")
        time.sleep(0.01)


def _cannot(file: Path, what: str, error: OSError | ValueError) -> ReadError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable file name"
    right = "; name a place that can be with --record FILE" if what != "read" else ""
    return ReadError(f"records cannot be {what} here ({why.lower()}){right}", file=str(file),
                     kind="unreadable" if what == "read" else "usage")
