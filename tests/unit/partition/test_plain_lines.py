"""Plain command lines of yodjob are read without click, and as click reads them."""

import random

import click
import pytest

from native.options import Option, read_exact
from partition.commands import every, handed, plain
from partition.commands.submit import submit
from partition.submit.options import OPTIONS

VARIABLES = {option.variable: "7" for option in OPTIONS.values() if option.variable}
SPELLINGS = [spelling for option in OPTIONS.values() for spelling in option.spellings]
TRIALS = 400
ODD = ("-", "--", "---", "", "-h", "--help", "--me", "-x", "--mem=4G", "--mem=", "--hold=1")
WORDS = ("-sz=4", "-sz4", "-N=3", "-N3", "-HN", "4", "0", "job.sh", "x=y", "--wrap=true")


def by_click(argv):
    """What click gives the command; None: it refuses the line, or shows the help."""
    try:
        given = submit.make_context("yodjob submit", list(argv)).params
    except (click.ClickException, click.exceptions.Exit):
        return None
    words = given.pop("words")
    return list(words), given


def read(argv, environment):
    if (found := handed.read(argv, environment)) is None:
        return None
    words, given = found
    return list(words), given


@pytest.fixture
def variables(monkeypatch):
    def have(environment):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    have({})
    return have


@pytest.mark.parametrize(
    "argv",
    [
        ("job.sh",),
        ("-sz", "4", "job.sh", "-sz", "5"),
        ("-sz=4", "--mem=4G", "--exclusive", "-N", "2", "job.sh"),
        ("-quiet", "--wrap", "echo a b"),
        ("-o", "-e", "-name", "a", "-J", "b", "--", "-odd.sh", "--help"),
        ("-hold", "-nice", "5", "-"),
        (*(word for option in OPTIONS.values() if option.takes_value
           for word in (option.spellings[0], "3")), "job.sh"),
    ],
)  # fmt: skip
def test_a_plain_line_is_read_without_click_and_alike(argv, variables):
    assert read(argv, {}) == by_click(argv) is not None


@pytest.mark.parametrize("value", ["", "4"])
def test_variables_give_what_the_line_does_not(value, variables):
    environment = dict.fromkeys(VARIABLES, value)
    variables(environment)
    for argv in (["job.sh"], ["-sz", "2", "-time", "3", "job.sh"]):
        assert read(argv, environment) == by_click(argv) is not None


@pytest.mark.parametrize(
    "argv", [["-sz", "0", "a"], ["-sz", "many", "a"], ["-sz"], ["--me", "4G", "a"], ["--help"]]
)
def test_what_is_wrong_short_or_asks_for_help_is_left_to_click(argv, variables):
    assert handed.read(argv, {}) is None


def test_a_wrong_variable_is_left_to_click(variables):
    assert handed.read(["a"], {"YODJOB_SZ": "many"}) is None


@pytest.mark.parametrize("seed", range(5))
def test_any_line_is_read_as_click_reads_it_or_left_to_it(seed, variables):
    rng = random.Random(seed)
    choices = (*SPELLINGS, *ODD, *WORDS)
    was_read = 0
    for _ in range(TRIALS):
        argv = rng.choices(choices, k=rng.randrange(5))
        some = rng.sample(sorted(VARIABLES), k=rng.randrange(3))
        environment = {name: rng.choice(("", "3", "a")) for name in some}
        variables(environment)
        if (found := read(argv, environment)) is not None:
            was_read += 1
            assert found == by_click(argv), argv
    assert was_read


def test_the_last_of_several_counts_whatever_its_spelling():
    options = [Option(("-sz", "-n"), True), Option(("-q",), False)]
    assert read_exact(["-sz", "1", "-n", "2", "-q", "a"], options) == (
        {"-sz": "2", "-q": ""},
        ["a"],
    )
    assert read_exact(["-q=1", "a"], options) is None


@pytest.fixture
def done(monkeypatch):
    """What commands are called with, instead of doing anything."""
    calls = []
    for name in ("show_all", "show_some", "send_signal", "cancel", "wait"):

        def record(*given, name=name):
            calls.append(
                (name, *(list(some) if isinstance(some, tuple) else some for some in given))
            )
            return True

        monkeypatch.setattr(plain, name, record)
    return calls


@pytest.mark.parametrize(
    "argv",
    [
        ("list",),
        ("list", "--partition", "unix:/a", "--json"),
        ("cancel", "17", "18_3-4", "local.2"),
        ("wait", "--partition=h:1", "17", "18"),
        ("show", "--events", "--json", "17", "17.3"),
        ("show", "local.2"),
        ("signal", "--partition", "h:1", "USR1", "17", "local.2"),
    ],
)
def test_plain_lines_of_other_commands_are_read_without_click_and_alike(argv, done):
    assert plain.run(argv[0], argv[1:])
    every.command.main(list(argv), prog_name="yodjob", standalone_mode=False)
    ours, of_click = done
    assert ours == of_click


@pytest.mark.parametrize(
    "argv",
    [
        ("list", "17"),
        ("list", "--help"),
        ("cancel",),
        ("wait", "--json", "17"),
        ("wait", "17", "--partition", "h:1"),
        ("wait", "17_3"),
        ("wait", "--part", "h:1", "17"),
        ("show",),
        ("show", "17_3"),
        ("show", "17", "--events"),
        ("signal", "-9", "17"),
        ("signal", "9"),
        ("signal", "9", "17_3"),
    ],
)
def test_other_lines_of_other_commands_are_left_to_click(argv, done):
    assert not plain.run(argv[0], argv[1:])
    assert not done


@pytest.mark.parametrize("seed", range(3))
def test_any_line_of_other_commands_is_read_as_click_reads_it_or_left_to_it(seed, done):
    rng = random.Random(seed)
    choices = (
        "17",
        "18",
        "",
        "-",
        "--",
        "--partition",
        "--partition=a",
        "--json",
        "--events",
        "USR1",
        "-h",
        "a_b",
        "-x",
    )
    compared = 0
    for _ in range(TRIALS):
        name, *argv = (
            rng.choice(tuple(plain.OPTIONS)),
            *rng.choices(choices, k=rng.randrange(4)),
        )
        done.clear()
        if plain.run(name, argv):
            every.command.main([name, *argv], prog_name="yodjob", standalone_mode=False)
            ours, of_click = done
            assert ours == of_click
            compared += 1
    assert compared
