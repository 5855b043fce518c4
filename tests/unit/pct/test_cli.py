"""The command pct: what it is executed with when it begins again."""

import pytest

from pct.command.main import _without_starter


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


def test_a_pct_that_begins_again_knows_the_bebopd_that_its_starter_has_told_it():
    words = ["--starter-fd", "0", "--tag", "a"]
    assert _without_starter(words, "10.0.0.1:7") == ["--bebopd", "10.0.0.1:7", "--tag", "a"]
    assert _without_starter(["--bebopd", "h:1"], "10.0.0.1:7") == ["--bebopd", "h:1"]
