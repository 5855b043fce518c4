"""What ranks have a node keep is bounded: who asks for more is told, and the end gives all back."""

from __future__ import annotations

import gc

import pytest

from native.errors import PeerProtocolError
from native.wire import io, keeper, load, pmi, pmix
from native.wire.load import Mpi, Protocol
from native.wire.pmi import FenceKind, KeyValue
from pct.account import Account, Charge, OverLimit
from pct.events import InputTaken, KeeperReported, OutputRead, StartKeeper, WriteInput
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.pmi_events import (
    PmiClosed,
    PmiConnected,
    PmiHangUp,
    PmiReceived,
    PmixReceived,
    StartPmixServer,
)
from pct.wireup.kvs import KeyValueSpace
from pct.wireup.machine import Wireup
from pct.wireup.pmi.conversation import Conversation
from pct.wireup.world import World
from tests.unit.pct.job_of import JOB_ID, SERVER_ENDED, SPACE, Tree, held, joins, says, started

NAME = SPACE.encode()
STORE = 64 * 1024
LIMIT = f"at most {STORE} bytes for a job (YOD_JOB_STORE_BYTES of its pct)"
IN_A_WORD = LIMIT.replace(" ", "_").encode()
VALUE = b"v" * 1000


def running(size: int = 1, ranks_each: int = 1, **fields) -> Tree:
    """A running job whose nodes keep little; all ranks have joined."""
    tree = Tree(size, ranks_each, store_bytes=STORE, **fields)
    tree.run()
    for place, job in tree.jobs.items():
        for rank in job.ranks:
            tree.at(place, *joins(rank))
    tree.take_to_yod()
    return tree


def end(tree: Tree) -> None:
    """The job ends, and every node holds nothing for it."""
    tree.from_yod(load.AllDone(JOB_ID))
    for place, job in tree.jobs.items():
        for number in {action.world for action in tree.took(place, StartKeeper)}:
            tree.at(place, KeeperReported(JOB_ID, keeper.KeeperEmpty(), number))
        closed = [OutputRead(JOB_ID, rank, stream, b"") for rank in job.ranks for stream in (1, 2)]
        tree.at(place, *closed)
        if tree.took(place, StartPmixServer):
            tree.at(place, SERVER_ENDED)
    assert set(tree.states()) == {JobState.RELEASED}
    assert [job.account.used_bytes for job in tree.jobs.values()] == [0] * len(tree.jobs)


def put(number: int, value: bytes = VALUE) -> bytes:
    return b"cmd=put kvsname=%s key=k%d value=%s" % (NAME, number, value)


def excess(tree: Tree) -> list[pmi.Excess]:
    return [message for message in tree.take_to_yod() if isinstance(message, pmi.Excess)]


# -- the account -----------------------------------------------------------


def test_what_is_refused_is_not_taken_and_what_is_given_back_can_be_taken_again():
    account = Account(100)
    first, second = Charge(account), Charge(account)
    first.add(60)
    with pytest.raises(OverLimit, match="at most 100 bytes for a job"):
        second.add(50)
    assert (account.used_bytes, second.held_bytes) == (60, 0)
    first.set(10)
    second.add(50)
    second.owe(100)
    assert account.used_bytes == 160
    first.clear()
    second.clear()
    assert account.used_bytes == 0


# -- PMI -------------------------------------------------------------------


def test_a_rank_that_puts_without_end_is_refused_by_name_of_the_limit_and_may_go_on():
    tree = running(3)
    for number in range(100):
        tree.at(1, says(1, put(number)))
    answers = tree.said(1, 1).splitlines()
    assert answers[-1].startswith(b"cmd=put_result rc=-1 msg=") and IN_A_WORD in answers[-1]
    assert 40 < sum(b"rc=0 msg=success" in answer for answer in answers) < 64
    assert excess(tree) == [pmi.Excess(JOB_ID, "n21", f"a node keeps {LIMIT}")]
    tree.at(1, says(1, put(0, b"short")))
    assert tree.said(1, 1).endswith(b"cmd=put_result rc=0 msg=success\n")
    end(tree)


def test_a_limit_is_told_once_however_many_nodes_reach_it():
    tree = running(7)
    for number in range(100):
        for place in range(7):
            tree.at(place, says(place, put(number)))
    assert len(excess(tree)) == 1
    end(tree)


