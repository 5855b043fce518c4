"""A helper of a launch server: a process that does one errand after the other.

All that touches the user's files before a launch begins is done here. An access may take long:
then the launches that wait for this helper wait, and the server does not.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from msgspec.structs import replace

from native.errors import PeerProtocolError, YodError
from native.host.rlimits import write_whole
from native.host.unixsockets import close_all
from native.loop import slices
from native.wire import client, client_codec
from partition.server import errands, yodjob
from partition.server.errands import Answer, Line
from yod import cli, frontend
from yod.host import shared
from yod.plan.checkpoint_options import RESTART
from yod.plan.invocation import Invocation
from yod.plan.prepared import Prepared
from yod.program import image

FRESH_S = 1.0  # our files are looked at again after this
READ_BYTES = 4 << 20
_NO_LAUNCH = (
    "-help",
    "--version",
    "-attach",
    "-sleep",
    "-alloc",
    "-show",
    "--dry-run",
    "--detach",
    "--pty",
)  # with these the client runs yod-cold


def serve(fd: int) -> None:
    """Do errands until nobody asks any more.

    Args:
        fd: the socket to the launch server.
    """
    helper = _Helper()
    line = Line(_socket.socket(fileno=fd))
    try:
        while (received := line.receive_errand()) is not None:
            errand, fds = received
            try:
                answer, answer_fds = helper.do(errand, fds)
            finally:
                close_all(fds)
            line.send(answer, answer_fds)
            close_all(answer_fds)
    except ConnectionError:  # the server has hung up: nobody waits for the answer
        pass


class _Helper:
    def __init__(self) -> None:
        self._sources = _Sources()
        self._environment = dict(os.environb)  # of this process
        self._variables: tuple[bytes, ...] | None = None  # that it was made of

    def do(self, errand: errands.Errand, fds: tuple[int, ...]) -> tuple[Answer, tuple[int, ...]]:
        """One errand.

        Returns:
            The answer, and descriptors that go with it.
        """
        try:
            match errand:
                case errands.Prepare(given):
                    return self._prepare(given, *fds), ()
                case errands.Submit(given, streams):
                    return self._submit(given, streams, *fds), ()
                case errands.Find(given, programs):
                    invocation = self._take(given, *fds)
                    found = [image.find(word, invocation, where) for word, where in programs]
                    return errands.Found(tuple(map(os.fsencode, found))), ()
                case errands.Read(path, size):
                    return errands.Done(), (_read(path, size),)
                case errands.Share(source, size, mode, target):
                    why = slices.run(shared.copy(source, size, mode, target))
                    return (errands.Failed(why) if why else errands.Done()), ()
                case errands.Remove(paths):
                    shared.remove(list(paths))
                    return errands.Done(), ()
        except (YodError, PeerProtocolError) as error:
            return errands.Failed(str(error)), ()
        except OSError as error:
            return errands.Failed(error.strerror or str(error)), ()

    def _prepare(self, given: errands.Given, strings_fd: int, directory_fd: int) -> Answer:
        if self._sources.are_replaced():
            return errands.Replaced()
        try:
            invocation = self._take(given, strings_fd, directory_fd)
            environment = dict(invocation.environment)
            chosen, words = cli.parse(list(invocation.words[1:]), environment)
            if not (words or RESTART in chosen) or any(name in chosen for name in _NO_LAUNCH):
                return errands.Nothing()
            invocation = replace(invocation, environment=environment)
            prepared = frontend.prepare(chosen, words, invocation)
            # yod-cold tries again, too: each try is a launch of its own. And it marks files.
            is_cold = prepared.plan.options.retries or _marks_files(prepared)
            return (
                errands.Nothing() if is_cold else errands.Launch(replace(prepared, resolve_s=0.0))
            )
        except YodError as error:
            return errands.NoLaunch(str(error), error.exit_status)

    def _submit(
        self, given: errands.Given, streams: int, strings_fd: int, directory_fd: int
    ) -> Answer:
        if self._sources.are_replaced():
            return errands.Replaced()
        words = self._take(given, strings_fd, directory_fd).words
        return yodjob.run(words[1:], given.umask, client.Stdio(streams)) or errands.Nothing()

    def _take(self, given: errands.Given, strings_fd: int, directory_fd: int) -> Invocation:
        """Give this process the environment and the directory that the client was started with.

        Raises:
            PeerProtocolError: the strings are not those that the client counts.
        """
        size = min(os.fstat(strings_fd).st_size, client.INVOCATION_MAX_BYTES + 1)
        data = os.pread(strings_fd, size, 0)
        strings = client_codec.decode_strings(data, given.arguments, given.variables)
        if strings.variables != self._variables:
            self._set_environment(strings.variables)
        os.fchdir(directory_fd)
        try:
            directory = os.getcwd()
        except OSError:
            directory = ""
        return Invocation(
            words=tuple(map(os.fsdecode, strings.arguments)),
            environment=self._environment,
            directory=directory,
            umask=given.umask,
            limits=given.limits,
            ignored_signals=given.ignored_signals,
            processors=given.processors,
        )

    def _set_environment(self, variables: tuple[bytes, ...]) -> None:
        """Give this process an environment; most variables are as in the last one."""
        self._variables = None  # until this is done
        environment: dict[bytes, bytes] = {}
        for entry in variables:
            name, equals, value = entry.partition(b"=")
            if equals and name:
                environment.setdefault(name, value)  # as the C library finds it
        before, self._environment = self._environment, environment
        for name in before.keys() - environment.keys():
            del os.environb[name]
        for name, value in environment.items() - before.items():
            os.environb[name] = value
        self._variables = variables


def _read(path: bytes, size: int) -> int:
    """The first bytes of a file, as a memfd.

    Raises:
        OSError: it cannot be read, is shorter, or there is no memory.
    """
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fd = os.memfd_create("yod-object", os.MFD_CLOEXEC)
        try:
            left = size
            while left:
                data = os.read(source, min(left, READ_BYTES))
                if not data:
                    raise OSError("the file has shrunk")
                write_whole(fd, data)
                left -= len(data)
        except BaseException:
            os.close(fd)
            raise
        return fd
    finally:
        os.close(source)


def _marks_files(prepared: Prepared) -> bool:
    """Checkpoints may need marks of files that the process of the launch writes itself."""
    plan = prepared.plan
    if plan.checkpointing is None:
        return False
    return plan.options.tee is not None or bool(plan.allocation)


class _Sources:
    """The files of our modules, as they were when they were imported."""

    def __init__(self) -> None:
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        self._stamps = {file: _stamp(file) for file in files if file}
        self._looked_at = time.monotonic()
        self._were_replaced = False

    def are_replaced(self) -> bool:
        """Whether one of them is another file now."""
        now = time.monotonic()
        if now - self._looked_at >= FRESH_S:
            self._looked_at = now
            self._were_replaced = any(_stamp(file) != stamp for file, stamp in self._stamps.items())
        return self._were_replaced


def _stamp(file: str) -> tuple[int, int, int]:
    try:
        status = os.stat(file)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
