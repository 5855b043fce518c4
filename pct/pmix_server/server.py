"""The PMIx server of one job on one node: a process of the job's user.

Clients talk to libpmix, and libpmix to the PCT through :mod:`pct.pmix_server.upcalls`. The
main thread waits for both. Calls that wait for the library's thread are made by the main
thread only: in an upcall, which runs on the library's thread, they would never return.

The process ends when the PCT says so or its socket closes, and leaves no file.
"""

from __future__ import annotations

import os
import select
import sys
import time
from ctypes import CDLL, c_int, c_void_p

from pct.host import fabrics
from pct.pmix_server.keys import Code, Info, Layout, Node, Type, rank_keys, world_keys
from pct.pmix_server.library import Library, LibraryError, load
from pct.pmix_server.names import short_text
from pct.pmix_server.plain import (
    Added,
    AddWorld,
    Answer,
    Begin,
    End,
    Ended,
    FenceDone,
    GetModex,
    NamedProcess,
    NonsenseError,
    Ready,
    Record,
    Table,
    Unavailable,
    encode,
    take,
)
from pct.pmix_server.upcalls import Upcalls

READ_BYTES = 1 << 16
HEARD_MAX = 600  # bytes of what a library says when it fails
IGNORED = (1, 2, 3, 13, 15)  # SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM
SIG_IGN = 1
HWLOC_PARTS = "-x86,-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero"
HWLOC_IO = ",-linuxio,-pci"
# Settings of the library and its hwloc; those of the environment have precedence.
SETTINGS = {
    "PMIX_MCA_gds": "hash",  # no files for what is known of a world
    "PMIX_MCA_preg": "^compress",  # maps are strings, however long, and not bytes with NULs
    "HWLOC_PLUGINS_PATH": "/dev/null",  # it loads also those that it may not use
}
_OUTER = ("PMIX_", "PMI_", "PRTE_")


