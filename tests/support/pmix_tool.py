"""A tool of PMIx: ``pmix_tool.py LIBPMIX URI WORD USER``; it prints what it is told."""

from __future__ import annotations

import os
import struct
import sys
from ctypes import CDLL, addressof, byref, c_size_t, c_void_p, create_string_buffer, string_at
from typing import Any

from pct.pmix_server.keys import Info, Type
from pct.pmix_server.memory import APP_BYTES, Memory, process_at

INFO_BYTES = 552


def query(library: Any, memory: Memory) -> None:
    """Which worlds there are, and which processes: of tables the size alone."""
    keys = struct.pack("=QQQ", memory.copy(b"pmix.qry.ns"), memory.copy(b"pmix.qry.lptable"), 0)
    array = memory.copy(struct.pack("=QQQ", memory.copy(keys), 0, 0))
    found, count = c_void_p(), c_size_t()
    status = library.PMIx_Query_info(c_void_p(array), c_size_t(1), byref(found), byref(count))
    print("query", status)
    for i in range(count.value):
        info = string_at((found.value or 0) + INFO_BYTES * i, INFO_BYTES)
        address = int.from_bytes(info[528:536], "little")
        if int.from_bytes(info[520:522], "little") == Type.STRING:
            print("worlds", string_at(address).decode())
        else:
            print("processes", int.from_bytes(string_at(address + 8, 8), "little"))


def meddle(library: Any, memory: Memory) -> None:
    """Ask for what is a rank's to ask for."""
    argv = memory.copy(struct.pack("=QQ", memory.copy(b"/bin/true"), 0))
    fields = memory.copy(b"/bin/true"), argv, 0, 0, 1, 0, 0
    application = memory.copy(struct.pack("=QQQQi4xQQ", *fields))
    assert len(string_at(application, APP_BYTES)) == APP_BYTES
    nspace = create_string_buffer(256)
    spawned = library.PMIx_Spawn(None, c_size_t(0), c_void_p(application), c_size_t(1), nspace)
    print("spawn", spawned)
    print("abort", library.PMIx_Abort(7, b"no more", None, c_size_t(0)))


def crash(_library: Any, _memory: Memory) -> None:
    sys.stdout.flush()
    os._exit(3)


def main() -> None:
    library: Any = CDLL(sys.argv[1])
    memory = Memory()
    myself = create_string_buffer(260)
    if (user := int(sys.argv[4])) != os.getuid():  # only now: it may not read what is above
        os.setgroups(())
        os.setresuid(user, user, user)
    address, count = memory.infos([Info(b"pmix.srvr.uri", Type.STRING, os.fsencode(sys.argv[2]))])
    status = library.PMIx_tool_init(myself, c_void_p(address), c_size_t(count))
    print("init", status, process_at(addressof(myself)).nspace if status == 0 else "")
    if status == 0:
        {"query": query, "meddle": meddle, "crash": crash}[sys.argv[3]](library, memory)
        print("finalize", library.PMIx_tool_finalize())


if __name__ == "__main__":
    main()
