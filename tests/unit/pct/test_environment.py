"""What a rank finds in its environment, and what of an outer launcher it does not."""

import os
from pathlib import Path

import pytest

from native import outer
from native.wire.load import Mpi, Protocol
from native.wire.placed import GrantedNode
from native.wire.runs import Run
from pct.account import Account
from pct.pmi_events import Devices, PmiOpened
from pct.wireup import environment
from pct.wireup.environment import Users, for_node, for_protocols, for_rank, of_user
from pct.wireup.machine import Wireup
from tests.unit.pct.job_of import JOB_ID, PMIX, load_message

OURS = (b"YOD_JOB_ID=7", b"YOD_SIZE=4")


def for_job(user, job_id, size):
    return environment.for_job(of_user(user), str(job_id), size)


def names_of_user(user):
    return of_user(user).names


@pytest.mark.parametrize(
    "name",
    [
        "PMI_RANK",
        "PMI_SIZE",
        "PMI_FD",
        "PMI_PORT",
        "PMI_JOBID",
        "PMIX_NAMESPACE",
        "PMIX_RANK",
        "PMIX_SERVER_URI41",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_APP_CTX_NUM_PROCS",
        "OMPI_FILE_LOCATION",
        "OMPI_FIRST_RANKS",
        "OMPI_MCA_ess",
        "OMPI_MCA_ess_base_jobid",
        "OMPI_MCA_orte_hnp_uri",
        "OMPI_MCA_orte_bound_at_launch",
        "OMPI_MCA_pmix",
        "OMPI_WORLD_SIZE",
        "PRTE_LAUNCHED",
        "HYDI_CONTROL_FD",
        "HYDRA_BSTRAP_UPSTREAM_FD",
        "I_MPI_PIN_MAPPING",
        "I_MPI_INFO_CORE",
        "JSM_JSRUN_PORT",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "MPIRUN_RANK",
        "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
        "MV2_COMM_WORLD_RANK",
        "PALS_RANKID",
        "FLUX_TASK_RANK",
        "FLUX_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_STEPID",
        "SLURM_SRUN_COMM_PORT",
        "SLURM_PMIX_MAPPING_SERV",
        "SLURM_PMIXP_ABORT_AGENT_PORT",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_TASK_PID",
        "SLURM_LAUNCH_NODE_IPADDR",
        "SLURM_GTIDS",
        "YOD_AGENT",
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
def test_what_an_outer_launcher_left_is_kept_aside(name):
    entry = f"{name}=outer".encode()
    assert for_job([entry], 7, 4) == (b"YOD_OUTER_" + entry, *OURS)
    assert names_of_user([entry]) == frozenset()


@pytest.mark.parametrize(
    "name",
    [
        "OMPI_MCA_btl",
        "OMPI_MCA_pml",
        "OMPI_MCA_orte_default_hostfile",
        "PMIX_MCA_gds",
        "PMIX_PREFIX",
        "PRTE_MCA_plm",
        "PRTE_ALLOW_RUN_AS_ROOT",
        "HYDRA_HOST_FILE",
        "HYDRA_LAUNCHER",
        "I_MPI_FABRICS",
        "I_MPI_PIN",
        "MPICH_ASYNC_PROGRESS",
        "MPIR_CVAR_CH4_NETMOD",
        "UCX_TLS",
        "SLURM_JOB_ID",
        "SLURM_CPUS_PER_TASK",
        "SLURM_NODELIST",
        "FLUX_URI",
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
    assert for_job([entry], 7, 4) == (entry, *OURS)
    assert names_of_user([entry]) == {name.encode()}


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
    assert for_rank(9, 1, 2, 4) == (
        b"YOD_RANK=9",
        b"YOD_LOCAL_RANK=1",
        b"YOD_MEMBER=2",
        b"YOD_CORES_PER_RANK=4",
        b"MPI_LOCALRANKID=1",
    )


ALL = (Protocol.PMI1, Protocol.PMI2, Protocol.PMIX)


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ((), ()),
        (
            (Protocol.PMI1,),
            (b"PMI_PORT=127.0.0.1:5", b"PMI_ID=9", b"PMI_RANK=1", b"PMI_SIZE=2"),
        ),
        ((Protocol.PMI2,), (b"PMI_RANK=1", b"PMI_SIZE=2")),
        ((Protocol.PMIX,), (b"JSM_JSRUN_PORT=1",)),
        (
            (Protocol.PMI1, Protocol.PMIX),
            (
                b"PMI_PORT=127.0.0.1:5",
                b"PMI_ID=9",
                b"PMI_RANK=1",
                b"PMI_SIZE=2",
                b"JSM_JSRUN_PORT=1",
                b"MPICH_PMI_VERSION=1",
            ),
        ),
    ],
)
def test_a_rank_is_told_of_each_protocol_that_is_offered(offered, expected):
    assert for_protocols(offered, 1, 2, 9, b"127.0.0.1:5") == expected


def test_a_rank_is_told_of_no_port_where_there_is_none():
    told = for_protocols((Protocol.PMI1,), 1, 2, 9, b"")
    assert told == (b"PMI_RANK=1", b"PMI_SIZE=2")


def test_intel_mpi_is_given_a_pmi2_library_only_where_one_is_named():
    assert not any(b"I_MPI" in entry for entry in for_protocols(ALL, 0, 1, 0, b"h:1"))
    told = for_protocols((Protocol.PMI2,), 0, 1, 0, b"", libpmi2=b"/lib/libpmi2.so.0")
    assert told[-2:] == (b"I_MPI_PMI=pmi2", b"I_MPI_PMI_LIBRARY=/lib/libpmi2.so.0")


def test_what_the_user_has_set_is_not_set_again():
    names = names_of_user([b"MPICH_PMI_VERSION=2", b"I_MPI_PIN=on"])
    told = for_protocols(ALL, 0, 1, 0, b"h:1", names)
    assert b"JSM_JSRUN_PORT=1" in told
    assert not any(entry.startswith(b"MPICH_PMI_VERSION") for entry in told)
    assert environment.defaults(names, (b"I_MPI_PIN=off", b"A=1", b"B=2")) == (
        b"A=1",
        b"B=2",
        b"YOD_DEFAULTS=A B",
    )
    assert environment.defaults(names, (b"I_MPI_PIN=off",)) == ()


def test_a_yod_inside_yod_sets_anew_what_the_outer_one_had_set():
    user = (b"PATH=/bin", b"I_MPI_PIN=on")
    names = names_of_user(user)
    rank = (
        *for_job(user, 7, 4),
        *environment.defaults(names, (*environment.UNBOUND, b"HYDRA_HOST_FILE=/a")),
        *for_rank(0, 0, 0),
    )
    inner = for_job(rank, 8, 1)
    assert inner[:2] == user
    assert inner[-2:] == (b"YOD_JOB_ID=8", b"YOD_SIZE=1")
    assert all(entry.startswith(outer.ASIDE) for entry in inner[2:-2])
    assert names_of_user(rank) == {b"PATH", b"I_MPI_PIN"}


def test_a_launcher_inside_can_have_back_what_was_kept_aside():
    outside = (b"PATH=/bin", b"PMI_RANK=3", b"SLURM_STEP_ID=0", b"HYDRA_IFACE=eth0")
    names = names_of_user(outside)
    rank = (
        *for_job(outside, 7, 4),
        *environment.defaults(names, environment.UNBOUND),
        *for_rank(0, 0, 0),
        *for_protocols(ALL, 0, 4, 0, b"h:1", names),
    )
    kept = [entry for entry in outer.restored(rank) if not entry.startswith(b"MPICH_PMI")]
    assert sorted(kept) == sorted(outside)


def test_only_the_nearest_launcher_is_kept_aside():
    user = (b"YOD_OUTER_PMI_RANK=1", b"YOD_OUTER_OMPI_ARGV=", b"PMI_RANK=2")
    assert for_job(user, 7, 4) == (b"YOD_OUTER_PMI_RANK=2", *OURS)


def test_open_mpi_on_a_node_without_a_fabric_looks_for_none():
    assert environment.without_fabric(frozenset({b"PATH", b"OMPI_MCA_btl_tcp_if_include"})) == (
        b"OMPI_MCA_mtl=^ofi,psm,psm2",
        b"OMPI_MCA_btl=^ofi",
    )


@pytest.mark.parametrize(
    "name",
    [
        b"FI_PROVIDER",
        b"PSM2_DEVICES",
        b"OMPI_MCA_pml",
        b"OMPI_MCA_mtl_ofi_provider_include",
        b"OMPI_MCA_btl_ofi_mode",
        b"OMPI_MCA_opal_common_ofi_provider_include",
        b"OMPI_MCA_mca_base_param_files",
    ],
)
def test_who_speaks_of_a_transport_chooses_it(name):
    assert environment.without_fabric({name}) == ()


@pytest.mark.parametrize("name", [b"OMPI_MCA_mtl", b"OMPI_MCA_btl"])
def test_one_choice_leaves_the_other(name):
    (entry,) = environment.without_fabric({name})
    assert not entry.startswith(name)


def test_on_a_node_without_devices_nobody_prepares_for_one():
    components, plugins, events = environment.without_devices(frozenset({b"PATH"}))
    assert components.startswith(b"HWLOC_COMPONENTS=-")
    assert components.endswith(b",-linuxio,-pci")
    assert plugins == b"HWLOC_PLUGINS_PATH=/dev/null"
    assert events == b"UCX_MEM_EVENTS=no"


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ({b"HWLOC_COMPONENTS"}, {b"UCX_MEM_EVENTS"}),
        ({b"HWLOC_XMLFILE"}, {b"UCX_MEM_EVENTS"}),
        ({b"UCX_MEM_MMAP_HOOK_MODE"}, {b"HWLOC_COMPONENTS", b"HWLOC_PLUGINS_PATH"}),
        ({b"UCX_MEM_EVENTS", b"HWLOC_HIDE_ERRORS"}, set()),
    ],
)
def test_who_has_a_setting_of_hwloc_or_of_ucx_memory_chooses_all_of_them(names, left):
    assert {outer.name_of(entry) for entry in environment.without_devices(names)} == left


