"""An edit that is written changes the bytes of the value and no other, whatever else the file holds."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measurements.config import map_settings, read_config
from measurements.config.comment import comment_above
from measurements.config.edit import Edit, edit, unified_diff
from measurements.config.file import decode, encode
from measurements.config.write import write_files
from measurements.records import ReadError
from tests.measurements.config_files import NAMES, SPELLING, read

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=120)
#: What the value is replaced by while a file is put together.
HERE = "@@"

KNOBS = ("ctx", "tp", "max_tok", "kv_slots")
NUMBERS = st.integers(0, 10**9).map(str)
ODD = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0\x85\u2028\u2029", exclude_categories=["Cc"]),
              max_size=12)
#: Comments as people leave them: any words, tabs, quotes, and bytes that are no UTF-8.
COMMENT = st.one_of(ODD, st.sampled_from(["it's \"so\"", "${CTX:-1} $(rm) `x`", "\t\ttabs\t", "caf\udce9 \udcff",
                                          "MY_CTX=7", "--ctx 9", "\\", "a: b", "'", '"']))


@st.composite
def env_file(draw: st.DrawFn) -> tuple[str, str, str]:
    """An env file, its name, and the knob whose value is at the mark."""
    knob = draw(st.sampled_from(KNOBS))
    out = []
    for name in draw(st.permutations(KNOBS)):
        for _ in range(draw(st.integers(0, 2))):
            mark = draw(st.sampled_from(["#", "  # ", ";", ""]))
            out.append(mark and mark + draw(COMMENT))
        quote = draw(st.sampled_from(["", "'", '"']))
        export = draw(st.sampled_from(["", "export ", "  "]))
        tail = draw(st.sampled_from(["", "  ", "\t# ", " #"]))
        tail += draw(COMMENT) if "#" in tail else ""
        value = HERE if name == knob else draw(NUMBERS)
        out.append(f"{export}MY_{SPELLING[name]}={quote}{value}{quote}{tail}")
    return "\n".join(out), "x.env", knob


@st.composite
def script(draw: st.DrawFn) -> tuple[str, str, str]:
    """A script that starts the server, flags over several lines."""
    knob = draw(st.sampled_from(KNOBS))
    head = ["#!/bin/sh", *(f"# {draw(COMMENT)}" for _ in range(draw(st.integers(0, 3)))), "set -eu",
            "echo 'it starts' \"now\" # --ctx 5"]
    flags = []
    for name in draw(st.permutations(KNOBS)):
        quote = draw(st.sampled_from(["", "'", '"']))
        between = draw(st.sampled_from([" ", "="]))
        flags.append(f"{draw(st.sampled_from(['  ', chr(9)]))}--{name.replace('_', '-')}{between}{quote}"
                     f"{HERE if name == knob else draw(NUMBERS)}{quote}")
    return "\n".join([*head, "exec radiance \\", " \\\n".join(flags), f"# {draw(COMMENT)}"]), "x.sh", knob


@st.composite
def unit(draw: st.DrawFn) -> tuple[str, str, str]:
    """A systemd unit."""
    knob = draw(st.sampled_from(KNOBS))
    lines = ["[Unit]", "Description=the server", f"# {draw(COMMENT)}", "[Service]"]
    for name in draw(st.permutations(KNOBS)):
        quote = draw(st.sampled_from(["", "'", '"']))
        lines += [f"; {draw(COMMENT)}"] * draw(st.integers(0, 1))
        lines.append(f"Environment={quote}MY_{SPELLING[name]}={HERE if name == knob else draw(NUMBERS)}{quote}")
    return "\n".join([*lines, "ExecStart=/usr/bin/radiance"]), "x.service", knob


@st.composite
def compose(draw: st.DrawFn) -> tuple[str, str, str]:
    """A compose file with a map or a list of variables."""
    knob = draw(st.sampled_from(KNOBS))
    listed = draw(st.booleans())
    lines = [f"# {_yaml(draw(COMMENT))}", "services:", "  llm:", "    image: x/radiance:1.0.13  # pinned",
             "    environment:"]
    for name in draw(st.permutations(KNOBS)):
        quote = draw(st.sampled_from(["", "'", '"']))
        value = HERE if name == knob else draw(NUMBERS)
        key = f"MY_{SPELLING[name]}"
        lines += [f"      # {_yaml(draw(COMMENT))}"] * draw(st.integers(0, 1))
        text = f"- {quote}{key}={value}{quote}" if listed else f"{key}: {quote}{value}{quote}"
        lines.append(f"      {text}{draw(st.sampled_from(['', '  ', ' # why']))}")
    return "\n".join([*lines, "  other: {image: y}"]), "compose.yaml", knob


@st.composite
def kubernetes(draw: st.DrawFn) -> tuple[str, str, str]:
    """A pod whose container has variables."""
    knob = draw(st.sampled_from(KNOBS))
    lines = ["kind: Pod", "metadata: {name: llm}", "spec:", "  containers:", "  - name: a", "    env:"]
    for name in draw(st.permutations(KNOBS)):
        quote = draw(st.sampled_from(["'", '"']))
        lines += [f"    - name: MY_{SPELLING[name]}",
                  f"      value: {quote}{HERE if name == knob else draw(NUMBERS)}{quote} # {_yaml(draw(COMMENT))}"]
    return "\n".join(lines), "pod.yaml", knob


def _yaml(text: str) -> str:
    """A comment without the characters that YAML allows nowhere."""
    return "".join(c for c in text if c.isprintable() or "\udc80" <= c <= "\udcff").replace("\ufeff", "")


@given(made=st.one_of(env_file(), script(), unit(), compose(), kubernetes()), old=NUMBERS, new=NUMBERS,
       crlf=st.booleans(), bom=st.booleans(), final=st.booleans())
@SLOW
def test_every_other_byte_stays(tmp_path: Path, made: tuple[str, str, str], old: str, new: str, crlf: bool, bom: bool,
                                final: bool) -> None:
    text, name, knob = made
    text = "\ufeff" * (bom and name != "x.sh") + text + "\n" * final
    text = text.replace("\n", "\r\n") if crlf and name != "x.sh" else text
    before, after = text.split(HERE)
    original = encode(before + old + after)
    reading = read(tmp_path, original, name)
    mapped = map_settings(reading, NAMES)
    assert mapped.knobs[knob].value == old
    done = edit(reading, mapped, {knob: new}, spelling=SPELLING)
    assert done.refused == ()
    (file,) = reading.text
    changed = encode(done.texts.get(file, reading.text[file]))
    assert changed == encode(before) + new.encode() + encode(after)
    Path(file).write_bytes(changed)
    again = read_config([Path(file)])
    mapped = map_settings(again, NAMES)
    assert mapped.knobs[knob].value == new
    back = edit(again, mapped, {knob: old}, spelling=SPELLING)
    assert encode(back.texts.get(file, again.text[file])) == original
    unified_diff(again, back).encode()  # can be printed, whatever the file holds


@given(data=st.binary(max_size=200))
@settings(max_examples=300)
def test_reading_and_writing_are_the_identity(data: bytes) -> None:
    try:
        text = decode(data, "x")
    except ReadError:
        return
    assert encode(text) == data


@given(made=st.one_of(env_file(), script(), unit(), compose(), kubernetes()), crlf=st.booleans(), bom=st.booleans())
@SLOW
def test_a_comment_is_a_line_of_its_own_and_nothing_else(tmp_path: Path, made: tuple[str, str, str], crlf: bool,
                                                         bom: bool) -> None:
    text, name, knob = made
    text = "\ufeff" * (bom and name != "x.sh") + text.replace(HERE, "5") + "\n"
    text = text.replace("\n", "\r\n") if crlf and name != "x.sh" else text
    reading = read(tmp_path, encode(text), name)
    done = edit(reading, map_settings(reading, NAMES), {knob: "1234567"}, spelling=SPELLING)
    commented, without = comment_above(reading, done, "2026-11-30 12:00 UTC: the next boot must print x")
    assert without == ()
    (file,) = reading.text
    lines, plain = commented.texts[file].split("\n"), done.texts[file].split("\n")
    (at,) = (number for number, line in enumerate(lines) if "# shapewright 2026" in line)
    own = lines.pop(at)
    assert own.strip("\ufeff \t\r").startswith("# shapewright")
    assert own.endswith("\r") == (crlf and name != "x.sh")
    lines[0] = "\ufeff" * own.startswith("\ufeff") + lines[0]
    assert lines == plain
    assert not (at == 0 and name == "x.sh")
    Path(file).write_bytes(encode(commented.texts[file]))
    assert map_settings(read_config([Path(file)]), NAMES).knobs[knob].value == "1234567"


COMMENTED = [
    ("x.env", "A=1\n\tMY_CTX=1\n", "A=1\n\t# shapewright T\n\tMY_CTX=5\n"),
    ("x.env", "MY_CTX=1", "# shapewright T\nMY_CTX=5"),
    ("x.env", "\ufeffMY_CTX=1\r\n", "\ufeff# shapewright T\r\nMY_CTX=5\r\n"),
    ("x.sh", "#!/bin/sh\nexec radiance \\\n  --tp 2 \\\n  --ctx 1\n",
     "#!/bin/sh\n# shapewright T\nexec radiance \\\n  --tp 2 \\\n  --ctx 5\n"),
    ("x.sh", "sh -c 'radiance --tp 2 \\\n --ctx 1'\n", "# shapewright T\nsh -c 'radiance --tp 2 \\\n --ctx 5'\n"),
    ("x.sh", "A=(\n  --tp 2\n  --ctx 1\n)\nr \"${A[@]}\"\n",
     "A=(\n  --tp 2\n  # shapewright T\n  --ctx 5\n)\nr \"${A[@]}\"\n"),
    ("c.yml", "services:\n  a:\n    command: >\n      --tp 2\n      --ctx 1\n",
     "services:\n  a:\n    # shapewright T\n    command: >\n      --tp 2\n      --ctx 5\n"),
    ("x.service", "[Service]\nExecStart=r --tp 1 \\\n  --ctx 1\n",
     "[Service]\n# shapewright T\nExecStart=r --tp 1 \\\n  --ctx 5\n"),
]


@pytest.mark.parametrize(("name", "text", "wanted"), COMMENTED)
def test_where_a_comment_stands(tmp_path: Path, name: str, text: str, wanted: str) -> None:
    reading = read(tmp_path, text, name)
    done = edit(reading, map_settings(reading, NAMES), {"ctx": "5"}, spelling=SPELLING)
    found, without = comment_above(reading, done, "T")
    assert (found.texts[str(tmp_path / name)], without) == (wanted, ())


@pytest.mark.parametrize(("name", "text"), [
    ("x.sh", "#!/usr/bin/radiance --tp 2\n--ctx 1 \\\n"), ("c.json", '{"services": {"a": {"command": "--ctx 1"}}}\n'),
])
def test_where_none_can_stand_there_is_none(tmp_path: Path, name: str, text: str) -> None:
    reading = read(tmp_path, text, name)
    done = edit(reading, map_settings(reading, NAMES), {"ctx": "5"}, spelling=SPELLING)
    found, without = comment_above(reading, done, "T")
    if name.endswith(".json"):
        assert (found.texts, without) == (done.texts, (str(tmp_path / name),))
    else:
        assert found.texts[str(tmp_path / name)].startswith("#!")


def test_a_newer_comment_takes_the_place_of_ours_and_of_no_other(tmp_path: Path) -> None:
    ours = "# shapewright 2026-11-29 10:00 UTC: the next boot must print y\n"
    theirs = "# shapewright is what we size with\n"
    reading = read(tmp_path, f"{theirs}{ours}MY_TP=2\nMY_CTX=1\n", "x.env")
    done = edit(reading, map_settings(reading, NAMES), {"ctx": "5"}, spelling=SPELLING)
    found, _ = comment_above(reading, done, "2026-11-30 10:00 UTC: z")
    assert found.texts[str(tmp_path / "x.env")] == (
        f"{theirs}MY_TP=2\n# shapewright 2026-11-30 10:00 UTC: z\nMY_CTX=5\n")


@pytest.mark.parametrize(("name", "text", "others", "says"), [
    ("x.env", "MY_CTX=1\nMY_CTX=1\n", {}, r"set twice, at .*x.env:1 and at .*x.env:2: keep one"),
    ("x.env", "MY_CTX=${C:-1}\n", {}, r"x.env:1 is the default of \$\{C\}: .*write the value plainly"),
    ("x.env", "MY_CTX=\"${C-1}\"\n", {}, "is the default of"),
    ("x.sh", "radiance --ctx ${C:=1}\n", {}, "is the default of"),
    ("x.sh", "radiance --ctx 1 --ctx 2\n", {}, "set twice"),
    ("c.yml", "services:\n  a:\n    command: --ctx ${C:-1}\n", {}, "is the default of"),
    ("x.sh", "podman run --env-file a.env i\n", {"a_env": "MY_CTX='1'\nMY_TP=2\n"},
     r"a.env:1 has quotes, which docker"),
    ("x.sh", "docker run --env-file a.env i\n", {"a_env": "MY_CTX=1 # so\n"}, r"a.env:1 has a comment .*MY_CTX=1 and"),
    ("x.container", "[Container]\nImage=i\nEnvironmentFile=a.env\n", {"a_env": "MY_CTX=\"1\"\n"}, "has quotes"),
    ("x.service", "[Service]\nEnvironmentFile=a.env\nExecStart=r\n", {"a_env": "MY_CTX=1 # so\n"}, "has a comment"),
])
def test_what_something_else_may_decide_is_refused(tmp_path: Path, name: str, text: str, others: dict[str, str],
                                                   says: str) -> None:
    reading = read(tmp_path, text, name, **others)
    mapped = map_settings(reading, NAMES)
    out = edit(reading, mapped, {"ctx": "7"}, spelling=SPELLING)
    assert out.texts == {}
    ((_, why),) = out.refused
    assert re.search(says, why), why


@pytest.mark.parametrize(("name", "text", "others"), [
    ("x.service", "[Service]\nEnvironmentFile=a.env\nExecStart=r\n", {"a_env": "MY_CTX='1'\n"}),
    ("x.sh", ". a.env\nradiance --tp 1\n", {"a_env": "MY_CTX='1' # so\n"}),
    ("x.sh", "podman run --env-file a.env i\n", {"a_env": "MY_CTX=1\n# so\n"}),
    ("c.yml", "services:\n  a:\n    env_file: a.env\n", {"a_env": "MY_CTX=\"1\" # so\n"}),
])
def test_what_its_reader_understands_is_not(tmp_path: Path, name: str, text: str, others: dict[str, str]) -> None:
    reading = read(tmp_path, text, name, **others)
    out = edit(reading, map_settings(reading, NAMES), {"ctx": "7"}, spelling=SPELLING)
    assert out.refused == ()
    assert out.texts == {str(tmp_path / "a.env"): others["a_env"].replace("1", "7")}


def test_bytes_that_are_no_text_may_stand_in_comments_alone(tmp_path: Path) -> None:
    assert read(tmp_path, b"MY_CTX=1 # caf\xe9\n; \xff\n").settings[0].value == "1"
    for data in (b"MY_CTX=1\nA=\xff\n", b"MY_CTX=1\n\xff\n", b"A='# \xff'\n", b"K\xff=1\n"):
        with pytest.raises(ReadError, match="not UTF-8") as caught:
            read(tmp_path, data)
        assert caught.value.line == (2 if data.startswith(b"MY") else 1)


def _write(folder: Path, texts: dict[str, str], new: dict[str, str]) -> Callable[[], object]:
    for name, text in texts.items():
        (folder / name).write_text(text, newline="")
    return lambda: write_files({str(folder / name): text for name, text in texts.items()},
                               {str(folder / name): text for name, text in new.items()}, NOW)


def listing(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_a_write_keeps_mode_link_and_the_old_text(tmp_path: Path) -> None:
    write = _write(tmp_path, {"a.env": "A=1\n"}, {"a.env": "A=2\n"})
    (tmp_path / "a.env").chmod(0o640)
    write()
    assert listing(tmp_path) == {"a.env": b"A=2\n", "a.env.shapewright-20261130T120000.bak": b"A=1\n"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}
    link = tmp_path / "link.env"
    link.symlink_to("a.env")
    done = write_files({str(link): "A=2\n"}, {str(link): "A=3\n"}, NOW)
    assert link.is_symlink()
    assert (tmp_path / "a.env").read_text() == "A=3\n"
    assert done.files[0].backup == str(tmp_path / "a.env.shapewright-20261130T120000-2.bak")  # never over another
    assert Path(done.files[0].backup).read_text() == "A=2\n"
    assert done.undo() == []
    assert (tmp_path / "a.env").read_text() == "A=2\n"
    assert not Path(done.files[0].backup).exists()


def test_a_file_that_was_changed_since_is_left_alone(tmp_path: Path) -> None:
    write = _write(tmp_path, {"a.env": "A=1\n", "b.env": "B=1\n"}, {"a.env": "A=2\n", "b.env": "B=2\n"})
    (tmp_path / "b.env").write_text("B=1\n# mine\n")
    before = listing(tmp_path)
    with pytest.raises(ReadError, match="changed since it was read") as caught:
        write()
    assert caught.value.file == str(tmp_path / "b.env")
    assert listing(tmp_path) == before


@pytest.mark.parametrize("fails_at", [1, 2])
@pytest.mark.parametrize("call", ["replace", "fsync", "fchmod"])
def test_a_failure_in_the_middle_undoes_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str,
                                                      fails_at: int) -> None:
    write = _write(tmp_path, {"a.env": "A=1\n", "b.env": "B=1\n"}, {"a.env": "A=2\n", "b.env": "B=2\n"})
    before, real, calls = listing(tmp_path), getattr(os, call), []

    def failing(*words: object) -> object:
        calls.append(words)
        if len(calls) == fails_at:
            raise OSError(28, "No space left on device")
        return real(*words)

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(ReadError, match=r"no space left on device.*nothing was changed"):
        write()
    assert listing(tmp_path) == before


def test_what_cannot_be_put_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = _write(tmp_path, {"a.env": "A=1\n", "b.env": "B=1\n"}, {"a.env": "A=2\n", "b.env": "B=2\n"})
    real, calls = os.replace, []

    def failing(*words: str) -> None:
        calls.append(words)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        real(*words)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(ReadError, match=r"not all could be put back: .*a\.env has the new text, the old one is in"):
        write()
    found = listing(tmp_path)
    assert found == {"a.env": b"A=2\n", "a.env.shapewright-20261130T120000.bak": b"A=1\n", "b.env": b"B=1\n"}


@pytest.mark.parametrize(("folder", "says"), [(False, "is read-only here"), (True, "a folder that cannot be written")])
def test_what_cannot_be_written_is_told_before_anything_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           folder: bool, says: str) -> None:
    write = _write(tmp_path, {"a.env": "A=1\n", "b.env": "B=1\n"}, {"a.env": "A=2\n", "b.env": "B=2\n"})
    before = listing(tmp_path)
    locked = tmp_path if folder else tmp_path / "b.env"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != locked)  # root may write anywhere
    with pytest.raises(ReadError, match=says):
        write()
    assert listing(tmp_path) == before


def test_names_that_are_one_file(tmp_path: Path) -> None:
    _write(tmp_path, {"a.env": "A=1\n"}, {})
    (tmp_path / "b.env").symlink_to("a.env")
    names = [str(tmp_path / name) for name in ("a.env", "b.env")]
    with pytest.raises(ReadError, match="same file"):
        write_files(dict.fromkeys(names, "A=1\n"), dict.fromkeys(names, "A=2\n"), NOW)
    (tmp_path / "b.env").unlink()
    os.link(tmp_path / "a.env", tmp_path / "b.env")
    with pytest.raises(ReadError, match="hard links"):
        write_files({names[0]: "A=1\n"}, {names[0]: "A=2\n"}, NOW)
    assert (tmp_path / "b.env").read_text() == "A=1\n"


def test_a_stop_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = _write(tmp_path, {"a.env": "A=1\n", "b.env": "B=1\n"}, {"a.env": "A=2\n", "b.env": "B=2\n"})
    before, real, calls = listing(tmp_path), os.replace, []

    def stopped(*words: str) -> None:
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*words)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        write()
    assert listing(tmp_path) == before


def test_an_edit_of_nothing_writes_nothing(tmp_path: Path) -> None:
    assert write_files({}, Edit().texts, NOW).files == []
    assert listing(tmp_path) == {}
