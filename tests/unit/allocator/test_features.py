"""Features of nodes: what an expression means, and who gets which nodes by it."""

import random
from collections import Counter
from itertools import combinations

import pytest

from allocator.jobs.covering import covering, is_covered, select_covering
from allocator.nodes import nodesfile
from allocator.nodes.access import NOWHERE, Least
from allocator.nodes.features import where
from allocator.nodes.placement import ArrayPlacement
from allocator.queue.backfill import Backfill
from native.errors import Refusal, UsageError
from native.wire import batch
from native.wire.alloc import Grant, Refused
from native.wire.base import Terms
from native.wire.status import Announce, Feature
from tests.unit.allocator.partition_of import ALICE, Partition, pct, spec
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
    def one_of(text, among=ALL):
        return [choice.nodes for choice in where(HAVE, text, among).one_of]

    assert one_of("[rack1|rack2]") == [HAVE["rack1"], HAVE["rack2"]]
    assert one_of("gpu&[rack1|rack2&ib]") == [{0, 1}, {2}]
    assert one_of("[rack1|rack2]", frozenset((2,))) == [{2}]


def least_of(found):
    return [(set(each.nodes), each.count) for each in found.least]


def test_a_count_is_of_the_nodes_of_the_job_and_all_others_may_be_any():
    found = where(HAVE, "ib*2&gpu*1", ALL)
    assert (found.nodes, found.one_of) == (ALL, ())
    assert least_of(found) == [({1, 2, 3}, 2), ({0, 1, 2}, 1)]
    found = where(HAVE, "gpu&ib*2", ALL)
    assert (found.nodes, least_of(found)) == ({0, 1, 2}, [({1, 2}, 2)])
    found = where(HAVE, "ib*2", frozenset((0, 3)))
    assert (found.nodes, least_of(found)) == ({0, 3}, [({3}, 2)])
    (either,) = where(HAVE, " ( gpu & ib|rack2 ) * 3", ALL).least
    assert (either.nodes, either.count, either.name) == ({1, 2, 3}, 3, "( gpu & ib|rack2 )")


def test_counts_in_square_brackets_are_those_of_one_choice():
    found = where(HAVE, "[rack1*2|rack2*2]", ALL)
    assert [(each.nodes, least_of(each)) for each in found.one_of] == [
        (ALL, [({0, 1}, 2)]),
        (ALL, [({2, 3}, 2)]),
    ]
    found = where(HAVE, "gpu*2&[rack1|rack2*1&ib*1]", frozenset((1, 2, 3)))
    assert [(each.nodes, least_of(each)) for each in found.one_of] == [
        ({1}, [({1}, 2)]),
        ({1, 2, 3}, [({1, 2}, 2), ({2, 3}, 1), ({1, 2, 3}, 1)]),
    ]


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
        ("gpu+*2", "no node has the feature gpu+"),
        ("gpu*", "behind gpu* there is to be a count of nodes, from 1"),
        ("gpu*0", "behind gpu* there is to be a count of nodes, from 1"),
        ("gpu*-1", "- is no part of one"),
        ("gpu*99999999", "behind gpu* there is to be a count of nodes, from 1"),
        ("gpu*2*2", "what is * for?"),
        ("*2", "a feature is missing before *"),
        ("gpu*2|ib", "a count goes with & only, and with | in [...]"),
        ("(gpu*2&ib)*2", "a count of (gpu*2&ib), which has one or [...] inside"),
        ("([gpu|ib])*2", "a count of ([gpu|ib]), which has one or [...] inside"),
        ("&".join(["gpu*1"] * 9), "more than 8 counts"),
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
    words = [*HAVE, *"&&&|||()[]", " ", "*", "*2", "*1&", "\0", "é"]
    text = "".join(choose.choice(words) for _ in range(choose.randint(0, 40)))
    try:
        found = where(HAVE, text, ALL)
    except UsageError:
        return
    assert found.nodes or "*" in text
    assert all(each.nodes <= found.nodes or not found.nodes for each in found.one_of)


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


def test_so_many_nodes_of_a_job_have_the_features_that_are_counted(four):
    assert nodes_of(four.request(spec(4, node_count=2), **constrained("rack2*1"))) == [0, 2]
    assert nodes_of(four.request(spec(2), **constrained("ib*2"))) == [1, 3]


def test_counts_get_as_many_nodes_as_they_need_and_no_more(four):
    assert nodes_of(four.request(spec(4), **constrained("ib*2&gpu*1"))) == [1, 2]
    refused = four.request(spec(2), **constrained("ib*2"))
    assert refused.code is Refusal.BUSY
    assert nodes_of(four.request(spec(3), **constrained("rack1*1&rack2*1"))) == [0, 3]


def test_with_one_rank_on_each_node_of_a_list_the_list_is_counted(four):
    listed = spec(2, 0, 1, one_per_node=True)
    assert nodes_of(four.request(listed, **constrained("gpu*2"))) == [0, 1]
    refused = four.request(listed, waits=True, **constrained("ib*2"))
    assert refused.text == "2 nodes with ib requested, there is 1"


