"""The command pct: its options, and the daemon that they make.

I/O. Imports pct, native.
"""
