"""PMIx tools that connect to a job's server, with real libraries and a stand-in for the PCT."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pct.pmix_server.tools import Doubtful, stranger
from tests.support.pmix_libraries import CLIENT, INSTALLED, LIBPMIX, ROOT
from tests.support.pmix_pct import LIMIT_S, Pct

STRANGER = 1234  # a user id that is nobody's
PRETENCE = f"""\
#include <unistd.h>
uid_t geteuid(void) {{ return {os.geteuid()}; }}
"""
VISITOR = """\
import os, socket, sys
os.setresuid(*[int(sys.argv[2])] * 3)  # only now: it may not read what is above
visitor = socket.socket()
visitor.connect(("127.0.0.1", int(sys.argv[1])))
print(visitor.recv(1))
"""
NOT_SUPPORTED = -47

pytestmark = pytest.mark.mpi


def visit(
    directory: Path, libpmix: str, *tools: tuple[str, str], user: int = -1, preload: str = ""
) -> tuple[Pct, list[str]]:
    """Run two ranks with these tools beside them to the end; gives the tools' output.

    Args:
        tools: version of the library and word of each.
    """
    uid = os.getuid() if user < 0 else user
    of_tools = [f"{LIBPMIX[its]},{word},{uid},{preload}" for its, word in tools]
    with Pct(directory, [LIBPMIX[libpmix]]) as pct:
        command = [sys.executable, CLIENT, LIBPMIX[libpmix], "visited", *of_tools]
        world = pct.start(command, [0, 0], {**os.environ, "PYTHONPATH": ROOT})
        pct.wait()
        assert world.statuses == {0: 0, 1: 0}, pct.output(world, 0)
        assert pct.end() == [0], pct.errors.read_text()
        assert not pct.left_over()
        lines = pct.output(world, 0).splitlines()
        return pct, [line for line in lines if line != "finalize 0"]


@pytest.mark.parametrize("tool", INSTALLED)
@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_tool_of_the_user_may_ask_which_processes_there_are(
    libpmix: str, tool: str, tmp_path: Path
):
    pct, lines = visit(tmp_path, libpmix, (tool, "query"), (tool, "query"))
    seen = ["query 0", f"worlds {next(iter(pct.worlds))}", "processes 2"]
    (server,) = pct.servers
    assert lines == [f"init 0 {server}_tool1", *seen, f"init 0 {server}_tool2", *seen]
    assert not pct.errors.read_text()


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_tool_may_do_nothing_to_the_job(libpmix: str, tmp_path: Path):
    pct, lines = visit(tmp_path, libpmix, (libpmix, "meddle"))
    assert lines[1] == f"spawn {NOT_SUPPORTED}"
    # Version 7 passes our answer on; earlier ones say that they have asked.
    assert lines[2:] in (["abort 0"], [f"abort {NOT_SUPPORTED}"])
    assert not pct.aborts
    assert len(pct.worlds) == 1


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_tool_that_crashes_is_no_loss(libpmix: str, tmp_path: Path):
    pct, lines = visit(tmp_path, libpmix, (libpmix, "crash"), (libpmix, "query"))
    assert "processes 2" in lines
    assert {process.nspace for process in (*pct.joined, *pct.left)} == set(pct.worlds)


@pytest.fixture
def pretence(tmp_path: Path) -> str:
    """A preloaded library with which a process claims to belong to the test's user."""
    source, made = tmp_path / "pretence.c", tmp_path / "pretence.so"
    source.write_text(PRETENCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True)
    return str(made)


@pytest.mark.parametrize("libpmix", INSTALLED)
def test_a_tool_of_another_user_is_kept_out_whoever_it_says_it_is(
    libpmix: str, pretence: str, needs_root: None, tmp_path: Path
):
    """libpmix itself would crash if it had to refuse one."""
    pct, (line,) = visit(tmp_path, libpmix, (libpmix, "query"), user=STRANGER, preload=pretence)
    assert int(line.split()[1]) < 0
    assert f"a tool was refused: there is a connection of user {STRANGER}" in pct.errors.read_text()


# -- whose connections there are ------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection over loopback, and a listener."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as theirs,
        listener.accept()[0] as ours,
    ):
        yield ours, theirs


def test_connections_of_the_user_are_none_of_a_stranger(pair: object):
    assert stranger(os.getuid()) is None


def test_a_connection_whose_other_end_has_gone_is_doubtful(
    pair: tuple[socket.socket, socket.socket],
):
    pair[1].close()
    with pytest.raises(Doubtful):
        stranger(os.getuid())


def test_a_connection_that_was_reset_is_doubtful(pair: tuple[socket.socket, socket.socket]):
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair[1].close()
    with pytest.raises(Doubtful):
        stranger(os.getuid())


def test_a_strangers_connection_is_shut_down(needs_root: None):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        visitor = [sys.executable, "-c", VISITOR, str(listener.getsockname()[1]), str(STRANGER)]
        with (
            subprocess.Popen(visitor, stdout=subprocess.PIPE) as process,
            listener.accept()[0],
        ):
            assert stranger(os.getuid()) == STRANGER
            assert process.communicate()[0] == b"b''\n"
