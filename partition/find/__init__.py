"""Finds the partition that a command is to use.

I/O. Imports native, yod.plan.
"""
