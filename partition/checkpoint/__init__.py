"""Checkpoints as files: the savers of a job's nodes make them, a restart checks them.

I/O. Imports native, yod.plan, yod.program.
"""
