"""Who may be given a node, and who asks. Pure."""

from __future__ import annotations

from msgspec import Struct

ANYBODY = -1  # for a uid


class Access(Struct, frozen=True):
    """Whose jobs may be given a node.

    Attributes:
        uid: this user's; ``ANYBODY``: those of all users.
    """

    uid: int = ANYBODY


OPEN = Access()


class Claim(Struct, frozen=True):
    """Who asks for nodes.

    Attributes:
        uid: whose job it is to be; ``ANYBODY``: of somebody for whom nothing is reserved.
    """

    uid: int = ANYBODY

    def may_have(self, access: Access) -> bool:
        """Whether the job may be given a node of this kind."""
        return access.uid in (ANYBODY, self.uid)


STRANGER = Claim()
