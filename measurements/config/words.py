"""Shell words: quotes, escapes, continuation lines and variables, with the place of every character."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from measurements.config.secrets import SECRET, is_secret_key
from measurements.config.trace import Stretch, Traced
from measurements.records import ReadError

_MOST_EXPANDED: Final = 4_000_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<more>\+?)=")
_PLAIN = re.compile(r"[^\s\\'\"$`#;&|()<>]+")
_INSIDE_DOUBLE = re.compile(r"[^\\\"$`]+")
_OPERATOR = re.compile(r"<<-|<<<|<<|&>>|&>|>>|>&|<&|<>|>\||&&|\|\||;;|[;&|()<>]")
_REDIRECTS: Final = frozenset({"<<<", "&>>", "&>", ">>", ">&", "<&", "<>", ">|", "<", ">"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its value, and the stretch that writes it, quotes included (None: not in one place)."""

    value: Traced
    written: Stretch | None

    def __str__(self) -> str:
        return self.value.value


@dataclass(frozen=True, slots=True)
class Array:
    """``NAME=( words )``; ``more`` when it was ``+=``."""

    name: str
    more: bool
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """What separates commands or redirects them; a line break is one too."""

    text: str

    @property
    def redirects(self) -> bool:
        """Whether the next word is a file, not an argument."""
        return self.text in _REDIRECTS


