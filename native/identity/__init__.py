"""What proves daemons and users to one another: keys as a daemon holds them, and MUNGE.

I/O. Imports native, native.host, native.wire.
"""