def test_the_home_is_that_of_the_users_environment():
    assert environment.home_of([b"OLDHOME=/old", b"HOME=/home/me"]) == b"/home/me"
    assert environment.home_of([b"PATH=/bin"]) == b""


def test_open_mpi_shares_no_memory_between_nodes_of_one_host():
    first, second = GrantedNode(20, "n20", 7, 1), GrantedNode(21, "n21", 7, 2)
    elsewhere = GrantedNode(21, "n21", 8, 1)
    for other, is_set in ((second, True), (elsewhere, False)):
        message = load_message(2, mpi=PMIX, nodes=(first, other))
        shared = Wireup(message, [0, 0], of_user([]), Account()).shared_environment()
        assert (b"OMPI_MCA_btl=tcp,self" in shared) is is_set


def shared_of(protocols, nodes, names=frozenset(), has_settings=False):
    """What ranks share on a node that has no fabric."""
    runs = tuple(Run(place, 1) for place in range(len(nodes)))
    message = load_message(2, mpi=protocols, nodes=nodes, runs=runs)
    wireup = Wireup(message, [0, 0], Users((), names), Account())
    wireup.port_opened(PmiOpened(JOB_ID, b"", devices=Devices(False, False, has_settings)))
    return wireup.shared_environment()


def test_open_mpi_waits_for_no_fabric_where_there_is_none():
    apart = (GrantedNode(20, "n20", 7, 1), GrantedNode(21, "n21", 8, 1))
    both = (b"OMPI_MCA_mtl=^ofi,psm,psm2", b"OMPI_MCA_btl=^ofi")
    assert shared_of(PMIX, apart) == both
    assert shared_of(PMIX, apart, has_settings=True) == ()
    assert shared_of(PMIX, apart, frozenset({b"FI_PROVIDER"})) == ()
    assert shared_of(Mpi((Protocol.PMI1,)), apart) == ()
    together = (apart[0], GrantedNode(21, "n21", 7, 2))
    assert shared_of(PMIX, together) == (b"OMPI_MCA_btl=tcp,self", both[0])


