"""A hundred thousand nodes: what is given fits in messages, and all of it comes back."""

from allocator.nodes.placement import ArrayPlacement
from native.ids import PortalId
from native.wire import codec
from native.wire.alloc import Freed, Hosting, Refused, Released
from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.status import Announce
from tests.unit.allocator.partition_of import YOD, Partition, ranks_by_node, spec

COUNT = 100_000
NID = 10 << 24


def address(number):
    return PortalId(NID + number, 7117)


def partition_of(count):
    partition = Partition(0, placement=ArrayPlacement())
    partition.checks = False  # it looks at each node
    for number in range(count):
        at = address(number)
        announce = Announce(number, f"nid{number:06d}", 2, at.nid, at.pid, 1, ())
        partition.receive(at, announce)
    return partition


def test_one_job_has_them_all_and_gives_them_back():
    many = partition_of(COUNT)
    grant = many.grant(spec(COUNT * 2))
    assert len(codec.encode(grant)) < 1000
    arrived = codec.decode(codec.encode(grant))
    assert list(arrived.nodes.numbers()) == list(range(COUNT))
    last = arrived.nodes[COUNT - 1]
    assert (last.node, last.name, last.slots) == (99_999, "nid099999", 2)
    assert (last.nid, last.pid) == address(99_999)
    assert arrived.runs.ranks_at(COUNT - 1) == (2 * COUNT - 2, 2 * COUNT - 1)
    credential = codec.decode_credential(arrived.credential)
    assert credential.nodes_digest == codec.nodes_digest(arrived.nodes)
    many.machine.check()
    assert isinstance(many.request(spec(1)), Refused)
    many.receive(address(0), Hosting(grant.job_id))
    assert {many.machine.jobs[1].ranks_on(number) for number in (0, 77_777)} == {
        (0, 1),
        (155_554, 155_555),
    }
    many.release(grant.job_id)
    freed = Freed.of(grant.job_id, range(COUNT))
    assert codec.decode(codec.encode(freed)) == freed
    answers = many.receive(address(0), freed)
    assert [action.message for action in answers if hasattr(action, "message")] == [
        Released(grant.job_id)
    ]
    assert sum(many.free().values()) == 2 * COUNT
    many.machine.check()


def test_a_job_on_every_third_node_fits_in_a_message():
    """As after many jobs of all sizes have come and gone."""
    many = partition_of(90_000)
    wanted = tuple(range(0, 90_000, 3))
    holes = many.grant(spec(len(wanted), *wanted, one_per_node=True))
    assert len(codec.encode(holes)) <= MESSAGE_MAX_BYTES
    assert ranks_by_node(holes) == list(wanted)


def test_what_fits_no_message_is_refused_and_holds_nothing():
    many = partition_of(90_000)
    wanted = tuple(range(0, 90_000, 2))
    refused = many.request(spec(len(wanted), *wanted, one_per_node=True))
    assert "a grant of 45000 nodes does not fit in a message" in refused.text
    assert sum(many.free().values()) == 180_000


def test_a_job_begins_on_the_slots_that_others_have_left():
    many = partition_of(2_000)
    for first in (0, 1_000):
        wanted = tuple(range(first, first + 400, 2))
        many.grant(spec(400, *wanted), source=PortalId(YOD.nid, YOD.pid + first))
    grant = many.grant(spec(3_200))
    nodes = codec.decode(codec.encode(grant)).nodes
    assert sum(node.slots for node in nodes) == 3_200
    assert set(nodes.numbers()) == set(range(2_000)) - {*range(0, 400, 2), *range(1_000, 1_400, 2)}
