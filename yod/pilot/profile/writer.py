"""Writes one profile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from yod.pilot.analysis.records import plain

Row = tuple[str, str, str, str, float]  # event, uid, state, msg, time

_COMMAS = 6  # of a record; no field has one
_LINE_MAX_BYTES = 1 << 20  # of what a killed writer may have left of one


class NoProfile:
    """Where nobody wants profiles."""

    def prof(
        self, event: str, uid: str = "", state: str = "", msg: str = "", time: float | None = None
    ) -> None:
        """Do nothing."""

    def many(self, rows: Iterable[Row]) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


NO_PROFILE = NoProfile()


class Writer(NoProfile):
    """One file; records are kept until :meth:`flush`.

    A writer of a file that is there goes on behind what is in it, but for the piece of a line that
    a killed one may have left.

    Args:
        ahead_s: of the clock that counts, by how much ``now`` is; readers take it off.
    """

    def __init__(
        self,
        path: str,
        component: str,
        *,
        ahead_s: float = 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._component = plain(component)
        self.failure = ""
        self._now = now
        self._lines: list[str] = ["#time,event,comp,thread,uid,state,msg\n"]
        self._fd = os.open(
            os.path.join(path, f"{component}.prof"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644
        )
        _cut_back(self._fd)
        host = os.uname().nodename
        at = now()
        told = f"{at - ahead_s}:ntp" if ahead_s else f"{at}:sys"
        self.prof("sync_abs", msg=f"{host}:127.0.0.1:{at}:{told}", time=at)
        self.flush()  # who is killed soon leaves a file that can be read

    def prof(
        self, event: str, uid: str = "", state: str = "", msg: str = "", time: float | None = None
    ) -> None:
        """Keep one record."""
        at = self._now() if time is None else time
        line = f"{at:.7f},{event},{self._component},MainThread,{uid},{state},{msg}\n"
        if line.count(",") != _COMMAS or line.count("\n") != 1:
            event, uid, msg = map(plain, (event, uid, msg))
            line = f"{at:.7f},{event},{self._component},MainThread,{uid},{state},{msg}\n"
        self._lines.append(line)

    def many(self, rows: Iterable[Row]) -> None:
        """Keep several records."""
        for event, uid, state, msg, at in rows:
            self.prof(event, uid, state, msg, at)

    def flush(self) -> None:
        """Write what is kept. When the disk is full the profile ends there."""
        left = "".join(self._lines).encode() if self._fd >= 0 else b""
        self._lines.clear()
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            self.failure = error.strerror or str(error)
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Write the last record."""
        if self._fd >= 0:
            self.prof("END")
            self.flush()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _cut_back(fd: int) -> None:
    """Remove what is behind the last whole line."""
    size = os.fstat(fd).st_size
    begin = max(0, size - _LINE_MAX_BYTES)
    end = os.pread(fd, size - begin, begin)
    if torn := len(end) - (end.rfind(b"\n") + 1):
        os.ftruncate(fd, size - torn)


def is_wanted() -> bool:
    """Profiles are written."""
    return os.environ.get("YOD_PROFILE") != "0"


def open_writer(path: str, component: str, ahead_s: float = 0.0) -> NoProfile:
    """A writer, unless profiles are off."""
    if not is_wanted():
        return NO_PROFILE
    return Writer(path, component, ahead_s=ahead_s)
