"""The commands of yodjob, each imported when it is used, and those of yodctl that are long or that pingd has, too.

I/O. Imports native, partition, yod.plan.
"""
