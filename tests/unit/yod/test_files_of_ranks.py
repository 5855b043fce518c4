"""Files that ranks write to: what the options say, and the path of each rank."""

import pytest

from native import pattern
from native.errors import UsageError
from native.wire.group import RankFiles
from yod.plan.files import chosen


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"-o": ["out.%t"]}, RankFiles(b"out.%t", b"out.%t")),
        ({"-o": ["a.%t", "b.%t"]}, RankFiles(b"b.%t", b"b.%t")),
        ({"-e": ["%n.err"]}, RankFiles(b"", b"%n.err")),
        ({"-o": ["%t"], "-e": ["/dev/null"]}, RankFiles(b"%t", b"/dev/null")),
        ({"-o": ["%t"], "--restart": ["kept"]}, RankFiles(b"%t", b"%t", appends=True)),
        ({"-o": ["%u.%%u.%t"]}, RankFiles(b"100%%.%%u.%t", b"100%%.%%u.%t")),
    ],
)
def test_what_the_options_say(given, files):
    assert chosen(given, "100%") == files


def test_files_that_yod_writes_are_one_for_each_rank_and_are_named():
    assert chosen({"-o": ["%t"], "--tee": [""]}, "alice") == RankFiles(b"%t", b"%t")
    with pytest.raises(UsageError, match="-o %n: with --tee %t \\(rank\\) must be in it"):
        chosen({"-o": ["%n"], "--tee": [""]}, "alice")
    with pytest.raises(UsageError, match="--tee: name the files, too"):
        chosen({"--tee": [""]}, "alice")


def test_a_path_that_is_too_long_is_refused():
    with pytest.raises(UsageError, match="-o: a path has at most 4096 bytes"):
        chosen({"-o": ["x" * 4095 + "%t"]}, "alice")


def test_a_number_has_the_width_that_is_asked_for():
    values = {"t": "7", "N": "n7", "%": "%"}
    assert pattern.expand("%4t.%4N.%%t", values) == "0007.n7.%t"
