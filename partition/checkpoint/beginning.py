"""What a launch with checkpoints begins as: anew, or going on from one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from native.errors import UsageError
from native.text import shown
from partition.checkpoint import preparing
from partition.checkpoint.behind import cut_back
from partition.checkpoint.preparing import Restarted
from yod.plan.checkpoint import Backend, Checkpointing
from yod.plan.checkpoint_options import RESTART
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Options

if TYPE_CHECKING:
    from partition.checkpoint.contained import Tool


class Beginning(NamedTuple):
    """A launch as it is prepared then.

    Attributes:
        said: lines for the user.
    """

    members: list[Member]
    options: Options
    invocation: Invocation
    checkpointing: Checkpointing
    said: list[str]


def readied(
    checkpointing: Checkpointing,
    members: list[Member] | None,
    options: Options,
    invocation: Invocation,
    *,
    owns_output: bool,
) -> Beginning:
    """How a launch begins that makes checkpoints, or goes on from one.

    Args:
        members: what the user wants to run; where there is a checkpoint, it goes on. None: the
            user names no program, and the checkpoint has it.
        owns_output: the standard streams of this process are those of the launch, which begins.

    Raises:
        YodError: there is no such checkpoint, or the job cannot be written down.
    """
    found: Restarted | None = None
    said: list[str] = []
    if checkpointing.restart:
        found = _restarted(checkpointing, members)
    elif members is not None and b"YOD_RESTART_COUNT" in invocation.environment:
        from partition.checkpoint import requeued  # few jobs are

        found = requeued.last(checkpointing, members, invocation)
        if found is not None:
            said = [requeued.told(found, invocation)]
            checkpointing = replace(checkpointing, restart=found.path)
            if options.files is not None:
                options = replace(options, files=replace(options.files, appends=True))
            if options.tee is not None:
                options = replace(options, tee=replace(options.tee, appends=True))
    tool: Tool | None = None
    if found is not None:
        checkpointing = replace(checkpointing, backend=found.backend)
        tool = _compared(found, invocation)
        if not said:
            said = [f"goes on from {shown(found.path)}"]
        has_tee = options.tee is not None
        behind = cut_back(found, invocation, has_tee=has_tee, owns_output=owns_output)
        said = [f"{said[0]}; {behind}"]
        if members is None:
            if options.files is None and options.tee is None:
                options = replace(options, files=found.files)
            members, invocation = found.members, replace(invocation, directory=found.directory)
    assert members is not None
    if checkpointing.backend is Backend.CRIU:
        from partition.checkpoint import contained  # few jobs are

        contained.demand_saveable(members, options)
        members, checkpointing, mpi = contained.within(
            members,
            checkpointing,
            invocation,
            options,
            found=found,
            tool=tool or contained.tried(invocation),
        )
        options = replace(options, mpi=mpi)
    return Beginning(members, options, invocation, checkpointing, said)


def _compared(found: Restarted, invocation: Invocation) -> Tool | None:
    """Compare the files of a checkpoint. Where criu is to bring it back it is tried meanwhile.

    Raises:
        BrokenError: a file is not as it was written.
    """
    if found.backend is not Backend.CRIU:
        found.compare()
        return None
    from threading import Thread

    from partition.checkpoint import contained

    tools: list[Tool] = []
    trial = Thread(target=lambda: tools.append(contained.tried(invocation)))
    trial.start()
    try:
        found.compare()
    finally:
        trial.join()
    return tools[0] if tools else None


def _restarted(asked: Checkpointing, members: list[Member] | None) -> Restarted | None:
    """The checkpoint that a launch goes on from; None: there is none yet, and that may be."""
    found = preparing.restarted(asked.restart, may_lack=members is not None)
    if found is None:
        return None
    if members is not None and (size := sum(each.spec.size for each in members)) != found.size:
        raise UsageError(f"{RESTART}: {shown(found.path)} is of {found.size} ranks, not of {size}")
    if asked.backend not in (None, found.backend):
        raise UsageError(f"{RESTART}: {shown(found.path)} is of {found.backend.value}")
    return found
