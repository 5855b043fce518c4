"""The commands of the README and the manual, as users type them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.programs import script
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm

WHERE = "echo $YOD_RANK $YOD_NODE $YOD_NODE_NAME $YOD_LOCAL_RANK $YOD_LOCAL_SIZE $YOD_MEMBER"


def test_hostname_needs_no_configuration(embedded):
    name = os.uname().nodename
    assert embedded.yod("-sz", "4", "hostname") == (0, f"{name}\n" * 4, "")


def test_every_rank_runs_wherever_it_is(anywhere):
    done = anywhere.yod("-sz", "5", "sh", "-c", "echo $YOD_RANK of $YOD_SIZE")
    assert (sorted(done.out.splitlines()), done.err, done.status) == (
        [f"{rank} of 5" for rank in range(5)],
        "",
        0,
    )


def test_one_rank_is_the_default(here):
    assert here.yod("sh", "-c", "echo $YOD_RANK of $YOD_SIZE") == (0, "0 of 1\n", "")


def test_a_list_gives_its_nodes_in_its_order(start_local):
    local = start_local(6, slots=2)
    done = local.yod("-list", "5,1..3", "sh", "-c", WHERE)
    expected = ["0 5 node5 0 1 0", "1 1 node1 0 1 0", "2 2 node2 0 1 0", "3 3 node3 0 1 0"]
    assert (done.status, sorted(done.out.splitlines()), done.err) == (0, expected, "")


def test_a_size_fills_the_slots_of_a_list(start_local):
    local = start_local(4, slots=2)
    done = local.yod("-sz", "3", "-list", "2,0,3", "sh", "-c", WHERE)
    expected = ["0 2 node2 0 2 0", "1 2 node2 1 2 0", "2 0 node0 0 1 0"]
    assert (done.status, sorted(done.out.splitlines()), done.err) == (0, expected, "")


def test_the_embedded_partition_has_any_number_of_slots(embedded):
    done = embedded.yod("-sz", "100", "true")
    assert done == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        ("-l", "1,0", "-t", "-q"),
        ("-n2", "--quiet"),
        ("--list", "1,0", "--timing"),
        ("-size=2", "-timi"),
    ],
)
def test_options_may_be_shortened_and_have_one_or_two_dashes(start_local, words):
    done = start_local(2).yod(*words, "sh", "-c", "echo $YOD_SIZE")
    assert (done.status, done.out) == (0, "2\n2\n"), done.err


def test_a_name_is_shortened_to_four_letters_at_least(embedded):
    said = "yod: -ki: could be -kill; a name is shortened to 4 letters at least\n"
    assert embedded.yod("-ki", "true") == (125, "", said)
    assert embedded.yod("-kill", "--part", "embedded", "true") == (0, "", "")


@pytest.mark.parametrize("letter", ["f", "v", "w", "d", "i", "k", "c"])
def test_a_letter_of_other_launchers_runs_nothing_and_names_ours(embedded, tmp_path, letter):
    hosts = tmp_path / "hosts"
    hosts.write_text("node0\n")
    ran = script(tmp_path / "program", "#!/bin/sh\ntouch ran\n")
    for words in ((f"-{letter}",), (f"-{letter}", "hosts"), (f"-{letter}2",)):
        done = embedded.yod("-np", "2", *words, ran, cwd=tmp_path)
        assert (done.status, done.out) == (125, "")
        (line,) = done.err.splitlines()
        assert line.startswith(f"yod: no option {words[0]} here: ")
    assert hosts.read_text() == "node0\n" and not (tmp_path / "ran").exists()


def test_timing_names_every_phase_and_the_slowest_node(local):
    done = local.yod("-sz", "8", "-timing", "true")
    assert (done.status, done.out) == (0, "")
    lines = [re.split(r"\s+", line) for line in done.err.splitlines()]
    assert [words[1] for words in lines] == [
        *("resolve", "allocate", "form", "load", "start", "run", "end", "release", "total"),
        "slowest",
    ]
    assert all(float(words[2]) >= 0 for words in lines[:-1])
    assert "slowest: node" in done.err
    assert re.search(r"^yod: slowest +node\d .*, the last to start$", done.err, re.MULTILINE)


def test_quiet_keeps_the_exit_status_and_errors(here):
    assert here.yod("-quiet", "sh", "-c", "exit 3") == (3, "", "")
    done = here.yod("-quiet", "-sz", "0", "true")
    assert (done.status, done.out) == (125, "")
    assert "-sz 0" in done.err


def test_file_gets_the_completion_report_behind_what_it_has(here, tmp_path):
    report = tmp_path / "report"
    report.write_text("first\n")
    words = ("-sz", "3", "-file", report, "sh", "-c", "exit $YOD_RANK")
    assert here.yod(*words).status in (1, 2)
    lines = report.read_text().splitlines()
    assert lines[0] == "first"
    assert lines[1].startswith("yod -sz 3 -file ")
    rows = [line.split(None, 7) for line in lines[3:6]]
    assert [row[1] for row in rows] == ["0", "1", "2"]
    assert [row[7] for row in rows] == [
        "ended normally",
        "ended with exit code 1",
        "ended with exit code 2",
    ]
    assert all(row[0] in here.node_names for row in rows)


def test_a_report_file_that_cannot_be_written_fails_no_job(here):
    done = here.yod("-file", "/proc/none/report", "true")
    assert done.status == 0
    assert "/proc/none/report" in done.err and "ended normally" in done.err
    failed = here.yod("-file", "/proc/none/report", "sh", "-c", "exit 3")
    assert (failed.status, failed.err.count("ended with exit code 3")) == (3, 1)


def test_the_program_has_all_words_behind_its_name(here):
    words = ("echo", "-sz", "9", "--help", "-list", "a b", "", "*")
    assert here.yod("-sz", "1", *words) == (0, "-sz 9 --help -list a b  *\n", "")


def test_dry_run_shows_ranks_and_contacts_nobody(embedded, tmp_path):
    load = tmp_path / "job"
    load.write_text("-sz 2 -list 4..6 sh -c true\nhostname\n")
    done = embedded.yod("--dry-run", "--partition", "127.0.0.1:1", load)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("partition: 127.0.0.1:1")
    assert re.fullmatch(r"ranks 0-1 on nodes 4\.\.6: /\S+/sh -c true", lines[1])
    assert re.fullmatch(r"rank 2: /\S+/hostname", lines[2])


def test_help_is_told_on_standard_output(embedded):
    for word in ("-help", "--help", "-h"):
        done = embedded.yod(word)
        assert (done.status, done.err) == (0, "")
        for option in ("-sz", "-list", "-timing", "-file", "--keep-going", "--partition"):
            assert option in done.out


def test_debugging_shows_phases_and_twice_messages(here):
    once = here.yod("-D", "true")
    assert (once.status, once.out) == (0, "")
    assert "allocate -> form" in once.err and "-> done" in once.err
    twice = here.yod("-D", "-D", "true")
    assert "Vote from" in twice.err and "Vote from" not in once.err


def test_an_option_names_the_partition_before_the_environment(local):
    done = local.yod("--partition", "embedded", "sh", "-c", "echo $YOD_NODE_NAME")
    assert done == (0, os.uname().nodename.partition(".")[0] + "\n", "")


def test_a_partition_is_reached_by_address_with_its_key(local):
    env = {"YOD_PARTITION": local.address, "YOD_KEY_FILE": str(local.key_file)}
    done = local.yod("-sz", "4", "sh", "-c", "echo $YOD_NODE", env=env)
    assert (done.status, done.err) == (0, "")


def test_a_site_file_names_the_partition(local, tmp_path):
    site = tmp_path / "cplant-host"
    site.write_text(f"# the partition\nbebopd {local.address}\n")
    env = {
        "YOD_PARTITION": None,
        "CPLANT_HOST_FILE": str(site),
        "YOD_KEY_FILE": str(local.key_file),
    }
    done = local.yod("sh", "-c", "echo $YOD_NODE_NAME", env=env)
    assert done == (0, "node0\n", "")


def test_batch_jobs_have_no_input_and_kill_at_once(here):
    """PBS_ENVIRONMENT says whether somebody sits there; options say it better."""
    batch = {"PBS_ENVIRONMENT": "PBS_BATCH"}
    for words, env, expected in [
        ((), None, "word\n"),
        (("-batch",), None, ""),
        ((), batch, ""),
        (("-interactive",), batch, "word\n"),
        ((), {"PBS_ENVIRONMENT": "PBS_INTERACTIVE"}, "word\n"),
    ]:
        done = here.yod(*words, "cat", input=b"word\n", env=env)
        assert (done.status, done.out) == (0, expected), (words, env, done.err)


def test_a_load_file_is_one_world_of_several_programs(here, tmp_path):
    load = tmp_path / "job.load"
    load.write_text(
        "# comment\n\n"
        f"sh -c '{WHERE}'\n"
        f"  -size 2 sh -c 'echo second; {WHERE}'\n"
        f"-s 1 sh -c '{WHERE}; '\"echo 'a  b'\"\n"
    )
    done = here.yod(load)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    rows = sorted(line.split() for line in lines if len(line.split()) == 6)
    assert [(row[0], row[5]) for row in rows] == [("0", "0"), ("1", "1"), ("2", "1"), ("3", "2")]
    assert lines.count("second") == 2
    assert "a  b" in lines


def test_lines_of_a_load_file_have_their_own_nodes(local, tmp_path):
    load = tmp_path / "job.load"
    load.write_text(f"-list 3,1 sh -c '{WHERE}'\nsh -c '{WHERE}'\n-sz 2 sh -c '{WHERE}'\n")
    done = local.yod("-list", "2,0", load)
    assert (done.status, done.err) == (0, "")
    rows = [line.split()[:2] for line in sorted(done.out.splitlines())]
    assert rows == [["0", "3"], ["1", "1"], ["2", "2"], ["3", "2"], ["4", "2"]]


def test_a_size_beside_a_load_file_of_several_lines_is_ignored_with_a_word(here, tmp_path):
    load = tmp_path / "job.load"
    load.write_text("true\ntrue\n")
    done = here.yod("-sz", "3", load)
    assert done.status == 0
    assert "-sz is ignored" in done.err
    load.write_text("sh -c 'echo $YOD_SIZE'\n")
    assert here.yod("-sz", "2", load) == (0, "2\n2\n", "")


def test_a_program_of_the_current_directory_comes_before_the_path(here, tmp_path):
    script(tmp_path / "hostname", "#!/bin/sh\necho mine\n")
    assert here.yod("hostname", cwd=tmp_path) == (0, "mine\n", "")


def test_the_user_log_gets_one_line_a_launch(here, tmp_path):
    log = tmp_path / "userlog"
    for code in (0, 4):
        here.yod("-sz", "2", "sh", "-c", f"exit {code}", env={"LOGFILENAME": str(log)})
    good, bad = log.read_text().splitlines()
    stamp = r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d"
    assert re.match(rf"{stamp} {stamp} 00:00:\d\d \d{{4}} \S+ /\S+sh, Cplant #\d+, \S+$", good)
    assert "exit code 4" in bad


def test_a_user_log_that_cannot_be_written_is_told_of_and_the_job_goes_on(here, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.local").write_text("")
    for path, reason in [
        (file / "log", "not a directory"),
        (tmp_path / "missing" / "log", "no such file or directory"),
        (tmp_path, "is a directory"),
        (tmp_path / "link", "a symbolic link"),
        ("/dev/full", "no space left on device"),
    ]:
        said = f"yod: LOGFILENAME: {path}: {reason}; this launch is not logged\n"
        words = ("-quiet", "sh", "-c", "echo on; exit 3")
        done = here.yod(*words, env={"LOGFILENAME": str(path)})
        assert done == (3, "on\n", said)
    env = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": None, "LOGFILENAME": None}
    assert here.yod("true", env=env) == (0, "", "")  # nobody asked for that one
    assert not (tmp_path / "missing").exists()


def test_a_home_is_not_made_for_the_user_log(here, tmp_path):
    def launched(**env):
        done = here.yod("true", env={"LOGFILENAME": None, "XDG_STATE_HOME": None, **env})
        assert done == (0, "", "")

    home, state = tmp_path / "home", tmp_path / "state"
    launched(HOME=str(home))
    launched(HOME=str(tmp_path), XDG_STATE_HOME=str(state))
    assert not home.exists() and not state.exists()
    home.mkdir()
    launched(HOME=str(home))
    assert (home / ".local/state/yod/userlog").read_text().count("\n") == 1
    assert (home / ".local").stat().st_mode & 0o777 == 0o700
    state.mkdir()
    launched(XDG_STATE_HOME=str(state))
    assert (state / "yod/userlog").exists()
    # A path that depends on the directory is none; HOME stands in.
    launched(HOME=str(home), XDG_STATE_HOME="state")
    assert (home / ".local/state/yod/userlog").read_text().count("\n") == 2


def test_pingd_shows_who_runs_where(local, place):
    waiting = "echo here; read word"
    with local.start_yod("-sz", "5", "sh", "-c", waiting) as yod:
        for _ in range(5):
            yod.stdout.read(5)
        rows = [line.split(":") for line in local.pingd().splitlines()[1:]]
        assert [row[2] for row in rows] == ["busy", "busy", "free", "free"]
        yod.stdin.close()
        yod.wait(timeout=LIMIT_S)
    rows = [line.split(":") for line in local.pingd().splitlines()[1:]]
    assert {row[2] for row in rows} == {"free"}


def test_two_jobs_run_on_one_partition_at_once(local):
    command = ("-sz", "6", "sh", "-c", "echo up; cat; echo $YOD_JOB_ID")
    with local.start_yod(*command) as one, local.start_yod(*command) as other:
        for yod in (one, other):
            assert yod.stdout.read(3) == b"up\n"
        outputs = [yod.communicate(b"", timeout=LIMIT_S)[0] for yod in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0)
    ids = [{line for line in out.split() if line.isdigit()} for out in outputs]
    assert len(ids[0]) == len(ids[1]) == 1
    assert ids[0] != ids[1]


def test_a_third_job_that_does_not_fit_says_what_is_in_use(start_local):
    local = start_local(2, slots=1)
    with local.start_yod("sh", "-c", "echo up; cat") as yod:
        assert yod.stdout.read(3) == b"up\n"
        done = local.yod("-sz", "2", "true")
        assert done.status == 125
        assert "2 ranks requested, 1 of 2 slots free now" in done.err
        assert "node0" in done.err
        yod.communicate(b"", timeout=LIMIT_S)


def test_exit_statuses_are_a_shells(here):
    for command, status in [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "exit 255"), 255),
        (("sh", "-c", "kill -SEGV $$"), 139),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("no-such-program",), 127),
        (("/etc",), 126),
    ]:
        assert here.yod(*command).status == status, command


def test_the_earliest_failure_decides_and_is_told_first(here, tmp_path):
    """Others that fail because of it do not hide it."""
    text = once_the_others(tmp_path, 4, 2, "trap 'exit 9' TERM", "exit 5")
    done = here.yod(
        "-sz", "4", "sh", "-c", text + "sleep 60 & wait", env={"YOD_KILL_DELAY_S": "0.1"}
    )
    assert done.status == 5
    assert "rank 2" in done.err.splitlines()[0] and "exit code 5" in done.err.splitlines()[0]
    assert "SIGTERM sent to the others" in done.err


def once_the_others(directory: Path, size: int, last: int, do: str, then: str) -> str:
    """A shell's words for each rank: all but one do this, and that one then does that."""
    others = [rank for rank in range(size) if rank != last]
    for rank in others:
        os.mkfifo(directory / f"done-{rank}")
    fifos = " ".join(f"{directory}/done-{rank}" for rank in others)
    wait = f"for fifo in {fifos}; do read word < $fifo; done"
    tell = f"echo done > {directory}/done-$YOD_RANK"
    return f"if [ $YOD_RANK = {last} ]; then {wait}; {then}; fi; {do}; {tell}; "


