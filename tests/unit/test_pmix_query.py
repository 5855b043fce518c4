"""What a PMIx server answers to queries; no library is needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from pct.pmix_server.keys import Code, Info, Node, ProcessInfo, ProcessState, ProcessTable, Type
from pct.pmix_server.memory import Memory, Value, queries_at
from pct.pmix_server.plain import AddWorld, NamedProcess, TableRow
from pct.pmix_server.query import KEYS, KEYS_MAX, LOCAL_PROC_TABLE, NAMESPACES, PROC_TABLE, Request

MEMORY = Memory()


def text(value: bytes) -> Value:
    """A string, as one comes from the library."""
    return Value(Type.STRING, struct.pack("=Q16x", MEMORY.copy(value)))


def flag(value: int) -> Value:
    return Value(Type.BOOL, bytes([value]) + bytes(23))


ONE = {b"pmix.nspace": text(b"one")}
TWO = {b"pmix.nspace": text(b"two")}


def world(nspace: str, node_of: tuple[int, ...]) -> AddWorld:
    """A world of which node 0 is this one."""
    local = tuple(rank for rank, node in enumerate(node_of) if node == 0)
    nodes = ("here", "there")
    return AddWorld(0, nspace, "7", nodes, node_of, (0,) * len(node_of), local, 8, 0, None)


@pytest.fixture
def node() -> Node:
    """It has all ranks of one world, and rank 1 of another."""
    made = Node("here")
    made.worlds = {"one": world("one", (0, 0)), "two": world("two", (1, 0))}
    return made


def rows(*processes: tuple[str, int, int]) -> tuple[TableRow, ...]:
    return tuple(TableRow(NamedProcess(nspace, rank), n, b"a.out") for nspace, rank, n in processes)


ROWS = rows(("one", 0, 40), ("one", 1, 41), ("two", 1, 42))


def asked(*keys: bytes, given: Mapping[bytes, Value] | None = None) -> Request:
    return Request([(keys, given or {})])


def table_of(info: Info) -> list[tuple[str, int, int]]:
    assert isinstance(info.value, ProcessTable)
    return [(one.process.nspace, one.process.rank, one.unix_pid) for one in info.value.processes]


def test_a_node_that_has_all_of_a_world_answers_the_table_of_all(node: Node):
    for key in (PROC_TABLE, LOCAL_PROC_TABLE):
        request = asked(key, given=ONE)
        assert request.tables_of(node) == ("one",)
        status, (info,) = request.answer(node, ROWS)
        assert (status, info.key, info.type) == (Code.SUCCESS, key, Type.DATA_ARRAY)
        assert table_of(info) == [("one", 0, 40), ("one", 1, 41)]


def test_a_node_that_has_some_of_a_world_answers_the_local_table_alone(node: Node):
    request = asked(PROC_TABLE, given=TWO)
    assert request.tables_of(node) == ()
    assert request.answer(node, ()) == (Code.NOT_SUPPORTED, ())
    for given, key in ((TWO, LOCAL_PROC_TABLE), (TWO | {b"pmix.qry.local": flag(1)}, PROC_TABLE)):
        status, (info,) = asked(key, given=given).answer(node, ROWS)
        assert status == Code.SUCCESS
        assert table_of(info) == [("two", 1, 42)]
    everywhere = TWO | {b"pmix.qry.local": flag(0)}
    assert asked(PROC_TABLE, given=everywhere).answer(node, ()) == (Code.NOT_SUPPORTED, ())


def test_a_table_of_another_node_is_not_supported(node: Node):
    here, there = (ONE | {b"pmix.hname": text(name)} for name in (b"here", b"there"))
    assert asked(LOCAL_PROC_TABLE, given=there).answer(node, ()) == (Code.NOT_SUPPORTED, ())
    assert asked(LOCAL_PROC_TABLE, given=here).answer(node, ROWS)[0] == Code.SUCCESS


def test_a_table_of_no_world_is_that_of_the_only_one(node: Node):
    assert asked(PROC_TABLE).answer(node, ()) == (Code.NOT_FOUND, ())
    del node.worlds["two"]
    request = asked(PROC_TABLE)
    assert request.tables_of(node) == ("one",)
    assert len(table_of(request.answer(node, ROWS)[1][0])) == 2


def test_a_process_is_as_far_as_its_rank_is(node: Node):
    first, second = NamedProcess("one", 0), NamedProcess("one", 1)

    def states(*found: TableRow) -> list[tuple[int, int]]:
        _, (info,) = asked(PROC_TABLE, given=ONE).answer(node, found)
        assert isinstance(info.value, ProcessTable)
        return [(one.state, one.exit_code) for one in info.value.processes]

    early = rows(("one", 0, 40), ("one", 1, 0))
    assert states(*early) == [(ProcessState.RUNNING, 0), (ProcessState.LAUNCH_UNDERWAY, 0)]
    node.connected = {first, second}
    assert states(*ROWS[:2]) == [(ProcessState.CONNECTED, 0)] * 2
    node.ended = {first: 0, second: 7 << 8}
    assert states(*ROWS[:2]) == [(ProcessState.TERMINATED, 0), (ProcessState.TERM_NON_ZERO, 7)]
    node.ended = {first: 9}
    assert states(*ROWS[:2]) == [(ProcessState.ABORTED_BY_SIG, -9), (ProcessState.CONNECTED, 0)]


def test_worlds_are_named_with_commas(node: Node):
    status, infos = asked(NAMESPACES).answer(node, ())
    assert (status, infos) == (Code.SUCCESS, (Info(NAMESPACES, Type.STRING, b"one,two"),))


def test_every_key_that_is_said_to_be_known_is_answered(node: Node):
    request = asked(*KEYS, given=ONE)
    assert not request.fault
    status, infos = request.answer(node, ROWS)
    assert status == Code.SUCCESS
    assert [info.key for info in infos] == list(KEYS)
    assert infos[-1].value == b",".join(KEYS)
    assert Memory().infos(infos)[1] == len(KEYS)


def test_what_is_known_is_answered_beside_what_is_not(node: Node):
    request = Request([((b"no.such", NAMESPACES), {}), ((PROC_TABLE,), TWO)])
    assert not request.fault
    status, infos = request.answer(node, ())
    assert status == Code.PARTIAL_SUCCESS
    assert [info.key for info in infos] == [NAMESPACES]


@pytest.mark.parametrize("keys", [(), (b"no.such",), (b"", b"pmix.job.size")])
def test_a_request_of_which_nothing_is_known_is_refused_at_once(keys: tuple[bytes, ...]):
    assert asked(*keys).fault == Code.NOT_FOUND


def test_the_same_question_is_answered_once(node: Node):
    request = Request(
        [((PROC_TABLE,) * 300, ONE), ((PROC_TABLE,) * 300, ONE), ((NAMESPACES,), ONE)]
    )
    status, infos = request.answer(node, ROWS)
    assert status == Code.SUCCESS
    assert [info.key for info in infos] == [PROC_TABLE, NAMESPACES]
    assert asked(*[PROC_TABLE] * KEYS_MAX).fault == Code.SUCCESS
    assert asked(*[PROC_TABLE] * (KEYS_MAX + 1)).fault == Code.OUT_OF_RESOURCE


def test_queries_are_copied_as_the_library_lays_them_out():
    keys = MEMORY.copy(struct.pack("=QQQ", MEMORY.copy(b"a"), MEMORY.copy(b"b"), 0))
    address, count = MEMORY.infos([Info(b"pmix.nspace", Type.STRING, b"one")])
    array = MEMORY.copy(struct.pack("=QQQQQQ", keys, address or 0, count, 0, 0, 0))
    (first, given), second = queries_at(array, 2)
    assert first == (b"a", b"b")
    assert given[b"pmix.nspace"].data == b"one"
    assert second == ((), {})
    assert queries_at(None, 0) == []


def test_a_world_without_ranks_here_has_an_empty_table(node: Node):
    node.worlds["two"] = world("two", (1, 1))
    status, (info,) = asked(LOCAL_PROC_TABLE, given=TWO).answer(node, ())
    assert (status, info.value) == (Code.SUCCESS, ProcessTable(()))


def test_a_process_has_its_host_and_program(node: Node):
    _, (info,) = asked(PROC_TABLE, given=ONE).answer(node, ROWS)
    running = ProcessState.RUNNING
    assert info.value == ProcessTable(
        tuple(
            ProcessInfo(NamedProcess("one", rank), b"here", b"a.out", 40 + rank, 0, running)
            for rank in (0, 1)
        )
    )
