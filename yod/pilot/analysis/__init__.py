"""What profiles say: whether they are right, where the time went, pictures of it as numbers.

No I/O. Imports native, yod.pilot.model, yod.trace.
"""
