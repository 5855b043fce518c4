"""The nodes of a partition, and which of them are chosen.

No I/O. Imports native.
"""
