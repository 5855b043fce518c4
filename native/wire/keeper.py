"""Conversation `keeper`: a PCT and the process that owns a job's ranks on its node.

Both are of one release, so this is no MessagePack but structs that C reads as they lie: KEEPER.md.
What a keeper is to start is the specification. Commands and reports go over a packet socket.
"""

from __future__ import annotations

import errno as errno_names
from collections.abc import Iterable
from enum import IntEnum
from struct import Struct as Layout
from typing import Any

from msgspec import Struct

from native.errors import PeerProtocolError
from native.text import REASONS, shown

MAGIC = 0x314B4F59
RANKS_MAX = 1 << 16  # of one keeper: SLOTS_MAX
SPEC_MAX_BYTES = 256 << 20
CPU_WORDS_MAX = 1024  # of 64 processors each
UNLIMITED = -1  # as a limit
KEEP = -2  # as a limit: what this node has
ALL_RANKS = 0xFFFFFFFF

REPORTS_PER_PACKET = 32
FDS_PER_PACKET = 128

_WANTS_STDIN, _WANTS_PMI, _WANTS_PORTALS, _IS_BOUND = 1, 2, 4, 8
_HAS_FILES, _APPENDS, _HAS_TERMINAL, _IS_TRACED, _SIGNALS_GROUP = 16, 32, 64, 128, 256
_WAS_RELEASED, _WAS_SIGNALLED = 1, 2
_ALL_ONES = (1 << 64) - 1
_U32 = Layout("<I")
_HEAD = Layout("<IIQ9IQ")
_LIMIT = Layout("<IQQ")
_STRINGS = Layout("<II")
_RANK = Layout("<III")
_COMMAND = Layout("<IIiI")
_REPORT = Layout("<HHIiIQQQQII200s")


class Hold(IntEnum):
    """How a program is to be stopped at its entry."""

    AUTO = 0  # preload the hold library where it works, else trace
    TRACE = 1
    BEFORE_EXEC = 2
    FOR_DEBUGGERS = 3  # as AUTO; one that was traced is stopped by SIGSTOP, and free to be traced
    WITH_TRACER = 4  # as AUTO; before the rest is killed a tracer may write what it has seen


class HowHeld(IntEnum):
    """How a rank was stopped at its entry."""

    PRELOAD = 1
    TRACE = 2
    BEFORE_EXEC = 3  # a failing exec will show only after go


class ExecStep(IntEnum):
    """Where starting a rank failed; what ``text`` of the report then names."""

    STREAMS = 1  # its pipes: nothing
    FORK = 2  # nothing
    LIMITS = 3  # nothing
    CHDIR = 4  # the directory
    OPEN = 5  # the program
    INTERPRETER = 6  # the interpreter that a script names
    LOADER = 7  # the dynamic loader that an ELF file names
    EXEC = 8  # the program
    SETUID_REFUSED = 9  # the program or interpreter
    CAPABILITY_REFUSED = 10  # the same
    MEMORY = 11  # nothing
    AFFINITY = 12  # nothing
    OUTPUT = 13  # the file


class ProgramSpec(Struct, frozen=True):
    """What ranks of one member run.

    Attributes:
        path: the image to execute; may differ from ``argv[0]``.
        argv: at least one.
        cwd: working directory; empty: the PCT's.
    """

    path: bytes
    argv: tuple[bytes, ...]
    cwd: bytes
    hold: Hold = Hold.AUTO


class RankSpec(Struct, frozen=True):
    """One rank.

    Attributes:
        program: index into the specification's programs.
        environment: "NAME=value", each replaces the shared one of that name.
        wants_stdin: standard input is a pipe; else it is empty.
        wants_pmi: a socket, named by PMI_FD in the rank's environment.
        wants_portals: a listener and the file with the job's map, named by YOD_PORTALS.
        cpus: processors that it is bound to; empty: to none but its parent's.
        files: for its output and its errors; empty: the pipe. None: both pipes.
        appends: what is in the files stays.
        window: rows and columns of the terminal that its streams are; None: they are none.
    """

    rank: int
    program: int
    environment: tuple[bytes, ...]
    wants_stdin: bool
    wants_pmi: bool
    wants_portals: bool = False
    cpus: tuple[int, ...] = ()
    files: tuple[bytes, bytes] | None = None
    appends: bool = False
    window: tuple[int, int] | None = None


