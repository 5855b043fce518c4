"""Settings of this process for which Python has no call."""

from __future__ import annotations

_PR_SET_DUMPABLE = 4  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Become the parent of orphaned descendants (a subreaper).

    Raises:
        OSError: the kernel refuses.
    """
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError("prctl: PR_SET_CHILD_SUBREAPER is refused")


def forbid_core() -> None:
    """Leave no core file, nor one for a program of the system that collects them."""
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> int:
    # The package ctypes takes 4 ms more to import than its core, which is enough here.
    import _ctypes

    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    result: int = _ctypes.call_function(_ctypes.dlsym(library, "prctl"), (option, value, 0, 0, 0))
    return result
