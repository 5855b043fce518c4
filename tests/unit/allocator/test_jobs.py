"""A job's slots from grant to free, whatever yod, PCTs and connections do meanwhile."""

from unittest.mock import ANY

import pytest

from allocator.jobs.table import RecordEnd
from native import limits
from native.errors import Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Send
from native.wire import codec
from native.wire.alloc import Freed, Hosting, Refused, Released, Revoke, Revoked
from native.wire.base import SIZE_MAX, SLOTS_MAX
from native.wire.status import Announce, HostedJob, NodeState, Query, distances
from partition.status import show
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, Partition, pct, spec


def hosted(job_id=1, rank=0, uid=1000, slots=1, elapsed_s=5.0):
    return HostedJob(job_id, uid, slots, (rank,) + (1,) * (slots - 1), elapsed_s)


def running(partition, *specs):
    """A job that its root has reported."""
    grant = partition.grant(*specs)
    assert partition.receive(pct(grant.nodes[0].node), Hosting(grant.job_id)) == []
    return grant


def revokes(*numbers, job_id=1):
    return [Send(pct(number), Revoke(job_id)) for number in numbers]


def released(job_id=1, unreachable=(), to=YOD):
    return Send(to, Released.of(job_id, unreachable))


def test_a_job_ends_when_yod_has_released_it_and_its_nodes_are_free():
    partition = Partition(3)
    running(partition, spec(2))
    assert partition.release(1) == []
    assert partition.receive(pct(0), Freed.of(1, (0,))) == []
    assert partition.receive(pct(0), Freed.of(1, (1,))) == [RecordEnd(1, "ended", ANY), released()]
    assert partition.free() == {0: 1, 1: 1, 2: 1}


def test_a_release_after_the_last_node_is_free_is_answered_at_once():
    partition = Partition(2)
    running(partition, spec(2))
    assert partition.receive(pct(0), Freed.of(1, (0, 1))) == [RecordEnd(1, "ended", ANY)]
    assert partition.release(1) == [released()]


def test_a_grant_that_nobody_used_is_revoked_and_free_by_its_pcts_word():
    partition = Partition(2, limits=Limits(pending_s=7.0, silent_s=1e6))
    partition.grant(spec(2))
    assert partition.wait(6.9) == []
    assert partition.wait(0.1) == revokes(0, 1)
    assert partition.free() == {0: 0, 1: 0}
    assert partition.receive(pct(0), Revoked(1, 0, False)) == []
    assert partition.free() == {0: 1, 1: 0}
    assert partition.receive(pct(1), Revoked(1, 1, False)) == [RecordEnd(1, "never ran", ANY)]
    assert partition.free() == {0: 1, 1: 1}


def test_a_revoke_that_finds_the_job_hosted_makes_it_run():
    partition = Partition(2)
    partition.grant(spec(2))
    assert partition.wait(60) == revokes(0, 1)
    partition.receive(pct(1), Revoked(1, 1, True))
    partition.receive(pct(0), Revoked(1, 0, False))  # the root died before it forwarded
    assert partition.free() == {0: 1, 1: 0}
    assert partition.wait(20) == []
    partition.receive(pct(1), Freed.of(1, (1,)))
    assert partition.free() == {0: 1, 1: 1}


def test_an_unanswered_revoke_is_repeated():
    partition = Partition(1)
    partition.grant(spec(1))
    assert partition.wait(60) == revokes(0)
    partition.announce(0)
    assert partition.wait(10) == revokes(0)


def test_a_job_runs_when_its_root_says_so_and_then_never_lapses():
    partition = Partition(2)
    running(partition, spec(2))
    assert partition.wait(1000) == []


def test_a_yod_that_is_lost_before_the_load_gives_its_grant_back_at_once():
    partition = Partition(2)
    partition.grant(spec(2))
    assert partition.lose(YOD) == revokes(0, 1)
    partition.receive(pct(0), Revoked(1, 0, False))
    partition.receive(pct(1), Revoked(1, 1, False))
    assert partition.free() == {0: 1, 1: 1}


def test_a_lost_peer_is_looked_up_and_not_looked_for_in_all_jobs():
    class Named(dict):
        def values(self):
            raise AssertionError("all jobs are gone through")

    partition = Partition(count=1, slots=99)
    for number in range(50):
        partition.request(spec(1), source=PortalId(1, 70000 + number))
    partition.checks = False
    partition.machine.jobs._latest = Named(partition.machine.jobs._latest)
    assert partition.lose(PortalId(1, 70023)) == revokes(0, job_id=24)
    assert partition.lose(PortalId(1, 70023)) == []


def test_a_yod_that_is_lost_while_its_job_runs_is_the_pcts_business():
    partition = Partition(2)
    running(partition, spec(2))
    assert partition.lose(YOD) == []
    assert partition.receive(pct(0), Freed.of(1, (0, 1))) == [RecordEnd(1, "ended", ANY)]


