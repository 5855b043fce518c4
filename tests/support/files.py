"""What tests of files that users name need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user can search."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def fault(call: Callable[..., object], *arguments: object) -> int | None:
    """Number of the error that a call ends with."""
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return None
