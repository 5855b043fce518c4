"""Profiles of executors' calls, and what pictures make of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import yod.pilot as rp
from yod.pilot.analysis.checker import check
from yod.pilot.analysis.trace import events_of
from yod.pilot.plot.load import load
from yod.pilot.plot.page import page
from yod.pilot.plot.view import View
from yod.pilot.profile.reader import read

LIMIT_S = 60.0


def raises(key):
    raise KeyError(key)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def test_calls_of_an_executor_are_in_its_profile_and_in_the_pictures(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rp.Executor(2) as executor:
        path = executor.path
        assert sum(executor.map(abs, range(100), chunksize=10)) == 4950
        assert executor.submit(os.getpid, resource_dict={"cores": 2}).result(LIMIT_S)
        with pytest.raises(KeyError):
            executor.submit(raises, "key").result(LIMIT_S)
        with pytest.raises(rp.WorkerLost):
            executor.submit(killed).result(LIMIT_S)
    files = read(path)
    assert check(files, Path(path).name) == []
    events = [record.event for record in files["executor.0000.prof"]]
    assert [events.count(each) for each in ("call_asked", "call_start", "call_stop")] == [
        13,
        12,
        12,
    ]
    assert events.count("call_lost") == 1
    view = View(load(path))
    assert view.wrong == []
    assert len(view.story.calls) == 12
    assert {call.worker.rpartition(".")[0] for call in view.story.calls} == {"executor.0000"}
    assert 0 < view.in_calls <= view.totals["exec_cmd"]
    assert max(view.concurrency["in calls"]) > 0
    assert sum(view.rates["calls"]) > 0
    assert "12 calls of executors" in page(view)
    calls = [each for each in events_of(view.story) if each.get("cat") == "call"]
    assert len(calls) >= 12
