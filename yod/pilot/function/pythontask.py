"""Calls as RADICAL-Pilot's scripts write them: ``description.function = hello(1)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from native.errors import UsageError
from yod.pilot.function.codec import as_text


def pythontask(function: Callable[..., Any]) -> Callable[..., str]:
    """Calling the function makes a call for a description, and does not run it."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> str:
        return as_text(function, args, kwargs)

    return make


class PythonTask:
    """``PythonTask(function, args, kwargs)`` is a call for a description, as a text."""

    def __new__(  # type: ignore[misc]
        cls,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The call.

        Raises:
            UsageError: it is no function.
        """
        if not callable(function):
            raise UsageError(f"PythonTask: {function!r} is no function")
        return as_text(function, args, kwargs or {})

    pythontask = staticmethod(pythontask)
