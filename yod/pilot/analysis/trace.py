"""A session as a trace for Perfetto and chrome://tracing: a process for each pilot's node, a track
for each core, a slice for each task."""

from __future__ import annotations

from _heapq import heappush, heapreplace
from collections.abc import Iterator
from itertools import pairwise

from yod.pilot.analysis.story import CallStory, PilotStory, Run, Story, TaskStory
from yod.pilot.analysis.usage import levels
from yod.trace import Event, level, name_of, span

_PILOTS = 1  # the process whose tracks are pilots


def events_of(story: Story) -> Iterator[Event]:
    """The events of the trace, in any order. Times are microseconds since the session began."""
    yield name_of("process_name", _PILOTS, 0, f"session {story.uid}")
    tracks = _Tracks()
    calls: dict[str, list[CallStory]] = {}
    for call in story.calls:
        calls.setdefault(call.worker, []).append(call)
    for number, pilot in enumerate(story.pilots.values(), 1):
        yield name_of("thread_name", _PILOTS, number, pilot.uid)
        yield from _of_pilot(story, pilot, number)
    for task in sorted(story.tasks.values(), key=lambda one: one.runs[0].began if one.runs else 0):
        for run in task.runs:
            for pid, tid in tracks.of(task, run):
                yield from _of_run(story, task, run, pid, tid)
                for call in calls.get(task.uid, ()):
                    if run.began <= call.began <= call.ended <= run.ended:
                        since = call.began - story.began
                        yield span(call.uid, "call", pid, tid, since, call.ended - call.began)
    yield from tracks.names()
    running = []
    for task in story.tasks.values():
        for run in task.runs:
            running += [(run.began, 1), (run.ended, -1)]
    for at, count in levels(running):
        yield level("tasks with slots", _PILOTS, at - story.began, tasks=count)


def _of_pilot(story: Story, pilot: PilotStory, number: int) -> Iterator[Event]:
    passed = sorted((at, name) for name, at in pilot.marks.items() if name.isupper())
    for (since, state), (until, _) in pairwise(passed):
        where = state, "pilot", _PILOTS, number, since - story.began, until - since
        yield span(*where, cores=pilot.cores, reason=pilot.reason)


def _of_run(story: Story, task: TaskStory, run: Run, pid: int, tid: int) -> Iterator[Event]:
    whole = task.uid, "task", pid, tid, run.began - story.began, run.ended - run.began
    yield span(*whole, state=task.state, cores=task.cores, reason=task.reason)
    for use, since, until in run.uses():
        yield span(use, "use", pid, tid, since - story.began, until - since)


class _Tracks:
    """Process and thread numbers of cores. Slices of one track do not overlap."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, str], int] = {}
        self._threads: dict[tuple[int, str], int] = {}
        self._lanes: dict[tuple[int, str], list[tuple[float, int]]] = {}  # until when, which

    def of(self, task: TaskStory, run: Run) -> list[tuple[int, int]]:
        """Where a run is drawn: on each of its cores; one without any on a track of its own."""
        places = [(node, f"core {core}") for node, cores, _ in task.slots for core in cores]
        found = []
        for node, track in places or [("", "tasks")]:
            pid = self._processes.setdefault((task.pilot, node), len(self._processes) + 2)
            found.append((pid, self._free(pid, track, run)))
        return found

    def _free(self, pid: int, track: str, run: Run) -> int:
        """The track, or, where it is taken, one more of its kind."""
        lanes = self._lanes.setdefault((pid, track), [])
        if lanes and lanes[0][0] <= run.began:
            tid = lanes[0][1]
            heapreplace(lanes, (run.ended, tid))
            return tid
        name = f"{track} ({len(lanes) + 1})" if lanes else track
        tid = self._threads[pid, name] = len(self._threads) + 1
        heappush(lanes, (run.ended, tid))
        return tid

    def names(self) -> Iterator[Event]:
        """What the tracks are called."""
        for (pilot, node), pid in self._processes.items():
            yield name_of("process_name", pid, 0, f"{pilot} {node}".strip() or "no pilot")
        for (pid, track), tid in self._threads.items():
            yield name_of("thread_name", pid, tid, track)
