"""How our commands start in few milliseconds, against Python's habits.

I/O. Imports nothing.
"""
