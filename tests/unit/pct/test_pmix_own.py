"""The PMIx server of a world of one node answers what a PCT would ask of other nodes."""

from __future__ import annotations

import os

import pytest

from pct.pmix_server.keys import Code
from pct.pmix_server.own import NO_SPAWN, Host
from pct.pmix_server.plain import (
    PMIX,
    AbortJob,
    Answer,
    Enter,
    FenceDone,
    GetTable,
    Joined,
    KeyValue,
    LookupNames,
    NamedProcess,
    PublishNames,
    SpawnPrograms,
    Table,
    UnpublishNames,
)

WHO = NamedProcess("w", 0)


@pytest.fixture
def said():
    """Both ends of the pipe that the server has for the user."""
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK)
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


@pytest.fixture
def host(said):
    return Host(said[1])


def asked(host, *messages):
    for message in messages:
        host.send(message)
    return host.receive()


def test_a_fence_of_one_node_is_over_when_its_ranks_are_in(host):
    assert asked(host, Joined(WHO), Enter(4, PMIX, (WHO,), b"data")) == [
        FenceDone(4, Code.SUCCESS, b"data")
    ]


def test_names_are_found_until_they_are_taken_back(host):
    pair = KeyValue(b"port", b"value")
    published = asked(host, PublishNames(1, WHO, (pair,), False), LookupNames(2, (b"port",), False))
    assert published == [Answer(1, Code.SUCCESS, ()), Answer(2, Code.SUCCESS, (pair,))]
    gone = asked(host, UnpublishNames(3, (b"port",)), LookupNames(4, (b"port",), False))
    assert gone == [Answer(3, Code.SUCCESS, ()), Answer(4, Code.NOT_FOUND, ())]


def test_what_needs_a_pct_is_refused_and_nobody_waits_for_it(host):
    answers = asked(
        host, SpawnPrograms(1, WHO, ()), GetTable(2, ("w",)), AbortJob(3, WHO, 7, "text")
    )
    assert answers == [Answer(1, Code.NOT_SUPPORTED, ()), Table(2, ()), Answer(3, 0, ())]


def test_the_user_is_told_once_why_no_ranks_are_started(host, said):
    asked(host, SpawnPrograms(1, WHO, ()), SpawnPrograms(2, WHO, ()))
    assert os.read(said[0], 4096) == NO_SPAWN


def test_a_pipe_that_is_full_holds_nobody_up(host, said):
    with pytest.raises(BlockingIOError):
        while True:
            os.write(said[1], b"x" * 4096)
    os.set_blocking(said[1], True)
    assert asked(host, SpawnPrograms(1, WHO, ())) == [Answer(1, Code.NOT_SUPPORTED, ())]
