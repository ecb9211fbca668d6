from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measurements.config import map_settings, read_config
from measurements.config.edit import edit, unified_diff
from measurements.config.file import MOST_BYTES, load
from measurements.records import ReadError
from tests.measurements.config_files import NAMES, SPELLING, attempt, check_spans, read


@pytest.mark.parametrize(("content", "says"), [
    (b"", "empty"), (b" \r\n\t\n", "empty"), (b"\xef\xbb\xbf", "empty"), (b"A=1\0", "binary"),
    (b"A=1\n\xff\n", "UTF-8"),
    ("A=1\n".encode("utf-16"), "UTF-16"), (b"# only a comment\n", "no setting"), (b"hello world\n",
                                                                                  "no setting"),
    (b"---\nhello: world\n", "neither compose"), (b"[Unit]\nDescription=x\n", "no setting")])
def test_files_without_settings(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(ReadError, match=says) as error:
        read(tmp_path, content)
    assert error.value.file == str(tmp_path / "settings")
    assert error.value.kind == "unreadable"


def test_the_line_that_is_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReadError) as error:
        read(tmp_path, b"A=1\nB=\xff\n")
    assert error.value.line == 2


def test_no_file_a_folder_and_no_path_at_all(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no such file"):
        read_config([tmp_path / "gone"])
    with pytest.raises(ReadError, match="folder"):
        read_config([tmp_path])
    with pytest.raises(ReadError, match="not a usable file name"):
        load("a\0b")
    with pytest.raises(ReadError, match="cannot be read"):
        load("x" * 5000)
    with pytest.raises(ReadError) as error:
        read_config([])
    assert error.value.kind == "usage"


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(MOST_BYTES + 1)
    with pytest.raises(ReadError, match="16 MiB"):
        read_config([path])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    path.write_text("A=1\n")
    path.chmod(0)
    with pytest.raises(ReadError, match="permission"):
        read_config([path])


def test_permission_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ReadError, match="permission"):
        load(str(tmp_path / "x"))


def test_several_files_are_one_reading(tmp_path: Path) -> None:
    first, second = tmp_path / "a.env", tmp_path / "b.sh"
    first.write_text("H_CTX=1\n")
    second.write_text("radiance --tp 2\n")
    reading = read_config([first, second, first])
    assert [setting.key for setting in reading.settings] == ["H_CTX", "--tp"]
    assert set(reading.text) == {str(first), str(second)}


def test_an_empty_env_file_that_another_names_is_no_error(tmp_path: Path) -> None:
    assert read(tmp_path, "podman run --env-file e.env i --tp 2\n", "run.sh", e_env="").warnings == ()


NAMED = st.sampled_from(["x.env", "x.sh", "x.yml", "x.service", "x", ".env", "x.container", "x.json"])


def _survives(folder: Path, content: bytes, name: str) -> None:
    reading = attempt(folder, content, name)
    if isinstance(reading, ReadError):
        assert reading.file is not None
        assert reading.message
        return
    check_spans(reading)
    try:
        mapped = map_settings(reading, NAMES)
    except ReadError:
        return  # scopes that tie
    changed = edit(reading, mapped, {"tp": "3", "ctx": "77", "max_num_seqs": None, "kv_slots": "x"},
                   spelling=SPELLING)
    unified_diff(reading, changed)


@given(content=st.binary(max_size=200), name=NAMED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
def test_any_bytes(tmp_path: Path, content: bytes, name: str) -> None:
    _survives(tmp_path, content, name)


PARTS = st.lists(st.sampled_from([
    "A", "TP", "CTX", "=", "=", "1", "'", '"', " ", "\n", "\n", "\r\n", "\t", "#", "\\", "\\\n", "$", "${",
    "}", ":-",
    "(", ")", "[", "]", "{", "}", ":", ": ", "- ", "--", "--tp", "--tp=2", "--ctx 3", "&a", "*a", "<<",
    "<<EOF", "|",
    ">", ";", "`", "$(", "export ", "podman run ", "-e ", "sh -c ", "services:", "a:", "environment:",
    "command:",
    "  ", "    ", "kind: Pod", "containers:", "env:", "args:", "[Service]\n", "Environment=", "ExecStart=",
    "!", "%",
    "ARGS=(", "${ARGS[@]}", "$A", "\ufeff", "\u2028", "\x85", "\x0b", "\x00", "\U0001f600", "? ", "---\n",
    "&a [", "name: "]),
    max_size=40).map("".join)


@given(text=PARTS, name=NAMED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=1500)
def test_any_text_made_of_what_matters(tmp_path: Path, text: str, name: str) -> None:
    _survives(tmp_path, text.encode(), name)
