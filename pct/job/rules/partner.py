"""What a node keeps of a checkpoint is held by another node, too, until it is drained.

The holder is half of the job's nodes further on: neighbours, which share a power supply, may be
lost together. The saver of a node reads what is kept there; its PCT sends that to the holder's
PCT, which gives it to its own saver. No more is on its way than the holder has room for.
When a node is lost, the saver of its holder drains its share.
"""

from __future__ import annotations

from native.errors import PeerProtocolError
from native.ids import PortalId
from native.machine import Action, Send
from native.wire.group import Share, ShareTaken
from pct.rare_events import PassToSaver
from pct.tree.group import Group

WINDOW_BYTES = 4 << 20  # of a share on its way, or in front of the holder's saver
_LEAST = 4  # parts of the window that are asked for at once


class Partner:
    """The share of one node, from this one to its holder, and the one that this node holds.

    Attributes:
        ward: the place of the node whose share is held here.
    """

    def __init__(self, job_id: int, group: Group) -> None:
        self._job_id = job_id
        self._holder = (group.place + group.size // 2) % group.size
        self.ward = (group.place - group.size // 2) % group.size
        self._holder_id, self._ward_id = group.id_of(self._holder), group.id_of(self.ward)
        self._lost: set[int] = set()  # places
        self._attempt = 0
        self._credit = 0  # bytes that the holder has room for, and that have not been read here
        self._granted = 0  # bytes that the ward may still send
        self._waiting = 0  # bytes in front of the saver
        self._has_saver = False
        self._has_told = False  # the holder: that no more comes
        self._is_ward_over = False
        self._is_alone = False  # the holder holds nothing any more

    def expect(self, attempt: int) -> None:
        """A checkpoint is begun: what is heard from now on is of this one."""
        self._attempt, self._credit, self._granted = attempt, 0, 0
        self._has_saver = self._has_told = self._is_ward_over = self._is_alone = False

    def begin(self) -> list[Action]:
        """The saver begins to drain."""
        self._has_saver, self._waiting = True, 0
        actions: list[Action] = []
        if self._is_alone or self._holder in self._lost:
            actions += self._tell(b"alone\n")
        elif self._credit:
            actions += self._tell(b"credit %d\n" % self._credit)
        if self._is_ward_over:
            return [*actions, *self._tell(b"forget\n")]
        if self.ward in self._lost:
            return [*actions, *self._tell(b"lost\n")]
        return [*actions, *self._grant()]

    def end(self) -> list[Action]:
        """No saver is left, or all is drained: the holder may forget what it has."""
        if self._has_told or not self._has_saver:
            return []
        self._has_told = True
        return self._send(Share(self._job_id, self._attempt, b"", is_over=True))

    def ended(self) -> list[Action]:
        """The saver has ended: it holds nothing any more, if it was to."""
        actions = self.end()
        if self._has_saver and not self._is_ward_over and self.ward not in self._lost:
            actions.append(Send(self._ward_id, ShareTaken(self._job_id, self._attempt, 0)))
        self._has_saver = False
        return actions

    # -- to the holder --------------------------------------------------------

    def read(self, data: bytes) -> list[Action]:
        """The saver has read more of this node's share: no more than there is room for."""
        self._credit -= len(data)
        if self._credit < 0:
            return self.end()
        return [] if self._has_told else self._send(Share(self._job_id, self._attempt, data))

    def taken(self, source: PortalId, message: ShareTaken) -> list[Action]:
        """The holder has room.

        Raises:
            PeerProtocolError: it is another node.
        """
        if source != self._holder_id:
            raise PeerProtocolError("room for a share, from a node that does not hold it")
        if message.attempt != self._attempt:
            return []
        if not message.count_bytes:
            self._is_alone = True
            return self._tell(b"alone\n") if self._has_saver else []
        self._credit += message.count_bytes
        return self._tell(b"credit %d\n" % message.count_bytes) if self._has_saver else []

    # -- from the ward --------------------------------------------------------

    def share(self, source: PortalId, message: Share) -> list[Action]:
        """More of the ward's share.

        Raises:
            PeerProtocolError: it is another node's, or more than there is room for.
        """
        if source != self._ward_id:
            raise PeerProtocolError("a share of a node whose share is not held here")
        if message.attempt != self._attempt or self.ward in self._lost:
            return []
        if message.is_over:
            self._is_ward_over = True
            return self._tell(b"forget\n") if self._has_saver else []
        if not self._has_saver:
            return []
        if len(message.data) > self._granted:
            raise PeerProtocolError("more of a share than there is room for")
        self._granted -= len(message.data)
        return self._tell(b"data %d\n%b" % (len(message.data), message.data))

    def kept(self, count_bytes: int) -> list[Action]:
        """The saver has taken so many bytes of what it was given."""
        self._waiting = max(0, self._waiting - count_bytes)
        is_over = self._is_ward_over or self.ward in self._lost
        return [] if is_over or not self._has_saver else self._grant()

    def _grant(self) -> list[Action]:
        room = WINDOW_BYTES - self._granted - self._waiting
        if room * _LEAST < WINDOW_BYTES:
            return []
        self._granted += room
        return [Send(self._ward_id, ShareTaken(self._job_id, self._attempt, room))]

    # -- losses ---------------------------------------------------------------

    def lost(self, *places: int) -> list[Action]:
        """Nodes are lost."""
        new = set(places) - self._lost
        self._lost |= new
        if not self._has_saver:
            return []
        actions = self._tell(b"alone\n") if self._holder in new else []
        if self.ward in new and not self._is_ward_over:
            actions += self._tell(b"lost\n")
        return actions

    def peer_gone(self, peer: PortalId) -> list[Action]:
        """A node is out of reach."""
        found = ((self._holder_id, self._holder), (self._ward_id, self.ward))
        return self.lost(*(place for known, place in found if known == peer))

    def _send(self, message: Share) -> list[Action]:
        return [] if self._holder in self._lost else [Send(self._holder_id, message)]

    def _tell(self, data: bytes) -> list[Action]:
        self._waiting += len(data)
        return [PassToSaver(self._job_id, data)]
