"""The answers of a PMIx server to queries about worlds and processes.

A query is a list of keys with qualifiers. Each key that can be answered becomes one info; a
repeated question is answered once. Each node knows only its own processes, so the table of a
world is answered only by a node on which all of its ranks are.

libpmix names itself as the client that asks. So a query for a table that names no world means
the job's only world.
"""

from __future__ import annotations

from pct.pmix_server.keys import Code, Info, ProcessInfo, ProcessState, ProcessTable, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pct.pmix_server.keys import Node
    from pct.pmix_server.memory import Value
    from pct.pmix_server.plain import TableRow

QUERIES_MAX = 1024  # in one request; libpmix makes a query of each key
KEYS_MAX = 1024  # in one request
PROC_TABLE = b"pmix.qry.ptable"
LOCAL_PROC_TABLE = b"pmix.qry.lptable"
NAMESPACES = b"pmix.qry.ns"
SUPPORTED_KEYS = b"pmix.qry.keys"
# Answered by what never changes. There are no process sets but those that MPI has built in.
CONSTANTS = {
    info.key: info
    for info in (
        Info(b"pmix.qry.spawn", Type.STRING, b"pmix.host,pmix.wdir,pmix.envar.set,pmix.envar.add"),
        Info(b"pmix.qry.debug", Type.STRING, b""),
        Info(b"pmix.qry.psetnum", Type.SIZE, 0),
        Info(b"pmix.qry.psets", Type.STRING, b""),
    )
}
TABLES = (PROC_TABLE, LOCAL_PROC_TABLE)
KEYS = (NAMESPACES, *TABLES, *CONSTANTS, SUPPORTED_KEYS)


class Question:
    """One key with its qualifiers."""

    def __init__(self, key: bytes, qualifiers: Mapping[bytes, Value]) -> None:
        self.key = key
        self._nspace = _text(qualifiers, b"pmix.nspace")
        self.host = _text(qualifiers, b"pmix.hname")
        self.is_local = key == LOCAL_PROC_TABLE or (
            b"pmix.qry.local" in qualifiers and qualifiers[b"pmix.qry.local"].number(1) != 0
        )

    @property
    def identity(self) -> tuple[bytes, str, str, bool]:
        """Questions with the same identity are one question."""
        if self.key in TABLES:
            return self.key, self._nspace, self.host, self.is_local
        return self.key, "", "", False

    def nspace(self, node: Node) -> str:
        """The namespace that the question is about; empty: unknown."""
        if not self._nspace and len(node.worlds) == 1:
            return next(iter(node.worlds))
        return self._nspace

    def fault(self, node: Node) -> int:
        """The code of a question that cannot be answered; else SUCCESS."""
        if self.key not in KEYS:
            return Code.NOT_FOUND
        if self.key not in TABLES:
            return Code.SUCCESS
        if (world := node.worlds.get(self.nspace(node))) is None:
            return Code.NOT_FOUND
        has_all = self.is_local or len(world.local_ranks) == len(world.node_of)
        if not has_all or self.host not in ("", node.host):
            return Code.NOT_SUPPORTED
        return Code.SUCCESS


class Request:
    """The queries of one call of a client.

    Args:
        queries: keys and qualifiers of each.

    Attributes:
        fault: the code of a request that is refused as a whole; else SUCCESS.
    """

    def __init__(self, queries: Sequence[tuple[Sequence[bytes], Mapping[bytes, Value]]]) -> None:
        asked = [Question(key, given) for keys, given in queries for key in keys]
        self._questions = list({one.identity: one for one in asked}.values())
        self.fault = Code.SUCCESS
        if len(asked) > KEYS_MAX:
            self.fault = Code.OUT_OF_RESOURCE
        elif not any(one.key in KEYS for one in asked):
            self.fault = Code.NOT_FOUND

    def tables_of(self, node: Node) -> tuple[str, ...]:
        """The namespaces whose processes the answer needs."""
        names = [
            one.nspace(node) for one in self._questions if one.key in TABLES and not one.fault(node)
        ]
        return tuple(dict.fromkeys(names))

    def answer(self, node: Node, rows: Sequence[TableRow]) -> tuple[int, tuple[Info, ...]]:
        """The status and the answers.

        Args:
            rows: the processes of this node, of the worlds that :meth:`tables_of` names.
        """
        faults = [one.fault(node) for one in self._questions]
        infos = tuple(
            _info(one, node, rows)
            for one, fault in zip(self._questions, faults, strict=True)
            if not fault
        )
        if not any(faults):
            return Code.SUCCESS, infos
        return Code.PARTIAL_SUCCESS if infos else min(faults), infos


def _info(question: Question, node: Node, rows: Sequence[TableRow]) -> Info:
    key = question.key
    if key in TABLES:
        nspace = question.nspace(node)
        processes = tuple(_process(row, node) for row in rows if row.process.nspace == nspace)
        return Info(key, Type.DATA_ARRAY, ProcessTable(processes))
    if key == NAMESPACES:
        return Info(key, Type.STRING, ",".join(node.worlds).encode())
    if key == SUPPORTED_KEYS:
        return Info(key, Type.STRING, b",".join(KEYS))
    return CONSTANTS[key]


def _process(row: TableRow, node: Node) -> ProcessInfo:
    process = row.process
    wait_status = node.ended.get(process)
    exit_code = 0
    if wait_status is not None:
        exit_code = -(wait_status & 0x7F) or wait_status >> 8 & 0xFF
        state = ProcessState.TERMINATED
        if exit_code:
            state = ProcessState.ABORTED_BY_SIG if exit_code < 0 else ProcessState.TERM_NON_ZERO
    elif process in node.connected:
        state = ProcessState.CONNECTED
    else:
        state = ProcessState.RUNNING if row.unix_pid else ProcessState.LAUNCH_UNDERWAY
    host = node.host.encode()
    return ProcessInfo(process, host, row.program, row.unix_pid, exit_code, state)


def _text(qualifiers: Mapping[bytes, Value], key: bytes) -> str:
    """A qualifier's string; empty: there is no such qualifier."""
    value = qualifiers.get(key)
    if value is None or value.type != Type.STRING:
        return ""
    return (value.data or b"").decode(errors="replace")
