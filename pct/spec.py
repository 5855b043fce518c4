"""What a keeper is told to start: the load message as one node reads it."""

from __future__ import annotations

from native.wire import keeper
from native.wire.alloc import Credential
from native.wire.load import Arguments, Load
from pct import environment


def members_of(arguments: Arguments) -> list[int]:
    """The member of rank 0, 1, ..."""
    return [number for number, member in enumerate(arguments.members) for _ in range(member.size)]


def ranks_at(message: Load, place: int) -> tuple[int, ...]:
    """The ranks of one node, ascending."""
    found: list[int] = []
    first = 0
    for run in message.runs:
        if run.place == place:
            found += range(first, first + run.count)
        first += run.count
    return tuple(found)


def unused_objects(message: Load, places: frozenset[int]) -> frozenset[int]:
    """Objects that no rank of these places executes; empty while that is not known.

    So an image goes to the nodes of its member's subgroup, and to those on the way.
    """
    if message.arguments is None or len(message.objects) == 1:
        return frozenset()
    used: set[int] = set()
    rank = 0
    member_of = members_of(message.arguments)
    for run in message.runs:
        if run.place in places:
            used.update(member_of[rank : rank + run.count])
        rank += run.count
    images = {message.arguments.members[number].object_index for number in used}
    return frozenset(range(len(message.objects))) - images


def keeper_spec(
    message: Load, arguments: Arguments, credential: Credential, paths: dict[int, bytes]
) -> keeper.KeeperSpec:
    """The specification for the node at the load's place.

    Args:
        paths: number of an object -> what to execute on this node.
    """
    here = message.nodes[message.place]
    ranks = ranks_at(message, message.place)
    member_of = members_of(arguments)
    size = len(member_of)
    used = sorted({member_of[rank] for rank in ranks})
    programs = tuple(
        keeper.ProgramSpec(paths[member.object_index], member.arguments, member.directory)
        for member in (arguments.members[number] for number in used)
    )
    specs = tuple(
        keeper.RankSpec(
            rank,
            used.index(member_of[rank]),
            environment.for_rank(rank, local_rank, member_of[rank], size, message.offers_pmi),
            wants_stdin=message.has_input and rank == 0,
            wants_pmi=message.offers_pmi,
        )
        for local_rank, rank in enumerate(ranks)
    )
    shared = environment.for_job(arguments.environment, message.job_id, size)
    shared += environment.for_node(here.node, here.name, len(ranks))
    return keeper.KeeperSpec(
        job_id=message.job_id,
        uid=credential.uid,
        gid=credential.gid,
        groups=credential.groups,
        umask=message.umask,
        limits=message.limits,
        environment=shared,
        programs=programs,
        ranks=specs,
    )
