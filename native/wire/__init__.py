"""The messages that the programs exchange; PROTOCOL.md specifies them.

No I/O. Imports native.
"""
