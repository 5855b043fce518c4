"""``yod --merge``: the same line of several ranks once, by real processes."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.warm

# The window is longer than what a loaded machine takes to start the ranks of a test.
SLOW = {"YOD_MERGE_S": "30"}


def lines_of(text: str) -> dict[int, list[str]]:
    """The lines of each rank, in order, as merged output has them."""
    found = defaultdict(list)
    for line in text.splitlines():
        ranges, rest = re.fullmatch(r"\[([0-9,-]+)\] (.*)", line).groups()
        for each in ranges.split(","):
            first, _, last = each.partition("-")
            for rank in range(int(first), int(last or first) + 1):
                found[rank].append(rest)
    return found


def test_the_same_line_of_all_ranks_is_shown_once(anywhere):
    script = "echo loaded mesh; echo no luck >&2"
    done = anywhere.yod("-sz", "4", "--merge", "sh", "-c", script, env=SLOW)
    assert done == (0, "[0-3] loaded mesh\n", "[0-3] no luck\n")


def test_a_line_of_one_rank_has_its_number_and_stays_between_the_others(anywhere):
    script = "echo one; [ $YOD_RANK = 2 ] && echo two; echo three"
    done = anywhere.yod("-sz", "4", "--merge", "sh", "-c", script, env=SLOW)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "[0-3] one"
    assert lines_of(done.out) == {
        rank: ["one", "two", "three"] if rank == 2 else ["one", "three"] for rank in range(4)
    }


def test_many_lines_are_all_there_and_each_ranks_in_order(anywhere):
    script = 'seq 1 20000; seq -f "$YOD_RANK %.0f" 1 1000; seq 1 20000'
    done = anywhere.yod("-sz", "4", "--merge", "sh", "-c", script)
    assert (done.status, done.err) == (0, "")
    same = [str(number) for number in range(1, 20001)]
    own = {rank: [f"{rank} {number}" for number in range(1, 1001)] for rank in range(4)}
    assert lines_of(done.out) == {rank: [*same, *own[rank], *same] for rank in range(4)}


def test_a_rank_that_writes_bytes_keeps_them_as_they_are(embedded):
    script = "[ $YOD_RANK = 1 ] && head -c 300000 /dev/zero || echo text"
    with embedded.start_yod("-sz", "3", "--merge", "sh", "-c", script, env=SLOW) as yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert out.count(b"\0") == 300_000
    assert b"[0,2] text\n" in out


def test_a_prompt_appears_while_others_are_silent(embedded):
    script = '[ $YOD_RANK = 0 ] || exec sleep 60; printf "name? "; read x; echo hello $x; kill 0'
    with embedded.start_yod("-sz", "2", "--merge", "-kill", "sh", "-c", script) as yod:
        read_until(yod.stdout.fileno(), b"[0] name? ")
        yod.stdin.write(b"Ann\n")
        yod.stdin.flush()
        read_until(yod.stdout.fileno(), b"hello Ann\n")
        yod.communicate(timeout=LIMIT_S)


def test_with_the_window_of_50_ms_lines_of_a_moment_fold_and_a_lone_one_is_not_held(anywhere):
    script = "while read word; do [ $word = lone ] && [ $YOD_RANK != 3 ] || echo $word; done"
    words = ("-sz", "6", "--merge", "--stdin", "all", "sh", "-c", script)
    with anywhere.start_yod(*words) as yod:

        def told(word: str, ranks: set[int]) -> list[str]:
            """The lines, when these ranks have written the word that all are told."""
            yod.stdin.write(f"{word}\n".encode())
            text = ""
            while {rank for rank, found in lines_of(text).items() if word in found} != ranks:
                text += read_until(yod.stdout.fileno(), b"\n").decode()
            return text.splitlines()

        assert told("lone", {3}) == ["[3] lone"]
        # Ranks of a loaded machine may be more than the window apart: then once more.
        every = (told(f"go{number}", set(range(6))) for number in range(50))
        assert any(len(lines) == 1 for lines in every)
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out, err) == (0, b"", b"")


def test_the_time_is_in_front_and_the_files_have_each_ranks_lines(embedded, tmp_path):
    words = ("--merge", "--timestamp", "--tee", "-o", f"{tmp_path}/%t")
    done = embedded.yod("-sz", "3", *words, "echo", "loaded", env=SLOW)
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]{12} \[0-2\] loaded\n", done.out)
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == ["loaded\n"] * 3


@pytest.mark.parametrize("other", ["--label", "--raw", "--pty"])
def test_what_it_cannot_be_combined_with_is_named(embedded, other):
    done = embedded.yod("--merge", other, "true")
    assert (done.status, done.out, done.err.count("\n")) == (125, "", 1)
    assert f"--merge and {other} exclude each other" in done.err
