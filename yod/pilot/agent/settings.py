"""What an agent is told when it is started."""

from __future__ import annotations

import os
from typing import Any

from msgspec import Struct

from yod.pilot.model.sizes import NodeSize

SOCKET = "agent.sock"  # in the pilot's sandbox: clients that come later connect here


class Settings(Struct, frozen=True):
    """One pilot, as its agent has to know it.

    Attributes:
        session_sandbox, sandbox: directories of the session and of the pilot.
        client: the path of the client's socket.
        nodes: what the pilot has; empty: what the allocation has in which the agent runs.
        gpus_per_node, mem_mb: of the nodes of an allocation.
        runtime_s: how long it lasts.
        kill_delay_s: from SIGTERM to SIGKILL.
        lfs_mb: likewise.
        is_remote: the client may be on another host.
        goes_on: also when its client has gone.
        silent_s: its client gives it up when it has not said a word for this long; 0: never.
        backup_nodes: of the nodes, the last ones: they rest until others are lost.
        reconfig_src: a file that says how large tasks are; empty: none does.
        channels: names of channels between programs of tasks.
        services: tasks that run from the beginning, by their uids; other tasks wait for them.
    """

    session_uid: str
    pilot_uid: str
    resource: str
    session_sandbox: str
    sandbox: str
    client: str
    nodes: list[NodeSize]
    runtime_s: float
    kill_delay_s: float
    gpus_per_node: int = 0
    mem_mb: int = 0
    lfs_mb: int = 0
    is_remote: bool = False
    goes_on: bool = True
    services: dict[str, dict[str, Any]] = {}
    silent_s: float = 0.0
    backup_nodes: int = 0
    reconfig_src: str = ""
    channels: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """Those that all tasks have."""
        return {
            "RP_PILOT_ID": self.pilot_uid,
            "RP_SESSION_ID": self.session_uid,
            "RP_RESOURCE": self.resource,
            "RP_RESOURCE_SANDBOX": os.path.dirname(self.session_sandbox),
            "RP_SESSION_SANDBOX": self.session_sandbox,
            "RP_PILOT_SANDBOX": self.sandbox,
        }

    def roots(self, task: str) -> dict[str, str]:
        """The directories of the schemas in staging directives, for the agent's side.

        Args:
            task: the sandbox of the task.
        """
        return {
            "task": task,
            "pilot": self.sandbox,
            "session": self.session_sandbox,
            "resource": os.path.dirname(self.session_sandbox),
            "endpoint": "/",
            "pwd": task,
        }
