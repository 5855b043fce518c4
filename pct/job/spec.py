"""The specification of what a keeper starts, from the load message and its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from native.ids import name_of_job
from native.wire import keeper
from native.wire.alloc import NO_NEEDS, Credential
from native.wire.load import Arguments, Load, MemberLoad, StartWorld
from pct.job.rules.input import has_input
from pct.wireup import environment
from pct.wireup.machine import Wireup

if TYPE_CHECKING:
    from pct.account import Gpu
    from pct.cores import Given


def members_of(members: tuple[MemberLoad, ...]) -> list[int]:
    """The member of rank 0, 1, ..."""
    return [number for number, member in enumerate(members) for _ in range(member.size)]


def ranks_at(message: Load, place: int) -> tuple[int, ...]:
    """The ranks of one node, ascending."""
    return message.runs.ranks_at(place)


def unused_objects(message: Load, places: frozenset[int]) -> frozenset[int]:
    """Objects that no rank of these places executes; empty while the members are unknown.

    With this an image is sent only to the nodes of its member's subgroup, and to those on
    the way.
    """
    if message.arguments is None or len(message.objects) == 1:
        return frozenset()
    used: set[int] = set()
    rank = 0
    member_of = members_of(message.arguments.members)
    for run in message.runs:
        if run.place in places:
            used.update(member_of[rank : rank + run.count])
        rank += run.count
    images = {message.arguments.members[number].object_index for number in used}
    return frozenset(range(len(message.objects))) - images


def keeper_spec(
    message: Load,
    arguments: Arguments,
    credential: Credential,
    paths: dict[int, bytes],
    wireup: Wireup,
    listen_nid: int = 0,
    gpus: tuple[Gpu, ...] = (),
    cores: Given | None = None,
) -> keeper.KeeperSpec:
    """The specification for the ranks of the load at its place.

    Args:
        paths: of each object on this node, by number.
        listen_nid: at which each rank gets a listener for Portals; 0: none does.
        gpus: that the job has on this node.
        cores: likewise.
    """
    ranks = ranks_at(message, message.place)
    member_of = members_of(arguments.members)
    used = sorted({member_of[rank] for rank in ranks})
    members = [arguments.members[number] for number in used]
    hold = keeper.Hold.FOR_DEBUGGERS if message.awaits_user else keeper.Hold.AUTO
    if message.holds_before_exec:
        hold = keeper.Hold.BEFORE_EXEC
    programs = tuple(
        keeper.ProgramSpec(paths[member.object_index], member.arguments, member.directory, hold)
        for member in members
    )
    counted = counted_environments(ranks, member_of, arguments.members, gpus)
    bound = _bound(ranks, member_of, arguments.members, cores) if cores is not None else {}
    specs = tuple(
        keeper.RankSpec(
            rank,
            used.index(member_of[rank]),
            environment.for_rank(
                rank, local_rank, member_of[rank], arguments.members[member_of[rank]].cores
            )
            + wireup.environment(0, rank)
            + counted.get(rank, ())
            + (environment.for_cores(bound[rank]) if rank in bound else ()),
            wants_stdin=has_input(message, rank),
            wants_pmi=wireup.wants_sockets,
            wants_portals=listen_nid != 0,
            cpus=bound.get(rank, ()),
        )
        for local_rank, rank in enumerate(ranks)
    )
    if (where := message.checkpoints) is not None:
        specs = tuple(
            replace(
                each,
                environment=each.environment
                + environment.for_checkpoints(where, message.place, each.rank),
            )
            for each in specs
        )
    if message.dialects:
        from pct.job.rules.dialects import with_dialects  # few jobs have any

        counts = [arguments.members[member_of[rank]].cores for rank in ranks]
        specs = with_dialects(specs, counts, message, credential)
    if (window := message.window) is not None:
        size = (window.rows, window.columns)
        specs = tuple(replace(each, window=size) if each.wants_stdin else each for each in specs)
    if message.files is not None:
        from pct.job.rules.files import with_files  # few jobs have any

        specs = with_files(specs, programs, message, credential)
    pythons = [
        environment.for_python(program.argv[0], wireup.users.entries) for program in programs
    ]
    if any(pythons):
        specs = tuple(
            replace(each, environment=each.environment + pythons[each.program]) for each in specs
        )
    if message.stacks is not None and message.stacks.strace is not None:
        from pct.job.rules.straced import with_strace  # few jobs have any

        programs, specs = with_strace(specs, programs, message, credential)
    is_alone = goes_alone(message)
    return _spec(message, arguments, credential, programs, specs, wireup, listen_nid, is_alone)


def counted_environments(
    ranks: tuple[int, ...],
    member_of: list[int],
    members: tuple[MemberLoad, ...],
    gpus: tuple[Gpu, ...],
) -> dict[int, tuple[bytes, ...]]:
    """What ranks are told of their memory and GPUs, where members have asked for any.

    The GPUs of a member for each of its nodes are all of its ranks'. None is in two members,
    or in two ranks of one that has asked for each rank.
    """
    if all(member.needs is None for member in members):
        return {}
    found: dict[int, tuple[bytes, ...]] = {}
    shared: dict[int, tuple[Gpu, ...]] = {}  # by member
    for rank in ranks:
        number = member_of[rank]
        needs = members[number].needs or NO_NEEDS
        own, gpus = gpus[: needs.gpus], gpus[needs.gpus :]
        if needs.node_gpus and number not in shared:
            shared[number], gpus = gpus[: needs.node_gpus], gpus[needs.node_gpus :]
        found[rank] = environment.for_needs(needs, own or shared.get(number, ()))
    return found


def _bound(
    ranks: tuple[int, ...], member_of: list[int], members: tuple[MemberLoad, ...], cores: Given
) -> dict[int, tuple[int, ...]]:
    """The processors of ranks whose members want them bound."""
    from pct.cores import dealt  # most jobs bind nobody

    bound = {
        number: (member.cores, binding)
        for number, member in enumerate(members)
        if member.needs is not None and (binding := member.needs.binding) is not None
    }
    return dealt(ranks, member_of, bound, cores)


def goes_alone(message: Load) -> bool:
    """The keeper lets the ranks go: none waits for another node, for listeners, or for the user."""
    return len(message.nodes) == 1 and not (message.mpi.has_portals or message.awaits_user)


def world_spec(
    message: Load,
    arguments: Arguments,
    credential: Credential,
    spawn: StartWorld,
    wireup: Wireup,
    gpus: tuple[Gpu, ...] = (),
) -> keeper.KeeperSpec:
    """The specification for the ranks of a spawned world at the load's place."""
    member_of = members_of(spawn.members)
    programs = tuple(
        keeper.ProgramSpec(spawn.paths[member.object_index], member.arguments, member.directory)
        for member in spawn.members
    )
    pythons = [
        environment.for_python(program.argv[0], (*wireup.users.entries, *own))
        for program, own in zip(programs, spawn.environments, strict=True)
    ]
    ranks = world_ranks_at(spawn, message.place)
    specs = tuple(
        keeper.RankSpec(
            spawn.first_rank + rank,
            member_of[rank],
            environment.for_rank(spawn.first_rank + rank, local_rank, member_of[rank])
            + (() if spawn.is_tool else wireup.environment(spawn.world, rank))
            + (environment.for_gpus(gpus) if gpus else ())
            + spawn.environments[member_of[rank]]
            + pythons[member_of[rank]],
            wants_stdin=False,
            wants_pmi=wireup.wants_sockets and not spawn.is_tool,
        )
        for local_rank, rank in enumerate(ranks)
    )
    return _spec(message, arguments, credential, programs, specs, wireup)


