"""An allocation's nodes: the launch of a PCT on each of them, and their own bebopd."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby, repeat
from math import inf
from signal import SIGTERM
from time import monotonic

from msgspec.structs import replace

from native import allocated
from native.allocated import KEY_VARIABLE, PARTITION_VARIABLE
from native.host import programs
from native.host.keyfile import VARIABLE
from native.limits import Limits
from native.loop.reactor import Reactor
from native.machine import Event
from native.nodelist import named_nodes
from native.port.port import Opened
from native.wire import codec
from native.wire.alloc import NO_SHARE, Grant, Needs, NodeSpec, Share, share_of
from native.wire.base import JobEnd
from native.wire.runs import Binding, JobRuns, RunRange
from partition.broker.front import BrokerFront, Tail
from partition.broker.machine import CANCELLED
from partition.broker.partition import AllocationPartition, Entrance
from partition.broker.steps import EndedSteps
from partition.broker.telling import Telling
from partition.find.remote import facing_node
from yod import launching
from yod.host import own
from yod.launch.events import (
    Checked,
    CheckpointAsked,
    Checkpointed,
    Interrupted,
    SignalToPass,
    SuspensionAsked,
    TimeLimitAsked,
)
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Options
from yod.plan.prepared import LOG_VARIABLE, NO_LOG
from yod.plan.reach import Reach

# The loss of a PCT or of a node ends the steps there, and no others.
_OPTIONS = Options(
    is_quiet=True,
    input_ranks=(),
    keeps_going=True,
    outlives_nodes=True,
    mpi="none",
    wait_s=0.0,
)
_NOT_FOR_DAEMONS = (b"PYTHONPATH",)  # they import their own modules, not the user's


class AllocatedNodes:
    """The nodes of one allocation, from its grant to the end of its PCTs.

    Args:
        opened: the launch's place in the partition that has granted them.
        environment: of this process.
        partition: address of that partition; empty: found as by yod.
        reach: how it is reached; None: it is in this process.
        name: what commands show of the allocation.
        tail: takes what the PCTs and the bebopd say.
        on_up: called with how many are up, and how many steps have slots, when something
            has happened.
        on_ended: called when no PCT is left, with the reason, and whether a node could not be
            made ready.
        on_cancel: called when a command asks for the end of the allocation.
        on_suspend: called when a command asks for the steps to be stopped, or continued.
        on_limit: called with seconds when a command asks for the allocation to last so long.
        end: gives the end of the allocation, for the partition's bebopd.
        open_again: opens another port to that bebopd, which is told of steps; None: it is
            told of none.
        entrance: at which yods have been told to find us; None: any.
        on_checkpoint: called when a command asks for a checkpoint of what has the allocation;
            None: it cannot be written down.
    """

    def __init__(
        self,
        grant: Grant,
        opened: Opened,
        reactor: Reactor,
        limits: Limits,
        environment: Mapping[str, str],
        *,
        partition: str,
        reach: Reach | None,
        name: str,
        tail: Tail,
        on_up: Callable[[int, int], None],
        on_ended: Callable[[str, bool], None],
        on_cancel: Callable[[], None],
        on_suspend: Callable[[bool], None],
        on_limit: Callable[[float], None],
        end: Callable[[], JobEnd],
        open_again: Callable[[Grant], Opened] | None,
        entrance: Entrance | None = None,
        on_checkpoint: Callable[[bool, bool], None] | None = None,
    ) -> None:
        self.job_id = ""
        self._grant = grant
        self._slots = slots_of(grant)
        shares = shares_of(grant)
        self._environment = environment
        self._tail = tail
        self._on_up = on_up
        self._on_ended = on_ended
        self._on_cancel = on_cancel
        self._on_suspend = on_suspend
        self._on_limit = on_limit
        self._on_checkpoint = on_checkpoint
        self._stack = ExitStack()
        host = "127.0.0.1" if reach is None else facing_node(grant.nodes[0])
        self._bebopd = AllocationPartition(host, reactor, limits, entrance)
        self._stack.callback(self._bebopd.close)
        invocation = _of_daemons(own.invocation(("yodjob",)), self._bebopd.key)
        prepared = launching.prepare(
            members(self._slots, self._bebopd.address, shares),
            _OPTIONS,
            invocation,
            partition=partition,
            limits=limits,
            is_reached=False,  # we have reached it
            settings={**environment, LOG_VARIABLE: NO_LOG},
            monotonic=monotonic,
        )
        prepared = replace(prepared, reach=reach)
        front = BrokerFront(reactor, invocation, prepared.shared_directory, tail)
        self._launching = launching.Launching(
            prepared, front, opened, reactor, self._over, name=name, on_asked=self._asked
        )
        self._stack.callback(self._launching.close)
        self._launching.driver.machine.report.stands_for = end
        self._launching.driver.machine.is_saved_whole = on_checkpoint is not None
        self._steps = EndedSteps(grant.job_id, grant.attempt)
        self._telling = (
            Telling(self._steps, partial(open_again, grant), reactor) if open_again else None
        )
        if self._telling is not None:
            self._stack.callback(self._telling.close)
        self._cancellation = launching.Cancellation(self._launching.driver, reactor, limits)
        self._stack.callback(self._cancellation.close)

    @property
    def text(self) -> str:
        """Which nodes they are, for people."""
        slots = sum(self._slots)
        where = named_nodes([node.node for node in self._grant.nodes])
        return f"holds {slots} {'slot' if slots == 1 else 'slots'} on {where}"

    @property
    def variables(self) -> dict[str, str]:
        """What a command in the allocation finds in its environment."""
        return {
            **allocated.variables(
                self.job_id,
                [node.name for node in self._grant.nodes],
                self._slots,
                self._environment,
            ),
            PARTITION_VARIABLE: self._bebopd.address,
            KEY_VARIABLE: self._bebopd.key_file,
        }

    def start(self) -> None:
        """Start the PCTs.

        Raises:
            PartitionError: the owner's key cannot be written.
        """
        self._launching.driver.start(one_rank_each(self._grant))
        self.job_id = self._launching.job_id or str(self._grant.job_id)
        self._bebopd.serve(
            self.job_id,
            len(self._slots),
            self._steps,
            self._environment,
            on_up=self._up,
            say=self._tail.add_line,
        )

    def signal_steps(self, number: int) -> None:
        """Send the ranks of all steps a signal; behind SIGTERM no further step begins."""
        self._bebopd.signal(number)
        if number == SIGTERM:
            self._launching.driver.machine.show_suspended(False)

    def write_down_steps(self, text: str) -> None:
        """Ask the yods of all steps for a checkpoint, behind which they end."""
        self._bebopd.write_down(text)

    def suspend(self, is_on: bool) -> None:
        """Stop the ranks of all steps and begin no further step; or continue."""
        self._bebopd.suspend(is_on)
        self._launching.driver.machine.show_suspended(is_on)

    def show_time(self, limit_s: float | None) -> None:
        """Show commands the time limit of the allocation; None: they cannot change it."""
        self._launching.driver.machine.time_s = 0.0 if limit_s == inf else limit_s

    def checkpoint_told(self, is_trial: bool, path: str, trouble: str) -> None:
        """Answer the commands that have asked for a checkpoint, or whether one could be made."""
        told = Checked(trouble) if is_trial else Checkpointed(os.fsencode(path), trouble)
        self._launching.driver.on_told(told)

    def end(self) -> None:
        """End the PCTs, and with them all steps; a second time: kill them."""
        self._cancellation.begin("the end of the allocation")

    def finish(self, on_finished: Callable[[], None]) -> None:
        """The PCTs have ended: tell bebopd of the last steps, and call when that is done."""
        self._bebopd.end_steps()
        if self._telling is None:
            on_finished()
        else:
            self._telling.finish(on_finished)

    def close(self) -> None:
        """Give everything back; what is left of the allocation ends."""
        self._stack.close()

    def _up(self, count: int, steps: int) -> None:
        if self._telling is not None:
            self._telling.look()
        if not self._launching.driver.machine.report.interrupted_by:  # else they are told to end
            self._on_up(count, steps)

    def _asked(self, event: Event) -> None:
        """A command asks something of the allocation: its ranks are those of its steps."""
        match event:
            case Interrupted():
                self._on_cancel()
            case SuspensionAsked(is_on):
                self._on_suspend(is_on)
            case SignalToPass(number):
                self.signal_steps(number)
            case TimeLimitAsked(time_s):
                self._on_limit(time_s)
            case CheckpointAsked(ends, is_trial=is_trial) if self._on_checkpoint is not None:
                self._on_checkpoint(ends, is_trial)

    def _over(self) -> None:
        result = self._launching.driver.result
        assert result is not None
        report = result.report
        if report.interrupted_by:
            self._on_ended(CANCELLED, False)
            return
        reason = report.reason or report.first_failure or "its PCTs have ended"
        text = "".join([reason, *(f"\n    {line}" for line in self._tail.lines)])
        self._on_ended(text, report.is_unready)


def slots_of(grant: Grant) -> list[int]:
    """The slots of each node of a grant, in the order of its nodes: ranks may have several."""
    return [node.slots for node in grant.nodes]


def one_rank_each(grant: Grant) -> Grant:
    """The same nodes with one rank on each. The credential still has all their slots.

    The time limit is the allocation's.
    """
    return replace(grant, runs=JobRuns((RunRange(0, 1, len(grant.nodes)),)), time_s=0.0)


def shares_of(grant: Grant) -> list[Share]:
    """The memory, GPUs and cores of each node of a grant, in the order of its nodes."""
    shares = codec.decode_credential(grant.credential).shares
    return [share_of(shares, node.node) for node in grant.nodes] if shares else []


def members(slots: list[int], bebopd: str, shares: Sequence[Share] = ()) -> list[Member]:
    """The programs to launch: a member for each row of nodes with equal slots and shares.

    Args:
        slots: of each node.
        bebopd: address of the allocation's own.
        shares: memory, GPUs and cores of each node; empty: none.
    """
    words = (*programs.command_line("pct"), "--bebopd", bebopd, "--in-job", "--slots")
    found = []
    for (count, share), row in groupby(zip(slots, shares or repeat(NO_SHARE), strict=False)):
        binding = Binding(is_whole=True) if share.cores else None
        counted_here = Needs(memory=share.memory, node_gpus=share.gpus, binding=binding)
        needs = counted_here if share != NO_SHARE else None
        counted = ("--memory", f"{share.memory}B") if share.memory else ()
        spec = NodeSpec(len(list(row)), needs=needs)
        found.append(Member(spec, (*words, str(count), *counted)))
    return found


def _of_daemons(invocation: Invocation, key: bytes) -> Invocation:
    """What the PCTs are started with, from what this process was."""
    environment = {
        name: value
        for name, value in invocation.environment.items()
        if name not in _NOT_FOR_DAEMONS
    }
    environment[VARIABLE.encode()] = key.hex().encode()
    return replace(invocation, environment=environment, directory="/")
