"""The files of one job's objects: what the host reports when one cannot be had."""

import os

import pytest

from native.host.files import Owner
from native.ids import Principal, PrincipalKind
from native.loop.reactor import Reactor
from native.port.port import Hub
from native.wire.load import ShippedObject
from pct import events
from pct.host.objects import JobObjects
from pct.host.store import Store

JOB = 7
MYSELF = Owner(os.getuid(), os.getgid())
SHIPPED = ShippedObject(b"/absent/a.out", 100, bytes(32), 0o755)


@pytest.fixture
def reactor():
    made = Reactor()
    yield made
    made.close()


@pytest.fixture
def store(reactor, tmp_path):
    made = Store([str(tmp_path)], reactor)
    yield made
    made.close()


@pytest.fixture
def port():
    made = Hub().port(Principal(PrincipalKind.PARTITION, 0))
    yield made
    made.close()


def checked(reactor, store, port):
    """Objects of a job for one of which there is room, and what they report from then on."""
    seen = []
    objects = JobObjects(JOB, MYSELF, store, port, seen.append)
    objects.check(events.CheckObjects(JOB, (SHIPPED,), False, MYSELF.uid, MYSELF.gid))
    for _ in range(8):
        reactor.run_once(0)
    assert seen == [events.ObjectsChecked(JOB, (), (0,), ())]
    seen.clear()
    return objects, seen


def test_an_object_that_is_published_is_reported_with_its_path(reactor, store, port):
    objects, seen = checked(reactor, store, port)
    objects.publish(0, 0o755)
    path = os.fsencode(store.reserved(JOB, 0).path)
    assert seen == [events.ObjectStored(JOB, 0, path)]
    assert os.stat(path).st_mode & 0o777 == 0o555


def test_an_object_that_cannot_be_named_is_lost_and_leaves_nothing(reactor, store, port, tmp_path):
    objects, seen = checked(reactor, store, port)
    os.mkdir(store.reserved(JOB, 0).path)  # a file cannot take the name of a directory
    objects.publish(0, 0o755)
    (lost,) = seen
    assert isinstance(lost, events.ObjectLost) and "Is a directory" in lost.text
    store.drop_job(JOB)
    for _ in range(8):
        reactor.run_once(0)
    assert [name for _, _, files in os.walk(tmp_path) for name in files] == []


def test_an_object_that_cannot_be_opened_any_more_is_lost(reactor, store, port):
    objects, seen = checked(reactor, store, port)
    objects.send(events.SendObject(JOB, 0, SHIPPED, b"/absent/a.out", 1000, ()))
    (lost,) = seen
    assert isinstance(lost, events.ObjectLost) and "No such file" in lost.text
