"""One request to an OpenAI-compatible server: sent, timed on a monotonic clock, and read whatever shape it comes in."""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import json
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from measurements.points.read import FASTEST, SLOWEST
from measurements.records import ReadError

#: What can become of a request that was not answered.
#: ``refused``: 4xx. ``busy``: 429. ``loading``: 503. ``broken``: other 5xx, or an error in the middle of a stream.
#: ``unreachable``: no connection. ``dropped``: a connection that ended early. ``late``: the time allowed is over.
#: ``slow``: the answer came too slowly to go on. ``unusable``: an answer that is none.
Kind = Literal["refused", "busy", "loading", "broken", "unreachable", "dropped", "late", "slow", "unusable"]

#: Bytes of one answer that are read: 512 tokens with every field a server adds are well below.
MOST_BYTES: Final = 64 << 20
_LONGEST_LINE: Final = 4 << 20
#: Lines of one event of a stream.
_MOST_LINES: Final = 64
#: Pieces of a stream that bear a rate, the tokens that one may hold, and the seconds in which pieces are one.
PIECES: Final = 16
_AT_ONCE: Final = 0.001
#: More pieces than so many times the tokens asked for are no answer to what was asked.
_TOO_MANY: Final = 4
#: Seconds to wait for a connection.
CONNECT: Final = 10.0
_MOST_SHOWN: Final = 300
_KEY = re.compile(r"[\x21-\x7e]+")
_COUNT: Final = r"(?P<count>\d[\d,_]*)"
_WINDOW: Final = r"(?P<window>\d[\d,_]*)"
#: How servers say that a prompt is too long, with its count of tokens and the window.
_REFUSALS: Final = tuple(re.compile(pattern, re.IGNORECASE) for pattern in (
    rf"{_COUNT} prompt tokens? do(?:es)? not fit the {_WINDOW}[- ]token context",
    rf"request \({_COUNT} tokens\) exceeds the available context size \({_WINDOW} tokens\)",
    rf"input \({_COUNT} tokens\) is longer than the model's context length \({_WINDOW} tokens\)",
    rf"prompt \(length {_COUNT}\) is longer than the maximum model length of {_WINDOW}",
    rf"maximum context length (?:is|of) {_WINDOW} tokens\b.*?\({_COUNT} in the (?:messages|prompt)",
    rf"maximum context length (?:is|of) {_WINDOW} tokens\b.*?{_COUNT} (?:input tokens|tokens from the input)",
    rf"{_COUNT} input tokens.*?maximum context length (?:is|of) {_WINDOW}",
    rf"{_COUNT} input tokens.*?context length is only {_WINDOW}",
    rf"{_COUNT} prompt tokens\b.*?{_WINDOW}",
    rf"prompt (?:has|is|of) {_COUNT} tokens",
))


