"""What an owner keeps on a node has a limit; what no saver uses any more is removed to keep it."""

from __future__ import annotations

import os

import pytest

from partition.checkpoint.collecting import NotSavedError
from partition.savers import keeping
from partition.savers.keeping import Share

LONG_AGO = 1e9


@pytest.fixture
def left(tmp_path):
    """What a job has left that has ended."""
    path = tmp_path / ".collecting-1.0"
    path.mkdir()
    (path / "images").write_bytes(bytes(600))
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def test_what_is_left_stays_while_there_is_room_and_gives_way_when_there_is_not(tmp_path, left):
    with Share(str(tmp_path), ".collecting-2.0", 1300) as share:
        share.demand_room(700)
        assert left.exists()
        share.demand_room(701)
    assert not left.exists()
    assert (tmp_path / ".collecting-2.0").exists()


def test_what_another_saver_works_on_does_not_give_way(tmp_path, left):
    lock = keeping.locked(str(left))
    with (
        pytest.raises(NotSavedError, match=r"0\.0 MB of yours would be kept here"),
        Share(str(tmp_path), ".collecting-2.0", 1300) as share,
    ):
        share.demand_room(701)
    assert left.exists()
    assert not (tmp_path / ".collecting-2.0").exists()
    os.close(lock)


def test_what_was_saved_a_moment_ago_does_not_give_way(tmp_path, left):
    os.utime(left)
    with pytest.raises(NotSavedError, match="YOD_CHECKPOINT_LOCAL_BYTES"):
        Share(str(tmp_path), ".collecting-2.0", 600)
    assert left.exists()


def test_what_an_attempt_before_has_left_is_removed(tmp_path, left):
    with Share(str(tmp_path), left.name, 100):
        assert os.listdir(left) == []
