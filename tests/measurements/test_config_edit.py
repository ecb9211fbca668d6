from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measurements.config import Mapped, map_settings, read_config
from measurements.config.edit import edit, unified_diff
from tests.measurements.config_files import NAMES, SPELLING, read


def _changed(folder: Path, text: str, changes: dict[str, str | None], name: str = "settings",
             scope: str | None = None) -> str:
    reading = read(folder, text, name)
    out = edit(reading, map_settings(reading, NAMES, scope=scope), changes, spelling=SPELLING)
    assert out.refused == ()
    assert set(out.texts) <= {str(folder / name)}
    return out.texts.get(str(folder / name), text)


CASES = [
    ("env", "# x\r\nMY_CTX='1' # c\r\nexport MY_TP=2\r\nOTHER=3", {"ctx": "5", "max_tok": "7"},
     "# x\r\nMY_CTX='5' # c\r\nexport MY_TP=2\r\nexport MY_MAX_TOK=7\r\nOTHER=3"),
    ("env", "MY_CTX=1\nMY_TP=2", {"tp": None, "max_tok": "7"}, "MY_CTX=1\nMY_MAX_TOK=7"),
    ("env", "\ufeffMY_CTX=1\nMY_TP=2\n", {"ctx": None}, "\ufeffMY_TP=2\n"),
    ("env", "MY_CTX=1\nMY_CTX=2\nMY_TP=2\n", {"ctx": None}, "MY_TP=2\n"),
    ("env", "MY_CTX=\nMY_TP=2\n", {"ctx": "4"}, "MY_CTX=4\nMY_TP=2\n"),
    ("env", "N=2\nMY_TP=${N}\nMY_CTX=4\n", {"tp": "4", "ctx": "5"}, "N=4\nMY_TP=${N}\nMY_CTX=5\n"),
    ("flags", "--ctx 1 --tp=2 --no-x\n", {"ctx": "5", "tp": "4", "max_tok": "7"},
     "--ctx 5 --tp=4 --max-tok 7 --no-x\n"),
    ("flags", "--ctx 1 --tp=2 --no-x\n", {"ctx": None}, "--tp=2 --no-x\n"),
    ("flags", "--ctx 1 --tp=2 --no-x\n", {"ctx": None, "tp": None}, " --no-x\n"),
    ("shell", "r \\\n  --ctx '1' \\\n  --tp 2\necho done\n", {"tp": None}, "r \\\n  --ctx '1'\necho done\n"),
    ("shell", "r \\\n  --ctx '1' \\\n  --tp 2\necho done\n", {"ctx": None, "max_tok": "7"},
     "r \\\n  --tp 2 --max-tok 7\necho done\n"),
    ("shell", "A=(\n  --ctx 1 # c\n  --tp 2\n)\nr \"${A[@]}\"\n", {"tp": "4", "ctx": None},
     "A=(\n  --tp 4\n)\nr \"${A[@]}\"\n"),
    ("shell", "podman run -e MY_CTX=1 --env='MY_TP=2' i\n", {"tp": "4", "max_tok": "7"},
     "podman run -e MY_CTX=1 --env='MY_TP=4' -e MY_MAX_TOK=7 i\n"),
    ("unit", "[Service]\nEnvironment=MY_CTX=1 \"MY_TP=2\"\nEnvironment=X=1\n", {"tp": "4", "ctx": None,
                                                                                "max_tok": "7"},
     "[Service]\nEnvironment=\"MY_TP=4\"\nEnvironment=MY_MAX_TOK=7\nEnvironment=X=1\n"),
    ("unit", "[Service]\nEnvironment=MY_CTX=1\nEnvironment=MY_TP=2\n", {"ctx": None},
     "[Service]\nEnvironment=MY_TP=2\n"),
    ("unit", "[Container]\nImage=i\nExec=--ctx 1 \\\n  --tp 2\n", {"ctx": "4", "max_tok": "7"},
     "[Container]\nImage=i\nExec=--ctx 4 \\\n  --tp 2 --max-tok 7\n"),
    ("yaml", "services:\n  a:\n    environment:\n      MY_CTX: 1 # c\n      MY_TP: \"2\" # d\n    x: 1\n",
     {"ctx": "5", "tp": "4", "max_tok": "7"},
     "services:\n  a:\n    environment:\n      MY_CTX: 5 # c\n      MY_TP: \"4\" # d\n"
     "      MY_MAX_TOK: \"7\"\n    x: 1\n"),
    ("yaml", "services:\r\n  a:\r\n    environment:\r\n    - MY_CTX=1\r\n    - 'MY_TP=2'\r\n",
     {"ctx": None, "max_tok": "7"},
     "services:\r\n  a:\r\n    environment:\r\n    - 'MY_TP=2'\r\n    - 'MY_MAX_TOK=7'\r\n"),
    ("yaml", "services: {a: {environment: {MY_CTX: 1, MY_TP: 2}}}\n", {"ctx": None, "max_tok": "7"},
     "services: {a: {environment: {MY_TP: 2, MY_MAX_TOK: 7}}}\n"),
    ("yaml", "services:\n  a:\n    command: [--ctx, 1, --tp=2]\n", {"ctx": None, "max_tok": "7"},
     "services:\n  a:\n    command: [--tp=2, --max-tok=7]\n"),
    ("yaml", "services:\n  a:\n    command: [\"--tp\", \"2\", \"--ctx\", \"1\"]\n", {"ctx": "4",
                                                                                     "max_tok": "7",
                                                                                     "tp": None},
     "services:\n  a:\n    command: [\"--ctx\", \"4\", \"--max-tok\", \"7\"]\n"),
    ("yaml", "services:\n  a:\n    command:\n      - --kv-dtype\n      - fp8\n      - --tp\n      - 2 # c\n",
     {"kv_cache_dtype": "8", "max_tok": "on"},
     "services:\n  a:\n    command:\n      - --kv-dtype\n      - \"8\"\n      - --tp\n      - 2 # c\n"
     "      - --max-tok\n      - \"on\"\n"),
    ("yaml", "services:\n  a:\n    command: >\n      --tp 2\n      --ctx 1\n    x: 1\n", {"tp": "4",
                                                                                          "max_tok": "7"},
     "services:\n  a:\n    command: >\n      --tp 4\n      --ctx 1 --max-tok 7\n    x: 1\n"),
    ("yaml",
     "kind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n    - name: MY_CTX\n      value: \"1\"\n"
             "    - name: MY_TP\n      value: \"2\"\n", {"ctx": None, "tp": "4", "max_tok": "7"},
     "kind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n    - name: MY_TP\n      value: \"4\"\n"
     "    - name: MY_MAX_TOK\n      value: \"7\"\n"),
    ("yaml", "kind: Pod\nspec: {containers: [{name: a, env: [{\"name\": MY_CTX, \"value\": '1'}]}]}\n",
     {"ctx": "4", "max_tok": "7"},
     "kind: Pod\nspec: {containers: [{name: a, env: [{\"name\": MY_CTX, \"value\": '4'},"
     " {\"name\": MY_MAX_TOK, \"value\": '7'}]}]}\n"),
    ("yaml", "kind: ConfigMap\nmetadata: {name: a}\ndata:\n  MY_CTX: '1'\n  MY_TP: '2'\n",
     {"ctx": None, "max_tok": "7"},
     "kind: ConfigMap\nmetadata: {name: a}\ndata:\n  MY_TP: '2'\n  MY_MAX_TOK: '7'\n"),
]


