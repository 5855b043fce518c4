"""The one loop of a process: descriptors, deadlines, signals of a daemon.

Long work is done in slices, and what waits for others in a thread beside it.

I/O. Imports native.deadlines, native.waitstatus.
"""
