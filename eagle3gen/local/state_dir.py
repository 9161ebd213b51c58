"""The folder of a one-machine ledger: one run at a time, and a note of where its services listen."""

import fcntl
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from eagle3gen.errors import ConfigurationError, InputError, StateDirInUse

LEFTOVER_SECONDS = 20.0
"""How long the children of a killed run may take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the services of a running run listen."""

    database_url: str
    redis_url: str | None


class StateDir:
    """An opened state directory, locked.

    The lock belongs to the open file, which the keepers of all children inherit: it is free only when nothing of a
    run is left.
    """

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self.lock_fd = lock_fd

    @classmethod
    def lock(cls, path: Path, *, create: bool) -> Self:
        """Open and lock. Raises StateDirInUse, ConfigurationError, or InputError when it is not there."""
        path = path.absolute()
        if not create and not (path / "lock").exists():
            raise InputError(f"there is no ledger in {path}; `eagle3gen run` makes one")
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock_fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(f"cannot use {path} as state directory: {error.strerror}") from error
        try:
            _acquire(path, lock_fd)
            os.ftruncate(lock_fd, 0)
            os.pwrite(lock_fd, str(os.getpid()).encode(), 0)
        except OSError as error:
            os.close(lock_fd)
            raise ConfigurationError(f"cannot write to the state directory {path}: {error.strerror}") from error
        except StateDirInUse:
            os.close(lock_fd)
            raise
        return cls(path, lock_fd)

    def unlock(self) -> None:
        """Close our hold on the lock; children that still end keep theirs."""
        (self.path / "services.json").unlink(missing_ok=True)
        os.close(self.lock_fd)

    def secret(self, name: str) -> str:
        """A generated password, kept in the folder, readable by its owner alone."""
        path = self.path / name
        if path.exists():
            return path.read_text("ascii").strip()
        value = secrets.token_urlsafe(24)
        _write_private(path, value)
        return value

    def publish(self, addresses: Addresses) -> None:
        """Let `status` and the others find the services while the run lives."""
        _write_private(self.path / "services.json", json.dumps(asdict(addresses)))


def running(path: Path) -> Addresses | None:
    """Where the services of the run that owns this folder listen; None when no run does.

    Raises InputError when there is no ledger, StateDirInUse when a run is just starting or ending.
    """
    path = path.absolute()
    try:
        lock_fd = os.open(path / "lock", os.O_RDWR)
    except FileNotFoundError:
        raise InputError(f"there is no ledger in {path}; `eagle3gen run` makes one") from None
    except OSError as error:
        raise ConfigurationError(f"cannot use {path} as state directory: {error.strerror}") from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        until = time.monotonic() + LEFTOVER_SECONDS
        while _alive(owner := _owner(lock_fd)) and time.monotonic() < until:
            try:
                return Addresses(**json.loads((path / "services.json").read_text("utf-8")))
            except (FileNotFoundError, ValueError):
                time.sleep(0.1)
        if _alive(owner):
            raise StateDirInUse(f"{path} is just being opened by process {owner}; try again in a moment") from None
        return None
    finally:
        os.close(lock_fd)
    return None


def _acquire(path: Path, lock_fd: int) -> None:
    until = time.monotonic() + LEFTOVER_SECONDS
    while True:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(lock_fd)
            if _alive(owner) or time.monotonic() > until:
                raise StateDirInUse(
                    f"{path} is in use by process {owner}; wait for it, stop it, or choose another --state-dir"
                ) from None
            time.sleep(0.1)
        else:
            return


def _owner(lock_fd: int) -> int:
    text = os.pread(lock_fd, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write_private(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".part")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(path)
