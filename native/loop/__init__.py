"""The one loop of a process: descriptors, deadlines, signals of a daemon.

Long work is done in slices, and what waits for others in a thread beside it. Listeners
are served some connections a turn, also where no descriptor is left.

I/O. Imports native.deadlines, native.waitstatus.
"""
