"""What one launch asks for, decided before bebopd is contacted.

The sizes and node lists of the command line and of a load file are combined by the rules
of Cplant's yod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import inf

from msgspec import Struct

from native.errors import UsageError
from native.text import shown
from native.wire.alloc import NodeSpec
from native.wire.base import ARITY_MAX, NAME_MAX, NO_DEPENDENCY, SIZE_MAX, Dependency
from native.wire.group import Dialect, RankFiles, Strace, Window
from native.wire.load import Arguments, Mpi, ShippedObject
from yod.plan.checkpoint import Checkpointing, Occasion
from yod.plan.loadfile import Line
from yod.plan.shape import ANY, Shape, spec_of

Ranges = tuple[tuple[int, int], ...]  # first and last rank of each, ascending

RANK_0: Ranges = ((0, 0),)


class Style(Enum):
    """How the output of several ranks is shown."""

    RAW = "bytes as they come"
    WHOLE = "whole lines"
    LABELLED = "whole lines, each with its rank in front"
    MERGED = "whole lines, the same line of several ranks once, behind their numbers"


class TimeLimit(Struct, frozen=True):
    """How long the ranks may run, from go.

    Attributes:
        signal_number: warns them, ``before_s`` before their time is over; 0: nothing does.
    """

    time_s: float
    signal_number: int = 0
    before_s: float = 0.0


class Options(Struct, frozen=True):
    """What the user chose for the whole job.

    Attributes:
        input_ranks: those that have yod's standard input (``--stdin``).
        shares_input: each line of it goes to the one that asks next (``--stdin shared``).
        dialects: of rank variables, beside ours (``--as``).
        kills_at_once: no delay after an abnormal end (``-kill``, ``-batch``).
        keeps_going: an abnormal end ends nothing else.
        outlives_nodes: nor does the loss of a node that is not the root, while others are left.
        mpi: what to offer to MPI libraries: one of :data:`yod.program.speech.CHOICES`.
        libpmix: the PMIx library to use; empty: found as the manual says.
        has_portals: ranks use Portals, also if no program is linked to it.
        style: how the output of several ranks is shown (``--raw``, ``--label``, ``--merge``).
        overlaps: a step shares the slots that others have (``--overlap``).
        is_exclusive: nobody else has slots of the job's nodes (``--exclusive``).
        constraint: features of the job's nodes (``--constraint``); empty: any.
        switches: below at most so many leaf switches, and the seconds to wait for so few
            (``--switches``); 0: any, and as bebopd says.
        exclude: nodes that the job gets none of, as the user wrote them (``--exclude``).
        queue, account: that the job is in (``-queue``), and that is charged (``-account``); empty:
            as the site says.
        retries: how often a launch that fails before go is tried again (``--retries``).
        gives_way: the job ends when another one needs its slots (``-nice``).
        wait_s: how long to wait for nodes that others have; infinity: any time; 0: not at all;
            None: a step of an allocation, or what waits for other jobs, any time, another job
            not at all.
        arity: children of a node in the job's tree (``--arity``); 0: as the limits say.
        after: the jobs or steps that it waits for, as the user wrote it (``--after``); else empty.
        detaches_on_hangup: the job goes on when its terminal is lost (``--detach-on-hangup``).
        has_stamps: each line of output has the time in front (``--timestamp``).
        directory: of the ranks (``--chdir``); empty: that of yod.
        time_limit: of the ranks (``-time``); None: they may run for any time.
        grace_s: they have so long between SIGTERM and SIGKILL (``--grace``); None: as the limits
            say (``kill_delay_s``).
        files: that the ranks write to (``-o``, ``-e``); None: all that they write goes to yod.
        tee: that yod writes to what it shows, too (``--tee``); None: there are none.
        wants_stacks: of ranks that die by a signal (``-bt``).
        stall_s: without a sign of life for so long all ranks are looked at (``--stall``); 0: never.
        stops_ranks: Ctrl-Z stops the ranks with yod (``--stop-ranks``).
        signals_group: each signal reaches the helpers of a rank, too (``--signal-tree``).
        window: of the terminal that the only rank with input has (``--pty``); None: it has none.
        remote: directories whose files are yod's, as ranks see them (``--remote-io``).
        awaits_user: the ranks are held at their entry until the user lets them go (``-attach``,
            ``-alloc``).
        asks_user: the user sees the nodes then, and may end the job instead (``-alloc``).
        strace: which ranks run under it (``-strace``); None: none does.
        goes_by_enter: the user may do that at the terminal that is yod's standard input.
        goes_after_s: they are let go by then (``-sleep``); 0: only by the user.
        holds_before_exec: they are held before the program is executed, not at its entry.
        tells_times: nodes say when they came to the end of each phase (``--trace``).
        ends_as_cplant: yod's exit status is as that of Cplant's (``--exit=cplant``).
    """

    is_quiet: bool = False
    kills_at_once: bool = False
    keeps_going: bool = False
    input_ranks: Ranges = RANK_0
    mpi: str = "auto"
    libpmix: str = ""
    has_portals: bool = False
    debug: int = 0
    style: Style = Style.WHOLE
    overlaps: bool = False
    outlives_nodes: bool = False
    is_exclusive: bool = False
    constraint: str = ""
    switches: tuple[int, float] = (0, 0.0)
    exclude: str = ""
    queue: str = ""
    account: str = ""
    retries: int = 0
    gives_way: bool = False
    wait_s: float | None = None
    arity: int = 0
    after: str = ""
    detaches_on_hangup: bool = False
    has_stamps: bool = False
    directory: str = ""
    time_limit: TimeLimit | None = None
    grace_s: float | None = None
    files: RankFiles | None = None
    tee: RankFiles | None = None
    remote: tuple[bytes, ...] = ()
    dialects: tuple[Dialect, ...] = ()
    window: Window | None = None
    wants_stacks: bool = False
    stall_s: float = 0.0
    signals_group: bool = False
    stops_ranks: bool = False
    shares_input: bool = False
    ends_as_cplant: bool = False
    awaits_user: bool = False
    asks_user: bool = False
    goes_by_enter: bool = False
    goes_after_s: float = 0.0
    holds_before_exec: bool = False
    strace: Strace | None = None
    tells_times: bool = False

    @property
    def terminal_rank(self) -> int:
        """The rank that has a terminal; -1: none has."""
        return -1 if self.window is None else self.input_ranks[0][0]


class Member(Struct, frozen=True):
    """One program on some ranks, as the user named it.

    Attributes:
        origin: ``file:line`` for messages; empty: the command line.
        path: of the program, where it has been found; empty: it is still to be.
    """

    spec: NodeSpec
    words: tuple[str, ...]  # program, arguments
    origin: str = ""
    path: str = ""


class Plan(Struct, frozen=True):
    """All that a launch needs to know; the programs are found and measured.

    Attributes:
        names: the program of each member, for reports.
        mpi_reason: why ``mpi`` was chosen, for people.
        warnings: lines that the user is shown before a rank can run.
        ignored_signals: signals that yod was started to ignore, as by nohup.
        allocation: whose step it is to be; empty: it is none.
        asker: the step in which yod runs; 0: none.
        after: the jobs or steps that it waits for before it waits for nodes.
        checkpointing: how its checkpoints are made; None: there are none.
    """

    specs: tuple[NodeSpec, ...]
    origins: tuple[str, ...]
    names: tuple[str, ...]
    arguments: Arguments
    objects: tuple[ShippedObject, ...]
    are_arguments_inline: bool
    umask: int
    limits: tuple[tuple[int, int], ...]
    options: Options
    ignored_signals: tuple[int, ...] = ()
    batch_job: str = ""
    mpi: Mpi = Mpi(offered=())
    mpi_reason: str = ""
    warnings: tuple[str, ...] = ()
    allocation: str = ""
    asker: int = 0
    after: Dependency = NO_DEPENDENCY
    checkpointing: Checkpointing | None = None

    @property
    def wait_s(self) -> float:
        """How long to wait for nodes that others have; infinity: any time."""
        chosen = self.options.wait_s
        waits = bool(self.allocation or self.after.on)
        return (inf if waits else 0.0) if chosen is None else chosen

    @property
    def time_s(self) -> float:
        """How long it is to have its nodes; 0: any time, or as long as its queue lets it.

        A launch whose user says when the ranks go has its time from then on, which is not known.
        """
        limit, checkpoints = self.options.time_limit, self.checkpointing
        if limit is None or self.options.awaits_user:
            return 0.0
        is_written = checkpoints is not None and Occasion.TIMEOUT in checkpoints.on
        return limit.time_s + (checkpoints.most_s if checkpoints and is_written else 0.0)

    @property
    def size(self) -> int:
        """Ranks of the whole job."""
        return sum(spec.size for spec in self.specs)

    def directory_of(self, wanted: bytes) -> bytes:
        """Where a spawned program starts: below the first member's directory, or where it says."""
        here = self.arguments.members[0].directory
        if not wanted or wanted.startswith(b"/"):
            return wanted or here
        return here + b"/" + wanted


