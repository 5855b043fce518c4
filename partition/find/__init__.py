"""Which partition a command means, and where it is.

I/O. Imports native.
"""
