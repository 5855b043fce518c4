"""The program that starts batch scripts, under sanitizers: what it makes, and with nonsense."""

from __future__ import annotations

import os
import random
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pct.script import ScriptTask, encode
from tests.support.wait import LIMIT_S

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "native" / "script"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# In the place of a broker: says what it is told, waits for its child, the script, and reads on.
BROKER = """
import os, socket, sys
words = sys.argv[1:]
if words[0] == "began":
    go = int(words.pop())
    if go > 0:
        word = sys.stdin.read(2)
        if "go" in word:
            os.write(go, b"g")
        elif word != "no":
            os.write(go, (word + sys.stdin.read(1)).strip().encode())
        os.close(go)
    listener = socket.socket(fileno=int(words[3]))
    words[3] = "%s:%d" % listener.getsockname()
    if words[2] == "0":
        status = os.waitpid(int(words[1]), 0)[1]
        print(os.waitstatus_to_exitcode(status), end=" ")
print("|".join(words[2:] if words[0] == "began" else words), "|", sys.stdin.read(), sep="", end="")
"""

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    target = tmp_path_factory.mktemp("script") / "yod-script"
    sources = [*SOURCES.glob("*.c"), ROOT / "tests" / "c" / "keeper" / "sanitizer_options.c"]
    subprocess.run(["cc", *FLAGS, *SANITIZERS, "-o", target, *sources], check=True)
    return target


@pytest.fixture
def run(program: Path) -> Run:
    """Run it with these bytes on its standard input, and a broker that says what it is told."""

    def run(data: bytes) -> subprocess.CompletedProcess[bytes]:
        words = [program, sys.executable, "-c", BROKER]
        return subprocess.run(words, input=data, capture_output=True, timeout=LIMIT_S)

    return run


@pytest.fixture
def task(tmp_path: Path) -> ScriptTask:
    return ScriptTask(
        umask=0o027,
        directory=bytes(tmp_path),
        output=b"out",
        host=b"127.0.0.1",
        key=b"user 0 11\n",
        key_name=b"17@here.",
        arguments=(b"job.sh", b"one", b""),
        variables=(b"PATH=/bin:/usr/bin", b"A=1"),
        directories=(bytes(tmp_path), bytes(tmp_path / "state"), bytes(tmp_path / "state/keys")),
        script=b'#!/bin/sh\npwd; echo "$0 $# $1"; cat; env; ls /proc/self/fd | wc -l; exit 3\n',
    )


def test_a_script_finds_its_allocation_and_nothing_of_the_brokers(run, task, tmp_path):
    done = run(encode(task) + b"what is the broker's")
    assert done.stderr == b""
    status, told = done.stdout.decode().split(" ", 1)
    error, address, _, key_file, rest = told.split("|")
    assert (status, error, rest) == ("3", "0", "what is the broker's")
    assert Path(key_file).read_bytes() == task.key
    assert stat.S_IMODE(os.stat(key_file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o700
    where, words, *lines = (tmp_path / "out").read_text().splitlines()
    assert (where, words.split()[1:]) == (str(tmp_path), ["2", "one"])
    *variables, descriptors = lines
    assert {f"YOD_PARTITION={address}", f"YOD_KEY_FILE={key_file}", "A=1"} <= set(variables)
    assert int(descriptors) == 5  # its three, the script, and the folder that is read
    assert stat.S_IMODE(os.stat(tmp_path / "out").st_mode) == 0o640


def test_the_key_of_a_process_that_has_ended_is_replaced(run, task, tmp_path):
    first = run(encode(task)).stdout.decode().split("|")[3]
    assert Path(first).name.startswith("17@here.")
    assert run(encode(replace(task, key=b"another"))).returncode == 0


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("directory", b"/nowhere", "failed|/nowhere: No such file or directory|"),
        ("output", b"no/out", "failed|no/out: No such file or directory|"),
        ("host", b"192.0.2.1", "failed|192.0.2.1: Cannot assign requested address|"),
        ("directories", (b"/nowhere", b"/nowhere/x"), "failed|/nowhere/x: No such file"),
    ],
)
def test_what_cannot_be_made_is_told_to_the_broker(run, task, field, value, text):
    done = run(encode(replace(task, **{field: value})))
    assert done.stdout.decode().startswith(text)


def test_a_script_that_cannot_be_executed_is_told_to_the_broker(run, task):
    done = run(encode(replace(task, script=b"#!/no/interpreter\n")))
    assert done.stdout.decode().startswith("2|127.0.0.1:")


def test_a_script_that_is_held_begins_on_the_brokers_word_as_any_other(run, task, tmp_path):
    done = run(encode(replace(task, is_held=True)) + b"go, and more")
    status, told = done.stdout.decode().split(" ", 1)
    error, _, _, _, rest = told.split("|")
    assert (status, error, rest, done.stderr) == ("3", "0", ", and more", b"")
    *_, descriptors = (tmp_path / "out").read_text().splitlines()
    assert int(descriptors) == 5


def test_a_script_that_is_held_never_begins_without_that_word(run, task, tmp_path):
    done = run(encode(replace(task, is_held=True)) + b"no")
    assert done.stdout.startswith(b"125 0|")
    assert (tmp_path / "out").read_text() == ""


