"""A keeper of a job on this node, as the PCT sees it.

The keeper (``native/keeper``) is spawned, never forked from Python, and talks over a socket
that the loop watches. The kernel ends it when the thread that has spawned it ends, so
:meth:`Keeper.start` is called in the thread that lives as long as the process: the loop's.
"""

from __future__ import annotations

import _socket  # `socket` takes 10 ms to import and adds nothing that is used here
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable

import native
from native.errors import PeerProtocolError
from native.host.rlimits import write_whole
from native.loop.reactor import Reactor, Watch
from native.waitstatus import how_it_ended
from native.wire import keeper as wire
from pct.host.reports import Reports

NATIVE = os.path.dirname(os.path.abspath(native.__file__ or "native/__init__.py"))
KEEPER = os.path.join(NATIVE, "keeper", "yod-keeper")
HOLD_LIBRARY = os.path.join(NATIVE, "hold", "yodhold.so")

_CONTROL_FD, _SPEC_FD, _PORTALS_FD, _FIRST_FREE_FD = 3, 4, 5, 6
_RECEIVE_BYTES = wire.REPORTS_PER_PACKET * 256
_RECEIVE_FDS_BYTES = _socket.CMSG_SPACE(wire.FDS_PER_PACKET * 4)
_MANY_RANKS = 64  # from this number on the node's limits are checked first
_MSG_CMSG_CLOEXEC = 0x40000000  # linux/socket.h

OnEvent = Callable[[wire.Report], None]
OnStreams = Callable[[int, int | None, int, int, int | None], None]


