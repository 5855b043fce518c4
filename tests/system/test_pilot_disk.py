"""A disk that is full fails what needs it by its name, and the session goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import yod.pilot as rp
from tests.support.pilots import check_profiles

LIMIT_S = 60.0


@pytest.fixture
def small(needs_root, place, tmp_path):
    """A directory on a file system of little room."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def of(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})


def test_tasks_fail_by_name_where_the_disk_is_full_and_run_again_where_it_is_not(small, tmp_path):
    (tmp_path / "large").write_bytes(bytes(2_000_000))
    with rp.Session("s", base=str(small)) as session:
        tmgr = rp.TaskManager(session)
        pilot = rp.PilotManager(session).submit_pilots({"cores": 2, "runtime": 5})
        tmgr.add_pilots(pilot)
        staged = tmgr.submit_tasks(of("true", input_staging=[f"{tmp_path}/large > task:///in"]))
        assert staged.wait(timeout=LIMIT_S) == rp.FAILED
        assert staged.reason.endswith("large > task:///in: No space left on device")
        Path(staged.sandbox, "in").unlink()
        fills = tmgr.submit_tasks(of("exec dd if=/dev/zero of=fill bs=1k 2>/dev/null"))
        assert (fills.wait(timeout=LIMIT_S), fills.reason) == (rp.FAILED, "exit code 1")
        others = tmgr.submit_tasks([of("echo out") for _ in range(50)])
        ends = tmgr.wait_tasks([task.uid for task in others], timeout=LIMIT_S)
        assert set(ends) == {rp.FAILED} and all(task.reason for task in others)
        assert pilot.state == rp.PMGR_ACTIVE
        Path(fills.sandbox, "fill").unlink()
        again = tmgr.submit_tasks(of("echo out"))
        assert (again.wait(timeout=LIMIT_S), again.stdout) == (rp.DONE, "out\n")
    assert check_profiles(small) == 1
