"""While something is awaited the user reads what and from whom."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.partition import finish
from tests.support.processes import stopped
from tests.support.programs import Stopped
from tests.support.wait import LIMIT_S, read_until

SOON = {"YOD_NOTICE_S": "0.5"}
QUICK = {"YOD_LIVENESS_S": "3"}


def test_a_bebopd_that_does_not_answer_is_named(start_local):
    local = start_local(1)
    with (
        stopped(local.bebopd.unix_pid),
        local.start_yod("echo", "done", env=SOON) as yod,
    ):
        line = read_until(yod.stderr.fileno(), b"\n").decode()
        assert line.startswith("yod: waiting for a grant from bebopd at ")
        os.kill(local.bebopd.unix_pid, signal.SIGCONT)
        done = finish(yod)
    assert (done.status, done.out) == (0, "done\n")


@pytest.mark.parametrize("node", [0, 2])
def test_a_node_that_gives_no_vote_is_named(start_local, node):
    """Also where yod does not speak to it."""
    local = start_local(3, slots=1, env=SOON)
    with (
        stopped(local.pcts[node].unix_pid),
        local.start_yod("-sz", "3", "echo", "done", env=SOON) as yod,
    ):
        line = read_until(yod.stderr.fileno(), b"\n").decode()
        assert line.startswith(f"yod: waiting for votes from node{node} (")
        os.kill(local.pcts[node].unix_pid, signal.SIGCONT)
        done = finish(yod)
    assert (done.status, done.out) == (0, "done\n" * 3)


@pytest.mark.parametrize("kind", ["embedded", "local"])
def test_a_rank_that_is_kept_from_its_entry_is_named(
    kind, embedded, start_local, programs, tmp_path
):
    partition = embedded if kind == "embedded" else start_local(2, env=SOON)
    late = Stopped(programs, tmp_path)
    load = tmp_path / "job.load"
    load.write_text(f"true\n{late.program}\n")
    with partition.start_yod(load, env=SOON) as yod:
        late.wait()
        said = read_until(yod.stderr.fileno(), b"not at their entry: 1)").decode()
        assert said.startswith("yod: waiting for ranks to be at their entry on ")
        yod.send_signal(signal.SIGINT)
        finish(yod)


def test_quiet_yods_do_not_say_what_they_wait_for(start_local):
    local = start_local(1)
    with (
        stopped(local.bebopd.unix_pid),
        local.start_yod("-quiet", "true", env={"YOD_NOTICE_S": "0.1", **QUICK}) as yod,
    ):
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"waiting" not in err
