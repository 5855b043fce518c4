"""The agent's rules: what becomes of each task, from its coming to its end.

A task ends once. One that is canceled or out of time is told to end, and is over when whoever runs
it says so: SIGTERM first, and after ``kill_delay_s`` SIGKILL. Nothing else is waited for.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from msgspec import Struct

from native.deadlines import Deadlines
from yod.pilot.model import states
from yod.pilot.model.sizes import Need, RankSlot
from yod.pilot.scheduler.queue import Waiting
from yod.pilot.scheduler.slots import Slots
from yod.pilot.scheduler.stages import Stage, state_in

RESTARTS_MAX = 3  # of a task whose node is lost


class Came(Struct, frozen=True):
    """A task has come.

    Attributes:
        timeout_s, startup_s: 0: none.
        has_input, has_output: files are to be brought before and after.
        keeps_output: output is brought, too, where the task has failed.
        services: tasks that are to be ready first.
        is_service: others may wait for it, until :class:`Ready` comes.
        failure: why it cannot run; empty: it may.
    """

    uid: str
    need: Need
    priority: int = 0
    timeout_s: float = 0.0
    startup_s: float = 0.0
    has_input: bool = False
    has_output: bool = False
    keeps_output: bool = False
    services: tuple[str, ...] = ()
    is_service: bool = False
    failure: str = ""


class Staged(Struct, frozen=True):
    """The input of a task is there, or its output where it belongs; or a reason why not."""

    uid: str
    failure: str = ""


class Ready(Struct, frozen=True):
    """A task has started; a service is ready."""

    uid: str


class Registered(Struct, frozen=True):
    """A service that need not be a task here is ready."""

    uid: str


class Ended(Struct, frozen=True):
    """Nothing of a task's processes is left.

    Attributes:
        failure: why it has failed; empty: it has not.
        may_restart: it is not its own failure, and it may run again.
    """

    uid: str
    failure: str = ""
    may_restart: bool = False


class Cancel(Struct, frozen=True):
    """Tasks are not wanted any more. Those that are not here are nobody's."""

    uids: tuple[str, ...]


class HandBack(Struct, frozen=True):
    """Tasks that have not begun are to be somebody else's; none named: all of them."""

    uids: tuple[str, ...] = ()


class NodeLost(Struct, frozen=True):
    """Nothing can begin on a node any more; what ran there is told to have ended after that."""

    index: int


class DeadlineReached(Struct, frozen=True):
    """The time of :meth:`AgentMachine.deadline` has come."""


Event = Came | Staged | Ready | Registered | Ended | Cancel | HandBack | NodeLost | DeadlineReached


class StageIn(Struct, frozen=True):
    """Bring the input of a task; :class:`Staged` follows."""

    uid: str


class Begin(Struct, frozen=True):
    """Run a task; :class:`Ended` follows."""

    uid: str
    slots: list[RankSlot]


class Signal(Struct, frozen=True):
    """Send the processes of a task a signal."""

    uid: str
    signo: int


class StageOut(Struct, frozen=True):
    """Bring the output of a task; :class:`Staged` follows."""

    uid: str


class Finish(Struct, frozen=True):
    """A task is over."""

    uid: str
    state: str
    reason: str


class Returned(Struct, frozen=True):
    """Tasks that have not begun are not ours any more."""

    uids: list[str]


Action = StageIn | Begin | Signal | StageOut | Finish | Returned


class _Task:
    __slots__ = ("came", "reason", "restarts", "slots", "stage", "state", "until")

    def __init__(self, came: Came) -> None:
        self.came = came
        self.stage = Stage.HELD
        self.slots: list[RankSlot] = []
        self.state = ""  # the final one, once it is decided
        self.reason = ""
        self.until = ""  # what its deadline is for
        self.restarts = 0


