"""Files of this host for ranks on others (``--remote-io``): a process beside yod has them.

I/O. Imports native, yod.plan.
"""
