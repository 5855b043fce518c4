"""How much processor time ranks have used, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from native.host.process import program_behind, stat_of

_TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
_PARENT, _SESSION = 1, 3  # fields of /proc/PID/stat behind the name
_TIMES = slice(11, 15)  # own and that of children that have been waited for, by user and system


def read(unix_pids: Mapping[int, int], *, is_whole: bool) -> dict[int, int]:
    """Milliseconds of each rank; one that has ended is left out.

    Args:
        unix_pids: by rank.
        is_whole: with the processes of its session, and all that they have started.
    """
    if is_whole:
        return _of_all(unix_pids)
    found = {rank: stat_of(unix_pid) for rank, unix_pid in unix_pids.items()}
    return {rank: _used(fields) for rank, fields in found.items() if fields}


def _of_all(unix_pids: Mapping[int, int]) -> dict[int, int]:
    """One pass over the processes of this host."""
    stats = {int(name): stat_of(name) for name in os.listdir("/proc") if name.isdigit()}
    rank_of = {unix_pid: rank for rank, unix_pid in unix_pids.items()}
    for own in list(rank_of):  # a program below yod-init has another session
        if (program := program_behind(own)) != own and stats.get(program):
            rank_of[int(stats[program][_SESSION])] = rank_of[program] = rank_of[own]
    found = {rank: 0 for rank, unix_pid in unix_pids.items() if stats.get(unix_pid)}
    for unix_pid, fields in stats.items():
        if not fields:
            continue
        rank = rank_of.get(int(fields[_SESSION]))
        above, steps = unix_pid, len(stats)
        while rank is None and above in stats and stats[above] and steps:
            rank, steps = rank_of.get(above), steps - 1
            above = int(stats[above][_PARENT])
        if rank in found:
            found[rank] += _used(fields)
    return found


def _used(fields: list[bytes]) -> int:
    return sum(map(int, fields[_TIMES])) * _TICK_MS
