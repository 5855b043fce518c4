"""What PMIx clients are told, and what servers tell each other; no library is needed."""

from __future__ import annotations

import os

import pytest

from pct.host.pmix_command import command
from pct.pmix_server.keys import Info, Layout, Type, rank_keys, world_keys
from pct.pmix_server.names import (
    group_share,
    published,
    read_group_shares,
    read_published,
    short_text,
)
from pct.pmix_server.plain import AddWorld, NamedProcess, NonsenseError

MAPS = (b"nodes", b"ranks")
DIRECTORIES = (b"/top", b"/top/below")


def world(parent: NamedProcess | None = None) -> AddWorld:
    """Five ranks of two programs on two nodes, cyclic; the second node is this one."""
    return AddWorld(
        serial=1,
        nspace="world",
        job_id="7",
        nodes=("here", "there"),
        node_of=(0, 1, 0, 1, 0),
        application_of=(0, 0, 1, 1, 1),
        local_ranks=(1, 3),
        universe_size=8,
        first_rank=100,
        parent=parent,
    )


def values(infos: tuple[Info, ...]) -> dict[bytes, object]:
    return {info.key: info.value for info in infos}


def test_ranks_are_counted_within_their_node_and_program():
    layout = Layout(world())
    assert layout.ranks_of == [[0, 2, 4], [1, 3]]
    assert layout.process_map() == b"0,2,4;1,3"
    assert layout.local_rank == [0, 0, 1, 1, 2]
    assert layout.application_rank == [0, 1, 0, 1, 2]
    assert layout.application_count == 2


def test_a_world_is_described_with_the_ranks_of_this_node():
    infos = world_keys(world(), Layout(world()), MAPS, DIRECTORIES)
    known = values(infos)
    assert known[b"pmix.job.size"] == 5
    assert known[b"pmix.univ.size"] == 8
    assert known[b"pmix.num.nodes"] == 2
    assert known[b"pmix.job.napps"] == 2
    assert known[b"pmix.local.size"] == 2
    assert known[b"pmix.lpeers"] == b"1,3"
    assert known[b"pmix.lldr"] == 1
    assert known[b"pmix.nsdir"] == b"/top/below"
    assert b"pmix.parent" not in known


def test_a_rank_is_described_by_its_numbers():
    known = values(rank_keys(world(), Layout(world()), 3, {"there": 4}))
    assert known == {
        b"pmix.rank": 3,
        b"pmix.appnum": 1,
        b"pmix.apprank": 1,
        b"pmix.grank": 103,
        b"pmix.lrank": 1,
        b"pmix.nrank": 5,
        b"pmix.nodeid": 1,
        b"pmix.hname": b"there",
    }


def test_a_spawned_world_and_its_ranks_name_the_parent():
    parent = NamedProcess("before", 2)
    child = world(parent)
    for infos in (
        world_keys(child, Layout(child), MAPS, DIRECTORIES),
        rank_keys(child, Layout(child), 0, {}),
    ):
        assert Info(b"pmix.spawned", Type.BOOL, 1) in infos
        assert Info(b"pmix.parent", Type.PROC, parent) in infos


def test_a_published_value_says_who_published_it():
    process = NamedProcess("world ä", 7)
    assert read_published(published(process, Type.STRING, b"a\0b")) == (
        process,
        Type.STRING,
        b"a\0b",
    )


@pytest.mark.parametrize("value", [b"", b"short", b"\3\0\0\0\0\0\1\xff"])
def test_a_value_of_another_maker_is_refused(value: bytes):
    with pytest.raises(NonsenseError):
        read_published(value)


def test_shares_of_a_group_stay_in_the_order_of_the_nodes():
    shares = group_share(5, b"group") + group_share(1 << 40, b"")
    assert read_group_shares(shares) == [(5, b"group"), (1 << 40, b"")]


@pytest.mark.parametrize("shares", [b"", b"short"])
def test_shares_of_another_maker_are_refused(shares: bytes):
    with pytest.raises(NonsenseError):
        read_group_shares(shares)


def test_a_text_of_a_client_fits_into_a_message():
    assert short_text("x" * 10_000) == "x" * 4096
    assert short_text(os.fsdecode(b"\xff")) == "?"


def test_a_server_is_started_without_site_and_the_environments_settings():
    words = command()
    assert os.path.isabs(words[0])
    assert words[1] == b"-EPS"
    assert all(os.path.isabs(entry) for entry in words[4:])
