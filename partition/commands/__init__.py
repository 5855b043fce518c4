"""The commands of yodjob, each imported when it is used, and the longest one of yodctl.

I/O. Imports native, partition, yod.plan.
"""
