"""The PMIx server of one job on one node: a process of the job's user.

Clients talk to libpmix, which calls us on its own thread. An upcall copies what it is
given, puts it in a queue, wakes the main thread by an eventfd and returns; the main
thread asks the PCT over the socket, and calls libpmix's callback when the answer has
come. Only the main thread makes calls that wait for the library's thread: made in
an upcall they would wait for themselves.

The process ends when the PCT says so or its socket closes, and leaves no file.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from ctypes import addressof, create_string_buffer, string_at
from typing import TYPE_CHECKING, Any, TypeVar

from native.errors import PeerProtocolError, YodError
from native.wire.pmi import FenceKind, KeyValue, SpawnCommand
from native.wire.pmix import (
    AbortJob,
    Added,
    AddWorld,
    Answer,
    Begin,
    End,
    Ended,
    Enter,
    FenceDone,
    GetModex,
    GetRemote,
    Joined,
    Left,
    LookupNames,
    ModexData,
    NamedProcess,
    PmixMessage,
    PublishNames,
    Ready,
    SpawnPrograms,
    Unavailable,
    UnpublishNames,
    decode_from_pct,
    encode,
    take,
)
from pct.libpmix import (
    Application,
    Library,
    LibraryError,
    LookupDone,
    Memory,
    ModexDone,
    ModexResponse,
    OpDone,
    Release,
    SpawnDone,
    applications_at,
    infos_at,
    load,
    process_at,
    processes_at,
    strings_at,
)
from pct.pmix_command import make_directory, remove_directory
from pct.pmix_keys import FIRST_READ, Code, Info, Layout, Type, rank_keys, world_keys
from pct.pmix_names import published, read_published

if TYPE_CHECKING:
    from native.wire.pmix import FromPct
    from pct.libpmix import Value

READ_BYTES = 1 << 16
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
# What the library itself is told; a user's PMIX_MCA_ variables have precedence.
SETTINGS = {
    "PMIX_MCA_gds": "hash",
    "PMIX_MCA_preg": "native",
}
_OUTER = ("PMIX_", "PMI_", "PRTE_")

_Sent = TypeVar("_Sent", FenceDone, Answer, FenceDone | Answer)


class Channel:
    """Messages over the PCT's socket."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = bytearray()

    def send(self, message: PmixMessage) -> None:
        """Write a whole message.

        Raises:
            OSError: the PCT has gone.
        """
        left = memoryview(encode(message))
        while left:
            left = left[os.write(self.fd, left) :]

    def receive(self) -> list[FromPct] | None:
        """Read once; the messages that are complete with it. None: the PCT has gone.

        Raises:
            PeerProtocolError: nonsense.
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
            messages.append(decode_from_pct(message))
        return messages


class Server:
    """What is open between libpmix and the PCT."""

    def __init__(self, channel: Channel, library: Library, begin: Begin, directory: bytes) -> None:
        self._channel = channel
        self._library = library
        self._begin = begin
        self._directory = directory
        self._me = NamedProcess(begin.server, 0)
        self._nspaces: list[str] = []
        self._ranks_before: dict[str, int] = {}  # of the worlds so far, by node
        self._published: dict[NamedProcess, list[bytes]] = {}
        self._serial = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}  # by our serial
        self._deadlines: dict[int, float] = {}  # by our serial, monotonic
        self._given: dict[int, object] = {}  # buffers until the library releases them
        self._lately: deque[object] = deque(maxlen=64)  # buffers without a release function
        self._upcalls: deque[Callable[[], object]] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._release = Release(self._released)
        self._response = ModexResponse(self._modex_response)

    def start(self) -> None:
        """Initialise the library.

        Raises:
            LibraryError: it fails.
        """
        self._library.start(
            {
                "client_connected2": self._client_connected,
                "client_finalized": self._client_finalized,
                "abort": self._abort,
                "fence_nb": self._fence_nb,
                "direct_modex": self._direct_modex,
                "publish": self._publish,
                "lookup": self._lookup,
                "unpublish": self._unpublish,
                "spawn": self._spawn,
                "connect": self._connect,
                "disconnect": self._disconnect,
                "register_events": lambda *arguments: Code.OPERATION_SUCCEEDED,
                "deregister_events": lambda *arguments: Code.OPERATION_SUCCEEDED,
                "job_control": self._job_control,
            },
            (
                Info(b"pmix.srvr.tmpdir", Type.STRING, self._directory),
                Info(b"pmix.sys.tmpdir", Type.STRING, self._directory),
                Info(b"pmix.srv.nspace", Type.STRING, self._begin.server.encode()),
                Info(b"pmix.srv.rank", Type.PROC_RANK, 0),
                Info(b"pmix.hname", Type.STRING, self._begin.host.encode()),
            ),
        )

    def serve(self) -> None:
        """Until the PCT ends it or goes.

        Raises:
            PeerProtocolError: the PCT says nonsense.
        """
        poll = select.poll()
        poll.register(self._channel.fd, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll(self._timeout_ms())]
            if self._wake in ready:
                os.eventfd_read(self._wake)
            while self._upcalls:
                self._upcalls.popleft()()
            if self._channel.fd in ready:
                messages = self._channel.receive()
                for message in messages or ():
                    if isinstance(message, End):
                        return
                    self._take(message)
                if messages is None:
                    return
            self._expire()

    def finish(self) -> None:
        """Forget everything and finalise the library."""
        for nspace in self._nspaces:
            self._library.deregister_nspace(nspace)
        self._library.finalize()

    # -- from the PCT -----------------------------------------------------

    def _take(self, message: FromPct) -> None:
        match message:
            case AddWorld():
                self._channel.send(self._add(message))
            case FenceDone() | Answer():
                if answer := self._waiting.pop(message.serial, None):  # else it was too late
                    self._deadlines.pop(message.serial, None)
                    answer(message)
            case GetModex(serial, process):
                rc = self._library.request_modex(process, self._response, serial)
                if rc != Code.SUCCESS:
                    self._channel.send(ModexData(serial, rc, b""))
            case Ended():
                self._ended(message)
            case _:
                raise PeerProtocolError(f"pmix: {type(message).__name__} is out of turn")

    def _add(self, world: AddWorld) -> Added:
        try:
            return Added(world.serial, Code.SUCCESS, self._register(world))
        except (LibraryError, OSError) as error:
            return Added(world.serial, Code.BAD_PARAM, (), str(error))

    def _register(self, world: AddWorld) -> tuple[tuple[bytes, ...], ...]:
        """Register a world and its local ranks; gives the environment of each of these."""
        library, layout = self._library, Layout(world)
        directory = os.path.join(self._directory, os.fsencode(world.nspace.replace("/", "_")))
        os.mkdir(directory, 0o700)
        maps = (
            library.node_map(",".join(world.nodes).encode()),
            library.process_map(layout.process_map()),
        )
        infos = world_keys(world, layout, maps, (self._directory, directory))
        infos += tuple(
            Info(b"pmix.pdata", Type.DATA_ARRAY, rank_keys(world, layout, rank, self._ranks_before))
            for rank in range(len(world.node_of))
        )
        library.register_nspace(world.nspace, len(world.local_ranks), infos)
        self._nspaces.append(world.nspace)
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
            self._library.notify(Code.PROC_ABORTED, self._me, infos)
        if ended.is_local:
            self._library.deregister_client(ended.process)

    # -- questions to the PCT ---------------------------------------------

    def _ask(self, answer: Callable[[_Sent], None], timeout_s: int = 0) -> int:
        """Serial of a new question; ``answer`` is called with what comes back."""
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        self._waiting[self._serial] = answer
        if timeout_s > 0:
            self._deadlines[self._serial] = time.monotonic() + timeout_s
        return self._serial

    def _timeout_ms(self) -> float | None:
        if not self._deadlines:
            return None
        return max(0.0, min(self._deadlines.values()) - time.monotonic()) * 1000 + 1

    def _expire(self) -> None:
        if not self._deadlines:
            return
        now = time.monotonic()
        for serial in [serial for serial, at in self._deadlines.items() if at <= now]:
            del self._deadlines[serial]
            self._waiting.pop(serial)(Answer(serial, Code.TIMEOUT, ()))

    # -- upcalls: on the library's thread ---------------------------------

    def _queue(self, call: Callable[[], None]) -> int:
        self._upcalls.append(call)
        os.eventfd_write(self._wake, 1)
        return Code.SUCCESS

    def _client_connected(self, process: int, *rest: object) -> int:
        who = process_at(process)
        self._queue(lambda: self._channel.send(Joined(who)))
        return Code.OPERATION_SUCCEEDED

    def _client_finalized(self, process: int, *rest: object) -> int:
        who = process_at(process)
        self._queue(lambda: self._channel.send(Left(who)))
        return Code.OPERATION_SUCCEEDED

    def _abort(
        self,
        process: int,
        _object: int | None,
        status: int,
        text: bytes | None,
        _processes: int | None,
        _count: int,
        done: int,
        token: int | None,
    ) -> int:
        message = AbortJob(process_at(process), status, _text(text or b""))

        def carry_out() -> None:
            self._channel.send(message)
            if done:
                OpDone(done)(Code.SUCCESS, token)

        return self._queue(carry_out)

    def _fence_nb(
        self,
        processes: int,
        count: int,
        _infos: int | None,
        _info_count: int,
        data: int | None,
        size: int,
        done: int,
        token: int | None,
    ) -> int:
        blob = string_at(data, size) if data else b""
        self._library.free(data)  # ours with the call

        def answer(message: FenceDone) -> None:
            self._give(done, message.status, message.data, token)

        return self._enter(FenceKind.PMIX, processes_at(processes, count), blob, answer)

    def _connect(
        self,
        processes: int,
        count: int,
        _infos: int | None,
        _info_count: int,
        done: int,
        token: int | None,
    ) -> int:
        return self._enter(
            FenceKind.CONNECT, processes_at(processes, count), b"", _status_to(done, token)
        )

    def _disconnect(
        self,
        processes: int,
        count: int,
        _infos: int | None,
        _info_count: int,
        done: int,
        token: int | None,
    ) -> int:
        return self._enter(
            FenceKind.DISCONNECT, processes_at(processes, count), b"", _status_to(done, token)
        )

    def _enter(
        self,
        kind: FenceKind,
        processes: tuple[NamedProcess, ...],
        data: bytes,
        answer: Callable[[FenceDone], None],
    ) -> int:
        ascending = tuple(sorted(processes, key=lambda one: (one.nspace, one.rank)))
        return self._queue(
            lambda: self._channel.send(Enter(self._ask(answer), kind, ascending, data))
        )

    def _direct_modex(
        self, process: int, _infos: int | None, _count: int, done: int, token: int | None
    ) -> int:
        who = process_at(process)

        def answer(message: Answer) -> None:
            data = message.pairs[0].value if message.pairs else b""
            self._give(done, message.status, data, token)

        return self._queue(lambda: self._channel.send(GetRemote(self._ask(answer), who)))

    def _modex_response(self, status: int, data: int | None, size: int, token: int | None) -> None:
        message = ModexData(token or 0, status, string_at(data, size) if data else b"")
        self._queue(lambda: self._channel.send(message))

    def _publish(
        self, process: int, infos: int | None, count: int, done: int, token: int | None
    ) -> int:
        who = process_at(process)
        directives, pairs = _split(infos_at(infos, count))
        if any(value.data is None for _, value in pairs):
            return Code.NOT_SUPPORTED
        values = tuple(
            KeyValue(key, published(who, value.type, value.data or b"")) for key, value in pairs
        )
        is_read_once = _number(directives, b"pmix.persist", 0) == FIRST_READ

        def carry_out() -> None:
            self._published.setdefault(who, []).extend(pair.key for pair in values)
            serial = self._ask(_status_to(done, token))
            self._channel.send(PublishNames(serial, who, values, is_read_once))

        return self._queue(carry_out)

    def _lookup(
        self,
        _process: int,
        keys: int | None,
        infos: int | None,
        count: int,
        done: int,
        token: int | None,
    ) -> int:
        wanted = strings_at(keys)
        directives = dict(infos_at(infos, count))
        timeout_s = _number(directives, b"pmix.timeout", 0)

        def answer(message: Answer) -> None:
            status = message.status
            if status == Code.SUCCESS and len(message.pairs) < len(wanted):
                status = Code.PARTIAL_SUCCESS if message.pairs else Code.NOT_FOUND
            memory = Memory()
            found = [(pair.key, *read_published(pair.value)) for pair in message.pairs]
            self._lately.append(memory)
            LookupDone(done)(status, *memory.pdata(found), token)

        return self._queue(
            lambda: self._channel.send(
                LookupNames(self._ask(answer, timeout_s), wanted, b"pmix.wait" in directives)
            )
        )

    def _unpublish(
        self,
        process: int,
        keys: int | None,
        _infos: int | None,
        _count: int,
        done: int,
        token: int | None,
    ) -> int:
        who = process_at(process)
        named = strings_at(keys)

        def carry_out() -> None:
            all_keys = self._published.pop(who, []) if not named else ()
            serial = self._ask(_status_to(done, token))
            self._channel.send(UnpublishNames(serial, named or tuple(all_keys)))

        return self._queue(carry_out)

    def _spawn(
        self,
        process: int,
        infos: int | None,
        info_count: int,
        applications: int,
        count: int,
        done: int,
        token: int | None,
    ) -> int:
        who = process_at(process)
        of_all = infos_at(infos, info_count)
        commands = tuple(
            _spawn_command(application, of_all)
            for application in applications_at(applications, count)
        )

        def answer(message: Answer) -> None:
            SpawnDone(done)(message.status, message.nspace.encode(), token)

        return self._queue(
            lambda: self._channel.send(SpawnPrograms(self._ask(answer), who, commands))
        )

    def _job_control(
        self,
        _process: int,
        _targets: int | None,
        _target_count: int,
        directives: int | None,
        count: int,
        _done: int,
        _token: int | None,
    ) -> int:
        """The library does clean-up orders itself; it wants to know that we agree."""
        if any(key.startswith(b"pmix.jctrl.") for key, _ in infos_at(directives, count)):
            return Code.NOT_SUPPORTED
        return Code.OPERATION_SUCCEEDED

    # -- answers to the library -------------------------------------------

    def _give(self, done: int, status: int, data: bytes, token: int | None) -> None:
        """Call a modex callback; the buffer lives until the library releases it."""
        if not data:
            ModexDone(done)(status, None, 0, token, None, None)
            return
        buffer = create_string_buffer(data, len(data))
        address = addressof(buffer)
        self._given[address] = buffer
        ModexDone(done)(status, address, len(data), token, self._release, address)

    def _released(self, address: int | None) -> None:
        self._given.pop(address or 0, None)


def _status_to(done: int, token: int | None) -> Callable[[FenceDone | Answer], None]:
    """An answer that passes the status on, and nothing else."""
    return lambda message: OpDone(done)(message.status, token)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")[:4096]


def _split(
    infos: list[tuple[bytes, Value]],
) -> tuple[dict[bytes, Value], list[tuple[bytes, Value]]]:
    """What is for us, by keys that PMIx reserves, and what is the client's."""
    directives = {key: value for key, value in infos if key.startswith(b"pmix.")}
    return directives, [(key, value) for key, value in infos if not key.startswith(b"pmix.")]


