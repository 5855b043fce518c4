"""Which worker has which call, and calls as bytes."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.errors import UsageError
from native.frames import Frames
from yod.pilot.function import codec
from yod.pilot.function.pythontask import PythonTask, pythontask
from yod.pilot.function.workers import End, Give, Key, Lose, Start, State, Workers
from yod.pilot.wire import calls, messages

HERE = Key(0)


def test_a_call_waits_for_its_worker_and_the_next_one_finds_it_warm():
    workers = Workers()
    assert workers.want("a", HERE) == [Start(1, HERE)]
    assert workers.came(1) == [Give(1, "a")]
    assert workers.answered(1) == "a"
    assert workers.want("b", HERE) == [Give(1, "b")]
    assert workers.want("c", HERE) == [Start(2, HERE)]
    assert workers.number_of("b") == 1


def test_a_worker_that_dies_loses_its_call_and_no_other():
    workers = Workers()
    workers.want("a", HERE)
    workers.want("b", HERE)
    workers.came(1)
    assert workers.over(1) == [Lose("a", has_begun=True)]
    assert workers.over(2) == [Lose("b", has_begun=False)]
    assert workers.over(2) == []
    assert len(workers) == 0


def test_an_idle_worker_gives_way_to_one_with_other_gpus_on_its_node():
    workers = Workers()
    workers.want("a", Key(0, (0,)))
    workers.came(1)
    workers.answered(1)
    assert workers.want("b", Key(1)) == [Start(2, Key(1))]
    assert workers.want("c", Key(0, (1,))) == [End(1), Start(3, Key(0, (1,)))]
    assert workers.state_of(1) is State.ENDING
    assert workers.over(1) == []


def test_a_worker_that_does_not_speak_any_more_is_ended_once():
    workers = Workers()
    workers.want("a", HERE)
    workers.came(1)
    assert workers.broke(1) == [End(1)]
    assert workers.broke(1) == []
    assert workers.answered(1) == ""
    assert workers.over(1) == [Lose("a", has_begun=True)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60))
def test_every_call_has_one_end_and_a_node_no_more_workers_than_calls_at_a_time(steps):
    workers = Workers()
    alive: list[int] = []
    running: set[str] = set()
    ended: list[str] = []
    most = 0
    for n, (what, which) in enumerate(steps):
        actions = []
        if what == 0:
            running.add(f"c{n}")
            actions = workers.want(f"c{n}", Key(0, (which % 3,)))
        elif alive:
            number = alive[which % len(alive)]
            if what == 1:
                actions = workers.came(number)
            elif what == 2:
                ended += filter(None, [workers.answered(number)])
            else:
                alive.remove(number)
                actions = workers.over(number)
        for action in actions:
            match action:
                case Start(number):
                    alive.append(number)
                case End(number):
                    alive.remove(number)
                    assert workers.over(number) == []
                case Lose(uid):
                    ended.append(uid)
        running -= set(ended)
        most = max(most, len(running))
        assert len(workers) == len(alive) <= most
    assert len(ended) == len(set(ended))


def test_a_call_is_the_same_after_its_passage():
    offset = 5
    payload = codec.pack_call(lambda n, more=0: n + more + offset, (1,), {"more": 2})
    function, args, kwargs = codec.unpack_call(payload)
    assert function(*args, **kwargs) == 8


def test_a_call_takes_the_directories_of_the_applications_modules_along(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    payload = codec.pack_call(len, ("abc",), {})
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    codec.unpack_call(payload)
    assert sys.path[-1] == str(tmp_path)


def test_a_call_of_a_script_for_the_reference_is_taken():
    @pythontask
    def later(n, more=0):
        return n + more

    for text in (later(1, more=2), PythonTask(max, (3, 1))):
        payload = codec.pack({"mode": "task.function", "function": text}, "task a", 1 << 20)
        function, args, kwargs = codec.unpack_call(payload)
        assert function(*args, **kwargs) == 3


def test_source_is_a_call_as_well():
    for entries in ({"mode": "eval", "code": "6 * 7"}, {"mode": "exec", "code": "result = 42"}):
        function, args, kwargs = codec.unpack_call(codec.pack(entries, "task a", 1 << 20))
        assert function(*args, **kwargs) == 42


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"function": 7}, "'function' is 7; it is to be a function"),
        ({"function": len, "args": [sys.stdout]}, "the call cannot be packed: "),
        ({"function": len, "args": ["a" * 5000]}, "the packed call has 5... bytes.*YOD_CALL_BYTES"),
        ({"function": len, "pre_exec": ["true"]}, "'pre_exec' is refused for a function"),
        ({"function": len, "named_env": "/opt/env"}, "'named_env' is refused for a function"),
    ],
)
def test_a_call_that_cannot_be_run_is_refused_with_the_task_and_the_key(entries, told):
    with pytest.raises(UsageError, match=f"^task a: {told}"):
        codec.pack({"mode": "function", **entries}, "task a", 5000)


def test_messages_of_workers_pass_as_they_are():
    frames = Frames(messages.MESSAGE_BYTES_MAX)
    call = calls.Call(7, b"x", "/tmp", {"A": "b"}, "out", "err")
    answer = calls.Answer(7, b"y", "E", "detail", "out", "err", 1.0, 2.0)
    (body,) = frames.add(calls.frame(call))
    assert calls.decode_call(body) == call
    for message in (calls.Here(1, 0, 99), answer):
        (body,) = frames.add(calls.frame(message))
        assert calls.decode_answer(body) == message


def test_long_values_leave_in_several_messages():
    overs = [messages.Over(str(n), "DONE", value=b"x" * (40 << 20)) for n in range(3)]
    assert [len(part) for part in messages.parts(overs, messages.over_bytes)] == [2, 1]
    assert list(messages.parts([], messages.over_bytes)) == []
