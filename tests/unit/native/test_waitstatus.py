"""A wait status in words, and as a shell has it."""

import pytest

from native.waitstatus import UNKNOWN, as_known, exit_status, how_it_ended


@pytest.mark.parametrize(
    ("wait_status", "code", "words"),
    [
        (0, 0, "ended normally"),
        (1 << 8, 1, "ended with exit code 1"),
        (255 << 8, 255, "ended with exit code 255"),
        (9, 137, "killed by SIGKILL"),
        (11, 139, "killed by SIGSEGV"),
        (11 | 0x80, 139, "killed by SIGSEGV (core dumped)"),
        (33 | 0x80, 161, "killed by signal 33 (core dumped)"),
        (34, 162, "killed by SIGRTMIN"),
        (33, 161, "killed by signal 33"),
        (64, 192, "killed by SIGRTMAX"),
        (UNKNOWN, 1, "ended, its exit status is not known"),
    ],
)
def test_a_wait_status_in_words_and_as_shells_have_it(wait_status, code, words):
    assert (exit_status(wait_status), how_it_ended(wait_status)) == (code, words)


@pytest.mark.parametrize("wait_status", [0, 3 << 8, 9, 11 | 0x80, UNKNOWN])
def test_what_is_told_as_known_has_the_same_exit_status_and_is_a_real_one(wait_status):
    assert as_known(wait_status) >= 0
    assert exit_status(as_known(wait_status)) == exit_status(wait_status)
