"""Where a node keeps files of jobs."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import time
from _blake2 import blake2b
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native.host.files import Owner
from native.loop.reactor import Reactor
from native.loop.slices import run
from native.wire.load import ShippedObject
from pct.host import leftovers, removal, room
from pct.host.removal import PREFIX, sweep
from pct.host.store import Checked, Store

MYSELF = Owner(os.getuid(), os.getgid())
JOB = 7


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A RAM disk, in which a gigabyte costs nothing before it is allocated."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
def store(reactor: Reactor, disk: Path) -> Iterator[Store]:
    store = Store([str(disk)], reactor)
    yield store
    store.close()
    assert list(disk.iterdir()) == []


def shipped(path: Path, size: int) -> ShippedObject:
    """An object with bytes that no file has."""
    return ShippedObject(os.fsencode(path), size, bytes(32), 0o644)


def files_of(disk: Path) -> list[Path]:
    """What is in the store, directories aside."""
    return [path for path in disk.glob(PREFIX + "*/**/*") if not path.is_dir()]


class Turns:
    """Turns of the loop, and the most that one of them has allocated or freed."""

    def __init__(self, reactor: Reactor, disk: Path) -> None:
        self._reactor = reactor
        self._place = disk
        self.most = 0
        self.count = 0

    def until(self, happened: Callable[[], bool]) -> None:
        while not happened():
            before = self.free()
            self._reactor.run_once(0)
            self.most = max(self.most, abs(before - self.free()))
            self.count += 1
            assert self.count < 1000

    def free(self) -> int:
        return sum(path.stat().st_blocks for path in files_of(self._place)) * 512


def test_owners_of_jobs_can_enter_a_pcts_directory_whatever_its_umask(tmp_path):
    reactor = Reactor()
    store = Store([str(tmp_path)], reactor)
    before = os.umask(0o077)
    try:
        directory = store.directory()
    finally:
        os.umask(before)
    assert os.stat(directory).st_mode & 0o777 == 0o755
    store.close()
    assert not os.path.exists(directory)
    reactor.close()


# -- long work ------------------------------------------------------------


def test_room_is_allocated_a_slice_a_turn_for_all_jobs_together(reactor, store, disk):
    answers: list[object] = []
    size = 3 * room.SLICE_BYTES
    for job_id in (1, 2, 3):
        store.check(job_id, (shipped(disk / "absent", size),), False, MYSELF, answers.append)
    turns = Turns(reactor, disk)
    turns.until(lambda: len(answers) == 3)
    assert turns.most <= room.SLICE_BYTES
    assert turns.count >= 8
    assert turns.free() == 3 * size


def test_a_job_that_ends_while_its_object_is_compared_is_not_heard_of_again(reactor, store, disk):
    sparse = disk / "sparse"
    sparse.touch(0o644)
    sparse.chmod(0o644)
    os.truncate(sparse, 8 << 40)
    descriptors = len(os.listdir("/proc/self/fd"))
    answers: list[object] = []
    store.check(JOB, (shipped(sparse, 8 << 40),), False, MYSELF, answers.append)
    for _ in range(3):
        reactor.run_once(0)
    assert store.slices.has(JOB)
    store.drop_job(JOB)
    assert not store.slices.has(JOB)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    reactor.run_once(0)
    assert (answers, reactor.deadline()) == ([], None)
    sparse.unlink()


def test_a_job_that_ends_while_its_room_is_allocated_leaves_none(reactor, store, disk):
    answers: list[object] = []
    store.check(JOB, (shipped(disk / "absent", 1 << 27),), False, MYSELF, answers.append)
    reactor.run_once(0)
    assert files_of(disk)
    store.drop_job(JOB)
    Turns(reactor, disk).until(lambda: not files_of(disk))
    assert answers == []


def test_directories_are_asked_before_room_is_taken_and_not_for_what_is_here(reactor, store, disk):
    asked: list[Callable[[], None]] = []
    answers: list[object] = []
    store.wait = asked.append
    program = Path(shutil.which("true") or "/bin/true").resolve()
    data, mode = program.read_bytes(), program.stat().st_mode & 0o7777
    digest = blake2b(data, digest_size=32).digest()
    here = ShippedObject(os.fsencode(program), len(data), digest, mode)
    store.check(JOB, (here,), False, MYSELF, answers.append)
    assert (asked, answers) == ([], [Checked(((0, here.path),), (), ())])
    store.check(JOB, (here, shipped(disk / "absent", 1)), False, MYSELF, answers.append)
    Turns(reactor, disk).until(lambda: bool(asked))
    assert not files_of(disk)
    asked[0]()
    Turns(reactor, disk).until(lambda: len(answers) == 2)
    assert answers[1] == Checked(((0, here.path),), (1,), ())


def test_arguments_are_allocated_in_slices_too(reactor, store, disk):
    answers: list[object] = []
    arguments = ShippedObject(b"", 3 * room.SLICE_BYTES, bytes(32), 0o600)
    store.check(JOB, (arguments,), True, MYSELF, answers.append)
    assert answers == []
    Turns(reactor, disk).until(lambda: bool(answers))
    assert answers == [Checked((), (0,), ())]
    assert len(store.content(JOB, 0)) == 3 * room.SLICE_BYTES


def test_who_lacks_room_waits_for_what_is_being_given_back(reactor, disk, monkeypatch):
    """A job is over for bebopd before the kernel has cleared its memory."""
    monkeypatch.setattr(removal, "SLICE_BYTES", 1 << 20)
    size = 10 << 20
    real = room._file_system

    def small(where: str) -> tuple[int, int, int]:
        device, _, _ = real(where)
        used = sum(path.stat().st_size for path in files_of(disk))
        return device, 12 << 20, (12 << 20) - used

    monkeypatch.setattr(room, "_file_system", small)
    store = Store([str(disk)], reactor, user_percent=90)
    answers: list[object] = []
    wanted = (shipped(disk / "absent", size),)
    turns = Turns(reactor, disk)
    store.check(1, wanted, False, MYSELF, answers.append)
    turns.until(lambda: len(answers) == 1)
    store.check(2, wanted, False, MYSELF, answers.append)
    turns.until(lambda: len(answers) == 2)
    first, second = answers
    assert isinstance(first, Checked) and first.lacking == (0,)
    assert isinstance(second, Checked)
    assert [number for number, _ in second.no_place] == [0]
    store.drop_job(1)
    assert store.slices.has(0)
    store.check(3, wanted, False, MYSELF, answers.append)
    turns.until(lambda: len(answers) == 3)
    assert isinstance(answers[2], Checked) and answers[2].lacking == (0,)
    store.close()


def test_a_users_share_is_told_with_its_name_and_numbers(reactor, disk, monkeypatch):
    monkeypatch.setattr(room, "_file_system", lambda where: (1, 1000, 1000))
    store = Store([str(disk)], reactor, user_percent=30)
    answers: list[object] = []
    objects = (shipped(disk / "a", 200), shipped(disk / "b", 200))
    store.check(JOB, objects, False, MYSELF, answers.append)
    Turns(reactor, disk).until(lambda: bool(answers))
    text = (
        f"{disk}: 200 bytes needed, user {MYSELF.uid} holds 200 of the 300 that a user may: "
        "store_user_percent is 30"
    )
    assert answers == [Checked((), (0,), ((1, text),))]
    store.close()


def test_a_large_file_is_removed_a_slice_a_turn(reactor, store, disk, monkeypatch):
    monkeypatch.setattr(removal, "SLICE_BYTES", 1 << 20)
    answers: list[object] = []
    store.check(JOB, (shipped(disk / "absent", 8 << 20),), False, MYSELF, answers.append)
    Turns(reactor, disk).until(lambda: bool(answers))
    path = store.publish(JOB, 0, 0o755, MYSELF.uid, MYSELF.gid)
    punched: list[int] = []
    monkeypatch.setattr(removal, "_punch", lambda fd, offset: punched.append(offset >> 20))
    store.drop_job(JOB)
    turns = 0
    while store.slices.has(0):
        assert len(punched) <= turns + 1
        reactor.run_once(0)
        turns += 1
    assert not os.path.exists(path)
    assert punched == [7, 6, 5, 4, 3, 2, 1]  # the last slice goes with the file


def test_a_file_that_somebody_has_mapped_keeps_its_bytes_without_a_name(disk, monkeypatch):
    monkeypatch.setattr(removal, "SLICE_BYTES", 4096)
    path = disk / "segment"
    path.write_bytes(b"x" * 100_000)
    with path.open("rb") as file:
        seen = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    run(removal.remove_file(str(path)))
    assert not path.exists()
    assert seen[:] == b"x" * 100_000
    seen.close()


def test_a_file_with_another_name_keeps_its_bytes_when_ours_goes(disk, monkeypatch):
    monkeypatch.setattr(removal, "SLICE_BYTES", 4096)
    (disk / "ours").write_bytes(b"x" * 100_000)
    os.link(disk / "ours", disk / "others")
    run(removal.remove_file(str(disk / "ours")))
    assert (disk / "others").read_bytes() == b"x" * 100_000
    (disk / "others").unlink()


def test_a_tree_is_removed_and_no_link_out_of_it_is_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").touch()
    (tree / "a/link").symlink_to(outside)
    (tree / "link").symlink_to(outside / "file")
    run(removal.remove_tree(str(tree)))
    assert not tree.exists()
    assert (outside / "file").exists()


def test_a_tree_that_is_too_deep_for_ours_stays_and_harms_nobody(tmp_path):
    tree = tmp_path / "tree"
    deep = tree
    for _ in range(removal.DEPTH_MAX + 3):
        deep = deep / "d"
    deep.mkdir(parents=True)
    run(removal.remove_tree(str(tree)))
    assert tree.exists()


# -- what killed PCTs leave -----------------------------------------------


@pytest.fixture
def segment() -> Iterator[Path]:
    """Shared memory as a killed rank leaves it."""
    path = Path(leftovers.DIRECTORY) / f"{leftovers.PREFIXES[0]}{os.urandom(6).hex()}"
    path.touch(0o600)
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("age_s", [-60, 60])
def test_what_the_ranks_of_a_killed_pct_have_left_goes_with_its_directory(tmp_path, segment, age_s):
    directory = tmp_path / f"{PREFIX}of-a-killed-pct"
    directory.mkdir()
    since = time.time() - age_s
    os.utime(directory, (since, since))
    run(sweep(str(tmp_path)))
    assert not directory.exists()
    assert segment.exists() == (age_s < 0)  # before that PCT's last job: not its ranks'


def test_a_living_pcts_directory_and_what_its_ranks_have_stay(tmp_path, segment):
    reactor = Reactor()
    store = Store([str(tmp_path)], reactor)
    directory = store.directory()
    os.utime(directory, (0, 0))
    run(sweep(str(tmp_path)))
    assert os.path.exists(directory)
    assert segment.exists()
    store.close()
    reactor.close()
