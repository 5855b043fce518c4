"""Launchers inside a job: their daemons are tools that yod places, beside the worlds."""

import pytest

from native.wire import agent, pmi, pmix
from native.wire.load import Mpi, Protocol
from native.wire.pmi import Process, SpawnCommand
from pct.events import KeeperEnd, KeeperGo, StartKeeper
from pct.pmi_events import PmiClosed, PmiConnected, PmiHangUp, PmiReceived
from tests.unit.pct.job_of import (
    JOB_ID,
    PMIX,
    Tree,
    ended,
    joins,
    keeper_spec,
    pct,
    received,
    running,
    says,
    started,
)
from tests.unit.pct.spawn_of import asked, asks_for_workers, runs, spawned


def calls(tree: Tree, rank: int, host=b"n22", connection=40) -> None:
    """A launcher's agent beside a rank wants a command on another node."""
    command = agent.encode_command(agent.Command(rank, host, b"/tmp", b"prted --x"))
    place = next(place for place, job in tree.jobs.items() if rank in job.ranks)
    tree.at(place, PmiConnected(JOB_ID, connection, None))
    for start in range(0, len(command), 25):  # in pieces, as a stream may
        tree.at(place, PmiReceived(JOB_ID, connection, command[start : start + 25]))


PRTED = SpawnCommand(
    program=b"/bin/sh", arguments=(b"-c", b"prted --x"), count=1, directory=b"/tmp", hosts=(b"n22",)
)


def test_an_agents_command_is_a_spawn_of_a_tool():
    tree = running(3)
    calls(tree, 1)
    assert asked(tree).question == pmi.Spawn(Process(0, 1), (PRTED,), (), is_tool=True)
    assert tree.said(1, 40) == b""


@pytest.mark.parametrize(("rank", "place"), [(1, 2), (2, 0), (0, 2), (3, 4), (3, 1), (1, 3)])
def test_an_agent_is_told_of_start_and_end_wherever_the_tool_runs(rank, place):
    tree = running(7)
    calls(tree, rank)
    spawned(tree, asked(tree), place)
    assert tree.said(rank, 40) == agent.encode_started()
    tree.at(place, *runs(7), ended(7, 3 << 8, world=1))
    assert tree.said(rank, 40) == agent.encode_started() + agent.encode_ended(3 << 8)
    assert tree.took(rank, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]
    tree.at(rank, PmiClosed(JOB_ID, 40))
    assert tree.took(place, KeeperEnd) == []


def test_a_tool_has_the_jobs_environment_and_no_world():
    tree = running(3, mpi=Mpi((Protocol.PMI1, Protocol.PMIX)))
    calls(tree, 1)
    spawned(tree, asked(tree), 2)
    spec = keeper_spec(tree.took(2, StartKeeper)[1:])
    (rank,) = spec.ranks
    assert not any(entry.startswith((b"PMI", b"MPICH_PMI")) for entry in rank.environment)
    assert b"A=1" in spec.environment
    assert len(tree.told(2, pmix.AddWorld)) == 1


def test_fences_do_not_wait_for_a_tool():
    tree = running(3)
    calls(tree, 1)
    spawned(tree, asked(tree), 2)
    tree.at(2, *runs(3))
    for rank in range(3):
        tree.at(rank, *joins(rank), says(rank, b"cmd=barrier_in"))
    assert tree.said(0, 0).endswith(b"cmd=barrier_out rc=0\n")


@pytest.mark.parametrize(("rank", "place"), [(1, 2), (2, 2), (0, 1), (1, 0)])
def test_an_agent_that_goes_takes_its_tool_with_it(rank, place):
    tree = running(3)
    calls(tree, rank)
    spawned(tree, asked(tree), place)
    tree.at(place, *runs(3))
    assert tree.took(place, KeeperEnd) == []
    tree.at(rank, PmiClosed(JOB_ID, 40))
    assert tree.took(place, KeeperEnd) == [KeeperEnd(JOB_ID, 1)]
    tree.at(place, ended(3, 9, world=1))
    assert tree.said(rank, 40) == agent.encode_started()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_agent_that_goes_before_its_tool_is_there_takes_it_when_it_comes(place):
    """On the agent's own node the keeper was told to end before it was started."""
    tree = running(3)
    calls(tree, 1)
    ask = asked(tree)
    tree.at(1, PmiClosed(JOB_ID, 40))
    spawned(tree, ask, place)
    orders = [action for action in tree.actions[place] if getattr(action, "world", None) == 1]
    assert [type(order) for order in orders] == [StartKeeper, KeeperGo, KeeperEnd]
    tree.at(place, started(3, 1), ended(3, 9, world=1))


def test_a_tool_that_yod_cannot_place_is_refused():
    tree = running(3)
    calls(tree, 1, b"n99")
    ask = asked(tree)
    tree.from_yod(pmi.Reply(JOB_ID, ask.source, ask.serial, -1, (), "n99: no node of this job"))
    assert tree.said(1, 40) == b"cmd=refused n99: no node of this job\n"
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]


def test_a_tool_that_runs_and_that_yod_then_refuses_has_ended_somehow():
    """The PCT took the second answer for a bug of its own."""
    tree = running(3)
    calls(tree, 1)
    ask = asked(tree)
    spawned(tree, ask, 2)
    tree.from_yod(pmi.Reply(JOB_ID, ask.source, ask.serial, -1, (), "n99: no node of this job"))
    assert tree.said(1, 40) == agent.encode_started() + agent.encode_ended(255 << 8)


def test_a_command_that_fits_no_message_is_refused_by_its_own_node():
    tree = running(3)
    command = agent.encode_command(agent.Command(1, b"n22", b"/", bytes([65]) * 300_000))
    tree.at(1, PmiConnected(JOB_ID, 40, None), PmiReceived(JOB_ID, 40, command))
    assert tree.said(1, 40).startswith(b"cmd=refused more than ")
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]


def test_an_agent_of_a_rank_that_is_not_here_is_refused_by_its_own_node():
    tree = running(3)
    command = agent.encode_command(agent.Command(2, b"n22", b"/", b"x"))
    tree.at(1, PmiConnected(JOB_ID, 40, None), PmiReceived(JOB_ID, 40, command))
    assert tree.said(1, 40) == b"cmd=refused rank 2 is none of this node's\n"
    assert tree.take_to_yod() == []


def test_an_agent_that_talks_nonsense_is_hung_up_on_and_harms_nobody():
    tree = running(3)
    tree.at(1, PmiConnected(JOB_ID, 40, None), PmiReceived(JOB_ID, 40, b"cmd=agent x\n"))
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]
    assert tree.take_to_yod() == []


def test_only_a_tool_can_be_killed_by_a_question():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 0), 1)
    tree.at(1, *runs(3))
    for world in (0, 1, 5):
        job = tree.jobs[1]
        assert job.handle(received(pct(0), pmi.Ask(JOB_ID, 2, 1, 0, pmi.EndTool(world))), 0) == []


def test_a_tool_that_fails_is_no_loss_of_a_rank():
    """A node stopped: no world has the tool's rank."""
    tree = running(3, mpi=PMIX)
    calls(tree, 1)
    spawned(tree, asked(tree), 2)
    tree.at(2, *runs(3), ended(3, 256, world=1))
    assert tree.said(1, 40).endswith(agent.encode_ended(256))
    assert tree.told(0, pmix.Ended) == []