class Fault(Exception):
    """A request that brought no answer.

    ``count`` is the prompt's length in tokens and ``window`` the server's window, where a refusal names them;
    ``wait`` is what the server asks to wait, in seconds. The message holds no key.
    """

    def __init__(self, kind: Kind, message: str, *, status: int | None = None, count: int | None = None,
                 window: int | None = None, wait: float | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.status = status
        self.count = count
        self.window = window
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go: the root of the server, below which ``/v1`` lies."""

    secure: bool
    host: str
    port: int
    path: str = ""

    @property
    def shown(self) -> str:
        """As a URL; it never held a login, and nothing in its path that looks like a key is shown."""
        from measurements.config import redact

        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}:{self.port}{redact(self.path)}"

    @property
    def local(self) -> bool:
        """Whether it is this machine by its very address: no name is looked up."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def server_at(url: str) -> Server:
    """The server of ``url``, with or without ``/v1`` at its end.

    Raises ReadError of kind ``usage``, which repeats nothing of a URL that holds a login or a query: these are where
    keys stand.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ReadError("--url is no URL: write http://HOST:PORT", kind="usage") from None
    if "@" in parts.netloc:
        raise ReadError("--url holds a login: take it out; a key is read from the environment (--key-env NAME)",
                        kind="usage")
    if parts.query or parts.fragment:
        raise ReadError("--url holds a query: take it out; a key is read from the environment (--key-env NAME)",
                        kind="usage")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ReadError("--url is no URL of a server: write http://HOST:PORT", kind="usage")
    path = re.sub(r"(?<=/v1)/(?:chat/completions|completions|models)$", "", parts.path.rstrip("/"))
    if not re.fullmatch(r"[\x21-\x7e]*", parts.hostname + path):
        raise ReadError("--url holds a character that no URL may: write http://HOST:PORT", kind="usage")
    secure = parts.scheme == "https"
    return Server(secure, parts.hostname, port or (443 if secure else 80), path.removesuffix("/v1"))


@dataclass(frozen=True, slots=True)
class Timings:
    """What the server says of its own time; None where it says nothing or null. Rates are tokens a second."""

    prompt_tokens: int | None
    cached: int | None
    prompt_rate: float | None
    generated: int | None
    decode_rate: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its times, in seconds.

    ``first`` is the time from the request to the first token (None where the answer was not streamed), ``total`` to
    its end. ``marks`` are the moments, on the monotonic clock, at which the bytes of a piece of text came; a piece may
    hold several tokens, and several pieces may come at once. ``prompt_tokens``, ``cached`` and ``generated`` are as
    the server counted them, None where it did not.
    """

    text: str
    reasoning: str
    finish: str
    streamed: bool
    total: float
    first: float | None
    marks: tuple[float, ...]
    prompt_tokens: int | None
    cached: int | None
    generated: int | None
    timings: Timings

    @property
    def paced(self) -> bool:
        """Whether pieces came one after the other as they were made: times of what was held back on the way are none.
        """
        moments, last = 0, -math.inf
        for mark in self.marks:
            if mark - last >= _AT_ONCE:
                moments, last = moments + 1, mark
        return moments >= max(PIECES, max(self.generated or 0, len(self.marks)) // PIECES)


class Client:
    """Requests to one server. Redirects are not followed, so that a key goes nowhere else."""

    def __init__(self, server: Server, key: str | None = None) -> None:
        if key is not None and not _KEY.fullmatch(key):
            raise ReadError("the key in the environment holds a space, a line break or another character that no "
                            "header may", kind="usage")
        self.server = server
        self._key = key
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Ends every request under way, from whichever thread; none is sent after it."""
        with self._lock:
            self._closed = True
            for sock in self._open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def anew(self) -> Client:
        """A client of the same server that is not closed."""
        return Client(self.server, self._key)

    def clean(self, text: str) -> str:
        """A server's words for messages: one short line without anything that looks like a key."""
        from measurements.config import redact

        if self._key:
            text = text.replace(self._key, "<secret>")
        text = redact(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
        return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN - 1]}…"

    def get(self, path: str, seconds: float) -> str | None:
        """The text at a path; None where there is none (404 and other refusals). Raises Fault for all else."""
        try:
            with _Exchange(self, "GET", path, None, seconds) as exchange:
                self._demand(exchange.response, exchange.body)
                return exchange.body()
        except Fault as fault:
            if fault.kind == "refused":
                return None
            raise

    def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Any:
        """The JSON that a call answers. Raises Fault."""
        with _Exchange(self, "POST", path, body, seconds) as exchange:
            self._demand(exchange.response, exchange.body)
            return self._json(exchange.body())

    def ask(self, path: str, body: Mapping[str, Any], seconds: float, *, writing: float = math.inf) -> Answer:
        """A completion. ``seconds`` bound the whole request, ``writing`` what comes behind its first token.

        Raises Fault, of kind ``late`` or ``slow`` where these are over.
        """
        with _Exchange(self, "POST", path, body, seconds) as exchange:
            self._demand(exchange.response, exchange.body)
            kind = exchange.response.headers.get("Content-Type", "")
            if "event-stream" in kind.lower():
                asked = body.get("max_tokens", body.get("max_completion_tokens", math.inf))
                return self._streamed(exchange, writing, _TOO_MANY * asked + PIECES)
            text = exchange.body()
            if text.lstrip().startswith("data:"):
                raise Fault("unusable", "a stream came without its content type: no times can be read from it")
            return self._whole(self._json(text), time.monotonic() - exchange.sent)

    def _demand(self, response: http.client.HTTPResponse, body: Callable[[], str]) -> None:
        """Raises Fault unless the status is 200."""
        status = response.status
        if status == 200:
            return
        if 300 <= status < 400:
            raise Fault("refused", f"the server redirects ({status}): give the URL that answers", status=status)
        text = body()
        message, count, window = _refusal(text)
        said = self.clean(f"{status} {response.reason}: {message}" if message else f"{status} {response.reason}")
        wait = _retry_after(response.headers.get("Retry-After"))
        kind: Kind = ("busy" if status == 429 else "loading" if status == 503 else "broken" if status >= 500
                      else "refused")
        raise Fault(kind, said, status=status, count=count, window=window, wait=wait)

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Fault("unusable", self.clean(f"the answer is no JSON: {text[:80]}")) from None

    def _events(self, exchange: _Exchange) -> Iterator[Any]:
        """What the events of a stream hold; one may be spread over several lines, and none need stand between two."""
        data, lines = "", 0
        for line in exchange.lines():
            if line.startswith("data:"):
                data = f"{data}\n{line[5:].strip()}" if data else line[5:].strip()
                lines += 1
            elif line or not data:
                continue
            if data == "[DONE]":
                yield data
                return
            try:
                found = json.loads(data)
            except (ValueError, RecursionError):
                if not line or lines > _MOST_LINES:
                    break
                continue
            yield found
            data, lines = "", 0
        if data:
            self._json(data)  # says what stands there

    def _streamed(self, exchange: _Exchange, writing: float, most: float) -> Answer:
        parts = _Parts()
        marks: list[float] = []
        done = False
        for chunk in self._events(exchange):
            if chunk == "[DONE]":
                done = True
                break
            if _is_error(chunk):
                message, count, window = _refusal(json.dumps(chunk))
                raise Fault("broken", self.clean(f"an error in the middle of the stream: {message}"), count=count,
                            window=window)
            if parts.take(chunk):
                marks.append(exchange.came)
                if marks[-1] - marks[0] > writing:
                    raise Fault("slow", f"{marks[-1] - marks[0]:.1f} s behind the first token the answer was not done")
                if len(marks) > most:
                    raise Fault("unusable", f"after {len(marks):,} pieces the answer goes on: max_tokens does not bind")
        if not done and not parts.finish:
            raise Fault("dropped", "the connection ended in the middle of the answer")
        end = time.monotonic() - exchange.sent
        return parts.answer(True, end, marks[0] - exchange.sent if marks else None, tuple(marks))

    def _whole(self, document: Any, total: float) -> Answer:
        if _is_error(document):
            message, count, window = _refusal(json.dumps(document))
            raise Fault("broken", self.clean(f"an error with status 200: {message}"), count=count, window=window)
        parts = _Parts()
        parts.take(document)
        if not parts.seen:
            raise Fault("unusable", "the answer holds no choices: is this an OpenAI-compatible server?")
        return parts.answer(False, total, None, ())


class _Exchange:
    """One connection: opened, asked once, closed. All of it within the seconds allowed."""

    def __init__(self, client: Client, method: str, path: str, body: Mapping[str, Any] | None,
                 seconds: float) -> None:
        self._client = client
        self._until = time.monotonic() + seconds
        self._read = 0
        server = client.server
        kind = http.client.HTTPSConnection if server.secure else http.client.HTTPConnection
        self._connection: http.client.HTTPConnection = kind(server.host, server.port)
        self._wire: _Wire
        self.sent = 0.0
        self.response: http.client.HTTPResponse
        headers = {"Accept": "application/json, text/event-stream, text/plain", "User-Agent": "shapewright-probe"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if client._key:
            headers["Authorization"] = f"Bearer {client._key}"
        self._socket: socket.socket | None = None
        try:
            self._connect()
            assert self._socket is not None
            self._wire = _Wire(self._socket, self._until)
            self.sent = time.monotonic()
            self._socket.settimeout(self._wire.left)
            # a server that refuses a long prompt may answer before it has read all of it
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._connection.request(method, f"{server.path}{path}", body=data, headers=headers)
            self.response = http.client.HTTPResponse(cast(socket.socket, self._wire), method=method)
            self.response.begin()
        except BaseException as error:
            self._close()
            if isinstance(error, Fault):
                raise
            if isinstance(error, TimeoutError):
                raise self._late() from None
            if isinstance(error, OSError | http.client.HTTPException):
                raise Fault("dropped", f"the connection ended before an answer ({_reason(error)})") from None
            raise

    def _connect(self) -> None:
        server = self._client.server
        try:
            self._connection.sock = self._socket = _dial(server, min(self._until, time.monotonic() + CONNECT))
        except ssl.SSLError as error:
            raise Fault("unreachable", f"{server.shown}: no secure connection ({error.reason or 'refused'})") from None
        except TimeoutError:
            raise Fault("unreachable", f"{server.shown}: no {'secure ' * server.secure}connection in "
                                       f"{CONNECT:.0f} s") from None
        except OSError as error:
            raise Fault("unreachable", f"{server.shown}: no connection ({_reason(error)})") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._client._lock:
            if self._client._closed:
                raise Fault("late", "the probe was stopped")
            self._client._open.add(self._socket)

    @property
    def came(self) -> float:
        """When the last bytes that were read came, on the monotonic clock."""
        return self._wire.came

    def __enter__(self) -> _Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._socket is not None:
            with self._client._lock:
                self._client._open.discard(self._socket)
        if (response := getattr(self, "response", None)) is not None:
            response.close()
        self._connection.close()

    def _late(self) -> Fault:
        return Fault("late", "no whole answer in the time allowed")

    def lines(self) -> Iterator[str]:
        """The lines of the answer, as they come. Raises Fault."""
        while True:
            try:
                line = self.response.readline(_LONGEST_LINE)
            except TimeoutError:
                raise self._late() from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Fault("dropped", f"the connection ended in the middle of the answer ({_reason(error)})") from None
            if not line:
                return
            self._count(len(line))
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    def body(self) -> str:
        """All of the answer. Raises Fault."""
        found: list[bytes] = []
        while True:
            try:
                piece = self.response.read1(1 << 16)
            except TimeoutError:
                raise self._late() from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Fault("dropped", f"the connection ended in the middle of the answer ({_reason(error)})") from None
            if not piece:
                if self.response.length:
                    raise Fault("dropped", "the connection ended in the middle of the answer")
                return b"".join(found).decode("utf-8", "replace")
            self._count(len(piece))
            found.append(piece)

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > MOST_BYTES:
            raise Fault("unusable", f"the answer is larger than {MOST_BYTES >> 20} MiB")


class _Wire(io.RawIOBase):
    """The bytes of an answer as they come, for http.client in place of the socket.

    Every wait for them ends when the time allowed does, however slowly they trickle. ``came`` is when the last came.
    """

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until
        self.came = 0.0

    @property
    def left(self) -> float:
        """Seconds that are left, above 0. Raises TimeoutError."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self.left)
        size = self._sock.recv_into(buffer)
        self.came = time.monotonic()
        return size

    def makefile(self, _: str) -> io.BufferedReader:
        """What http.client reads: what came at once is taken at once."""
        return io.BufferedReader(self, 1 << 16)


def _dial(server: Server, until: float) -> socket.socket:
    """A connection by the first of the host's addresses that takes one. Raises OSError, TimeoutError among them."""
    failed: OSError = TimeoutError()
    for family, kind, protocol, _, address in socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
            sock.connect(address)
            if server.secure:
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=server.host)
            return sock
        except ssl.SSLError:
            sock.close()
            raise
        except OSError as error:
            sock.close()
            failed = error
        except BaseException:
            sock.close()
            raise
    raise failed


class _Parts:
    """What the pieces of an answer add up to."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.finish = ""
        self.seen = False
        self.usage: Mapping[str, Any] = {}
        self.timings: Mapping[str, Any] = {}

    def take(self, chunk: Any) -> bool:
        """Adds a piece; whether it held text."""
        if not isinstance(chunk, dict):
            return False
        self.usage = _table(chunk.get("usage")) or self.usage
        self.timings = _table(chunk.get("timings")) or self.timings
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return False
        self.seen = True
        wrote = False
        for choice in choices[:1]:
            if not isinstance(choice, dict):
                continue
            piece = _table(choice.get("delta")) or _table(choice.get("message"))
            for where, texts in ((self.text, (choice.get("text"), piece.get("content"))),
                                 (self.reasoning, (piece.get("reasoning_content"), piece.get("reasoning")))):
                found = next((text for text in texts if isinstance(text, str) and text), "")
                if found:
                    where.append(found)
                    wrote = True
            if isinstance(choice.get("finish_reason"), str):
                self.finish = choice["finish_reason"]
        return wrote

    def answer(self, streamed: bool, total: float, first: float | None, marks: tuple[float, ...]) -> Answer:
        usage, said = self.usage, self.timings
        cached = _whole_number(_table(usage.get("prompt_tokens_details")).get("cached_tokens"))
        generated = _whole_number(said.get("predicted_n"))
        prompt_tokens, kept = _whole_number(said.get("prompt_n")), _whole_number(said.get("cache_n"))
        prompt_ms, decode_ms = _number(said.get("prompt_ms")), _number(said.get("predicted_ms"))
        prompt_rate, decode_rate = _number(said.get("prompt_per_second")), _number(said.get("predicted_per_second"))
        if prompt_rate is None and prompt_tokens and prompt_ms:
            prompt_rate = _number(prompt_tokens / prompt_ms * 1000)
        if decode_rate is None and generated and generated > 1 and decode_ms:
            decode_rate = _number((generated - 1) / decode_ms * 1000)
        whole = _whole_number(usage.get("prompt_tokens"))
        if whole is None and prompt_tokens is not None:
            whole = prompt_tokens + (kept or 0)
        written = _whole_number(usage.get("completion_tokens"))
        return Answer("".join(self.text), "".join(self.reasoning), self.finish, streamed, total, first, marks, whole,
                      kept if cached is None else cached, generated if written is None else written,
                      Timings(prompt_tokens, kept, prompt_rate, generated, decode_rate))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    """A rate or a time that can be meant; servers print null, 0 or worse where they measured nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if SLOWEST <= value <= FASTEST else None


def _is_error(document: Any) -> bool:
    return isinstance(document, dict) and bool(document.get("error") or document.get("object") == "error")


def _whole_number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return int(value) if value == int(value) else None


def _refusal(text: str) -> tuple[str, int | None, int | None]:
    """What an error says, with the prompt's count of tokens and the window where it names them."""
    message, count, window = text, None, None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        error = document.get("error")
        inner = error if isinstance(error, dict) else document
        count, window = _whole_number(inner.get("n_prompt_tokens")), _whole_number(inner.get("n_ctx"))
        said = error if isinstance(error, str) else inner.get("message") or inner.get("detail")
        message = said if isinstance(said, str) else text
    for pattern in _REFUSALS:
        if count is not None:
            break
        if (match := pattern.search(message[:4000])) is not None:
            count = int(re.sub("[,_]", "", match["count"]))
            window = window or (int(re.sub("[,_]", "", match["window"])) if "window" in pattern.groupindex else None)
    return message, count, window


def _retry_after(text: str | None) -> float | None:
    """Seconds that a server asks to wait: a number, or a date."""
    if not text:
        return None
    if re.fullmatch(r"\d{1,6}(\.\d+)?", text.strip(), re.ASCII):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
