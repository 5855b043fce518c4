"""Calls whose function is given as Python source."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from native.errors import YodError

_NAME = "<code of the task>"
_THERE = {"os": os, "sys": sys, "time": time}  # as in the reference's workers


def evaluate(code: str) -> Any:
    """The value of an expression."""
    return eval(compile(code, _NAME, "eval"), {"__name__": "__main__", **_THERE})


def run(words: list[str]) -> None:
    """Run a program, whose output is that of the call.

    Raises:
        CalledProcessError: its exit code is not 0.
    """
    import subprocess

    subprocess.run(words, check=True)


def refuse(reason: str) -> None:
    """Stands for a call that cannot be made.

    Raises:
        YodError: always.
    """
    raise YodError(reason)


def execute(code: str) -> Any:
    """Run statements; what they leave in ``result`` is returned."""
    names: dict[str, Any] = {"__name__": "__main__", **_THERE}
    exec(compile(code, _NAME, "exec"), names)
    return names.get("result")
