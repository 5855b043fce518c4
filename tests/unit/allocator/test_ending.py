"""Requests of pingd to end jobs: every request with every filter and every privilege."""

from __future__ import annotations

import itertools
from signal import SIGKILL, SIGTERM

import pytest

from allocator.jobs.grants import Operators
from native.errors import Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Send
from native.wire import nodes as wire
from native.wire.alloc import Freed, Hosting, Refused, Revoke
from native.wire.load import Reset
from native.wire.nodes import Ending
from tests.unit.allocator.partition_of import ALICE, BOB, DAEMON, Partition, pct, spec

PINGD = PortalId(1, 80000)
ROOT = Principal(PrincipalKind.USER, 0)
MEMBER = BOB  # of the operators' group, where a test says so
LIMITS = Limits(silent_s=1e6, nice_kill_s=300.0, end_s=10.0)

# The jobs of `a_partition`: owner, nodes, batch job.
ALICES, ALICES_OF_PBS, BOBS = 1, 2, 3
OWNERS = {ALICES: 1000, ALICES_OF_PBS: 1000, BOBS: 1001}
NODES = {ALICES: (0, 1), ALICES_OF_PBS: (2,), BOBS: (3, 4)}
FILTERS = {  # what a request says, and the jobs that it is about
    "all": ({}, {ALICES, ALICES_OF_PBS, BOBS}),
    "list": ({"nodes": (1, 2, 3)}, {ALICES, ALICES_OF_PBS, BOBS}),
    "job": ({"job_id": ALICES}, {ALICES}),
    "pbsjob": ({"batch_job": "123"}, {ALICES_OF_PBS}),
    "pbsjob in full": ({"batch_job": "123.head"}, {ALICES_OF_PBS}),
    "mine": ({"uid": 1000}, {ALICES, ALICES_OF_PBS}),
    "mine on a list": ({"uid": 1000, "nodes": (2, 3)}, {ALICES_OF_PBS}),
    "job on a list": ({"job_id": BOBS, "nodes": (3,)}, {BOBS}),
    "all conditions": ({"job_id": 2, "uid": 1000, "batch_job": "123", "nodes": (2,)}, {2}),
}
PRIVILEGES = {"root": ROOT, "operator": MEMBER, "owner": ALICE}


def a_partition(**options) -> Partition:
    """Six nodes, on which three jobs run."""
    partition = Partition(6, limits=LIMITS, **options)
    for number, (uid, batch_job) in enumerate([(ALICE, ""), (ALICE, "123.head"), (BOB, "")]):
        yod = PortalId(1, 70000 + number)
        size = len(NODES[number + 1])
        grant = partition.grant(spec(size), principal=uid, source=yod, batch_job=batch_job)
        assert tuple(node.node for node in grant.nodes) == NODES[grant.job_id]
        partition.receive(pct(NODES[grant.job_id][0]), Hosting(grant.job_id))
    return partition


def ask(partition, how, principal=ROOT, **conditions):
    """What follows: the PCTs' messages by node and job, and the answer."""
    *actions, answer = partition.receive(PINGD, wire.EndJobs(how, **conditions), principal)
    assert isinstance(answer, Send) and answer.target == PINGD
    return told(actions), answer.message


def told(actions):
    by_peer = {pct(number): number for number in range(6)}
    return [(by_peer[each.target], each.message) for each in actions if each.target in by_peer]


def signals(messages):
    return {(node, m.job_id, m.number) for node, m in messages if isinstance(m, wire.SignalJob)}


@pytest.mark.parametrize(
    ("how", "conditions", "privilege"),
    list(itertools.product(Ending, FILTERS, PRIVILEGES)),
)
def test_a_request_is_about_what_meets_all_conditions_and_is_the_askers(how, conditions, privilege):
    said, met = FILTERS[conditions]
    principal = PRIVILEGES[privilege]
    is_operator = privilege != "owner"
    operators = Operators("bebop", lambda uid: uid == MEMBER.uid)
    partition = a_partition(operators=operators)
    messages, answer = ask(partition, how, principal, **said)
    if how is Ending.NICEKILL and "nodes" in said:
        assert (answer.code, messages) == (Refusal.BAD_REQUEST, [])
        return
    ended = {job for job in met if is_operator or OWNERS[job] == principal.uid}
    if "job_id" in said and not ended:
        assert (answer.code, messages) == (Refusal.NOT_PERMITTED, [])
        return
    wanted = set(said.get("nodes", range(6)))
    number = SIGKILL if how is Ending.RESET else SIGTERM
    assert signals(messages) == {
        (node, job, number) for job in ended for node in NODES[job] if node in wanted
    }
    assert {job.job_id for job in answer.jobs} == ended
    assert (answer.job_count, answer.other_count) == (len(ended), len(met - ended))
    assert answer.node_count == len({node for node, _, _ in signals(messages)})


def test_a_job_of_another_user_is_refused_and_told_whose_it_is():
    messages, answer = ask(a_partition(), Ending.RESET, BOB, job_id=ALICES)
    assert answer == Refused(Refusal.NOT_PERMITTED, "job 1 belongs to alice")
    assert messages == []


