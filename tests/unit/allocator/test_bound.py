"""Ranks that are bound: what bebopd grants, the nodes' tables of cores can give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allocator.nodes.layout import lay, room
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.placement_list import ListPlacement
from native.errors import Refusal
from native.wire.alloc import Grant, Needs, Refused, node_share_of
from native.wire.codec import decode_credential
from native.wire.runs import Binding, CoreGroup, Reach
from native.wire.status import Announce, HostedJob
from pct.cores import Core, CoreTable, dealt
from tests.unit.allocator.partition_of import Partition, pct, spec

bindings = st.one_of(
    st.none(),
    st.builds(
        Binding,
        per_socket=st.sampled_from([0, 0, 1, 2]),
        sockets=st.sampled_from([0, 0, 1, 2]),
        per_numa=st.sampled_from([0, 0, 1, 2]),
        threads=st.sampled_from([0, 0, 1, 2]),
        reach=st.sampled_from([None, *Reach]),
    ),
)
specs = st.builds(
    lambda size, count, cores, plane, binding: spec(
        size,
        node_count=count,
        cores=cores,
        plane=plane,
        needs=None if binding is None else Needs(binding=binding),
    ),
    st.integers(1, 8),
    st.sampled_from([0, 0, 1, 2]),
    st.integers(1, 3),
    st.sampled_from([0, 0, 1]),
    bindings,
).filter(lambda each: not each.contradiction)
steps = st.lists(
    st.tuples(st.lists(specs, min_size=1, max_size=3), st.booleans(), st.integers(0, 4)),
    max_size=12,
)


@st.composite
def machines(draw):
    """The cores of a node, as irregular as control groups and kinds of cores make them."""
    cores, cpu = [], 0
    for socket in range(draw(st.integers(1, 3))):
        for numa in range(draw(st.integers(1, 2))):
            for _ in range(draw(st.integers(0, 4))):
                threads = draw(st.sampled_from([1, 2, 2]))
                cores.append(Core(socket, 2 * socket + numa, tuple(range(cpu, cpu + threads))))
                cpu += threads
    return tuple(cores)


def announce(partition, number, cores, slots=0, jobs=()):
    at, groups = pct(number), CoreTable(cores).groups
    slots = slots or max(1, len(cores))
    message = Announce(number, f"n{number}", slots, at.nid, at.pid, 1, jobs, (), 0, (), groups)
    return partition.receive(at, message)


def partition_of(*hosts, placement=ListPlacement, **options):
    partition = Partition(0, placement=placement(), **options)
    for number, cores in enumerate(hosts):
        announce(partition, number, cores)
    return partition


def take(tables, grant, asked):
    """Have the nodes take a grant; the processors of each rank's own cores, by node."""
    shares = decode_credential(grant.credential).shares
    member_of = [nth for nth, each in enumerate(asked) for _ in range(each.size)]
    bindings_of = {
        nth: (each.cores, each.needs.binding)
        for nth, each in enumerate(asked)
        if each.needs is not None
    }
    ranks_of, rank = {}, 0
    for run in grant.runs:
        ranks_of.setdefault(grant.nodes[run.place].node, []).extend(range(rank, rank + run.count))
        rank += run.count
    found = {}
    for node, ranks in ranks_of.items():
        share = node_share_of(shares, node)
        if share is not None and share.cores:
            assert tables[node].take(grant.job_id, share.cores) == ""
        given = tables[node].of(grant.job_id)
        found[node] = {}
        if given is not None:
            own = {
                nth: (count, replace(binding, reach=None))
                for nth, (count, binding) in bindings_of.items()
            }
            found[node] = dealt(sorted(ranks), member_of, own, given)
            reached = dealt(sorted(ranks), member_of, bindings_of, given)
            for rank, cpus in found[node].items():
                _, binding = bindings_of[member_of[rank]]
                demand_reached(given.here, binding, cpus, reached[rank])
    bound = {rank for each in found.values() for rank in each}
    assert bound == {rank for rank, nth in enumerate(member_of) if nth in bindings_of}
    return found


