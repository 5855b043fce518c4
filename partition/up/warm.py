"""Starts and ends the launch server of this user on this host."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from native.errors import PartitionError
from native.host import programs
from native.text import shown
from partition.find import warm
from partition.find.state import Daemon
from partition.up import processes

LOG = "launch.log"  # in the run directory
START_S = 30.0
END_S = 10.0  # the server has this long between SIGTERM and SIGKILL


def up(environment: Mapping[str, str], slots: int | None = None) -> int:
    """Start a launch server, and wait until it takes launches.

    Args:
        slots: how many ranks all launches in its partition may have together; None: any.

    Returns:
        Its Unix process id.

    Raises:
        PartitionError: there is one already, or it does not come up.
    """
    try:
        directory = warm.make_directory(environment)
    except OSError as error:
        raise PartitionError(f"{shown(error.filename)}: {error.strerror}") from None
    if (unix_pid := running(environment)) is not None:
        raise PartitionError(f"a launch server is up already (process {unix_pid})")
    log = Path(directory, LOG)
    log.unlink(missing_ok=True)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    argv = [*programs.command_line("yod-server"), "--ready-fd", str(processes.READY_FD)]
    if slots is not None:
        argv += ["--slots", str(slots)]
    own = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    try:
        try:
            unix_pid = processes.spawn(argv, own, log, writer)
        finally:
            os.close(writer)
        if not select.select([reader], [], [], START_S)[0] or not os.read(reader, 16):
            with suppress(ProcessLookupError):
                os.kill(unix_pid, signal.SIGKILL)
            said = log.read_text(errors="replace").strip().splitlines()[-1:]
            why = said[0] if said else "it ended, or was too slow"
            raise PartitionError(f"the launch server did not come up: {why}")
    finally:
        os.close(reader)
    return unix_pid


def running(environment: Mapping[str, str]) -> int | None:
    """The process id of the server, which also runs if it does not answer; None: there is none."""
    path = os.path.join(warm.directory(environment), warm.lock_name())
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(fd, 32, 0).strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(fd)
    return None


def down(environment: Mapping[str, str]) -> int | None:
    """End the server, and the launches that it runs.

    Returns:
        Its process id; None: there was none.
    """
    unix_pid = running(environment)
    if unix_pid is None:
        return None
    server = Daemon(unix_pid, processes.start_ticks(unix_pid), "")
    there, _ = processes.end([server], END_S, resumes=True)
    if not there:
        return None
    Path(warm.directory(environment), LOG).unlink(missing_ok=True)
    return unix_pid
