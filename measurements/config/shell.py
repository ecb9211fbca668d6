"""Shell scripts and bare command lines: assignments, arrays, and the commands that start a server."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from measurements.config.detect import dialect
from measurements.config.env import beside, read_env
from measurements.config.flags import Joint, Spaced, find_flags, has_long_flag, is_flag
from measurements.config.found import EnvReader, Found, Survey
from measurements.config.secrets import redact
from measurements.config.trace import Source, Stretch, Traced
from measurements.config.words import Array, Lexer, Operator, Variables, Word, assignment
from measurements.records import Place

_RESERVED: Final = frozenset(
    ("if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}"))
_OPENS: Final = {"if": 1, "case": 1, "fi": -1, "esac": -1}
_DECLARES: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_WRAPPERS: Final = frozenset({"exec", "command", "nohup", "sudo", "env", "time", "nice", "ionice"})
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_DASH_C: Final = re.compile(r"-[a-z]*c")
_CONTAINERS: Final = frozenset({"podman", "docker", "nerdctl"})
# Options of `podman run` and `docker run` that take no value; every other one does.
_NO_VALUE: Final = frozenset({
    "--detach", "--disable-content-trust", "--env-host", "--help", "--http-proxy", "--init", "--interactive",
    "--no-healthcheck", "--no-hostname", "--no-hosts", "--oom-kill-disable", "--passwd", "--privileged",
    "--publish-all", "--quiet", "--read-only", "--read-only-tmpfs", "--replace", "--rm", "--rmi", "--rootfs",
    "--sig-proxy", "--tls-verify", "--tty", "--use-api-socket"})
_SHORT_NO_VALUE: Final = re.compile(r"-[ditqP]+")
_DEEPEST: Final = 4


@dataclass(slots=True)
class _Script:
    source: Source
    survey: Survey
    variables: Variables
    scopes: set[str]
    arrays: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    depth: int = 0


def read_shell(source: Source, survey: Survey, text: Traced | None = None) -> None:
    """Add the settings of a shell script, a command line, or bare flags.

    Raises ReadError, with the line, on a quote or bracket without its end.
    """
    script = _Script(source, survey, Variables(), set())
    _read(script, text or Traced.of(source, 0, len(source.text)), "")


def read_argv(words: list[Word], joint: Joint, survey: Survey, variables: Variables, source: Source,
              scope: str) -> None:
    """Add the settings of one command line that belongs to ``scope``, such as a container's."""
    _command(_Script(source, survey, variables, set()), words, joint, scope)


def _read(script: _Script, text: Traced, scope: str) -> None:
    words, bare = list[Word](), list[Word]()
    starting, skip = True, False  # whether an assignment may still come; whether the next word is a file
    deep, chained = 0, False  # in how many ifs and cases; whether behind && or ||
    for token in Lexer(text, script.variables).tokens():
        if isinstance(token, Operator):
            skip = token.redirects
            if not skip:
                _finish(script, words, bare, scope)
                words, starting = [], True
                chained = token.text in ("&&", "||") or (chained and token.text not in ("\n", ";", "&", ";;"))
        elif skip:
            skip = False
        elif isinstance(token, Array):
            _keep_array(script, token)
            if deep or chained:
                _doubt(script, token.name, token.words)
        else:
            if not words:
                deep = max(deep + _OPENS.get(str(token), 0), 0)
            if not words and starting and str(token) in _RESERVED:
                continue
            if (not words or str(words[0]) in _DECLARES) and (assigned := assignment(token)) is not None:
                _assign(script, token, *assigned, scope)
                if deep or chained:
                    _doubt(script, assigned[0], [token])
            else:
                words.append(token)
        for name, value in script.variables.defaulted:
            _add_variable(script, name, value, scope)
        script.variables.defaulted.clear()
    _finish(script, words, bare, scope)
    if bare and script.scopes:
        at = script.survey.where(bare[0].value, bare[0].written) or script.source.place(0)
        script.survey.warn(at, "flags without a program before them are not read: a comment or a missing backslash "
                               "ends the command above them")
    elif bare:
        _command(script, bare, Spaced(bare), scope)
    for name, inside in script.arrays.items():
        if name not in script.variables.used and has_long_flag(inside):
            find_flags(inside, 0, Spaced(inside), script.survey, scope)
    for secret in script.variables.secrets:
        script.survey.hide(secret)


