"""Who may be given a node, and who asks. Pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from native.wire.base import NODE_MAX
from native.wire.status import Portion

ANYBODY = -1  # for a uid


class Access(Struct, frozen=True):
    """Whose jobs may be given a node.

    Attributes:
        uid: this user's; ``ANYBODY``: those of all users.
        portion: jobs of this kind.
    """

    uid: int = ANYBODY
    portion: Portion = Portion.ANY


OPEN = Access()
NOWHERE = frozenset((NODE_MAX + 1,))  # where there is no node


class Least(Struct, frozen=True):
    """At least so many of a job's nodes are of a set.

    Attributes:
        name: what those nodes have, for texts.
    """

    nodes: frozenset[int]
    count: int
    name: str


class Choice(Struct, frozen=True):
    """One of several ways to choose nodes.

    Attributes:
        nodes: empty: all.
        least: how many of the job's nodes are of which sets.
    """

    nodes: frozenset[int] = frozenset()
    least: tuple[Least, ...] = ()


class Where(Struct, frozen=True):
    """Which nodes a job may have, whoever it is of.

    Attributes:
        nodes, least: as in :class:`Choice`.
        one_of: all of them by one of these choices; empty: there is no more to it.
        constraint: what was asked for, for texts.
        switches: below at most so many leaf switches; 0: below any.
        without: none of these nodes (``--exclude``).
        may_grow: there may be more of those, as nodes come.
    """

    nodes: frozenset[int] = frozenset()
    one_of: tuple[Choice, ...] = ()
    constraint: str = ""
    least: tuple[Least, ...] = ()
    switches: int = 0
    without: frozenset[int] = frozenset()
    may_grow: bool = False


ANYWHERE = Where()


class Claim(Struct, frozen=True):
    """Who asks for nodes.

    Attributes:
        uid: whose job it is to be; ``ANYBODY``: of somebody for whom nothing is reserved.
        is_batch: it is a batch job, of ours or of a batch system that we are part of.
        nodes, one_of, constraint, least, switches, without: as in :class:`Where`.
    """

    uid: int = ANYBODY
    is_batch: bool = False
    nodes: frozenset[int] = frozenset()
    one_of: tuple[Choice, ...] = ()
    constraint: str = ""
    least: tuple[Least, ...] = ()
    switches: int = 0
    without: frozenset[int] = frozenset()

    def choices(self) -> list[Claim]:
        """A claim for each choice in ``one_of``; this one where that is empty."""
        if not self.one_of:
            return [self]
        same = f"the same of {self.constraint}"  # that the other nodes are without
        return [
            replace(self, nodes=each.nodes, least=each.least, one_of=(), constraint=same)
            for each in self.one_of
        ]

    @classmethod
    def to(cls, where: Where, uid: int, is_batch: bool) -> Claim:
        """A user's claim to some nodes."""
        said = where.nodes, where.one_of, where.constraint, where.least, where.switches
        return cls(uid, is_batch, *said, where.without)

    def may_have(self, access: Access) -> bool:
        """Whether the job may be given a node of this kind, if it is one of its queue."""
        mine = Portion.BATCH if self.is_batch else Portion.INTERACTIVE
        return access.uid in (ANYBODY, self.uid) and access.portion in (Portion.ANY, mine)


STRANGER = Claim()
