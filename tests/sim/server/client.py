"""A client of the launch server, faked after ``native/client`` and ``native/wire/CLIENT.md``."""

from __future__ import annotations

import errno
import math
import signal
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from native.wire import client
from native.wire.client import FromClient, FromServer
from tests.sim.keeper import FakeKeeper
from tests.sim.launchers import Job, Reader
from tests.sim.server.link import Channel
from tests.sim.server.record import Record

if TYPE_CHECKING:
    from tests.sim.server.keepers import Keeper
    from tests.sim.server.world import ServerSim

PACKETS_A_TURN = 16
READER_LEAVES_BYTES = 500
PRESSES_MAX = 3  # after these it waits no longer than a second


class Answer(Enum):
    """What a helper makes of a request."""

    READY = "ready"
    REFUSED = "refused"
    NOTHING = "nothing to launch"
    FAILED = "the helper has failed"
    NEVER = "no answer"


class Wish(Struct):
    """What a client asks for, and how it fares.

    Attributes:
        room: packets that its socket takes.
        answer_s: what the helper takes.
        has_descriptors: else the server has none left for its request.
    """

    job: Job
    room: int = 64
    answer: Answer = Answer.READY
    refusal: str = "no such program"
    log_file: str = ""
    answer_s: float = 0.001
    has_descriptors: bool = True
    keeper_errno: int = 0  # of the fork


