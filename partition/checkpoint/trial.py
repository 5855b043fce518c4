"""Looks whether the ranks of a node could be written down, and changes nothing."""

from __future__ import annotations

from partition.checkpoint.collecting import NotSavedError, demand_handled
from partition.checkpoint.dumping import in_the_way


def demand_possible(signal_number: int, unix_pids: dict[int, int]) -> None:
    """Do nothing if the ranks could be written down, as far as it can be seen.

    Args:
        signal_number: by which they save themselves; 0: CRIU writes them down.
        unix_pids: of the ranks.

    Raises:
        NotSavedError: they could not; the text names what stands in the way.
    """
    if not signal_number:
        if found := in_the_way(unix_pids):
            raise NotSavedError(found)
        return
    for rank, unix_pid in unix_pids.items():
        demand_handled(rank, unix_pid, signal_number)
