"""The commands of yodjob. Each module is imported when one of its commands is used.

I/O. Imports native, partition, yod.plan.
"""