class KeeperSpec(Struct, frozen=True):
    """What a keeper is to start.

    Attributes:
        uid, gid, groups: of the owner. Only a PCT of root can give others than its own.
        limits: (resource, soft) or (resource, soft, hard), each a number, ``UNLIMITED`` or
            ``KEEP``. Without the hard one it is kept. Beyond what the node allows: what it allows.
        environment: "NAME=value", shared by all ranks, in this order.
        ranks: 1 to ``RANKS_MAX``, each number once.
        listen_nid: IPv4 address at which ranks that want Portals listen.
        ignored: numbers of the signals that the ranks ignore; all others are at their defaults.
        is_alone: no rank waits for another keeper: all go as soon as all are held, without GO.
        group: directory of the job's control group; empty: the keeper stays in its parent's.
        denied: character devices that the group may not open, as ``195:1 226:129``.
        remote: directories over which file systems are mounted, in a namespace of the ranks.
        is_traced: a rank that a signal will end is held first: :class:`RankDying`.
        signals_group: any signal to a rank is for its process group, not only what ends it.
    """

    job_id: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    umask: int
    limits: tuple[tuple[int, int] | tuple[int, int, int], ...]
    environment: tuple[bytes, ...]
    programs: tuple[ProgramSpec, ...]
    ranks: tuple[RankSpec, ...]
    listen_nid: int = 0
    ignored: tuple[int, ...] = ()
    is_alone: bool = False
    group: bytes = b""
    denied: bytes = b""
    remote: tuple[bytes, ...] = ()
    is_traced: bool = False
    signals_group: bool = False

    @property
    def wants_portals(self) -> bool:
        """Some rank does: the keeper is given the file for the map."""
        return any(rank.wants_portals for rank in self.ranks)

    @property
    def cpus(self) -> tuple[int, ...]:
        """Processors of all ranks, ascending; empty: some rank is bound to none."""
        if not all(rank.cpus for rank in self.ranks):
            return ()
        return tuple(sorted({cpu for rank in self.ranks for cpu in rank.cpus}))


class RankStarted(Struct, frozen=True):
    """The rank's process exists. Its streams were handed over just before.

    Attributes:
        port: that it listens at; 0: it wants no Portals.
    """

    rank: int
    unix_pid: int
    port: int = 0


class RankHeld(Struct, frozen=True):
    """The rank is at the entry of user code and waits for go."""

    rank: int
    how: HowHeld


class ExecFailed(Struct, frozen=True):
    """The rank's program could not be started; its end follows as ``RankEnded``."""

    rank: int
    errno: int
    step: ExecStep
    text: str  # the path that is at fault, or empty

    def explain(self) -> str:
        """One line for the user: what was at fault, and why."""
        reason = REASONS.get(self.errno) or errno_names.errorcode.get(self.errno, "an error")
        text = _EXPLANATIONS[self.step].format(text=shown(self.text), reason=reason)
        if self.step is ExecStep.INTERPRETER and self.text.endswith("\r"):
            text += "; its first line ends in a carriage return: convert it with dos2unix"
        return text


class RankEnded(Struct, frozen=True):
    """The rank's process has ended. Exactly once for each that started or failed to.

    Attributes:
        wait_status: as waitpid gives it.
        was_released: it was held and let go before it ended.
        user_s, system_s, max_rss_bytes: of the process and the children it waited for.
        ended_at: seconds on the node's monotonic clock.
        mpi_library: path of the MPI library that its program had mapped when it returned or called
            exit, as the rank claims, or was seen to have mapped when another program had taken its
            place; at most 199 bytes, of a longer one the end; empty: none, or it is not known.
        was_signalled: a signal ended it that the keeper had sent it before.
    """

    rank: int
    wait_status: int
    was_released: bool
    user_s: float
    system_s: float
    max_rss_bytes: int
    ended_at: float
    mpi_library: str = ""
    was_signalled: bool = False


class RankDying(Struct, frozen=True):
    """A signal will end the rank, which is stopped until :func:`encode_let_die`."""

    rank: int
    signo: int
    thread: int  # that got it; the process id, if it is the first one


class KeeperEmpty(Struct, frozen=True):
    """No process of the job is left on this node. The last report."""


class KeeperLost(Struct, frozen=True):
    """The keeper ended without :class:`KeeperEmpty`; its descendants may live. The last report."""

    reason: str


class DevicesOpen(Struct, frozen=True):
    """No device is denied to the group, for this reason; all else goes on."""

    reason: str


