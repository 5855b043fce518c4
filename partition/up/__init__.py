"""Brings a partition up and down: inside this process, or as daemons on this host.

I/O. Imports native, allocator, pct, partition.find.
"""
