"""The PMIx servers of a job's nodes: start, end, aborts, and what they are told of ranks."""

import pytest

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import load, pmi, pmix
from native.wire.load import FailureKind, Mpi, Protocol
from native.wire.pmix import NamedProcess
from pct.events import KeeperEnd, OutputRead, StartKeeper
from pct.job.progress import JobState
from pct.pmi_events import PmixSend, StartPmixServer
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
    held,
    pct,
    received,
    replaced,
    server,
    started,
)
from tests.unit.pct.pmix_of import answered, process, running

BOTH = Mpi((Protocol.PMI1, Protocol.PMIX))
CERTAIN = Mpi((Protocol.PMIX,), is_certain=True)
CHOSEN = Mpi((Protocol.PMIX,), libpmix=(b"/l",), is_libpmix_chosen=True)
NO_LIBPMIX = server(pmix.Unavailable("no libpmix.so.2 in /opt or the system"))


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
    assert tree.take_to_yod() == [load.Released.of(JOB_ID, (20,))]


def test_a_job_that_ends_before_its_ranks_start_ends_its_server_too():
    tree = Tree(1, has_servers=False, mpi=PMIX)
    tree.from_yod(load.AllDone(JOB_ID))
    assert tree.took(0, KeeperEnd) == [KeeperEnd(JOB_ID)]
    tree.at(0, READY)  # it crossed
    assert tree.take_to_yod() == []
    tree.at(0, SERVER_ENDED)
    assert tree.take_to_yod() == [load.Released.of(JOB_ID, (20,))]


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


@pytest.mark.parametrize(("number", "is_told"), [(9, False), (15, False), (10, True)])
def test_nodes_do_not_tell_one_another_of_ranks_that_yod_ends(number, is_told):
    tree = running(7)
    told = ended(3, number)
    tree.at(3, replaced(told, report=replaced(told.report, was_signalled=True)))
    tree.wait(1.0)
    assert [bool(tree.told(place, pmix.Ended)) for place in (0, 3, 5)] == [is_told, True, is_told]


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
