"""FORMING: the nodes of a subtree join the job, and say which objects they lack.

A node passes the load message on before it looks at its own store. When its children and
the store have answered, it sends one vote for its subtree. The vote is the only barrier
before data is sent.
"""

from __future__ import annotations

from msgspec.structs import replace

from native.machine import Action, Send
from native.wire import alloc, load
from pct.events import CheckObjects, ObjectsChecked, TellBebopd
from pct.job.failures import Failures
from pct.job.loading import Loading
from pct.job.progress import JobState, Progress
from pct.job.rules.objects import ObjectTable, no_room
from pct.job.starting import Starting
from pct.tree.collective import SELF
from pct.tree.group import Group


class Forming:
    """Gathers the votes of a subtree."""

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        group: Group,
        progress: Progress,
        failures: Failures,
        objects: ObjectTable,
        starting: Starting,
        loading: Loading,
    ) -> None:
        self._message = message
        self._job_id = message.job_id
        self._here = message.nodes[message.place]
        self._credential = credential
        self._group = group
        self._progress = progress
        self._failures = failures
        self._objects = objects
        self._starting = starting
        self._loading = loading

    def begin(self) -> list[Action]:
        """Pass the load message on, and ask the store for the objects."""
        actions: list[Action] = [
            Send(child, replace(self._message, place=place))
            for child, place in self._group.children.items()
        ]
        objects, has_arguments = self._message.objects, self._message.arguments is None
        owner = (self._credential.uid, self._credential.gid, self._credential.groups)
        unused = tuple(sorted(self._objects.unused))
        actions.append(CheckObjects(self._job_id, objects, has_arguments, *owner, unused))
        return actions

    def checked(self, event: ObjectsChecked, now: float) -> list[Action]:
        """The store has answered: vote, and start ranks if all objects are here."""
        self._objects.checked(event.present, event.lacking, event.no_place)
        self._progress.note("joined", now)
        if self._objects.is_complete:
            self._progress.note("loaded", now)
        if self._loading.carries_arguments(0) and (reason := self._objects.no_place.get(0)):
            return self._failures.report(load.FailureKind.OBJECT, f"the arguments: {reason}")
        here = self._here
        rooms = (
            load.NoRoom(each.number, here.node, here.name, each.text) for each in event.no_place
        )
        lacking, slowest = tuple(sorted(self._objects.lacking)), self._progress.slowest(now)
        vote = load.Vote(self._job_id, 1, lacking, no_room(rooms), slowest)
        self._progress.votes.give(SELF, vote)
        return self._starting.start(now)

    def vote(self, place: int, message: load.Vote, now: float) -> list[Action]:
        """A child's subtree has joined."""
        self._progress.came(place)
        if self._progress.times is not None:
            self._progress.times.vote_came(place, now)
        self._progress.votes.give(place, message)
        return []

    def all_voted(self, now: float) -> list[Action] | None:
        """End FORMING: send children what they lack, expect what is lacking here, vote.

        Returns:
            None: votes are missing.
        """
        if not self._progress.votes.is_complete:
            return None
        votes = self._progress.votes.given
        actions: list[Action] = []
        for number in range(self._objects.count):
            lackers = tuple(
                child
                for child, place in self._group.children.items()
                if place in votes and number in votes[place].lacking
            )
            actions += self._loading.supply(number, lackers)
        for place, vote in votes.items():
            if not vote.lacking and not vote.no_room and place != SELF:
                self._progress.loaded.give(place, vote.slowest)  # this vote counts as Loaded
        self._progress.enter(JobState.LOADING, now)
        merged = load.Vote(
            self._job_id,
            sum(vote.count for vote in votes.values()),
            tuple(sorted(self._objects.lacking)),
            no_room(room for vote in votes.values() for room in vote.no_room),
            max((vote.slowest for vote in votes.values()), key=lambda slow: slow.seconds),
        )
        if self._group.is_root:
            actions.append(TellBebopd(alloc.Hosting(self._job_id)))
        self._loading.give_own(now)
        if self._progress.times is not None:
            self._progress.times.voted(self._group.parent, now)
        return [*actions, *self._group.up(merged)]
