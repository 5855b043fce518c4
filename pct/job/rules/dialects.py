"""Rank variables of other launchers and frameworks, beside ours. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from native.ids import name_of_job
from native.wire import keeper
from native.wire.alloc import Credential
from native.wire.group import Dialect
from native.wire.load import Load

NAMES_BYTES = 32 * 1024  # a list of nodes that is longer is left out
FIRST_PORT, PORTS = 12000, 16000  # below those that Linux gives to anybody
_NIDS_IN_TABLE = 1 << 24  # below it a nid is no IPv4 address


class Where(NamedTuple):
    """A rank, its node and its job.

    Attributes:
        node: index of its node among those of the job.
        nodes: their names.
        cores: that the rank has.
        job_id: as users call it: ``17``, or ``17.3`` of a step.
        master: address or name of rank 0's node.
        lot: a number that all ranks of the job know and others do not have.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    node: int
    nodes: tuple[str, ...]
    cores: int
    job_id: str
    master: str
    lot: int


def with_dialects(
    ranks: tuple[keeper.RankSpec, ...], cores: Sequence[int], message: Load, credential: Credential
) -> tuple[keeper.RankSpec, ...]:
    """The ranks of a node, each with the variables of the load's dialects.

    Args:
        ranks: as they are without.
        cores: that each of them has.
    """
    first = message.nodes[next(message.runs.places())]
    if len(message.nodes) == 1:
        master = "127.0.0.1"
    elif first.nid >= _NIDS_IN_TABLE:
        master = ".".join(str(first.nid >> shift & 0xFF) for shift in (24, 16, 8, 0))
    else:
        master = first.name
    at = Where(
        rank=0,
        size=sum(run.count for run in message.runs),
        local_rank=0,
        local_size=len(ranks),
        node=message.place,
        nodes=tuple(node.name for node in message.nodes),
        cores=1,
        job_id=name_of_job(message.job_id, credential.allocation),
        master=master,
        lot=int.from_bytes(message.credential_mac[:4], "big"),
    )
    return tuple(
        replace(
            spec,
            environment=spec.environment
            + entries(
                message.dialects, at._replace(rank=spec.rank, local_rank=number, cores=count)
            ),
        )
        for number, (spec, count) in enumerate(zip(ranks, cores, strict=True))
    )


def entries(dialects: Iterable[Dialect], at: Where) -> tuple[bytes, ...]:
    """The variables of one rank, as ``NAME=value``."""
    return tuple(
        f"{name}={value}".encode()
        for dialect in dialects
        for name, value in _OF[dialect](at).items()
    )


def _slurm(at: Where) -> dict[str, object]:
    job, _, step = at.job_id.partition(".")
    found: dict[str, object] = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_STEP_ID": step or 0,
        "SLURM_PROCID": at.rank,
        "SLURM_NTASKS": at.size,
        "SLURM_NPROCS": at.size,
        "SLURM_LOCALID": at.local_rank,
        "SLURM_NODEID": at.node,
        "SLURM_NNODES": len(at.nodes),
        "SLURM_JOB_NUM_NODES": len(at.nodes),
        "SLURM_STEP_NUM_NODES": len(at.nodes),
        "SLURM_STEP_NUM_TASKS": at.size,
        "SLURM_CPUS_PER_TASK": at.cores,
        "SLURMD_NODENAME": at.nodes[at.node],
    }
    names = ",".join(at.nodes)
    if len(names) <= NAMES_BYTES:
        found |= dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), names)
    return found


def _pals(at: Where) -> dict[str, object]:
    return {
        "PALS_RANKID": at.rank,
        "PALS_SIZE": at.size,
        "PALS_LOCAL_RANKID": at.local_rank,
        "PALS_LOCAL_SIZE": at.local_size,
        "PALS_NODEID": at.node,
    }


def _flux(at: Where) -> dict[str, object]:
    return {
        "FLUX_JOB_ID": at.job_id,
        "FLUX_JOB_SIZE": at.size,
        "FLUX_JOB_NNODES": len(at.nodes),
        "FLUX_TASK_RANK": at.rank,
        "FLUX_TASK_LOCAL_ID": at.local_rank,
    }


def _ompi(at: Where) -> dict[str, object]:
    return {
        "OMPI_COMM_WORLD_RANK": at.rank,
        "OMPI_COMM_WORLD_SIZE": at.size,
        "OMPI_COMM_WORLD_LOCAL_RANK": at.local_rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": at.local_size,
        "OMPI_COMM_WORLD_NODE_RANK": at.local_rank,
    }


def _torch(at: Where) -> dict[str, object]:
    return {
        "RANK": at.rank,
        "WORLD_SIZE": at.size,
        "LOCAL_RANK": at.local_rank,
        "LOCAL_WORLD_SIZE": at.local_size,
        "GROUP_RANK": at.node,
        "GROUP_WORLD_SIZE": len(at.nodes),
        "MASTER_ADDR": at.master,
        "MASTER_PORT": FIRST_PORT + at.lot % PORTS,
    }


_OF: dict[Dialect, Callable[[Where], dict[str, object]]] = {
    Dialect.SLURM: _slurm,
    Dialect.PALS: _pals,
    Dialect.FLUX: _flux,
    Dialect.OMPI: _ompi,
    Dialect.TORCH: _torch,
}
