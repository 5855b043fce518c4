"""A token goes once round all ranks; each adds its number. ring.py over Portals.

yod -sz 4 python examples/portals_ring.py
"""

import numpy as np

from native.portals import (
    CountingEvent,
    Interface,
    LeOption,
    ListEntry,
    MemoryDescriptor,
    NiOption,
    PortalTableEntry,
)

RING = 4  # index of the portal table entry

with Interface(NiOption.NO_MATCHING | NiOption.LOGICAL) as ni:
    rank, size = ni.id(), len(ni.get_map())
    arrived, token = CountingEvent(ni), np.zeros(1, "i8")
    options = LeOption.OP_PUT | LeOption.EVENT_CT_COMM
    ListEntry(PortalTableEntry(ni, index=RING), token, counter=arrived, options=options)
    descriptor = MemoryDescriptor(ni, token)

    # Nothing comes in before the first wait, so no neighbour can be too early.
    if rank == 0:
        descriptor.put((rank + 1) % size, RING)
        arrived.wait(1)
        print(f"ring of {size}: the token came back as {token[0]}, expected {sum(range(size))}")
    else:
        arrived.wait(1)
        token += rank
        descriptor.put((rank + 1) % size, RING)
