"""Where the ranks of a job are: what a pct starts to look at the stacks of its ranks.

I/O. Imports native, yod.launch.stacks.
"""
