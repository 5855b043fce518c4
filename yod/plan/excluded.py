"""Nodes that a job is to get none of (``--exclude``): ``3,5..7,n9,n[01-04]``.

bebopd knows the nodes, and finds what is meant: see :mod:`allocator.jobs.excluding`. Pure.
"""

from __future__ import annotations

from collections.abc import Container

from native.errors import UsageError
from native.text import shown
from native.wire.base import EXCLUDE_MAX


def checked(text: str, environment: Container[bytes] = ()) -> str:
    """A list, if it may be one.

    Args:
        environment: of the ranks, whose variables Open MPI's ``-x`` names.

    Raises:
        UsageError: it cannot be one.
    """
    if not (text and text.isprintable() and " " not in text):
        raise UsageError(f"--exclude `{shown(text)}`: write nodes by number or name: 3,5..7,n9")
    if len(text) > EXCLUDE_MAX:
        raise UsageError(f"--exclude: at most {EXCLUDE_MAX} characters")
    if "=" in text or text.encode(errors="surrogateescape") in environment:
        raise UsageError(
            f"--exclude {shown(text)}: -x names nodes here; ranks have the environment of yod:"
            " env NAME=VALUE yod ..."
        )
    return text
