"""Features of nodes: what an expression means, and who gets which nodes by it."""

import random

import pytest

from allocator.nodes import nodesfile
from allocator.nodes.access import NOWHERE
from allocator.nodes.features import where
from allocator.nodes.placement import ArrayPlacement
from allocator.queue.backfill import Backfill
from native.errors import Refusal, UsageError
from native.wire import batch
from native.wire.alloc import Grant, Refused
from native.wire.base import Terms
from tests.unit.allocator.partition_of import ALICE, Partition, spec
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled
from tests.unit.allocator.test_batch import OTHER

HAVE = {
    "gpu": frozenset((0, 1, 2)),
    "ib": frozenset((1, 2, 3)),
    "rack1": frozenset((0, 1)),
    "rack2": frozenset((2, 3)),
}
ALL = frozenset()


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("gpu", {0, 1, 2}),
        (" gpu & ib ", {1, 2}),
        ("rack1|ib", {0, 1, 2, 3}),
        ("gpu&rack1|rack2", {0, 1, 2, 3}),
        ("gpu&(rack1|rack2)&ib", {1, 2}),
        ("((gpu))", {0, 1, 2}),
        ("[rack1|rack2]", {0, 1, 2, 3}),
    ],
)
def test_an_expression_means_nodes(text, nodes):
    assert where(HAVE, text, ALL).nodes == nodes


def test_square_brackets_mean_one_of_the_sets_and_what_is_joined_holds_for_each():
    assert where(HAVE, "[rack1|rack2]", ALL).one_of == (HAVE["rack1"], HAVE["rack2"])
    assert where(HAVE, "gpu&[rack1|rack2&ib]", ALL).one_of == ({0, 1}, {2})
    assert where(HAVE, "[rack1|rack2]", frozenset((2,))).one_of == ({2},)


def test_nodes_of_the_queue_alone_count_and_none_is_not_all():
    assert where(HAVE, "gpu", frozenset((2, 3))).nodes == {2}
    assert where(HAVE, "gpu&rack1", frozenset((3,))).nodes == NOWHERE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a feature is missing at its end"),
        ("gpu&", "a feature is missing at its end"),
        ("&gpu", "a feature is missing before &"),
        ("gpu ib", "what is ib for?"),
        ("gpu*2", "* is no part of one"),
        ("(gpu", ") is missing"),
        ("gpu)", "what is ) for?"),
        ("[gpu|ib", "] is missing"),
        ("gpu|[rack1|rack2]", "[...] goes with & only"),
        ("[gpu]&[ib]", "there is one [...] at most"),
        ("[[gpu]]", "there is one [...] at most"),
        ("(" * 17 + "gpu" + ")" * 17, "more than 16 parentheses in one another"),
        ("fpga", "no node has the feature fpga; there are gpu, ib, rack1, rack2"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(text, says):
    with pytest.raises(UsageError) as error:
        where(HAVE, text, ALL)
    assert says in str(error.value)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_written_means_nodes_or_is_refused(seed):
    choose = random.Random(seed)
    words = [*HAVE, *"&&&|||()[]", " ", "*", "\0", "é"]
    text = "".join(choose.choice(words) for _ in range(choose.randint(0, 40)))
    try:
        found = where(HAVE, text, ALL)
    except UsageError:
        return
    assert found.nodes
    assert all(each <= found.nodes for each in found.one_of)


def test_the_nodes_file_names_features():
    found = nodesfile.parse("n0 features=gpu,ib\nn1\nn2 features=ib for=batch\n", "nodes")
    assert found.features == {"gpu": {0}, "ib": {0, 2}}
    with pytest.raises(UsageError, match="nodes:1: `features=gpu,`: features are names"):
        nodesfile.parse("n0 features=gpu,\n", "nodes")


def constrained(text):
    return {"terms": Terms(constraint=text)}


@pytest.fixture(params=["list", "arrays"])
def four(request):
    """Four nodes of two slots, with the features above."""
    placement = ArrayPlacement() if request.param == "arrays" else None
    partition = Partition(4, 2, placement=placement)
    partition.machine.nodes.features = HAVE
    return partition


def nodes_of(grant):
    assert isinstance(grant, Grant), grant
    return [node.node for node in grant.nodes]


def test_a_request_gets_nodes_with_the_features(four):
    assert nodes_of(four.request(spec(3), **constrained("ib"))) == [1, 2]
    assert nodes_of(four.request(spec(1), **constrained("ib&rack2"))) == [2]


def test_an_exclusive_or_gives_nodes_of_one_set_only(four):
    assert nodes_of(four.request(spec(2), **constrained("gpu&rack1"))) == [0]
    assert nodes_of(four.request(spec(4), **constrained("[rack1|rack2]"))) == [2, 3]
    refused = four.request(spec(3), **constrained("[rack1|rack2]"))
    assert refused.code is Refusal.BUSY
    assert "nodes 2..3 are without the same of [rack1|rack2]" in refused.text


def test_what_no_set_could_ever_give_is_refused_at_once(four):
    refused = four.request(spec(5), waits=True, **constrained("[rack1|rack2]"))
    assert isinstance(refused, Refused) and refused.code is Refusal.NOT_ENOUGH_NODES
    assert "without the same of [rack1|rack2]" in refused.text
    refused = four.request(spec(1), waits=True, **constrained("fpga"))
    assert (refused.code, refused.text) == (
        Refusal.BAD_REQUEST,
        "--constraint fpga: no node has the feature fpga; there are gpu, ib, rack1, rack2",
    )


def test_of_several_sets_it_is_the_one_that_is_free_first():
    partition = Backfilled(4, 1)
    partition.machine.nodes.features = HAVE
    partition.job(1, 2 * HOUR_S, spec=spec(1, 1))
    partition.job(1, HOUR_S, spec=spec(1, 3))
    waits = partition.job(2, HOUR_S, **constrained("[rack1|rack2]"))
    assert partition.begins_in(waits) == HOUR_S
    partition.end(2)
    assert partition.machine.jobs[waits].holdings.keys() == {2, 3}


def test_a_job_whose_features_are_gone_waits_and_says_so():
    partition = Backfilled(4, 1, policy=Backfill)
    partition.machine.nodes.features = HAVE
    partition.job(3, HOUR_S, spec=spec(3, 0, 1, 2))
    waits = partition.job(1, HOUR_S, **constrained("gpu"))
    partition.machine.nodes.features = {}
    partition.machine.rules_changed()
    partition.end(1)
    assert partition.has_slots(waits) == [False]
    assert "without gpu" in partition.row(waits).reason
    partition.machine.nodes.features = {"gpu": frozenset((3,))}
    partition.machine.rules_changed()
    partition.receive(OTHER, batch.Ask(), ALICE)
    partition.keep()
    assert partition.machine.jobs[waits].holdings.keys() == {3}
