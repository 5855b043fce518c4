"""A world of the stand-in for PCTs: its ranks, on which nodes they are, how they ended."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from native.wire.pmi import SpawnCommand
from native.wire.pmix import NamedProcess, TableRow
from tests.support.pmix_node import Node


class World:
    """One namespace.

    Attributes:
        node_of: for each rank, the number of its node.
        commands: for each rank, what it runs.
        running: the ranks that have not ended.
        statuses: exit statuses of those that have, negative for signals.
        unix_pids: of the ranks that have been started.
    """

    def __init__(
        self, nspace: str, node_of: Sequence[int], commands: Sequence[SpawnCommand], first_rank: int
    ) -> None:
        self.nspace = nspace
        self.node_of = tuple(node_of)
        self.commands = tuple(commands)
        self.first_rank = first_rank
        self.environments: dict[int, tuple[bytes, ...]] = {}
        self.added = 0
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.pidfds: dict[int, int] = {}
        self.statuses: dict[int, int] = {}
        self.asked_by: tuple[Node, int] | None = None
        self.unix_pids: dict[int, int] = {}

    def rows_at(self, node: int) -> list[TableRow]:
        """Its processes on a node, as a table has them."""
        return [
            TableRow(NamedProcess(self.nspace, rank), unix_pid, self.commands[rank].program)
            for rank, unix_pid in self.unix_pids.items()
            if self.node_of[rank] == node
        ]
