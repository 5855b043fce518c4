"""Callbacks of the application. One that raises is logged, and harms nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _log(callback: Callable[..., object]) -> None:
    import logging

    logging.getLogger("yod.pilot").exception("the callback %r has raised", callback)


class Callback:
    """One callback.

    Args:
        data: handed on where it is not None.
        uids: of the tasks or pilots that it is for; None: all.
        is_bulk: it takes a list of tasks, and no state.
    """

    def __init__(
        self,
        call: Callable[..., object],
        data: Any = None,
        uids: frozenset[str] | None = None,
        *,
        is_bulk: bool = False,
    ) -> None:
        self.call = call
        self.data = data
        self.uids = uids
        self.is_bulk = is_bulk

    def wants(self, uid: str) -> bool:
        """It is for this one."""
        return self.uids is None or uid in self.uids

    def without(self, uids: frozenset[str]) -> Callback | None:
        """What is left of it when it is for these no more; one for all is for all."""
        left = None if self.uids is None else self.uids - uids
        if left is not None and not left:
            return None
        return Callback(self.call, self.data, left, is_bulk=self.is_bulk)

    def tell(self, *arguments: object) -> None:
        """Call it."""
        more = () if self.data is None else (self.data,)
        try:
            self.call(*arguments, *more)
        except Exception:  # the application's
            _log(self.call)


def uids_of(asked: object) -> frozenset[str] | None:
    """The uids that a callback is for: of one, of several, or of all."""
    if asked is None or asked == "*":
        return None
    return frozenset([asked] if isinstance(asked, str) else map(str, asked))  # type: ignore[call-overload]


class Callbacks:
    """Those for the states of one kind of thing."""

    def __init__(self) -> None:
        self._each: list[Callback] = []

    def __bool__(self) -> bool:
        return bool(self._each)

    def add(self, callback: Callback) -> None:
        """Call it from now on."""
        self._each = [*self._each, callback]

    def remove(
        self, call: Callable[..., object] | None, uids: frozenset[str] | None = None
    ) -> None:
        """Call it no more; None: none of them.

        Args:
            uids: those that were registered for these are meant, and for these alone.
        """
        kept = []
        for each in self._each:
            if call is not None and each.call != call:
                kept.append(each)
            elif uids is not None and (left := each.without(uids)):
                kept.append(left)
        self._each = kept

    def tell(self, uid: str, thing: object, told: object) -> None:
        """Tell those that want to hear of one thing."""
        for callback in self._each:
            if callback.wants(uid):
                callback.tell(*(([thing],) if callback.is_bulk else (thing, told)))
