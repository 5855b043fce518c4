"""Python programs over native.portals under yod."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.warm

RING = "ring of {0}: the token came back as {1}, expected {1}\n"

GATHER = """
import numpy as np
from native.portals import *

with Interface(NiOption.MATCHING | NiOption.LOGICAL) as ni:
    rank, size = ni.id(), len(ni.get_map())
    queue, sums, came = EventQueue(ni, 64), np.zeros(1000), CountingEvent(ni)
    options = MeOption.OP_PUT | MeOption.OP_GET | MeOption.EVENT_CT_COMM
    pt = PortalTableEntry(ni, index=3)
    MatchEntry(pt, sums, 7, counter=came, options=options | MeOption.EVENT_COMM_DISABLE)
    mine, total = np.full(1000, rank + 1.0), np.zeros(1000)
    MemoryDescriptor(ni, mine).atomic(0, 3, AtomicOp.SUM, match_bits=7)
    if rank == 0:
        came.wait(size)
        go = MemoryDescriptor(ni, b"")
        for other in range(size):
            go.put(other, 3, 7)
    came.wait(size + 1 if rank == 0 else 1)
    MemoryDescriptor(ni, total, queue).get(0, 3, 7)
    while not (event := queue.wait()) or event.kind is not EventKind.REPLY:
        pass
    print(rank, set(total))
    if rank == 0:
        came.wait(2 * size + 1)  # all have been served
"""


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_ring_over_portals_goes_round(here, size):
    done = here.yod("-sz", str(size), "python", "examples/portals_ring.py")
    assert done == (0, RING.format(size, sum(range(size))), "")


def test_every_rank_adds_to_one_array_and_gets_the_sum(here):
    done = here.yod("-sz", "4", "python", "-c", GATHER)
    lines = {f"{rank} {{np.float64(10.0)}}" for rank in range(4)}
    assert (done.status, done.err, set(done.out.splitlines())) == (0, "", lines)


def test_an_interface_of_a_rank_without_portals_stands_alone(here):
    script = "import importlib; p = importlib.import_module('native.' + 'portals')"
    script += "; ni = p.Interface(); print(ni.phys_id().nid)"
    done = here.yod("-sz", "1", "python", "-c", script)
    assert done == (0, f"{0x7F000001}\n", "")
