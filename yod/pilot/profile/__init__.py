"""Profiles: what happened when, in RADICAL-Pilot's files.

I/O. Imports native, yod.pilot.
"""
