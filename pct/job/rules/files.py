"""Files that ranks write to instead of yod, on their own nodes."""

from __future__ import annotations

from msgspec.structs import replace

from native import pattern
from native.ids import name_of_job
from native.wire import keeper
from native.wire.alloc import Credential
from native.wire.load import Load


def with_files(
    ranks: tuple[keeper.RankSpec, ...],
    programs: tuple[keeper.ProgramSpec, ...],
    message: Load,
    credential: Credential,
) -> tuple[keeper.RankSpec, ...]:
    """The ranks of a node, each with the paths that the patterns of the load mean for it.

    Args:
        ranks: as they are without files.
        programs: of the ranks.
    """
    files = message.files
    assert files is not None
    job = name_of_job(message.job_id, credential.allocation)
    node = message.nodes[message.place].name

    def path(text: bytes, values: dict[str, str]) -> bytes:
        expanded = pattern.expand(text.decode(errors="surrogateescape"), values)
        return expanded.encode(errors="surrogateescape")

    def of(rank: keeper.RankSpec) -> keeper.RankSpec:
        program = programs[rank.program].argv[0]
        values = pattern.values_of_rank(job, message.place, node, rank.rank, program)
        paths = path(files.out, values), path(files.err, values)
        return replace(rank, files=paths, appends=files.appends)

    return tuple(map(of, ranks))
