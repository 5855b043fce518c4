"""Ports that are kept from one launch to the next, with real ports as bebopd and PCTs."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from native import auth
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import PeerLost, PortEvent, Received
from native.port.portals import PortalsPort
from native.wire.alloc import Grant, NodeRequest, NodeSpec, Refusal, Refused, Release, Released
from native.wire.base import Message
from native.wire.io import InputCredit
from native.wire.placed import GrantedNode, JobNodes
from native.wire.runs import JobRuns, RunRange
from partition.find.kept import KeptPartitions, Lent
from tests.support.wait import LIMIT_S
from yod.plan.reach import Reach

KEY = os.urandom(32)
UID = 1001
USER = auth.derive_user_key(KEY, UID)
REQUEST = NodeRequest((NodeSpec(1),), "true")
NODES = JobNodes.of((GrantedNode(0, "node0", 1, 1, 1),))


class Daemon:
    """A port of the partition in the loop, and what it has heard."""

    def __init__(self, reactor: Reactor) -> None:
        self.port = PortalsPort(listen="127.0.0.1:0", partition_key=KEY)
        self.heard: list[Received] = []
        self.lost: list[PeerLost] = []
        self._watch = reactor.watch(self.port.fileno(), self._ready)

    def _ready(self) -> None:
        for event in self.port.events():
            if isinstance(event, Received):
                self.heard.append(event)
            elif isinstance(event, PeerLost):
                self.lost.append(event)

    def close(self) -> None:
        self._watch.close()
        self.port.close(flush_s=0.0)


class Site:
    """bebopd, a PCT, and the process that launches."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.bebopd, self.pct = Daemon(self.reactor), Daemon(self.reactor)
        self.kept = KeptPartitions(self.reactor)
        self.limits = Limits()
        self._places: list[Lent] = []

    def reach(self, uid: int = UID) -> Reach:
        return Reach(str(self.bebopd.port.id), auth.derive_user_key(KEY, uid), uid)

    def run_until(self, is_so: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < end, "it did not come about"
            self.reactor.run_once(0.05)

    def begin(self, job_id: int, uid: int = UID) -> "Launch":
        opened = self.kept.open(self.reach(uid), self.limits)
        assert isinstance(opened, Lent)
        self._places.append(opened)
        return Launch(self, opened, job_id, uid)

    def close(self) -> None:
        for place in self._places:
            place.close(flush_s=0.0)  # the daemons are in this thread
        self.kept.close()
        self.bebopd.close()
        self.pct.close()
        self.reactor.close()


class Launch:
    """What a launch does with its port, step by step."""

    def __init__(self, site: Site, place: Lent, job_id: int, uid: int) -> None:
        self.site = site
        self.place = place
        self.job_id = job_id
        self.uid = uid
        self.events: list[PortEvent] = []
        self._watch = place.port.listen(site.reactor, self._ready)

    @property
    def id(self) -> PortalId:
        return self.place.port.id

    def _ready(self) -> None:
        self.events += self.place.port.events()

    @property
    def messages(self) -> list[Message]:
        return [event.message for event in self.events if isinstance(event, Received)]

    def tell(self, daemon: Daemon, message: Message) -> Received:
        """Send a message, and give it as the daemon has heard it."""
        before = len(daemon.heard)
        self.place.port.send(daemon.port.id, message)
        self.site.run_until(lambda: len(daemon.heard) > before)
        return daemon.heard[-1]

    def told(self, daemon: Daemon, message: Message, at: PortalId) -> None:
        """Have a daemon send a message here, and take it."""
        before = len(self.events)
        daemon.port.send(at, message)
        self.site.run_until(lambda: len(self.events) > before)

    def ask(self) -> Received:
        return self.tell(self.site.bebopd, REQUEST)

    def use(self) -> Received:
        """Get the grant, and speak to the PCT."""
        at = self.ask().source
        expires = int(time.time()) + 60
        key = auth.derive_job_key(KEY, self.job_id, self.uid, expires)
        runs = JobRuns((RunRange(0, 1, 1),))
        grant = Grant(self.job_id, self.uid, NODES, runs, key, expires, b"", b"", 60.0)
        self.told(self.site.bebopd, grant, at)
        self.place.use_grant(grant)
        return self.tell(self.site.pct, InputCredit(self.job_id, 1))

    def release(self, answer: Message | None = None) -> None:
        at = self.tell(self.site.bebopd, Release(self.job_id)).source
        self.told(self.site.bebopd, answer or Released(self.job_id), at)

    def close(self) -> None:
        self._watch.close()
        self.place.close(flush_s=0.0)

    def end(self) -> None:
        """End well, and wait until the PCT knows."""
        self.release()
        before = len(self.site.pct.lost)
        self.close()
        self.site.run_until(lambda: len(self.site.pct.lost) > before)
        self.site.run_until(lambda: all(kept.is_free for kept in self.site.kept._waiting))


@pytest.fixture
def site() -> Iterator[Site]:
    one = Site()
    yield one
    one.close()


def test_the_next_launch_has_the_port_of_one_that_has_ended_well(site: Site) -> None:
    first = site.begin(1)
    first.use()
    first.end()
    second = site.begin(2)
    assert second.id == first.id
    assert second.ask().principal == Principal(PrincipalKind.USER, UID)
    assert not site.bebopd.lost


def test_each_launch_proves_its_own_job_to_a_pct(site: Site) -> None:
    principals = []
    for job_id in (1, 2, 3):
        launch = site.begin(job_id)
        principals.append(launch.use().principal)
        launch.end()
    assert principals == [Principal(PrincipalKind.JOB, UID, number) for number in (1, 2, 3)]
    assert len(site.kept) == 1


def test_the_key_of_an_earlier_job_is_not_used_again(site: Site) -> None:
    first = site.begin(1)
    first.use()
    first.end()
    second = site.begin(2)
    second.ask()
    second.place.port.send(site.pct.port.id, InputCredit(1, 1))  # without a grant
    site.run_until(lambda: second.events)
    (event,) = second.events
    assert isinstance(event, PeerLost)
    assert len(site.pct.heard) == 1


def test_two_launches_at_a_time_never_share_a_port(site: Site) -> None:
    first, second = site.begin(1), site.begin(2)
    assert first.id != second.id
    first.use()
    second.use()
    first.end()
    third = site.begin(3)
    assert third.id == first.id
    assert third.id != second.id


def test_a_pct_cannot_speak_for_the_job_of_another_launch(site: Site) -> None:
    first = site.begin(1)
    first.use()
    first.end()
    second = site.begin(2)
    at = second.use().source
    before = len(second.events)
    site.pct.port.send(at, InputCredit(1, 1))  # late, or a lie
    second.told(site.pct, InputCredit(2, 7), at)
    assert second.messages[before:] == [InputCredit(2, 7)]


def test_a_launch_has_no_port_on_which_an_earlier_job_is_connected(site: Site) -> None:
    first = site.begin(1)
    first.use()
    first.release()
    first.close()
    assert len(site.kept) == 1
    second = site.begin(2)  # the PCT has said no goodbye yet
    assert second.id != first.id


def test_another_user_s_key_gets_another_port(site: Site) -> None:
    first = site.begin(1)
    first.use()
    first.end()
    other = site.begin(2, uid=UID + 1)
    assert other.id != first.id
    assert other.ask().principal.uid == UID + 1


def test_a_port_of_which_bebopd_owes_an_answer_is_closed(site: Site) -> None:
    launch = site.begin(1)
    launch.use()
    launch.close()
    assert not len(site.kept)
    site.run_until(lambda: site.bebopd.lost and site.pct.lost)


@pytest.mark.parametrize(
    "answer",
    [Refused(Refusal.BUSY, "no", -1), Released.of(1, (3,)), Released(9)],
    ids=["refused", "with a node that is unreachable", "for another job"],
)
def test_a_port_whose_launch_was_not_plainly_released_is_closed(
    site: Site, answer: Message
) -> None:
    launch = site.begin(1)
    launch.use()
    launch.release(answer)
    launch.close()
    assert not len(site.kept)


def test_a_port_is_closed_that_has_lost_a_pct(site: Site) -> None:
    launch = site.begin(1)
    at = launch.use().source
    site.pct.port.disconnect(at)
    site.run_until(lambda: any(isinstance(event, PeerLost) for event in launch.events))
    launch.release()
    launch.close()
    assert not len(site.kept)


def test_a_port_that_waits_is_closed_when_bebopd_goes(site: Site) -> None:
    launch = site.begin(1)
    launch.use()
    launch.end()
    site.bebopd.port.disconnect(launch.id)
    site.run_until(lambda: not len(site.kept))


def test_a_launch_gets_no_port_whose_bebopd_has_gone_unseen(site: Site) -> None:
    launch = site.begin(1)
    launch.use()
    launch.end()
    address = site.reach()
    site.bebopd.close()  # and the loop has not turned since
    place = site.kept.open(address, site.limits)
    assert place.port.id != launch.id
    assert not len(site.kept)
    place.close()
    site.bebopd = Daemon(site.reactor)


def test_a_port_waits_for_a_limited_time(site: Site) -> None:
    site.limits = Limits(kept_port_s=0.05)
    launch = site.begin(1)
    launch.use()
    launch.end()
    site.run_until(lambda: not len(site.kept) and site.bebopd.lost)


def test_no_more_ports_wait_than_the_limit_says(site: Site) -> None:
    site.limits = Limits(kept_ports_count=2)
    launches = [site.begin(number) for number in (1, 2, 3)]
    for launch in launches:
        launch.use()
        launch.end()
    assert len(site.kept) == 2
    site.run_until(lambda: len(site.bebopd.lost) == 1)


def test_ports_are_not_kept_where_the_limit_is_0_or_a_credential_proves_the_user(
    site: Site,
) -> None:
    none = site.kept.open(site.reach(), Limits(kept_ports_count=0))
    by_munge = Reach(str(site.bebopd.port.id), USER, UID, b"credential", time.time())
    with_credential = site.kept.open(by_munge, site.limits)
    for place in (none, with_credential):
        assert not isinstance(place, Lent)
        place.close()


def test_what_comes_back_when_the_process_ends_is_closed(site: Site) -> None:
    launch = site.begin(1)
    launch.use()
    site.kept.close()
    launch.release()
    launch.close()
    assert not len(site.kept)
    site.run_until(lambda: site.bebopd.lost)
