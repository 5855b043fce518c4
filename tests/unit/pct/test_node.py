"""A node: which loads it takes, what it routes where, what it tells bebopd."""

import msgspec
import pytest

from native.errors import TOO_OLD, PeerProtocolError
from native.ids import PortalId, Principal, PrincipalKind
from native.machine import DeadlineReached, Log, MessageReceived, PeerGone, Send
from native.wire import alloc, codec, group, load, nodes, status
from native.wire.runs import Run
from pct.events import CheckObjects, Leave, ObjectsChecked, Restart
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.pmi_events import OpenPmi, PmiReceived
from tests.unit.pct.job_of import (
    CARRIER,
    EMPTY,
    JOB_ID,
    OPENED,
    PRESENT,
    PROGRAM,
    STRANGER,
    YOD,
    arguments,
    held,
    job_nodes,
    node,
    pct,
    started,
)
from tests.unit.pct.node_of import (
    BEBOPD,
    DAEMON,
    LIMITS,
    OWNER,
    a_node,
    accepted,
    granted,
    ready,
    received,
)

USER = Principal(PrincipalKind.USER, 1000)


def refusal(text, job_id=JOB_ID):
    failure = load.Failure(
        job_id, load.FailureKind.REFUSED, "forming the group", 20, "n20", -1, text
    )
    return [Send(YOD, failure), Log(text, job_id)]


# -- bebopd ----------------------------------------------------------------


def announced(number=-1, jobs=()):
    return [Send(BEBOPD, status.Announce(number, "n20", 4, *pct(0), 99, jobs))]


def test_a_node_announces_itself_until_bebopd_answers():
    machine = a_node()
    assert machine.begin(0.0) == announced()
    assert machine.deadline() == LIMITS.announce_retry_s
    assert machine.handle(DeadlineReached(), 1.0) == announced()
    assert machine.handle(accepted(), 1.5) == [Log("node 20 of the partition")]
    assert machine.deadline() == 11.5


def test_a_node_announces_itself_at_every_heartbeat_with_its_number_and_its_jobs():
    machine = ready()
    assert machine.handle(DeadlineReached(), 10.0) == announced(20)
    assert machine.handle(accepted(), 10.0) == []
    machine.handle(received(granted(1, 2)), 12.0)
    here = status.HostedJob(JOB_ID, 1000, 2, (0, 1), 8.0)
    assert machine.handle(DeadlineReached(), 20.0) == announced(20, (here,))


def test_a_node_full_of_ranks_announces_itself_in_a_message_that_fits():
    machine = ready(slots=60000)
    machine.handle(received(granted(1, 60000)), 12.0)
    (action,) = machine.handle(DeadlineReached(), 20.0)
    assert codec.why_refused(action.message) == ""
    assert action.message.jobs[0].ranks == tuple(range(60000))


def test_a_node_without_bebopd_tries_again_soon_and_its_jobs_go_on():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    text = "bebopd: gone; announcing again every 1 s"
    assert machine.handle(PeerGone(BEBOPD, "gone"), 5.0) == [Log(text)]
    assert machine.handle(PeerGone(BEBOPD, "gone"), 5.0) == []  # told once
    assert machine.deadline() == 6.0
    assert [type(each.message) for each in machine.handle(DeadlineReached(), 6.0)] == [
        status.Announce
    ]
    assert machine.deadline() == 7.0
    assert list(machine.jobs) == [JOB_ID]


def test_a_restarted_bebopds_epoch_makes_earlier_grants_stale():
    machine = ready()
    machine.handle(accepted(epoch=78), 1.0)
    text = "the reservation of job 7 is no longer valid"
    assert machine.handle(received(granted()), 1.0) == refusal(text)
    assert machine.jobs == {}


def test_a_rejected_node_knows_why():
    machine = a_node()
    rejected = MessageReceived(BEBOPD, DAEMON, status.Rejected("node 20 is there already"))
    text = "bebopd does not take this node: node 20 is there already"
    assert machine.handle(rejected, 0.0) == [Log(text), Leave("node 20 is there already")]


def test_a_revoked_job_is_not_taken_afterwards():
    machine = ready()
    revoke = MessageReceived(BEBOPD, DAEMON, alloc.Revoke(JOB_ID))
    assert machine.handle(revoke, 0.0) == [Send(BEBOPD, alloc.Revoked(JOB_ID, 20, False))]
    text = "the reservation of job 7 is no longer valid"
    assert machine.handle(received(granted()), 0.0) == refusal(text)


