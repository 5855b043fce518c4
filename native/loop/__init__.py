"""The one loop of a process: descriptors, deadlines, long work by slices, signals of a daemon.

I/O. Imports native.deadlines, native.waitstatus.
"""
