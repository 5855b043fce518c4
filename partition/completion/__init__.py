"""Completion of yod's commands in bash, zsh and fish: scripts made from the commands' own options.

I/O, as the commands are imported. Imports native, allocator, pct, partition, yod.
"""
