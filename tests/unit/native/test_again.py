"""A program that executes itself anew, and is told why that is not possible."""

import subprocess
import sys

from native.host.again import execute_again

PROGRAM = """
import os, sys
from native.host.again import execute_again
print(os.getpid(), *sys.argv[1:], flush=True)
if sys.argv[1] == "first":
    sys.exit(execute_again(["second", "a b"]))
"""


def test_a_program_begins_again_in_its_process_with_the_arguments_that_it_is_given():
    words = [sys.executable, "-c", PROGRAM, "first", "x"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    first, second = (line.split(" ", 1) for line in done.stdout.splitlines())
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("first x", "second a b")


def test_a_program_that_cannot_be_executed_is_named(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and no more")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert execute_again([]) == f"{program}: Exec format error"
