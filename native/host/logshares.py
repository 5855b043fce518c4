"""What each user may have a daemon write to its log.

Whoever may send a daemon messages causes lines: a refusal, a message that is none. A user who sends
many would fill the log, and the disk below it. Lines beyond the share of a minute are counted, and
one line says so. root and the partition's daemons have no share.
"""

from __future__ import annotations

from collections.abc import Callable

from native.ids import Principal, PrincipalKind
from native.text import plural

WINDOW_S = 60.0


class _Window:
    """A minute of one user."""

    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.count = 0


class LogShares:
    """A log in which each user has a share.

    Args:
        say: takes a line, and the job that it is about.
        most: lines of one user in a minute.
    """

    def __init__(
        self, say: Callable[[str, int], None], most: int, monotonic: Callable[[], float]
    ) -> None:
        self._say = say
        self._most = most
        self._monotonic = monotonic
        self._uid = 0
        self._windows: dict[int, _Window] = {}  # of those who have caused lines lately

    def whose(self, principal: Principal | None) -> None:
        """What is said from now on is caused by this one; None: by nobody else."""
        is_stranger = principal is not None and principal.kind is not PrincipalKind.PARTITION
        self._uid = principal.uid if principal is not None and is_stranger else 0

    def say(self, text: str, job_id: int = 0) -> None:
        """Write a line, unless who causes it has had their share."""
        now = self._monotonic()
        self._close_windows(now)
        if self._uid and not self._has_room(self._uid, now):
            return
        self._say(text, job_id)

    def _has_room(self, uid: int, now: float) -> bool:
        window = self._windows.get(uid)
        if window is None:
            window = self._windows[uid] = _Window(now + WINDOW_S)
        window.count += 1
        if window.count == self._most + 1:
            self._say(f"uid {uid} causes more than {self._most} lines in a minute: no more", 0)
        return window.count <= self._most

    def _close_windows(self, now: float) -> None:
        while self._windows:
            uid = next(iter(self._windows))  # the oldest: all are of one length
            window = self._windows[uid]
            if window.until > now:
                return
            del self._windows[uid]
            if window.count > self._most:
                left_out = plural(window.count - self._most, "line")
                self._say(f"{left_out} that uid {uid} has caused left out", 0)
