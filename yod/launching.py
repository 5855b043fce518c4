"""One launch, from its preparation to its end: what the commands and :mod:`yod.api` share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from native import limits as limits_module
from native.errors import InternalError, UsageError, YodError
from native.host import userdirs
from native.limits import Limits
from native.loop.closing import close_all
from native.loop.reactor import Reactor
from native.machine import Event, fault_text
from native.port.port import Opened
from native.text import shown
from native.wire.alloc import Grant, NodeSpec
from native.wire.base import Dependency
from native.wire.load import Protocol
from yod.driver import Driver, Result
from yod.host import own
from yod.host.front import Front, OnBroken, OnWritten, Screen
from yod.host.register import Registration
from yod.launch.events import Interrupted
from yod.plan.checkpoint import Checkpointing
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Options
from yod.plan.prepared import (
    LOG_VARIABLE,
    NO_LOG,
    SHARED_DEFAULT,
    SHARED_VARIABLE,
    Prepared,
    Records,
)
from yod.program.planning import make_plan

if TYPE_CHECKING:
    from partition.attach.left import Left
    from partition.checkpoint.beginning import Beginning
    from partition.find.discover import Where

NOBODY_KNOWS = "without a partition or an allocation nobody knows other jobs"
NO_RECORDS = Records()  # but for the user log


def prepare(
    members: list[Member],
    options: Options,
    invocation: Invocation,
    *,
    partition: str = "",
    limits: Limits | None = None,
    records: Records = NO_RECORDS,
    warnings: Sequence[str] = (),
    is_reached: bool = True,
    settings: Mapping[str, str] | None = None,
    checkpointing: Checkpointing | None = None,
    monotonic: Callable[[], float],
) -> Prepared:
    """Find the partition, find and measure the programs.

    Relative paths of the environment are looked up from this process's current directory.

    Args:
        members: the programs, in rank order.
        partition: an address, ``embedded``, or empty: found as docs/yod.md says.
        limits: None: as the environment asks for.
        records: what the launch leaves; the log is found here.
        warnings: lines for the user, before those of the plan.
        is_reached: nothing but a launch needs the partition's key.
        settings: variables that set the limits, the partition and the log; None: those of the
            ranks.
        checkpointing: how checkpoints of the job are made; None: there are none.

    Raises:
        YodError: the launch cannot begin; the text says why.
    """
    from partition.find import discover

    began = monotonic()
    environment = _decoded(invocation.environment) if settings is None else settings
    limits = limits or limits_module.load(environment)
    if options.grace_s is not None:
        limits = replace(limits, kill_delay_s=options.grace_s)
    where = discover.find(partition, environment)
    if where.can_begin and is_reached:
        from partition.hosts import allocated  # once for each batch job

        where, said = allocated.found(environment, limits)
        warnings = [*warnings, *said]
    plan, arguments = make_plan(
        members, options, limits, invocation, not where.is_embedded, warnings
    )
    if where.allocation:
        asker = _step(environment.get("YOD_JOB_ID", ""), where.allocation)
        plan = replace(plan, allocation=where.allocation, asker=asker)
    elif batch_job := _batch_job(environment):
        plan = replace(plan, batch_job=batch_job)
    if options.after:
        plan = replace(plan, after=_after(options.after, where))
    if checkpointing is not None:
        from partition.checkpoint import preparing  # few jobs have any

        how = (checkpointing, members, plan, invocation, limits)
        is_embedded = where.is_embedded
        plan = preparing.prepared(*how, makes_it=is_reached, is_embedded=is_embedded)
    reach = None
    if is_reached and not where.is_embedded:
        from partition.find import remote  # with the transport

        reach = remote.reach(where)
    log_file = environment.get(LOG_VARIABLE, "") or userdirs.make_log(environment) or NO_LOG
    return Prepared(
        plan=plan,
        arguments=arguments,
        limits=limits,
        partition=where.name,
        reach=reach,
        slots=where.slots,
        shared_directory=environment.get(SHARED_VARIABLE, SHARED_DEFAULT),
        records=replace(
            records,
            log_file="" if log_file == NO_LOG else log_file,
            is_log_chosen=bool(environment.get(LOG_VARIABLE)),
            command=" ".join(
                map(shown, (os.path.basename(invocation.words[0]), *invocation.words[1:]))
            ),
            program=shown(plan.objects[plan.arguments.members[0].object_index].path),
            user=_own_name() if log_file != NO_LOG else "",
        ),
        resolve_s=monotonic() - began,
    )


def binding(specs: Sequence[NodeSpec], partition: str) -> list[str]:
    """Which cores ranks that are bound would have, for people; empty: none is bound."""
    from partition.up import picture  # for --dry-run only

    return picture.of_job(specs, partition, os.environ)


def _rescued(chosen: Checkpointing, attempt: int, ended: tuple[int, ...]) -> tuple[str, str]:
    from partition.checkpoint.rescuing import rescued  # few jobs lose a node just then

    return rescued(chosen, attempt, ended)


def begun(
    checkpointing: Checkpointing,
    members: list[Member] | None,
    options: Options,
    invocation: Invocation,
    *,
    owns_output: bool,
) -> Beginning:
    """What a launch with checkpoints begins as: :func:`partition.checkpoint.beginning.readied`.

    Raises:
        YodError: it cannot.
    """
    from partition.checkpoint import beginning  # few jobs have any

    return beginning.readied(checkpointing, members, options, invocation, owns_output=owns_output)


def _batch_job(environment: Mapping[str, str]) -> str:
    """What the batch system calls the job that this process belongs to; empty: to none."""
    from partition.find import state

    if not state.may_be_in_job(environment):
        return ""
    from partition.find import batch

    return batch.id_of(environment)


def _after(text: str, where: Where) -> Dependency:
    """The jobs or steps that a launch is to wait for.

    Raises:
        UsageError: they cannot be named so, or nobody knows them.
    """
    from yod.plan.after import parse  # few launches wait for others

    found = parse(text, allocation=where.allocation)
    if where.is_embedded:
        raise UsageError(f"--after {shown(text)}: {NOBODY_KNOWS}")
    return found


class Launching:
    """One launch in a loop: its driver, and the socket that it is found by.

    Args:
        opened: the launch's place in its partition; closed with the launch.
        unix_pid: of the user's yod; 0: this process.
        is_id_soon: the launch takes its id when the loop waits, and goes on meanwhile.
        is_id_late: it takes none if it is over in a quarter of a second.
        name: what commands show of it; empty: its programs.
        on_asked: takes what commands ask of it; None: the launch does.

    All other arguments are those of the driver.
    """

    def __init__(
        self,
        prepared: Prepared,
        front: Front,
        opened: Opened,
        reactor: Reactor,
        on_over: Callable[[], None],
        *,
        open_screens: Callable[[OnWritten, OnBroken], dict[int, Screen]] | None = None,
        after_event: Callable[[], None] | None = None,
        unix_pid: int = 0,
        is_id_soon: bool = False,
        is_id_late: bool = False,
        name: str = "",
        on_asked: Callable[[Event], None] | None = None,
    ) -> None:
        self._opened = opened
        self._front = front
        self._reactor = reactor
        self._limits = prepared.limits
        self._on_over = on_over
        self._left: Left | None = None
        self._is_embedded = prepared.reach is None
        self._is_closed = False
        self.driver = Driver(
            prepared,
            front,
            opened.port,
            opened.bebopd,
            reactor,
            self._use_grant,
            self._over,
            open_screens,
            after_event,
            self._detach,
        )
        self._registration = Registration(
            self.driver.machine,
            on_asked or self.driver.handle,
            name or " ".join(prepared.plan.names),
            prepared.partition,
            reactor,
            prepared.limits,
            os.environ,
            unix_pid,
        )
        self.driver.on_told, self.driver.rescue = self._registration.told, _rescued
        self._take_id = self._registration.open_soon if is_id_soon else self._registration.open
        if is_id_late:
            self._take_id = self._registration.open_late

    @property
    def job_id(self) -> str:
        """What commands call the job; empty: no nodes yet, or it has no id."""
        return self._registration.id

    def give_up_id(self) -> None:
        """Tell those who wait for it how it has ended: nobody finds it any more."""
        self._registration.close()

    def close(self) -> None:
        """Give up the id, and give everything back; twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        left = [] if self._left is None else [self._left.close]
        close_all([self._opened.close, self.driver.close, *left, self.give_up_id])

    def _detach(self) -> str:
        """Let the user go; why that cannot be, or nothing."""
        from native.transport.raw import PtlError  # few launches are left
        from partition.attach.left import Left

        job_id = self.job_id
        if not job_id:
            return "the job has no id here, by which it would be found again"
        try:
            self._left = Left(
                job_id,
                self._host(),
                os.environ,
                self._reactor,
                self._limits,
                self.driver.typed,
            )
        except OSError as error:
            return f"its output cannot be kept: {error.strerror or error}"
        except (PtlError, YodError) as error:
            return f"no terminal could attach: {error}"
        text = f"yod: detached; yodjob attach {job_id}\n"
        self._front.detach(self._left.write, self._left.take_stdin(), text)
        return ""

    def _host(self) -> str:
        """The address of this host that the job's nodes see."""
        grant = self.driver.machine.grant
        assert grant is not None
        if self._is_embedded:
            return "127.0.0.1"
        from partition.find.remote import facing_node

        return facing_node(grant.nodes[0])

    def _over(self) -> None:
        result = self.driver.result
        if self._left is None or result is None:
            self._on_over()
            return
        status = result.command_status
        self._left.end(-status if status < 0 else status << 8, self._on_over)

    def _use_grant(self, grant: Grant) -> None:
        self._opened.use_grant(grant)
        self._take_id(0 if self._is_embedded else grant.job_id, grant.allocation)


