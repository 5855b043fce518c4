"""Slots that the application has chosen for a task, in the reference's words and in ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from yod.pilot.model.sizes import GPU_PARTS, ChosenSlot

_KNOWN = ("cores", "gpus", "lfs", "mem", "node", "node_index", "node_name", "version")
_INDEX_MAX = 1 << 20


class Chosen(Struct, frozen=True):
    """The slots of all ranks, which are alike in what they have.

    Attributes:
        gpu_parts: of each rank, in ``GPU_PARTS``.
    """

    slots: tuple[ChosenSlot, ...]
    gpu_parts: int = 0
    mem_mb: int = 0
    lfs_mb: int = 0


def read_slots(slots: Sequence[object]) -> Chosen:
    """Read the value of the key ``slots``.

    Raises:
        ValueError: it is wrong; the text says how.
    """
    read = [_slot(rank, slot) for rank, slot in enumerate(slots)]
    first, parts, mem, lfs = read[0]
    for rank, (slot, *more) in enumerate(read):
        same = len(slot.cores) == len(first.cores) and len(slot.gpus) == len(first.gpus)
        if not same or more != [parts, mem, lfs]:
            raise ValueError(f"has other amounts for rank {rank} than for rank 0")
    taken: set[tuple[int, str, int]] = set()
    for slot, *_ in read:
        cores = {(slot.node, slot.name, core) for core in slot.cores}
        if taken & cores:
            _, _, core = min(taken & cores)
            raise ValueError(f"gives core {core} of {slot.name or slot.node} to two ranks")
        taken |= cores
    return Chosen(tuple(slot for slot, *_ in read), parts, mem, lfs)


def plain(chosen: Chosen) -> list[dict[str, object]]:
    """Slots as plain values, whatever they were made of."""
    return [
        {
            **({"node_name": slot.name} if slot.name else {"node_index": slot.node}),
            "cores": list(slot.cores),
            "gpus": [[gpu, min(chosen.gpu_parts / GPU_PARTS, 1.0)] for gpu in slot.gpus],
            "mem": chosen.mem_mb,
            "lfs": chosen.lfs_mb,
        }
        for slot in chosen.slots
    ]


def slots_complaint(value: Sequence[object]) -> str:
    """What is wrong with a value of the key ``slots``; empty: nothing."""
    try:
        if value:
            read_slots(value)
    except ValueError as error:
        return str(error)
    return ""


def _slot(rank: int, slot: object) -> tuple[ChosenSlot, int, int, int]:
    where = f"for rank {rank}"
    if not isinstance(slot, Mapping):
        raise ValueError(f"has {slot!r} {where}, which is no dictionary")
    wrong = next((name for name in slot if name not in _KNOWN), None)
    if wrong is not None:
        raise ValueError(f"has {wrong!r} {where}; known are {', '.join(_KNOWN)}")
    cores, occupied = _indices(slot.get("cores"), "cores", where)
    if not cores:
        raise ValueError(f"has no cores {where}")
    if any(each != 1.0 for each in occupied):
        raise ValueError(f"has a part of a core {where}: a core belongs to one rank")
    gpus, parts = _indices(slot.get("gpus"), "gpus", where)
    part = parts[0] if parts else 0.0
    if any(each != part for each in parts) or (len(gpus) > 1 and part != 1.0):
        raise ValueError(f"has parts of several GPUs {where}")
    name = str(slot.get("node_name") or slot.get("node") or "")
    node = slot.get("node_index", -1 if name else 0)
    if not isinstance(node, int) or isinstance(node, bool) or not -1 <= node < _INDEX_MAX:
        raise ValueError(f"has the node_index {node!r} {where}")
    mem, lfs = (_amount(slot.get(key) or 0, key, where) for key in ("mem", "lfs"))
    share = round(part * GPU_PARTS) * len(gpus)
    return ChosenSlot(node, "" if node >= 0 else name, cores, gpus), share, mem, lfs


def _indices(value: Any, key: str, where: str) -> tuple[tuple[int, ...], list[float]]:
    """Numbers of cores or GPUs, and how much of each is taken."""
    numbers: list[int] = []
    occupied: list[float] = []
    for each in value or ():
        pair: tuple[Any, ...]
        if isinstance(each, Mapping):
            pair = (each.get("index"), each.get("occupation", 1.0))
        elif isinstance(each, list | tuple):
            pair = tuple(each)
        else:
            pair = (each, 1.0)
        is_one = len(pair) == 2 and type(pair[0]) is int and 0 <= pair[0] < _INDEX_MAX
        if not is_one or not isinstance(pair[1], int | float) or not 0 < pair[1] <= 1:
            raise ValueError(f"has {each!r} among the {key} {where}")
        numbers.append(pair[0])
        occupied.append(float(pair[1]))
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"has one of the {key} twice {where}")
    return tuple(numbers), occupied


def _amount(value: object, key: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"has {value!r} as {key} {where}")
    return int(value)
