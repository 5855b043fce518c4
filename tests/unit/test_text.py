"""Names from outside, in lines for people."""

import pytest

from native.text import shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain", "plain"),
        ("/tmp/a b", "/tmp/a b"),
        ("/tmp/café", "/tmp/café"),
        (b"/tmp/caf\xc3\xa9", "/tmp/café"),
        (b"/tmp/caf\xe9", r"$'/tmp/caf\351'"),
        ("caf\udce9", r"$'caf\351'"),
        ("two\nlines", r"$'two\nlines'"),
        ("#!/bin/sh\r", r"$'#!/bin/sh\r'"),
        ("\x1b[2J", r"$'\033[2J'"),
        ("it's\\\n", r"$'it\'s\\\n'"),
    ],
)
def test_a_name_is_shown_as_a_shell_shows_it(name, text):
    assert shown(name) == text


def test_a_shell_reads_back_what_is_shown(tmp_path):
    import subprocess

    names = [bytes([byte, 10]) for byte in range(1, 256)]
    words = " ".join(shown(name) for name in names)
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True
    )
    assert done.stdout.split(b"\0")[:-1] == names
