"""A session as its profiles tell it: when each pilot and each task was where."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from yod.pilot.analysis.records import Record, plain
from yod.pilot.model import states

# What a task's slots are used for, from each event to the next one that is there.
USES = {
    "schedule_ok": "exec_queue",
    states.AGENT_EXECUTING: "exec_prep",
    "task_run_start": "exec_rp",
    "launch_start": "exec_sh",
    "exec_start": "exec_cmd",
    "exec_stop": "term_sh",
    "launch_stop": "term_rp",
    "task_run_stop": "unschedule",
}
_END = "unschedule_stop"
_EXECUTING = frozenset(name for name in USES if name != "schedule_ok" and not name.isupper())
_OF_PILOTS = frozenset(("bootstrap_0_start", "bootstrap_0_ok", "bootstrap_0_stop"))
# The events that a story is made of; the first and the last of a file say how long it lasts.
_OF_CALLS = frozenset(("call_start", "call_stop"))
WANTED = _EXECUTING | _OF_PILOTS | _OF_CALLS
WANTED |= {"advance", "schedule_ok", _END, "cmd", "sync_abs", "END"}
TASK_STATES = frozenset((*states.TASK.states, *states.FINAL))

Slots = list[tuple[str, tuple[int, ...], tuple[int, ...]]]  # node, cores, GPUs of each rank


class Run(Struct):
    """One time that a task had slots: events, and when they were, in order."""

    marks: list[tuple[str, float]]

    def at(self, event: str) -> float | None:
        """When an event was."""
        return next((at for name, at in self.marks if name == event), None)

    @property
    def began(self) -> float:
        """When it got its slots."""
        return self.marks[0][1]

    @property
    def ended(self) -> float:
        """When it gave them back."""
        return self.marks[-1][1]

    def uses(self) -> list[tuple[str, float, float]]:
        """What its slots were used for, and when: without gaps."""
        found = []
        for (event, since), (_, until) in pairwise(self.marks):
            if until > since:
                found.append((USES[event], since, until))
        return found


class TaskStory(Struct):
    """A task.

    Attributes:
        cores: that it holds while it has slots; slots: where, once it is over.
        states: when it reached each, the last time.
        runs: each time that it had slots; more than one where it was run again.
    """

    uid: str
    pilot: str = ""
    cores: int = 0
    slots: Slots = []
    reason: str = ""
    stderr: str = ""
    states: dict[str, float] = {}
    runs: list[Run] = []

    @property
    def state(self) -> str:
        """The last one."""
        values = states.TASK.values
        return max(self.states, key=lambda one: values[one], default=states.NEW)


class CallStory(Struct, gc=False):
    """A call of an executor, in one of its workers, which is a task."""

    uid: str
    worker: str
    began: float
    ended: float


class PilotStory(Struct):
    """A pilot.

    Attributes:
        nodes: (name, cores).
        marks: events and states, and when they were.
    """

    uid: str
    nodes: list[tuple[str, int]] = []
    marks: dict[str, float] = {}
    reason: str = ""

    @property
    def cores(self) -> int:
        """How many it holds."""
        return sum(cores for _, cores in self.nodes)


class Story:
    """A session.

    Args:
        uid: the session's.
        pilots: those of its journal.
        tasks: likewise.

    Attributes:
        began, ended: of its first and last record.
        calls: of executors, that have been done.
    """

    def __init__(self, uid: str, pilots: Iterable[PilotStory], tasks: Iterable[TaskStory]) -> None:
        self.uid = uid
        self.pilots = {plain(pilot.uid): pilot for pilot in pilots}
        self.tasks = {plain(task.uid): task for task in tasks}
        self.began = float("inf")
        self.ended = float("-inf")
        self.calls: list[CallStory] = []
        self._begun: dict[str, float] = {}  # calls
        self._held: dict[str, list[list[float]]] = {}  # task -> when it got and gave back slots
        self._did: dict[str, list[list[tuple[str, float]]]] = {}  # task -> what it did meanwhile

    def add(self, record: Record) -> None:
        """The next record. Those of one entity come in the order in which they were written."""
        at = record.time
        if at < self.began:
            self.began = at
        if at > self.ended:
            self.ended = at
        event = record.event
        if event == "advance":
            self._advanced(record)
        elif event == "schedule_ok":
            self._held.setdefault(record.uid, []).append([at])
        elif event == _END:
            if record.uid in self._held:
                self._held[record.uid][-1].append(at)
        elif event in _EXECUTING:
            if record.uid in self._did:
                self._did[record.uid][-1].append((event, at))
        elif event == "call_start":
            self._begun[record.uid] = at
        elif event == "call_stop":
            began = min(self._begun.pop(record.uid, at), at)
            self.calls.append(CallStory(record.uid, record.msg, began, at))
        elif event in _OF_PILOTS or (event == "cmd" and record.msg == "cancel_pilot"):
            pilot = self.pilots.get(record.uid)
            if pilot is not None:
                pilot.marks[event] = at

    def finish(self) -> None:
        """All records have come: what is not over lasts until its pilot's end."""
        for pilot in self.pilots.values():
            if "bootstrap_0_start" in pilot.marks:
                is_over = any(state in pilot.marks for state in states.FINAL)
                last = max(pilot.marks.values()) if is_over else self.ended
                pilot.marks.setdefault("bootstrap_0_stop", last)
        for uid, held in self._held.items():
            task = self.tasks.get(uid)
            if task is None:
                continue
            did = self._did.get(uid, [])
            for n, (began, *over) in enumerate(held):
                ended = over[0] if over else self._end_of(task)
                task.runs.append(_run(began, did[n] if n < len(did) else [], ended))
        self._held.clear()
        self._did.clear()

    def _end_of(self, task: TaskStory) -> float:
        pilot = self.pilots.get(plain(task.pilot))
        last = pilot.marks.get("bootstrap_0_stop", self.ended) if pilot else self.ended
        return min([last, *(task.states[one] for one in states.FINAL if one in task.states)])

    def _advanced(self, record: Record) -> None:
        pilot = self.pilots.get(record.uid)
        if pilot is not None:
            pilot.marks.setdefault(record.state, record.time)
            return
        task = self.tasks.get(record.uid)
        if task is None or record.state not in TASK_STATES:
            return
        task.states[record.state] = record.time
        if record.state == states.AGENT_EXECUTING:
            self._did.setdefault(record.uid, []).append([(record.state, record.time)])


def _run(began: float, did: list[tuple[str, float]], ended: float) -> Run:
    """A run from what two components say; clocks of other nodes do not turn its time round."""
    marks = [("schedule_ok", began)]
    at = began
    for event, told in did:
        at = min(max(at, told), max(began, ended))
        marks.append((event, at))
    marks.append((_END, max(at, ended)))
    return Run(marks)
