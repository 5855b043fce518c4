"""More ranks for a running job: where they go, what is said, and what the report makes of it."""

import pytest

from native.errors import UsageError
from native.wire import alloc, load, pmi
from native.wire.alloc import Grant
from native.wire.base import SIZE_MAX
from native.wire.keeper import RANKS_MAX
from native.wire.placed import GrantedNode, JobNodes
from native.wire.runs import JobRuns, Run
from tests.unit.yod.launch_of import (
    JOB_ID,
    LIMITS,
    Yod,
    ask,
    command,
    completions,
    failure,
    grant,
    node,
    outcome,
    released,
    sent,
    to_root,
    told,
)
from yod.launch.events import Finish, ProgramsFound
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.launch.spawn import Placement, runs

ALL_DONE = to_root(load.AllDone(JOB_ID))


def granted(*counts: int, names=()) -> Grant:
    """So many ranks on each node."""
    base = grant(len(counts))
    nodes = JobNodes.of(
        GrantedNode(each.node, names[place] if names else each.name, each.nid, each.pid)
        for place, each in enumerate(base.nodes)
    )
    return Grant(
        job_id=base.job_id,
        uid=base.uid,
        nodes=nodes,
        runs=JobRuns.of(Run(place, count) for place, count in enumerate(counts)),
        job_key=base.job_key,
        expires=base.expires,
        credential=base.credential,
        credential_mac=base.credential_mac,
        pending_s=base.pending_s,
    )


def placed(placement: Placement, *commands: pmi.SpawnCommand) -> list[tuple[int, int]]:
    """Ranks are placed and begin: (place, count) of each run."""
    chosen = placement.choose(commands)
    placement.add(chosen)
    return [(run.place, run.count) for run in chosen]


# -- placement -------------------------------------------------------------


def test_each_rank_goes_to_the_node_that_has_fewest_of_several_to_the_first():
    placement = Placement(granted(2, 1, 1))
    assert placed(placement, command(2)) == [(1, 1), (2, 1)]
    assert placed(placement, command(4)) == [(0, 1), (1, 1), (2, 1), (0, 1)]


def test_a_rank_that_has_ended_makes_room():
    placement = Placement(granted(2, 2))
    placement.ended(3)
    assert placed(placement, command(1)) == [(1, 1)]  # where rank 3 was
    placement.ended(4)
    placement.ended(99)  # nobody's
    assert placed(placement, command(1)) == [(1, 1)]
    assert placement.size == 6


def test_a_list_of_hosts_is_all_that_a_command_uses():
    placement = Placement(granted(1, 1, 1))
    assert placed(placement, command(3, b"n21")) == [(1, 3)]
    assert placed(placement, command(3, b"n22", b"n20")) == [(0, 1), (2, 1), (0, 1)]


def test_commands_of_one_spawn_share_the_nodes():
    placement = Placement(granted(1, 1))
    assert placed(placement, command(1), command(2, b"n20"), command(1)) == [
        (0, 3),
        (1, 1),
    ]


def test_nodes_of_one_name_are_all_meant():
    placement = Placement(granted(1, 1, 1, names=("host", "host", "other")))
    assert placed(placement, command(4, b"host")) == [(0, 1), (1, 1), (0, 1), (1, 1)]


def test_a_host_that_is_none_of_the_jobs_is_refused_with_those_that_are_and_takes_nothing():
    placement = Placement(granted(1, 1))
    with pytest.raises(UsageError, match=r"^n99: no node of this job; it has n20, n21$"):
        placement.choose((command(5), command(1, b"n20", b"n99")))
    assert placement.size == 2
    assert placed(placement, command(1)) == [(0, 1)]
    many = Placement(granted(*[1] * 10))
    with pytest.raises(UsageError, match=r"n27, \.\.\. \(10\)$"):
        many.choose((command(1, b"\xff"),))


def test_a_job_has_so_many_ranks_and_no_more():
    placement = Placement(granted(1))
    with pytest.raises(UsageError, match=f"^{SIZE_MAX + 1} ranks in all, at most {SIZE_MAX}$"):
        placement.choose((command(SIZE_MAX),))
    with pytest.raises(UsageError):
        placement.choose((command(SIZE_MAX - 1), command(1)))
    assert placement.size == 1


def test_a_node_takes_as_many_ranks_at_once_as_a_keeper_and_no_more():
    """The keeper refused them, and the job ended."""
    placement = Placement(granted(9, 1))
    assert placed(placement, command(RANKS_MAX, b"n21")) == [(1, RANKS_MAX)]
    with pytest.raises(UsageError, match=f"^n20: {RANKS_MAX + 1} ranks at once, at most"):
        placement.choose((command(1), command(RANKS_MAX, b"n20")))


def test_a_host_that_is_named_twice_is_one():
    placement = Placement(granted(1, 1))
    assert placed(placement, command(3, b"n21", b"n20", b"n21")) == [(0, 1), (1, 1), (0, 1)]


