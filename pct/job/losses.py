"""Lost nodes: what their children and their parent do.

A node that has lost its parent asks its nearest living ancestor to adopt it. If none is
left, it ends the job on itself and below. A node that has lost a child reports this and
expects that child's children to ask for adoption.
"""

from __future__ import annotations

from native.machine import Action, MessageReceived, PeerGone, Send
from native.wire import group as wire
from native.wire import load
from pct.job.ends import Ends
from pct.job.failures import Failures
from pct.job.keepers import Keepers
from pct.job.output import Output
from pct.job.progress import JobState, Progress
from pct.job.release import Release
from pct.job.saving import Saving
from pct.tree.collective import SELF
from pct.tree.group import Group


class Losses:
    """Keeps a node of a job in its tree, or ends the job there."""

    def __init__(
        self,
        message: load.Load,
        group: Group,
        progress: Progress,
        failures: Failures,
        keepers: Keepers,
        ends: Ends,
        output: Output,
        release: Release,
        saving: Saving,
    ) -> None:
        self._job_id = message.job_id
        self._group = group
        self._progress = progress
        self._failures = failures
        self._keepers = keepers
        self._ends = ends
        self._output = output
        self._release = release
        self._saving = saving

    def peer_gone(self, event: PeerGone, now: float) -> list[Action]:
        """A peer is out of reach. It may have nothing to do with this job."""
        actions = self._saving.peer_gone(event)
        if event.peer in (self._group.parent, self._group.adopter):
            return [*actions, *self._parent_lost(now)]
        if event.peer in self._group.children:
            place = self._group.children[event.peer]
            return [*actions, *self._child_lost(place, event.text, now)]
        return actions

    # -- above ------------------------------------------------------------

    def _parent_lost(self, now: float) -> list[Action]:
        """Ask the next ancestor; if there is none, end the job here."""
        adopter = self._group.lose_parent(now)
        if adopter is None:
            return [*self._saving.cut_off(), *self._release.end_alone(now)]
        self._output.hold()
        return [Send(adopter, wire.Orphan(self._job_id, self._group.place))]

    def adopted(self, message: wire.Adopted, now: float) -> list[Action]:
        """The ancestor that was asked has become the parent."""
        self._group.be_adopted()
        return [*self._ends.repeat(), *self._output.go_on()]

    def reset(self, event: MessageReceived, now: float) -> list[Action]:
        """yod ends the job on this node directly: wait for no node below.

        The former parent is told of the end as well.
        """
        actions: list[Action] = []
        if self._group.parent != event.source:  # yod may have missed completions
            actions += [Send(event.source, message) for message in self._ends.told()]
        self._group.be_reset(event.source)
        self._saving.reset_by(event.source)
        actions += self._release.end_alone(now)
        self._progress.released.awaited &= {SELF}
        return actions

    # -- below ------------------------------------------------------------

    def _child_lost(self, place: int, text: str, now: float) -> list[Action]:
        """Report it, and expect its children to ask for adoption."""
        heirs = self._group.lose_child(place)
        actions = self._output.child_gone(place)
        released = self._progress.released
        is_ending = self._progress.state is JobState.ENDING
        if not is_ending or place in released.awaited:
            actions += self._failures.report_lost(place, text)
        if place not in released.awaited:
            return actions
        released.drop(place, heirs)
        for heir in heirs:
            if heir in released.awaited:
                peer = self._group.inherit(heir, now)
                if is_ending:  # it answers Released even if the job never reached it
                    actions += self._saving.rescue_with(peer)
                    actions.append(Send(peer, load.AllDone(self._job_id)))
        return actions

    def adopt(self, event: MessageReceived, now: float) -> list[Action]:
        """A node that has lost its parent asks this one to adopt it.

        Raises:
            PeerProtocolError: it is not below this node.
        """
        assert isinstance(event.message, wire.Orphan)
        source, place = event.source, event.message.place
        self._group.adopt(source, place)
        self._progress.released.awaited.add(place)
        actions: list[Action] = [Send(source, wire.Adopted(self._job_id))]
        if signal_number := self._keepers.last_signal:
            actions.append(Send(source, load.Signal(self._job_id, signal_number)))
        actions += self._saving.rescue_with(source)
        if self._progress.state is JobState.ENDING:
            actions.append(Send(source, load.AllDone(self._job_id)))
        return actions

    # -- time -------------------------------------------------------------

    def deadline(self) -> float | None:
        """The time until which an ancestor or a lost child's children may answer, or None."""
        return self._group.deadline()

    def due(self, now: float) -> list[Action]:
        """End here if no ancestor has answered; give up nodes that have not asked in time.

        bebopd and yod see to nodes that have been given up.
        """
        actions: list[Action] = []
        if self._group.is_abandoned(now):
            actions = [*self._saving.cut_off(), *self._release.end_alone(now)]
        for place in self._group.take_missing(now):
            self._progress.released.drop(place)
        return actions
