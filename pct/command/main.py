"""The command ``pct``: a plain command line, as those who start many write it, without click.

click would be a quarter of the time until the node is there (:mod:`pct.command.cli`).
"""

from __future__ import annotations

import os
import sys

from native import limits
from native.errors import UsageError, YodError
from native.host import starting, stdio
from native.host.again import execute_again
from native.options import Plain, read_plain
from native.waitstatus import FAILED, WRONG_USAGE
from pct.command import daemon
from pct.host.cgroups.own import ForJobs


def _one(text: str) -> tuple[str, ...]:
    return (text,)


FOR_JOBS = tuple(each.value for each in ForJobs)
PLAIN = {
    "--bebopd": Plain("bebopd"),
    "--key-file": Plain("key_file"),
    "--listen": Plain("listen"),
    "--advertise": Plain("advertise"),
    "--node": Plain("node", int),
    "--name": Plain("name"),
    "--slots": Plain("slots", int),
    "--memory": Plain("memory"),
    "--gpus": Plain("gpus"),
    "--cpus": Plain("cpus"),
    "--store": Plain("store", _one),
    "--ready-fd": Plain("ready_fd", int),
    "--in-job": Plain("is_in_job", None),
    "--starter-fd": Plain("starter_fd", int),
    "--until-fd": Plain("until_fd", int),
    "--job-secret": Plain("job_secret"),
    "--tag": Plain("tag"),
    "--log": Plain("log_file"),
    "-D": Plain("debug", None),
}


def main() -> None:
    """Entry point. Exit status: 0 ended when told; 1 rejected or unable; 2 wrong use."""
    stdio.open_closed()
    try:
        status = _run(sys.argv[1:])
    except UsageError as error:
        stdio.say(f"pct: {error}")
        status = WRONG_USAGE
    except YodError as error:
        stdio.say(f"pct: {error}")
        status = FAILED
    except OSError as error:
        stdio.say(f"pct: {stdio.blame(error)}")
        status = FAILED
    sys.exit(stdio.ended("pct", status, FAILED))


def _run(argv: list[str]) -> int:
    found = read_plain(argv, PLAIN)
    cgroups = os.environ.get("YOD_CGROUPS") or ForJobs.AUTO.value
    if found is not None and cgroups in FOR_JOBS:
        values, words = found
        status = daemon.run(limits.load(os.environ), cgroups=cgroups, **values)
    else:
        from pct.command import cli

        words = cli.written_out(argv)
        status = cli.run(words)
    if status == daemon.RESTART:
        words = _without_starter(words, os.environ.get(starting.BEBOPD_VARIABLE, ""))
        stdio.say(f"pct: cannot begin again: {execute_again(words)}")
        status = FAILED
    return status


def _without_starter(words: list[str], told: str = "") -> list[str]:
    """The same arguments for a process whose starter waits no more.

    Args:
        told: the address of bebopd by that starter.
    """
    for option in ("--ready-fd", "--starter-fd"):
        if option in words:
            place = words.index(option)
            words = words[:place] + words[place + 2 :]
    return words if "--bebopd" in words or not told else ["--bebopd", told, *words]


if __name__ == "__main__":
    main()
