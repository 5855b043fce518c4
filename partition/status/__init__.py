"""Shows a partition: bebopd's table, and the command pingd; gives operators' orders to bebopd.

I/O. Imports native, partition.find.
"""
