"""A keeper of a job on this node, as the PCT sees it.

The keeper (``native/keeper``) is a program of its own and talks over a socket that the loop
watches. Its process is a child of whoever has started it (:mod:`pct.host.spawn`): this process,
or another one, which then tells of its start and its end.
"""

from __future__ import annotations

import _socket  # `socket` takes 10 ms to import and adds nothing that is used here
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from native.errors import PeerProtocolError
from native.host import unixsockets
from native.host.rlimits import write_whole
from native.loop.reactor import Reactor, Watch
from native.waitstatus import how_it_ended
from native.wire import keeper as wire
from pct.host import streams
from pct.host.reports import Reports
from pct.host.spawn.spawner import NATIVE, Spawner

HOLD_LIBRARY = os.path.join(NATIVE, "hold", "yodhold.so")

_RECEIVE_BYTES = wire.REPORTS_PER_PACKET * 256
_PACKETS_PER_TURN = 8  # read in one turn of the loop: some milliseconds' reports
_MANY_RANKS = 64  # from this number on the node's limits are checked first

_STOPS = (signal.SIGSTOP, signal.SIGCONT)
_STOP_COMMANDS = tuple(map(wire.encode_signal, _STOPS))

OnEvent = Callable[[wire.Report], None]
OnStreams = Callable[[int, int | None, int, int, int | None], None]
OnMount = Callable[[int, int], None]


def _is_told_at_once(text: str) -> None:
    raise AssertionError(f"a start in this process fails at once or never: {text}")


