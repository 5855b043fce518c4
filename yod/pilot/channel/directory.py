"""The directory with the sockets of a pilot's channels, which its user alone can open."""

from __future__ import annotations

import os
from contextlib import suppress

from yod.pilot.model.channels import PATH_MAX


def make() -> str:
    """Make one; its path, which is short enough for sockets.

    Raises:
        OSError: it cannot be made.
    """
    own = f"yod-{os.urandom(8).hex()}"
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", own)
    if len(os.fsencode(path)) > PATH_MAX:
        path = os.path.join("/tmp", own)
    os.mkdir(path, 0o700)
    return path


def remove(path: str) -> None:
    """Take it away, with its sockets; somebody else may do so at the same time."""
    with suppress(OSError):
        for name in os.listdir(path):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)
