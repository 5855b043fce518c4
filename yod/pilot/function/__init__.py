"""Tasks that are calls of functions.

I/O. Imports native, yod.pilot.
"""
