"""Launch programs from Python: docs/api.md.

:func:`run` launches a job and waits for its end. :mod:`yod.aio` does the same in an asyncio
program, where a job is also a stream of events: ``launch``. Its first use imports asyncio.
"""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Unpack

from native.errors import YodError
from native.host import stdio
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Opened
from yod import launching
from yod.guest.choices import Choices, Command, Member
from yod.guest.driver import GuestLaunch
from yod.guest.feed import Ended, Event, Held, Message, Output, RankEnded, Started
from yod.guest.front import Given
from yod.guest.request import Request, read_load_file, request
from yod.guest.results import JobFailedError, JobTimeoutError, Result
from yod.plan.prepared import Prepared
from yod.ranks import RankResult

if TYPE_CHECKING:
    from partition.up.guest import GuestPartition
    from yod.aio import Job, launch
    from yod.allocation import Allocation, allocate
    from yod.jobs import BatchJob, JobStatus, detach, jobs, submit


def run(
    command: Command,
    *,
    stdin: bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **choices: Unpack[Choices],
) -> Result:
    """Launch a job, and wait for its end.

    In the main thread the signals of this process are the job's meanwhile, as they are for the
    command. When nothing is left of a job that such a signal has ended, the program gets the
    signal: after Ctrl-C :exc:`KeyboardInterrupt` is raised.

    Args:
        command: a program and its arguments, or members.
        stdin: the whole input of rank 0; None: this process's.
        capture_output: keep the output, for the result; else it goes to this process's.
        timeout: seconds that the job may last.
        check: a job that fails is an exception.

    Raises:
        YodError: the launch could not begin; the text says why.
        JobTimeoutError: the job did not end in time, and has been ended.
        JobFailedError: with ``check``: its exit status is not 0.
    """
    stdio.take_numbers()
    is_own = stdin is None
    asked = request(command, has_input=stdin != b"", has_own_input=is_own, **choices)
    again: Prepared | None = asked.prepare()
    launched = None
    while again is not None:
        prepared = again
        launched, result, again = _tried(asked, prepared, stdin, capture_output, timeout, launched)
    assert launched is not None
    if launched.ended_by:
        signal.raise_signal(launched.ended_by)
    launched.check(result, check)
    return result


def _tried(
    asked: Request,
    prepared: Prepared,
    stdin: bytes | None,
    collects_output: bool,
    timeout_s: float | None,
    before: GuestLaunch | None,
) -> tuple[GuestLaunch, Result, Prepared | None]:
    """One try: how it has ended, and the launch to try then; None: no other one."""
    with ExitStack() as stack:
        reactor = Reactor(takes_sigchld=False)
        stack.callback(reactor.close)
        guest: GuestPartition | None = None
        opened: Opened
        if prepared.reach is None:
            from partition.up.guest import GuestPartition

            guest = GuestPartition(reactor, prepared.limits)
            stack.callback(guest.close)
            opened = guest.open(lambda: launched.unix_pids)
        else:
            from partition.find.remote import RemotePartition

            opened = RemotePartition(prepared.reach, prepared.limits)
        launched = GuestLaunch(
            asked,
            prepared,
            opened,
            reactor,
            reactor.stop,
            source=None if stdin is None else Given(reactor, stdin),
            collects_output=collects_output,
            feed=None,
            takes_signals=threading.current_thread() is threading.main_thread(),
            timeout_s=timeout_s,
            before=before,
        )
        stack.callback(launched.close)
        launching.run_to_end(launched.driver, reactor, launched.begin)
        result, again = launched.result(), launched.next_try()
        launched.close()
        if guest is not None:
            _settle(guest, reactor, prepared.limits)
    return launched, result, again


def _settle(guest: GuestPartition, reactor: Reactor, limits: Limits) -> None:
    """Serve the loop until nothing is left of the job, or no time."""
    until = reactor.monotonic() + limits.end_s
    while not guest.is_idle and (left := until - reactor.monotonic()) > 0:
        due = reactor.deadline()
        reactor.run_once(left if due is None else max(0.0, min(left, due - reactor.monotonic())))


def __getattr__(name: str) -> Any:
    """What is asyncio's, when it is used."""
    if name in ("Allocation", "allocate"):
        from yod import allocation

        return getattr(allocation, name)
    if name in ("BatchJob", "JobStatus", "detach", "jobs", "submit"):
        from yod import jobs

        return getattr(jobs, name)
    if name not in ("Job", "launch"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from yod import aio

    return getattr(aio, name)


__all__ = [
    "Allocation",
    "BatchJob",
    "Choices",
    "Command",
    "Ended",
    "Event",
    "Held",
    "Job",
    "JobFailedError",
    "JobStatus",
    "JobTimeoutError",
    "Limits",
    "Member",
    "Message",
    "Output",
    "RankEnded",
    "RankResult",
    "Result",
    "Started",
    "YodError",
    "allocate",
    "detach",
    "jobs",
    "launch",
    "read_load_file",
    "run",
    "submit",
]
