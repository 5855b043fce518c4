"""Output of a job's ranks: windows, credit, and the last of it at the end."""

from native.machine import PeerGone, Send
from native.wire import alloc, group, io, load
from pct.events import (
    DropJob,
    FinishOutput,
    KeeperEnd,
    OutputRead,
    PauseOutput,
    ResumeOutput,
    TellBebopd,
)
from pct.job.machine import Job
from tests.unit.pct.job_of import (
    ALL_DONE,
    EMPTY,
    JOB_ID,
    NOW,
    RESET,
    RUNNING,
    YOD,
    Tree,
    a_job,
    pct,
    received,
    to_yod,
)

# -- one node --------------------------------------------------------------


def filled(*events, **fields) -> Job:
    """A running job whose window is used up; more output waits."""
    job = a_job(*RUNNING, *events, **fields)
    for _ in range(2):
        actions = job.handle(OutputRead(JOB_ID, 0, 1, bytes(64 * 1024)), NOW)
    assert actions == [PauseOutput(JOB_ID, 1)]
    return job


def test_output_beyond_the_window_pauses_the_ranks_until_there_is_credit():
    job = filled()
    credit = received(YOD, io.OutputCredit(JOB_ID, 1, 64 * 1024 + 256))
    assert job.handle(credit, NOW) == [
        to_yod(io.Output(JOB_ID, 0, 1, 64 * 1024, bytes(64 * 1024))),
        ResumeOutput(JOB_ID, 1),
    ]


def test_standard_error_never_waits_for_the_reader_of_standard_output():
    """With one window for both, a stopped pager kept errors from the screen."""
    job = filled()
    error = to_yod(io.Output(JOB_ID, 0, 2, 0, b"x"))
    assert job.handle(OutputRead(JOB_ID, 0, 2, b"x"), NOW) == [error]


def test_a_lost_yod_ends_the_job_though_its_output_window_is_full():
    """A killed yod never empties its window, so the slots were never freed."""
    job = filled()
    actions = job.handle(PeerGone(YOD, "killed"), NOW)
    assert actions == [KeeperEnd(JOB_ID), ResumeOutput(JOB_ID, 1)]
    assert job.handle(EMPTY, NOW) == [FinishOutput(JOB_ID)]
    assert job.handle(OutputRead(JOB_ID, 0, 1, b"more"), NOW) == []
    job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW)
    assert job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW) == [
        TellBebopd(alloc.Freed.of(JOB_ID, (20,))),
        DropJob(JOB_ID),
    ]


def test_a_yod_that_is_lost_while_the_job_ends_keeps_nothing_from_ending():
    job = filled(ALL_DONE)
    assert job.handle(PeerGone(YOD, "killed"), NOW) == [ResumeOutput(JOB_ID, 1)]
    for event in (EMPTY, OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b"")):
        actions = job.handle(event, NOW)
    assert actions == [TellBebopd(alloc.Freed.of(JOB_ID, (20,))), DropJob(JOB_ID)]


def test_a_reset_sends_what_is_left_of_the_output_without_credit():
    job = filled(ALL_DONE)
    assert job.handle(RESET, NOW) == [
        to_yod(io.Output(JOB_ID, 0, 1, 64 * 1024, bytes(64 * 1024))),
        ResumeOutput(JOB_ID, 1),
    ]
    for event in (EMPTY, OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b"")):
        actions = job.handle(event, NOW)
    freed = TellBebopd(alloc.Freed.of(JOB_ID, (20,)))
    assert actions[-3:] == [to_yod(load.Released.of(JOB_ID, (20,))), freed, DropJob(JOB_ID)]


# -- a tree ----------------------------------------------------------------


def test_output_of_a_leaf_goes_through_its_parent_and_credit_comes_back():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    for part in range(8):
        tree.at(2, OutputRead(JOB_ID, 2, 1, bytes([part]) * 8192))
    data = [message.data[:1] for message in tree.take_to_yod()]
    assert data == [bytes([part]) for part in range(8)]
    tree.at(2, OutputRead(JOB_ID, 2, 1, bytes(40 * 1024)))
    assert tree.took(2, PauseOutput) == []  # the root has given credit


def test_output_of_a_leaf_stops_when_yod_takes_none_and_nothing_is_lost():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    for part in range(60):
        tree.at(2, OutputRead(JOB_ID, 2, 1, bytes([part]) * 8192))
    assert tree.took(2, PauseOutput) == [PauseOutput(JOB_ID, 1)]
    taken = tree.take_to_yod()
    while taken[-1].data[0] < 59:
        tree.from_yod(io.OutputCredit(JOB_ID, 1, 32 * 1024))
        more = tree.take_to_yod()
        assert sum(len(message.data) + 64 for message in more) < 32 * 1024 + 8192 + 64
        taken += more
    assert [message.offset for message in taken] == [part * 8192 for part in range(60)]
    assert tree.took(2, ResumeOutput)[-1:] == [ResumeOutput(JOB_ID, 1)]


def test_the_end_waits_for_output_of_the_children_and_not_for_ever():
    """The root had released itself before its child's last output came: nobody asked again."""
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    for _ in range(2):
        tree.at(2, OutputRead(JOB_ID, 2, 1, bytes(40 * 1024)))  # fills yod's window
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (0, 1):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    last = [OutputRead(JOB_ID, 2, 1, b"last"), *(OutputRead(JOB_ID, 2, s, b"") for s in (1, 2))]
    tree.at(2, *last, EMPTY)
    assert load.Released not in map(type, tree.take_to_yod())
    tree.from_yod(io.OutputCredit(JOB_ID, 1, 64 * 1024))
    assert [type(message) for message in tree.take_to_yod()] == [io.Output, load.Released]


def test_an_orphans_output_waits_for_its_next_parent():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    tree.gone.add(1)
    orphan = tree.jobs[3]
    actions = orphan.handle(PeerGone(pct(1), "gone"), NOW)
    assert actions == [Send(pct(0), group.Orphan(JOB_ID, 3))]
    assert orphan.handle(OutputRead(JOB_ID, 3, 1, b"kept"), NOW) == [PauseOutput(JOB_ID, 1)]
    adopted = orphan.handle(received(pct(0), group.Adopted(JOB_ID)), NOW)
    assert Send(pct(0), io.Output(JOB_ID, 3, 1, 0, b"kept")) in adopted