def test_of_counts_in_square_brackets_one_is_met(four):
    four.request(spec(2, 0, 1, one_per_node=True))
    four.request(spec(1, 0))
    asked = constrained("[rack1*2|rack2*2]")
    assert nodes_of(four.request(spec(5), **asked)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "asked", "says"),
    [
        ("ib*4", spec(8), "4 nodes with ib requested, there are 3"),
        ("ib*3", spec(2), "3 nodes with ib requested for a job of 2 ranks"),
        ("ib*3", spec(4, node_count=2), "3 nodes with ib requested for a job of 2 nodes"),
        (
            "rack1*2&rack2*1",
            spec(4, node_count=2),
            "3 nodes needed (2 with rack1 and 1 with rack2) for a job of 2 nodes",
        ),
        ("rack1&ib*2", spec(2), "2 nodes with ib requested, there is 1"),
    ],
)
def test_counts_that_can_never_be_met_are_refused_at_once_with_the_numbers(four, text, asked, says):
    refused = four.request(asked, waits=True, **constrained(text))
    assert (refused.code, refused.text) == (Refusal.NOT_ENOUGH_NODES, says)


def test_counts_go_with_one_member(four):
    refused = four.request(spec(1), spec(1), **constrained("ib*1"))
    says = "counts of features go with one member, there are 2"
    assert (refused.code, refused.text) == (Refusal.BAD_REQUEST, says)


def test_a_job_with_counts_is_expected_when_enough_of_these_nodes_are_free():
    partition = Backfilled(4, 1)
    partition.machine.nodes.features = HAVE
    first = partition.job(1, HOUR_S, spec=spec(1, 1))
    partition.job(1, 2 * HOUR_S, spec=spec(1, 2))
    waits = partition.job(2, HOUR_S, **constrained("ib*2"))
    assert partition.begins_in(waits) == HOUR_S
    assert partition.has_slots(partition.job(1, HOUR_S)) == [True]  # node 0: it delays nobody
    later = partition.job(1, 3 * HOUR_S, spec=spec(1, 3))
    assert partition.has_slots(later) == [False]  # it would
    partition.end(first)
    assert partition.machine.jobs[waits].holdings.keys() == {1, 3}


@pytest.mark.parametrize("seed", range(200))
def test_what_is_chosen_is_of_each_set_and_what_is_found_for_few_nodes_is_found_for_more(seed):
    choose = random.Random(seed)
    numbers = choose.sample(range(20), choose.randint(1, 12))
    sets = [frozenset(choose.sample(range(20), 8)) for _ in range(choose.randint(1, 2))]
    least = tuple(Least(each, choose.randint(1, 4), "") for each in sets)
    candidates = [(number, choose.randint(1, 4)) for number in numbers]
    size = choose.randint(1, 20)
    fewest = min(
        (
            len(some)
            for count in range(1, 9)
            for some in combinations(numbers, min(count, len(numbers)))
            if is_covered(least, some)
        ),
        default=None,
    )
    found = covering(least, numbers)
    assert (None if found is None else len(found)) == fewest
    for asked in (spec(size), spec(size, plane=1), spec(size, node_count=choose.randint(1, size))):
        picks = select_covering(asked, candidates, least)
        if picks is None:
            continue
        assert is_covered(least, [number for number, _ in picks])
        assert sum(ranks for _, ranks in picks) == size
        rooms = dict(candidates)
        ranks = Counter()
        for number, here in picks:
            ranks[number] += here
        assert all(0 < here <= rooms[number] for number, here in ranks.items())
        if asked.node_count:
            assert len(picks) == asked.node_count
    if fewest is not None and fewest <= size <= sum(room for _, room in candidates):
        assert select_covering(spec(size), candidates, least) is not None


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


def says(partition, number, *features):
    """A node announces what its host can do."""
    told = Announce(number, f"node{number}", 1, *pct(number), 1, features=features)
    partition.receive(pct(number), told)


def test_what_hosts_can_do_is_a_feature_beside_those_of_the_nodes_file():
    partition = Partition(4, 1)
    partition.machine.nodes.features = {**HAVE, "criu": frozenset((0,))}
    says(partition, 3, Feature.CRIU)
    grant = partition.grant(spec(2), **constrained("criu"))
    assert nodes_of(grant) == [0, 3]
    assert nodes_of(partition.grant(spec(1), **constrained("gpu"))) == [1]


def test_where_no_host_can_a_line_says_what_it_takes():
    partition = Partition(2, 1)
    says(partition, 1, Feature.CRIU)
    says(partition, 1)
    refused = partition.request(spec(1), waits=True, **constrained("criu"))
    assert refused.code is Refusal.BAD_REQUEST
    assert refused.text == (
        "--constraint criu: no node has the feature criu; CRIU works on none, or its pct is not"
        " root's (`yodctl doctor` there)"
    )


def test_who_waits_for_a_host_that_can_begins_where_one_says_so():
    partition = Backfilled(2, 1, policy=Backfill)
    says(partition, 0, Feature.CRIU)
    held = partition.job(1, HOUR_S, spec=spec(1, 0))
    waits = partition.job(1, HOUR_S, **constrained("criu"))
    assert partition.has_slots(waits) == [False]
    assert "without criu" in partition.row(waits).reason
    says(partition, 1, Feature.CRIU)
    assert partition.has_slots(waits) == [True]
    partition.end(held)
