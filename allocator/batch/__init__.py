"""Batch jobs: handed in, on the disk, waiting, running without their user, ended.

No I/O. Imports native, allocator.jobs, allocator.lending, allocator.nodes, allocator.queue.
"""
