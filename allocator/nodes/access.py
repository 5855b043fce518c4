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


class Where(Struct, frozen=True):
    """Which nodes a job may have, whoever it is of.

    Attributes:
        nodes: empty: all.
        one_of: all of them in one of these sets; empty: they may be anywhere.
        constraint: what was asked for, for texts.
    """

    nodes: frozenset[int] = frozenset()
    one_of: tuple[frozenset[int], ...] = ()
    constraint: str = ""


ANYWHERE = Where()


class Claim(Struct, frozen=True):
    """Who asks for nodes.

    Attributes:
        uid: whose job it is to be; ``ANYBODY``: of somebody for whom nothing is reserved.
        is_batch: it is a batch job, of ours or of a batch system that we are part of.
        nodes, one_of, constraint: as in :class:`Where`.
    """

    uid: int = ANYBODY
    is_batch: bool = False
    nodes: frozenset[int] = frozenset()
    one_of: tuple[frozenset[int], ...] = ()
    constraint: str = ""

    def choices(self) -> list[Claim]:
        """A claim for each set of nodes in ``one_of``; this one where that is empty."""
        if not self.one_of:
            return [self]
        same = f"the same of {self.constraint}"  # that the other nodes are without
        return [replace(self, nodes=each, one_of=(), constraint=same) for each in self.one_of]

    def may_have(self, access: Access) -> bool:
        """Whether the job may be given a node of this kind, if it is one of its queue."""
        mine = Portion.BATCH if self.is_batch else Portion.INTERACTIVE
        return access.uid in (ANYBODY, self.uid) and access.portion in (Portion.ANY, mine)


STRANGER = Claim()
