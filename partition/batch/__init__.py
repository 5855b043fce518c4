"""Batch jobs: handing them in, asking about them, and the broker that runs one.

I/O. Imports native, partition.broker, partition.find, partition.jobs, partition.status, yod.
"""
