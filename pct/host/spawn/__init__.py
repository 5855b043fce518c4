"""Who starts a keeper's process and is its parent: the PCT itself, or the user's client.

I/O. Imports native.
"""
