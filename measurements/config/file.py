"""Reading a file as text, with an error that says what would be right."""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from measurements.records import ReadError

MOST_BYTES: Final = 16 * 1024 * 1024
#: What a byte that is not UTF-8 becomes.
ODD: Final = re.compile(r"[\udc80-\udcff]")
_IN_COMMENT: Final = re.compile(r"(?:\ufeff?\s*;|(?:.*\s)?\ufeff?#)")


def load(file: str) -> str:
    """The text of ``file``, byte order mark and line ends included.

    Raises ReadError when it is missing, a folder, empty, not readable, larger than 16 MiB or not text (see
    :func:`decode`).
    """
    try:
        if os.path.isdir(file):
            raise ReadError("this is a folder: name the configuration file in it", file=file)
        with open(file, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ReadError("no such file: name an env file, a script, a unit, or a compose or Kubernetes file",
                        file=file) from None
    except PermissionError:
        raise ReadError("no permission to read this file: make it readable", file=file) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable file name"
        raise ReadError(f"cannot be read ({reason.lower()}): name a regular text file", file=file) from None
    text = decode(data, file)
    if not text.strip("\ufeff \t\r\n"):
        raise ReadError("this file is empty: it should hold the server's settings", file=file)
    return text


def load_if_there(file: str) -> str | None:
    """The text of ``file``, or None when there is no regular file of that name. Raises as ``load``."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            return None
    except (OSError, ValueError):
        return None
    try:
        with open(file, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError:
        raise ReadError("this file cannot be read: make it readable", file=file) from None
    return decode(data, file)


def decode(data: bytes, file: str) -> str:
    """``data`` as text, character for character; :func:`encode` gives the same bytes back.

    Bytes that are not UTF-8 may stand in comments: each becomes a lone surrogate, which nothing else is. Raises
    ReadError when there are such bytes elsewhere, or the file is too large or binary.
    """
    if len(data) > MOST_BYTES:
        raise ReadError(f"larger than {MOST_BYTES >> 20} MiB: this is no configuration file", file=file)
    if b"\0" in data:
        raise ReadError("this is a binary file (or UTF-16): it should be plain UTF-8 text", file=file)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.split("\n"), 1):
        odd = ODD.search(line)
        if odd is not None and _IN_COMMENT.match(line, 0, odd.start()) is None:
            raise not_text(file, number)
    return text


def encode(text: str) -> bytes:
    """The bytes of what :func:`decode` gave, or of an edit of it."""
    return text.encode("utf-8", "surrogateescape")


def not_text(file: str, line: int | None) -> ReadError:
    """The error of bytes that are not UTF-8 where they would count."""
    return ReadError("not UTF-8 text here: save the file as UTF-8", file=file, line=line)
