"""Records survive a kill in mid-write, other writers, editors and odd files; nothing of them is lost or mixed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from measurements import history
from measurements.history import append, id_of, read_history, sealed, stamp, writing
from measurements.records import ReadError

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


def verdict(number: int, more: str = "") -> dict[str, Any]:
    """A small record that has all a verdict needs."""
    return sealed("verdict", {"of": f"{number}", "status": "held", "why": more, "other_settings": [], "rows": [],
                              "outcome": {"seen": None}, "facts": []}, NOW)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    assert read_history(file).records == ()
    records = [verdict(number, "schön") for number in range(3)]
    for record in records:
        assert append(file, record) == ()
    found = read_history(file)
    assert (list(found.records), found.skipped) == (records, ())
    text = file.read_bytes()
    assert text.isascii()
    assert text.count(b"\n") == 3
    assert all(list(json.loads(line)) == sorted(json.loads(line)) for line in text.splitlines())


def test_ids_are_of_everything_else() -> None:
    record = verdict(1)
    assert record["id"] == id_of(record) == id_of({**record, "id": "x"})
    assert len(record["id"]) == 12
    assert id_of({**record, "why": "y"}) != record["id"]
    assert id_of({**record, "time": stamp(NOW + timedelta(microseconds=1))}) != record["id"]


def test_times_are_utc() -> None:
    assert stamp(NOW.astimezone(timezone(timedelta(hours=5)))) == "2026-11-30T12:00:00.123456Z"


SLOW = """
import os, sys, time
from pathlib import Path
from measurements import history
from tests.measurements.test_history import verdict
real = os.write
def slow(descriptor, data):
    for start in range(0, len(data), 5):
        real(descriptor, data[start:start + 5])
        time.sleep(0.02)
    return len(data)
os.write = slow
history.append(Path(sys.argv[1]), verdict(7, "x" * 400))
"""


def start(code: str, *words: str) -> subprocess.Popen[bytes]:
    """A process of its own that runs ``code`` in this house."""
    return subprocess.Popen([sys.executable, "-c", code, *words], cwd=ROOT)


def test_a_kill_in_mid_write(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    append(file, verdict(1))
    whole = file.read_bytes()
    process = start(SLOW, str(file))
    until = time.monotonic() + 30
    while file.stat().st_size < len(whole) + 40:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.005)
    with pytest.raises(ReadError, match="another shapewright"):  # it holds the lock while it writes
        _impatient(file)
    process.send_signal(signal.SIGKILL)
    process.wait()
    torn = file.read_bytes()
    assert torn.startswith(whole)
    assert len(whole) < len(torn) < len(whole) + 400
    found = read_history(file)
    assert [record["of"] for record in found.records] == ["1"]
    assert [(item.line, "mid-write" in item.why) for item in found.skipped] == [(2, True)]
    append(file, verdict(2))
    assert file.read_bytes().startswith(torn + b"\n")  # what is torn stays as it is
    found = read_history(file)
    assert [record["of"] for record in found.records] == ["1", "2"]
    assert [item.line for item in found.skipped] == [2]


def _impatient(file: Path) -> None:
    patient, history.SECONDS = history.SECONDS, 0.05  # type: ignore[misc]
    try:
        append(file, verdict(9))
    finally:
        history.SECONDS = patient  # type: ignore[misc]


MANY = """
import sys
from pathlib import Path
from measurements.history import append
from tests.measurements.test_history import verdict
file, letter, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3].encode()
met = number = 0
while number < 100 or not met:  # and one more behind what it has seen of the other
    met = number >= 99 and b'"why": "' + other in file.read_bytes()
    append(file, verdict(number, letter * (1 + number * 37 % 9000)))
    number += 1
