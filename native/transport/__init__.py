"""The transport in C, and how its extension for Python is built.

I/O. Imports nothing.
"""
