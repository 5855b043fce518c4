"""Options with one dash or two, whose names may be shortened to four letters."""

import pytest

from native.errors import UsageError
from native.options import Option, describe, expand, of_click, parse

OPTIONS = [
    Option(("-sz", "-size"), takes_value=True),
    Option(("-list", "-l"), takes_value=True),
    Option(("-quiet", "-q")),
    Option(("-D",)),
    Option(("-kill",)),
    Option(("-timing",)),
    Option(("--keep-going",)),
    Option(("--keep-files",)),
    Option(("--partition",), takes_value=True),
]
NO_SUCH = (
    "{}: no such option here; known: -sz, -list, -quiet, -D, -kill, -timing, "
    "--keep-going, --keep-files, --partition"
)
AT_LEAST = "a name is shortened to 4 letters at least"


@pytest.mark.parametrize(
    ("argv", "expanded"),
    [
        ([], []),
        (["-sz", "4", "a.out"], ["-sz", "4", "a.out"]),
        (["-size", "4"], ["-sz", "4"]),
        (["-timi", "--quie"], ["-timing", "-quiet"]),
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
        (["-keep"], "-keep: could be --keep-going, --keep-files"),
        (["-k"], "-k: could be -kill, --keep-going, --keep-files; " + AT_LEAST),
        (["-si", "4"], "-si: could be -size; " + AT_LEAST),
        (["-tim"], "-tim: could be -timing; " + AT_LEAST),
        (["-timming"], "-timming: no such option here; did you mean -timing?"),
        (["-x"], NO_SUCH.format("-x")),
        (["-\udcff"], NO_SUCH.format(r"$'-\377'")),
        (["---"], NO_SUCH.format("---")),
        (["-d"], NO_SUCH.format("-d")),
        (["-sz"], "-sz needs a value"),
        (["-l", "", "x"], "-list needs a value, got an empty one"),
        (["--part="], "--partition needs a value, got an empty one"),
        (["-q=1"], "-quiet takes no value, got 1"),
    ],
)
def test_what_cannot_be_expanded_is_refused_with_the_reason(argv, text):
    with pytest.raises(UsageError) as caught:
        expand(argv, OPTIONS)
    assert str(caught.value) == text


def test_names_are_case_sensitive():
    options = [Option(("-D",)), Option(("-d",))]
    assert expand(["-D", "-d"], options) == ["-D", "-d"]


def test_a_full_name_is_not_ambiguous_with_a_longer_one():
    options = [Option(("-list",)), Option(("-list-all",))]
    assert expand(["-list", "-list-"], options) == ["-list", "-list-all"]


def test_what_an_option_of_another_program_is_here_is_said():
    table = {"f": "say -file", "N": "say -list", "hosts": "none"}

    def said(*argv):
        with pytest.raises(UsageError) as caught:
            expand(argv, OPTIONS, lambda name: table.get(name, ""))
        return str(caught.value)

    assert said("-f", "hosts") == "no option -f here: say -file"
    assert said("-N2") == "no option -N2 here: say -list"
    assert said("-ff") == "no option -ff here: say -file"
    assert said("--hosts=a") == "no option --hosts here: none"
    assert said("-fill") == "-fill: no such option here; did you mean -kill?"


def test_many_options_are_not_listed_in_an_error():
    many = [Option((f"--option{number}",)) for number in range(21)]
    with pytest.raises(UsageError, match=r"^-x: no such option here; -help lists them$"):
        expand(["-x"], many)


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


@pytest.mark.parametrize("word", ["-nodes", "-n-1", "--n4", "-D4", "-x4", "-sz4", "-zz"])
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
    given, words = parse(["-size", "4", "-D", "-D", "-file", "-D", "prog", "-sz", "9"], TABLE)
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
