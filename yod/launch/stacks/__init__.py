"""Where the ranks of a job are: the stacks of many as one tree.

No I/O. Imports native.
"""