"""


def test_two_writers_at_once(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    processes = [start(MANY, str(file), *letters) for letters in ("ab", "ba")]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    found = read_history(file)
    assert found.skipped == ()
    for letter in "ab":
        own = [record["of"] for record in found.records if letter in record["why"]]
        assert own == [str(number) for number in range(max(100, len(own)))]


def test_every_cut_is_torn_or_whole(tmp_path: Path) -> None:
    first, second = verdict(1), verdict(2)
    file = tmp_path / "h.jsonl"
    append(file, first)
    length = file.stat().st_size
    append(file, second)
    data = file.read_bytes()
    for cut in range(length, len(data) + 1):
        file.write_bytes(data[:cut])
        found = read_history(file)
        assert list(found.records) == ([first, second] if cut >= len(data) - 1 else [first])
        assert len(found.skipped) == (0 if cut == length or cut >= len(data) - 1 else 1)
        append(file, verdict(3))
        assert [record["of"] for record in read_history(file).records][-1] == "3"
        assert file.read_bytes().startswith(data[:cut])


@pytest.mark.parametrize(("line", "why"), [
    (b"hello", "not a whole record"),
    (b"[1, 2]", "not a whole record"),
    (b"\0" * 300, "not a whole record"),
    (b"\xff\xfe{", "not a whole record"),
    (b"{}", "changed since"),
    (b'{"id": 3}', "changed since"),
    (b"[" * 100_000, "not a whole record"),
    (json.dumps({**verdict(1), "status": "off"}).encode(), "changed since"),
    (json.dumps(sealed("dream", {}, NOW)).encode(), "another version"),
    (json.dumps(sealed("verdict", {"of": "x"}, NOW)).encode(), "another program"),
    (json.dumps(sealed("prediction", {"rows": []}, NOW)).encode(), "another program"),
    (json.dumps(sealed("verdict", {**verdict(1), "rows": [1]}, NOW)).encode(), "another program"),
])
def test_what_is_no_record_is_passed_over(tmp_path: Path, line: bytes, why: str) -> None:
    file = tmp_path / "h.jsonl"
    append(file, verdict(1))
    with file.open("ab") as stream:  # behind a whole record: a file of other things is left alone
        stream.write(line + b"\n")
    append(file, verdict(2))
    found = read_history(file)
    assert [record["of"] for record in found.records] == ["1", "2"]
    assert [item.line for item in found.skipped] == [2]
    assert why in found.skipped[0].why


def test_what_git_and_editors_do(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    for number in range(3):
        append(file, verdict(number))
    data = file.read_bytes()
    file.write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n").rstrip() + b"\r\n\r\n")
    found = read_history(file)
    assert ([record["of"] for record in found.records], found.skipped) == (["0", "1", "2"], ())
    first, second, third = data.splitlines(keepends=True)
    file.write_bytes(first + b"<<<<<<< HEAD\n" + second + b"=======\n" + third + b">>>>>>> other\n")
    found = read_history(file)
    assert [record["of"] for record in found.records] == ["0", "1", "2"]
    assert [item.line for item in found.skipped] == [2, 4, 6]
    assert all("conflict of git" in item.why for item in found.skipped)
    file.write_bytes(data + first)  # a union of two branches may hold a line twice
    found = read_history(file)
    assert [record["of"] for record in found.records] == ["0", "1", "2"]
    assert [(item.line, item.why) for item in found.skipped] == [(4, "the same record as line 1")]


def test_places_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="folder"):
        read_history(tmp_path)
    for place in (tmp_path, tmp_path / "no" / "h.jsonl", Path("/dev/null")):
        with pytest.raises(ReadError, match="--record"):
            append(place, verdict(1))
    file = tmp_path / "h.jsonl"
    file.write_bytes(b"")
    assert read_history(file).records == ()


@pytest.mark.parametrize("text", ["MY_CTX=1\n", '{"services": {}}\n', "[]", "\n", "\0"])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "serve.env"
    file.write_text(text)
    with pytest.raises(ReadError, match="something else"):
        append(file, verdict(1))
    assert file.read_text() == text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(ReadError, match="permission denied"):
            append(tmp_path / "h.jsonl", verdict(1))
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(("number", "says"), [(errno.EACCES, "permission denied"), (errno.EROFS, "read-only")])
def test_what_the_system_forbids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str) -> None:
    def forbidden(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(ReadError, match=says):
        append(tmp_path / "h.jsonl", verdict(1))


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    (note,) = append(tmp_path / "h.jsonl", verdict(1))
    assert "no locks" in note
    assert len(read_history(tmp_path / "h.jsonl").records) == 1


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "h.jsonl"
    append(file, verdict(1))
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:20]))
    with pytest.raises(ReadError, match="did not arrive whole"):
        append(file, verdict(2))
    monkeypatch.undo()
    append(file, verdict(3))
    assert [record["of"] for record in read_history(file).records] == ["1", "3"]


def test_a_file_that_is_replaced_while_it_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = tmp_path / "h.jsonl", tmp_path / "other"
    append(file, verdict(1))
    append(other, verdict(2))
    real = history._lock

    def lock(place: Path, descriptor: int) -> list[str]:
        if other.exists():
            os.replace(other, file)
        return real(place, descriptor)

    monkeypatch.setattr(history, "_lock", lock)
    with writing(file) as writer:
        writer.append(verdict(3))
    assert [record["of"] for record in read_history(file).records] == ["2", "3"]
