"""The command bebopd: its options, and the daemon that they make.

I/O. Imports allocator, native.
"""
