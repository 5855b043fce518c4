"""A launch on a hundred thousand nodes, at yod and at a PCT: every message fits."""

from msgspec.structs import replace

from native.machine import MessageReceived
from native.wire import alloc, codec, load
from native.wire.placed import JobNodes, NodeRule, NodeSpan
from native.wire.runs import JobRuns, RunRange
from pct.job.progress import JobState
from pct.tree import tree
from tests.unit.pct.node_of import DAEMON, a_node, accepted
from tests.unit.yod.launch_of import JOB_ID, Yod, grant, slowest
from yod.launch.phases import Phase

COUNT = 100_000
NODES = JobNodes(
    (NodeRule(0, COUNT, "nid000000", 3, 10 << 24, 7117, counts_nid=True),),
    (NodeSpan(0, COUNT, 1),),
)
RUNS = JobRuns((RunRange(0, 1, COUNT),))
ROOT = NODES.address(0)


def granted():
    credential = codec.encode_part(
        alloc.Credential(JOB_ID, 1000, 100, (), 77, 5060, codec.nodes_digest(NODES))
    )
    return replace(
        grant(1),
        nodes=NODES,
        runs=RUNS,
        credential=credential,
        credential_mac=b"mac of " + credential[:4],
    )


def arrives(message):
    """A message as its receiver gets it."""
    return codec.decode(codec.encode(message))


def ranks_in_pieces(size):
    firsts = range(0, COUNT, size)
    return [tuple(range(first, min(first + size, COUNT))) for first in firsts]


def loaded(yod):
    """The load message that yod sends for its grant."""
    (message,) = (
        action.message
        for action in yod.from_bebopd(arrives(granted()))
        if isinstance(getattr(action, "message", None), load.Load)
    )
    return message


def test_yod_brings_it_from_its_grant_to_its_end():
    yod = Yod(COUNT)
    assert len(codec.encode(loaded(yod))) < 1000
    yod.receive(load.Vote(JOB_ID, COUNT, (), (), slowest()), ROOT)
    for ranks in ranks_in_pieces(8192):
        is_last = ranks[-1] == COUNT - 1
        yod.receive(arrives(load.Held(JOB_ID, ranks, ranks, (), slowest(), is_last)), ROOT)
    assert yod.phase is Phase.RUNNING
    for ranks in ranks_in_pieces(4096):
        ones = (1,) * len(ranks)
        outcome = load.Outcome(0, True, ranks, ranks, ranks, ones, ones, ones, ones)
        yod.receive(arrives(load.Completions(JOB_ID, (outcome,))), ROOT)
    assert yod.phase is Phase.ENDING
    yod.receive(arrives(load.Released.of(JOB_ID, range(COUNT))), ROOT)
    yod.from_bebopd(alloc.Released(JOB_ID))
    assert (yod.phase, yod.status) == (Phase.DONE, 0)


def test_a_pct_in_its_midst_takes_it_and_passes_it_on():
    message = loaded(Yod(COUNT))
    place = 7
    pct = a_node()
    pct.begin(0.0)
    pct.handle(accepted(place), 0.0)
    actions = pct.handle(MessageReceived(ROOT, DAEMON, arrives(replace(message, place=place))), 0.0)
    passed_on = {
        action.target: action.message.place
        for action in actions
        if isinstance(getattr(action, "message", None), load.Load)
    }
    below = tree.children(place, COUNT, message.arity)
    assert passed_on == {NODES.address(child): child for child in below}
    job = pct.jobs[JOB_ID]
    assert (job.ranks, job.slots, job.state) == ((place,), 1, JobState.FORMING)


def test_a_pct_refuses_it_when_it_is_not_at_its_place():
    message = loaded(Yod(COUNT))
    pct = a_node()
    pct.begin(0.0)
    pct.handle(accepted(8), 0.0)
    actions = pct.handle(MessageReceived(ROOT, DAEMON, replace(message, place=7)), 0.0)
    assert [action.message.text for action in actions if hasattr(action, "message")] == [
        "this is node 8, not 7"
    ]