class StreamsTaken(Struct, frozen=True):
    """Which descriptors came with a ``RankStarted``: they are the next ones of the packet."""

    rank: int
    has_stdin: bool
    has_stdout: bool
    has_stderr: bool
    has_pmi: bool


class MountTaken(Struct, frozen=True):
    """The next descriptor of the packet is that of a mount over this directory."""

    directory: int


_OfRank = RankStarted | RankHeld | ExecFailed | RankDying | RankEnded
Report = _OfRank | KeeperEmpty | KeeperLost | DevicesOpen
Taken = StreamsTaken | MountTaken


class KeeperFailed(Struct, frozen=True):
    """The keeper can not do its work and exits; becomes the reason of ``KeeperLost``."""

    reason: str


_EXPLANATIONS = {
    ExecStep.STREAMS: "cannot make its standard streams: {reason}",
    ExecStep.FORK: "cannot create a process: {reason}",
    ExecStep.LIMITS: "cannot set its resource limits: {reason}",
    ExecStep.CHDIR: "cannot enter the directory {text}: {reason}",
    ExecStep.OPEN: "cannot execute {text}: {reason}",
    ExecStep.INTERPRETER: "cannot execute the script's interpreter {text}: {reason}",
    ExecStep.LOADER: "cannot execute: its dynamic loader {text} is missing",
    ExecStep.EXEC: "cannot execute {text}: {reason}",
    ExecStep.SETUID_REFUSED: "{text} would change its user or group: setuid programs are refused",
    ExecStep.CAPABILITY_REFUSED: "{text} has file capabilities: such programs are refused",
    ExecStep.MEMORY: "cannot start: {reason}",
    ExecStep.OUTPUT: "cannot open {text} for its output: {reason}",
    ExecStep.AFFINITY: "cannot be bound to processors of its node: {reason}",
}


def _strings(strings: Iterable[bytes]) -> bytes:
    """A counted list of NUL-ended strings.

    Raises:
        ValueError: a string holds a NUL.
    """
    strings = tuple(strings)
    blob = b"\0".join((*strings, b""))
    if blob.count(b"\0") != len(strings):
        raise ValueError("an argument, path or variable holds a NUL byte")
    return _STRINGS.pack(len(strings), len(blob)) + blob


def _cpu_mask(cpus: tuple[int, ...]) -> bytes:
    """A bit for each processor, in words of 64 bits behind their count.

    Raises:
        ValueError: there is a higher number than a keeper takes.
    """
    words = max(cpus) // 64 + 1
    if words > CPU_WORDS_MAX:
        raise ValueError(f"processor {max(cpus)}, a keeper knows {64 * CPU_WORDS_MAX}")
    mask = sum(1 << cpu for cpu in set(cpus))
    return _U32.pack(words) + mask.to_bytes(8 * words, "little")


def encode_spec(spec: KeeperSpec, parent_unix_pid: int, hold_library: bytes) -> bytes:
    """The specification's file.

    Args:
        parent_unix_pid: the process that will spawn the keeper.
        hold_library: absolute path of yodhold.so; empty: hold by tracing only.

    Raises:
        ValueError: a number of ranks, an index or a string that no keeper takes.
    """
    if not 1 <= len(spec.ranks) <= RANKS_MAX:
        raise ValueError(f"a keeper takes 1 to {RANKS_MAX} ranks, not {len(spec.ranks)}")
    counts = (len(spec.groups), len(spec.limits), len(spec.programs), len(spec.ranks))
    owner = (spec.job_id, spec.uid, spec.gid, spec.umask)
    ignored = sum({1 << number - 1 for number in spec.ignored})
    last = (spec.listen_nid, spec.is_alone, ignored)
    parts = [_HEAD.pack(MAGIC, parent_unix_pid, *owner, *counts, *last)]
    parts += [_U32.pack(group) for group in spec.groups]
    for resource, soft, *hard in spec.limits:
        upper = hard[0] if hard else KEEP
        parts.append(_LIMIT.pack(resource, soft & _ALL_ONES, upper & _ALL_ONES))
    parts += [_strings((text,)) for text in (hold_library, spec.group, spec.denied)]
    parts += [_strings(spec.remote), _strings(spec.environment)]
    for program in spec.programs:
        if not program.path or not program.argv:
            raise ValueError("a program has no path or no argv[0]")
        parts.append(_U32.pack(program.hold))
        parts += [_strings((program.path,)), _strings((program.cwd,)), _strings(program.argv)]
    for rank in spec.ranks:
        if not 0 <= rank.program < len(spec.programs):
            raise ValueError(f"rank {rank.rank} has program {rank.program}, which is none")
        flags = _WANTS_STDIN * rank.wants_stdin | _WANTS_PMI * rank.wants_pmi
        if rank.wants_portals:
            if not spec.listen_nid:
                raise ValueError(f"rank {rank.rank} has no address to listen at")
            flags |= _WANTS_PORTALS
        flags |= _IS_BOUND * bool(rank.cpus) | _HAS_FILES * (rank.files is not None)
        flags |= _APPENDS * rank.appends | _HAS_TERMINAL * (rank.window is not None)
        flags |= _IS_TRACED * spec.is_traced | _SIGNALS_GROUP * spec.signals_group
        parts += [_RANK.pack(rank.rank, rank.program, flags), _strings(rank.environment)]
        if rank.cpus:
            parts.append(_cpu_mask(rank.cpus))
        parts += [_strings((path,)) for path in rank.files or ()]
        if rank.window is not None:
            parts.append(_U32.pack(rank.window[0] | rank.window[1] << 16))
    encoded = b"".join(parts)
    if len(encoded) > SPEC_MAX_BYTES:
        raise ValueError(f"the specification has {len(encoded)} bytes, the limit is 256 MiB")
    return encoded


