"""A wait status in words, and as a shell has it."""

import pytest

from native.waitstatus import exit_status, how_it_ended


@pytest.mark.parametrize(
    ("wait_status", "code", "words"),
    [
        (0, 0, "ended normally"),
        (1 << 8, 1, "ended with exit code 1"),
        (255 << 8, 255, "ended with exit code 255"),
        (9, 137, "killed by SIGKILL"),
        (11 | 0x80, 139, "killed by SIGSEGV"),
        (34, 162, "killed by SIGRTMIN"),
        (33, 161, "killed by signal 33"),
        (64, 192, "killed by SIGRTMAX"),
    ],
)
def test_a_wait_status_in_words_and_as_shells_have_it(wait_status, code, words):
    assert (exit_status(wait_status), how_it_ended(wait_status)) == (code, words)
