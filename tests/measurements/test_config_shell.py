from __future__ import annotations

from pathlib import Path

import pytest

from measurements.records import ReadError
from tests.measurements.config_files import check_spans, one, read, values, written


@pytest.mark.parametrize("text", [
    "--tp 2 --max-num-seqs=8 --no-prefix-cache --port ${PORT:-8000}",
    "radiance --tp 2 --max-num-seqs=8 --no-prefix-cache --port ${PORT:-8000}\n",
    "--tp 2 \\\n  --max-num-seqs=8 \\\n --no-prefix-cache --port '${PORT}'8000\n".replace("'${PORT}'", ""),
    "--tp 2\n--max-num-seqs=8\n--no-prefix-cache\n--port 8000\n",
    "\ufeff--tp \"2\" \\\r\n  --max-num-seqs='8' --no-prefix-cache --port=8000\r\n",
    "#!/bin/sh\nexec radiance --tp 2 --max-num-seqs=8 --no-prefix-cache --port 8000 2>&1 | tee log\n",
    "#!/bin/bash\nset -euo pipefail\nARGS=(\n --tp 2 # cards\n --max-num-seqs=8)\n"
    "ARGS+=(--no-prefix-cache)\nif [ -n \"$1\" ]; then exec radiance \"${ARGS[@]}\" --port 8000; fi\n",
    "ARGS='--tp 2 --max-num-seqs=8'\nradiance $ARGS --no-prefix-cache --port 8000\n",
    "#!/bin/sh\nsh -c 'exec radiance --tp 2 --max-num-seqs=8 --no-prefix-cache --port 8000'\n",
])
def test_one_command_line_in_many_clothes(tmp_path: Path, text: str) -> None:
    reading = read(tmp_path, text)
    flags = {s.key: s.value for s in reading.settings if s.style == "flag"}
    assert flags == {"--tp": "2", "--max-num-seqs": "8", "--no-prefix-cache": None, "--port": "8000"}
    check_spans(reading)
    assert written(reading, one(reading, "--max-num-seqs")) == "8"
    assert {s.scope for s in reading.settings} == {""}


def test_places_are_those_of_the_flags(tmp_path: Path) -> None:
    reading = read(tmp_path, "# start\nradiance \\\n  --tp 2 \\\n  --max-num-seqs \\\n  8\n")
    assert one(reading, "--tp").place.line == 3
    assert one(reading, "--max-num-seqs").place.line == 4
    assert written(reading, one(reading, "--max-num-seqs")) == "8"


def test_a_variable_is_edited_where_it_is_assigned(tmp_path: Path) -> None:
    reading = read(tmp_path, 'N=${N:-4}\nexport M="8"\nradiance --max-num-seqs "$N" --tp=${M} --port 80$N\n',
                   "s.sh")
    flag = one(reading, "--max-num-seqs")
    assert (flag.value, flag.place.line, written(reading, flag)) == ("4", 1, "4")
    assert one(reading, "--tp").place.line == 2
    assert one(reading, "--port").value == "804"
    assert one(reading, "--port").span is None
    assert values(reading)["M"] == "8"


def test_a_variable_whose_value_is_split_keeps_its_own_line(tmp_path: Path) -> None:
    reading = read(tmp_path, "N=' 4'\nA='--ctx 5'\nradiance --tp $N $A\n", "s.sh")
    assert [(s.key, s.value, s.place.line) for s in reading.settings if s.style == "flag"] == [
        ("--tp", "4", 1), ("--ctx", "5", 2)]
    check_spans(reading)


def test_an_assigned_default_counts(tmp_path: Path) -> None:
    reading = read(tmp_path, ': "${A_CTX:=4096}"\nradiance --max-model-len $A_CTX --tp 1\n', "s.sh")
    assert values(reading) == {"A_CTX": "4096", "--max-model-len": "4096", "--tp": "1"}
    check_spans(reading)


def test_what_is_not_assigned_stays_as_written(tmp_path: Path) -> None:
    reading = read(tmp_path,
                   "radiance --a ${A} --b $B --c $(nproc) --d `nproc` --e ${X%y} --f ${Q:?must be set}\n")
    assert values(reading) == {"--a": "${A}", "--b": "$B", "--c": "$(nproc)", "--d": "`nproc`",
                               "--e": "${X%y}",
                               "--f": "${Q:?must be set}"}
    assert all(setting.span is None for setting in reading.settings)


