"""Failures that nodes report, nodes that are lost, and output that cannot be written."""

from __future__ import annotations

import signal

from native.ids import PortalId
from native.machine import Action, PeerGone
from native.waitstatus import SIGNAL_BASE
from native.wire.base import clipped
from native.wire.load import Failure, FailureKind
from yod.launch.checkpoints import Checkpoints
from yod.launch.ending import Ending
from yod.launch.events import OutputClosed, OutputFailed, Tell
from yod.launch.phases import Phase, Progress
from yod.launch.report import NEVER_STARTED, Report
from yod.launch.signals import Interrupts, Press
from yod.launch.tree import Tree


class Failures:
    """Ends the job for the first failure; at the end, says what a failure leaves unknown.

    Attributes:
        before_go: that failure, if it came before the ranks were let go; None: none did.
    """

    def __init__(
        self,
        progress: Progress,
        tree: Tree,
        report: Report,
        interrupts: Interrupts,
        ending: Ending,
        bebopd: PortalId,
        outlives_nodes: bool,
        checkpoints: Checkpoints,
    ) -> None:
        self._progress = progress
        self._tree = tree
        self._report = report
        self._interrupts = interrupts
        self._ending = ending
        self._bebopd = bebopd
        self._outlives_nodes = outlives_nodes
        self._checkpoints = checkpoints
        self.before_go: Failure | None = None

    # -- FORMING to RUNNING -----------------------------------------------

    def failed(self, failure: Failure, now: float) -> list[Action]:
        """A node cannot go on."""
        if self._outlives_nodes and failure.kind is FailureKind.NODE_LOST:
            return self._outlive(failure, now)
        told = Tell(self._blame(failure))
        if failure.kind is FailureKind.REFUSED and failure.node == self._tree.nodes[0].node:
            self._tree.lose(self._tree.root)  # it hosts nothing of ours
            return [told, *self._ending.release(now)]
        is_lost = failure.kind is FailureKind.NODE_LOST
        rescued = self._checkpoints.node_lost(failure.node) if is_lost else []
        return [told, *rescued, *self._ending.all_done(now)]

    def _outlive(self, failure: Failure, now: float) -> list[Action]:
        """The tree has closed up around the node; only the last one ends the job."""
        if self._progress.phase is not Phase.RUNNING:
            return [Tell(self._blame(failure)), *self._ending.all_done(now)]
        for peer in [peer for peer, node in self._tree.unconfirmed.items() if node == failure.node]:
            self._tree.lose(peer)
        self._report.outlive(failure.node)
        told = Tell(f"node {failure.node} ({failure.name}) was lost: it {failure.text}")
        return [told, *(self._ending.all_done(now) if self._report.is_complete else [])]

    def peer_gone(self, event: PeerGone, now: float) -> list[Action]:
        """The loss of the root ends the job. Of others the root will tell."""
        is_root = event.peer == self._tree.root
        if not is_root:
            self._lose(event.peer)
            return []
        told: list[Action] = [Tell(self._blame(self._lost_root(event.text)))]
        told += self._checkpoints.node_lost(self._tree.nodes[0].node)
        self._lose(event.peer)
        return [*told, *self._ending.reset(now)]

    def output_failed(self, event: OutputFailed, now: float) -> list[Action]:
        """Output cannot be written; the text says why."""
        if self._interrupts.press is not Press.NONE:
            return []  # a closed terminal: the ranks have the time that a signal gives
        self._report.end_because("output could not be written")
        return self._ending.give_up(event.text, now)

    def output_closed(self, _: OutputClosed, now: float) -> list[Action]:
        """A reader that closes its pipe, as ``head`` does, has all it wants: no error."""
        if self._interrupts.press is not Press.NONE:
            return []
        self._report.end_because("nobody reads their output")
        self._report.fail(SIGNAL_BASE + signal.SIGPIPE, "")
        return self._ending.all_done(now)

    def _blame(self, failure: Failure) -> str:
        has_gone = self._progress.phase is Phase.RUNNING
        if not (has_gone or self._report.reason):
            self.before_go = failure
        self._report.end_because(_clause(failure) if has_gone else "the launch failed")
        return self._report.blame(failure, has_gone)

    def _lost_root(self, text: str) -> Failure:
        root, phase = self._tree.nodes[0], self._progress.phase.value
        kind = FailureKind.NODE_LOST
        said = clipped(text)
        return Failure(self._tree.job_id, kind, phase, root.node, root.name, -1, said)

    # -- ENDING -----------------------------------------------------------

    def failed_at_the_end(self, failure: Failure, now: float) -> list[Action]:
        """The job ends already; what the node has not sent is missing."""
        where = f"node {failure.node} ({failure.name})"
        match failure.kind:
            case FailureKind.NODE_LOST:
                self._report.lose(failure.node)
                return self._lost_at_the_end(where)
            case FailureKind.KEEPER_LOST:
                return self._missing(f"{where}: {failure.text}", "completions")
            case FailureKind.FAULT:  # which may have been at what its ranks have written
                self._miss_output()
                return self._missing(f"{where}: {failure.text}", "output and completions")
        return []

    def output_failed_at_the_end(self, event: OutputFailed, now: float) -> list[Action]:
        """Output of ranks that have ended cannot be written."""
        if self._interrupts.press is not Press.NONE:
            return []
        return self._fail_at_the_end(NEVER_STARTED, event.text)

    def output_closed_at_the_end(self, _: OutputClosed, now: float) -> list[Action]:
        """The reader does not want what ranks have written that have ended."""
        if self._interrupts.press is not Press.NONE:
            return []
        return self._fail_at_the_end(SIGNAL_BASE + signal.SIGPIPE, "")

    def _fail_at_the_end(self, exit_status: int, text: str) -> list[Action]:
        self._report.fail(exit_status, text)
        if self._report.exit_status is not None:  # it was decided without this failure
            self._report.close()
        return [Tell(text)] if text else []

    def _lost_at_the_end(self, where: str) -> list[Action]:
        if not self._outlives_nodes:
            self._miss_output()
        return self._missing(f"{where} was lost", "output")

    def _miss_output(self) -> None:
        """A launch whose output may be incomplete has failed."""
        if self._interrupts.press is Press.NONE:
            self._fail_at_the_end(NEVER_STARTED, "")

    def peer_gone_at_the_end(self, event: PeerGone, now: float) -> list[Action]:
        """Without the root, the other PCTs are reset."""
        is_root = event.peer == self._tree.root
        self._lose(event.peer)
        if not is_root:
            return []
        root = self._tree.nodes[0]
        told = self._lost_at_the_end(f"node {root.node} ({root.name})")
        return [*told, *self._ending.reset(now)]

    def _missing(self, what: str, missing: str) -> list[Action]:
        text = f"{what} at the end: its last {missing} may be missing"
        if text in self._report.notes:  # a node may fail at the end, and fail at giving up
            return []
        self._report.note(text)
        return [] if self._report.reason else [Tell(text)]

    # -- RESETTING, RELEASING ---------------------------------------------

    def peer_gone_in_reset(self, event: PeerGone, now: float) -> list[Action]:
        """A PCT that is lost need not confirm its reset."""
        return self._ending.after_reset(now) if self._lose(event.peer) else []

    def peer_gone_in_release(self, event: PeerGone, now: float) -> list[Action]:
        """The loss of bebopd ends the launch: nobody else confirms that the slots are free."""
        if event.peer == self._bebopd:
            self._report.note("bebopd was lost before it confirmed that the nodes are free")
            return self._ending.done()
        self._lose(event.peer)
        return []

    def _lose(self, peer: PortalId) -> bool:
        """Whether a PCT was lost that had not confirmed the end."""
        node = self._tree.lose(peer)
        if node is not None:
            self._report.lose(node)
        return node is not None


def _clause(failure: Failure) -> str:
    """For what a running job is ended that has failed so; see Report.end_because."""
    match failure.kind:
        case FailureKind.NODE_LOST:
            return f"node {failure.node} ({failure.name}) was lost"
        case FailureKind.ABORTED:
            return f"rank {failure.rank} called abort"
    return f"node {failure.node} ({failure.name}) failed"
