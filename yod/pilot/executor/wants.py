"""What a call wants of a pilot: the keys of ``resource_dict``, as executorlib has them.

Also the keys of its executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from native.errors import UsageError

_WHERE = "resource_dict"
_NUMBERS: dict[str, tuple[type, ...]] = {
    "cores": (int,),
    "threads_per_core": (int,),
    "gpus_per_core": (int, float),
    "num_nodes": (int,),
    "priority": (int,),
    "run_time_max": (int, float),
    "restart_limit": (int,),
}
_LEAST = {"cores": 1, "threads_per_core": 1, "num_nodes": 1}
# Keys of executorlib's with another meaning than "none" are refused, with what to do instead.
_REFUSED = {
    "cache_key": "results are not kept; keep them yourself",
    "cache_directory": "results are not kept; keep them yourself",
    "error_log_file": "what a worker prints is below the executor's path",
    "exclusive": "ask for all cores of a node",
    "openmpi_oversubscribe": "the pilot counts the cores",
    "slurm_cmd_args": "say it in the description of the pilot",
    "pmi_mode": "ranks find one another by themselves",
}

# Of executorlib's executors: how it does what is done here in any case.
_NO_MATTER = ("block_allocation", "hostname_localhost", "refresh_rate", "log_obj_size", "wait")
_NOT_HERE = {
    "cache_directory": _REFUSED["cache_directory"],
    "disable_dependencies": "arguments that are futures are waited for",
    "export_workflow_filename": "calls are drawn when they have run: yod-pilot plot",
    "openmpi_oversubscribe": _REFUSED["openmpi_oversubscribe"],
    "plot_dependency_graph": "calls are drawn when they have run: yod-pilot plot",
    "plot_dependency_graph_filename": "calls are drawn when they have run: yod-pilot plot",
}


class Kind(Struct, frozen=True):
    """What a worker has to be for a call. Calls of one kind share workers.

    Attributes:
        ranks: processes that each get the call.
        cores, gpus: of each of them.
        nodes: over so many; 0: over any number.
        priority: of the worker, among the tasks of the pilot.
    """

    ranks: int = 1
    cores: int = 1
    gpus: float = 0.0
    nodes: int = 0
    priority: int = 0

    @property
    def size(self) -> int:
        """How many cores it takes."""
        return self.ranks * self.cores

    def description(self) -> dict[str, Any]:
        """The keys of the task that is such a worker."""
        entries: dict[str, Any] = {"ranks": self.ranks, "cores_per_rank": self.cores}
        if self.gpus:
            entries["gpus_per_rank"] = self.gpus
        if self.nodes:
            entries["ranks_per_node"] = -(-self.ranks // self.nodes)
        if self.priority:
            entries["priority"] = self.priority
        return entries


class Wants(Struct, frozen=True):
    """A call's ``resource_dict``, checked.

    Attributes:
        directory: where it runs; empty: in the worker's.
        time_s: it is ended after this; 0: never.
        restarts: it is given back so often when its worker dies.
    """

    kind: Kind = Kind()
    directory: str = ""
    time_s: float = 0.0
    restarts: int = 0


def keys_of_pilot(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of an executor that are its pilot's: without those of executorlib's.

    Raises:
        UsageError: one of those asks for what is not done here.
    """
    for name, why in _NOT_HERE.items():
        if keys.get(name):
            raise UsageError(f"executor: {name!r} is refused: {why}")
    return {n: value for n, value in keys.items() if n not in _NO_MATTER and n not in _NOT_HERE}


def wants_of(*dictionaries: Mapping[str, Any] | None) -> Wants:
    """What dictionaries ask for; later ones go before earlier ones.

    Raises:
        UsageError: a key is wrong; the text has it.
    """
    entries: dict[str, Any] = {}
    for each in dictionaries:
        entries |= each or {}
    for name, value in entries.items():
        _check(name, value)
    numbers = {name: entries.get(name) or 0 for name in _NUMBERS}
    kind = Kind(
        numbers["cores"] or 1,
        numbers["threads_per_core"] or 1,
        float(numbers["gpus_per_core"]),
        numbers["num_nodes"],
        numbers["priority"],
    )
    directory = entries.get("cwd") or ""
    return Wants(kind, directory, float(numbers["run_time_max"]), numbers["restart_limit"])


def _check(name: str, value: object) -> None:
    if name in _REFUSED:
        if value:
            raise UsageError(f"{_WHERE}: {name!r} is refused: {_REFUSED[name]}")
        return
    if name == "cwd":
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{_WHERE}: 'cwd' is {value!r}; it is to be of type str")
        return
    kinds = _NUMBERS.get(name)
    if kinds is None:
        from difflib import get_close_matches

        meant = get_close_matches(name, [*_NUMBERS, "cwd"], 1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        raise UsageError(f"{_WHERE}: there is no key {name!r}{hint}")
    if value is None:
        return
    if not isinstance(value, kinds) or isinstance(value, bool):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise UsageError(f"{_WHERE}: {name!r} is {value!r}; it is to be of type {wanted}")
    least = _LEAST.get(name, 0)
    if name != "priority" and value < least:  # type: ignore[operator]
        raise UsageError(f"{_WHERE}: {name!r} is {value!r}, which is less than {least}")
