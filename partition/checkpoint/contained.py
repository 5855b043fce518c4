"""A launch whose ranks CRIU writes down: they run in namespaces, below ``yod-init``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from native.errors import UsageError
from native.host.programs import NATIVE
from native.text import shown
from native.wire.load import Protocol
from partition.checkpoint import criu
from yod.plan.checkpoint import Checkpointing
from yod.plan.checkpoint_options import BY
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Options
from yod.program import image, pythons, speech

if TYPE_CHECKING:
    from partition.checkpoint.preparing import Restarted

_PMI1 = Protocol.PMI1.value
INIT = os.path.join(NATIVE, "init", "yod-init")
_FIRST_WORD = 4  # of the user's, behind yod-init, criu, what it does, and the program's file


def within(
    members: list[Member],
    chosen: Checkpointing,
    invocation: Invocation,
    options: Options,
    *,
    found: Restarted | None,
) -> tuple[list[Member], Checkpointing, str]:
    """The members as they are started, how they are written down, and what MPI is offered.

    Args:
        options: what the user has chosen for the whole job.
        found: the checkpoint that they go on from; None: they begin.

    Raises:
        YodError: CRIU does not work here, a program is missing, or is of an MPI that cannot
            be written down.
    """
    environment = {os.fsdecode(k): os.fsdecode(v) for k, v in invocation.environment.items()}
    program = criu.find(environment)
    if why := criu.why_not(program):
        raise UsageError(f"{BY} criu: {why}")
    offered = found.mpi if found is not None else _offered(members, invocation, options.mpi)
    if offered != "none":
        members = _on_one_node(members)
    how = ("restore" if found is not None else "start") + "-tree" * options.signals_group
    inside = [
        replace(member, words=(INIT, program, how, _found(member, invocation), *member.words))
        for member in members
    ]
    return inside, replace(chosen, signal_number=0, tool=criu.version(program)), offered


def demand_saveable(members: list[Member], options: Options) -> None:
    """Refuse what CRIU cannot write down, where it is known before the job begins.

    Raises:
        UsageError: the text names it.
    """
    why = ""
    needs = [member.spec.needs for member in members if member.spec.needs is not None]
    if any(each.gpus or each.node_gpus for each in needs):
        why = "GPUs: it cannot save their state"
    elif options.window is not None:
        why = "--pty: it cannot save a terminal"
    elif options.has_portals:
        why = "--with-portals: it cannot save connections of ranks"
    if why:
        raise UsageError(f"{BY} criu with {why}; by {BY} signal the program saves itself")


def without(members: list[Member]) -> list[Member]:
    """The members as the user named them."""
    return [replace(member, words=member.words[_FIRST_WORD:]) for member in members]


def _offered(members: list[Member], invocation: Invocation, mpi: str) -> str:
    """What ranks are offered to find their world by: ``pmi1``, or ``none``.

    Raises:
        UsageError: they want something else.
    """
    if mpi not in ("auto", "none", _PMI1):
        raise UsageError(f"--mpi={mpi}: not with {BY} criu, which can save worlds of {_PMI1}")
    if mpi != "auto":
        return mpi
    spoken = [_spoken(member, invocation) for member in members]
    for member, speech_of_it in zip(members, spoken, strict=True):
        if speech_of_it is not None and Protocol.PMI1 not in speech_of_it.protocols:
            speaks = ", ".join(each.value for each in speech_of_it.protocols) or "not known what"
            raise UsageError(
                f"{shown(member.words[0])} is an MPI program that speaks {speaks} "
                f"({speech_of_it.reason}): {BY} criu can save worlds of {_PMI1} (MPICH), "
                f"{BY} signal any; with --mpi none each rank is a world of its own"
            )
    return _PMI1 if any(each is not None for each in spoken) else "none"


def _spoken(member: Member, invocation: Invocation) -> speech.Speech | None:
    """What an MPI program speaks; None: it is none, or not known to be one."""
    path = image.find(member.words[0], invocation)
    spoken = speech.speech_of(speech.Program(path, member.words[1:]), invocation.environment)
    if not spoken.library:
        return None
    if spoken.is_certain or pythons.imports_mpi4py(path, member.words[1:]):
        return spoken
    return None


def _on_one_node(members: list[Member]) -> list[Member]:
    """The ranks of a world, which can only be written down together.

    Raises:
        UsageError: they are to be on several nodes, or may be.
    """
    why = f"{BY} criu cannot save the connections of MPI ranks between nodes, {BY} signal can"
    if len(members) > 1:
        raise UsageError(f"several programs that are one world may lie on several nodes: {why}")
    (member,) = members
    spec = member.spec
    if spec.node_count > 1 or (spec.one_per_node and spec.size > 1):
        raise UsageError(f"{max(spec.node_count, len(spec.nodes))} nodes: {why}")
    if spec.per_node and spec.size > spec.per_node:
        raise UsageError(f"{spec.size} ranks, at most {spec.per_node} on each node: {why}")
    return [replace(member, spec=replace(spec, node_count=1, plane=0))]


def _found(member: Member, invocation: Invocation) -> str:
    path = image.find(member.words[0], invocation)
    if not image.is_executable(path):
        raise UsageError(f"{path}: cannot be executed")
    return path
