"""Settings of the heap, for a process that relays much data."""

from __future__ import annotations

from functools import cache

_BLOCK_BYTES = 4 << 20


@cache
def keep_freed_memory() -> None:
    """Let some megabytes of freed memory stay with the process; further calls do nothing.

    glibc returns what is free at the top of the heap from 128 KiB on, so that messages
    of 64 KiB are taken from the kernel again and again, page by page: a third of the
    processor time of a relay. The bound becomes twice the size of a larger block that has
    been freed (mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD). No page of this one is touched:
    it is mapped. A second one would come from the heap, and be cleared.
    """
    bytes(_BLOCK_BYTES)
