"""The command yodjob: jobs by their ids."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

import click

from native import options
from native.errors import UsageError, YodError
from native.host import stdio
from native.waitstatus import SIGNAL_BASE

FAILED = 1
WRONG_USAGE = 2

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
    "looker": "stacks:looker",
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


def main() -> None:
    """Entry point."""
    stdio.open_closed()
    status = 0
    try:
        command.main(prog_name="yodjob", standalone_mode=False)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else FAILED
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except click.ClickException as error:
        status = _fail(error.format_message(), WRONG_USAGE)
    except (click.Abort, KeyboardInterrupt):
        status = SIGNAL_BASE + signal.SIGINT
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    sys.exit(stdio.ended("yodjob", status, FAILED))


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yodjob: {text}")
    return exit_status


if __name__ == "__main__":
    main()