class Keeper:
    """The keeper of one job.

    Every :class:`~native.wire.keeper.Report` goes to ``on_event``. The last one is
    ``KeeperEmpty`` or ``KeeperLost``, unless :meth:`close` is called before, or the keeper turns
    out not to have been started. A rank's streams go to ``on_streams`` just before its
    ``RankStarted``; from then on they belong to the callee. They do not block.

    Attributes:
        unix_pid: the keeper's process; 0: not known yet, or it has ended.
    """

    def __init__(
        self,
        control: _socket.socket,
        spawner: Spawner,
        reactor: Reactor,
        on_event: OnEvent,
        on_streams: OnStreams,
        ranks: Iterable[int],
        on_not_started: Callable[[str], None] = _is_told_at_once,
        on_mount: OnMount | None = None,
        mounts: int = 0,
    ) -> None:
        self._reports = Reports(ranks, mounts)
        self._on_mount = on_mount
        self.unix_pid = 0
        self._control = control
        self._spawner = spawner
        self._number: int | None = None  # stands for its process at the spawner
        self._on_event: OnEvent | None = on_event
        self._on_streams = on_streams
        self._on_not_started = on_not_started
        self._unsent: deque[bytes] = deque()
        self._fault = ""  # why it will be lost
        self._is_orphan = False  # nobody will tell of its exit
        self._is_resting = False
        self._wait_status: int | None = None  # of a process that has ended meanwhile
        self._watch: Watch | None = reactor.watch(control.fileno(), self._receive)

    @classmethod
    def start(
        cls,
        spec: wire.KeeperSpec,
        spawner: Spawner,
        reactor: Reactor,
        on_event: OnEvent,
        on_streams: OnStreams,
        portals_fd: int = -1,
        *,
        on_not_started: Callable[[str], None] = _is_told_at_once,
        hold_library: str = HOLD_LIBRARY,
        on_mount: OnMount | None = None,
    ) -> Keeper:
        """Start a keeper, which starts the ranks at once and holds each at its entry.

        Args:
            spawner: the parent of its process.
            portals_fd: the file for the ranks' map, where ranks use Portals. The caller keeps it.
            on_not_started: takes the reason when the spawner tells later that there is no
                keeper. It is called once, and nothing else after it.
            on_mount: takes the number of a directory over which the keeper has mounted, and the
                descriptor; needed where the specification has some.

        Raises:
            ValueError: the specification cannot be encoded, or this node has no descriptors
                or processes for so many ranks.
            OSError: it is known already that it cannot be started.
        """
        _check_capacity(spec)
        encoded = wire.encode_spec(spec, spawner.unix_pid, os.fsencode(hold_library))
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        fds = [theirs.detach()]
        try:
            ours.setblocking(False)
            fds.append(os.memfd_create("yod-keeper"))
            write_whole(fds[1], encoded)
            if portals_fd >= 0:
                fds.append(os.dup(portals_fd))
        except BaseException:
            ours.close()
            unixsockets.close_all(fds)
            raise
        ranks = (rank.rank for rank in spec.ranks)
        around = on_not_started, on_mount, len(spec.remote)
        keeper = cls(ours, spawner, reactor, on_event, on_streams, ranks, *around)
        try:
            keeper._number = spawner.start(tuple(fds), keeper)
        except BaseException:
            keeper._on_event = None
            keeper._hang_up()
            raise
        return keeper

    # -- told by the spawner ------------------------------------------------

    def started(self, unix_pid: int) -> None:
        """Its process is there. It may have reported something already."""
        self.unix_pid = unix_pid

    def not_started(self, error: OSError) -> None:
        """There is no process."""
        self._number = None
        self._hang_up()
        on_event, self._on_event = self._on_event, None
        if on_event:
            self._on_not_started(error.strerror or str(error))

    def ended(self, wait_status: int) -> None:
        """Its process has ended: it is lost, unless its last words are that nothing is left."""
        self._number = None
        self.unix_pid = 0  # the number may become another's
        if self._is_resting:
            self._wait_status = wait_status
            return
        while self._receive_one():
            pass
        self._hang_up()
        self._finish(
            wire.KeeperLost(self._fault or f"the keeper failed: {how_it_ended(wait_status)}")
        )

    def orphaned(self, reason: str) -> None:
        """Its parent has died: it ends, and the end of its socket is all that tells of it."""
        self._number = None
        self._is_orphan = True
        self._fault = self._fault or f"the keeper is lost: {reason}"
        self._send(wire.encode_end())  # the parent may only have been hung up on
        self._receive()
        if self._watch is not None and self.unix_pid:
            # Its end of the socket is open, so it lives, and the number is still its own.
            with suppress(OSError):
                os.kill(self.unix_pid, signal.SIGCONT)

    # -- told by the PCT ----------------------------------------------------

    def go(self) -> None:
        """Let all ranks go. One that is not at its entry yet does not stop there."""
        self._send(wire.encode_go())

    def signal(self, signo: int, rank: int | None = None) -> None:
        """Send a signal to one rank, or to every rank that has not ended.

        SIGSTOP and SIGCONT to every rank are for all processes below the keeper.
        """
        command = wire.encode_signal(signo, rank)
        if signo in _STOPS:  # only the last one counts
            self._unsent = deque(each for each in self._unsent if each not in _STOP_COMMANDS)
        if command not in self._unsent:  # a second one would change nothing
            self._send(command)

    def resize(self, rows: int, columns: int) -> None:
        """The terminal of a rank has another size."""
        self._send(wire.encode_window(rows, columns))

    def let_die(self, rank: int) -> None:
        """Let a signal end a rank that is held before its end."""
        self._send(wire.encode_let_die(rank))

    def end(self) -> None:
        """Kill all processes below the keeper; ``KeeperEmpty`` will follow."""
        self._send(wire.encode_end())
        self._continue()

    def kill(self) -> None:
        """Kill the keeper itself, which is then lost."""
        self._receive()
        is_there = self._number is not None or self._watch is not None
        if is_there and self.unix_pid:
            with suppress(OSError):
                os.kill(self.unix_pid, signal.SIGKILL)

    def rest(self, is_resting: bool) -> None:
        """Leave what it reports, and its end, until later; or look at that now, and go on."""
        self._is_resting = is_resting
        if self._number is not None:
            self._spawner.rest(self._number, is_resting)
        self._look()
        wait_status, self._wait_status = self._wait_status, None
        if wait_status is not None:
            self.ended(wait_status)

    def close(self) -> None:
        """Hang up: the keeper kills all its processes and exits. No further event is reported."""
        self._continue()
        self._on_event = None
        self._hang_up()

    def _continue(self) -> None:
        """Continue the keeper: one that was stopped would never end its ranks."""
        if self._on_event is not None and self._number is not None:
            self._spawner.resume(self._number)

    def _send(self, command: bytes) -> None:
        if self._watch is None:
            return
        self._unsent.append(command)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._control.send(self._unsent[0], _socket.MSG_NOSIGNAL)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it has ended; its exit is reported
            self._unsent.clear()
        self._look()

    def _look(self) -> None:
        if self._watch is not None:
            on_readable = None if self._is_resting else self._receive
            self._watch.set(on_readable, self._flush if self._unsent else None)

    def _receive(self) -> None:
        """Read some packets. The socket stays readable while it has more."""
        for _ in range(_PACKETS_PER_TURN):
            if not self._receive_one():
                break
        if self._watch is None and self._is_orphan:
            self._finish(wire.KeeperLost(self._fault))

    def _receive_one(self) -> bool:
        """Read a packet; False: there is none."""
        if self._watch is None:
            return False
        try:
            packet, received, is_cut = unixsockets.receive(
                self._control, _RECEIVE_BYTES, wire.FDS_PER_PACKET
            )
        except BlockingIOError:
            return False
        except ConnectionResetError:  # it ended with a command unread; its reports follow
            return True
        if not packet:
            self._hang_up()
            return False
        fds = deque(received)
        try:
            if is_cut:
                raise PeerProtocolError("no descriptors are left for streams (ulimit -n)")
            self._take(packet, fds)
        except PeerProtocolError as error:
            self._fault = str(error)
            self._hang_up()
        finally:
            unixsockets.close_all(fds)
        return True

    def _take(self, packet: bytes, fds: deque[int]) -> None:
        for report in wire.decode_reports(packet):
            if self._on_event is None:  # closed while an earlier report was handled
                return
            self._reports.check(report)
            match report:
                case wire.StreamsTaken(rank, has_stdin, True, True, has_pmi):
                    if len(fds) < 2 + has_stdin + has_pmi:
                        raise PeerProtocolError("keeper: a stream's descriptor is missing")
                    self._on_streams(rank, *_own_streams(fds, has_stdin, has_pmi))
                case wire.StreamsTaken():
                    raise PeerProtocolError("keeper: a rank without output")
                case wire.MountTaken(directory):
                    if not fds:
                        raise PeerProtocolError("keeper: a mount's descriptor is missing")
                    self._take_mount(directory, fds.popleft())
                case wire.KeeperFailed(reason):
                    self._fault = reason
                case wire.KeeperEmpty() | wire.KeeperLost():
                    self._finish(report)
                case _:
                    self._on_event(report)

    def _take_mount(self, directory: int, fd: int) -> None:
        from pct.host.mounts import own_device  # few jobs have any

        device = own_device(fd)
        assert self._on_mount is not None
        self._on_mount(directory, device)

    def _finish(self, last: wire.Report) -> None:
        on_event, self._on_event = self._on_event, None
        if on_event:
            on_event(last)

    def _hang_up(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._control.close()
            self._on_streams = _no_streams  # who takes them holds this


def _no_streams(*_: object) -> None:
    """Takes streams behind the end: there are none."""


def _own_streams(
    fds: deque[int], has_stdin: bool, has_pmi: bool
) -> tuple[int | None, int, int, int | None]:
    """The first descriptors, as what they must be: standard input, output, error, PMI.

    Raises:
        PeerProtocolError: one is something else. None is left open.
    """
    own: list[int] = []
    try:
        for access in (*[os.O_WRONLY] * has_stdin, os.O_RDONLY, os.O_RDONLY):
            own.append(streams.own_pipe(fds.popleft(), access))
        pmi = streams.own_socket(fds.popleft()) if has_pmi else None
    except BaseException:
        for fd in own:
            os.close(fd)
        raise
    *stdin, stdout, stderr = own
    return stdin[0] if stdin else None, stdout, stderr, pmi


def _check_capacity(spec: wire.KeeperSpec) -> None:
    """Raise ValueError where it is known that descriptors or processes do not suffice."""
    if len(spec.ranks) < _MANY_RANKS:
        return
    from pct.host import capacity

    descriptors = sum(2 + rank.wants_stdin + rank.wants_pmi for rank in spec.ranks)
    if text := capacity.refusal(len(spec.ranks), descriptors):
        raise ValueError(text)
