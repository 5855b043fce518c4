"""The jobs of a partition: numbers, grants, what each has.

No I/O. Imports native, allocator.nodes.
"""
