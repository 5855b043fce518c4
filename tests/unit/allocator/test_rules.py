"""Rules of names and addresses, kept up to date node by node."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from allocator.nodes.rules import Rules
from native.ids import PortalId
from native.wire.placed import GrantedNode, NodeSpan


class Known(Struct):
    number: int
    name: str
    address: PortalId


changes = st.lists(
    st.builds(
        lambda number, name, shift: Known(
            number, name.format(number), PortalId((shift << 24) + number, 7000)
        ),
        st.integers(0, 90),
        st.sampled_from(["n{}", "n{}", "n{:03d}", "m{}"]),
        st.sampled_from([10, 10, 11]),
    ),
    max_size=60,
)


@given(changes, st.lists(st.integers(0, 90), unique=True))
def test_nodes_of_a_job_have_the_names_and_addresses_that_were_last_announced(announced, wanted):
    nodes: dict[int, Known] = {}
    rules = Rules(nodes)
    for each in announced:
        nodes[each.number] = each
        rules.changed(each.number)
        rules.check()
    spans = tuple(NodeSpan(number, 1, 1) for number in wanted if number in nodes)
    if spans:
        assert list(rules.of(spans)) == [
            GrantedNode(each.node, nodes[each.node].name, *nodes[each.node].address)
            for each in spans
        ]


def test_nodes_that_come_in_any_order_are_one_rule_in_the_end():
    nodes: dict[int, Known] = {}
    rules = Rules(nodes)
    for number in [*range(1, 200, 2), *range(0, 200, 2)]:
        nodes[number] = Known(number, f"n{number}", PortalId(1000 + number, 7))
        rules.changed(number)
    rules.check()
    assert len(rules.of((NodeSpan(0, 200, 1),)).rules) == 1
    nodes[100] = Known(100, "n100", PortalId(5, 5))
    rules.changed(100)
    rules.check()
    assert len(rules.of((NodeSpan(0, 200, 1),)).rules) == 3
    assert len(rules.of((NodeSpan(0, 100, 1), NodeSpan(150, 2, 1))).rules) == 2
