"""What looks like a secret, and how it is kept out of everything that is shown."""

from __future__ import annotations

import re
from collections import Counter
from math import log2
from typing import Final

SECRET: Final = "<secret>"

_PARTS = re.compile(r"[A-Za-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_JOINED = ("APIKEY", "ACCESSKEY", "PRIVATEKEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
_WHOLE = {"AUTH", "OAUTH", "AUTHORIZATION", "BEARER", "PASS", "PW", "CREDS", "JWT", "COOKIE"}
# "token" counts text far more often than it opens doors: these neighbours say that it counts.
_COUNTING = {"MAX", "MIN", "NUM", "PER", "ID", "IDS", "LIMIT", "BUDGET", "COUNT", "LEN", "LENGTH", "STOP",
             "EOS", "BOS", "PAD", "TOP", "BYTES"}

# What ends so (`secretKeyRef`) says where something stands.
_POINTING = {"REF", "REFS"}

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_\-]{6,}|gh[pousr]_[A-Za-z0-9]{6,}|github_pat_[A-Za-z0-9_]{6,}"
    r"|hf_[A-Za-z0-9]{6,}|glpat-[A-Za-z0-9_\-]{6,}|xox[abeprs]-[A-Za-z0-9\-]{6,}|AKIA[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_\-]{20,}|nvapi-[A-Za-z0-9_\-]{6,}|eyJ[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*){1,4})")
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=\-]{6,})")
_LOGIN = re.compile(r"(://)[^\s/@'\"]+@")
_SIGNED = re.compile(r"(?i)([?&](?:sig|signature|[\w\-]+-signature)=)[^&\s\"'<>]+")
_BLOB = re.compile(r"(?<![A-Za-z0-9+/_=.~:\-])[A-Za-z0-9+/_=\-]{20,}")
_AFTER_COLON_OR_EQUALS = re.compile(r"(?<=[=:])[A-Za-z0-9+/_=\-]{20,}")
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")

_WORD = r"""(?:"(?:\\.|[^"\\])*"?|'[^']*'?|\\.|[^\s"'\\])"""
_FLAG = re.compile(r"(?P<key>(?<![A-Za-z0-9_\-])--?[A-Za-z][A-Za-z0-9_\-]*)"
                   r"(?P<gap>=|[ \t]+(?!-)|[\"'][ \t]*,[ \t]*(?=[\"'])|[ \t]*,[ \t]*)"
                   rf"(?P<value>{_WORD}+)")
_PAIR = re.compile(r"(?<![A-Za-z0-9_.\-])(?P<key>[A-Za-z_][A-Za-z0-9_.\-]*)[\"']?[ \t]*[=:][ \t]*(?=\S)")
_REFERENCE = re.compile(r"[\"']?\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|\([A-Za-z_]\w*\))[\"'\]}),]*", re.ASCII)
_QUOTE = re.compile(r"[\"']")
_LEAD = re.compile(r"[ \t+#;\-]*(?:export[ \t]+)?[\"']?")
_BLOCK = re.compile(r"[|>][+\-0-9]*$")
_PEM_LINE = re.compile(r"[\s\"'+#\-]*(?:[\w.\-]+ *\| ?)?(?:[A-Za-z0-9+/]+={0,2}[\s\"',\\]*$|(?:Proc-Type|DEK-Info):)")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'")
# Up to a quote that closes a text, and not one in its middle.
_CLOSING: Final = {'"': re.compile(r'(?:\\.|[^\\"]|"(?![\s,;\]})]|$))*(?=")'),
                   "'": re.compile(r"(?:''|[^']|'(?![\s,;\]})]|$))*(?=')")}
_BEHIND = re.compile(r"[ \t]*(?:[,\]}\"'].*|#.*)?\r?$")
_CURL_USER = re.compile(r"(\bcurl\b.*?[ \t](?:-u|--user|--proxy-user)(?:=|[ \t]+)[\"']?[^\s:\"']+:)[^\s\"']+")
_LAST_KEY = re.compile(r"(?<![A-Za-z0-9_.\-])-*[A-Za-z_][A-Za-z0-9_.\-]*$")
_NAMED = re.compile(r"(?:^|[\s{\-])name[\"']?[ \t]*:[ \t]*[\"']?$")
_NAMED_LINE = re.compile(r"[\s{+\-]*name[\"']?[ \t]*:")
_DONE = re.compile(rf"[\"']?{SECRET}[\"'\]}},\s]*")
_FIRST_WORD = re.compile(rf"(?:(?:Bearer|Basic)[ \t]+)?{_WORD}+", re.IGNORECASE)
_VALUE_LINE = re.compile(r"(?P<lead>[ \t+\-]*)(?P<value>.+?)(?=\r?$)")
_MAPPED_LINE = re.compile(r"(?P<lead>[ \t+\-]*(?P<key>(?:\"[\w.\-]+\"|'[\w.\-]+'|[A-Za-z_][\w.\-]*)[ \t]*"
                          r":(?=[ \t\r]|$)[ \t]*)?)(?P<value>[^\r\n]*)")