def test_a_release_before_the_load_asks_the_pcts_at_once():
    partition = Partition(2)
    partition.grant(spec(2))
    assert partition.release(1) == revokes(0, 1)
    partition.receive(pct(0), Revoked(1, 0, False))
    assert partition.receive(pct(1), Revoked(1, 1, False)) == [
        RecordEnd(1, "never ran", ANY),
        released(),
    ]


def test_nodes_that_are_not_free_in_time_after_a_release_are_asked():
    partition = Partition(3, limits=Limits(end_s=4.0, silent_s=1e6))
    running(partition, spec(3))
    partition.release(1)
    partition.receive(pct(0), Freed.of(1, (0,)))
    assert partition.wait(4.0) == revokes(1, 2)
    partition.receive(pct(1), Revoked(1, 1, False))
    assert partition.receive(pct(2), Revoked(1, 2, True)) == []
    assert partition.wait(4.0) == revokes(2)  # it may have ended meanwhile
    assert partition.receive(pct(2), Freed.of(1, (2,))) == [RecordEnd(1, "ended", ANY), released()]


def test_nodes_whose_root_is_lost_are_asked_at_once_when_yod_releases_them():
    partition = Partition(3)
    running(partition, spec(3))
    partition.lose(pct(0))
    assert partition.release(1) == revokes(1, 2)
    partition.receive(pct(1), Revoked(1, 1, False))
    assert partition.receive(pct(2), Revoked(1, 2, False)) == [released(unreachable=(0,))]


def test_nodes_whose_root_is_lost_after_the_release_are_asked_at_once():
    partition = Partition(3)
    running(partition, spec(3))
    assert partition.release(1) == []
    assert partition.lose(pct(0)) == revokes(1, 2)


def test_a_release_names_the_nodes_that_could_not_be_asked():
    partition = Partition(3)
    running(partition, spec(3))
    partition.lose(pct(1))
    partition.release(1)
    assert partition.receive(pct(0), Freed.of(1, (0, 2))) == [released(unreachable=(1,))]
    assert partition.free() == {0: 1, 1: 0, 2: 1}
    assert partition.request(spec(3)).code is Refusal.BUSY


def test_a_release_is_answered_when_the_last_node_it_waits_for_is_lost():
    partition = Partition(2)
    running(partition, spec(2))
    partition.release(1)
    partition.receive(pct(0), Freed.of(1, (0,)))
    assert partition.lose(pct(1)) == [released(unreachable=(1,))]


def test_a_lost_node_is_asked_when_it_comes_back_and_then_is_free():
    partition = Partition(2)
    running(partition, spec(2))
    partition.lose(pct(1))
    partition.release(1)
    partition.receive(pct(0), Freed.of(1, (0,)))
    assert partition.announce(1)[1:] == revokes(1)
    assert partition.receive(pct(1), Revoked(1, 1, False)) == [RecordEnd(1, "ended", ANY)]
    assert partition.free() == {0: 1, 1: 1}


def test_a_lost_node_that_still_hosts_the_job_is_not_free():
    partition = Partition(2)
    running(partition, spec(2))
    partition.lose(pct(1))
    partition.release(1)
    partition.receive(pct(0), Freed.of(1, (0,)))
    assert partition.announce(1, jobs=(hosted(rank=1),))[1:] == []
    assert partition.free() == {0: 1, 1: 0}
    partition.receive(pct(1), Freed.of(1, (1,)))
    assert partition.free() == {0: 1, 1: 1}


def test_a_restarted_pct_has_nothing_of_a_running_job():
    partition = Partition(2)
    running(partition, spec(2))
    partition.announce(1, incarnation=2)
    assert partition.free() == {0: 0, 1: 1}


def test_a_restarted_pct_may_still_get_the_load_of_a_pending_job():
    partition = Partition(1)
    partition.grant(spec(1))
    partition.announce(0, incarnation=2)
    assert partition.free() == {0: 0}
    assert partition.wait(60) == revokes(0)
    partition.receive(pct(0), Revoked(1, 0, False))
    assert partition.free() == {0: 1}


def test_an_announcement_older_than_the_load_frees_nothing():
    partition = Partition(2)
    running(partition, spec(2))
    assert partition.announce(1)[1:] == revokes(1)  # asked, not believed
    assert partition.free() == {0: 0, 1: 0}
    partition.receive(pct(1), Revoked(1, 1, True))
    partition.announce(1)  # now it does: what it hosts, it has said itself
    assert partition.free() == {0: 0, 1: 1}