def test_quotes_and_escapes(tmp_path: Path) -> None:
    reading = read(tmp_path,
                   "radiance --a 'x y' --b \"x $ y\" --c x\\ y --d x'y'z --e \"\" --f -1 --g '$N'\n")
    assert values(reading) == {"--a": "x y", "--b": "x $ y", "--c": "x y", "--d": "xyz", "--e": "",
                               "--f": "-1",
                               "--g": "$N"}
    assert [s.key for s in reading.settings if s.span is None] == ["--b", "--c", "--d"]
    check_spans(reading)


def test_here_documents_and_comments_are_no_settings(tmp_path: Path) -> None:
    reading = read(tmp_path,
                   "cat > x <<'EOF'\nradiance --tp 9 it's\nEOF\n# radiance --tp 8\n"
                   "radiance --tp 2 # --tp 7\n")
    assert values(reading) == {"--tp": "2"}


def test_a_container_started_by_hand(tmp_path: Path) -> None:
    reading = read(tmp_path, "podman run -d --rm -it --name one --device /dev/kfd -p 80:80 \\\n"
                             " -e H_CTX=4096 --env \"H_KV_SLOTS=4\" -eH_MAX_TOK=1 --env=H_FIT='1'"
                             " --env H_PASSED \\\n"
                             " --env-file more.env registry:5000/x/radiance:1.0.13 --tp 2 serve\n",
                   "run.sh", more_env="H_RESERVE=20\nAPI_KEY=opensesame\n")
    assert values(reading) == {"H_RESERVE": "20", "API_KEY": "<secret>", "H_CTX": "4096", "H_KV_SLOTS": "4",
                               "H_MAX_TOK": "1", "H_FIT": "1", "--tp": "2"}
    assert [(image, place.line) for image, place in reading.images] == [("registry:5000/x/radiance:1.0.13",
                                                                         3)]
    check_spans(reading)
    assert set(reading.text) == {str(tmp_path / "run.sh"), str(tmp_path / "more.env")}


def test_a_missing_env_file_is_a_warning(tmp_path: Path) -> None:
    reading = read(tmp_path, ". ./gone.env\npodman run --env-file ${WHERE}/x.env image --tp 2\n", "run.sh")
    assert len(reading.warnings) == 2
    assert "gone.env" in reading.warnings[0]


def test_several_commands_are_several_scopes(tmp_path: Path) -> None:
    reading = read(tmp_path, "curl --retry 3 x\nA=1 radiance --tp 2 &\nradiance --tp 4\n", "run.sh")
    assert [(s.scope, s.key) for s in reading.settings] == [
        ("curl", "--retry"), ("", "A"), ("radiance", "--tp"), ("radiance@3", "--tp")]


@pytest.mark.parametrize(("text", "line"), [
    ("A=1\nradiance --tp '2\n", 2), ('radiance \\\n --tp "2\n', 2), ("A=(--tp 2\n", 1),
    ("radiance --tp ${X:-2\n", 1),
    ("x\nradiance --tp $(nproc\n", 2), ("radiance --tp `nproc\n", 1)])
def test_what_is_not_closed_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(ReadError) as error:
        read(tmp_path, text, "s.sh")
    assert error.value.line == line


def test_variables_that_expand_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["A0=0123456789"] + [f"A{i}=$A{i - 1}$A{i - 1}$A{i - 1}$A{i - 1}" for i in range(1, 40)]
    with pytest.raises(ReadError, match="without end"):
        read(tmp_path, "\n".join([*lines, "radiance --tp $A39"]), "s.sh")


def test_flags_behind_a_command_that_has_ended_are_not_its_own(tmp_path: Path) -> None:
    reading = read(tmp_path, "radiance --tp 2 \\\n# --ctx 9 \\\n  --max-num-seqs 4\n", "x.sh")
    assert values(reading) == {"--tp": "2"}
    assert ":3: flags without a program before them are not read" in reading.warnings[0]


def test_what_is_set_under_a_condition_is_told(tmp_path: Path) -> None:
    text = "#!/bin/sh\nif x; then\n  N=1\nfi\n[ -f y ] || M=2\nK=3\nr --tp $N --ctx $M --max-tok $K\n"
    reading = read(tmp_path, text, "x.sh")
    assert [warning.partition(":")[2] for warning in reading.warnings] == [
        f"{line}: {name} is set under a condition: read as if that held" for line, name in ((3, "N"), (5, "M"))]
