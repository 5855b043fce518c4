"""The broker of a batch job: holds its slots, runs its script, says how it ended.

The PCT of the job's first node starts it as the owner (:mod:`pct.host.kept.brokers`) and gives it
the grant. A script has been started already, in this process before it became the broker. From
there on it does what ``yodjob alloc`` does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from math import inf

from msgspec import Struct, msgpack

from native import limits as limits_module
from native.errors import PeerProtocolError, YodError
from native.frames import Frames, framed
from native.host import rlimits, stdio
from native.host.rlimits import write_whole
from native.ids import PortalId
from native.limits import Limits
from native.loop.daemon import settle
from native.loop.reactor import Reactor
from native.port.portals import JobKey, PortalsPort
from native.text import shown
from native.waitstatus import exit_status
from native.wire.alloc import Grant, NodeSpec
from native.wire.base import JobEnd, State, clipped
from native.wire.batch import OUTCOME, SERVING, EndBroker, LimitTime, Serving, SignalScript, Suspend
from native.wire.group import WriteDown
from partition.batch.begun import Begun, Failed, begun_of
from partition.batch.detached import Detached
from partition.batch.given import MOST_BYTES, Work, message_of, work_of
from partition.batch.outcome import outcome_of
from partition.batch.script import Script
from partition.broker.driver import Driver
from partition.broker.machine import (
    Drained,
    Holding,
    Signalled,
    Suspended,
    Tell,
    TimeLimited,
)
from partition.broker.wanted import Wanted
from partition.find.remote import facing_node
from yod.plan.reach import Reach

_READ_BYTES = 65536


class GrantedPartition:
    """A port to the nodes of a grant, and to the bebopd that gave it.

    Attributes:
        bebopd: the id to send requests to.
        port: does not listen.
    """

    def __init__(self, address: str, limits: Limits, grant: Grant) -> None:
        self.port = PortalsPort(
            connect_timeout_s=limits.connect_s,
            liveness_s=limits.liveness_s,
            sending_bytes=limits.sending_bytes,
        )
        self.bebopd: PortalId = self.port.resolve(address)
        self.use_grant(grant)

    def use_grant(self, grant: Grant) -> None:
        """Use the job's key for connections from now on."""
        self.port.use_key(None, JobKey(grant.job_id, grant.uid, grant.expires, grant.job_key))
        if grant.addresses:
            self.port.set_addresses(dict(grant.addresses))

    def close(self) -> None:
        """Send what is queued, and close the port."""
        self.port.close()


def run(begun: Sequence[str] = ()) -> int:
    """Run the job that standard input tells of, and say how it ended on standard output.

    Args:
        begun: what yod-script says of the job's script; empty: there is none.
    """
    told = os.dup(1)
    frames = Frames(MOST_BYTES)
    first: list[bytes] = []
    while not first:
        data = os.read(0, _READ_BYTES)
        if not data:
            return 0  # the PCT has ended
        first = frames.add(data)
    work, *early = first

    def tell(kind: bytes, part: Struct) -> None:
        with suppress(BrokenPipeError):
            write_whole(told, framed(kind + msgpack.encode(part)))

    script = begun_of(begun) if begun else None
    tell(OUTCOME, _run(work_of(work), script, early, frames, partial(tell, SERVING)))
    return 0


def _run(
    work: Work,
    begun: Begun | Failed | None,
    early: list[bytes],
    frames: Frames,
    on_serving: Callable[[Serving], None],
) -> JobEnd:
    """Be the owner's process that has submitted the job, and run it."""
    task = work.task
    if isinstance(begun, Failed):
        return JobEnd(State.FAILED, 0, 0, clipped(begun.text))
    if begun is None and task.script:
        return JobEnd(State.FAILED, 0, 0, "what was handed in cannot be started")
    os.environ.clear()
    os.environb.update(task.environment)
    if begun is not None:  # what has started the script has set the directory and the umask
        os.dup2(begun.output, 1)
        os.dup2(begun.output, 2)
        os.close(begun.output)
    else:
        os.umask(task.umask)
        try:
            os.chdir(task.directory)
        except OSError as error:
            where = shown(os.fsdecode(task.directory))
            return JobEnd(State.FAILED, 0, 0, clipped(f"{where}: {error.strerror}"))
    try:
        with Batch(work, begun, frames, on_serving) as batch:
            return batch.run(early)
    except YodError as error:
        stdio.say(f"yodjob: job {work.given.job_id}: {error}")
        return JobEnd(State.FAILED, 0, 0, clipped(str(error)))


