"""What libpmix asks of its host is answered by the PCT alone."""

from __future__ import annotations

from ctypes import c_void_p, cast, create_string_buffer

from pct.pmix_server.keys import Node
from pct.pmix_server.library import OpDone
from pct.pmix_server.memory import process_bytes
from pct.pmix_server.plain import AbortJob, Answer, NamedProcess, Record
from pct.pmix_server.upcalls import Upcalls

RANK = NamedProcess("yod_7_ab", 1)


def test_a_client_that_aborts_waits_for_the_pcts_answer():
    sent: list[Record] = []
    told: list[tuple[int, int]] = []
    node = Node("n20")
    node.worlds[RANK.nspace] = None  # it is known
    upcalls = Upcalls(None, sent.append, node)
    done = OpDone(lambda status, token: told.append((status, token)))
    name = create_string_buffer(process_bytes(RANK))
    address = cast(name, c_void_p).value
    callback = cast(done, c_void_p).value
    abort = upcalls.table()["abort"]
    assert abort(address, None, 7, b"no more", None, 0, callback, 99) == 0
    upcalls.questions.run()
    assert (sent, told) == ([AbortJob(1, RANK, 7, "no more")], [])
    upcalls.questions.answer(Answer(1, 0, ()))
    assert told == [(0, 99)]