def demand_as_asked(hosts, found, asked):
    """Assert that every rank has what its spec says, counted on the cores themselves."""
    member_of = [nth for nth, each in enumerate(asked) for _ in range(each.size)]
    for node, cpus_of in found.items():
        core_of = {cpu: core for core in hosts[node] for cpu in core.cpus}
        by_member = {}
        for rank, cpus in cpus_of.items():
            each = asked[member_of[rank]]
            own = {core_of[cpu] for cpu in cpus}
            wanted = each.needs.binding.threads
            assert len(own) == each.cores
            assert len(cpus) == sum(wanted or len(core.cpus) for core in own)
            by_member.setdefault(member_of[rank], []).append(own)
        for nth, owns in by_member.items():
            demand_in_place(asked[nth].needs.binding, owns)


def demand_reached(here, binding, own, reached):
    """Assert that a rank is bound to its own processors, or to all around these."""
    place_of = {
        Reach.SOCKET: lambda core: core.socket,
        Reach.NUMA: lambda core: (core.socket, core.numa),
    }.get(binding.reach)
    if place_of is None:
        assert reached == own
        return
    (place,) = {place_of(core) for core in here if set(core.cpus) & set(own)}
    around = [core for core in here if place_of(core) == place]
    threads = binding.threads
    cpus = [core.cpus[: threads or None] for core in around if len(core.cpus) >= threads]
    assert reached == tuple(sorted(cpu for each in cpus for cpu in each))


def demand_in_place(binding, owns):
    if not binding.is_inside_sockets:
        return
    sockets = [{core.socket for core in own} for own in owns]
    assert all(len(each) == 1 for each in sockets)
    if binding.is_inside_numa:
        assert all(len({(core.socket, core.numa) for core in own}) == 1 for own in owns)
    counts = [sockets.count(each) for each in sockets]
    assert not binding.per_socket or max(counts) <= binding.per_socket
    if binding.sockets:
        used = {min(each) for each in sockets}
        assert len(used) == min(binding.sockets, len(owns))
    if binding.per_numa:
        numas = [{(core.socket, core.numa) for core in own} for own in owns]
        assert all(len(each) == 1 for each in numas)
        assert max(numas.count(each) for each in numas) <= binding.per_numa


@settings(max_examples=150, deadline=None)
@given(
    st.lists(machines(), min_size=1, max_size=3),
    steps,
    st.sampled_from([ListPlacement, ArrayPlacement]),
)
def test_what_is_granted_is_there_and_lies_as_asked_and_all_comes_back(hosts, steps, placement):
    partition = partition_of(*hosts, placement=placement, allocation="9")
    tables = [CoreTable(cores) for cores in hosts]
    running = {}
    for asked, overlaps, ends in steps:
        answer = partition.request(*asked, overlaps=overlaps)
        if isinstance(answer, Grant):
            demand_as_asked(hosts, take(tables, answer, asked), asked)
            running[answer.job_id] = answer
        elif answer.code is Refusal.BUSY:
            assert running, answer
        for table in tables:
            table.check(running)
        if running and ends < 3:
            job_id = list(running)[ends % len(running)]
            del running[job_id]
            partition.machine.jobs.forget(job_id, partition.now)
            for table in tables:
                table.give_back(job_id)
        for node, table in zip(partition.machine.nodes, tables, strict=True):
            taken = [table.counts(job_id) for job_id in running if table.of(job_id)]
            totals = [group.cores for group in table.groups]
            left = [total - sum(each[nth] for each in taken) for nth, total in enumerate(totals)]
            assert list(node.left().cores) == left


@settings(max_examples=200, deadline=None)
@given(machines(), specs.filter(lambda each: each.needs is not None))
def test_there_is_room_for_so_many_ranks_and_for_each_fewer(cores, asked):
    groups = CoreTable(cores).groups
    free = tuple([group.cores for group in groups])
    how = asked.needs.binding, asked.cores
    most = room(*how, groups, free)
    assert lay(*how, groups, free, most + 1) is None
    for ranks in range(1, most + 1):
        taken = lay(*how, groups, free, ranks)
        assert taken is not None and sum(taken) == ranks * asked.cores
        assert all(count <= there for count, there in zip(taken, free, strict=True))


