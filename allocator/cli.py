"""The command bebopd: options in, exit status out."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from allocator.driver import Driver
from allocator.host import keys
from allocator.host.aside import Aside
from allocator.host.ledger import Ledger
from allocator.jobs.batch import NO_BATCH, BatchLimits, Word, Words
from allocator.nodes import nodesfile
from allocator.nodes.table import NodeConflictError, NodeTable
from native import options
from native.errors import UsageError, YodError
from native.host import config, stdio, systemd, userdirs
from native.host.log import DaemonLog
from native.host.rlimits import raise_soft
from native.loop.daemon import take_signals
from native.loop.reactor import Reactor
from native.port.address import numeric
from native.text import shown

FAILED = 1
WRONG_USAGE = 2


@click.command(context_settings={"help_option_names": ["--help"]})
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where PCTs and yods reach it; port 0 is any free one.",
)
@click.option("--advertise", metavar="HOST", help="The address that others reach this host at.")
@click.option("--unix", "unix_path", metavar="PATH", help="A Unix socket to listen on as well.")
@click.option(
    "--key-file",
    metavar="FILE",
    help="The partition's key, made at the first start; default: STATE-DIR/key.",
)
@click.option("--state-dir", metavar="DIR", help="Where records are kept.")
@click.option("--nodes-file", metavar="FILE", help="The numbers of the nodes, by name.")
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
def command(
    site: config.Config,
    listen: str,
    advertise: str | None,
    unix_path: str | None,
    key_file: str | None,
    state_dir: str | None,
    nodes_file: str | None,
    name: str,
    batch_system: str | None,
    interactive: int,
    log_file: str | None,
    debug: bool,
    ready_fd: int | None,
    expect: int,
    until_fd: int | None,
) -> None:
    """Give the nodes of a partition to jobs, until told to end (SIGTERM)."""
    from native.port.portals import PortalsPort
    from native.transport.raw import PtlError

    log = DaemonLog("bebopd", "bebopd", log_file or "", os.environ, has_milliseconds=debug)
    say, contain = log.say, log.contain
    in_force = site.in_force(os.environ)
    directory = Path(state_dir) if state_dir else _default_state_directory()
    names = _read_nodes(nodes_file) if nodes_file else {}
    raise_soft()  # every PCT and yod is a connection
    reactor = Reactor()
    limits_of: BatchLimits = NO_BATCH
    ask = _no_batch
    if batch_system is not None:
        from allocator.host.batch_system import BatchSystem

        ask = BatchSystem(batch_system, reactor, in_force.batch_answer_s, os.environ).ask
        limits_of = Words(batch_system, interactive, in_force.batch_word_s)
    ledger = Ledger(directory, in_force, Aside(reactor))
    key = keys.read_or_make(key_file or str(directory / "key"))
    try:
        port = PortalsPort(
            listen=numeric(listen, "--listen"),
            advertise=advertise,
            unix_path=os.path.abspath(unix_path) if unix_path else None,
            partition_key=key,
            connect_timeout_s=in_force.connect_s,
            liveness_s=in_force.liveness_s,
            max_unproven=in_force.unproven_count,
            max_unproven_each=in_force.unproven_each_count,
        )
    except PtlError as error:
        where = shown(f"{listen} and {unix_path}" if unix_path else listen)
        raise YodError(f"cannot listen at {where}: {error.reason}") from None
    for number in (signal.SIGTERM, signal.SIGINT):
        reactor.on_signal(number, reactor.stop)
    if until_fd is not None:  # nothing is ever written there
        os.set_inheritable(until_fd, False)
        reactor.watch(until_fd, reactor.stop)
    take_signals(reactor, say, lambda: ["bebopd begins"], log.open_again)
    ready = _Ready(ready_fd, expect)
    ready.listening(str(port.id))
    systemd.notify(os.environ, "READY=1")

    # Slow to import, and PCTs can connect meanwhile. numpy's linear algebra would
    # start a thread for each processor.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from allocator.bebopd import Bebopd
    from allocator.host.owners import Owners
    from allocator.nodes.placement import ArrayPlacement
    from allocator.queue.backfill import Backfill
    from native import auth

    machine = Bebopd(
        ArrayPlacement(),
        policy=Backfill,
        epoch=time.time_ns() // 1000,  # a later bebopd has a larger one
        next_job_id=ledger.first_job_id(),
        sign=lambda data: auth.sign(key, data),
        job_key=lambda job_id, uid, expires: auth.derive_job_key(key, job_id, uid, expires),
        owner_of=Owners().find,
        wall_clock=time.time,
        limits=in_force,
        name=name,
        only_uid=os.geteuid() or None,  # only root's PCTs can become another user
        fixed_names=names,
        remembered_names=ledger.names(),
        orders=ledger.orders(),
        batch_limits=limits_of,
        earlier=ledger.batch.earlier(),
        earlier_rows=ledger.open_jobs(),
        # With --expect the starter waits until all nodes are up: no more will come.
        began=-math.inf if expect else reactor.monotonic(),
        contain=contain,
    )

    def read_again() -> None:
        log.open_again()
        _read_again(machine.nodes, nodes_file, site, say)

    take_signals(reactor, say, lambda: machine.state(reactor.monotonic()), read_again)
    driver = Driver(
        machine,
        port,
        reactor,
        ledger,
        say=say,
        warn=lambda text: say(f"warning: {text}"),
        on_event=lambda: ready.nodes(machine.nodes),
        contain=contain,
        ask=ask,
    )
    say(f"partition {name} at {port.id}")
    reactor.run()
    say("ends; its jobs go on")
    driver.close()
    port.close()
    ledger.reserve(machine.next_job_id)  # the rest of the block is not used
    ledger.close()
    reactor.close()


def main() -> None:
    """Entry point. Exit status: 0 ended when told; 1 unable; 2 wrong use."""
    stdio.open_closed()
    status = 0
    try:
        words = options.expand(sys.argv[1:], [*options.of_click(command.params), _HELP])
        site = config.of_words(words)
        defaults = site.defaults("bebopd", command.params)
        command.main(words, "bebopd", standalone_mode=False, default_map=defaults, obj=site)
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except click.ClickException as error:
        status = _fail(error.format_message(), WRONG_USAGE)
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    sys.exit(stdio.ended("bebopd", status, FAILED))


_HELP = options.Option(("--help",))


def _no_batch(batch_job: str, then: Callable[[Word | None, str], None]) -> None:
    raise AssertionError(f"nobody asks about {batch_job}")


class _Ready:
    """Tells the process that started bebopd how far it is. Each line is written once."""

    def __init__(self, fd: int | None, expect: int) -> None:
        self._fd = fd
        self._expect = expect

    def listening(self, address: str) -> None:
        self._write(f"{address}\n", is_last=not self._expect)

    def nodes(self, nodes: NodeTable) -> None:
        if self._fd is not None and (count := nodes.up_count()) >= self._expect:
            self._write(f"nodes {count}\n", is_last=True)

    def _write(self, line: str, is_last: bool) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, line.encode())
        except BrokenPipeError:
            is_last = True  # the reader has gone
        except OSError as error:
            raise UsageError(f"--ready-fd {self._fd}: {error.strerror}") from None
        if is_last:
            os.close(self._fd)
            self._fd = None


def _default_state_directory() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/yod")
    try:
        return Path(userdirs.make_state(os.environ), userdirs.BEBOPD)
    except OSError as error:
        raise YodError(
            f"no place for records: {shown(error.filename)}: {error.strerror}; say --state-dir DIR"
        ) from None


def _read_nodes(path: str) -> dict[str, int]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"nodes file {shown(path)}: {getattr(error, 'strerror', error)}") from None
    return nodesfile.parse(text, shown(path))


def _read_again(
    nodes: NodeTable, nodes_file: str | None, site: config.Config, say: Callable[[str], None]
) -> None:
    """At SIGHUP: take the nodes file as it is now; say what else waits for the next start."""
    try:
        if nodes_file:
            nodes.fix(_read_nodes(nodes_file))
            say(f"SIGHUP: nodes file {shown(nodes_file)} is in force")
        if site.path and config.read(site.path) != site:
            say(f"SIGHUP: {shown(site.path)} has changed, and will be in force at the next start")
    except (YodError, NodeConflictError) as error:
        say(f"SIGHUP: all stays as it is: {error}")


def _fail(text: str, status: int) -> int:
    stdio.say(f"bebopd: {text}")
    return status


if __name__ == "__main__":
    main()
