"""Sizes of nodes, needs of tasks, slots of ranks.

Amounts of GPUs are whole numbers of ``GPU_PARTS``, so that what has been taken and given back is
exactly what there was.
"""

from __future__ import annotations

from msgspec import Struct

GPU_PARTS = 10_000  # of one GPU


class NodeSize(Struct, frozen=True):
    """What one node has.

    Attributes:
        mem_mb, lfs_mb: 0: nobody counts them.
    """

    name: str
    cores: int
    gpus: int = 0
    mem_mb: int = 0
    lfs_mb: int = 0


class ChosenSlot(Struct, frozen=True):
    """Where the application wants one rank.

    Attributes:
        node: its index; -1: it is named.
        name: empty: it has an index.
        cores, gpus: indices on the node.
    """

    node: int
    name: str
    cores: tuple[int, ...]
    gpus: tuple[int, ...] = ()


class Need(Struct, frozen=True):
    """What each rank of a task needs, and how many ranks there are.

    Attributes:
        gpu_parts: of GPUs, in ``GPU_PARTS``; above one GPU a multiple of it.
        is_spread: ranks may lie on several nodes.
        ranks_per_node: at most so many on each node; 0: any number.
        tag: tasks with the same tag lie on the same nodes; empty: none.
        is_exclusive: no task with another tag lies on the nodes of the tag.
        chosen: the slots that the application has chosen; empty: the agent chooses.
    """

    ranks: int = 1
    cores: int = 1
    gpu_parts: int = 0
    mem_mb: int = 0
    lfs_mb: int = 0
    is_spread: bool = False
    ranks_per_node: int = 0
    tag: str = ""
    is_exclusive: bool = False
    chosen: tuple[ChosenSlot, ...] = ()

    @property
    def size(self) -> int:
        """How large it is, beside others that wait."""
        return self.ranks * (self.cores + self.gpu_parts // GPU_PARTS)


class RankSlot(Struct, frozen=True):
    """Where one rank runs.

    Attributes:
        node: index.
        cores, gpus: indices on the node.
    """

    node: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...] = ()
