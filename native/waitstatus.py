"""A wait status of POSIX as a shell's exit status, and in words; exit statuses of our commands."""

from __future__ import annotations

import signal

UNKNOWN = -1  # in the place of a wait status: somebody else has reaped the child
_UNKNOWN_EXIT_STATUS = 1
FAILED = 1  # of a command of ours that could not do what it was told, or not all of it
WRONG_USAGE = 2  # of one whose command line it does not take
CORE_DUMPED = " (core dumped)"
SIGNAL_BASE = 128  # a shell's exit status of a process that a signal has killed, less its number


def exit_status(wait_status: int) -> int:
    """What a shell shows as the exit status; 1 where it is not known."""
    if wait_status == UNKNOWN:
        return _UNKNOWN_EXIT_STATUS
    number = wait_status & 0x7F
    return SIGNAL_BASE + number if number else wait_status >> 8 & 0xFF


def as_known(wait_status: int) -> int:
    """A wait status with the same exit status, for those who know real ones only."""
    return exit_status(UNKNOWN) << 8 if wait_status == UNKNOWN else wait_status


def how_it_ended(wait_status: int) -> str:
    """How a process ended, such as ``killed by SIGSEGV (core dumped)``, as a shell has it."""
    if wait_status == UNKNOWN:
        return "ended, its exit status is not known"
    number = wait_status & 0x7F
    if not number:
        code = wait_status >> 8 & 0xFF
        return f"ended with exit code {code}" if code else "ended normally"
    core = CORE_DUMPED if wait_status & 0x80 else ""
    try:
        return f"killed by {signal.Signals(number).name}{core}"
    except ValueError:  # most real-time signals have no name
        return f"killed by signal {number}{core}"
