"""The options of ``pct`` for click, which reads what is not plain and tells what is wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from native import options
from native.errors import UsageError
from native.host import config
from pct.command import daemon
from pct.command.main import FOR_JOBS
from pct.host.cgroups.own import ForJobs


@click.command(add_help_option=False, context_settings={"max_content_width": 100})
@click.option("--bebopd", metavar="ADDRESS", help="host:port or unix:PATH of the allocator.")
@click.option(
    "--key-file",
    metavar="FILE",
    help="The partition's key; default: /etc/yod/key for root, ~/.config/yod/key.",
)
@click.option("--listen", metavar="HOST:PORT", default="0.0.0.0:0", help="Where to listen.")
@click.option(
    "--advertise",
    metavar="HOST",
    help="The address others reach this node at; default: as bebopd sees it.",
)
@click.option("--node", metavar="N", default=-1, type=int, help="Node number; default: any.")
@click.option("--name", metavar="NAME", help="Node name; default: the host's.")
@click.option("--slots", metavar="N", type=int, help="Ranks at a time; default: processors.")
@click.option("--memory", metavar="SIZE", help="For jobs that ask; default: all of the host.")
@click.option("--gpus", metavar="COUNTS", help="4, a100:4, a100:2,h100:2; default: those there.")
@click.option("--cpus", metavar="LIST", help="To bind ranks to: 0-3,8; default: all.")
@click.option("--store", metavar="DIR", multiple=True, help="RAM disk for images; may repeat.")
@click.option("--ready-fd", metavar="FD", type=int, help="Write host:port there when listening.")
@click.option(
    "--in-job", "is_in_job", is_flag=True, help="Number, name and key are in the environment."
)
@click.option(
    "--starter-fd",
    metavar="FD",
    type=int,
    help="The key is there; its end before we are up ends us.",
)
@click.option("--until-fd", type=int, metavar="FD", help="End when nobody has the other end of it.")
@click.option(
    "--job-secret", metavar="VARIABLE", help="The key follows from this variable and the tag."
)
@click.option(
    "--grace",
    type=click.IntRange(min=0),
    default=0,
    metavar="S",
    help="At SIGTERM pass it to the ranks, and wait so long for them to end.",
)
@click.option("--tag", metavar="WORD", help="Of the partition, for who looks for this process.")
@click.option(
    "--cgroups",
    type=click.Choice(FOR_JOBS),
    default=ForJobs.AUTO.value,
    envvar="YOD_CGROUPS",
    help="A control group for each job; default: where one can limit something.",
)
@click.option(
    "--config", metavar="FILE", expose_value=False, help="Limits and options; see yod.conf."
)
@click.option("--log", "log_file", metavar="FILE", help="For the log; `journal`: that of systemd.")
@click.option("-D", "debug", is_flag=True, help="Say more in the log.")
@click.option("-help", "--help", "wants_help", is_flag=True, help="Show this text.")
@click.version_option(**options.VERSION)
@click.pass_context
def command(context: click.Context, /, wants_help: bool, **values: Any) -> int:
    """Be a node: host jobs that bebopd grants, until told to end (SIGTERM)."""
    if wants_help:
        click.echo(context.get_help())
        return 0
    return daemon.run(context.obj.in_force(os.environ), **values)


def run(words: Sequence[str]) -> int:
    """Carry out a command line. Returns the exit status of ``pct``, or RESTART.

    Raises:
        UsageError: it is wrong, or the file that it names.
        YodError: as :func:`pct.command.daemon.run`.
    """
    of_file = config.of_words(words)
    defaults = of_file.defaults("pct", command.params)
    try:
        status: int = command.main(
            list(words), "pct", standalone_mode=False, default_map=defaults, obj=of_file
        )
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None
    return status


def written_out(words: Sequence[str]) -> list[str]:
    """A command line with its options in full.

    Raises:
        UsageError: it has none of ours.
    """
    return options.expand(words, options.of_click(command.params))
