"""The command yodjob: jobs by their ids.

Most of it is :mod:`partition.commands.every`. Plain lines of those that scripts use in loops are
read without click.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from native.errors import UsageError, YodError
from native.host import stdio
from native.waitstatus import FAILED, SIGNAL_BASE, WRONG_USAGE

PLAIN = ("cancel", "list", "show", "signal", "wait")  # beside `submit`


def main() -> NoReturn:
    """Entry point."""
    stdio.open_closed()
    status = 0
    try:
        _run(sys.argv[1:])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else FAILED
    except KeyboardInterrupt:
        status = SIGNAL_BASE + signal.SIGINT
    except (YodError, OSError) as error:
        line, status = failure(error)
        stdio.say(line)
    # The orderly end of the interpreter would take a tenth of a short command.
    os._exit(stdio.ended("yodjob", status, FAILED))


def _run(argv: list[str]) -> None:
    if argv[:1] == ["submit"]:
        from partition.commands import handed

        if (read := handed.read(argv[1:], os.environ)) is not None:
            handed.submit(*read, os.environ)
            return
    elif argv and argv[0] in PLAIN:
        from partition.commands import plain

        if plain.run(argv[0], argv[1:]):
            return
    from partition.commands import every

    every.run()


def failure(error: YodError | OSError) -> tuple[str, int]:
    """The line for the user, and the exit status."""
    text = stdio.blame(error) if isinstance(error, OSError) else str(error)
    return f"yodjob: {text}", WRONG_USAGE if isinstance(error, UsageError) else FAILED


if __name__ == "__main__":
    main()
