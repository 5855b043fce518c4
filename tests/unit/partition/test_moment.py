"""Times of the clock on the wall, as people write them."""

import time
from datetime import UTC, datetime

import pytest

from native.errors import UsageError
from partition.submit import moment

NOW = datetime(2026, 11, 25, 17, 30, 5, 250000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("now", "2026-11-25 17:30:05.25"),
        ("now+2:00:00", "2026-11-25 19:30:05.25"),
        ("now+90", "2026-11-25 17:31:35.25"),
        ("now + 3 days", "2026-11-28 17:30:05.25"),
        ("now+1hour", "2026-11-25 18:30:05.25"),
        ("18:30", "2026-11-25 18:30"),
        ("17:30", "2026-11-26 17:30"),
        ("9:05:30", "2026-11-26 09:05:30"),
        ("midnight", "2026-11-26"),
        ("noon", "2026-11-26 12:00"),
        ("tomorrow", "2026-11-26"),
        ("2026-12-24", "2026-12-24"),
        ("2026-12-24T18:30", "2026-12-24 18:30"),
        ("2026-12-24T18:30:15+01:00", "2026-12-24 17:30:15"),
    ],
)
def test_a_time_is_the_next_such_one(text, when):
    expected = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
    assert moment.parse(text, "-begin", NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "25:00", "18:61", "soon", "now+", "now+two", "2026-13-01", "now+9999999999 weeks"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="-begin"):
        moment.parse(text, "-begin", NOW)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("12241830", "2026-12-24T18:30:00"),
        ("2712241830.15", "2027-12-24T18:30:15"),
        ("202712241830", "2027-12-24T18:30:00"),
    ],
)
def test_times_of_pbs_are_read(text, when):
    assert moment.of_pbs(text, NOW) == when


def test_another_form_is_none_of_pbs():
    with pytest.raises(UsageError, match="-a 18:30"):
        moment.of_pbs("18:30", NOW)


def test_a_time_of_the_clock_is_that_of_its_day(monkeypatch):
    """Also where the clock is changed before that day."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        winter = datetime(2026, 3, 1, 12)
        summer = datetime(2026, 7, 1, 6, tzinfo=UTC).timestamp()
        assert moment.parse("2026-07-01T08:00", "-begin", winter) == summer
    finally:
        monkeypatch.undo()
        time.tzset()
