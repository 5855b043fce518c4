"""What those who watch the table are told, and when."""

import pytest

from allocator.nodes.orders import NONE, Drain, Orders, OrdersRecorded
from native.ids import PortalId
from native.limits import Limits
from native.machine import Send
from native.wire import codec
from native.wire.alloc import Freed, Hosting, JobEnd, Refused
from native.wire.base import SLOTS_MAX, State
from native.wire.status import Changes, NodeState, Progress, Watch
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, Partition, pct, spec

PINGD = PortalId(1, 80000)


def answers(actions, target=PINGD):
    sent = [action for action in actions if isinstance(action, Send)]
    return [each.message for each in sent if each.target == target]


def watch(partition, since=0, source=PINGD, principal=ALICE):
    return answers(partition.receive(source, Watch(since), principal), source)


def state(changes):
    return {row.node: row.state for each in changes for row in each.rows}


@pytest.fixture
def watched():
    """A partition, and the version that a watcher has."""
    partition = Partition(3)
    (whole,) = watch(partition)
    assert (whole.is_whole, whole.is_last) == (True, True)
    return partition, whole.version


def test_the_first_answer_is_the_whole_table_at_once():
    partition = Partition(3)
    assert state(watch(partition)) == dict.fromkeys(range(3), NodeState.FREE)


def test_a_watcher_is_answered_when_something_has_changed(watched):
    partition, version = watched
    assert watch(partition, version) == []
    assert answers(partition.lose(pct(1))) == []
    (changes,) = answers(partition.wait(1.0))
    assert state([changes]) == {1: NodeState.DOWN}
    assert (changes.version > version, changes.is_whole) == (True, False)
    assert changes.rows[0].why == "connection reset"


def test_without_a_change_there_is_no_answer_and_nothing_is_timed(watched):
    partition, version = watched
    watch(partition, version)
    partition.announce(1)
    assert answers(partition.wait(60.0)) == []
    assert partition.machine.deadline() is None or partition.machine.deadline() > partition.now + 60


def test_what_has_changed_before_the_watch_is_answered_at_once(watched):
    partition, version = watched
    partition.wait(1.0)
    partition.lose(pct(2))
    (changes,) = watch(partition, version)
    assert state([changes]) == {2: NodeState.DOWN}


def test_a_job_is_pending_then_busy_then_gone(watched):
    partition, version = watched
    seen = []
    watch(partition, version)
    for step in (
        lambda: partition.grant(spec(2)),
        lambda: partition.receive(pct(0), Hosting(1)),
        lambda: partition.receive(pct(0), Freed.of(1, (0, 1))),
    ):
        step()
        (changes,) = answers(partition.wait(1.0))
        seen.append(state([changes]))
        watch(partition, changes.version)
    assert seen == [
        {0: each, 1: each} for each in (NodeState.PENDING, NodeState.BUSY, NodeState.FREE)
    ]


def test_bebopd_looks_no_more_often_than_the_limit_says(watched):
    partition, version = watched
    watch(partition, version)
    partition.lose(pct(0))
    (first,) = answers(partition.wait(partition.limits.watch_s))
    watch(partition, first.version)
    partition.lose(pct(1))
    assert answers(partition.wait(partition.limits.watch_s / 2)) == []
    assert len(answers(partition.wait(partition.limits.watch_s))) == 1


def test_a_node_that_is_silent_shows_that_it_is_stale(watched):
    partition, version = watched
    watch(partition, version)
    partition.wait(25.0)
    (changes,) = answers(partition.announce(0) + partition.wait(1.0))
    assert [(row.node, row.silent_s >= 20.0) for row in changes.rows] == [(1, True), (2, True)]


def test_a_drained_node_that_was_never_there_comes_and_goes():
    fan = Orders(Drain("fan", "root", 1.0))
    partition = Partition(1, orders={9: fan})
    (whole,) = watch(partition)
    assert state([whole]) == {0: NodeState.FREE, 9: NodeState.DOWN}
    watch(partition, whole.version)
    partition.handle(OrdersRecorded(((9, NONE),), None))
    (changes,) = answers(partition.wait(1.0))
    assert changes.is_whole and state([changes]) == {0: NodeState.FREE}


def test_an_unknown_version_gets_the_whole_table(watched):
    partition, _ = watched
    (whole,) = watch(partition, 1 << 40)
    assert whole.is_whole and len(whole.rows) == 3


def test_one_user_has_so_many_watchers_and_others_have_theirs():
    limits = Limits(silent_s=1e6, watchers_each_count=2)
    partition = Partition(1, limits=limits)
    (whole,) = watch(partition)
    sources = [PortalId(1, 80000 + n) for n in range(3)]
    for source in sources[:2]:
        assert watch(partition, whole.version, source) == []
    (refused,) = watch(partition, whole.version, sources[2])
    assert isinstance(refused, Refused) and "YOD_WATCHERS_EACH_COUNT" in refused.text
    assert watch(partition, whole.version, sources[2], BOB) == []
    partition.lose(sources[0])
    assert watch(partition, whole.version, PINGD) == []


def test_a_watcher_that_asks_again_has_one_place():
    partition = Partition(1, limits=Limits(silent_s=1e6, watchers_each_count=1))
    (whole,) = watch(partition)
    for _ in range(3):
        assert watch(partition, whole.version) == []


def test_a_large_table_comes_in_pieces_of_one_version():
    partition = Partition(3000)
    partition.announce(3000, slots=SLOTS_MAX)
    pieces = watch(partition)
    assert len(pieces) > 1 and all(isinstance(piece, Changes) for piece in pieces)
    assert all(codec.why_refused(piece) == "" for piece in pieces)
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len({piece.version for piece in pieces}) == 1


def test_news_is_an_answer_without_rows(watched):
    """A job's final row comes after its slots are free."""
    partition, version = watched
    partition.grant(spec(1))
    partition.receive(pct(0), Freed.of(1, (0,)))
    (changes,) = answers(partition.wait(1.0) + partition.receive(PINGD, Watch(version), ALICE))
    watch(partition, changes.version)
    partition.release(1, end=JobEnd(State.COMPLETED, 0, 0, ""))
    (news,) = answers(partition.wait(1.0))
    assert news.rows == () and news.version > changes.version


def test_how_far_a_launch_is_comes_with_the_node_of_its_rank_0(watched):
    partition, version = watched
    job_id = partition.grant(spec(2)).job_id
    watch(partition, version)
    (changes,) = answers(partition.wait(1.0))
    watch(partition, changes.version)
    partition.receive(YOD, Progress(job_id, "form", 1, 2), ALICE)
    (changes,) = answers(partition.wait(1.0))
    assert [row.node for row in changes.rows] == [0]
    (job,) = changes.rows[0].jobs
    assert (job.phase, job.come, job.total) == ("form", 1, 2)
    watch(partition, changes.version)
    partition.receive(YOD, Progress(job_id, ""), ALICE)
    (changes,) = answers(partition.wait(1.0))
    assert changes.rows[0].jobs[0].phase == ""


def test_nobody_says_how_far_the_launch_of_another_yod_is(watched):
    partition, version = watched
    job_id = partition.grant(spec(2)).job_id
    watch(partition, version)
    (changes,) = answers(partition.wait(1.0))
    watch(partition, changes.version)
    partition.receive(PortalId(1, 70001), Progress(job_id, "form", 1, 2), ALICE)
    partition.receive(YOD, Progress(job_id + 1, "form", 1, 2), ALICE)
    assert answers(partition.wait(1.0)) == []