def test_an_announcement_from_before_the_slots_were_freed_holds_nothing():
    partition = Partition(2)
    running(partition, spec(2))
    partition.receive(pct(0), Freed.of(1, (0, 1)))
    partition.announce(1, jobs=(hosted(rank=1),))
    assert partition.free() == {0: 1, 1: 1}


def test_a_node_frees_itself_and_only_the_root_frees_others():
    partition = Partition(3)
    running(partition, spec(3))
    partition.receive(pct(1), Freed.of(1, (2,)))
    partition.receive(pct(1), Freed.of(1, (1, 2)))
    assert partition.free() == {0: 0, 1: 0, 2: 0}
    partition.receive(pct(1), Freed.of(1, (1,)))
    assert partition.free() == {0: 0, 1: 1, 2: 0}
    partition.receive(pct(0), Freed.of(1, (0, 1, 2, 99)))
    assert partition.free() == {0: 1, 1: 1, 2: 1}


def test_only_the_root_says_that_a_job_is_hosted():
    partition = Partition(2)
    partition.grant(spec(2))
    partition.receive(pct(1), Hosting(1))
    assert partition.wait(60) == revokes(0, 1)


def test_a_node_answers_a_revoke_for_itself_only():
    partition = Partition(2)
    partition.grant(spec(2))
    partition.wait(60)
    partition.receive(pct(1), Revoked(1, 0, False))
    assert partition.free() == {0: 0, 1: 0}


def test_only_the_owner_and_operators_release_a_job():
    partition = Partition(1)
    running(partition, spec(1))
    assert partition.release(1, principal=BOB) == [
        Send(YOD, Refused(Refusal.NOT_PERMITTED, "job 1 belongs to alice"))
    ]
    partition.receive(pct(0), Freed.of(1, (0,)))
    for operator in (
        Principal(PrincipalKind.USER, 0),
        Principal(PrincipalKind.PARTITION, 1001),
    ):
        grant = running(partition, spec(1))
        other = PortalId(1, 70001)
        assert partition.release(grant.job_id, source=other, principal=operator) == []
        assert partition.receive(pct(0), Freed.of(grant.job_id, (0,)))[1:] == [
            released(grant.job_id, to=other)
        ]


@pytest.mark.parametrize("message", [Freed.of(1, (0,)), Hosting(1), Revoked(1, 0, False)])
def test_what_pcts_say_counts_from_pcts_only(message):
    partition = Partition(1)
    partition.grant(spec(1))
    partition.receive(pct(0), message, ALICE)  # the address is right, the proof is not
    partition.receive(PortalId(9, 9), message)
    assert partition.free() == {0: 0}
    assert partition.wait(59.9) == []
    assert partition.wait(0.2) != []


@pytest.mark.parametrize(
    "message", [Freed.of(99, (0,)), Hosting(99), Revoked(99, 0, True), Revoked(99, 0, False)]
)
def test_news_of_a_job_that_is_over_is_ignored(message):
    assert Partition(1).receive(pct(0), message) == []


def test_a_job_holds_nothing_for_a_release_that_comes_twice():
    partition = Partition(1)
    running(partition, spec(1))
    assert partition.release(1) == []
    again = PortalId(1, 70001)
    assert partition.release(1, source=again) == []
    assert partition.receive(pct(0), Freed.of(1, (0,)))[1:] == [released(to=again)]


def test_jobs_of_an_earlier_bebopd_go_on():
    partition = Partition(0, next_job_id=65)
    partition.announce(0, slots=2, jobs=(hosted(7), hosted(9, uid=1001)))
    partition.announce(1, slots=2, jobs=(hosted(7, rank=1, slots=2),))
    assert partition.free() == {0: 0, 1: 0}
    assert partition.receive(pct(0), Freed.of(7, (0, 1))) == [RecordEnd(7, "ended", ANY)]
    assert partition.free() == {0: 1, 1: 2}
    assert partition.grant(spec(1)).job_id == 65
    assert partition.release(9, principal=BOB) == []
    assert partition.receive(pct(0), Freed.of(9, (0,)))[1:] == [released(9)]


def test_a_late_word_about_a_job_of_an_earlier_bebopd_holds_nothing():
    partition = Partition(0, next_job_id=65)
    partition.announce(0, jobs=(hosted(7),))
    partition.announce(1, jobs=(hosted(7, rank=1),))
    partition.receive(pct(0), Freed.of(7, (0, 1)))
    partition.announce(1, jobs=(hosted(7, rank=1),))
    assert partition.free() == {0: 1, 1: 1}


def test_an_adopted_job_ends_by_its_nodes_announcements():
    partition = Partition(0, next_job_id=65)
    partition.announce(0, jobs=(hosted(7),))
    assert partition.announce(0)[1:] == [RecordEnd(7, "ended", ANY)]
    assert partition.free() == {0: 1}


