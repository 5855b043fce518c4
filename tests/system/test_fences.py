"""A keeper asks root's PCT to have a group deny devices: what it takes for an answer, and whose."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pct.host.cgroups.files import own_path
from tests.support.wait import LIMIT_S
from tests.system.test_keeper_hostile import PROGRAMS, SOURCES, Compile, compiled

__all__ = ["compiled"]

NOBODY = 65534
FULL = os.stat("/dev/full").st_rdev
DENIED = f"{os.major(FULL)}:{os.minor(FULL)}"
STEP = "job-17/ranks/yod-pct-2/job-3"


@pytest.fixture
def ask(compiled: Compile) -> Iterator[Path]:
    """The program, where other users can reach it."""
    source = SOURCES / "devices" / "fence.c"
    program = compiled("test_fence", PROGRAMS / "test_fence.c", source)
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        yield Path(shutil.copy(program, directory))


def said(*words: str | Path, uid: int | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, user=uid, group=uid)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("group", "pcts"),
    [
        ("/sys/fs/cgroup/yod-pct-1/job-17/ranks/yod-pct-2/job-3", "yod-pct-1 "),
        (
            "/c/yod-pct-1/job-1/slots/ranks/yod-pct-2/job-1/ranks/yod-pct-3/job-1",
            "yod-pct-2 yod-pct-1 ",
        ),
        ("/sys/fs/cgroup/yod-pct-1/job-17", ""),
        ("/yod-pct-1/job-17/ranks", ""),
        ("/yod-pct-", ""),
        ("yod-pct-1/job-17/ranks/x", ""),
        ("", ""),
    ],
)
def test_the_pcts_are_those_in_whose_jobs_a_group_is(ask: Path, group: str, pcts: str) -> None:
    assert said(ask, group) == pcts


def test_where_nobody_answers_the_reason_is_told(ask: Path) -> None:
    name = f"yod-pct-{os.urandom(6).hex()}"
    assert said(ask, f"/{name}/{STEP}", DENIED) == "Connection refused"
    assert said(ask, "/yod-pct-2/job-3", DENIED) == "it is in no job of root's pct"


def test_one_who_has_taken_the_name_of_roots_pct_is_told_nothing(
    ask: Path, needs_root: None
) -> None:
    name = f"yod-pct-{os.urandom(6).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as impostor:
        impostor.bind(b"\0" + name.encode())
        os.seteuid(NOBODY)  # the kernel notes who listens
        try:
            impostor.listen(1)
        finally:
            os.seteuid(0)
        assert said(ask, f"/{name}/{STEP}", DENIED) == "the pct is not root's"
        with impostor.accept()[0] as connection:
            assert connection.recv(1) == b""


def test_a_pct_that_hangs_holds_nobody_up(ask: Path, needs_root: None) -> None:
    name = f"yod-pct-{os.urandom(6).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hangs:
        hangs.bind(b"\0" + name.encode())
        hangs.listen(1)
        assert said(ask, f"/{name}/{STEP}", DENIED) == "Resource temporarily unavailable"


SERVES = """
import os, socket, sys
from native.loop.reactor import Reactor
from pct.host.cgroups.fences import Fences
from pct.host.cgroups.own import SOCKET_KIND
reactor, (_, path, devices, uid) = Reactor(), sys.argv
owner_of = {17: int(uid), 18: 1}.get
listener = socket.socket(socket.AF_UNIX, SOCKET_KIND)
listener.bind(b"\\0" + os.fsencode(os.path.basename(path)))
fences = Fences(reactor, listener, path, frozenset({devices.encode()}), owner_of)
reactor.watch(0, reactor.stop)
print("listens", flush=True)
reactor.run()
"""


@pytest.fixture
def root_pct(needs_root: None) -> Iterator[Path]:
    """The group of a PCT that has job 17 of the user nobody, and fences for it."""
    # Not beside the groups of PCTs, who remove those that nobody has locked.
    parent = Path(str(own_path())) / f"test-of-yod-{os.urandom(6).hex()}"
    path = parent / f"yod-pct-{os.urandom(6).hex()}"
    step = path / STEP
    step.mkdir(parents=True)
    words = (sys.executable, "-c", SERVES, path, DENIED, str(NOBODY))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listens\n"
        try:
            yield path
        finally:
            server.communicate(timeout=LIMIT_S)
            while step != parent.parent:
                step.rmdir()
                step = step.parent


def first_byte(group: Path, name: str) -> int:
    """How many bytes of a device a process of the group can read, of one."""
    script = f"echo $$ > {group}/cgroup.procs; head -c 1 /dev/{name} | wc -c"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    return int(done.stdout)


def test_a_users_group_denies_what_they_ask_for_once_and_never_less(
    ask: Path, root_pct: Path
) -> None:
    group = root_pct / STEP
    assert first_byte(group, "full") == 1
    assert said(ask, str(group), DENIED, uid=NOBODY) == "done"
    assert (first_byte(group, "full"), first_byte(group, "zero")) == (0, 1)
    assert said(ask, str(group), DENIED, uid=NOBODY) == "the group denies devices already"
    assert first_byte(group, "full") == 0


def test_other_users_and_other_groups_are_refused(ask: Path, root_pct: Path) -> None:
    group = str(root_pct / STEP)
    assert said(ask, group, DENIED, uid=1) == "the group is in no job of user 1"
    assert said(ask, group, DENIED) == "the group is in no job of user 0"
    theirs = group.replace("job-17", "job-18")
    assert said(ask, theirs, DENIED, uid=NOBODY) == f"the group is in no job of user {NOBODY}"
    outside = f"{root_pct}/job-17/ranks/../../.."
    assert said(ask, outside, DENIED, uid=NOBODY) == "the group is not below the job's ranks"
    missing = f"{group}/missing"
    assert said(ask, missing, DENIED, uid=NOBODY) == "No such file or directory"
    assert said(ask, group, "1:3", uid=NOBODY) == "a device is none of the node's GPUs"
    assert first_byte(Path(group), "full") == 1
