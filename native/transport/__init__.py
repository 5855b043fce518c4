"""The transport in C, the build of its Python extension, and the base over it (`raw`).

I/O. Imports nothing.
"""
