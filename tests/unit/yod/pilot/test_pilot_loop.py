"""The thread of a session: what it does for callers, and what they hear when it fails."""

from __future__ import annotations

import pytest

from native.errors import InternalError, UsageError
from yod.pilot.client.loop import Loop


def test_a_call_gives_what_it_returns_or_raises():
    loop = Loop("test")
    assert loop.call(lambda: 7) == 7
    with pytest.raises(UsageError, match="no"):
        loop.call(_refuse)
    assert loop.call(lambda: loop.is_here)
    assert not loop.is_here
    loop.close()
    loop.close()


def test_whoever_waits_for_a_thread_that_has_failed_gets_an_error(monkeypatch):
    monkeypatch.setattr("yod.pilot.client.loop._LOOK_S", 0.01)
    loop = Loop("test")
    loop.post(lambda: 1 // 0)
    with pytest.raises(InternalError, match="the thread of the session has failed"):
        loop.call(lambda: 7)
    loop.close()


def _refuse() -> None:
    raise UsageError("no")
