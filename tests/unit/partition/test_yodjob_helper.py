"""What a helper does of a command about jobs, and what it leaves to the client."""

from __future__ import annotations

import gc
import os
import sys

import pytest

from native.errors import UsageError
from native.wire.client import OUTPUT_WINDOW_BYTES, Stdio
from partition.commands import plain
from partition.server.errands import Said
from partition.server.yodjob import run

APART, ONE_FILE = Stdio.YODJOB, Stdio.YODJOB | Stdio.SAME_OUTPUT
TERMINAL = ONE_FILE | Stdio.STDOUT_TERMINAL
MASK = 0o27
LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")


@pytest.fixture(autouse=True)
def says(monkeypatch):
    """What the command prints: by turns on standard output and on standard error."""
    for name in LOCALE:
        monkeypatch.delenv(name, raising=False)
    texts: list[str] = []

    def printed(name, words, most_jobs):
        gc.disable()
        for number, text in enumerate(texts):
            (sys.stderr if number % 2 else sys.stdout).write(text)
        if "wrong" in words:
            raise UsageError("that is wrong")
        if "missing" in words:
            sys.exit(1)
        return "left" not in words

    monkeypatch.setattr(plain, "run", printed)
    yield texts
    assert gc.isenabled() and os.umask(0o22) == 0o22


def test_streams_are_kept_apart(says):
    says += ["a\n", "b\n", "é\n"]
    assert run(["show", "1"], MASK, APART) == Said(b"b\n", "a\né\n".encode(), 0)


def test_on_a_terminal_lines_are_in_their_order(says):
    says += ["a\n", "b\n", "c\n"]
    assert run(["show", "missing"], MASK, TERMINAL) == Said(b"", b"a\nb\nc\n", 1)


def test_a_wrong_line_has_its_status_and_what_came_before(says):
    says += ["a\n"]
    assert run(["list", "wrong"], MASK, APART) == Said(b"yodjob: that is wrong\n", b"a\n", 2)


@pytest.mark.parametrize("name", ["list", "show"])
def test_what_a_process_would_write_in_another_order_is_left_to_it(says, name):
    says += ["a" * 5000, "b\n"]
    assert run([name], MASK, ONE_FILE) is None
    assert run([name], MASK, APART) == Said(b"b\n", b"a" * 5000, 0)


def test_what_is_too_long_for_the_client_is_left_to_it_unless_it_is_done(says):
    says += ["", "b\n" * OUTPUT_WINDOW_BYTES]
    assert run(["list"], MASK, APART) is None
    told = run(["cancel", "1"], MASK, APART)
    assert told is not None and len(told.errors) <= OUTPUT_WINDOW_BYTES


@pytest.mark.parametrize(
    "words", [["show", "left"], ["wait", "1"], ["attach", "1"], [], ["cancel", *["1"] * 501]]
)
def test_other_lines_are_left_to_the_client(says, words):
    assert run(words, MASK, APART) is None


@pytest.mark.parametrize(
    ("locale", "is_utf8"),
    [
        ({}, True),
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "de_DE"}, False),
        ({"LANG": "de_DE", "LC_ALL": "C"}, True),
        ({"LC_CTYPE": "en_US.utf8", "LANG": "de_DE"}, True),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, True),
    ],
)
def test_another_encoding_is_left_to_the_client(monkeypatch, locale, is_utf8):
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert (run(["list"], MASK, APART) is not None) == is_utf8