def test_a_held_script_that_cannot_be_executed_says_so_in_its_output(run, task, tmp_path):
    done = run(encode(replace(task, is_held=True, script=b"#!/no/interpreter\n")) + b"go")
    assert done.stdout.startswith(b"127 0|")
    assert (tmp_path / "out").read_text() == "yod-script: job.sh: No such file or directory\n"


# In the place of yod-init: says its words, and from where the script comes back.
CONTAINER = b"#!/bin/sh\necho $@ [$YOD_RESTART_DIR] [$YOD_PARTITION]; sh $3 x\n"


@pytest.mark.parametrize(("word", "how"), [(b"g ", "start-script"), (b"r/c", "restore-script")])
def test_a_script_that_may_be_written_down_begins_or_comes_back_in_its_container(
    run, task, tmp_path, word, how
):
    init = tmp_path / "init"
    init.write_bytes(CONTAINER)
    init.chmod(0o755)
    container = (bytes(init), b"/usr/sbin/criu")
    told = {"variables": (*task.variables, b"YOD_RESTART_DIR=/of/another"), "is_held": True}
    script = b"#!/bin/sh\necho script $1; exit 3\n"
    done = run(encode(replace(task, script=script, container=container, **told)) + word + b"go")
    assert done.stdout.startswith(b"3 0|"), done
    first, second = (tmp_path / "out").read_text().splitlines()
    criu, said, path, *words = first.split(" ")
    restart = "[/c]" if how == "restore-script" else "[]"
    assert (criu, said, words) == ("/usr/sbin/criu", how, ["job.sh", "one", restart, "[]"])
    assert path.startswith("/proc/self/fd/") and second == "script x"


def test_a_script_in_a_container_is_always_held(run, task):
    done = run(encode(replace(task, container=(b"/init", b"/criu"))))
    assert done.stderr == b"yod-script: a malformed task\n"


@pytest.mark.parametrize("seed", range(8))
def test_nonsense_starts_nothing(run, task, seed):
    whole, order = encode(task), random.Random(seed)
    place = 4 * order.randrange(1, 8)  # a count, or a length
    lie = struct.pack("<I", order.choice([0xFFFFFFFF, 1 << 20, 0x7FFFFFFF, 77]))
    lies = whole[:place] + lie + whole[place + 4 :]
    for data in (whole[: order.randrange(len(whole))], lies):
        done = run(data)
        assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr
        if data != lies or place > 4:  # the first number is the umask, of which any will do
            assert done.returncode == 1
            assert done.stderr.startswith((b"yod-script: a ", b"yod-script: no task"))
            assert done.stdout == b""


def test_a_nul_in_a_task_is_refused(task):
    with pytest.raises(ValueError, match="NUL"):
        encode(replace(task, output=b"a\0b"))


def test_the_listener_takes_connections_before_the_broker_accepts(run, task):
    connect = b"#!/bin/bash\nexec 3<>/dev/tcp/${YOD_PARTITION%:*}/${YOD_PARTITION#*:} && exit 7\n"
    assert run(encode(replace(task, script=connect))).stdout.startswith(b"7 ")


# Stands in for an interpreter: prints the name and the options that it was started with.
INTERPRETER = """
import os, sys
print(os.path.basename(sys.argv[0]), sys.argv[1], end=" ", flush=True)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def interpreter(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{INTERPRETER}")
    path.chmod(0o755)


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A command as an installation has it, without an interpreter."""
    path = tmp_path / "usr" / "bin" / "yodjob"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n''':'\nexit 9\n'''\n{BROKER}")
    path.chmod(0o755)
    return path


@pytest.fixture
def found(program, task, command, tmp_path, monkeypatch) -> Callable[..., str]:
    """Run the command behind its script; what the interpreter and the command say."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'path'}")

    def found(path: Path = command) -> str:
        words = [program, "-", path]
        done = subprocess.run(words, input=encode(task), capture_output=True, timeout=LIMIT_S)
        return (done.stdout or done.stderr).decode()

    return found


def test_a_commands_interpreter_is_the_one_in_the_path(found, tmp_path):
    interpreter(tmp_path / "path" / "python3")
    assert found().startswith("python3 -EPS 3 0|127.0.0.1:")


def test_it_is_that_of_the_release_with_our_modules_where_it_is_there(found, tmp_path):
    interpreter(tmp_path / "path" / "python3")
    interpreter(tmp_path / "path" / "python3.10")
    for lib, release, package in (
        ("lib", "python3.10", "site-packages/yod"),
        ("lib64", "python3.12", "site-packages/other"),
        ("share", "python3.13", "site-packages/yod"),
    ):
        (tmp_path / "usr" / lib / release / package).mkdir(parents=True)
    assert found().startswith("python3.10 -EPS 3 ")
    (tmp_path / "path" / "python3.10").unlink()
    assert found().startswith("python3 -EPS 3 ")


def test_first_it_is_the_one_beside_the_command_behind_links(found, command, tmp_path):
    (tmp_path / "usr" / "bin" / "python3").symlink_to(tmp_path / "own")
    interpreter(tmp_path / "own")
    (tmp_path / "yodjob").symlink_to(command)
    assert found(tmp_path / "yodjob").startswith("python3 -EPS 3 ")


def test_a_command_without_an_interpreter_says_so(found):
    assert found() == "yod-script: python3: No such file or directory\n"


def test_without_words_it_says_whose_it_is(program):
    done = subprocess.run([program], capture_output=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a pct starts it" in done.stderr
