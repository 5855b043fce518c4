"""The keeper with real processes: what a rank finds at its entry, and how it ends."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from native.wire.keeper import (
    KEEP,
    UNLIMITED,
    ExecFailed,
    ExecStep,
    Hold,
    HowHeld,
    KeeperEmpty,
    KeeperLost,
    RankEnded,
    RankHeld,
)
from tests.support.keeper_job import UNDER_TEST, Job, failure_of, make_spec
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

HERE = Path(__file__).parents[1]
SOURCES = HERE / "c" / "keeper"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

Build = Callable[..., str]


def build_in(folder: Path, name: str, *flags: str, compiler: str = "cc", output: str = "") -> str:
    target = folder / (output or f"{name}{'_'.join(flags).replace('/', '_')}")
    if not target.exists():
        source = next(
            p for p in (SOURCES / f"{name}.c", HERE.parent / f"examples/{name}.c") if p.exists()
        )
        subprocess.run([compiler, "-O1", "-o", target, source, *flags], check=True)
    return str(target)


@pytest.fixture(scope="session")
def build() -> Iterator[Build]:
    """Compile a program of ``tests/c/keeper``; gives its path, which every user can reach."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    with TemporaryDirectory(prefix="keeper-programs-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield partial(build_in, folder)


def held_how(job: Job) -> list[HowHeld]:
    return [event.how for event in job.events if isinstance(event, RankHeld)]


# --- how a rank is held ------------------------------------------------------


@pytest.mark.parametrize("hold", list(Hold))
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_no_user_code_runs_before_go(build: Build, kind: str, hold: Hold) -> None:
    program = build("constructors", *(["-static"] if kind == "static" else []))
    with Job(make_spec((program,), ranks=3, hold=hold)) as job:
        job.wait_held()
        wanted = {Hold.TRACE: HowHeld.TRACE, Hold.BEFORE_EXEC: HowHeld.BEFORE_EXEC}.get(
            hold, HowHeld.PRELOAD if kind == "dynamic" else HowHeld.TRACE
        )
        assert held_how(job) == [wanted] * 3
        assert set(job.output.values()) == {b""}
        job.keeper.end()
        job.wait_empty()
        assert set(job.output.values()) == {b""}
    with Job(make_spec((program,), ranks=3, hold=hold)) as job:
        job.run()
        assert {job.text(rank) for rank in range(3)} == {"preinit\nconstructor\nmain\n"}
        assert all(event.wait_status == 0 and event.was_released for event in job.wait_ended())


def test_a_32_bit_program_is_traced(build: Build) -> None:
    flags = ("-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pic", "-fno-pie", "-no-pie")
    try:
        program = build("small32", *flags, output="small32")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler makes no 32-bit programs")
    with Job(make_spec((program,))) as job:
        job.wait_held()
        assert held_how(job) == [HowHeld.TRACE]
        assert job.text() == ""
        job.run()
        assert job.text() == "main\n"
        assert job.wait_ended()[0].wait_status == 7 << 8


def test_a_program_of_another_libc_is_traced(build: Build) -> None:
    if not shutil.which("musl-gcc"):
        pytest.skip("needs musl-gcc")
    program = build("constructors", compiler="musl-gcc", output="constructors-musl")
    with Job(make_spec((program,))) as job:
        job.run()
        assert held_how(job) == [HowHeld.TRACE]
        assert job.text().endswith("constructor\nmain\n")


def test_constructors_of_a_users_preload_wait_for_go(build: Build) -> None:
    library = build("library", "-shared", "-fPIC", output="libpreload.so")
    environment = (b"LD_PRELOAD=" + library.encode(), b"PATH=/usr/bin:/bin")
    with Job(make_spec((build("constructors"),), environment=environment)) as job:
        job.wait_held()
        assert held_how(job) == [HowHeld.PRELOAD]
        job.keeper.end()
        job.wait_empty()
        assert job.text() == ""
    with Job(make_spec((build("constructors"),), environment=environment)) as job:
        assert job.run().text() == "preinit\nlibrary constructor\nconstructor\nmain\n"


def test_constructors_of_a_library_that_wants_to_be_first_wait_for_go(build: Build) -> None:
    library = build("library", "-shared", "-fPIC", "-Wl,-z,initfirst", output="libfirst.so")
    program = build("constructors", "-DWITH_LIBRARY", library, output="constructors-first")
    with Job(make_spec((program,))) as job:
        job.wait_held()
        assert job.text() == ""
        assert held_how(job) == [HowHeld.PRELOAD]
        job.keeper.end()
        job.wait_empty()
        assert job.text() == ""


def test_auditing_libraries_are_user_code_too(build: Build) -> None:
    library = build("library", "-shared", "-fPIC", output="libpreload.so")
    environment = (b"LD_AUDIT=" + library.encode(),)
    with Job(make_spec((build("constructors"),), environment=environment)) as job:
        job.wait_held()
        assert held_how(job) == [HowHeld.TRACE]
        assert job.text() == ""


def test_without_its_start_library_a_rank_is_traced(build: Build, tmp_path: Path) -> None:
    spec = make_spec((build("constructors"),))
    for library in ("", str(tmp_path / "missing.so"), "/usr/lib/with space.so"):
        with Job(spec, start_library=library) as job:
            job.run()
            assert held_how(job) == [HowHeld.TRACE]
            assert job.text() == "preinit\nconstructor\nmain\n"


@pytest.fixture
def stuck(build: Build, tmp_path: Path) -> tuple[str, Path]:
    """A program whose loader waits for a library until the FIFO is opened for writing."""
    library = tmp_path / "libstuck.so"
    shutil.copy(
        build("library", "-shared", "-fPIC", "-Wl,-soname,libstuck.so", output="libstuck.so"),
        library,
    )
    program = tmp_path / "stuck"
    subprocess.run(
        [
            "cc",
            "-DWITH_LIBRARY",
            "-o",
            program,
            SOURCES / "constructors.c",
            library,
            f"-Wl,-rpath,{tmp_path}",
        ],
        check=True,
    )
    library.unlink()
    os.mkfifo(library)
    return str(program), library


