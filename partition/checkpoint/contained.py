"""A launch whose ranks CRIU writes down: each runs in namespaces, below ``yod-init``."""

from __future__ import annotations

import os

from msgspec.structs import replace

from native.errors import UsageError
from native.host.programs import NATIVE
from native.text import shown
from partition.checkpoint import criu
from yod.plan.checkpoint import Checkpointing
from yod.plan.checkpoint_options import BY
from yod.plan.invocation import Invocation
from yod.plan.plan import Member
from yod.program import image, speech

INIT = os.path.join(NATIVE, "init", "yod-init")
_FIRST_WORD = 4  # of the user's, behind yod-init, criu, what it does, and the program's file


def within(
    members: list[Member],
    chosen: Checkpointing,
    invocation: Invocation,
    *,
    mpi: str,
    is_restart: bool,
) -> tuple[list[Member], Checkpointing]:
    """The members as they are started, and how they are written down.

    Args:
        mpi: what the user has chosen.

    Raises:
        YodError: CRIU does not work here, a program is missing, or needs MPI.
    """
    environment = {os.fsdecode(k): os.fsdecode(v) for k, v in invocation.environment.items()}
    program = criu.find(environment)
    if why := criu.why_not(program):
        raise UsageError(f"{BY} criu: {why}")
    if mpi not in ("auto", "none"):
        raise UsageError(f"--mpi={mpi}: not with {BY} criu, which cannot save such connections")
    if mpi == "auto":
        for member in members:
            _demand_no_mpi(member, invocation)
    how = "restore" if is_restart else "start"
    inside = [
        replace(member, words=(INIT, program, how, _found(member, invocation), *member.words))
        for member in members
    ]
    return inside, replace(chosen, signal_number=0, tool=criu.version(program))


def without(members: list[Member]) -> list[Member]:
    """The members as the user named them."""
    return [replace(member, words=member.words[_FIRST_WORD:]) for member in members]


def _demand_no_mpi(member: Member, invocation: Invocation) -> None:
    """Refuse a program whose ranks would not find one another.

    Raises:
        UsageError: the program is linked to an MPI library.
    """
    program = speech.Program(image.find(member.words[0], invocation), member.words[1:])
    spoken = speech.speech_of(program, invocation.environment)
    if spoken.is_certain and spoken.library:
        raise UsageError(
            f"{shown(member.words[0])} is an MPI program: {BY} criu cannot save the connections "
            f"of its ranks, {BY} signal can; with --mpi none each is a world of its own"
        )


def _found(member: Member, invocation: Invocation) -> str:
    path = image.find(member.words[0], invocation)
    if not image.is_executable(path):
        raise UsageError(f"{path}: cannot be executed")
    return path
