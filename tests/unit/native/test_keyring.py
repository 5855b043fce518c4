"""The partition's key is changed while its daemons run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from native import auth
from native.identity.keyring import Keyring
from native.port.port import Loss, PeerLost
from native.port.portals import JobKey, PortalsPort, UserKey
from native.wire import codec
from native.wire.alloc import Credential
from tests.support.ports import TEST_KEY, pump
from tests.unit.native.port_of import HELLO, Open, heard
from tests.unit.native.test_handshake import FAR, guest

NEW = bytes(range(100, 132))
OLD = TEST_KEY


def credential(job_id: int) -> bytes:
    return codec.encode_part(Credential(job_id, 1000, 1000, (), 1, 1, bytes(32)))


def is_wrong_key(a: PortalsPort, b: PortalsPort) -> bool:
    a.send(b.id, HELLO)
    (event,) = pump([a, b], lambda seen: seen[a])[a]
    return isinstance(event, PeerLost) and event.loss is Loss.WRONG_KEY


def test_daemons_meet_at_each_step_of_a_change(port: Open) -> None:
    steps = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]
    for before, after in pairwise(steps):
        a, b = port(), port()
        a.hold_keys(before)
        b.hold_keys(after)
        heard(a, b)
        c = port()
        c.hold_keys(before)
        heard(b, c)


def test_a_connection_goes_on_when_its_key_is_gone(port: Open) -> None:
    a, b = port(), port()
    heard(a, b)
    a.hold_keys((NEW,))
    b.hold_keys((NEW,))
    heard(a, b)
    late = port()
    assert is_wrong_key(late, b)


@pytest.mark.parametrize("partition_key", [OLD, NEW])
def test_keys_that_follow_from_the_old_and_from_the_new_one_hold(
    port: Open, partition_key: bytes
) -> None:
    b = port()
    b.hold_keys((NEW, OLD))
    user = UserKey(1001, auth.derive_user_key(partition_key, 1001))
    assert heard(guest(port, user), b).principal.uid == 1001
    job = JobKey(7, 1001, FAR, auth.derive_job_key(partition_key, 7, 1001, FAR))
    assert heard(guest(port, job), b).principal.job_id == 7


@pytest.mark.parametrize("count", [0, 5])
def test_a_port_holds_one_to_four_keys(port: Open, count: int) -> None:
    with pytest.raises(Exception, match="argument"):
        port().hold_keys([NEW] * count)


def test_the_first_signs_and_all_verify() -> None:
    data = credential(7)
    ring = Keyring((NEW, OLD))
    assert ring.sign(data) == auth.sign(NEW, data)
    assert ring.is_signed(data, auth.sign(NEW, data))
    assert ring.is_signed(data, auth.sign(OLD, data))
    assert not ring.is_signed(data, auth.sign(bytes(32), data))


def test_the_ranks_of_a_job_have_one_key_whatever_order_their_nodes_have() -> None:
    data = credential(7)
    tag = auth.sign(OLD, data)
    rings = [Keyring((OLD,)), Keyring((OLD, NEW)), Keyring((NEW, OLD))]
    assert all(ring.is_signed(data, tag) for ring in rings)
    assert {ring.ranks_key(7, 1000) for ring in rings} == {auth.derive_ranks_key(OLD, 7, 1000)}


def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    held: list[tuple[bytes, ...]] = []
    path = tmp_path / "key"
    ring = Keyring((OLD,))

    def read(data: bytes, mode: int = 0o600) -> str:
        path.write_bytes(data)
        path.chmod(mode)
        return ring.read_again(str(path), held.append)  # type: ignore[arg-type]

    assert read(OLD + NEW) == f"key file {path} is in force, 2 keys"
    assert "the key stays as it is: key file" in read(OLD + b"x")
    assert "mode 0644 lets others use it" in read(NEW, 0o644)
    path.unlink()
    assert "No such file" in ring.read_again(str(path), held.append)  # type: ignore[arg-type]
    assert ring.keys == (OLD, NEW)
    assert held == [(OLD, NEW)]
