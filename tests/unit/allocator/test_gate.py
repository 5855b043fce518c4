"""Batch jobs are held to what their batch system says that they have, whoever asks for them."""

from __future__ import annotations

import pytest

from allocator.gate import ASKED_MAX, AskBatchSystem, BatchSystemSaid
from allocator.host.batch_system import of_qstat, of_squeue
from allocator.jobs.batch import Word, Words
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import DeadlineReached, PeerGone, Send
from native.wire.alloc import Grant, NodeRequest, Refused, Revoke
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, Partition, spec

LIMITS = Limits(silent_s=1e6, batch_word_s=60.0, waiting_each_count=40)


def of_pbs(count=6, interactive=2):
    words = Words("pbs", interactive, LIMITS.batch_word_s)
    return Partition(count, batch_limits=words, limits=LIMITS)


def ask(partition, size=1, batch_job="12", source=YOD, principal=ALICE, nodes=()):
    request = NodeRequest((spec(size, *nodes),), batch_job=batch_job)
    return partition.receive(source, request, principal)


def said(partition, owner="alice", nodes=3, batch_job="12"):
    """What follows from the batch system's word."""
    return partition.handle(BatchSystemSaid(batch_job, Word(owner, nodes)))


def messages(actions, kind):
    return [
        action.message
        for action in actions
        if isinstance(action, Send) and isinstance(action.message, kind)
    ]


def test_the_batch_system_is_asked_before_a_batch_job_gets_nodes():
    partition = of_pbs()
    assert ask(partition, 3) == [AskBatchSystem("12")]
    assert len(messages(said(partition), Grant)) == 1
    refused = messages(ask(partition), Refused)  # its word is believed for a while
    assert refused == [
        Refused(Refusal.BATCH_LIMIT, "batch job 12 has 3 nodes, 3 of them in use: 1 more requested")
    ]


def test_yods_that_ask_at_once_have_no_more_together():
    partition = of_pbs()
    others = [PortalId(9, 500 + n) for n in range(3)]
    assert [ask(partition, 2, source=yod) for yod in others] == [[AskBatchSystem("12")], [], []]
    actions = said(partition, nodes=4)
    assert len(messages(actions, Grant)) == 2
    assert [refused.code for refused in messages(actions, Refused)] == [Refusal.BATCH_LIMIT]


def test_a_word_is_asked_for_again_when_it_is_old():
    partition = of_pbs()
    ask(partition)
    said(partition)
    partition.now += 61
    assert ask(partition) == [AskBatchSystem("12")]


@pytest.mark.parametrize("by", [BOB, ALICE])
def test_a_batch_job_of_another_user_gives_nothing(by):
    partition = of_pbs()
    ask(partition, principal=by)
    owner = "bob" if by is ALICE else "alice"
    (refused,) = messages(said(partition, owner=owner), Refused)
    assert refused == Refused(Refusal.NOT_PERMITTED, f"pbs job 12 belongs to {owner}")
    (refused,) = messages(ask(partition, principal=by), Refused)
    assert refused.code is Refusal.NOT_PERMITTED


def test_a_job_that_does_not_run_gives_nothing():
    partition = of_pbs()
    ask(partition)
    (refused,) = messages(partition.handle(BatchSystemSaid("12")), Refused)
    assert refused == Refused(Refusal.UNKNOWN_JOB, "pbs has no job 12 that runs")


def test_a_batch_system_that_does_not_answer_is_said():
    partition = of_pbs()
    ask(partition)
    answer = partition.handle(BatchSystemSaid("12", error="qstat: killed by SIGKILL"))
    assert messages(answer, Refused) == [
        Refused(Refusal.BUSY, "pbs does not say what job 12 has: qstat: killed by SIGKILL")
    ]


def test_a_batch_job_names_no_nodes():
    partition = of_pbs()
    (refused,) = messages(ask(partition, 2, nodes=(0, 1)), Refused)
    assert refused == Refused(
        Refusal.BATCH_LIMIT, "a pbs job has a number of nodes, and chooses none: no -list", 0
    )
    assert len(messages(ask(partition, 2, batch_job="", nodes=(0, 1)), Grant)) == 1


