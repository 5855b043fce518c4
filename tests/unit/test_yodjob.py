"""What yodjob prints, from the answers of launches."""

from __future__ import annotations

from time import localtime, strftime

import pytest
from msgspec.structs import replace

from native.wire import job
from native.wire.base import State
from partition.jobs import show
from partition.jobs.ask import Answer, Silent

USERS = {1000: "alice"}.get
NOW = 1000.0
ANSWERS = [
    Answer(
        "12",
        job.Shown(
            "12", "./a.out", 1000, State.RUNNING, 64, 16, "nodes 0..15", "host:1", 9.0, 67.9, 77
        ),
        None,
        77,
    ),
    Answer(
        "local.2",
        job.Shown(
            "local.2", "x" * 40, 1000, State.CONFIGURING, 4, 1, "larch", "embedded", 9.0, 0.0, 78
        ),
        None,
        78,
    ),
    Answer("local.3", None, Silent.STOPPED, 79),
    Answer("local.4", None, Silent.LATE, 80),
]


def test_a_line_for_each_job():
    assert show.table([show.cells(answer, USERS) for answer in ANSWERS]) == [
        f"  JOBID  NAME{' ' * 28}  USER   ST  TIME  RANKS  NODES  WHERE",
        f"     12  ./a.out{' ' * 25}  alice  R   1:07     64     16  nodes 0..15",
        f"local.2  {'x' * 31}…  alice  CF  0:00      4      1  larch",
        f"local.3  ?{' ' * 31}  ?      S      ?      ?      ?  process 79",
        f"local.4  ?{' ' * 31}  ?      ?      ?      ?      ?  process 80",
    ]


def test_all_that_is_known_of_a_job():
    lines = show.paragraph(ANSWERS[0].reply, USERS, NOW)
    assert lines[:4] == [
        "job 12",
        "  name       ./a.out",
        "  user       alice (1000)",
        "  state      RUNNING (R)",
    ]
    assert lines[5:] == [
        "  time       1:07",
        "  ranks      64",
        "  nodes      16",
        "  where      nodes 0..15",
        "  partition  host:1",
        "  yod        process 77",
    ]


def test_an_allocation_with_a_limit_says_when_it_ends_and_what_is_left():
    reply = replace(ANSWERS[0].reply, elapsed_s=67.0, time_s=600.0)
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(NOW + 533))
    lines = show.paragraph(reply, USERS, NOW)
    assert lines[6:8] == ["  limit      0:10:00", f"  ends       {at}, in 8:53"]
    assert show.record(Answer("12", reply, None, 77), USERS, NOW)["ends"] == NOW + 533
    for unlimited in (replace(reply, time_s=0.0), replace(reply, elapsed_s=0.0)):
        assert show.ends_of(unlimited, NOW) is None


def test_an_id_is_a_string_for_programs_and_every_job_has_the_same_fields():
    known, _, stopped, late = (show.record(answer, USERS, NOW) for answer in ANSWERS)
    assert (known["id"], known["ranks"], known["code"]) == ("12", 64, "R")
    assert (stopped["id"], stopped["state"], stopped["unix_pid"]) == ("local.3", "SUSPENDED", 79)
    assert (late["state"], late["name"]) == (None, None)
    assert known.keys() == stopped.keys() == late.keys()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "0:00"),
        (67, "1:07"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (86399, "23:59:59"),
        (93784, "1-02:03:04"),
    ],
)
def test_times_are_squeues(seconds, text):
    assert show.elapsed(seconds) == text
