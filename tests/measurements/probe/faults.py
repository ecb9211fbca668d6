"""A proxy in front of the engine that spoils its answers in the ways that servers in the field do."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Of a completion: its number from 0 and its body; what it answers instead as status, headers, document, or None.
Instead = Callable[[int, dict[str, Any]], tuple[int, dict[str, str], Any] | None]
Piece = Callable[[int, dict[str, Any]], dict[str, Any] | None]


@dataclass
class Faults:
    """What is spoiled. ``seen`` are the completions that came in, ``keys`` their Authorization headers."""

    instead: Instead = lambda number, body: None
    piece: Piece = lambda number, chunk: chunk
    pages: dict[str, Callable[[], tuple[int, str]]] = field(default_factory=dict)
    body: Callable[[dict[str, Any]], None] = lambda body: None
    drop: Callable[[int, int], bool] = lambda number, pieces: False
    pause: Callable[[int], float] = lambda number: 0.0
    hold: bool = False  # a stream is passed on at its end, all of it at once
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def said(body: dict[str, Any]) -> str:
    """The prompt of a completion."""
    messages = body.get("messages")
    return str(messages[0]["content"]) if messages else str(body.get("prompt", ""))


def marker(body: dict[str, Any]) -> str | None:
    """The marker that a prompt of the boundary leg names."""
    found = re.match(r"The marker of this text is (\w+)\.", said(body))
    return found[1] if found else None


def answering(text: str, *, tokens: int = 1, prompt: int = 10) -> tuple[int, dict[str, str], Any]:
    """A whole answer that is not the engine's."""
    return 200, {}, {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what a test sees is what the probe says."""

    def do_GET(self) -> None:
        page = self.server.faults.pages.get(self.path)
        if page is not None:
            status, text = page()
            self._send(status, {"Content-Type": "text/plain"}, text.encode())
            return
        response = self._ask("GET", None)
        self._send(response.status, {"Content-Type": response.headers["Content-Type"]}, response.read())

    def do_POST(self) -> None:
        faults = self.server.faults
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "completions" not in self.path or len(said(body)) > 8 * 2000:
            page = faults.pages.get(self.path)
            if page is not None:
                status, text = page()
                self._send(status, {"Content-Type": "application/json"}, text.encode())
                return
            response = self._ask("POST", body)
            self._send(response.status, {"Content-Type": "application/json"}, response.read())
            return
        with faults.lock:
            number = len(faults.seen)
            faults.seen.append(dict(body))
            faults.keys.append(self.headers.get("Authorization"))
        other = faults.instead(number, body)
        if other is not None:
            status, headers, document = other
            self._send(status, {"Content-Type": "application/json", **headers}, json.dumps(document).encode())
            return
        faults.body(body)
        response = self._ask("POST", body)
        if "event-stream" not in (response.headers["Content-Type"] or ""):
            document = faults.piece(number, json.loads(response.read()))
            self._send(response.status, {"Content-Type": "application/json"}, json.dumps(document).encode())
            return
        self._stream(number, response)

    def _stream(self, number: int, response: http.client.HTTPResponse) -> None:
        faults, pieces, held = self.server.faults, 0, b""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while line := response.readline():
            if line.startswith(b"data: {"):
                chunk = faults.piece(number, json.loads(line[6:]))
                if chunk is None:
                    continue
                line = b"data: " + json.dumps(chunk).encode() + b"\n"
                pieces += 1
                if faults.drop(number, pieces):
                    return
                time.sleep(faults.pause(number))
            held += line
            if not faults.hold:
                self.wfile.write(held)
                self.wfile.flush()
                held = b""
        self.wfile.write(held)

    def _ask(self, method: str, body: dict[str, Any] | None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.engine, timeout=60)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, self.path, data, {"Content-Type": "application/json"})
        return connection.getresponse()

    def _send(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data)), "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        self.wfile.write(data)


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, engine: int, faults: Faults) -> None:
        self.engine, self.faults = engine, faults
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A probe that hangs up is no defect."""


@contextmanager
def saying(pieces: Iterable[bytes], step: float = 0.0) -> Iterator[str]:
    """The URL of a server that says the same to whoever asks, piece by piece, whatever was asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer() -> None:
            with contextlib.suppress(OSError):  # the test is over, or who asked hung up
                while True:
                    connection, _ = server.accept()
                    with connection, connection.makefile("rb") as asked:
                        head = b"".join(iter(asked.readline, b"\r\n"))
                        length = re.search(rb"(?i)content-length: (\d+)", head)
                        asked.read(int(length[1]) if length else 0)
                        for piece in pieces:
                            connection.sendall(piece)
                            time.sleep(step)

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(engine: int, faults: Faults) -> Iterator[str]:
    """The URL of a proxy to the engine's port."""
    server = _Proxy(engine, faults)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
