"""The options of yod and their shortest forms."""

import re

import pytest

from native import options
from native.errors import UsageError
from yod.cli import OPTIONS, command


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *[("-sz", "-sz"), ("-size", "-sz"), ("-n", "-sz"), ("-np", "-sz"), ("-l", "-list")],
        *[("-t", "-timing"), ("-q", "-quiet"), ("-h", "-help"), ("--help", "-help"), ("-D", "-D")],
        *[("--mpi", "--mpi"), ("--libp", "--libpmix"), ("-inte", "-interactive")],
        *[("--keep", "--keep-going"), ("-part", "--partition"), ("--dry-", "--dry-run")],
        *[("-x", "--exclude"), ("--exclud", "--exclude")],
    ],
)
def test_an_options_short_form_is_known(word, name):
    takes_value = next(each.takes_value for each in OPTIONS if each.spellings[0] == name)
    given, words = options.parse([word, *(["x"] if takes_value else []), "program"], OPTIONS)
    assert (list(given), words) == ([name], ["program"])


@pytest.mark.parametrize("letter", "abcdfgijkmprsuvwyzABCEFGHIJKLMOPQRSTUVWXYZ")
def test_no_other_letter_is_taken_for_an_option(letter):
    with pytest.raises(UsageError):
        options.parse([f"-{letter}", "program"], OPTIONS)


def test_a_prefix_of_several_names_them():
    with pytest.raises(UsageError, match="-li: could be -list, --libpmix"):
        options.parse(["-li", "x"], OPTIONS)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-l hostname", "hostname is the value of -l, which is -list here; --label shows ranks"),
        ("-n 2 -sz hostname", "hostname is the value of -sz; usage: "),
        ("-sz 2 --label", "no program; usage: "),
        ("-sz 2 --mpi=none", "no program; usage: "),
        ("", "no program; usage: "),
    ],
)
def test_an_option_that_has_taken_the_program_is_named(line, text):
    with pytest.raises(UsageError, match=re.escape(text)):
        command(line.split())
