"""Programs of tasks that talk by a pilot's channels, by the classes of radical.utils."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError
from tests.support.leaks import command_line, marked
from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S, wait_until

RADICAL = ROOT / ".venv-radical" / "bin" / "python"


@pytest.fixture
def tmgr(session):
    return rp.TaskManager(session)


@pytest.fixture
def channels(session, tmgr):
    if not RADICAL.exists():
        pytest.skip("radical.utils is not there: tests/setup")

    def pilot(*names):
        found = rp.PilotManager(session).submit_pilots(
            {"cores": 4, "runtime": 5, "app_comm": list(names)}
        )
        tmgr.add_pilots(found)
        return found

    return pilot


def python(text, **entries):
    lines = f"import os, sys\nimport radical.utils as ru\n{text}"
    return rp.TaskDescription(
        {"executable": str(RADICAL), "arguments": ["-c", lines], "literal": True, **entries}
    )


def directory_of(tmgr):
    """Where the sockets of its pilot's channels are."""
    said = tmgr.submit_tasks({"executable": "printenv", "arguments": ["RP_WORK_QUEUE_IN"]})
    assert said.wait(timeout=LIMIT_S) == rp.DONE, said.reason
    return Path(said.stdout.removeprefix("ipc://").strip()).parent


def bridge(place):
    """The process that serves channels."""
    found = [pid for pid in marked(place.mark) if "pilot.channel.bridge" in command_line(pid)]
    return found[0] if found else 0


PUT = """
work = ru.Putter("work", os.environ["RP_WORK_QUEUE_IN"])
for n in range(0, 100, 4):
    work.put([{"n": n + k} for k in range(4)])
work.put("other", qname="late")
"""
GET = """
work = ru.Getter("work", os.environ["RP_WORK_QUEUE_OUT"])
done = ru.Putter("done", os.environ["RP_DONE_QUEUE_IN"])
while (got := work.get()) != ["over"]:
    (one,) = got
    done.put([[one["n"], os.environ["RP_TASK_ID"]]])
"""
END = """
work = ru.Putter("work", os.environ["RP_WORK_QUEUE_IN"])
done = ru.Getter("done", os.environ["RP_DONE_QUEUE_OUT"])
every = [done.get()[0] for _ in range(100)]
work.put(["over"] * 2)
late = ru.Getter("work", os.environ["RP_WORK_QUEUE_OUT"]).get(qname="late")
print(sorted(n for n, _ in every) == list(range(100)), late)
"""


def test_tasks_put_and_get_each_message_once_whoever_begins_first(channels, tmgr, session):
    channels("work_queue", "done_queue")
    getters = tmgr.submit_tasks([python(GET), python(GET)])
    end = tmgr.submit_tasks(python(END))
    tmgr.wait_tasks(state=rp.AGENT_EXECUTING, timeout=LIMIT_S)
    putter = tmgr.submit_tasks(python(PUT))
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 4, (end.stderr, putter.stderr)
    assert end.stdout == "True ['other']\n" and not any(each.stderr for each in getters)


HEAR = """
news = ru.Subscriber("news", os.environ["RP_NEWS_PUBSUB_OUT"], topic="mine")
ready = ru.Putter("ready", os.environ["RP_READY_QUEUE_IN"])
ready.put("here")
heard = []
while not heard or heard[-1][1] != "end":
    topic, said = news.get_nowait(timeout=50)
    if topic:
        heard.append((topic, said))
    else:
        ready.put("here")
print(heard)
"""
SAY = """
ready = ru.Getter("ready", os.environ["RP_READY_QUEUE_OUT"])
news = ru.Publisher("news", os.environ["RP_NEWS_PUBSUB_IN"])
for _ in range(20):  # it hears what is said when its subscription has come
    ready.get()
news.put("other", {"n": 0})
news.put("mine", {"n": 1})
news.put("mine", "end")
"""


def test_a_subscriber_hears_its_topic_alone(channels, tmgr):
    channels("news_pubsub", "ready_queue")
    hear, _ = tmgr.submit_tasks([python(HEAR), python(SAY)])
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 2, hear.stderr
    assert hear.stdout == "[('mine', {'n': 1}), ('mine', 'end')]\n"


