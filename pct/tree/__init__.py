"""The tree over the nodes of a job: shape, losses, and what is gathered up it.

No I/O. Imports native.
"""
