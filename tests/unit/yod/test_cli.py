"""The options of yod and their shortest forms."""

import pytest

from native import options
from native.errors import UsageError
from yod.cli import OPTIONS


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *[("-sz", "-sz"), ("-s", "-sz"), ("-l", "-list"), ("-t", "-timing"), ("-q", "-quiet")],
        *[("-m", "--mpi"), ("--mpi", "--mpi"), ("--lib", "--libpmix"), ("-D", "-D")],
        *[("-f", "-file"), ("-ki", "-kill"), ("-ke", "--keep-going"), ("-h", "-help")],
        *[("-n", "-sz"), ("-np", "-sz"), ("-v", "--version")],
        *[("-p", "--partition"), ("-d", "--dry-run"), ("-b", "-batch"), ("-i", "-interactive")],
    ],
)
def test_an_options_short_form_is_known(word, name):
    takes_value = next(each.takes_value for each in OPTIONS if each.spellings[0] == name)
    given, words = options.parse([word, *(["x"] if takes_value else []), "program"], OPTIONS)
    assert (list(given), words) == ([name], ["program"])


def test_a_prefix_of_several_names_them():
    with pytest.raises(UsageError, match="-li: could be -list, -libpmix"):
        options.parse(["-li", "x"], OPTIONS)