def test_a_hosted_job_is_not_revoked():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    revoke = MessageReceived(BEBOPD, DAEMON, alloc.Revoke(JOB_ID))
    assert machine.handle(revoke, 0.0) == [Send(BEBOPD, alloc.Revoked(JOB_ID, 20, True))]
    assert list(machine.jobs) == [JOB_ID]


@pytest.mark.parametrize("principal", [OWNER, USER])
@pytest.mark.parametrize(
    "message",
    [
        status.Accepted(3, 1, 1.0),
        status.Rejected("no"),
        alloc.Revoke(JOB_ID),
        nodes.RestartNow(True),
    ],
)
def test_only_who_holds_the_partitions_key_speaks_as_bebopd(principal, message):
    machine = ready()
    with pytest.raises(PeerProtocolError, match="needs the partition key"):
        machine.handle(received(message, principal), 0.0)
    assert machine.number == 20


RESTART_NOW = MessageReceived(BEBOPD, DAEMON, nodes.RestartNow(False))


def test_a_node_without_jobs_restarts_when_it_is_told_to():
    assert ready().handle(RESTART_NOW, 0.0) == [Restart()]


def test_a_node_restarts_behind_the_end_of_its_last_job():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    machine.handle(OPENED, 0.0)
    machine.handle(PRESENT, 0.0)
    assert machine.handle(RESTART_NOW, 0.0) == []
    assert Restart() not in machine.handle(received(load.AllDone(JOB_ID)), 0.0)
    actions = machine.handle(EMPTY, 0.0)
    assert machine.jobs == {} and actions[-1] == Restart()
    assert Send(BEBOPD, alloc.Freed.of(JOB_ID, (20,))) in actions


def test_a_node_restarts_behind_a_last_job_that_a_bug_has_ended():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    machine.handle(RESTART_NOW, 0.0)
    machine.fault(JOB_ID, ValueError("broken"), 0.0)
    actions = machine.fault(JOB_ID, ValueError("broken"), 0.0)
    assert machine.jobs == {} and actions[-1] == Restart()


def test_a_forced_node_restarts_at_once():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    forced = MessageReceived(BEBOPD, DAEMON, nodes.RestartNow(True))
    assert machine.handle(forced, 0.0) == [Restart()]


# -- loads -----------------------------------------------------------------


def test_a_granted_job_is_hosted():
    machine = ready()
    message = granted(1, 2)
    assert machine.handle(received(message), 3.0) == [
        CheckObjects(JOB_ID, (PROGRAM,), False, 1000, 100, (100, 27)),
        OpenPmi(JOB_ID, 2),
    ]
    assert machine.reservation.slots_used == 2
    job = machine.jobs[JOB_ID]
    assert (job.ranks, job.uid, job.slots, job.state) == ((0, 1), 1000, 2, JobState.FORMING)
    machine.check()


def test_a_daemon_passes_a_load_on_as_a_parent_does():
    machine = ready()
    nodes = (node(5), node(0))
    message = granted(2, 1, place=1, nodes=nodes)
    actions = machine.handle(received(message, DAEMON, pct(5)), 0.0)
    assert actions == [
        CheckObjects(JOB_ID, (PROGRAM,), False, 1000, 100, (100, 27)),
        OpenPmi(JOB_ID, 1, (b"n25 slots=1\nn20 slots=1\n", b"n25:1\nn20:1\n")),
    ]


def test_a_load_whose_nodes_lie_elsewhere_than_granted_is_refused():
    machine = ready()
    message = granted(2, of_nodes_digest=bytes(32))
    assert machine.handle(received(message), 0.0) == refusal("the nodes are not the grant's")
    assert machine.reservation.slots_used == 0


def test_a_load_that_gives_itself_more_slots_than_were_granted_is_refused():
    machine = ready()
    more = granted(1, 2, of_nodes_digest=codec.nodes_digest(job_nodes(1)))
    assert machine.handle(received(more), 0.0) == refusal("the nodes are not the grant's")
    assert machine.reservation.slots_used == 0


