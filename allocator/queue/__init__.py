"""Who of those that wait gets nodes, and when others are expected to.

No I/O. Imports native, allocator.jobs, allocator.lending, allocator.nodes.
"""
