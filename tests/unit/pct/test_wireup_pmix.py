"""The PMIx servers of a job's nodes find one another through its tree."""

import pytest

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import load, pmi, pmix
from native.wire.alloc import GrantedNode, Run
from native.wire.load import FailureKind, Mpi, Protocol
from native.wire.pmi import FenceKind, KeyValue
from native.wire.pmix import NamedProcess
from pct.account import Account
from pct.events import (
    Devices,
    KeeperEnd,
    OutputRead,
    PmiOpened,
    PmixSend,
    StartKeeper,
    StartPmixServer,
)
from pct.job.progress import JobState
from pct.wireup import environment
from pct.wireup import pmix as link
from pct.wireup.machine import Wireup
from tests.unit.pct.job_of import (
    EMPTY,
    JOB_ID,
    PMIX,
    PRESENT,
    READY,
    SERVER_ENDED,
    SPACE,
    Tree,
    added,
    ended,
    failure,
    fence,
    held,
    load_message,
    pct,
    received,
    server,
    spawn,
    started,
)

BOTH = Mpi((Protocol.PMI1, Protocol.PMIX))
CERTAIN = Mpi((Protocol.PMIX,), is_certain=True)
CHOSEN = Mpi((Protocol.PMIX,), libpmix=(b"/l",), is_libpmix_chosen=True)
NO_LIBPMIX = server(pmix.Unavailable("no libpmix.so.2 in /opt or the system"))


def process(rank: int, nspace: str = SPACE) -> NamedProcess:
    return NamedProcess(nspace, rank)


EVERYBODY = (process(-1),)


def running(size=3, ranks_each=1, mpi=PMIX, **fields) -> Tree:
    tree = Tree(size, ranks_each, mpi=mpi, **fields)
    tree.run()
    tree.take_to_yod()
    return tree


def enters(serial, data=b"", kind=FenceKind.PMIX, processes=EVERYBODY):
    """A server says that all its participants are in a fence."""
    return server(pmix.Enter(serial, kind, processes, data))


def done(tree: Tree, place: int) -> list[pmix.PmixMessage]:
    return tree.told(place, pmix.FenceDone)


def answered(tree: Tree, place: int) -> list[pmix.PmixMessage]:
    return tree.told(place, pmix.Answer)


# -- before start ----------------------------------------------------------


def test_a_server_is_told_its_job_and_each_world_with_all_its_ranks():
    tree = Tree(3, ranks_each=2, mpi=Mpi((Protocol.PMIX,), libpmix=(b"/l",), universe_size=9))
    (start,) = tree.took(1, StartPmixServer)
    assert (start.begin.uid, start.begin.gid) == (1000, 100)
    assert start.begin == pmix.Begin((b"/l",), False, f"{SPACE}_at1", "n21", 1000, 100)
    (world,) = tree.told(1, pmix.AddWorld)
    assert world == pmix.AddWorld(
        serial=0,
        nspace=SPACE,
        job_id="7",
        nodes=("n20", "n21", "n22"),
        node_of=(0, 0, 1, 1, 2, 2),
        application_of=(0,) * 6,
        local_ranks=(2, 3),
        universe_size=9,
        first_rank=0,
        parent=None,
    )


def test_ranks_start_when_their_server_has_taken_their_world_with_what_it_wants():
    tree = Tree(1, 2, has_servers=False, mpi=PMIX)
    tree.at(0, PRESENT)
    assert tree.took(0, StartKeeper) == []
    tree.at(0, READY)
    assert tree.took(0, StartKeeper) == []
    (world,) = tree.told(0, pmix.AddWorld)
    tree.at(0, added(world))
    (start,) = tree.took(0, StartKeeper)
    assert [rank.environment[-1] for rank in start.spec.ranks] == [b"PMIX_RANK=0", b"PMIX_RANK=1"]
    assert not any(b"PMI_" in b" ".join(rank.environment) for rank in start.spec.ranks)


def test_a_job_that_offers_no_pmix_has_no_server():
    tree = Tree(1)
    assert tree.took(0, StartPmixServer) == []