def test_ids_go_on_above_every_job_seen():
    partition = Partition(0)
    partition.announce(0, slots=3, jobs=(hosted(500),))
    partition.announce(1, slots=3, jobs=(hosted(500, rank=1), hosted(499)))
    assert partition.free() == {0: 2, 1: 1}
    assert partition.grant(spec(1)).job_id == 501


def test_a_node_that_names_another_owner_is_not_believed():
    partition = Partition(0, next_job_id=65)
    partition.announce(0, jobs=(hosted(7),))
    partition.announce(1, jobs=(hosted(7, rank=1, uid=1001),))
    assert partition.free() == {0: 0, 1: 1}


def test_a_restarted_root_is_root_no_more_than_before():
    partition = Partition(2)
    running(partition, spec(2))
    partition.announce(0, incarnation=2)
    assert partition.free() == {0: 1, 1: 0}
    partition.receive(pct(1), Freed.of(1, (1,)))
    assert partition.free() == {0: 1, 1: 1}


def test_the_table_shows_what_each_node_is_doing():
    partition = Partition(4, slots=2)
    running(partition, spec(3))
    partition.grant(spec(1, 2))
    partition.now += 5
    partition.lose(pct(3))
    (answer,) = partition.receive(YOD, Query(), BOB)
    rows = answer.message.rows
    assert answer.message.is_last
    assert [row.state for row in rows] == [
        NodeState.BUSY,
        NodeState.BUSY,
        NodeState.PENDING,
        NodeState.DOWN,
    ]
    assert [(row.slots, row.slots_used, row.silent_s) for row in rows] == [
        (2, 2, 5.0),
        (2, 1, 5.0),
        (2, 1, 5.0),
        (2, 0, 5.0),
    ]
    job = rows[0].jobs[0]
    assert (job.job_id, job.owner, job.ranks, job.elapsed_s) == (1, "alice", (0, 1), 5.0)
    assert [row.jobs[0].is_pending for row in rows[:3]] == [False, False, True]


def test_a_large_table_comes_in_pieces_that_fit():
    partition = Partition(3000)
    partition.announce(3000, slots=60000)
    running(partition, spec(63000))
    pieces = [action.message for action in partition.receive(YOD, Query(), ALICE)]
    assert len(pieces) > 2
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    numbers = [row.node for piece in pieces for row in piece.rows]
    assert sorted(set(numbers)) == list(range(3001))
    ranks = [
        rank for piece in pieces for row in piece.rows for job in row.jobs for rank in job.ranks
    ]
    assert sorted(ranks) == list(range(63000))


def test_a_node_with_very_many_jobs_comes_in_pieces_that_fit():
    partition = Partition(1, slots=9000)
    partition.checks = False  # they look at all jobs at each event
    for _ in range(9000):
        partition.grant(spec(1))
    pieces = [action.message for action in partition.receive(YOD, Query(), ALICE)]
    assert all(codec.why_refused(piece) == "" for piece in pieces)
    jobs = [job.job_id for piece in pieces for row in piece.rows for job in row.jobs]
    assert jobs == list(range(1, 9001))


@pytest.mark.parametrize("step", [1, 2, 16], ids=["together", "every second", "far apart"])
def test_the_ranks_of_a_full_node_are_known_after_a_restart_of_bebopd(step):
    ranks = tuple(range(0, SLOTS_MAX * step, step))
    job = HostedJob(7, 1000, SLOTS_MAX, distances(ranks), 5.0)
    assert codec.why_refused(Announce(0, "n0", SLOTS_MAX, *pct(0), 1, (job,))) == ""
    partition = Partition(0, next_job_id=65)
    partition.announce(0, slots=SLOTS_MAX, jobs=(job,))
    pieces = [action.message for action in partition.receive(YOD, Query(), ALICE)]
    assert all(codec.why_refused(piece) == "" for piece in pieces)
    (row,) = show.merge(row for piece in pieces for row in piece.rows)
    assert row.jobs[0].ranks == ranks


def test_the_largest_announcement_fits_a_message():
    """As many jobs as a node takes at most, their ranks as far apart as they can be."""
    count = limits._LARGEST["jobs_per_node_count"]
    each = SLOTS_MAX // count
    ranks = tuple(number * (SIZE_MAX - 1) // (each - 1) for number in range(each))
    few = (0, *range(1 << 16, SIZE_MAX, (1 << 16) + 1))  # each distance has five bytes
    ranks = tuple(sorted({*few, *ranks[: each - len(few)]}))
    jobs = tuple(
        HostedJob((1 << 47) - 1 - number, (1 << 32) - 2, SLOTS_MAX, distances(ranks), 1e9)
        for number in range(count)
    )
    announce = Announce(1, "\u20ac" * 255, SLOTS_MAX, 1 << 31, 1 << 31, (1 << 63) - 1, jobs)
    assert codec.why_refused(announce) == ""
