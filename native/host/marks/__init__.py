"""Marks of files that yod writes output to, for checkpoints.

I/O. Imports native.
"""