def test_the_same_is_told_to_a_client_of_pmi_2():
    tree = Tree(1, store_bytes=STORE, mpi=Mpi((Protocol.PMI2,)))
    tree.run()

    def frame(body: bytes) -> PmiReceived:
        return PmiReceived(JOB_ID, 9, b"%-6d%s" % (len(body), body))

    init = b"cmd=init pmi_version=2 pmi_subversion=0\n"
    tree.at(0, PmiConnected(JOB_ID, 9, 0), PmiReceived(JOB_ID, 9, init))
    tree.at(0, frame(b"cmd=fullinit;pmirank=0;threaded=FALSE;"))
    for command in (b"kvs-put", b"info-putnodeattr"):
        for number in range(80):
            tree.at(0, frame(b"cmd=%s;key=%d;value=%s;" % (command, number, VALUE)))
        assert b"rc=-1;errmsg=a node keeps " + LIMIT.encode() in tree.said(0, 9)
    end(tree)


def test_pairs_that_no_node_can_keep_together_fail_the_job_and_not_the_nodes():
    tree = running(7)
    for number in range(40):
        for place in range(7):
            tree.at(place, says(place, put(100 * place + number)))
    for place in range(7):
        tree.at(place, says(place, b"cmd=barrier_in"))
    failures = {m.kind for m in tree.take_to_yod() if isinstance(m, load.Failure)}
    assert failures == {load.FailureKind.NO_WIREUP}
    end(tree)


def test_fences_leave_nothing_behind_but_the_pairs():
    tree = running(3)
    used = []
    for _ in range(4):
        for place in range(3):
            tree.at(place, says(place, put(place)), says(place, b"cmd=barrier_in"))
        used.append([job.account.used_bytes for job in tree.jobs.values()])
    assert used[0] == used[-1]
    end(tree)


def test_names_are_refused_by_name_of_the_limit():
    tree = running(3)
    for number in range(100):
        tree.at(2, says(2, b"cmd=publish_name service=s%d port=%s" % (number, VALUE)))
    answer = tree.said(2, 2).splitlines()[-1]
    assert answer.startswith(b"cmd=publish_result rc=-1 msg=") and IN_A_WORD in answer
    assert [told.name for told in excess(tree)] == ["n20"]
    end(tree)


def test_spawns_without_end_are_refused_at_the_root_before_yod_is_asked():
    tree = running(3)
    block = b"mcmd=spawn\nnprocs=1\nexecname=worker\nendcmd"
    for number in range(20):
        tree.at(1, says(1, block))
        asks = [m for m in tree.take_to_yod() if isinstance(m, pmi.Ask)]
        if not asks:
            break
        spawned = load.StartWorld(
            job_id=JOB_ID,
            world=number + 1,
            first_rank=3 + number,
            runs=(load.Run(1, 1),),
            paths=(b"/bin/worker",),
            members=(load.MemberLoad(1, 0, (b"worker",), b"/tmp"),),
            environments=((),),
            parent=pmi.Process(0, 1),
            pairs=(),
            is_tool=False,
            source=asks[0].source,
            serial=asks[0].serial,
        )
        tree.from_yod(spawned)
        tree.at(1, started(3 + number, number + 1), held(3 + number, world=number + 1))
        for stream in (1, 2):
            tree.at(1, OutputRead(JOB_ID, 3 + number, stream, b""))
    assert 2 < number < 10
    answer = tree.said(1, 1).splitlines()[-1]
    assert answer.startswith(b"cmd=spawn_result rc=-1 msg=") and IN_A_WORD in answer
    end(tree)


def test_spawns_that_yod_refuses_cost_nothing():
    tree = running()
    before = tree.jobs[0].account.used_bytes
    for _ in range(20):
        tree.at(0, says(0, b"mcmd=spawn\nnprocs=1\nexecname=worker\nendcmd"))
        (ask,) = [m for m in tree.take_to_yod() if isinstance(m, pmi.Ask)]
        tree.from_yod(pmi.Reply(JOB_ID, ask.source, ask.serial, -1, (), "no such program"))
    assert tree.jobs[0].account.used_bytes == before
    end(tree)


