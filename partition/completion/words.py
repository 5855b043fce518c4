"""What can stand where on the command lines of yod's commands."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

import click
from msgspec import Struct

from native.options import Option

NOTHING, FILE, DIRECTORY, JOB, SIGNAL, USER, PROGRAM = (
    *("nothing", "file", "directory", "job", "signal", "user", "program"),
)
_KINDS = {  # by what a value is called in a command's help
    "FILE": FILE,
    "PATH": FILE,
    "DIR": DIRECTORY,
    "ID": JOB,
    "SIGNAL": SIGNAL,
    "USER": USER,
    "SESSION": DIRECTORY,
    "SESSIONS": DIRECTORY,
    "COMMAND": PROGRAM,
    "SCRIPT": PROGRAM,
}
_CHOICES = {
    "--distribution": "block,cyclic,plane=",
    "--mpi": "auto,pmi1,pmi2,pmix,none",
    "--partition": "embedded",
    "-file": FILE,
}
_COMMANDS = {
    "bebopd": "allocator.command.cli",
    "pct": "pct.command.cli",
    "pingd": "partition.pingd",
    "yodctl": "partition.yodctl",
    "yodjob": "partition.commands.every",
    "yod-ensemble": "ensemble.cli",
    "yod-pilot": "yod.pilot.command",
    "yod-server": "partition.server.cli",
}


class Line(Struct, frozen=True):
    """The command line of a command, or of one of its subcommands.

    Attributes:
        path: its words, as ``yodjob alloc``.
        help: what it does; one line.
        options: each with its spellings and a line of help.
        values: by spelling what an option's value is: a kind, or its values with commas.
        subcommands: one of them comes next.
        operands: the kinds of the words that are no options; the last one is that of all others.
            Behind a program everything is the program's.
    """

    path: str
    help: str = ""
    options: tuple[tuple[tuple[str, ...], str], ...] = ()
    values: dict[str, str] = {}
    subcommands: tuple[str, ...] = ()
    operands: tuple[str, ...] = (NOTHING,)

    @property
    def spellings(self) -> list[str]:
        """Of all options."""
        return [spelling for spellings, _ in self.options for spelling in spellings]


def lines() -> list[Line]:
    """Those of all commands."""
    from yod.cli import OPTIONS

    found = [_of_options(name, OPTIONS) for name in ("yod", "yod-cr")]
    for name, module in _COMMANDS.items():
        found += _of_click(name, import_module(module).command)
    return found


def _of_options(path: str, options: Iterable[Option]) -> Line:
    options = tuple(options)
    values = {
        spelling: _value(option.spellings, option.metavar)
        for option in options
        if option.takes_value and not option.may_lack_value
        for spelling in option.spellings
    }
    described = tuple([(option.spellings, option.help) for option in options])
    return Line(
        path, "Run a program on the nodes of a partition.", described, values, (), (PROGRAM,)
    )


def _of_click(path: str, command: click.Command) -> list[Line]:
    given = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    values = {
        spelling: _value(tuple(option.opts), option.metavar or "", option.type)
        for option in given
        if not (option.is_flag or option.count)
        for spelling in option.opts
    }
    described = [(tuple(option.opts), option.help or "") for option in given]
    described.append((("-help",), "Show the options."))
    operands = [
        _value((), each.metavar or (each.name or "").upper(), each.type)
        for each in command.params
        if each.param_type_name == "argument"
    ]
    found = {}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            if each is not None and not each.hidden:
                found[name] = each
    line = Line(
        path,
        command.get_short_help_str(100),
        tuple(described),
        values,
        tuple(found),
        tuple(operands) or (NOTHING,),
    )
    return [
        line,
        *(more for name, each in found.items() for more in _of_click(f"{path} {name}", each)),
    ]


def _value(spellings: tuple[str, ...], metavar: str, type: object = None) -> str:
    if isinstance(type, click.Choice):
        return ",".join(map(str, type.choices))
    for spelling in spellings:
        if spelling in _CHOICES:
            return _CHOICES[spelling]
    word = metavar.strip("[]{}.").partition(" ")[0].rstrip("].}")
    return _KINDS.get(word, NOTHING)
