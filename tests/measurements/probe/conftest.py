"""The engine that the tests of the probe measure: llama.cpp in a process of its own, so that it takes none down."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import measurements.probe.run as running
from tests.measurements.probe import serve


@pytest.fixture(autouse=True)
def _on_a_shared_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour on the same cores makes any token ten times slower, and any stream later than it was made: what is
    too much is set where it is tested."""
    monkeypatch.setattr(running, "WORSE", 1000)
    monkeypatch.setattr(running, "SLOWED", 1000)
    monkeypatch.setattr(running, "OTHERS", 100_000)  # what a test before this one left to be generated


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port on which llama.cpp serves a tiny random model: a window of 2,048 tokens, 4 slots."""
    for module in ("gguf", "xllamacpp"):
        # in a process of its own too: what cannot be loaded here may end it without an exception
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            pytest.skip(f"{module} cannot be imported here: no real server to measure")
    model = tmp_path_factory.mktemp("engine") / "tiny.gguf"
    serve.write(model)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (model.parent / "server.log").open("w") as log, subprocess.Popen(
            [sys.executable, str(Path(serve.__file__)), str(model), str(port)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = next((line for line in process.stdout if line.startswith("ready")), "")
            assert said, (model.parent / "server.log").read_text()[-2000:]
            yield port
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def url(engine: int) -> str:
    """The server itself."""
    return f"http://127.0.0.1:{engine}"