MISFIT = "the members' sizes do not add up to the grant's ranks"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (granted(credential_mac=b"forged"), "the credential is not this partition's"),
        (granted(credential=b"\x90"), "the credential is not this partition's"),
        (granted(of_job_id=8), "a credential of job 8 for job 7"),
        (granted(of_uid=1001), "user 1000 uses a grant of user 1001"),
        (granted(nodes=(node(1),)), "this is node 20, not 21"),
        (granted(runs=(Run(0, 2),)), "2 ranks on node 20, 1 granted"),
        (
            granted(2, 1, nodes=(node(0), node(3)), runs=(Run(0, 1), Run(1, 2))),
            "2 ranks on node 23, 1 granted",
        ),
        (granted(arguments=arguments(2)), MISFIT),
        (granted(arguments=arguments(1, object_index=1)), "no object 1 to execute, there are 1"),
        (
            granted(arguments=None, objects=()),
            "neither arguments nor an object that holds them",
        ),
        (
            granted(
                arguments=None,
                objects=(msgspec.structs.replace(CARRIER, size=0, digest=b""), PROGRAM),
            ),
            "arguments of 0 bytes: arguments_max_bytes of this node is 8388608",
        ),
        (
            granted(
                arguments=None, objects=(msgspec.structs.replace(CARRIER, size=1 << 40), PROGRAM)
            ),
            "arguments of 1099511627776 bytes: arguments_max_bytes of this node is 8388608",
        ),
        (granted(of_epoch=76), "the reservation of job 7 is no longer valid"),
        (granted(of_expires=4990), f"the reservation of job 7 has expired 10 s ago: {TOO_OLD}"),
        (granted(1, 5), "5 slots granted, 4 of 4 are free"),
    ],
)
def test_a_load_that_claims_too_much_is_refused_and_holds_nothing(message, text):
    machine = ready()
    assert machine.handle(received(message), 0.0) == refusal(text)
    assert machine.jobs == {} and machine.reservation.slots_used == 0


def test_a_job_comes_once():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    assert machine.handle(received(granted()), 0.0) == refusal("job 7 is here already")
    assert list(machine.jobs) == [JOB_ID]


def test_a_node_with_as_many_jobs_as_it_may_have_refuses_another():
    machine = ready(jobs_per_node_count=1)
    machine.handle(received(granted()), 0.0)
    owner = Principal(PrincipalKind.JOB, 1000, 8)
    another = granted(job_id=8, of_job_id=8)
    assert machine.handle(received(another, owner), 0.0) == refusal("1 jobs are here already", 8)


def test_a_node_without_a_number_takes_no_job():
    machine = a_node()
    machine.begin(0.0)
    (action, _) = machine.handle(received(granted()), 0.0)
    assert action.message.text == "this is node -1, not 20"
    assert action.message.node == 0


# -- routing ---------------------------------------------------------------


def test_what_happens_reaches_the_job_that_it_concerns():
    machine = ready()
    other = Principal(PrincipalKind.JOB, 1000, 8)
    machine.handle(received(granted()), 0.0)
    machine.handle(received(granted(job_id=8, of_job_id=8), other, STRANGER), 0.0)
    for event in (OPENED, PRESENT, started(0), held(0)):
        machine.handle(event, 0.0)
    assert [job.state for job in machine.jobs.values()] == [JobState.HELD, JobState.FORMING]
    assert machine.handle(received(load.Go(JOB_ID)), 0.0) == []
    assert [job.state for job in machine.jobs.values()] == [JobState.RUNNING, JobState.FORMING]


def test_what_concerns_no_job_here_is_late():
    machine = ready()
    assert machine.handle(ObjectsChecked(9, (), (), ()), 0.0) == []
    assert machine.handle(PmiReceived(9, 0, b"cmd=init"), 0.0) == []
    assert machine.handle(received(load.Go(JOB_ID)), 0.0) == []


@pytest.mark.parametrize("message", [load.Reset(JOB_ID), load.AllDone(JOB_ID)])
def test_the_end_of_a_job_that_is_not_here_is_confirmed_and_it_never_comes(message):
    machine = ready()
    actions = machine.handle(received(message), 0.0)
    assert actions[0] == Send(YOD, load.Released.of(JOB_ID, (20,)))
    freed = [Send(BEBOPD, alloc.Freed.of(JOB_ID, (20,)))]
    assert actions[1:] == (freed if isinstance(message, load.Reset) else [])
    text = "the reservation of job 7 is no longer valid"
    assert machine.handle(received(granted()), 0.0) == refusal(text)


def test_an_orphan_of_a_job_that_is_over_here_is_told_to_end():
    orphan = received(group.Orphan(JOB_ID, 3), DAEMON, pct(3))
    assert ready().handle(orphan, 0.0) == [
        Send(pct(3), group.Adopted(JOB_ID)),
        Send(pct(3), load.AllDone(JOB_ID)),
    ]


