"""Where processes of one host and user meet: a Unix socket, with the keys of TCP."""

from __future__ import annotations

from pathlib import Path

import pytest

from native.ids import PortalId, Principal, PrincipalKind
from native.port.portals import PortalsPort
from tests.support.ports import Key, RawPeer
from tests.unit.native.port_of import Open, heard

NOT_PERMITTED = 7  # FRAMES.md
LOCAL_KEY = Key(4, bytes(32))


def meeting_point(target: PortalId) -> str:
    return f"portals-{target.nid:08x}-{target.pid:08x}"


def connected_there(target: PortalId) -> int:
    """How many connections the kernel has whose listener is the one of this name."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    named = [line.split() for line in lines if line.endswith("@" + meeting_point(target))]
    return sum(state == "03" for *_, state, _, _ in named)


def near_peer(target: PortalsPort, key: Key) -> RawPeer:
    return RawPeer(target, key=key, path="\0" + meeting_point(target.id))


def test_daemons_of_one_host_and_user_meet_there(port: Open) -> None:
    a, b = port(uid=12), port(uid=34)
    event = heard(a, b)
    assert event.source == a.id
    assert event.principal == Principal(PrincipalKind.PARTITION, 12)
    assert connected_there(b.id) == 1


def test_who_has_no_key_is_a_stranger_there_too(port: Open) -> None:
    a, b = port(), port()
    raw = near_peer(a, LOCAL_KEY)
    assert raw.shake(a) == NOT_PERMITTED
    assert raw.is_cut_off(a)
    assert heard(b, a).source == b.id


@pytest.mark.parametrize("has_partition_key", [True, False])
def test_whatever_keys_a_daemon_holds_it_lets_nobody_in_without_one(
    port: Open, has_partition_key: bool
) -> None:
    a = port() if has_partition_key else port(partition_key=None)
    raw = near_peer(a, LOCAL_KEY)
    assert raw.shake(a) == NOT_PERMITTED
