"""Connections between a client and its agents, in the loop of either.

I/O. Imports native, yod.pilot.wire.
"""
