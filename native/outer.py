"""Variables that a launcher puts into the environment of the processes that it starts.

A rank that believes it belongs to another world starts alone, or hangs. So the variables
of launchers around a job are removed from its ranks' environment and kept under other
names, from which a launcher inside the job can restore them. Variables with which a user
sets up a library or a launcher have other names, and stay.

The lists come from the environments of real processes of Open MPI 4.1 and 5.0, MPICH 4.0 and
5.0, Intel MPI 2021, and srun 22.05 with each of its PMIs; for PALS, ALPS, jsrun, Flux and
MVAPICH2 from their documentation.
"""

from __future__ import annotations

from collections.abc import Iterable

ASIDE = b"YOD_OUTER_"  # put before the name of a variable that was taken away
DEFAULTS = b"YOD_DEFAULTS"  # names, with blanks between, that yod set as the user had not

_PREFIXES = (
    b"PMI_",
    b"PMIX_",
    # Open MPI, and its PRRTE
    b"OMPI_COMM_WORLD_",
    b"OMPI_UNIVERSE_",
    b"OMPI_APP_CTX_",
    b"OMPI_WORLD_",
    b"OMPI_MCA_ess_base_",
    b"OMPI_MCA_orte_ess_",
    # Hydra, that of Intel too
    b"HYDI_",
    b"HYDRA_BSTRAP_",
    b"I_MPI_INFO_",
    b"I_MPI_INTERNAL_",
    b"MPI_LOCAL",
    b"MPIRUN_",
    # MVAPICH2's mpirun_rsh
    b"MPISPAWN_",
    b"MV2_COMM_WORLD_",
    b"ALPS_APP_",
    b"JSM_",
    b"PALS_",
    b"FLUX_TASK_",
    # a step of Slurm; the variables of the allocation stay
    b"SLURM_STEP",
    b"SLURM_SRUN_",
    b"SLURM_PMI",
    b"SLURM_CPU_BIND",
    b"SLURM_MEM_BIND",
    b"YOD_LOCAL_",
    ASIDE,
)
_HEAD_BYTES = min(map(len, _PREFIXES))
_HEADS = frozenset(prefix[:_HEAD_BYTES] for prefix in _PREFIXES)  # most variables begin otherwise
_USERS_PREFIXES = (b"PMIX_MCA_", b"PMIX_PREFIX", b"PMI_DEBUG")
_NAMES = frozenset(
    (
        b"OMPI_ARGV",
        b"OMPI_COMMAND",
        b"OMPI_FILE_LOCATION",
        b"OMPI_FIRST_RANKS",
        b"OMPI_LIBDIR_LOC",
        b"OMPI_NUM_APP_CTX",
        b"OMPI_TOOL_NAME",
        b"OMPI_VERSION",
        b"OMPI_MCA_PREFIXES",
        b"OMPI_MCA_cpu_type",
        b"OMPI_MCA_ess",
        b"OMPI_MCA_initial_wdir",
        b"OMPI_MCA_mpi_oversubscribe",
        b"OMPI_MCA_num_procs",
        b"OMPI_MCA_orte_app_num",
        b"OMPI_MCA_orte_bound_at_launch",
        b"OMPI_MCA_orte_hnp_uri",
        b"OMPI_MCA_orte_jobfam_session_dir",
        b"OMPI_MCA_orte_launch",
        b"OMPI_MCA_orte_local_daemon_uri",
        b"OMPI_MCA_orte_num_nodes",
        b"OMPI_MCA_orte_precondition_transports",
        b"OMPI_MCA_orte_top_session_dir",
        b"OMPI_MCA_pmix",
        b"OMPI_MCA_rmaps_base_oversubscribe",
        b"OMPI_MCA_shmem_RUNTIME_QUERY_hint",
        b"OPAL_USER_PARAMS_GIVEN",
        b"PRTE_LAUNCHED",
        b"PRTE_SHARED_FS",
        b"HYDRA_IP_VERSION",
        b"HYDRA_LAUNCH_TYPE",
        b"I_MPI_HYDRA_UUID",
        b"I_MPI_MPIRUN",
        b"I_MPI_PIN_INFO",
        b"I_MPI_PIN_MAPPING",
        b"I_MPI_RETURN_WIN_MEM_NUMA",
        b"MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
        b"FLUX_JOB_ID",
        b"FLUX_JOB_NNODES",
        b"FLUX_JOB_SIZE",
        b"FLUX_KVS_NAMESPACE",
        b"FLUX_PMI_LIBRARY_PATH",
        b"SLURMD_NODENAME",
        b"SLURM_GTIDS",
        b"SLURM_LAUNCH_NODE_IPADDR",
        b"SLURM_LOCALID",
        b"SLURM_MPI_TYPE",
        b"SLURM_NODEID",
        b"SLURM_PROCID",
        b"SLURM_TASK_PID",
        b"YOD_AGENT",
        b"YOD_CORES_PER_RANK",
        b"YOD_JOB_ID",
        b"YOD_MEMBER",
        b"YOD_MEMORY_PER_RANK",
        b"YOD_NODE",
        b"YOD_NODE_NAME",
        b"YOD_RANK",
        b"YOD_RANK_CPUS",
        b"YOD_RANK_GPUS",
        b"YOD_SIZE",
        DEFAULTS,
    )
)
_DEFAULTS_ARE = DEFAULTS + b"="


def name_of(entry: bytes) -> bytes:
    """The name in ``NAME=value``."""
    return entry.partition(b"=")[0]


def split(entries: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The user's entries, and those of a launcher, each in their order."""
    found = tuple(entries)
    defaults = [entry for entry in found if entry.startswith(_DEFAULTS_ARE)]
    names = _NAMES.union(*(entry.partition(b"=")[2].split() for entry in defaults))
    users: list[bytes] = []
    launchers: list[bytes] = []
    for entry in found:
        is_launchers = entry.partition(b"=")[0] in names or (
            entry[:_HEAD_BYTES] in _HEADS
            and entry.startswith(_PREFIXES)
            and not entry.startswith(_USERS_PREFIXES)
        )
        (launchers if is_launchers else users).append(entry)
    return users, launchers


def put_aside(launchers: Iterable[bytes]) -> list[bytes]:
    """The same variables under names that no library reads.

    With two launchers around a job only the inner one's are kept: the job was started in
    its environment.
    """
    return [ASIDE + entry for entry in launchers if not entry.startswith(ASIDE)]


def restored(entries: Iterable[bytes]) -> list[bytes]:
    """The environment that the job was started in, from that of one of its ranks."""
    users, launchers = split(entries)
    aside = [entry.removeprefix(ASIDE) for entry in launchers if entry.startswith(ASIDE)]
    return users + aside
