"""The process of a ``yod-agent``, faked, which a rank starts in place of a remote shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.wire import agent
from tests.sim.clients import Socket
from tests.sim.processes import UnixProcess

if TYPE_CHECKING:
    from tests.sim.ranks import RankProcess


class AgentProcess(UnixProcess):
    """A ``yod-agent``: has a command run on a node, and ends with it."""

    def __init__(self, parent: RankProcess, token: int, host: bytes, command: bytes) -> None:
        super().__init__(parent.host, parent.job_id, parent.rank)
        self.truth = parent.truth
        self._parent = parent
        self._token = token
        self._buffer = b""
        self._is_answered = False
        self._socket = Socket(
            self.host.clock, self.host.slowness, self._answered, lambda: self.die(255 << 8)
        )
        self.host.call(self.job_id, self._socket)
        asked = agent.Command(parent.rank, host, b"/home/user", command)
        self._socket.send(agent.encode_command(asked))

    def _answered(self, data: bytes) -> None:
        self._buffer += data
        while not self.is_dying and b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            answer = agent.decode_answer(line)
            if answer.is_last:
                self._is_answered = True
                if not (answer.refusal and self.truth.world_named(self._token) is None):
                    self.truth.tool_answered(self._token, answer.wait_status)
                self.die(answer.wait_status or 0)

    def ended(self, wait_status: int) -> None:
        super().ended(wait_status)
        self._socket.close()
        self._parent.advance(b"")
        if not self._is_answered:
            self.host.clock.after(5.0, lambda: self.truth.agent_gone(self._token, 5.0))
