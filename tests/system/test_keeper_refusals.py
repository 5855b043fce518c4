"""What the keeper cannot start is named."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from native.wire.keeper import (
    ExecFailed,
    ExecStep,
    Hold,
    HowHeld,
    RankEnded,
    RankHeld,
)
from tests.support.keeper_job import Job, failure_of, make_spec
from tests.support.keeper_programs import (
    HERE,
    NOBODY,
    Build,
    confined,
    held_how,
    needs_root,
    write_script,
)


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


def test_the_only_rank_that_has_no_descriptors_is_told_at_once(build: Build) -> None:
    spec = make_spec(("/bin/true",))
    with Job(spec, keeper=confined(build, "-DOPEN_FILES=13")) as job:
        job.wait_ended()
        (failure,) = job.of(ExecFailed)
        assert isinstance(failure, ExecFailed)
        assert (failure.errno, failure.step) == (errno.EMFILE, ExecStep.STREAMS)


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
