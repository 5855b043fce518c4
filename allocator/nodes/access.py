"""Who may be given a node, and who asks. Pure."""

from __future__ import annotations

from msgspec import Struct

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


class Claim(Struct, frozen=True):
    """Who asks for nodes.

    Attributes:
        uid: whose job it is to be; ``ANYBODY``: of somebody for whom nothing is reserved.
        is_batch: it is a batch job, of ours or of a batch system that we are part of.
        nodes: those of its queue; empty: all.
    """

    uid: int = ANYBODY
    is_batch: bool = False
    nodes: frozenset[int] = frozenset()

    def may_have(self, access: Access) -> bool:
        """Whether the job may be given a node of this kind, if it is one of its queue."""
        mine = Portion.BATCH if self.is_batch else Portion.INTERACTIVE
        return access.uid in (ANYBODY, self.uid) and access.portion in (Portion.ANY, mine)


STRANGER = Claim()
