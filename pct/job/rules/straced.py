"""Ranks that run under strace (``yod -strace``), on their own nodes.

strace traces the program from a process of its own (-DD), so that the rank is the program: its
process id, its end, and the signals that reach it are as ever. It is found by the user's PATH.
"""

from __future__ import annotations

from msgspec.structs import replace

from native.ids import name_of_job
from native.wire import keeper
from native.wire.alloc import Credential
from native.wire.load import Load

_ENV = b"/usr/bin/env"


def with_strace(
    ranks: tuple[keeper.RankSpec, ...],
    programs: tuple[keeper.ProgramSpec, ...],
    message: Load,
    credential: Credential,
) -> tuple[tuple[keeper.ProgramSpec, ...], tuple[keeper.RankSpec, ...]]:
    """The programs and the ranks of a node; each rank that is traced has a program of its own.

    Args:
        ranks, programs: as they are without strace.
    """
    assert message.stacks is not None and message.stacks.strace is not None
    strace = message.stacks.strace
    prefix = b"%s/strace.%s." % (
        strace.directory,
        name_of_job(message.job_id, credential.allocation).encode(),
    )
    own: list[keeper.ProgramSpec] = []
    found: list[keeper.RankSpec] = []
    for rank in ranks:
        if any(first <= rank.rank <= last for first, last in strace.ranks):
            program = programs[rank.program]
            words = (b"strace", b"-DD", b"-o", prefix + b"%d" % rank.rank, *strace.options)
            argv = (b"env", *words, program.path, *program.argv[1:])
            rank = replace(rank, program=len(programs) + len(own))
            traced = keeper.ProgramSpec(_ENV, argv, program.cwd, keeper.Hold.WITH_TRACER)
            own.append(traced)
        found.append(rank)
    return (*programs, *own), tuple(found)
