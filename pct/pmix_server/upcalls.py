"""The upcalls of libpmix to its host: questions to the PCT, and the answers back.

The library calls on its own thread. An upcall copies its arguments, queues the rest of its
work and returns; the main thread sends the question to the PCT (:mod:`pct.pmix_server.questions`)
and, when the answer has come, calls the library's callback (:mod:`pct.pmix_server.callbacks`).
"""

from __future__ import annotations

import os
import sys
from ctypes import string_at

from pct.pmix_server.callbacks import Callbacks, status_to
from pct.pmix_server.keys import FIRST_READ, GROUP_CONSTRUCT, Code
from pct.pmix_server.library import (
    Library,
    LookupDone,
    ModexResponse,
    SpawnDone,
    ToolDone,
)
from pct.pmix_server.memory import (
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
    by_whom,
    group_infos,
    group_share,
    published,
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
    SpawnPrograms,
    Table,
    UnpublishNames,
)
from pct.pmix_server.questions import Questions
from pct.pmix_server.spawn import spawn_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pct.pmix_server.keys import Node
    from pct.pmix_server.memory import Value


class Upcalls:
    """What the library may ask of its host.

    Attributes:
        questions: what is open between the library and the PCT.
        first_rank: rank of the job of the first local rank: tells servers apart.
    """

    def __init__(self, library: Library, send: Callable[[Record], None], node: Node) -> None:
        self.questions = Questions()
        self.first_rank = 0
        self._library = library
        self._send = send
        self._node = node
        self._callbacks = Callbacks()
        self._published: dict[NamedProcess, list[bytes]] = {}
        self._group_count = 0
        self._tool_count = 0
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

    def request_modex(self, serial: int, process: NamedProcess) -> None:
        """Ask the library for what a local rank has put; it answers when the rank has."""
        rc = self._library.request_modex(process, self._response, serial)
        if rc != Code.SUCCESS:
            self._send(ModexData(serial, rc, b""))

    # -- upcalls: on the library's thread ---------------------------------

    def _is_rank(self, process: NamedProcess) -> bool:
        """A tool's process is no rank: it may query and nothing else."""
        return process.nspace in self._node.worlds

    def _client_connected(self, process: int, *rest: object) -> int:
        who = process_at(process)

        def carry_out() -> None:
            if self._is_rank(who):
                self._node.connected.add(who)
                self._send(Joined(who))

        self.questions.queue(carry_out)
        return Code.OPERATION_SUCCEEDED

    def _client_finalized(self, process: int, *rest: object) -> int:
        who = process_at(process)

        def carry_out() -> None:
            if self._is_rank(who):
                self._node.connected.discard(who)
                self._send(Left(who))

        self.questions.queue(carry_out)
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
        """The client, which ends when it is answered, waits for the PCT's answer."""
        who = process_at(process)
        said = short_text((text or b"").decode(errors="replace"))
        if not self._is_rank(who):
            return Code.NOT_SUPPORTED
        answer = status_to(done, token)
        return self.questions.queue(
            lambda: self._send(AbortJob(self.questions.ask(answer), who, status, said))
        )

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
            self._callbacks.give_data(done, message.status, message.data, token)

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
        return self._enter(CONNECT, processes_at(processes, count), b"", status_to(done, token))

    def _disconnect(
        self,
        processes: int,
        count: int,
        _infos: int | None,
        _info_count: int,
        done: int,
        token: int | None,
    ) -> int:
        return self._enter(DISCONNECT, processes_at(processes, count), b"", status_to(done, token))

    def _enter(
        self,
        kind: str,
        processes: tuple[NamedProcess, ...],
        data: bytes,
        answer: Callable[[FenceDone], None],
    ) -> int:
        ascending = tuple(sorted(processes, key=lambda one: (one.nspace, one.rank)))
        return self.questions.queue(
            lambda: self._send(Enter(self.questions.ask(answer), kind, ascending, data))
        )

    def _direct_modex(
        self, process: int, _infos: int | None, _count: int, done: int, token: int | None
    ) -> int:
        who = process_at(process)

        def answer(message: Answer) -> None:
            data = message.pairs[0].value if message.pairs else b""
            self._callbacks.give_data(done, message.status, data, token)

        return self.questions.queue(lambda: self._send(GetRemote(self.questions.ask(answer), who)))

    def _modex_response(self, status: int, data: int | None, size: int, token: int | None) -> None:
        message = ModexData(token or 0, status, string_at(data, size) if data else b"")
        self.questions.queue(lambda: self._send(message))

    def _publish(
        self, process: int, infos: int | None, count: int, done: int, token: int | None
    ) -> int:
        who = process_at(process)
        directives, pairs = by_whom(infos_at(infos, count))
        if any(value.data is None for _, value in pairs):
            return Code.NOT_SUPPORTED
        values = tuple(
            KeyValue(key, published(who, value.type, value.data or b"")) for key, value in pairs
        )
        is_read_once = _number(directives, b"pmix.persist", 0) == FIRST_READ

        def carry_out() -> None:
            self._published.setdefault(who, []).extend(pair.key for pair in values)
            serial = self.questions.ask(status_to(done, token))
            self._send(PublishNames(serial, who, values, is_read_once))

        return self.questions.queue(carry_out)

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
            self._callbacks.keep_lately(memory)
            LookupDone(done)(status, *memory.pdata(found), token)

        return self.questions.queue(
            lambda: self._send(
                LookupNames(
                    self.questions.ask(answer, timeout_s), wanted, b"pmix.wait" in directives
                )
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
            serial = self.questions.ask(status_to(done, token))
            self._send(UnpublishNames(serial, named or tuple(all_keys)))

        return self.questions.queue(carry_out)

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
            spawn_command(application, of_all)
            for application in applications_at(applications, count)
        )

        def answer(message: Answer) -> None:
            SpawnDone(done)(message.status, message.nspace.encode(), token)

        return self.questions.queue(
            lambda: self._send(SpawnPrograms(self.questions.ask(answer), who, commands))
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
        """Agree to clean-up orders, which the library carries out itself; refuse all others."""
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
            self._callbacks.give_infos(done, status, infos, token)

        def carry_out() -> None:
            if nspaces := request.tables_of(self._node):
                self._send(GetTable(self.questions.ask(answer), nspaces))
            else:
                answer(Table(0, ()))

        return self.questions.queue(carry_out)

    def _tool_connected(
        self, _infos: int | None, _count: int, done: int, token: int | None
    ) -> None:
        """Give a tool of the job's user a namespace of its own; do not answer any other tool."""
        self.questions.queue(lambda: self._look_at_tool(done, token, 0))

    def _look_at_tool(self, done: int, token: int | None, tries: int) -> None:
        from pct.pmix_server import tools  # few jobs are visited by tools

        try:
            if (user := tools.stranger(os.getuid())) is not None:
                self._refuse_tool(f"there is a connection of user {user}")
                return
        except tools.Doubtful:
            if tries < tools.RETRIES_MAX:
                self.questions.ask(
                    lambda _: self._look_at_tool(done, token, tries + 1), tools.RETRY_S
                )
            else:
                self._refuse_tool("nobody knows whose a connection is")
            return
        self._tool_count += 1
        name = NamedProcess(f"{self._node.server}_tool{self._tool_count}", 0)
        memory = Memory()
        self._callbacks.keep_lately(memory)
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
        """Construct a group: give it the number that its first node proposes.

        Its members meet as for a connect; they must construct their groups in one order.
        """
        if operation != GROUP_CONSTRUCT:
            return Code.OPERATION_SUCCEEDED
        members = processes_at(processes, count)
        self._group_count += 1
        share = group_share(self.first_rank + 1 << 32 | self._group_count, name)

        def answer(message: FenceDone) -> None:
            status, infos = group_infos(name, members, message)
            self._callbacks.give_infos(done, status, infos, token)

        return self._enter(CONNECT, members, share, answer)


def _number(infos: dict[bytes, Value], key: bytes, default: int) -> int:
    return infos[key].number(default) if key in infos else default
