"""The nodes of a partition, and how nodes are chosen for a job.

No I/O. Imports native, allocator.lending.
"""
