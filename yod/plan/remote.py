"""Directories whose files ranks have from yod (``--remote-io``). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from native.errors import UsageError
from native.text import shown
from native.wire.base import PATH_MAX
from native.wire.group import REMOTE_MAX

# What a rank needs of its own node before it can run at all, and what is no file.
_OF_THE_NODE = ("/dev", "/proc", "/sys", "/etc", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/run")


def chosen(paths: Sequence[str]) -> tuple[bytes, ...]:
    """The directories of an option that may be given several times.

    Args:
        paths: absolute, without `.` and `..`.

    Raises:
        UsageError: one is no directory that can be covered, or within another.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path == "/" or any(_is_within(path, each) for each in _OF_THE_NODE):
            raise UsageError(f"--remote-io {shown(path)}: ranks need that of their own node")
        if len(path.encode(errors="surrogateescape")) >= PATH_MAX:
            raise UsageError(f"--remote-io: a path has at most {PATH_MAX - 1} bytes")
        found[path] = None
    for one in found:
        for other in found:
            if one != other and _is_within(one, other):
                raise UsageError(f"--remote-io {shown(one)}: it is within {shown(other)}")
    if len(found) > REMOTE_MAX:
        raise UsageError(f"--remote-io: {len(found)} directories, at most {REMOTE_MAX}")
    return tuple(path.encode(errors="surrogateescape") for path in found)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")