_SECTION = re.compile(r"(?i)[ \t+\-]*[\"']?[\w.\-]*(?:secrets?|credentials|passwords|tokens)[\"']?[ \t]*:$")


def is_secret_key(key: str) -> bool:
    """Whether a setting of this name usually holds a secret."""
    parts = [part.upper() for part in _PARTS.findall(_CAMEL.sub("_", key))]
    if parts and parts[-1] in _POINTING:
        return False
    joined = "".join(parts)
    if any(word in joined for word in _JOINED) or not _WHOLE.isdisjoint(parts):
        return True
    if any(part.endswith(("PASS", "PW")) and part not in ("BYPASS", "COMPASS") for part in parts):
        return True
    if parts and (parts[-1] in ("KEY", "KEYS") or (parts[-1] == "PWD" and len(parts) > 1)):
        return True
    return any(part.endswith("TOKEN") for part in parts) and _COUNTING.isdisjoint(parts)


def is_secret_value(value: str) -> bool:
    """Whether text holds something that looks like a key, a password in a URL, or a setting of one."""
    return redact(value) != value


def redact(text: str) -> str:
    """``text`` with everything that looks like a secret replaced by ``<secret>``; line breaks stay."""
    lines = []
    key = False  # inside a private key
    waiting = False  # the line before named a secret and left its value to this one
    block: int | None = None  # a secret's text goes on while lines are indented more than this
    under: int | None = None  # so does what is mapped below a secret's name
    named = False  # and did so as `name: KEY`, whose value has a key of its own
    pointing: int | None = None  # so does what says where another setting stands
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            lines.append(line)
            continue
        block, under, pointing = (None if end is None or indent <= end else end for end in (block, under, pointing))
        if _PEM.search(line) is not None:
            key = True
        elif key and "-----END" not in line and not _PEM_LINE.match(line):
            key = False  # it was never closed, or only spoken of
        if key or block is not None:
            lines.append(_VALUE_LINE.sub(rf"\g<lead>{SECRET}", line, count=1))
            key, waiting = key and "-----END" not in line, False
            continue
        if pointing is not None:
            lines.append(_line(line, named=False))
            continue
        if waiting or under is not None:
            match = _MAPPED_LINE.match(line)
            value = match["value"].rstrip() if match else ""
            section = waiting and not named and match is not None and match["key"] and under is None
            waiting = False
            if not section:  # else what looked like a secret's name is that of a whole part: its lines have their own
                if _BLOCK.fullmatch(value):
                    block = indent
                lines.append(line if not match or not value or _BLOCK.fullmatch(value) or _REFERENCE.fullmatch(value)
                             else f"{match['lead']}{SECRET}{line[match.end():]}")
                continue
        bare = line.rstrip()
        waiting, named = _leaves_open(line), _NAMED_LINE.match(line) is not None
        if waiting and _BLOCK.search(bare):
            block = indent
        elif waiting and _SECTION.match(bare):
            under = indent
        elif bare.endswith(":") and _points(bare.lstrip(" -")[:-1]):
            pointing = indent
        lines.append(_line(line))
    return "\n".join(lines)


def _points(key: str) -> bool:
    parts = _PARTS.findall(_CAMEL.sub("_", key))
    return bool(parts) and parts[-1].upper() in _POINTING


def _leaves_open(line: str) -> bool:
    """Whether a line ends in a secret's key, so that its value must stand on the next."""
    text = _BLOCK.sub("", line[-256:].rstrip()).rstrip(" \t\\").rstrip(":=,").rstrip(" \t").rstrip("\"'")
    match = _LAST_KEY.search(text)
    if match is None or not is_secret_key(match[0]):
        return False
    before = text[:match.start()]
    alone = len(line) <= 256 and not before.strip(" \t+-\"'")
    return alone or match[0].startswith("--") or _NAMED.search(before) is not None


