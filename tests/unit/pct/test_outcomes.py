"""Completions on their way up: folded, urgent ones at once, each rank once."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from native.wire import codec
from native.wire.load import Completions, Outcome
from pct.job.rules.outcomes import RANKS_PER_MESSAGE, Outcomes, Tally, fold

JOB_ID = 7
DUE = 10.0


def tally(rank, wait_status=0, was_released=True):
    return Tally(rank, 20 + rank, 3000 + rank, wait_status, was_released, 100, 50, 5, 64)


def outcome(*ranks, wait_status=0, was_released=True):
    return Outcome(
        wait_status,
        was_released,
        ranks,
        tuple(20 + rank for rank in ranks),
        tuple(3000 + rank for rank in ranks),
        *((number,) * len(ranks) for number in (100, 50, 5, 64)),
    )


def test_normal_ends_wait_until_they_are_due():
    outcomes = Outcomes(JOB_ID, total=3)
    outcomes.add(tally(0), DUE)
    outcomes.add(tally(1), DUE + 1)
    assert outcomes.due == DUE
    assert outcomes.take(DUE - 0.1) == []
    assert outcomes.take(DUE) == [Completions(JOB_ID, (outcome(0, 1),))]
    assert outcomes.due is None
    assert outcomes.take(DUE) == []


def test_the_last_end_of_the_subtree_takes_the_others_along():
    outcomes = Outcomes(JOB_ID, total=3)
    outcomes.add(tally(0), DUE)
    outcomes.merge((outcome(1, 2),), DUE)
    assert outcomes.take(0.0) == [Completions(JOB_ID, (outcome(0, 1, 2),))]


def test_an_abnormal_end_takes_all_that_is_known_along_at_once():
    outcomes = Outcomes(JOB_ID, total=9)
    outcomes.add(tally(0), DUE)
    outcomes.add(tally(1, 256), DUE)
    outcomes.merge((outcome(2, wait_status=256),), DUE)
    assert outcomes.take(0.0) == [
        Completions(JOB_ID, (outcome(0),)),
        Completions(JOB_ID, (outcome(1, 2, wait_status=256),)),
    ]
    outcomes.add(tally(3), DUE)
    assert outcomes.take(0.0) == []


def test_a_rank_that_died_by_itself_is_not_folded_with_those_that_were_killed():
    outcomes = Outcomes(JOB_ID, total=3)
    for rank in range(3):
        outcomes.add(replace(tally(rank, 9), was_signalled=rank != 1), DUE)
    ours, own = outcome(0, 2, wait_status=9), outcome(1, wait_status=9)
    assert outcomes.take(0.0) == [
        Completions(JOB_ID, (replace(ours, was_signalled=True),)),
        Completions(JOB_ID, (own,)),
    ]


def test_ends_by_a_signal_of_yod_are_collected_as_normal_ones_are():
    outcomes = Outcomes(JOB_ID, total=3)
    for rank in range(2):
        outcomes.add(replace(tally(rank, 15), was_signalled=True), DUE)
    assert outcomes.take(0.0) == []
    ended = replace(outcome(0, 1, wait_status=15), was_signalled=True)
    assert outcomes.take(DUE) == [Completions(JOB_ID, (ended,))]


def test_an_end_before_the_entry_is_not_folded_with_one_after_it():
    folded = fold([outcome(0), outcome(1, was_released=False), outcome(2)])
    assert folded == [outcome(0, 2), outcome(1, was_released=False)]


def test_a_new_parent_is_told_everything_again():
    outcomes = Outcomes(JOB_ID, total=2)
    outcomes.add(tally(0, 256), DUE)
    first = outcomes.take(0.0)
    outcomes.add(tally(1), DUE)
    second = outcomes.take(0.0)
    assert outcomes.repeat() == first + second


def test_no_ends_ask_for_no_deadline():
    outcomes = Outcomes(JOB_ID, total=2)
    outcomes.merge((), DUE)
    assert outcomes.due is None


def test_very_many_ranks_are_several_messages_that_each_fit():
    largest = (1 << 63) - 1
    ranks = tuple(range((1 << 20) - 2 * RANKS_PER_MESSAGE - 1, (1 << 20)))
    columns = [ranks, ranks, tuple((1 << 32) - 1 for _ in ranks)]
    columns += [tuple(largest for _ in ranks)] * 4
    outcomes = Outcomes(JOB_ID, total=len(ranks))
    outcomes.merge((Outcome(256, True, *columns),), DUE)
    messages = outcomes.take(0.0)
    assert [len(each.outcomes[0].ranks) for each in messages] == [4096, 4096, 1]
    for message in messages:
        assert codec.decode(codec.encode(message)) == message


@given(
    ends=st.lists(
        st.tuples(st.sampled_from([0, 256, 9]), st.booleans(), st.booleans()), max_size=40
    )
)
def test_whatever_the_order_each_rank_goes_up_once_with_its_own_end(ends):
    outcomes = Outcomes(JOB_ID, total=len(ends))
    reported: dict[int, tuple[int, bool]] = {}
    now = 0.0

    def take():
        for message in outcomes.take(now):
            for each in message.outcomes:
                for index, rank in enumerate(each.ranks):
                    assert rank not in reported
                    assert each.unix_pids[index] == 3000 + rank
                    reported[rank] = (each.wait_status, each.was_released)

    for rank, (wait_status, was_released, is_late) in enumerate(ends):
        outcomes.add(tally(rank, wait_status, was_released), now + 1)
        now += 2 if is_late else 0
        take()
    assert reported == {rank: end[:2] for rank, end in enumerate(ends)}
