"""A launch whose ranks CRIU writes down: they run in namespaces, below ``yod-init``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from native.errors import UsageError
from native.host import programs, userdirs
from native.host.backends.criu import VARIABLE, find
from native.text import shown
from native.wire.load import Protocol
from native.wire.status import Feature
from partition.checkpoint import criu
from yod.plan.checkpoint import Checkpointing
from yod.plan.checkpoint_options import BY, RESTART
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Options
from yod.program import image, pythons, speech

if TYPE_CHECKING:
    from partition.checkpoint.preparing import Restarted

_PMI1, _PMIX = Protocol.PMI1.value, Protocol.PMIX.value
_SERVER = "from pct.pmix_server.own import main; main()"  # of PMIx, in the tree
_FIRST_WORD = 4  # of the user's, behind yod-init, criu, what it does, and the program's file


class World(NamedTuple):
    """By what ranks find one another.

    Attributes:
        mpi: ``pmi1``, ``pmix``, or ``none``.
        libpmix: paths of the PMIx library that comes with their MPI, the most likely first.
    """

    mpi: str
    libpmix: tuple[str, ...] = ()


class Tool(NamedTuple):
    """The program `criu` that a launch uses.

    Attributes:
        program: its absolute path.
        why_not: why it does not work here; empty: it does.
    """

    program: str
    why_not: str
    version: str


def tried(invocation: Invocation) -> Tool:
    """Find criu, and try it. It takes a tenth of a second, in which it mostly waits."""
    environment = {os.fsdecode(k): os.fsdecode(v) for k, v in invocation.environment.items()}
    program = find(environment)
    why_not = criu.why_not(program)
    return Tool(program, why_not, "" if why_not else criu.version(program))


def within(
    members: list[Member],
    chosen: Checkpointing,
    invocation: Invocation,
    options: Options,
    *,
    found: Restarted | None,
    tool: Tool,
) -> tuple[list[Member], Checkpointing, str]:
    """The members as they are started, how they are written down, and what MPI nodes offer.

    Args:
        options: what the user has chosen for the whole job.
        found: the checkpoint that they go on from; None: they begin.
        tool: as it was :func:`tried`.

    Raises:
        YodError: CRIU does not work here, a program is missing, or is of an MPI that cannot
            be written down.
    """
    if tool.why_not:
        raise UsageError(f"{BY} criu: {tool.why_not} (`yodctl doctor`)")
    if found is not None:
        _demand_own(found.path)
        world = World(found.mpi)
    else:
        world = _world(members, invocation, options.mpi)
    if world.mpi != "none":
        _demand_root()
        members = _on_one_node(members)
    how = ("restore" if found is not None else "start") + "-tree" * options.signals_group
    if world.mpi == _PMIX:
        how += " pmix"
        if found is None:
            how += " exec " + shlex.join(programs.own_python(_SERVER, *world.libpmix))
    inside = [
        replace(
            member,
            words=(criu.INIT, tool.program, how, _found(member, invocation), *member.words),
            path="",
        )
        for member in members
    ]
    own = world.mpi if world.mpi == _PMIX else ""
    given = replace(chosen, signal_number=0, tool=tool.version, mpi=own)
    return inside, given, "none" if own else world.mpi


def _demand_root() -> None:
    """Ranks of MPI share memory whose files have no name any more.

    Raises:
        UsageError: it is a user who may not open these.
    """
    if os.geteuid() != 0:
        why = "criu gets at memory that MPI ranks share for root only"
        raise UsageError(f"{BY} criu with MPI: {why}; {BY} signal can save any")


def _demand_own(path: str) -> None:
    """Whoever has written the images decides what runs.

    Raises:
        UsageError: it was another user.
    """
    owner = os.stat(path).st_uid
    if owner != os.geteuid():
        who = userdirs.user_name(owner)
        why = "by criu ranks come back for the user alone whose they were"
        raise UsageError(f"{RESTART} {shown(path)}: it is of user {shown(who)}; {why}")


def constrained(asked: str, environment: Mapping[bytes, bytes]) -> str:
    """A constraint, and that the nodes say that CRIU works there.

    Who names criu by a variable of their own sees to it that nodes have that.
    """
    if environment.get(VARIABLE.encode()):
        return asked
    if "|" in asked and "[" not in asked:
        asked = f"({asked})"
    needed = Feature.CRIU if os.geteuid() == 0 else Feature.CRIU_USERS
    return f"{asked}&{needed.value}" if asked else needed.value


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
    elif options.wants_stacks:
        why = "-bt: it cannot save processes that are traced"
    elif options.strace is not None:
        why = "-strace: it cannot save processes that are traced"
    elif options.awaits_user:
        why = "-attach, -alloc or -sleep: a rank begins with yod-init, and not with its program"
    if why:
        raise UsageError(f"{BY} criu with {why}; by {BY} signal the program saves itself")


def without(members: list[Member]) -> list[Member]:
    """The members as the user named them."""
    return [replace(member, words=member.words[_FIRST_WORD:]) for member in members]


def _world(members: list[Member], invocation: Invocation, mpi: str) -> World:
    """By what the ranks find one another.

    Raises:
        UsageError: they want something else.
    """
    if mpi not in ("auto", "none", _PMI1, _PMIX):
        raise UsageError(f"--mpi={mpi}: not with {BY} criu, but {_PMI1} and {_PMIX} are")
    spoken = [_spoken(member, invocation) for member in members]
    libpmix = next((each.libpmix for each in spoken if each is not None), ())
    if mpi != "auto":
        return World(mpi, libpmix)
    known = [each for each in spoken if each is not None]
    for protocol in (_PMI1, _PMIX):
        if known and all(protocol in _names(each) for each in known):
            return World(protocol, libpmix)
    if not known:
        return World("none")
    said = "; ".join(dict.fromkeys(each.reason for each in known))
    raise UsageError(
        f"no protocol of MPI is known that {BY} criu can save ({_PMI1}, {_PMIX}): {said}; "
        f"{BY} signal can save any; with --mpi none each rank is a world of its own"
    )


def _names(spoken: speech.Speech) -> tuple[str, ...]:
    return tuple(protocol.value for protocol in spoken.protocols)


def _spoken(member: Member, invocation: Invocation) -> speech.Speech | None:
    """What an MPI program speaks; None: it is none, or not known to be one."""
    path = image.path_of(member, invocation)
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
    path = image.path_of(member, invocation)
    if not image.is_executable(path):
        raise UsageError(f"{path}: cannot be executed")
    return path
