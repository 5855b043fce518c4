"""What libpmix asks of its host, put to the PCT, and the answers back.

The library calls on its own thread. An upcall copies what it is given, queues what
is to be done with it, wakes the main thread by an eventfd and returns; the main
thread sends the question and, when the answer has come, calls the library's callback.
"""

from __future__ import annotations

import os
import sys
import time
from ctypes import addressof, create_string_buffer, string_at

from pct.pmix_server.keys import FIRST_READ, GROUP_CONSTRUCT, Code, Info, Type
from pct.pmix_server.library import (
    InfoDone,
    Library,
    LookupDone,
    ModexDone,
    ModexResponse,
    OpDone,
    Release,
    SpawnDone,
    ToolDone,
)
from pct.pmix_server.memory import (
    Application,
    Memory,
    applications_at,
    infos_at,
    process_at,
    process_bytes,
    processes_at,
    queries_at,
    strings_at,
)
from pct.pmix_server.names import (
    group_share,
    published,
    read_group_shares,
    read_published,
    short_text,
)
from pct.pmix_server.plain import (
    CONNECT,
    DISCONNECT,
    PMIX,
    AbortJob,
    Answer,
    Enter,
    FenceDone,
    GetRemote,
    GetTable,
    Joined,
    KeyValue,
    Left,
    LookupNames,
    ModexData,
    NamedProcess,
    PublishNames,
    Record,
    SpawnCommand,
    SpawnPrograms,
    Table,
    UnpublishNames,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from pct.pmix_server.keys import Node
    from pct.pmix_server.memory import Value

    _Sent = TypeVar("_Sent", FenceDone, Answer, Table, FenceDone | Answer)

LATELY_MAX = 64  # answers whose buffers are kept without a release function


class Upcalls:
    """What is open between libpmix and the PCT.

    Attributes:
        wake: an eventfd that is readable when :meth:`run` has something to do.
        first_rank: rank of the job of the first local rank: tells servers apart.
    """

    def __init__(self, library: Library, send: Callable[[Record], None], node: Node) -> None:
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.first_rank = 0
        self._library = library
        self._send = send
        self._node = node
        self._queued: list[Callable[[], object]] = []
        self._serial = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}  # by our serial
        self._deadlines: dict[int, float] = {}  # by our serial, monotonic
        self._published: dict[NamedProcess, list[bytes]] = {}
        self._group_count = 0
        self._tool_count = 0
        self._given: dict[int, object] = {}  # buffers until the library releases them
        self._lately: list[object] = []  # buffers without a release function
        self._release = Release(self._released)
        self._response = ModexResponse(self._modex_response)

    def table(self) -> dict[str, Callable[..., int | None]]:
        """The upcalls, by the library's names."""
        return {
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
            "query": self._query,
            "tool_connected": self._tool_connected,
            "job_control": self._job_control,
            "group": self._group,
        }

    def run(self) -> None:
        """Do what has been queued."""
        while self._queued:
            self._queued.pop(0)()

    def answer(self, message: FenceDone | Answer | Table) -> None:
        """Pass an answer on; one that comes too late is dropped."""
        if answer := self._waiting.pop(message.serial, None):
            self._deadlines.pop(message.serial, None)
            answer(message)

    def request_modex(self, serial: int, process: NamedProcess) -> None:
        """Get what a local rank has put, when it has; then the PCT is told."""
        rc = self._library.request_modex(process, self._response, serial)
        if rc != Code.SUCCESS:
            self._send(ModexData(serial, rc, b""))

    def deadline(self) -> float | None:
        """When :meth:`expire` has something to do, monotonic."""
        return min(self._deadlines.values(), default=None)

    def expire(self) -> None:
        """Answer the questions whose client does not want to wait longer."""
        now = time.monotonic()
        for serial in [serial for serial, at in self._deadlines.items() if at <= now]:
            self.answer(Answer(serial, Code.TIMEOUT, ()))

    def _ask(self, answer: Callable[[_Sent], None], timeout_s: float = 0) -> int:
        """Serial of a new question; ``answer`` is called with what comes back."""
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        self._waiting[self._serial] = answer
        if timeout_s > 0:
            self._deadlines[self._serial] = time.monotonic() + timeout_s
        return self._serial

    # -- upcalls: on the library's thread ---------------------------------

    def _queue(self, call: Callable[[], None]) -> int:
        self._queued.append(call)
        os.eventfd_write(self.wake, 1)
        return Code.SUCCESS

    def _is_rank(self, process: NamedProcess) -> bool:
        """It is none of a tool's, which may ask and no more."""
        return process.nspace in self._node.worlds

    def _client_connected(self, process: int, *rest: object) -> int:
        who = process_at(process)

        def carry_out() -> None:
            if self._is_rank(who):
                self._node.connected.add(who)
                self._send(Joined(who))

        self._queue(carry_out)
        return Code.OPERATION_SUCCEEDED

    def _client_finalized(self, process: int, *rest: object) -> int:
        who = process_at(process)

        def carry_out() -> None:
            if self._is_rank(who):
                self._node.connected.discard(who)
                self._send(Left(who))

        self._queue(carry_out)
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
        message = AbortJob(
            process_at(process), status, short_text((text or b"").decode(errors="replace"))
        )

        if not self._is_rank(message.process):
            return Code.NOT_SUPPORTED

        def carry_out() -> None:
            self._send(message)
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

        return self._enter(PMIX, processes_at(processes, count), blob, answer)

    def _connect(
        self,
        processes: int,
        count: int,
        _infos: int | None,
        _info_count: int,
        done: int,
        token: int | None,
    ) -> int:
        return self._enter(CONNECT, processes_at(processes, count), b"", _status_to(done, token))

    def _disconnect(
        self,
        processes: int,
        count: int,
        _infos: int | None,
        _info_count: int,
        done: int,
        token: int | None,
    ) -> int:
        return self._enter(DISCONNECT, processes_at(processes, count), b"", _status_to(done, token))

    def _enter(
        self,
        kind: str,
        processes: tuple[NamedProcess, ...],
        data: bytes,
        answer: Callable[[FenceDone], None],
    ) -> int:
        ascending = tuple(sorted(processes, key=lambda one: (one.nspace, one.rank)))
        return self._queue(lambda: self._send(Enter(self._ask(answer), kind, ascending, data)))

    def _direct_modex(
        self, process: int, _infos: int | None, _count: int, done: int, token: int | None
    ) -> int:
        who = process_at(process)

        def answer(message: Answer) -> None:
            data = message.pairs[0].value if message.pairs else b""
            self._give(done, message.status, data, token)

        return self._queue(lambda: self._send(GetRemote(self._ask(answer), who)))

    def _modex_response(self, status: int, data: int | None, size: int, token: int | None) -> None:
        message = ModexData(token or 0, status, string_at(data, size) if data else b"")
        self._queue(lambda: self._send(message))

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
            self._send(PublishNames(serial, who, values, is_read_once))

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
            self._keep_lately(memory)
            LookupDone(done)(status, *memory.pdata(found), token)

        return self._queue(
            lambda: self._send(
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
            self._send(UnpublishNames(serial, named or tuple(all_keys)))

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
        if not self._is_rank(who):
            return Code.NOT_SUPPORTED
        of_all = infos_at(infos, info_count)
        commands = tuple(
            _spawn_command(application, of_all)
            for application in applications_at(applications, count)
        )

        def answer(message: Answer) -> None:
            SpawnDone(done)(message.status, message.nspace.encode(), token)

        return self._queue(lambda: self._send(SpawnPrograms(self._ask(answer), who, commands)))

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

    def _query(
        self, _process: int, queries: int | None, count: int, done: int, token: int | None
    ) -> int:
        from pct.pmix_server.query import QUERIES_MAX, Request  # few programs ask

        if count > QUERIES_MAX:
            return Code.OUT_OF_RESOURCE
        request = Request(queries_at(queries, count))
        if request.fault:  # told at once: the library goes on with what it knows itself
            return request.fault

        def answer(message: Table) -> None:
            status, infos = request.answer(self._node, message.rows)
            self._give_infos(done, status, infos, token)

        def carry_out() -> None:
            if nspaces := request.tables_of(self._node):
                self._send(GetTable(self._ask(answer), nspaces))
            else:
                answer(Table(0, ()))

        return self._queue(carry_out)

    def _tool_connected(
        self, _infos: int | None, _count: int, done: int, token: int | None
    ) -> None:
        """A tool of the job's user gets a namespace of its own; another one gets no answer."""
        self._queue(lambda: self._look_at_tool(done, token, 0))

    def _look_at_tool(self, done: int, token: int | None, tries: int) -> None:
        from pct.pmix_server import tools  # few jobs are visited by tools

        try:
            if (user := tools.stranger(os.getuid())) is not None:
                self._refuse_tool(f"there is a connection of user {user}")
                return
        except tools.Doubtful:
            if tries < tools.RETRIES_MAX:
                self._ask(lambda _: self._look_at_tool(done, token, tries + 1), tools.RETRY_S)
            else:
                self._refuse_tool("nobody knows whose a connection is")
            return
        self._tool_count += 1
        name = NamedProcess(f"{self._node.server}_tool{self._tool_count}", 0)
        memory = Memory()
        self._keep_lately(memory)
        ToolDone(done)(Code.SUCCESS, memory.copy(process_bytes(name)), token)

    def _refuse_tool(self, why: str) -> None:
        print(f"a tool was refused: {why}", file=sys.stderr, flush=True)

    def _group(
        self,
        operation: int,
        name: bytes,
        processes: int,
        count: int,
        _directives: int | None,
        _directive_count: int,
        done: int,
        token: int | None,
    ) -> int:
        """A group gets a number: what its first node proposes holds for all.

        Its members meet as for a connect, in an order that is theirs to keep.
        """
        if operation != GROUP_CONSTRUCT:
            return Code.OPERATION_SUCCEEDED
        members = processes_at(processes, count)
        self._group_count += 1
        share = group_share(self.first_rank + 1 << 32 | self._group_count, name)

        def answer(message: FenceDone) -> None:
            status = message.status
            infos: tuple[Info, ...] = ()
            if status == Code.SUCCESS:
                shares = read_group_shares(message.data)
                if all(other == name for _, other in shares):
                    infos = (
                        Info(b"pmix.grp.id", Type.STRING, name),
                        Info(b"pmix.grp.ctxid", Type.SIZE, shares[0][0]),
                        Info(b"pmix.grp.mbrs", Type.DATA_ARRAY, members),
                    )
                else:  # two groups of the same members, made in another order elsewhere
                    status = Code.BAD_PARAM
            self._give_infos(done, status, infos, token)

        return self._enter(CONNECT, members, share, answer)

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

    def _give_infos(
        self, done: int, status: int, infos: tuple[Info, ...], token: int | None
    ) -> None:
        """Call an info callback; the buffers live until the library releases them."""
        memory = Memory()
        address, length = memory.infos(infos)
        self._given[address or 0] = memory
        InfoDone(done)(status, address, length, token, self._release, address)

    def _keep_lately(self, memory: Memory) -> None:
        """Keep an answer's buffers for a library that does not say when it is done."""
        self._lately = [*self._lately[-LATELY_MAX:], memory]

    def _released(self, address: int | None) -> None:
        self._given.pop(address or 0, None)


def _status_to(done: int, token: int | None) -> Callable[[FenceDone | Answer], None]:
    """An answer that passes the status on, and nothing else."""
    return lambda message: OpDone(done)(message.status, token)


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
    directory = strings.get(b"pmix.wdir", application.directory)  # Open MPI gives both
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