def test_ranks_that_ignore_the_term_signal_are_killed(here, tmp_path):
    text = once_the_others(tmp_path, 3, 0, "trap '' TERM", "exit 5") + "sleep 60"
    done = here.yod("-sz", "3", "sh", "-c", text, env={"YOD_KILL_DELAY_S": "0.1"})
    assert done.status == 5
    assert "killed by yod (SIGKILL)" in done.err


def test_kill_gives_no_delay(here):
    text = "[ $YOD_RANK = 0 ] && exit 5; sleep 60"
    done = here.yod("-sz", "3", "-kill", "sh", "-c", text, env={"YOD_KILL_DELAY_S": "50"})
    assert done.status == 5


def test_keep_going_lets_the_others_end_by_themselves(here):
    text = "[ $YOD_RANK = 1 ] && exit 5; cat >/dev/null; echo done"
    with here.start_yod("-sz", "3", "--keep-going", "sh", "-c", text) as yod:
        first = yod.stderr.read(4)
        assert first == b"yod:"
        out, err = yod.communicate(b"", timeout=LIMIT_S)
    assert (yod.returncode, out) == (5, b"done\ndone\n")
    told = (first + err).decode().splitlines()
    assert len(told) == 1 and told[0].startswith("yod: rank 1 on ")
    assert told[0].endswith(": ended with exit code 5; the others go on")
