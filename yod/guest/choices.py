"""How a program says what :mod:`yod.api` is to launch: the types of its arguments. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict

from msgspec import Struct

from native.limits import Limits

Word = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Nodes = str | Sequence[int]


class Member(Struct, frozen=True):
    """One program of a job of several.

    Attributes:
        command: a program and its arguments; a single word: the program.
        size: its ranks; None: one for each of ``nodes``, or 1.
        nodes: only these, ranks in this order: numbers, or text such as ``5,1..3``.
        origin: where it was read, for messages.
        node_count, ranks_per_node, cores_per_rank, distribution, mem, mem_per_rank, gpus_per_node,
            gpus_per_rank, ranks_per_socket, sockets_per_node, ranks_per_numa, ranks_per_core,
            threads_per_core, bind: as in :class:`Choices`, whose value stands in for None.
    """

    command: Word | Sequence[Word]
    size: int | None = None
    nodes: Nodes = ()
    origin: str = ""
    node_count: int | None = None
    ranks_per_node: int | None = None
    cores_per_rank: int | None = None
    distribution: str | None = None
    mem: str | None = None
    mem_per_rank: str | None = None
    gpus_per_node: int | None = None
    gpus_per_rank: int | None = None
    ranks_per_socket: int | None = None
    sockets_per_node: int | None = None
    ranks_per_numa: int | None = None
    ranks_per_core: int | None = None
    threads_per_core: int | None = None
    bind: str | None = None


class Held(Protocol):
    """An allocation that is held, :class:`yod.allocation.Allocation`."""

    @property
    def variables(self) -> dict[str, str]:
        """By which it is found."""


Command = Word | Sequence[Word] | Member | Sequence[Member]


class Rare(TypedDict, total=False):
    """What few launches ask for; all of it is part of :class:`Choices`.

    Attributes:
        stdin_ranks: who gets the input, as ``--stdin``: ``all``, ``shared``, ``none``, or ranks:
            ``0,4..7`` or numbers. Default: rank 0.
        stop_ranks: Ctrl-Z stops the ranks, too, where the job has this process's signals.
        signal_tree: each signal reaches the helpers of the ranks, too.
        timestamp: put the time in front of each line of output.
        output: files that the ranks write to, as ``-o``: ``out.%t``.
        error: files for their standard error, as ``-e``. Default: ``output``.
        time_s: how long the ranks may run, in seconds; then yod ends them, with status 124.
        warning: a signal before that, as ``-signal``: ``USR1@60``.
        grace_s: how long they have between SIGTERM and SIGKILL, as ``--grace``; 0: they are killed
            at once. Default: as ``limits`` say.
        rank_variables: rank variables also as other launchers have them, as ``--as``:
            ``slurm,torch``.
        constraint: features of the nodes, such as ``gpu&ib``.
        switches: below so few leaf switches, as ``--switches``: ``1``, ``2@30:00``.
        exclude: none of these nodes: numbers, or text such as ``3,5..7,n9``.
        queue, account: that the job is in, and that is charged.
        nice: end when another launch or job needs the slots.
        retries: how often a launch that fails before its ranks run is tried again, without the
            node that has failed.
        attach: hold the ranks at their entry until :meth:`yod.aio.Job.go`, ``yodjob resume``, or
            Enter at the terminal that is the input.
        strace: a directory: rank 0 runs under strace, which writes there.
        strace_options: further options of strace.
        strace_ranks: the ranks that do, instead: ``all``, ``0,4..7`` or numbers.
        tee: ``output`` and ``error`` are written by this process, which has the output, too.
        report: how the job ended is added to this file, as a line of JSON.
        checkpoint_dir, restart, checkpoint_by, checkpoint_every, checkpoint_on,
            checkpoint_signal, checkpoint_grace, checkpoint_keep, checkpoint_local: checkpoints,
            as the options of these names have them.
        stacks: show the stacks of ranks that die by a signal, as ``-bt``.
        trace: write the launch to this file, as a trace for Perfetto.
    """

    stdin_ranks: str | Sequence[int]
    stop_ranks: bool
    signal_tree: bool
    timestamp: bool
    output: Word
    error: Word
    time_s: float
    warning: str
    grace_s: float
    rank_variables: str
    constraint: str
    switches: str
    exclude: str | Sequence[int]
    queue: str
    account: str
    nice: bool
    retries: int
    attach: bool
    strace: Word
    strace_options: str | Sequence[str]
    strace_ranks: str | Sequence[int]
    tee: bool
    report: Word
    checkpoint_dir: Word
    restart: Word
    checkpoint_by: str
    checkpoint_every: str
    checkpoint_on: str
    checkpoint_signal: str
    checkpoint_grace: float
    checkpoint_keep: int
    checkpoint_local: str
    stacks: bool
    trace: Word


class Choices(Rare, total=False):
    """How a job is launched.

    Attributes:
        size: ranks, of a single program. Default: one for each of ``nodes``, or 1.
        nodes: only these nodes, ranks in this order: numbers, or text such as ``5,1..3``.
        node_count: on so many nodes; without a size a rank on each.
        ranks_per_node: at most so many ranks on each node; without a size so many.
        cores_per_rank: slots that each rank has on its node.
        distribution: ``block``, ``cyclic`` or ``plane=K``, as ``--distribution``.
        mem: memory on each node, such as ``4G``.
        mem_per_rank: memory for each rank.
        gpus_per_node: GPUs on each node, for all ranks there.
        gpus_per_rank: GPUs for each rank.
        ranks_per_socket, sockets_per_node, ranks_per_numa, ranks_per_core, threads_per_core, bind:
            bound to cores of their own, or around these, as by the options of these names.
        env: the environment of the ranks. Default: this process's.
        cwd: their directory. Default: this process's.
        partition: ``host:port``, ``unix:PATH`` or ``embedded``. Default: as docs/yod.md says.
        label: put its rank in front of each line of output.
        raw: output as it comes, not in whole lines.
        merge: the same line of several ranks once, behind their numbers.
        remote_io: directories, or one, whose files are those of this host for all ranks.
        stall_s: when no rank does anything for so long, show where all are; 0: never.
        keep_going: let the others run when a rank fails.
        kill: kill the others at once when a rank fails.
        quiet: no messages of yod but errors.
        mpi: what to offer to MPI libraries, as ``--mpi``.
        libpmix: the PMIx library to use.
        with_portals: ranks use Portals, though no program is linked to it.
        wait_s: how long to wait for nodes that others have. Default: a step of an allocation
            any time, another job not at all.
        allocation: whose step it is to be. Default: that in which this process runs, or none.
        overlap: share the slots that other steps of the allocation have.
        arity: children of a node in the job's tree. Default: as ``limits`` say.
        exclusive: whole nodes, which nobody else uses.
        after: the jobs, of a step the other steps, that it waits for, as ``--after``.
        limits: in force for this launch. Default: as this process's environment says.
    """

    size: int | None
    nodes: Nodes
    node_count: int | None
    ranks_per_node: int | None
    cores_per_rank: int | None
    distribution: str | None
    mem: str | None
    mem_per_rank: str | None
    gpus_per_node: int | None
    gpus_per_rank: int | None
    ranks_per_socket: int | None
    sockets_per_node: int | None
    ranks_per_numa: int | None
    ranks_per_core: int | None
    threads_per_core: int | None
    bind: str | None
    env: Mapping[str, str] | Mapping[bytes, bytes] | None
    cwd: Word | None
    partition: str
    label: bool
    raw: bool
    merge: bool
    remote_io: Word | Sequence[Word]
    stall_s: float
    keep_going: bool
    kill: bool
    quiet: bool
    mpi: str
    libpmix: str
    with_portals: bool
    wait_s: float | None
    allocation: Held | None
    overlap: bool
    arity: int | None
    exclusive: bool
    after: str
    limits: Limits | None