@pytest.mark.parametrize(
    "event",
    [NO_LIBPMIX, SERVER_ENDED],
    ids=["unavailable", "ended"],
)
@pytest.mark.parametrize("mpi", [CERTAIN, CHOSEN], ids=["certain", "libpmix chosen"])
@pytest.mark.parametrize("has_objects", [False, True])
def test_a_node_that_cannot_offer_what_is_certain_fails_the_load(event, mpi, has_objects):
    tree = Tree(3, has_servers=False, mpi=mpi)
    tree.at(2, *([PRESENT] if has_objects else []))
    tree.take_to_yod()
    tree.at(2, event)
    (told,) = [m for m in tree.take_to_yod() if m.kind is FailureKind.NO_WIREUP]
    assert told.node == 22
    assert told.text.startswith("PMIx cannot be offered: ")
    tree.at(2, *([] if has_objects else [PRESENT]))
    assert tree.took(2, StartKeeper) == []


def test_a_node_leaves_out_what_it_cannot_offer_where_it_may_not_be_wanted():
    tree = Tree(3, has_servers=False, mpi=BOTH)
    tree.everywhere(PRESENT)
    tree.take_to_yod()
    tree.at(2, NO_LIBPMIX)
    (start,) = tree.took(2, StartKeeper)
    names = {entry.partition(b"=")[0] for entry in start.spec.ranks[0].environment}
    assert b"PMI_RANK" in names and b"MPICH_PMI_VERSION" not in names
    assert tree.take_to_yod() == []
    tree.at(2, SERVER_ENDED)
    tree.everywhere(READY)  # a server that says so after it has given up is a matter of its own
    assert tree.take_to_yod() == []


def test_a_server_that_does_not_take_the_job_is_none_where_it_may_not_be_wanted():
    tree = Tree(1, has_servers=False, mpi=PMIX)
    tree.at(0, READY, server(pmix.Added(0, -1, (), "out of resource")))
    assert tree.take_to_yod() == []
    tree.at(0, PRESENT)
    assert len(tree.took(0, StartKeeper)) == 1


def test_a_server_that_does_not_take_the_job_fails_a_load_that_needs_it():
    tree = Tree(1, has_servers=False, mpi=CERTAIN)
    tree.at(0, READY, server(pmix.Added(0, -1, (), "out of resource")))
    text = "PMIx cannot be offered: its server does not take the job: out of resource (-1)"
    assert tree.take_to_yod() == [failure(FailureKind.NO_WIREUP, "forming the group", text)]
    tree.at(0, PRESENT)
    assert tree.took(0, StartKeeper) == []


@pytest.mark.parametrize("mpi", [PMIX, CERTAIN])
def test_a_server_that_ends_while_ranks_run_fails_the_job(mpi):
    tree = running(3, mpi=mpi)
    tree.at(1, SERVER_ENDED)
    text = "the PMIx server has ended: killed by SIGKILL"
    assert tree.take_to_yod() == [failure(FailureKind.NO_WIREUP, "running", text, place=1)]


def test_the_end_of_a_job_ends_the_server_and_waits_for_it():
    tree = running(1)
    tree.from_yod(load.AllDone(JOB_ID))
    assert tree.took(0, KeeperEnd) == [KeeperEnd(JOB_ID)]
    tree.at(0, EMPTY, *(OutputRead(JOB_ID, 0, stream, b"") for stream in (1, 2)))
    assert tree.jobs[0].state is JobState.ENDING
    tree.at(0, SERVER_ENDED)
    assert tree.take_to_yod() == [load.Released(JOB_ID, (20,))]


def test_a_job_that_ends_before_its_ranks_start_ends_its_server_too():
    tree = Tree(1, has_servers=False, mpi=PMIX)
    tree.from_yod(load.AllDone(JOB_ID))
    assert tree.took(0, KeeperEnd) == [KeeperEnd(JOB_ID)]
    tree.at(0, READY)  # it crossed
    assert tree.take_to_yod() == []
    tree.at(0, SERVER_ENDED)
    assert tree.take_to_yod() == [load.Released(JOB_ID, (20,))]


