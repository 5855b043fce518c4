"""A launch in a program that is not ours: what it asks for, takes part in, and gets.

I/O. Imports native, yod.driver, yod.host, yod.launch, yod.launching, yod.plan, yod.program,
yod.ranks, yod.remote, yod.retrying.
"""
