"""What a program asks :mod:`yod.api` for."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from native import limits as limits_module
from native import nodelist
from native.errors import UsageError
from native.limits import Limits
from native.text import shown
from native.wire.alloc import Needs
from native.wire.runs import Binding
from yod import launching
from yod.guest.choices import Command, Held, Member, Nodes, Rare, Word
from yod.host import own
from yod.plan import loadfile, plan
from yod.plan.checkpoint import Checkpointing
from yod.plan.invocation import Invocation
from yod.plan.plan import RANK_0, Options, Style
from yod.plan.prepared import Prepared, Records
from yod.plan.shape import Shape, made
from yod.program import image


class Request(Struct, frozen=True):
    """A launch that has been asked for, and not prepared yet.

    Attributes:
        said: lines for the user.
    """

    members: tuple[plan.Member, ...]
    options: Options
    invocation: Invocation
    partition: str
    limits: Limits
    settings: dict[str, str]
    records: Records = launching.NO_RECORDS
    checkpointing: Checkpointing | None = None
    said: tuple[str, ...] = ()

    def prepare(self) -> Prepared:
        """Find the partition, find and measure the programs. This reads files, and may take long.

        Raises:
            YodError: the launch cannot begin; the text says why.
        """
        return launching.prepare(
            list(self.members),
            self.options,
            self.invocation,
            partition=self.partition,
            limits=self.limits,
            settings=self.settings,
            records=self.records,
            warnings=self.said,
            checkpointing=self.checkpointing,
            monotonic=time.monotonic,
        )


def request(
    command: Command,
    *,
    has_input: bool,
    has_own_input: bool = False,
    size: int | None = None,
    nodes: Nodes = (),
    node_count: int | None = None,
    ranks_per_node: int | None = None,
    cores_per_rank: int | None = None,
    distribution: str | None = None,
    mem: str | None = None,
    mem_per_rank: str | None = None,
    gpus_per_node: int | None = None,
    gpus_per_rank: int | None = None,
    ranks_per_socket: int | None = None,
    sockets_per_node: int | None = None,
    ranks_per_numa: int | None = None,
    ranks_per_core: int | None = None,
    threads_per_core: int | None = None,
    bind: str | None = None,
    env: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
    cwd: Word | None = None,
    partition: str = "",
    label: bool = False,
    raw: bool = False,
    merge: bool = False,
    remote_io: Word | Sequence[Word] = (),
    stall_s: float = 0.0,
    keep_going: bool = False,
    kill: bool = False,
    quiet: bool = False,
    mpi: str = "auto",
    libpmix: str = "",
    with_portals: bool = False,
    wait_s: float | None = None,
    allocation: Held | None = None,
    overlap: bool = False,
    arity: int | None = None,
    exclusive: bool = False,
    after: str = "",
    limits: Limits | None = None,
    **rare: Unpack[Rare],
) -> Request:
    """What is asked for, with all that it takes from this process now.

    Args:
        has_input: rank 0 has an input.
        has_own_input: that is this process's.

    All others are those of :class:`Choices`.

    Raises:
        UsageError: choices that exclude each other, no program, or a wrong number.
    """
    styles = {"label": label, "raw": raw, "merge": merge}
    if len(names := [name for name, is_chosen in styles.items() if is_chosen]) > 1:
        raise UsageError(f"{names[0]} and {names[1]} exclude each other")
    if not (0 <= stall_s < math.inf):
        raise UsageError(f"stall_s={stall_s}: 0 or more seconds")
    if wait_s is not None and not wait_s >= 0:
        raise UsageError(f"wait_s={wait_s}: 0 or more seconds, or math.inf")
    if exclusive and overlap:
        raise UsageError("exclusive and overlap exclude each other")
    if keep_going and kill:
        raise UsageError("keep_going and kill exclude each other")
    shape = made(
        node_count,
        ranks_per_node,
        cores_per_rank,
        distribution,
        memory=mem,
        rank_memory=mem_per_rank,
        node_gpus=gpus_per_node,
        gpus=gpus_per_rank,
        per_socket=ranks_per_socket,
        sockets=sockets_per_node,
        per_numa=ranks_per_numa,
        per_core=ranks_per_core,
        threads=threads_per_core,
        bind=bind,
    )
    members = _members(command, size, nodes, shape)
    words = tuple(word for member in members for word in member.words)
    invocation = own.invocation(("yod.api", *words))
    if env is not None:
        invocation = replace(invocation, environment=_entries(env))
    if cwd is not None:
        directory = os.path.abspath(os.fsdecode(cwd))
        if not os.path.isdir(directory):
            raise UsageError(f"{shown(directory)}: no such directory")
        invocation = replace(invocation, directory=directory)
    settings = dict(os.environ)
    if allocation is not None:
        if partition:
            raise UsageError("partition and allocation exclude each other")
        variables = allocation.variables
        settings |= variables
        both = invocation.environment | _entries(variables)
        invocation = replace(invocation, environment=both)
    options = Options(
        is_quiet=quiet,
        kills_at_once=kill,
        keeps_going=keep_going,
        input_ranks=RANK_0 if has_input else (),
        mpi=mpi,
        libpmix=libpmix and os.path.abspath(libpmix),
        has_portals=with_portals,
        style=_style(label, raw, merge),
        remote=_remote(remote_io),
        stall_s=float(stall_s),
        overlaps=overlap,
        is_exclusive=exclusive,
        wait_s=wait_s,
        after=after,
        arity=0 if arity is None else plan.demand_arity(arity, f"arity={arity}"),
    )
    asked = Request(
        members=tuple(members),
        options=options,
        invocation=invocation,
        partition=partition,
        limits=limits or limits_module.load(settings),
        settings=settings,
    )
    if rare:
        from yod.guest.rare import asked_for  # few launches

        return asked_for(rare, asked, has_own_input)
    return asked


def _style(label: bool, raw: bool, merge: bool) -> Style:
    if merge:
        return Style.MERGED
    return Style.LABELLED if label else Style.RAW if raw else Style.WHOLE


def _remote(remote_io: Word | Sequence[Word]) -> tuple[bytes, ...]:
    if not remote_io:
        return ()
    from yod.remote.directories import present  # few launches have any

    is_one = isinstance(remote_io, str | bytes | os.PathLike)
    words: Sequence[Word] = [remote_io] if is_one else remote_io  # type: ignore[list-item,assignment]
    return present([os.fsdecode(word) for word in words], "remote_io")


def read_load_file(path: Word, size: int | None = None, nodes: Nodes = ()) -> tuple[Member, ...]:
    """The members that a load file describes.

    Args:
        size: for a file of one line without a size.
        nodes: for the lines without nodes.

    Raises:
        LoadFileError: names the file and the line.
        UsageError: it is no text.
        OSError: it cannot be read.
    """
    name = os.fsdecode(path)
    lines = loadfile.parse(image.read_load_file(name), shown(name))
    found, _ = plan.from_load_file(lines, size, _numbers(nodes))
    return tuple(
        Member(
            member.words,
            None if member.spec.one_per_node else member.spec.size,
            member.spec.nodes,
            member.origin,
            member.spec.node_count or None,
            member.spec.per_node or None,
            member.spec.cores if member.spec.cores > 1 else None,
            f"plane={member.spec.plane}" if member.spec.plane else None,
            *_told(member.spec.needs),
        )
        for member in found
    )


def _told(needs: Needs | None) -> tuple[Any, ...]:
    """Memory, GPUs and a binding as a member names them."""
    if needs is None:
        return ()
    memory, rank_memory = needs.memory, needs.rank_memory
    return (
        f"{memory}B" if memory else None,
        f"{rank_memory}B" if rank_memory else None,
        needs.node_gpus or None,
        needs.gpus or None,
        *_told_of_cores(needs.binding),
    )


def _told_of_cores(binding: Binding | None) -> tuple[int | str | None, ...]:
    if binding is None:
        return ()
    limits = (binding.per_socket, binding.sockets, binding.per_numa)
    reach = binding.reach.value if binding.reach is not None else None
    return (*(limit or None for limit in limits), 1, binding.threads or None, reach)


def _members(command: Command, size: int | None, nodes: Nodes, shape: Shape) -> list[plan.Member]:
    if isinstance(command, Member):
        command = [command]
    if isinstance(command, str | bytes | os.PathLike):
        asked = [Member(command, size, nodes)]
    elif not all(isinstance(each, Member) for each in command):
        asked = [Member(command, size, nodes)]  # type: ignore[arg-type]
    else:
        asked = list(command)  # type: ignore[arg-type]
        if size is not None or nodes:
            raise UsageError("size and nodes are those of each member")
        if shape.node_count is not None and len(asked) > 1:
            raise UsageError("node_count is that of each member")
    members = []
    for each in asked:
        words = each.command
        if isinstance(words, str | bytes | os.PathLike):
            words = [words]
        if not words:
            raise UsageError("no program")
        texts = tuple(os.fsdecode(word) for word in words)
        if any("\0" in text for text in texts):
            raise UsageError("a NUL character, which an argument cannot have")
        own_shape = made(
            each.node_count,
            each.ranks_per_node,
            each.cores_per_rank,
            each.distribution,
            memory=each.mem,
            rank_memory=each.mem_per_rank,
            node_gpus=each.gpus_per_node,
            gpus=each.gpus_per_rank,
            per_socket=each.ranks_per_socket,
            sockets=each.sockets_per_node,
            per_numa=each.ranks_per_numa,
            per_core=each.ranks_per_core,
            threads=each.threads_per_core,
            bind=each.bind,
        ).over(shape)
        (member,) = plan.from_command_line(each.size, _numbers(each.nodes), texts, own_shape)
        members.append(replace(member, origin=each.origin))
    if not members:
        raise UsageError("no program")
    plan.demand_size(members)
    return members


def text_of(nodes: Nodes) -> str:
    """Nodes as the commands take them; empty: any."""
    return nodes if isinstance(nodes, str) else ",".join(map(str, nodes))


def _numbers(nodes: Nodes) -> tuple[int, ...] | None:
    text = text_of(nodes)
    return nodelist.parse(text) if text else None


def _entries(env: Mapping[str, str] | Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    entries = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    for name, value in entries.items():
        if not name or b"=" in name or b"\0" in name + value:
            raise UsageError(f"{shown(name)}: no name and value of a variable")
    return entries