class Channel:
    """Messages over the PCT's socket."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = bytearray()

    def send(self, message: Record) -> None:
        """Write a whole message.

        Raises:
            OSError: the PCT has gone.
        """
        left = memoryview(encode(message))
        while left:
            left = left[os.write(self.fd, left) :]

    def receive(self) -> list[Record] | None:
        """Read once, and give the messages that are complete now. None: the PCT has gone.

        Raises:
            NonsenseError: a message is malformed.
        """
        try:
            data = os.read(self.fd, READ_BYTES)
        except ConnectionError:
            return None
        if not data:
            return None
        self._buffer += data
        messages = []
        while (message := take(self._buffer)) is not None:
            messages.append(message)
        return messages


class Overheard:
    """Keeps in memory what a library writes to standard error inside a ``with`` block.

    Attributes:
        text: what was written, after the block.
    """

    text = b""

    def __enter__(self) -> Overheard:
        self._memory = os.memfd_create("stderr")
        self._before = os.dup(2)
        os.dup2(self._memory, 2)
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._before, 2)
        self.text = os.pread(self._memory, HEARD_MAX, 0)
        os.close(self._before)
        os.close(self._memory)

    def line(self) -> str:
        """The text as one line, without the frames that libraries draw around it."""
        words = self.text.decode(errors="replace").split()
        return " ".join(word for word in words if word.strip("-*=#"))


class Server:
    """A server that is up: the worlds it has."""

    def __init__(self, channel: Channel, library: Library, begin: Begin, directory: bytes) -> None:
        self._channel = channel
        self._library = library
        self._begin = begin
        self._directory = directory
        self._node = Node(begin.host, begin.server)
        self._local_count = 0
        self._ranks_before: dict[str, int] = {}  # of the worlds so far, by node
        self._upcalls = Upcalls(library, channel.send, self._node)

    def start(self) -> None:
        """Initialise the library.

        Raises:
            LibraryError: it fails.
        """
        self._library.start(self._upcalls.table(), self.infos())

    def infos(self) -> tuple[Info, ...]:
        """How the library is started."""
        return (
            Info(b"pmix.srvr.tmpdir", Type.STRING, self._directory),
            Info(b"pmix.srvr.share", Type.BOOL, 1),
            Info(b"pmix.srvr.tool", Type.BOOL, 1),
            Info(b"pmix.sys.tmpdir", Type.STRING, self._directory),
            Info(b"pmix.srv.nspace", Type.STRING, self._begin.server.encode()),
            Info(b"pmix.srv.rank", Type.PROC_RANK, 0),
            Info(b"pmix.hname", Type.STRING, self._begin.host.encode()),
        )

    def world_infos(self, infos: tuple[Info, ...]) -> tuple[Info, ...]:
        """What clients are told about a world, of what there is to be told."""
        return infos

    def rank_infos(self, infos: tuple[Info, ...]) -> tuple[Info, ...]:
        """What clients are told about a rank, of what there is to be told."""
        return infos

    def serve(self) -> None:
        """Serve until the PCT says the end or has gone.

        Raises:
            NonsenseError: a message of the PCT is malformed or out of turn.
        """
        questions, channel = self._upcalls.questions, self._channel
        poll = select.poll()
        poll.register(channel.fd, select.POLLIN)
        poll.register(questions.wake, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll(_milliseconds_to(questions.deadline()))]
            if questions.wake in ready:
                os.eventfd_read(questions.wake)
            questions.run()
            if channel.fd in ready:
                messages = channel.receive()
                for message in messages or ():
                    if isinstance(message, End):
                        return
                    self._take(message)
                if messages is None:
                    return
            questions.expire()

    def finish(self) -> None:
        """Forget everything and finalise the library."""
        for nspace in self._node.worlds:
            self._library.deregister_nspace(nspace)
        self._library.finalize()

    def _take(self, message: Record) -> None:
        match message:
            case AddWorld():
                self._channel.send(self._add(message))
            case FenceDone() | Answer() | Table():
                self._upcalls.questions.answer(message)
            case GetModex(serial, process):
                self._upcalls.request_modex(serial, process)
            case Ended():
                self._ended(message)
            case _:
                raise NonsenseError(f"pmix: {type(message).__name__} is out of turn")

    def _add(self, world: AddWorld) -> Added:
        try:
            return Added(world.serial, Code.SUCCESS, self._register(world))
        except (LibraryError, OSError) as error:
            return Added(world.serial, Code.BAD_PARAM, (), short_text(str(error)))

    def _register(self, world: AddWorld) -> tuple[tuple[bytes, ...], ...]:
        """Register a world and its local ranks; gives the environment of each of these."""
        library, layout = self._library, Layout(world)
        directory = os.path.join(self._directory, os.fsencode(world.nspace.replace("/", "_")))
        os.mkdir(directory, 0o700)
        maps = (
            library.node_map(",".join(world.nodes).encode()),
            library.process_map(layout.process_map()),
        )
        infos = self.world_infos(world_keys(world, layout, maps, (self._directory, directory)))
        infos += tuple(
            Info(
                b"pmix.pdata",
                Type.DATA_ARRAY,
                self.rank_infos(rank_keys(world, layout, rank, self._ranks_before)),
            )
            for rank in range(len(world.node_of))
        )
        library.register_nspace(world.nspace, len(world.local_ranks), infos)
        if world.local_ranks and not self._local_count:
            self._upcalls.first_rank = world.first_rank + world.local_ranks[0]
        self._local_count += len(world.local_ranks)
        self._node.worlds[world.nspace] = world
        for name, ranks in zip(world.nodes, layout.ranks_of, strict=True):
            self._ranks_before[name] = self._ranks_before.get(name, 0) + len(ranks)
        local = [NamedProcess(world.nspace, rank) for rank in world.local_ranks]
        for process in local:
            library.register_client(process, self._begin.uid, self._begin.gid)
        return tuple(library.environment(process) for process in local)

    def _ended(self, ended: Ended) -> None:
        if ended.is_failure:
            infos = (
                Info(b"pmix.evproc", Type.PROC, ended.process),
                Info(b"pmix.evnondef", Type.BOOL, 1),  # a default handler would end its process
                Info(b"pmix.exit.code", Type.INT, os.waitstatus_to_exitcode(ended.wait_status)),
            )
            self._library.notify(Code.PROC_ABORTED, NamedProcess(self._begin.server, 0), infos)
        if ended.is_local:
            self._node.ended[ended.process] = ended.wait_status
            self._library.deregister_client(ended.process)


def _milliseconds_to(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    return max(0.0, deadline - time.monotonic()) * 1000 + 1


def prepare_environment() -> None:
    """Remove an outer launcher's variables; choose the parts of libpmix and hwloc."""
    for name in list(os.environ):
        if name.startswith(_OUTER) and not name.startswith("PMIX_MCA_"):
            del os.environ[name]
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # libpmix 4 looks at the whole machine when it starts, also from each processor in turn.
    parts = HWLOC_PARTS if fabrics.devices_may_be_here() else HWLOC_PARTS + HWLOC_IO
    os.environ.setdefault("HWLOC_COMPONENTS", parts)


def _begin(channel: Channel) -> Begin | None:
    """The first message; None: the job has ended before it was read."""
    while (messages := channel.receive()) is not None:
        match messages:
            case []:
                continue
            case [Begin() as begin]:
                return begin
            case [Begin(), End()]:
                return None
            case _:
                raise NonsenseError("pmix: the first message is not Begin alone")
    return None


def _run(channel: Channel) -> None:
    begin = _begin(channel)
    if begin is None:
        return
    try:
        library = load(begin.libraries, begin.is_only)
    except LibraryError as error:
        channel.send(Unavailable(short_text(str(error))))
        return
    server = Server(channel, library, begin, begin.directory)
    heard = Overheard()
    try:
        with heard:
            server.start()
    except LibraryError as error:
        said = f"; it says: {line}" if (line := heard.line()) else ""
        channel.send(Unavailable(short_text(f"{os.fsdecode(library.path)}: {error}{said}")))
        return
    os.write(2, heard.text)
    channel.send(Ready(library.path, short_text(library.version)))
    try:
        server.serve()
    finally:
        server.finish()


def main() -> None:
    """Serve the PCT whose socket PMI_FD names, and exit."""
    ignore = CDLL(None).signal  # Python's module takes longer than all of this
    ignore.argtypes = (c_int, c_void_p)
    for number in IGNORED:
        ignore(number, SIG_IGN)
    channel = Channel(int(os.environ.pop("PMI_FD")))
    prepare_environment()
    status = 0
    try:
        _run(channel)
    except (NonsenseError, OSError) as error:
        print(f"yod: PMIx server: {error}", file=sys.stderr)
        status = 1
    sys.stderr.flush()
    os._exit(status)  # the library's threads and callbacks need no interpreter's end