@pytest.mark.parametrize("hold", list(Hold))
def test_no_rank_passes_its_entry_while_one_is_on_its_way(
    build: Build, stuck: tuple[str, Path], hold: Hold
) -> None:
    program, library = stuck
    # The stuck one is held by preload, which needs its libraries; the others as told.
    others = make_spec((build("constructors"),), ranks=4, others=((program,),), hold=hold)
    first, last = others.programs
    last = type(last)(last.path, last.argv, last.cwd, Hold.AUTO)
    spec = type(others)(
        **{name: getattr(others, name) for name in others.__struct_fields__}
        | {"programs": (first, last)}
    )
    with Job(spec) as job:
        job.wait_held(4)
        assert set(job.output.values()) == {b""}
        # Its loader now reads an empty library and gives up.
        os.close(os.open(library, os.O_WRONLY))
        (ended,) = job.wait_ended(1)
        assert (ended.rank, ended.was_released, ended.wait_status) == (4, False, 127 << 8)
        job.keeper.end()
        job.wait_empty()
        assert {job.text(rank) for rank in range(5)} == {""}
        assert "libstuck.so" in job.text(4, 2)
        assert not any(event.was_released for event in job.wait_ended())


def test_ranks_held_in_different_ways_go_together(build: Build) -> None:
    dynamic, static = build("constructors"), build("constructors", "-static")
    with Job(
        make_spec((dynamic,), ranks=3, others=((static,), ("/bin/sh", "-c", "echo main")))
    ) as job:
        job.run()
        assert sorted(held_how(job)) == [HowHeld.PRELOAD] * 4 + [HowHeld.TRACE]
        assert all(job.text(rank).endswith("main\n") for rank in range(5))


@pytest.mark.parametrize("hold", list(Hold))
def test_a_signal_during_the_hold_is_not_lost(build: Build, hold: Hold) -> None:
    with Job(make_spec((build("constructors"),), ranks=2, hold=hold)) as job:
        job.wait_held()
        job.keeper.signal(signal.SIGUSR1, rank=1)
        if hold is Hold.TRACE:
            job.keeper.go()  # it is pending until then
            job.wait_ended(2)
        (ended,) = [event for event in job.wait_ended(1) if event.rank == 1]
        assert os.WTERMSIG(ended.wait_status) == signal.SIGUSR1
        assert ended.was_released == (hold is Hold.TRACE)
        assert job.text(1) == ""
        job.keeper.go()
        job.wait_ended(2)
        job.drain()
        assert job.text(0).endswith("main\n")


@pytest.mark.parametrize("hold", list(Hold))
@pytest.mark.parametrize("signo", [signal.SIGSTOP, signal.SIGTSTP])
def test_stop_and_continue_do_not_release_a_held_rank(
    build: Build, hold: Hold, signo: signal.Signals
) -> None:
    with Job(make_spec((build("constructors"),), hold=hold)) as job:
        job.wait_held()
        job.keeper.signal(signo)
        job.keeper.signal(signal.SIGCONT)
        job.keeper.signal(signal.SIGWINCH)
        job.keeper.signal(signo)
        job.keeper.go()
        job.keeper.signal(signal.SIGCONT)
        (ended,) = job.wait_ended()
        assert ended.wait_status == 0
        job.drain()
        assert job.text() == "preinit\nconstructor\nmain\n"


def test_a_held_rank_that_is_killed_does_not_go(build: Build) -> None:
    with Job(make_spec((build("constructors"),), ranks=3)) as job:
        job.wait_held()
        os.kill(job.unix_pid(1), signal.SIGKILL)
        job.wait_ended(1)
        job.keeper.go()
        ended = {event.rank: event for event in job.wait_ended()}
        assert (ended[1].wait_status, ended[1].was_released) == (signal.SIGKILL, False)
        assert ended[0].wait_status == ended[2].wait_status == 0


# --- real programs -----------------------------------------------------------


def write_script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


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


# --- what it starts with -----------------------------------------------------


def test_ranks_start_with_default_signals_and_an_empty_mask(build: Build) -> None:
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM})
    try:
        job = Job(make_spec((build("signals"),)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
    with job:
        job.wait_held()
        job.keeper.go()
        job.wait_output(b"ready")
        job.keeper.signal(signal.SIGUSR1)
        job.wait_ended()
        job.drain()
        assert job.text() == f"ready\nseen {signal.SIGUSR1}\n"


SETTABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}


@contextmanager
def every_signal_ignored_and_blocked() -> Iterator[None]:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SETTABLE)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SETTABLE}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def signals_of_a_rank(job: Job) -> tuple[int, int]:
    """Those that `cat` finds blocked and ignored: bit n - 1 stands for signal n."""
    rows = dict(line.split(":\t") for line in job.run().text().splitlines())
    return int(rows["SigBlk"], 16), int(rows["SigIgn"], 16)


@pytest.mark.parametrize("hold", list(Hold))
def test_what_a_pct_ignores_or_blocks_no_rank_does_of_all_64(hold: Hold) -> None:
    with every_signal_ignored_and_blocked():
        job = Job(make_spec(("/bin/cat", "/proc/self/status"), hold=hold))
    with job:
        assert signals_of_a_rank(job) == (0, 0)


@pytest.mark.parametrize("hold", list(Hold))
def test_a_rank_ignores_what_the_specification_says_and_no_more(hold: Hold) -> None:
    ignored = (signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, 64)
    spec = make_spec(("/bin/cat", "/proc/self/status"), hold=hold)
    with Job(replace(spec, ignored=ignored)) as job:
        assert signals_of_a_rank(job) == (0, sum(1 << number - 1 for number in ignored))