@dataclass(slots=True)
class Variables:
    """What was assigned so far. Variables whose names look like secrets never give their value."""

    values: dict[str, Traced | tuple[Word, ...]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    defaulted: list[tuple[str, Traced]] = field(default_factory=list)
    secrets: list[Traced] = field(default_factory=list)
    expanded: int = 0

    def get(self, name: str) -> Traced | tuple[Word, ...] | None:
        """The value of ``name``; None when nothing assigned it."""
        value = self.values.get(name)
        if value is None:
            return None
        self.used.add(name)
        if is_secret_key(name):
            return Traced.bare(SECRET)
        self.expanded += len(value.value) if isinstance(value, Traced) else 64 * len(value)
        if self.expanded > _MOST_EXPANDED:
            raise ReadError("its variables expand without end: write the values out")
        return value


class Lexer:
    """Splits traced text into words the way a shell does.

    Without ``operators`` there are only words (a systemd line, a compose command); without ``expand`` a ``$``
    is an ordinary character; ``doubled`` makes ``$$`` a plain ``$``, as compose has it. Assignments that the
    caller makes in ``variables`` count from the next word on.
    Raises ReadError, with the line, on an unclosed quote, bracket or brace.
    """

    def __init__(self, text: Traced, variables: Variables, *, operators: bool = True, expand: bool = True,
                 doubled: bool = False) -> None:
        self.text = text
        self.code = text.value
        self.variables = variables
        self.operators = operators
        self.expand = expand
        self.doubled = doubled

    def words(self) -> list[Word]:
        """All words; for text that is one list of them."""
        return [token for token in self.tokens() if isinstance(token, Word)]

    def tokens(self) -> Iterator[Word | Array | Operator]:
        """Words, arrays and operators in order."""
        code, i, heredocs = self.code, 0, list[tuple[str, bool]]()
        while i < len(code):
            character = code[i]
            if character == "\n":
                i += 1
                for delimiter, tabs in heredocs:
                    i = self._skip_heredoc(i, delimiter, tabs)
                heredocs.clear()
                if self.operators:
                    yield Operator("\n")
            elif character.isspace() or character == "\ufeff":
                i += 1
            elif continued := self._continuation(i):
                i += continued
            elif character == "#" and self.operators:
                end = code.find("\n", i)
                i = len(code) if end < 0 else end
            elif self.operators and (operator := _OPERATOR.match(code, i)):
                i = operator.end()
                if operator[0] in ("<<", "<<-"):
                    delimiter_word, i = self._heredoc_word(i)
                    heredocs.append((delimiter_word, operator[0] == "<<-"))
                else:
                    yield Operator(operator[0])
            else:
                words, end = self._word(i)
                raw = code[i:end]
                if self.operators and raw.isdigit() and code[end:end + 1] in ("<", ">"):
                    i = end  # the number of a file, not an argument
                    continue
                match = _ASSIGNMENT.fullmatch(raw)
                if self.operators and match and code[end:end + 1] == "(":
                    inside, i = self._array(end)
                    yield Array(match["name"], bool(match["more"]), tuple(inside))
                else:
                    i = end
                    yield from words

    def all(self) -> Traced:
        """The whole text as the inside of double quotes: variables replaced, nothing split, no escapes."""
        parts, i = list[Traced](), 0
        while i < len(self.code):
            end = self.code.find("$", i)
            if end != i:
                stop = len(self.code) if end < 0 else end
                parts.append(self.text.cut(i, stop))
                i = stop
            else:
                value, i = self._parameter(i)
                parts.append(_glue(value))
        return Traced.join(parts) if parts else self.text

    def _fail(self, offset: int, message: str) -> ReadError:
        place = self.text.where(offset)
        return ReadError(message, file=place.file if place else None, line=place.line if place else None)

    def _continuation(self, i: int) -> int:
        if self.code.startswith("\\\n", i):
            return 2
        return 3 if self.code.startswith("\\\r\n", i) else 0

    def _heredoc_word(self, i: int) -> tuple[str, int]:
        match = re.compile(r"[ \t]*([^\s;&|()<>]*)").match(self.code, i)
        assert match is not None  # every part of it may be empty
        return match[1].strip("'\"").replace("\\", ""), match.end()

    def _skip_heredoc(self, i: int, delimiter: str, tabs: bool) -> int:
        while i < len(self.code):
            end = self.code.find("\n", i)
            stop = len(self.code) if end < 0 else end
            line = self.code[i:stop].rstrip("\r")
            i = min(stop + 1, len(self.code))
            if (line.lstrip("\t") if tabs else line) == delimiter:
                break
        return i

    def _array(self, start: int) -> tuple[list[Word], int]:
        words, i = list[Word](), start + 1
        while i < len(self.code):
            character = self.code[i]
            if character == ")":
                return words, i + 1
            if character.isspace():
                i += 1
            elif continued := self._continuation(i):
                i += continued
            elif character == "#":
                end = self.code.find("\n", i)
                i = len(self.code) if end < 0 else end
            elif character in ";&|(<>":
                i += 1
            else:
                more, i = self._word(i)
                words += more
        raise self._fail(start, "a ( without its ): close the list")

    def _word(self, start: int) -> tuple[list[Word], int]:
        """The word at ``start``: several when an unquoted variable holds several, none when it is empty."""
        code, i = self.code, start
        plain = _PLAIN.match(code, start)
        if plain is not None and (plain.end() == len(code) or code[plain.end()].isspace()):
            whole = self.text.cut(start, plain.end())
            return [Word(whole, whole.span())], plain.end()
        parts = list[tuple[Traced | tuple[Word, ...], bool]]()
        while i < len(code):
            character = code[i]
            if character.isspace() or (self.operators and character in ";&|()<>"):
                break
            if continued := self._continuation(i):
                i += continued
            elif character == "\\":
                parts.append((Traced.bare(code[i + 1:i + 2]), False))
                i = min(i + 2, len(code))
            elif character == "'":
                end = code.find("'", i + 1)
                if end < 0:
                    raise self._fail(i, "a quote ' without its end: close it")
                parts.append((self.text.cut(i + 1, end), False))
                i = end + 1
            elif character == '"':
                inside, i = self._double(i)
                parts += inside
            elif character == "`":
                end = code.find("`", i + 1)
                if end < 0:
                    raise self._fail(i, "a backquote ` without its end: close it")
                parts.append((Traced.bare(code[i:end + 1]), False))
                i = end + 1
            elif character == "$" and self.expand:
                value, end = self._parameter(i)
                # What nobody assigned stays as written, and is then one word like any other text.
                opaque = isinstance(value, Traced) and value.value == code[i:end]
                parts.append((value, not opaque))
                i = end
            else:
                match = _PLAIN.match(code, i)
                end = match.end() if match else i + 1
                parts.append((self.text.cut(i, end), False))
                i = end
        return self._fields(parts, start, i), i

    def _double(self, start: int) -> tuple[list[tuple[Traced | tuple[Word, ...], bool]], int]:
        code, i = self.code, start + 1
        # The empty cut says where an empty value stands.
        parts: list[tuple[Traced | tuple[Word, ...], bool]] = [(self.text.cut(i, i), False)]
        while i < len(code):
            character = code[i]
            if character == '"':
                return parts, i + 1
            if continued := self._continuation(i):
                i += continued
            elif character == "\\" and code[i + 1:i + 2] in ("$", "`", '"', "\\"):
                parts.append((Traced.bare(code[i + 1]), False))
                i += 2
            elif character == "$" and self.expand:
                value, i = self._parameter(i)
                parts.append((value, False))
            else:
                match = _INSIDE_DOUBLE.match(code, i)
                end = match.end() if match else i + 1
                parts.append((self.text.cut(i, end), False))
                i = end
        raise self._fail(start, 'a quote " without its end: close it')

    def _fields(self, parts: Sequence[tuple[Traced | tuple[Word, ...], bool]], start: int,
                end: int) -> list[Word]:
        written = self.text.cut(start, end).span()
        solid = [part for part, _ in parts if not isinstance(part, Traced) or part.value]
        if len(solid) == 1 and not isinstance(solid[0], Traced):
            return list(solid[0])
        if not any(split and isinstance(part, Traced) and (not part.value or _has_space(part.value))
                   for part, split in parts):
            return [Word(Traced.join(_glue(part) for part, _ in parts), written)]
        fields = list[list[Traced]]()
        joined = False  # whether the next characters belong to the last field
        for part, split in parts:
            traced = _glue(part)
            if not split:
                if joined:
                    fields[-1].append(traced)
                else:
                    fields.append([traced])
                joined = True
                continue
            for match in re.finditer(r"\S+", traced.value):
                token = traced.cut(*match.span())
                if joined and match.start() == 0:
                    fields[-1].append(token)
                else:
                    fields.append([token])
                joined = match.end() == len(traced.value)
            if traced.value[-1:].isspace():
                joined = False
        values = [Traced.join(field) for field in fields]
        return [Word(value, value.span()) for value in values]

    def _parameter(self, i: int) -> tuple[Traced | tuple[Word, ...], int]:
        """What stands for the ``$`` at ``i``, and where the text goes on."""
        code = self.code
        following = code[i + 1:i + 2]
        if following == "$" and self.doubled:
            return Traced.bare("$"), i + 2
        if following == "(":
            end = self._closing(i + 1, "(", ")")
            return Traced.bare(code[i:end]), end
        if following == "{":
            end = self._closing(i + 1, "{", "}")
            return self._braces(i, end), end
        name = _NAME.match(code, i + 1)
        if name is None:
            end = i + 2 if following and following in "@*#?$!-0123456789" else i + 1
            return Traced.bare(code[i:end]), end
        value = self.variables.get(name[0])
        return (Traced.bare(code[i:name.end()]) if value is None else value), name.end()

    def _braces(self, i: int, end: int) -> Traced | tuple[Word, ...]:
        code = self.code
        as_written = Traced.bare(code[i:end])
        name = _NAME.match(code, i + 2, end - 1)
        if name is None:
            return as_written
        rest = name.end()
        if code[rest:end - 1] in ("[@]", "[*]"):
            rest = end - 1
        value = self.variables.get(name[0])
        if rest == end - 1:
            return as_written if value is None else value
        colon = code[rest] == ":"
        operator = code[rest + colon:rest + colon + 1]
        empty = value is None or (colon and isinstance(value, Traced) and not value.value)
        if operator not in ("-", "=", "?", "+") or rest + colon >= end - 1:
            return as_written
        if operator == "+":
            return Traced.bare("") if empty else self._default(rest + colon + 1, end - 1)
        if not empty:
            assert value is not None
            return value
        if operator == "?":
            return as_written
        default = self._default(rest + colon + 1, end - 1)
        if operator == "=":
            self.variables.values[name[0]] = default
            self.variables.defaulted.append((name[0], default))
        if is_secret_key(name[0]):
            self.variables.secrets.append(default)
            return Traced.bare(SECRET)
        return default

    def _default(self, start: int, end: int) -> Traced:
        """The word after ``:-``: quotes go, variables are replaced, spaces stay."""
        inner = Lexer(self.text.cut(start, end), self.variables, operators=False, expand=self.expand,
                      doubled=self.doubled)
        code = inner.code
        if not code:
            return inner.text
        if not any(character in code for character in "\\'\"`"):
            return inner.all()
        words, stop = inner._word(0)
        # Quotes with spaces outside of them have no one place that an edit could change.
        return words[0].value if len(words) == 1 and stop == len(code) else Traced.bare(code)

    def _closing(self, i: int, opening: str, closing: str) -> int:
        """The offset after the bracket that closes the one at ``i``."""
        code, depth, j = self.code, 0, i
        special = re.compile(rf"[\\'\"{re.escape(opening + closing)}]")
        while (match := special.search(code, j)) is not None:
            character, j = match[0], match.end()
            if character == "\\":
                j += 1
            elif character == "'" or character == '"':
                end = code.find(character, j)
                # An apostrophe in plain words closes nothing; a real quote has its partner on the line.
                if end >= 0 and "\n" not in code[j:end]:
                    j = end + 1
            else:
                depth += 1 if character == opening else -1
                if depth == 0:
                    return j
        raise self._fail(i, f"a ${opening} without its {closing}: close it")


def _glue(value: Traced | tuple[Word, ...]) -> Traced:
    return value if isinstance(value, Traced) else Traced.bare(" ".join(str(word) for word in value))


def _has_space(text: str) -> bool:
    return any(character.isspace() for character in text)


def assignment(word: Word) -> tuple[str, bool, Traced] | None:
    """Name, whether it is ``+=``, and value of ``NAME=value``; None when the word is something else."""
    match = _ASSIGNMENT.match(str(word))
    if match is None or word.written is None:
        return None
    source, start, _ = word.written
    if not source.text.startswith(match[0], start):
        return None  # the name was quoted, so a shell takes it for a command
    return match["name"], bool(match["more"]), word.value.cut(match.end(), len(str(word)))
