"""Invocations for tests that need none of a real process."""

from __future__ import annotations

import os

from yod.plan.invocation import Invocation


def invocation(
    environment: dict[bytes, bytes] | None = None, directory: str | None = None
) -> Invocation:
    """One of this process's directory and processors, with this environment."""
    return Invocation(
        words=("yod",),
        environment={} if environment is None else environment,
        directory=os.getcwd() if directory is None else directory,
        umask=0o022,
        limits=(),
        ignored_signals=(),
        processors=len(os.sched_getaffinity(0)),
    )
