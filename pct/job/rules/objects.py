"""The objects of one job on one node: here, on their way, or without a place."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec.structs import replace

from native.wire.base import SIZE_MAX
from native.wire.load import Arguments, NoRoom, StartWorld
from pct.events import NoPlace

ROOMS_BYTES = 128 * 1024  # of names and texts in one vote


class ObjectTable:
    """The state of each object that this node, or a node below it, needs.

    Invariant: such an object is in exactly one of ``paths``, ``lacking`` and
    ``no_place``, once the store has answered.

    Attributes:
        arguments: of the job; None: they are in object 0, which has not been read yet.
        paths: number -> path to execute, of objects that are complete here.
        lacking: numbers of objects that are awaited, with room reserved.
        no_place: number -> why the store cannot take it.

    An object that is received is published when it has arrived and has been passed on. The
    transport has the file open for writing until the children have all of it, and a file
    that is open for writing cannot be executed.
    """

    def __init__(
        self,
        count: int,
        unused: frozenset[int] = frozenset(),
        arguments: Arguments | None = None,
    ) -> None:
        self.count = count
        self.arguments = arguments
        self.unused = unused
        self.paths: dict[int, bytes] = {}
        self.lacking: set[int] = set()
        self.no_place: dict[int, str] = {}
        self._steps_left: dict[int, set[_Step]] = {}  # of objects that are being received

    def checked(
        self,
        present: tuple[tuple[int, bytes], ...],
        lacking: tuple[int, ...],
        no_place: tuple[NoPlace, ...],
    ) -> None:
        """The store's answer."""
        self.paths.update(present)
        self.lacking.update(lacking)
        self.no_place.update((each.number, each.text) for each in no_place)
        self.check()

    def expect(self, number: int, has_children: bool) -> None:
        """An object will be received, and passed on if there are children that lack it."""
        steps = (_Step.ARRIVE, _Step.PASS_ON) if has_children else (_Step.ARRIVE,)
        self._steps_left[number] = set(steps)

    def arrived(self, number: int) -> bool:
        """An object has arrived completely and undamaged.

        Returns:
            Whether it can be published now.
        """
        return self._step(number, _Step.ARRIVE)

    def passed_on(self, number: int) -> bool:
        """The children have all of an object. Returns the same."""
        return self._step(number, _Step.PASS_ON)

    def _step(self, number: int, step: _Step) -> bool:
        left = self._steps_left.get(number)
        if left is None:  # not expected any more
            return False
        left.discard(step)
        if left:
            return False
        del self._steps_left[number]
        return True

    def stored(self, number: int, path: bytes) -> None:
        """An object can be used."""
        self._steps_left.pop(number, None)
        self.lacking.discard(number)
        self.no_place.pop(number, None)
        self.paths[number] = path

    @property
    def is_complete(self) -> bool:
        """Every object that is needed is here."""
        return all(number in self.paths or number in self.unused for number in range(self.count))

    def check(self) -> None:
        """Assert the invariant."""
        seen = [*self.paths, *self.lacking, *self.no_place]
        assert len(seen) == len(set(seen)), seen
        assert self._steps_left.keys() <= self.lacking, self._steps_left


class _Step(Enum):
    """What must happen to an object before it can be published."""

    ARRIVE = "arrive"
    PASS_ON = "pass on"


def no_room(rooms: Iterable[NoRoom]) -> tuple[NoRoom, ...]:
    """For a vote: one node without room for each object, of all that have been reported.

    The texts are cut so that they fit one message, however many objects there are.
    """
    first: dict[int, NoRoom] = {}
    for room in rooms:
        first.setdefault(room.object_index, room)
    share = ROOMS_BYTES // max(1, len(first))
    return tuple(
        replace(room, name=_cut(room.name, share // 2), text=_cut(room.text, share // 2))
        for room in first.values()
    )


def _cut(text: str, most_bytes: int) -> str:
    return text.encode()[:most_bytes].decode(errors="ignore")


def misfit(arguments: Arguments, ranks: int, first_image: int, objects: int) -> str:
    """Why the members do not fit the rest of the load message; empty: they do.

    Args:
        ranks: of the job.
        first_image: number of the first object that can be executed.
        objects: number of objects.
    """
    if sum(member.size for member in arguments.members) != ranks:
        return "the members' sizes do not add up to the grant's ranks"
    for member in arguments.members:
        if not first_image <= member.object_index < objects:
            return f"no object {member.object_index} to execute, there are {objects}"
    return ""


def spawn_misfit(spawn: StartWorld, places: int) -> str:
    """Why the message of a spawned world contradicts itself; empty: it does not.

    Args:
        places: nodes of the job.
    """
    size = sum(run.count for run in spawn.runs)
    if sum(member.size for member in spawn.members) != size:
        return "the members' sizes do not add up to the world's ranks"
    if spawn.first_rank + size > SIZE_MAX:
        return f"more than {SIZE_MAX} ranks"
    if any(run.place >= places for run in spawn.runs):
        return f"a place that is none of the job's {places}"
    if len(spawn.environments) != len(spawn.members):
        return "not one environment for each member"
    if any(member.object_index >= len(spawn.paths) for member in spawn.members):
        return "a program without a path"
    return ""
