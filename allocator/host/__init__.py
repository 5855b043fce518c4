"""What bebopd keeps in files, and whom its host knows.

I/O. Imports native, allocator.jobs.
"""
