"""The partition's key is changed while it runs, and nobody is turned away meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.daemons import Daemons, wait_for_log
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until


def change(local: Daemons, data: bytes, count: int) -> None:
    """Let all daemons take a key file with these keys."""
    local.key_file.write_bytes(data)
    for daemon in (*local.pcts, local.bebopd):
        daemon.begin_test()
        os.kill(daemon.unix_pid, signal.SIGHUP)
        wait_for_log(daemon, f"is in force, {count} key")


def user_key(local: Daemons, place: Path) -> dict[str, str]:
    """What a user has in the environment, with the key that `yodctl key` gives."""
    path = place / f"key-{len(list(place.iterdir()))}"
    made = finish(local.start_command(BIN / "yodctl", "key", "0", "--key-file", local.key_file))
    path.write_text(made.out)
    path.chmod(0o600)
    return {"YOD_PARTITION": local.address, "YOD_KEY_FILE": str(path)}


@pytest.mark.usefixtures("needs_root")  # of a user who is bebopd's own
def test_a_key_is_changed_in_three_steps_while_jobs_run(start_local, tmp_path: Path) -> None:
    local: Daemons = start_local(2, slots=2, bebopd_options=("--name", "changing"))
    old, new = local.key_file.read_bytes(), os.urandom(32)
    with_old = user_key(local, tmp_path)
    with local.start_yod("-sz", "2", "sh", "-c", "echo up; cat") as running:
        read_until(running.stdout.fileno(), b"up\n")
        change(local, old + new, 2)
        assert local.yod("-sz", "2", "true") == (0, "", "")
        change(local, new + old, 2)
        with_new = user_key(local, tmp_path)
        for env in (with_old, with_new):
            assert local.yod("-sz", "2", "true", env=env) == (0, "", "")
        change(local, new, 1)
        assert local.yod("-sz", "2", "true", env=with_new) == (0, "", "")
        refused = local.yod("-sz", "2", "true", env=with_old)
        assert (refused.status, refused.out) == (125, "")
        assert "does not hold the same key" in refused.err
        running.communicate(b"", timeout=LIMIT_S)
    assert running.returncode == 0
