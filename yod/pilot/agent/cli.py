"""The program of an agent: ``python -m yod.pilot.agent.cli SETTINGS``, for clients only."""

from __future__ import annotations

import os
import sys

from msgspec import json
from msgspec.structs import replace

from native.errors import YodError
from native.loop.daemon import settle
from native.loop.reactor import Reactor
from yod.pilot.agent.agent import Agent
from yod.pilot.agent.settings import Settings
from yod.pilot.model.sizes import NodeSize

LOG = "agent.log"  # in the pilot's sandbox
PID_FILE = "agent.pid"


def nodes_of(settings: Settings) -> list[NodeSize]:
    """The nodes of the pilot: as its client says, or as the allocation has them.

    Raises:
        YodError: neither says.
    """
    if settings.nodes:
        return settings.nodes
    names = os.environ.get("YOD_NODE_NAMES")
    if not names:
        raise YodError("the agent is in no allocation")
    slots = os.environ["YOD_NODE_SLOTS"].split(",")
    size = NodeSize("", 1, settings.gpus_per_node, settings.mem_mb, settings.lfs_mb)
    return [
        replace(size, name=name, cores=int(count))
        for name, count in zip(names.split(","), slots, strict=True)
    ]


def main() -> int:
    """Run one agent until its pilot is over."""
    settings = json.decode(sys.argv[1], type=Settings)
    log = os.open(os.path.join(settings.sandbox, LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    os.close(log)
    with open(os.path.join(settings.sandbox, PID_FILE), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    reactor = Reactor()
    try:
        agent = Agent(settings, nodes_of(settings), reactor, reactor.stop)
        agent.start()
    except (YodError, OSError) as error:
        print(f"agent of {settings.pilot_uid}: {error}", file=sys.stderr)
        return 1
    settle()
    reactor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
