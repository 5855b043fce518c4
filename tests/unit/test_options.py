"""Options with one dash and any unambiguous prefix, as the original took them."""

import pytest

from native.errors import UsageError
from native.options import Option, expand

OPTIONS = [
    Option(("-sz", "-size"), takes_value=True),
    Option(("-list",), takes_value=True),
    Option(("-quiet",)),
    Option(("-D",)),
    Option(("-kill",)),
    Option(("--keep-going",)),
    Option(("--partition",), takes_value=True),
]
NO_SUCH = (
    "{}: no such option here; known: -sz, -size, -list, -quiet, -D, -kill, -keep-going, -partition"
)


@pytest.mark.parametrize(
    ("argv", "expanded"),
    [
        ([], []),
        (["-sz", "4", "a.out"], ["-sz", "4", "a.out"]),
        (["-s", "4"], ["-sz", "4"]),
        (["-si", "4"], ["-sz", "4"]),
        (["--list=1..3", "x"], ["-list", "1..3", "x"]),
        (["-l", "1..3"], ["-list", "1..3"]),
        (["-q", "-D", "-D"], ["-quiet", "-D", "-D"]),
        (["-partition", "host:1"], ["--partition", "host:1"]),
        (["-sz", "-1"], ["-sz", "-1"]),
        (["-list="], ["-list", ""]),
        (["a.out", "-q", "-sz", "2"], ["a.out", "-q", "-sz", "2"]),
        (["-q", "--", "-q"], ["-quiet", "--", "-q"]),
        (["-", "-q"], ["-", "-q"]),
    ],
)
def test_options_are_expanded_up_to_the_program(argv, expanded):
    assert expand(argv, OPTIONS) == expanded


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["-k"], "-k: could be -kill, -keep-going"),
        (["-x"], NO_SUCH.format("-x")),
        (["---"], NO_SUCH.format("---")),
        (["-d"], NO_SUCH.format("-d")),
        (["-sz"], "-sz needs a value"),
        (["-q=1"], "-quiet takes no value, got `1`"),
    ],
)
def test_what_cannot_be_expanded_is_refused_with_the_reason(argv, text):
    with pytest.raises(UsageError) as caught:
        expand(argv, OPTIONS)
    assert str(caught.value) == text
