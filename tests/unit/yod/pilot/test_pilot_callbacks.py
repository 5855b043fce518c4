"""Callbacks of the application: whom they are for, and who is called no more."""

from __future__ import annotations

import pytest

from yod.pilot.client.callbacks import Callback, Callbacks

UIDS = ("t1", "t2", "t3")


class Heard:
    """A callback for all, and the same one for two."""

    def __init__(self) -> None:
        self.of: list[tuple[str, str]] = []
        self.callbacks = Callbacks()
        self.callbacks.add(Callback(self.hear, "all"))
        self.callbacks.add(Callback(self.hear, "two", frozenset(("t1", "t2"))))

    def hear(self, uid, state, data):
        self.of.append((data, uid))

    def after(self, *removed):
        """Who hears of which one when a callback has been removed."""
        self.callbacks.remove(*removed)
        self.of.clear()
        for uid in UIDS:
            self.callbacks.tell(uid, uid, "DONE")
        return sorted(self.of)


@pytest.fixture
def heard():
    return Heard()


ALL = [("all", uid) for uid in UIDS]


def test_what_was_for_one_thing_is_taken_back_for_that_alone(heard):
    assert heard.after(None, frozenset(["t1"])) == [*ALL, ("two", "t2")]
    assert heard.after(heard.hear, frozenset(["t2", "t3"])) == ALL


def test_another_callback_stays_and_without_a_name_none_does(heard):
    assert heard.after(print) == [*ALL, ("two", "t1"), ("two", "t2")]
    assert heard.after(None) == []


def test_a_callback_is_taken_back_whatever_it_was_for(heard):
    assert heard.after(heard.hear) == []
