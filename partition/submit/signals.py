"""Signals as users write them. Pure."""

from __future__ import annotations

import re
import signal

from native.errors import UsageError
from native.text import shown
from native.wire.batch import EarlySignal

SIGNAL_MAX = 64
_EARLY = re.compile(r"(B:)?([^@]+)@(\d+)", re.ASCII)


def number_of(text: str) -> int:
    """A number, or a name with or without SIG.

    Raises:
        UsageError: no such signal.
    """
    name = text.upper().removeprefix("SIG")
    if name.isascii() and name.isdecimal():
        number = int(name)
    else:
        number = getattr(signal.Signals.__members__.get(f"SIG{name}"), "value", 0)
    if not 1 <= number <= SIGNAL_MAX:
        raise UsageError(f"no signal {shown(text)}: a name as USR1, or 1 to {SIGNAL_MAX}")
    return int(number)


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
