"""The process table that a PMIx server asks for: the processes of some worlds on a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from native.wire import pmix

if TYPE_CHECKING:
    from native.wire.load import Arguments, Load
    from pct.job.spawned import SpawnedWorlds
    from pct.wireup.world import World


def table(
    serial: int,
    worlds: tuple[World, ...],
    of_job: tuple[Load, Arguments, SpawnedWorlds],
    unix_pids: Mapping[int, int],
) -> pmix.Table:
    """The ranks of this node in these worlds, ascending in each.

    Args:
        serial: of the server's question.
        of_job: tells the programs of each world.
        unix_pids: of ranks that have been started, by rank of the job.
    """
    rows: list[pmix.TableRow] = []
    for world in worlds:
        programs = _programs(world.number, *of_job)
        rows += [
            pmix.TableRow(
                pmix.NamedProcess(world.name, rank),
                unix_pids.get(world.first_rank + rank, 0),
                programs[world.applications[rank]],
            )
            for rank in sorted(world.local)
        ]
    return pmix.Table(serial, tuple(rows))


def _programs(number: int, load: Load, arguments: Arguments, spawned: SpawnedWorlds) -> list[bytes]:
    """The path of each program of a world, as yod named it."""
    if number == 0:
        return [load.objects[member.object_index].path for member in arguments.members]
    spawn = spawned.spawn_of(number)
    return [spawn.paths[member.object_index] for member in spawn.members]
