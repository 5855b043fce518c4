"""Files that ranks write to instead of yod."""

from __future__ import annotations

import os
import pwd

import pytest

from tests.support.partition import finish

SAY = ("sh", "-c", "echo out $YOD_RANK; echo err $YOD_RANK >&2")


@pytest.fixture
def directory(tmp_path):
    """In which ranks of any user can write."""
    found = tmp_path / "files"
    found.mkdir()
    found.chmod(0o777)
    return found


def files(directory) -> dict[str, str]:
    return {each.name: each.read_text() for each in directory.iterdir()}


def test_each_rank_has_a_file_of_its_own(anywhere, directory):
    words = ("-sz", "5", "--chdir", str(directory), "-o", "r.%3t")
    assert anywhere.yod(*words, *SAY) == (0, "", "")
    expected = {f"r.00{rank}": f"out {rank}\nerr {rank}\n" for rank in range(5)}
    assert files(directory) == expected
    assert anywhere.yod(*words, "sh", "-c", "echo again") == (0, "", "")
    assert files(directory) == dict.fromkeys(expected, "again\n")


def test_standard_error_may_go_elsewhere_or_alone(anywhere, directory):
    words = ("-sz", "2", "--chdir", str(directory))
    both = ("-o", "%t", "-e", "%t.err")
    assert anywhere.yod(*words, *both, *SAY) == (0, "", "")
    assert files(directory) == {
        **{f"{rank}": f"out {rank}\n" for rank in range(2)},
        **{f"{rank}.err": f"err {rank}\n" for rank in range(2)},
    }
    done = anywhere.yod(*words, "-e", "/dev/null", *SAY)
    assert (done.status, sorted(done.out.split("\n")), done.err) == (
        *(0, ["", "out 0", "out 1"], ""),
    )


def test_ranks_of_a_node_may_share_a_file(anywhere, directory):
    words = ("-sz", "4", "-N", "1", "--chdir", str(directory), "-o", "%n")
    assert anywhere.yod(*words, "sh", "-c", "echo out") == (0, "", "")
    assert files(directory) == {"0": "out\n" * 4}


@pytest.mark.cold
def test_all_that_a_name_can_say(embedded, directory):
    user = pwd.getpwuid(os.getuid()).pw_name
    words = ("--chdir", str(directory), "-o", "%s.%n.%x.%u.%%.%2t")
    assert embedded.yod(*words, *SAY) == (0, "", "")
    assert list(files(directory)) == [f"0.0.sh.{user}.%.00"]


def test_a_step_has_its_number_and_that_of_its_allocation(local, directory):
    words = ("yod", "-o", "%j.%s.%t", "--chdir", str(directory), *SAY)
    assert finish(local.start_command("yodjob", "alloc", "-quiet", *words)) == (0, "", "")
    (name,) = files(directory)
    allocation, step, rank = name.split(".")
    assert allocation.isdecimal() and (step, rank) == ("1", "0")


def test_a_file_that_cannot_be_opened_ends_the_launch_and_no_rank_begins(anywhere, directory):
    words = ("-sz", "3", "--chdir", str(directory), "-o", "none/%t")
    done = anywhere.yod(*words, "sh", "-c", "echo begun >begun")
    assert (done.status, done.out) == (125, "")
    assert "cannot open none/" in done.err and "no such file or directory" in done.err
    assert files(directory) == {}


@pytest.mark.cold
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "out"), "-o out: %t (rank), %n or %N (node) must be in it"),
        (("-e", "out"), "for one file of all ranks write `2> out`"),
        (("-o", "%q.%t"), "output file %q.%t: no code %q; known: %%, %t, %n, %N, %j, %s, %x, %u"),
        (("-o", ""), "-o needs a value"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused(embedded, words, says):
    done = embedded.yod(*words, "true")
    assert (done.status, done.out, done.err.count("\n")) == (125, "", 1)
    assert says in done.err


@pytest.mark.cold
def test_a_full_disk_is_the_ranks_own_affair(embedded, directory):
    (directory / "full0").symlink_to("/dev/full")
    words = ("--chdir", str(directory), "-o", "full%t", "-e", "err.%t")
    done = embedded.yod(*words, "sh", "-c", "echo x || exit 3")
    assert done.status == 3
    assert "I/O error" in files_but(directory, "full0")["err.0"]


def files_but(directory, name: str) -> dict[str, str]:
    return {each.name: each.read_text() for each in directory.iterdir() if each.name != name}


def test_with_tee_output_is_in_the_files_and_shown(anywhere, directory):
    words = ("-sz", "3", "--chdir", str(directory), "--tee", "-o", "%t", "-e", "%t.err")
    for _ in range(2):  # what the files had is lost
        done = anywhere.yod(*words, "--label", *SAY)
        assert done.status == 0
        assert sorted(done.out.splitlines()) == [f"{rank}: out {rank}" for rank in range(3)]
        assert sorted(done.err.splitlines()) == [f"{rank}: err {rank}" for rank in range(3)]
        assert files(directory) == {
            **{f"{rank}": f"out {rank}\n" for rank in range(3)},
            **{f"{rank}.err": f"err {rank}\n" for rank in range(3)},
        }


def test_with_tee_large_output_is_whole_in_both_and_silent_ranks_have_files(anywhere, directory):
    words = ("-sz", "2", "--chdir", str(directory), "--tee", "-o", "%t")
    script = "[ $YOD_RANK = 0 ] && head -c 6000000 /dev/zero | tr '\\0' x"
    done = anywhere.yod(*words, "sh", "-c", script + " || :")
    assert (done.status, done.err, len(done.out)) == (0, "", 6_000_000)
    assert files(directory) == {"0": done.out, "1": ""}


def test_with_tee_a_file_that_cannot_be_written_ends_the_job_by_name(anywhere, directory):
    words = ("-sz", "2", "--chdir", str(directory), "--tee", "-o")
    done = anywhere.yod(*words, "none/%t", "sleep", "60")
    assert done.status == 125
    assert f"--tee {directory}/none/0: no such file or directory" in done.err
    (directory / "full1").symlink_to("/dev/full")
    done = anywhere.yod(*words, "full%t", "sh", "-c", "echo $YOD_RANK; sleep 60")
    assert done.status == 125
    assert done.err.count(f"--tee {directory}/full1: no space left on device") == 1


@pytest.mark.cold
def test_with_tee_each_rank_has_a_file(embedded):
    done = embedded.yod("--tee", "-o", "out.%n", "true")
    assert (done.status, done.out, done.err.count("\n")) == (125, "", 1)
    assert "yod ... | tee out.%n" in done.err
