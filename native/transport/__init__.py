"""The transport in C, how its extension for Python is built, and the floor over it (`raw`).

I/O. Imports nothing.
"""