def _line(line: str, *, named: bool = True) -> str:
    """``line`` without secrets: words that look like one, and with ``named`` the values of what is called one."""
    line = _SHAPES.sub(SECRET, line)
    line = _LOGIN.sub(rf"\1{SECRET}@", line)
    line = _SIGNED.sub(rf"\1{SECRET}", line)
    line = _CURL_USER.sub(rf"\1{SECRET}", line)
    if named:
        line = _pairs(_FLAG.sub(_flag, line))
    line = _BEARER.sub(rf"\1\2{SECRET}", line)
    line = _BLOB.sub(_blob, line)
    return _AFTER_COLON_OR_EQUALS.sub(_blob, line)


def _flag(match: re.Match[str]) -> str:
    if not is_secret_key(match["key"]):
        return match[0]
    return match["key"] + match["gap"] + _hide(match["value"])


def _hide(value: str) -> str:
    if _REFERENCE.fullmatch(value):  # the name of a secret, not the secret
        return value
    quote = value[0] if value[0] in "\"'" else ""
    bare = value.rstrip("]}),")  # what closes the list around a value is not part of it
    closing = quote if quote and len(bare) > 1 and bare.endswith(quote) else ""
    return f"{quote}{SECRET}{closing}{value[len(bare):]}"


def _pairs(line: str) -> str:
    out = []
    position = counted = quotes = 0
    lead = _LEAD.match(line)
    first = lead.end() if lead else 0
    while (match := _PAIR.search(line, position)) is not None:
        start = match.end()
        out.append(line[position:start])
        position = start  # a value may itself begin with a secret's name: look again right behind this key
        flow = _flow_end(line, start)
        if not is_secret_key(match["key"]):
            if flow is not None and _points(match["key"]):
                out.append(line[start:flow])
                position = flow
            continue
        quotes += line.count('"', counted, match.start()) + line.count("'", counted, match.start())
        counted = match.start()
        word = _FIRST_WORD.match(line, start)
        if _DONE.fullmatch(line, start) or line[start:].rstrip() in ("{", "["):
            continue
        name = match.start("key")
        before = line[name - 1] if name and line[name - 1] in "\"'" else ""
        own = before if line[match.end("key")] == before else ""
        quoted = _QUOTED.match(line, start) if own else None
        if quoted is not None:  # as JSON has it
            out.append(f"{line[start]}{SECRET}{line[start]}")
            position = quoted.end()
        elif flow is not None:
            out.append(f"{own}{SECRET}{own}")
            position = flow
        elif before and not own:  # key and value stand in quotes together, as in a list of KEY=VALUE
            closing = _CLOSING[before].match(line, start)
            position = closing.end() if closing else len(line.rstrip("\r"))
            out.append(_hide(line[start:position]) if position > start else "")
        elif match.start("key") <= first or word is None:
            # A value at the start of a line may hold spaces: all of it goes.
            out.append(_hide(line[start:].rstrip()))
            position = len(line.rstrip("\r"))
        elif quotes % 2:
            closing = _QUOTE.search(line, start + 1)
            out.append(SECRET)
            position = closing.start() if closing else len(line.rstrip("\r"))
        else:
            out.append(_hide(word[0]))
            position = word.end()
    out.append(line[position:])
    return "".join(out)


def _flow_end(line: str, start: int) -> int | None:
    """Where a list or mapping that begins at ``start`` ends; None where none does, or other text follows it."""
    if line[start] not in "[{":
        return None
    depth = 0
    for place in range(start, len(line)):
        depth += (line[place] in "[{") - (line[place] in "]}")
        if depth == 0:
            return place + 1 if _BEHIND.match(line, place + 1) else None
    return None


def _blob(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith(("/", "--")) or match.string[:match.start()].endswith("sha256:"):
        return text
    run = _RUN.search(text)
    padded = text.endswith("=") and len(text) % 4 == 0  # base64 has its own marks in between
    if run is None and not padded:
        return text
    judged = text if run is None else run[0]
    kinds = sum(any(test(c) for c in judged) for test in (str.isupper, str.islower, str.isdigit))
    if run is None and kinds < 3:
        return text
    mixed = kinds >= 2 and any(c.isdigit() for c in judged)
    counts = Counter(judged)
    entropy = -sum(n / len(judged) * log2(n / len(judged)) for n in counts.values())
    return SECRET if (mixed or kinds == 2) and len(text) >= 24 and entropy > 3.0 else text
