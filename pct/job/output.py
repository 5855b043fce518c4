"""Standard output, error and input of a job's ranks on one node, and their remote files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.deadlines import earliest
from native.errors import PeerProtocolError
from native.machine import Action
from native.wire import io, load
from pct.events import (
    FinishOutput,
    InputClosed,
    InputTaken,
    OutputRead,
    PauseOutput,
    ResizeTerminal,
    ResumeOutput,
    WriteInput,
)
from pct.job.rules.input import InputFlow
from pct.job.rules.relay import OutputRelay
from pct.rare_events import LineWanted, RemoteAsked
from pct.tree.collective import SELF
from pct.tree.group import Group

if TYPE_CHECKING:
    from pct.job.rules.remote import RemoteFlow
    from pct.job.rules.sharing import SharedFlow


class Output:
    """The output of this node's subtree on its way up, and its input on its way down.

    Attributes:
        relays: by stream.
        wrote_at: when a rank of this node has last written; 0: not yet.
        open: (rank, stream) of this node's pipes whose end has not been read.
    """

    def __init__(self, message: load.Load, group: Group) -> None:
        self._job_id = message.job_id
        self._group = group
        window_bytes = message.output_window_bytes
        self.relays = _relays(message, group)
        self._folds = bool(message.merge_s)
        self.open: set[tuple[int, int]] = set()
        self._is_finishing = False
        self.wrote_at = 0.0
        self._input = InputFlow(message, window_bytes // 4)
        self._shared: SharedFlow | None = None
        if message.shares_input:
            from pct.job.rules.sharing import SharedFlow  # few jobs share it

            self._shared = SharedFlow(message, group)
        self._remote: RemoteFlow | None = None
        if message.remote is not None:
            from pct.job.rules.remote import RemoteFlow  # few jobs have any

            self._remote = RemoteFlow(message, group)

    @property
    def is_over(self) -> bool:
        """All pipes of this node have been read to their end, and everything has been sent."""
        return not self.open and self.is_sent

    @property
    def is_sent(self) -> bool:
        """No output waits here. Children may send more."""
        return all(relay.is_empty for relay in self.relays.values())

    @property
    def is_held_back(self) -> bool:
        """Output waits for credit: the reader of the job's output is slow, not this node."""
        return any(relay.is_held_back for relay in self.relays.values())

    # -- up ---------------------------------------------------------------

    def rank_started(self, rank: int) -> None:
        """A rank of this node has been started, with pipes for both streams."""
        for stream in io.STREAMS:
            self.open.add((rank, stream))
            self.relays[stream].started(rank)

    def begin(self) -> list[Action]:
        """All ranks of the job are held or have gone, or it ends: send what has waited."""
        for relay in self.relays.values():
            relay.begin()
        return self._flow_all()

    def read(self, event: OutputRead, now: float) -> list[Action]:
        """Output of a rank of this node, or the end of its stream."""
        if event.data:
            self.wrote_at = now
            self.relays[event.stream].read(SELF, event.rank, event.data, now)
        else:
            self.open.discard((event.rank, event.stream))
            self.relays[event.stream].ended(event.rank)
        return self._flow(event.stream)

    def finish(self) -> list[Action]:
        """No process of the job is left here that could write."""
        if self._is_finishing or not self.open:
            return []
        self._is_finishing = True
        return [FinishOutput(self._job_id)]

    def pass_on(self, place: int, message: io.Output, now: float) -> list[Action]:
        """A child has sent output."""
        self.relays[message.stream].pass_on(place, message)
        return self._flow(message.stream)

    def pass_lines(self, place: int, message: io.Lines, now: float) -> list[Action]:
        """A child has sent lines of some ranks.

        Raises:
            PeerProtocolError: it may not.
        """
        self.relays[message.stream].pass_lines(place, message, now)
        return self._flow(message.stream)

    def deadline(self) -> float | None:
        """When lines that wait for the same line of other ranks are sent; None: there are none."""
        if not self._folds:  # as most jobs
            return None
        return earliest(*(relay.deadline() for relay in self.relays.values()))

    def due(self, now: float) -> list[Action]:
        """The deadline may have come."""
        for relay in self.relays.values():
            relay.due(now)
        return self._flow_all()

    def child_over(self, place: int) -> list[Action]:
        """A child has sent all that its subtree has."""
        for relay in self.relays.values():
            relay.over(place)
        return self._flow_all()

    def child_gone(self, place: int) -> list[Action]:
        """A child is lost: what it sent goes on before what its heirs send."""
        for relay in self.relays.values():
            relay.gone(place)
        return self._flow_all()

    def credit(self, message: io.OutputCredit, now: float) -> list[Action]:
        """The parent accepts more output."""
        self.relays[message.stream].credit(message.count_bytes)
        return self._flow(message.stream)

    def hold(self) -> None:
        """The parent is lost: keep output for the next one."""
        for relay in self.relays.values():
            relay.hold()

    def go_on(self) -> list[Action]:
        """A new parent has adopted this node: send what has waited."""
        for relay in self.relays.values():
            relay.new_parent()
        return self._flow_all()

    def abandon(self) -> list[Action]:
        """Send everything without credit: nothing above accepts or awaits it any more."""
        for relay in self.relays.values():
            relay.abandon()
        return self._flow_all()

    def _flow_all(self) -> list[Action]:
        return [action for stream in self.relays for action in self._flow(stream)]

    def _flow(self, stream: int) -> list[Action]:
        """Send what the stream's window allows; pause or resume reading this node's pipes."""
        relay = self.relays[stream]
        was_paused = relay.is_paused
        messages, credits = relay.take()
        actions: list[Action] = []
        for message in messages:
            actions += self._group.up(message)
        for place, count_bytes in credits:
            credit = io.OutputCredit(self._job_id, stream, count_bytes)
            actions += self._group.to(place, credit)
        if relay.is_paused != was_paused:
            pause = PauseOutput if relay.is_paused else ResumeOutput
            actions.append(pause(self._job_id, stream))
        return actions

    # -- input ------------------------------------------------------------

    def ask_for_input(self) -> list[Action]:
        """The ranks run: give yod its first credit for input, or ask it for lines."""
        if self._shared is not None:
            return self._shared.begin()
        if not (self._group.is_root and self._input.has_any):
            return []
        return self._group.up(io.InputCredit(self._job_id, self._input.room_bytes))

    def input(self, message: io.Input, now: float) -> list[Action]:
        """Input for the ranks of this node, and of those below.

        Raises:
            PeerProtocolError: more than the credit.
        """
        flow = self._input
        flow.arrived(len(message.data))
        actions: list[Action] = []
        if flow.goes_on:
            actions += self._group.down(message)
        if flow.is_read:
            actions.append(WriteInput(self._job_id, message.data))
        return [*actions, *self._ask_for_more()]

    def resize(self, message: io.Resize, now: float) -> list[Action]:
        """The terminal of a rank, here or below, has another size."""
        actions = self._group.down(message)
        if self._input.is_read:
            actions.append(ResizeTerminal(self._job_id, message.window))
        return actions

    def input_taken(self, event: InputTaken, now: float) -> list[Action]:
        """The ranks of this node have taken input."""
        self._input.taken(SELF, event.count_bytes)
        return self._ask_for_more()

    def input_taken_below(self, place: int, message: io.InputCredit, now: float) -> list[Action]:
        """All ranks of a child's subtree have taken input.

        Raises:
            PeerProtocolError: more than they were sent.
        """
        self._input.taken(place, message.count_bytes)
        return self._ask_for_more()

    def input_closed(self, event: InputClosed, now: float) -> list[Action]:
        """No rank of this node reads its input any more."""
        self._input.closed()
        return self._ask_for_more()

    def _ask_for_more(self) -> list[Action]:
        count_bytes = self._input.credit(self._group.children.values())
        if not count_bytes:
            return []
        return self._group.up(io.InputCredit(self._job_id, count_bytes))

    # -- input that all ranks share ---------------------------------------

    def line_wanted(self, event: LineWanted, now: float) -> list[Action]:
        """A rank of this node asks for a line, or reads no more."""
        assert self._shared is not None
        return self._shared.happened(event)

    def line_asked_below(self, place: int, message: io.LineAsked, now: float) -> list[Action]:
        """That of a node in a child's subtree does."""
        return self._group.up(message)

    def line(self, message: io.Line, now: float) -> list[Action]:
        """yod has answered a rank.

        Raises:
            PeerProtocolError: the job's ranks share no input.
        """
        if self._shared is None:
            raise PeerProtocolError("a line of shared input, which the job has not")
        return self._shared.given(message)

    # -- remote files ------------------------------------------------------

    def remote_asked(self, event: RemoteAsked, now: float) -> list[Action]:
        """The kernel of this node asks for something of remote files."""
        assert self._remote is not None
        return self._remote.asked(event)

    def remote_asked_below(self, place: int, message: io.RemoteRequest, now: float) -> list[Action]:
        """That of a node in a child's subtree does."""
        return self._group.up(message)

    def remote_answered(self, message: io.RemoteReply, now: float) -> list[Action]:
        """yod has answered a node.

        Raises:
            PeerProtocolError: the job has no remote files, or it is no answer.
        """
        if self._remote is None:
            raise PeerProtocolError("an answer about remote files, which the job has not")
        return self._remote.answered(message)


def _relays(message: load.Load, group: Group) -> dict[int, OutputRelay]:
    job_id, window_bytes = message.job_id, message.output_window_bytes
    if not message.merge_s:
        return {stream: OutputRelay(job_id, stream, window_bytes) for stream in io.STREAMS}
    from pct.job.rules.merge import MergingRelay  # few jobs fold lines

    places = list(group.children.values())
    return {
        stream: MergingRelay(job_id, stream, window_bytes, message.merge_s, places)
        for stream in io.STREAMS
    }
