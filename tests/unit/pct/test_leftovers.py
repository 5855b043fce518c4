"""What is taken away of a killed job's shared memory, and what never is."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import pytest

from native.loop.slices import run
from pct.host.leftovers import PREFIXES, remove

UID = os.getuid()

libc = ctypes.CDLL(None)  # Python's mmap keeps the descriptor
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


@pytest.fixture
def place():
    """A directory of our own beside the real segments: leases need such a file system."""
    base = Path("/dev/shm") / f"test-of-leftovers-{os.urandom(6).hex()}"
    base.mkdir(mode=0o700)
    yield base
    for path in base.iterdir():
        path.unlink()
    base.rmdir()


def make(place: Path, name: str = "mpich_shm_1", mode: int = 0o600) -> Path:
    path = place / name
    path.write_bytes(b"\0" * 4096)
    path.chmod(mode)
    return path


def test_an_empty_or_absent_place_is_no_fault(place):
    assert run(remove(UID, 0.0, str(place))) == []
    assert run(remove(UID, 0.0, str(place / "absent"))) == []


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_segment_that_nobody_uses_is_removed(place, prefix):
    began = time.time()
    path = make(place, prefix + "x1")
    assert run(remove(UID, began, str(place))) == [prefix + "x1"]
    assert not path.exists()


def test_an_open_segment_stays(place):
    path = make(place)
    with open(path, "rb"):
        assert run(remove(UID, 0.0, str(place))) == []
    assert run(remove(UID, 0.0, str(place))) == ["mpich_shm_1"]


def test_a_mapped_segment_stays_though_it_is_closed(place):
    path = make(place)
    fd = os.open(path, os.O_RDONLY)
    address = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    os.close(fd)
    assert run(remove(UID, 0.0, str(place))) == []
    libc.munmap(ctypes.c_void_p(address), 4096)
    assert run(remove(UID, 0.0, str(place))) == ["mpich_shm_1"]


def test_a_segment_from_before_the_job_stays(place):
    make(place)
    assert run(remove(UID, time.time() + 1.0, str(place))) == []


def test_the_segment_of_another_user_stays(place):
    make(place)
    assert run(remove(UID + 1, 0.0, str(place))) == []


def test_a_file_of_an_unknown_name_stays(place):
    make(place, "my_data")
    make(place, "x_mpich_shm_1")
    assert run(remove(UID, 0.0, str(place))) == []


def test_a_file_that_others_may_open_stays(place):
    make(place, mode=0o640)
    assert run(remove(UID, 0.0, str(place))) == []


def test_what_is_no_plain_file_stays(place):
    target = make(place, "target")
    (place / "mpich_shm_link").symlink_to(target)
    (place / "mpich_shm_hard").hardlink_to(target)
    os.mkfifo(place / "mpich_shm_fifo", 0o600)
    assert run(remove(UID, 0.0, str(place))) == []
    assert target.exists()
