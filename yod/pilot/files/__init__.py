"""Staging: files are copied, linked, moved, fetched and packed.

I/O. Imports native, yod.pilot.model.
"""
