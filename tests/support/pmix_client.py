"""A PMIx client without MPI: ``pmix_client.py LIBPMIX WORD``; it prints what it sees."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    addressof,
    byref,
    c_char,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_void_p,
    create_string_buffer,
    string_at,
)
from pathlib import Path
from typing import Any

from pct.pmix_server.keys import Code, Info, Type
from pct.pmix_server.memory import Memory, infos_at, process_at, process_bytes
from pct.pmix_server.plain import NamedProcess

LARGE_BYTES = 300_000
TOOL = str(Path(__file__).with_name("pmix_tool.py"))
GLOBAL = 3  # PMIX_GLOBAL
NO_ACTION_TAKEN = -331

Handler = CFUNCTYPE(
    None,
    c_size_t,
    c_int,
    c_void_p,
    c_void_p,
    c_size_t,
    c_void_p,
    c_size_t,
    c_void_p,
    c_void_p,
)
HandlerDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)

library: Any = CDLL(sys.argv[1])
memory = Memory()
myself = create_string_buffer(260)
seen = threading.Event()


def checked(status: int) -> None:
    assert status in (Code.SUCCESS, Code.OPERATION_SUCCEEDED), status


def infos(*given: Info) -> tuple[Any, Any]:
    address, count = memory.infos(given)
    return c_void_p(address), c_size_t(count)


def fence(*given: Info) -> int:
    return int(library.PMIx_Fence(None, c_size_t(0), *infos(*given)))


def on_event(
    _handler: int,
    status: int,
    _source: int,
    given: int,
    count: int,
    _results: int,
    _result_count: int,
    done: int,
    token: int,
) -> None:
    known = dict(infos_at(given, count))
    code = known[b"pmix.exit.code"].number(0) if b"pmix.exit.code" in known else None
    print("event", status, "exit code", code, flush=True)
    seen.set()
    HandlerDone(done)(NO_ACTION_TAKEN, None, 0, None, None, token)


def by_default(*arguments: int) -> None:
    print("default handler", flush=True)
    HandlerDone(arguments[7])(NO_ACTION_TAKEN, None, 0, None, None, arguments[8])


handlers = {function: Handler(function) for function in (on_event, by_default)}


def listen(function: Callable[..., None], *codes: int) -> None:
    """Have a function called for these codes; none: as a default handler."""
    array = (c_int * len(codes))(*codes) if codes else None
    number = library.PMIx_Register_event_handler(
        array, len(codes), None, 0, handlers[function], None, None
    )
    assert number >= 0, number


def die_last(me: NamedProcess) -> None:
    if me.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def death(me: NamedProcess) -> None:
    """A default handler would be called behind the one that asks for the code."""
    listen(on_event, Code.PROC_ABORTED)
    listen(by_default)
    checked(fence())
    die_last(me)
    assert seen.wait(120)


def large_data(rank: int) -> bytes:
    return random.Random(rank).randbytes(LARGE_BYTES)


def large(me: NamedProcess) -> None:
    """Everybody's data in a fence, and what has come of the other's."""
    data = large_data(me.rank)
    value = struct.pack("=H6xQQ8x", Type.BYTE_OBJECT, memory.copy(data), len(data))
    checked(library.PMIx_Put(GLOBAL, b"large", value))
    checked(library.PMIx_Commit())
    checked(fence(Info(b"pmix.collect", Type.BOOL, 1)))
    other = NamedProcess(me.nspace, 1 - me.rank)
    found = c_void_p()
    checked(library.PMIx_Get(process_bytes(other), b"large", None, c_size_t(0), byref(found)))
    address, size = struct.unpack("=8xQQ8x", string_at(found.value or 0, 32))
    print("large", string_at(address, size) == large_data(other.rank))


def look(*keys: bytes) -> None:
    """Print status, and of each key publisher, type and value."""
    empty = [(key, NamedProcess("", 0), Type.UNDEF, bytes(24)) for key in keys]
    address, count = memory.pdata(empty)
    status = library.PMIx_Lookup(c_void_p(address), c_size_t(count), None, c_size_t(0))
    print("lookup", status)
    for i in range(count if status == Code.SUCCESS else 0):
        at = (address or 0) + 808 * i
        key, value = string_at(at + 260, 512).partition(b"\0")[0], string_at(at + 776, 32)
        kind = int.from_bytes(value[:2], "little")
        data = value[8:]
        if kind == Type.STRING:
            data = string_at(int.from_bytes(data[:8], "little"))
        elif kind == Type.BYTE_OBJECT:
            size = int.from_bytes(data[8:16], "little")
            data = string_at(int.from_bytes(data[:8], "little"), size)
        else:
            data = str(int.from_bytes(data[:4], "little")).encode()
        print(key.decode(), "by", process_at(at).rank, "type", kind, data)


def names(me: NamedProcess) -> None:
    """Rank 1 publishes, rank 0 looks."""
    if me.rank == 1:
        published = infos(
            Info(b"text", Type.STRING, b"some words"),
            Info(b"number", Type.UINT32, 70_000),
            Info(b"object", Type.BYTE_OBJECT, b"a\0b"),
        )
        checked(library.PMIx_Publish(*published))
        once = infos(Info(b"once", Type.STRING, b"one"), Info(b"pmix.persist", Type.PERSIST, 1))
        checked(library.PMIx_Publish(*once))
        strange = infos(Info(b"strange", Type.DATA_ARRAY, (Info(b"x", Type.BOOL, 1),)))
        print("strange", library.PMIx_Publish(*strange))
    checked(fence())
    if me.rank == 0:
        look(b"text", b"number", b"object")
        look(b"once")
        look(b"once")
    checked(fence())
    if me.rank == 1:
        checked(library.PMIx_Unpublish(None, None, c_size_t(0)))
    checked(fence())
    if me.rank == 0:
        look(b"text")
        pdata = memory.pdata([(b"late", NamedProcess("", 0), Type.UNDEF, bytes(24))])
        patient = infos(Info(b"pmix.wait", Type.INT, 0), Info(b"pmix.timeout", Type.INT, 1))
        status = library.PMIx_Lookup(c_void_p(pdata[0]), c_size_t(1), *patient)
        print("waited", status)


def control(me: NamedProcess) -> None:
    """The server does clean-up orders, and no others."""
    orders = infos(Info(b"pmix.reg.cleanup", Type.STRING, b"/nowhere/at-all"))
    print("clean-up", library.PMIx_Job_control(None, c_size_t(0), *orders, None, None))
    orders = infos(Info(b"pmix.jctrl.kill", Type.BOOL, 1))
    print("kill", library.PMIx_Job_control(None, c_size_t(0), *orders, None, None))


def keys(me: NamedProcess) -> None:
    """What is known of a rank."""
    everybody = NamedProcess(me.nspace, -1)
    wanted = (
        (everybody, b"pmix.job.size"),
        (everybody, b"pmix.univ.size"),
        (everybody, b"pmix.num.nodes"),
        (everybody, b"pmix.local.size"),
        (me, b"pmix.lrank"),
        (me, b"pmix.appnum"),
        (me, b"pmix.nodeid"),
    )
    for process, key in wanted:
        found = c_void_p()
        status = library.PMIx_Get(process_bytes(process), key, None, c_size_t(0), byref(found))
        checked(status)
        number = int.from_bytes(string_at((found.value or 0) + 8, 4), "little")
        kind = int.from_bytes(string_at(found.value or 0, 2), "little")
        print(key.decode(), number & 0xFFFF if kind == Type.UINT16 else number)


class ProcessInfo(Structure):
    """pmix_proc_info_t."""

    _fields_ = (
        ("nspace", c_char * 256),
        ("rank", c_uint32),
        ("host", c_char_p),
        ("program", c_char_p),
        ("unix_pid", c_int),
        ("exit_code", c_int),
        ("state", c_ubyte),
    )


def query(*queries: tuple[Sequence[bytes], tuple[Info, ...]]) -> None:
    """Print status, each key with its value, and each process of a table."""
    data = b""
    for wanted, qualifiers in queries:
        array = b"".join(struct.pack("=Q", memory.copy(key)) for key in wanted)
        address, count = memory.infos(qualifiers)
        data += struct.pack("=QQQ", memory.copy(array + bytes(8)), address or 0, count)
    found, found_count = c_void_p(), c_size_t()
    array_of_queries = c_void_p(memory.copy(data))
    status = library.PMIx_Query_info(
        array_of_queries, c_size_t(len(queries)), byref(found), byref(found_count)
    )
    print("query", status)
    for i in range(found_count.value):
        data = string_at((found.value or 0) + 552 * i, 552)
        key, kind = data[:512].partition(b"\0")[0].decode(), int.from_bytes(data[520:522], "little")
        number = int.from_bytes(data[528:536], "little")
        if kind == Type.STRING:
            print(key, string_at(number).decode())
        elif kind == Type.DATA_ARRAY:
            kind, size, address = struct.unpack("=H6xQQ", string_at(number, 24))
            assert kind == Type.PROC_INFO
            print(key, size)
            for one in (ProcessInfo * size).from_address(address):
                print_process(one)
        else:
            print(key, number)


def print_process(one: ProcessInfo) -> None:
    names = one.nspace.decode(), one.host.decode(), one.program.decode()
    print("process", *names, one.rank, one.unix_pid, one.exit_code, one.state)


TABLE, LOCAL_TABLE = b"pmix.qry.ptable", b"pmix.qry.lptable"
ONLY_HERE = Info(b"pmix.qry.local", Type.BOOL, 1)


def of_world(nspace: str, *others: Info) -> tuple[Info, ...]:
    return Info(b"pmix.nspace", Type.STRING, nspace.encode()), *others


def processes(me: NamedProcess) -> None:
    """Which there are."""
    checked(fence())
    print("I am", os.getpid())
    query(((LOCAL_TABLE,), of_world(me.nspace)))
    query(((TABLE,), of_world(me.nspace)))
    query(((TABLE,), of_world(me.nspace, ONLY_HERE)))
    query(((LOCAL_TABLE,), ()))
    checked(fence())


def worlds(me: NamedProcess) -> None:
    """What is known beside the processes."""
    query(((b"pmix.qry.ns", b"pmix.qry.psetnum"), ()), ((b"pmix.qry.psets",), ()))
    query(((b"pmix.qry.spawn", b"pmix.qry.debug", b"pmix.qry.keys"), ()))


def unknown(me: NamedProcess) -> None:
    """Keys that the server does not know, alone and beside one that it does."""
    query(((b"no.such.key",), ()))
    query(((b"no.such.key", b"pmix.qry.qlst", b""), ()))
    query(((b"no.such.key", b"pmix.qry.ns"), ()))
    query(((LOCAL_TABLE,), of_world("nowhere")))
    query(((LOCAL_TABLE,), of_world(me.nspace, Info(b"pmix.hname", Type.STRING, b"another"))))
    query(((LOCAL_TABLE, b"pmix.qry.ns"), of_world("\xff" * 60)))


def huge(me: NamedProcess) -> None:
    """More than anybody needs to ask, and something sensible thereafter."""
    query(*[((b"no.such.key.%d" % i,), ()) for i in range(20_000)])
    query(([LOCAL_TABLE] * 20_000, ()))
    query(([LOCAL_TABLE] * 1000, of_world(me.nspace)))
    query(((b"k" * 511, b"pmix.qry.ns"), of_world("x" * 255)))
    query(((b"pmix.qry.ns",), ()))


def resolve(me: NamedProcess) -> None:
    """What the library asks its host before it looks itself."""
    found, count = c_void_p(), c_size_t()
    status = library.PMIx_Resolve_peers(None, me.nspace.encode(), byref(found), byref(count))
    print("peers", status, count.value)
    nodes = c_char_p()
    print("nodes", library.PMIx_Resolve_nodes(me.nspace.encode(), byref(nodes)), nodes.value)


def mourn(me: NamedProcess) -> None:
    """Ask for a process that has been killed."""
    listen(on_event, Code.PROC_ABORTED)
    checked(fence())
    die_last(me)
    assert seen.wait(120)
    query(((LOCAL_TABLE,), ()))


def visited(me: NamedProcess) -> None:
    """Rank 0 starts tools, one after the other, while both ranks are up.

    Each further argument is one: its library, its word, its user, what to preload.
    """
    checked(fence())
    directory = Path(os.environ["PMIX_SERVER_TMPDIR"])
    addresses = {path.read_text().splitlines()[0] for path in directory.glob("pmix.*.tool.*")}
    (uri,) = addresses
    for tool in sys.argv[3:] if me.rank == 0 else ():
        its_library, word, user, preload = tool.split(",")
        subprocess.run(
            [sys.executable, "-u", TOOL, its_library, uri, word, user],
            env={"PYTHONPATH": os.environ["PYTHONPATH"], "LD_PRELOAD": preload, "HOME": "/"},
            stderr=subprocess.STDOUT,
        )
    checked(fence())


def abort(me: NamedProcess) -> None:
    if me.rank == 1:
        checked(library.PMIx_Abort(7, b"no more", None, c_size_t(0)))
        os._exit(7)
    signal.pause()


def up(me: NamedProcess) -> None:
    signal.pause()


def life(me: NamedProcess) -> None:
    checked(fence())


def main() -> None:
    library.PMIx_Register_event_handler.argtypes = (
        c_void_p,
        c_size_t,
        c_void_p,
        c_size_t,
        Handler,
        c_void_p,
        c_void_p,
    )
    library.PMIx_Unpublish.argtypes = (POINTER(c_char_p), c_void_p, c_size_t)
    checked(library.PMIx_Init(myself, None, c_size_t(0)))
    me = process_at(addressof(myself))
    globals()[sys.argv[2]](me)
    print("finalize", library.PMIx_Finalize(None, c_size_t(0)))


if __name__ == "__main__":
    main()
