"""Programs that write processes down: where they are on this host.

I/O. Imports nothing.
"""
