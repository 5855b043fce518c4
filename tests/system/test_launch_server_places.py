"""Processes that a launch server is not for run their launches cold, and say nothing of it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.nobody import NOBODY
from tests.support.own_server import NEVER_COLD, Counted, OwnServer, counted, own_server
from tests.support.partition import BIN, ROOT, finish
from tests.support.place import Place
from tests.support.processes import stopped
from tests.support.programs import script
from tests.support.wait import read_until, wait_until

__all__ = ["counted", "own_server"]

WORDS = (BIN / "yod", "--mpi=none", "sh", "-c", "echo up; read line; echo $line")


def runs_cold(server: OwnServer, *before: str, **options: object) -> None:
    """A command that starts yod: the launch is not in the server, and it is as good."""
    yod = server.start_command(*before, *WORDS, **options)
    read_until(yod.stdout.fileno(), b"up\n")
    assert server.states() == []
    done = finish(yod, b"well\n")
    assert (done.status, done.out, done.err) == (0, "well\n", "")


def test_a_process_like_the_server_runs_warm(own_server: OwnServer):
    yod = own_server.start_warm(*WORDS[1:])
    read_until(yod.stdout.fileno(), b"up\n")
    assert own_server.states() == ["running"]
    assert finish(yod, b"well\n").out == "well\n"


@pytest.mark.parametrize(
    "before",
    [
        ("unshare", "--mount"),
        ("unshare", "--ipc"),
        ("unshare", "--uts"),
        ("unshare", "--net"),
        ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
        ("unshare", "--user", "--map-root-user"),
        ("setpriv", "--regid", str(NOBODY), "--keep-groups"),
    ],
    ids=lambda before: before[1],
)
def test_in_another_namespace_or_group(own_server: OwnServer, needs_root: None, before):
    if before[0] == "setpriv":  # the effective group only: as after setgid
        code = f"import os, sys; os.setegid({NOBODY}); os.execvp(sys.argv[1], sys.argv[1:])"
        before = (sys.executable, "-c", code)
    runs_cold(own_server, *before)


PREPARE = """
for name in /*; do
    [ -d "$name" ] && mkdir -p "$0$name" && mount --rbind "$name" "$0$name"
done
exec "$@"
"""


def test_below_another_root_directory(place: Place, needs_root: None, tmp_path: Path):
    root = str(tmp_path / "root")
    prepare = ("unshare", "--mount", "sh", "-c", PREPARE, root)
    with OwnServer(place, command=(*prepare, BIN / "yod-server")) as server:
        enter = ("nsenter", "-t", str(server.unix_pid), "--mount")
        with stopped(*server.helpers):
            yod = server.start_command(*enter, *WORDS, env=NEVER_COLD)
            wait_until(lambda: server.states() == ["preparing"], what="a client that has asked")
        read_until(yod.stdout.fileno(), b"up\n")
        assert finish(yod, b"warm\n").out == "warm\n"
        server.wait_idle()
        runs_cold(server, *enter, "chroot", root)


def test_as_another_user_who_has_the_server_in_the_environment(
    own_server: OwnServer, needs_root: None, theirs: Path
):
    keeps_reading = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    user = ("--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
    env = {"HOME": str(theirs), "XDG_STATE_HOME": None}
    runs_cold(own_server, "setpriv", *user, *keeps_reading, env=env, cwd=theirs)


AS_THEM = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")


@pytest.mark.parametrize("is_theirs", [False, True], ids=["started by root", "started by them"])
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755], ids=oct)
def test_with_the_rights_of_its_file(
    own_server: OwnServer, needs_root: None, theirs: Path, mode: int, is_theirs: bool
):
    """As a set-user-id program, or as under sudo: real and effective ids differ."""
    copy, python = theirs / "yod", theirs / "python3"
    shutil.copy(BIN / "yod", copy)
    (theirs / "yod-cold").touch()
    script(python, "#!/bin/sh\necho cold\n")  # they may not reach ours
    owner = 0 if is_theirs else NOBODY
    os.chown(copy, owner, owner)
    copy.chmod(mode)
    before = AS_THEM if is_theirs else ()
    done = finish(own_server.start_command(*before, copy, "true", cwd=theirs))
    assert (done.status, done.out, done.err) == (0, "cold\n", "")
    done = finish(own_server.start_command(*before, copy, "true", env=NEVER_COLD, cwd=theirs))
    assert (done.status, done.out) == (125, "")
    assert done.err.endswith("forbids: this process has rights of another user\n"), done


# -- another release -----------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of our packages, with a command yod-server that imports them."""
    for package in ("native", "allocator", "pct", "yod", "partition"):
        shutil.copytree(ROOT / package, tmp_path / "copy" / package)
    commands = tmp_path / "copy" / "bin"
    commands.mkdir()
    (commands / "python3").symlink_to(BIN / "python3")
    (tmp_path / "copy" / "lib").symlink_to(BIN.parent / "lib")
    script = (BIN / "yod-server").read_text()
    assert script.count(repr(str(ROOT))) == 1
    (commands / "yod-server").write_text(script.replace(str(ROOT), str(tmp_path / "copy")))
    (commands / "yod-server").chmod(0o755)
    return tmp_path / "copy"


def test_a_server_whose_files_are_replaced_ends_with_its_last_launch(
    place: Place, copied: Path, counted: Counted
):
    with OwnServer(place, command=(copied / "bin" / "yod-server",)) as server:
        yod = server.start_warm("--mpi=none", "sh", "-c", "echo up; read line; echo $line")
        read_until(yod.stdout.fileno(), b"up\n")
        module = copied / "partition" / "server" / "helper.py"
        module.with_suffix(".new").write_bytes(module.read_bytes())
        module.with_suffix(".new").rename(module)

        def is_seen() -> bool:
            assert server.yod("-sz", "1", "echo", "well").out == "well\n"
            return "yod was replaced" in server.daemon.text()

        wait_until(is_seen, what="a server that knows of it")
        done = server.yod("-sz", "1", *counted.words("echo cold"))
        assert (done.status, done.out, done.err) == (0, "cold\n", "")
        assert counted.ranks == ["0"]
        done = finish(yod, b"well\n")
        assert (done.status, done.out, done.err) == (0, "well\n", "")
        wait_until(lambda: not server.daemon.is_alive, what="the end of the server")


def test_a_client_of_another_release_runs_cold(own_server: OwnServer, tmp_path: Path):
    own = (BIN / "yod").read_bytes()
    release = (ROOT / "native" / "client" / "release").read_bytes()[:32]
    assert own.count(release) >= 1
    other = tmp_path / "yod"
    other.write_bytes(own.replace(release, release[::-1]))
    other.chmod(0o755)
    for name in ("yod-cold", "python3"):
        (tmp_path / name).symlink_to(BIN / name)
    done = finish(own_server.start_command(other, "-sz", "1", "readlink", "/proc/self/exe"))
    assert (done.status, done.err) == (0, "")
    with stopped(*own_server.helpers):  # a warm one would wait for them
        done = finish(own_server.start_command(other, "-sz", "1", "echo", "cold"))
    assert (done.status, done.out, done.err) == (0, "cold\n", "")