@pytest.mark.parametrize(
    "message",
    [
        pmix.Added(3, 0, ()),
        pmix.Added(0, 0, ()),
        pmix.Joined(NamedProcess(SPACE, 2)),
        pmix.Joined(NamedProcess("other", 0)),
        pmix.AbortJob(1, NamedProcess(SPACE, 9), 1, ""),
        pmix.SpawnPrograms(1, NamedProcess(SPACE, 1), ()),
        pmix.ModexData(5, 0, b"x"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_server_may_not_speak_of_what_is_not_there(message):
    job = running(3).jobs[0]
    with pytest.raises(PeerProtocolError, match=r"^pmix: "):
        job.handle(server(message), 0)


# -- fences ----------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_fence_brings_every_nodes_data_to_every_server_in_the_order_of_the_places(size):
    tree = running(size)
    for place in reversed(range(size)):
        assert done(tree, 0) == []
        tree.at(place, enters(10 + place, b"<%d>" % place))
    everything = b"".join(b"<%d>" % place for place in range(size))
    for place in range(size):
        assert done(tree, place) == [pmix.FenceDone(10 + place, 0, everything)]


@pytest.mark.parametrize("size", [3, 7])
def test_data_of_any_size_arrives_whole(size):
    tree = running(size)
    data = [bytes([place]) * (300_000 + place) for place in range(size - 1)] + [b""]
    for place in range(size):
        tree.at(place, enters(1, data[place]))
    for place in range(size):
        assert done(tree, place) == [pmix.FenceDone(1, 0, b"".join(data))]


def test_the_same_fence_again_is_another():
    tree = running(3)
    for turn in range(3):
        for place in range(3):
            tree.at(place, enters(turn, b"%d" % turn))
        assert done(tree, 1)[-1] == pmix.FenceDone(turn, 0, b"%d" % turn * 3)


@pytest.mark.parametrize(
    ("size", "ranks"), [(3, (1, 2)), (3, (0, 2)), (3, (2,)), (7, (3, 6)), (7, (1, 4, 5)), (7, (4,))]
)
def test_a_fence_of_some_ranks_waits_for_their_nodes_only(size, ranks):
    tree = running(size)
    some = tuple(map(process, ranks))
    for place in ranks:
        assert not any(done(tree, each) for each in range(size))
        tree.at(place, enters(5, b"<%d>" % place, processes=some))
    data = b"".join(b"<%d>" % place for place in ranks)
    for place in range(size):
        expected = [pmix.FenceDone(5, 0, data)] if place in ranks else []
        assert done(tree, place) == expected


def test_all_ranks_by_name_are_the_whole_world():
    tree = running(3)
    tree.at(0, enters(1, b"a"))
    tree.at(1, enters(1, b"b", processes=tuple(map(process, range(3)))))
    tree.at(2, enters(1, b"c", processes=(process(2), process(-1))))
    assert done(tree, 0) == [pmix.FenceDone(1, 0, b"abc")]


def test_fences_of_different_ranks_do_not_wait_for_one_another():
    tree = running(7)
    pair, other = (process(3), process(4)), (process(5), process(6))
    tree.at(3, enters(1, b"a", processes=pair))
    tree.at(5, enters(1, b"c", processes=other))
    tree.at(6, enters(1, b"d", processes=other))
    assert done(tree, 5) == done(tree, 6) == [pmix.FenceDone(1, 0, b"cd")]
    assert done(tree, 3) == []
    tree.at(4, enters(1, b"b", processes=pair))
    assert done(tree, 3) == done(tree, 4) == [pmix.FenceDone(1, 0, b"ab")]


@pytest.mark.parametrize("kind", [FenceKind.CONNECT, FenceKind.DISCONNECT])
def test_a_connect_is_a_fence_of_its_own(kind):
    tree = running(3)
    for place in range(3):
        tree.at(place, enters(1, b"data"))
    for place in range(3):
        tree.at(place, enters(2, kind=kind))
    assert [done(tree, place)[1:] for place in range(3)] == [[pmix.FenceDone(2, 0, b"")]] * 3


def test_a_fence_of_nobody_known_is_answered_at_once():
    tree = running(3)
    for serial, who in enumerate((process(3), process(0, "other"))):
        tree.at(1, enters(serial, b"x", processes=(who,)))
        assert done(tree, 1)[-1] == pmix.FenceDone(serial, -46, b"")


def test_a_fence_that_names_too_many_ranks_for_a_message_is_refused(monkeypatch):
    monkeypatch.setattr(link, "FENCE_RANKS_MAX", 2)
    tree = running(7)
    tree.at(1, enters(1, processes=tuple(map(process, (1, 2, 3)))))
    assert done(tree, 1) == [pmix.FenceDone(1, -29, b"")]
    tree.at(1, enters(2, processes=(process(1),)), enters(3))  # all are named by none
    assert done(tree, 1)[1:] == [pmix.FenceDone(2, 0, b"")]


def test_a_server_may_not_be_in_one_fence_twice():
    tree = running(3)
    tree.at(1, enters(1))
    with pytest.raises(PeerProtocolError, match="in a fence twice"):
        tree.at(1, enters(2))


def test_a_fence_of_all_does_not_wait_for_ranks_that_have_ended():
    tree = running(7)
    for place in (0, 1, 3, 4, 5, 6):
        tree.at(place, enters(1, b"<%d>" % place))
    assert done(tree, 0) == []
    tree.at(2, ended(2))
    tree.wait(1.0)
    assert done(tree, 5) == [pmix.FenceDone(1, 0, b"<0><1><3><4><5><6>")]


def test_a_fence_of_some_ranks_does_not_wait_for_one_that_has_ended_beside_one_that_lives():
    """The subtree of a participant that had ended was waited for while anybody lived there."""
    tree = running(7)
    some = (process(0), process(3))
    tree.at(0, enters(1, b"a", processes=some))
    tree.at(3, ended(3))
    tree.wait(0.1)
    tree.wait(1.0)
    assert done(tree, 0) == [pmix.FenceDone(1, 0, b"a")]


def test_a_subtree_that_ends_during_a_fence_ends_the_wait_for_it():
    tree = running(7)
    tree.at(0, enters(1, b"a"))
    tree.at(2, enters(1, b"c"))
    for place in (5, 6):
        tree.at(place, enters(1, b"x"))
    for rank in (3, 4, 1):
        tree.at(rank, ended(rank))
    tree.wait(1.0)
    assert done(tree, 6) == [pmix.FenceDone(1, 0, b"acxx")]


# -- data of one rank ------------------------------------------------------


@pytest.mark.parametrize(("asks", "owner"), [(3, 6), (6, 3), (0, 4), (4, 0), (3, 4), (1, 3)])
def test_a_ranks_data_is_fetched_from_its_node_over_the_tree(asks, owner):
    tree = running(7)
    tree.at(asks, server(pmix.GetRemote(21, process(owner))))
    (wanted,) = tree.told(owner, pmix.GetModex)
    assert wanted.process == process(owner)
    tree.at(owner, server(pmix.ModexData(wanted.serial, 0, b"blob")))
    assert answered(tree, asks) == [pmix.Answer(21, 0, (KeyValue(b"data", b"blob"),))]


def test_data_of_a_rank_that_is_not_there_is_answered_at_once():
    tree = running(3)
    tree.at(0, server(pmix.GetRemote(1, process(3))), server(pmix.GetRemote(2, process(-1))))
    tree.at(2, ended(2))
    tree.at(0, server(pmix.GetRemote(3, process(2))))
    assert answered(tree, 0) == [pmix.Answer(serial, -46, ()) for serial in (1, 2, 3)]


def test_data_that_exceeds_a_message_is_refused():
    tree = running(3)
    tree.at(0, server(pmix.GetRemote(1, process(1))))
    tree.at(1, server(pmix.ModexData(1, 0, bytes(300_000))))
    (refused,) = answered(tree, 0)
    assert refused.status == -29


# -- tables of processes ---------------------------------------------------


def row(rank: int, unix_pid: int, nspace: str = SPACE, program: bytes = b"/home/a.out"):
    return pmix.TableRow(process(rank, nspace), unix_pid, program)


def test_a_table_has_the_ranks_of_its_node_also_those_that_have_ended():
    tree = running(3, 2)
    (program,) = {found.path for found in load_message().objects}
    tree.at(1, ended(3), server(pmix.GetTable(5, (SPACE,))))
    assert tree.told(1, pmix.Table) == [
        pmix.Table(5, (row(2, 3002, program=program), row(3, 3003, program=program)))
    ]
    assert tree.told(0, pmix.Table) == tree.told(2, pmix.Table) == []


def test_ranks_that_have_not_been_started_are_in_the_table_without_a_process():
    tree = Tree(1, 2, mpi=PMIX)
    tree.at(0, PRESENT, started(0), server(pmix.GetTable(1, (SPACE,))))
    (table,) = tree.told(0, pmix.Table)
    assert [each.unix_pid for each in table.rows] == [3000, 0]


def test_a_table_has_the_worlds_that_are_asked_for_in_their_order():
    tree = running(2, mpi=PMIX)
    tree.from_yod(spawn(1, 0, 0, 1, first_rank=2))
    tree.at(0, started(2, world=1), started(3, world=1))
    spawned = f"{SPACE}_1"
    tree.at(0, server(pmix.GetTable(1, (spawned, SPACE, spawned))))
    (table,) = tree.told(0, pmix.Table)
    worker = b"/bin/worker"
    assert table.rows[:2] == (row(0, 3002, spawned, worker), row(1, 3003, spawned, worker))
    assert [each.process for each in table.rows[2:]] == [process(0)]


def test_a_table_of_a_world_that_there_is_not_is_a_violation():
    tree = running(1)
    with pytest.raises(PeerProtocolError, match="there is no world"):
        tree.at(0, server(pmix.GetTable(1, (SPACE, "another"))))


# -- names -----------------------------------------------------------------


def publish(serial, *names, is_read_once=False, rank=0):
    pairs = tuple(KeyValue(name, b"value of " + name) for name in names)
    return server(pmix.PublishNames(serial, process(rank), pairs, is_read_once))


def lookup(serial, *names, is_waiting=False):
    return server(pmix.LookupNames(serial, names, is_waiting))


def test_names_are_published_once_and_found_from_everywhere():
    tree = running(3)
    tree.at(1, publish(1, b"a", b"b", rank=1))
    tree.at(2, publish(1, b"a", rank=2), lookup(2, b"b", b"c", b"a"))
    assert [answer.status for answer in answered(tree, 1)] == [0]
    assert [answer.status for answer in answered(tree, 2)] == [-11, 0]
    assert answered(tree, 2)[1].pairs == (
        KeyValue(b"b", b"value of b"),
        KeyValue(b"a", b"value of a"),
    )
    tree.at(0, server(pmix.UnpublishNames(1, (b"a", b"b"))), lookup(2, b"a"))
    assert answered(tree, 0) == [pmix.Answer(1, 0, ()), pmix.Answer(2, -46, ())]


def test_who_waits_for_names_is_answered_when_all_are_there():
    tree = running(3)
    tree.at(2, lookup(5, b"a", b"b", is_waiting=True))
    tree.at(1, publish(1, b"a", rank=1))
    assert answered(tree, 2) == []
    tree.at(0, publish(1, b"b"))
    (answer,) = answered(tree, 2)
    assert (answer.serial, len(answer.pairs)) == (5, 2)


def test_a_name_of_pmix_is_none_of_pmi():
    tree = running(3, mpi=BOTH)
    tree.at(1, publish(1, b"ocean", rank=1))
    (asked,) = [
        action.message
        for action in tree.jobs[2].handle(lookup(1, b"ocean"), 0)
        if not isinstance(action, PmixSend)
    ]
    assert asked.question == pmi.Lookup((b"pmix:ocean",), False)


# -- aborts, ends ----------------------------------------------------------


def test_an_abort_of_a_client_carries_its_code_and_text():
    tree = running(3)
    tree.at(1, server(pmix.AbortJob(4, process(1), 7, "no convergence")))
    text = "the application called abort with code 7: no convergence"
    aborted = failure(FailureKind.ABORTED, "running", text, place=1, rank=1, exit_code=7)
    assert tree.take_to_yod() == [aborted]
    assert answered(tree, 1) == [pmix.Answer(4, 0, ())]


def test_an_abort_is_answered_when_the_root_has_heard_of_it():
    """What comes of the aborted rank's end, such as its peers' aborts, is heard later."""
    tree = running(7)
    up = tree.jobs[3].handle(server(pmix.AbortJob(4, process(3), 7, "")), 0)
    sent = [action.message for action in up if isinstance(action, Send)]
    assert [type(message) for message in sent] == [load.Failure, pmi.Ask]
    assert not any(isinstance(action, PmixSend) for action in up)
    for message in sent:
        tree.at(1, received(pct(3), message))
    assert [told.exit_code for told in tree.take_to_yod()] == [7]
    assert answered(tree, 3) == [pmix.Answer(4, 0, ())]


def test_a_server_is_told_of_every_end_on_its_node_and_of_failures_elsewhere():
    tree = running(7)
    tree.at(3, ended(3, 9))
    for place in range(7):
        (told,) = tree.told(place, pmix.Ended)
        assert told == pmix.Ended(process(3), 9, is_failure=True, is_local=place == 3)
    tree.at(4, ended(4))
    tree.wait(1.0)
    assert tree.told(4, pmix.Ended)[-1] == pmix.Ended(process(4), 0, False, True)
    assert len(tree.told(0, pmix.Ended)) == 1


def test_ranks_that_no_world_has_are_nobodys_loss():
    """The PCT stopped: completions of a child, or a launcher's daemon that failed."""
    tree = running(3)
    zeros = (0,)
    nobody = load.Outcome(256, True, (99,), (21,), zeros, zeros, zeros, zeros, zeros)
    tree.jobs[0].handle(received(pct(1), load.Completions(JOB_ID, (nobody,))), 0)
    tree.jobs[1].handle(received(pct(0), pmi.Lost(JOB_ID, (99,), 256)), 0)


def test_who_ends_before_go_is_told_to_no_other_node():
    tree = Tree(3, mpi=PMIX)
    tree.everywhere(PRESENT)
    tree.at(1, started(1), ended(1, 256, was_released=False))
    assert tree.told(2, pmix.Ended) == []
    tree.at(2, started(2), held(2))


def test_a_fence_that_was_not_asked_for_lets_nobody_go():
    job = running(3).jobs[1]
    out = pmi.FenceOut(JOB_ID, fence(FenceKind.PMIX), (KeyValue(bytes(8), b"x"),), True)
    assert job.handle(received(pct(0), out), 0) == []


def test_open_mpi_shares_no_memory_between_nodes_of_one_host():
    first, second = GrantedNode(20, "n20", 7, 1), GrantedNode(21, "n21", 7, 2)
    elsewhere = GrantedNode(21, "n21", 8, 1)
    for other, is_set in ((second, True), (elsewhere, False)):
        message = load_message(2, mpi=PMIX, nodes=(first, other))
        shared = Wireup(message, [0, 0], frozenset(), Account()).shared_environment()
        assert (b"OMPI_MCA_btl=tcp,self" in shared) is is_set


def shared_of(protocols, nodes, names=frozenset(), has_settings=False):
    """What ranks share on a node that has no fabric."""
    runs = tuple(Run(place, 1) for place in range(len(nodes)))
    message = load_message(2, mpi=protocols, nodes=nodes, runs=runs)
    wireup = Wireup(message, [0, 0], names, Account())
    wireup.port_opened(PmiOpened(JOB_ID, b"", devices=Devices(False, False, has_settings)))
    return wireup.shared_environment()


def test_open_mpi_waits_for_no_fabric_where_there_is_none():
    apart = (GrantedNode(20, "n20", 7, 1), GrantedNode(21, "n21", 8, 1))
    both = (b"OMPI_MCA_mtl=^ofi,psm,psm2", b"OMPI_MCA_btl=^ofi")
    assert shared_of(PMIX, apart) == both
    assert shared_of(PMIX, apart, has_settings=True) == ()
    assert shared_of(PMIX, apart, frozenset({b"FI_PROVIDER"})) == ()
    assert shared_of(Mpi((Protocol.PMI1,)), apart) == ()
    together = (apart[0], GrantedNode(21, "n21", 7, 2))
    assert shared_of(PMIX, together) == (b"OMPI_MCA_btl=tcp,self", both[0])


def test_an_mpi_library_looks_at_no_devices_where_there_are_none():
    alone = (GrantedNode(20, "n20", 7, 1),)
    told = environment.without_devices(())
    assert shared_of(Mpi((Protocol.PMI1,), library=b"/lib/libmpi.so"), alone) == told
    assert shared_of(Mpi((Protocol.PMI1,)), alone) == ()
