"""Looking for the steps of a script that is to be written down."""

import subprocess

import pytest

from partition.checkpoint.inotify import Inotify
from partition.savers import script


@pytest.fixture(autouse=True)
def no_time(monkeypatch):
    monkeypatch.setattr(script, "_ANSWER_S", 0.0)


def test_a_yod_that_has_ended_meanwhile_is_not_waited_for():
    ended = subprocess.Popen(["true"])
    ended.wait()
    with Inotify() as inotify:
        script._await_name({ended.pid}, inotify)


def test_a_yod_that_never_has_nodes_is_named():
    with subprocess.Popen(["sleep", "7300"]) as lives:
        try:
            with Inotify() as inotify, pytest.raises(script.NotSavedError) as error:
                script._await_name({lives.pid}, inotify)
        finally:
            lives.kill()
    assert str(error.value) == f"process {lives.pid} (yod) has no nodes yet, and connections"
