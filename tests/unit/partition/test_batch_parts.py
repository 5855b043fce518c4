"""Parts of batch jobs: output names, what a broker is given, what is shown, what is handed in."""

import os
from time import localtime, strftime

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from native import pattern as patterns
from native.errors import PeerProtocolError, UsageError
from native.frames import Frames
from native.wire import batch, codec
from native.wire.alloc import NodeSpec
from native.wire.base import State
from native.wire.batch import Row
from partition.batch import show
from partition.batch.given import MOST_BYTES, message_of, work_of
from partition.submit.message import read_script, submission, wrapped

ROW = Row(7, 1000, "alice", "a", State.RUNNING, "", 4, ((0, 2),), 2, 100.0, 110.0, 0.0, 0.0, 0, 0)


# -- output ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("yod-%j.out", "yod-17.out"),
        ("%5j-%x", "00017-my job"),
        ("100%%", "100%"),
        ("%99999999999j", "0000000017"),
        ("plain", "plain"),
    ],
)
def test_a_pattern_becomes_a_path(pattern, path):
    patterns.check(pattern)
    assert patterns.expand(pattern, {"%": "%", "j": "17", "x": "my job"}) == path


@pytest.mark.parametrize("pattern", ["%t", "a%5q", "%%%z"])
def test_an_unknown_code_is_refused_with_those_that_are_known(pattern):
    with pytest.raises(UsageError, match="known: %%, %j"):
        patterns.check(pattern)


# -- frames ------------------------------------------------------------------


def framed(*frames):
    return b"".join(len(frame).to_bytes(4, "little") + frame for frame in frames)


def test_frames_are_whole_however_their_bytes_are_cut():
    whole = [b"", b"a", b"bc" * 40, b"", b"d"]
    data = framed(*whole)
    for size in range(1, len(data) + 1):
        frames = Frames(MOST_BYTES)
        found = []
        for start in range(0, len(data), size):
            found += frames.add(data[start : start + size])
        assert found == whole


def test_a_frame_that_is_too_long_is_refused_by_its_head():
    with pytest.raises(PeerProtocolError, match="a frame of 4294967295 bytes"):
        Frames(MOST_BYTES).add(b"\xff" * 4)


@pytest.mark.parametrize("frame", [b"", b"\xc1", msgpack.encode([1]), msgpack.encode({})])
def test_what_is_no_job_and_no_message_is_refused(frame):
    with pytest.raises(PeerProtocolError):
        work_of(frame)
    with pytest.raises(PeerProtocolError):
        message_of(frame)


def test_a_message_that_is_passed_on_is_read():
    message = batch.EndBroker(3)
    assert message_of(codec.encode(message)) == message


# -- what is shown -----------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "exit_status", "signal", "status"),
    [
        (State.COMPLETED, 0, 0, 0),
        (State.FAILED, 3, 0, 3),
        (State.FAILED, 0, 9, 137),
        (State.FAILED, 0, 0, 125),
        (State.CANCELLED, 0, 15, 143),
        (State.CANCELLED, 0, 0, 143),
        (State.TIMEOUT, 0, 15, 124),
        (State.NODE_FAIL, 0, 0, 125),
    ],
)
def test_the_status_of_wait(state, exit_status, signal, status):
    row = replace(ROW, state=state, exit_status=exit_status, signal=signal, ended=120.0)
    assert show.exit_status(row) == status
    assert show.record(row)["exit_status"] == status


def test_every_state_has_a_code_and_a_line():
    assert set(show.CODES) == set(State)
    assert len(set(show.CODES.values())) == len(State)
    for state in State:
        assert show.cells(replace(ROW, state=state), 200.0)[3] == show.CODES[state]


def test_a_job_that_waits_has_its_reason_in_the_place_of_its_nodes():
    reason = "4 ranks\nrequested"
    waits = replace(ROW, state=State.PENDING, nodes=(), node_count=0, began=0.0, reason=reason)
    line = show.cells(waits, 200.0)
    assert line[4:7] == ("0:00", "4", "")
    assert line[7].startswith("(") and "4 ranks" in line[7] and "\n" not in line[7]


def test_a_job_with_a_limit_says_when_it_ends_and_what_is_left_while_it_runs():
    runs = replace(ROW, began=100.0, ended=0.0, time_s=600.0, state=State.RUNNING)
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(700.0))
    assert f"  ends       {at}, in 8:20" in show.paragraph(runs, 200.0)
    assert show.record(runs)["ends"] == 700.0
    for other in (replace(runs, ended=150.0), replace(runs, time_s=0.0), replace(runs, began=0.0)):
        assert show.record(other)["ends"] is None
        assert not any(line.startswith("  ends ") for line in show.paragraph(other, 200.0))


def test_what_has_not_happened_is_null_for_programs():
    found = show.record(ROW)
    assert (found["id"], found["ended"], found["exit_status"]) == ("7", None, None)


# -- what is handed in ---------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"echo a\n", "a script begins with #!"), (b"\x7fELF", "a program"), (b"", "begins with")],
)
def test_what_is_no_script_is_refused(tmp_path, content, text):
    path = tmp_path / "job"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=text):
        read_script([str(path)])


def test_a_script_that_is_not_there_and_a_directory_are_refused(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_script([str(tmp_path / "none")])
    with pytest.raises(UsageError, match="directory"):
        read_script([str(tmp_path)])


def submitted(script, directory=""):
    return submission(script, NodeSpec(1), "", 0.0, str(directory), "out")


def test_a_submission_has_what_its_user_has(tmp_path, monkeypatch):
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.setenv("YOD_JOB_ID", "3.0")
    monkeypatch.setenv("YOD_ALLOCATION", "3")
    monkeypatch.setenv("YOD_PARTITION", "inner:1")
    monkeypatch.setenv("YOD_OUTER_PARTITION", "outer:1")
    message = submitted(wrapped("echo a"), tmp_path)
    task = msgpack.decode(message.task, type=batch.Task)
    assert task.script == b"#!/bin/sh\necho a\n"
    assert task.directory == os.fsencode(tmp_path)
    environment = task.environment
    assert (environment[b"COLOUR"], environment[b"YOD_PARTITION"]) == (b"blue", b"outer:1")
    assert not {b"YOD_JOB_ID", b"YOD_ALLOCATION", b"YOD_OUTER_PARTITION"} & environment.keys()
    assert submitted(wrapped("echo a")).token != message.token


def test_a_submission_that_is_too_large_or_nowhere_is_refused(tmp_path):
    with pytest.raises(UsageError, match=f"at most {batch.TASK_MAX_BYTES}"):
        submitted(wrapped("#" * batch.TASK_MAX_BYTES))
    with pytest.raises(UsageError, match="no such directory"):
        submitted(wrapped("true"), tmp_path / "none")