def test_umask_and_directory_are_the_specifications(tmp_path: Path) -> None:
    spec = make_spec(("/bin/sh", "-c", "umask; pwd; >file"), cwd=str(tmp_path), umask=0o137)
    with Job(spec) as job:
        assert job.run().text() == f"0137\n{tmp_path}\n"
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_limits_are_set_kept_and_cut_to_what_the_node_allows() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64, KEEP),
        (resource.RLIMIT_STACK, UNLIMITED, UNLIMITED),
        (resource.RLIMIT_FSIZE, 1 << 20, 1 << 20),
        (resource.RLIMIT_CPU, KEEP, 100),
    )
    code = "import resource as r; print([r.getrlimit(k) for k in (4, 7, 3, 1, 0)])"
    with Job(make_spec((sys.executable, "-S", "-c", code), limits=limits)) as job:
        core, nofile, stack, fsize, cpu = eval(job.run().text())
    assert core == (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    assert nofile == (64, hard)
    assert stack == (-1, -1)
    assert fsize == (1 << 20, 1 << 20)
    assert cpu == (100, 100)


def test_a_limit_too_small_for_anything_still_starts_a_rank() -> None:
    limits = ((resource.RLIMIT_NOFILE, 4, 4),)
    with Job(make_spec(("/bin/sh", "-c", "echo main"), limits=limits, wants_pmi=True)) as job:
        assert job.run().text() == "main\n"


def test_ranks_have_the_pcts_priority_whatever_the_keepers_is() -> None:
    with Job(make_spec((sys.executable, "-S", "-c", "import os; print(os.nice(0))"))) as job:
        assert job.run().text() == f"{os.nice(0)}\n"


@needs_root
def test_a_job_of_root_runs_as_its_owner(build: Build, tmp_path: Path) -> None:
    command = (
        "/bin/sh",
        "-c",
        "id -u; id -g; id -G; cat /proc/self/status | grep -E '^(Uid|Cap.*f)'",
    )
    spec = make_spec(command, uid=NOBODY, gid=65533, groups=(65532, 65533, 1000), cwd="/")
    with Job(spec) as job:
        lines = job.run().text().splitlines()
    assert lines[:2] == [str(NOBODY), "65533"]
    assert set(lines[2].split()) == {"65532", "65533", "1000"}
    assert "Uid:\t65534\t65534\t65534\t65534" in lines
    assert "CapEff:\t0000000000000000" in lines


@needs_root
@pytest.mark.parametrize("hold", list(Hold))
def test_another_users_ranks_are_held_too(build: Build, hold: Hold) -> None:
    program = build("constructors", "-static")
    spec = make_spec((program,), ranks=2, hold=hold, uid=NOBODY, gid=NOBODY, cwd="/")
    with Job(spec) as job:
        job.wait_held()
        wanted = HowHeld.BEFORE_EXEC if hold is Hold.BEFORE_EXEC else HowHeld.TRACE
        assert held_how(job) == [wanted] * 2
        assert job.text() == ""
        job.run()
        assert job.text() == "preinit\nconstructor\nmain\n"


@needs_root
def test_the_owners_rights_decide_what_can_be_executed(tmp_path: Path) -> None:
    program = write_script(tmp_path / "private", "#!/bin/sh\n")
    tmp_path.chmod(0o700)
    failure = failure_of(make_spec((program,), uid=NOBODY, gid=NOBODY, cwd="/"))
    assert (failure.errno, failure.step) == (errno.EACCES, ExecStep.OPEN)


@needs_root
def test_a_program_that_may_be_executed_and_not_read_is_traced(build: Build) -> None:
    program = build("constructors", "-DUNREADABLE")
    os.chmod(program, 0o711)
    with Job(make_spec((program,), uid=NOBODY, gid=NOBODY, cwd="/")) as job:
        job.run()
        assert held_how(job) == [HowHeld.TRACE]
        assert job.text() == "preinit\nconstructor\nmain\n"


def test_an_ordinary_pct_can_not_start_anothers_job(build: Build) -> None:
    keeper = shutil.copy(UNDER_TEST, Path(build("constructors")).parent / "keeper")
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        job = Job(make_spec(("/bin/true",), uid=os.getuid() + 1), keeper=str(keeper))
    finally:
        if is_root:
            os.seteuid(0)
    with job:
        job.run_until(lambda: bool(job.of(KeeperLost)), "the refusal")
        assert "cannot become uid" in str(job.events)


def test_the_highest_rank_numbers_stay_what_they_are() -> None:
    spec = make_spec(("/bin/sh", "-c", "exit 3"))
    rank = type(spec.ranks[0])(1048575, 0, (), False, False)
    spec = type(spec)(
        **{name: getattr(spec, name) for name in spec.__struct_fields__} | {"ranks": (rank,)}
    )
    with Job(spec) as job:
        job.run()
        assert [event.rank for event in job.wait_ended()] == [1048575]


# --- what can not be started -------------------------------------------------


def test_a_missing_program_is_named() -> None:
    failure = failure_of(make_spec(("/no/such/program",)))
    assert (failure.errno, failure.step) == (errno.ENOENT, ExecStep.OPEN)
    assert failure.explain() == "cannot execute /no/such/program: no such file or directory"


def test_a_directory_is_no_program(tmp_path: Path) -> None:
    failure = failure_of(make_spec((str(tmp_path),)))
    assert (failure.errno, failure.text) == (errno.EACCES, str(tmp_path))


def test_a_fifo_does_not_stop_anybody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o755)
    assert failure_of(make_spec((str(tmp_path / "fifo"),))).errno == errno.EACCES


@pytest.mark.parametrize("hold", list(Hold))
def test_a_program_without_the_x_bit_is_refused(tmp_path: Path, hold: Hold) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    spec = make_spec((str(program),), hold=hold)
    if hold is not Hold.BEFORE_EXEC:
        failure = failure_of(spec)
        assert (failure.errno, failure.step) == (errno.EACCES, ExecStep.EXEC)
        return
    with Job(spec) as job:  # it shows only after go, which its hold says
        job.wait_held()
        job.keeper.go()
        (ended,) = job.wait_ended()
        assert ended.was_released
        assert ended.wait_status == 126 << 8
        assert "EXEC" in str(job.events)


@pytest.mark.parametrize(
    "line", ["#!/no/interpreter", "#!/no/interpreter -x", "#! \t/no/interpreter\t"]
)
def test_a_missing_interpreter_is_named(tmp_path: Path, line: str) -> None:
    script = write_script(tmp_path / "script", line + "\n")
    failure = failure_of(make_spec((script,)))
    assert (failure.errno, failure.step) == (errno.ENOENT, ExecStep.INTERPRETER)
    assert failure.text == "/no/interpreter"


def test_a_carriage_return_behind_the_interpreter_is_visible(tmp_path: Path) -> None:
    failure = failure_of(make_spec((write_script(tmp_path / "script", "#!/bin/sh\r\necho\r\n"),)))
    assert (failure.errno, failure.step) == (errno.ENOENT, ExecStep.INTERPRETER)
    assert failure.text == "/bin/sh\r"


def test_a_missing_loader_is_named(build: Build) -> None:
    program = build(
        "constructors",
        "-Wl,--dynamic-linker,/no/ld-linux-x86-64.so.2",
        output="constructors-no-loader",
    )
    failure = failure_of(make_spec((program,)))
    assert (failure.errno, failure.step) == (errno.ENOENT, ExecStep.LOADER)
    assert failure.text == "/no/ld-linux-x86-64.so.2"


