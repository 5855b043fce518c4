"""Which build this installation is: a launch server and a client work together if it is one."""

from __future__ import annotations

import os

import native
from native.wire.client import RELEASE_BYTES

_FILE = os.path.join(os.path.dirname(os.path.abspath(native.__file__)), "client", "release")


def own_release() -> bytes:
    """What the client of this installation has compiled in.

    Raises:
        OSError: the client was not made (``make -C native``).
        ValueError: the file is none of ours.
    """
    with open(_FILE, "rb", buffering=0) as file:
        release = file.read().strip()
    if len(release) != RELEASE_BYTES:
        raise ValueError(f"{_FILE}: a release has {RELEASE_BYTES} bytes")
    return release
