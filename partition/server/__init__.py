"""The launch server: a process of one user on one host that runs many launches in one loop.

I/O. Imports native, allocator, pct, yod, partition.
"""