@pytest.mark.parametrize(("dialect", "text", "changes", "wanted"), CASES)
def test_an_edit_is_the_smallest_there_is(tmp_path: Path, dialect: str, text: str, changes: dict[str,
                                                                                                 str | None],
                                          wanted: str) -> None:
    assert _changed(tmp_path, text, changes, name="x.sh" if dialect == "shell" else "settings") == wanted


@pytest.mark.parametrize(("name", "text", "changes", "says"), [
    ("x.env", "MY_CTX=1\n", {"ctx": "a b"}, "quotes"),
    ("x.env", "MY_CTX=1\n", {"ctx": ""}, "quotes"),
    ("x.env", "MY_CTX=1\n", {"vision": "1"}, "no name"),
    ("x.env", "A=1\n", {"ctx": "1"}, "behind"),
    ("x.env", "MY_CTX=/a/${B:-1}\n", {"ctx": "1"}, "put together"),
    ("x.env", "MY_CTX=\"a\\\"b\"\n", {"ctx": "1"}, "put together"),
    ("x.env", "N=1\nMY_CTX=$N\nMY_TP=$N\n", {"ctx": "2"}, "also sets"),
    ("x.env", "MY_CTX=1\nNOTE=the context is $MY_CTX\n", {"ctx": "2"}, "x.env:2"),
    ("x.env", "MY_CTX=${N}\n", {"ctx": "2"}, "put together"),
    ("x.sh", "radiance --tp --ctx 1\n", {"tp": "2"}, "without a value"),
    ("x.sh", "N=2\nradiance --tp $N --ctx 1\nradiance --tp $N\n", {"tp": "3"}, "also sets"),
    ("x.yml",
     "x: &e\n  MY_CTX: 1\nservices:\n  a: {environment: {<<: *e, MY_TP: 1}}\n  b: {environment: *e}\n",
     {"ctx": "2"}, "also sets"),
    ("x.yml",
     "x: &e\n  MY_CTX: 1\n  Z: 1\nservices:\n  a: {environment: {<<: *e, MY_TP: 1}}\n"
     "  b: {environment: *e}\n",
     {"ctx": None}, "on its own|also counts"),
    ("x.yml", "services:\n  a:\n    environment:\n      MY_CTX: 1\n", {"ctx": None}, "on its own"),
])
def test_what_would_be_a_guess_is_refused(tmp_path: Path, name: str, text: str, changes: dict[str,
                                                                                              str | None],
                                          says: str) -> None:
    reading = read(tmp_path, text, name)
    out = edit(reading, map_settings(reading, NAMES), changes, spelling=SPELLING)
    assert out.texts == {}
    ((knob, why),) = out.refused
    assert knob in changes
    assert any(part in why for part in says.split("|"))


