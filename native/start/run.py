"""Runs a command from its import to the end of its process.

* Imports make no garbage, and a launch makes little: the garbage collector starts later.
* msgspec asks for typing_extensions first, which is slow to import where it is installed;
  typing serves as well.
* After the command has returned, the orderly end of the interpreter has no use.

These save a fifth of a short launch.
"""

from __future__ import annotations

import gc
import os
import resource
import sys

COLLECT_AFTER_COUNT = 10_000  # objects; Python begins with 700
ABSENT = "typing_extensions"


class Importing:
    """Imports of a command's modules: ``with Importing(): import ...``."""

    def __enter__(self) -> None:
        gc.disable()
        self._stands_in = ABSENT not in sys.modules
        if self._stands_in:
            sys.modules[ABSENT] = None  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        if self._stands_in:
            del sys.modules[ABSENT]
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER_COUNT)
        gc.enable()


def run(module: str) -> None:
    """Import a command's module, call its ``main`` and exit with what that returns."""
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        # Python does not see that a .pyc is cut short by `ulimit -f`; each later start would fail.
        sys.dont_write_bytecode = True
    with Importing():
        __import__(module)
    main = sys.modules[module].main
    status: object
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code
    if isinstance(status, str):
        sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(int(status or 0))  # type: ignore[call-overload]
