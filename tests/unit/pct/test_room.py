"""Room for objects: counted before it is there, shared among users, allocated in slices."""

from __future__ import annotations

import errno
import os

import pytest

from native.loop.slices import run
from pct.host import room
from pct.host.room import MEMORY, Room

GB = 1 << 30
ALICE, BOB = 1000, 1001


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems of 10 GB each, all free; no cgroup."""
    devices = {"/a": 1, "/also-a": 1, "/b": 2, MEMORY: -1}
    monkeypatch.setattr(room, "_file_system", lambda where: (devices[where], 10 * GB, 10 * GB))
    monkeypatch.setattr(room, "_cgroup_room", lambda: None)


def refusal(claims: Room, *arguments: object) -> tuple[int | None, str]:
    """Number and text of a claim's error."""
    with pytest.raises(OSError) as caught:
        claims.claim(*arguments)  # type: ignore[arg-type]
    return caught.value.errno, caught.value.strerror or ""


def test_what_is_promised_is_not_free_for_others():
    claims = Room()
    claim = claims.claim("/a", ALICE, 7 * GB)
    assert refusal(claims, "/also-a", BOB, 4 * GB) == (
        errno.ENOSPC,
        f"{4 * GB} bytes needed, {3 * GB} free",
    )
    claims.claim("/b", BOB, 4 * GB)
    claims.release(claim)
    claims.claim("/a", BOB, 4 * GB)


def test_a_user_has_a_share_of_each_file_system_in_all_their_jobs():
    claims = Room(user_percent=50)
    first = claims.claim("/a", ALICE, 3 * GB)
    assert refusal(claims, "/also-a", ALICE, 3 * GB) == (
        errno.EDQUOT,
        f"{3 * GB} bytes needed, user {ALICE} holds {3 * GB} of the {5 * GB} that a user may: "
        "store_user_percent is 50",
    )
    claims.claim("/b", ALICE, 5 * GB)
    claims.claim(MEMORY, ALICE, 5 * GB)
    claims.claim("/a", BOB, 5 * GB)
    claims.release(first)
    claims.claim("/a", ALICE, 5 * GB)


def test_a_user_alone_may_have_all_that_is_free():
    Room().claim("/a", ALICE, 10 * GB)


def test_a_memory_cgroup_counts_what_is_promised_anywhere(monkeypatch):
    monkeypatch.setattr(room, "_cgroup_room", lambda: 8 * GB)
    claims = Room()
    claims.claim("/a", ALICE, 5 * GB)
    number, text = refusal(claims, MEMORY, ALICE, 4 * GB)
    assert number == errno.ENOSPC
    assert text == f"{4 * GB} bytes needed, the memory cgroup has {3 * GB} left"


def test_room_is_allocated_in_slices_whatever_is_asked_for():
    claims = Room()
    size = 5 * room.SLICE_BYTES + 1
    claim = claims.claim("/a", ALICE, size)
    fd = os.memfd_create("test-of-yod")
    work = claims.allocate(fd, claim)
    for number in range(1, 6):
        next(work)
        assert os.fstat(fd).st_size == number * room.SLICE_BYTES
        assert claim.promised == size - number * room.SLICE_BYTES
    run(work)
    assert os.fstat(fd).st_size == size
    assert (claim.promised, claims.held(ALICE)) == (0, size)
    claims.release(claim)
    assert claims.held(ALICE) == 0
    os.close(fd)
