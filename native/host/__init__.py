"""What a process asks of its own host: files with their owner's rights, limits, streams.

I/O. Imports native.
"""