def test_what_was_only_chosen_takes_nothing():
    placement = Placement(granted(1, 1))
    first = placement.choose((command(1),))
    assert placement.choose((command(1),)) == first == (Run(0, 1),)
    placement.add(first)
    assert placement.choose((command(1),)) == (Run(1, 1),)


def test_places_of_consecutive_ranks_are_folded():
    assert runs([]) == ()
    assert runs([0, 0, 1, 0]) == (Run(0, 2), Run(1, 1), Run(0, 1))


# -- a spawn ---------------------------------------------------------------


def running(size=2, **options) -> Yod:
    return Yod(size, **options).to(Phase.RUNNING)


def test_a_spawn_is_answered_with_a_new_world_behind_the_ranks_so_far():
    yod = running()
    first = command(2, environment=(b"A=1",), directory=b"/scratch")
    second = command(1, program=b"other", arguments=())
    (action,) = yod.spawn(first, second, serial=9)
    assert action == to_root(
        load.StartWorld(
            job_id=JOB_ID,
            world=1,
            first_rank=2,
            runs=(Run(0, 1), Run(1, 1), Run(0, 1)),
            paths=(b"/bin/worker0", b"/bin/worker1"),
            members=(
                load.MemberLoad(2, 0, (b"./worker", b"-w"), b"/scratch"),
                load.MemberLoad(1, 1, (b"other",), b"/home"),
            ),
            environments=((b"A=1",), ()),
            parent=pmi.Process(0, 1),
            pairs=(pmi.KeyValue(b"k", b"v"),),
            is_tool=False,
            source=1,
            serial=9,
        )
    )
    (message,) = sent(yod.spawn(command(1)))
    assert (message.world, message.first_rank, message.runs) == (2, 5, (Run(1, 1),))


def test_a_relative_directory_is_below_that_of_the_load():
    (message,) = sent(running().spawn(command(1, directory=b"sub")))
    assert message.members[0].directory == b"/home/sub"


def test_a_program_that_is_not_found_answers_the_spawn_and_says_so():
    yod = running()
    wanted = ask(command(1), serial=4)
    yod.receive(wanted)
    actions = yod.handle(ProgramsFound(wanted, (), "./worker: no such program"))
    assert told(actions) == ["spawn: ./worker: no such program"]
    assert sent(actions) == [pmi.Reply(JOB_ID, 1, 4, -1, (), "./worker: no such program")]
    assert yod.report.size == 2


def test_a_host_that_is_not_there_answers_the_spawn():
    (reply,) = sent(running().spawn(command(1, b"n99")))
    assert isinstance(reply, pmi.Reply) and reply.text.startswith("n99: no node of this job")


def test_a_spawn_that_fits_no_message_changes_nothing():
    yod = running()
    (reply,) = sent(yod.spawn(command(1, arguments=(b"x" * 262_100,))))
    assert "exceeds 262144" in reply.text
    (message,) = sent(yod.spawn(command(1)))
    assert (message.world, message.first_rank, message.runs) == (1, 2, (Run(0, 1),))


@pytest.mark.parametrize(
    "phase", [phase for phase in Phase if phase is not Phase.RUNNING], ids=lambda phase: phase.name
)
def test_a_spawn_outside_of_the_run_is_late(phase):
    yod = Yod(2).to(phase)
    wanted = ask(command(1))
    assert yod.receive(wanted) == []
    assert yod.handle(ProgramsFound(wanted, (b"/bin/worker",))) == []


def test_a_job_goes_on_until_its_spawned_ranks_have_ended_too():
    yod = running()
    yod.spawn(command(2))
    assert yod.receive(completions(0, 1)) == []
    assert yod.phase is Phase.RUNNING
    assert yod.receive(load.Completions(JOB_ID, (spawned(2),))) == []
    assert yod.receive(load.Completions(JOB_ID, (spawned(3),))) == [ALL_DONE]
    assert finish(yod) == 0


def test_a_job_does_not_wait_for_the_daemons_of_a_launcher():
    yod = running()
    yod.spawn(command(1), is_tool=True)
    assert yod.receive(completions(0, 1)) == [ALL_DONE]
    yod.receive(load.Completions(JOB_ID, (spawned(2, wait_status=9),)))
    assert finish(yod) == 0


def test_a_daemon_that_fails_kills_nobody():
    yod = running()
    yod.spawn(command(1), is_tool=True)
    assert yod.receive(load.Completions(JOB_ID, (spawned(2, wait_status=256),))) == []
    assert yod.machine.deadline() is None


def test_a_spawned_rank_that_fails_ends_the_job_as_any_other():
    yod = running()
    yod.spawn(command(1))
    yod.receive(load.Completions(JOB_ID, (spawned(2, wait_status=7 << 8),)))
    assert load.Signal(JOB_ID, 15) in sent(yod.wait(LIMITS.kill_delay_s))
    yod.receive(completions(0, 1, wait_status=15, was_signalled=True))
    assert finish(yod) == 7