class Client:
    """One process of the user's.

    Attributes:
        is_alive: False: it has ended, or was killed.
        was_killed: it has no end of its own.
    """

    def __init__(self, sim: ServerSim, number: int, wish: Wish) -> None:
        self.sim = sim
        self.number = number
        self.name = f"client{number}"
        self.unix_pid = 100_000 + number
        self.wish = wish
        self.record = Record(sim, self.name, wish.job)
        self.channel: Channel | None = None
        self.is_alive = True
        self.was_killed = False
        self.was_stopped = False
        self.stopped_until = 0.0
        self.keepers: dict[int, FakeKeeper] = {}
        self._asked = deque[int]()
        self._inbox: deque[FromServer] = deque()
        self._is_hung_up = False
        self._is_waking = False
        self._exit: client.Exit | None = None
        self._unwritten: deque[tuple[int, int]] = deque()
        self._is_writing = False
        self._broken: set[int] = set()
        self._asked_for: list[int] = []  # streams, by the server
        self._pressed_at = -math.inf
        self._presses = 0
        self._input_left = wish.job.input_bytes
        self._has_input = True
        self._allowed = 0

    def descriptors(self, message: FromClient) -> tuple[int, ...]:
        """Of a packet, as they come to the server."""
        match message:
            case client.Request() if self.wish.has_descriptors:
                return self.sim.fds.open(2)
            case client.Given(stream, client.Gift.PIPE) if self.sim.clock.rng.random() < 0.9:
                return self.sim.gifts.of_client(self, stream)
        return ()  # of a gift, too, if the server can have no more

    # -- what happens to it -----------------------------------------------------

    def begin(self) -> None:
        """Connect, and send the request once the greeting is there."""
        if not self.is_alive:
            return
        if not self.sim.accept(self):
            self._end("cold")
            return
        self.sim.entered(self.record, "connected")
        rng = self.sim.clock.rng
        self.sim.clock.after(rng.uniform(1e-5, 1e-3), self._request)

    def _request(self) -> None:
        if self._is_held(self._request):
            return
        request = client.Request(0o22, client.Stdio(0), (), 1, 0, ())
        self.send(request)
        self.sim.entered(self.record, "asked")

    def kill(self, with_keepers: bool = False) -> None:
        """SIGKILL; its keepers are told by the kernel, or are killed as well."""
        if not self.is_alive:
            return
        self.sim.clock.note(self.name, "KILLED")
        self.was_killed = True
        self.is_alive = False
        truth = self.record.truth
        for keeper in list(self.keepers.values()):
            if with_keepers and truth is not None:
                truth.is_forsaken = True
                keeper.be_killed()
                for child in keeper.children:
                    child.die(int(signal.SIGKILL))  # init's, of which no rule speaks
            else:
                keeper.end()
        self._gone()

    def stop(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        if self.is_alive:
            self.was_stopped = self.record.was_stopped = True
            self.stopped_until = self.sim.clock.now + seconds
            self.sim.clock.after(seconds, self._continued)

    def _continued(self) -> None:
        if not self._is_held(lambda: None):
            self.signalled(signal.SIGCONT)
            self.wake()

    def press(self, signo: int = signal.SIGINT) -> None:
        """A signal that ends it."""
        if self._is_held(lambda: self.press(signo)):
            return
        if self._exit is not None:
            self._unwritten.clear()
            self._look()
            return
        now = self.sim.clock.now
        if now - self._pressed_at >= self.sim.limits.press_s:
            self._pressed_at = now
            self._presses += 1
            if self._presses == PRESSES_MAX:
                self.sim.clock.after(1.0, lambda: None if self._exit else self.kill())
        self.signalled(signo)

    def signalled(self, signo: int) -> None:
        """It tells of a signal."""
        if self.is_alive:
            self.send(client.Signal(signo))

    def send(self, message: FromClient) -> None:
        """Send a packet."""
        if self.channel is not None and not self._is_hung_up:
            self.channel.from_client(message)

    # -- its socket ---------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Its socket takes one more packet."""
        return len(self._inbox) < self.wish.room

    def put(self, message: FromServer) -> None:
        """The server has sent a packet."""
        self._inbox.append(message)
        self.wake()

    def drop_starts(self, messages: Iterable[FromServer]) -> None:
        """Nobody reads these packets: what they carry is closed."""
        for message in messages:
            if isinstance(message, client.Start):
                self.sim.starting_of(self, message.keeper).dropped()

    def hung_up(self) -> None:
        """The server has closed the connection."""
        self._is_hung_up = True
        truth = self.record.truth
        if self.is_alive and truth is not None and any(not k.is_alive for k in truth.keepers):
            truth.is_forsaken = True  # it kills orphans when it sees the end
        self.wake()

    def wake(self) -> None:
        """Read in a while what is there."""
        if not self._is_waking and self.is_alive:
            self._is_waking = True
            self.sim.clock.after(self.sim.clock.rng.uniform(1e-6, 1e-4), self._read)

    def _is_held(self, again: Callable[[], None]) -> bool:
        """Whether it is gone, or stopped: then it does that later."""
        if not self.is_alive:
            return True
        if self.sim.clock.now < self.stopped_until:
            self.sim.clock.at(self.stopped_until, again)
            return True
        return False

    def _read(self) -> None:
        if self._is_held(self._read):
            return
        self._is_waking = False
        for _ in range(PACKETS_A_TURN):
            if not self._inbox:
                break
            self._take(self._inbox.popleft())
        if self.channel is not None:
            self.sim.loop.enter(None, self.channel.flush)
        if self._inbox:
            self.wake()
        elif self._is_hung_up and self._exit is None and self.is_alive:
            for keeper in self.keepers.values():
                keeper.end()
            for keeper in self.record.truth.keepers if self.record.truth else ():
                if not keeper.is_alive:
                    for process in (*keeper.ranks.values(), *keeper.children):
                        process.die(int(signal.SIGKILL))
            self._end("lost")

    def _take(self, message: FromServer) -> None:
        if not self.is_alive or self._exit is not None:
            return
        clock = self.sim.clock
        match message:
            case client.Cold(_, is_launch):
                self._end("cold" if is_launch else "nothing")
            case client.Output(stream, data):
                self._output(stream, data)
            case client.Read(count):
                self._allowed += count
                clock.after(1e-5, self._give_input)
            case client.Start(number):
                stand_in = self.sim.starting_of(self, number)
                clock.after(clock.rng.uniform(1e-5, 5e-4), lambda: self._start(number, stand_in))
            case client.Give(stream):
                self._asked_for.append(stream)
                self._give()
            case client.KillOrphans(token):
                self._kill_orphans(token)
            case client.Suspend():
                self.stop(clock.rng.uniform(0.01, 2.0))
            case client.Append(token, flags=flags):
                if not flags & client.AppendFlag.MORE:
                    self.send(client.Appended(token, 0))
            case client.Exit():
                self._exit = message
                if message.drops:
                    self._unwritten.clear()
                self._look()

    # -- keepers --------------------------------------------------------------------

    def _start(self, number: int, stand_in: Keeper) -> None:
        if not self.is_alive:
            stand_in.dropped()
            return
        if self._is_held(lambda: self._start(number, stand_in)):
            return
        if self.wish.keeper_errno:
            if self.record.truth is not None:
                self.record.truth.trouble.add("no keeper")
            self.send(client.Started(number, 0, self.wish.keeper_errno))
            return
        keeper = stand_in.fork()
        keeper.on_exit = self._both(keeper.on_exit, lambda: self._keeper_ended(number))
        self.keepers[number] = keeper
        self.send(client.Started(number, next(self.sim.host.pids)))

    @staticmethod
    def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            first()
            second()

        return call

    def _keeper_ended(self, number: int) -> None:
        keeper = self.keepers.pop(number, None)
        if keeper is None or not self.is_alive:
            return
        status = 0 if keeper.was_empty else int(signal.SIGKILL)
        self._later(lambda: self.send(client.Ended(number, status)))
        self._look()

    def _later(self, call: Callable[[], None]) -> None:
        """As soon as it runs."""
        if self.sim.clock.now < self.stopped_until:
            self.sim.clock.at(self.stopped_until, lambda: self._later(call))
        elif self.is_alive:
            call()

    def _kill_orphans(self, token: int) -> None:
        truth = self.record.truth
        keepers = truth.keepers if truth is not None else []
        left = [
            each for k in keepers if not k.is_alive for each in (*k.ranks.values(), *k.children)
        ]
        for process in left:
            process.die(int(signal.SIGKILL))
        if any(each.unix_pid in self.sim.host.processes for each in left):
            self.sim.clock.after(1e-3, lambda: self._later(lambda: self._kill_orphans(token)))
        else:
            self.send(client.OrphansKilled(token))

    # -- its streams ------------------------------------------------------------------

    def _output(self, stream: int, data: bytes) -> None:
        self.record.got[stream] += data
        reader = self.wish.job.reader
        has_enough = len(self.record.got[stream]) > READER_LEAVES_BYTES
        if reader is Reader.LEAVES and has_enough and stream not in self._broken:
            self._broken.add(stream)
            self.record.has_lost_reader = True
            self.send(client.OutputFailed(stream, errno.EPIPE))
        self._unwritten.append((stream, len(data)))
        in_flight = sum(count for each, count in self._unwritten if each == stream)
        self.sim.check_window(self, in_flight)
        if not self._is_writing:
            self._is_writing = True
            wait = 3.0 if reader is Reader.STOPS else 1e-3 if reader is Reader.SLOW else 1e-5
            self.sim.clock.after(wait, self._write)

    def _write(self) -> None:
        if self._is_held(self._write):
            return
        is_slow = self.wish.job.reader is Reader.SLOW
        counts = {1: 0, 2: 0}
        for _ in range(1 if is_slow else 8):
            if self._unwritten:
                stream, count = self._unwritten.popleft()
                counts[stream] += count
        for stream, count in counts.items():
            if count:
                self.send(client.Written(stream, count))
        self._is_writing = bool(self._unwritten)
        if self._is_writing:
            self.sim.clock.after(sum(counts.values()) / 3e5 if is_slow else 1e-5, self._write)
        self._give()
        self._look()

    def has_unwritten(self, stream: int) -> bool:
        """It still has something to write."""
        return any(each == stream for each, _ in self._unwritten)

    def _give(self) -> None:
        """Give what it was asked for and has written."""
        for stream in [each for each in self._asked_for if not self.has_unwritten(each)]:
            self._asked_for.remove(stream)
            keeps = stream in self._broken or self.sim.clock.rng.random() < 0.2
            self.send(client.Given(stream, client.Gift.NOTHING if keeps else client.Gift.PIPE))

    def _give_input(self) -> None:
        if not self._has_input or not self._allowed or self._is_held(self._give_input):
            return
        count = min(self._allowed, self._input_left, client.DATA_MAX)
        self._allowed -= count
        self._input_left -= count
        self._has_input = bool(count)
        self.send(client.Input(b"x" * count))
        if count:
            self.sim.clock.after(1e-4, self._give_input)

    # -- its end ------------------------------------------------------------------------

    def _look(self) -> None:
        """Leave once it was told to, its output is written, and its keepers have ended."""
        if self._exit is not None and not self._unwritten and not self.keepers and self.is_alive:
            self._end("exit")

    def _end(self, how: str) -> None:
        self.sim.clock.note(self.name, f"END {how}")
        self.record.ends.append(how)
        self._gone()

    def _gone(self) -> None:
        self.is_alive = False
        self.sim.living -= 1
        self.drop_starts(self._inbox)
        self._inbox.clear()
        self._unwritten.clear()
        if self.channel is not None:
            self.channel.from_client(None)
