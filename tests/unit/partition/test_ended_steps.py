"""Steps that have ended are told to the partition's bebopd: each once, as long as it listens."""

import random

import pytest

from allocator.jobs.accounting import row_of
from native.errors import PartitionError
from native.loop.reactor import Reactor
from native.wire.batch import ROWS_MAX, Steps
from partition.broker import steps as steps_module
from partition.broker.steps import EndedSteps
from partition.broker.telling import Telling

JOB = 17


def row(number):
    return row_of(number, 1000, "alice", "a.out", 1, None, 100.0, 101.0)


def filled(count):
    steps = EndedSteps(JOB)
    for number in range(1, count + 1):
        steps.job_ended(row(number))
    return steps


def test_steps_are_rows_of_their_allocation():
    (told,) = filled(1).next_piece().rows
    assert (told.job_id, told.step) == (JOB, 1)


def test_a_piece_is_told_again_until_it_is_heard():
    steps = filled(ROWS_MAX + 1)
    piece = steps.next_piece()
    assert (piece.first, len(piece.rows)) == (0, ROWS_MAX)
    assert steps.next_piece() == piece
    assert not steps.heard(1)
    assert steps.heard(0) and not steps.heard(0)
    assert steps.next_piece() == Steps(JOB, ROWS_MAX, steps.next_piece().rows, 0)
    assert [each.step for each in steps.next_piece().rows] == [ROWS_MAX + 1]
    assert steps.heard(ROWS_MAX) and steps.is_heard


def test_what_waits_is_bounded_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(steps_module, "WAITING_MAX", 2)
    steps = filled(5)
    assert (len(steps), steps.next_piece().lost) == (2, 3)
    assert steps.heard(0) and steps.is_heard


def test_a_count_alone_is_told_as_well(monkeypatch):
    monkeypatch.setattr(steps_module, "WAITING_MAX", 1)
    steps = filled(1)
    steps.next_piece()
    steps.job_ended(row(2))
    assert steps.heard(0) and not steps.is_heard
    assert steps.next_piece() == Steps(JOB, 1, (), 1)
    assert steps.heard(1) and steps.is_heard


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_lost_on_the_way_each_step_is_taken(seed):
    choose = random.Random(seed)
    steps, taken, answers, number = EndedSteps(JOB), {}, [], 0
    for _ in range(400):
        match choose.randrange(4):
            case 0 if number < 200:
                number += 1
                steps.job_ended(row(number))
            case 1 if not steps.is_heard:
                piece = steps.next_piece()
                if choose.random() < 0.7:
                    taken |= {each.step: each for each in piece.rows}
                    answers.append(piece.first)
            case 2 if answers:
                steps.heard(answers.pop(choose.randrange(len(answers))))
            case 3:
                answers = answers[1:]  # one is lost
    while not steps.is_heard:
        piece = steps.next_piece()
        taken |= {each.step: each for each in piece.rows}
        steps.heard(piece.first)
    assert sorted(taken) == list(range(1, number + 1))


def test_an_allocation_ends_also_when_bebopd_cannot_be_told():
    reactor = Reactor()

    def no_port():
        raise PartitionError("no such host")

    telling = Telling(filled(3), no_port, reactor)
    finished = []
    telling.finish(lambda: finished.append(True))
    assert finished == [True]
    telling.look()
    telling.close()
    reactor.close()


def test_an_allocation_without_steps_opens_no_port():
    reactor = Reactor()
    telling = Telling(EndedSteps(JOB), lambda: pytest.fail("opened"), reactor)
    finished = []
    telling.look()
    telling.finish(lambda: finished.append(True))
    assert finished == [True]
    telling.close()
    reactor.close()
