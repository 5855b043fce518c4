"""What a rank starts with under the keeper: signals, limits, its owner's rights."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from native.wire.keeper import (
    KEEP,
    UNLIMITED,
    ExecStep,
    Hold,
    HowHeld,
    KeeperLost,
    KeeperSpec,
)
from tests.support.keeper_job import UNDER_TEST, Job, failure_of, make_spec
from tests.support.keeper_programs import (
    NOBODY,
    Build,
    held_how,
    needs_root,
    write_script,
)


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


def bound_to(*cpus: tuple[int, ...]) -> KeeperSpec:
    spec = make_spec(("/bin/grep", "Cpus_allowed_list", "/proc/self/status"), ranks=len(cpus))
    ranks = tuple(map(lambda rank, own: replace(rank, cpus=own), spec.ranks, cpus))
    return replace(spec, ranks=ranks)


def test_a_rank_is_bound_to_its_processors_and_the_others_to_none() -> None:
    ours = sorted(os.sched_getaffinity(0))
    with Job(bound_to((ours[-1],), (), (ours[0],))) as job:
        job.run()
        seen = [job.text(rank).split()[1] for rank in range(3)]
    assert (seen[0], seen[2]) == (str(ours[-1]), str(ours[0]))
    assert seen[1] not in (seen[0], seen[2]) or len(ours) == 1


def test_a_rank_is_bound_though_its_pct_may_use_less() -> None:
    ours = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {ours[0]})
    try:
        with Job(bound_to((ours[-1],))) as job:
            assert job.run().text().split()[1] == str(ours[-1])
    finally:
        os.sched_setaffinity(0, ours)


def test_processors_that_the_host_has_not_are_an_error() -> None:
    failure = failure_of(bound_to((65535,)))
    assert (failure.errno, failure.step) == (errno.EINVAL, ExecStep.AFFINITY)
    assert failure.explain() == "cannot be bound to processors of its node: EINVAL"


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
