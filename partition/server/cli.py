"""The command ``yod-server``: runs launches of one user, warm."""

from __future__ import annotations

import os
import signal
import sys

import click

from native import limits, options
from native.errors import UsageError, YodError
from native.host import programs, stdio
from native.host.log import DaemonLog
from native.host.process import become_subreaper
from native.loop.daemon import settle, take_signals
from native.loop.reactor import Reactor
from native.waitstatus import FAILED, WRONG_USAGE
from native.wire.base import SLOTS_MAX
from partition.find import warm
from partition.server import ahead, helper
from partition.server.helpers import Helpers
from partition.server.server import Server
from partition.up.embedded import EmbeddedPartition
from pct.host import capacity
from pct.host.spawn.spawner import OwnSpawner

HELPERS_COUNT = 2  # as many launches are prepared at a time


@click.command(context_settings={"help_option_names": ["--help", "-help", "-h"]})
@click.option(
    "--idle-s",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="End after so long without a launch; default: never.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, SLOTS_MAX),
    metavar="N",
    help="Ranks that all launches on this host may have together; default: any number.",
)
@click.option("--ready-fd", type=int, help="Write a line there when clients are taken.")
@click.option("--helper-fd", type=int, hidden=True)
@click.version_option(**options.VERSION)
def command(idle_s: float, slots: int | None, ready_fd: int | None, helper_fd: int | None) -> None:
    """Run the launches of this user on this host, until told to end (SIGTERM)."""
    ahead.import_all()
    if helper_fd is not None:
        helper.serve(helper_fd)
        return
    log = DaemonLog("yod-server", "yod-server", "", os.environ)
    in_force = limits.load(os.environ)
    directory = warm.make_directory(os.environ)
    os.umask(0o077)
    reactor = Reactor()
    helpers = Helpers(reactor, HELPERS_COUNT, _spawn_helper)
    spawner = OwnSpawner(reactor, lambda: helpers.unix_pids)
    become_subreaper()  # orphans of a PMIx server's keeper
    share = capacity.here(os.environ)
    partition = EmbeddedPartition(
        reactor, in_force, spawner, slots=slots, share=share, contain=log.contain
    )
    idle = reactor.timer(lambda: None if server.count else reactor.stop())

    def look_idle() -> None:
        if server.is_ending:
            reactor.stop()
        elif idle_s:
            idle.set(reactor.monotonic() + idle_s)

    def ready() -> None:
        log.say(f"takes launches in {directory}")
        if ready_fd is not None:
            os.write(ready_fd, b"ready\n")
            os.close(ready_fd)
        look_idle()

    server = Server(
        directory,
        reactor,
        in_force,
        partition,
        helpers,
        warm.greeting(in_force.press_s, in_force.liveness_s),
        log.say,
        look_idle,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        reactor.on_signal(number, server.end)
    take_signals(reactor, log.say, server.state, log.open_again)
    helpers.start(ready)
    settle()
    reactor.run()
    log.say("ends")
    server.close()
    helpers.close()
    partition.close()
    reactor.close()


def main() -> None:
    """Entry point. Exit status: 0 told to end, or idle; 1 unable; 2 wrong usage."""
    stdio.open_closed()
    status = 0
    try:
        command.main(prog_name="yod-server", standalone_mode=False)
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except click.ClickException as error:
        status = _fail(error.format_message(), WRONG_USAGE)
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    except MemoryError:
        status = _fail("no memory is left: it ends, and its launches with it", FAILED)
    sys.exit(stdio.ended("yod-server", status, FAILED))


def _spawn_helper(fd: int) -> int:
    """Start a helper with this descriptor."""
    argv = [*programs.command_line("yod-server"), "--helper-fd", str(programs.ATTACHED_FD)]
    return programs.spawn_attached(argv, dict(os.environ), fd)


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yod-server: {text}")
    return exit_status
