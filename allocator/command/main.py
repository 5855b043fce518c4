"""The command ``bebopd``: a plain command line without click, as :mod:`pct.command.main`."""

from __future__ import annotations

import sys

from allocator.command import daemon
from native.errors import UsageError, YodError
from native.host import stdio
from native.host.config import Config
from native.options import Plain, natural, read_plain
from native.waitstatus import FAILED, WRONG_USAGE

PLAIN = {
    "--listen": Plain("listen"),
    "--advertise": Plain("advertise"),
    "--unix": Plain("unix_path"),
    "--key-file": Plain("key_file"),
    "--state-dir": Plain("state_dir"),
    "--operators": Plain("operators"),
    "--user-log": Plain("user_log"),
    "--nodes-file": Plain("nodes_file"),
    "--topology": Plain("topology_file"),
    "--torus": Plain("torus_sizes"),
    "--queues": Plain("queues_file"),
    "--name": Plain("name"),
    "--log": Plain("log_file"),
    "-D": Plain("debug", None),
    "--ready-fd": Plain("ready_fd", int),
    "--expect": Plain("expect", natural),
    "--until-fd": Plain("until_fd", int),
}


def main() -> None:
    """Entry point. Exit status: 0 ended when told; 1 unable; 2 wrong use."""
    stdio.open_closed()
    status = 0
    try:
        _run(sys.argv[1:])
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    sys.exit(stdio.ended("bebopd", status, FAILED))


def _run(argv: list[str]) -> None:
    if (found := read_plain(argv, PLAIN)) is not None:
        daemon.run(Config(), **found[0])
        return
    from allocator.command import cli

    cli.run(argv)


def _fail(text: str, status: int) -> int:
    stdio.say(f"bebopd: {text}")
    return status


if __name__ == "__main__":
    main()
