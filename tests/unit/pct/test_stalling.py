"""A node whose ranks stand still: when it says so, and what counts as a sign of life."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from native.machine import DeadlineReached
from native.wire import load
from native.wire.group import STILL_CHECKS, StackRules, Still
from native.wire.io import OUTPUT_MAX_BYTES
from native.wire.load import Signal
from pct.events import OutputRead
from pct.host import usage
from pct.rare_events import ReadUse, UseRead
from tests.support.wait import wait_until
from tests.unit.pct import job_of

STALL_S = 80.0
CHECK_S = STALL_S / STILL_CHECKS


class Node:
    """The root of two nodes, whose ranks run, and what its host says of their processor time."""

    def __init__(self, ranks: int = 2) -> None:
        rules = StackRules(stall_s=STALL_S)
        events = [job_of.PRESENT]
        for rank in range(ranks):
            events += [job_of.started(rank), job_of.held(rank)]
        self.job = job_of.a_job(*events, size=1, ranks_each=ranks, stacks=rules)
        self.now = job_of.BEGIN
        self.job.handle(job_of.GO, self.now)
        self.own = dict.fromkeys(range(ranks), 0)
        self.whole = dict.fromkeys(range(ranks), 0)
        self.asked: list[bool] = []

    def handle(self, event) -> list:
        told, actions = [], self.job.handle(event, self.now)
        for action in actions:
            if isinstance(action, ReadUse):
                self.asked.append(action.is_whole)
                used = self.whole if action.is_whole else self.own
                read = {rank: used[rank] for rank in action.unix_pids}
                told += self.handle(UseRead(job_of.JOB_ID, read, action.is_whole))
            elif isinstance(getattr(action, "message", None), Still):
                told.append(action.message.still_s)
        return told

    def wait(self, seconds: float) -> list[float]:
        """Let time pass; for how long the node says that it has stood still."""
        until, told = self.now + seconds, []
        while (due := self.job.deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            told += self.handle(DeadlineReached())
        self.now = until
        return told


def test_a_node_whose_ranks_do_nothing_says_so_once():
    node = Node()
    (still_s,) = node.wait(3 * STALL_S)
    assert STALL_S <= still_s <= STALL_S + 2 * CHECK_S
    assert node.wait(3 * STALL_S) == []


def test_a_node_says_when_a_rank_uses_processor_time_again_and_when_it_does_no_more():
    node = Node()
    node.wait(2 * STALL_S)
    node.own[1] += 1000
    assert node.wait(CHECK_S) == [0.0]
    (still_s,) = node.wait(2 * STALL_S)
    assert still_s >= STALL_S


@pytest.mark.parametrize("of", ["own", "whole"])
def test_a_rank_that_computes_or_whose_children_do_lives(of):
    node = Node()
    for _ in range(40):
        getattr(node, of)[0] += int(CHECK_S * 1000)
        assert node.wait(CHECK_S) == []


def test_all_processes_are_looked_at_only_where_the_ranks_own_have_done_nothing():
    node = Node()
    for _ in range(20):
        node.own[0] += int(CHECK_S * 1000)
        node.wait(CHECK_S)
    assert node.asked and not any(node.asked)


def test_a_rank_that_wakes_now_and_then_stands_still():
    node = Node()
    told = []
    for _ in range(2 * STILL_CHECKS):
        node.own[0] += int(CHECK_S * 0.5)  # milliseconds: half a thousandth of the time
        told += node.wait(CHECK_S)
    assert len(told) == 1


def test_output_is_a_sign_of_life():
    node = Node()
    for _ in range(40):
        node.handle(OutputRead(job_of.JOB_ID, 0, 1, b"step\n"))
        assert node.wait(CHECK_S) == []


def test_ranks_that_are_stopped_do_not_stand_still():
    node = Node()
    node.handle(job_of.received(job_of.YOD, Signal(job_of.JOB_ID, signal.SIGSTOP)))
    assert node.wait(5 * STALL_S) == []
    node.handle(job_of.received(job_of.YOD, Signal(job_of.JOB_ID, signal.SIGCONT)))
    assert len(node.wait(2 * STALL_S)) == 1


def test_ranks_whose_output_waits_for_its_reader_do_not_stand_still():
    node = Node()
    node.handle(OutputRead(job_of.JOB_ID, 0, 1, bytes(OUTPUT_MAX_BYTES + 1)))  # more than goes now
    assert node.wait(5 * STALL_S) == []


def test_a_node_whose_ranks_have_all_ended_stands_still_and_does_not_ask():
    node = Node()
    for rank in range(2):
        node.handle(job_of.ended(rank))
    assert len(node.wait(2 * STALL_S)) == 1
    assert node.asked == []


def test_a_job_that_ends_is_not_looked_at():
    node = Node()
    node.handle(job_of.ALL_DONE)
    assert node.wait(2 * STALL_S) == []
    assert node.asked == []


def test_nobody_looks_where_the_load_does_not_say_so():
    job = job_of.a_job(*job_of.RUNNING)
    assert job.deadline() is None
    assert job.handle(job_of.received(job_of.YOD, load.Signal(job_of.JOB_ID, 10)), 200.0)


# -- what the host says --------------------------------------------------------

BURN = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
INSIDE = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"


@pytest.mark.parametrize("program", [BURN, INSIDE])
def test_the_processor_time_of_a_rank_is_told_with_that_of_its_children(program):
    words = (sys.executable, "-c", program)
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        ranks = {5: child.pid}
        wait_until(lambda: usage.read(ranks, is_whole=True)[5] >= 190)
        own = usage.read(ranks, is_whole=False)[5]
        assert (own >= 190) == (program is BURN)
        child.communicate(b"\n")
    assert usage.read(ranks, is_whole=False) == usage.read(ranks, is_whole=True) == {}