class Keeper:
    """The keeper of one job.

    Every :class:`~native.wire.keeper.Report` goes to ``on_event``. The last one is
    ``KeeperEmpty`` or ``KeeperLost``, unless :meth:`close` is called before. A rank's
    streams go to ``on_streams`` just before its ``RankStarted``; from then on they belong to
    the callee. They do not block.

    Attributes:
        unix_pid: the keeper's process.
    """

    def __init__(
        self,
        control: _socket.socket,
        unix_pid: int,
        reactor: Reactor,
        on_event: OnEvent,
        on_streams: OnStreams,
        ranks: Iterable[int],
    ) -> None:
        self._reports = Reports(ranks)
        self.unix_pid = unix_pid
        self._control = control
        self._on_event: OnEvent | None = on_event
        self._on_streams = on_streams
        self._unsent: deque[bytes] = deque()
        self._fault = ""  # why it will be lost
        self._watch: Watch | None = reactor.watch(control.fileno(), self._receive)
        reactor.on_child(unix_pid, self._exited)

    @classmethod
    def start(
        cls,
        spec: wire.KeeperSpec,
        reactor: Reactor,
        on_event: OnEvent,
        on_streams: OnStreams,
        portals_fd: int = -1,
        *,
        keeper: str = KEEPER,
        hold_library: str = HOLD_LIBRARY,
    ) -> Keeper:
        """Spawn a keeper that starts the ranks at once and holds each at its entry.

        Args:
            portals_fd: the file for the ranks' map, where ranks use Portals. The caller keeps it.

        Raises:
            ValueError: the specification cannot be encoded, or this node has no descriptors
                or processes for so many ranks.
            OSError: it cannot be spawned: no keeper program, no process, no descriptor.
        """
        _check_capacity(spec)
        encoded = wire.encode_spec(spec, os.getpid(), os.fsencode(hold_library))
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            ours.setblocking(False)
            unix_pid = _spawn(keeper, theirs.detach(), encoded, portals_fd)
        except BaseException:
            ours.close()
            raise
        ranks = (rank.rank for rank in spec.ranks)
        return cls(ours, unix_pid, reactor, on_event, on_streams, ranks)

    def go(self) -> None:
        """Let all ranks go. One that is not at its entry yet does not stop there."""
        self._send(wire.encode_go())

    def signal(self, signo: int, rank: int | None = None) -> None:
        """Send a signal to the process group of one rank, or of every rank that has not ended."""
        command = wire.encode_signal(signo, rank)
        if command not in self._unsent:  # a second one would change nothing
            self._send(command)

    def end(self) -> None:
        """Kill all processes below the keeper; ``KeeperEmpty`` will follow."""
        self._send(wire.encode_end())
        self._continue()

    def close(self) -> None:
        """Hang up: the keeper kills all its processes and exits. No further event is reported."""
        self._on_event = None
        self._continue()
        self._hang_up()

    def _continue(self) -> None:
        """Continue the keeper: one that was stopped would never end its ranks."""
        if self._watch is not None:
            _kill(self.unix_pid, signal.SIGCONT)

    def _send(self, command: bytes) -> None:
        if self._watch is None:
            return
        self._unsent.append(command)
        self._flush()

    def _flush(self) -> None:
        assert self._watch is not None
        try:
            while self._unsent:
                self._control.send(self._unsent[0], _socket.MSG_NOSIGNAL)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it has ended; its exit is reported
            self._unsent.clear()
        self._watch.set(self._receive, self._flush if self._unsent else None)

    def _receive(self) -> None:
        """Read every packet that has arrived."""
        while self._watch is not None:
            try:
                packet, ancillary, flags, _ = self._control.recvmsg(
                    _RECEIVE_BYTES, _RECEIVE_FDS_BYTES, _MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except ConnectionResetError:  # it ended with a command unread; its reports follow
                continue
            fds = deque(fd for _, _, data in ancillary for fd in memoryview(data).cast("i"))
            if not packet:
                self._hang_up()
                return
            try:
                if flags & _socket.MSG_CTRUNC:
                    raise PeerProtocolError("no descriptors are left for streams (ulimit -n)")
                self._take(packet, fds)
            except PeerProtocolError as error:
                self._fault = str(error)
                self._hang_up()
            finally:
                for fd in fds:
                    os.close(fd)

    def _take(self, packet: bytes, fds: deque[int]) -> None:
        for report in wire.decode_reports(packet):
            if self._on_event is None:  # closed while an earlier report was handled
                return
            self._reports.check(report)
            match report:
                case wire.StreamsTaken(rank, has_stdin, True, True, has_pmi):
                    if len(fds) < 2 + has_stdin + has_pmi:
                        raise PeerProtocolError("keeper: a stream's descriptor is missing")
                    stdin = fds.popleft() if has_stdin else None
                    stdout, stderr = fds.popleft(), fds.popleft()
                    pmi = fds.popleft() if has_pmi else None
                    self._on_streams(rank, stdin, stdout, stderr, pmi)
                case wire.StreamsTaken():
                    raise PeerProtocolError("keeper: a rank without output")
                case wire.KeeperFailed(reason):
                    self._fault = reason
                case wire.KeeperEmpty() | wire.KeeperLost():
                    self._finish(report)
                case _:
                    self._on_event(report)

    def _exited(self, wait_status: int) -> None:
        self._receive()
        self._hang_up()
        self._finish(
            wire.KeeperLost(self._fault or f"the keeper failed: {how_it_ended(wait_status)}")
        )

    def _finish(self, last: wire.Report) -> None:
        on_event, self._on_event = self._on_event, None
        if on_event:
            on_event(last)

    def _hang_up(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._control.close()


def _kill(unix_pid: int, signo: int) -> None:
    try:
        os.kill(unix_pid, signo)
    except OSError:  # it has ended, or belongs to another user
        pass


def _check_capacity(spec: wire.KeeperSpec) -> None:
    """Raise ValueError where it is known that descriptors or processes do not suffice."""
    if len(spec.ranks) < _MANY_RANKS:
        return
    from pct.host import capacity

    descriptors = sum(2 + rank.wants_stdin + rank.wants_pmi for rank in spec.ranks)
    if text := capacity.refusal(len(spec.ranks), descriptors):
        raise ValueError(text)


def _spawn(keeper: str, control_fd: int, encoded: bytes, portals_fd: int) -> int:
    """Start the program with its descriptors; ours of the socket and the specification close."""
    spec_fd = -1
    own_portals_fd = -1  # a copy, at a number above those that the keeper is given
    try:
        spec_fd = os.memfd_create("yod-keeper")
        write_whole(spec_fd, encoded)
        control_fd, spec_fd = _move_up(control_fd), _move_up(spec_fd)
        portals: list[tuple[int, int, int]] = []
        if portals_fd >= 0:
            own_portals_fd = _move_up(os.dup(portals_fd))
            portals.append((os.POSIX_SPAWN_DUP2, own_portals_fd, _PORTALS_FD))
        return os.posix_spawn(
            keeper,
            [keeper],
            {},
            file_actions=[
                # Not our standard streams: a pipe that a user reads must end with us.
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, control_fd, _CONTROL_FD),
                (os.POSIX_SPAWN_DUP2, spec_fd, _SPEC_FD),
                *portals,
            ],
            setpgroup=0,  # so that Ctrl-C on a terminal does not reach the keeper
            setsigmask=(),
        )
    finally:
        os.close(control_fd)
        for fd in (spec_fd, own_portals_fd):
            if fd >= 0:
                os.close(fd)


def _move_up(fd: int) -> int:
    """Move a descriptor above the numbers that the keeper is given."""
    if fd >= _FIRST_FREE_FD:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
    os.close(fd)
    return moved