def test_words_to_bebopd_go_to_bebopd():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    actions = machine.handle(PRESENT, 0.0)
    assert Send(BEBOPD, alloc.Hosting(JOB_ID)) in actions


def test_a_job_that_is_over_is_forgotten_and_its_slots_are_free():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    machine.handle(OPENED, 0.0)
    machine.handle(PRESENT, 0.0)
    machine.handle(received(load.AllDone(JOB_ID)), 0.0)
    assert machine.reservation.slots_used == 1
    actions = machine.handle(EMPTY, 0.0)
    assert Send(BEBOPD, alloc.Freed.of(JOB_ID, (20,))) in actions
    assert machine.jobs == {} and machine.reservation.slots_used == 0
    machine.check()
    assert machine.handle(received(granted()), 0.0) == refusal(
        "the reservation of job 7 is no longer valid"
    )


def test_every_job_of_a_lost_peer_is_told():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    machine.handle(PeerGone(YOD, "killed"), 0.0)
    assert machine.jobs == {}  # nothing had been started: it is over at once


def test_the_loss_of_a_peer_is_told_to_the_jobs_that_know_it_however_many_there_are(monkeypatch):
    machine = ready(slots=99, jobs_per_node_count=99)
    told = []
    handle = Job.handle

    def watched(job, event, now):
        told.append(job.job_id)
        return handle(job, event, now)

    for number in range(50):
        of_job = {"job_id": 100 + number, "of_job_id": 100 + number}
        size = 2 if number == 7 else 1  # the one on two nodes is always asked
        yod = Principal(PrincipalKind.JOB, 1000, 100 + number)
        machine.handle(received(granted(size, **of_job), yod, PortalId(9, number)), 0.0)
        machine.check()
    assert len(machine.jobs) == 50
    monkeypatch.setattr(Job, "handle", watched)
    machine.handle(PeerGone(PortalId(9, 23), "killed"), 1.0)
    machine.check()
    assert told == [107, 123]
    assert 123 not in machine.jobs and len(machine.jobs) == 49
    told.clear()
    machine.handle(PeerGone(PortalId(9, 23), "killed"), 2.0)
    assert told == [107]


def test_a_job_that_obeys_another_peer_after_a_reset_hears_of_the_loss_of_that_one():
    machine = ready()
    machine.handle(received(granted()), 0.0)
    machine.handle(received(load.Reset(JOB_ID), source=PortalId(9, 9)), 0.0)
    machine.check()
    machine.handle(PeerGone(PortalId(9, 9), "killed"), 0.0)
    machine.check()
    assert machine.jobs == {}


def test_the_earliest_deadline_of_all_jobs_is_the_nodes():
    machine = ready()
    machine.handle(received(granted(deadline_s=3.0)), 1.0)
    assert machine.deadline() == 4.0
    (late,) = machine.handle(DeadlineReached(), 4.0)
    assert late.message.kind is load.FailureKind.TIMED_OUT
    assert machine.deadline() == 10.0


# -- principals ------------------------------------------------------------


def test_a_job_speaks_only_of_itself():
    machine = ready()
    thief = Principal(PrincipalKind.JOB, 1000, 8)
    machine.handle(received(granted()), 0.0)
    for message in (granted(), load.AllDone(JOB_ID), load.Reset(JOB_ID)):
        with pytest.raises(PeerProtocolError, match="job 8 speaks of job 7"):
            machine.handle(received(message, thief), 0.0)
    assert machine.jobs[JOB_ID].state is JobState.FORMING


def test_a_users_key_opens_no_job():
    machine = ready()
    for message in (granted(), load.Reset(JOB_ID)):
        with pytest.raises(PeerProtocolError, match="a user's key does not open a job"):
            machine.handle(received(message, USER), 0.0)


@pytest.mark.parametrize(
    "message", [status.Query(), alloc.NodeRequest((alloc.NodeSpec(1),)), status.Table((), True)]
)
def test_what_is_not_for_a_pct_is_refused(message):
    with pytest.raises(PeerProtocolError, match="is not for a PCT"):
        ready().handle(received(message, DAEMON), 0.0)


def test_a_load_whose_output_windows_are_more_than_a_job_may_fill_is_refused():
    text = (
        "windows of 2147483648 bytes for output, at most 268435456:"
        " lower YOD_OUTPUT_WINDOW_BYTES, or raise YOD_JOB_STORE_BYTES of the pct"
    )
    machine = ready()
    message = granted(output_window_bytes=1 << 30)
    assert machine.handle(received(message), 0.0) == refusal(text)
    assert not machine.jobs
