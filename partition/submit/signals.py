"""Signals as users write them. Pure."""

from __future__ import annotations

import re

from native.errors import UsageError
from native.text import shown
from native.wire.batch import EarlySignal
from yod.plan.signals import number_of

_EARLY = re.compile(r"(B:)?([^@]+)@(\d+)", re.ASCII)


def early(text: str | None, time_s: float | None) -> EarlySignal | None:
    """``USR1@60``: to all steps, a minute before the time is over; ``B:USR1@60``: to the command.

    Args:
        text: None: the user wants none.
        time_s: how long the allocation may last; None: any time.

    Raises:
        UsageError: another form, or there is no time limit.
    """
    if text is None:
        return None
    found = _EARLY.fullmatch(text)
    if found is None:
        raise UsageError(f"-signal {shown(text)}: SIGNAL@SECONDS, or B:SIGNAL@SECONDS")
    if time_s is None:
        raise UsageError("-signal needs -time: there is no end to warn of")
    return EarlySignal(number_of(found[2]), float(found[3]), bool(found[1]))