@pytest.mark.parametrize(
    "conditions", [{"job_id": 99}, {"job_id": ALICES, "nodes": (5,)}, {"job_id": 1, "uid": 1001}]
)
def test_a_job_that_does_not_meet_the_conditions_is_refused(conditions):
    _, answer = ask(a_partition(), Ending.INTERRUPT, **conditions)
    assert answer.code is Refusal.UNKNOWN_JOB


def test_a_node_that_does_not_exist_is_refused():
    _, answer = ask(a_partition(), Ending.INTERRUPT, nodes=(1, 77))
    assert answer.code is Refusal.UNKNOWN_NODE


def test_a_request_about_nothing_says_so():
    messages, answer = ask(a_partition(), Ending.RESET, ALICE, nodes=(5,))
    assert (answer, messages) == (wire.JobsEnding((), 0, 0, 0), [])


def test_the_jobs_history_says_who_asked():
    partition = a_partition()
    ask(partition, Ending.INTERRUPT, job_id=BOBS)
    said = [e.text for e in partition.history if getattr(e, "job_id", 0) == BOBS]
    assert said[-1] == "interrupted by root"


def test_an_interrupt_is_a_signal_and_nothing_else():
    partition = a_partition()
    ask(partition, Ending.INTERRUPT)
    assert told(partition.wait(10_000)) == []


def test_a_nicekill_kills_what_is_left_after_its_time_and_then_resets_it():
    partition = a_partition()
    ask(partition, Ending.NICEKILL, job_id=ALICES)
    assert told(partition.wait(299.9)) == []
    assert signals(told(partition.wait(0.2))) == {(0, 1, SIGKILL), (1, 1, SIGKILL)}
    messages = told(partition.wait(10))
    assert [m for m in messages if isinstance(m[1], Reset)] == [(0, Reset(1)), (1, Reset(1))]
    for node in NODES[ALICES]:
        partition.receive(pct(node), Freed.of(ALICES, (node,)))
    assert {0: 1, 1: 1}.items() <= partition.free().items()


def test_a_nicekill_does_nothing_more_to_a_job_that_has_ended():
    partition = a_partition()
    ask(partition, Ending.NICEKILL, job_id=ALICES)
    partition.release(ALICES, source=PortalId(1, 70000))
    partition.receive(pct(0), Freed.of(ALICES, NODES[ALICES]))
    assert told(partition.wait(1000)) == []


def test_a_job_whose_yod_does_not_end_it_is_reset():
    partition = a_partition()
    ask(partition, Ending.RESET, job_id=BOBS)
    assert told(partition.wait(9.9)) == []
    messages = told(partition.wait(0.2))
    assert (3, Reset(BOBS)) in messages and (4, Reset(BOBS)) in messages


def test_a_reset_of_some_of_a_jobs_nodes_leaves_it_its_slots():
    partition = a_partition()
    messages, _ = ask(partition, Ending.RESET, nodes=(3,))
    assert signals(messages) == {(3, BOBS, SIGKILL)}
    assert told(partition.wait(1000)) == []


def test_a_later_request_does_not_put_off_what_is_planned():
    partition = a_partition()
    ask(partition, Ending.RESET, job_id=BOBS)
    partition.wait(5)
    ask(partition, Ending.NICEKILL, job_id=BOBS)
    assert (3, Reset(BOBS)) in told(partition.wait(5.1))


def test_a_reset_is_not_put_off_by_a_nicekill_before_it():
    partition = a_partition()
    ask(partition, Ending.NICEKILL, job_id=BOBS)
    ask(partition, Ending.RESET, job_id=BOBS)
    assert (3, Reset(BOBS)) in told(partition.wait(10.1))


@pytest.mark.parametrize("how", Ending)
def test_a_job_of_which_no_pct_has_heard_is_taken_back(how):
    partition = Partition(1, limits=LIMITS)
    job_id = partition.grant(spec(1)).job_id
    messages, _ = ask(partition, how, job_id=job_id)
    assert (0, Revoke(job_id, 0)) in messages


def test_a_node_that_is_down_is_not_told():
    partition = a_partition()
    partition.lose(pct(4))
    messages, _ = ask(partition, Ending.INTERRUPT, job_id=BOBS)
    assert signals(messages) == {(3, BOBS, SIGTERM)}


def test_a_rank_and_a_job_may_not_ask():
    for principal in (Principal(PrincipalKind.JOB, 1000, 1),):
        messages, answer = ask(a_partition(), Ending.RESET, principal)
        assert (answer.code, messages) == (Refusal.NOT_PERMITTED, [])


def test_the_holder_of_the_partitions_key_is_an_operator():
    messages, _ = ask(a_partition(), Ending.INTERRUPT, DAEMON, job_id=BOBS)
    assert signals(messages) == {(3, BOBS, SIGTERM), (4, BOBS, SIGTERM)}
