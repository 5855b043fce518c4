"""Signals as users write them. Pure."""

from __future__ import annotations

import signal

from native.errors import UsageError
from native.text import shown

SIGNAL_MAX = 64


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
