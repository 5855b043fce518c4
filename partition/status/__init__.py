"""Shows a partition: bebopd's table, and the command pingd.

I/O. Imports native, partition.find, partition.open.
"""
