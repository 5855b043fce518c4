"""Arguments that a worker has for its calls: what an executor's ``init_function`` has returned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from native.errors import UsageError

_given: dict[str, Any] = {}  # a process is one worker


def take(values: object) -> None:
    """From now on calls get these.

    Raises:
        UsageError: they are no arguments.
    """
    if values is None:
        return
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        told = type(values).__name__
        raise UsageError(f"init_function has returned a {told}, and no dictionary of arguments")
    _given.update(values)


def filled_in(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The named arguments of a call, with those that it lacks and the worker has."""
    if not _given:
        return kwargs
    try:
        signature = inspect.signature(function)
        bound = signature.bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # it is not known, or the call is wrong: calling tells
        return kwargs
    names = signature.parameters.keys() - bound.keys()
    return {**{name: _given[name] for name in names & _given.keys()}, **kwargs}


def ready(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """A function with these arguments filled in, for many calls with as many own ones."""
    more = filled_in(function, args, {})
    return partial(function, **more) if more else function
