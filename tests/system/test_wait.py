"""The helpers that wait see the event, and say what they saw when it does not come."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.wait import read_until, wait_for_exit, wait_until


def test_the_end_of_a_process_is_seen_before_it_is_reaped():
    with subprocess.Popen(["sleep", "60"]) as child:
        with pytest.raises(AssertionError, match=f"process {child.pid} still runs"):
            wait_for_exit(child.pid, 0.01)
        child.kill()
        wait_for_exit(child.pid)
    wait_for_exit(child.pid)


def test_text_that_comes_in_pieces_is_read_to_its_end():
    reader, writer = os.pipe()
    os.write(writer, b"rank 0 is he")
    with pytest.raises(AssertionError, match=r"'held' did not come .*'rank 0 is he'"):
        read_until(reader, b"held", 0.01)
    os.write(writer, b"held\nmore")
    assert read_until(reader, b"held") == b"held\nmore"
    os.close(writer)
    with pytest.raises(AssertionError, match="end of file"):
        read_until(reader, b"held")
    os.close(reader)


def test_a_condition_is_asked_for_until_it_holds_or_the_limit_is_over():
    answers = iter(["", "", "yes"])
    assert wait_until(lambda: next(answers)) == "yes"
    with pytest.raises(AssertionError, match=r"the node's state is not so after 0\.02 s: 0"):
        wait_until(lambda: 0, 0.02, "the node's state")