def encode_go() -> bytes:
    """Release all ranks together."""
    return _COMMAND.pack(1, 0, 0, 0)


def encode_signal(signo: int, rank: int | None = None) -> bytes:
    """Send a signal to one rank, or to each one."""
    return _COMMAND.pack(2, ALL_RANKS if rank is None else rank, signo, 0)


def encode_window(rows: int, columns: int) -> bytes:
    """The terminal of a rank has another size."""
    return _COMMAND.pack(4, 0, rows | columns << 16, 0)


def encode_let_die(rank: int) -> bytes:
    """Let the signal end a rank that is dying."""
    return _COMMAND.pack(5, rank, 0, 0)


def encode_end() -> bytes:
    """Kill every process of the job on this node, report that none is left, and leave."""
    return _COMMAND.pack(3, 0, 0, 0)


def decode_reports(packet: bytes) -> list[Report | Taken | KeeperFailed]:
    """The reports of one packet, in order; a ``StreamsTaken`` precedes each ``RankStarted``.

    Raises:
        PeerProtocolError: not a whole number of reports, or one that no keeper writes.
    """
    if not packet or len(packet) % _REPORT.size:
        raise PeerProtocolError(f"keeper: a packet of {len(packet)} bytes")
    reports: list[Report | Taken | KeeperFailed] = []
    for record in _REPORT.iter_unpack(packet):
        try:
            reports += _decode(record)
        except ValueError as error:
            raise PeerProtocolError(f"keeper: a report that is none: {error}") from None
    return reports


def _decode(record: tuple[Any, ...]) -> tuple[Report | Taken | KeeperFailed, ...]:
    """One record, field by field as it lies."""
    kind, flags, rank, value, step, user_us, system_us, rss_kb, at_ns, size, fds, text = record
    match kind:
        case 1:
            has = (bool(fds & 1), bool(fds & 2), bool(fds & 4), bool(fds & 8))
            return StreamsTaken(rank, *has), RankStarted(rank, value, flags)
        case 2:
            return (RankHeld(rank, HowHeld(value)),)
        case 3:
            path = text[:size].decode(errors="surrogateescape")
            return (ExecFailed(rank, value, ExecStep(step), path),)
        case 4:
            was_released = bool(flags & _WAS_RELEASED)
            used = (user_us / 1e6, system_us / 1e6, rss_kb * 1024, at_ns / 1e9)
            library = _text(text, size)
            was_signalled = bool(flags & _WAS_SIGNALLED)
            return (RankEnded(rank, value & 0xFFFF, was_released, *used, library, was_signalled),)
        case 5:
            return (KeeperEmpty(),)
        case 6 | 7:
            return ((KeeperFailed, DevicesOpen)[kind - 6](_text(text, size)),)
        case 8 if fds == 16:
            return (MountTaken(rank),)
        case 9:
            return (RankDying(rank, value, step),)
    raise ValueError(f"kind {kind}")


def _text(text: bytes, count_bytes: int) -> str:
    return text[:count_bytes].decode("utf-8", "backslashreplace")
