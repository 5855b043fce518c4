"""The entry point of ``yod``: runs :mod:`yod.cli`, and ends as the job has ended."""

from __future__ import annotations

import os
from typing import NoReturn

from native.host import process
from yod import cli


def main() -> NoReturn:
    """Entry point: the exit status tells what happened.

    The interpreter's orderly end would take a tenth of a short launch and free memory only:
    :func:`yod.cli.main` has written what both streams held.
    """
    status = cli.main()
    os._exit(status if status >= 0 else process.die(-status))
