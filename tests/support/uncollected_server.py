"""A launch server without garbage collection.

Run as ``yod-server``, with its options. At its end it writes a line on standard error: the kinds
of objects of this project that only the garbage collector would have freed.
"""

from __future__ import annotations

import gc
import sys

from native.loop import daemon
from partition.server.cli import command

OWN = ("native.", "partition.", "pct.", "yod.", "allocator.")
SAID = "left to the collector:"


def main() -> None:
    daemon.COLLECT_AFTER_COUNT = 0  # never
    try:
        command(prog_name="yod-server", standalone_mode=False)
    finally:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage}
        left = sorted(kind for kind in kinds if kind.startswith(OWN))
        print(SAID, *left, file=sys.stderr)


if __name__ == "__main__":
    main()
