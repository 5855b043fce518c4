"""The history: its file, what goes there from the ledger, and what users see of it."""

import os
import sqlite3
import threading

import pytest
from msgspec.structs import replace

from allocator.batch.job import BatchJob, RecordBatchJob, Viewer
from allocator.host import history as history_module
from allocator.host import older
from allocator.host.aside import Aside
from allocator.host.history import History
from allocator.host.ledger import Ledger
from allocator.jobs.accounting import row_of
from allocator.records import LedgerError
from native.limits import Limits
from native.loop.reactor import Reactor
from native.wire.alloc import NodeSpec
from native.wire.base import State
from native.wire.nodes import NodeEvent, NodeEventKind
from tests.support.wait import LIMIT_S

ALL = Viewer(None)


def row(job_id, *, uid=1000, step=-1, state=State.COMPLETED, **fields):
    began = row_of(job_id, uid, str(uid), "a.out", 4, None, 100.0, 101.0)
    return replace(began, step=step, state=state, ended=111.0, **fields)


def batch_job(job_id, **fields):
    return BatchJob(
        job_id, 1000, "alice", "job.sh", b"%016d" % job_id, NodeSpec(2), 0.0, 100.0, **fields
    )


def ask(ledger, question):
    found = []
    ledger.past(question, found.append)
    (answer,) = found
    return answer


def ids(rows):
    return [(each.job_id, each.step) for each in rows]


def crash(ledger):
    """bebopd is killed: nothing is flushed."""
    ledger._db.close()
    ledger._history.close()
    os.close(ledger._lock)


def test_a_user_sees_the_users_own_jobs_and_an_operator_all(tmp_path):
    ledger = Ledger(tmp_path)
    for job_id, uid in ((1, 1000), (2, 1001), (3, 1000)):
        ledger.job_ended(row(job_id, uid=uid))
    ledger.batch_ended(row(4, uid=1001))
    ledger.steps_ended([row(1, step=1), row(1, step=2), row(2, uid=1001, step=1)])
    alice, seen = Viewer(1000), Viewer(1000, sees_batch=True)
    assert ids(ask(ledger, lambda h: h.last(9, ALL))) == [(1, -1), (2, -1), (3, -1), (4, -1)]
    assert ids(ask(ledger, lambda h: h.last(9, alice))) == [(1, -1), (3, -1)]
    assert ids(ask(ledger, lambda h: h.last(1, alice))) == [(3, -1)]
    assert ids(ask(ledger, lambda h: h.rows((1, 2, 4), seen))) == [(1, -1), (4, -1)]
    assert ids(ask(ledger, lambda h: h.with_steps((1, 2), -1, 9, alice))) == [
        (1, -1),
        (1, 1),
        (1, 2),
    ]
    assert ids(ask(ledger, lambda h: h.with_steps((1,), -1, 2, alice))) == [(1, -1), (1, 2)]
    assert ids(ask(ledger, lambda h: h.with_steps((1,), 2, 9, alice))) == [(1, 2)]
    ledger.close()