class Cancellation:
    """Ends a launch: SIGTERM to its ranks, and later SIGKILL.

    A rank has as long to end as after the failure of another.
    """

    def __init__(self, driver: Driver, reactor: Reactor, limits: Limits) -> None:
        self._driver = driver
        self._reactor = reactor
        self._press_s = limits.press_s
        self._grace_s = max(limits.kill_delay_s, limits.press_s)
        self._began: float | None = None
        self._by = ""
        self._timer = reactor.timer(self._press)

    @property
    def has_begun(self) -> bool:
        """It has been asked for."""
        return self._began is not None

    def begin(self, by: str) -> None:
        """Send SIGTERM. A second call sends SIGKILL, as soon as that is a press of its own.

        Args:
            by: who asks, for the user.
        """
        now = self._reactor.monotonic()
        if self._began is None:
            self._began, self._by = now, by
            self._timer.set(now + self._grace_s)
            self._press()
        elif self._timer.at is not None:
            self._timer.set(min(self._timer.at, self._began + self._press_s))

    def close(self) -> None:
        """Go no further."""
        self._timer.close()

    def _press(self) -> None:
        if self._driver.result is None:
            self._driver.handle(Interrupted(signal.SIGTERM, by=self._by))


def _decoded(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """An environment as :func:`os.fsdecode` decodes it, without a call for each string."""
    way = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
    return {name.decode(*way): value.decode(*way) for name, value in environment.items()}


def _step(job_id: str, allocation: str) -> int:
    """The number of a step of this allocation; 0: the job is another."""
    of, _, number = job_id.rpartition(".")
    return int(number) if of == allocation and number.isdecimal() else 0


def run(prepared: Prepared, invocation: Invocation) -> Result:
    """Run a launch to its end, with the streams, signals and files of this process.

    Args:
        invocation: of this process.

    Raises:
        YodError: the launch could not begin; the text says why.
        InternalError: a bug. The job ends when its PCTs lose yod.
    """
    from partition import open as opening

    plan = prepared.plan
    reactor = Reactor()
    with ExitStack() as stack:
        stack.callback(reactor.close)
        remote = plan.options.remote
        front = own.OwnFront(reactor, invocation, prepared.shared_directory, remote)
        opened = opening.open_partition(
            prepared.reach,
            reactor,
            prepared.limits,
            slots=prepared.slots,
            will_offer_pmix=Protocol.PMIX in plan.mpi.offered,
            has_needs=any(spec.needs is not None for spec in plan.specs),
        )
        launching = Launching(prepared, front, opened, reactor, reactor.stop)
        if prepared.reach is None:
            launching.driver.machine.end_with_nodes()
        stack.callback(launching.close)
        result = run_to_end(launching.driver, reactor)
    return result


def run_to_end(driver: Driver, reactor: Reactor, begin: Callable[[], None] | None = None) -> Result:
    """Begin a launch, and serve the loop until it is over.

    Args:
        begin: begins it; None: the driver does.

    Raises:
        YodError: the launch could not begin; the text says why.
        InternalError: a bug.
    """
    try:
        (begin or driver.start)()
        if driver.result is None:
            reactor.run()
    except YodError:
        raise
    except Exception as error:
        if driver.debug:
            import traceback

            traceback.print_exception(error)
        raise InternalError(fault_text(error)) from error
    assert driver.result is not None
    return driver.result


@cache
def _own_name() -> str:
    """Whose process this is; a process with many launches asks once."""
    return userdirs.user_name(os.getuid())
