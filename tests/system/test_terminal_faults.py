"""What may go wrong while yod is the terminal of a job, on several hosts.

Each test is named in tests/terminal_faults.py, which has all such faults, with the schedule of each
in the simulation.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.memory import PATIENT, read_slowly
from tests.support.partition import finish
from tests.support.processes import stopped
from tests.support.programs import script
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.hosts

HOSTS = 3
QUICK = {"YOD_LIVENESS_S": "2", "YOD_END_S": "1"}
SOON = {"YOD_KILL_DELAY_S": "0.2"}
MANY = 10_000  # lines of each rank
REST = "x" * 80  # of each line
ENDLESS_BYTES = 50_000_000
ENDLESS = f"""
import os
os.write(1, b"up\\n")
if os.environ["YOD_RANK"] == "1":
    for n in range(100):
        os.write(1, b"line %d\\n" % n)
else:
    for _ in range({ENDLESS_BYTES} // 100000):
        os.write(1, b"x" * 100000)
"""


@pytest.fixture
def hosts(start_hosts):
    """Hosts that other tests use as well."""
    return start_hosts(HOSTS)


def count_up(yod: subprocess.Popen[bytes], times: int) -> None:
    """Return when so many ranks have said that they are up."""
    read_until(yod.stdout.fileno(), b"up\n", times=times)


def wait_for_nobody(hosts, command: str) -> None:
    """Return when no node runs such a process."""
    wait_until(
        lambda: all(command not in each.processes().values() for each in hosts.hosts[:-1]),
        what=f"the end of all {command!r}",
    )


# -- ranks ------------------------------------------------------------------


def test_ranks_that_ignore_sigterm_are_killed_by_the_second_interrupt(hosts):
    rank = "trap '' TERM; echo up; while :; do sleep 7211; done"
    with hosts.start_yod("-sz", "12", "sh", "-c", rank) as yod:
        count_up(yod, 12)
        yod.send_signal(signal.SIGINT)
        read_until(yod.stderr.fileno(), b"interrupt again")
        while yod.poll() is None:  # one that comes too soon after the first says so
            yod.send_signal(signal.SIGINT)
            try:
                yod.wait(timeout=1.1)
            except subprocess.TimeoutExpired:
                continue
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT
    assert b"killed by yod (SIGKILL)" in err
    wait_for_nobody(hosts, "sleep 7211")


def test_ranks_that_ignore_sigterm_are_killed_where_another_has_failed(hosts):
    rank = "[ $YOD_RANK = 5 ] && exit 4; trap '' TERM; while :; do sleep 7212; done"
    done = hosts.yod("-sz", "12", "sh", "-c", rank, env=SOON)
    assert done.status == 4, done
    assert "rank 5 on node1: ended with exit code 4" in done.err
    wait_for_nobody(hosts, "sleep 7212")


def test_what_ranks_leave_behind_ends_with_the_job(hosts):
    """A grandchild, and a daemon that has forked twice and has a session of its own."""
    rank = "sleep 7213 & (setsid sh -c 'sleep 7214 & exit' &) ; exit 0"
    assert hosts.yod("-sz", "12", "sh", "-c", rank) == (0, "", "")
    wait_for_nobody(hosts, "sleep 7213")
    wait_for_nobody(hosts, "sleep 7214")


def test_the_first_failure_is_told_once_with_its_last_words_and_the_cause_of_the_others(
    hosts, tmp_path
):
    """At once: before any other rank is told to end."""
    rank = "[ $YOD_RANK = 2 ] && { until [ $(ls rank* 2>/dev/null | wc -l) = 11 ]; "
    rank += "do sleep 0.05; done; echo no mesh >&2; exit 3; }; "
    rank += "trap 'echo told to end >&2; trap - TERM; kill $$' TERM; "
    rank += "touch rank$YOD_RANK; sleep 7215 & wait"
    done = hosts.yod("-sz", "12", "--chdir", tmp_path, "sh", "-c", rank, env=SOON)
    assert done.status == 3
    lines = done.err.splitlines()
    first = "yod: rank 2 on node0: ended with exit code 3; the others have 0.2 s to end"
    assert [line for line in lines if line.startswith("yod: ")] == [
        first,
        "yod: SIGTERM sent to the others (--keep-going lets them run)",
        "yod: ranks 0..1,3..11 on nodes 0..2: killed by yod (SIGTERM) because rank 2 failed",
        "yod: rank 2 has last written on standard error:",
        "yod: no mesh",
    ], done
    assert (lines.count("no mesh"), lines.count("told to end")) == (1, 11)
    assert lines.index(first) < lines.index("told to end")


# -- daemons and links -----------------------------------------------------


def test_a_killed_pct_is_named_and_the_others_are_killed_at_yods_request(hosts):
    with hosts.start_yod("-sz", "12", "sh", "-c", "echo up; exec sleep 7216") as yod:
        count_up(yod, 12)
        hosts.pcts[1].kill()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    lines = err.decode().splitlines()
    assert "node 1 (node1) was lost" in lines[0], err
    assert any("lost with node node1" in line for line in lines[1:]), err
    wait_for_nobody(hosts, "sleep 7216")
    hosts.replace_pct(1)


def test_a_job_goes_on_when_bebopd_is_killed_and_says_what_it_could_not_confirm(hosts):
    with hosts.start_yod("-sz", "12", "sh", "-c", "echo up; exec cat") as yod:
        count_up(yod, 12)
        hosts.bebopd.kill()
        done = finish(yod, b"word\n")
    assert (done.status, done.out) == (0, "word\n")
    assert "bebopd" in done.err
    hosts.replace_bebopd()
    wait_until(lambda: set(hosts.states()) == {"free"})


def test_a_stopped_pct_of_another_host_is_a_lost_node(start_hosts):
    """Its parent waits for YOD_LIVENESS_S, and yod for its word: 5 s where nothing else runs."""
    hosts = start_hosts(HOSTS, slots=1, env=QUICK)
    with hosts.start_yod("-sz", "3", "sh", "-c", "echo up; exec sleep 7217", env=QUICK) as yod:
        count_up(yod, 3)
        with stopped(hosts.pcts[2].unix_pid):
            _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    first = err.decode().splitlines()[0]
    assert "node 2 (node2) was lost" in first and "stopped" in first
    wait_for_nobody(hosts, "sleep 7217")
    wait_until(lambda: set(hosts.states()) == {"free"})


def test_a_yod_that_is_stopped_and_continued_loses_no_output(hosts):
    rank = "echo up; read word; seq 20000; echo $word"
    with hosts.start_yod("-sz", "12", "--stdin", "all", "sh", "-c", rank) as yod:
        count_up(yod, 12)
        with stopped(yod.pid):
            yod.stdin.write(b"word\n")
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert out.count(b"\n20000\n") == out.count(b"word\n") == 12
    assert len(out.splitlines()) == 12 * 20001


# -- output ----------------------------------------------------------------


def test_the_lines_of_64_ranks_that_write_much_are_whole_and_in_order(start_hosts):
    hosts = start_hosts(2, slots=32)
    rank = f'echo up; exec seq -f "$YOD_RANK %.0f {REST}" 0 {MANY - 1}'
    with hosts.start_yod("-sz", "64", "sh", "-c", rank, env=PATIENT) as yod:
        out = b"".join(read_slowly(hosts, yod)).decode()
        assert (yod.wait(timeout=LIMIT_S), yod.stderr.read()) == (0, b"")
    seen = [0] * 64
    for text in out.splitlines():
        if text != "up":
            rank, number, rest = text.split()
            assert (int(number), rest) == (seen[int(rank)], REST)
            seen[int(rank)] += 1
    assert seen == [MANY] * 64


@pytest.mark.long
def test_a_gigabyte_of_each_of_four_ranks_comes_through_several_hosts(start_hosts):
    hosts = start_hosts(2, slots=2)
    line = b"0123456789abcdef" * 4 + b"\n"
    rank = f"echo up; yes {line.decode().strip()} | head -c $((16000000 * {len(line)}))"
    with hosts.start_yod("-sz", "4", "sh", "-c", rank) as yod:
        count = sum(map(len, read_slowly(hosts, yod)))
        assert yod.wait(timeout=LIMIT_S) == 0
    assert count == 4 * (16_000_000 * len(line) + len("up\n"))


def test_a_line_without_an_end_costs_no_line_of_another_host(start_hosts):
    hosts = start_hosts(2, slots=1)
    with hosts.start_yod("-sz", "2", sys.executable, "-I", "-S", "-c", ENDLESS) as yod:
        seen, count = b"", 0
        for data in read_slowly(hosts, yod):
            count += len(data)
            seen += data.translate(None, b"x")
        assert yod.wait(timeout=LIMIT_S) == 0
    assert count >= ENDLESS_BYTES
    lines = [word for word in seen.splitlines() if word.startswith(b"line")]
    assert lines == [b"line %d" % number for number in range(100)]


def test_ranks_that_close_their_output_go_on(hosts, tmp_path):
    assert hosts.yod("-sz", "12", "sh", "-c", f"exec >&- 2>&-; : > {tmp_path}/$YOD_RANK") == (
        0,
        "",
        "",
    )
    assert {str(rank) for rank in range(12)} <= {path.name for path in tmp_path.iterdir()}


def test_a_closed_output_of_yod_ends_the_job_with_one_line(hosts):
    done = hosts.yod_under_shell("-sz", "12", "echo", "word", after=">&-")
    said = "the application's output cannot be written: Bad file descriptor\n"
    assert (done.status, done.out) == (125, "")
    assert done.err.startswith(f"yod: {said}") and done.err.count(said) == 1


def test_the_output_of_a_job_of_a_hundredth_of_a_second_is_all_there(hosts):
    rank = "echo out; sleep 0.01; echo end >&2"
    assert hosts.yod("-sz", "12", "sh", "-c", rank) == (0, "out\n" * 12, "end\n" * 12)


def test_nuls_and_bytes_that_are_no_text_come_as_they_are(hosts):
    rank = r"if [ $YOD_RANK = 0 ]; then head -c 300000 /dev/zero; else printf 'caf\351\n'; fi"
    with hosts.start_yod("-sz", "12", "sh", "-c", rank) as yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert (out.count(b"\0"), out.count(b"caf\xe9\n")) == (300_000, 11)


# -- names -----------------------------------------------------------------


def test_names_and_words_that_are_no_text_reach_the_ranks_and_are_shown_as_a_shell_does(
    hosts, tmp_path
):
    name = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9"))
    os.rename(script(tmp_path / "job", '#!/bin/sh\nprintf %s "$1"; exit 5\n'), name)
    with hosts.start_yod("-sz", "3", "-file", tmp_path / "report", name, b"\xe9!") as yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out.count(b"\xe9!")) == (5, 3), err
    assert rf"$'{tmp_path}/caf\351'" in (tmp_path / "report").read_text()


def test_a_script_with_carriage_returns_is_named_as_such(hosts, tmp_path):
    path = script(tmp_path / "job", "#!/bin/sh\r\necho never\r\n")
    done = hosts.yod("-sz", "12", path)
    assert (done.status, done.out) == (127, "")
    (line,) = done.err.splitlines()
    assert "its first line ends in a carriage return: convert it with dos2unix" in line
