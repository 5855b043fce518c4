"""Whatever servers, neighbours and clients say in whatever order, a node goes on.

A PMIx server is a process of the job's user, and clients are too. What a node sends in
answer must fit its message, and nothing may be raised but the word for a violation.
"""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import agent, codec, load, pmi, pmix
from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.load import Mpi, Protocol
from native.wire.pmi import FenceKind, KeyValue, Participants, Process, SpawnCommand
from pct.pmi_events import PmiClosed, PmiConnected, PmiHangUp, PmiReceived, PmixReceived, PmixSend
from tests.unit.pct.job_of import (
    JOB_ID,
    SERVER_ENDED,
    SPACE,
    Tree,
    ended,
    pct,
    received,
    spawn,
)

BOTH = Mpi((Protocol.PMI1, Protocol.PMIX))
HERE = 1  # of seven: it has a parent, and places 3 and 4 below

small = st.integers(0, 8)
# Hypothesis warns of values that are long when they are shown: they are made from short ones.
words = st.sampled_from([b"", b"k", b"pmi:k"]) | st.just(70_000).map(lambda size: b"x" * size)
pairs = st.lists(st.builds(KeyValue, words, words), max_size=3).map(tuple)
serials = st.integers(0, 4)
statuses = st.sampled_from([0, -1, 5])
worlds = st.integers(0, 3)
processes = st.builds(Process, worlds, small)
names = st.builds(
    pmix.NamedProcess,
    st.sampled_from([SPACE, SPACE, f"{SPACE}_1", "other"]),
    st.integers(-1, 8),
)
commands = st.lists(
    st.builds(SpawnCommand, st.just(b"w"), st.lists(words, max_size=2).map(tuple), st.just(1)),
    min_size=1,
    max_size=2,
).map(tuple)

