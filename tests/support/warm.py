"""Launch servers for tests, and the partition inside one.

A launch server stays from test to test, as partitions of daemons do: its socket is in a directory
of its own, which ``YOD_LAUNCH_SERVER`` names to the yods of a test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from partition.find.warm import VARIABLE
from tests.support.daemons import Daemon
from tests.support.leaks import Watch, command_line, descendants
from tests.support.partition import BIN, Partition, Word
from tests.support.place import Place, of_jobs
from tests.support.wait import read_until

COMMAND = (BIN / "yod-server",)
LOG = "log"  # in its directory


class LaunchServer:
    """A launch server.

    Args:
        place: of the test, or that of a wider fixture.
        env: added to its environment: limits and the like.
        command: starts it.

    Attributes:
        directory: of its socket, and its run-time directory.
        daemon: its process, and its log.
        mark: its processes carry it.
        directories: the variables that name its user's directories.
    """

    def __init__(
        self,
        place: Place,
        env: Mapping[str, str] | None = None,
        command: Sequence[Word] = COMMAND,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="test-of-yod-", dir=place.runtime.parent))
        self.mark = place.mark
        self._command = command
        self._environment = {
            **place.environment(),
            "XDG_RUNTIME_DIR": str(self.directory),
            VARIABLE: str(self.directory),
            **(env or {}),
        }
        names = ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
        self.directories = {name: self._environment[name] for name in names}

    def start(self) -> None:
        """Start it; returns when it takes clients."""
        log = self.directory / LOG
        reading, writing = os.pipe()
        try:
            with open(log, "ab") as file:
                process = subprocess.Popen(
                    [*self._command, "--ready-fd", str(writing)],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    pass_fds=(writing,),
                    cwd="/",
                    start_new_session=True,
                )
            self.daemon = Daemon(process, log)
            os.close(writing)
            writing = -1
            read_until(reading, b"\n")
        except AssertionError as error:
            self.daemon.kill()
            raise AssertionError(f"{error}\n{self.daemon.text()}") from None
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)

    def stop(self) -> None:
        """End it."""
        try:
            if self.daemon.is_alive:
                self.daemon.stop()
        finally:
            shutil.rmtree(self.directory)

    @property
    def is_as_started(self) -> bool:
        """It runs."""
        return self.daemon.is_alive

    def begin_test(self, watch: Watch) -> None:
        """A test begins: its end compares the server with its present state."""
        self.daemon.begin_test()
        unix_pids = [self.daemon.unix_pid, *descendants(self.daemon.unix_pid)]
        watch.partition(self, unix_pids, str, self.helpers)

    def helpers(self) -> set[int]:
        """Its helpers, of which a killed one is replaced."""
        return {
            unix_pid
            for unix_pid in descendants(self.daemon.unix_pid)
            if "--helper-fd" in command_line(unix_pid)
        }

    def files(self) -> set[str]:
        """Everything in its directory, but for :func:`of_jobs`."""
        return {
            str(path) for path in self.directory.rglob("*") if not of_jobs(self.directory, path)
        }

    def log(self) -> str:
        """What it has said, and its state, for messages."""
        self.daemon.show_state()
        return f"--- launch server\n{self.daemon.text()}"


class Warm(Partition):
    """The partition inside a launch server, in which yod runs its launches."""

    kind = "warm"

    def __init__(self, server: LaunchServer) -> None:
        super().__init__()
        self.launch_server = server
