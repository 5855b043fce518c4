"""bebopd's files, and the users that its host knows.

I/O. Imports native, allocator.batch, allocator.geometry, allocator.jobs, allocator.nodes,
allocator.queue, allocator.records.
"""
