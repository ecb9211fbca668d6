"""Writing edits into the user's own files: whole or not at all, with a backup beside each.

A file is replaced by renaming a finished copy over it, so that a reader, a crash or a full disk finds the old text or
the new one and nothing between; a kill leaves at most a copy and a backup too many. Between the last comparison with
what was read and the rename lies a moment in which a write of somebody else would be lost: no file system offers to
close that gap.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from measurements.config.file import encode
from measurements.records import ReadError

_SUFFIX: Final = "shapewright"


def digest(data: bytes) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was replaced: its name as the user gave it, its backup, and both hashes."""

    file: str
    target: str
    backup: str
    before: str
    after: str


@dataclass(slots=True)
class Written:
    """What :func:`write_files` did. ``notes`` are matters that could not be kept, such as an owner."""

    files: list[WrittenFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def undo(self) -> list[str]:
        """Puts every file back as it was, without its backup; returns what could not be, file by file. Raises nothing.
        """
        failed = []
        for done in reversed(self.files):
            try:
                _put_back(done)
                os.unlink(done.backup)
            except OSError as error:
                failed.append(f"{done.file} has the new text, the old one is in {done.backup} ({_why(error)})")
        return failed


@dataclass(frozen=True, slots=True)
class _Plan:
    file: str
    target: str
    old: bytes
    new: bytes
    mode: os.stat_result


def write_files(old: Mapping[str, str], new: Mapping[str, str], now: datetime,
                just_before: Callable[[], object] = lambda: None) -> Written:
    """Replaces each file of ``new`` by its text there, where it still holds that of ``old``.

    A symlink stays and its target is replaced; mode, owner and extended attributes are kept where that is allowed. All
    files are checked, and all copies and backups (``NAME.shapewright-YYYYmmddTHHMMSS.bak``, never over another file)
    written, before the first is replaced; what was replaced is put back where a later one fails. ``just_before`` is
    called when nothing is left but to replace them. Raises ReadError, of kind ``usage``, saying which file, why, and
    what would be right, and that nothing was changed, or what was.
    """
    plans = [_plan(file, encode(old[file]), encode(text)) for file, text in new.items()]
    seen: dict[str, str] = {}
    for plan in plans:
        if plan.target in seen:
            raise _error(plan.file, f"is the same file as {seen[plan.target]}: name it once")
        seen[plan.target] = plan.file
    out = Written()
    copies: list[str] = []
    backups: list[str] = []
    try:
        for plan in plans:
            copies.append(_copy(plan, out.notes))
            backups.append(_backup(plan, now, out.notes))
        for plan in plans:
            _compare(plan)
        just_before()
        for plan, copy, backup in zip(plans, copies, backups, strict=True):
            _compare(plan)
            os.replace(copy, plan.target)
            out.files.append(WrittenFile(plan.file, plan.target, _beside(plan, backup), digest(plan.old),
                                         digest(plan.new)))
        for folder in {os.path.dirname(plan.target) for plan in plans}:
            sync_folder(folder)
    except (OSError, ReadError) as error:
        raise _failed(error, plans, out, copies, backups) from None
    except BaseException:  # stopped by the user: as if nothing had been asked
        _failed(OSError("stopped"), plans, out, copies, backups)
        raise
    return out


def _plan(file: str, old: bytes, new: bytes) -> _Plan:
    target = os.path.realpath(file)
    try:
        state = os.stat(target)
    except OSError as error:
        raise _error(file, f"cannot be read again ({_why(error)})") from None
    if not stat.S_ISREG(state.st_mode):
        raise _error(file, "is no regular file: name one")
    if state.st_nlink > 1:
        raise _error(file, f"has {state.st_nlink} names (hard links), and the others would keep the old text: "
                           "edit it by hand, or leave it one name")
    if not os.access(target, os.W_OK):
        raise _error(file, "is read-only here: make it writable, or take the diff to where it is")
    if not os.access(os.path.dirname(target), os.W_OK | os.X_OK):
        raise _error(file, f"stands in a folder that cannot be written ({os.path.dirname(target)}): the new text is "
                           "made beside it")
    plan = _Plan(file, target, old, new, state)
    _compare(plan)
    return plan


def _compare(plan: _Plan) -> None:
    """Raises ReadError where the file no longer holds what was read."""
    try:
        with open(plan.target, "rb") as stream:
            same = stream.read(len(plan.old) + 1) == plan.old
    except OSError as error:
        raise _error(plan.file, f"cannot be read again ({_why(error)})") from None
    if not same:
        raise _error(plan.file, "was changed since it was read: ask again")


def _create(path: str, data: bytes, mode: int) -> None:
    """Writes a file that is not there yet, down to the disk. Raises OSError, and then leaves none."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), stat.S_IMODE(mode))
            os.fsync(stream.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def _numbered(plan: _Plan, data: bytes, name: str, ending: str) -> str:
    """Creates ``name`` + ``ending``, or with the first number that is free between them."""
    for number in range(1, 1000):
        path = name + (f"-{number}" if number > 1 else "") + ending
        try:
            _create(path, data, plan.mode.st_mode)
        except FileExistsError:
            continue
        return path
    raise _error(plan.file, f"has a thousand backups of this second: remove {name}*{ending}")


def _copy(plan: _Plan, notes: list[str]) -> str:
    folder, name = os.path.split(plan.target)
    copy = _numbered(plan, plan.new, os.path.join(folder, f".{name}.{_SUFFIX}-{os.getpid()}"), ".new")
    try:
        _keep(plan, copy, notes)
    except BaseException:
        with suppress(OSError):
            os.unlink(copy)
        raise
    return copy


def _keep(plan: _Plan, copy: str, notes: list[str]) -> None:
    """Gives the copy the owner and the extended attributes of the file, as far as that is allowed."""
    made = os.stat(copy)
    if (made.st_uid, made.st_gid) != (plan.mode.st_uid, plan.mode.st_gid):
        try:
            os.chown(copy, plan.mode.st_uid, plan.mode.st_gid)
            os.chmod(copy, stat.S_IMODE(plan.mode.st_mode))  # a change of owner takes special bits away
        except OSError:
            note = (f"{plan.file} belonged to user {plan.mode.st_uid}, group {plan.mode.st_gid}, and now to "
                    f"{made.st_uid}, {made.st_gid}: only root can give files away")
            notes += [note] if note not in notes else []
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for attribute in os.listxattr(plan.target):
                with suppress(OSError):  # labels of the system are its own business
                    os.setxattr(copy, attribute, os.getxattr(plan.target, attribute))


def _backup(plan: _Plan, now: datetime, notes: list[str]) -> str:
    backup = _numbered(plan, plan.old, f"{plan.target}.{_SUFFIX}-{now:%Y%m%dT%H%M%S}", ".bak")
    _keep(plan, backup, notes)
    return backup


def _beside(plan: _Plan, backup: str) -> str:
    """The backup's name, as the user names the file where that is the same folder."""
    if os.path.abspath(plan.file) != plan.target:
        return backup
    return os.path.join(os.path.dirname(plan.file), os.path.basename(backup))


def _put_back(done: WrittenFile) -> None:
    with open(done.backup, "rb") as stream:
        old = stream.read()
    with open(done.target, "rb") as stream:
        if digest(stream.read()) != done.after:
            raise OSError("it was changed by somebody else since")
    state = os.stat(done.target)
    copy = f"{done.target}.{_SUFFIX}-{os.getpid()}.old"
    _create(copy, old, state.st_mode)
    try:
        with suppress(OSError):
            os.chown(copy, state.st_uid, state.st_gid)
        os.replace(copy, done.target)
    except OSError:
        with suppress(OSError):
            os.unlink(copy)
        raise
    sync_folder(os.path.dirname(done.target))


def sync_folder(folder: str) -> None:
    """Brings the names in ``folder`` down to the disk; a file system that cannot is left as it is."""
    with suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _failed(error: OSError | ReadError, plans: list[_Plan], out: Written, copies: list[str],
            backups: list[str]) -> ReadError:
    """Cleans up after a failure; returns the error to raise, which says what state the files are in."""
    for copy in copies:
        with suppress(OSError):
            os.unlink(copy)
    failed = out.undo()
    kept = {os.path.basename(done.backup) for done in out.files} if failed else set()
    for backup in backups:
        if os.path.basename(backup) not in kept:
            with suppress(OSError):
                os.unlink(backup)
    file = error.file if isinstance(error, ReadError) and error.file else None
    if file is None:
        file = plans[min(len(out.files), len(plans) - 1)].file if plans else None
    text = error.message if isinstance(error, ReadError) else f"cannot be written ({_why(error)})"
    state = "nothing was changed" if not failed else "not all could be put back: " + "; ".join(failed)
    return ReadError(f"{text}; {state}", file=file, kind="usage")


def _error(file: str, text: str) -> ReadError:
    return ReadError(text, file=file, kind="usage")


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
