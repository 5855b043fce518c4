"""Control groups (cgroup v2): that of a PCT, and those of the jobs on its node.

I/O. Imports native, pct.account.
"""
