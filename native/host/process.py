"""Processes: settings of this one for which Python has no call, and what the kernel says of any."""

from __future__ import annotations

import _thread
import os
import signal

from native.waitstatus import SIGNAL_BASE

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

_STAT_BYTES = 4096
_INIT, _PROGRAM_FD = "yod-init", 63  # native/init/fds.h: a descriptor of the program's process

_lock = _thread.allocate_lock()
_needed_count = 0
_was_subreaper = False


def stat_of(unix_pid: int | str) -> list[bytes]:
    """What the kernel says of a process, from its state on; empty: it has ended, or is hidden.

    Source: proc(5), /proc/PID/stat behind the name, which may have blanks and parentheses.
    """
    try:
        fd = os.open(f"/proc/{unix_pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(fd, _STAT_BYTES).rpartition(b")")[2].split()
    except OSError:
        return []
    finally:
        os.close(fd)


def program_behind(unix_pid: int) -> int:
    """The process of the user's program, where the rank's own is `yod-init`; else the rank's own.

    -1: the program has ended, or does not run yet.
    """
    try:
        if os.path.basename(os.readlink(f"/proc/{unix_pid}/exe")) != _INIT:
            return unix_pid
        with open(f"/proc/{unix_pid}/fdinfo/{_PROGRAM_FD}", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Pid:")), -1)
    except FileNotFoundError:
        return -1
    except OSError:  # hidden: nobody but root has such ranks
        return unix_pid


def become_subreaper() -> None:
    """Become the parent of orphaned descendants (a subreaper).

    Raises:
        OSError: the kernel refuses.
    """
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError("prctl: PR_SET_CHILD_SUBREAPER is refused")


def need_subreaper() -> None:
    """Become a subreaper until :func:`leave_subreaper` has been called as often.

    For a program that is not ours: the orphans of its own children are to go where they went.

    Raises:
        OSError: the kernel refuses.
    """
    global _needed_count, _was_subreaper
    with _lock:
        if not _needed_count:
            import ctypes

            before = ctypes.c_int()
            if _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(before)) != 0:
                raise OSError("prctl: PR_GET_CHILD_SUBREAPER is refused")
            _was_subreaper = bool(before.value)
            become_subreaper()
        _needed_count += 1


def leave_subreaper() -> None:
    """Be what the process was before, if nobody else needs it."""
    global _needed_count
    with _lock:
        _needed_count -= 1
        if not _needed_count and not _was_subreaper:
            _prctl(_PR_SET_CHILD_SUBREAPER, 0)


def die(number: int) -> int:
    """End this process by a signal, without a core file.

    A shell ends its loop if a command was killed by SIGINT, but not if the command exited.

    Returns:
        The exit status, if the signal does not kill this process, as it does not kill process 1
        of a container.
    """
    if number == signal.SIGQUIT:
        forbid_core()
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    os.kill(os.getpid(), number)
    return SIGNAL_BASE + number


def forbid_core() -> None:
    """Leave no core file, nor one for a program of the system that collects them."""
    _prctl(_PR_SET_DUMPABLE, 0)


def outlive_parent() -> None:
    """Get no signal when the parent ends."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def _prctl(option: int, value: int) -> int:
    import ctypes  # takes 3 ms; few commands come here

    rest = (ctypes.c_ulong(each) for each in (value, 0, 0, 0))
    result: int = ctypes.CDLL(None).prctl(option, *rest)
    return result