def test_an_mpi_library_looks_at_no_devices_where_there_are_none():
    alone = (GrantedNode(20, "n20", 7, 1),)
    told = environment.without_devices(())
    assert shared_of(Mpi((Protocol.PMI1,), library=b"/lib/libmpi.so"), alone) == told
    assert shared_of(Mpi((Protocol.PMI1,)), alone) == ()


def test_a_python_program_has_our_directory_in_front_of_the_users_path():
    (entry,) = environment.for_python(b"/opt/bin/python3.12", (b"A=1", b"PYTHONPATH=/mine:/more"))
    name, _, value = entry.partition(b"=")
    ours, _, users = value.partition(b":")
    assert (name, users) == (b"PYTHONPATH", b"/mine:/more")
    assert Path(os.fsdecode(ours), "sitecustomize.py").is_file()
    assert environment.for_python(b"./solve.py", ()) == (b"PYTHONPATH=" + ours,)
    assert environment.for_python(b"python", (b"PYTHONPATH=",)) == (b"PYTHONPATH=" + ours,)


def test_the_path_of_other_programs_and_of_who_wants_none_is_as_it_was():
    assert environment.for_python(b"/bin/sh", (b"PYTHONPATH=/mine",)) == ()
    assert environment.for_python(b"a.out", ()) == ()
    assert environment.for_python(b"python", (b"YOD_UNCAUGHT_S=none",)) == ()
    both = (b"YOD_UNCAUGHT_S=none", b"YOD_UNCAUGHT_S=5")  # the last one counts
    assert environment.for_python(b"python", both) != ()
