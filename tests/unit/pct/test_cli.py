"""The command pct: what it is executed with when it begins again."""

import pytest

from pct.cli import _without_ready_fd


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["--node", "3", "--ready-fd", "7", "-D"], ["--node", "3", "-D"]),
        (["--node", "3", "-D"], ["--node", "3", "-D"]),
    ],
)
def test_a_pct_that_begins_again_has_no_starter_who_waits(words, again):
    assert _without_ready_fd(words) == again
