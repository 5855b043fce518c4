"""Launches of one program that differ in their environment: its files are read once for many."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable

from msgspec import Struct
from msgspec.structs import replace

from yod.guest.request import Request
from yod.plan.prepared import Prepared
from yod.program.planning import with_environment

HOLDS_S = 1.0  # as long what was found out about a partition and a program is taken to hold
_Status = tuple[int, ...]


class _Found(Struct, frozen=True):
    """A launch that was prepared, and the status of its programs then."""

    sort: Hashable
    prepared: Prepared
    programs: tuple[_Status | None, ...]
    until: float


class Preparations:
    """Prepares launches, and keeps what it found for the next one of the same kind.

    Args:
        monotonic: the clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._found: dict[Hashable, _Found] = {}

    def prepare(self, asked: Request, kind: Hashable, sort: Hashable) -> Prepared:
        """As :meth:`Request.prepare`.

        Args:
            kind: one preparation of each is kept.
            sort: what else it depends on: requests of one kind and sort differ in variables of
                the environment that say nothing about how a program is found, read and loaded.

        Raises:
            YodError: the launch cannot begin; the text says why.
        """
        now = self._monotonic()
        found = self._found.get(kind)
        if found is not None and found.sort == sort and now < found.until:
            prepared = found.prepared
            plan = with_environment(prepared.plan, prepared.limits, asked.invocation.environment)
            if plan is not None and _programs(prepared) == found.programs:
                return replace(prepared, plan=plan, resolve_s=self._monotonic() - now)
        prepared = asked.prepare()
        self._found.pop(kind, None)
        # A credential is used once; checkpoints and a wait for a job are a launch's own.
        is_own = prepared.reach is not None and bool(prepared.reach.credential)
        if not (is_own or asked.checkpointing or asked.options.after):
            until = now + HOLDS_S
            self._found[kind] = _Found(sort, prepared, _programs(prepared), until)
        return prepared


def _programs(prepared: Prepared) -> tuple[_Status | None, ...]:
    """What tells a program from another one at its path."""
    return tuple(_status(shipped.path) for shipped in prepared.plan.objects if shipped.path)


def _status(path: bytes) -> _Status | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    when = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, *when
