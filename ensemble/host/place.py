"""The output directory of a study: its files, and the process that works there."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import time
from pathlib import Path

from msgspec import MsgspecError, Struct, json

from native.errors import UsageError
from partition.up.processes import start_ticks

CONFIG_NAME = "config.json"
_RUNNING = "launcher.json"
_ORIGIN = "study.json"
_STOP_S = 600.0


class Running(Struct):
    """The launcher that works in a directory."""

    host: str
    unix_pid: int
    start_ticks: int


class Origin(Struct):
    """What stays the same for all launchers of a study.

    Attributes:
        prefix: of the names of its jobs, which are no other study's.
        file: the configuration's.
    """

    prefix: str
    file: str


class Place:
    """The directory, made if it is missing.

    Attributes:
        prefix: as :class:`Origin`.

    Raises:
        OSError: it cannot be made, or takes no file.
        UsageError: it has a file of somebody else with a name of ours.
    """

    def __init__(self, path: Path, file: Path, config: bytes) -> None:
        self.path = path
        self._config = config
        path.mkdir(parents=True, exist_ok=True)
        try:
            self.prefix = origin(path).prefix
        except UsageError:
            for name in (_ORIGIN, CONFIG_NAME):
                if (path / name).exists():
                    raise UsageError(
                        f"output_dir: {path / name}: not the launcher's; name another directory"
                    ) from None
            self.prefix = f"yod-ensemble-{secrets.token_hex(4)}"
            self._write(_ORIGIN, json.encode(Origin(self.prefix, str(file))))

    def enter(self) -> None:
        """Say that this process works here, which has the journal, and by which configuration."""
        self._write(CONFIG_NAME, self._config)
        pid = os.getpid()
        running = Running(socket.gethostname(), pid, start_ticks(pid))
        self._write(_RUNNING, json.encode(running))

    def leave(self) -> None:
        """It works no more."""
        (self.path / _RUNNING).unlink(missing_ok=True)

    def _write(self, name: str, data: bytes) -> None:
        part = self.path / f".{name}.part"
        part.write_bytes(data)
        part.replace(self.path / name)


def origin(path: Path) -> Origin:
    """The study of a directory.

    Raises:
        UsageError: there is none.
    """
    try:
        return json.decode((path / _ORIGIN).read_bytes(), type=Origin)
    except (OSError, MsgspecError):
        raise UsageError(f"{path}: no study was run there") from None


def default_path(now: float) -> str:
    """The name that the reference has."""
    return time.strftime("melissa-%Y%m%dT%H%M%S", time.localtime(now))


def stop(path: Path) -> None:
    """End the launcher that works in a directory, and wait until it has cancelled its jobs.

    Raises:
        UsageError: none works there, or on another host.
    """
    try:
        running = json.decode((path / _RUNNING).read_bytes(), type=Running)
    except (OSError, MsgspecError):
        raise UsageError(f"{path}: no launcher works there") from None
    if running.host != socket.gethostname():
        raise UsageError(f"{path}: its launcher is process {running.unix_pid} of {running.host}")
    try:
        fd = os.pidfd_open(running.unix_pid)
    except ProcessLookupError:
        raise UsageError(f"{path}: its launcher has ended; resume finds its jobs") from None
    try:
        if start_ticks(running.unix_pid) != running.start_ticks:
            raise UsageError(f"{path}: its launcher has ended; resume finds its jobs")
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        if not select.select([fd], [], [], _STOP_S)[0]:
            raise UsageError(f"{path}: its launcher has not ended after {_STOP_S:g} s")
    finally:
        os.close(fd)
