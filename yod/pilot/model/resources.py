"""On what pilots run: resources, as RADICAL-Pilot's configuration files describe them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from native.errors import UsageError

LOCAL = "local.localhost"
PARTITION = "yod.partition"

HERE, OWN, FORK = "here", "yod", "fork"  # managers beside the batch systems
_MANAGERS = {
    "slurm": "slurm",
    **dict.fromkeys(("pbs", "pbspro", "torque"), "pbs"),
    "oar": "oar",
    "fork": FORK,
}
_ELSEWHERE = "pilots are handed in from the host of the application: run it on the login node"

# Keys of a resource that say nothing here: an agent finds out by itself, or does it its own way.
_WITHOUT_MEANING = frozenset(
    (
        *("label", "description", "notes", "default_schema", "schemas", "raptor", "agent_config"),
        *("resource_manager", "agent_scheduler", "agent_spawner", "launch_methods", "rp_version"),
        *("filesystem_endpoint", "default_remote_workdir", "python_dist", "python_interpreter"),
        *("numa_domain_map", "network_interface", "fake_resources", "new_session_per_task"),
        *("lfs_path_per_node", "task_tmp", "stage_cacerts", "cacerts_url", "virtenv_dist"),
        *("scattered", "mem_per_gpu"),
    )
)
_OBEYED = frozenset(
    (
        *("job_manager_endpoint", "default_queue", "default_project", "cores_per_node"),
        *("gpus_per_node", "mem_per_node", "lfs_size_per_node", "pre_bootstrap_0"),
        *("pre_bootstrap_1", "virtenv", "virtenv_mode", "system_architecture", "mandatory_args"),
    )
)
_REFUSED = {
    "job_manager_hop": _ELSEWHERE,
    "forward_tunnel_endpoint": "there is no tunnel: agents dial the application's host"
    " (YOD_PILOT_HOST says by which address)",
    "tunnel_bind_device": "there is no tunnel: agents dial the application's host"
    " (YOD_PILOT_HOST says by which address)",
    "task_pre_launch": "say it in the descriptions of tasks: 'pre_launch'",
    "task_post_launch": "say it in the descriptions of tasks: 'post_launch'",
    "task_pre_exec": "say it in the descriptions of tasks: 'pre_exec'",
    "task_post_exec": "say it in the descriptions of tasks: 'post_exec'",
    "n_partitions": "an agent has one partition",
}
_OF_ARCHITECTURE = frozenset(
    ("options", "exclusive", "smt", "gpu", "oversubscribe", "blocked_cores", "blocked_gpus")
)
_ENVIRONMENTS = ("", "local", "installed", "use")  # modes of a virtual environment that is there


class Resource(Struct, frozen=True):
    """A place for pilots.

    Attributes:
        label: its name.
        description: for people.
        manager: who starts an agent: this process, this partition, a batch system, or a shell in
            the batch job that is there.
        cores_per_node, gpus_per_node, mem_per_node, lfs_per_node: 0: not known; the last two in MB.
        before: commands that come first in a job.
        options: of its jobs; is_exclusive: nobody else is on their nodes.
        mandatory: keys that a pilot's description has to have.
        entries: as they are in the file.
    """

    label: str
    description: str
    manager: str
    queue: str = ""
    project: str = ""
    cores_per_node: int = 0
    gpus_per_node: int = 0
    mem_per_node: int = 0
    lfs_per_node: int = 0
    before: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    is_exclusive: bool = False
    mandatory: tuple[str, ...] = ()
    entries: dict[str, Any] = {}

    @property
    def is_local(self) -> bool:
        """The agent runs on this host as a process of the user's."""
        return self.manager == HERE

    @property
    def is_job(self) -> bool:
        """The agent runs in a job of a batch system."""
        return self.manager not in (HERE, OWN)

    def as_dict(self) -> dict[str, Any]:
        """Its entries."""
        own = {"label": self.label, "description": self.description, "manager": self.manager}
        return {**self.entries, **own}


BUILT_IN = {
    each.label: each
    for each in (
        Resource(LOCAL, "this host", HERE),
        Resource(PARTITION, "an allocation of the partition that yod would use", OWN),
        Resource("slurm.here", "jobs of the Slurm of this host", "slurm"),
        Resource("pbs.here", "jobs of the PBS of this host", "pbs"),
        Resource("oar.here", "jobs of the OAR of this host", "oar"),
        Resource("job.here", "the nodes of the batch job that the application runs in", FORK),
    )
}


