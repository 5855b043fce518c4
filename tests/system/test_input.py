"""Standard input for other ranks than rank 0, over one node and several."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.partition import finish

SOME = b"".join(b"line %d\n" % number for number in range(200_000))  # more than all windows


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


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("5", "--stdin: there is no rank 5: the job has ranks 0 to 1"),
        ("every", "--stdin every: all, none, or ranks, as in 0,4..7"),
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
