"""Batch jobs: asking about them, attaching to them, and the broker that runs one.

I/O. Imports native, partition, pct.host, yod.
"""
