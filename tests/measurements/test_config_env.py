from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measurements.records import ReadError
from tests.measurements.config_files import check_spans, one, read, values, written


@pytest.mark.parametrize(("line", "value", "span"), [
    ("A_CTX=4096", "4096", "4096"),
    ("A_CTX = 4096", "4096", "4096"),
    ("  export A_CTX=4096", "4096", "4096"),
    ("A_CTX='4096'", "4096", "4096"),
    ('A_CTX="4096"', "4096", "4096"),
    ('A_CTX="4096" # half', "4096", "4096"),
    ("A_CTX=4096 # half", "4096", "4096"),
    ("A_CTX=4096\t# half", "4096", "4096"),
    ("A_CTX=40#96", "40#96", "40#96"),
    ("A_CTX=", "", ""),
    ("A_CTX= # nothing", "", ""),
    ('A_CTX=""', "", ""),
    ("A_CTX=a b", "a b", "a b"),
    ("A_CTX='a # b'", "a # b", "a # b"),
    ("A_CTX=it's", "it's", "it's"),
    (r'A_CTX="a \"b\""', 'a "b"', None),
    (r"A_CTX='a\b'", r"a\b", r"a\b"),
    ("A_CTX=${SIZE:-4096}", "4096", "4096"),
    ('A_CTX="${SIZE:-4096}"', "4096", "4096"),
    ("A_CTX='${SIZE:-4096}'", "${SIZE:-4096}", "${SIZE:-4096}"),
    ("A_CTX=${SIZE}", "${SIZE}", None),
    ("A_CTX=/x/${SIZE:-40}", "/x/40", None),
    ("A_CTX=a=b", "a=b", "a=b"),
])
def test_a_value_and_where_it_stands(tmp_path: Path, line: str, value: str, span: str | None) -> None:
    for newline in ("\n", "\r\n"):
        for bom in ("", "\ufeff"):
            text = f"{bom}# first{newline}{newline}{line}{newline}B=1"
            reading = read(tmp_path, text, "x.env")
            setting = one(reading, "A_CTX")
            assert reading.text[setting.place.file] == text
            assert (setting.value, written(reading, setting), setting.place.line) == (value, span, 3)
            assert values(reading)["B"] == "1"


def test_the_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    reading = read(tmp_path, "\ufeffA=1\nB=2\n")
    assert values(reading) == {"A": "1", "B": "2"}
    check_spans(reading)


def test_a_variable_of_the_same_file_is_edited_where_it_was_assigned(tmp_path: Path) -> None:
    reading = read(tmp_path, "SIZE=4096\nA_CTX=${SIZE}\nA_TOK=$SIZE\n", "x.env")
    for key in ("A_CTX", "A_TOK"):
        setting = one(reading, key)
        assert (setting.value, setting.place.line, setting.span) == ("4096", 1, (5, 9))


def test_the_process_environment_is_never_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZE", "8")
    assert values(read(tmp_path, "A_CTX=${SIZE}\n", "x.env")) == {"A_CTX": "${SIZE}"}


def test_every_duplicate_is_kept_in_order(tmp_path: Path) -> None:
    reading = read(tmp_path, "A=1\nB=2\nA=3\n")
    assert [(s.key, s.value) for s in reading.settings] == [("A", "1"), ("B", "2"), ("A", "3")]


def test_what_is_not_a_setting_is_named_and_left_out(tmp_path: Path) -> None:
    reading = read(tmp_path, "A=1\nwhat is this\nONLY_KEY\n", "x.env")
    assert values(reading) == {"A": "1"}
    assert [warning.split("x.env:")[1][:1] for warning in reading.warnings] == ["2", "3"]


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_quote_must_close_on_its_line(tmp_path: Path, quote: str) -> None:
    with pytest.raises(ReadError) as error:
        read(tmp_path, f"A=1\nB={quote}x\nC={quote}y\n", "x.env")
    assert error.value.line == 2
    assert error.value.file == str(tmp_path / "x.env")


KEYS = st.from_regex(r"[A-Z][A-Z0-9_]{0,12}", fullmatch=True)
PLAIN = st.from_regex(r"[A-Za-z0-9./:_,+-]{0,12}", fullmatch=True)


@given(rows=st.lists(st.tuples(KEYS, PLAIN, st.sampled_from(["", "'", '"']),
                               st.sampled_from(["", "export ", "  "]), st.sampled_from(["", " # note"])),
                     min_size=1, max_size=8),
       newline=st.sampled_from(["\n", "\r\n"]), bom=st.booleans(), last=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_was_written_is_read(tmp_path: Path, rows: list[tuple[str, str, str, str, str]], newline: str,
                                  bom: bool, last: bool) -> None:
    lines = [f"{lead}{key}={quote}{value}{quote}{note}" for key, value, quote, lead, note in rows]
    reading = read(tmp_path, "\ufeff" * bom + newline.join(lines) + newline * last, "x.env")
    check_spans(reading)
    for number, (setting, row) in enumerate(zip(reading.settings, rows, strict=True), 1):
        assert (setting.key, setting.place.line) == (row[0], number)
        assert setting.secret or setting.value == row[1]
