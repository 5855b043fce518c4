"""The commands of yodjob, and those of yodctl that are long; each is imported when it is used.

I/O. Imports native, partition, yod.launch.stacks, yod.plan.
"""