def _doubt(script: _Script, name: str, words: Sequence[Word]) -> None:
    """An assignment that only happens under a condition: read as if it held, and said so."""
    script.survey.doubtful += [word.written for word in words if word.written is not None]
    place = next((at for word in words if (at := script.survey.where(word.value, word.written))), None)
    if place is not None and script.depth == 0:
        script.survey.warn(place, f"{name} is set under a condition: read as if that held")


def _finish(script: _Script, words: list[Word], bare: list[Word], scope: str) -> None:
    if not words or str(words[0]) in _DECLARES:
        return
    if is_flag(str(words[0])):
        bare += words  # flags without a program, perhaps one a line: all belong together
    elif str(words[0]) in (".", "source") and len(words) > 1:
        _include(script, words[1], scope)
    else:
        _command(script, words, Spaced(words), scope)


def _keep_array(script: _Script, array: Array) -> None:
    before = script.variables.values.get(array.name) if array.more else None
    words = (before if isinstance(before, tuple) else ()) + array.words
    script.variables.values[array.name] = words
    script.arrays[array.name] = words


def _assign(script: _Script, word: Word, name: str, more: bool, value: Traced, scope: str) -> None:
    before = script.variables.values.get(name)
    if more and isinstance(before, Traced):
        value = Traced.join([before, value])
    script.variables.values[name] = value
    written = word.written
    assert written is not None  # an assignment stands together
    source, start, end = written
    line, stop = source.line_start(start), source.line_end(start)
    lead = source.text[line:start].lstrip("\ufeff")
    alone = not source.text[end:stop].strip() and re.fullmatch(r"\s*(?:export\s+)?", lead) is not None
    first = line + (source.text[line:start].startswith("\ufeff"))
    newline = source.newline(start)
    script.survey.add(Found(
        script.survey.setting(name, value, written, "env", scope, place=source.place(start)),
        Stretch(source, first, source.next_line(start)) if alone else None,
        Stretch(source, stop, stop) if alone else None,
        (lambda key, text: f"{newline}{lead}{key}={text}") if alone else None))


def _add_variable(script: _Script, name: str, value: Traced, scope: str) -> None:
    place = value.where(0)
    if place is not None:
        script.survey.add(Found(script.survey.setting(name, value, value.span(), "env", scope, place=place)))


def _include(script: _Script, word: Word, scope: str) -> None:
    place = script.survey.where(word.value, word.written) or script.source.place(0)
    read_beside(script.source, str(word), place.line or 1, script.survey, script.variables, scope, reader="a shell")


def read_beside(source: Source, written: str, line: int, survey: Survey, variables: Variables, scope: str, *,
                reader: EnvReader, optional: bool = False) -> None:
    """Add the settings of the env file that ``source`` names as ``written``; warn when it is not there.

    ``reader`` is who reads it when the server starts.
    """
    named = survey.beside(source.file, written)
    place = Place(source.file, line)
    if named is None:
        if not optional:
            survey.warn(place, f"the file {written} is not there, so its settings are not read")
    elif dialect(named) != "env":
        survey.warn(place, f"the file {written} is no env file, so its settings are not read")
    else:
        survey.included.add(named.file)
        survey.readers.setdefault(named.file, set()).add(reader)
        known = len(survey.found)
        read_env(named, survey, variables, scope)
        for setting in (found.setting for found in survey.found[known:]):
            for what, misread in beside(named, *setting.span).items() if setting.span and setting.direct else ():
                if reader in misread:
                    survey.warn(setting.place, f"{setting.key} has {what}, which {reader} {misread[reader]}")


