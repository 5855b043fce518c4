"""What is changed of a process for a time, and by several at once, is changed back."""

from __future__ import annotations

import ctypes
import resource

from native.host import process, rlimits

PR_GET_CHILD_SUBREAPER = 37


def is_subreaper() -> bool:
    answer = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0
    return bool(answer.value)


def test_limits_are_restored_by_the_last_who_has_raised_them():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = before[1] // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, before[1]))
    try:
        rlimits.raise_soft()
        rlimits.raise_soft()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
        assert rlimits.soft(resource.RLIMIT_NOFILE) == lower
        rlimits.restore()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
        rlimits.restore()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == lower
        assert rlimits.soft(resource.RLIMIT_NOFILE) == lower
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_is_a_subreaper_as_long_as_somebody_needs_it():
    assert not is_subreaper()
    process.need_subreaper()
    process.need_subreaper()
    process.leave_subreaper()
    assert is_subreaper()
    process.leave_subreaper()
    assert not is_subreaper()
