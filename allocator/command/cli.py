"""The options of ``bebopd`` for click, which reads what is not plain and tells what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from allocator.command import daemon
from allocator.host import files
from native import options
from native.errors import UsageError
from native.host import config

_HELP = options.Option(("--help",))


@click.command(context_settings={"help_option_names": ["--help"]})
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where PCTs and yods reach it; port 0 is any free one.",
)
@click.option("--advertise", metavar="HOST", help="The address that others reach this host at.")
@click.option(
    "--unix",
    "unix_path",
    metavar="PATH",
    help="A Unix socket to listen on as well; `none`: none. Default: root's /run/yod/bebopd.sock.",
)
@click.option(
    "--key-file",
    metavar="FILE",
    help="The partition's key, made at the first start; default: STATE-DIR/key, "
    "root's /etc/yod/key if it is there.",
)
@click.option("--state-dir", metavar="DIR", help="Where records are kept.")
@click.option(
    "--operators",
    default=daemon.OPERATORS,
    show_default=True,
    metavar="GROUP",
    help="Members of this group may what root may; of a bebopd of root's.",
)
@click.option("--user-log", metavar="FILE", help="A line for each job; run.log.MM-DD-YY beside it.")
@click.option("--nodes-file", metavar="FILE", help="The numbers of the nodes, by name.")
@click.option("-remap", "--remap", "order_file", metavar="FILE", help="The order of the nodes.")
@click.option("--topology", "topology_file", metavar="FILE", help="The switches between the nodes.")
@click.option("--torus", "torus_sizes", metavar="SIZES", help="Of a torus of nodes, as 8x8x4.")
@click.option("--queues", "queues_file", metavar="FILE", help="Queues, priorities, licences.")
@click.option(
    "--submit-hooks",
    "hook_names",
    metavar="HOOKS",
    help="Directories of programs, and entry points, that see each batch job first.",
)
@click.option("--submit-user", metavar="USER", help="Whom they run as; root's: nobody.")
@click.option(
    "--placement",
    metavar="POLICY",
    help=f"Which free slots a job gets: {', '.join(files.POLICIES)}; tree, the default with"
    " --topology; torus, that with --torus; or an entry point of yod.select.  [default: lowest]",
)
@click.option("--name", default="local", show_default=True, help="The partition's name.")
@click.option(
    "--batch",
    "batch_system",
    type=click.Choice(["pbs", "slurm"]),
    help="Hold batch jobs to what this system has given them.",
)
@click.option(
    "--interactive",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="With --batch: nodes for jobs outside of batch jobs.",
)
@click.option(
    "--config", metavar="FILE", expose_value=False, help="Limits and options; see yod.conf."
)
@click.option("--log", "log_file", metavar="FILE", help="For the log; `journal`: that of systemd.")
@click.option("-D", "--debug", is_flag=True, help="Log times to the millisecond.")
@click.option(
    "--ready-fd", type=int, metavar="FD", help="Write a line HOST:PORT there when listening."
)
@click.option(
    "--expect",
    type=click.IntRange(min=0),
    default=0,
    metavar="COUNT",
    help="Write a second line, `nodes COUNT`, when so many nodes are up.",
)
@click.option("--until-fd", type=int, metavar="FD", help="End when nobody has the other end of it.")
@click.version_option(**options.VERSION)
@click.pass_obj
def command(site: config.Config, /, **values: Any) -> None:
    """Give the nodes of a partition to jobs, until told to end (SIGTERM)."""
    daemon.run(site, **values)


def run(argv: Sequence[str]) -> None:
    """Carry out a command line.

    Raises:
        UsageError: it is wrong, or the file that it names.
        YodError: as :func:`allocator.command.daemon.run`.
    """
    words = options.expand(argv, [*options.of_click(command.params), _HELP])
    site = config.of_words(words)
    defaults = site.defaults("bebopd", command.params)
    try:
        command.main(words, "bebopd", standalone_mode=False, default_map=defaults, obj=site)
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None