def _number(infos: dict[bytes, Value], key: bytes, default: int) -> int:
    return infos[key].number(default) if key in infos else default


def _spawn_command(application: Application, of_all: list[tuple[bytes, Value]]) -> SpawnCommand:
    infos = [*of_all, *application.infos]
    strings = {key: value.data or b"" for key, value in infos if value.type == Type.STRING}
    hosts = strings.get(b"pmix.host", b"")
    directory = application.directory or strings.get(b"pmix.wdir", b"")
    set_by_infos = tuple(
        value.data or b""
        for key, value in infos
        if key in (b"pmix.envar.set", b"pmix.envar.add") and value.type == Type.ENVAR
    )
    return SpawnCommand(
        program=application.command or application.arguments[0],
        arguments=application.arguments[1:],
        count=max(1, application.count),
        directory=directory,
        environment=application.environment + set_by_infos,
        hosts=tuple(host.partition(b":")[0] for host in hosts.split(b",") if host),
    )


def _prepare_environment() -> None:
    """Forget an outer launcher's PMIx; choose the library's parts."""
    for name in list(os.environ):
        if name.startswith(_OUTER) and not name.startswith("PMIX_MCA_"):
            del os.environ[name]
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def _begin(channel: Channel) -> Begin | None:
    """The first message; None: the PCT has gone before."""
    while (messages := channel.receive()) is not None:
        match messages:
            case []:
                continue
            case [Begin() as begin]:
                return begin
            case _:
                raise PeerProtocolError("pmix: the first message is not Begin alone")
    return None


def _run(channel: Channel) -> None:
    begin = _begin(channel)
    if begin is None:
        return
    try:
        library = load(begin.libraries, begin.is_only)
        directory = make_directory(os.getuid(), begin.server)
    except (YodError, OSError) as error:
        channel.send(Unavailable(_text(str(error).encode())))
        return
    try:
        server = Server(channel, library, begin, directory)
        try:
            server.start()
        except LibraryError as error:
            channel.send(Unavailable(f"{os.fsdecode(library.path)}: {error}"))
            return
        channel.send(Ready(library.path, library.version[:4096]))
        try:
            server.serve()
        finally:
            server.finish()
    finally:
        remove_directory(os.getuid(), begin.server)


def main() -> None:
    """Serve the PCT whose socket PMI_FD names, and exit."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    channel = Channel(int(os.environ.pop("PMI_FD")))
    _prepare_environment()
    status = 0
    try:
        _run(channel)
    except (PeerProtocolError, OSError) as error:
        print(f"yod: PMIx server: {error}", file=sys.stderr)
        status = 1
    sys.stderr.flush()
    os._exit(status)  # the library's threads and callbacks need no interpreter's end
