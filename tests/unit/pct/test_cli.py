"""The command pct: what it is executed with when it begins again."""

import pytest

from pct.cli import _without_starter


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["--node", "3", "--ready-fd", "7", "-D"], ["--node", "3", "-D"]),
        (["--node", "3", "-D"], ["--node", "3", "-D"]),
    ],
)
def test_a_pct_that_begins_again_has_no_starter_who_waits(words, again):
    assert _without_starter(words) == again


def test_a_pct_that_begins_again_has_no_starter():
    words = ["--starter-fd", "3", "--tag", "a", "--ready-fd", "4", "-D"]
    assert _without_starter(words) == ["--tag", "a", "-D"]