def _program(words: list[Word]) -> int:
    """The index of the program among the words: wrappers, their options and assignments come before it."""
    for index, word in enumerate(words):
        text = str(word)
        if os.path.basename(text) not in _WRAPPERS and not is_flag(text) and "=" not in text:
            return index
    return 0


def _scope(script: _Script, name: str, line: int | None, scope: str) -> str:
    """A name of its own for one of a script's commands."""
    if scope:
        return scope
    name = name if name and name not in script.scopes else f"{name}@{line}"
    script.scopes.add(name)
    return name


def _command(script: _Script, words: list[Word], joint: Joint, scope: str) -> None:
    program = 0 if is_flag(str(words[0])) else _program(words)
    name = os.path.basename(str(words[program]))
    place = script.survey.where(words[program].value, words[program].written)
    line = place.line if place else None
    if name in _CONTAINERS and program + 1 < len(words):
        start = next((i for i in range(program + 1, len(words)) if str(words[i]) in ("run", "create")), None)
        if start is not None:
            _container(script, words, start + 1, joint, scope, line)
            return
    if name in _SHELLS and script.depth < _DEEPEST:
        for i in range(program + 1, len(words) - 1):
            if _DASH_C.fullmatch(str(words[i])):
                script.depth += 1
                _read(script, words[i + 1].value, scope)
                script.depth -= 1
                return
    for i in range(program):
        pair = assignment(words[i])
        if pair is not None:
            key, _, value = pair
            at = script.survey.where(words[i].value, words[i].written)
            if at is not None:
                script.survey.add(Found(script.survey.setting(key, value, words[i].written, "env", scope,
                                                              place=at)))
    if is_flag(str(words[0])):
        find_flags(words, 0, joint, script.survey, scope)
    elif has_long_flag(words):
        find_flags(words, program, joint, script.survey, _scope(script, name, line, scope))


def _container(script: _Script, words: list[Word], first: int, joint: Joint, scope: str,
               line: int | None) -> None:
    """``podman run``: its options, the image, and what the image is given."""
    i, name = first, ""
    pairs, files = list[tuple[int, int, Traced]](), list[tuple[str, int]]()
    while i < len(words) and str(words[i]).startswith("-"):
        start, text = i, str(words[i])
        i += 1
        if text == "--":
            break
        option, equals, _ = text.partition("=")
        if text.startswith("-e") and len(text) > 2:
            option, offset = "-e", 2
        elif equals and text.startswith("--"):
            offset = len(option) + 1
        elif option in _NO_VALUE or _SHORT_NO_VALUE.fullmatch(text) or (
                not text.startswith("--") and len(text) > 2):
            continue
        else:
            if i >= len(words):
                break
            offset = 0
            i += 1
        value = words[i - 1].value.cut(offset, len(str(words[i - 1])))
        if option in ("-e", "--env"):
            pairs.append((start, i - 1, value))
        elif option == "--env-file":
            at = script.survey.where(words[start].value, words[start].written)
            files.append((value.value, (at.line if at else None) or 1))
        elif option == "--name":
            name = value.value
    image = i if i < len(words) else None
    label = name or (os.path.basename(str(words[image])).partition(":")[0] if image is not None else "")
    scope = _scope(script, label, line, scope)
    for written, at_line in files:
        read_beside(script.source, written, at_line, script.survey, script.variables, scope,
                    reader="docker run --env-file")
    for start, last, pair in pairs:
        key, equals, value_text = pair.value.partition("=")
        at = script.survey.where(pair, words[last].written)
        if not equals or at is None:
            continue  # passed through from the script, where its assignment is read
        value = pair.cut(len(key) + 1, len(key) + 1 + len(value_text))
        setting = script.survey.setting(key, value, words[last].written, "env", scope, place=at)
        script.survey.add(Found(setting, joint.whole(start, last), joint.after(last),
                                lambda k, v: f" -e {k}={v}", joint.write(last, value)))
    if image is not None:
        at = script.survey.where(words[image].value, words[image].written)
        if at is not None:
            script.survey.images.append((redact(str(words[image])), at, scope))
        find_flags(words, image + 1, joint, script.survey, scope)
