"""Which control group a keeper is told to enter, and when a group ends."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from native.host.files import Owner
from native.wire import keeper as wire
from pct.host import ranks as module
from pct.host.ranks import JobRanks

EMPTY = wire.KeeperEmpty()
SPEC = wire.KeeperSpec(
    job_id=7,
    uid=1000,
    gid=100,
    groups=(),
    umask=0,
    limits=(),
    environment=(),
    programs=(wire.ProgramSpec(b"/bin/true", (b"true",), b""),),
    ranks=(wire.RankSpec(0, 0, (), False, False),),
)


class Group:
    """In place of a job's control group."""

    def __init__(self, world: int, cpus: tuple[int, ...]) -> None:
        self.cpus = cpus
        self.path = f"/groups/{world}"
        self.denied = b"195:1"
        self.is_ended = False

    def end(self, reactor, slices, job_id, done) -> None:
        self.is_ended = True
        done()


@pytest.fixture
def job(monkeypatch):
    """Ranks of a job, and what its keepers and groups were told."""
    found = SimpleNamespace(groups=[], told=[], denied=[], reports={}, said=[])

    def start(spec, spawner, reactor, on_event, *_: object, **__: object) -> object:
        found.told.append(spec.group)
        found.denied.append(spec.denied)
        found.reports[len(found.reports)] = on_event
        return SimpleNamespace()

    def make_group(world: int, cpus: tuple[int, ...]) -> Group:
        found.groups.append(Group(world, cpus))
        return found.groups[-1]

    monkeypatch.setattr(module.Keeper, "start", start)
    monkeypatch.setattr(module.leftovers, "remove", lambda *_: None)
    reactor = SimpleNamespace(call_soon=lambda call: None)
    slices = SimpleNamespace(start=lambda *_: None)
    owner = Owner(1000, 100, ())
    nothing = lambda *_: None  # noqa: E731
    found.ranks = JobRanks(
        7, owner, reactor, slices, nothing, nothing, None, make_group, found.said.append
    )
    return found


def test_worlds_that_run_together_are_in_one_group_which_ends_with_the_last(job):
    for world in (0, 1):
        job.ranks.start_keeper(SPEC, world)
    assert job.told == [b"/groups/0"] * 2
    assert job.denied == [b"195:1", b""]  # the first keeper sees to it for both
    job.reports[0](EMPTY)
    job.ranks.remove_leftovers(0)
    assert not job.groups[0].is_ended
    job.reports[1](EMPTY)
    job.ranks.remove_leftovers(1)
    assert job.groups[0].is_ended


def test_a_world_that_begins_when_the_group_has_ended_has_a_group_of_its_own(job):
    job.ranks.start_keeper(SPEC, 0)
    job.reports[0](EMPTY)
    job.ranks.remove_leftovers(0)
    job.ranks.start_keeper(SPEC, 1)
    assert job.told == [b"/groups/0", b"/groups/1"]


def bound_to(*cpus_of_ranks: tuple[int, ...]) -> wire.KeeperSpec:
    ranks = [replace(SPEC.ranks[0], rank=nth, cpus=cpus) for nth, cpus in enumerate(cpus_of_ranks)]
    return replace(SPEC, ranks=tuple(ranks))


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [(bound_to((3, 2), (0,)), (0, 2, 3)), (bound_to((1,), ()), ()), (bound_to(()), ())],
)
def test_the_group_has_the_processors_of_its_ranks_where_each_is_bound(job, spec, cpus):
    job.ranks.start_keeper(spec, 0)
    assert job.groups[0].cpus == cpus


def test_devices_that_cannot_be_denied_are_a_line_in_the_log(job):
    job.ranks.start_keeper(SPEC, 0)
    job.reports[0](wire.DevicesOpen("Operation not permitted"))
    assert job.said == ["GPUs of others are open to it: Operation not permitted"]
