"""What is shown of a study: its jobs, its clients over time, its servers. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ensemble.machine import job as j
from ensemble.machine.job import Job, JobState
from ensemble.machine.state import Ensemble

ENDED_MAX = 10_000  # jobs that are over and still shown
SAMPLES_MAX = 512  # of the course of a study; when there are more, every second one is kept
SAMPLE_S = 0.02  # between two, at first
STORY_MAX = 100


class View:
    """A study, as its machine and the actions of this tell it.

    Args:
        name: of the study.
        now: unix time.
    """

    def __init__(self, name: str, machine: Ensemble, now: float) -> None:
        self._name = name
        self._machine = machine
        self._began = now
        self._times: dict[int, float] = {}  # when jobs that are not over were submitted
        self._ended: deque[dict[str, Any]] = deque(maxlen=ENDED_MAX)
        self._samples: list[list[float]] = []
        self._every_s = SAMPLE_S
        self._sample_at = 0.0
        self._story: deque[tuple[float, str]] = deque(maxlen=STORY_MAX)

    def take(self, actions: Sequence[j.Action], now: float) -> None:
        """Take what the machine has decided."""
        for action in actions:
            match action:
                case j.Submit(job):
                    self._times.setdefault(job.uid, now)
                case j.Forget(job, state):
                    began = self._times.pop(job.uid, now)
                    self._ended.append({**_row(job, state.name, began), "ended": round(now, 3)})
                case j.Log(text, is_detail):
                    if not is_detail:
                        self._story.append((round(now, 3), text))
        self._sample(now)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that are known, those that are not over last."""
        return [*self._ended, *self._live()]

    def job(self, uid: int) -> dict[str, Any] | None:
        """One job; None: it is not known, or was forgotten long ago."""
        return next((row for row in self.jobs() if row["uid"] == uid), None)

    def counts(self) -> dict[str, int]:
        """Clients by what they do now, or how they have ended."""
        machine = self._machine
        running = sum(e.state is JobState.RUNNING for e in machine.jobs if not e.job.is_server)
        total = sum(not entry.job.is_server for entry in machine.jobs)
        return {
            "asked": machine.waiting,
            "waiting": total - running,
            "running": running,
            "terminated": machine.counts[JobState.TERMINATED],
            "failed": machine.counts[JobState.FAILED] + machine.counts[JobState.ERROR],
        }

    def summary(self, now: float) -> dict[str, Any]:
        """What the page shows."""
        machine = self._machine
        server = machine.server
        self._sample_at = 0.0  # the last change may be news
        self._sample(now)
        return {
            "name": self._name,
            "at": round(now, 3),
            "began": round(self._began, 3),
            "phase": machine.phase.value,
            "epoch": machine.epoch,
            "restarts": machine.restart_count,
            "server": {
                "job": server.job.job_id if server is not None else "",
                "state": server.state.name if server is not None and server.state else "",
                "connected": machine.connection >= 0,
            },
            "counts": self.counts(),
            "samples": self._samples,
            "story": list(self._story)[-20:],
            "jobs": [*list(self._ended)[-50:], *self._live()[:200]],
        }

    def metrics(self) -> str:
        """OpenMetrics text."""
        machine = self._machine
        counts = self.counts()
        lines = [
            "# TYPE yod_ensemble_clients gauge",
            "# HELP yod_ensemble_clients clients that were asked for, wait or run",
            *(f'yod_ensemble_clients{{state="{name}"}} {counts[name]}'
              for name in ("asked", "waiting", "running")),
            "# TYPE yod_ensemble_ended counter",
            "# HELP yod_ensemble_ended clients that have ended",
            *(f'yod_ensemble_ended_total{{state="{state.name.lower()}"}} {number}'
              for state, number in machine.counts.items() if state.is_final),
            "# TYPE yod_ensemble_server_connected gauge",
            "# HELP yod_ensemble_server_connected 1 while a server is connected",
            f"yod_ensemble_server_connected {int(machine.connection >= 0)}",
            "# TYPE yod_ensemble_epoch gauge",
            "# HELP yod_ensemble_epoch the number of the present server",
            f"yod_ensemble_epoch {machine.epoch}",
            "# TYPE yod_ensemble_restarts counter",
            "# HELP yod_ensemble_restarts servers that were replaced by this launcher",
            f"yod_ensemble_restarts_total {machine.restart_count}",
            "# EOF",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _live(self) -> list[dict[str, Any]]:
        return [
            {
                **_row(
                    entry.job,
                    entry.state.name if entry.state is not None else "SUBMITTING",
                    self._times.get(entry.job.uid, self._began),
                ),
                "cancelled": entry.is_doomed,
            }
            for entry in self._machine.jobs
        ]

    def _sample(self, now: float) -> None:
        """Note the counts, where enough time has passed since they were counted."""
        if now < self._sample_at:
            return
        self._sample_at = now + self._every_s
        samples = self._samples
        counts = self.counts()
        row = [counts[name] for name in ("waiting", "running", "terminated", "failed")]
        if samples and samples[-1][1:] == [*row, self._machine.epoch]:
            return
        samples.append([round(now - self._began, 2), *row, self._machine.epoch])
        if len(samples) > SAMPLES_MAX:
            self._samples = samples[::2]
            self._every_s = max(0.1, 2 * self._every_s)


def _row(job: Job, state: str, submitted: float) -> dict[str, Any]:
    return {
        "uid": job.uid,
        "id": job.job_id,
        "name": job.name,
        "kind": "server" if job.is_server else "client",
        "client": None if job.is_server else job.client,
        "epoch": job.epoch,
        "state": state,
        "submitted": round(submitted, 3),
    }
