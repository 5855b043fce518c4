"""LOADING: every node of a subtree gets the objects that it lacks.

Objects are sent down the tree, each to the nodes that need it and to those on the way. For
an object that some node has no room for, yod may name a path on a shared file system.
"""

from __future__ import annotations

from native.errors import PeerProtocolError
from native.ids import PortalId
from native.machine import Action, Log
from native.wire import codec, load
from pct.events import (
    DropObject,
    ObjectArrived,
    ObjectLost,
    ObjectPassedOn,
    ObjectStored,
    PublishObject,
    ReadObject,
    ReceiveObject,
    SendObject,
)
from pct.job.failures import Failures
from pct.job.progress import JobState, Progress
from pct.job.rules.objects import ObjectTable, misfit
from pct.job.starting import Starting
from pct.job.wiring import Wiring
from pct.tree.collective import SELF
from pct.tree.group import Group


class Loading:
    """Gets the objects of a job to one node, and from there to its children."""

    def __init__(
        self,
        message: load.Load,
        group: Group,
        progress: Progress,
        failures: Failures,
        objects: ObjectTable,
        wiring: Wiring,
        starting: Starting,
    ) -> None:
        self._message = message
        self._job_id = message.job_id
        self._group = group
        self._progress = progress
        self._failures = failures
        self._objects = objects
        self._wiring = wiring
        self._starting = starting

    def carries_arguments(self, number: int) -> bool:
        """Is this the object that holds the arguments, which the load message lacks?"""
        return number == 0 and self._message.arguments is None

    # -- one object -------------------------------------------------------

    def supply(self, number: int, lackers: tuple[PortalId, ...]) -> list[Action]:
        """Receive an object that this node lacks; send it to the children that lack it."""
        shipped, chunk = self._message.objects[number], self._message.chunk_bytes
        if number in self._objects.lacking:
            self._objects.expect(number, has_children=bool(lackers))
            return [ReceiveObject(self._job_id, number, shipped, chunk, lackers)]
        if number in self._objects.paths and lackers:
            path = self._objects.paths[number]
            return [SendObject(self._job_id, number, shipped, path, chunk, lackers)]
        return []

    def arrived(self, event: ObjectArrived, now: float) -> list[Action]:
        """All bytes of an object have arrived."""
        if not self._is_undamaged(event.number, event.digest):
            return self._failures.report(load.FailureKind.OBJECT, "it arrived damaged")
        return self._publish(event.number) if self._objects.arrived(event.number) else []

    def _is_undamaged(self, number: int, digest: bytes) -> bool:
        return digest == self._message.objects[number].digest

    def passed_on(self, event: ObjectPassedOn, now: float) -> list[Action]:
        """The children that lacked an object have all of it."""
        return self._publish(event.number) if self._objects.passed_on(event.number) else []

    def _publish(self, number: int) -> list[Action]:
        if self.carries_arguments(number):
            return [ReadObject(self._job_id, number)]
        return [PublishObject(self._job_id, number, self._message.objects[number].mode)]

    def stored(self, event: ObjectStored, now: float) -> list[Action]:
        """An object has its name, or has been read."""
        self._objects.stored(event.number, event.path)
        if event.number == 0 and self._objects.arguments is None:
            try:
                self._objects.arguments = self._decoded(event.content)
            except PeerProtocolError as error:
                return self._failures.report(load.FailureKind.OBJECT, str(error))
        self._progress.extend(now)
        self.give_own(now)
        return [*self._wiring.begin(), *self._starting.start(now)]

    def _decoded(self, content: bytes) -> load.Arguments:
        """The arguments from their object.

        Raises:
            PeerProtocolError: it is damaged, or does not fit this load message.
        """
        arguments = codec.decode_arguments(content)
        ranks = self._message.runs.size
        if text := misfit(arguments, ranks, 1, self._objects.count):
            raise PeerProtocolError(text)
        return arguments

    def lost(self, event: ObjectLost, now: float) -> list[Action]:
        """An object cannot be received, sent or published here."""
        if event.is_consequence:
            return [Log(f"object {event.number}: {event.text}", self._job_id)]
        return self._failures.report(load.FailureKind.OBJECT, event.text)

    def use_shared(self, message: load.UseShared, now: float) -> list[Action]:
        """An object will not be sent: every node executes it at this path."""
        actions = self._group.down(message)
        number = message.object_index
        is_known = number < self._objects.count and not self.carries_arguments(number)
        if number in self._objects.paths or not is_known:
            return actions
        if number in self._objects.lacking:
            actions.append(DropObject(self._job_id, number))
        self._objects.stored(number, message.path)
        self.give_own(now)
        return [*actions, *self._starting.start(now)]

    # -- all of them ------------------------------------------------------

    def give_own(self, now: float) -> None:
        """Contribute this node's Loaded, if it has voted and all its objects are here."""
        if not self._objects.is_complete:
            return
        self._progress.note("loaded", now)
        if self._progress.state is not JobState.FORMING:
            self._progress.loaded.give(SELF, self._progress.slowest(now))

    def loaded(self, place: int, message: load.Loaded, now: float) -> list[Action]:
        """Every node of a child's subtree has its objects."""
        self._progress.came(place)
        self._progress.loaded.give(place, message.slowest)
        return []

    def all_loaded(self, now: float) -> list[Action] | None:
        """End LOADING: send Loaded, unless the vote has counted as such.

        Returns:
            None: objects are missing in the subtree.
        """
        if not self._progress.loaded.is_complete:
            return None
        self._progress.enter(JobState.STARTING, now)
        votes = self._progress.votes.given
        if not votes[SELF].lacking and not any(vote.no_room for vote in votes.values()):
            return []
        slowest = max(self._progress.loaded.given.values(), key=lambda slow: slow.seconds)
        return self._group.up(load.Loaded(self._job_id, slowest))

    def wait(self) -> str:
        """What this node waits for; empty: it has its objects."""
        if self._objects.is_complete:
            return ""
        is_forming = self._progress.state is JobState.FORMING
        return "looks for the files" if is_forming else "files are on their way"
