"""Carries out what the machine of an allocation decides. Nothing is decided here."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from math import inf

from native import limits as limits_module
from native.errors import PartitionError, YodError
from native.host import rlimits, stdio
from native.limits import Limits
from native.loop.daemon import settle
from native.loop.reactor import Reactor
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone, Send
from native.port.port import Opened, PeerLost, Received
from native.wire.alloc import Grant
from partition import open as opening
from partition.broker.command import CannotStartError, Command, Reader, Tenant
from partition.broker.front import Tail
from partition.broker.machine import (
    Cancelled,
    CommandEnded,
    EndNodes,
    Finish,
    HangUp,
    Holding,
    KillCommand,
    NodesEnded,
    NodesUp,
    OpenNodes,
    SignalCommand,
    Signalled,
    SignalSteps,
    StartCommand,
    Suspend,
    Suspended,
    Tell,
    TimeLimited,
    WriteDownSteps,
)
from partition.broker.nodes import AllocatedNodes
from partition.broker.partition import Entrance
from partition.broker.wanted import Wanted
from partition.find import discover
from yod.plan.reach import Reach

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

MakeTenant = Callable[[Reactor, Limits, Callable[[int], None]], Tenant]


def hold(
    wanted: Wanted,
    environment: Mapping[str, str],
    *,
    partition: str = "",
    is_quiet: bool = False,
    debug: bool = False,
    make_tenant: MakeTenant | None = None,
    on_tell: Callable[[Tell], None] = lambda tell: None,
) -> int:
    """Hold nodes while a command runs.

    Args:
        environment: of this process, and of the command.
        partition: an address, ``embedded``, or empty: found as by yod.
        make_tenant: makes what has the allocation; None: it is the command that is wanted.
        on_tell: takes each line for the user as well.

    Returns:
        The exit status, or minus the number of the signal that ended the allocation.

    Raises:
        YodError: the request could not be made.
    """
    where = discover.find(partition, environment)
    if where.allocation:
        raise PartitionError(
            f"this is allocation {where.allocation}; one in it is not possible, yod runs steps"
        )
    limits = limits_module.load(environment)
    reach, open_again = None, None
    if not where.is_embedded:
        from partition.find import remote

        reach = remote.reach(where)
        open_again = partial(remote.again, reach, limits)
    with ExitStack() as stack:
        reactor = Reactor()
        stack.callback(reactor.close)
        rlimits.raise_soft()  # each PCT and each step is a connection
        stack.callback(rlimits.restore)
        has_needs = wanted.spec.needs is not None
        opened = opening.open_partition(reach, reactor, limits, has_needs=has_needs)

        def command_ended(status: int) -> None:
            driver.command_ended(status)

        machine = Holding(wanted, opened.bebopd, where.name, limits)
        driver = Driver(
            machine,
            opened,
            reactor,
            wanted,
            environment,
            limits,
            partition=partition,
            reach=reach,
            is_quiet=is_quiet,
            debug=debug,
            tenant=make_tenant and make_tenant(reactor, limits, command_ended),
            on_tell=on_tell,
            open_again=open_again,
        )
        stack.callback(driver.close)
        driver.start()
        if driver.status is None:
            settle()
            reactor.run()
    assert driver.status is not None
    return driver.status


class Driver:
    """Runs one :class:`partition.broker.machine.Holding`.

    Args:
        tenant: what has the allocation; None: the command that is wanted.
        on_tell: takes each line for the user as well.
        entrance: at which yods have been told to find the allocation; None: any.
        open_again: opens another port to the partition's bebopd; None: it keeps no history.
        on_checkpoint: called when a command asks for what has the allocation to be written down,
            with whether it ends behind that, and whether it is a trial; None: it cannot be.

    Attributes:
        status: how this process is to end; None: not yet.
    """

    def __init__(
        self,
        machine: Holding,
        opened: Opened,
        reactor: Reactor,
        wanted: Wanted,
        environment: Mapping[str, str],
        limits: Limits,
        *,
        partition: str,
        reach: Reach | None,
        is_quiet: bool,
        debug: bool,
        tenant: Tenant | None = None,
        on_tell: Callable[[Tell], None] = lambda tell: None,
        entrance: Entrance | None = None,
        open_again: Callable[[Grant], Opened] | None = None,
        on_checkpoint: Callable[[bool, bool], None] | None = None,
    ) -> None:
        self.status: int | None = None
        self._machine = machine
        self._opened = opened
        self._reactor = reactor
        self._wanted = wanted
        self._environment = environment
        self._limits = limits
        self._partition = partition
        self._reach = reach
        self._is_quiet = is_quiet
        self._tail = Tail(stdio.say if debug else None)
        self._on_tell = on_tell
        self._entrance = entrance
        self._open_again = open_again
        self._on_checkpoint = on_checkpoint
        self._command: Tenant = tenant or (
            Command(wanted.words, environment, reactor, self.command_ended)
            if wanted.words
            else Reader(reactor, self.command_ended)
        )
        self._watch = opened.port.listen(reactor, self._port_ready)
        self._timer = reactor.timer(lambda: self.handle(DeadlineReached()))
        self._nodes: AllocatedNodes | None = None
        self._name = ""  # what users call the allocation

    def start(self, grant: Grant | None = None, *, starts_command: bool = True) -> None:
        """Begin: ask for nodes, or have those of a grant, with or without the command."""
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._reactor.on_signal(number, partial(self.handle, Signalled(number)))
        now = self._reactor.monotonic()
        if grant:
            self._perform(self._machine.begin_with(grant, now, starts_command))
        else:
            self._perform(self._machine.begin(now))

    def close(self) -> None:
        """Give everything back; what is left of the allocation ends."""
        self._timer.close()
        self._watch.close()
        if self._nodes is not None:
            self._nodes.close()
        else:
            self._opened.close()

    def _port_ready(self) -> None:
        for event in self._opened.port.events():
            match event:
                case Received(source, principal, message):
                    self.handle(MessageReceived(source, principal, message))
                case PeerLost(peer, _, text):
                    self.handle(PeerGone(peer, text))
            if self._nodes is not None:  # which listens from now on
                return

    def handle(self, event: Event) -> None:
        """Give the machine an event, and carry out what it decides."""
        self._perform(self._machine.handle(event, self._reactor.monotonic()))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(target, message):
                    self._opened.port.send(target, message)
                case Tell(text, is_error) as tell:
                    self._on_tell(tell)
                    if is_error or not self._is_quiet:
                        stdio.say(f"yodjob: {self._name}{text}")
                case OpenNodes(grant):
                    self._open(grant)
                case StartCommand():
                    self._start_command()
                case HangUp():
                    self._command.hang_up()
                case KillCommand():
                    self._command.signal(signal.SIGKILL)
                case SignalCommand(number):
                    self._command.signal_alone(number)
                case SignalSteps(number):
                    if self._nodes is not None:
                        self._nodes.signal_steps(number)
                case Suspend(is_on):
                    self._command.suspend(is_on)
                    if self._nodes is not None:
                        self._nodes.suspend(is_on)
                case WriteDownSteps(text):
                    if self._nodes is not None:
                        self._nodes.write_down_steps(text)
                case EndNodes():
                    assert self._nodes is not None
                    self._nodes.end()
                case Finish(status):
                    self._finish(status)
                case _:
                    raise AssertionError(f"no case for {action!r}")
        self._timer.set(self._machine.deadline())
        if self._nodes is not None:
            self._nodes.show_time(self._machine.limit_s)

    def _open(self, grant: Grant) -> None:
        self._watch.close()
        try:
            self._nodes = AllocatedNodes(
                grant,
                self._opened,
                self._reactor,
                self._limits,
                self._environment,
                partition=self._partition,
                reach=self._reach,
                name=" ".join(self._wanted.words),
                tail=self._tail,
                on_up=lambda count, steps: self.handle(NodesUp(count, steps)),
                on_ended=lambda *how: self.handle(NodesEnded(*how)),
                on_cancel=partial(self.handle, Cancelled()),
                on_suspend=lambda is_on: self.handle(Suspended(is_on)),
                on_limit=lambda time_s: self.handle(TimeLimited(time_s or inf)),
                end=lambda: self._machine.end,
                open_again=self._open_again,
                entrance=self._entrance,
                on_checkpoint=self._on_checkpoint,
            )
            self._nodes.start()
        except YodError as error:
            self._soon(NodesEnded(str(error)))

    def _finish(self, status: int) -> None:
        def finished() -> None:
            self.status = status
            self._reactor.stop()

        if self._nodes is None:
            finished()
        else:
            self._nodes.finish(finished)

    def _soon(self, event: Event) -> None:
        """Handle an event when the actions that it follows from have been carried out."""
        self._reactor.call_soon(partial(self.handle, event))

    def _end_time(self) -> dict[str, str]:
        if self._wanted.time_s == inf:
            return {}
        return {"YOD_END_TIME": str(int(time.time() + self._wanted.time_s))}

    def checkpoint_told(self, is_trial: bool, path: str, trouble: str) -> None:
        """Answer the commands that have asked for a checkpoint, or whether one could be made."""
        if self._nodes is not None:
            self._nodes.checkpoint_told(is_trial, path, trouble)

    def command_ended(self, status: int) -> None:
        """The command has ended with this exit status."""
        self.handle(CommandEnded(status))

    def _start_command(self) -> None:
        assert self._nodes is not None
        self._name = f"job {self._nodes.job_id}: "
        if not self._is_quiet:
            stdio.say(f"yodjob: {self._name}{self._nodes.text}")
        try:
            self._command.start(self._nodes.job_id, self._nodes.variables | self._end_time())
        except CannotStartError as error:
            stdio.say(f"yodjob: {error}")
            self._on_tell(Tell(str(error)))
            self._soon(CommandEnded(error.exit_status))
