"""What the launcher does to its host: children, sockets, files, lines for its user.

I/O. Imports native, ensemble.config, ensemble.machine, ensemble.messages, ensemble.schedulers,
yod, partition.
"""
