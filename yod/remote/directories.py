"""The directories whose files ranks are to have from yod, on this host."""

from __future__ import annotations

import os
from collections.abc import Iterable

from native.errors import UsageError
from native.text import shown
from yod.plan.remote import chosen


def present(paths: Iterable[str], said_as: str) -> tuple[bytes, ...]:
    """They are here, and none is within another.

    Args:
        paths: relative ones are below the present directory.
        said_as: names the option in an error.

    Raises:
        UsageError: names the directory, and what is wrong with it.
    """
    directories = chosen([os.path.abspath(path) for path in paths])
    for each in directories:
        try:
            os.close(os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            raise UsageError(f"{said_as} {shown(each)}: {error.strerror}") from None
    return directories
