"""When the script of a batch job is written down, and what follows. Pure.

::

    RESTING --asked--> SAVING --the saver has ended--> RESTING

The script's processes are stopped when they are written down: then they are ended, or go on.
So who asks while it is written down has the same checkpoint: nothing has been done behind it.
"""

from __future__ import annotations

from enum import Enum

from native.machine import Action, Event

_IS_BUSY = "a checkpoint is being made already"


class SavingState(Enum):
    """Whether the script is being written down."""

    RESTING = "it runs"
    SAVING = "it is written down"


class Asked(Event, frozen=True):
    """The script is to be written down.

    Attributes:
        ends: it ends behind its checkpoint.
        is_trial: it is only to be said whether it could be done.
        signal_number: that was to be sent to it, and is sent if there is no checkpoint; 0: none.
    """

    ends: bool = False
    is_trial: bool = False
    signal_number: int = 0


class SaverEnded(Event, frozen=True):
    """The saver has ended.

    Attributes:
        path: of the checkpoint.
        trouble: why there is none; empty: there is, or could be.
    """

    path: str
    trouble: str


class StartSaver(Action, frozen=True):
    """Start the saver, which answers by :class:`SaverEnded`."""

    is_trial: bool


class Answer(Action, frozen=True):
    """Tell the commands that have asked; the fields are those of :class:`SaverEnded`."""

    is_trial: bool
    path: str
    trouble: str


class EndScript(Action, frozen=True):
    """Kill the script, which is written down."""


class ContinueScript(Action, frozen=True):
    """Let the script's processes go on."""


class SendSignal(Action, frozen=True):
    """Send the script's first process a signal."""

    number: int


class Saving:
    """State machine of the checkpoints of one script.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.
    """

    def __init__(self) -> None:
        self.state = SavingState.RESTING
        self._present = Asked()
        self._behind: Asked | None = None  # behind a trial

    def handle(self, event: Event) -> list[Action]:
        """Advance by one event."""
        match self.state, event:
            case SavingState.RESTING, Asked():
                return self._begin(event)
            case SavingState.SAVING, Asked():
                return self._asked_meanwhile(event)
            case SavingState.SAVING, SaverEnded(path, trouble):
                self.state = SavingState.RESTING
                actions = self._ended(path, trouble)
                behind, self._behind = self._behind, None
                return [*actions, *(self._begin(behind) if behind is not None else ())]
        raise AssertionError(f"{event!r} while {self.state.value}")

    def _begin(self, asked: Asked) -> list[Action]:
        self.state, self._present = SavingState.SAVING, asked
        return [StartSaver(asked.is_trial)]

    def _asked_meanwhile(self, asked: Asked) -> list[Action]:
        is_behind = self._present.is_trial
        present = (self._behind or Asked()) if is_behind else self._present
        if asked.signal_number and present.signal_number:  # it is in a hurry now
            return [SendSignal(asked.signal_number)]
        if asked.is_trial:
            return [] if is_behind else [Answer(True, "", _IS_BUSY)]
        number = asked.signal_number or present.signal_number
        joined = Asked(asked.ends or present.ends, False, number)
        if is_behind:
            self._behind = joined
        else:
            self._present = joined
        return []

    def _ended(self, path: str, trouble: str) -> list[Action]:
        present = self._present
        answer = Answer(present.is_trial, path, trouble)
        if present.is_trial:
            return [answer]
        if not trouble:
            return [answer, EndScript() if present.ends else ContinueScript()]
        number = present.signal_number
        return [answer, ContinueScript(), *([SendSignal(number)] if number else [])]
