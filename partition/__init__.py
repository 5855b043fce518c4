"""A partition as a whole: commands find it, open it, bring it up and down, and show it.

I/O. Imports native, allocator, pct, partition, yod.plan.
"""