def resource_of_entries(
    label: str, entries: Mapping[str, Any], schema: str, where: str
) -> Resource:
    """A resource of a configuration file.

    Args:
        schema: how it is reached; empty: by its default.
        where: the name of the file, for errors.

    Raises:
        UsageError: an entry is wrong, unknown, or asks for what is not there.
    """
    at = f"{where}: {label}"
    merged = dict(entries)
    schemas = entries.get("schemas") or {}
    if not isinstance(schemas, dict):
        raise UsageError(f"{at}: 'schemas' is no table of schemas")
    name = schema or str(entries.get("default_schema") or next(iter(schemas), ""))
    if schemas:
        if name not in schemas or not isinstance(schemas[name], dict):
            raise UsageError(f"{at}: there is no schema {name!r}; known are {', '.join(schemas)}")
        merged |= schemas[name]
    for key, value in merged.items():
        if key in _REFUSED and value not in (None, "", [], 0, 1):
            raise UsageError(f"{at}: {key!r} cannot be obeyed: {_REFUSED[key]}")
        if key not in _OBEYED and key not in _WITHOUT_MEANING and key not in _REFUSED:
            from difflib import get_close_matches

            near = get_close_matches(key, [*_OBEYED, *_WITHOUT_MEANING], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"{at}: there is no key {key!r}{hint}")
    own = merged.get("system_architecture") or {}
    for key in own:
        if key not in _OF_ARCHITECTURE:
            raise UsageError(f"{at}: 'system_architecture' has no key {key!r}")
    for key in ("blocked_cores", "blocked_gpus"):
        if own.get(key):
            raise UsageError(f"{at}: {key!r} cannot be obeyed: say how many the job asks for")
    return Resource(
        label,
        _text(merged, "description", at),
        _manager(_text(merged, "job_manager_endpoint", at), at),
        _text(merged, "default_queue", at),
        _text(merged, "default_project", at),
        _count(merged, "cores_per_node", at) * max(1, _count(own, "smt", at)),
        _count(merged, "gpus_per_node", at),
        _count(merged, "mem_per_node", at),
        _count(merged, "lfs_size_per_node", at),
        (
            *_texts(merged, "pre_bootstrap_0", at),
            *_texts(merged, "pre_bootstrap_1", at),
            *_environment(merged, at),
        ),
        _texts(own, "options", at),
        bool(own.get("exclusive")),
        _texts(merged, "mandatory_args", at),
        dict(entries),
    )


def lines_of(text: str) -> str:
    """A file of the reference's without its lines of comment, which JSON does not have."""
    return "\n".join("" if re.match(r"\s*#", line) else line for line in text.split("\n"))


def _manager(endpoint: str, at: str) -> str:
    schema = endpoint.partition("://")[0]
    found = _MANAGERS.get(schema)
    if found is None and "ssh" in schema.split("+"):
        raise UsageError(f"{at}: {endpoint}: {_ELSEWHERE}, with the schema 'local'")
    if found is None:
        known = ", ".join(f"{each}://" for each in _MANAGERS)
        raise UsageError(f"{at}: 'job_manager_endpoint' is {endpoint!r}; known are {known}")
    return found


def _environment(entries: Mapping[str, Any], at: str) -> tuple[str, ...]:
    mode, path = _text(entries, "virtenv_mode", at), _text(entries, "virtenv", at)
    if mode not in _ENVIRONMENTS:
        raise UsageError(
            f"{at}: 'virtenv_mode' is {mode!r}, and nothing is installed there:"
            " make the environment, and say 'use'"
        )
    # A path may have variables of the target.
    return (f'. "{path}/bin/activate"',) if path and mode != "installed" else ()


def _text(entries: Mapping[str, Any], key: str, at: str) -> str:
    value = entries.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{at}: {key!r} is {value!r}, which is no text")
    return value or ""


def _count(entries: Mapping[str, Any], key: str, at: str) -> int:
    value = entries.get(key)
    if value is not None and (not isinstance(value, int) or value < 0):
        raise UsageError(f"{at}: {key!r} is {value!r}, which is no number of 0 or more")
    return value or 0


def _texts(entries: Mapping[str, Any], key: str, at: str) -> tuple[str, ...]:
    value = entries.get(key) or []
    each = [value] if isinstance(value, str) else value
    if not isinstance(each, list) or not all(isinstance(one, str) for one in each):
        raise UsageError(f"{at}: {key!r} is {value!r}, which is no list of texts")
    return tuple(each)
