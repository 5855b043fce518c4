"""A wait status of POSIX as a shell's exit status, and in words."""

from __future__ import annotations

import signal

SIGNAL_BASE = 128  # a shell's exit status of a process that a signal has killed, less its number


def exit_status(wait_status: int) -> int:
    """What a shell shows as the exit status."""
    number = wait_status & 0x7F
    return SIGNAL_BASE + number if number else wait_status >> 8 & 0xFF


def how_it_ended(wait_status: int) -> str:
    """How a process ended, such as ``killed by SIGSEGV``."""
    number = wait_status & 0x7F
    if not number:
        code = wait_status >> 8 & 0xFF
        return f"ended with exit code {code}" if code else "ended normally"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:  # most real-time signals have no name
        return f"killed by signal {number}"
