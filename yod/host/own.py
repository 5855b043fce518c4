"""The front of a launch in a process of the user's: this process's streams, signals, files."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from native.errors import YodError
from native.host import rlimits
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.machine import Event
from native.wire.load import ShippedObject
from yod.host.front import Input, OnBroken, OnWritten, Output, Sink
from yod.host.terminal import InputStream, OutputStream
from yod.launch.closing import Append
from yod.launch.events import RemoteServed
from yod.plan.invocation import Invocation
from yod.program import image

if TYPE_CHECKING:
    from yod.host.rawmode import RawMode
    from yod.host.shared import SharedCopies
    from yod.host.standin import StandIn
    from yod.remote.link import RemoteServer

FORWARDED_LIMITS = (
    resource.RLIMIT_CORE,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_STACK,
    resource.RLIMIT_AS,
    resource.RLIMIT_NOFILE,
)
STAND_IN_VARIABLE = "YOD_STAND_IN"  # native/client/standin.h
_COPYING = 1  # what the slices of our copies belong to


def invocation(words: tuple[str, ...]) -> Invocation:
    """What this process was started with.

    Args:
        words: the command line, the name first.
    """
    stand_in = _stand_in()  # before the environment is the ranks'
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""
    return Invocation(
        words=words,
        environment=dict(os.environb),
        directory=directory,
        umask=_umask(),
        limits=tuple((number, rlimits.soft(number)) for number in FORWARDED_LIMITS),
        ignored_signals=_ignored_signals(),
        processors=len(os.sched_getaffinity(0)),
        stand_in=stand_in,
    )


class OwnFront:
    """The standard streams, signals and files of this process.

    Args:
        invocation: of this process.
        shared_directory: in a file system that all nodes see.
        remote: directories whose files ranks are to see (``--remote-io``).

    Raises:
        YodError: nothing can serve them.
    """

    def __init__(
        self,
        reactor: Reactor,
        invocation: Invocation,
        shared_directory: str,
        remote: tuple[bytes, ...] = (),
    ) -> None:
        self._reactor = reactor
        self._invocation = invocation
        self._shared_directory = shared_directory
        self._slices = Slices(reactor)
        self._copies: SharedCopies | None = None
        self._stand_in: StandIn | None = None
        if invocation.stand_in >= 0:
            from yod.host.standin import StandIn

            self._stand_in = StandIn(invocation.stand_in)
        self._outputs: dict[int, OutputStream] = {}
        self._own_input: InputStream | None = None
        self._raw: RawMode | None = None
        self._stdin_fd = -1
        self._on_continued: Callable[[], None] | None = None
        self._remote: RemoteServer | None = None
        if remote:  # before others are told of all children of this process
            from yod.remote.link import RemoteServer  # few launches have any

            try:
                self._remote = RemoteServer(reactor, remote)
            except OSError as error:
                raise YodError(f"--remote-io: {error.strerror}") from None

    @property
    def are_outputs_same(self) -> bool:
        """Standard output and error are the same, also if it was opened twice."""
        try:
            return os.path.samestat(os.fstat(1), os.fstat(2))
        except OSError:  # one is closed
            return False

    def output(
        self,
        number: int,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> Output:
        """Our standard output or error."""
        output = OutputStream(self._reactor, number, on_written, on_taken, on_broken)
        self._outputs[number] = output
        return output

    def input(self, on_data: Callable[[bytes], None]) -> Input:
        """Our standard input."""
        self._own_input = InputStream(self._reactor, 0, on_data)
        return self._own_input

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Call when a signal has come, unless it is ignored."""
        if number == signal.SIGCONT:
            self._on_continued, call = call, partial(self._continued, call)
        if number not in self._invocation.ignored_signals:
            self._reactor.on_signal(number, call)

    def _continued(self, call: Callable[[], None]) -> None:
        self._reactor.forget_wait()
        self._come()
        call()

    def _come(self) -> None:
        if self._raw is not None:
            self._raw.begin()

    def suspend(self) -> None:
        """Stop this process. Where its group is orphaned the kernel does not, nor continue it."""
        if self._raw is not None:
            self._raw.end()
        self._reactor.suspend(signal.SIGTSTP)
        if self._on_continued is not None:
            self._on_continued()

    def on_leave(self, asked: Callable[[], None], gone: Callable[[], None]) -> None:
        """Call as said. A user who leaves gets the prompt back where somebody ends for us."""
        if self._own_input is not None and os.isatty(0):
            self._own_input.watch_terminal(None if self._stand_in is None else asked, gone)

    def use_terminal(self, handle: Callable[[Event], None] | None) -> None:
        """Be raw, or as before."""
        if self._raw is not None:
            self._raw.end()
            self._raw = None
        if handle is not None and self._own_input is not None:
            from yod.host.rawmode import RawMode  # few launches

            self._raw = RawMode(0, handle)
            self._own_input.be_raw(self._raw.asked, self._come)
            self._reactor.on_signal(signal.SIGWINCH, self._resized)
            self._raw.begin()

    @property
    def is_terminal_raw(self) -> bool:
        """Its modes are others than at first, and so not in the background."""
        return self._raw is not None and self._raw.is_on

    def _resized(self) -> None:
        if self._raw is not None:
            self._raw.resized()

    @property
    def why_attached(self) -> str:
        """Empty: where nobody ends in our place, this process goes on as under nohup."""
        return ""

    def detach(self, sink: Sink, stdin_fd: int, text: str) -> None:
        """Move terminals and pipes to a sink, and end the stand-in."""
        self.use_terminal(None)
        is_one = len(self._outputs) == 1
        for number, output in self._outputs.items():
            output.move(sink if is_one else partial(as_stream, sink, number))
        if self._own_input is not None:
            self._stdin_fd = stdin_fd
            self._own_input.move(stdin_fd)
        from yod.host import standin

        standin.leave_terminal()
        if self._stand_in is not None:
            self._stand_in.end(text)
            self._stand_in = None

    def open_object(self, shipped: ShippedObject, done: Callable[[int, str], None]) -> None:
        """Open the file of an object."""
        try:
            fd = os.open(shipped.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            done(-1, error.strerror or str(error))
        else:
            done(fd, "")

    def find_programs(
        self,
        programs: list[tuple[str, str]],
        done: Callable[[tuple[bytes, ...], str], None],
    ) -> None:
        """Look for programs, each in its directory."""
        try:
            found = tuple(
                os.fsencode(image.find(program, self._invocation, directory))
                for program, directory in programs
            )
        except YodError as error:
            done((), str(error))
        else:
            done(found, "")

    def copy_to_shared(
        self,
        shipped: ShippedObject,
        number: int,
        job_id: int,
        on_copied: Callable[[bytes], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Copy an object, a slice in each turn of the loop."""
        if self._copies is None:
            from yod.host.shared import SharedCopies  # few launches need them

            self._copies = SharedCopies(self._shared_directory, self._copy)
        self._copies.make(shipped, number, job_id, on_copied, on_failed)

    def begin_remote(
        self,
        directories: tuple[bytes, ...],
        on_served: Callable[[RemoteServed], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Let the process with the files begin."""
        assert self._remote is not None
        self._remote.begin(lambda *served: on_served(RemoteServed(*served)), on_lost)

    def serve_remote(self, place: int, mount: int, directory: int, frame: bytes) -> None:
        """Give it a request."""
        assert self._remote is not None
        self._remote.ask(place, mount, directory, frame)

    def append(self, append: Append, done: Callable[[str], None]) -> None:
        """Add to a file, in one write."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        if append.is_log:
            flags |= os.O_NOFOLLOW | os.O_NONBLOCK
        if append.empties:
            flags |= os.O_TRUNC
        try:
            fd = os.open(append.path, flags, 0o644 if append.is_log else 0o666)
            try:
                _write(fd, append.data)
            finally:
                os.close(fd)
        except OSError as error:
            done(append_fault(append, error.errno or 0))
        else:
            done("")

    def close(self) -> None:
        """Give the terminal back, end the copying and the process with the files, remove copies."""
        self.use_terminal(None)
        if self._remote is not None:
            self._remote.close()
            self._remote = None
        if self._stdin_fd >= 0:
            os.close(self._stdin_fd)
            self._stdin_fd = -1
        if self._stand_in is not None:
            self._stand_in.close()
            self._stand_in = None
        if self._copies is not None:
            from yod.host import shared

            self._slices.cancel(_COPYING)
            shared.remove(self._copies.paths)

    def _copy(self, shipped: ShippedObject, path: str, done: Callable[[str], None]) -> None:
        from yod.host import shared

        work = shared.copy(shipped.path, shipped.size, shipped.mode, path)
        self._slices.start(_COPYING, work, done)


def as_stream(sink: Sink, number: int, stream: int, data: bytes | bytearray | memoryview) -> None:
    """Give a sink what was for one of our streams, whatever has written it."""
    sink(number, data)


def append_fault(append: Append, number: int) -> str:
    """Why a file could not be added to.

    Args:
        number: an errno.
    """
    if append.is_log and number == errno.ELOOP:
        return "a symbolic link"
    return os.strerror(number).lower()


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _stand_in() -> int:
    """The descriptor that our environment names, which names it no more; -1: none."""
    text = os.environ.pop(STAND_IN_VARIABLE, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        return -1
    try:
        if not stat.S_ISFIFO(os.fstat(int(text)).st_mode):
            return -1
        os.set_inheritable(int(text), False)
    except OSError:
        return -1
    return int(text)


def _ignored_signals() -> tuple[int, ...]:
    """Signals that yod was started to ignore. Python itself ignores two others."""
    numbers = range(1, signal.NSIG)
    ignored = {number for number in numbers if signal.getsignal(number) is signal.SIG_IGN}
    return tuple(sorted(ignored - {signal.SIGPIPE, signal.SIGXFSZ}))


def _umask() -> int:
    """The umask, which the kernel tells without a change that other threads would see."""
    with open("/proc/self/status", "rb", buffering=0) as status:
        for line in status.read().splitlines():
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    raise AssertionError("Linux tells the umask of a process since 4.7")
