"""How drivers exchange messages and objects: in memory, or by the transport.

I/O. Imports native, native.wire.
"""
