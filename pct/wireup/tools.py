"""Tools: daemons of a launcher that a rank has started, which our PCTs run.

The launcher starts our agent as its remote shell. The agent connects to the PCT of its own
node (:mod:`native.wire.agent`) and waits until its command ends.
"""

from __future__ import annotations

from native.wire import load, pmi
from native.wire.agent import FIRST_WORD
from pct.account import CONNECTION_BYTES, Account, Charge, OverLimit
from pct.wireup.agent import AgentConversation, AgentError, RunTool
from pct.wireup.questions import ROOT, SUCCESS, Questions, Step, number_in
from pct.wireup.world import Worlds

__all__ = ["FIRST_WORD", "Tools"]

UNKNOWN = 255 << 8  # a wait status: what a remote shell ends with that has lost its command


class Tools:
    """The agents on one node, and the tools that they have started anywhere in the job.

    Args:
        account: what is kept of agents is taken from it.
    """

    def __init__(self, place: int, worlds: Worlds, questions: Questions, account: Account) -> None:
        self._account = account
        self._place = place
        self._worlds = worlds
        self._questions = questions
        self._agents: dict[int, _Agent] = {}
        self._waiting: dict[int, _Agent] = {}  # by the serial of the question

    def __contains__(self, number: int) -> bool:
        return number in self._agents

    def connected(self, number: int, step: Step) -> None:
        """An agent has a connection."""
        charge = Charge(self._account)
        try:
            charge.add(CONNECTION_BYTES)
        except OverLimit:
            step.hang_ups.append(number)
        else:
            self._agents[number] = _Agent(number, charge)

    def received(self, number: int, data: bytes, step: Step) -> None:
        """Bytes of an agent."""
        agent = self._agents[number]
        try:
            for request in agent.conversation.receive(data):
                self._run_tool(agent, request, step)
            self._flush(agent, step)
            if number in self._agents:
                agent.charge.set(CONNECTION_BYTES + agent.conversation.held_bytes)
        except (AgentError, OverLimit):
            self.closed(number, step)
            step.hang_ups.append(number)

    def closed(self, number: int, step: Step) -> None:
        """An agent has gone: end its command."""
        agent = self._forget(number)
        agent.is_gone = True
        self._end_tool(agent, step)

    def _run_tool(self, agent: _Agent, request: RunTool, step: Step) -> None:
        process = self._worlds.local(request.rank)
        if process is None:
            agent.conversation.refused(f"rank {request.rank} is none of this node's")
            return
        command = pmi.SpawnCommand(
            program=b"/bin/sh",
            arguments=(b"-c", request.command),
            count=1,
            directory=request.directory,
            hosts=(request.host,),
        )
        question = pmi.Spawn(process, (command,), (), is_tool=True)

        def ended(reply: pmi.Reply, step: Step) -> None:
            self._waiting.pop(serial, None)
            if agent.is_gone:
                return
            if agent.tool is None:
                agent.conversation.refused(reply.text or "it was not started")
            else:  # how one has ended that yod then says is not there, nobody knows
                agent.conversation.ended(number_in(reply) if reply.status == SUCCESS else UNKNOWN)
            self._flush(agent, step)
            step.hang_ups.append(agent.number)
            self._forget(agent.number)

        serial = self._questions.next_serial
        self._waiting[serial] = agent
        self._questions.ask(ROOT, question, ended, step)

    def started(self, message: load.StartWorld, step: Step) -> None:
        """A tool has been started, perhaps for an agent of this node."""
        agent = self._waiting.get(message.serial) if message.source == self._place else None
        if agent is not None and agent.tool is None:
            agent.tool = (message.world, message.runs[0].place)
            agent.conversation.started()
            self._flush(agent, step)
            if agent.is_gone:
                self._end_tool(agent, step)

    def clear(self) -> None:
        """Free everything that is kept."""
        for number in list(self._agents):
            self._forget(number)
        self._waiting.clear()

    def check(self) -> None:
        """Assert the invariants."""
        for agent in self._agents.values():
            held = CONNECTION_BYTES + agent.conversation.held_bytes
            assert agent.charge.held_bytes == held

    def _forget(self, number: int) -> _Agent:
        agent = self._agents.pop(number)
        agent.charge.clear()
        return agent

    def _end_tool(self, agent: _Agent, step: Step) -> None:
        if agent.tool is not None:
            world, place = agent.tool
            self._questions.tell(place, pmi.EndTool(world), step)

    def _flush(self, agent: _Agent, step: Step) -> None:
        if data := agent.conversation.take():
            step.replies.append((agent.number, data))


class _Agent:
    """One agent.

    Attributes:
        tool: the world and the place of its command, once that is started.
    """

    def __init__(self, number: int, charge: Charge) -> None:
        self.number = number
        self.charge = charge
        self.conversation = AgentConversation()
        self.tool: tuple[int, int] | None = None
        self.is_gone = False
