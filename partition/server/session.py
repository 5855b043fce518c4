"""Carries out what a client's session decides: packets, errands, the launch."""

from __future__ import annotations

import _socket
import errno
import os
from collections.abc import Callable

from msgspec.structs import replace

from native.errors import PeerProtocolError, YodError
from native.host import unixsockets
from native.limits import Limits
from native.loop.reactor import Reactor
from native.machine import Action, DeadlineReached, Event, fault_text
from native.port.port import Opened
from native.wire import client
from partition.find.kept import KeptPartitions
from partition.server import errands
from partition.server.channel import Channel
from partition.server.errands import Answer, Given
from partition.server.front import ClientFront
from partition.server.helpers import Helpers, Ticket
from partition.session import events
from partition.session.machine import Session, State
from partition.up.embedded import EmbeddedPartition
from pct.host.spawn.client import ClientSpawner
from yod.launching import Launching
from yod.plan.prepared import Prepared


class _Parent:
    """For the PCT: a client as the parent of keepers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def send_start(self, number: int, fds: tuple[int, ...]) -> None:
        """START."""
        self._channel.send(client.Start(number, has_portals=len(fds) > 2), fds)

    def send_continue(self, number: int) -> None:
        """CONTINUE."""
        self._channel.send(client.Continue(number))

    def send_kill_orphans(self, token: int) -> None:
        """KILL_ORPHANS."""
        self._channel.send(client.KillOrphans(token))


class ClientSession:
    """One client, from its greeting to its end.

    Args:
        unix_pid: the client's process.
        others: partitions of other processes.
        on_over: called once, when nothing is left of it.
        on_replaced: called when a helper has found that our files were replaced.
        say: takes a line for the log.
    """

    def __init__(
        self,
        connection: _socket.socket,
        unix_pid: int,
        reactor: Reactor,
        limits: Limits,
        partition: EmbeddedPartition,
        others: KeptPartitions,
        helpers: Helpers,
        on_over: Callable[[ClientSession], None],
        on_replaced: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._partition = partition
        self._others = others
        self._helpers = helpers
        self._on_over = on_over
        self._on_replaced = on_replaced
        self._say = say
        self._machine = Session(limits, reactor.monotonic())
        self._request: client.Request | None = None
        self._given: Given | None = None
        self._fds: tuple[int, ...] = ()
        self._ticket: Ticket | None = None
        self._asked_at = 0.0
        self._front: ClientFront | None = None
        self._launching: Launching | None = None
        self._unix_pid = unix_pid
        self._channel = Channel(reactor, connection, self._received, self._gone)
        self._spawner = ClientSpawner(unix_pid, reactor, _Parent(self._channel))
        self._timer = reactor.timer(lambda: self._do(self.handle, DeadlineReached()))

    def open(self) -> None:
        """Begin."""
        self._timer.set(self._machine.deadline())
        self._reactor.run_for(self._broken, self._channel.open)

    @property
    def state(self) -> State:
        """Where the session is."""
        return self._machine.state

    @property
    def unix_pid(self) -> int:
        """The client's process."""
        return self._unix_pid

    def handle(self, event: Event) -> None:
        """Give the machine an event, and carry out its actions."""
        actions = self._machine.handle(event, self._reactor.monotonic())
        self._timer.set(self._machine.deadline())
        for action in actions:
            self._perform(action)

    # -- events in ----------------------------------------------------------

    def _received(self, message: client.FromClient, fds: tuple[int, ...]) -> None:
        """A packet, on behalf of no owner: what follows from it is for the launch."""
        match message:
            case client.Request():
                self._asked(message, fds)
            case client.Signal(number):
                self._do(self.handle, events.Signalled(number))
            case client.Started(number, unix_pid, error):
                self._spawner.started(number, unix_pid or -error)
            case client.Ended(number, wait_status):
                self._spawner.ended(number, wait_status)
            case client.OrphansKilled(token):
                self._spawner.orphans_killed(token)
            case client.Left(streams):
                if self._front is None or not self._front.is_leaving:
                    raise PeerProtocolError("client: it has left, and nobody has asked it to")
                self._do(self._front.left, streams)
            case client.Given(stream):
                self._take_gift(message, stream, fds)
            case client.Ping():
                self._channel.send(client.Pong())
            case _:
                if self._front is not None:
                    self._do(self._front.take, message)

    def _asked(self, request: client.Request, fds: tuple[int, ...]) -> None:
        if self._request is not None:
            for fd in fds:
                os.close(fd)
            raise PeerProtocolError("client: a second request")
        self._request, self._fds = request, fds
        lacks = os.strerror(errno.EMFILE)
        self._do(self.handle, events.Asked(request) if fds else events.NotPrepared(lacks))

    def _take_gift(self, message: client.Given, stream: int, fds: tuple[int, ...]) -> None:
        if self._front is None:
            unixsockets.close_all(fds)
            raise PeerProtocolError("client: it has given a stream, and there is no launch")
        own_fd = self._front.own_gift(message, fds)
        self._do(self._front.given, stream, own_fd)

    def _gone(self, why: str) -> None:
        self._spawner.gone()
        self._do(self.handle, events.ClientGone())

    def _answered(self, answer: Answer, fds: tuple[int, ...]) -> None:
        self._ticket = None
        match answer:
            case errands.Launch(prepared):
                took_s = self._reactor.monotonic() - self._asked_at
                self.handle(events.Ready(replace(prepared, resolve_s=took_s)))
            case errands.NoLaunch(text, exit_status):
                self.handle(events.Refused(text, exit_status))
            case errands.Nothing():
                self.handle(events.NotPrepared("nothing is to be launched", is_launch=False))
            case errands.Said(errors, output, exit_status):
                self.handle(events.Said(errors, output, exit_status))
            case errands.Failed(reason) if self.state is State.SUBMITTING:
                self.handle(events.LaunchFailed(reason))
            case errands.Failed(reason):
                self.handle(events.NotPrepared(reason))
            case errands.Replaced():
                self.handle(events.NotPrepared("the launch server is of another release"))
                self._on_replaced()
            case _:
                raise AssertionError(f"no answer to that errand: {answer!r}")

    def _launch_over(self) -> None:
        """The launch has its status, as its driver says: the launch is closed when that returns."""
        assert self._launching is not None and self._front is not None
        result = self._launching.driver.result
        assert result is not None
        self._front.ignore_signals()
        self._front.let_go()
        self._launching.give_up_id()  # the rest of the launch may outlive the client
        self.handle(events.LaunchEnded(result.command_status, result.report.was_left))

    def _do(self, call: Callable[..., object], *arguments: object) -> None:
        self._reactor.run_for(self._fault, call, *arguments)

    def _fault(self, error: Exception) -> None:
        """Something that was done for this launch has raised: this launch ends, and no other."""
        text = str(error) if isinstance(error, YodError) else fault_text(error)
        self.handle(events.LaunchFailed(text))

    def _broken(self, error: Exception) -> None:
        """The connection's own callback has raised, so its watch has ended: the client is lost."""
        self._fault(error)
        self._gone("")

    # -- actions out --------------------------------------------------------

    def _perform(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        match action:
            case events.Prepare(request):
                self._given = self._given_by(request)
                self._ask(errands.Prepare(self._given))
            case events.Submit(request):
                self._ask(errands.Submit(self._given_by(request), int(request.stdio)))
            case events.CancelPreparing():
                if self._ticket is not None:
                    self._helpers.cancel(self._ticket)
                    self._ticket = None
            case events.Begin(prepared):
                self._begin(prepared)
            case events.PassSignal(number):
                if self._front is not None:
                    self._front.signalled(number)
            case events.Abandon(is_soon=True):
                self._reactor.call_soon(self._abandon)
            case events.Abandon():
                self._abandon()
            case events.Tell(message):
                if isinstance(message, client.Cold) and message.is_launch:
                    self._say(f"client {self._unix_pid} runs cold: {message.reason}")
                self._channel.send(message)
            case events.HangUp():
                self._close()
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _ask(self, errand: errands.Errand) -> None:
        self._asked_at = self._reactor.monotonic()
        self._ticket = self._helpers.ask(errand, self._fds, self._answered)

    def _begin(self, prepared: Prepared) -> None:
        assert self._request is not None and self._given is not None
        strings_fd, directory_fd = self._fds
        self._front = ClientFront(
            self._reactor,
            self._channel,
            self._helpers,
            self._request.stdio,
            self._given,
            (strings_fd, directory_fd),
            prepared.shared_directory,
        )
        opened: Opened
        if prepared.reach is None:
            opened = self._partition.open(self._spawner)
        else:
            opened = self._others.open(prepared.reach, prepared.limits)
        self._launching = Launching(
            prepared,
            self._front,
            opened,
            self._reactor,
            self._launch_over,
            unix_pid=self._unix_pid,
            is_id_soon=True,
        )
        if prepared.reach is None:
            self._launching.driver.machine.end_with_nodes()
        self._launching.driver.start()

    def _given_by(self, request: client.Request) -> Given:
        try:
            processors = len(os.sched_getaffinity(self._unix_pid))
        except OSError:  # it has ended
            processors = 1
        return Given(
            request.umask,
            request.ignored_signals,
            request.arguments,
            request.variables,
            request.limits,
            processors,
        )

    def _abandon(self) -> None:
        launching, self._launching = self._launching, None
        if launching is not None:
            launching.close()

    def _close(self) -> None:
        self._abandon()
        self._timer.close()
        self._channel.close()
        self._spawner.gone()  # nothing is heard of its keepers any more
        for fd in self._fds:
            os.close(fd)
        self._fds = ()
        self._on_over(self)
