"""An agent that says nothing is given up, and one that has been begins nothing."""

from __future__ import annotations

from yod.pilot.scheduler.silence import LOOKS, Leave, Silence, Verdict

SILENT_S = 60.0
EVERY_S = SILENT_S / LOOKS


def test_an_agent_that_says_nothing_is_asked_and_marked_and_then_given_up():
    silence = Silence(SILENT_S)
    silence.begin(0, 0.0)
    found = []
    while (at := silence.deadline()) is not None:
        found.append(silence.look(0, at))
        last = at
    assert found == [Verdict.ASK] * (LOOKS - 1) + [Verdict.MARK, Verdict.GIVE_UP]
    assert last == SILENT_S + EVERY_S


def test_what_a_marked_agent_says_does_not_help_it():
    silence = Silence(SILENT_S)
    silence.begin(0, 0.0)
    for n in range(LOOKS):
        silence.look(0, (n + 1) * EVERY_S)
    assert silence.look(1, SILENT_S + EVERY_S) is Verdict.GIVE_UP


def test_an_agent_that_answers_is_never_given_up():
    silence = Silence(SILENT_S)
    silence.begin(0, 0.0)
    for n in range(100):
        at = silence.deadline()
        assert at is not None
        assert silence.look((n + 1) // LOOKS, at) in (Verdict.WELL, Verdict.ASK)


def test_a_look_of_a_client_that_has_stood_still_does_not_count():
    silence = Silence(SILENT_S)
    silence.begin(0, 0.0)
    for n in range(LOOKS - 1):
        assert silence.look(0, (n + 1) * EVERY_S) is Verdict.ASK
    assert silence.is_asked
    assert silence.look(0, 1e6) is Verdict.ASK
    assert silence.deadline() == 1e6 + EVERY_S
    assert silence.look(1, 1e6 + EVERY_S) is Verdict.WELL
    assert not silence.is_asked


def test_an_agent_that_begins_has_more_time():
    silence = Silence(SILENT_S)
    silence.begin(0, 10.0, 30.0)
    assert silence.deadline() == 10.0 + 30.0 + EVERY_S


def test_no_limit_is_no_look():
    silence = Silence(0.0)
    silence.begin(0, 5.0)
    assert silence.deadline() is None


def test_nobody_looks_at_what_is_over():
    silence = Silence(SILENT_S)
    silence.begin(0, 0.0)
    silence.end()
    assert silence.deadline() is None


def test_an_agent_looks_for_the_mark_at_first_and_again_and_again():
    for silent_s in (SILENT_S, 0.0):
        leave = Leave(silent_s)
        assert leave.is_over(7.0)
        leave.looked(7.0)
        assert not leave.is_over(7.0 + EVERY_S - 0.1)
        assert leave.is_over(7.0 + EVERY_S)
