"""What the pictures of a session show: numbers, colours and words, the same for all of them."""

from __future__ import annotations

from collections import Counter

from yod.pilot.analysis import curves, usage
from yod.pilot.analysis.story import Story
from yod.pilot.model import states

BINS = 300
_RATE_BINS = 5  # that one rate is the mean of
WORDS = {
    "exec_queue": "slots wait for the executor",
    "exec_prep": "the task is prepared",
    "exec_rp": "its sandbox and launch",
    "exec_sh": "its processes are started",
    "exec_cmd": "its program runs",
    "term_sh": "its processes are ended",
    "term_rp": "its end is noted",
    "unschedule": "its slots are given back",
    "boot": "the agent starts",
    "setup": "the client hears of it",
    "warmup": "before the first task",
    "idle": "no task has them",
    "drain": "behind the last task",
    "term": "the pilot is ended",
}
COLOURS = {
    "exec_cmd": "#2f9e5b",
    "exec_queue": "#1d4f91",
    "exec_prep": "#2f6fbf",
    "exec_rp": "#5b95dd",
    "exec_sh": "#93bdf0",
    "term_sh": "#c09be0",
    "term_rp": "#9a6cc4",
    "unschedule": "#70439e",
    "boot": "#e0a030",
    "setup": "#edbe5f",
    "warmup": "#f4d895",
    "idle": "#d5d9de",
    "drain": "#bcc3ca",
    "term": "#d0632f",
}
LINES = {
    "waiting": "#e0a030",
    "holding slots": "#2f6fbf",
    "running": "#2f9e5b",
    "started": "#2f6fbf",
    "ended": "#2f9e5b",
    "in calls": "#9a6cc4",
    "calls": "#9a6cc4",
}


class View:
    """All numbers of the pictures.

    Attributes:
        edges: of the bins, in seconds since the session's first record.
        uses: mean cores of each use in each bin.
        totals: core-seconds of each use, over all pilots; provided: all of them.
        wrong: what does not add up; nothing does not.
    """

    def __init__(self, story: Story, bins: int = BINS) -> None:
        self.story = story
        self.usages = usage.usage_of(story)
        edges = usage.edges_of(story.began, story.ended, bins)
        self.edges = [edge - story.began for edge in edges]
        self.uses = usage.binned(self.usages, edges)
        self.totals = usage.totals_of(one for each in self.usages for one in each.stretches)
        self.provided = sum(each.provided for each in self.usages)
        self.cores = sum(each.cores for each in self.usages)
        self.concurrency = curves.concurrency(story, edges)
        self.rates = curves.rates(story, edges, _RATE_BINS)
        self.durations = curves.durations(story)
        self.counts = Counter(task.state for task in story.tasks.values())
        self.wrong = [text for each in self.usages for text in usage.check(each)]

    @property
    def share(self) -> float:
        """What part of the core-seconds programs have used."""
        return self.totals.get("exec_cmd", 0.0) / self.provided if self.provided else 0.0

    @property
    def in_calls(self) -> float:
        """Core-seconds of workers of executors that were in calls: a part of ``exec_cmd``."""
        tasks = self.story.tasks
        return sum(
            (call.ended - call.began) * tasks[call.worker].cores
            for call in self.story.calls
            if call.worker in tasks
        )

    def failed(self) -> list[tuple[str, str, str]]:
        """Tasks that have failed: uid, reason, the last line of their standard error."""
        return [
            (task.uid, task.reason, (task.stderr.strip().splitlines() or [""])[-1])
            for task in self.story.tasks.values()
            if task.state == states.FAILED
        ]

    def as_dict(self) -> dict[str, object]:
        """The sums, for programs."""
        return {
            "session": self.story.uid,
            "seconds": self.edges[-1],
            "cores": self.cores,
            "core_seconds": {"provided": self.provided, **self.totals},
            "utilisation": self.share,
            "tasks": dict(self.counts),
            "calls": {"done": len(self.story.calls), "core_seconds": self.in_calls},
            "pilots": [
                {"uid": each.pilot, "cores": each.cores, "core_seconds": each.totals()}
                for each in self.usages
            ],
            "durations": {
                one.state: dict(zip(map(str, curves.QUANTILES), one.quantiles, strict=True))
                for one in self.durations
            },
            "wrong": self.wrong,
        }
