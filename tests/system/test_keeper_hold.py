"""The keeper holds each rank at its entry, before any code of the user's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from native.wire.keeper import Hold, HowHeld
from tests.support.keeper_job import Job, make_spec
from tests.support.keeper_programs import (
    SOURCES,
    Build,
    held_how,
)


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


def test_without_its_hold_library_a_rank_is_traced(build: Build, tmp_path: Path) -> None:
    spec = make_spec((build("constructors"),))
    for library in ("", str(tmp_path / "missing.so"), "/usr/lib/with space.so"):
        with Job(spec, hold_library=library) as job:
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


@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("hold", list(Hold))
def test_no_rank_passes_its_entry_while_one_is_on_its_way(
    build: Build, stuck: tuple[str, Path], hold: Hold, is_alone: bool
) -> None:
    program, library = stuck
    # The stuck one is held by preload, which needs its libraries; the others as told.
    others = make_spec((build("constructors"),), ranks=4, others=((program,),), hold=hold)
    first, last = others.programs
    last = type(last)(last.path, last.argv, last.cwd, Hold.AUTO)
    spec = type(others)(
        **{name: getattr(others, name) for name in others.__struct_fields__}
        | {"programs": (first, last), "is_alone": is_alone}
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


@pytest.mark.parametrize("hold", list(Hold))
def test_ranks_that_are_alone_go_when_the_last_is_held(build: Build, hold: Hold) -> None:
    spec = make_spec((build("constructors"),), ranks=40, hold=hold)
    with Job(structs.replace(spec, is_alone=True)) as job:
        assert all(ended.was_released for ended in job.wait_ended())
        job.wait_empty()
        assert len(held_how(job)) == 40
        assert {job.text(rank) for rank in range(40)} == {"preinit\nconstructor\nmain\n"}


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