def world_ranks_at(spawn: StartWorld, place: int) -> tuple[int, ...]:
    """The ranks of a spawned world at a place, as the world numbers them."""
    found: list[int] = []
    first = 0
    for run in spawn.runs:
        if run.place == place:
            found += range(first, first + run.count)
        first += run.count
    return tuple(found)


def _spec(
    message: Load,
    arguments: Arguments,
    credential: Credential,
    programs: tuple[keeper.ProgramSpec, ...],
    ranks: tuple[keeper.RankSpec, ...],
    wireup: Wireup,
    listen_nid: int = 0,
    is_alone: bool = False,
) -> keeper.KeeperSpec:
    here = message.nodes[message.place]
    size = len(members_of(arguments.members))
    shared = environment.for_job(
        wireup.users, name_of_job(message.job_id, credential.allocation), size
    )
    shared += environment.for_node(here.node, here.name, len(ranks))
    wanted = (*environment.UNBOUND, *wireup.shared_environment())
    return keeper.KeeperSpec(
        job_id=message.job_id,
        uid=credential.uid,
        gid=credential.gid,
        groups=credential.groups,
        umask=message.umask,
        limits=message.limits,
        environment=shared + environment.defaults(wireup.users.names, wanted),
        programs=programs,
        ranks=ranks,
        listen_nid=listen_nid,
        ignored=message.ignored,
        is_alone=is_alone,
        remote=message.remote.directories if message.remote is not None else (),
        is_traced=message.stacks is not None and message.stacks.of_dying,
        signals_group=message.signals_group,
    )