def test_connections_without_end_are_hung_up_on_and_a_closed_one_makes_room():
    tree = running()
    for number in range(100, 150):
        tree.at(0, PmiConnected(JOB_ID, number, None))
    refused = {each.connection for each in tree.took(0, PmiHangUp)}
    assert refused and max(refused) == 149 and min(refused) > 105
    assert len(excess(tree)) == 1
    tree.at(0, PmiClosed(JOB_ID, 100), PmiConnected(JOB_ID, 200, None))
    assert PmiHangUp(JOB_ID, 200) not in tree.took(0, PmiHangUp)
    end(tree)


def test_requests_whose_answers_must_wait_are_counted_and_end_the_rank_that_goes_on():
    tree = running(ranks_each=2)
    for number in range(100, 110):
        tree.at(0, PmiConnected(JOB_ID, number, 0))
        tree.at(0, says(number, b"cmd=init pmi_version=1 pmi_subversion=1"))
        fences = [b"cmd=barrier_in"] + [b"cmd=get_maxes"] * 100
        tree.at(0, says(number, *fences))
        if tree.took(0, PmiHangUp):
            break
    (aborted,) = [m for m in tree.take_to_yod() if isinstance(m, load.Failure)]
    assert aborted.kind is load.FailureKind.ABORTED and LIMIT in aborted.text
    end(tree)


def test_lines_and_spawns_that_never_end_are_counted():
    tree = running()
    lines = b"mcmd=spawn\nnprocs=1\n" + b"".join(b"x%d=\n" % number for number in range(2000))
    tree.at(0, PmiReceived(JOB_ID, 0, lines))
    assert PmiHangUp(JOB_ID, 0) in tree.took(0, PmiHangUp)
    end(tree)


# -- PMIx ------------------------------------------------------------------


def test_a_pmix_server_is_told_that_there_is_no_room_for_names_and_questions():
    tree = running(3, mpi=Mpi((Protocol.PMIX,), libpmix=(b"/l",)))
    who = pmix.NamedProcess(SPACE, 1)
    pairs = (KeyValue(b"k", bytes(30_000)),)
    for number in range(4):
        named = tuple(KeyValue(b"%d" % number + pair.key, pair.value) for pair in pairs)
        tree.at(1, server(pmix.PublishNames(number, who, named, False)))
    statuses = [answer.status for answer in tree.told(1, pmix.Answer)]
    assert statuses == [0, 0, -29, -29]
    for number in range(200):
        tree.at(1, server(pmix.LookupNames(100 + number, (b"never",), True)))
    assert tree.told(1, pmix.Answer)[-1].status == -29
    assert [told.name for told in excess(tree)] == ["n20"]
    end(tree)


def test_a_pmix_fence_that_cannot_be_kept_fails_the_job():
    tree = running(3, mpi=Mpi((Protocol.PMIX,), libpmix=(b"/l",)))
    everybody = (pmix.NamedProcess(SPACE, -1),)
    tree.at(1, server(pmix.Enter(1, FenceKind.PMIX, everybody, bytes(100_000))))
    (told,) = [m for m in tree.take_to_yod() if isinstance(m, load.Failure)]
    assert told.kind is load.FailureKind.NO_WIREUP and LIMIT in told.text
    end(tree)


def server(message: pmix.FromServer):
    return PmixReceived(JOB_ID, message)


# -- input -----------------------------------------------------------------


def test_input_beyond_the_credit_is_not_taken():
    tree = running(input_ranks=((0, 0),))
    window = 16 * 1024  # a quarter of the output's
    tree.from_yod(io.Input(JOB_ID, bytes(window)))
    with pytest.raises(PeerProtocolError, match="1 bytes of input, 0 due"):
        tree.from_yod(io.Input(JOB_ID, b"x"))
    tree.at(0, InputTaken(JOB_ID, 1))
    tree.from_yod(io.Input(JOB_ID, b"x"))
    assert [len(each.data) for each in tree.took(0, WriteInput)] == [window, 1]


# -- the end ---------------------------------------------------------------


def test_nothing_of_a_job_is_left_in_memory_after_its_end():
    def kept() -> int:
        gc.collect()
        kinds = (Job, Wireup, World, KeyValueSpace, Conversation, Charge)
        return sum(isinstance(one, kinds) for one in gc.get_objects())

    before = kept()
    tree = running(3)
    for place in range(3):
        tree.at(place, says(place, put(place)), says(place, b"cmd=barrier_in"))
    tree.at(0, says(0, b"cmd=publish_name service=s port=p"))
    assert kept() > before
    end(tree)
    del tree
    assert kept() == before
