"""Channels between programs of tasks, by ZeroMQ (``app_comm``).

I/O. Imports native, yod.pilot.model.
"""
