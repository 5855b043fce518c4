"""Shows a partition in a browser, and to programs that collect metrics: pingd --web.

I/O. Imports native, partition.find, partition.status.
"""
