"""One connection of a ``yod-agent``: its request and the answers to it.

Like a PMI client's conversation (:mod:`pct.wireup.pmi.conversation`): bytes in,
requests out; answers in, bytes out. The format is :mod:`native.wire.agent`'s.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from native.errors import IllegalTransition
from native.wire import agent
from native.wire.agent import AgentError

__all__ = ["AgentConversation", "AgentError", "RunTool"]


class RunTool(Struct, frozen=True, kw_only=True):
    """Start a launcher's daemon. Answer by ``started`` and ``ended``, or ``refused``.

    Attributes:
        rank: of the job, whose process asks.
        host: name of the node.
        directory: to start in, if it is there.
        command: for ``/bin/sh -c``.
    """

    rank: int
    host: bytes
    directory: bytes
    command: bytes


class _State(Enum):
    HEAD = "head"
    BODY = "body"
    ASKED = "asked"
    RUNNING = "running"
    OVER = "over"


class AgentConversation:
    """The PCT's side of a connection: gives one request, then takes answers in order.

    Attributes:
        is_over: the last answer has been given; close when it has been sent.
    """

    def __init__(self) -> None:
        self._state = _State.HEAD
        self._input = bytearray()
        self._output = bytearray()
        self._rank = 0
        self._host = b""
        self._body_bytes = 0

    @property
    def is_over(self) -> bool:
        return self._state is _State.OVER

    @property
    def held_bytes(self) -> int:
        """Bytes of the agent's words that are kept."""
        return len(self._input) + len(self._output)

    @property
    def is_running(self) -> bool:
        """Does the command run? It is killed if the connection ends now."""
        return self._state in (_State.ASKED, _State.RUNNING)

    def receive(self, data: bytes) -> list[RunTool]:
        """Requests in what has come.

        Raises:
            AgentError: the agent broke the protocol; drop it, and its command.
        """
        self._input += data
        if self._state is _State.HEAD and not self._take_head():
            return []
        if self._state is _State.BODY:
            return self._take_body()
        if self._input:
            raise AgentError("more than one command")
        return []

    def take(self) -> bytes:
        """The bytes to send; each byte is given once."""
        output = bytes(self._output)
        self._output.clear()
        return output

    def started(self) -> None:
        """The command runs."""
        self._answer(_State.ASKED, _State.RUNNING, agent.encode_started())

    def ended(self, wait_status: int) -> None:
        """The command has ended."""
        self._answer(_State.RUNNING, _State.OVER, agent.encode_ended(wait_status))

    def refused(self, text: str) -> None:
        """The command does not start, for this reason."""
        self._answer(_State.ASKED, _State.OVER, agent.encode_refused(text))

    def _answer(self, state: _State, then: _State, line: bytes) -> None:
        if self._state is not state:
            raise IllegalTransition(self._state, line)
        self._state = then
        self._output += line

    def _take_head(self) -> bool:
        end = self._input.find(b"\n", 0, agent.HEAD_MAX)
        if end < 0:
            if len(self._input) >= agent.HEAD_MAX:
                raise AgentError("the first line does not end")
            return False
        self._rank, self._host, self._body_bytes = agent.decode_head(bytes(self._input[:end]))
        del self._input[: end + 1]
        self._state = _State.BODY
        return True

    def _take_body(self) -> list[RunTool]:
        if len(self._input) > self._body_bytes:
            raise AgentError("more than one command")
        if len(self._input) < self._body_bytes:
            return []
        directory, command = agent.decode_body(bytes(self._input))
        self._input.clear()
        self._state = _State.ASKED
        return [RunTool(rank=self._rank, host=self._host, directory=directory, command=command)]
