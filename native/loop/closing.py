"""Gives back several things, also where one of them raises."""

from __future__ import annotations

from collections.abc import Callable


def close_all(calls: list[Callable[[], None]]) -> None:
    """Make calls, the last first; what one raises keeps none from being made.

    Of several that raise the last one's exception is raised, in the context of the others.
    """
    try:
        while calls:
            calls.pop()()
    finally:
        if calls:
            close_all(calls)
