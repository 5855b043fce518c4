"""The states of pilots and tasks, and what is announced of them.

The names and their order are RADICAL-Pilot's. A state is *announced* exactly once, and states are
announced in their order, though reports come late, twice, or not for each state: whoever hears
that a task has reached a state announces those before it first. To FAILED and CANCELED nothing is
announced on the way. A final state never changes.
"""

from __future__ import annotations

from collections.abc import Iterable

NEW = "NEW"
DONE = "DONE"
FAILED = "FAILED"
CANCELED = "CANCELED"
FINAL = (DONE, FAILED, CANCELED)

PMGR_LAUNCHING_PENDING = "PMGR_LAUNCHING_PENDING"
PMGR_LAUNCHING = "PMGR_LAUNCHING"
PMGR_ACTIVE_PENDING = "PMGR_ACTIVE_PENDING"
PMGR_ACTIVE = "PMGR_ACTIVE"

TMGR_SCHEDULING_PENDING = "TMGR_SCHEDULING_PENDING"
TMGR_SCHEDULING = "TMGR_SCHEDULING"
TMGR_STAGING_INPUT_PENDING = "TMGR_STAGING_INPUT_PENDING"
TMGR_STAGING_INPUT = "TMGR_STAGING_INPUT"
AGENT_STAGING_INPUT_PENDING = "AGENT_STAGING_INPUT_PENDING"
AGENT_STAGING_INPUT = "AGENT_STAGING_INPUT"
AGENT_SCHEDULING_PENDING = "AGENT_SCHEDULING_PENDING"
AGENT_SCHEDULING = "AGENT_SCHEDULING"
AGENT_EXECUTING_PENDING = "AGENT_EXECUTING_PENDING"
AGENT_EXECUTING = "AGENT_EXECUTING"
AGENT_STAGING_OUTPUT_PENDING = "AGENT_STAGING_OUTPUT_PENDING"
AGENT_STAGING_OUTPUT = "AGENT_STAGING_OUTPUT"
TMGR_STAGING_OUTPUT_PENDING = "TMGR_STAGING_OUTPUT_PENDING"
TMGR_STAGING_OUTPUT = "TMGR_STAGING_OUTPUT"

PILOT_STATES = (
    NEW,
    PMGR_LAUNCHING_PENDING,
    PMGR_LAUNCHING,
    PMGR_ACTIVE_PENDING,
    PMGR_ACTIVE,
)
TASK_STATES = (
    NEW,
    TMGR_SCHEDULING_PENDING,
    TMGR_SCHEDULING,
    TMGR_STAGING_INPUT_PENDING,
    TMGR_STAGING_INPUT,
    AGENT_STAGING_INPUT_PENDING,
    AGENT_STAGING_INPUT,
    AGENT_SCHEDULING_PENDING,
    AGENT_SCHEDULING,
    AGENT_EXECUTING_PENDING,
    AGENT_EXECUTING,
    AGENT_STAGING_OUTPUT_PENDING,
    AGENT_STAGING_OUTPUT,
    TMGR_STAGING_OUTPUT_PENDING,
    TMGR_STAGING_OUTPUT,
)


class Course:
    """The states of one kind of thing: those on the way, in order, and the final ones.

    Attributes:
        states: on the way, in order.
        values: state -> its number; the final ones share the highest.
    """

    def __init__(self, states: Iterable[str]) -> None:
        self.states = tuple(states)
        self.values = {state: n for n, state in enumerate(self.states)}
        self.values |= dict.fromkeys(FINAL, len(self.states))

    def announced(self, now: str, told: str) -> tuple[str, ...]:
        """What is to be announced when a report comes; the last one is the state from then on.

        Args:
            now: the present state.
            told: the state that is reported.

        Raises:
            KeyError: there is no such state.
        """
        value, present = self.values[told], self.values[now]
        if value <= present:
            return ()
        if told == DONE:
            return (*self.states[present + 1 :], told)
        if value == len(self.states):
            return (told,)
        return self.states[present + 1 : value + 1]

    def has_reached(self, now: str, wanted: Iterable[str]) -> bool:
        """Has one that is in a state been in, or passed, any of these? A final one always has."""
        present = self.values[now]
        if present == len(self.states):
            return True
        return any(self.values[state] <= present for state in wanted)


TASK = Course(TASK_STATES)
PILOT = Course(PILOT_STATES)
