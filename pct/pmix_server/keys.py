"""Numbers and keys of PMIx, and what its clients are told about a world.

The numbers and keys are those of pmix_common.h, the same in libpmix 4 and 5. A
key's value is described here as an :class:`Info`; :mod:`pct.pmix_server.library` gives it the
library's layout.
"""

from __future__ import annotations

from pct.pmix_server.plain import NamedProcess, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pct.pmix_server.plain import AddWorld

RANK_WILDCARD = 0xFFFFFFFE  # all ranks of a namespace; -1 in our messages
RANK_VALID = 0xFFFFFFFF - 50  # at and above: no rank, but a meaning


class Type:
    """Types of a pmix_value_t, those that are used here."""

    UNDEF = 0
    BOOL = 1
    BYTE = 2
    STRING = 3
    SIZE = 4
    PID = 5
    INT = 6
    INT8 = 7
    INT16 = 8
    INT32 = 9
    INT64 = 10
    UINT = 11
    UINT8 = 12
    UINT16 = 13
    UINT32 = 14
    UINT64 = 15
    FLOAT = 16
    DOUBLE = 17
    TIMEVAL = 18
    TIME = 19
    STATUS = 20
    PROC = 22
    INFO = 24
    BYTE_OBJECT = 27
    PERSIST = 30
    DATA_RANGE = 33
    PROC_INFO = 38
    DATA_ARRAY = 39
    PROC_RANK = 40
    COMPRESSED_STRING = 42
    ENVAR = 46


class Code:
    """Result of a call, or number of an event."""

    SUCCESS = 0
    PROC_ABORTED = -7
    BAD_PARAM = -27
    OUT_OF_RESOURCE = -29
    TIMEOUT = -24
    NOT_FOUND = -46
    NOT_SUPPORTED = -47
    PARTIAL_SUCCESS = -52
    LOST_CONNECTION = -61
    OPERATION_SUCCEEDED = -157  # done already: the callback is not called


class ProcessState:
    """State of a process: some values of pmix_proc_state_t."""

    LAUNCH_UNDERWAY = 2
    RUNNING = 5
    CONNECTED = 6
    TERMINATED = 20
    ABORTED_BY_SIG = 54
    TERM_NON_ZERO = 62


FIRST_READ = 1  # PMIX_PERSIST_FIRST_READ
GROUP_CONSTRUCT = 0  # PMIX_GROUP_CONSTRUCT; 1 is its end
RANGE_SESSION = 4  # PMIX_RANGE_SESSION: clients of all namespaces


class Node:
    """The server's knowledge of its node.

    Args:
        host: its name.
        server: the server's own namespace.

    Attributes:
        worlds: those that are registered, by namespace.
        connected: the ranks whose clients are.
        ended: wait statuses of the ranks that have ended.
    """

    def __init__(self, host: str, server: str = "") -> None:
        self.host = host
        self.server = server
        self.worlds: dict[str, AddWorld] = {}
        self.connected: set[NamedProcess] = set()
        self.ended: dict[NamedProcess, int] = {}


class ProcessInfo(Record):
    """One process in a table of processes.

    Attributes:
        unix_pid: 0: it has not been started.
        exit_code: 0 while it has none.
        state: of :class:`ProcessState`.
    """

    process: NamedProcess
    host: bytes
    program: bytes
    unix_pid: int
    exit_code: int
    state: int


class ProcessTable(Record):
    """The value of a key that asks for a table of processes."""

    processes: tuple[ProcessInfo, ...]


class Info(Record):
    """One key and its value.

    Attributes:
        value: int for numbers and flags; bytes for strings and byte objects; a
            NamedProcess for PROC; a tuple of Info or of NamedProcess, or a
            ProcessTable, for DATA_ARRAY.
    """

    key: bytes
    type: int
    value: int | bytes | NamedProcess | tuple[Info, ...] | tuple[NamedProcess, ...] | ProcessTable


