"""Collects what the readers want of a host into one folder, with secrets removed.

Everything is optional: what is not there, not readable or too slow is said in the manifest, with the command that would
give it. Nothing is run through a shell, and nothing needs root.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from measurements.config.clean import secret_words, without_secrets
from measurements.config.secrets import redact
from measurements.copies import cleaned, figures, settings, without_words
from measurements.records import ReadError

State = Literal["taken", "absent", "empty", "no permission", "timed out", "failed", "unusable", "not asked"]

MANIFEST: Final = "MANIFEST.toml"
LOG: Final = "boot.log"
#: What a config names as a file of settings is an item under this name.
INCLUDED: Final = "config's own file"
#: Bytes of a service log that are kept: of its beginning, and of its end.
HEAD: Final = 4 << 20
TAIL: Final = 12 << 20
#: Seconds that a log, and any other command, may take.
LOG_SECONDS: Final = 120.0
SECONDS: Final = 15.0
_MOST_BYTES: Final = 1 << 20
_LINES: Final = 400_000
_CONFIG_BYTES: Final = 16 << 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:\\-]{0,254}", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_MEMINFO = re.compile(r"^(?:MemTotal|MemAvailable):\s*\d{1,15} kB\s*$", re.MULTILINE)
_AVAILABLE = re.compile(r"^MemAvailable:.*\n?", re.MULTILINE)
_LOCKED = re.compile(r"^Max locked memory\s+(\d{1,19}|unlimited)\s", re.MULTILINE)
_CARD = re.compile(r"card\d{1,3}", re.ASCII)
_OF_CARD: Final = ("mem_info_vram_total", "mem_info_vram_used", "mem_info_gtt_total", "mem_info_gtt_used")
_DENIED = re.compile(r"(?i)permission denied|not permitted|not seeing messages|access denied|must be root"
                     r"|insufficient permissions")
_UNKNOWN = re.compile(r"(?i)no such (?:container|object)|no container with name|no entries|not (?:be )?found")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing looked for: where from, what became of it, and the command that would give what is not here.

    ``file`` is its name in the folder, ``why`` what a reader of it should know, ``when`` the UTC time of it.
    """

    name: str
    source: str
    state: State
    file: str | None = None
    why: str | None = None
    command: str | None = None
    when: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """The folder, when it was filled, and every item looked for."""

    folder: Path
    when: str
    items: tuple[Item, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command gave: its exit code (None: it ran out of time), its output, and how many bytes were left out."""

    code: int | None
    out: bytes
    err: bytes = b""
    left_out: int = 0


#: Runs words as a program: within seconds, with stderr among the output or apart; None where there is none.
Run = Callable[[Sequence[str], float, bool], Ran | None]


def run(words: Sequence[str], seconds: float, together: bool) -> Ran | None:
    """Runs a program without a shell, keeping the head and the tail of what it says; None where it is not installed.

    ``together`` puts its errors among its output. It and what it started are ended when the time is over.
    """
    program = shutil.which(words[0])
    if program is None:
        return None
    env = {**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0", "PAGER": "cat"}
    try:
        process = subprocess.Popen(
            [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, start_new_session=True,
            stderr=subprocess.STDOUT if together else subprocess.PIPE)
    except OSError as error:
        return Ran(127, b"", (error.strerror or "cannot be started").encode())
    out, err = _Kept(HEAD, TAIL), _Kept(_MOST_BYTES, 0)
    assert process.stdout is not None
    streams = {process.stdout.fileno(): out}
    if process.stderr is not None:
        streams[process.stderr.fileno()] = err
    try:
        in_time = _drain(streams, time.monotonic() + seconds)
        code = process.wait(timeout=SECONDS) if in_time else None
    except subprocess.TimeoutExpired:
        code = None
    finally:
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=SECONDS)
        process.stdout.close()
        if process.stderr is not None:
            process.stderr.close()
    return Ran(code, out.bytes(), err.bytes(), out.left_out)


def _drain(streams: Mapping[int, _Kept], until: float) -> bool:
    """Reads all streams to their ends; False where the time was over before."""
    import selectors

    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = until - time.monotonic()
            if left <= 0:
                return False
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if data:
                    streams[key.fd].take(data)
                else:
                    selector.unregister(key.fd)
    return True


class _Kept:
    """The first and the last bytes of a stream, in whole lines where something was left out between."""

    def __init__(self, head: int, tail: int) -> None:
        self._head, self._most_tail = head, tail
        self._first = bytearray()
        self._last: deque[bytes] = deque()
        self._size = 0
        self.left_out = 0

    def take(self, data: bytes) -> None:
        room = self._head - len(self._first)
        self._first += data[:room]
        if data := data[room:]:
            self._last.append(data)
            self._size += len(data)
        while self._last and self._size - len(self._last[0]) >= self._most_tail:
            self._size -= len(self._last[0])
            self.left_out += len(self._last.popleft())

    def bytes(self) -> bytes:
        first, last = bytes(self._first), b"".join(self._last)
        if not self.left_out:
            return first + last
        head, tail = first[:first.rfind(b"\n") + 1], last[last.find(b"\n") + 1:]
        self.left_out += len(first) - len(head) + len(last) - len(tail)
        return head + b"\n\n" + tail


def collect(
    folder: Path, *, container: str | None = None, unit: str | None = None, configs: Sequence[Path] = (),
    root: Path = Path("/"), ask: Run = run,
) -> Collected:
    """Fills ``folder`` with what this host says of itself, and with a manifest.

    ``container`` or ``unit`` is the server: its log, and the memory limit of its process. With another ``root`` files
    are read below it, and of commands only those that can be told to look there. Raises ReadError (``usage``) where the
    folder holds anything, a name cannot be one, or the folder cannot be written.
    """
    _demand(folder, container, unit, root)
    work = _Collection(folder, root, ask)
    when = _now()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work.configs(configs)  # first: what is secret in them is looked for in everything else
        server = work.server(container, unit)
        work.host(server)
        work.log(container, unit)
        work.write()
        found = Collected(folder, when, tuple(work.items), tuple(work.notes(server, container or unit)))
        (folder / MANIFEST).write_text(_manifest(found), encoding="utf-8")
    except OSError as error:
        raise ReadError(f"cannot be written: {error.strerror}", file=str(folder), kind="usage") from None
    return found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _demand(folder: Path, container: str | None, unit: str | None, root: Path) -> None:
    if container is not None and unit is not None:
        raise ReadError("--container or --unit: the server is one of them", kind="usage")
    for option, name in (("--container", container), ("--unit", unit)):
        if name is not None and _NAME.fullmatch(name) is None:
            raise ReadError(f"{option}: this cannot be a name; write letters, digits and . _ - @", kind="usage")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ReadError("holds something already: name a new folder", file=str(folder), kind="usage")
        if not root.is_dir():
            raise ReadError("--root: no such folder", file=str(root), kind="usage")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ReadError(f"cannot be used: {reason or 'not a usable folder name'}", file=str(folder),
                        kind="usage") from None


@dataclass(frozen=True, slots=True)
class _Server:
    """What is known of the running server: its process, and the memory it may lock as its manager tells."""

    pid: int | None = None
    locked: str | None = None
    locked_from: str = ""
    why: str | None = None
    state: State = "absent"
    command: str | None = None


class _Collection:
    """One collection as it grows: texts by file name, and what became of each item."""

    def __init__(self, folder: Path, root: Path, ask: Run) -> None:
        self._folder = folder
        self._root = root
        self._here = root.resolve() == Path("/")
        self._ask = ask
        self._texts: dict[str, str] = {}
        self._configs: dict[str, str] = {}  # their paths, and their names here
        self._secrets: set[str] = set()
        self._kept: list[str] = []
        self.items: list[Item] = []

    # what all items share

    def _say(self, item: Item) -> None:
        why = None if item.why is None else self._clean(item.why)
        self.items.append(replace(item, why=why, when=_now()))

    def _keep(self, item: Item, text: str) -> None:
        assert item.file is not None
        self._texts[item.file] = text
        self._say(item)

    def _read(self, path: Path, most: int = _MOST_BYTES) -> str | tuple[State, str]:
        """The text of a file; else what stands in the way, and why."""
        try:
            with path.open("rb") as stream:
                data = stream.read(most + 1)
        except (FileNotFoundError, NotADirectoryError):
            return "absent", "no such file"
        except PermissionError:
            return "no permission", "not readable for this user"
        except IsADirectoryError:
            return "unusable", "a folder"
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable file name"
            return "failed", reason.lower()
        if len(data) > most:
            return "unusable", f"larger than {most >> 20} MiB"
        if b"\0" in data:
            return "unusable", "a binary file"
        return data.decode("utf-8", errors="replace")

    def _below(self, place: str) -> Path:
        return self._root / place.lstrip("/")

    def _clean(self, text: str) -> str:
        """``text`` without what looks like a secret, or is one of a config's."""
        return without_words(redact(text), self._secrets)

    # the operator's files

    def configs(self, paths: Sequence[Path]) -> None:
        taken: dict[str, Path] = {}
        for path in paths:
            self._config(path, path.name, taken)
        for path in paths:
            for other in self._named_by(path):
                self._included(path, other, taken)
        raw = {file: self._texts[name] for file, name in self._configs.items()}
        self._secrets = secret_words(raw)
        for file, text in without_secrets(raw).items():
            self._texts[self._configs[file]] = text

    def _config(self, path: Path, name: str, taken: dict[str, Path], what: str = "config") -> None:
        if taken.get(name) == path:
            return
        item = Item(what, str(path), "taken", name)
        if name in taken or name in (MANIFEST, LOG, "running"):
            self._say(replace(item, state="not asked", file=None, why="another file has its name here: rename it"))
            return
        text = self._read(path, _CONFIG_BYTES)
        if not isinstance(text, str):
            self._say(replace(item, state=text[0], file=None, why=text[1], command=_as_root(text[0], f"cat {path}")))
            return
        if not text.strip():
            self._say(replace(item, state="empty", file=None, why="nothing is in it"))
            return
        taken[name] = path
        self._configs[str(path)] = name
        self._keep(item, text)

    @staticmethod
    def _named_by(path: Path) -> list[str]:
        """The files that a config names as env files, as far as it can be read."""
        from measurements.config.read import read_config

        try:
            return [file for file in read_config([path]).text if file != str(path)]
        except ReadError:
            return []

    def _included(self, path: Path, other: str, taken: dict[str, Path]) -> None:
        if Path(other) in taken.values():
            return
        name = os.path.relpath(os.path.abspath(other), os.path.abspath(path.parent))
        if name.startswith("..") or os.path.isabs(name):
            self._say(Item(INCLUDED, other, "not asked", why=f"{path.name} names it by a path that leaves its folder: "
                                                             "give it with --config as well"))
        else:
            self._config(Path(other), name, taken, INCLUDED)

    # the host

    def host(self, server: _Server) -> None:
        running = server.pid is not None
        self._meminfo(running)
        self._figure("ttm_limit", "/sys/module/ttm/parameters/pages_limit", "pages_limit")
        self._page_size()
        self._memlock(server)
        self._cards(running)
        text = self._read(self._below("/proc/sys/kernel/osrelease"))
        what = Item("kernel", "/proc/sys/kernel/osrelease", "taken", "kernel")
        if isinstance(text, str):
            self._keep(what, text)
        else:
            self._say(replace(what, state=text[0], file=None, why=text[1]))

    def _meminfo(self, running: bool) -> None:
        what = Item("meminfo", "/proc/meminfo", "taken", "meminfo")
        text = self._read(self._below(what.source))
        if not isinstance(text, str):
            self._say(replace(what, state=text[0], file=None, why=text[1]))
        elif not _MEMINFO.search(text):
            self._say(replace(what, state="unusable", file=None, why="no MemTotal or MemAvailable in kB in it"))
        elif running:
            self._keep(replace(what, why="without MemAvailable, which is not that of a start: the server runs"),
                       _AVAILABLE.sub("", text))
            self._keep(replace(what, name="meminfo while running", file="running/meminfo"), text)
        else:
            self._keep(what, text)

    def _figure(self, name: str, place: str, file: str, why: str | None = None) -> bool:
        what = Item(name, place, "taken", file, why)
        text = self._read(self._below(place))
        if not isinstance(text, str):
            self._say(replace(what, state=text[0], file=None, why=text[1], command=_as_root(text[0], f"cat {place}")))
        elif not _WHOLE.fullmatch(text.strip()):
            self._say(replace(what, state="unusable", file=None, why="not one whole number"))
        else:
            self._keep(what, text)
            return True
        return False

    def _page_size(self) -> None:
        what = Item("page size", "getconf PAGE_SIZE", "taken", "page_size")
        if self._here:
            self._keep(what, f"{os.sysconf('SC_PAGE_SIZE')}\n")
        else:
            self._say(replace(what, state="not asked", file=None, why="--root names another file system"))

    def _memlock(self, server: _Server) -> None:
        name = "memlock"
        if server.pid is not None:
            place = f"/proc/{server.pid}/limits"
            text = self._read(Path(place))
            if isinstance(text, str) and (match := _LOCKED.search(text)):
                self._keep(Item(name, place, "taken", name, "of the running server's process"), f"{match[1]}\n")
                return
        if server.locked is not None:
            self._keep(Item(name, server.locked_from, "taken", name, "as the service is set up"), f"{server.locked}\n")
        elif server.why is not None:  # a server was named: what holds for this shell says nothing of it
            self._say(Item(name, "the server's process", server.state, why=server.why, command=server.command))
        elif not self._here:
            self._say(Item(name, "ulimit -l", "not asked", why="--root names another file system"))
        else:
            import resource

            soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
            text = "unlimited" if soft == resource.RLIM_INFINITY else str(soft // 1024)
            self._keep(Item(name, "ulimit -l", "taken", "ulimit_l",
                            "of this shell; the server's own may be another: name it with --container or --unit"),
                       f"{text}\n")

    def _cards(self, running: bool) -> None:
        folder = self._below("/sys/class/drm")
        try:
            cards = sorted((path.name for path in folder.iterdir() if _CARD.fullmatch(path.name)),
                           key=lambda card: int(card[4:]))
        except OSError as error:
            state: State = "no permission" if isinstance(error, PermissionError) else "absent"
            self._say(Item("DRM memory", "/sys/class/drm", state, why="no cards are shown there"))
            return
        found = False
        for card in cards:
            for name in _OF_CARD:
                place = f"/sys/class/drm/{card}/device/{name}"
                if not self._below(place).exists():
                    continue
                found = True
                moves = running and name == "mem_info_gtt_used"
                self._figure(f"{card} {name.removeprefix('mem_info_')}", place,
                             f"{'running/' if moves else ''}{card}/{name}",
                             "not that of a start: the server runs" if moves else None)
        if not found:
            self._say(Item("DRM memory", "/sys/class/drm/card*/device/mem_info_*", "absent",
                           why="no card shows its memory there, as amdgpu does"))

    # the server

    def server(self, container: str | None, unit: str | None) -> _Server:
        if container is None and unit is None:
            return _Server()
        if not self._here:
            return _Server(why="--root names another file system, which runs nothing", state="not asked")
        if unit is not None:
            return self._unit(unit)
        assert container is not None
        told: list[tuple[State, str, str | None]] = []
        for program in ("podman", "docker"):
            words = [program, "inspect", "--type", "container", "--format", "{{.State.Pid}}", container]
            done = self._ask(words, SECONDS, False)
            pid = _number(done)
            if pid:
                return _Server(pid, why="its limits cannot be read", state="no permission",
                               command=f"sudo cat /proc/{pid}/limits")
            if pid == 0:
                return _Server(why=f"{program}: the container does not run")
            told.append(self._failed(program, done, " ".join(words)))
        state, why, command = _worst(told)
        return _Server(why=why, state=state, command=command)

    def _unit(self, unit: str) -> _Server:
        told: list[tuple[State, str, str | None]] = []
        for scope in ((), ("--user",)):
            words = ["systemctl", *scope, "show", "--property=LoadState,MainPID,LimitMEMLOCKSoft", unit]
            done = self._ask(words, SECONDS, False)
            if done is None or done.code != 0:
                told.append(self._failed("systemctl", done, " ".join(words)))
                continue
            shown = dict(line.partition("=")[::2] for line in done.out.decode(errors="replace").splitlines())
            if shown.get("LoadState") != "loaded":
                told.append(("absent", f"systemctl {' '.join(scope)}".strip() + ": no such unit", None))
                continue
            locked = shown.get("LimitMEMLOCKSoft", "")
            limit = "unlimited" if locked in ("infinity", str(2**64 - 1)) else locked if locked.isdigit() else None
            main = shown.get("MainPID", "")
            pid = self._within(int(main)) if main.isdigit() and int(main) else None
            return _Server(pid, limit, " ".join(words), "its limits cannot be read", "no permission",
                           f"sudo cat /proc/{pid}/limits" if pid else None)
        state, why, command = _worst(told)
        return _Server(why=why, state=state, command=command)

    def _within(self, pid: int) -> int:
        """The server behind a unit's process: what a container's monitor started has limits of its own."""
        name = self._read(Path(f"/proc/{pid}/comm"))
        if isinstance(name, str) and name.strip() == "conmon":
            children = self._read(Path(f"/proc/{pid}/task/{pid}/children"))
            if isinstance(children, str) and children.split() and children.split()[0].isdigit():
                return int(children.split()[0])
        return pid

    def _failed(self, program: str, done: Ran | None, command: str) -> tuple[State, str, str | None]:
        """What stood in the way of a command, and the command that would give it."""
        if done is None:
            return "absent", f"{program} is not installed", None
        if done.code is None:
            return "timed out", f"{program} took too long", command
        said = (done.err or done.out).decode(errors="replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        why = f"{program}: {lines[-1][:300]}" if lines else f"{program} ended with {done.code}"
        if _DENIED.search(said):
            return "no permission", why, f"sudo {command}"
        if _UNKNOWN.search(said):  # a container or unit of root's is not there for anybody else
            return "absent", why, f"sudo {command}"
        return "failed", why, command

    # the log

    def log(self, container: str | None, unit: str | None) -> None:
        name = "service log"
        if container is None and unit is None:
            self._say(Item(name, "podman logs, docker logs or journalctl", "not asked",
                           why="no server was named: --container NAME or --unit NAME"))
            return
        if container is not None and not self._here:
            self._say(Item(name, "podman logs or docker logs", "not asked",
                           why="--root names another file system, which runs no containers"))
            return
        told: list[tuple[State, str, str | None]] = []
        for words in self._log_commands(container, unit):
            journal = words[0] == "journalctl"
            done = self._ask(words, LOG_SECONDS, not journal)
            text = "" if done is None else done.out.decode("utf-8", errors="replace").replace("\0", " ")
            if done is None or done.code != 0:
                told.append(self._failed(words[0], done, " ".join(words)))
            elif not text.strip() or text.strip() == "-- No entries --":
                denied = journal and _DENIED.search(done.err.decode(errors="replace"))
                told.append(("no permission" if denied else "empty",
                             f"{words[0]}: {'not all messages are shown to this user' if denied else 'no entries'}",
                             f"sudo {' '.join(words)}"))
            else:
                cut = f"{done.left_out:,} bytes in its middle are left out" if done.left_out else None
                self._keep(Item(name, " ".join(words), "taken", LOG, cut), text)
                return
        state, why, command = _worst(told)
        self._say(Item(name, "podman logs or docker logs" if container else "journalctl", state, why=why,
                       command=command))

    def _log_commands(self, container: str | None, unit: str | None) -> Iterator[list[str]]:
        if container is not None:
            yield from ([program, "logs", container] for program in ("podman", "docker"))
            return
        below = [] if self._here else ["--directory", str(self._below("/var/log/journal"))]
        for option in ("--unit", "--user-unit"):
            yield ["journalctl", *below, "--no-pager", "--output=cat", f"--lines={_LINES}", f"{option}={unit}"]

    # the end

    def write(self) -> None:
        for name, text in self._texts.items():
            place = self._folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("w", encoding="utf-8", newline="") as out:
                out.write(self._readable(name, text))

    def _readable(self, name: str, text: str) -> str:
        """``text`` without secrets, but for words without which it cannot be read."""
        read = figures if name == LOG else settings if name in self._configs.values() else None
        text, stayed = cleaned(text, self._secrets, read)
        if stayed:
            self._kept.append(f"{name}: a word that a config keeps under a secret's name is one without which this "
                              "file cannot be read: it stays there")
        return text

    def notes(self, server: _Server, named: str | None) -> Iterator[str]:
        yield from self._kept
        if server.pid is None and self._here:
            yield ("if the server ran meanwhile, MemAvailable and the GTT in use are not those of a start: collect "
                   "before it starts" + ("" if named else ", or name it with --container or --unit"))
        if any(item.command for item in self.items):
            yield "what a command below gives is not redacted; or collect again with sudo into another folder"


def _number(done: Ran | None) -> int | None:
    if done is None or done.code != 0:
        return None
    text = done.out.decode(errors="replace").strip()
    return int(text) if _WHOLE.fullmatch(text) else None


def _as_root(state: State, command: str) -> str | None:
    return f"sudo {command}" if state == "no permission" else None


def _worst(told: Iterable[tuple[State, str, str | None]]) -> tuple[State, str, str | None]:
    """What several ways came to, with all reasons: what can be mended counts before what is simply not there."""
    told = list(told)
    order: tuple[State, ...] = ("no permission", "timed out", "failed", "empty", "absent")
    state, _, command = min(told, key=lambda item: (order.index(item[0]), item[2] is None))
    return state, "; ".join(dict.fromkeys(why for _, why, _ in told)), command


def _manifest(found: Collected) -> str:
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("What `shapewright collect` looked for on this host, and what became of it."))
    document.add("when", tomlkit.item(found.when))
    if found.notes:
        document.add("notes", tomlkit.item(list(found.notes)))
    items = tomlkit.aot()
    for item in found.items:
        table = tomlkit.table()
        for key, value in (("name", item.name), ("state", item.state), ("file", item.file), ("from", item.source),
                           ("when", item.when), ("why", item.why), ("command", item.command)):
            if value is not None:
                table.add(key, redact(value))
        items.append(table)
    document.add("item", items)
    return tomlkit.dumps(document)
