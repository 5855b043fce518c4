"""Executes this program anew, in the same process: its id, its parent and its unit stay."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def execute_again(words: Sequence[str]) -> str:
    """Replace this program by itself, as it is on the disk now. Returns only if that fails.

    The caller has closed what the new program is to open again, and restored what it has
    changed of the process.

    Args:
        words: the arguments.

    Returns:
        Why it was not possible.
    """
    script = sys.argv[0]
    if os.path.isfile(script) and os.access(script, os.X_OK):
        program = [script]
    else:  # python -c or -m
        program = [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]
    try:
        os.execv(program[0], [*program, *words])
    except OSError as error:
        return f"{program[0]}: {error.strerror}"