def test_scripts_that_interpret_each_other_end(tmp_path: Path) -> None:
    script = str(tmp_path / "script")
    write_script(Path(script), f"#!{script}\n")
    failure = failure_of(make_spec((script,)))
    assert (failure.errno, failure.step) == (errno.ELOOP, ExecStep.INTERPRETER)


@pytest.mark.parametrize("content", [b"echo hello\n", b"", b"#", b"#!\n", b"\x7fELF"])
def test_a_file_of_no_format_is_no_shell_script(tmp_path: Path, content: bytes) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    failure = failure_of(make_spec((str(program),)))
    assert (failure.errno, failure.step) == (errno.ENOEXEC, ExecStep.EXEC)
    assert "#!" in failure.explain()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    failure = failure_of(make_spec(("/bin/true",), cwd=str(tmp_path / "none")))
    assert (failure.errno, failure.step) == (errno.ENOENT, ExecStep.CHDIR)
    assert failure.text == str(tmp_path / "none")


def test_too_long_an_environment_is_said() -> None:
    failure = failure_of(make_spec(("/bin/true",), environment=(b"A=" + b"x" * 200_000,)))
    assert (failure.errno, failure.step) == (errno.E2BIG, ExecStep.EXEC)


def test_a_relative_program_is_looked_up_in_the_ranks_directory(tmp_path: Path) -> None:
    write_script(tmp_path / "script", "#!/bin/sh\necho main\n")
    with Job(make_spec(("./script",), cwd=str(tmp_path))) as job:
        assert job.run().text() == "main\n"


@needs_root
def test_setuid_programs_are_refused_by_name(build: Build) -> None:
    for mode, name in ((0o4755, "setuid"), (0o2755, "setgid")):
        program = build("constructors", output=f"constructors-{name}")
        os.chown(program, 1234, 1234)
        os.chmod(program, mode)
        failure = failure_of(make_spec((program,), uid=NOBODY, gid=NOBODY, cwd="/"))
        assert (failure.errno, failure.step) == (errno.EPERM, ExecStep.SETUID_REFUSED)
        assert program in failure.explain()
        with Job(make_spec((program,), uid=1234, gid=1234, cwd="/")) as job:
            assert job.run().text().endswith("main\n")  # nothing would change


@needs_root
def test_programs_with_file_capabilities_are_refused_by_name(build: Build) -> None:
    program = build("constructors", output="constructors-capable")
    # cap_net_raw=ep, as VFS_CAP_REVISION_2 lays it out
    value = b"\x01\x00\x00\x02" + (1 << 13).to_bytes(4, "little") + bytes(12)
    try:
        os.setxattr(program, "security.capability", value)
    except OSError:
        pytest.skip("the file system takes no capabilities")
    failure = failure_of(make_spec((program,), uid=NOBODY, gid=NOBODY, cwd="/"))
    assert (failure.errno, failure.step) == (errno.EPERM, ExecStep.CAPABILITY_REFUSED)


@needs_root
def test_a_program_on_a_noexec_mount_is_refused(build: Build, tmp_path: Path) -> None:
    program = build("constructors")
    script = (
        f"mount -t tmpfs -o noexec none {tmp_path} && cp {program} {tmp_path}/program && "
        f"exec {sys.executable} -m tests.support.keeper_job plain {tmp_path}/program"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], cwd=HERE.parent, capture_output=True, text=True
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(done.stderr)
    assert (
        f"errno={errno.EACCES}, step=<ExecStep.EXEC: 8>, text='{tmp_path}/program'" in done.stdout
    )
    assert done.stdout.endswith("over\n"), done


def confined(build: Build, flag: str) -> str:
    return build("confined", flag, f'-DKEEPER="{UNDER_TEST}"', output=f"confined{flag}")


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_where_tracing_is_forbidden_the_hold_is_before_exec(build: Build, kind: str) -> None:
    program = build("constructors", *(["-static"] if kind == "static" else []))
    spec = make_spec((program,), ranks=2)
    with Job(spec, keeper=confined(build, "-DNO_PTRACE")) as job:
        job.wait_held()
        wanted = HowHeld.PRELOAD if kind == "dynamic" else HowHeld.BEFORE_EXEC
        assert held_how(job) == [wanted] * 2
        assert set(job.output.values()) == {b""}
        assert job.run().text(1) == "preinit\nconstructor\nmain\n"


def test_a_node_without_descriptors_says_so_for_each_rank_that_has_none(build: Build) -> None:
    spec = make_spec(("/bin/true",), ranks=20)
    with Job(spec, keeper=confined(build, "-DOPEN_FILES=20")) as job:
        job.wait_ended(1)
        job.run_until(
            lambda: len(job.of(RankEnded)) + len(job.of(RankHeld)) == 20, "all ended or held"
        )
        failures = job.of(ExecFailed)
        assert len(failures) == len(job.of(RankEnded)) > 0
        assert {(f.errno, f.step) for f in failures if isinstance(f, ExecFailed)} == {
            (errno.EMFILE, ExecStep.STREAMS)
        }


@needs_root
def test_a_user_without_processes_is_told(build: Build) -> None:
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, before[1]))
    try:
        job = Job(make_spec(("/bin/true",), ranks=3, uid=4242, gid=4242, cwd="/"))
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    with job:
        job.wait_ended()
        failures = [event for event in job.events if isinstance(event, ExecFailed)]
        assert {(f.errno, f.step) for f in failures} == {(errno.EAGAIN, ExecStep.FORK)}
        assert len(failures) == 3


def test_one_rank_that_can_not_start_leaves_the_others_held(build: Build) -> None:
    with Job(make_spec((build("constructors"),), ranks=5, others=(("/no/such/program",),))) as job:
        job.wait_held(5)
        (ended,) = job.wait_ended(1)
        assert ended.rank == 5
        job.keeper.end()
        job.wait_empty()
        assert {job.text(rank) for rank in range(5)} == {""}


# --- running and ending ------------------------------------------------------


def test_a_rank_that_ends_tells_status_and_what_it_used() -> None:
    command = (
        sys.executable,
        "-S",
        "-c",
        "x = bytearray(50 << 20)\nfor i in range(3000000): pass\nraise SystemExit(9)",
    )
    with Job(make_spec(command)) as job:
        job.run()
        (ended,) = job.wait_ended()
        assert ended.wait_status == 9 << 8
        assert ended.user_s > 0.01
        assert ended.max_rss_bytes > 50 << 20


