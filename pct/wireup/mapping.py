"""``PMI_process_mapping``: on which node each rank of a world is.

Value: ``(vector,(first,nodes,ranks),...)``: each block puts ``ranks`` ranks on each of
``nodes`` nodes, from node ``first`` on. While ranks are left MPICH repeats the blocks from
the first one; Intel MPI crashes. So our blocks cover every rank.
"""

from __future__ import annotations

# MPICH 4 has a buffer of what its lines of 1024 bytes leave for a value beside a key
# space's name (256), a key (64) and the words around them (30); a longer one crashes it.
MAPPING_MAX = 1024 - 256 - 64 - 30 - 1


def process_mapping(places: list[int]) -> bytes:
    """The mapping of ranks 0, 1, ... given the place of each.

    Returns:
        Empty where it exceeds ``MAPPING_MAX`` bytes: libraries without a mapping
        compare the names of their hosts.
    """
    blocks: list[list[int]] = []  # [first place, number of places, ranks on each]
    index = 0
    while index < len(places):
        if len(blocks) * len("(0,1,1),") > MAPPING_MAX:
            return b""
        place = places[index]
        count = 1
        while index + count < len(places) and places[index + count] == place:
            count += 1
        index += count
        last = blocks[-1] if blocks else None
        if last and last[2] == count and last[0] + last[1] == place:
            last[1] += 1
        else:
            blocks.append([place, 1, count])
    body = ",".join(f"({first},{number},{count})" for first, number, count in blocks)
    value = f"(vector,{body})".encode()
    return value if len(value) <= MAPPING_MAX else b""