def test_a_message_does_not_go_to_a_getter_that_was_killed_while_it_waited(channels, tmgr):
    channels("work_queue")
    get = 'got = ru.Getter("work", os.environ["RP_WORK_QUEUE_OUT"]); print(got.get(), flush=True)'
    dead = tmgr.submit_tasks(python(f"{get}\nos.kill(os.getpid(), 9)"))
    one = 'ru.Putter("work", os.environ["RP_WORK_QUEUE_IN"]).put({n})'
    tmgr.submit_tasks(python(one.format(n=1)))
    assert dead.wait(timeout=LIMIT_S) == rp.FAILED and dead.stdout == "[1]\n"
    waits = tmgr.submit_tasks(python(f'open("up", "w")\n{get}'))
    wait_until(lambda: os.path.exists(os.path.join(waits.sandbox, "up")))
    waits.cancel()
    assert waits.wait(timeout=LIMIT_S) == rp.CANCELED
    alive = tmgr.submit_tasks([python(get), python(one.format(n=2))])[0]
    assert alive.wait(timeout=LIMIT_S) == rp.DONE and alive.stdout == "[2]\n"


FILL = """
work = ru.Putter("work", os.environ["RP_WORK_QUEUE_IN"])
for n in range(200):
    work.put(str(n) + "." * 1000)
import time
time.sleep(600)  # what the queue has no room for is still here
"""
DRAIN = """
work = ru.Getter("work", os.environ["RP_WORK_QUEUE_OUT"])
print([int(work.get()[0].strip(".")) for _ in range(200)] == list(range(200)))
"""


def test_what_a_queue_has_no_room_for_stays_with_who_put_it_and_comes_in_order(
    session, tmgr, channels, monkeypatch
):
    monkeypatch.setenv("YOD_CHANNEL_BYTES", "4096")
    channels("work_queue")
    fill, drain = tmgr.submit_tasks([python(FILL), python(DRAIN)])
    assert drain.wait(timeout=LIMIT_S) == rp.DONE and drain.stdout == "True\n"
    fill.cancel()
    assert fill.wait(timeout=LIMIT_S) == rp.CANCELED


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_reaches_no_channel(channels, tmgr, session):
    channels("work_queue")
    directory = directory_of(tmgr)
    assert directory.stat().st_mode & 0o777 == 0o700
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    words = [*nobody, "/usr/bin/python3", "-c", connect, directory / "work_queue.in"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr


def test_channels_end_with_their_pilot_and_leave_nothing(place, channels, tmgr, session):
    pilot = channels("work_queue")
    directory = directory_of(tmgr)
    wait_until(lambda: sorted(os.listdir(directory)) == ["work_queue.in", "work_queue.out"])
    pilot.cancel()
    assert pilot.wait(timeout=LIMIT_S) == rp.CANCELED
    wait_until(lambda: not directory.exists() and not bridge(place))


def test_channels_end_with_an_agent_that_is_killed(place, channels, tmgr, session):
    pilot = channels("work_queue")
    directory = directory_of(tmgr)
    os.kill(pilot.unix_pid, signal.SIGKILL)
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    wait_until(lambda: not directory.exists() and not bridge(place))


def test_a_pilot_whose_channels_are_lost_fails_and_says_so(place, channels, tmgr, session):
    pilot = channels("work_queue")
    directory = directory_of(tmgr)
    os.kill(bridge(place), signal.SIGKILL)
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert pilot.reason == "its channels are lost: killed by SIGKILL"
    wait_until(lambda: not directory.exists())


def test_channels_are_refused_where_their_sockets_would_not_be_those_of_the_nodes(session):
    pmgr = rp.PilotManager(session)
    with pytest.raises(UsageError, match=r"'app_comm' is refused: .* slurm\.here are others"):
        pmgr.submit_pilots({"resource": "slurm.here", "nodes": 1, "app_comm": ["work_queue"]})


def test_channels_without_pyzmq_say_what_they_need(session, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    pmgr = rp.PilotManager(session)
    with pytest.raises(UsageError, match=r"'app_comm' needs pyzmq: pip install 'yod\[pilot\]'"):
        pmgr.submit_pilots({"app_comm": ["work_queue"]})
