"""Executors: calls of functions that go from the application to workers in a pilot.

I/O. Imports native, yod.pilot.
"""