def server(sockets=2, each=4, threads=2):
    """Cores of a server of this many sockets."""
    return tuple(
        Core(socket, socket, tuple(core + nth * sockets * each for nth in range(threads)))
        for core in range(sockets * each)
        for socket in [core // each]
    )


def test_ranks_fill_a_socket_before_the_next_and_lie_evenly_on_a_count_of_sockets():
    groups = CoreTable(server()).groups
    for binding, taken in (
        (Binding(), (4, 1)),
        (Binding(per_socket=4), (4, 1)),
        (Binding(per_socket=3), (3, 2)),
        (Binding(sockets=2), (3, 2)),
    ):
        assert lay(binding, 1, groups, (4, 4), 5) == taken


def test_a_count_of_sockets_takes_those_with_most_room():
    groups = CoreTable(server()).groups
    assert lay(Binding(sockets=1), 1, groups, (2, 4), 3) == (0, 3)


REFUSALS = (
    (Binding(threads=4), {}, "4 threads of each core requested, no core has more than 2"),
    (Binding(sockets=3), {}, "3 sockets of each node requested, no node has more than 2"),
    (
        Binding(per_socket=1),
        {"cores": 5},
        "5 cores of one socket for each rank requested, the largest has 4",
    ),
    (
        Binding(per_numa=1),
        {"cores": 5},
        "5 cores of one NUMA node for each rank requested, the largest has 4",
    ),
    (Binding(), {"cores": 9}, "9 cores of one node for each rank requested, the largest has 8"),
    (
        Binding(per_socket=1),
        {},
        "3 ranks, each bound to 1 core, at most 1 on a socket, requested; there is room for 2 on"
        " 1 node, at most 2 on one",
    ),
)


@pytest.mark.parametrize(("binding", "fields", "text"), REFUSALS)
def test_what_could_never_be_met_is_refused_with_the_number_in_its_way(binding, fields, text):
    partition = Partition(0)
    announce(partition, 0, server(), slots=64)
    answer = partition.request(spec(3, needs=Needs(binding=binding), **fields), waits=True)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.text) == (Refusal.NOT_ENOUGH_NODES, text)


def test_nodes_that_tell_of_no_cores_bind_nobody():
    partition = Partition(1)
    answer = partition.request(spec(1, needs=Needs(binding=Binding())))
    assert answer.text == "ranks on cores of their own requested, no node has any to be bound to"


def test_too_few_slots_are_told_as_for_any_job():
    partition = Partition(0)
    announce(partition, 0, server(), slots=2)
    answer = partition.request(spec(3, needs=Needs(binding=Binding())))
    assert answer.text.startswith("3 ranks requested, partition ")


def test_a_job_waits_for_cores_of_its_own_and_is_told_how_many_are_free():
    partition = Partition(0)
    announce(partition, 0, server(), slots=16)
    first = partition.grant(spec(7, needs=Needs(binding=Binding())))
    assert isinstance(partition.request(spec(2)), Grant)  # it is bound to none
    busy = partition.request(spec(2, needs=Needs(binding=Binding())))
    assert busy.code is Refusal.BUSY and ", 1 of 8 cores free now" in busy.text
    partition.machine.jobs.forget(first.job_id, partition.now)
    assert isinstance(partition.request(spec(2, needs=Needs(binding=Binding()))), Grant)


def test_a_job_that_a_later_bebopd_finds_keeps_its_cores():
    partition = Partition(0)
    job = HostedJob(7, 1000, 3, (0,), 5.0, 0, 0, (1, 2))
    announce(partition, 0, server(), jobs=(job,))
    assert partition.machine.nodes.get(0).left().cores == (3, 2)


def test_equal_nodes_have_one_piece_in_the_credential():
    partition = partition_of(*(server() for _ in range(6)))
    asked = spec(24, node_count=6, needs=Needs(binding=Binding(per_socket=2, sockets=2)))
    (share,) = decode_credential(partition.grant(asked).credential).shares
    assert (share.node, share.count, share.cores) == (0, 6, ((0, 0, 2), (0, 1, 2)))


def test_a_hostile_announcement_has_groups_that_a_message_may_have():
    partition = Partition(0)
    at = pct(0)
    groups = (CoreGroup(0, 0, 1, 0), CoreGroup(255, 65535, 64, 1 << 16))
    partition.receive(at, Announce(0, "n0", 4, at.nid, at.pid, 1, (), (), 0, (), groups))
    assert isinstance(partition.request(spec(4, needs=Needs(binding=Binding()))), Grant)
