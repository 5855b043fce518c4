"""Real programs under the keeper find what they would without it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from native.wire.keeper import (
    Hold,
    HowHeld,
)
from tests.support.keeper_job import Job, make_spec
from tests.support.keeper_programs import (
    Build,
    held_how,
    write_script,
)

SHOW = "import os, sys; print(sorted(os.environ.items())); print(os.listdir('/proc/self/fd'))"


@pytest.mark.parametrize(
    "first_line", ["#!/bin/sh", "#! /bin/sh -e", "#!/usr/bin/env sh", "#!/bin/bash", "#!/bin/sh\t"]
)
def test_scripts_are_held_at_their_interpreters_entry(tmp_path: Path, first_line: str) -> None:
    script = write_script(tmp_path / "script", f"{first_line}\necho main $1\n")
    with Job(make_spec((script, "argument"))) as job:
        job.wait_held()
        assert held_how(job) == [HowHeld.PRELOAD]
        assert job.run().text() == "main argument\n"


def test_a_script_of_a_script_is_followed(tmp_path: Path) -> None:
    inner = write_script(tmp_path / "inner", '#!/bin/sh\necho inner "$@"\n')
    outer = write_script(tmp_path / "outer", f"#!{inner} option\n")
    with Job(make_spec((outer, "argument"))) as job:
        assert job.run().text() == f"inner option {outer} argument\n"
        assert held_how(job) == [HowHeld.PRELOAD]


def test_a_python_script_runs_by_env(tmp_path: Path) -> None:
    script = write_script(tmp_path / "script.py", "#!/usr/bin/env python3\nprint('main')\n")
    with Job(make_spec((script,))) as job:
        assert job.run().text() == "main\n"


@pytest.mark.parametrize("hold", [Hold.AUTO, Hold.TRACE, Hold.BEFORE_EXEC])
@pytest.mark.parametrize(
    "command",
    [
        ("/usr/bin/env",),
        ("/bin/bash", "-c", "env"),
        ("/bin/bash", "-c", "export -p >&2; exec env"),
        ("/bin/sh", "-c", "env"),
        ("/usr/bin/perl", "-e", 'print "$_=$ENV{$_}\\n" for sort keys %ENV'),
        (
            sys.executable,
            "-S",
            "-c",
            "import os\nfor k in os.environ: print(k + '=' + os.environ[k])",
        ),
        (sys.executable, "-S", "-c", "import subprocess; subprocess.run(['env'])"),
    ],
    ids=lambda command: " ".join(Path(word).name for word in command)[:30],
)
def test_no_program_and_no_descendant_sees_a_trace_of_us(
    command: tuple[str, ...], hold: Hold
) -> None:
    if not os.path.exists(command[0]):
        pytest.skip(f"needs {command[0]}")
    environment = (b"PATH=/usr/bin:/bin", b"A=1", b"LANG=C", b"SHLVL=0", b"PWD=/", b"_=/x")
    with Job(make_spec(command, environment=environment, hold=hold)) as job:
        job.run()
        seen = {line.partition("=")[0] for line in job.text().splitlines()}
        assert seen <= {"PATH", "A", "LANG", "SHLVL", "PWD", "_", "OLDPWD", "LC_CTYPE"}
        assert {"PATH", "A", "LANG"} <= seen
        assert "yod" not in (job.text() + job.text(0, 2)).lower()
        assert "LD_PRELOAD" not in job.text() + job.text(0, 2)


def test_the_environment_is_exact(tmp_path: Path) -> None:
    shared = (
        b"Z=last",
        b"A=first",
        b"EMPTY=",
        b"ODD",
        b"=odder",
        b"TWICE=1",
        b"TWICE=2",
        b"R=none",
    )
    own = (b"R=0", b"BYTES=\xff\xfe")
    spec = make_spec(("/usr/bin/env",), environment=shared, own=lambda rank: own)
    with Job(spec) as job:
        job.run()
        assert job.output[0, 1] == b"\n".join((*shared[:-1], *own)) + b"\n"


@pytest.mark.parametrize("value", [b"", b"/lib/none.so", b"/lib/none.so:", b"libc.so.6 libm.so.6"])
def test_a_users_preload_stays_as_it_was(value: bytes) -> None:
    environment = (b"A=1", b"LD_PRELOAD=" + value, b"B=2")
    with Job(make_spec(("/usr/bin/env",), environment=environment)) as job:
        job.run()
        assert job.output[0, 1] == b"\n".join(environment) + b"\n"
        assert b"yod" not in job.output[0, 2]
    with Job(make_spec(("/bin/cat", "/proc/self/environ"), environment=environment)) as job:
        job.run()
        # Where ours stood is padding, as after a program's own unsetenv.
        assert [entry for entry in job.output[0, 1].split(b"\0") if entry] == list(environment)


def test_what_the_kernel_shows_of_the_environment_is_the_users() -> None:
    with Job(make_spec(("/bin/cat", "/proc/self/environ"), environment=(b"A=1", b"B=2"))) as job:
        job.run()
        assert job.output[0, 1].rstrip(b"\0") == b"A=1\0B=2"


@pytest.mark.parametrize("hold", list(Hold))
@pytest.mark.parametrize("wants_pmi", [False, True])
def test_a_rank_has_three_descriptors_and_pmi(hold: Hold, wants_pmi: bool) -> None:
    code = "import os; print([fd for fd in range(1000) if os.path.exists(f'/proc/self/fd/{fd}')]); "
    code += "print(os.environ.get('PMI_FD'), os.readlink('/proc/self/fd/0'))"
    command = (sys.executable, "-S", "-c", code)
    with Job(make_spec(command, ranks=2, hold=hold, wants_pmi=wants_pmi)) as job:
        job.run()
        descriptors, rest = job.text(1).splitlines()
        pmi, stdin = rest.split()
        assert stdin == "/dev/null"
        wanted = [0, 1, 2] + ([int(pmi)] if wants_pmi else [])
        assert descriptors == str(wanted)
        assert (pmi != "None") == wants_pmi


def test_the_pmi_socket_joins_rank_and_pct() -> None:
    code = "import os, socket; s = socket.socket(fileno=int(os.environ['PMI_FD'])); "
    code += "s.sendall(b'cmd=init\\n'); print(s.recv(100).decode())"
    with Job(make_spec((sys.executable, "-c", code), wants_pmi=True)) as job:
        job.wait_held()
        job.keeper.go()
        ours = socket.socket(fileno=os.dup(job.pmi[0]))
        with ours:
            ours.setblocking(True)
            assert ours.recv(100) == b"cmd=init\n"
            ours.sendall(b"answer")
        job.wait_output(b"answer\n")


def test_input_reaches_a_rank_that_wants_it() -> None:
    with Job(make_spec(("/bin/cat",), wants_stdin=True)) as job:
        job.wait_held()
        os.write(job.stdin[0], b"a line\n")
        job.keeper.go()
        job.wait_output(b"a line\n")
        os.close(job.stdin.pop(0))
        assert job.wait_ended()[0].wait_status == 0


def test_a_rank_can_open_its_output_by_name() -> None:
    with Job(make_spec(("/bin/sh", "-c", "echo out >/dev/stdout; echo err >/dev/stderr"))) as job:
        job.run()
        assert (job.text(), job.text(0, 2)) == ("out\n", "err\n")


def test_argv0_may_differ_from_the_image() -> None:
    with Job(make_spec(("name", "-c", "echo $0"), path="/bin/sh")) as job:
        assert job.run().text() == "name\n"


def test_the_examples_run(build: Build) -> None:
    environment = (b"YOD_RANK=0", b"YOD_SIZE=1", b"YOD_NODE_NAME=here")
    with Job(make_spec((build("hello"),), environment=environment)) as job:
        assert job.run().text() == "hello from rank 0 of 1 on here\n"
    with Job(make_spec((build("static", "-static"),))) as job:
        assert job.run().text() == "TracerPid:\t0\n"
        assert held_how(job) == [HowHeld.TRACE]
