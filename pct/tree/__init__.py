"""Where the nodes of a job are in its tree, and what is gathered up it.

No I/O. Imports native.
"""
