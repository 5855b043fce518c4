"""The request for nodes, and what can end it other than a grant."""

from __future__ import annotations

import signal

from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, DeadlineReached, PeerGone, Send
from native.waitstatus import SIGNAL_BASE
from native.wire import alloc, codec
from native.wire.base import CONSTRAINT_MAX, MESSAGE_MAX_BYTES, NO_TERMS, JobEnd, State, Terms
from yod.launch.ending import Ending
from yod.launch.events import OutputClosed, OutputFailed, Tell
from yod.launch.phases import Phase, Progress
from yod.launch.report import NEVER_STARTED, Report
from yod.plan.checkpoint import Occasion
from yod.plan.plan import Plan

ADVICE = "is the partition up (yodctl status)? --partition or YOD_PARTITION chooses one"
PROGRAM_MAX = 4096  # characters of the programs' names that bebopd is told


def queued_text(queued: alloc.Queued) -> str:
    """That a request waits, for the user."""
    if not queued.place:
        return f"waits: {queued.text}; Ctrl-C leaves"
    return f"waits for nodes, place {queued.place} in the line: {queued.text}; Ctrl-C leaves"


def no_answer_text(limits: Limits) -> str:
    """That bebopd has said nothing, behind its name."""
    return f"did not answer in {limits.allocate_s:g} s"


class Allocation:
    """Asks bebopd for nodes.

    Args:
        bebopd_name: its address as the user knows it.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        report: Report,
        ending: Ending,
        bebopd: PortalId,
        bebopd_name: str,
        limits: Limits,
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._report = report
        self._ending = ending
        self._bebopd = bebopd
        self._bebopd_name = bebopd_name
        self._limits = limits
        # A request that does not wait is in the line only while launches that give way end for it.
        end_s = limits.nice_checkpoint_s + limits.nice_kill_s + 2 * limits.end_s
        self._wait_s = plan.wait_s or end_s
        self._awaited = ""  # what the request waits for in bebopd's line
        self._request: alloc.NodeRequest | None = None
        self._asked_at = 0.0

    def begin(self, now: float) -> list[Action]:
        """Ask for nodes."""
        plan = self._plan
        self._progress.enter(Phase.ALLOCATING, now, self._limits.allocate_s)
        programs = " ".join(plan.names)[:PROGRAM_MAX]
        waits = plan.wait_s > 0
        specs = tuple(spec.packed() for spec in plan.specs)
        if (listed := sum(spec.listed for spec in specs)) > alloc.LISTED_MAX:
            return self._too_long(f"lists of {listed} nodes in all, at most {alloc.LISTED_MAX}")
        options = plan.options
        terms = NO_TERMS
        if len(options.constraint) > CONSTRAINT_MAX:
            text = f"--constraint of {len(options.constraint)} characters"
            return self._too_long(f"{text}, with what yod adds; at most {CONSTRAINT_MAX}")
        said = options.constraint, options.exclude, options.gives_way, options.switches[0]
        if any((*said, options.queue, options.account)):
            terms = Terms(
                options.queue,
                options.account,
                constraint=options.constraint,
                gives_way=options.gives_way,
                switches=options.switches[0],
                switches_s=options.switches[1],
                exclude=options.exclude,
                checkpoint_s=self._checkpoint_s(),
            )
        request = alloc.NodeRequest(
            specs,
            programs,
            plan.batch_job,
            waits,
            plan.asker,
            options.overlaps,
            options.is_exclusive,
            plan.after,
            terms,
            plan.time_s,
        )
        if (size := len(codec.encode_part(request))) > MESSAGE_MAX_BYTES:
            return self._too_long(
                f"the lists of nodes have {size} bytes, at most {MESSAGE_MAX_BYTES}"
            )
        self._request, self._asked_at = request, now
        return [Send(self._bebopd, request)]

    def _checkpoint_s(self) -> float:
        """How long it is written down before it gives way; 0: it is not."""
        chosen = self._plan.checkpointing
        return chosen.most_s if chosen is not None and Occasion.PREEMPT in chosen.on else 0.0

    def queued(self, queued: alloc.Queued, now: float) -> list[Action]:
        """bebopd answers when nodes are free, or we stop waiting."""
        if not self._awaited:
            self._progress.wait_silently(self._wait_s)
        self._awaited = queued.text
        return [Tell(queued_text(queued), is_error=False)]

    def gives_way(self, message: alloc.GiveWay, now: float) -> list[Action]:
        """bebopd ends the job, so that another one has its slots: the PCTs send the signals."""
        return [Tell(message.text)]

    def refused(self, refused: alloc.Refused, now: float) -> list[Action]:
        """bebopd gives no nodes; a line of a load file may be why."""
        origins, spec = self._plan.origins, refused.spec
        origin = origins[spec] if 0 <= spec < len(origins) else ""
        text = f"{origin}: {refused.text}" if origin else refused.text
        return [Tell(text), *self._fail(NEVER_STARTED, text)]

    def peer_gone(self, event: PeerGone, now: float) -> list[Action]:
        """bebopd cannot be reached.

        A batch script begins before its broker, which listens and does not answer yet: ask again.
        """
        if event.peer != self._bebopd:
            return []
        was_silent = now - self._asked_at > self._limits.connect_s / 2  # and not refused
        if self._plan.allocation and self._request and was_silent and not self._awaited:
            self._asked_at = now
            return [Send(self._bebopd, self._request)]
        return self._no_answer(event.text)

    def timed_out(self, _: DeadlineReached, now: float) -> list[Action]:
        """bebopd does not answer, or nodes have not become free in time."""
        if self._awaited:
            text = f"no nodes in {self._wait_s:g} s (--wait): {self._awaited}"
            return [Tell(text), *self._fail(NEVER_STARTED, text)]
        return self._no_answer(no_answer_text(self._limits))

    def output_failed(self, event: OutputFailed, now: float) -> list[Action]:
        """yod ends without a line: the output that failed may be standard error."""
        return self._fail(NEVER_STARTED, event.text)

    def output_closed(self, _: OutputClosed, now: float) -> list[Action]:
        """Nobody reads what the application would write."""
        return self._fail(SIGNAL_BASE + signal.SIGPIPE, "")

    def granted_late(self, grant: alloc.Grant, now: float) -> list[Action]:
        """A second grant, in any later phase: give it back."""
        end = JobEnd(State.CANCELLED, 0, 0, "its grant came too late")
        return [Send(self._bebopd, alloc.Release(grant.job_id, end, grant.attempt))]

    def _too_long(self, text: str) -> list[Action]:
        return [Tell(text), *self._fail(NEVER_STARTED, text)]

    def _no_answer(self, text: str) -> list[Action]:
        reason = f"bebopd at {self._bebopd_name} {text}"
        return [Tell(f"{reason}; {ADVICE}"), *self._fail(NEVER_STARTED, reason)]

    def _fail(self, exit_status: int, reason: str) -> list[Action]:
        self._report.fail(exit_status, reason)
        return self._ending.done()
