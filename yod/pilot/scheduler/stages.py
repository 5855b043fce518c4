"""How far a task is at its agent.

HELD       a service that it needs is not ready
STAGING    its input is brought
WAITING    for slots
RUNNING    it has slots, and a process
COLLECTING its output is brought; its slots are free
"""

from __future__ import annotations

from enum import Enum

from yod.pilot.model import states


class Stage(Enum):
    """How far a task is."""

    HELD = "held"
    STAGING = "staging"
    WAITING = "waiting"
    RUNNING = "running"
    COLLECTING = "collecting"


_STATES = {
    Stage.STAGING: states.AGENT_STAGING_INPUT,
    Stage.WAITING: states.AGENT_SCHEDULING,
    Stage.RUNNING: states.AGENT_EXECUTING,
    Stage.COLLECTING: states.AGENT_STAGING_OUTPUT,
}


def state_in(stage: Stage, has_input: bool) -> str:
    """The state that its client is told of a task.

    Args:
        has_input: the agent brings input for it.
    """
    waits = states.AGENT_STAGING_INPUT_PENDING if has_input else states.AGENT_SCHEDULING
    return _STATES.get(stage, waits)
