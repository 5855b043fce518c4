"""FUSE, by which a kernel asks a process for files: requests and replies as bytes.

No I/O. Imports native.
"""
