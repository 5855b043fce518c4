"""`yodjob attach --ranks`: what chosen ranks write, seen from elsewhere."""

from __future__ import annotations

import signal

import pytest

from tests.support.partition import finish
from tests.support.wait import LIMIT_S, wait_until
from tests.system.test_stack import ids

pytestmark = pytest.mark.warm

SAYS = "until [ -e over ]; do echo out $YOD_RANK; echo err $YOD_RANK >&2; sleep 0.05; done; exit 3"


def follow(partition, *words: str):
    return partition.start_yodjob("attach", *words)


@pytest.fixture
def job(anywhere, tmp_path):
    """A job that runs until the file is there, and its id."""
    tmp_path.chmod(0o777)
    words = ("-sz", "3", "--keep-going", "--chdir", str(tmp_path), "sh", "-c", SAYS)
    with anywhere.start_yod(*words) as yod:
        wait_until(lambda: ids(anywhere))
        yield ids(anywhere)[0]
        (tmp_path / "over").touch()
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 3


def test_one_rank_is_shown_as_it_writes_until_the_job_ends(anywhere, job, tmp_path):
    with follow(anywhere, "--ranks", "1", "--follow", job) as one:
        assert [one.stdout.readline() for _ in range(3)] == [b"out 1\n"] * 3
        (tmp_path / "over").touch()
        done = finish(one)
    assert done.status == 3, done
    assert set(done.out.splitlines()) <= {"out 1"} and set(done.err.splitlines()) == {"err 1"}


def test_several_have_their_ranks_in_front_and_who_leaves_ends_nothing(anywhere, job):
    for words, ranks in ((("--ranks", "0,2"), "02"), (("--follow",), "012")):
        with follow(anywhere, *words, job) as some:
            expected = {f"{rank}: out {rank}\n".encode() for rank in ranks}
            seen = set()
            while seen != expected:
                seen.add(some.stdout.readline())
                assert seen <= expected
            some.send_signal(signal.SIGINT)
            assert finish(some).status == -signal.SIGINT
    assert ids(anywhere) == [job]


def test_ranks_that_are_not_there_are_refused(anywhere, job):
    done = finish(follow(anywhere, "--ranks", "2..4", job))
    assert (done.status, done.out) == (1, "")
    assert done.err == f"yodjob: {job}: no ranks from 2 on: it has 3\n"


def test_a_command_that_is_stopped_does_not_hold_the_job_up(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    script = "until [ -e go ]; do echo up; sleep 0.05; done; head -c 3000000 /dev/zero"
    words = ("--chdir", str(tmp_path), "sh", "-c", script)
    with anywhere.start_yod(*words) as yod:
        wait_until(lambda: ids(anywhere))
        with follow(anywhere, "--ranks", "0", ids(anywhere)[0]) as slow:
            assert slow.stdout.readline() == b"up\n"
            slow.send_signal(signal.SIGSTOP)
            (tmp_path / "go").touch()
            shown, _ = yod.communicate(timeout=LIMIT_S)
            slow.kill()
            slow.communicate()
    assert (yod.returncode, shown.count(b"\0")) == (0, 3_000_000)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ranks", "three", "1"), "--ranks three: ranks, as in 3 or 0,4..7"),
        (("--follow", "local.999"), "there is no such job of yours on this host"),
    ],
)
def test_what_cannot_be_followed_gets_one_line(embedded, words, says):
    done = finish(follow(embedded, *words))
    assert done.status != 0 and done.err.count("\n") == 1 and says in done.err
