"""The process that works on checkpoints on a node, and what it keeps there first.

I/O. Imports native, partition.checkpoint, partition.jobs.
"""