def test_no_change_is_no_edit(tmp_path: Path) -> None:
    reading = read(tmp_path, "MY_CTX=1\n")
    mapped = map_settings(reading, NAMES)
    out = edit(reading, mapped, {"ctx": "1", "tp": None}, spelling=SPELLING)
    assert (out.texts, out.refused) == ({}, ())
    assert unified_diff(reading, out) == ""


def test_an_edit_may_reach_the_file_that_another_names(tmp_path: Path) -> None:
    reading = read(tmp_path, "podman run --env-file e.env i --tp 2\n", "run.sh",
                   e_env="MY_CTX=1\r\nMY_MAX_TOK=2\r\n")
    out = edit(reading, map_settings(reading, NAMES), {"ctx": "4", "kv_slots": "1"}, spelling=SPELLING)
    assert out.texts == {str(tmp_path / "e.env"): "MY_CTX=4\r\nMY_MAX_TOK=2\r\n",
                         str(tmp_path / "run.sh"): "podman run --env-file e.env i --tp 2 --kv-slots 1\n"}


def test_files_that_were_only_looked_into_do_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# nothing yet\n")
    (tmp_path / "odd.env").write_text("")
    text = "services:\n  a:\n    env_file: odd.env\n    command: --ctx 1 --tp 2\n"
    reading = read(tmp_path, text, "c.yml")
    out = edit(reading, map_settings(reading, NAMES), {"ctx": "4", "tp": "3"}, spelling=SPELLING)
    assert out.texts == {str(tmp_path / "c.yml"): text.replace("--ctx 1", "--ctx 4").replace("--tp 2", "--tp 3")}
    assert "--ctx 4" in unified_diff(reading, out)


def test_one_refusal_does_not_stop_the_others(tmp_path: Path) -> None:
    reading = read(tmp_path, "MY_CTX=1\nMY_TP=2\n")
    out = edit(reading, map_settings(reading, NAMES), {"ctx": "a b", "tp": "3"}, spelling=SPELLING)
    assert out.texts == {str(tmp_path / "settings"): "MY_CTX=1\nMY_TP=3\n"}
    assert [knob for knob, _ in out.refused] == ["ctx"]


