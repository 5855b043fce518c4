"""The group of a job's nodes as one of them knows it: parent, children, losses.

The load message fixes the tree; parent and children change when nodes are lost. A node
that has lost its parent, an orphan, asks its nearest ancestor to adopt it, then the next
one. A node that has lost a child waits until that child's children, its heirs, ask to be
adopted. Each waits for ``orphan_s`` at most.
"""

from __future__ import annotations

from enum import Enum

from native.deadlines import earliest
from native.errors import PeerProtocolError
from native.ids import PortalId
from native.machine import Action, Send
from native.wire.base import Message
from native.wire.load import Load
from pct.tree import tree

HEIRS_GRACE_S = 1.0  # beyond orphan_s: heirs may notice the loss a little later than we do


class Sender(Enum):
    """What the sender of a message is to this node."""

    __hash__ = object.__hash__  # that of Enum is a call of Python for each look into a table

    YOD = "yod"  # the root's parent
    PARENT = "parent"  # of another node
    CHILD = "child"
    ADOPTER = "adopter"  # the ancestor that has been asked
    MEMBER = "another node of the job"  # a lost parent or child that was not, for one
    STRANGER = "no part of the job"


class Group:
    """One node's place in the tree of a job.

    Attributes:
        size: nodes of the job.
        place: index in the load's nodes; 0 is the root.
        levels: of the tree below this node as it was formed.
        parent: the peer that this node obeys and reports to; None: it is an orphan.
        adopter: the ancestor that has been asked and has not answered.
        children: the nodes that report to this one, with their places.
        displaced: the parent before a reset; it is told of the end as well.
        was_reset: yod has taken this node out of the tree, and is its parent.
    """

    def __init__(self, message: Load, parent: PortalId) -> None:
        self.size = size = len(message.nodes)
        arity = message.arity
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
        """When this node gives up as an orphan or stops waiting for heirs, or None."""
        return earliest(self._orphan_until, self._heirs_until)

    def id_of(self, place: int) -> PortalId:
        """The address of the PCT at a place."""
        return self._nodes.address(place)

    def has_member(self, peer: PortalId) -> bool:
        """Is this peer a node of the job?"""
        return self._nodes.has_address(*peer)

    def sender(self, peer: PortalId) -> Sender:
        """What a peer is to this node now."""
        if peer == self.parent:
            return Sender.YOD if self.is_root else Sender.PARENT
        if peer in self.children:
            return Sender.CHILD
        if peer == self.adopter:
            return Sender.ADOPTER
        return Sender.MEMBER if self.has_member(peer) else Sender.STRANGER

    def up(self, message: Message) -> list[Action]:
        """Send to the parent; an orphan sends nothing."""
        return [] if self.parent is None else [Send(self.parent, message)]

    def down(self, message: Message) -> list[Action]:
        """Send to every child."""
        return [Send(child, message) for child in self.children]

    def to(self, place: int, message: Message) -> list[Action]:
        """Send to a child; to a place that has none, nothing."""
        child = self.id_of(place)
        return [Send(child, message)] if child in self.children else []

    def towards(self, place: int, message: Message) -> list[Action]:
        """Send to a place below, through the child that it is under; else nowhere."""
        here = set(self.children.values())
        for each in (place, *tree.ancestors(place, self._arity)):
            if each in here:
                return self.to(each, message)
        return []

    def places_below(self) -> list[int]:
        """The places of this node's subtree in the original tree, its own first."""
        return tree.subtree(self.place, len(self._nodes), self._arity)

    # -- above ------------------------------------------------------------

    def lose_parent(self, now: float) -> PortalId | None:
        """The parent, or the ancestor that was asked, is lost.

        Returns:
            The ancestor to ask next; None: there is none left.
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
        """The ancestor that was asked becomes the parent."""
        self.parent, self.adopter = self.adopter, None
        self._orphan_until = None

    def be_reset(self, source: PortalId) -> None:
        """yod takes this node out of the tree and becomes its parent."""
        if self.parent != source:
            self.displaced = self.parent
        self.parent, self.adopter = source, None
        self.was_reset = True
        self._heirs.clear()

    def end(self) -> None:
        """The job is over on this node: wait for nothing any more."""
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
        """Expect a lost child's child to report to this node; it has not called yet."""
        heir = self.id_of(place)
        self.children[heir] = place
        self._heirs.add(place)
        self._heirs_until = now + self._orphan_s + HEIRS_GRACE_S
        return heir

    def adopt(self, source: PortalId, place: int) -> None:
        """Take an orphan that has called as a child.

        Raises:
            PeerProtocolError: it is not at the place that it names, or that place is
                not below this node.
        """
        if not (place < len(self._nodes) and self.id_of(place) == source):
            raise PeerProtocolError(f"{source} is not at place {place} of the job")
        if self.place not in tree.ancestors(place, self._arity):
            raise PeerProtocolError(f"place {place} is not below place {self.place}")
        self.children[source] = place
        self._heirs.discard(place)

    # -- time -------------------------------------------------------------

    def is_abandoned(self, now: float) -> bool:
        """Has no ancestor adopted this node in time? True once."""
        if self._orphan_until is None or now < self._orphan_until:
            return False
        self._orphan_until = None
        return self.parent is None

    def take_missing(self, now: float) -> list[int]:
        """The places of heirs that have not called in time; stop waiting for them."""
        if self._heirs_until is None or now < self._heirs_until:
            return []
        self._heirs_until = None
        missing = sorted(self._heirs)
        self._heirs.clear()
        for place in missing:
            self.children.pop(self.id_of(place), None)
        return missing
