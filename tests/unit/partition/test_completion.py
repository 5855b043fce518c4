"""What the scripts for shells are made from. tests/system has the shells."""

import ast
from pathlib import Path

import click
import pytest

import partition.commands.every
import partition.yodctl
from partition.completion import words
from partition.completion.words import DIRECTORY, FILE, JOB, NOTHING, PROGRAM, SIGNAL
from yod.cli import OPTIONS

LINES = {line.path: line for line in words.lines()}
SETUP = Path(__file__).parents[3] / "setup.py"


def installed():
    """The names of all commands, as setup.py has them."""
    known = {
        target.id: node.value
        for node in ast.parse(SETUP.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {
        *ast.literal_eval(known["COMMANDS"]),
        *ast.literal_eval(known["CLIENT_NAMES"]),
    }


def test_every_command_that_users_type_has_a_line():
    behind = {"yod-cold", "yodjob-cold"}  # what yod and yodjob become
    of_ssh = {"yod-agent"}  # its options are those of the site's ssh
    assert installed() - behind - of_ssh == {line for line in LINES if " " not in line}


def test_every_option_of_yod_is_there():
    names = {spelling for option in OPTIONS for spelling in option.spellings}
    assert set(LINES["yod"].spellings) == names


@pytest.mark.parametrize("group", [partition.commands.every.command, partition.yodctl.command])
def test_every_subcommand_that_is_shown_has_a_line(group):
    context = click.Context(group)
    name = {partition.commands.every.command: "yodjob", partition.yodctl.command: "yodctl"}[group]
    shown = [
        sub for sub in group.list_commands(context) if not group.get_command(context, sub).hidden
    ]
    assert list(LINES[name].subcommands) == shown
    assert {f"{name} {sub}" for sub in shown} <= LINES.keys()


@pytest.mark.parametrize(
    ("path", "option", "kind"),
    [
        ("yod", "-file", FILE),
        ("yod", "-sz", NOTHING),
        ("yod", "--mpi", "auto,pmi1,pmi2,pmix,none"),
        ("pct", "--cgroups", "auto,yes,no"),
        ("yodjob submit", "-o", FILE),
    ],
)
def test_a_value_has_a_kind(path, option, kind):
    assert LINES[path].values[option] == kind


def test_an_option_without_a_value_and_one_whose_value_stands_behind_its_name_take_no_word():
    assert not {"-quiet", "--wait"} & LINES["yod"].values.keys()


@pytest.mark.parametrize(
    ("path", "operands"),
    [
        ("yod", (PROGRAM,)),
        ("yodjob alloc", (PROGRAM,)),
        ("yodjob signal", (SIGNAL, JOB)),
        ("yodjob history", (JOB,)),
        ("yodctl drain", (NOTHING,)),
        ("yod-pilot map", (FILE, PROGRAM)),
        ("yod-pilot show", (DIRECTORY,)),
    ],
)
def test_operands_have_kinds(path, operands):
    assert LINES[path].operands == operands
