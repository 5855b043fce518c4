"""What Flux says of the nodes of an instance. Pure, but for the question."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from msgspec import MsgspecError, Struct, field, json
from msgspec.structs import replace

from native.errors import PartitionError, UsageError
from native.nodelist import parse as parse_nodes
from native.text import shown
from partition.find.batch import FLUX, BatchJob, of_hosts
from partition.hosts import names

ASK = ("flux", "resource", "R")  # RFC 20, a resource set
ASK_S = 30.0


class _Entry(Struct):
    rank: str
    children: dict[str, str] = {}


class _Execution(Struct):
    lite: list[_Entry] = field(name="R_lite")
    nodelist: list[str] = []


class _ResourceSet(Struct):
    execution: _Execution


def with_hosts(job: BatchJob, environment: Mapping[str, str]) -> BatchJob:
    """The job with the hosts and cores of its instance.

    Raises:
        PartitionError: Flux does not say them.
    """
    try:
        done = subprocess.run(
            ASK,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartitionError(f"{job}: {' '.join(ASK)}: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise PartitionError(f"{job}: {' '.join(ASK)}: {shown(said) or done.returncode}")
    return of_resources(job.id, done.stdout)


def _idset(text: str) -> tuple[int, ...]:
    return parse_nodes(text.replace("-", ".."))


def of_resources(job_id: str, data: bytes) -> BatchJob:
    """The job of a resource set: a slot for each core.

    Raises:
        PartitionError: it is none.
    """
    source = " ".join(ASK)
    try:
        found = json.decode(data, type=_ResourceSet).execution
        cores = {
            rank: len(_idset(entry.children.get("core", "0")))
            for entry in found.lite
            for rank in _idset(entry.rank)
        }
        hosts = [name for text in found.nodelist for name in names.parse(text)]
    except (MsgspecError, UsageError) as error:
        raise PartitionError(f"{source}: {shown(str(error))}") from None
    ranks = sorted(cores)
    if len(hosts) != len(ranks) or len(set(hosts)) != len(hosts):
        raise PartitionError(f"{source}: {len(hosts)} hosts for {len(ranks)} brokers")
    job = of_hosts(FLUX, job_id, hosts, source, (cores[rank] for rank in ranks))
    return replace(job, firsts=tuple(ranks))
