"""The file of ``reconfig_src``: how many ranks and cores tasks have from now on.

It is read when tasks come, and need not be there. Tasks whose slots the application has chosen are
left alone.
"""

from __future__ import annotations

import os

from msgspec import MsgspecError, json

from yod.pilot.model.description import TaskDescription

_KEYS = ("ranks", "cores_per_rank")


class Reconfig:
    """What a pilot's file says.

    Args:
        path: of the file, from the pilot's sandbox; empty: there is none.
    """

    def __init__(self, sandbox: str, path: str) -> None:
        self._path = os.path.join(sandbox, path) if path else ""
        self._status: tuple[int, ...] = ()
        self._sizes: dict[str, int] = {}
        self._failure = ""

    def look(self) -> None:
        """See what it says now."""
        if not self._path:
            return
        try:
            found = os.stat(self._path)
            status = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if status != self._status:
                self._status = status
                self._sizes, self._failure = _read(self._path)
        except FileNotFoundError:
            self._status, self._sizes, self._failure = (), {}, ""
        except OSError as error:
            self._status, self._failure = (), f"{self._path}: {error.strerror}"

    def change(self, description: TaskDescription) -> str:
        """Give a task its sizes; why that cannot be done, or an empty text."""
        if description.value("slots"):
            return ""
        description.update(self._sizes)
        return f"'reconfig_src': {self._failure}" if self._failure else ""


def _read(path: str) -> tuple[dict[str, int], str]:
    """The sizes; and what is wrong."""
    with open(path, "rb") as file:
        text = file.read()
    try:
        sizes = json.decode(text, type=dict[str, int])
    except MsgspecError as error:
        return {}, f"{path}: {error}"
    for name, count in sizes.items():
        if name not in _KEYS:
            return {}, f"{path}: there is no key {name!r}; known are {', '.join(_KEYS)}"
        if count < 1:
            return {}, f"{path}: {name!r} is {count}, which is less than 1"
    return sizes, ""
