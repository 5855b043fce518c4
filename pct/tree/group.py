"""The group of a job's nodes as one of them knows it: parent, children, losses.

The tree is fixed by the load message; who is above and below changes when nodes
are lost. A node without a parent asks the nearest ancestor, then the next, to take
it. A node that has lost a child waits for that child's children, its heirs, to
call. Both have ``orphan_s`` for it.
"""

from __future__ import annotations

from native.errors import PeerProtocolError
from native.ids import PortalId
from native.wire.load import Load
from pct.tree import tree

HEIRS_GRACE_S = 1.0  # beyond orphan_s: heirs notice the loss when we do, or a little later


class Group:
    """One node's place in the tree of a job.

    Attributes:
        place: index in the load's nodes; 0 is the root.
        levels: of the tree below this node as it was formed.
        parent: whose word counts; None: this node is an orphan.
        adopter: the ancestor that has been asked and has not answered.
        children: who reports to this node -> their places.
        displaced: the parent that a reset has put aside; it is told of the end too.
        was_reset: yod has taken this node out of the tree.
    """

    def __init__(self, message: Load, parent: PortalId) -> None:
        size, arity = len(message.nodes), message.arity
        self.place = message.place
        self.levels = tree.height(self.place, size, arity)
        self.parent: PortalId | None = parent
        self.adopter: PortalId | None = None
        self.displaced: PortalId | None = None
        self.was_reset = False
        self._nodes = message.nodes
        self._arity = arity
        self._orphan_s = message.orphan_s
        self._ancestors = tree.ancestors(self.place, arity)
        self._orphan_until: float | None = None
        self._heirs: set[int] = set()  # children of lost children that have not called
        self._heirs_until: float | None = None
        self.children = {
            self.id_of(place): place for place in tree.children(self.place, size, arity)
        }

    @property
    def is_root(self) -> bool:
        """yod is the parent."""
        return self.place == 0

    def deadline(self) -> float | None:
        """When an orphan or an heir is given up, or None."""
        times = (self._orphan_until, self._heirs_until)
        return min((due for due in times if due is not None), default=None)

    def id_of(self, place: int) -> PortalId:
        """Where the PCT of a place listens."""
        return PortalId(self._nodes[place].nid, self._nodes[place].pid)

    def has_member(self, peer: PortalId) -> bool:
        """A node of the job, wherever in the tree."""
        return any((node.nid, node.pid) == peer for node in self._nodes)

    def places_below(self) -> list[int]:
        """This node's subtree as it was formed, itself first."""
        return tree.subtree(self.place, len(self._nodes), self._arity)

    # -- above ------------------------------------------------------------

    def lose_parent(self, now: float) -> PortalId | None:
        """The parent, or the ancestor that was asked, is lost.

        Returns:
            Whom to ask next; None: there is no ancestor left.
        """
        self.parent = self.adopter = None
        if self._orphan_until is None:
            self._orphan_until = now + self._orphan_s
        if len(self._ancestors) < 2:
            return None
        self._ancestors.pop(0)
        self.adopter = self.id_of(self._ancestors[0])
        return self.adopter

    def be_adopted(self) -> None:
        """The ancestor that was asked is the parent now."""
        self.parent, self.adopter = self.adopter, None
        self._orphan_until = None

    def be_reset(self, source: PortalId) -> None:
        """yod speaks to this node itself from now on."""
        if self.parent != source:
            self.displaced = self.parent
        self.parent, self.adopter = source, None
        self.was_reset = True
        self._heirs.clear()

    def end(self) -> None:
        """The job is over here: nothing is waited for."""
        self._orphan_until = self._heirs_until = None

    # -- below ------------------------------------------------------------

    def lose_child(self, place: int) -> range:
        """A child is lost.

        Returns:
            The places of its children in the tree.
        """
        self.children.pop(self.id_of(place), None)
        self._heirs.discard(place)
        return tree.children(place, len(self._nodes), self._arity)

    def inherit(self, place: int, now: float) -> PortalId:
        """A lost child's child is to report here; it has yet to call."""
        heir = self.id_of(place)
        self.children[heir] = place
        self._heirs.add(place)
        self._heirs_until = now + self._orphan_s + HEIRS_GRACE_S
        return heir

    def adopt(self, source: PortalId, place: int) -> None:
        """An orphan has called.

        Raises:
            PeerProtocolError: it is not who it says, or not below this node.
        """
        if not (place < len(self._nodes) and self.id_of(place) == source):
            raise PeerProtocolError(f"{source} is not at place {place} of the job")
        if self.place not in tree.ancestors(place, self._arity):
            raise PeerProtocolError(f"place {place} is not below place {self.place}")
        self.children[source] = place
        self._heirs.discard(place)

    # -- time -------------------------------------------------------------

    def is_abandoned(self, now: float) -> bool:
        """Nobody has adopted this node in time. True once."""
        if self._orphan_until is None or now < self._orphan_until:
            return False
        self._orphan_until = None
        return self.parent is None

    def take_missing(self, now: float) -> list[int]:
        """Heirs that have not called in time; they are waited for no longer."""
        if self._heirs_until is None or now < self._heirs_until:
            return []
        self._heirs_until = None
        missing = sorted(self._heirs)
        self._heirs.clear()
        for place in missing:
            self.children.pop(self.id_of(place), None)
        return missing
