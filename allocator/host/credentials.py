"""Credentials of users of other hosts, judged by this host's munged.

munged is asked in a thread: one that does not answer delays those who ask, and not bebopd. It
opens a credential once. A connection that is made again soon, as after a crowd, brings the same
one: it is remembered for a while, and proves nothing without the secret that was in it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, Protocol

from native.loop.aside import Aside
from native.loop.reactor import Reactor
from native.port.losses import Verdict

REMEMBERED_S = 300.0  # as long as munged takes a credential
REMEMBERED_EACH_COUNT = 64  # of one user
ASKED_MAX = 1024  # wait for munged
SECRET_BYTES = 32

Judge = Callable[[bytes], tuple[int, bytes] | Verdict]


class Known(NamedTuple):
    """A credential that has been opened."""

    until: float
    uid: int
    secret: bytes


class Door(Protocol):
    """What takes the answers: the port."""

    def accept_credential(self, ticket: int, uid: int, secret: bytes) -> None: ...
    def refuse_credential(self, ticket: int, verdict: Verdict) -> None: ...


class Credentials:
    """Judges credentials for a port.

    Args:
        say: takes a line for the log.
        judge: opens a credential; may wait. It is called in a thread.
    """

    def __init__(
        self, door: Door, reactor: Reactor, say: Callable[[str], None], judge: Judge | None = None
    ) -> None:
        self._door = door
        self._say = say
        self._judge = judge or by_munge
        self._monotonic = reactor.monotonic
        self._known: dict[bytes, Known] = {}  # the oldest first
        self._of_user: dict[int, deque[bytes]] = {}  # the same, by uid
        self._reactor = reactor
        self._thread: Aside | None = None  # nobody has come with one
        self._is_silent = False  # munged was, the last time

    def take(self, ticket: int, credential: bytes) -> None:
        """Judge a credential; the door is told."""
        name = blake2b(credential, digest_size=32).digest()
        self._forget()
        if (known := self._known.get(name)) is not None:
            self._door.accept_credential(ticket, known.uid, known.secret)
            return
        if self._thread is None:
            self._thread = Aside(self._reactor, "munge")
        if self._thread.count >= ASKED_MAX:  # munged hangs, and those who wait have left
            self._door.refuse_credential(ticket, Verdict.NOBODY_TELLS)
            return
        answered = partial(self._answered, ticket, credential)
        self._thread.give(partial(self._judged, credential), answered)

    def _judged(self, credential: bytes) -> tuple[int, bytes] | Verdict:
        try:
            return self._judge(credential)
        except Exception:  # the thread goes on with the next one
            return Verdict.NOBODY_TELLS

    def _answered(
        self, ticket: int, credential: bytes, answer: tuple[int, bytes] | Verdict
    ) -> None:
        if isinstance(answer, Verdict):
            self._note(answer)
            self._door.refuse_credential(ticket, answer)
        else:
            self._is_silent = False
            self._remember(credential, *answer)
            self._door.accept_credential(ticket, *answer)

    def _note(self, verdict: Verdict) -> None:
        """Say once that munged does not answer; strangers' credentials make no lines."""
        is_silent = verdict is Verdict.NOBODY_TELLS
        if is_silent and not self._is_silent:
            self._say("munged does not answer: users of other hosts are not proven by MUNGE")
        self._is_silent = is_silent

    def _remember(self, credential: bytes, uid: int, secret: bytes) -> None:
        name = blake2b(credential, digest_size=32).digest()
        theirs = self._of_user.setdefault(uid, deque())
        if len(theirs) >= REMEMBERED_EACH_COUNT:
            del self._known[theirs.popleft()]
        theirs.append(name)
        self._known[name] = Known(self._monotonic() + REMEMBERED_S, uid, secret)

    def _forget(self) -> None:
        now = self._monotonic()
        while self._known:
            oldest = next(iter(self._known))
            if self._known[oldest].until > now:
                return
            uid = self._known.pop(oldest).uid
            self._of_user[uid].popleft()
            if not self._of_user[uid]:
                del self._of_user[uid]


def by_munge(credential: bytes) -> tuple[int, bytes] | Verdict:
    """What this host's munged says."""
    from native.identity import munge

    verdicts = {
        munge.Fault.INVALID: Verdict.INVALID,
        munge.Fault.EXPIRED: Verdict.EXPIRED,
        munge.Fault.USED: Verdict.USED,
        munge.Fault.NO_ANSWER: Verdict.NOBODY_TELLS,
    }
    try:
        uid, payload = munge.decode(credential, os.environ.get(munge.VARIABLE, ""))
    except munge.MungeError as error:
        return verdicts[error.fault]
    secret = payload.removeprefix(munge.LABEL)
    is_ours = payload.startswith(munge.LABEL) and len(secret) == SECRET_BYTES
    return (uid, secret) if is_ours else Verdict.INVALID
