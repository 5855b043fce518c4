"""Children of the launcher: scheduler commands with a deadline, and jobs of direct schedulers."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from native.errors import UsageError
from native.loop.reactor import Reactor

OUTPUT_MAX_BYTES = 16 * 1024 * 1024  # of a command: ten thousand jobs take less than one
TERM_S = 5.0  # a job that is ended has so long, then it is killed
_Action = tuple[int, ...] | tuple[int, int, str, int, int]


def program(word: str) -> str:
    """Where a program is.

    Raises:
        UsageError: nowhere in PATH.
    """
    found = shutil.which(word)
    if found is None:
        raise UsageError(f"{word}: no such program in PATH")
    return found


class Command:
    """One command of a scheduler, whose output is read when it ends.

    Args:
        limit_s: it is killed then.
        on_end: called once with the wait status, or None when it was too late, and both outputs.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        reactor: Reactor,
        limit_s: float,
        on_end: Callable[[int | None, str, str], None],
    ) -> None:
        self.words = tuple(words)
        self._reactor = reactor
        self._on_end = on_end
        self._is_late = False
        self._data = [bytearray(), bytearray()]
        self._fds: list[int] = []
        writers: list[int] = []
        actions: list[_Action] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        try:
            for number in (1, 2):
                reader, writer = os.pipe2(os.O_CLOEXEC)
                self._fds.append(reader)
                writers.append(writer)
                os.set_blocking(reader, False)
                actions.append((os.POSIX_SPAWN_DUP2, writer, number))
            self._unix_pid = os.posix_spawnp(
                words[0], list(words), environment, file_actions=actions, setpgroup=0, setsigmask=()
            )
        except OSError as error:  # no such program, or no more descriptors or processes
            text = error.strerror or str(error)
            self._unix_pid = -1
            reactor.call_soon(lambda: self._tell(127 << 8, text))
            return
        finally:
            for writer in writers:
                os.close(writer)
        self._watches = [
            reactor.watch(fd, partial(self._take, at)) for at, fd in enumerate(self._fds)
        ]
        self._timer = reactor.timer(self._late)
        self._timer.set(reactor.monotonic() + limit_s)
        reactor.on_child(self._unix_pid, self._ended)

    def kill(self) -> None:
        """End it at once; its end is told as that of a late one."""
        if self._unix_pid > 0:
            self._late()

    def _late(self) -> None:
        self._is_late = True
        try:
            os.killpg(self._unix_pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _take(self, at: int) -> None:
        self._read(at)

    def _read(self, at: int) -> bool:
        try:
            data = os.read(self._fds[at], 65536)
        except BlockingIOError:
            return False
        self._data[at] += data[: OUTPUT_MAX_BYTES - len(self._data[at])]
        if not data:
            self._watches[at].close()
        return bool(data)

    def _ended(self, status: int) -> None:
        self._unix_pid = -1
        self._timer.close()
        for at, watch in enumerate(self._watches):
            while self._read(at):  # what it has written last
                pass
            watch.close()
        self._tell(None if self._is_late else status, self._data[1].decode(errors="replace"))

    def _tell(self, status: int | None, err: str) -> None:
        for fd in self._fds:
            os.close(fd)
        self._on_end(status, self._data[0].decode(errors="replace"), err.strip())


class Child:
    """A job that is a child of ours, with all that it starts in its process group.

    It gets SIGTERM when the launcher dies.

    Args:
        outputs: files for its outputs; None: they are ours.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        outputs: tuple[str, str] | None,
        reactor: Reactor,
        on_end: Callable[[int], None],
    ) -> None:
        self._reactor = reactor
        self._on_end = on_end
        actions: list[_Action] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        for number, path in enumerate(outputs or (), 1):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            actions.append((os.POSIX_SPAWN_OPEN, number, path, flags, 0o644))
        # posix_spawn sets neither a directory nor what a parent's death does to a child.
        every = [program("setpriv"), "--pdeathsig", "TERM", "--"]
        every += [program("env"), f"--chdir={directory}", *words]
        self.unix_pid = os.posix_spawn(
            every[0], every, environment, file_actions=actions, setpgroup=0, setsigmask=()
        )
        self._timer = reactor.timer(self.kill)
        reactor.on_child(self.unix_pid, self._ended)

    def end(self) -> None:
        """End it: SIGTERM, and SIGKILL 5 s later."""
        if self._timer.at is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            self._timer.set(self._reactor.monotonic() + TERM_S)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.unix_pid, number)
        except ProcessLookupError:
            pass

    def _ended(self, status: int) -> None:
        self._timer.close()
        self.kill()  # what it has left in its group
        self._on_end(status)