def test_whoever_names_no_batch_job_has_the_interactive_nodes():
    partition = of_pbs(interactive=2)
    assert len(messages(ask(partition, 2, batch_job=""), Grant)) == 1
    (refused,) = messages(ask(partition, batch_job="", principal=BOB), Refused)
    assert refused.text.startswith("2 nodes are for jobs outside of batch jobs, 2 of them in use")


def test_a_partition_without_a_batch_system_lets_all_through():
    partition = Partition(2)
    assert len(messages(ask(partition, 2, nodes=(0, 1)), Grant)) == 1


def test_jobs_of_a_batch_job_that_has_ended_are_ended():
    partition = of_pbs()
    ask(partition, 2)
    said(partition)
    partition.now += 60
    assert AskBatchSystem("12") in partition.handle(DeadlineReached())
    said(partition)  # it still runs
    partition.now += 60
    assert AskBatchSystem("12") in partition.handle(DeadlineReached())
    assert len(messages(partition.handle(BatchSystemSaid("12")), Revoke)) == 2


def test_a_yod_that_has_gone_gets_nothing_and_questions_are_few_at_a_time():
    partition = of_pbs()
    asked = [
        ask(partition, batch_job=str(n), source=PortalId(9, 500 + n)) for n in range(ASKED_MAX + 2)
    ]
    assert sum(map(len, asked)) == ASKED_MAX
    partition.handle(PeerGone(PortalId(9, 500), "x"))
    assert said(partition, batch_job="0") == [AskBatchSystem(str(ASKED_MAX))]


def test_one_user_waits_with_so_many_requests():
    partition = of_pbs()
    for number in range(40):
        ask(partition, source=PortalId(9, 500 + number))
    (refused,) = messages(ask(partition), Refused)
    assert refused.code is Refusal.BUSY
    assert ask(partition, principal=BOB, source=PortalId(9, 600)) == []


OPENPBS = """\
Job Id: 17.pbs
    Job_Name = a
    Job_Owner = alice@login.site
    resources_used.ncpus = 4
    job_state = R
    queue = workq
    exec_host = n0/0*2+n0/1+a-node-with-a-long-name-1/0+a-node-with-a-l
\tong-name-2/0
    Resource_List.nodect = 4
    Variable_List = PBS_O_HOME=/home/alice,X=1
\t,Y= exec_host = z/0+y/0+x/0+w/0+v/0+u/0+t/0
\tResource_List.size = 100
    euser = alice
"""
TORQUE_OF_SLURM = """\
Job Id:\t17
\tJob_Name = a
\tJob_Owner = alice@n0
\tjob_state = R
\texec_host = n0/4+n1/4
\teuser = alice(1000)
\tResource_List.nodect = 2
"""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (OPENPBS, Word("alice", 3)),
        (OPENPBS.replace("nodect = 4", "nodect = 4\n    Resource_List.size = 9"), Word("alice", 9)),
        (OPENPBS.replace("job_state = R", "job_state = Q"), None),
        (TORQUE_OF_SLURM, Word("alice", 2)),
    ],
)
def test_qstat_says_owner_and_distinct_hosts(text, word):
    assert of_qstat(text) == word


@pytest.mark.parametrize("text", ["", "Job Id: 17\n", "    job_state = R\n"])
def test_what_is_no_answer_of_qstat_is_an_error(text):
    with pytest.raises(ValueError, match="no job_state"):
        of_qstat(text)


def test_squeue_says_owner_and_nodes():
    assert of_squeue("alice RUNNING 3\n") == Word("alice", 3)
    assert of_squeue("alice PENDING 3\n") is None
    assert of_squeue("") is None
    with pytest.raises(ValueError, match="three words"):
        of_squeue("alice RUNNING many\n")
