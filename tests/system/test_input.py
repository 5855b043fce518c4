"""Standard input for other ranks than rank 0, over one node and several."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from tests.support.partition import finish
from tests.support.wait import LIMIT_S, read_until

SOME = b"".join(b"line %d\n" % number for number in range(200_000))  # more than all windows


SHARED = b"".join(b"task %d\n" % number for number in range(500))


def given(partition, *words: str, data: bytes = b"a\nb\n"):
    return finish(partition.start_yod(*words), data)


def test_all_ranks_get_all_of_the_input(anywhere):
    done = given(anywhere, "-sz", "5", "--stdin", "all", "md5sum", data=SOME)
    digest = hashlib.md5(SOME).hexdigest()
    assert (done.status, done.out) == (0, f"{digest}  -\n" * 5), done.err


def test_only_the_ranks_that_are_named_read(anywhere):
    done = given(anywhere, "-sz", "5", "--label", "--stdin", "4,1..2", "cat")
    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == ["1: a", "1: b", "2: a", "2: b", "4: a", "4: b"]


def test_a_rank_that_closes_its_input_holds_the_others_up_no_longer(anywhere):
    text = "case $YOD_RANK in 0) exec <&-;; 3) read line;; *) exec md5sum;; esac"
    done = given(anywhere, "-sz", "5", "--stdin", "all", "sh", "-c", text, data=SOME)
    assert (done.status, done.out.count(hashlib.md5(SOME).hexdigest())) == (0, 3), done.err


@pytest.mark.warm
def test_ranks_that_share_the_input_have_each_line_once_and_whole(anywhere):
    done = given(anywhere, "-sz", "5", "--stdin", "shared", "cat", data=SHARED)
    assert (done.status, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == sorted(SHARED.decode().splitlines())


@pytest.mark.warm
def test_shared_lines_are_whole_for_a_reader_of_single_bytes(here):
    loop = 'while read -r word rest; do echo "$word $rest"; done'
    done = given(here, "-sz", "4", "--stdin", "shared", "sh", "-c", loop, data=SHARED)
    assert sorted(done.out.splitlines()) == sorted(SHARED.decode().splitlines()), done.err


@pytest.mark.warm
def test_a_rank_that_is_busy_gets_no_second_line_while_others_ask(anywhere, tmp_path):
    """The rank with the first line waits until all the others have been read."""
    loop = f"""
while read -r line; do
    echo $line
    if [ $line = first ]; then while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; fi
done"""
    words = ("-sz", "3", "--stdin", "shared", "sh", "-c", loop)
    with anywhere.start_yod(*words, stdin=subprocess.PIPE) as yod:
        yod.stdin.write(b"first\n" + b"other\n" * 50)
        yod.stdin.flush()
        seen = read_until(
            yod.stdout.fileno(), b"\n", times=50
        )  # one of them may wait for the rank that is busy
        (tmp_path / "go").touch()
        rest, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert sorted((seen + rest).splitlines()) == sorted([b"first", *[b"other"] * 50])


@pytest.mark.warm
def test_what_a_rank_has_not_read_goes_to_another_one(anywhere):
    text = "case $YOD_RANK in 0|3) exec <&-; echo closed;; *) exec cat;; esac"
    words = ("-sz", "5", "--stdin", "shared", "sh", "-c", text)
    with anywhere.start_yod(*words, stdin=subprocess.PIPE) as yod:
        read_until(yod.stdout.fileno(), b"closed\n", times=2)
        out, err = yod.communicate(SHARED, timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert sorted(out.splitlines()) == sorted(SHARED.splitlines())


@pytest.mark.warm
def test_a_shared_line_of_a_megabyte_and_bytes_that_are_no_text_come_through(here):
    line = b"\0\xff" * 500_000 + b"\n"
    program = "import sys; print(*map(len, sys.stdin.buffer))"
    words = ("-sz", "3", "--stdin", "shared", sys.executable, "-c", program)
    done = given(here, *words, data=line + b"x\n" + b"\0no end")
    assert done.status == 0, done.err
    assert sorted(map(int, done.out.split())) == [2, 7, len(line)]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("5", "--stdin: there is no rank 5: the job has ranks 0 to 1"),
        ("every", "--stdin every: all, shared, none, or ranks, as in 0,4..7"),
    ],
)
def test_ranks_that_are_not_there_are_refused(here, what, why):
    assert here.yod("-sz", "2", "--stdin", what, "cat") == (125, "", f"yod: {why}\n")


def test_input_for_nobody_is_left_to_others(here):
    assert given(here, "-sz", "2", "--stdin", "none", "cat") == (0, "", "")


def test_ranks_have_the_variables_of_another_launcher_where_it_is_asked_for(anywhere):
    text = "echo $SLURM_PROCID $SLURM_NTASKS $RANK $WORLD_SIZE $PALS_RANKID"
    done = anywhere.yod("-sz", "3", "--as", "slurm,torch", "sh", "-c", text)
    lines = sorted(done.out.splitlines())
    assert (done.status, lines) == (0, [f"{rank} 3 {rank} 3" for rank in range(3)]), done.err
    assert anywhere.yod("sh", "-c", "echo ${SLURM_PROCID-none}").out == "none\n"
