"""The PMIx server: a process of the job's user around libpmix.

I/O. Imports native, pct.host.
"""
