"""Names that are no text: shown as a shell shows them, in every line."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.partition import BIN
from tests.support.programs import script
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm

NAME = b"caf\xe9"  # no UTF-8
SHOWN = r"$'caf\351'"


def at(directory, name=NAME):
    """A path of a file with that name, which is not made."""
    return os.fsdecode(os.path.join(os.fsencode(directory), name))


def shown(directory, name=r"caf\351"):
    return f"$'{directory}/{name}'"


def test_a_program_that_is_not_there(here, tmp_path):
    done = here.yod(at(tmp_path))
    assert (done.status, done.err) == (
        127,
        f"yod: {shown(tmp_path)}: no such program or load file\n",
    )
    done = here.yod("two\nlines\x1b[2J")
    assert done.err.startswith(r"yod: $'two\nlines\033[2J': no such program in PATH")


def test_a_program_that_cannot_be_executed(here, tmp_path):
    path = script(tmp_path / "job", "#!/bin/sh\n", 0o644)
    os.rename(path, at(tmp_path))
    done = here.yod(at(tmp_path))
    assert (done.status, done.err.count(shown(tmp_path))) == (126, 2)  # and behind chmod +x
    os.chmod(at(tmp_path), 0o755)
    with open(at(tmp_path), "wb") as file:
        file.write(b"neither")
    done = here.yod(at(tmp_path))
    assert done.status == 126
    assert f"cannot execute {shown(tmp_path)}: neither a binary" in done.err


def test_an_interpreter_that_is_not_there(here, tmp_path):
    path = tmp_path / "job"
    path.write_bytes(b"#!/no/" + NAME + b"\n")
    path.chmod(0o755)
    done = here.yod(path)
    assert done.status == 127
    assert r"the script's interpreter $'/no/caf\351': no such file" in done.err


def test_a_load_file_may_name_programs_by_any_bytes(here, tmp_path):
    script(tmp_path / "job", "#!/bin/sh\necho ran\n")
    os.rename(tmp_path / "job", at(tmp_path))
    (tmp_path / "load").write_bytes(b"./" + NAME + b"\n./" + NAME + b"\n")
    assert here.yod("./load", cwd=tmp_path) == (0, "ran\nran\n", "")
    (tmp_path / "load").write_bytes(b"true\nnot-" + NAME + b"\n")
    done = here.yod("./load", cwd=tmp_path)
    assert done.err.startswith(r"yod: ./load:2: $'not-caf\351': no such program")


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("-list", NAME), {}),
        (("-sz", NAME), {}),
        (("--mpi", NAME), {}),
        (("--libpmix", b"/no/" + NAME), {}),
        (("--partition", NAME), {}),
        ((b"-" + NAME,), {}),
        ((), {"YOD_PARTITION": b"unix:/no/" + NAME}),
        ((), {"CPLANT_HOST_FILE": b"/no/" + NAME}),
        ((), {"YOD_KEY_FILE": b"/no/" + NAME, "YOD_PARTITION": b"127.0.0.1:1"}),
    ],
)
def test_a_word_or_variable_that_is_wrong(embedded, words, env):
    done = embedded.yod(*words, "true", env={name: os.fsdecode(env[name]) for name in env})
    assert (done.status, len(done.err.splitlines())) == (125, 1)
    assert r"caf\351'" in done.err and "$'" in done.err


def test_the_report_and_the_plan_have_the_name_of_each_program(embedded, tmp_path):
    script(tmp_path / "job", "#!/bin/sh\nexit 3\n")
    os.rename(tmp_path / "job", at(tmp_path))
    (tmp_path / "load").write_bytes(b"./" + NAME + b"\ntrue\n")
    report = tmp_path / "report"
    assert embedded.yod("-file", report, "./load", cwd=tmp_path).status == 3
    assert r"($'./caf\351')" in report.read_text()
    env = {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8:strict"}
    done = embedded.yod("--dry-run", "./load", cwd=tmp_path, env=env)
    assert (done.status, done.out.splitlines()[1]) == (0, f"rank 0: {shown(tmp_path)}")


def test_a_carriage_return_behind_the_interpreter_is_named(here, tmp_path):
    path = script(tmp_path / "job", "#!/bin/sh\r\necho never\r\n")
    done = here.yod("-sz", "2", path)
    assert (done.status, done.out) == (127, "")
    (line,) = done.err.splitlines()
    assert r"the script's interpreter $'/bin/sh\r': no such file or directory" in line
    assert "its first line ends in a carriage return: convert it with dos2unix" in line


def test_a_carriage_return_behind_a_word_of_the_first_line_is_told_before_it_fails(here, tmp_path):
    path = script(tmp_path / "job", "#!/usr/bin/env python3\r\nprint('never')\r\n")
    done = here.yod("-sz", "2", path)
    assert (done.status, done.out) == (127, "")
    assert done.err.startswith(
        f"yod: {path}: its first line ends in a carriage return, which /usr/bin/env gets"
        " behind `python3`: convert it with dos2unix\n"
    )
    path.write_text("#!/bin/sh -e\n: 'a carriage return'\r\n")  # not in its first line
    assert here.yod(path) == (0, "", "")


def test_the_other_commands_show_names_likewise(embedded):
    for command, *words in (
        ("pingd", "--partition", NAME),
        ("pingd", NAME),
        ("bebopd", "--listen", NAME),
        ("pct", "--bebopd", "127.0.0.1:1", "--key-file", b"/no/" + NAME),
        ("yodctl", "key", "root", "--key-file", b"/no/" + NAME),
    ):
        done = subprocess.run(
            [BIN / command, *words],
            env=embedded.environment({"YOD_PARTITION": None}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
        )
        assert done.returncode in (1, 2), command
        assert rb"caf\351'" in done.stderr, (command, done.stderr)
        assert b"Traceback" not in done.stderr