def test_a_spawned_rank_that_never_came_to_its_entry_ends_nobody():
    """Who spawned it has been told, and may go on."""
    yod = running()
    yod.spawn(command(1))
    never = spawned(2, wait_status=126 << 8, was_released=False)
    yod.receive(load.Completions(JOB_ID, (never,)))
    assert yod.machine.deadline() is None
    assert yod.receive(completions(0, 1)) == [ALL_DONE]
    assert finish(yod) == 0


def test_places_that_have_become_free_are_used_again():
    yod = running()
    yod.spawn(command(2))
    yod.receive(load.Completions(JOB_ID, (spawned(3),)))
    (message,) = sent(yod.spawn(command(1)))
    assert message.runs == (Run(1, 1),)
    yod.receive(load.Completions(JOB_ID, (spawned(3),)))  # told again
    (message,) = sent(yod.spawn(command(1)))
    assert message.runs == (Run(0, 1),)


def spawned(rank: int, wait_status: int = 0, was_released: bool = True) -> load.Outcome:
    """The end of a spawned rank, which node(rank) would not name."""
    zero = (0,)
    where = (node(0).node,)
    return load.Outcome(
        wait_status, was_released, (rank,), where, (4000 + rank,), (1000,), zero, zero, zero
    )


def finish(yod: Yod) -> int | None:
    """The tree confirms its end, then bebopd; the exit status."""
    if yod.phase is Phase.ENDING:
        yod.receive(released(*range(yod.size)))
    assert yod.from_bebopd(alloc.Released(JOB_ID))[-1] == Finish()
    return yod.status


# -- ranks that are alone --------------------------------------------------


def test_ranks_that_are_alone_are_told_of_once():
    yod = running()
    line = pmi.Alone(JOB_ID, 1, b"/lib/libmpi.so.40", "the program had Open MPI")
    assert told(yod.receive(line)) == ["rank 1: the program had Open MPI"]
    assert yod.receive(line) == []
    yod.receive(completions(0, 1))
    assert yod.receive(line) == []


def test_the_last_ranks_may_be_told_of_when_the_job_is_ending():
    yod = Yod(2).to(Phase.ENDING)
    assert told(yod.receive(pmi.Alone(JOB_ID, 0, b"/l", "alone"))) == ["rank 0: alone"]
    assert finish(yod) == 0


def test_a_node_that_cannot_offer_what_is_certain_fails_the_launch():
    yod = Yod(2).to(Phase.FORMING)
    kind = load.FailureKind.NO_WIREUP
    actions = yod.receive(failure(kind, text="PMIx cannot be offered: no libpmix.so.2"))
    assert "PMIx cannot be offered: no libpmix.so.2" in told(actions)[0]
    assert "n21" in told(actions)[0]
    assert ALL_DONE in actions
    assert finish(yod) == 125


# -- the report ------------------------------------------------------------


def report() -> Report:
    one = Report(("a.out",), (2,))
    one.place(grant(2))
    return one


def test_the_report_has_spawned_ranks_behind_those_of_the_load():
    one = report()
    one.spawn(("worker", "other"), (1, 1), (Run(1, 1), Run(0, 1)), is_tool=False)
    assert one.size == 4
    assert one.complete(outcome(0, 1), ()) == [0, 1]
    assert not one.is_complete
    assert one.complete(spawned(2), ()) == [2]
    assert one.complete(spawned(2), ()) == []
    assert one.complete(spawned(3), ()) == [3]
    assert one.complete(spawned(4), ()) == []
    assert one.is_complete
    one.close()
    assert one.exit_status == 0


def test_a_spawned_rank_that_is_never_heard_of_is_no_success():
    one = report()
    one.spawn(("worker",), (1,), (Run(1, 1),), is_tool=False)
    one.complete(outcome(0, 1), ())
    one.close()
    assert one.exit_status == 125


def test_a_tool_is_neither_waited_for_nor_counted():
    one = report()
    one.spawn(("/bin/sh",), (1,), (Run(1, 1),), is_tool=True)
    one.complete(spawned(2, wait_status=256), ())
    assert one.has_succeeded_so_far
    one.complete(outcome(0, 1), ())
    assert one.is_complete
    one.close()
    assert one.exit_status == 0


def test_the_earliest_failure_may_be_a_spawned_rank():
    one = report()
    one.spawn(("worker",), (1,), (Run(1, 1),), is_tool=False)
    one.complete(spawned(2, wait_status=5 << 8), ())
    one.complete(outcome(0, 1, wait_status=6 << 8), ())
    one.close()
    assert one.exit_status == 5
    assert one.first_failure.startswith("rank 2 on n20")
