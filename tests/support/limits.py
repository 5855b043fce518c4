"""Tests of limits that end something, in which other things have to happen first.

Such a limit is short, since the test waits until it is over; and on a busy machine any process
may have no processor for as long.
"""

from __future__ import annotations

from collections.abc import Callable

PATIENT = {"YOD_KILL_DELAY_S": "120"}  # ranks have this long to end when one has failed
_FACTOR = 4
_TRIALS_COUNT = 4


def try_longer(trial: Callable[[float], None], limit_s: float) -> None:
    """Try with a limit, and where that fails from the beginning with a longer one.

    Only for a trial of which a part must be quicker than the limit that it is about. It is
    given the limit in seconds.

    Raises:
        AssertionError: it fails with the longest, too.
    """
    for _ in range(_TRIALS_COUNT - 1):
        try:
            return trial(limit_s)
        except AssertionError:
            limit_s *= _FACTOR
    return trial(limit_s)
