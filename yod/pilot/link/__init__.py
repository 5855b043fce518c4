"""Connections between a client and its agents, in the loop of either, and agents that are silent.

I/O. Imports native, yod.pilot.scheduler, yod.pilot.wire.
"""
