"""Runs the submit hooks of a site, each in a process group of its own and as another user.

A hook is a program of a directory, or an entry point of the group ``yod.submit`` in a Python that
is started for it: never in bebopd.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from allocator.batch.hooked import ANSWER_MAX_BYTES, Hooked
from native.errors import UsageError
from native.loop.reactor import Reactor
from native.text import shown
from native.waitstatus import how_it_ended

Then = Callable[[str, bytes], None]

NOBODY = "nobody"
_SAID_MAX_BYTES = 4096  # of its errors


class SubmitHooks:
    """The hooks that ``bebopd --submit-hooks`` names.

    Args:
        said: directories and names of entry points, with commas between.
        user: that they run as; empty: nobody, where bebopd is root's, else its own user.
        limit_s: how long each may take.

    Raises:
        UsageError: there is no such user, or bebopd cannot become them.
    """

    def __init__(self, said: str, user: str, reactor: Reactor, limit_s: float) -> None:
        self._said = said
        self._user = _user(user)
        self._reactor = reactor
        self._limit_s = limit_s
        self._programs: dict[str, str] = {}
        self._running: dict[int, _Run] = {}

    def find(self) -> tuple[str, ...]:
        """Their names, in the order in which they run.

        Raises:
            UsageError: a directory cannot be read, or two have the same name.
        """
        found: dict[str, str] = {}
        for word in filter(None, self._said.split(",")):
            programs = _programs_in(word) if "/" in word else {word: ""}
            if twice := sorted(found.keys() & programs.keys()):
                raise UsageError(f"--submit-hooks: there are two hooks {shown(twice[0])}")
            found |= programs
        self._programs = found
        return tuple(found)

    def find_again(self, hooked: Hooked) -> str:
        """At SIGHUP: the hooks that are there now are those of later jobs; what to say."""
        try:
            names = self.find()
        except UsageError as error:
            return f"the submit hooks stay as they are: {error}"
        hooked.become(names)
        return f"submit hooks: {', '.join(map(shown, names)) or 'none'}"

    def run(self, hook: str, request: bytes, then: Then) -> None:
        """Run one; ``then`` is called later, with how it has failed and what it has said."""
        path = self._programs.get(hook, "")
        module = "allocator.host.submit_child"
        start = f"import sys; sys.path += {sys.path!r}; from {module} import main; main()"
        words = [sys.executable, "-P", "-c", start, self._user, hook, path]
        run = _Run(self._reactor, words, request, self._limit_s)
        try:
            unix_pid = run.start()
        except OSError as error:
            text = f"cannot be started: {error.strerror}"
            self._reactor.call_soon(lambda: then(text, b""))
            return
        self._running[unix_pid] = run

        def ended(status: int) -> None:
            del self._running[unix_pid]
            then(*run.ended(status))

        self._reactor.on_child(unix_pid, ended)

    def close(self) -> None:
        """End those that run; the jobs that they were asked about are not taken."""
        for run in self._running.values():
            run.kill()


class _Run:
    """One hook that runs."""

    def __init__(
        self, reactor: Reactor, words: Sequence[str], request: bytes, limit_s: float
    ) -> None:
        self._reactor = reactor
        self._words = words
        self._request = request
        self._limit_s = limit_s
        self._is_late = False
        self._unix_pid = 0

    def start(self) -> int:
        """Start it; its process id.

        Raises:
            OSError: it cannot be started.
        """
        stdin = os.memfd_create("request", os.MFD_CLOEXEC)
        fds = [stdin]
        try:
            os.write(stdin, self._request)
            os.lseek(stdin, 0, os.SEEK_SET)
            (out, to_out), (err, to_err) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
            fds += [to_out, to_err]
            self._output = _Reader(self._reactor, out, ANSWER_MAX_BYTES + 1)
            self._errors = _Reader(self._reactor, err, _SAID_MAX_BYTES)
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]
            self._unix_pid = os.posix_spawn(
                self._words[0],
                list(self._words),
                os.environ,
                file_actions=actions,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE,),
                setpgroup=0,
            )
        except OSError:
            self._close()
            raise
        finally:
            for fd in fds:
                os.close(fd)
        self._timer = self._reactor.timer(self._late)
        self._timer.set(self._reactor.monotonic() + self._limit_s)
        return self._unix_pid

    def _late(self) -> None:
        self._is_late = True
        self.kill()

    def kill(self) -> None:
        """It is not reaped, so that the group is its own."""
        os.killpg(self._unix_pid, signal.SIGKILL)

    def ended(self, status: int) -> tuple[str, bytes]:
        """How it has failed, and what it has said."""
        self._timer.close()
        output, errors = self._output.rest(), self._errors.rest()
        self._close()
        if self._is_late:
            return f"not over after {self._limit_s:g} s (YOD_SUBMIT_HOOK_S of bebopd)", b""
        if not status:
            return "", output
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        return how_it_ended(status) + (f": {last}" if last else ""), b""

    def _close(self) -> None:
        for name in ("_output", "_errors"):
            if (reader := getattr(self, name, None)) is not None:
                reader.close()


class _Reader:
    """Reads what a hook writes; of more than is wanted the rest is dropped."""

    def __init__(self, reactor: Reactor, fd: int, most: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._most = most
        self._data = bytearray()
        self._watch = reactor.watch(fd, self._readable)

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        """Read once; whether there may be more."""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return False
        self._data += data[: self._most - len(self._data)]
        if not data:
            self._watch.close()
        return bool(data)

    def rest(self) -> bytes:
        """All that was written before it has ended; a child of its own may have the pipe still."""
        while self._read() and len(self._data) < self._most:
            pass
        return bytes(self._data)

    def close(self) -> None:
        """Read no more."""
        self._watch.close()
        os.close(self._fd)


def _user(said: str) -> str:
    if os.geteuid():
        if said:
            raise UsageError(
                f"--submit-user {shown(said)}: only a bebopd of root's can become them"
            )
        return ""
    said = said or NOBODY
    try:
        pwd.getpwnam(said)
    except KeyError:
        raise UsageError(f"--submit-user {shown(said)}: there is no such user") from None
    return said


def _programs_in(directory: str) -> dict[str, str]:
    """The executables of a directory, by name, ascending; hidden ones are none."""
    try:
        paths = sorted(Path(directory).iterdir())
    except OSError as error:
        text = f"--submit-hooks {shown(directory)}: {error.strerror}"
        raise UsageError(text) from None
    return {
        path.name: str(path.absolute())
        for path in paths
        if not path.name.startswith(".") and path.is_file() and os.access(path, os.X_OK)
    }
