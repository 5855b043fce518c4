"""Where the ranks of a job are: their stacks, merged into one tree.

I/O. Imports native.
"""