def test_signals_reach_the_whole_group_of_one_rank_or_of_all() -> None:
    trap = "trap 'echo got' USR1; sh -c 'trap \"echo child got; exit\" USR1; echo ready; "
    trap += "while :; do sleep 0.01; done' & wait; wait; exit 5"
    with Job(make_spec(("/bin/sh", "-c", trap), ranks=3)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(3):
            job.wait_output(b"ready", rank)
        job.keeper.signal(signal.SIGUSR1, rank=1)
        (ended,) = job.wait_ended(1)
        assert (ended.rank, ended.wait_status) == (1, 5 << 8)
        job.keeper.signal(signal.SIGUSR1)
        assert {event.wait_status for event in job.wait_ended()} == {5 << 8}
        job.keeper.end()
        job.wait_empty()
        for rank in range(3):
            assert sorted(job.text(rank).splitlines()) == ["child got", "got", "ready"]


@pytest.mark.parametrize("hold", list(Hold))
def test_each_rank_leads_its_own_session_and_group_apart_from_the_keeper(hold: Hold) -> None:
    code = "import os; print(os.getpid(), os.getpgrp(), os.getsid(0), os.getppid(), "
    code += "os.getpgid(os.getppid()))"
    with Job(make_spec((sys.executable, "-S", "-c", code), ranks=2, hold=hold)) as job:
        job.run()
        for rank in range(2):
            unix_pid, group, session, parent, parents_group = map(int, job.text(rank).split())
            assert unix_pid == group == session == job.unix_pid(rank)
            assert parent == parents_group == job.keeper.unix_pid


@pytest.mark.parametrize("hold", list(Hold))
@pytest.mark.parametrize("is_held", [False, True])
def test_a_stopped_rank_ends_by_sigterm(hold: Hold, is_held: bool) -> None:
    with Job(make_spec(("/bin/sh", "-c", "echo up; kill -STOP $$; exit 3"), hold=hold)) as job:
        job.wait_held()
        if is_held:
            job.keeper.signal(signal.SIGSTOP)
        else:
            job.keeper.go()
            job.wait_output(b"up")
            wait_for_state(job.unix_pid(), "T")
        job.keeper.signal(signal.SIGTERM)
        if is_held and hold is Hold.TRACE:
            job.keeper.go()  # both are pending until then
        (ended,) = job.wait_ended()
    assert ended.wait_status == signal.SIGTERM
    assert ended.was_signalled


def test_end_kills_what_ignores_every_signal_and_has_left_its_session(build: Build) -> None:
    with Job(make_spec((build("daemon"),), ranks=2)) as job:
        job.wait_held()
        job.keeper.go()
        for rank in range(2):
            job.wait_output(b"ready", rank)
        unix_pids = [int(line) for rank in range(2) for line in job.text(rank).split()[:3]]
        job.keeper.signal(signal.SIGTERM)
        job.keeper.end()
        job.wait_empty()
        for unix_pid in unix_pids:
            wait_for_exit(unix_pid)
        assert [event.wait_status for event in job.wait_ended()] == [signal.SIGKILL] * 2


def wait_for_state(unix_pid: int, state: str) -> None:
    stat = Path(f"/proc/{unix_pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(") ")[2][0] == state, what=f"state {state}")


@pytest.mark.parametrize("is_end", [False, True])
def test_a_rank_that_died_before_it_could_be_killed_died_by_itself(is_end: bool) -> None:
    """Though it is not reaped yet: the keeper learns of its end and the command together."""
    with Job(make_spec(("/bin/sleep", "60"), ranks=3)) as job:
        job.wait_held()
        job.keeper.go()
        os.kill(job.keeper.unix_pid, signal.SIGSTOP)
        wait_for_state(job.keeper.unix_pid, "T")
        os.kill(job.unix_pid(1), signal.SIGKILL)
        wait_for_state(job.unix_pid(1), "Z")
        if is_end:
            job.keeper.end()
        else:
            job.keeper.signal(signal.SIGKILL)
        os.kill(job.keeper.unix_pid, signal.SIGCONT)
        ended = {event.rank: event for event in job.wait_ended()}
        assert {event.wait_status for event in ended.values()} == {signal.SIGKILL}
        assert [ended[rank].was_signalled for rank in range(3)] == [True, False, True]


def test_a_rank_that_ends_by_another_signal_than_it_was_sent_died_by_itself() -> None:
    trap = "trap 'kill -SEGV $$' TERM; echo up; while :; do sleep 0.01; done"
    with Job(make_spec(("/bin/sh", "-c", trap))) as job:
        job.wait_held()
        job.keeper.go()
        job.wait_output(b"up")
        job.keeper.signal(signal.SIGTERM)
        (ended,) = job.wait_ended()
        assert (ended.wait_status & 0x7F, ended.was_signalled) == (signal.SIGSEGV, False)


def test_end_finds_children_of_every_thread() -> None:
    code = """if True:
        import os, subprocess, threading
        def start():
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            os.write(1, b"%d ready\\n" % child.pid)
            threading.Event().wait()
        for _ in range(3):
            threading.Thread(target=start).start()
        """
    with Job(make_spec((sys.executable, "-c", code))) as job:
        job.wait_held()
        job.keeper.go()
        job.run_until(lambda: job.output[0, 1].count(b"ready") == 3, "three children")
        unix_pids = [int(line.split()[0]) for line in job.text().splitlines()]
        job.keeper.end()
        job.wait_empty()
        for unix_pid in unix_pids:
            wait_for_exit(unix_pid)


def test_what_a_rank_left_behind_ends_with_the_job(build: Build) -> None:
    with Job(make_spec((build("daemon"), "leave"))) as job:
        job.wait_held()
        job.keeper.go()
        job.wait_ended()
        left = [int(line) for line in job.wait_output(b"ready").split()[:3]]
        assert any(os.path.exists(f"/proc/{unix_pid}") for unix_pid in left)
        job.keeper.end()
        job.wait_empty()
        for unix_pid in left:
            wait_for_exit(unix_pid)


def test_end_before_go_ends_every_rank_unreleased(build: Build) -> None:
    with Job(make_spec((build("constructors"),), ranks=8)) as job:
        job.keeper.end()  # they may not even be held
        job.wait_empty()
        assert len(job.wait_ended()) == 8
        assert not any(event.was_released for event in job.wait_ended())
        assert set(job.output.values()) == {b""}


def test_hanging_up_ends_the_job(build: Build) -> None:
    with Job(make_spec((build("daemon"),))) as job:
        job.wait_held()
        job.keeper.go()
        unix_pids = [int(line) for line in job.wait_output(b"ready").split()[:3]]
        job.keeper.close()
        for unix_pid in (*unix_pids, job.unix_pid(), job.keeper.unix_pid):
            wait_for_exit(unix_pid)
        job.drain()
        assert not job.of(KeeperEmpty, RankEnded)
        job.events.append(KeeperEmpty())  # nothing more to wait for


def test_a_killed_keeper_takes_its_ranks_along(build: Build) -> None:
    with Job(make_spec(("/bin/sleep", "1000"), ranks=3)) as job:
        job.wait_held()
        job.keeper.go()
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        job.run_until(lambda: bool(job.of(KeeperLost)), "lost")
        assert job.events[-1] == KeeperLost("the keeper failed: killed by SIGKILL")
        for rank in range(3):
            wait_for_exit(job.unix_pid(rank))


def test_held_ranks_die_with_their_keeper_and_never_run(build: Build) -> None:
    programs = build("constructors"), build("constructors", "-static")
    with Job(make_spec((programs[0],), ranks=2, others=((programs[1],),))) as job:
        job.wait_held()
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        job.run_until(lambda: bool(job.of(KeeperLost)), "lost")
        job.drain()
        assert set(job.output.values()) == {b""}


class Pct:
    """A PCT of its own process, which a test may kill."""

    def __init__(self, mode: str, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.keeper_job", mode, *command],
            cwd=HERE.parent,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdout
        self.fd = self.process.stdout.fileno()

    def read_until(self, text: bytes) -> list[str]:
        return read_until(self.fd, text).decode().splitlines()


@pytest.fixture
def pct() -> Iterator[Callable[..., Pct]]:
    started: list[Pct] = []

    def start(mode: str, *command: str) -> Pct:
        started.append(Pct(mode, *command))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        assert each.process.stdout
        each.process.stdout.close()


def test_killing_descendants_spares_whom_it_is_told_to(build: Build) -> None:
    code = """if True:
        import os, subprocess, sys
        from native.loop.reactor import Reactor
        from native.host.process import become_subreaper
        from pct.host.orphans import Orphans
        become_subreaper()
        spared = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"])
        killed = subprocess.Popen([sys.argv[1]], stdout=subprocess.PIPE)
        while killed.stdout.readline() != b"ready\\n":
            pass
        reactor = Reactor()
        orphans = Orphans(reactor, lambda: {spared.pid})
        orphans.kill(reactor.stop)
        reactor.run()
        assert not os.path.exists(f"/proc/{killed.pid}")
        orphans.kill(lambda: print("none at once"))
        assert spared.poll() is None
        Orphans(reactor).kill(reactor.stop)
        reactor.run()
        assert not os.path.exists(f"/proc/{spared.pid}")
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, build("daemon")],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "none at once\n"), done.stderr


def test_all_who_wait_for_the_same_orphans_hear_of_their_end() -> None:
    """Two keepers are killed at once; and one is started while their orphans are killed."""
    code = """if True:
        import os, subprocess
        from native.loop.reactor import Reactor
        from pct.host.orphans import Orphans
        sleep = ["sleep", "1000"]
        orphan, keepers = subprocess.Popen(sleep), []
        reactor = Reactor()
        orphans = Orphans(reactor, lambda: [each.pid for each in keepers])
        waiting = {1, 2}
        def over(number):
            waiting.discard(number)
            if not waiting:
                reactor.stop()
        orphans.kill(lambda: over(1))
        keepers.append(subprocess.Popen(sleep))
        orphans.kill(lambda: over(2))
        reactor.run()
        assert not os.path.exists(f"/proc/{orphan.pid}")
        assert keepers[0].poll() is None
        keepers[0].kill()
        print("all have heard")
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "all have heard\n"), done.stderr


def test_a_killed_pct_leaves_no_process(build: Build, pct: Callable[..., Pct]) -> None:
    process = pct("plain", build("daemon"))
    lines = process.read_until(b"ready\n")
    unix_pids = [int(line) for line in lines if line.isdigit()]
    unix_pids.append(int(lines[0].split()[1]))
    assert len(unix_pids) == 4
    process.process.kill()
    for unix_pid in unix_pids:
        wait_for_exit(unix_pid)


def test_without_its_keeper_a_pct_kills_what_is_left(build: Build, pct: Callable[..., Pct]) -> None:
    process = pct("subreaper", build("daemon"))
    lines = process.read_until(b"ready\n")
    unix_pids = [int(line) for line in lines if line.isdigit()]
    os.kill(int(lines[0].split()[1]), signal.SIGKILL)
    rest = process.read_until(b"over\n")
    assert "KeeperLost(reason='the keeper failed: killed by SIGKILL')" in rest
    for unix_pid in unix_pids:
        assert not os.path.exists(f"/proc/{unix_pid}")


# --- the MPI library it claims ------------------------------------------------


@pytest.fixture
def ending(build: Build) -> str:
    return build("ending", "-pthread", output="ending")


@pytest.fixture
def named(build: Build, tmp_path: Path) -> Callable[[str], str]:
    """A library of a given path below the test's folder."""
    library = build("library", "-shared", "-fPIC", output="libpreload.so")

    def named(path: str) -> str:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
        return str(target)

    return named


def claims(*argv: str, hold: Hold = Hold.AUTO) -> list[tuple[int, str]]:
    """Run a program as one rank; gives its exit code (of a signal minus it) and claim."""
    with Job(make_spec(argv, hold=hold)) as job:
        job.run()
        return [
            (os.waitstatus_to_exitcode(event.wait_status), event.mpi_library)
            for event in job.wait_ended()
        ]


@pytest.mark.parametrize(
    ("how", "exit_code"),
    [("return", 0), ("exit", 3), ("late", 0), ("confined", 0)],
)
def test_a_rank_that_exits_names_its_mpi_library(
    ending: str, named: Callable[[str], str], how: str, exit_code: int
) -> None:
    library = named("libmpi.so.12")
    assert claims(ending, how, library) == [(exit_code, library)]


def opening(library: str, then: str = "pass", first: str = "pass") -> tuple[str, ...]:
    """A program that opens a library and surely is looked at before it ends.

    It stays as long again as it took to get there since now, and a second.
    """
    code = (
        f"{first}; import ctypes, os, time; ctypes.CDLL({library!r}); {then};"
        f" time.sleep(time.monotonic() - {time.monotonic()} + 1)"
    )
    return (sys.executable, "-S", "-c", code)


IN_A_CHILD = ("/bin/sh", "-c", '"$@"; exit 3', "sh")


@pytest.mark.parametrize("wrapper", [("/usr/bin/env",), ("/bin/sh", "-c", 'exec "$@"', "sh")])
def test_a_rank_that_has_become_another_program_is_looked_at_while_it_runs(
    named: Callable[[str], str], wrapper: tuple[str, ...]
) -> None:
    library = named("libmpi.so.12.3")
    assert claims(*wrapper, *opening(library)) == [(0, library)]


@pytest.mark.parametrize("hold", [Hold.TRACE, Hold.BEFORE_EXEC])
def test_a_rank_that_is_not_preloaded_is_looked_at_while_it_runs(
    named: Callable[[str], str], hold: Hold
) -> None:
    library = named("libmpi.so.12.3")
    assert claims(*opening(library), hold=hold) == [(0, library)]


@pytest.mark.parametrize("hold", [Hold.AUTO, Hold.TRACE])
def test_a_child_of_a_rank_is_looked_at_while_it_runs(
    named: Callable[[str], str], hold: Hold
) -> None:
    library = named("libmpi.so.12.3")
    assert claims(*IN_A_CHILD, *opening(library), hold=hold) == [(3, library)]


def test_a_grandchild_of_any_thread_is_looked_at_while_it_runs(named: Callable[[str], str]) -> None:
    library = named("libmpi.so.12.3")
    words = ["/bin/sh", "-c", '"$@"; true', "sh", *opening(library)]
    code = (
        "import subprocess, threading\n"
        f"thread = threading.Thread(target=lambda: subprocess.run({words!r}))\n"
        "thread.start(); thread.join()"
    )
    assert claims(sys.executable, "-c", code) == [(0, library)]


def test_of_a_long_path_that_a_look_has_found_the_end_is_named(named: Callable[[str], str]) -> None:
    long = named("d" * 200 + "/libmpich.so")
    assert claims(*IN_A_CHILD, *opening(long)) == [(3, "..." + long[-196:])]


def test_what_a_rank_says_at_its_exit_counts_more_than_what_its_child_had(
    named: Callable[[str], str],
) -> None:
    childs, own = named("childs/libmpi.so"), named("own/libmpi.so")
    code = f"import subprocess; subprocess.run({opening(childs)!r})"
    assert claims(sys.executable, "-c", f"{code}; import ctypes; ctypes.CDLL({own!r})") == [
        (0, own)
    ]


def test_what_a_rank_that_is_killed_has_started_is_not_named(named: Callable[[str], str]) -> None:
    library = named("libmpi.so.12")
    assert claims("/bin/sh", "-c", '"$@"; kill $$', "sh", *opening(library)) == [
        (-signal.SIGTERM, "")
    ]


@pytest.mark.parametrize("path", ["tab\there/libmpi.so", "\x1b[31m/libmpi.so", "del\x7f/libmpi.so"])
def test_a_library_whose_path_is_no_line_of_text_is_not_named(
    named: Callable[[str], str], path: str
) -> None:
    """Another of the same process is."""
    library = named("shown/libmpi.so")
    both = f"ctypes.CDLL({library!r})"
    assert claims(*IN_A_CHILD, *opening(named(path))) == [(3, "")]
    assert claims(*IN_A_CHILD, *opening(named(path), then=both)) == [(3, library)]


def test_a_library_that_is_only_read_is_not_named(named: Callable[[str], str]) -> None:
    library = named("libmpi.so.12")
    read = f"import mmap; m = mmap.mmap(os.open({library!r}, 0), 0, prot=mmap.PROT_READ)"
    assert claims(*IN_A_CHILD, *opening(named("libother.so"), then=read)) == [(3, "")]


GIVEN = (b"PMI_RANK=0", b"PMI_SIZE=2", b"PMIX_NAMESPACE=ours", b"MPI_LOCALRANKID=0")


def claims_below(*argv: str) -> list[str]:
    """The claim of a rank that was given PMI and has a child."""
    spec = make_spec((*IN_A_CHILD, *argv), own=lambda rank: GIVEN, wants_pmi=True)
    with Job(spec) as job:
        return [event.mpi_library for event in job.run().wait_ended()]


@pytest.mark.parametrize(
    "change",
    [
        [],
        ["-i"],
        ["-u", "PMI_RANK", "-u", "PMI_FD"],
        ["PMIX_MCA_psec=native", "PMI_DEBUG=1", "OMPI_MCA_btl=self", "HYDRA_DEBUG=1"],
    ],
    ids=["nothing", "all is cleared", "some is cleared", "settings"],
)
def test_a_child_with_the_environment_of_its_rank_or_less_counts(
    named: Callable[[str], str], change: list[str]
) -> None:
    library = named("libmpi.so.12")
    assert claims_below("/usr/bin/env", *change, *opening(library)) == [library]


@pytest.mark.parametrize(
    "change",
    [
        "PMI_RANK=1",
        "PMI_FD=0",
        "PMI2_X=1",
        "PMIX_NAMESPACE=another",
        "OMPI_COMM_WORLD_RANK=0",
        "HYDI_CONTROL_FD=7",
        "MPI_LOCALRANKID=1",
        "YOD_OUTER_PMI_RANK=0",
    ],
)
def test_a_child_that_another_launcher_has_given_its_world_does_not_count(
    named: Callable[[str], str], change: str
) -> None:
    assert claims_below("/usr/bin/env", change, *opening(named("libmpi.so.12"))) == [""]


def test_a_rank_that_has_become_another_launchers_does_not_count(
    named: Callable[[str], str],
) -> None:
    words = opening(named("libmpi.so.12"))
    assert claims("/usr/bin/env", "PMI_RANK=1", *words) == [(0, "")]


SHOW_A_TITLE = (
    "f = open('/proc/self/stat').read().rpartition(')')[2].split();"
    " start, end = int(f[47]), int(f[48]); memory = open('/proc/self/mem', 'r+b', 0);"
    " memory.seek(start); memory.write(bytes(end - start))"
)


def test_a_child_that_has_written_over_its_environment_does_not_count(
    named: Callable[[str], str],
) -> None:
    """Nobody can tell whether another launcher has started it."""
    library = named("libmpi.so.12")
    assert claims_below(*opening(library, first=SHOW_A_TITLE)) == [""]


def test_a_child_is_found_among_many(named: Callable[[str], str]) -> None:
    library = named("libmpi.so.12")
    script = 'i=0; while [ $i -lt 20 ]; do sleep 60 & i=$((i + 1)); done; "$@"; exit 3'
    assert claims("/bin/sh", "-c", script, "sh", *opening(library)) == [(3, library)]


@pytest.mark.parametrize(
    ("how", "exit_code"),
    [("_exit", 0), ("kill", -signal.SIGTERM), ("exec", 0), ("child exits", 0)],
)
def test_a_rank_that_ends_otherwise_names_none(
    ending: str, named: Callable[[str], str], how: str, exit_code: int
) -> None:
    assert claims(ending, how, named("libmpi.so.12")) == [(exit_code, "")]


@pytest.mark.parametrize(
    "name",
    [
        "libmpi.so",
        "libmpi.so.40",
        "libmpich.so.12",
        "libmpich_gnu_82.so.3",
        "libmpi_abi.so.1",
        "libmpi_mt.so.4",
        "libmpi_ibm.so.3",
        "libmpi_cray.so.12",
        "libmpi_gnu_123.so.12",
    ],
)
def test_an_mpi_library_is_known_by_its_name(
    ending: str, named: Callable[[str], str], name: str
) -> None:
    library = named(name)
    assert claims(ending, "return", library) == [(0, library)]


@pytest.mark.parametrize(
    "name",
    [
        "libmpi/libother.so",
        "libmpi_cxx.so.40",
        "libmpi_mpifh.so.40",
        "libmpi_usempif08.so.40",
        "libmpi_java.so.40",
        "libmpichcxx.so.12",
        "libmpichfort.so.12",
        "libmpifort.so.12",
        "libmpi",
        "lib-libmpi.so",
    ],
)
def test_what_has_no_mpi_init_is_no_mpi_library(
    ending: str, named: Callable[[str], str], name: str
) -> None:
    assert claims(ending, "return", named(name)) == [(0, "")]


def test_a_linked_library_is_named_before_an_opened_one(
    build: Build, named: Callable[[str], str]
) -> None:
    first, second = named("first/libmpich.so.12"), named("second/libmpi.so.40")
    program = Path(first).parent / "linked"
    subprocess.run(
        ["cc", "-pthread", "-o", program, SOURCES / "ending.c", "-Wl,--no-as-needed", first],
        check=True,
    )
    assert claims(str(program), "return", second) == [(0, first)]


@pytest.mark.parametrize("more", range(3))
def test_of_a_long_path_the_end_is_named(
    ending: str, named: Callable[[str], str], tmp_path: Path, more: int
) -> None:
    fixed = len(os.fsencode(f"{tmp_path}//libmpi.so.12"))
    library = named("x" * (199 - 1 - fixed + more) + "/libmpi.so.12")
    wanted = library if more < 2 else "..." + library[-196:]
    assert claims(ending, "return", library) == [(0, wanted)]


def test_a_library_that_is_closed_meanwhile_breaks_no_exit(
    ending: str, named: Callable[[str], str]
) -> None:
    library, other = named("libmpi.so.12"), named("libother.so")
    spec = make_spec((ending, "closing", library, other), ranks=20)
    with Job(spec) as job:
        job.run()
        assert {(event.wait_status, event.mpi_library) for event in job.wait_ended()} == {
            (0, library)
        }


SCRIBBLE = """if True:
    import ctypes, os, sys
    (line,) = [line for line in open("/proc/self/maps") if "memfd:yodstart" in line]
    first, last = (int(word, 16) for word in line.split()[0].split("-"))
    text = bytes.fromhex(sys.argv[1])
    ctypes.memmove(first, text, len(text))
    os._exit(0)
    """


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (b"/my/own.so", "/my/own.so"),
        (b"/my/\xff.so", "/my/\\xff.so"),
        (b"a" * 199, "a" * 199),
        (b"a" * 200, ""),
        (b"a" * 4096, ""),
        (b"\x1b[31m", ""),
        (b"two\nlines", ""),
    ],
    ids=["text", "bytes", "longest", "too long", "a page", "escape", "lines"],
)
def test_a_claim_of_more_than_a_line_of_text_is_none(text: bytes, claim: str) -> None:
    assert claims(sys.executable, "-S", "-c", SCRIBBLE, text.hex()) == [(0, claim)]