def from_command_line(
    size: int | None,
    nodes: tuple[int, ...] | None,
    words: tuple[str, ...],
    shape: Shape = ANY,
    path: str = "",
) -> list[Member]:
    """The one member of a launch without a load file."""
    return [Member(spec_of(size, nodes, "", shape), words, path=path)]


def from_load_file(
    lines: list[Line],
    size: int | None,
    nodes: tuple[int, ...] | None,
    shape: Shape = ANY,
) -> tuple[list[Member], list[str]]:
    """The members of a load file, in rank order.

    A line's own size and list come first. A line without a list takes that of the command
    line. A line without a size has the size of its own list, or that its own shape says, else
    1. Only in a file of one line the size of the command line, then the length of its list,
    come before that 1.

    What a line does not say of its shape, the command line says.

    Returns:
        The members, and warnings for the user.

    Raises:
        UsageError: a count of nodes for several lines, or what contradicts itself.
    """
    warnings = []
    is_single = len(lines) == 1
    if size is not None and not is_single:
        warnings.append("-sz is ignored: the load file has several lines, each with its own size")
    if shape.node_count is not None and not is_single:
        raise UsageError(
            f"-N {shape.node_count}: the load file has several lines, each with its own"
        )
    members = []
    for line in lines:
        own_size, own_nodes = line.size, line.nodes
        says_size = line.shape.node_count is not None or line.shape.per_node is not None
        if own_size is None and own_nodes is None:
            if is_single:
                own_size, own_nodes = size, nodes
            else:
                own_size, own_nodes = None if says_size else 1, nodes
        elif own_nodes is None:
            own_nodes = nodes
        elif own_size is None and is_single:
            own_size = size
        spec = spec_of(own_size, own_nodes, line.origin, line.shape.over(shape))
        members.append(Member(spec, line.words, line.origin))
    demand_size(members)
    return members, warnings


def strace_of(given: Mapping[str, Sequence[str]]) -> Strace | None:
    """Which ranks run under strace, as the options say; None: none does.

    Raises:
        UsageError: the text names the option.
    """
    if not any(option.startswith("-strace") for option in given):
        return None
    from yod.plan.files import traced  # few launches ask for it

    return traced(given)


def demand_size(members: list[Member]) -> None:
    """Refuse a job of too many ranks.

    Raises:
        UsageError: the text names the limit.
    """
    total = sum(member.spec.size for member in members)
    if total > SIZE_MAX:
        raise UsageError(f"{total} ranks in all, at most {SIZE_MAX}")


def demand_name(option: str, name: str) -> str:
    """The name of a queue or an account; empty: none is named.

    Raises:
        UsageError: it can be none.
    """
    if len(name) > NAME_MAX or not name.isprintable():
        raise UsageError(f"{option} {shown(name[:NAME_MAX])}: no name")
    return name


def demand_arity(arity: int, option: str) -> int:
    """Refuse a number of children that no tree has.

    Raises:
        UsageError: the text names the option and the limits.
    """
    if not 1 <= arity <= ARITY_MAX:
        raise UsageError(f"{option}: must be from 1 to {ARITY_MAX}")
    return arity
