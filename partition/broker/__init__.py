"""Allocations: nodes that are held, and a bebopd of their own that gives them to steps.

I/O. Imports native, allocator, yod, partition.
"""
