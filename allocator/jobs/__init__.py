"""The jobs of a partition: their ids, their grants, and the slots that each holds.

No I/O. Imports native, allocator.lending, allocator.nodes.
"""
