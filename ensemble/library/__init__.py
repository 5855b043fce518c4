"""What a server and its clients use: the launcher's server library, fields, running statistics.

I/O. Imports native.errors, ensemble.messages, ensemble.library.
"""
