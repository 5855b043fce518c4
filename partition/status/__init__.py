"""Shows a partition: bebopd's table as text or in a terminal; gives operators' orders to bebopd.

I/O. Imports native, partition.find.
"""
