"""Every command whose own output is lost ends with one line, or none, and the documented status."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.partition import BIN
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm

# A command that writes, one that does not begin; the statuses of both, and of lost output.
COMMANDS = [
    ("yod", ["-help"], ["no-such-program"], 127, 125),
    ("yodctl", ["limits"], ["nonsense"], 2, 1),
    ("pingd", ["-help"], ["-nonsense"], 2, 1),
    ("bebopd", ["--help"], ["--nonsense"], 2, 1),
    ("pct", ["-help"], [], 2, 1),
    ("yod-agent", ["-help"], [], 255, 255),
]
by_command = pytest.mark.parametrize(
    ("name", "writes", "fails", "failed", "lost"), COMMANDS, ids=[each[0] for each in COMMANDS]
)


def run(embedded, *words, **streams):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    done = subprocess.run(
        [BIN / words[0], *words[1:]],
        env=embedded.environment(),
        text=True,
        timeout=LIMIT_S,
        **options,
    )
    return done.returncode, done.stdout, done.stderr


@by_command
def test_a_full_standard_output_is_one_line(embedded, name, writes, fails, failed, lost):
    with open("/dev/full", "w") as full:
        text = f"{name}: standard output: no space left on device\n"
        assert run(embedded, name, *writes, stdout=full) == (lost, None, text)


@by_command
def test_a_full_standard_error_changes_no_status(embedded, name, writes, fails, failed, lost):
    with open("/dev/full", "w") as full:
        assert run(embedded, name, *fails, stderr=full) == (failed, "", None)


@by_command
def test_a_reader_that_has_seen_enough_is_told_nothing(embedded, name, writes, fails, failed, lost):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        status, _, said = run(embedded, name, *writes, stdout=writer)
    finally:
        os.close(writer)
    assert said == ""
    assert status in (0, 1)


def run_closed(embedded, closed, *words):
    """Run a command under a shell that closes streams of it."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", BIN / words[0], *words[1:]],
        env=embedded.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    return done.returncode, done.stdout, done.stderr


@by_command
def test_what_goes_to_a_closed_output_is_lost_and_that_is_one_line(
    embedded, name, writes, fails, failed, lost
):
    text = f"{name}: standard output: bad file descriptor\n"
    assert run_closed(embedded, ">&-", name, *writes) == (lost, "", text)
    assert run_closed(embedded, ">&- 2>&-", name, *writes) == (lost, "", "")


@by_command
def test_a_closed_stream_that_nothing_goes_to_changes_nothing(
    embedded, name, writes, fails, failed, lost
):
    assert run_closed(embedded, "2>&-", name, *writes) == run(embedded, name, *writes)
    assert run_closed(embedded, ">&-", name, *fails) == run(embedded, name, *fails)


@by_command
def test_a_stream_that_is_a_directory_is_a_closed_one(embedded, name, writes, fails, failed, lost):
    text = f"{name}: standard output: bad file descriptor\n"
    assert run_closed(embedded, "</tmp", name, *writes) == run(embedded, name, *writes)
    assert run_closed(embedded, "1</tmp", name, *writes) == (lost, "", text)
    assert run_closed(embedded, "</tmp 2</tmp", name, *fails) == (failed, "", "")


@by_command
def test_a_closed_standard_error_changes_no_status(embedded, name, writes, fails, failed, lost):
    for closed in ("2>&-", ">&- 2>&-"):
        assert run_closed(embedded, closed, name, *fails) == (failed, "", "")


def test_a_rank_that_fails_is_told_by_status_where_standard_error_is_full(embedded):
    with open("/dev/full", "w") as full:
        assert run(embedded, "yod", "sh", "-c", "exit 3", stderr=full)[0] == 3
