"""Lengths of time as batch systems write them."""

from __future__ import annotations

import pytest

from native import duration
from native.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 60),
        ("90:30", 90 * 60 + 30),
        ("0:01", 1),
        ("1:30:05", 5405),
        ("2-12", 60 * 3600),
        ("1-2:03", 86400 + 2 * 3600 + 180),
        ("1-00:00:01", 86401),
    ],
)
def test_each_form_of_slurm_is_read(text, seconds):
    assert duration.parse(text, "-time") == seconds


@pytest.mark.parametrize("text", ["0", "0:00", "0:00:00"])
def test_no_time_is_a_time_where_that_means_something(text):
    assert duration.parse(text, "--grace", may_be_none=True) == 0
    with pytest.raises(UsageError, match="--grace soon: no time; use minutes"):
        duration.parse("soon", "--grace", may_be_none=True)


@pytest.mark.parametrize(
    "text", ["", "0", "0:00", "1:2:3:4", "-1", "1h", "1-", "\u0661", " 1", "1\n"]
)
def test_anything_else_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match=r"^-time .*: no time above 0; use minutes, "):
        duration.parse(text, "-time")