class Batch:
    """One batch job in this process, from its grant to its end."""

    def __init__(
        self,
        work: Work,
        begun: Begun | None,
        frames: Frames,
        on_serving: Callable[[Serving], None],
    ) -> None:
        self._work = work
        self._begun = begun
        self._frames = frames
        self._on_serving = on_serving
        self._stack = ExitStack()
        self._errors: list[str] = []
        self._is_told_to_end = False
        self._on_checkpoint: Callable[[bool, bool], None] | None = None

    def __enter__(self) -> Batch:
        work, stack = self._work, self._stack
        limits = limits_module.load(os.environ)
        self._reactor = reactor = Reactor()
        stack.callback(reactor.close)
        rlimits.raise_soft()
        stack.callback(rlimits.restore)
        given = work.given
        self._script = self._tenant(limits)
        opened = GrantedPartition(given.bebopd, limits, work.grant)
        time_s = given.time_s or inf
        wanted = Wanted(NodeSpec(1), (given.name,), time_s=time_s, warning=work.task.warning)
        self._machine = Holding(wanted, opened.bebopd, given.bebopd, limits)
        self._driver = Driver(
            self._machine,
            opened,
            reactor,
            wanted,
            os.environ,
            limits,
            partition=given.bebopd,
            reach=Reach(given.bebopd),
            is_quiet=True,
            debug=False,
            tenant=self._script,
            on_tell=self._tell,
            entrance=self._begun.entrance(given.key) if self._begun else None,
            open_again=lambda grant: GrantedPartition(given.bebopd, limits, grant),
            on_checkpoint=self._on_checkpoint,
        )
        stack.callback(self._driver.close)
        self._watch = reactor.watch(0, self._read)
        stack.callback(self._watch.close)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _tenant(self, limits: Limits) -> Script | Detached:
        """What has the allocation."""
        task, reactor = self._work.task, self._reactor
        if self._begun is not None and task.checkpoints:
            from partition.batch.saved import SavedScript, prepared  # few jobs are

            container = prepared(self._work)
            saved = SavedScript(
                self._work, self._begun, reactor, self._script_ended, container, self._saved
            )
            self._on_checkpoint = saved.checkpoint
            return saved
        if self._begun is not None:
            return Script(task, self._begun, reactor, self._script_ended)
        detached = Detached(
            task,
            facing_node(self._work.grant.nodes[0]),
            reactor,
            limits,
            on_serving=lambda job_id, serving: self._on_serving(serving),
            on_end=self._script_ended,
        )
        self._stack.callback(detached.close)
        return detached

    def run(self, early: list[bytes]) -> JobEnd:
        """Run the job to its end.

        Args:
            early: messages that have come already.
        """
        is_held = self._begun is not None and self._begun.is_held
        self._driver.start(self._work.grant, starts_command=not is_held)
        for frame in early:
            self._hear(frame)
        if self._driver.status is None:
            settle()
            self._reactor.run()
        assert self._driver.status is not None
        return self._outcome(self._driver.status)

    def _hear(self, frame: bytes) -> None:
        """A message of bebopd's, which the PCT passes on."""
        match message_of(frame):
            case EndBroker() if not self._is_told_to_end:  # a bebopd may repeat it
                self._is_told_to_end = True
                self._driver.handle(Signalled(signal.SIGTERM))
            case LimitTime(_, time_s):
                self._driver.handle(TimeLimited(time_s or inf))
            case SignalScript(_, number):
                self._script.signal_alone(number)
            case Suspend(_, is_on):
                self._driver.handle(Suspended(is_on))
            case WriteDown() if self._on_checkpoint is not None:
                self._on_checkpoint(True, False)
            case WriteDown(_, text):
                self._driver.handle(Drained(text))

    def _read(self) -> None:
        data = os.read(0, _READ_BYTES)
        if not data:  # the PCT has ended: our keeper ends us as well
            self._watch.close()
            self._driver.handle(Signalled(signal.SIGTERM))
            return
        try:
            for frame in self._frames.add(data):
                self._hear(frame)
        except PeerProtocolError as error:
            stdio.say(f"yodjob: {error}")

    def _tell(self, tell: Tell) -> None:
        if tell.is_error:
            self._errors.append(tell.text)
            if isinstance(self._script, Detached):
                self._script.say(f"job {self._work.given.job_id}: {tell.text}")

    def _saved(self, is_trial: bool, path: str, trouble: str) -> None:
        self._driver.checkpoint_told(is_trial, path, trouble)

    def _script_ended(self, wait_status: int) -> None:
        self._driver.command_ended(exit_status(wait_status))

    def _outcome(self, status: int) -> JobEnd:
        if self._machine.is_unready:
            (text, *_) = self._errors  # its other lines repeat it
            return JobEnd(State.BOOT_FAIL, 0, 0, clipped(text.partition("\n")[0]))
        how = self._machine
        ended = (status, self._script.wait_status, self._errors)
        return outcome_of(
            *ended, is_by_command=how.is_by_command, has_lost_nodes=how.has_lost_nodes
        )