def test_a_rank_has_no_other_ranks_claim(ending: str, named: Callable[[str], str]) -> None:
    libraries = [named(f"{rank}/libmpi.so") for rank in range(3)]
    scribble = (sys.executable, "-S", "-c", SCRIBBLE, (b"a" * 4096).hex())
    spec = make_spec(
        (ending, "return", libraries[0]),
        others=(scribble, (ending, "return", libraries[2]), (ending, "return")),
    )
    with Job(spec) as job:
        job.run()
        claimed = {event.rank: event.mpi_library for event in job.wait_ended()}
        assert claimed == {0: libraries[0], 1: "", 2: libraries[2], 3: ""}


def test_without_a_claims_file_ranks_run_and_claim_nothing(
    ending: str, named: Callable[[str], str]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, before[1]))
    try:
        job = Job(make_spec((ending, "return", named("libmpi.so.12"))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with job:
        job.run()
        assert held_how(job) == [HowHeld.PRELOAD]
        assert [(e.wait_status, e.mpi_library) for e in job.wait_ended()] == [(0, "")]


# --- many --------------------------------------------------------------------


def test_64_ranks_start_hold_go_and_end() -> None:
    spec = make_spec(
        ("/bin/sh", "-c", "echo $YOD_RANK; exit $YOD_RANK"),
        ranks=64,
        own=lambda rank: (b"YOD_RANK=%d" % rank,),
        wants_stdin=True,
        wants_pmi=True,
    )
    with Job(spec) as job:
        job.run()
        assert [job.text(rank) for rank in range(64)] == [f"{rank}\n" for rank in range(64)]
        assert {event.rank: event.wait_status >> 8 for event in job.wait_ended()} == {
            rank: rank for rank in range(64)
        }


def test_a_pct_that_does_not_listen_stops_nobody_else_and_loses_nothing() -> None:
    with Job(make_spec(("/bin/true",), ranks=1000)) as job:
        # The socket fills up before the keeper can report all.
        job.wait_held()
        job.keeper.go()
        job.wait_ended()
        assert len({event.rank for event in job.wait_ended()}) == 1000
