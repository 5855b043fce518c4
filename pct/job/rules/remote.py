"""Requests for remote files on their way to yod, and the replies: a window for each node.

The kernel's requests are passed on as they are. A node reads the next one only while those that
have no reply yet are within its share of the job's window; so one may be on its way in any case.
What has no reply costs nothing.
"""

from __future__ import annotations

from native.fuse.frames import cost_of, unique_of
from native.machine import Action
from native.wire import io, load
from pct.rare_events import AnswerRemote, PauseRemote, RemoteAsked
from pct.tree.group import Group


class RemoteFlow:
    """The requests of one node that yod has not answered."""

    def __init__(self, message: load.Load, group: Group) -> None:
        assert message.remote is not None
        self._job_id = message.job_id
        self._group = group
        self._share_bytes = message.remote.window_bytes // len(message.nodes)
        self._costs: dict[tuple[int, int], int] = {}  # by mount and number of the request
        self._used_bytes = 0
        self._is_paused = False

    def asked(self, event: RemoteAsked) -> list[Action]:
        """The kernel of this node has a request, or a mount of it is gone."""
        if not event.frame:
            self._forget(event.mount)
        elif cost_bytes := cost_of(event.frame):
            key = event.mount, unique_of(event.frame)
            self._used_bytes += cost_bytes - self._costs.get(key, 0)
            self._costs[key] = cost_bytes
        request = io.RemoteRequest(
            self._job_id, self._group.place, event.mount, event.directory, event.frame
        )
        return [*self._group.up(request), *self._look()]

    def answered(self, message: io.RemoteReply) -> list[Action]:
        """A reply for this node, or one below.

        Raises:
            PeerProtocolError: it is no reply.
        """
        if message.place != self._group.place:
            return self._group.towards(message.place, message)
        number = unique_of(message.frame)
        self._used_bytes -= self._costs.pop((message.mount, number), 0)
        answer = AnswerRemote(self._job_id, message.mount, message.frame)
        return [answer, *self._look()]

    def _forget(self, mount: int) -> None:
        """Nobody waits there any more."""
        for key in [key for key in self._costs if key[0] == mount]:
            self._used_bytes -= self._costs.pop(key)

    def _look(self) -> list[Action]:
        """Pause or go on."""
        is_full = bool(self._costs) and self._used_bytes >= self._share_bytes
        if is_full == self._is_paused:
            return []
        self._is_paused = is_full
        return [PauseRemote(self._job_id, is_full)]
