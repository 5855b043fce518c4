"""The commands that ask one launch: native/wire/JOB.md."""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os

from native.errors import PeerProtocolError
from native.text import shown
from native.wire import job
from yod.host.register import Registration
from yod.host.status import Status
from yod.launch.events import Checked, Checkpointed, FollowAsked, Followed, Looked, Told


class Clients:
    """The connections to one launch: at most :attr:`Registration.clients_max`."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self._status = Status(
            registration.machine,
            registration.name,
            registration.partition,
            os.getuid(),
            registration.unix_pid,
        )
        self._clients: set[_Client] = set()
        self._await: dict[type[job.Request | Checked], set[_Client]] = {
            job.Checkpoint: set(),
            Checked: set(),
            job.Look: set(),
        }

        self._followers: dict[_Client, tuple[tuple[int, int], ...]] = {}

    def add(self, end: _socket.socket) -> None:
        """Talk to a command of the launch's user."""
        client = _Client(self, self._registration, end)
        self._clients.add(client)
        most = self._registration.clients_max
        if len(self._clients) > most:
            client.refuse(f"{most} commands ask it already (job_clients_count)")
            return
        client.say(job.Hello(job.VERSION, self._registration.id))

    def close(self) -> None:
        """Tell all how the launch has ended: a request to wait may be on its way."""
        ended = self._status.ended()
        for client in list(self._clients):
            client.say_dropped()
            if ended is not None:
                client.say(ended)
            client.close()

    def told(self, told: Told) -> None:
        """Answer those who have asked."""
        reply: job.Reply
        if isinstance(told, Followed):
            for client, ranks in list(self._followers.items()):
                if any(first <= told.rank <= last for first, last in ranks):
                    client.show(told)
            return
        if isinstance(told, Looked):
            stacks = told.stacks[: job.STACKS_MAX_BYTES].decode(errors="replace")
            reply = job.Stacks(job.sayable(told.node), stacks, job.sayable(told.text), told.left)
            waiting, is_last = self._await[job.Look], not told.left
        elif isinstance(told, Checked):
            reply = job.Refused(job.sayable(told.text)) if told.text else job.Accepted()
            waiting, is_last = self._await[Checked], True
        else:
            assert isinstance(told, Checkpointed)
            path = job.sayable(shown(told.path))
            reply = job.Refused(job.sayable(told.text)) if told.text else job.Checkpointed(path)
            waiting, is_last = self._await[job.Checkpoint], True
        for client in list(waiting):
            client.say(reply)
        if is_last:
            waiting.clear()

    def gone(self, client: _Client) -> None:
        """A connection has been closed."""
        self._clients.discard(client)
        for waiting in self._await.values():
            waiting.discard(client)
        if self._followers.pop(client, None) is not None:
            self._registration.handle(self._follow())

    def _follow(self) -> FollowAsked:
        return FollowAsked(tuple(pair for ranks in self._followers.values() for pair in ranks))

    def asked(self, client: _Client, request: job.Request) -> None:
        """Answer, then do what was asked for: that may end the launch, and the connection."""
        registration = self._registration
        now = registration.reactor.monotonic()
        reply, event = self._status.answer(request, registration.id, registration.began, now)
        if reply is not None:
            client.say(reply)
        else:
            is_trial = isinstance(request, job.Checkpoint) and request.is_trial
            kind: type[job.Request | Checked] = Checked if is_trial else type(request)
            if kind in self._await:
                self._await[kind].add(client)
        if isinstance(event, FollowAsked):
            self._followers[client] = event.ranks
            event = self._follow()
        if event is not None:
            registration.handle(event)


class _Client:
    """One connection; it ends when its command has gone, or does not read."""

    def __init__(self, clients: Clients, registration: Registration, end: _socket.socket) -> None:
        self._clients = clients
        self._end = end
        self._dropped_bytes = 0
        self._watch = registration.reactor.watch(end.fileno(), self._readable)

    def say(self, reply: job.Reply) -> None:
        """Send a packet."""
        try:
            self._end.send(job.encode(reply), _socket.MSG_NOSIGNAL)
        except OSError:  # gone, or it leaves unread what it was told
            self.close()

    def show(self, followed: Followed) -> None:
        """Send what a rank has written; what the command has no room for is lost to it."""
        most = job.OUTPUT_MAX_BYTES
        for start in range(0, len(followed.data), most):
            data = followed.data[start : start + most]
            packet = job.Output(followed.rank, followed.stream, data, self._dropped_bytes)
            try:
                self._end.send(job.encode(packet), _socket.MSG_NOSIGNAL)
                self._dropped_bytes = 0
            except BlockingIOError:
                self._dropped_bytes += len(data)
            except OSError:
                self.close()
                return

    def say_dropped(self) -> None:
        """Say how much was lost behind the last that was sent."""
        if self._dropped_bytes:
            self.say(job.Output(0, 1, b"", self._dropped_bytes))

    def refuse(self, text: str) -> None:
        """Say why, and hang up."""
        self.say(job.Refused(job.sayable(text)))
        self.close()

    def close(self) -> None:
        """Forget it; twice is harmless."""
        self._watch.close()
        self._end.close()
        self._clients.gone(self)

    def _readable(self) -> None:
        try:
            data = self._end.recv(job.REQUEST_MAX_BYTES + 1)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            request = job.decode_request(data)
        except PeerProtocolError as error:
            self.refuse(str(error))
            return
        self._clients.asked(self, request)
