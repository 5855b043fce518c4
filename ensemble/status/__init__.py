"""Shows a study to browsers, and to programs that ask for jobs or collect metrics.

I/O. Imports native, ensemble.machine, partition.web.
"""