from_server = st.one_of(
    st.builds(pmix.Ready, st.just(b"/l"), st.just("5")),
    st.builds(pmix.Unavailable, st.just("no")),
    st.builds(
        pmix.Added,
        worlds,
        statuses,
        st.lists(st.just((b"A=1",)), max_size=2).map(tuple),
    ),
    st.builds(pmix.Joined, names),
    st.builds(pmix.Left, names),
    st.builds(
        pmix.Enter,
        serials,
        st.sampled_from(FenceKind),
        st.lists(names, min_size=1, max_size=3).map(tuple),
        words,
    ),
    st.builds(pmix.GetRemote, serials, names),
    st.builds(pmix.ModexData, serials, statuses, st.sampled_from([1, 300_000]).map(bytes)),
    st.builds(pmix.PublishNames, serials, names, pairs, st.booleans()),
    st.builds(pmix.LookupNames, serials, st.lists(words, max_size=5).map(tuple), st.booleans()),
    st.builds(pmix.UnpublishNames, serials, st.lists(words, max_size=3).map(tuple)),
    st.builds(pmix.SpawnPrograms, serials, names, commands | st.just(())),
    st.builds(
        pmix.AbortJob,
        serials,
        names,
        st.sampled_from([0, 1, -(1 << 31)]),
        st.sampled_from(["", "x"]),
    ),
)
fences = st.builds(
    pmi.Fence,
    st.sampled_from(FenceKind),
    st.lists(
        st.builds(Participants, worlds, st.lists(small, max_size=2).map(tuple)),
        min_size=1,
        max_size=2,
        unique_by=lambda each: each.world,
    ).map(tuple),
    st.integers(0, 2),
)
questions = st.one_of(
    st.builds(pmi.Publish, pairs, st.booleans()),
    st.builds(pmi.Lookup, st.lists(words, max_size=5).map(tuple), st.booleans()),
    st.builds(pmi.Unpublish, st.lists(words, max_size=3).map(tuple)),
    st.builds(pmi.Modex, processes),
    st.builds(pmi.EndTool, worlds),
    st.builds(pmi.Spawn, processes, commands, pairs, st.booleans()),
)
asks = st.builds(pmi.Ask, st.just(JOB_ID), small, small, serials, questions)
replies = st.builds(
    pmi.Reply,
    st.just(JOB_ID),
    small,
    serials,
    statuses,
    st.one_of(
        pairs,
        st.sampled_from([b"0", b"1", b"7", b"-1", b"", b"no number", b"9" * 5000]).map(
            lambda value: (KeyValue(b"world", value),)
        ),
    ),
    st.sampled_from(["", "why"]),
)
zero = (0,)
outcomes = st.builds(
    lambda rank, status: load.Outcome(status, True, (rank,), zero, zero, zero, zero, zero, zero),
    st.integers(0, 12),
    st.sampled_from([0, 9, 256]),
)
from_neighbours = st.one_of(
    st.builds(pmi.FenceIn, st.just(JOB_ID), fences, pairs, st.booleans()),
    st.builds(pmi.FenceOut, st.just(JOB_ID), fences, pairs, st.booleans()),
    asks,
    replies,
    st.builds(pmi.Lost, st.just(JOB_ID), st.lists(small, max_size=3).map(tuple), st.just(9)),
    st.builds(pmi.Alone, st.just(JOB_ID), small, st.just(b"/l"), st.just("alone")),
    st.builds(load.Spawned, st.just(JOB_ID), worlds, small, st.sampled_from(["", "why"])),
    st.builds(load.Completions, st.just(JOB_ID), st.lists(outcomes, max_size=2).map(tuple)),
    st.builds(
        lambda world, places, first, is_tool, serial, source, parent: spawn(
            world,
            *places,
            first_rank=first,
            is_tool=is_tool,
            serial=serial,
            source=source,
            parent=parent,
        ),
        worlds,
        st.lists(st.integers(0, 6), min_size=1, max_size=3),
        st.integers(7, 9),
        st.booleans(),
        serials,
        small,
        processes,
    ),
)
AGENT = agent.encode_command(agent.Command(HERE, b"n22", b"/", b"true"))
lines = st.sampled_from(
    [
        b"cmd=initack pmiid=1\n",
        b"cmd=initack pmiid=8\n",
        b"cmd=init pmi_version=1 pmi_subversion=1\n",
        b"cmd=init pmi_version=2 pmi_subversion=0\n",
        b"cmd=barrier_in\n",
        b"cmd=put kvsname=%s key=k value=v\n" % SPACE.encode(),
        b"cmd=publish_name service=k port=p\n",
        b"cmd=lookup_name service=k\n",
        b"cmd=unpublish_name service=k\n",
        b"cmd=abort exitcode=3\n",
        b"cmd=finalize\n",
        b"mcmd=spawn\nnprocs=1\nexecname=w\ntotspawns=1\nspawnssofar=1\nendcmd\n",
        AGENT,
        AGENT[:30],
        b"nonsense\n",
    ]
)
connections = st.integers(1, 3)
events = st.one_of(
    from_server.map(lambda message: PmixReceived(JOB_ID, message)),
    st.builds(
        lambda place, message: received(pct(place), message),
        st.sampled_from([0, 3, 4]),
        from_neighbours.filter(
            lambda message: len(codec.encode_part(message)) <= MESSAGE_MAX_BYTES
        ),
    ),
    st.builds(PmiConnected, st.just(JOB_ID), connections, st.sampled_from([None, 1, 8])),
    st.builds(PmiReceived, st.just(JOB_ID), connections, lines),
    st.builds(PmiClosed, st.just(JOB_ID), connections),
    st.builds(ended, st.just(HERE), st.sampled_from([0, 9]), mpi_library=st.just("/l")),
    st.just(SERVER_ENDED),
)


def node(place: int, is_running: bool):
    tree = Tree(7, mpi=BOTH)
    if is_running:
        tree.run()
    return tree.jobs[place]


def told(job, event) -> None:
    """An event, and what comes of it fits its message."""
    actions = []
    with contextlib.suppress(PeerProtocolError):
        actions = job.handle(event, 101.0)
    job.check()
    for action in actions:
        if isinstance(action, Send):
            assert codec.decode(codec.encode(action.message)) == action.message
        elif isinstance(action, PmixSend):
            encoded = pmix.encode(action.message)
            assert pmix.decode_from_pct(encoded[4:]) == action.message


def test_who_is_in_no_world_can_abort_nothing():
    job = node(HERE, True)
    told(job, PmiConnected(JOB_ID, 1, 8))
    assert job.handle(PmiReceived(JOB_ID, 1, b"cmd=abort exitcode=3\n"), 101.0) == [
        PmiHangUp(JOB_ID, 1)
    ]


@given(said=st.lists(events, max_size=30), is_running=st.booleans())
def test_a_node_below_goes_on_whatever_is_said(said, is_running):
    job = node(HERE, is_running)
    for event in said:
        told(job, event)


@given(said=st.lists(events, max_size=30))
def test_the_root_goes_on_whatever_is_said(said):
    job = node(0, True)
    for event in said:
        if not hasattr(event, "source"):
            told(job, event)
        elif event.source != pct(0):
            told(job, received(pct(1), event.message))
        else:
            told(job, received(job.parent, event.message))
