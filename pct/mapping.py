"""``PMI_process_mapping``: on which node each rank of a world is.

Value: ``(vector,(first,nodes,ranks),...)``: so many ranks on each of so many nodes,
counted from the first. Libraries begin again at the first block while ranks are left.
"""

from __future__ import annotations

# MPICH 4's client reads a line of 1024 bytes; what is longer it takes for the next answer.
MAPPING_MAX = 1024 - len("cmd=get_result rc=0 msg=success value=\n\0")


def process_mapping(places: list[int]) -> bytes:
    """The mapping of ranks 0, 1, ... given the place of each.

    Returns:
        The plain form; if that is too long for a client, the shortest part that
        repeats; if that is too long too, nothing: libraries without a mapping compare
        the names of their hosts.
    """
    plain = _vector(places, MAPPING_MAX)
    if plain:
        return plain
    period = _period(places)
    return _vector(places[:period], MAPPING_MAX) if period < len(places) else b""


def _vector(places: list[int], most: int) -> bytes:
    """Equal consecutive blocks folded; empty where it exceeds ``most`` bytes."""
    blocks: list[list[int]] = []  # [first place, number of places, ranks on each]
    index = 0
    while index < len(places):
        if len(blocks) * len("(0,1,1),") > most:
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
    return value if len(value) <= most else b""


def _period(places: list[int]) -> int:
    """Length of the shortest part whose repetition, cut off at the end, gives all places."""
    borders = [0] * len(places)  # Knuth, Morris, Pratt: longest proper border of each prefix
    border = 0
    for index in range(1, len(places)):
        while border and places[index] != places[border]:
            border = borders[border - 1]
        border += places[index] == places[border]
        borders[index] = border
    return len(places) - borders[-1] if places else 0
