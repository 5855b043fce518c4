"""All commands of yodjob, by their names, as click knows them."""

from __future__ import annotations

from importlib import import_module

import click

from native import options
from native.errors import UsageError

# Where each command is: a module of partition.commands, and its function.
COMMANDS = {
    "alloc": "alloc:alloc",
    "alone": "brokers:alone",
    "attach": "asked:attach",
    "broker": "brokers:broker",
    "cancel": "asked:cancel",
    "checkpoint": "checkpoints:checkpoint",
    "checkpoints": "checkpoints:show_checkpoints",
    "history": "history:history",
    "hold": "suspended:hold",
    "list": "asked:show_all",
    "release": "suspended:release",
    "requeue": "suspended:requeue",
    "restart": "checkpoints:restart",
    "resume": "suspended:resume",
    "saver": "brokers:saver",
    "show": "asked:show_some",
    "signal": "asked:send_signal",
    "stack": "stacks:stack",
    "slurm": "slurm:slurm",
    "submit": "submit:submit",
    "suspend": "suspended:suspend",
    "update": "asked:update",
    "wait": "asked:wait",
    "why": "asked:why_waits",
}


class Commands(click.Group):
    """Imports a command when it is used: each needs other parts of yod."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name].partition(":")
        found = getattr(import_module(f"partition.commands.{module}"), function)
        assert isinstance(found, click.Command)
        return found


@click.group(
    cls=Commands,
    no_args_is_help=False,
    context_settings={"help_option_names": ["--help", "-help", "-h"]},
)
@click.version_option(**options.VERSION)
def command() -> None:
    """Hold slots for a command; hand scripts in; look at jobs, signal, end, await them.

    Jobs are found by their ids: local.N is one that yod runs on this host alone, a number is
    the id that the partition gave, and 17.3 is step 3 of allocation 17. Batch jobs are found
    from any host, others where their yod runs.

    Exit status: 0; 1 a job is not there, does not answer or refuses; 2 wrong usage. That
    of `alloc` is the command's, that of `wait` the job's.
    """


def run() -> None:
    """Read the command line and do what it says.

    Raises:
        UsageError: it is none.
        YodError: as the commands.
        SystemExit: the command has an exit status of its own.
    """
    try:
        command.main(prog_name="yodjob", standalone_mode=False)
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None
    except click.Abort:
        raise KeyboardInterrupt from None
