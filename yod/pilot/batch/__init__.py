"""Pilots as jobs of batch systems: scripts, commands, and what these answer.

No I/O. Imports native, yod.pilot.model.
"""
