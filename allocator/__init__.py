"""bebopd: which jobs have which nodes.

No I/O but in commands and drivers. Imports native, allocator.
"""
