"""The keeper tells which MPI library a rank and its children have."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from native.wire.keeper import (
    Hold,
    HowHeld,
)
from tests.support.keeper_job import Job, make_spec
from tests.support.keeper_programs import (
    SOURCES,
    Build,
    held_how,
)


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

    It stays as long again as it took to get there since now, and a second; and then until the
    keeper sleeps: one that had no processor meanwhile looks late.
    """
    code = (
        f"{first}; import ctypes, os, time; ctypes.CDLL({library!r}); {then};"
        f" time.sleep(time.monotonic() - {time.monotonic()} + 1)\n{UNTIL_THE_KEEPER_SLEEPS}"
    )
    return (sys.executable, "-S", "-c", code)


UNTIL_THE_KEEPER_SLEEPS = """
def stat(pid): return open(f"/proc/{pid}/stat").read()
keeper = os.getppid()
while "(yod-keeper)" not in stat(keeper): keeper = int(stat(keeper).rpartition(")")[2].split()[1])
while stat(keeper).rpartition(")")[2].split()[0] != "S": time.sleep(0.01)
"""


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
    (line,) = [line for line in open("/proc/self/maps") if "memfd:yodhold" in line]
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
