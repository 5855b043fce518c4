"""What a node gives away: only its slots, only once, only to this bebopd's grants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.errors import TOO_OLD, Refusal
from native.wire.alloc import Credential, NodeShare
from native.wire.placed import NodeLoan
from pct.account import Gpu
from pct.cores import Core, Given
from pct.reservation import REMEMBERED_COUNT, Reservation

SLOTS, EPOCH, NOW = 2, 77, 1000.0


def grant(job_id=7, **fields):
    return Credential(
        **{
            "job_id": job_id,
            "uid": 1000,
            "gid": 100,
            "groups": (),
            "epoch": EPOCH,
            "expires": 1060,
            "nodes_digest": bytes(32),
            **fields,
        }
    )


def reservation(slots=4, jobs_max=64):
    node = Reservation(slots, jobs_max)
    node.epoch = EPOCH
    return node


def test_slots_are_taken_and_given_back():
    node = reservation()
    assert node.take(grant(7), SLOTS, NOW) is None
    assert node.take(grant(8), SLOTS, NOW) is None
    assert node.slots_used == 4
    node.give_back(7)
    assert node.slots_used == 2
    node.check()


def test_slots_that_are_lent_are_in_use_once():
    node = reservation()
    assert node.take(grant(7), 4, NOW) is None
    assert node.take(grant(8), 2, NOW, 5)[0] is Refusal.BUSY
    loans = (NodeLoan(4, 2, 7, 0, 2),)
    assert node.take(grant(9, loans=loans), 2, NOW, 6)[0] is Refusal.BUSY  # on another node
    assert node.take(grant(10, loans=loans), 2, NOW, 5) is None
    assert node.loans(10) == (NodeLoan(5, 1, 7, 0, 2),)
    assert node.take(grant(11, loans=(NodeLoan(5, 1, 7, 0, 4),)), 3, NOW, 5)[0] is Refusal.BUSY
    assert node.slots_used == 4
    node.check()
    node.give_back(10)
    assert (node.slots_used, node.loans(10)) == (4, ())


@pytest.mark.parametrize("lender", [7, 8])
def test_a_lender_that_has_left_lends_nothing(lender):
    node = reservation()
    assert node.take(grant(7), 2, NOW) is None
    assert node.take(grant(9, loans=(NodeLoan(5, 1, lender, 0, 2),)), 2, NOW, 5) is None
    node.give_back(7)
    assert (node.slots_used, node.loans(9)) == (2, ())
    node.check()


def test_another_attempt_of_a_lender_lends_nothing():
    node = reservation()
    assert node.take(grant(7, attempt=1), 4, NOW) is None
    assert node.take(grant(9, loans=(NodeLoan(5, 1, 7, 0, 2),)), 2, NOW, 5)[0] is Refusal.BUSY


def test_what_gives_way_is_known_as_long_as_it_is_here():
    node = reservation()
    assert node.take(grant(7, gives_way=True), SLOTS, NOW) is None
    assert node.take(grant(8), SLOTS, NOW) is None
    assert [node.gives_way(job_id) for job_id in (7, 8)] == [True, False]
    node.give_back(7)
    assert not node.gives_way(7)
    node.check()


@pytest.mark.parametrize(
    ("credential", "slots", "now", "refusal"),
    [
        (
            grant(epoch=76),
            SLOTS,
            NOW,
            (Refusal.STALE_RESERVATION, "the reservation of job 7 is no longer valid"),
        ),
        (
            grant(),
            SLOTS,
            1063.0,
            (Refusal.STALE_RESERVATION, f"the reservation of job 7 has expired 3 s ago: {TOO_OLD}"),
        ),
        (grant(), 5, NOW, (Refusal.BUSY, "5 slots granted, 4 of 4 are free")),
    ],
    ids=["other bebopd", "expired", "too many slots"],
)
def test_a_grant_is_refused_with_the_reason(credential, slots, now, refusal):
    node = reservation()
    assert node.take(credential, slots, now) == refusal
    assert node.slots_used == 0


def test_a_grant_is_good_to_the_second_in_which_it_expires():
    assert reservation().take(grant(), SLOTS, 1060.0) is None


def test_a_node_that_no_bebopd_has_accepted_takes_nothing():
    node = Reservation(4, 64)
    assert node.take(grant(), SLOTS, NOW)[0] is Refusal.STALE_RESERVATION


def test_two_grants_of_one_slot_are_not_both_honoured():
    node = reservation(slots=3)
    assert node.take(grant(7), SLOTS, NOW) is None
    assert node.take(grant(8), SLOTS, NOW) == (
        Refusal.BUSY,
        "2 slots granted, 1 of 3 are free",
    )


def test_a_job_is_taken_once():
    node = reservation()
    node.take(grant(), SLOTS, NOW)
    assert node.take(grant(), SLOTS, NOW) == (Refusal.STALE_RESERVATION, "job 7 is here already")
    node.give_back(7)
    assert node.take(grant(), SLOTS, NOW) == (
        Refusal.STALE_RESERVATION,
        "the reservation of job 7 is no longer valid",
    )


def test_a_revoked_job_is_never_taken():
    node = reservation()
    assert node.refuse(7) is False
    assert node.take(grant(), SLOTS, NOW)[0] is Refusal.STALE_RESERVATION


def test_a_job_that_is_here_is_not_revoked():
    node = reservation()
    node.take(grant(), SLOTS, NOW)
    assert node.refuse(7) is True
    assert node.slots_used == 2
    node.check()


def test_the_number_of_jobs_is_bounded():
    node = reservation(slots=10, jobs_max=2)
    node.take(grant(7), SLOTS, NOW)
    node.take(grant(8), SLOTS, NOW)
    assert node.take(grant(9), SLOTS, NOW) == (Refusal.BUSY, "2 jobs are here already")


def test_job_ids_that_are_spent_are_remembered_up_to_a_bound():
    node = reservation()
    for job_id in range(1, REMEMBERED_COUNT + 2):
        node.refuse(job_id)
    assert node.take(grant(1), SLOTS, NOW) is None  # forgotten; its grant has long expired
    assert node.take(grant(2), SLOTS, NOW)[0] is Refusal.STALE_RESERVATION


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["take", "give_back", "refuse"]), st.integers(1, 6)), max_size=40
    )
)
def test_slots_are_never_given_twice_whatever_the_order(steps):
    node = reservation(slots=5)
    hosted, spent = set(), set()
    for step, job_id in steps:
        match step:
            case "take":
                expected = job_id not in hosted | spent and len(hosted) < 2
                assert (node.take(grant(job_id), SLOTS, NOW) is None) == expected
                if expected:
                    hosted.add(job_id)
            case "give_back" if job_id in hosted:
                node.give_back(job_id)
                hosted.discard(job_id)
                spent.add(job_id)
            case "refuse":
                assert node.refuse(job_id) == (job_id in hosted)
                if job_id not in hosted:
                    spent.add(job_id)
        node.check()
        assert node.slots_used == 2 * len(hosted)


def test_a_grant_of_a_later_bebopd_is_taken_before_that_bebopd_has_been_heard():
    assert reservation().take(grant(epoch=EPOCH + 1), SLOTS, NOW) is None


def counted():
    node = Reservation(4, 64, 1000, tuple(Gpu(str(number), "a100") for number in range(3)))
    node.epoch = EPOCH
    return node


def test_memory_and_gpus_are_taken_once_and_come_back():
    node = counted()
    share = (NodeShare(5, 1, 600, 2),)
    assert node.take(grant(7, shares=share), 1, NOW, 5) is None
    assert node.share(7) == (600, (Gpu("0", "a100"), Gpu("1", "a100")))
    refused = node.take(grant(8, shares=share), 1, NOW, 5)
    assert refused == (Refusal.BUSY, "600 bytes of memory granted, 400 of 1000 are free")
    refused = node.take(grant(9, shares=(NodeShare(0, 9, 0, 2),)), 1, NOW, 5)
    assert refused == (Refusal.BUSY, "2 GPUs granted, 1 of 3 are free")
    assert node.take(grant(10, shares=(NodeShare(0, 9, 0, 1),)), 1, NOW, 5) is None
    assert node.share(10) == (0, (Gpu("2", "a100"),))
    node.check()
    node.give_back(7)
    assert node.take(grant(11, shares=share), 1, NOW, 5) is None
    node.check()


def test_cores_are_taken_once_and_come_back():
    cores = tuple(Core(0, 0, (cpu,)) for cpu in range(4))
    node = Reservation(8, 64, cores=cores)
    node.epoch = EPOCH
    share = (NodeShare(5, 1, 0, 0, ((0, 0, 3),)),)
    assert node.take(grant(7, shares=share), 3, NOW, 5) is None
    assert node.cores(7) == Given(tuple((0, core) for core in cores[:3]), cores)
    assert node.core_counts(7) == (3,)
    refused = node.take(grant(8, shares=share), 3, NOW, 5)
    assert refused == (Refusal.BUSY, "3 cores of a group granted, 1 of 4 are free")
    node.check()
    node.give_back(7)
    assert node.take(grant(9, shares=share), 3, NOW, 5) is None
    node.check()


def test_a_node_that_has_no_cores_to_bind_to_gives_none():
    node = counted()
    refused = node.take(grant(7, shares=(NodeShare(5, 1, 0, 0, ((0, 0, 1),)),)), 1, NOW, 5)
    assert refused == (Refusal.BUSY, "cores granted, this node has none to be bound to")
    assert (node.groups, node.cores(7), node.core_counts(7)) == ((), None, ())


def test_the_share_of_another_node_takes_nothing_here():
    node = counted()
    assert node.take(grant(7, shares=(NodeShare(6, 3, 1000, 3),)), 1, NOW, 5) is None
    assert node.share(7) == (0, ())


def test_a_step_that_overlaps_takes_its_own_gpus():
    node = counted()
    share = (NodeShare(5, 1, 0, 2),)
    assert node.take(grant(7, shares=share, overlaps=True), 1, NOW, 5) is None
    assert node.take(grant(8, shares=share, overlaps=True), 1, NOW, 5) is not None


def test_a_job_that_was_here_is_taken_again_with_a_higher_attempt_only():
    node = reservation()
    assert node.take(grant(7), SLOTS, NOW) is None
    node.give_back(7)
    stale = Refusal.STALE_RESERVATION, "the reservation of job 7 is no longer valid"
    assert node.take(grant(7), SLOTS, NOW) == stale
    assert node.take(grant(7, attempt=1), SLOTS, NOW) is None
    node.check()
    node.give_back(7)
    assert node.take(grant(7, attempt=1), SLOTS, NOW) == stale


def test_an_attempt_that_bebopd_revokes_is_refused_with_those_before_it():
    node = reservation()
    assert not node.refuse(7, 1)
    assert not node.refuse(7)  # an older word takes nothing back
    for attempt in (0, 1):
        assert node.take(grant(7, attempt=attempt), SLOTS, NOW) is not None
    assert node.take(grant(7, attempt=2), SLOTS, NOW) is None


def test_a_word_about_an_earlier_attempt_says_nothing_of_the_one_that_is_here():
    node = reservation()
    assert node.take(grant(7, attempt=1), SLOTS, NOW) is None
    assert node.refuse(7, 0) is False
    assert node.refuse(7, 1) is True
    assert node.attempt(7) == 1
