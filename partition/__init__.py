"""A partition as a whole: found, opened, brought up and down, shown.

I/O. Imports native, allocator, pct, partition.
"""
