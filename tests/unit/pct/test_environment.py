"""What a rank finds in its environment, and what of an outer launcher it does not."""

import pytest

from pct.environment import for_job, for_node, for_rank


@pytest.mark.parametrize(
    "name",
    [
        "PMI_RANK",
        "PMI_SIZE",
        "PMI_FD",
        "PMI_PORT",
        "PMIX_NAMESPACE",
        "PMIX_RANK",
        "PMIX_SERVER_URI41",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_APP_CTX_NUM_PROCS",
        "OMPI_FILE_LOCATION",
        "OMPI_FIRST_RANKS",
        "OMPI_MCA_ess_base_jobid",
        "OMPI_MCA_orte_hnp_uri",
        "PRTE_LAUNCHED",
        "HYDI_CONTROL_FD",
        "HYDRA_LAUNCHER",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "MPIRUN_RANK",
        "PALS_RANKID",
        "FLUX_TASK_RANK",
        "SLURM_STEP_ID",
        "SLURM_STEPID",
        "SLURM_SRUN_COMM_PORT",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_TASK_PID",
        "SLURM_LAUNCH_NODE_IPADDR",
        "SLURM_GTIDS",
        "YOD_JOB_ID",
        "YOD_RANK",
        "YOD_SIZE",
        "YOD_LOCAL_RANK",
        "YOD_LOCAL_SIZE",
        "YOD_NODE",
        "YOD_NODE_NAME",
        "YOD_MEMBER",
    ],
)
def test_what_an_outer_launcher_left_is_removed(name):
    assert for_job([f"{name}=outer".encode()], 7, 4) == (b"YOD_JOB_ID=7", b"YOD_SIZE=4")


@pytest.mark.parametrize(
    "name",
    [
        "OMPI_MCA_btl",
        "OMPI_MCA_pml",
        "PMIX_MCA_gds",
        "PRTE_MCA_plm",
        "I_MPI_FABRICS",
        "MPICH_ASYNC_PROGRESS",
        "UCX_TLS",
        "SLURM_JOB_ID",
        "SLURM_CPUS_PER_TASK",
        "PBS_JOBID",
        "YOD_PARTITION",
        "YOD_KILL_DELAY_S",
        "PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "BASH_FUNC_module%%",
    ],
)
def test_what_the_user_has_set_is_kept(name):
    entry = f"{name}=mine".encode()
    assert for_job([entry], 7, 4)[0] == entry


def test_entries_keep_their_order_and_bytes():
    user = [b"B=\xff\xfe=x", b"A=", b"not a pair", b"C=1\n2"]
    assert for_job(user, 7, 4)[:-2] == tuple(user)


def test_the_ranks_of_a_node_share_its_names():
    assert for_node(5, "n5", 3) == (
        b"YOD_NODE=5",
        b"YOD_NODE_NAME=n5",
        b"YOD_LOCAL_SIZE=3",
        b"MPI_LOCALNRANKS=3",
    )


def test_a_rank_has_its_own_numbers():
    own = (b"YOD_RANK=9", b"YOD_LOCAL_RANK=1", b"YOD_MEMBER=2", b"MPI_LOCALRANKID=1")
    assert for_rank(9, 1, 2, 16, offers_pmi=False) == own
    assert for_rank(9, 1, 2, 16, offers_pmi=True) == (*own, b"PMI_RANK=9", b"PMI_SIZE=16")
