"""Slots that a Python program holds, for steps: ``yodjob alloc --json`` in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from math import inf
from types import TracebackType
from typing import Self

from msgspec import MsgspecError, Struct, json

from native.errors import UsageError, YodError
from yod.guest.choices import Nodes
from yod.guest.request import text_of

_PREFIX = "yodjob: "


class _Held(Struct):
    """What ``yodjob alloc --json`` says."""

    id: str
    environment: dict[str, str]


class Allocation:
    """Slots, from the beginning of a ``with`` or ``async with`` block to its end.

    What is launched with ``allocation=`` runs in it as a step. Behind the block no step is left.

    Args:
        words: arguments of ``yodjob alloc``.
    """

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self._held: _Held | None = None

    @property
    def id(self) -> str:
        """What yodjob calls it."""
        return self._now.id

    @property
    def variables(self) -> dict[str, str]:
        """What a program that runs ``yod`` in it needs in its environment."""
        return dict(self._now.environment)

    @property
    def slots(self) -> dict[str, int]:
        """The slots on each node, by the node's name."""
        names, slots = self.variables["YOD_NODE_NAMES"], self.variables["YOD_NODE_SLOTS"]
        return dict(zip(names.split(","), map(int, slots.split(",")), strict=True))

    @property
    def is_lost(self) -> bool:
        """It has ended before its block: by its time, a lost node, ``yodjob cancel``."""
        process = self._process
        return self._held is not None and process is not None and process.poll() is not None

    def __enter__(self) -> Self:
        self._start()
        try:
            self._take()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._start()
        taken = loop.run_in_executor(None, self._take)
        try:
            await asyncio.shield(taken)
        except BaseException:
            assert self._process is not None
            self._process.terminate()  # it may wait in the line
            await asyncio.wait([taken])
            taken.exception()  # we know why
            await loop.run_in_executor(None, self._end)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ending = asyncio.get_running_loop().run_in_executor(None, self._end)
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    @property
    def _now(self) -> _Held:
        if self._held is None:
            raise RuntimeError("an allocation is held inside `with` or `async with`")
        return self._held

    def _start(self) -> None:
        if self._process is not None:
            raise RuntimeError("an allocation is held once")
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", "-m", "partition.yodjob", "alloc", "--json", *self._words]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def _take(self) -> None:
        """Wait until the slots are held.

        Raises:
            YodError: they are not; the text says why.
        """
        process = self._process
        assert process is not None and process.stdout is not None
        try:
            self._held = json.decode(process.stdout.readline(), type=_Held)
        except MsgspecError:
            _, said = process.communicate()
            lines = said.decode(errors="replace").splitlines() or [f"ended with {process.wait()}"]
            raise YodError(lines[-1].removeprefix(_PREFIX)) from None

    def _end(self) -> None:
        """Give the slots back, and wait until nothing is left of the steps."""
        assert self._process is not None
        self._process.communicate()
        self._held = None


def allocate(
    size: int | None = None,
    *,
    nodes: Nodes = (),
    node_count: int | None = None,
    ranks_per_node: int | None = None,
    cores_per_rank: int | None = None,
    mem: str = "",
    mem_per_rank: str = "",
    gpus_per_node: int | None = None,
    gpus_per_rank: int | None = None,
    ranks_per_socket: int | None = None,
    sockets_per_node: int | None = None,
    ranks_per_numa: int | None = None,
    ranks_per_core: int | None = None,
    threads_per_core: int | None = None,
    distribution: str | None = None,
    exclusive: bool = False,
    constraint: str = "",
    switches: str = "",
    exclude: Nodes = (),
    partition: str = "",
    wait_s: float = inf,
    time_s: float = inf,
) -> Allocation:
    """Slots to be held by ``with`` or ``async with``.

    Args:
        size: slots. Default: one on each of ``nodes``, or 1.
        nodes: only of these nodes: numbers, or text such as ``5,1..3``.
        node_count: on so many nodes; without a size a slot on each.
        ranks_per_node: at most so many slots on each node; without a size so many.
        cores_per_rank: slots for each of ``size``.
        mem: memory on each node, such as ``4G``.
        mem_per_rank: memory for each of ``size``.
        gpus_per_node: GPUs on each node.
        gpus_per_rank: GPUs for each of ``size``.
        ranks_per_socket, sockets_per_node, ranks_per_numa, ranks_per_core, threads_per_core: cores
            that are the allocation's own, as by the options of these names.
        distribution: ``block``, ``cyclic`` or ``plane=K``, how the slots lie on the nodes.
        exclusive: all slots of whole nodes, which nobody else uses.
        constraint: features of the nodes, such as ``gpu&ib``.
        switches: below so few leaf switches, as ``--switches``: ``1``, ``2@30:00``.
        exclude: none of these nodes: numbers, or text such as ``3,5..7,n9``.
        partition: ``host:port``, ``unix:PATH`` or ``embedded``. Default: as docs/yod.md says.
        wait_s: how long to wait for nodes that others have.
        time_s: how long the allocation may last, in whole seconds.

    Raises:
        UsageError: a negative wait, or less than a second.
    """
    if not (wait_s >= 0 and time_s >= 1):
        raise UsageError(f"wait_s={wait_s}, time_s={time_s}: at least 0 and 1 seconds")
    text = text_of(nodes)
    words = ["-quiet", *(("-sz", str(size)) if size is not None else ())]
    words += ["-list", text] if text else []
    for option, count in (
        ("-N", node_count),
        ("--ranks-per-node", ranks_per_node),
        ("--cores-per-rank", cores_per_rank),
        ("--mem", mem or None),
        ("--mem-per-rank", mem_per_rank or None),
        ("--gpus-per-node", gpus_per_node),
        ("--gpus-per-rank", gpus_per_rank),
        ("--ranks-per-socket", ranks_per_socket),
        ("--sockets-per-node", sockets_per_node),
        ("--ranks-per-numa", ranks_per_numa),
        ("--ranks-per-core", ranks_per_core),
        ("--threads-per-core", threads_per_core),
        ("--distribution", distribution),
        ("--constraint", constraint or None),
        ("--switches", switches or None),
        ("--exclude", text_of(exclude) or None),
    ):
        words += [option, str(count)] if count is not None else []
    words += ["--exclusive"] if exclusive else []
    words += ["--partition", partition] if partition else []
    words += ["-wait", str(wait_s)] if wait_s < inf else []
    words += ["-time", f"0:{round(time_s)}"] if time_s < inf else []
    return Allocation(words)
