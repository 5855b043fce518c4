"""Standard streams that are closed or directories: an error where one is needed, no other file."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.partition import BIN, Done
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm


def test_a_closed_output_cannot_be_written_and_that_is_said_once(here):
    done = here.yod_under_shell("-sz", "3", "echo", "word", after=">&-")
    said = "the application's output cannot be written: Bad file descriptor\n"
    assert (done.status, done.out) == (125, "")
    assert done.err.startswith(f"yod: {said}") and done.err.count(said) == 1


def test_a_closed_output_that_nobody_needs_is_no_error(here):
    for redirection in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        assert here.yod_under_shell("true", after=redirection) == (0, "", "")


def test_ranks_errors_that_cannot_be_written_fail_the_launch(here):
    done = here.yod_under_shell("sh", "-c", "echo out; echo err >&2", after="2>&-")
    assert done == (125, "out\n", "")


def test_yods_own_words_that_cannot_be_written_change_no_status(here):
    assert here.yod_under_shell("sh", "-c", "exit 3", after="2>&-") == (3, "", "")
    assert here.yod_under_shell("no-such-program", after="2>&-") == (127, "", "")


def test_a_closed_input_is_an_empty_one(here):
    assert here.yod_under_shell("cat", after="<&-") == (0, "", "")


@pytest.mark.parametrize("words", [("cat",), ("--stdin", "shared", "cat")])
def test_a_directory_as_input_is_an_empty_one(here, words):
    assert here.yod_under_shell(*words, after="</tmp") == (0, "", "")
    assert here.yod_under_shell("echo", "word", after="</tmp") == (0, "word\n", "")


def test_a_directory_as_output_is_a_closed_one(here):
    said = "yod: the application's output cannot be written: Bad file descriptor\n"
    assert here.yod_under_shell("echo", "word", after="1</tmp") == (125, "", said)
    assert here.yod_under_shell("sh", "-c", "echo out; echo err >&2", after="2</tmp").status == 125
    assert here.yod_under_shell("true", after="1</tmp 2</tmp") == (0, "", "")


@pytest.mark.parametrize("words", [("-help",), ("--version",), ("--dry-run", "true")])
def test_what_yod_itself_prints_is_lost_with_a_word(embedded, words):
    said = "yod: standard output: bad file descriptor\n"
    assert embedded.yod_under_shell(*words, after=">&-") == (125, "", said)


def test_no_file_or_socket_of_yods_takes_the_place_of_a_closed_stream(embedded, tmp_path):
    """What a rank writes would go there."""
    look = (
        "read -r _ _ _ yod _ </proc/$PPID/stat\n"
        'for n in 0 1 2; do readlink "/proc/$yod/fd/$n"; done >"$0"'
    )
    seen = tmp_path / "seen"
    assert embedded.yod_under_shell("sh", "-c", look, seen, after="<&- >&- 2>&-") == (0, "", "")
    # A keeper is yod's child; /proc/<pid>/stat is no stream.
    assert all(line.endswith("/stat") for line in seen.read_text().split()), seen.read_text()
    assert len(seen.read_text().split()) == 3


def test_a_program_of_the_interface_with_closed_streams(embedded, tmp_path):
    """yod as a function, in a process that has closed its streams."""
    look = tmp_path / "seen"
    text = (
        "import os, sys\n"
        "os.closerange(0, 3)\n"
        "from yod import api\n"
        "done = api.run(['sh', '-c', 'echo word'], size=2, partition='embedded')\n"
        "open(sys.argv[1], 'w').write(str(done.exit_status))\n"
    )
    subprocess.run(
        [BIN / "python", "-c", text, look], env=embedded.environment(), timeout=LIMIT_S, check=False
    )
    assert look.read_text() == "125"


def test_daemons_and_their_commands_live_with_closed_streams(embedded, place):
    env = embedded.environment()

    def run(command):
        done = subprocess.run(
            ["sh", "-c", command], env=env, capture_output=True, text=True, timeout=LIMIT_S
        )
        return Done(done.returncode, done.stdout, done.stderr)

    assert run("yodctl up --local 1 <&- >&- 2>&-").status in (0, 1)  # 1: its words are lost
    try:
        assert run("yod echo word <&-") == (0, "word\n", "")
        assert run("pingd >&-") == (1, "", "pingd: standard output: bad file descriptor\n")
        assert run("yodctl status >&-").err == "yodctl: standard output: bad file descriptor\n"
    finally:
        assert run("yodctl down").status == 0
