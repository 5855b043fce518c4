"""The third press leaves, whatever does not answer: a PCT, a keeper, bebopd, a reader."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.support.daemons import Daemons
from tests.support.leaks import descendants
from tests.support.processes import stopped
from tests.support.wait import LIMIT_S, read_until, unread, wait_for_exit, wait_until

pytestmark = pytest.mark.warm

AT_ONCE = {"YOD_PRESS_S": "0"}  # every signal is a press
READY = ("-sz", "4", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 60 & wait; done")


def press(yod: subprocess.Popen[bytes], said: bytes) -> None:
    yod.send_signal(signal.SIGINT)
    read_until(yod.stderr.fileno(), said)


def leave(yod: subprocess.Popen[bytes]) -> bytes:
    """The third press; gives what yod says behind it."""
    press(yod, b"the nodes are told to reset; leaving\n")
    _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT
    return err


def wait_ready(yod: subprocess.Popen[bytes]) -> None:
    read_until(yod.stdout.fileno(), b"ready\n", times=4)


def wait_free(partition) -> None:
    wait_until(lambda: set(partition.states()) == {"free"}, what="all nodes free")


@pytest.mark.parametrize("stopping", [(0,), (1,), (0, 1)])
def test_while_the_group_is_formed_with_a_stopped_pct(start_local, stopping):
    local = start_local(2)
    pcts = [local.pcts[node].unix_pid for node in stopping]
    with stopped(*pcts), local.start_yod("-D", *READY, env=AT_ONCE) as yod:
        read_until(yod.stderr.fileno(), b"allocate -> form\n")
        press(yod, b"the load is being cancelled; interrupt again to reset the nodes\n")
        press(yod, b"nodes are being reset; interrupt again to leave\n")
        leave(yod)
    wait_free(local)


@pytest.mark.parametrize("stopping", [(0,), (1,), (0, 1)])
def test_while_the_application_runs_with_a_stopped_pct(start_local, stopping):
    local = start_local(2)
    with local.start_yod("--completions", *READY, env=AT_ONCE) as yod:
        wait_ready(yod)
        with stopped(*(local.pcts[node].unix_pid for node in stopping)):
            press(yod, b"SIGTERM sent to all ranks; interrupt again to send SIGKILL\n")
            press(yod, b"interrupt again to reset the nodes and leave\n")
            assert leave(yod) == b"", "there is a table, and nothing is known of the ranks"
    wait_free(local)


def test_while_the_nodes_are_given_back_with_a_stopped_bebopd(start_local):
    local = start_local(2)
    with local.start_yod("-D", "sh", "-c", "echo ready; read line", env=AT_ONCE) as yod:
        read_until(yod.stdout.fileno(), b"ready\n")
        with stopped(local.bebopd.unix_pid):
            yod.stdin.write(b"\n")
            read_until(yod.stderr.fileno(), b"-> release\n")
            press(yod, b"the nodes are being given back; interrupt twice more to leave now\n")
            press(yod, b"the nodes are being given back; interrupt again to leave now\n")
            leave(yod)
    wait_free(local)


def test_while_nodes_are_asked_for_the_first_press_leaves_a_stopped_bebopd(start_local):
    local = start_local(2)
    with stopped(local.bebopd.unix_pid), local.start_yod("true", env=AT_ONCE) as yod:
        wait_until(lambda: catches(yod.pid, signal.SIGUSR1), what="yod in its loop")
        press(yod, b"interrupted before nodes were granted\n")
        yod.communicate(timeout=LIMIT_S)
        assert yod.returncode == -signal.SIGINT


def catches(unix_pid: int, number: int) -> bool:
    with open(f"/proc/{unix_pid}/status") as status:
        (mask,) = [int(line.split()[1], 16) for line in status if line.startswith("SigCgt")]
    return bool(mask >> number - 1 & 1)


def keepers_of(partition, yod: subprocess.Popen[bytes]) -> list[int]:
    has_pcts = isinstance(partition, Daemons)
    pcts = [pct.unix_pid for pct in partition.pcts] if has_pcts else [yod.pid]
    below = {child for pct in pcts for child in descendants(pct)}
    return [child for child in below if name_of(child) == "yod-keeper"]


def name_of(unix_pid: int) -> str:
    with open(f"/proc/{unix_pid}/comm") as comm:
        return comm.read().strip()


def test_stopped_keepers_go_on_and_end_their_ranks(here):
    with here.start_yod(*READY, env=AT_ONCE) as yod:
        wait_ready(yod)
        keepers = keepers_of(here, yod)
        assert keepers
        for keeper in keepers:
            os.kill(keeper, signal.SIGSTOP)
        press(yod, b"SIGTERM sent to all ranks; interrupt again to send SIGKILL\n")
        press(yod, b"interrupt again to reset the nodes and leave\n")
        leave(yod)
    for keeper in keepers:
        wait_for_exit(keeper)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_reader_that_takes_nothing_keeps_nobody(here, stream):
    """Of standard error either, where the presses are answered."""
    words = ("-sz", "2", "sh", "-c", f"trap '' TERM; exec yes >&{stream}")
    with here.start_yod(*words) as yod:
        pipe = (yod.stdout, yod.stderr)[stream - 1].fileno()
        wait_until(lambda: unread(pipe) >= 65536, what="the pipe full")
        while yod.poll() is None:
            yod.send_signal(signal.SIGINT)
            try:
                yod.wait(timeout=0.3)
            except subprocess.TimeoutExpired:
                pass
        assert yod.returncode == -signal.SIGINT
