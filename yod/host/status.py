"""What a launch tells a command that asks for it by its id; native/wire/JOB.md."""

from __future__ import annotations

from native import nodelist
from native.errors import PeerProtocolError
from native.machine import Event
from native.wire import job
from native.wire.base import State
from yod.launch.events import (
    CheckpointAsked,
    FollowAsked,
    Interrupted,
    LookAsked,
    SignalToPass,
    SuspensionAsked,
    TimeLimitAsked,
)
from yod.launch.machine import Launch
from yod.launch.phases import Phase

CANCEL_SIGNAL = 15  # SIGTERM: a job that is cancelled has the status of one that it ended
_CONTINUE = 18  # SIGCONT

_STATES = {
    Phase.ALLOCATING: State.PENDING,
    Phase.FORMING: State.CONFIGURING,
    Phase.LOADING: State.CONFIGURING,
    Phase.STARTING: State.CONFIGURING,
    Phase.HELD: State.SUSPENDED,
    Phase.RUNNING: State.RUNNING,
    Phase.ENDING: State.COMPLETING,
    Phase.RESETTING: State.COMPLETING,
    Phase.RELEASING: State.COMPLETING,
    Phase.DONE: State.COMPLETING,  # its last output is being written
}


class Status:
    """Answers requests about one launch, and says what a request means to it.

    Args:
        name: the programs, as the user named them.
        partition: its name, for people.
        unix_pid: of the user's yod.
    """

    def __init__(self, machine: Launch, name: str, partition: str, uid: int, unix_pid: int) -> None:
        self._machine = machine
        self._name = job.sayable(name)
        self._partition = job.sayable(partition)
        self._uid = uid
        self._unix_pid = unix_pid

    def answer(
        self, request: job.Request, job_id: str, began: float, now: float
    ) -> tuple[job.Reply | None, Event | None]:
        """The reply, which is to be sent first, and the event for the launch.

        Args:
            job_id: what the job is called.
            began: unix time at which it was granted nodes.
            now: seconds on the launch's clock.

        Returns:
            No reply: it comes when the launch has ended. No event: nothing is to be done.
        """
        match request:
            case job.Show():
                return self._shown(job_id, began, now), None
            case job.Wait():
                return None, None
            case job.Cancel():
                return job.Accepted(), Interrupted(CANCEL_SIGNAL, by="yodjob")
            case job.Signal() | job.Suspend() | job.Resume():
                if self._machine.phase is Phase.RUNNING or self._lets_go(request):
                    return job.Accepted(), _of_running(request)
                state = _STATES[self._machine.phase].value
                return job.Refused(f"the application is not running: {state}"), None
            case job.Checkpoint(ends, is_trial):
                if why := self._machine.why_no_checkpoint(ends=ends):
                    return job.Refused(why), None
                return None, CheckpointAsked(ends, is_trial=is_trial)
            case job.Look():
                return None, LookAsked()
            case job.Follow(ranks):
                size = self._machine.report.size
                if lacking := [first for first, last in ranks if not first <= last < size]:
                    return job.Refused(f"no ranks from {lacking[0]} on: it has {size}"), None
                return job.Accepted(), FollowAsked(ranks)
            case job.LimitTime(time_s):
                if self._machine.time_s is not None:
                    return job.Accepted(), TimeLimitAsked(time_s)
                return job.Refused("it has no time limit that can be changed here"), None
        raise PeerProtocolError(f"no such request: {request!r}")

    def _lets_go(self, request: job.Request) -> bool:
        """Whether it lets ranks go that are held for debuggers."""
        is_go = request == job.Signal(_CONTINUE) or isinstance(request, job.Resume)
        return is_go and self._machine.phase is Phase.HELD

    def ended(self) -> job.Ended | None:
        """What commands are told that wait; None: the launch has broken off."""
        report = self._machine.report
        status = report.exit_status
        if status is None:
            return None
        if report.interrupted_by:
            state = State.CANCELLED
        elif not status:
            state = State.COMPLETED
        elif report.is_timed_out:
            state = State.TIMEOUT
        else:
            state = State.NODE_FAIL if report.lost else State.FAILED
        return job.Ended(state, status)

    def _shown(self, job_id: str, began: float, now: float) -> job.Shown:
        machine = self._machine
        report = machine.report
        running = machine.began.get(Phase.RUNNING)
        nodes = sorted(set(report.nodes))
        if len(nodes) == 1:
            where = report.node_names[nodes[0]]
        else:
            where = f"nodes {nodelist.format_nodes(nodes)}" if nodes else ""
        return job.Shown(
            id=job_id,
            name=self._name,
            uid=self._uid,
            state=State.SUSPENDED if machine.is_suspended else _STATES[machine.phase],
            ranks=report.size,
            nodes=len(nodes),
            where=job.sayable(where),
            partition=self._partition,
            began=began,
            elapsed_s=0.0 if running is None else max(0.0, now - running),
            unix_pid=self._unix_pid,
            time_s=machine.time_s,
            is_saved_whole=machine.is_saved_whole,
        )


def _of_running(request: job.Signal | job.Suspend | job.Resume) -> Event:
    if isinstance(request, job.Signal):
        return SignalToPass(request.number)
    return SuspensionAsked(isinstance(request, job.Suspend))
