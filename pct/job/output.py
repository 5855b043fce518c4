"""Standard output, error and input of a job's ranks on one node."""

from __future__ import annotations

from native.errors import PeerProtocolError
from native.machine import Action
from native.wire import io, load
from pct.events import InputTaken, OutputRead, PauseOutput, ResumeOutput, WriteInput
from pct.job.relay import OutputRelay
from pct.tree.collective import SELF
from pct.tree.group import Group


class Output:
    """What the ranks of this node and below write, on its way up; and what rank 0 reads.

    Attributes:
        relays: by stream.
        open: (rank, stream) of this node that may still be written to.
    """

    def __init__(self, message: load.Load, group: Group) -> None:
        self._job_id = message.job_id
        self._group = group
        window_bytes = message.output_window_bytes
        self.relays = {
            stream: OutputRelay(message.job_id, stream, window_bytes) for stream in io.STREAMS
        }
        self.open: set[tuple[int, int]] = set()
        self._has_input = message.has_input
        self._input_room = window_bytes // 4  # that yod may send

    @property
    def is_over(self) -> bool:
        """No rank of this node writes any more, and all that was written has gone up."""
        return not self.open and self.is_sent

    @property
    def is_sent(self) -> bool:
        """Everything has gone up; children may send more."""
        return all(relay.is_empty for relay in self.relays.values())

    @property
    def is_held_back(self) -> bool:
        """Output waits for its reader, which is no node of the job."""
        return any(relay.is_paused for relay in self.relays.values())

    # -- up ---------------------------------------------------------------

    def rank_started(self, rank: int) -> None:
        """A rank of this node may write."""
        self.open |= {(rank, stream) for stream in io.STREAMS}

    def read(self, event: OutputRead, now: float) -> list[Action]:
        """A rank of this node has written, or never will again."""
        if event.data:
            self.relays[event.stream].read(SELF, event.rank, event.data)
        else:
            self.open.discard((event.rank, event.stream))
        return self._flow(event.stream)

    def pass_on(self, place: int, message: io.Output, now: float) -> list[Action]:
        """A child has sent output."""
        self.relays[message.stream].pass_on(place, message)
        return self._flow(message.stream)

    def credit(self, message: io.OutputCredit, now: float) -> list[Action]:
        """The parent takes more."""
        self.relays[message.stream].credit(message.count_bytes)
        return self._flow(message.stream)

    def hold(self) -> None:
        """The parent is lost: output waits for the next one."""
        for relay in self.relays.values():
            relay.hold()

    def go_on(self) -> list[Action]:
        """There is a new parent."""
        for relay in self.relays.values():
            relay.new_parent()
        return [action for stream in self.relays for action in self._flow(stream)]

    def abandon(self) -> list[Action]:
        """Nobody above is waited for any more."""
        for relay in self.relays.values():
            relay.abandon()
        return [action for stream in self.relays for action in self._flow(stream)]

    def _flow(self, stream: int) -> list[Action]:
        """Send what the stream's window allows; stop or resume reading it of our ranks."""
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

    # -- input, at the root -----------------------------------------------

    def ask_for_input(self) -> list[Action]:
        """The ranks run: yod may send what fits."""
        if not (self._group.is_root and self._has_input):
            return []
        return self._group.up(io.InputCredit(self._job_id, self._input_room))

    def input(self, message: io.Input, now: float) -> list[Action]:
        """Input for rank 0.

        Raises:
            PeerProtocolError: more than was asked for.
        """
        count_bytes = len(message.data)
        if count_bytes > self._input_room:
            raise PeerProtocolError(f"{count_bytes} bytes of input, {self._input_room} due")
        self._input_room -= count_bytes
        return [WriteInput(self._job_id, message.data)]

    def input_taken(self, event: InputTaken, now: float) -> list[Action]:
        """Rank 0 has been given some of it."""
        self._input_room += event.count_bytes
        return self._group.up(io.InputCredit(self._job_id, event.count_bytes))