class Layout:
    """The places of a world's ranks, computed from its AddWorld.

    Attributes:
        ranks_of: for each node, its ranks, ascending.
        local_rank: for each rank, its number among those of its node.
        application_rank: for each rank, its number in its program.
    """

    def __init__(self, world: AddWorld) -> None:
        self.ranks_of: list[list[int]] = [[] for _ in world.nodes]
        self.local_rank = []
        self.application_rank = []
        started: dict[int, int] = {}
        for rank, (node, application) in enumerate(
            zip(world.node_of, world.application_of, strict=True)
        ):
            self.local_rank.append(len(self.ranks_of[node]))
            self.ranks_of[node].append(rank)
            self.application_rank.append(started.get(application, 0))
            started[application] = self.application_rank[-1] + 1
        self.application_count = max(1, len(started))

    def process_map(self) -> bytes:
        """Ranks of each node, as PMIx_generate_ppn reads them."""
        return b";".join(joined(ranks) for ranks in self.ranks_of)


def joined(numbers: Sequence[int]) -> bytes:
    """Numbers with commas."""
    return ",".join(map(str, numbers)).encode()


def world_keys(
    world: AddWorld, layout: Layout, maps: tuple[bytes, bytes], directories: tuple[bytes, bytes]
) -> tuple[Info, ...]:
    """The keys of a whole world, without those of single ranks.

    Args:
        maps: the nodes and the ranks on each, as libpmix has written them.
        directories: of the server, and of this world below it.
    """
    size = len(world.node_of)
    infos = [
        Info(b"pmix.univ.size", Type.UINT32, world.universe_size),
        Info(b"pmix.max.size", Type.UINT32, size),
        Info(b"pmix.job.size", Type.UINT32, size),
        Info(b"pmix.num.nodes", Type.UINT32, len(world.nodes)),
        Info(b"pmix.num.slots", Type.UINT32, world.universe_size),
        Info(b"pmix.jobid", Type.STRING, world.job_id.encode()),
        Info(b"pmix.job.napps", Type.UINT32, layout.application_count),
        Info(b"pmix.offset", Type.PROC_RANK, world.first_rank),
        Info(b"pmix.nmap", Type.STRING, maps[0]),
        Info(b"pmix.pmap", Type.STRING, maps[1]),
        Info(b"pmix.mapby", Type.STRING, b"slot"),
        Info(b"pmix.tmpdir", Type.STRING, directories[0]),
        Info(b"pmix.nsdir", Type.STRING, directories[1]),
        Info(b"pmix.tdir.rmclean", Type.BOOL, 1),
    ]
    if (local := world.local_ranks) != ():
        infos += (
            Info(b"pmix.local.size", Type.UINT32, len(local)),
            Info(b"pmix.node.size", Type.UINT32, len(local)),
            Info(b"pmix.lpeers", Type.STRING, joined(local)),
            Info(b"pmix.lldr", Type.PROC_RANK, local[0]),
        )
    if world.parent is not None:
        infos += (
            Info(b"pmix.spawned", Type.BOOL, 1),
            Info(b"pmix.parent", Type.PROC, world.parent),
        )
    return tuple(infos)


def rank_keys(
    world: AddWorld, layout: Layout, rank: int, before: Mapping[str, int]
) -> tuple[Info, ...]:
    """The keys of one rank.

    Args:
        before: for each node, how many ranks of earlier worlds it has.
    """
    node = world.node_of[rank]
    name = world.nodes[node]
    infos = (
        Info(b"pmix.rank", Type.PROC_RANK, rank),
        Info(b"pmix.appnum", Type.UINT32, world.application_of[rank]),
        Info(b"pmix.apprank", Type.PROC_RANK, layout.application_rank[rank]),
        Info(b"pmix.grank", Type.PROC_RANK, world.first_rank + rank),
        Info(b"pmix.lrank", Type.UINT16, layout.local_rank[rank] & 0xFFFF),
        Info(b"pmix.nrank", Type.UINT16, (before.get(name, 0) + layout.local_rank[rank]) & 0xFFFF),
        Info(b"pmix.nodeid", Type.UINT32, node),
        Info(b"pmix.hname", Type.STRING, name.encode()),
    )
    if world.parent is None:
        return infos
    return (
        *infos,
        Info(b"pmix.spawned", Type.BOOL, 1),
        Info(b"pmix.parent", Type.PROC, world.parent),
    )
