"""A daemon that stands still is noticed in time; a yod that does is left in peace.

Stopped processes are the hard case: their kernel takes every byte and answers every
probe.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.daemons import wait_for_log
from tests.support.partition import Done, finish
from tests.support.processes import stopped
from tests.support.wait import LIMIT_S, read_until, wait_until

LIVENESS_S = 4
QUICK = {"YOD_LIVENESS_S": str(LIVENESS_S), "YOD_END_S": "2"}
ENDLESS = ("sh", "-c", "echo up; exec sleep 1000")


def count_up(yod: subprocess.Popen[bytes], times: int) -> None:
    """Return when so many ranks have said that they are up."""
    read_until(yod.stdout.fileno(), b"up\n", times=times)


@pytest.mark.parametrize("node", [0, 1])
def test_a_stopped_pct_is_a_lost_node(start_local, node):
    """The root is watched by yod, another by its parent."""
    local = start_local(3, slots=1, env=QUICK)
    with local.start_yod("-sz", "3", *ENDLESS, env=QUICK) as yod:
        count_up(yod, 3)
        with stopped(local.pcts[node].unix_pid):
            said = read_until(yod.stderr.fileno(), b"\n")
            said += yod.communicate(timeout=LIMIT_S)[1]
            assert yod.returncode == 125, said
            line, *rest = (line.removeprefix("yod: ") for line in said.decode().splitlines())
            assert f"node {node} (node{node}) was lost" in line and "stopped" in line
            assert f"rank {node} on node{node}: lost with node node{node}" in rest
            if node:  # without a root nodes end by themselves, and may have nobody to tell
                end = f": killed by yod (SIGKILL) because node {node} (node{node}) was lost"
                assert any(line.endswith(end) for line in rest), rest
            assert not any(line.endswith(": killed by SIGKILL") for line in rest)
            assert f"node {node} (node{node}) is down" in wait_for_log(local.bebopd, "is down")
    wait_until(lambda: set(local.states()) == {"free"})
    assert local.yod("-sz", "3", "true") == (0, "", "")


def sockets(unix_pid: int) -> int:
    """How many a process has open."""
    names = Path(f"/proc/{unix_pid}/fd").iterdir()
    return sum(os.readlink(name).startswith("socket:") for name in names)


def test_pcts_close_a_connection_that_no_job_needs_and_open_it_for_the_next(start_local):
    local = start_local(2, slots=1, env={"YOD_PEER_IDLE_S": "0.1"})
    pcts = [pct.unix_pid for pct in local.pcts]
    alone = [sockets(pid) for pid in pcts]
    assert local.yod("-sz", "2", "true") == (0, "", "")
    wait_until(lambda: set(local.states()) == {"free"})
    wait_until(lambda: [sockets(pid) for pid in pcts] == alone)
    with local.start_yod("-sz", "2", *ENDLESS) as yod:
        count_up(yod, 2)
        joined = [sockets(pid) for pid in pcts]
        yod.terminate()
        yod.communicate(timeout=LIMIT_S)
    assert all(more > less for more, less in zip(joined, alone, strict=True))
    wait_until(lambda: [sockets(pid) for pid in pcts] == alone)


def test_a_stopped_bebopd_is_told_to_who_asks_for_nodes(start_local):
    local = start_local(1, env=QUICK)
    with stopped(local.bebopd.unix_pid):
        done = local.yod("true", env=QUICK)
        wait_for_log(local.pcts[0], "bebopd: does not answer")
    assert (done.status, done.out) == (125, "")
    assert "bebopd at" in done.err
    wait_until(lambda: local.states() == ["free"])


def test_a_running_job_does_not_need_bebopd(start_local):
    local = start_local(2, slots=1, env=QUICK)
    with local.start_yod("-sz", "2", "sh", "-c", "echo up; read a; echo $a", env=QUICK) as yod:
        count_up(yod, 2)
        with stopped(local.bebopd.unix_pid):
            wait_for_log(local.pcts[0], "bebopd: does not answer")
            assert yod.poll() is None
        done: Done = finish(yod, b"word\n")
    assert (done.status, done.err) == (0, "")
    assert "word" in done.out


TALKER = """
echo up
read word
i=0; while [ $i -lt 40000 ]; do echo line $i of a long story; i=$((i+1)); done
echo $word
"""


@pytest.mark.parametrize("talks", [True, False])
def test_a_stopped_yod_keeps_its_job(start_local, talks):
    """As after Ctrl-Z, also while its sockets are full of output that it does not take."""
    local = start_local(2, slots=1, env=QUICK)
    program = TALKER if talks else "echo up; read word; echo $word"
    with local.start_yod("-sz", "2", "sh", "-c", program, env=QUICK) as yod:
        count_up(yod, 2)
        if talks:
            yod.stdin.write(b"word\n")
        with stopped(yod.pid):
            until = time.monotonic() + 2 * LIVENESS_S
            wait_until(lambda: time.monotonic() > until)
            assert set(local.states()) == {"busy"}
        out, err = yod.communicate(b"" if talks else b"word\n", timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert b"word\n" in out


@pytest.mark.hosts
def test_a_stopped_yod_on_another_host_keeps_its_job_until_its_host_is_cut(start_hosts):
    """Its host's kernel speaks for it, as long as that can be heard."""
    hosts = start_hosts(2, slots=1, env=QUICK)
    with hosts.start_yod("-sz", "2", *ENDLESS, env=QUICK) as yod:
        count_up(yod, 2)
        with stopped(yod.pid):
            until = time.monotonic() + 2 * LIVENESS_S
            wait_until(lambda: time.monotonic() > until)
            assert all("sleep 1000" in host.processes().values() for host in hosts.hosts[:2])
            hosts.front.cut()
            wait_until(
                lambda: all("sleep 1000" not in h.processes().values() for h in hosts.hosts[:2])
            )
            hosts.front.heal()
        yod.communicate(timeout=LIMIT_S)
    wait_until(lambda: set(hosts.states()) == {"free"})
