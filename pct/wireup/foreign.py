"""Settings with which a foreign ``mpirun`` inside a job starts its daemons through our PCTs.

They make each launcher use ``yod-agent`` as its remote shell and the job's nodes as its
hosts, and ignore the batch system that the job may run in. Names and formats are those of
PRRTE 3 (Open MPI 5), Open MPI 4.1, MPICH's Hydra and Intel's.
"""

from __future__ import annotations

from collections.abc import Sequence

from native.wire.load import Load


def nodes_of(load: Load) -> tuple[tuple[str, int], ...]:
    """Name and ranks of each node of a job that has any, in the order of its places."""
    counts = load.runs.counts(len(load.nodes))
    return tuple(
        (name, count) for name, count in zip(load.nodes.names(), counts, strict=True) if count
    )


def host_files(nodes: Sequence[tuple[str, int]]) -> tuple[bytes, bytes]:
    """The hosts for both Open MPIs, and those for both Hydras.

    Args:
        nodes: name of a node, and how many ranks of the job it has.
    """
    open_mpi = "".join(f"{name} slots={slots}\n" for name, slots in nodes)
    hydra = "".join(f"{name}:{slots}\n" for name, slots in nodes)
    return open_mpi.encode(), hydra.encode()


def variables(
    agent: bytes, hostfile_openmpi: bytes = b"", hostfile_hydra: bytes = b""
) -> tuple[bytes, ...]:
    """``NAME=value`` for a job's ranks, each to be set where the user has not.

    Args:
        agent: path of ``yod-agent``; Open MPI takes no blank and no colon in it.
        hostfile_openmpi, hostfile_hydra: paths of what :func:`host_files` gives; empty:
            the job is on one node, which needs no list.
    """
    wanted = (
        b"PRTE_MCA_plm=ssh",
        b"PRTE_MCA_plm_ssh_agent=" + agent,
        b"PRTE_MCA_ras=^slurm,pbs,lsf,gridengine,flux",
        b"PRTE_MCA_prte_default_hostfile=" + hostfile_openmpi,
        b"OMPI_MCA_plm=rsh",
        b"OMPI_MCA_plm_rsh_agent=" + agent,
        b"OMPI_MCA_ras=^slurm,tm,lsf,gridengine,alps",
        b"OMPI_MCA_orte_default_hostfile=" + hostfile_openmpi,
        b"HYDRA_BOOTSTRAP=rsh",
        b"HYDRA_BOOTSTRAP_EXEC=" + agent,
        b"HYDRA_HOST_FILE=" + hostfile_hydra,
        b"I_MPI_HYDRA_BOOTSTRAP=rsh",
        b"I_MPI_HYDRA_BOOTSTRAP_EXEC=" + agent,
        b"I_MPI_HYDRA_HOST_FILE=" + hostfile_hydra,
    )
    return tuple(entry for entry in wanted if not entry.endswith(b"="))
