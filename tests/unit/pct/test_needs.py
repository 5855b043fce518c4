"""Which GPUs of its job a rank is shown."""

from native.wire.alloc import Needs
from native.wire.load import MemberLoad
from pct.account import Gpu
from pct.job.spec import counted_environments


def member(size, needs):
    return MemberLoad(size, 0, (b"a.out",), b"/", 1, needs)


def shown(ranks, members, count):
    member_of = [nth for nth, each in enumerate(members) for _ in range(each.size)]
    gpus = tuple(Gpu(str(number)) for number in range(4, 4 + count))
    found = counted_environments(ranks, member_of, tuple(members), gpus)
    return {
        rank: dict(entry.split(b"=", 1) for entry in entries)[b"CUDA_VISIBLE_DEVICES"]
        for rank, entries in found.items()
    }


def test_each_rank_is_shown_its_own_gpus():
    assert shown((1, 2), [member(3, Needs(gpus=2))], 4) == {1: b"4,5", 2: b"6,7"}


def test_the_gpus_of_a_node_are_shown_to_all_ranks_of_the_member_and_to_no_others():
    members = [member(2, Needs(node_gpus=2)), member(1, Needs(gpus=1)), member(1, None)]
    assert shown((0, 1, 2, 3), members, 3) == {0: b"4,5", 1: b"4,5", 2: b"6", 3: b""}


def test_a_rank_that_claims_more_than_its_job_was_given_sees_no_more():
    assert shown((0, 1), [member(2, Needs(gpus=2))], 1) == {0: b"4", 1: b""}


def test_hip_counts_within_what_rocr_leaves():
    found = counted_environments((0,), [0], (member(1, Needs(gpus=1)),), (Gpu("3", "mi250"),))
    assert b"ROCR_VISIBLE_DEVICES=3" in found[0] and b"HIP_VISIBLE_DEVICES=0" in found[0]
    assert b"YOD_RANK_GPUS=3:mi250" in found[0]


def test_ranks_of_a_job_that_has_asked_for_neither_keep_their_environment():
    assert counted_environments((0,), [0], (member(1, None),), ()) == {}
