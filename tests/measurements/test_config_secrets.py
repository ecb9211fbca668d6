from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measurements.config import map_settings, redact
from measurements.config.edit import edit, unified_diff
from measurements.config.secrets import SECRET, is_secret_key, is_secret_value
from measurements.records import ReadError
from tests.measurements.config_files import NAMES, SPELLING, attempt, read


@pytest.mark.parametrize("key", [
    "API_KEY", "RADIANCE_API_KEY", "--api-key", "apiKey", "HF_TOKEN", "--token", "ACCESS_TOKEN", "authToken",
    "DB_PASSWORD", "PGPASSWD", "ROOT_PW", "DB_PWD", "CLIENT_SECRET", "CREDENTIALS", "SSH_PRIVATE_KEY",
    "BASIC_AUTH", "AUTHORIZATION", "BEARER", "AWS_SECRET_ACCESS_KEY", "PASSPHRASE", "SIGNING_KEY"])
def test_keys_that_hold_secrets(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize("key", [
    "MAX_TOKENS", "MAX_TOKENS_CAP", "H_MAX_TOKENS_DEFAULT", "MAX_TOK", "TOKENIZER", "--tokenizer-mode",
    "NUM_TOKENS", "MAX_THINKING_TOKENS", "--num-speculative-tokens", "--max-num-batched-tokens",
    "BYTES_PER_TOKEN", "KEEPALIVE", "KV_CACHE_DTYPE", "MODEL", "PWD", "AUTHOR", "MONKEY", "KEYBOARD",
    "PASSES", "EOS_TOKEN_ID", ""])
def test_keys_that_do_not(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize("value", [
    "sk-abcdefghijkl", "ghp_abcdefghijkl", "hf_abcdefghijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "https://me:opensesame@example.org/x", "Bearer abcdefgh", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "kJ8sLq2Xv9Rt4Yw7Zb1Nc6Md3Pf5Hg0A", "--api-key opensesame", "API_KEY=opensesame"])
def test_values_that_are_secrets(value: str) -> None:
    assert is_secret_value(value)


@pytest.mark.parametrize("value", [
    "/models/qwen3.8-next-flash-fp8-iq4r-moe.rad", "Qwen3-Next-80B-A3B-Instruct-FP8-Dynamic", "0.0.0.0", "::",
    "http://example.org:8000/v1", "expert_tiered", "262144", "registry/x@sha256:" + "0a1b2c3d" * 8,
    "~/cache", "geometric-backoff", "/srv/cache/hub/snapshots/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    ""])
def test_values_that_are_not(value: str) -> None:
    assert not is_secret_value(value)


WORD = "opensesame"


@pytest.mark.parametrize("line", [
    f"API_KEY={WORD}", f"export API_KEY='{WORD} {WORD}'", f"API_KEY = {WORD} {WORD}", f"# API_KEY={WORD}",
    f'  api_key: "{WORD}"', f"- API_KEY={WORD}", f"radiance --api-key {WORD} --tp 2",
    f"radiance --api-key={WORD}",
    f'["--api-key", "{WORD}"]', f"[--api-key, {WORD}]", f"podman run -e API_KEY={WORD} x",
    f"curl -H 'Authorization: Bearer {WORD}' x", f'curl -H "Authorization: {WORD} {WORD}" x',
    f'Environment="API_KEY={WORD}" "A=2"', f"+API_KEY={WORD}", f"http://me:{WORD}@x",
    f'{{"token": "{WORD}"}}',
    f"- --api-key\n- {WORD}", f"- name: API_KEY\n  value: {WORD}", f"API_KEY:\n  {WORD}",
    f"API_KEY: |-\n  {WORD}",
    f'"--api-key",\n"{WORD}",', f"radiance --api-key \\\n  {WORD}", f"password: |\n\n  {WORD}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n{WORD}\n-----END RSA PRIVATE KEY-----",
    f"- name: DB_PASSWORD\n  value: |\n    {WORD}\n    {WORD}", f"secrets:\n  a: {WORD}\n  b: {WORD}",
    f"secrets: {{a: {WORD}, b: [{WORD}]}}", f'{{"a": {{"token": "{WORD} {WORD}"}}}}', f"ROOTPW={WORD}",
    f"curl -sf -u me:{WORD} http://x", f"http://x/y?a=1&X-Amz-Signature={WORD}&b=2",
    f"SHARE=https://x/y?sig={WORD}"])
def test_redacted_text_keeps_its_lines_and_loses_its_secrets(line: str) -> None:
    shown = redact(line)
    assert WORD not in shown
    assert SECRET in shown
    assert shown.count("\n") == line.count("\n")
    assert redact(shown) == shown


@pytest.mark.parametrize("line", [
    "--tp 2 --max-num-seqs 8", "MAX_TOKENS=8192", "tokenizer: /models/x", "+  H_CTX: \"4096\"", "", " ",
    "- --tp",
    "image: registry/hal:0.13.0", "- {name: H, valueFrom: {secretKeyRef: {name: llm, key: token}}}",
    "valueFrom:\n  configMapKeyRef:\n    name: llm\n    key: HALOGEN_CTX", "podman run --user 1000:1000 x",
    "services:\n  llm-auth:\n    image: registry/hal:0.13.0\n    environment:\n      H_CTX: 4096",
    "- name: HF_TOKEN\n  valueFrom:\n    secretKeyRef:\n      name: llm\n      key: token"])
def test_what_is_no_secret_stays(line: str) -> None:
    assert redact(line) == line


def test_only_the_secret_goes_from_a_command_line() -> None:
    assert redact(f"--api-key {WORD} --tp 2") == "--api-key <secret> --tp 2"
    assert redact(f"--api-key='{WORD}' --tp 2") == "--api-key='<secret>' --tp 2"


def test_json_stays_json() -> None:
    text = json.dumps({"env": {"HF_TOKEN": f"{WORD} {WORD}", "CTX": "4096", "API_KEY": WORD}, "auth": {"pw": WORD}})
    assert json.loads(redact(text)) == {"env": {"HF_TOKEN": SECRET, "CTX": "4096", "API_KEY": SECRET},
                                        "auth": SECRET}
    spread = json.dumps({"auth": {"pw": WORD}, "n": 1}, indent=2)
    assert json.loads(redact(spread)) == {"auth": {"pw": SECRET}, "n": 1}


@pytest.mark.parametrize(("line", "shown"), [
    (f'- "proxy.auth.users={WORD}:$$apr1$$x/"', '- "proxy.auth.users=<secret>"'),
    (f"- 'A_TOKEN={WORD} it''s'  # ours", "- 'A_TOKEN=<secret>'  # ours"),
    (f'["A_TOKEN={WORD} b", "CTX=4"]', '["A_TOKEN=<secret>", "CTX=4"]'),
    (f'- "A_TOKEN={WORD}\\"{WORD}"\r', '- "A_TOKEN=<secret>"\r'),
    (f'"A_TOKEN={WORD}"b"{WORD}"', '"A_TOKEN=<secret>"'),
    (f'"A_TOKEN={WORD}', '"A_TOKEN=<secret>'),
    ('- "A_TOKEN="', '- "A_TOKEN="'), ('- "A_TOKEN=$A_TOKEN"', '- "A_TOKEN=$A_TOKEN"'),
])
def test_quotes_around_key_and_value_stay_closed(line: str, shown: str) -> None:
    assert redact(line) == shown


def test_random_bytes_in_base64_with_its_own_marks() -> None:
    assert redact("seen yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk= here") == "seen <secret> here"
    for line in ("path=/models/some/longer/folder=", "=" * 40, "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o="):
        assert redact(line) == line


def test_a_key_that_never_ends_takes_nothing_else_along() -> None:
    shown = redact(f"K='-----BEGIN PRIVATE KEY-----'\nMIIE{WORD}\nAB==\nCTX=4096\nlistening on 8080\n")
    assert WORD not in shown
    assert shown.endswith("\nCTX=4096\nlistening on 8080\n")


@given(st.text(max_size=200))
def test_any_text_can_be_redacted(text: str) -> None:
    assert redact(text).count("\n") == text.count("\n")


FILES = [
    ("x.env", "A_API_KEY={0}\nA_CTX=1\nNOTE=--api-key {0}\n"),
    ("x.env", "A_CTX=${{HF_TOKEN:-{0}}}\nA_TP=2\n"),
    ("x.env", "HF_TOKEN={0}\nA_CTX=$HF_TOKEN\nA_TP=2\n"),
    ("s.sh", "export PASSWORD='{0}'\nradiance --tp 2 --ctx ${{PASSWORD}} --url http://a:{0}@b\n"),
    ("s.sh", "KEYS=(--api-key {0})\nradiance \"${{KEYS[@]}}\" --tp 2 --api-key '{0}'\n"),
    ("s.sh", "podman run -e API_KEY={0} --env TOKEN='{0}' http://a:{0}@registry/x --tp 2\n"),
    ("c.yml", "services:\n  a:\n    command:\n      - --api-key\n      - {0}\n      - --tp\n      - 2\n"
              "    environment:\n      SECRET: |\n        {0}\n        {0}\n"),
    ("c.yml", "services:\n  a:\n    environment: {{PASSWORD: {0}, TP: 2}}\n"),
    ("p.yml", "kind: Secret\nstringData:\n  x: {0}\n---\nkind: Pod\nspec:\n  containers:\n  - name: a\n"
              "    env:\n    - name: API_KEY\n      value: {0}\n    args: [--tp, '2']\n"),
    ("u.service", "[Service]\nEnvironment=\"API_KEY={0}\" TP=2\nExecStart=radiance --tp 2 --token {0}\n")]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_no_secret_leaves_a_reader(tmp_path: Path, name: str, text: str) -> None:
    reading = read(tmp_path, text.format(WORD), name)
    mapped = map_settings(reading, NAMES)
    changed = edit(reading, mapped, {"tp": "4", "ctx": "77", "max_num_seqs": "9"}, spelling=SPELLING)
    for shown in (repr(reading.settings), repr(reading.warnings), repr(reading.images), repr(mapped),
                  repr(changed.refused), unified_diff(reading, changed)):
        assert WORD not in shown
    assert changed.texts
    assert all(WORD in new for new in changed.texts.values())
    assert SECRET in repr(reading.settings)
    assert any(setting.secret for setting in reading.settings)
    assert all(setting.span is None for setting in reading.settings if setting.secret)


@given(place=st.integers(0, 400), junk=st.sampled_from(["'", '"', "\n", "\\", "${", "`", ": ", "\t", "[", "&",
                                                        "#", "="]),
       which=st.sampled_from(FILES))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
def test_no_error_shows_a_secret(tmp_path: Path, place: int, junk: str, which: tuple[str, str]) -> None:
    name, text = which
    text = text.format(WORD)
    place %= len(text)
    out = attempt(tmp_path, (text[:place] + junk + text[place:]).encode(), name)
    if isinstance(out, ReadError):
        assert WORD not in repr(out) + out.message
        assert out.__suppress_context__ or out.__context__ is None
    else:
        assert WORD not in repr(out.warnings)


@pytest.mark.parametrize(("key", "secret"), [
    ("MYPASS", True), ("DB_PASS", True), ("SMTPPASS", True), ("CACHE_BYPASS", False), ("COMPASS", False),
])
def test_keys_that_end_in_pass(key: str, secret: bool) -> None:
    from measurements.config.secrets import is_secret_key

    assert is_secret_key(key) is secret
