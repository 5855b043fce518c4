"""Root's PCT has groups of a user's steps deny GPUs: for whom, which groups, which devices."""

import _socket
import os

import pytest

from native.loop.reactor import Reactor
from pct.host.cgroups import fences
from pct.host.cgroups.fences import CLIENTS_OF_USER_MAX, Fences, RefusedError, asked
from pct.host.cgroups.own import SOCKET_KIND

DEVICES = frozenset((b"195:0", b"195:1", b"195:2"))
UID = 1000
OWNERS = {17: UID, 18: 1001}
STEP = b"job-17/ranks/yod-pct-2/job-3"


def request(group=STEP, denied=b"195:0 195:2", word=b"deny"):
    return b"\n".join((word, group, denied))


def judged(what, uid=UID):
    return asked(what, uid, DEVICES, OWNERS.get)


@pytest.mark.parametrize(
    "group",
    [
        STEP,
        b"job-17/slots/ranks/yod-pct-2/job-3",
        b"job-17/slots.1/ranks/yod-pct-2/job-3",
        b"job-17.2/ranks/yod-pct-2/job-3",
    ],
)
def test_a_group_below_the_ranks_of_ones_own_job_may_deny_gpus_of_the_node(group):
    assert judged(request(group)) == (group, b"195:0 195:2")


@pytest.mark.parametrize(
    "group",
    [
        b"job-18/ranks/yod-pct-2/job-3",  # another user's
        b"job-19/ranks/yod-pct-2/job-3",  # nobody's
        b"job-17",
        b"job-17/ranks",
        b"job-17/ranks/",
        b"job-17/keeper/x",
        b"job-17/broker/ranks/x",
        b"job-17/slots/slots/ranks/x",
        b"job-17/ranks/../../job-18/ranks/x",
        b"job-17/ranks/./x",
        b"job-17/ranks//x",
        b"job-17/ranks/x\0y",
        b"job-17/ranks" + b"/x" * 100,
        b"/job-17/ranks/x",
        b"../yod-pct-3/job-17/ranks/x",
        b"job--17/ranks/x",
        b"job-17x/ranks/x",
        b"job-" + b"9" * 5000 + b"/ranks/x",
        b"",
    ],
)
def test_no_other_group_is_touched(group):
    with pytest.raises(RefusedError, match="the group is "):
        judged(request(group))


def test_a_job_of_another_user_is_not_touched_whoever_asks():
    for uid in (0, 1001):
        with pytest.raises(RefusedError, match=f"in no job of user {uid}"):
            judged(request(), uid)


@pytest.mark.parametrize("denied", [b"1:3", b"195:0 1:3", b"", b"195:0  195:1", b"195:00", b"a"])
def test_only_gpus_of_the_node_are_denied(denied):
    with pytest.raises(RefusedError, match="none of the node's GPUs"):
        judged(request(denied=denied))


@pytest.mark.parametrize("what", [b"", b"deny", request(word=b"allow"), request() + b"\n"])
def test_a_request_of_another_release_is_refused(what):
    with pytest.raises(RefusedError, match="of another release"):
        judged(what)


class Asking:
    """Fences of a PCT whose groups note what they deny, and clients."""

    def __init__(self, monkeypatch, owner):
        self.reactor = Reactor()
        self.denied = []
        monkeypatch.setattr(fences, "deny", lambda *what: self.denied.append(what))
        self.name = f"yod-pct-test-{os.urandom(6).hex()}"
        around = DEVICES, lambda job_id: owner if job_id == 17 else None
        listener = _socket.socket(_socket.AF_UNIX, SOCKET_KIND)
        listener.bind(b"\0" + self.name.encode())
        self.fences = Fences(self.reactor, listener, f"/groups/{self.name}", *around)

    def client(self):
        end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        end.connect(b"\0" + self.name.encode())
        return end

    def turn(self):
        """One turn of the loop, which has something to do."""
        self.reactor.call_soon(self.reactor.stop)
        self.reactor.run()

    def answer(self, end):
        end.setblocking(False)
        for _ in range(10):
            self.turn()
            try:
                return end.recv(200)
            except BlockingIOError:
                pass
        raise AssertionError("no answer")


@pytest.fixture
def asking(monkeypatch):
    found = Asking(monkeypatch, os.geteuid())
    yield found
    found.fences.close()
    found.reactor.close()


def test_the_keeper_of_a_step_is_answered_when_its_group_denies(asking):
    end = asking.client()
    end.send(request())
    assert asking.answer(end) == b"done"
    assert asking.denied == [(f"/groups/{asking.name}/{STEP.decode()}", b"195:0 195:2")]
    assert asking.answer(end) == b""  # one request, and it is over
    end.close()


def test_a_refusal_says_why_and_nothing_is_denied(asking):
    end = asking.client()
    end.send(request(b"job-18/ranks/x"))
    assert asking.answer(end).startswith(b"the group is in no job of user ")
    assert asking.denied == []
    end.close()


def is_open(end):
    """Whether nobody has hung up on it."""
    end.setblocking(False)
    try:
        return end.recv(1) != b""
    except BlockingIOError:
        return True


@pytest.mark.parametrize("limit", ["CLIENTS_OF_USER_MAX", "CLIENTS_MAX"])
def test_who_connects_and_says_nothing_keeps_nobody_out(asking, monkeypatch, limit):
    monkeypatch.setattr(fences, limit, 4)
    idle = [asking.client() for _ in range(4)]
    asking.turn()
    assert all(is_open(each) for each in idle)
    for _ in range(2):
        end = asking.client()
        asking.turn()
        end.send(request())
        assert asking.answer(end) == b"done"
        end.close()
    assert [is_open(each) for each in idle] == [False, True, True, True]
    for each in idle:
        each.close()


def test_who_has_asked_is_answered_however_many_come_meanwhile(asking):
    ends = [asking.client() for _ in range(4 * CLIENTS_OF_USER_MAX)]
    for each in ends:
        each.send(request())
    assert [asking.answer(each) for each in ends] == [b"done"] * len(ends)
    for each in ends:
        each.close()


def test_a_request_that_is_too_long_is_refused(asking):
    end = asking.client()
    end.send(request(denied=b" ".join([b"195:0"] * 4000)))
    assert asking.answer(end) == b"the request is longer than 20480 bytes"
    assert asking.denied == []
    end.close()
