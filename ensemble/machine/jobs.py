"""The jobs that the launcher has to do with, each until its end is known. Pure.

A job that is not wanted any more is *doomed*: it is cancelled as soon as its id is known, and
again where it does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from ensemble.machine.job import Job, JobState

MISSING_COUNT = 3  # answers in a row without a job, after which it is lost
MISSING_S = 10.0  # and for so long
CANCELLED_AGAIN_S = 30.0  # a job that lives so long after its cancellation is cancelled again


class Stage(Enum):
    """How far the launcher is with a job."""

    SUBMITTING = "submitting"  # the scheduler has been asked
    DELAYED = "delayed"  # it has refused, and is asked again
    UNSURE = "unsure"  # it may have the job: its id is looked for by its name
    SUBMITTED = "submitted"  # it has the job
    CANCELLING = "cancelling"  # it has been asked to cancel it
    CANCELLED = "cancelled"  # it will


class Entry:
    """One job.

    Attributes:
        state: by the scheduler's last word; None: it has said nothing.
        is_doomed: nobody wants it any more.
        again_at: when to ask again, in the stages DELAYED, UNSURE, CANCELLED and SUBMITTED.
    """

    def __init__(self, job: Job, stage: Stage) -> None:
        self.job = job
        self.stage = stage
        self.state: JobState | None = None
        self.is_doomed = False
        self.is_asked = False  # by Find, which has not been answered
        self.attempts = 0
        self.again_at = 0.0
        self.missing_count = 0
        self.missing_since = 0.0

    @property
    def has_ended(self) -> bool:
        """The scheduler has said so, or knows it no more."""
        return self.state is not None and self.state.is_final

    def is_lost(self, now: float) -> bool:
        """Note that the scheduler does not know it; has it been unknown for too long?"""
        self.missing_count += 1
        if self.missing_count == 1:
            self.missing_since = now
        if self.is_doomed:
            return self.missing_count > 1
        return self.missing_count >= MISSING_COUNT and now - self.missing_since >= MISSING_S


class Jobs:
    """All of them, by uid."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._counted: set[int] = set()  # against the limit
        self._restless: dict[int, None] = {}  # something is to be done about them
        self._in_flight: set[int] = set()  # in the stage SUBMITTING

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def counted(self) -> int:
        """Clients that are wanted."""
        return len(self._counted)

    def get(self, uid: int) -> Entry | None:
        """The job of this number; None: it is over, or never was."""
        return self._entries.get(uid)

    def add(self, job: Job, stage: Stage) -> Entry:
        """Take a job."""
        entry = self._entries[job.uid] = Entry(job, stage)
        if not job.is_server:
            self._counted.add(job.uid)
        if stage is Stage.UNSURE:
            self._restless[job.uid] = None
        if stage is Stage.SUBMITTING:
            self._in_flight.add(job.uid)
        return entry

    def doom(self, entry: Entry) -> bool:
        """Nobody wants it any more; False: no scheduler has it, so it is over."""
        entry.is_doomed = True
        self._counted.discard(entry.job.uid)
        self._restless[entry.job.uid] = None
        return entry.stage is not Stage.DELAYED

    def enter(self, entry: Entry, stage: Stage, again_at: float = 0.0) -> None:
        """A job is in another stage.

        Args:
            again_at: when to ask again; 0: at once, if there is something to ask.
        """
        entry.stage, entry.again_at = stage, again_at
        if stage is Stage.SUBMITTING:
            self._in_flight.add(entry.job.uid)
        else:
            self._in_flight.discard(entry.job.uid)
        if stage in (Stage.DELAYED, Stage.UNSURE) or entry.is_doomed:
            self._restless[entry.job.uid] = None

    def remove(self, entry: Entry) -> None:
        """It is over."""
        del self._entries[entry.job.uid]
        self._counted.discard(entry.job.uid)
        self._restless.pop(entry.job.uid, None)
        self._in_flight.discard(entry.job.uid)

    @property
    def in_flight(self) -> int:
        """Submissions that have not been answered."""
        return len(self._in_flight)

    def known(self) -> tuple[Job, ...]:
        """Those whose ids are known: the scheduler can be asked how they are."""
        return tuple(entry.job for entry in self if entry.job.job_id)

    def due(self, now: float) -> tuple[list[Entry], list[Entry], list[Entry]]:
        """What is to be done now: jobs to submit again, to find, and to cancel."""
        again, find, cancel = [], [], []
        for uid in list(self._restless):
            entry = self._entries[uid]
            if entry.again_at > now:
                continue
            match entry.stage:
                case Stage.DELAYED:
                    again.append(entry)
                    del self._restless[uid]
                case Stage.UNSURE if not entry.is_asked:
                    find.append(entry)
                case Stage.SUBMITTED | Stage.CANCELLED if entry.is_doomed:
                    cancel.append(entry)
                case Stage.SUBMITTED:
                    del self._restless[uid]
        return again, find, cancel

    def of(self, uids: Iterable[int]) -> list[Entry]:
        """Those of these that are not over."""
        return [entry for uid in uids if (entry := self._entries.get(uid)) is not None]
