"""A site's own placement policy: an entry point of the group ``yod.select``.

It is a function as those of :mod:`allocator.nodes.policies`, and runs in bebopd, between two
messages: it must answer in milliseconds. What it answers is checked. After a wrong answer, or an
exception, ``lowest`` chooses in its place until bebopd starts again, and the log says so. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from allocator.nodes.policies import Ints, Policy, lowest
from native.text import shown


class SitePolicy:
    """Asks a site's policy, and checks what it answers.

    Args:
        say: writes a line to the log.
    """

    def __init__(self, name: str, policy: Policy, say: Callable[[str], None]) -> None:
        self._name = name
        self._policy = policy
        self._say = say
        self._has_failed = False

    def choose(self, free: Ints, size: int) -> Ints:
        """Places of the line; a placement policy."""
        if not self._has_failed:
            view = free.view()
            view.flags.writeable = False
            try:
                places = np.asarray(self._policy(view, size))
                wrong = why_wrong(places, free, size)
            except Exception as error:  # of any kind: it is not our code
                wrong = f"{type(error).__name__}: {shown(str(error))}"
            if not wrong:
                return places
            self._has_failed = True
            name = shown(self._name)
            self._say(f"warning: placement {name}: {wrong}; `lowest` chooses from now on")
        return lowest(free, size)


def why_wrong(places: Ints, free: Ints, size: int) -> str:
    """What is wrong with a policy's answer; empty: nothing.

    Args:
        places: what it answered.
        free, size: what it was asked.
    """
    if places.ndim != 1 or places.dtype.kind != "i":
        return f"it answered no line of integers but {places.dtype} of shape {places.shape}"
    if not len(places) or places[0] < 0 or places[-1] >= len(free) or (np.diff(places) < 1).any():
        return f"its places are not ascending from 0 to {len(free) - 1}"
    if not free[places].all():
        return "it chose a place without a free slot"
    if (slots := int(free[places].sum())) < size:
        return f"it chose {slots} slots, {size} were asked for"
    return ""
