"""Terminals of jobs that run without one: the output that is kept, those who attach.

I/O. Imports native, pct.host, yod.host.
"""
