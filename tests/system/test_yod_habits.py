"""Options that users of other launchers look for: times of lines, a directory, no input."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.limits import PATIENT
from tests.support.partition import finish
from tests.support.traces import check_trace
from tests.support.wait import read_until

pytestmark = pytest.mark.warm
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} "


def test_each_line_has_the_time_in_front(anywhere):
    done = anywhere.yod("--timestamp", "-sz", "2", "sh", "-c", "echo one; echo two")
    assert done.status == 0
    assert re.fullmatch(f"({STAMP}(one|two)\n){{4}}", done.out)


def test_the_time_is_before_the_rank_and_on_a_line_without_an_end(anywhere):
    done = anywhere.yod("--timestamp", "--label", "sh", "-c", "echo one; printf two")
    assert re.fullmatch(f"{STAMP}0: one\n{STAMP}0: two", done.out)


def test_ranks_run_in_the_directory_that_is_named_and_the_program_is_found_from_yods(
    anywhere, tmp_path
):
    tmp_path.chmod(0o755)
    program = tmp_path / "where"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    done = anywhere.yod("--chdir", "/usr/../usr/bin", "-sz", "2", "./where", cwd=tmp_path)
    assert (done.status, done.out) == (0, "/usr/bin\n" * 2)
    done = anywhere.yod("--chdir", "/nowhere", "true")
    assert done.status == 127
    assert "cannot enter the directory /nowhere" in done.err


def test_a_loop_that_reads_keeps_its_input(anywhere):
    loop = "while read word; do yod --no-stdin sh -c 'cat; echo got $0' $word; done"
    done = finish(anywhere.start_command("sh", "-c", loop), b"1\n2\n3\n")
    assert (done.status, done.out) == (0, "got 1\ngot 2\ngot 3\n")


# What ranks do within their time they do within a longer one where the machine is slow.
LONGER = (1, 4, 16)


def test_a_time_limit_warns_the_ranks_then_ends_them(anywhere):
    script = "trap 'echo warned' USR1; echo up; while :; do sleep 0.05; done"
    for time_s in LONGER:
        options = ("-time", f"0:{2 * time_s:02}", "-signal", f"USR1@{time_s}", "-sz", "2")
        done = anywhere.yod(*options, "sh", "-c", script)
        if done.out.count("warned") == 2:  # else one was not up, and has died of it
            break
    assert (done.status, done.out.count("warned")) == (124, 2)
    said = f"yod: its time limit of 0:00:{2 * time_s:02} is over; SIGTERM sent to all ranks\n"
    assert said in done.err


def test_ranks_that_ignore_the_end_of_their_time_are_killed(anywhere):
    for time_s in LONGER:
        script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
        done = anywhere.yod("-time", f"0:{time_s:02}", "sh", "-c", script)
        assert done.status == 124
        if done.out:
            break
    assert f"its time limit of 0:00:{time_s:02} is over; its ranks are being killed" in done.err


STAYS = "while :; do sleep 0.05; done"


def test_the_ranks_have_the_time_to_end_that_the_user_names(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    ready = tmp_path / "ready"
    script = f"trap '' TERM; if [ $YOD_RANK = 1 ]; then touch {ready}; {STAYS}; fi; "
    script += f"while ! [ -e {ready} ]; do sleep 0.05; done; exit 7"
    done = anywhere.yod("--grace", "0:01", "-sz", "2", "sh", "-c", script, env=PATIENT)
    assert done.status == 7
    assert "; the others have 1 s to end\n" in done.err
    assert "yod: SIGTERM sent to the others (--keep-going lets them run)\n" in done.err
    assert "yod: the others are being killed\n" in done.err


def test_without_a_time_to_end_nobody_is_asked_to(anywhere):
    limits = ("-time", "0:02", "--grace", "0")
    done = anywhere.yod(*limits, "sh", "-c", STAYS, env=PATIENT)
    assert done.status == 124
    assert "its time limit of 0:00:02 is over; its ranks are being killed\n" in done.err
    assert "SIGTERM" not in done.err


def test_a_rank_that_failed_before_its_time_was_over_decides_the_status(anywhere):
    script = "[ $YOD_RANK = 0 ] && exit 7; while :; do sleep 0.05; done"
    for time_s in LONGER:
        options = ("--keep-going", "-time", f"0:{time_s:02}", "-sz", "2")
        done = anywhere.yod(*options, "sh", "-c", script)
        if done.status == 7:
            break
    assert done.status == 7


def test_a_report_has_a_line_of_json_for_each_launch(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    report = tmp_path / "report"
    anywhere.yod("--report", str(report), "-sz", "2", "true")
    done = anywhere.yod("--report", str(report), "-sz", "2", "sh", "-c", "exit $YOD_RANK")
    assert done.status == 1
    first, second = map(json.loads, report.read_text().splitlines())
    assert (first["state"], first["exit_status"], first["reason"]) == ("COMPLETED", 0, "")
    assert (second["state"], second["exit_status"]) == ("FAILED", 1)
    assert "rank 1" in second["reason"]
    assert [rank["exit_code"] for rank in second["ranks"]] == [0, 1]
    assert {rank["node"] for rank in second["ranks"]} == set(second["nodes"])
    assert second["phases"]["run"] <= second["elapsed_s"] + 1


def test_a_trace_has_the_phases_and_each_rank_on_its_node(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    path = tmp_path / "trace"
    path.write_text("old")
    done = anywhere.yod("--trace", str(path), "-sz", "3", "sh", "-c", "exit $((YOD_RANK != 1))")
    assert done.status == 1
    trace = json.loads(path.read_text())
    assert trace["otherData"]["exit_status"] == 1
    events = trace["traceEvents"]
    check_trace(events)
    phases = [each["name"] for each in events if each.get("cat") == "phase"]
    assert phases[:6] == ["resolve", "allocate", "form", "load", "start", "run"]
    ranks = [each for each in events if each["ph"] == "X" and each["cat"] == "rank"]
    assert sorted(each["args"]["exit_code"] for each in ranks) == [0, 1, 1]


def test_a_trace_has_every_phase_on_every_node(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    path = tmp_path / "trace"
    nodes = len(anywhere.node_names)
    words = ("-N", str(nodes), "-sz", str(2 * nodes), "--arity", "1", "--mpi", "none")
    assert anywhere.yod("--trace", str(path), *words, "sleep", "0.2").status == 0
    events = json.loads(path.read_text())["traceEvents"]
    check_trace(events)
    spans = [each for each in events if each["ph"] == "X"]
    of_yod = {each["name"]: each for each in spans if each["cat"] == "phase"}
    tracks: dict[int, dict[str, dict]] = {}
    for each in spans:
        if each["cat"] == "node":
            tracks.setdefault(each["pid"], {})[each["name"]] = each
    assert len(tracks) == nodes
    for track in tracks.values():
        assert track.keys() == {"form", "load", "start", "wire-up", "hold", "run", "end"}
        assert not any("cut_short" in each["args"] for each in track.values())
        assert track["form"]["ts"] >= of_yod["form"]["ts"]
        assert track["run"]["dur"] >= 200_000
    slowest = [
        name for track in tracks.values() for name in track if "slowest" in track[name]["args"]
    ]
    assert {"form", "start"} <= set(slowest)
    assert len(slowest) == len(set(slowest))  # of each phase one node


def test_a_trace_of_a_launch_that_fails_shows_which_phase_was_cut_short(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    path = tmp_path / "trace"
    script = tmp_path / "script"
    script.write_text("#!/no/interpreter\n")
    script.chmod(0o755)
    assert anywhere.yod("--trace", str(path), "-sz", "2", str(script)).status in (126, 127)
    events = json.loads(path.read_text())["traceEvents"]
    check_trace(events)
    cut = {each["name"] for each in events if each.get("args", {}).get("cut_short")}
    assert cut == {"start"}


def test_a_trace_has_no_phases_of_a_node_that_is_lost(start_local, tmp_path):
    partition = start_local(3)
    path = tmp_path / "trace"
    words = ("-N", "3", "--mpi", "none", "sh", "-c", "echo up; sleep 600")
    with partition.start_yod("--trace", str(path), *words) as yod:
        read_until(yod.stdout.fileno(), b"up\nup\nup\n")
        partition.pcts[2].kill()
        assert finish(yod).status == 125
    partition.replace_pct(2)
    events = json.loads(path.read_text())["traceEvents"]
    check_trace(events)
    names = {
        each["pid"]: each["args"]["name"]
        for each in events
        if each["ph"] == "M" and each["name"] == "process_name"
    }
    ended = [each for each in events if each.get("cat") == "node" and each["name"] == "end"]
    assert [names[each["pid"]] for each in ended] == ["node0 (node 0)", "node1 (node 1)"]
    cut = {each["name"] for each in events if each.get("args", {}).get("cut_short")}
    assert cut == {"run"}


@pytest.mark.cold
def test_a_trace_that_cannot_be_written_is_named(embedded, tmp_path):
    done = embedded.yod("--trace", str(tmp_path / "none" / "trace"), "true")
    assert (done.status, done.err.count("\n")) == (0, 1)
    assert "/none/trace: no such file or directory; there is no trace" in done.err


@pytest.mark.cold
def test_a_report_that_cannot_be_written_is_named(embedded, tmp_path):
    done = embedded.yod("--report", str(tmp_path / "none" / "report"), "true")
    assert "/none/report: no such file or directory; this launch is not in it" in done.err


@pytest.mark.cold
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("-time", "soon"), "-time soon: no time above 0"),
        (("--grace", "soon"), "--grace soon: no time; use minutes"),
        (("-signal", "USR1@5"), "-signal USR1@5: only with -time T"),
        (("-time", "1", "-signal", "FOO@5"), "no signal FOO"),
        (("-time", "1", "-signal", "USR1"), "-signal USR1: as USR1@60"),
        (("-time", "0:05", "-signal", "USR1@5"), "-signal USR1@5: the limit is 5 s"),
    ],
)
def test_wrong_times_get_one_line(embedded, options, text):
    done = embedded.yod(*options, "true")
    assert (done.status, done.out, done.err.count("\n")) == (125, "", 1)
    assert text in done.err


@pytest.mark.cold
def test_times_and_raw_bytes_exclude_each_other(embedded):
    done = embedded.yod("--timestamp", "--raw", "true")
    assert (done.status, done.err) == (125, "yod: --timestamp and --raw exclude each other\n")


@pytest.mark.cold
def test_a_dry_run_draws_the_cores_of_each_rank(embedded):
    done = embedded.yod("-sz", "1", "--bind", "core", "--dry-run", "true")
    assert done.status == 0
    assert "binding, if nobody else has cores here:\n  socket 0, NUMA node" in done.out
    cpus = embedded.yod("--bind", "core", "printenv", "YOD_RANK_CPUS").out.strip()
    assert done.out.endswith(f"  rank 0: processors {cpus}\n")
    assert "binding" not in embedded.yod("--bind", "none", "--dry-run", "true").out


@pytest.mark.cold
def test_what_binds_nothing_is_refused_with_what_does(embedded):
    done = embedded.yod("--bind", "board", "true")
    assert (done.status, done.err) == (
        125,
        "yod: --bind board: core (or rank), socket, numa or none\n",
    )


def test_a_dry_run_in_a_partition_says_who_chooses(local):
    done = local.yod("--bind", "core", "--dry-run", "true")
    assert "the lowest that are free on its node\n" in done.out


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 3"), 1),
        (("sh", "-c", "kill -SEGV $$"), 1),
        (("./nothing-of-that-name",), 2),
        (("--chdir", "/nowhere", "true"), 2),
    ],
)
def test_the_exit_status_is_that_of_cplants_yod_where_that_is_asked_for(anywhere, words, status):
    assert anywhere.yod("--exit=cplant", *words).status == status
