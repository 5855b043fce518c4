"""Options with one dash and any unambiguous prefix, as the original took them."""

import pytest

from native.errors import UsageError
from native.options import Option, describe, expand, of_click, parse

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
        (["-l", "", "x"], "-list needs a value, got an empty one"),
        (["--part="], "--partition needs a value, got an empty one"),
        (["-q=1"], "-quiet takes no value, got `1`"),
    ],
)
def test_what_cannot_be_expanded_is_refused_with_the_reason(argv, text):
    with pytest.raises(UsageError) as caught:
        expand(argv, OPTIONS)
    assert str(caught.value) == text


def test_names_are_case_sensitive():
    options = [Option(("-D",)), Option(("-debug",))]
    assert expand(["-D", "-d"], options) == ["-D", "-debug"]


def test_a_full_name_is_not_ambiguous_with_a_longer_one():
    options = [Option(("-list",)), Option(("-list-all",))]
    assert expand(["-list", "-list-"], options) == ["-list", "-list-all"]
    with pytest.raises(UsageError, match="-lis: could be -list, -list-all"):
        expand(["-lis"], options)


SHORT = [Option(("-sz", "-n"), takes_value=True), Option(("-list", "-l"), True), Option(("-D",))]


@pytest.mark.parametrize(
    ("word", "expanded"),
    [
        ("-n4", ["-sz", "4"]),
        ("-n=4", ["-sz", "4"]),
        ("-l1..3", ["-list", "1..3"]),
        ("-l5,1..3=", ["-list", "5,1..3="]),
    ],
)
def test_a_number_may_follow_an_option_of_one_letter_at_once(word, expanded):
    assert expand([word, "a.out"], SHORT) == [*expanded, "a.out"]


@pytest.mark.parametrize("word", ["-nodes", "-n-1", "--n4", "-D4", "-x4", "-sz4"])
def test_other_words_that_begin_with_an_option_of_one_letter_are_none(word):
    with pytest.raises(UsageError, match=f"{word}: no such option here"):
        expand([word, "a.out"], SHORT)


def test_a_value_that_looks_like_an_option_is_a_value():
    assert expand(["-list", "-quiet", "-q"], OPTIONS) == ["-list", "-quiet", "-quiet"]


def test_the_options_of_a_click_command_are_its_flags_counters_and_values():
    import click

    @click.command()
    @click.option("-sz", "-size", "size")
    @click.option("-quiet", is_flag=True)
    @click.option("-D", "debug", count=True)
    @click.argument("program")
    def command(size, quiet, debug, program): ...

    assert of_click(command.params) == [
        Option(("-sz", "-size"), takes_value=True),
        Option(("-quiet",)),
        Option(("-D",)),
    ]


TABLE = (
    Option(("-sz", "-size"), True, "Number of ranks.", "N"),
    Option(("-D",), False, "Say more."),
    Option(("-file",), True, "Where to.", "NAME"),
)


def test_options_are_read_up_to_the_program():
    given, words = parse(["-si", "4", "-D", "-D", "-f", "-D", "prog", "-sz", "9"], TABLE)
    assert given == {"-sz": ["4"], "-D": ["", ""], "-file": ["-D"]}
    assert words == ["prog", "-sz", "9"]


def test_two_dashes_end_the_options():
    assert parse(["-D", "--", "-sz"], TABLE) == ({"-D": [""]}, ["-sz"])


def test_the_help_lists_each_option_with_what_its_value_is_called():
    assert describe(TABLE).splitlines() == [
        "  -sz, -size N  Number of ranks.",
        "  -D            Say more.",
        "  -file NAME    Where to.",
    ]
