"""Commands on other hosts by ssh: on one, on many, and by hosts that go on to reach further ones.

I/O. Imports native, partition.up.
"""
