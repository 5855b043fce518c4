"""What a PCT does with objects costs nobody but the job that brought them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Daemons, HostDaemons
from tests.support.leaks import open_descriptors
from tests.support.wait import LIMIT_S, read_until, wait_until
from tests.system.test_bulk_hosts import IMAGE_BYTES, put_on, remove
from tests.system.test_launch_users import NOBODY, key_of_nobody, yod

SPARSE_BYTES = 8 << 40
LARGE_BYTES = 1 << 30

# A yod that says of its program what it likes, where the true one would read the file.
LIAR = """
import os, sys
from native.wire.load import ShippedObject
from yod.program import image
path, size = sys.argv.pop(1), int(sys.argv.pop(1))
image.measure = lambda *_: ShippedObject(os.fsencode(path), size, bytes(32), 0o755)
sys.argv[0] = "yod"
from yod.cli import main
main()
"""


def start_liar(partition: Daemons, path: Path, size: int, *words: str) -> subprocess.Popen[bytes]:
    """Start a yod that ships a program of that path and size, with bytes that no file has."""
    command = (sys.executable, "-c", LIAR, path, str(size), "-sz", "2", *words, "/bin/true")
    return partition._start(command, None)


def kill(process: subprocess.Popen[bytes]) -> None:
    """A yod that says nothing any more."""
    process.kill()
    process.communicate(timeout=LIMIT_S)


@pytest.fixture
def sparse() -> Iterator[Path]:
    """A file that takes hours to read."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/dev/shm") as name:
        path = Path(name, "sparse")
        path.touch()
        os.truncate(path, SPARSE_BYTES)
        path.chmod(0o755)
        yield path


def is_reading(partition: Daemons, path: Path) -> bool:
    """Whether a PCT has a file open."""
    return any(str(path) in open_descriptors(pct.unix_pid).values() for pct in partition.pcts)


def stored(partition: Daemons) -> list[Path]:
    """Files in the stores, whole or not."""
    return [path for path in partition.stores.rglob("*") if path.is_file()]


def free_bytes(partition: Daemons) -> int:
    """Of the file system of the stores."""
    status = os.statvfs(partition.stores)
    return status.f_bavail * status.f_frsize


def test_a_job_killed_while_its_object_is_compared_is_not_worked_for_any_more(start_local, sparse):
    partition = start_local(1)
    liar = start_liar(partition, sparse, SPARSE_BYTES)
    wait_until(lambda: is_reading(partition, sparse))
    for _ in range(2):  # others are served meanwhile
        assert partition.yod("-sz", "2", "echo", "up") == (0, "up\nup\n", "")
    assert is_reading(partition, sparse)
    kill(liar)
    wait_until(lambda: not is_reading(partition, sparse))


def test_a_job_killed_while_its_room_is_allocated_gives_it_back(start_local, tmp_path):
    partition = start_local(1)
    before = free_bytes(partition)
    liar = start_liar(partition, tmp_path / "absent", LARGE_BYTES)
    wait_until(lambda: bool(stored(partition)))
    assert partition.yod("-sz", "2", "echo", "up") == (0, "up\nup\n", "")
    kill(liar)
    wait_until(lambda: not stored(partition))
    wait_until(lambda: free_bytes(partition) > before - LARGE_BYTES // 2)


@pytest.mark.hosts
@pytest.mark.parametrize("has_root", [False, True], ids=["of yod's", "of the root's"])
def test_a_job_killed_while_its_object_is_on_its_way_leaves_nothing_of_it(
    start_hosts, programs, has_root
):
    """Neither a node that passes the object on nor one that had it and sends it."""
    hosts = start_hosts(3, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, programs.dynamic, IMAGE_BYTES)
    if has_root:
        content = hosts.front.path(image).read_bytes()
        on_root = hosts.hosts[0].path(image)
        on_root.write_bytes(content)
        on_root.chmod(0o755)
    with hosts.start_yod("-sz", "3", "-D", image) as process:
        read_until(process.stderr.fileno(), b"form -> start\n" if has_root else b"form -> load\n")
        kill(process)
    remove(hosts.front, image)
    if has_root:
        remove(hosts.hosts[0], image)
    wait_until(lambda: set(hosts.states()) == {"free"})


@pytest.mark.hosts
def test_a_user_has_a_share_of_the_ram_disk_and_is_told_its_name(start_hosts, programs, tmp_path):
    hosts = start_hosts(
        1,
        slots=1,
        ram_bytes=32 << 20,
        pct_options=("--store", "/dev/shm"),
        env={"YOD_STORE_USER_PERCENT": "10"},
    )
    image = put_on(hosts.front, programs.dynamic, 4 << 20)
    done = hosts.yod(image, env={"PARALLEL_FILE_SYSTEM": str(tmp_path / "gone")})
    remove(hosts.front, image)
    assert (done.status, done.out) == (125, "")
    first = done.err.splitlines()[0]
    for text in ("node0", str(4 << 20), "user 0 holds 0", "store_user_percent is 10"):
        assert text in first


# -- what users name ------------------------------------------------------


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory of the other user's."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def put_roots(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o711)


def put_fifo(path: Path, content: bytes) -> None:
    os.mkfifo(path, 0o777)


def put_device(path: Path, content: bytes) -> None:
    os.mknod(path, stat.S_IFCHR | 0o777, os.makedev(1, 5))  # zero


@pytest.mark.hosts
@pytest.mark.parametrize("put", [put_roots, put_fifo, put_device])
def test_what_lies_at_the_path_and_is_not_theirs_to_read_is_no_copy(
    start_hosts, programs, theirs, put
):
    """What a user may not read is neither compared with what they have, nor waited for."""
    hosts: HostDaemons = start_hosts(1, slots=1, pct_options=("--store", "/run/yod-ram"))
    hosts.hosts[0].path("/run/yod-ram").chmod(0o755)
    content = programs.dynamic.read_bytes()
    program = hosts.front.path("/dev/shm/theirs")
    program.write_bytes(content)
    program.chmod(0o711)
    os.chown(program, NOBODY, NOBODY)
    there = hosts.hosts[0].path("/dev/shm/theirs")
    put(there, content)
    key = key_of_nobody(hosts.key_file.read_bytes(), theirs)
    done = yod(hosts, theirs, "/dev/shm/theirs", env={"YOD_KEY_FILE": str(key)})
    there.unlink()
    program.unlink()
    assert done == (0, "rank 0\n", "")
    assert "last at" in hosts.pcts[0].text()  # it has been sent