class AgentMachine:
    """All tasks of one pilot.

    A task whose need has no ranks takes no slots: workers that have slots run it.

    Args:
        kill_delay_s: from SIGTERM to SIGKILL.
    """

    def __init__(self, slots: Slots, kill_delay_s: float) -> None:
        self.slots = slots
        self.waiting = Waiting(slots)
        self._kill_delay_s = kill_delay_s
        self._tasks: dict[str, _Task] = {}
        self._deadlines: Deadlines[str] = Deadlines()
        self._held: dict[str, list[str]] = {}  # service -> tasks that wait for it
        self._ready: set[str] = set()
        self._failed: set[str] = set()  # services that have ended before they were ready
        self._slotless: dict[str, None] = {}  # they wait for the next start alone

    def __len__(self) -> int:
        return len(self._tasks)

    def deadline(self) -> float | None:
        """When the next :class:`DeadlineReached` is due; None: nothing is timed."""
        return self._deadlines.earliest()

    def stage_of(self, uid: str) -> Stage | None:
        """How far a task is; None: it is not here."""
        task = self._tasks.get(uid)
        return task.stage if task else None

    def standing(self, uids: Iterable[str]) -> dict[str, list[str]]:
        """The states that tasks have reached; those that are not here are left out."""
        found: dict[str, list[str]] = {}
        for uid in uids:
            task = self._tasks.get(uid)
            if task is not None:
                found.setdefault(state_in(task.stage, task.came.has_input), []).append(uid)
        return found

    def is_canceled(self, uid: str) -> bool:
        """A task has been told to end."""
        task = self._tasks.get(uid)
        return bool(task and task.state)

    def why(self, uid: str) -> str:
        """Why a task stands where it does; empty: it is not here."""
        task = self._tasks.get(uid)
        if task is None:
            return ""
        if task.state:
            return f"it is being ended: {task.reason or task.state}"
        match task.stage:
            case Stage.HELD:
                lacking = [each for each in task.came.services if each not in self._ready]
                return f"it waits for the service {', '.join(lacking)} to be ready"
            case Stage.STAGING:
                return "its input is being brought"
            case Stage.WAITING:
                return "it begins" if uid in self._slotless else self.waiting.why(uid)
            case Stage.RUNNING:
                return "it runs"
        return "its output is being brought"

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Returns:
            Actions, in the order to carry them out. Tasks begin by :meth:`start`.
        """
        match event:
            case Came():
                return self._came(event)
            case Staged(uid, failure):
                return self._staged(uid, failure)
            case Ended():
                return self._ended(event)
            case Ready(uid):
                return self._became_ready(uid)
            case Registered(uid):
                return self._release(uid)
            case Cancel(uids):
                return self._cancel(uids, states.CANCELED, "", now)
            case HandBack(uids):
                return self._hand_back(uids)
            case NodeLost(index):
                return self._lost_node(index)
            case DeadlineReached():
                return self._out_of_time(now)

    def start(self, now: float, most: int = 1 << 30) -> list[Action]:
        """Let tasks begin for which there are slots; call it after events, once for many."""
        actions: list[Action] = []
        slotless, self._slotless = self._slotless, {}
        begun = [(uid, list[RankSlot]()) for uid in slotless]
        begun += [(started.uid, started.slots) for started in self.waiting.start(most)]
        for uid, slots in begun:
            task = self._tasks[uid]
            task.stage = Stage.RUNNING
            task.slots = slots
            came = task.came
            if came.startup_s:
                self._until(task, now + came.startup_s, "start")
            elif came.timeout_s:
                self._until(task, now + came.timeout_s, "end")
            actions.append(Begin(uid, slots))
        return actions

    def check(self) -> None:
        """What is always true."""
        self.slots.check()
        nodes = self.slots.nodes
        held = sum(
            len(slot.cores)
            for task in self._tasks.values()
            for slot in task.slots
            if nodes[slot.node].size.cores  # else it is lost
        )
        assert self.slots.free_cores + held == self.slots.cores
        for uid, task in self._tasks.items():
            is_waiting = uid in self.waiting or uid in self._slotless
            assert is_waiting == (task.stage is Stage.WAITING)
            assert bool(task.slots) == (task.stage is Stage.RUNNING and task.came.need.ranks > 0)

    # -- events ---------------------------------------------------------------

    def _came(self, came: Came) -> list[Action]:
        if came.uid in self._tasks:
            return []  # it comes twice when a client has lost its agent for a moment
        never = came.failure or (self.slots.why_never(came.need) if came.need.ranks else "")
        lacking = [each for each in dict.fromkeys(came.services) if each not in self._ready]
        never = never or next((_no_service(uid) for uid in lacking if uid in self._failed), "")
        if never:
            return [Finish(came.uid, states.FAILED, never)]
        task = self._tasks[came.uid] = _Task(came)
        for service in lacking:
            self._held.setdefault(service, []).append(came.uid)
        return [] if lacking else self._bring(task)

    def _bring(self, task: _Task) -> list[Action]:
        if task.came.has_input:
            task.stage = Stage.STAGING
            return [StageIn(task.came.uid)]
        return self._wait(task)

    def _wait(self, task: _Task) -> list[Action]:
        came = task.came
        task.stage = Stage.WAITING
        if not came.need.ranks:
            self._slotless[came.uid] = None
            return []
        self.waiting.add(came.uid, came.need, came.priority)
        return []

    def _staged(self, uid: str, failure: str) -> list[Action]:
        task = self._tasks.get(uid)
        if task is None:
            return []
        if failure and task.state in ("", states.DONE):
            task.state, task.reason = states.FAILED, failure
        if task.stage is Stage.STAGING and not task.state:
            return self._wait(task)
        return self._finish(task)

    def _became_ready(self, uid: str) -> list[Action]:
        task = self._tasks.get(uid)
        if task is None:
            return []
        if task.until == "start" and not task.state:
            left = task.came.timeout_s - task.came.startup_s
            at = self._deadlines.get(uid)
            self._until(task, at + left if at and left > 0 else None, "end")
        if not task.came.is_service or uid in self._ready:
            return []
        return self._release(uid)

    def _release(self, uid: str) -> list[Action]:
        """Those that wait for a service go on."""
        self._ready.add(uid)
        actions: list[Action] = []
        for held in self._held.pop(uid, []):
            other = self._tasks.get(held)
            if other is not None and all(each in self._ready for each in other.came.services):
                actions += self._bring(other)
        return actions

    def _ended(self, ended: Ended) -> list[Action]:
        uid = ended.uid
        task = self._tasks.get(uid)
        if task is None or task.stage is not Stage.RUNNING:
            return []
        self._deadlines.set(uid, None)
        self.slots.free(task.slots, task.came.need)
        task.slots = []
        came = task.came
        if ended.may_restart and not task.state and task.restarts < RESTARTS_MAX:
            task.restarts += 1
            never = self.slots.why_never(came.need) if came.need.ranks else ""
            if not never:
                return self._wait(task)
        task.stage = Stage.COLLECTING
        if not task.state:
            failed = (states.FAILED, ended.failure)
            task.state, task.reason = failed if ended.failure else (states.DONE, "")
        if came.has_output and (task.state == states.DONE or came.keeps_output):
            return [StageOut(uid)]
        return self._finish(task)

    def _cancel(self, uids: Iterable[str], state: str, reason: str, now: float) -> list[Action]:
        actions: list[Action] = []
        for uid in uids:
            task = self._tasks.get(uid)
            if task is None or task.state:
                continue
            task.state, task.reason = state, reason
            if task.stage is Stage.RUNNING:
                actions.append(Signal(uid, signal.SIGTERM))
                self._until(task, now + self._kill_delay_s, "kill")
            elif task.stage in (Stage.HELD, Stage.WAITING):
                self.waiting.remove(uid)
                self._slotless.pop(uid, None)
                actions += self._finish(task)
        return actions

    def _hand_back(self, uids: tuple[str, ...]) -> list[Action]:
        back = [
            uid
            for uid in uids or tuple(self._tasks)
            if (task := self._tasks.get(uid)) is not None
            and task.stage in (Stage.HELD, Stage.WAITING)
        ]
        for uid in back:
            self.waiting.remove(uid)
            self._slotless.pop(uid, None)
            del self._tasks[uid]
        return [Returned(back)] if back else []

    def _lost_node(self, index: int) -> list[Action]:
        self.slots.lose(index)
        actions: list[Action] = []
        for uid in list(self.waiting):
            task = self._tasks[uid]
            never = self.slots.why_never(task.came.need)
            if never:
                self.waiting.remove(uid)
                task.state, task.reason = states.FAILED, never
                actions += self._finish(task)
        return actions

    def _out_of_time(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for uid in self._deadlines.due(now):
            self._deadlines.set(uid, None)
            task = self._tasks[uid]
            came = task.came
            match task.until:
                case "kill":
                    actions.append(Signal(uid, signal.SIGKILL))
                case "start":
                    reason = f"it did not start in {came.startup_s:g} s"
                    actions += self._cancel((uid,), states.FAILED, reason, now)
                case _:
                    reason = f"its time of {came.timeout_s:g} s is over"
                    actions += self._cancel((uid,), states.CANCELED, reason, now)
        return actions

    def _finish(self, task: _Task) -> list[Action]:
        uid = task.came.uid
        del self._tasks[uid]
        self._deadlines.set(uid, None)
        actions: list[Action] = [Finish(uid, task.state, task.reason)]
        if task.came.is_service and uid not in self._ready:
            self._failed.add(uid)
        for held in self._held.pop(uid, []):
            other = self._tasks.get(held)
            if other is not None and not other.state:
                other.state = states.FAILED
                other.reason = _no_service(uid)
                actions += self._finish(other)
        return actions

    def _until(self, task: _Task, at: float | None, what: str) -> None:
        task.until = what
        self._deadlines.set(task.came.uid, at)


def _no_service(uid: str) -> str:
    return f"its service {uid} ended before it was ready"
