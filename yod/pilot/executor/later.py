"""Calls whose arguments are futures: they wait for these, and get their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def futures_in(args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[Future[Any]]:
    """The futures among arguments, and in lists among them."""
    found: list[Future[Any]] = []
    for each in (*args, *kwargs.values()):
        if isinstance(each, Future):
            found.append(each)
        elif type(each) is list:
            found += [one for one in each if isinstance(one, Future)]
    return found


def resolved(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """The same with results in the place of futures, which are all done.

    Raises:
        Exception: that of the first one that has failed, or was cancelled.
    """
    return tuple(map(_value, args)), {name: _value(each) for name, each in kwargs.items()}


def _value(each: Any) -> Any:
    if isinstance(each, Future):
        return each.result()
    if type(each) is list:
        return [one.result() if isinstance(one, Future) else one for one in each]
    return each


def when_all(each: Iterable[Future[Any]], call: Callable[[], None]) -> None:
    """Call once when all futures are done, in the thread of the last one."""
    left = {id(future): future for future in each}
    lock = threading.Lock()

    def done(future: Future[Any]) -> None:
        with lock:
            left.pop(id(future), None)
            is_last = not left
        if is_last:
            call()

    for future in list(left.values()):
        future.add_done_callback(done)