def test_what_a_job_has_held_is_added_up_over_all_of_its_starts(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.slots_held(1, 10.0, 105.0)
    ledger.batch_ended(row(1))
    ledger.slots_held(1, 30.0, 112.0)
    ledger.steps_ended([row(1, step=1, slot_s=7.5)])
    assert [each.slot_s for each in ask(ledger, lambda h: h.with_steps((1,), -1, 9, ALL))] == [
        40.0,
        7.5,
    ]
    ledger.close()


def test_events_of_a_job_are_those_of_who_may_see_it(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.happened(1, "granted", 100.0)
    ledger.happened(1, "ended", 101.0)
    ledger.job_ended(row(1))
    told = ask(ledger, lambda h: h.events(1, Viewer(1000)))
    assert [(each.at, each.text) for each in told] == [(100.0, "granted"), (101.0, "ended")]
    assert ask(ledger, lambda h: h.events(1, Viewer(1001))) == []
    assert ask(ledger, lambda h: h.events(1, None)) == told
    ledger.close()


def test_of_each_kind_the_last_rows_are_kept(tmp_path):
    limits = Limits(history_count=3, history_steps_count=2, history_events_count=2)
    ledger = Ledger(tmp_path, limits)
    for job_id in range(1, 7):
        ledger.job_ended(row(job_id))
        ledger.slots_held(job_id, 1.0, 100.0)
        ledger.happened(job_id, "granted", 100.0)
        ledger.steps_ended([row(job_id, step=1)])
        ledger.node_happened(NodeEvent(0, "n", float(job_id), NodeEventKind.UP, "", ""))
    ledger.close()
    again = Ledger(tmp_path, limits)
    assert ids(ask(again, lambda h: h.last(9, ALL))) == [(4, -1), (5, -1), (6, -1)]
    steps = ask(again, lambda h: h.with_steps((4, 5, 6), 1, 9, ALL))
    assert len(steps) <= 2
    assert [each.at for each in ask(again, lambda h: h.node_events((), 9))] == [5.0, 6.0]
    assert ask(again, lambda h: h.events(4, None)) == []
    (count,) = again._history._db.execute("SELECT count(*) FROM held").fetchone()
    assert count == 3
    again.close()


def test_rows_are_the_same_however_often_they_are_written(tmp_path):
    ledger = Ledger(tmp_path)
    event = NodeEvent(3, "n3", 100.0, NodeEventKind.DRAINED, "root", "fan")
    for _ in range(2):
        ledger.batch_ended(row(1))
        ledger.slots_held(1, 1.0, 100.0)
        ledger.happened(1, "granted", 100.0)
        ledger.node_happened(event)
        ledger.flush()
    assert ids(ask(ledger, lambda h: h.last(9, ALL))) == [(1, -1)]
    assert ask(ledger, lambda h: h.last(9, ALL))[0].slot_s == 1.0
    assert len(ask(ledger, lambda h: h.events(1, None))) == 1
    assert ask(ledger, lambda h: h.node_events((3,), 9)) == [event]
    ledger.close()


def test_the_first_final_row_of_a_lone_job_stays(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.job_ended(row(1))
    ledger.job_ended(row(1, state=State.FAILED))
    (found,) = ask(ledger, lambda h: h.last(9, ALL))
    assert found.state is State.COMPLETED
    ledger.close()


def test_a_job_without_a_final_row_is_there_for_the_next_bebopd(tmp_path):
    ledger = Ledger(tmp_path)
    open_row = row_of(1, 1000, "alice", "a.out", 4, None, 100.0, 101.0)
    ledger.job_granted(open_row)
    ledger.job_granted(replace(open_row, job_id=2))
    ledger.flush()
    ledger.job_ended(row(2))
    ledger.flush()
    crash(ledger)
    again = Ledger(tmp_path)
    assert again.open_jobs() == [open_row]
    again.close()


class Killed(BaseException):
    """bebopd is killed."""


class Fuse:
    """A connection to a database, whose process is killed before its n-th statement."""

    def __init__(self, db, left):
        self._db = db
        self._left = left

    def execute(self, statement, values=()):
        if self._left[0] == 0:
            raise Killed
        self._left[0] -= 1
        return self._db.execute(statement, values)

    def __getattr__(self, name):
        return getattr(self._db, name)


def test_a_bebopd_that_is_killed_between_any_two_statements_loses_and_doubles_no_row(tmp_path):
    """Batch jobs move from the ledger to the history; lone ones get their final rows there."""
    for count in range(200):
        directory = tmp_path / str(count)
        directory.mkdir()
        ledger = Ledger(directory)
        jobs = [batch_job(1), batch_job(2)]
        ledger.batch.keep([RecordBatchJob(job, b"task") for job in jobs])
        ledger.job_granted(row_of(3, 1000, "alice", "a.out", 4, None, 100.0, 101.0))
        ledger.flush()
        left = [count]
        ledger._db, ledger._history._db = Fuse(ledger._db, left), Fuse(ledger._history._db, left)
        jobs[0].state, jobs[0].ended = State.COMPLETED, 111.0
        is_kept = False
        try:
            ledger.batch.keep([RecordBatchJob(jobs[0])])
            is_kept = True  # from here on the PCT may hear of it
            ledger.batch_ended(jobs[0].row())
            ledger.job_ended(row(3))
            ledger.flush()
            ledger.flush()
            is_over = True
        except Killed:
            is_over = False
        ledger._db, ledger._history._db = ledger._db._db, ledger._history._db._db
        crash(ledger)
        again = Ledger(directory)
        earlier = again.batch.earlier()
        past = {each.job_id: each for each in ask(again, lambda h: h.last(9, ALL))}
        unended = {job.job_id for job in earlier.jobs}
        opened = {each.job_id for each in again.open_jobs()}
        assert {1, 2} == unended | (past.keys() & {1}), "lost"
        assert not unended & past.keys(), "doubled"
        assert (3 in opened) != (3 in past)
        assert not is_kept or past[1].state is State.COMPLETED
        assert earlier.outcomes == ({1: True} if 1 in past else {})
        assert set(earlier.tokens.values()) == {1, 2}, "handed in again it would run twice"
        again.close()
        if is_over:
            assert count > 10
            return
    raise AssertionError("it never ends")


def test_a_history_that_cannot_be_written_keeps_rows_in_the_ledger(tmp_path):
    ledger = Ledger(tmp_path)
    said = []
    ledger.on_waiting = said.append
    job = batch_job(1)
    ledger.batch.keep([RecordBatchJob(job, b"task")])
    job.state, job.ended = State.FAILED, 111.0
    ledger.batch.keep([RecordBatchJob(job)])
    ledger._history._db.execute("PRAGMA query_only = ON")
    ledger.batch_ended(job.row())
    ledger.flush()
    assert ledger.has_waiting and "readonly database" in said[0]
    assert [each.job_id for each in ledger.batch.rows((1,))] == [1]
    ledger._history._db.execute("PRAGMA query_only = OFF")
    ledger.flush()
    ledger.flush()
    assert not ledger.has_waiting and ledger.batch.rows((1,)) == []
    assert ids(ask(ledger, lambda h: h.last(9, ALL))) == [(1, -1)]
    ledger.close()


def test_a_history_that_is_never_written_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("allocator.host.ledger.WAITING_MAX", 10)
    ledger = Ledger(tmp_path)
    said = []
    ledger.on_waiting = said.append
    ledger._history._db.execute("PRAGMA query_only = ON")
    for number in range(30):
        ledger.happened(1, "granted", float(number))
    ledger.flush()
    assert said[0].endswith("; 20 lines of history lost")
    ledger._history._db.execute("PRAGMA query_only = OFF")
    ledger.close()


OLD = """
CREATE TABLE jobs (job_id INTEGER PRIMARY KEY, uid INTEGER NOT NULL, program TEXT NOT NULL,
    batch_job TEXT NOT NULL, size INTEGER NOT NULL, nodes TEXT NOT NULL, granted REAL NOT NULL,
    ended REAL, outcome TEXT);
CREATE TABLE events (job_id INTEGER NOT NULL, at REAL NOT NULL, text TEXT NOT NULL);
INSERT INTO jobs VALUES (1, 1000, 'a.out', '', 3, '[2, 0, 1]', 100.5, 200.5, 'ended');
INSERT INTO jobs VALUES (2, 1000, 'b.out', '', 1, '[1]', 101.5, NULL, NULL);
INSERT INTO jobs VALUES (3, 1000, 'job.sh', '', 2, '[1]', 101.5, 102.5, 'ended');
INSERT INTO jobs VALUES (4, 1000, 'job.sh', '', 2, '[1]', 101.5, NULL, NULL);
INSERT INTO events VALUES (1, 100.5, 'granted: 3 slots on nodes 0..2');
"""


def test_a_ledger_of_an_earlier_release_goes_into_the_history(tmp_path):
    ledger = Ledger(tmp_path)
    ended, runs = batch_job(3, state=State.TIMEOUT, ended=102.5), batch_job(4)
    ledger.batch.keep([RecordBatchJob(job, b"task") for job in (ended, runs)])
    ledger._db.executescript(OLD)
    crash(ledger)
    for _ in range(2):
        again = Ledger(tmp_path)
        lone, batch = ask(again, lambda h: h.last(9, ALL))
        assert (lone.job_id, lone.state, lone.reason) == (1, State.FAILED, older.NOT_TOLD)
        assert (lone.name, lone.nodes, lone.node_count) == ("a.out", ((2, 1), (0, 2)), 3)
        assert lone.slot_s == 300.0
        assert (batch.job_id, batch.state) == (3, State.TIMEOUT)
        assert [each.job_id for each in again.open_jobs()] == [2]
        assert [job.job_id for job in again.batch.earlier().jobs] == [4]
        (line,) = ask(again, lambda h: h.events(1, None))
        assert line.text == "granted: 3 slots on nodes 0..2"
        again.close()


def test_a_damaged_history_is_named(tmp_path):
    (tmp_path / history_module.NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(LedgerError, match=r"history\.sqlite: file is not a database"):
        Ledger(tmp_path)
    (tmp_path / history_module.NAME).unlink()
    Ledger(tmp_path).close()


@pytest.fixture
def reactor():
    loop = Reactor()
    yield loop
    loop.close()


def until(reactor, is_so):
    end = reactor.monotonic() + LIMIT_S
    while not is_so() and reactor.monotonic() < end:
        reactor.run_once(0.1)
    assert is_so()


def test_the_loop_goes_on_while_the_disk_of_the_history_does_not(tmp_path, reactor):
    answers, threads, stuck = [], set(), threading.Event()
    aside = Aside(reactor)

    def work():
        stuck.wait(LIMIT_S)
        threads.add(threading.get_ident())
        return "done"

    aside.give(work, answers.append)
    reactor.run_once(0.0)
    assert answers == []
    stuck.set()
    until(reactor, lambda: answers == ["done"])
    assert threads != {threading.get_ident()}
    aside.close()


def test_work_that_fails_is_an_answer_and_the_next_is_done(reactor):
    answers = []
    aside = Aside(reactor)
    aside.give(lambda: 1 // 0, answers.append)
    aside.give(lambda: 2, answers.append)
    until(reactor, lambda: len(answers) == 2)
    assert isinstance(answers[0], LedgerError) and "ZeroDivisionError" in str(answers[0])
    assert answers[1] == 2
    aside.close()


def test_work_that_waits_is_bounded(reactor, monkeypatch):
    monkeypatch.setattr("allocator.host.aside.MOST_COUNT", 2)
    answers, stuck = [], threading.Event()
    aside = Aside(reactor)
    for _ in range(3):
        aside.give(lambda: stuck.wait(LIMIT_S), answers.append)
    (refused,) = answers
    assert str(refused) == "the history's disk is too slow"
    stuck.set()
    aside.close()
    assert answers[1:] == [True, True]


def test_a_ledger_that_is_closed_has_written_all(tmp_path, reactor):
    ledger = Ledger(tmp_path, Limits(), Aside(reactor))
    ledger.job_granted(row_of(1, 1000, "alice", "a.out", 4, None, 100.0, 101.0))
    ledger.job_ended(row(1))
    ledger.close()
    db = sqlite3.connect(tmp_path / history_module.NAME)
    assert db.execute("SELECT job_id FROM past").fetchall() == [(1,)]
    db.close()
    again = Ledger(tmp_path)
    assert again.open_jobs() == []
    again.close()


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    history = History(tmp_path / "h.sqlite", Limits())
    history._db.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match=r"h\.sqlite: attempt to write a readonly database"):
        history.write([history_module.event(1, 1.0, "granted")])
    history.close()
