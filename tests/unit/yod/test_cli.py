"""The options of yod and their shortest forms."""

import pytest

from native import options
from native.errors import UsageError
from yod.cli import OPTIONS


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *[("-sz", "-sz"), ("-size", "-sz"), ("-n", "-sz"), ("-np", "-sz"), ("-l", "-list")],
        *[("-t", "-timing"), ("-q", "-quiet"), ("-h", "-help"), ("--help", "-help"), ("-D", "-D")],
        *[("--mpi", "--mpi"), ("--libp", "--libpmix"), ("-inte", "-interactive")],
        *[("--keep", "--keep-going"), ("-part", "--partition"), ("--dry-", "--dry-run")],
    ],
)
def test_an_options_short_form_is_known(word, name):
    takes_value = next(each.takes_value for each in OPTIONS if each.spellings[0] == name)
    given, words = options.parse([word, *(["x"] if takes_value else []), "program"], OPTIONS)
    assert (list(given), words) == ([name], ["program"])


@pytest.mark.parametrize("letter", "abcdfgijkmprsuvwxyzABCEFGHIJKLMOPQRSTUVWXYZ")
def test_no_other_letter_is_taken_for_an_option(letter):
    with pytest.raises(UsageError):
        options.parse([f"-{letter}", "program"], OPTIONS)


def test_a_prefix_of_several_names_them():
    with pytest.raises(UsageError, match="-li: could be -list, --libpmix"):
        options.parse(["-li", "x"], OPTIONS)
