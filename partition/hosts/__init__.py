"""Brings PCTs up on other hosts, by ssh or a batch system, and ends them there.

I/O. Imports native, partition.find, partition.status, partition.up.
"""
