"""`yodctl doctor`: what on this host, and of the partition, stands in the way of jobs.

I/O. Imports native, partition.checkpoint, partition.find, partition.status, pct.host, pct.tree.
"""
