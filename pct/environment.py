"""The environment of a rank: the user's, our variables, the wire-up's.

What an outer launcher left (mpirun around yod, a batch step) is removed: a rank
that believes it belongs to another world would start alone or hang. A user's
settings of a library (``OMPI_MCA_*``, ``PMIX_MCA_*``, ``I_MPI_*``) are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

_OUTER_PREFIXES = (
    b"PMI_",
    b"PMIX_",
    b"OMPI_COMM_WORLD_",
    b"OMPI_UNIVERSE_",
    b"OMPI_APP_CTX_",
    b"OMPI_FILE_LOCATION",
    b"OMPI_FIRST_RANKS",
    b"OMPI_NUM_APP_CTX",
    b"OMPI_MCA_ess_base_",
    b"OMPI_MCA_orte_",
    b"PRTE_",
    b"HYDI_",
    b"HYDRA_",
    b"MPI_LOCALRANKID",
    b"MPI_LOCALNRANKS",
    b"MPIRUN_",
    b"PALS_",
    b"FLUX_TASK_",
    b"SLURM_STEP",
    b"SLURM_SRUN_",
    b"SLURM_PROCID",
    b"SLURM_LOCALID",
    b"SLURM_NODEID",
    b"SLURM_TASK_PID",
    b"SLURM_LAUNCH_NODE_IPADDR",
    b"SLURM_GTIDS",
    b"YOD_JOB_ID",
    b"YOD_RANK",
    b"YOD_SIZE",
    b"YOD_LOCAL_",
    b"YOD_NODE",
    b"YOD_MEMBER",
)
_KEPT_PREFIXES = (b"PMIX_MCA_", b"PRTE_MCA_")


def for_job(user: Iterable[bytes], job_id: int, size: int) -> tuple[bytes, ...]:
    """What all ranks of a job share. Entries are ``NAME=value``."""
    kept = [
        entry
        for entry in user
        if not entry.startswith(_OUTER_PREFIXES) or entry.startswith(_KEPT_PREFIXES)
    ]
    kept.append(b"YOD_JOB_ID=%d" % job_id)
    kept.append(b"YOD_SIZE=%d" % size)
    return tuple(kept)


def for_node(node: int, name: str, local_size: int) -> tuple[bytes, ...]:
    """What the ranks of one node share."""
    return (
        b"YOD_NODE=%d" % node,
        b"YOD_NODE_NAME=" + name.encode(),
        b"YOD_LOCAL_SIZE=%d" % local_size,
        b"MPI_LOCALNRANKS=%d" % local_size,
    )


def for_rank(
    rank: int, local_rank: int, member: int, size: int, offers_pmi: bool
) -> tuple[bytes, ...]:
    """What is one rank's own. PMI_FD is the keeper's to add: it opens the socket."""
    own: tuple[bytes, ...] = (
        b"YOD_RANK=%d" % rank,
        b"YOD_LOCAL_RANK=%d" % local_rank,
        b"YOD_MEMBER=%d" % member,
        b"MPI_LOCALRANKID=%d" % local_rank,
    )
    if offers_pmi:
        own += (b"PMI_RANK=%d" % rank, b"PMI_SIZE=%d" % size)
    return own
