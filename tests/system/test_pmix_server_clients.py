"""The PMIx server with clients that use libpmix alone, and a stand-in for the PCTs.

Two "nodes" are two servers on this host: what their ranks tell each other goes through
the servers, as between hosts.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from native.wire.pmi import FenceKind
from native.wire.pmix import Enter, LookupNames, PublishNames
from pct.pmix_server.query import KEYS
from tests.support.pmix_libraries import CLIENT, INSTALLED, LIBPMIX, ROOT, is_version_4
from tests.support.pmix_pct import Pct, statuses

pytestmark = pytest.mark.mpi


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
