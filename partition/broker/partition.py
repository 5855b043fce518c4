"""The partition that an allocation is: a bebopd in this process, for the PCTs on its nodes.

It gives the allocation's slots to steps, in the order of their requests. Its daemons run as the
allocation's owner, so that no step can become anybody else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from signal import SIGCONT, SIGSTOP, SIGTERM

from msgspec import Struct

from allocator.bebopd import Bebopd
from allocator.driver import Driver
from allocator.host.owners import Owners
from allocator.jobs.accounting import RecordPast
from allocator.nodes.placement_list import ListPlacement
from native import auth
from native.errors import PartitionError
from native.host import userdirs
from native.host.keyfile import user_key_line
from native.limits import Limits
from native.loop.reactor import Reactor
from native.machine import fault_text
from native.port.portals import PortalsPort
from native.text import shown
from native.transport.raw import PtlError
from native.wire.group import WriteDown
from native.wire.nodes import SignalRanks
from partition.broker.steps import EndedSteps

FIRST_STEP = 1  # step 0 is a batch job's script


class Entrance(Struct, frozen=True):
    """What yods of the allocation find, where somebody has made it before us.

    Attributes:
        listener: a descriptor, which is closed when it has been taken over.
        key: that the daemons share.
        key_file: path of the owner's key; it is removed at the end.
    """

    listener: int
    key: bytes
    key_file: str


class AllocationPartition:
    """Listens for the PCTs of an allocation, and for the yods of its owner.

    Args:
        host: the address of this host that the nodes see.
        entrance: None: it is made.

    Attributes:
        key: that the daemons share.
        key_file: path of the owner's key; empty until :meth:`serve`.

    Raises:
        PartitionError: it cannot listen.
    """

    def __init__(
        self, host: str, reactor: Reactor, limits: Limits, entrance: Entrance | None = None
    ) -> None:
        self.key = key = entrance.key if entrance else os.urandom(auth.KEY_BYTES)
        self.key_file = ""
        self._entrance = entrance
        self._machine: Bebopd | None = None
        self._steps: EndedSteps | None = None
        self._hold: Callable[[str], None] = lambda text: None
        self._reactor = reactor
        self._limits = limits
        self._stack = ExitStack()
        try:
            self._port = PortalsPort(
                listen=f"{host}:0",
                listener=entrance.listener if entrance else 0,
                advertise=host,
                partition_key=key,
                connect_timeout_s=limits.connect_s,
                liveness_s=limits.liveness_s,
                max_unproven=limits.unproven_count,
                max_unproven_each=limits.unproven_each_count,
            )
        except PtlError as error:
            raise PartitionError(f"cannot listen at {host}: {error.reason}") from None
        if entrance is not None:
            os.close(entrance.listener)
        self._stack.callback(self._port.close)

    @property
    def address(self) -> str:
        """``host:port`` for PCTs and yods."""
        return str(self._port.id)

    def serve(
        self,
        job_id: str,
        nodes: int,
        steps: EndedSteps,
        environment: Mapping[str, str],
        *,
        on_up: Callable[[int, int], None],
        say: Callable[[str], None],
    ) -> None:
        """Begin to answer, under the allocation's id.

        Args:
            job_id: as users call it.
            nodes: how many will come; no step begins before.
            steps: takes those that have ended.
            on_up: called with the number of nodes that are up, and that of steps, when one of them
                is another, or a step has ended.
            say: takes a line for the log.

        Raises:
            PartitionError: the key cannot be written.
        """
        key = self.key

        def contain(whose: str, error: Exception) -> None:
            say(f"{whose}: {fault_text(error)}")

        machine = Bebopd(
            ListPlacement(),
            epoch=time.time_ns() // 1000,
            next_job_id=FIRST_STEP,
            sign=lambda data: auth.sign(key, data),
            job_key=lambda job_id, uid, expires: auth.derive_job_key(key, job_id, uid, expires),
            owner_of=Owners().find,
            wall_clock=time.time,
            limits=self._limits,
            name=f"job {job_id}",
            only_uid=os.geteuid(),
            allocation=job_id,
            expected=nodes,
            contain=contain,
        )
        seen = (0, 0, 0)

        def look() -> None:
            nonlocal seen
            found = machine.nodes.up_count(), len(machine.jobs), len(steps)
            if found != seen:
                seen = found
                on_up(*found[:2])

        driver = Driver(
            machine,
            self._port,
            self._reactor,
            steps,
            say=lambda text, step: say(f"job {job_id}.{step}: {text}" if step else text),
            warn=say,
            on_event=look,
            contain=contain,
        )
        self._stack.callback(driver.close)
        self._machine, self._hold, self._steps = machine, driver.hold, steps
        try:
            self.key_file = self._take_key() or self._write_key(job_id, environment)
        except OSError as error:
            where = shown(error.filename or "the key")
            raise PartitionError(f"{where}: {error.strerror}") from None

    def signal(self, number: int) -> None:
        """Send the ranks of all steps a signal; behind SIGTERM no further step begins."""
        if self._machine is None:
            return
        if number == SIGTERM:
            self._machine.refuses = "the allocation ends"
            self._hold("")
        for node in self._machine.nodes:
            if node.is_up:
                self._port.send(node.peer, SignalRanks(number))

    def write_down(self, text: str) -> None:
        """Ask the yods of all steps for a checkpoint, behind which they end."""
        for job in self._machine.jobs if self._machine is not None else ():
            if job.requester is not None:
                self._port.send(job.requester, WriteDown(job.job_id, text))

    def suspend(self, is_on: bool) -> None:
        """Stop the ranks of all steps and let none begin; or continue."""
        self._hold("the allocation is suspended" if is_on else "")
        self.signal(SIGSTOP if is_on else SIGCONT)

    def end_steps(self) -> None:
        """The PCTs have ended: steps that have not told how they ended are over as well."""
        if self._machine is None or self._steps is None:
            return
        for action in self._machine.accounting.close("the allocation has ended"):
            if isinstance(action, RecordPast):
                self._steps.job_ended(action.row)

    def close(self) -> None:
        """Serve no step any more; remove the key."""
        self._stack.close()

    def _take_key(self) -> str:
        """The owner's key that is written already."""
        if self._entrance is None:
            return ""
        path = self._entrance.key_file
        self._stack.callback(_remove, path)
        _sweep(os.path.dirname(path))
        return path

    def _write_key(self, job_id: str, environment: Mapping[str, str]) -> str:
        """Write the owner's key where the yods in the allocation find it."""
        directory = os.path.join(userdirs.make_state(environment), userdirs.ALLOCATIONS)
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        _sweep(directory)
        path = os.path.join(directory, f"{userdirs.key_name(job_id)}{os.getpid()}")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._stack.callback(_remove, path)
        with open(fd, "w", encoding="ascii") as file:
            file.write(user_key_line(self.key, os.geteuid()))
        return path


def _sweep(directory: str) -> None:
    """Remove the keys that killed processes of this host have left."""
    ours = userdirs.key_name("")
    for name in os.listdir(directory):
        where, dot, unix_pid = name.rpartition(".")
        if f"{where}{dot}".endswith(ours) and not os.path.exists(f"/proc/{unix_pid}"):
            _remove(os.path.join(directory, name))


def _remove(path: str) -> None:
    with suppress(OSError):  # it is gone
        os.unlink(path)