def test_a_diff_has_the_users_names_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.env").write_text("API_KEY=opensesame\nMY_CTX=1\nMY_TP=2")
    reading = read_config([Path("my.env")])
    out = edit(reading, map_settings(reading, NAMES), {"tp": "4"}, spelling=SPELLING)
    assert unified_diff(reading, out) == (
        "--- my.env\n+++ my.env\n@@ -1,3 +1,3 @@\n API_KEY=<secret>\n MY_CTX=1\n"
        "-MY_TP=2\n\\ No newline at end of file\n+MY_TP=4\n\\ No newline at end of file\n")
    assert out.texts["my.env"] == "API_KEY=opensesame\nMY_CTX=1\nMY_TP=4"


KNOBS = ["ctx", "tp", "max_tok", "kv_slots", "max_num_seqs", "host_pool_mib"]
VALUE = st.from_regex(r"[A-Za-z0-9_.:/][A-Za-z0-9_.:/-]{0,6}", fullmatch=True)
SHAPE = st.dictionaries(st.sampled_from(KNOBS), VALUE, min_size=1)
CHANGES = st.dictionaries(st.sampled_from(KNOBS), st.none() | VALUE)


def _env(shape: dict[str, str], quote: str, newline: str) -> str:
    return newline.join(f"MY_{SPELLING[knob]}={quote}{value}{quote}" for knob, value in shape.items())


def _flags(shape: dict[str, str], quote: str, newline: str) -> str:
    return "radiance" + "".join(f" \\{newline}  --{knob.replace('_', '-')} {quote}{value}{quote}"
                                for knob, value in shape.items()) + newline


def _unit(shape: dict[str, str], quote: str, newline: str) -> str:
    return newline.join(["[Service]", *(f"Environment={quote}MY_{SPELLING[knob]}={value}{quote}"
                                        for knob, value in shape.items()), "ExecStart=radiance", ""])


def _map(shape: dict[str, str], quote: str, newline: str) -> str:
    quote = quote or '"'
    return newline.join(["services:", "  a:", "    environment:",
                         *(f"      MY_{SPELLING[knob]}: {quote}{value}{quote}" for knob,
                           value in shape.items()), ""])


def _list(shape: dict[str, str], quote: str, newline: str) -> str:
    quote = quote or "'"
    items = [item for knob, value in shape.items() for item in (f"--{knob.replace('_', '-')}", value)]
    return newline.join(["services:", "  a:", "    command:", "    - radiance",
                         *(f"    - {quote}{item}{quote}" for item in items), ""])


def _pod(shape: dict[str, str], quote: str, newline: str) -> str:
    quote = quote or '"'
    lines = ["kind: Pod", "spec:", "  containers:", "  - name: a", "    env:"]
    for knob, value in shape.items():
        lines += [f"    - name: MY_{SPELLING[knob]}", f"      value: {quote}{value}{quote}"]
    return newline.join([*lines, ""])


@given(shape=SHAPE, changes=CHANGES, quote=st.sampled_from(["", "'", '"']), newline=st.sampled_from(["\n",
                                                                                                     "\r\n"]),
       render=st.sampled_from([_env, _flags, _unit, _map, _list, _pod]), bom=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=400)
def test_an_edit_read_again_gives_what_was_asked(tmp_path: Path, shape: dict[str, str],
                                                 changes: dict[str, str | None], quote: str, newline: str,
                                                 render: object, bom: bool) -> None:
    assert callable(render)
    text = "\ufeff" * bom + render(shape, quote, newline)
    reading = read(tmp_path, text,
                   "x.sh" if render is _flags else "settings.env" if render is _env else "settings")
    mapped = map_settings(reading, NAMES)
    assert _values(mapped) == shape
    out = edit(reading, mapped, changes, spelling=SPELLING)
    refused = {knob for knob, _ in out.refused}
    wanted = dict(shape)
    for knob, value in changes.items():
        if knob not in refused and value is None:
            wanted.pop(knob, None)
        elif knob not in refused and value is not None:
            wanted[knob] = value
    if all(value is not None for value in changes.values()):
        assert not refused
    if not wanted:
        return  # nothing is left to read
    (file,) = reading.text
    Path(file).write_bytes(out.texts.get(file, text).encode())
    assert _values(map_settings(read_config([Path(file)]), NAMES)) == wanted


def _values(mapped: Mapped) -> dict[str, str | None]:
    return {knob: setting.value for knob, setting in mapped.knobs.items()}
