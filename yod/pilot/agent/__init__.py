"""The agent: the process that runs the tasks of one pilot.

I/O. Imports native, yod.guest, yod.launch, yod.plan, yod.pilot, yod.ranks.
"""
