"""The PMIx server of a world of one node answers what a PCT would ask of other nodes."""

from __future__ import annotations

from pct.pmix_server.keys import Code
from pct.pmix_server.own import Host
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


def asked(host, *messages):
    for message in messages:
        host.send(message)
    return host.receive()


def test_a_fence_of_one_node_is_over_when_its_ranks_are_in():
    assert asked(Host(), Joined(WHO), Enter(4, PMIX, (WHO,), b"data")) == [
        FenceDone(4, Code.SUCCESS, b"data")
    ]


def test_names_are_found_until_they_are_taken_back():
    host, pair = Host(), KeyValue(b"port", b"value")
    published = asked(host, PublishNames(1, WHO, (pair,), False), LookupNames(2, (b"port",), False))
    assert published == [Answer(1, Code.SUCCESS, ()), Answer(2, Code.SUCCESS, (pair,))]
    gone = asked(host, UnpublishNames(3, (b"port",)), LookupNames(4, (b"port",), False))
    assert gone == [Answer(3, Code.SUCCESS, ()), Answer(4, Code.NOT_FOUND, ())]


def test_what_needs_a_pct_is_refused_and_nobody_waits_for_it():
    answers = asked(
        Host(), SpawnPrograms(1, WHO, ()), GetTable(2, ("w",)), AbortJob(3, WHO, 7, "text")
    )
    assert answers == [Answer(1, Code.NOT_SUPPORTED, ()), Table(2, ()), Answer(3, 0, ())]
